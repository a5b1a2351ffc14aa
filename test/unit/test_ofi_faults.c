/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi, when things go wrong: a peer dies, does not have the key, or sends what nobody
 * sends.
 *
 * TEST: sources=@fabric,@ofi variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=300
 */
#include "conform_ofi.h"
#include "test_fab_jobs.h"

#include <rdma/fi_errno.h>

#include "fabric/fab_core.h"
#include "fabric/fab_wire.h"
#include "ofi/ofi.h"
#include "sock/sha256.h"

enum {
    SESSIONS = 300,  /* at once: more than the receive buffers have windows for */
    WAIT_TICKS = 12, /* 3 s: longer than the time limit */
    PACKED = 20,     /* messages at once */
    OWN = 400,       /* of the provider's own behind one that is late */
    GETS = 3,        /* under way when the fabric is closed */
};

static fab_ofi_ep_t *ep_of(fab_peer_t *peer)
{
    return peer->ep;
}

static void meet(world_t *world)
{
    world_barrier(world);
    post(world, world_peer(world, 1 - world->rank));
    WORLD_UNTIL(world->got > 0 && NULL == world_peer(world, 1 - world->rank)->pending);
    world_barrier(world);
}

/* A process that dies has failed, though nothing is sent to it. */
static void dead(world_t *world)
{
    meet(world);
    if (1 == world->rank) {
        raise(SIGKILL);
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_PROC_ABORTED == world->failed_rc || OPAL_ERR_UNREACH == world->failed_rc);
}

/* The address of a process with another key than it has. */
static void spoil_key(world_t *world, int rank)
{
    size_t len = 0;
    const unsigned char *section = fab_address_section(world->shared->address[rank], FAB_WIRE_OFI,
                                                       &len);

    CHECK(NULL != section && sizeof(fab_ofi_addr_t) >= len);
    world->shared->address[rank][section - world->shared->address[rank] +
                                 offsetof(fab_ofi_addr_t, key)] ^= 1;
}

/* Who asks without the key is not answered. */
static void keyless(world_t *world)
{
    if (0 == world->rank) {
        spoil_key(world, 1);
    }
    world_barrier(world);
    if (0 == world->rank) {
        fab_peer_t *peer = world_peer(world, 1);
        post(world, peer);
        const fab_ofi_domain_t *dom = ep_of(peer)->dom;
        WORLD_UNTIL(dom->ticks > WAIT_TICKS);
        CHECK(FAB_SES_ASKING == ep_of(peer)->ses.state && NULL != peer->pending);
    } else {
        WORLD_UNTIL(1 == fab_counters.ofi_strays);
    }
    world_barrier(world);
    CHECK(0 == world->got && 0 == world->failures);
}

/*
 * A process computes for longer than the time limit before it answers: it is waited for, and is
 * reached by ofi.
 */
static void late_answer(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (0 == world->rank) {
        post(world, peer);
        const fab_ofi_domain_t *dom = ep_of(peer)->dom;
        WORLD_UNTIL(dom->ticks > WAIT_TICKS);
        atomic_store(&world->shared->scratch[0], 1);
        WORLD_UNTIL(NULL == peer->pending);
    } else {
        while (0 == atomic_load(&world->shared->scratch[0])) {
            usleep(1000); /* without a poll */
        }
        WORLD_UNTIL(1 == world->got);
    }
    CHECK(0 == strcmp("ofi", fab_peer_provider_name(peer)));
    world_barrier(world);
    CHECK(0 == world->failures);
}

/*
 * libfabric of rank 0 does not send messages of this id: its way to rank 1 is closed.  The call
 * fails, or the message does, later.
 */
static uint8_t closed_to;
static bool is_told_later;
static struct fi_ops_msg msg_ops;
static struct fi_ops_cq cq_ops;
static ssize_t (*plain_sendmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
static ssize_t (*plain_read)(struct fid_cq *cq, void *buf, size_t count);
static void *unsent_context;
static int unsent;

static ssize_t one_way(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    const fab_ofi_hdr_t *hdr = msg->msg_iov->iov_base;

    if (closed_to != fab_ofi_hdr_id(hdr)) {
        return plain_sendmsg(ep, msg, flags);
    }
    unsent++;
    unsent_context = is_told_later ? msg->context : NULL;
    return is_told_later ? 0 : -FI_EHOSTUNREACH;
}

static ssize_t read_or_fail(struct fid_cq *cq, void *buf, size_t count)
{
    return NULL != unsent_context ? -FI_EAVAIL : plain_read(cq, buf, count);
}

static ssize_t read_failure(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    (void) cq, (void) flags;
    *entry = (struct fi_cq_err_entry){.op_context = unsent_context, .err = FI_EHOSTUNREACH};
    unsent_context = NULL;
    return 1;
}

static void close_way(const fab_ofi_domain_t *dom)
{
    msg_ops = *dom->rdm->msg;
    plain_sendmsg = msg_ops.sendmsg;
    msg_ops.sendmsg = one_way;
    dom->rdm->msg = &msg_ops;
    cq_ops = *dom->cq->ops;
    plain_read = cq_ops.read;
    cq_ops.read = read_or_fail;
    cq_ops.readerr = read_failure;
    dom->cq->ops = &cq_ops;
}

static unsigned unwelcome_way; /* 0 to 5 */

/*
 * Rank 1 waits for an answer, and hears nothing of libfabric.  So rank 0, which has nothing to send
 * to it, and has closed it, perhaps, asks it by the next provider.
 */
static void unwelcome(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const bool is_closing = 1 == unwelcome_way / 2;

    closed_to = unwelcome_way < 4 ? FAB_OFI_ID_WELCOME : FAB_OFI_ID_CHALLENGE;
    is_told_later = 0 != unwelcome_way % 2;

    if (0 == world->rank) {
        close_way(ep_of(peer)->dom);
    }
    world_barrier(world);
    if (1 == world->rank) {
        post(world, peer);
        CHECK(0 == strcmp("ofi", fab_peer_provider_name(peer)));
        WORLD_UNTIL(NULL == peer->pending);
        CHECK(0 == strcmp("tcp", fab_peer_provider_name(peer)));
    } else {
        WORLD_UNTIL(unsent > 0);
        if (is_closing) {
            fab_peer_close(peer, FAB_USER_PML);
        }
        WORLD_UNTIL(1 == world->got);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
    if (0 == world->rank && is_closing) {
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
    }
    world_barrier(world);
}

/* A process that is silent is asked at doubled distance, and not without end. */
static void questions(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    meet(world);
    if (0 == world->rank) {
        fab_ofi_ep_t *ep = ep_of(peer);
        fab_ofi_domain_t *dom = ep->dom;
        uint16_t seq = ep->next_seq, silences = 0;
        ep->is_local = false; /* as one of another host: it is not looked up in /proc */
        for (int i = 0; i < 8 * 10; i++) {
            ep->has_heard = true;
            fab_ofi_alive_tick(dom);
        }
        CHECK(seq == ep->next_seq); /* a peer that speaks is not asked */
        for (int i = 0; i < 8 * 1000; i++) {
            fab_ofi_alive_tick(dom);
            WORLD_UNTIL(0 == ep->own_under_way);
            if (ep->silences < silences) { /* what the peer had said was late: from here on */
                seq = ep->next_seq;
                i = 0;
            }
            silences = ep->silences;
        }
        CHECK((uint16_t) (ep->next_seq - seq) <= 8);
        CHECK((uint16_t) (ep->next_seq - seq) >= 7);
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        while (0 == atomic_load(&world->shared->scratch[0])) {
            usleep(1000);
        }
    }
    post(world, peer);
    WORLD_UNTIL(2 == world->got);
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* The window of the last of many sessions is as large as that of the first. */
static void many_sessions(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    if (0 == world->rank) {
        fab_ofi_domain_t *dom = ep_of(peer)->dom;
        dom->sessions.used += SESSIONS;
        meet(world);
        dom->sessions.used -= SESSIONS;
    } else {
        meet(world);
        CHECK(fab_limits.ofi_window == ep_of(peer)->ses.peer_window);
    }
    world_barrier(world);
}

/* As it is in the session, but for what the test changes. */
static fab_ofi_hdr_t forged(const fab_ofi_ep_t *ep, uint8_t id)
{
    return (fab_ofi_hdr_t){.id_index = fab_ofi_id_index(id, 0, ep->peer_index),
                           .cookie = ep->peer_cookie,
                           .credits = (uint16_t) ep->ses.consumed,
                           .seq = ep->next_seq};
}

static void inject(world_t *world, const fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, size_t len)
{
    WORLD_UNTIL(0 == fi_inject(ep->dom->rdm, hdr, len, ep->to));
}

/* Messages of no session are dropped: wrong cookie, wrong index, too short, pad without payload. */
static void strays(world_t *world)
{
    meet(world);
    if (0 == world->rank) {
        const fab_ofi_ep_t *ep = ep_of(world_peer(world, 1));
        fab_ofi_hdr_t hdr = forged(ep, AM_DATA);
        hdr.cookie++;
        inject(world, ep, &hdr, sizeof(hdr));
        hdr = forged(ep, AM_DATA);
        hdr.id_index = fab_ofi_id_index(AM_DATA, 0, FAB_OFI_NO_INDEX - 1);
        inject(world, ep, &hdr, sizeof(hdr));
        hdr = forged(ep, AM_DATA);
        inject(world, ep, &hdr, sizeof(hdr) - 8);
        hdr.id_index = fab_ofi_id_index(AM_DATA, 1, ep->peer_index);
        inject(world, ep, &hdr, sizeof(hdr));
        post(world, world_peer(world, 1));
    } else {
        WORLD_UNTIL(2 == world->got);
        CHECK(4 == fab_counters.ofi_strays);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/*
 * A HELLO of this process as it was sent before: with the proof, but its nonce is used up.  The
 * answer to it is a CHALLENGE that nobody waits for.
 */
static void replay(world_t *world, fab_ofi_domain_t *dom, const fab_ofi_addr_t *to_addr,
                   fi_addr_t to)
{
    struct {
        fab_ofi_hdr_t hdr;
        fab_ofi_frame_t hello;
    } msg = {
        .hdr.id_index = fab_ofi_id_index(FAB_OFI_ID_HELLO, 0, FAB_OFI_NO_INDEX),
        .hello = {.magic = FAB_OFI_MAGIC,
                  .version = FAB_OFI_VERSION,
                  .name = world_name(0),
                  .target = world_name(1),
                  .msg = {.kind = FAB_SES_HELLO, .window = 8, .serial = dom->ses.serial + 5},
                  .index = 5,
                  .nonce = 5,
                  .addr = dom->addr},
    };
    const struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    const struct fi_msg send = {.msg_iov = &iov, .iov_count = 1, .addr = to};

    fab_hmac(to_addr->key, sizeof(to_addr->key), &msg.hello, sizeof(msg.hello), msg.hello.proof);
    WORLD_UNTIL(0 == fi_sendmsg(dom->rdm, &send, 0));
    WORLD_UNTIL(1 == fab_counters.ofi_strays);
    fab_counters.ofi_strays = 0;
}

/* In a session, it does not end it; afterwards, it begins none. */
static void replayed(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_ofi_domain_t *dom = ep_of(peer)->dom;

    meet(world);
    const fab_ofi_addr_t addr = ep_of(peer)->addr;
    const fi_addr_t to = ep_of(peer)->to;
    if (0 == world->rank) {
        replay(world, dom, &addr, to);
    }
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(2 == world->got);
    world_barrier(world);
    fab_peer_close(peer, FAB_USER_PML);
    WORLD_UNTIL(0 == dom->sessions.used);
    world_barrier(world);
    if (0 == world->rank) {
        replay(world, dom, &addr, to);
    }
    world_barrier(world);
    CHECK(0 == dom->sessions.used && 0 == world->failures);
}

/* What is wrong with the next message; the peer fails for it. */
static unsigned flaw;

static void bad(world_t *world)
{
    meet(world);
    if (0 == world->rank) {
        const fab_ofi_ep_t *ep = ep_of(world_peer(world, 1));
        fab_ofi_hdr_t hdr = forged(ep, 2 == flaw ? 200 : AM_DATA);
        hdr.seq += 0 == flaw ? 30000 : 0;
        hdr.seq -= 3 == flaw ? 1 : 0; /* a message that came before */
        hdr.credits += 1 == flaw ? 1000 : 0;
        inject(world, ep, &hdr, sizeof(hdr));
    } else {
        WORLD_UNTIL(1 == world->failures);
        CHECK(1 == fab_counters.bad_messages);
        CHECK(NULL != strstr(world->failed_why, "malformed"));
    }
    world_barrier(world);
}

/* PACK with one part that is wrong. */
static void bad_part(world_t *world)
{
    meet(world);
    if (0 == world->rank) {
        const fab_ofi_ep_t *ep = ep_of(world_peer(world, 1));
        struct {
            fab_ofi_hdr_t hdr;
            fab_ofi_part_t part[2];
        } msg = {.hdr = forged(ep, FAB_OFI_ID_PACK)};
        msg.part[0].id = 0 == flaw ? FAB_AM_MAX : AM_DATA;
        msg.part[0].len = 1 == flaw ? 17 : 16;
        inject(world, ep, &msg.hdr, sizeof(msg) - (2 == flaw ? 24 : 0));
    } else {
        WORLD_UNTIL(1 == world->failures);
        CHECK(1 == fab_counters.bad_messages);
        CHECK(NULL != strstr(world->failed_why, "a part"));
    }
    world_barrier(world);
}

/* Short messages that are sent at once share messages of libfabric's. */
static void packed(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    meet(world);
    const uint16_t before = ep_of(peer)->next_seq;
    for (int i = 0; i < PACKED; i++) {
        post(world, peer);
    }
    WORLD_UNTIL(1 + PACKED == world->got);
    world_barrier(world);
    CHECK((uint16_t) (ep_of(peer)->next_seq - before) < PACKED / 2);
}

/* One message is late; none that the peer may have sent meanwhile is lost. */
static void late(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    meet(world);
    if (0 == world->rank) {
        fab_ofi_ep_t *ep = ep_of(peer);
        const fab_ofi_hdr_t first = forged(ep, FAB_OFI_ID_CREDIT);
        ep->next_seq += OWN + 1;
        for (int i = 1; i <= OWN; i++) {
            fab_ofi_hdr_t hdr = first;
            hdr.seq += i;
            inject(world, ep, &hdr, sizeof(hdr));
        }
        inject(world, ep, &first, sizeof(first));
        post(world, peer);
    } else {
        WORLD_UNTIL(2 == world->got);
        CHECK(OWN == fab_counters.ofi_early);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* The fabric is closed here while the other does nothing. */
static void close_alone(world_t *world)
{
    if (0 == world->rank) {
        fab_close(world->fab, FAB_USER_PML);
        world_barrier_idle(world);
        exit(0);
    }
    world_barrier_idle(world);
}

/* A message that is kept until one before it has come, which never does; nothing of it is left. */
static void unmet(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    meet(world);
    if (1 == world->rank) {
        const fab_ofi_ep_t *ep = ep_of(peer);
        fab_ofi_hdr_t hdr = forged(ep, AM_DATA);
        hdr.seq++;
        inject(world, ep, &hdr, sizeof(hdr));
    } else {
        WORLD_UNTIL(1 == fab_counters.ofi_early);
    }
    world_barrier(world);
    close_alone(world);
}

static void never(fab_rma_t *op, int status)
{
    (void) op, (void) status;
    fprintf(stderr, "an operation completed after its fabric was closed\n");
    _exit(1);
}

/*
 * Gets that the other's processor does not serve any more, from a peer that this process may have
 * closed since.  They end without completion, and nothing of them is left.
 */
static unsigned is_peer_closed;

static void unserved(world_t *world)
{
    static char memory[GETS];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    world_shared_t *shared = world->shared;
    fab_rma_t ops[GETS];
    fab_rkey_t rkey;

    meet(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &rkey));
        memcpy(shared->address[1], &rkey, sizeof(rkey));
        shared->scratch[0] = (uintptr_t) memory;
    }
    world_barrier(world);
    for (int i = 0; 0 == world->rank && i < GETS; i++) {
        ops[i] = (fab_rma_t){.peer = peer,
                             .local = &memory[i],
                             .remote = shared->scratch[0] + (uint64_t) i,
                             .len = 1,
                             .complete = never};
        memcpy(&ops[i].rkey, shared->address[1], sizeof(rkey));
        CHECK(OPAL_SUCCESS == fab_get(&ops[i]));
    }
    if (0 == world->rank) {
        CHECK(GETS == ep_of(peer)->num_xfers);
        if (is_peer_closed) {
            fab_peer_close(peer, FAB_USER_PML);
        }
    }
    close_alone(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_dead", dead, .killed = 1 << 1),
        WORLD_JOB("test_keyless", keyless, .text = {&fab_params.providers, "ofi,tcp"},
                  .number = {{&fab_params.ofi_timeout, 1}}),
        WORLD_JOB("test_late_answer", late_answer, .text = {&fab_params.providers, "ofi,tcp"},
                  .number = {{&fab_params.ofi_timeout, 1}}),
        WORLD_JOB("test_late_answer ofi alone", late_answer,
                  .number = {{&fab_params.ofi_timeout, 1}}),
        WORLD_JOB("test_unwelcome", unwelcome, .text = {&fab_params.providers, "ofi,tcp"},
                  .each = {&unwelcome_way, 6}),
        WORLD_JOB("test_questions", questions),
        WORLD_JOB("test_many_sessions", many_sessions),
        WORLD_JOB("test_strays", strays),
        WORLD_JOB("test_replayed", replayed),
        WORLD_JOB("test_bad", bad, .each = {&flaw, 4}),
        WORLD_JOB("test_bad_part", bad_part, .each = {&flaw, 3}),
        WORLD_JOB("test_packed", packed),
        WORLD_JOB("test_late", late),
        WORLD_JOB("test_unmet", unmet),
        WORLD_JOB("test_unserved", unserved, .each = {&is_peer_closed, 2}),
    };

    fab_params.ofi_provider = (char *) (uintptr_t) "net,tcp";
    world_use_providers("ofi");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
