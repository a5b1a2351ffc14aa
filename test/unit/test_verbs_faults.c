/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the verbs provider does when a peer or a device fails: peers that die or leave, malformed
 * messages, wrong keys, memory that cannot be registered. Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include <endian.h>
#include <errno.h>

#include "fabric/fab_host.h"

/* ---- a peer dies or leaves ---------------------------------------------- */

static int items_unreach;

static int dead_item_run(fab_item_t *item, fab_peer_t *peer)
{
    int rc = fab_item_send(peer, fab_hdr(AM_DATA, 0, 0), item, 8);

    items_unreach += OPAL_ERR_UNREACH == rc;
    return OPAL_ERR_RESOURCE_BUSY == rc ? rc : OPAL_SUCCESS;
}

/*
 * Rank 2 sends 30 messages and kills itself; rank 0 has used its window up and queued more; rank 1
 * goes on sending to rank 0.
 */
static void killed_body(world_t *world)
{
    fab_item_t items[10] = {{.fn = dead_item_run}};
    fab_peer_t *zero = world_peer(world, 0);

    world_barrier(world);
    if (2 == world->rank) {
        for (int i = 0; i < 30; i++) {
            post(world, zero);
        }
        WORLD_UNTIL(NULL == zero->pending);
        /* rank 0 has them in its queue, or behind */
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        atomic_store(&world->shared->scratch[1], 1);
        while (2 != atomic_load(&world->shared->scratch[0])) { /* without progress */
        }
        raise(SIGKILL);
    }
    if (0 == world->rank) {
        fab_peer_t *dying = world_peer(world, 2);
        connect_to(world, dying);
        WORLD_UNTIL(30 == world->got);
        atomic_store(&world->shared->scratch[0], 1);
        while (1 != atomic_load(&world->shared->scratch[1])) {
        }
        while (OPAL_SUCCESS == fab_send(dying, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        CHECK(fab_counters.no_credit > 0);
        for (int i = 0; i < 10; i++) {
            items[i].fn = dead_item_run;
            fab_queue(dying, &items[i]);
        }
        atomic_store(&world->shared->scratch[0], 2);
        WORLD_UNTIL(1 == world->failures);
        CHECK(world->failed == dying &&
              (OPAL_ERR_PROC_ABORTED == world->failed_rc || OPAL_ERR_UNREACH == world->failed_rc));
        CHECK(NULL != strstr(world->failed_why, "ended"));
        CHECK(10 == items_unreach && NULL == dying->pending);
        CHECK(OPAL_ERR_UNREACH == fab_send(dying, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        atomic_store(&world->shared->scratch[2], 1);
        WORLD_UNTIL(31 == world->got);
        atomic_store(&world->shared->scratch[2], 2);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[2]));
        post(world, zero);
        WORLD_UNTIL(2 == atomic_load(&world->shared->scratch[2]));
        CHECK(0 == world->failures);
    }
}

/* Nobody sends to the one that dies: that its process is gone is noticed in /proc. */
static void killed_silent_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (1 == world->rank) {
        connect_to(world, peer);
        WORLD_UNTIL(NULL == peer->pending);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        raise(SIGKILL);
    }
    WORLD_UNTIL(1 == world->got);
    atomic_store(&world->shared->scratch[0], 1);
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_PROC_ABORTED == world->failed_rc);
    CHECK(1 == fab_counters.peers_died &&
          NULL != strstr(world->failed_why, "ended without leaving"));
}

static void killed_rma_body(world_t *world)
{
    static char memory[32 << 20];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rma_t op = {.peer = peer, .local = memory, .len = sizeof(memory), .complete = rma_complete};
    fab_rkey_t *shared_key = (fab_rkey_t *) &world->shared->scratch[8];

    world_barrier(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS ==
              fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, shared_key));
        atomic_store(&world->shared->scratch[1], (uint64_t) (uintptr_t) memory);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        raise(SIGKILL);
    }
    WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[1]));
    op.remote = atomic_load(&world->shared->scratch[1]);
    op.rkey = *shared_key;
    CHECK(OPAL_SUCCESS == fab_get(&op)); /* not connected yet: it waits */
    WORLD_UNTIL(FAB_SES_UP == ep_of(peer)->ses.state);
    atomic_store(&world->shared->scratch[0], 1);
    while (!fab_proc_is_gone(ep_of(peer)->addr.pid, ep_of(peer)->addr.start_time)) {
    }
    WORLD_UNTIL(1 == world->failures || 1 == completed);
    if (1 == completed && OPAL_SUCCESS == complete_status) {
        return; /* the device was quicker than the signal */
    }
    WORLD_UNTIL(1 == world->failures && 1 == completed);
    CHECK(OPAL_ERR_UNREACH == complete_status);
    CHECK(OPAL_ERR_UNREACH == fab_get(&op) && 1 == completed);
}

/* Died before anything was sent to it: connecting fails, and says so. */
static void killed_early_body(world_t *world)
{
    fab_item_t item = {.fn = dead_item_run};

    world_barrier(world);
    if (1 == world->rank) {
        raise(SIGKILL);
    }
    fab_peer_t *peer = world_peer(world, 1);
    while (!fab_proc_is_gone(ep_of(peer)->addr.pid, ep_of(peer)->addr.start_time)) {
    }
    CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    fab_queue(peer, &item);
    WORLD_UNTIL(1 == world->failures);
    CHECK(NULL != strstr(world->failed_why, "ended")); /* TCP or /proc tells, whichever is first */
    WORLD_UNTIL(1 == items_unreach);
}

/*
 * A peer that leaves in an orderly way has not failed; what it sent last arrives; who sends to it
 * then is told.
 */
static void orderly_body(world_t *world)
{
    world_barrier(world);
    for (int i = world->rank; i < world->size; i++) {
        post(world, world_peer(world, i));
    }
    WORLD_UNTIL(world->got == (uint64_t) world->rank + 1);
    world_barrier(world);
    if (1 == world->rank) {
        post(world, world_peer(world, 0));
    }
    if (0 == world->rank) {
        WORLD_UNTIL(2 == world->got);
        double start = world_now();
        WORLD_UNTIL(world_now() - start > 3.5);
        CHECK(0 == world->failures && 0 == fab_counters.peers_died);
        CHECK(OPAL_ERR_UNREACH == fab_send(world_peer(world, 1), fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "left"));
    }
}

/* ---- malformed messages ------------------------------------------------- */

/* Past all of this provider's own checks. */
static void post_raw(world_t *world, fab_peer_t *peer, const void *bytes, size_t len)
{
    fab_verbs_conn_t *conn = ep_of(peer)->conn;
    fab_verbs_buf_t *buf = fab_verbs_pool_get(&conn->dom->send_pool);
    struct ibv_sge sge = {(uintptr_t) buf->data, (uint32_t) len, buf->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .opcode = IBV_WR_SEND};

    memcpy(buf->data, bytes, len);
    CHECK(OPAL_SUCCESS == fab_verbs_conn_post(conn, &wr, buf, NULL));
}

static void malformed_body(world_t *world)
{
    fab_peer_t *zero = world_peer(world, 0);

    world_barrier(world);
    if (world->rank > 0) {
        connect_to(world, zero);
        WORLD_UNTIL(NULL == zero->pending);
    } else {
        WORLD_UNTIL(6 == world->got); /* the first of each */
    }
    world_barrier(world);
    if (0 == world->rank) {
        WORLD_UNTIL(5 == world->failures);
        CHECK(5 == fab_counters.bad_messages && OPAL_ERR_COMM_FAILURE == world->failed_rc);
        CHECK(6 == world->got);
    } else if (world->rank < 4) {
        fab_verbs_tmh_t tmh = {.id = 1 == world->rank ? 99 : AM_DATA,
                               .credits = htobe16(2 == world->rank ? 1 : 0)};
        post_raw(world, zero, &tmh, 3 == world->rank ? 7 : sizeof(tmh));
    } else if (world->rank < 6) { /* a window: it gives back what it has not, or grants too much */
        CHECK(OPAL_SUCCESS ==
              fab_verbs_conn_send_id(ep_of(zero)->conn, FAB_VERBS_ID_CREDIT,
                                     4 == world->rank ? 1 << FAB_VERBS_BACK_AT : 16384));
    }
    world_barrier(world);
    if (6 == world->rank) {
        post(world, zero);
    }
    if (0 == world->rank) {
        WORLD_UNTIL(7 == world->got);
        CHECK(5 == world->failures);
    }
    world_barrier(world);
}

/* ---- memory that cannot be registered ----------------------------------- */

static int refused_with;

static fab_reg_t *refuse_get(fab_regs_t *regs, void *buf, size_t len, unsigned access)
{
    (void) regs, (void) buf, (void) len, (void) access;
    errno = refused_with;
    return NULL;
}

static void unregistrable_body(world_t *world)
{
    const fab_reg_ops_t *plain = fab_reg_ops;
    fab_reg_ops_t ops = *plain;
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    char memory[64];
    fab_rkey_t key;
    fab_rma_t op = {.peer = peer, .local = memory, .len = sizeof(memory), .complete = rma_complete};

    ops.get = refuse_get;
    fab_reg_ops = &ops;
    refused_with = ENOMEM;
    CHECK(OPAL_ERR_NOT_SUPPORTED ==
          fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &key));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op));
    CHECK(2 == fab_counters.verbs_locked_memory && 0 == fab_counters.unregistrable);
    refused_with = EFAULT;
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_put(&op));
    CHECK(1 == fab_counters.unregistrable && 0 == completed && 0 == world->failures);
    world_barrier(world);
    fab_reg_ops = plain;
}

/*
 * A key that is none: the operation ends in error, and the peer fails, for its QP is broken.  The
 * peer's device sees that first, and with tag matching the peer has another QP, over which it may
 * say that it leaves before the error is known here.
 */
static void wrong_key_body(world_t *world)
{
    static char memory[4096];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rma_t op = {.peer = peer,
                    .local = memory,
                    .remote = (uint64_t) (uintptr_t) memory,
                    .len = 4096,
                    .complete = rma_complete};

    memset(&op.rkey, 0x5a, sizeof(op.rkey));
    world_barrier(world);
    if (0 == world->rank) {
        CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op)); /* of a port that the peer does not have */
        memset(op.rkey.bytes + 4, 0, 4);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        WORLD_UNTIL(1 == completed && 1 == world->failures);
        CHECK(OPAL_SUCCESS != complete_status && 0 == op.done);
        CHECK(NULL != strstr(world->failed_why, "broke (") ||
              NULL != strstr(world->failed_why, "given this process up"));
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
    }
}

/*
 * Memory that peers may only read, and queue pairs that let them do nothing else: a put is refused
 * by the device, in the memory nothing changes, and the peer has failed.
 */
static void put_to_readable_body(world_t *world)
{
    static char memory[64] = "as it was", local[64] = "overwritten";
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rkey_t *shared_key = (fab_rkey_t *) &world->shared->scratch[8];
    fab_rma_t op = {.peer = peer, .local = local, .len = sizeof(local), .complete = rma_complete};

    world_barrier(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS ==
              fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, shared_key));
        atomic_store(&world->shared->scratch[1], (uint64_t) (uintptr_t) memory);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        CHECK(0 == strcmp(memory, "as it was"));
        CHECK(0 == (verbs_domain(world)->access & IBV_ACCESS_REMOTE_WRITE));
        return;
    }
    WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[1]));
    op.remote = atomic_load(&world->shared->scratch[1]);
    op.rkey = *shared_key;
    CHECK(OPAL_SUCCESS == fab_put(&op));
    WORLD_UNTIL(1 == completed && 1 == world->failures);
    CHECK(OPAL_SUCCESS != complete_status && 0 == op.done);
    atomic_store(&world->shared->scratch[0], 1);
}

/* What is registered for writing after the pair has connected: their queue pairs allow it then. */
static void put_later_body(world_t *world)
{
    static char memory[64], local[64] = "written";
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rkey_t *shared_key = (fab_rkey_t *) &world->shared->scratch[8];
    fab_rma_t op = {.peer = peer, .local = local, .len = sizeof(local), .complete = rma_complete};

    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
    } else {
        WORLD_UNTIL(1 == world->got);
    }
    CHECK(FAB_SES_UP == ep_of(peer)->ses.state);
    if (1 == world->rank) {
        CHECK(0 == (verbs_domain(world)->access & IBV_ACCESS_REMOTE_WRITE));
        CHECK(OPAL_SUCCESS ==
              fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_WRITE, shared_key));
        atomic_store(&world->shared->scratch[1], (uint64_t) (uintptr_t) memory);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        world_progress(world); /* takes the device's lock: TSan knows that the data is older */
        CHECK(0 == strcmp(memory, "written"));
        return;
    }
    WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[1]));
    op.remote = atomic_load(&world->shared->scratch[1]);
    op.rkey = *shared_key;
    CHECK(OPAL_SUCCESS == fab_put(&op));
    WORLD_UNTIL(1 == completed);
    CHECK(OPAL_SUCCESS == complete_status && 0 == world->failures);
    atomic_store(&world->shared->scratch[0], 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_malformed", malformed_body, .ranks = 7),
        WORLD_JOB("test_unregistrable", unregistrable_body),
        WORLD_JOB("test_wrong_key", wrong_key_body),
        WORLD_JOB("test_put_to_readable", put_to_readable_body),
        WORLD_JOB("test_put_later", put_later_body),
        WORLD_JOB("test_killed_peer", killed_body, .ranks = 3, .killed = 1 << 2),
        WORLD_JOB("test_killed_silent", killed_silent_body, .killed = 1 << 1),
        WORLD_JOB("test_killed_during_rma", killed_rma_body, .killed = 1 << 1),
        WORLD_JOB("test_killed_early", killed_early_body, .killed = 1 << 1),
        WORLD_JOB("test_orderly_leave", orderly_body, .ranks = 4),
    };

    world_use_providers("verbs");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
