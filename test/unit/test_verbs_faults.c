/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the verbs provider does when things go wrong: peers that die or leave, crossed connection
 * requests, strangers at the listener, malformed messages and addresses, windows that are used up,
 * memory that cannot be locked, wrong devices. Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_fab_faults.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "fabric/fab_core.h"
#include "fabric/fab_host.h"
#include "fabric/fab_wire.h"
#include "verbs/verbs_oob.h"

static fab_verbs_domain_t *verbs_domain(const world_t *world)
{
    return (fab_verbs_domain_t *) fab_core(world->fab)->slots[2].dom;
}

static fab_verbs_ep_t *ep_of(const fab_peer_t *peer)
{
    return peer->ep;
}

/* Connect to it, both ways of traffic ready here. */
static void connect_to(world_t *world, fab_peer_t *peer)
{
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    WORLD_UNTIL(FAB_VERBS_UP == ep_of(peer)->state);
}

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
 * talks to rank 0 on.
 */
static void killed_body(world_t *world)
{
    fab_item_t items[10] = {{.fn = dead_item_run}};
    uint64_t got = 0;
    fab_peer_t *zero = world_peer(world, 0);

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (2 == world->rank) {
        for (int i = 0; i < 30; i++) {
            CHECK(OPAL_SUCCESS == fab_post(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
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
        WORLD_UNTIL(30 == got);
        atomic_store(&world->shared->scratch[0], 1);
        while (1 != atomic_load(&world->shared->scratch[1])) {
        }
        while (OPAL_SUCCESS == fab_send(dying, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        CHECK(fab_counters.verbs_no_credit > 0);
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
        WORLD_UNTIL(31 == got);
        atomic_store(&world->shared->scratch[2], 2);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[2]));
        CHECK(OPAL_SUCCESS == fab_post(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(2 == atomic_load(&world->shared->scratch[2]));
        CHECK(0 == world->failures);
    }
}

static void test_killed_peer(void **state)
{
    (void) state;
    assert_int_equal(world_run_some_die(3, false, killed_body, 1 << 2), 0);
}

/* Nobody sends to the one that dies: that its process is gone is noticed in /proc. */
static void killed_silent_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (1 == world->rank) {
        connect_to(world, peer);
        WORLD_UNTIL(NULL == peer->pending);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        raise(SIGKILL);
    }
    WORLD_UNTIL(1 == got);
    atomic_store(&world->shared->scratch[0], 1);
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_PROC_ABORTED == world->failed_rc);
    CHECK(1 == fab_counters.verbs_peers_died &&
          NULL != strstr(world->failed_why, "ended without leaving"));
}

static void test_killed_silent(void **state)
{
    (void) state;
    assert_int_equal(world_run_some_die(2, false, killed_silent_body, 1 << 1), 0);
}

static void killed_rma_body(world_t *world)
{
    static char memory[32 << 20];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rma_t op = {.peer = peer, .local = memory, .len = sizeof(memory), .complete = rma_complete};
    fab_rkey_t *shared_key = (fab_rkey_t *) &world->shared->scratch[8];

    world_barrier(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), shared_key));
        atomic_store(&world->shared->scratch[1], (uint64_t) (uintptr_t) memory);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        raise(SIGKILL);
    }
    WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[1]));
    op.remote = atomic_load(&world->shared->scratch[1]);
    op.rkey = *shared_key;
    CHECK(OPAL_SUCCESS == fab_get(&op)); /* not connected yet: it waits */
    WORLD_UNTIL(FAB_VERBS_UP == ep_of(peer)->state);
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

static void test_killed_during_rma(void **state)
{
    (void) state;
    assert_int_equal(world_run_some_die(2, false, killed_rma_body, 1 << 1), 0);
}

/* Died before it was ever talked to: connecting fails, and says so. */
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

static void test_killed_early(void **state)
{
    (void) state;
    assert_int_equal(world_run_some_die(2, false, killed_early_body, 1 << 1), 0);
}

/*
 * A peer that leaves in an orderly way has not failed; what it sent last arrives; who sends to it
 * then is told.
 */
static void orderly_body(world_t *world)
{
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    for (int i = world->rank; i < world->size; i++) {
        CHECK(OPAL_SUCCESS == fab_post(world_peer(world, i), fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    WORLD_UNTIL(got == (uint64_t) world->rank + 1);
    world_barrier(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_post(world_peer(world, 0), fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    if (0 == world->rank) {
        WORLD_UNTIL(2 == got);
        double start = world_now();
        WORLD_UNTIL(world_now() - start > 3.5);
        CHECK(0 == world->failures && 0 == fab_counters.verbs_peers_died);
        CHECK(OPAL_ERR_UNREACH == fab_send(world_peer(world, 1), fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "left"));
    }
}

static void test_orderly_leave(void **state)
{
    (void) state;
    assert_int_equal(world_run(4, false, orderly_body), 0);
}

/* ---- connecting --------------------------------------------------------- */

enum { CROSSINGS = 30 };

/* All ask all others at the same moment, close, and begin again. */
static void crossed_body(world_t *world)
{
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    for (uint64_t round = 1; round <= CROSSINGS; round++) {
        world_barrier(world);
        world_barrier_idle(world); /* nobody asks before all have come here: all ask */
        for (int i = 0; i < world->size; i++) {
            if (i != world->rank) {
                CHECK(OPAL_SUCCESS ==
                      fab_post(world_peer(world, i), fab_hdr(AM_DATA, 0, 0), NULL, 0));
            }
        }
        WORLD_UNTIL(got == round * (uint64_t) (world->size - 1));
        world_barrier(world);
        for (int i = 0; i < world->size; i++) {
            if (i != world->rank) {
                fab_peer_close(world->peers[i], FAB_USER_PML);
                world->peers[i] = NULL;
            }
        }
        for (int i = 0; i < world->size; i++) {
            WORLD_UNTIL(i == world->rank || NULL == fab_peer_find(world->fab, world_name(i)));
        }
    }
    atomic_fetch_add(&world->shared->scratch[0], fab_counters.verbs_crossed);
    world_barrier(world);
    CHECK(0 == world->failures);
    CHECK(atomic_load(&world->shared->scratch[0]) > 0); /* it did happen */
    WORLD_UNTIL(0 == verbs_domain(world)->num_conns);   /* none is left behind */
    CHECK(0 == verbs_domain(world)->sq_used && 0 == verbs_domain(world)->num_signaled);
    CHECK(0 == verbs_domain(world)->send_pool.used);
    /* one queue pair for each connection, whoever asked: no request came to nothing */
    CHECK(CROSSINGS * (unsigned) (world->size - 1) == fab_counters.verbs_connections);
}

static void test_crossed(void **state)
{
    (void) state;
    assert_int_equal(world_run(4, false, crossed_body), 0);
}

/* A client at rank 0's listener. */
static int call_rank0(world_t *world, const void *bytes, size_t len)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t) atomic_load(&world->shared->scratch[1]));
    CHECK(fd >= 0 && 0 == connect(fd, (struct sockaddr *) &to, sizeof(to)));
    CHECK((ssize_t) len == send(fd, bytes, len, MSG_NOSIGNAL));
    return fd;
}

/* Bytes that come back until the other side closes. */
static size_t read_all(int fd)
{
    unsigned char buf[4096];
    size_t sum = 0;
    ssize_t n;

    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
        sum += (size_t) n;
    }
    return sum;
}

/* Introduce oneself with this key, and say this. Returns the bytes of the answer. */
static size_t say(world_t *world, const uint8_t *key, const fab_verbs_frame_t *frame)
{
    fab_sock_greeting_t greeting = {.magic = FAB_SOCK_MAGIC,
                                    .version = FAB_SOCK_VERSION,
                                    .protocol = FAB_WIRE_VERBS,
                                    .name = world_name(1),
                                    .target = world_name(0)};
    fab_sock_challenge_t challenge;
    fab_sock_session_t session;
    fab_sock_sealed_t sealed;
    int fd = call_rank0(world, &greeting, sizeof(greeting));

    CHECK((ssize_t) sizeof(challenge) == recv(fd, &challenge, sizeof(challenge), MSG_WAITALL));
    fab_sock_session(key, &greeting, challenge.nonce, &session);
    fab_sock_seal(&session, FAB_SOCK_ASKING, 0, frame, sizeof(*frame), &sealed);
    (void) send(fd, &sealed, offsetof(fab_sock_sealed_t, frame) + sizeof(*frame), MSG_NOSIGNAL);
    size_t len = read_all(fd);
    close(fd);
    return len;
}

/* With another key, nothing is looked at; with the right one, it has to be what a QP can have. */
static void stranger_calls(world_t *world, const fab_verbs_frame_t *good, const uint8_t *key)
{
    unsigned char garbage[600];
    uint8_t wrong[FAB_SOCK_KEY];

    srandom(1);
    for (int i = 0; i < 150; i++) {
        size_t len = (size_t) random() % sizeof(garbage);
        for (size_t k = 0; k < len; k++) {
            garbage[k] = (unsigned char) random();
        }
        int fd = call_rank0(world, garbage, len);
        shutdown(fd, SHUT_WR);
        CHECK(0 == read_all(fd));
        close(fd);
        memcpy(wrong, key, sizeof(wrong));
        wrong[i % FAB_SOCK_KEY] ^= (uint8_t) (1 << random() % 8);
        CHECK(0 == say(world, wrong, good));
    }
    for (int i = 0; i < 7; i++) {
        fab_verbs_frame_t bad = *good;
        bad.qpn = 0 == i ? 0 : 1 == i ? 1 << 24 : 17;
        bad.psn = 2 == i ? 1 << 24 : 0;
        bad.window = 3 == i ? 0 : 8;
        bad.target += 4 == i;
        bad.version += 5 == i;
        bad.name = 6 == i ? bad.target : bad.name;
        CHECK(0 == say(world, key, &bad));
    }
}

/* Strangers: nothing they say does harm, and none of them is kept. */
static void strangers_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    if (0 == world->rank) {
        atomic_store(&world->shared->scratch[1], dom->addr.ips[0].port);
    }
    world_barrier(world);
    if (1 == world->rank) {
        fab_verbs_frame_t good = {.magic = FAB_VERBS_MAGIC,
                                  .version = FAB_VERBS_VERSION,
                                  .kind = FAB_VERBS_HELLO,
                                  .name = world_name(1),
                                  .target = world_name(0),
                                  .qpn = 17,
                                  .window = 8,
                                  .reads = 1,
                                  .addr = dom->addr};
        stranger_calls(world, &good, ep_of(peer)->addr.key);
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        WORLD_UNTIL(!fab_sock_set_is_busy(dom->socks));
        CHECK(fab_counters.verbs_bad_frames > 300 && 0 == dom->num_conns && 0 == world->failures);
    }
    world_barrier(world);
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    WORLD_UNTIL(1 == got);
    world_barrier(world);
}

static void test_strangers(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, strangers_body), 0);
}

/* The first of a process's addresses leads nowhere: the next is tried. */
static void other_addresses_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    dom->addr.host += (uint64_t) world->rank; /* not over loopback first */
    memmove(&dom->addr.ips[1], &dom->addr.ips[0], sizeof(dom->addr.ips[0]) * (FAB_VERBS_IPS - 1));
    /* broadcast: refused */
    memcpy(dom->addr.ips[0].ip, (uint8_t[16]){[10] = 0xff, 0xff, 127, 255, 255, 255}, 16);
    dom->addr.num_ips += dom->addr.num_ips < FAB_VERBS_IPS;
    world->shared->len[world->rank] = fab_address(world->fab, world->shared->address[world->rank],
                                                  FAB_ADDRESS_MAX);
    world_barrier(world);
    connect_to(world, world_peer(world, 1 - world->rank));
    CHECK(!ep_of(world_peer(world, 1 - world->rank))->is_local);
    WORLD_UNTIL(1 == got);
    world_barrier(world);
}

static void test_other_addresses(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, other_addresses_body), 0);
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
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (world->rank > 0) {
        connect_to(world, zero);
        WORLD_UNTIL(NULL == zero->pending);
    } else {
        WORLD_UNTIL(4 == got); /* the first of each */
    }
    world_barrier(world);
    if (0 == world->rank) {
        WORLD_UNTIL(3 == world->failures);
        CHECK(3 == fab_counters.verbs_bad_messages && OPAL_ERR_COMM_FAILURE == world->failed_rc);
        CHECK(4 == got);
    } else if (world->rank < 4) {
        fab_verbs_tmh_t tmh = {.id = 1 == world->rank ? 99 : AM_DATA,
                               .credits = htobe16(2 == world->rank ? 30000 : 0)};
        post_raw(world, zero, &tmh, 3 == world->rank ? 7 : sizeof(tmh));
    }
    world_barrier(world);
    if (4 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_post(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    if (0 == world->rank) {
        WORLD_UNTIL(5 == got);
        CHECK(3 == world->failures);
    }
    world_barrier(world);
}

static void test_malformed(void **state)
{
    (void) state;
    assert_int_equal(world_run(5, false, malformed_body), 0);
}

/* ---- addresses ---------------------------------------------------------- */

static void try_address(world_t *world, const unsigned char *address, size_t len)
{
    fab_peer_t *peer = NULL;
    const char *why = NULL;
    int rc = fab_peer_open(world->fab, FAB_USER_PML, world_name(1), address, len, &peer, &why);

    if (OPAL_SUCCESS != rc) {
        CHECK(NULL == peer && NULL != why && strlen(why) > 10);
        return;
    }
    CHECK(peer->eager_max >= FAB_VERBS_EAGER_MIN &&
          peer->eager_max <= fab_params.verbs_eager_limit);
    fab_peer_close(peer, FAB_USER_PML);
    CHECK(NULL == fab_peer_find(world->fab, world_name(1)));
}

static void damaged_body(world_t *world)
{
    world_barrier(world);
    if (0 == world->rank) {
        damage_address(world, try_address);
    }
    world_barrier(world);
}

static void test_damaged_address(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, damaged_body), 0);
}

/* Where the peer's key is wrong nobody answers that is meant: connecting fails, with a sentence. */
static void other_key_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (0 == world->rank) {
        ep_of(peer)->addr.key[3] ^= 1;
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "not the process meant"));
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        CHECK(fab_counters.verbs_bad_frames > 0 && 0 == world->failures &&
              0 == verbs_domain(world)->num_conns);
    }
    world_barrier(world);
}

static void test_other_key(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, other_key_body), 0);
}

/* ---- windows ------------------------------------------------------------ */

/* A sender stops at the window of a receiver that does nothing, and goes on when that does. */
static void window_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == got);
    world_barrier(world);
    if (0 == world->rank) {
        uint64_t sent = 1;
        while (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
            sent++;
        }
        CHECK(sent <= fab_params.verbs_window + 1 && sent >= fab_params.verbs_window / 2);
        atomic_store(&world->shared->scratch[0], sent);
        WORLD_UNTIL(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        atomic_store(&world->shared->scratch[1], 1);
        CHECK(fab_counters.verbs_no_credit > 0);
    } else {
        uint64_t sent;
        while (0 == (sent = atomic_load(&world->shared->scratch[0]))) {
        }
        WORLD_UNTIL(got > sent && 1 == atomic_load(&world->shared->scratch[1]));
        CHECK(fab_counters.verbs_credit_messages > 0);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_window(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, window_body), 0);
}

/* ---- a device that must have no buffers now ----------------------------- */

static bool is_holding;

static void no_poll(void *ctx)
{
    (void) ctx;
}

static void no_poll_end(void *ctx, bool is_idle)
{
    (void) ctx, (void) is_idle;
}

static bool holds(void *ctx)
{
    (void) ctx;
    return is_holding;
}

static const fab_tm_user_t holding_user = {
    .poll_begin = no_poll, .poll_end = no_poll_end, .handled = no_poll, .must_hold = holds};

static uint32_t buffers_to_post(const world_t *world)
{
    uint32_t n = 0;

    for (const fab_verbs_buf_t *buf = verbs_domain(world)->to_post; NULL != buf; buf = buf->next) {
        CHECK(!buf->is_posted);
        n++;
    }
    return n;
}

/*
 * While too many messages are unreported the device gets no buffers: neither used ones nor those of
 * a new connection.
 */
static void hold_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    CHECK(fab_tm_use(world->fab, &holding_user, NULL, NULL));
    is_holding = 0 == world->rank;
    world_barrier(world);
    if (1 == world->rank) {
        connect_to(world, peer);
    } else {
        WORLD_UNTIL(1 == got);
        CHECK(buffers_to_post(world) > fab_params.verbs_window);
        is_holding = false;
        WORLD_UNTIL(0 == buffers_to_post(world));
    }
    world_barrier(world);
    CHECK(fab_tm_use(world->fab, NULL, NULL, NULL));
}

static void test_hold(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, hold_body), 0);
}

/* ---- a connection ends with messages that nobody has looked at ---------- */

/* The device has them all: it says so by not being below this limit. */
static void check_all_posted(const world_t *world)
{
    const fab_verbs_domain_t *dom = verbs_domain(world);
    struct ibv_srq_attr attr = {.srq_limit = dom->recv_pool.num};

    CHECK(0 == ibv_modify_srq(dom->srq, &attr, IBV_SRQ_LIMIT));
    CHECK(0 == ibv_query_srq(dom->srq, &attr));
    CHECK(dom->recv_pool.num == attr.srq_limit);
    attr.srq_limit = 0;
    CHECK(0 == ibv_modify_srq(dom->srq, &attr, IBV_SRQ_LIMIT));
}

/*
 * More than a batch of messages is in the completion queue when the connection is found broken: the
 * buffers they are in come back.
 */
static void undrained_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == got);
    world_barrier(world);
    if (1 == world->rank) {
        while (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        fab_verbs_conn_t *conn = ep_of(peer)->conn;
        fab_verbs_conn_tell(conn, FAB_VERBS_ID_CREDIT);
        fab_verbs_conn_tell(conn, FAB_VERBS_ID_LEAVE); /* asks for its completion */
        while (conn->head != conn->tail) {
            (void) fab_verbs_poll_send(verbs_domain(world));
        }
        atomic_store(&world->shared->scratch[0], 1);
        WORLD_UNTIL(2 == atomic_load(&world->shared->scratch[0]));
    } else {
        while (1 != atomic_load(&world->shared->scratch[0])) { /* without progress */
            sched_yield();
        }
        ep_of(peer)->conn->is_broken = true;
        fab_peer_fail(peer, OPAL_ERR_COMM_FAILURE, "It is made to fail.");
        WORLD_UNTIL(0 == verbs_domain(world)->num_conns);
        WORLD_UNTIL(NULL == verbs_domain(world)->to_post);
        check_all_posted(world);
        atomic_store(&world->shared->scratch[0], 2);
    }
}

static void test_undrained(void **state)
{
    char *saved = fab_params.verbs_tm;
    int wrong = world_run(2, false, undrained_body);

    (void) state;
    fab_params.verbs_tm = "none";
    wrong += world_run(2, false, undrained_body);
    fab_params.verbs_tm = saved;
    assert_int_equal(wrong, 0);
}

/* ---- queued messages are handed over together --------------------------- */

enum { QUEUED = 100, LONG_MESSAGE = 1000 };

typedef struct queued {
    fab_item_t item;
    uint32_t number;
} queued_t;

/* In the place of the device's own: counts, and refuses what comes after so many. */
static int (*device_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static uint64_t posts;
static uint32_t longest_chain;
static uint32_t taken_before_refusal = UINT32_MAX;

static int counting_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct ibv_send_wr *last = NULL;
    struct ibv_send_wr *refused = wr;
    uint32_t length = 0;
    int rc = 0;

    for (; NULL != refused && length < taken_before_refusal; refused = refused->next) {
        last = refused;
        length++;
    }
    posts++;
    longest_chain = length > longest_chain ? length : longest_chain;
    taken_before_refusal -= length;
    if (NULL != refused && NULL != last) {
        last->next = NULL;
    }
    if (NULL != last) {
        rc = device_post_send(qp, wr, bad);
    }
    if (0 == rc && NULL != refused) {
        *bad = refused;
        rc = EIO;
    }
    return rc;
}

static void count_posts(fab_peer_t *peer)
{
    struct ibv_context_ops *ops = &ep_of(peer)->conn->qp->context->ops;

    device_post_send = ops->post_send;
    ops->post_send = counting_post_send;
}

/* Every third is long, so not inline. */
static int send_queued(fab_item_t *item, fab_peer_t *peer)
{
    static const char text[LONG_MESSAGE];
    uint32_t number = ((queued_t *) item)->number;
    int rc = fab_item_send(peer, fab_hdr(AM_DATA, 0, number), text,
                           0 == number % 3 ? LONG_MESSAGE : number % 50);

    items_unreach += OPAL_ERR_UNREACH == rc;
    return OPAL_ERR_RESOURCE_BUSY == rc ? rc : OPAL_SUCCESS;
}

typedef struct ordered {
    uint32_t next;
    bool is_wrong;
} ordered_t;

static void check_order(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    ordered_t *seen = ctx;

    (void) peer, (void) data;
    if (0 != hdr.app_ctx) { /* else it was to use the window up */
        seen->is_wrong |= hdr.app_ctx != seen->next ||
                          len != (0 == seen->next % 3 ? LONG_MESSAGE : seen->next % 50);
        seen->next++;
    }
}

/*
 * Both connect; then rank 0 uses the window up and queues more, and its posts are counted from here
 * on. Returns the other's record.
 */
static fab_peer_t *start_queue(world_t *world, ordered_t *seen)
{
    static queued_t queued[QUEUED];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, check_order, seen);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
        count_posts(peer);
        while (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        for (uint32_t i = 0; i < QUEUED; i++) {
            queued[i] = (queued_t){.item = {.fn = send_queued}, .number = i + 1};
            fab_queue(peer, &queued[i].item);
        }
        posts = 0;
    }
    return peer;
}

static void batch_body(world_t *world)
{
    ordered_t seen = {.next = 1};
    fab_peer_t *peer = start_queue(world, &seen);

    if (0 == world->rank) {
        WORLD_UNTIL(NULL == peer->pending);
        CHECK(posts + fab_counters.verbs_chained >= QUEUED && posts < QUEUED / 2);
        CHECK(longest_chain > 1 && longest_chain <= FAB_VERBS_CHAIN);
    } else {
        WORLD_UNTIL(QUEUED + 1 == seen.next);
        CHECK(!seen.is_wrong);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_batch(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, batch_body), 0);
}

/*
 * The device refuses the rest of a chain: the peer fails, and so do the messages that are still
 * queued.
 */
static void refused_body(world_t *world)
{
    ordered_t seen = {.next = 1};
    fab_peer_t *peer = start_queue(world, &seen);

    if (0 == world->rank) {
        taken_before_refusal = 20;
        WORLD_UNTIL(1 == world->failures && NULL == peer->pending);
        CHECK(NULL != strstr(world->failed_why, "refused to send"));
        CHECK(items_unreach > 0 && items_unreach <= QUEUED - 20);
        taken_before_refusal = UINT32_MAX;
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        CHECK(seen.next <= 21 && !seen.is_wrong);
    }
}

static void test_refused(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, refused_body), 0);
}

/* ---- memory that cannot be registered ----------------------------------- */

static int refused_with;

static fab_verbs_reg_t *refuse_get(fab_verbs_regs_t *regs, void *buf, size_t len)
{
    (void) regs, (void) buf, (void) len;
    errno = refused_with;
    return NULL;
}

static void unregistrable_body(world_t *world)
{
    fab_verbs_reg_ops_t ops = fab_verbs_reg_plain;
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    char memory[64];
    fab_rkey_t key;
    fab_rma_t op = {.peer = peer, .local = memory, .len = sizeof(memory), .complete = rma_complete};

    ops.get = refuse_get;
    fab_verbs_reg_ops = &ops;
    refused_with = ENOMEM;
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_expose(peer, memory, sizeof(memory), &key));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op));
    CHECK(2 == fab_counters.verbs_locked_memory && 0 == fab_counters.verbs_unregistrable);
    refused_with = EFAULT;
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_put(&op));
    CHECK(1 == fab_counters.verbs_unregistrable && 0 == completed && 0 == world->failures);
    world_barrier(world);
    fab_verbs_reg_ops = &fab_verbs_reg_plain;
}

static void test_unregistrable(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, unregistrable_body), 0);
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

static void test_wrong_key(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, wrong_key_body), 0);
}

/* ---- devices, parameters, leftovers ------------------------------------- */

/*
 * Open with these lists in a child; returns 0: opened, 1: not; prints why not if it does not
 * contain the words.
 */
static int open_with(const char *include, const char *exclude, const char *words)
{
    fab_config_t config = {.name = 1, .num_local = 2};
    const char *why = "";
    fab_t *fab;
    int status = 0;

    if (0 == fork()) {
        fab_params.verbs_if_include = (char *) (uintptr_t) include;
        fab_params.verbs_if_exclude = (char *) (uintptr_t) exclude;
        if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
            if (NULL == strstr(why, words)) {
                fprintf(stderr, "unexpected: %s\n", why);
                _exit(2);
            }
            _exit(1);
        }
        fab_close(fab, FAB_USER_PML);
        _exit(0);
    }
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_devices(void **state)
{
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    char name[80], port1[96], port9[96];

    (void) state;
    assert_true(num > 0);
    snprintf(name, sizeof(name), "%s", ibv_get_device_name(devices[0]));
    snprintf(port1, sizeof(port1), "nosuch,%s:1", name);
    snprintf(port9, sizeof(port9), "%s:9", name);
    ibv_free_device_list(devices);
    assert_int_equal(open_with(name, NULL, ""), 0);
    assert_int_equal(open_with(port1, "", ""), 0);
    assert_int_equal(open_with("nosuch", NULL, "not wanted"), 1);
    assert_int_equal(open_with(port9, NULL, "not wanted"), 1);
    assert_int_equal(open_with(NULL, port9, ""), 0);
    assert_int_equal(open_with(NULL, "nosuch", ""), 0);
    assert_int_equal(open_with(name, name, "both set"), 1);
    if (1 == num) {
        assert_int_equal(open_with(NULL, name, "not wanted"), 1);
    }
}

static void test_params(void **state)
{
    fab_params_t saved = fab_params;
    char text[256];

    (void) state;
    assert_int_equal(fab_params_check(text, sizeof(text)), OPAL_SUCCESS);
    fab_params.verbs_eager_limit = 100;
    assert_int_equal(fab_params_check(text, sizeof(text)), OPAL_ERR_BAD_PARAM);
    assert_non_null(strstr(text, "verbs_eager_limit is 100"));
    fab_params = saved;
    fab_params.verbs_window = 40000;
    assert_int_equal(fab_params_check(text, sizeof(text)), OPAL_ERR_BAD_PARAM);
    fab_params = saved;
    fab_params.verbs_buffers = 1;
    assert_int_equal(fab_params_check(text, sizeof(text)), OPAL_ERR_BAD_PARAM);
    fab_params = saved;
    fab_params.verbs_timeout = 32;
    assert_int_equal(fab_params_check(text, sizeof(text)), OPAL_ERR_BAD_PARAM);
    fab_params = saved;
    fab_params.verbs_gid_index = 256;
    assert_int_equal(fab_params_check(text, sizeof(text)), OPAL_ERR_BAD_PARAM);
    fab_params = saved;
}

static void test_exclusive_list(void **state)
{
    const char *why = "";
    fab_config_t config = {.name = 1, .num_local = 1};
    fab_t *fab;

    (void) state;
    fab_params.providers = (char *) (uintptr_t) "^shm,nosuch";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_ERR_BAD_PARAM);
    assert_non_null(strstr(why, "nosuch"));
    fab_params.providers = (char *) (uintptr_t) "^verbs,tcp";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_SUCCESS);
    assert_non_null(strstr(fab_why_one_host(fab), "not wanted"));
    fab_close(fab, FAB_USER_PML);
    fab_params.providers = (char *) (uintptr_t) "verbs";
}

/* No file descriptor is left of connections once they are made, and none at all afterwards. */
static void nothing_left_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    int fds = count_open_fds();
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    CHECK(NULL == fab_why_one_host(world->fab));
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == got && !fab_sock_set_is_busy(verbs_domain(world)->socks));
    CHECK(count_open_fds() <= fds + 2); /* a software device may need one or two for a connection */
    world_barrier(world);
}

static void test_nothing_left(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, nothing_left_body), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_exclusive_list),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_crossed),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_other_addresses),
        cmocka_unit_test(test_other_key),
        cmocka_unit_test(test_damaged_address),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_unregistrable),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_undrained),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_killed_peer),
        cmocka_unit_test(test_killed_silent),
        cmocka_unit_test(test_killed_during_rma),
        cmocka_unit_test(test_killed_early),
        cmocka_unit_test(test_orderly_leave),
    };

    world_use_providers("verbs");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
