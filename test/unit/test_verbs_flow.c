/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows, buffers and queued messages of the verbs provider: a sender stops at its window, a
 * device gets its buffers back, what is queued is handed over in chains. Skipped where there is no
 * RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include <errno.h>

#include "verbs/verbs.h"

enum { LARGE_JOB = 5000 };

/* ---- windows ------------------------------------------------------------ */

/* A sender stops at the window of a receiver that does nothing, and goes on when that does. */
static void window_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    if (0 == world->rank) {
        uint64_t sent = 1;
        while (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
            sent++;
        }
        CHECK(sent <= fab_limits.verbs_window + 1 && sent >= fab_limits.verbs_window / 2);
        atomic_store(&world->shared->scratch[0], sent);
        WORLD_UNTIL(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        atomic_store(&world->shared->scratch[1], 1);
        CHECK(fab_counters.no_credit > 0);
    } else {
        uint64_t sent;
        while (0 == (sent = atomic_load(&world->shared->scratch[0]))) {
        }
        WORLD_UNTIL(world->got > sent && 1 == atomic_load(&world->shared->scratch[1]));
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/*
 * Windows follow use: rank 0 has buffers for few, its peers send to it one after the other, and
 * each gets more than it began with, as the one before gives back.  All that peers may send has a
 * buffer.
 */
enum { SENDERS = 4, STREAM = 3000, FEW_BUFFERS = 192 };

static uint32_t all_granted(const world_t *world)
{
    const fab_verbs_conn_t *conn;
    uint32_t sum = 0;

    TAILQ_FOREACH(conn, &verbs_domain(world)->conns, link) {
        sum += conn->granted;
    }
    return sum;
}

static void stream(world_t *world, fab_peer_t *peer, uint32_t first)
{
    uint32_t widest = 0;

    for (int i = 0; i < STREAM; i++) {
        WORLD_UNTIL(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        widest = widest > ep_of(peer)->ses.window ? widest : ep_of(peer)->ses.window;
    }
    CHECK(widest >= 2 * first && widest <= fab_limits.verbs_window);
    WORLD_UNTIL(first == ep_of(peer)->ses.window); /* nothing is sent */
}

static void follow_body(world_t *world)
{
    world_barrier(world);
    if (0 == world->rank) {
        /* no tick: on a slow machine no peer would be busy in one */
        verbs_domain(world)->next_tick = UINT64_MAX;
        for (uint64_t n = 1; n <= SENDERS; n++) {
            WORLD_UNTIL(SENDERS + n * STREAM == world->got);
            CHECK(all_granted(world) + 64 <= FEW_BUFFERS);
            CHECK(verbs_domain(world)->recv_pool.num <= FEW_BUFFERS);
        }
        WORLD_UNTIL(SENDERS == atomic_load(&world->shared->scratch[0]));
        const fab_verbs_conn_t *conn;
        TAILQ_FOREACH(conn, &verbs_domain(world)->conns, link) {
            WORLD_UNTIL(4 == conn->granted);
        }
    } else {
        fab_peer_t *zero = world_peer(world, 0);
        connect_to(world, zero);
        CHECK(4 == ep_of(zero)->ses.window);
        WORLD_UNTIL((uint64_t) world->rank - 1 == atomic_load(&world->shared->scratch[0]));
        stream(world, zero, 4);
        atomic_fetch_add(&world->shared->scratch[0], 1);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* Messages that both send raise both windows, without a CREDIT for each: by the clock. */
static void both_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t sent = 1;

    world_barrier(world);
    connect_to(world, peer);
    world_barrier(world);
    CHECK(4 == ep_of(peer)->ses.window);
    while (64 != ep_of(peer)->ses.window || 64 != ep_of(peer)->conn->granted) {
        sent += sent <= world->got &&
                OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);
        world_progress(world);
    }
    atomic_fetch_add(&world->shared->scratch[0], 1);
    while (2 != atomic_load(&world->shared->scratch[0])) {
        sent += sent <= world->got &&
                OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);
        world_progress(world);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* ---- the send queue of a large job --------------------------------------- */

enum { FLOOD = 1000 };

/* It is short, and more is sent than it holds: 32 entries of 256 bytes, as mlx5 makes them. */
static void depth_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    unsigned char data[3000] = {0};

    world_barrier(world);
    connect_to(world, peer);
    for (int i = 0; i < FLOOD; i++) {
        size_t len = 0 == i % 9 ? sizeof(data) : (size_t) i % 250;
        WORLD_UNTIL(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), data, len));
        CHECK(ep_of(peer)->conn->head - ep_of(peer)->conn->tail <= 32);
    }
    WORLD_UNTIL(FLOOD + 1 == world->got);
    CHECK(32 == ep_of(peer)->conn->sq_depth && 0 == world->failures);
    world_barrier(world);
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

    CHECK(fab_tm_use(world->fab, &holding_user, NULL, NULL));
    is_holding = 0 == world->rank;
    world_barrier(world);
    if (1 == world->rank) {
        connect_to(world, peer);
    } else {
        WORLD_UNTIL(1 == world->got);
        CHECK(buffers_to_post(world) > fab_limits.verbs_window);
        is_holding = false;
        WORLD_UNTIL(0 == buffers_to_post(world));
    }
    world_barrier(world);
    CHECK(fab_tm_use(world->fab, NULL, NULL, NULL));
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

    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    if (1 == world->rank) {
        while (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        fab_verbs_conn_t *conn = ep_of(peer)->conn;
        fab_verbs_conn_send_control(conn, FAB_VERBS_WORD_CREDIT);
        fab_verbs_conn_send_control(
            conn, (fab_verbs_word_t) FAB_SES_BYE_LEAVE); /* asks for its completion */
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

/* ---- queued messages are handed over together --------------------------- */

enum { QUEUED = 100, LONG_MESSAGE = 1000 };

typedef struct queued {
    fab_item_t item;
    uint32_t number;
} queued_t;

/* In the place of the device's own: counts, and refuses what comes after so many. */
static int (*device_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int items_unreach;
static uint64_t posts, requests;
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
    requests += length;
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

static void replace_post_send(fab_peer_t *peer, int (*fn)(struct ibv_qp *, struct ibv_send_wr *,
                                                          struct ibv_send_wr **))
{
    struct ibv_context_ops *ops = &ep_of(peer)->conn->qp->context->ops;

    device_post_send = ops->post_send;
    ops->post_send = fn;
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
        replace_post_send(peer, counting_post_send);
        while (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        for (uint32_t i = 0; i < QUEUED; i++) {
            queued[i] = (queued_t){.item = {.fn = send_queued}, .number = i + 1};
            fab_queue(peer, &queued[i].item);
        }
        posts = requests = 0;
    }
    return peer;
}

static void batch_body(world_t *world)
{
    ordered_t seen = {.next = 1};
    fab_peer_t *peer = start_queue(world, &seen);

    if (0 == world->rank) {
        WORLD_UNTIL(NULL == peer->pending);
        CHECK(requests >= QUEUED && posts < QUEUED / 2);
        CHECK(longest_chain > 1 && longest_chain <= FAB_VERBS_CHAIN);
    } else {
        WORLD_UNTIL(QUEUED + 1 == seen.next);
        CHECK(!seen.is_wrong);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
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

/* ---- credits that find no room ------------------------------------------ */

static int refusals_left;

/* In the place of the device's own: the queue is full for the first few calls. */
static int full_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (refusals_left > 0) {
        refusals_left--;
        *bad = wr;
        return ENOMEM;
    }
    return device_post_send(qp, wr, bad);
}

/* A process that only receives: credits that it could not return are returned later. */
static void credits_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t num = 3 * (uint64_t) fab_limits.verbs_window;

    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    if (0 == world->rank) {
        for (uint64_t i = 0; i < num; i++) {
            WORLD_UNTIL(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        }
    } else {
        replace_post_send(peer, full_post_send);
        refusals_left = 5;
        WORLD_UNTIL(1 + num == world->got);
        CHECK(0 == refusals_left);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* ---- sleeping ------------------------------------------------------------ */

enum { SLEEPS = 20 };

static void prepare(world_t *world)
{
    for (int empty = 0; empty < 64;) {
        empty = 0 == world_progress(world) ? empty + 1 : 0;
    }
}

/* Rank 0 sleeps, and rank 1 sends then: each message ends a sleep, and so does what is read. */
static void sleep_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    static char memory[4096], read[4096];
    fab_rkey_t key;

    world->fab->may_sleep = true;
    CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &key));
    memcpy((void *) &world->shared->scratch[64 + 8 * world->rank], &key, sizeof(key));
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    for (uint64_t n = 0; n < SLEEPS; n++) {
        if (0 == world->rank) {
            prepare(world);
            atomic_store(&world->shared->scratch[0], n + 1);
            while (n + 2 > world->got) {
                CHECK(fab_sleep(world->fab, 20000000));
                prepare(world);
            }
        } else {
            WORLD_UNTIL(n + 1 == atomic_load(&world->shared->scratch[0]));
            usleep(2000);
            post(world, peer);
        }
    }
    if (0 == world->rank) {
        fab_rma_t op = {.peer = peer,
                        .local = read,
                        .remote = (uintptr_t) memory,
                        .len = sizeof(read),
                        .complete = rma_complete};
        memcpy(&op.rkey, (void *) &world->shared->scratch[64 + 8], sizeof(op.rkey));
        completed = 0;
        CHECK(OPAL_SUCCESS == fab_get(&op));
        while (0 == completed) {
            CHECK(fab_sleep(world->fab, 20000000) || completed > 0);
            prepare(world);
        }
        CHECK(OPAL_SUCCESS == complete_status);
    }
    world_barrier(world);
    fab_unexpose(peer, &key);
    CHECK(0 == world->failures);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_sleep", sleep_body),
        WORLD_JOB("test_sleep no matching", sleep_body, .text = {&fab_params.verbs_tm, "none"}),
        WORLD_JOB("test_window", window_body),
        WORLD_JOB("test_hold", hold_body),
        WORLD_JOB("test_undrained", undrained_body),
        WORLD_JOB("test_undrained no matching", undrained_body,
                  .text = {&fab_params.verbs_tm, "none"}),
        WORLD_JOB("test_batch", batch_body),
        WORLD_JOB("test_refused", refused_body),
        WORLD_JOB("test_credits", credits_body),
        WORLD_JOB("test_depth", depth_body, .number = {{&world_num_procs, LARGE_JOB}},
                  .env = {"TMDEV_MAX_SQ", "8192"}),
        WORLD_JOB(
            "test_follow", follow_body, .ranks = 1 + SENDERS,
            .number = {{&fab_params.verbs_buffers, FEW_BUFFERS}, {&world_num_procs, LARGE_JOB}}),
        WORLD_JOB("test_both", both_body, .number = {{&world_num_procs, LARGE_JOB}}),
    };

    world_use_providers("verbs");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
