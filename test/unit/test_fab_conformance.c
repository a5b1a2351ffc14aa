/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every provider must do, for self (one process) and shm (two and more), with and without the
 * lock; included by test_verbs_conformance.c, for verbs.
 *
 * And what two users of one process share: references to peers, what is kept, failures.
 *
 * Each test is symmetric: a process sends to its peer, which is itself on self, and expects the
 * same from it.
 *
 * TEST: sources=@fabric variants=asan,tsan timeout=300 quick=no
 */
#include "test_fab_world.h"

enum { AM_DATA = 9, AM_REPLY = 10, AM_ADDR = 11, AM_DONE = 12, AM_NONE = 15 };

static fab_peer_t *partner(world_t *world)
{
    return world_peer(world, world->size > 1 ? world->rank ^ 1 : 0);
}

/* ---- order, and every way to send --------------------------------------- */

enum { ORDER_MESSAGES = 20000 };

typedef struct order {
    world_t *world;
    uint64_t got;
    uint64_t sent;
    fab_item_t item;
    bool is_queued;
} order_t;

static size_t order_len(uint64_t seq, size_t max)
{
    uint64_t x = seq * UINT64_C(0x9e3779b97f4a7c15) >> 40;

    return x % 16 < 10 ? x % 60 : x % 16 < 15 ? x % 2000 % (max + 1) : max - x % 64;
}

static void order_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    order_t *order = ctx;
    world_t *world = order->world;

    CHECK(peer == partner(world));
    CHECK(hdr.tag == order->got && hdr.app_ctx == (uint32_t) ~order->got && AM_DATA == hdr.id);
    CHECK(len == order_len(hdr.tag, peer->eager_max));
    CHECK(0 == ((uintptr_t) data & 7));
    CHECK(world_is_filled(data, hdr.tag, len));
    order->got++;
}

/* Send the next message: send, reserve and commit, or a reservation that is too large, in turn. */
static int order_send_next(order_t *order, fab_peer_t *peer)
{
    static unsigned char buf[1 << 16];
    uint64_t seq = order->sent;
    size_t len = order_len(seq, peer->eager_max);
    fab_hdr_t hdr = fab_hdr(AM_DATA, seq, (uint32_t) ~seq);

    if (0 == seq % 3) {
        world_fill(buf + seq % 8, seq, len);
        int rc = fab_item_send(peer, hdr, buf + seq % 8, len);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    } else {
        void *room = fab_item_reserve(peer, 1 == seq % 3 ? len : (len + peer->eager_max) / 2);
        if (NULL == room) {
            return OPAL_ERR_RESOURCE_BUSY;
        }
        world_fill(room, seq, len);
        fab_commit(peer, hdr, len);
    }
    order->sent++;
    return OPAL_SUCCESS;
}

static int order_run_item(fab_item_t *item, fab_peer_t *peer)
{
    order_t *order = (order_t *) ((char *) item - offsetof(order_t, item));
    int rc = order_send_next(order, peer);

    order->is_queued = OPAL_SUCCESS != rc;
    return rc;
}

static void order_body(world_t *world)
{
    order_t order = {.world = world, .item.fn = order_run_item};

    fab_set_handler(world->fab, AM_DATA, order_arrived, &order);
    world_barrier(world);
    fab_peer_t *peer = partner(world);
    while (order.sent < ORDER_MESSAGES) {
        fab_lock(world->fab);
        if (!order.is_queued && NULL == peer->pending &&
            OPAL_ERR_RESOURCE_BUSY == order_send_next(&order, peer)) {
            order.is_queued = true;
            fab_queue(peer, &order.item);
        }
        fab_unlock(world->fab);
        if (order.is_queued || 0 == order.sent % 64) {
            world_progress(world);
        }
    }
    WORLD_UNTIL(ORDER_MESSAGES == order.got);
    world_barrier(world);
    CHECK(ORDER_MESSAGES == order.got && 0 == world->failures);
}

/* ---- fab_post never loses a message ------------------------------------- */

enum { POSTS = 30000 };

static void post_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t *got = ctx;
    world_t *world = peer->fab->config.ctx;

    CHECK(hdr.tag == *got && len == *got % 257 && world_is_filled(data, hdr.tag, len));
    ++*got;
}

static void post_body(world_t *world)
{
    unsigned char buf[256];
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, post_arrived, &got);
    world_barrier(world);
    fab_peer_t *peer = partner(world);
    fab_lock(world->fab);
    for (uint64_t seq = 0; seq < POSTS; seq++) {
        world_fill(buf, seq, seq % 257);
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, seq, 0), buf, seq % 257));
    }
    fab_unlock(world->fab);
    WORLD_UNTIL(POSTS == got);
    world_barrier(world);
}

/* ---- items -------------------------------------------------------------- */

typedef struct parts {
    fab_item_t item;
    uint32_t id;
    uint32_t left;
} parts_t;

typedef struct items {
    uint32_t got[3];
    uint32_t last;
    uint32_t switches;
} items_t;

static void items_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    items_t *items = ctx;

    (void) peer, (void) data, (void) len;
    items->got[hdr.app_ctx]++;
    items->switches += hdr.app_ctx != items->last;
    items->last = hdr.app_ctx;
}

static int parts_run(fab_item_t *item, fab_peer_t *peer)
{
    parts_t *parts = (parts_t *) item;
    int rc = fab_item_send(peer, fab_hdr(AM_DATA, 0, parts->id), peer, 48);

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    if (0 == --parts->left) {
        free(parts);
        return OPAL_SUCCESS;
    }
    return OPAL_ERR_IN_PROCESS;
}

/*
 * Three items that send in parts take turns; a message that is sent after them comes after their
 * first parts, not before.
 */
static void items_body(world_t *world)
{
    items_t items = {.last = 99};

    fab_set_handler(world->fab, AM_DATA, items_arrived, &items);
    world_barrier(world);
    fab_peer_t *peer = partner(world);
    fab_lock(world->fab);
    for (uint32_t i = 0; i < 3; i++) {
        parts_t *parts = malloc(sizeof(*parts));
        *parts = (parts_t){.item.fn = parts_run, .id = i, .left = 1000};
        fab_queue(peer, &parts->item);
    }
    CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    CHECK(NULL == fab_reserve(peer, 8));
    fab_unlock(world->fab);
    WORLD_UNTIL(1000 == items.got[0] && 1000 == items.got[1] && 1000 == items.got[2]);
    CHECK(items.switches > 2900);
    WORLD_UNTIL(NULL == partner(world)->pending);
    world_barrier(world);
}

/* ---- get and put -------------------------------------------------------- */

enum { RMA_MAX = 20 << 20, RMA_OPS = 24 };

typedef struct remote {
    uint64_t at;
    fab_rkey_t rkey;
} remote_t;

typedef struct rma {
    remote_t remote;
    bool has_remote;
    int completed;
    int status;
    bool is_done;
} rma_t;

static rma_t *rma_test; /* complete() has no context of its own */

static void rma_address_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                size_t len)
{
    rma_t *rma = ctx;

    (void) peer;
    if (AM_DONE == hdr.id) {
        rma->is_done = true;
    } else if (sizeof(rma->remote) == len) {
        memcpy(&rma->remote, data, len);
        rma->has_remote = true;
    }
}

static void rma_complete(fab_rma_t *op, int status)
{
    (void) op;
    rma_test->completed++;
    rma_test->status = status;
}

static const size_t rma_sizes[] = {
    1, 0,     3,     40,     4095, 4096, 4097, 65537, 1 << 20, RMA_MAX - 64, 524288, 524289,
    2, 12345, 99999, 262144, 5,    6,    7,    8,     9,       10,           11,     1000000};

_Static_assert(RMA_OPS == sizeof(rma_sizes) / sizeof(rma_sizes[0]), "one size per operation");

/* Move one size at a time, unaligned on both sides; nothing beyond it is touched. */
static void rma_one_by_one(world_t *world, rma_t *rma, unsigned char *local, bool is_put)
{
    for (int i = 0; i < RMA_OPS; i++) {
        size_t len = rma_sizes[i];
        fab_rma_t op = {.peer = partner(world),
                        .local = local + i % 7,
                        .remote = rma->remote.at + (uint64_t) (i % 5),
                        .len = len,
                        .rkey = rma->remote.rkey,
                        .complete = rma_complete};
        int before = rma->completed;
        memset(local, 0xee, len + 64);
        if (is_put) {
            world_fill(local + i % 7, (uint64_t) i, len);
        }
        fab_lock(world->fab);
        int rc = is_put ? fab_put(&op) : fab_get(&op);
        fab_unlock(world->fab);
        CHECK(OPAL_SUCCESS == rc);
        CHECK(before == rma->completed); /* not from within fab_get() */
        WORLD_UNTIL(before + 1 == rma->completed);
        CHECK(OPAL_SUCCESS == rma->status && op.done == len);
        if (!is_put) {
            CHECK(world_is_filled(local + i % 7, 77, 0));
            for (size_t k = 0; k < len; k++) {
                CHECK(local[i % 7 + k] == world_byte(77, k + (size_t) (i % 5)));
            }
            CHECK(0xee == local[i % 7 + len] && (0 == i % 7 || 0xee == local[i % 7 - 1]));
        }
    }
}

/* All at once, into disjoint places. */
static void rma_together(world_t *world, rma_t *rma, unsigned char *local)
{
    static fab_rma_t ops[RMA_OPS];
    size_t at = 0;
    int before = rma->completed;

    fab_lock(world->fab);
    for (int i = 0; i < RMA_OPS; i++) {
        size_t len = rma_sizes[i] % 500000;
        ops[i] = (fab_rma_t){.peer = partner(world),
                             .local = local + at,
                             .remote = rma->remote.at + at,
                             .len = len,
                             .rkey = rma->remote.rkey,
                             .complete = rma_complete};
        CHECK(OPAL_SUCCESS == fab_get(&ops[i]));
        at += len;
    }
    fab_unlock(world->fab);
    WORLD_UNTIL(before + RMA_OPS == rma->completed);
    CHECK(world_is_filled(local, 77, at));
}

/* One atomic operation on the last but one 8 bytes; returns their old value. */
static uint64_t rma_atomic(world_t *world, rma_t *rma, int (*start)(fab_rma_t *), uint64_t operand,
                           uint64_t compare)
{
    uint64_t old = 0;
    fab_rma_t op = {.peer = partner(world),
                    .local = &old,
                    .remote = rma->remote.at + RMA_MAX - 16,
                    .len = sizeof(old),
                    .rkey = rma->remote.rkey,
                    .complete = rma_complete,
                    .operand = operand,
                    .compare = compare};
    int before = rma->completed;

    fab_lock(world->fab);
    int rc = start(&op);
    fab_unlock(world->fab);
    if (0 == (partner(world)->caps & FAB_CAP_ATOMIC)) {
        CHECK(OPAL_ERR_NOT_SUPPORTED == rc);
        return 0;
    }
    CHECK(OPAL_SUCCESS == rc);
    WORLD_UNTIL(before + 1 == rma->completed);
    CHECK(OPAL_SUCCESS == rma->status && sizeof(old) == op.done);
    return old;
}

static void rma_atomics(world_t *world, rma_t *rma)
{
    uint64_t first = rma_atomic(world, rma, fab_fetch_add, 0, 0);

    if (0 == (partner(world)->caps & FAB_CAP_ATOMIC)) {
        return;
    }
    for (uint64_t i = 0; i < 100; i++) {
        CHECK(first + 3 * i == rma_atomic(world, rma, fab_fetch_add, 3, 0));
    }
    /* not what is there: stays */
    CHECK(first + 300 == rma_atomic(world, rma, fab_compare_swap, 5, first));
    CHECK(first + 300 == rma_atomic(world, rma, fab_compare_swap, 42, first + 300));
    CHECK(42 == rma_atomic(world, rma, fab_fetch_add, 0, 0));
}

/* Where memory cannot be reached, that is said at once. */
static void rma_is_refused(world_t *world)
{
    fab_rkey_t rkey;
    fab_rma_t op = {.peer = partner(world), .local = world, .len = 1, .complete = rma_complete};

    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_expose(partner(world), world, 1, &rkey));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op) && OPAL_ERR_NOT_SUPPORTED == fab_put(&op));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_fetch_add(&op));
}

static void rma_body(world_t *world)
{
    rma_t rma = {.status = 0};
    unsigned char *exposed = malloc(RMA_MAX);
    unsigned char *local = malloc(RMA_MAX + 64);
    remote_t mine = {.at = (uint64_t) (uintptr_t) exposed};

    if (0 == (partner(world)->caps & FAB_CAP_GET)) {
        CHECK(0 == strcmp(fab_peer_provider_name(partner(world)), "tcp"));
        rma_is_refused(world);
        free(exposed);
        free(local);
        return;
    }
    rma_test = &rma;
    fab_set_handler(world->fab, AM_ADDR, rma_address_arrived, &rma);
    fab_set_handler(world->fab, AM_DONE, rma_address_arrived, &rma);
    world_fill(exposed, 77, RMA_MAX);
    world_barrier(world);
    (void) partner(world);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_expose(partner(world), exposed, RMA_MAX, &mine.rkey));
    CHECK(OPAL_SUCCESS == fab_post(partner(world), fab_hdr(AM_ADDR, 0, 0), &mine, sizeof(mine)));
    fab_unlock(world->fab);
    WORLD_UNTIL(rma.has_remote);
    rma_one_by_one(world, &rma, local, false);
    rma_together(world, &rma, local);
    world_barrier(world);
    rma_one_by_one(world, &rma, local, true);
    rma_atomics(world, &rma);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_post(partner(world), fab_hdr(AM_DONE, 0, 0), NULL, 0));
    fab_unlock(world->fab);
    WORLD_UNTIL(rma.is_done);
    CHECK(world_is_filled(exposed + 23 % 5, 23, rma_sizes[23])); /* what the peer's last put left */
    world_barrier(world);
    fab_unexpose(partner(world), &mine.rkey);
    free(exposed);
    free(local);
}

/* ---- a peer that this process did not open ------------------------------ */

typedef struct passive {
    fab_peer_t *from;
    int replies;
} passive_t;

static void passive_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    passive_t *passive = ctx;
    world_t *world = peer->fab->config.ctx;

    (void) data, (void) len;
    if (AM_DATA == hdr.id) {
        passive->from = peer;
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_REPLY, hdr.tag + 1, 0), "hello", 5));
    } else {
        CHECK(43 == hdr.tag && 5 == len && 0 == memcmp(data, "hello", 5));
        passive->replies++;
    }
}

static void passive_body(world_t *world)
{
    passive_t passive = {0};

    fab_set_handler(world->fab, AM_DATA, passive_arrived, &passive);
    fab_set_handler(world->fab, AM_REPLY, passive_arrived, &passive);
    world_barrier(world);
    if (0 == world->rank) {
        fab_peer_t *peer = partner(world);
        fab_lock(world->fab);
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 42, 0), NULL, 0));
        fab_unlock(world->fab);
        WORLD_UNTIL(1 == passive.replies);
    } else {
        WORLD_UNTIL(NULL != passive.from);
        CHECK(passive.from->name == world_name(0) && passive.from->eager_max >= 304);
        CHECK(passive.from == fab_peer_find(world->fab, world_name(0)));
        CHECK(passive.from == world_peer(world, 0));
    }
    world_barrier(world);
}

/* ---- closing and opening again ------------------------------------------ */

static void count_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) peer, (void) hdr, (void) data, (void) len;
    ++*(int *) ctx;
}

enum { REOPENS = 20 };

static void reopen_body(world_t *world)
{
    int got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    for (int i = 0; i < REOPENS; i++) {
        if (0 == world->rank) {
            for (int k = 0; k < 100; k++) {
                CHECK(OPAL_SUCCESS == fab_post(partner(world), fab_hdr(AM_DATA, 0, 0), NULL, 0));
            }
            WORLD_UNTIL(NULL == partner(world)->pending);
            fab_peer_close(partner(world), FAB_USER_PML);
            world->peers[partner(world) == world->peers[1] ? 1 : 0] = NULL;
            /* on shm at once, as it never sent */
            WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        } else {
            WORLD_UNTIL(100 * (i + 1) == got); /* all that was sent before it was closed */
        }
        world_barrier(world);
    }
    CHECK(0 == world->failures);
}

/* ---- a message that nobody expects -------------------------------------- */

static void unknown_body(world_t *world)
{
    fab_peer_t *peer = partner(world);

    if (0 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_NONE, 0, 0), NULL, 0));
        /* the other takes nothing any more, which is noticed when the ring is full */
        if (world->size > 1) {
            int rc;
            while (OPAL_ERR_UNREACH != (rc = fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0))) {
                CHECK(OPAL_SUCCESS == rc || OPAL_ERR_RESOURCE_BUSY == rc);
                world_progress(world);
            }
        }
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(FAB_PEER_FAILED == peer->state && world->failed == peer);
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    CHECK(NULL == fab_reserve(peer, 8));
    CHECK(OPAL_ERR_UNREACH == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    fab_rma_t op = {.peer = peer, .complete = rma_complete};
    CHECK(OPAL_ERR_UNREACH == fab_get(&op));
    for (int i = 0; i < 10000; i++) {
        world_progress(world);
    }
    CHECK(1 == world->failures);
    world_barrier(world);
}

/* ---- two users of one process ------------------------------------------- */

enum { AM_BTL_DATA = 17, AM_BTL_LAST = 18, KEPT = 500 };

typedef struct second {
    world_t *world;
    uint64_t got;
    uint64_t pml_got;
    bool is_last;
    int failures;
} second_t;

static void second_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    second_t *second = ctx;

    (void) peer, (void) rc, (void) why;
    second->failures++;
}

static void second_open(world_t *world, second_t *second)
{
    fab_config_t config = {.user = FAB_USER_BTL,
                           .name = world_name(world->rank),
                           .num_local = (uint32_t) world->size,
                           .is_threaded = world->fab->is_threaded,
                           .ctx = second,
                           .peer_failed = second_failed};
    const char *why = "";
    fab_t *fab = NULL;

    CHECK(OPAL_SUCCESS == fab_open(&config, &fab, &why));
    CHECK(fab == world->fab);
    CHECK(OPAL_ERR_BAD_PARAM == fab_open(&config, &fab, &why) && NULL != strstr(why, "twice"));
}

static fab_peer_t *second_peer(world_t *world)
{
    int rank = world->size > 1 ? world->rank ^ 1 : 0;
    const char *why = "";
    fab_peer_t *peer = NULL;

    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_peer_open(world->fab, FAB_USER_BTL, world_name(rank),
                                        world->shared->address[rank], world->shared->len[rank],
                                        &peer, &why));
    fab_unlock(world->fab);
    return peer;
}

static void second_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    second_t *second = ctx;
    world_t *world = second->world;

    CHECK(peer == partner(world) && hdr.tag == second->got);
    CHECK(len == hdr.tag % 200 && world_is_filled(data, hdr.tag, len));
    CHECK(0 == ((uintptr_t) data & 7));
    second->got++;
    second->is_last = AM_BTL_LAST == hdr.id;
}

static void first_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    second_t *second = ctx;

    (void) peer, (void) hdr, (void) data, (void) len;
    second->pml_got++;
}

static void second_post(world_t *world, fab_peer_t *peer, uint8_t id, uint64_t seq)
{
    unsigned char buf[256];

    world_fill(buf, seq, seq % 200);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(id, seq, 0), buf, seq % 200));
    fab_unlock(world->fab);
}

/*
 * Messages for the second user come before it opens, before it starts, and after: all arrive, in
 * order; those of the first are not held up by it. Each has its own pointer in the record.
 */
static void users_body(world_t *world)
{
    second_t second = {.world = world};
    fab_peer_t *peer = partner(world);
    uint64_t seq = 0;

    fab_set_handler(world->fab, AM_DATA, first_arrived, &second);
    fab_set_handler(world->fab, AM_BTL_DATA, second_arrived, &second);
    fab_set_handler(world->fab, AM_BTL_LAST, second_arrived, &second);
    world_barrier(world);
    for (int part = 0; part < 3; part++) {
        if (1 == part) {
            second_open(world, &second);
            CHECK(peer == second_peer(world));
        }
        while (seq < KEPT * (uint64_t) (part + 1) - 1) {
            second_post(world, peer, AM_BTL_DATA, seq++);
        }
        second_post(world, peer, 2 == part ? AM_BTL_LAST : AM_BTL_DATA, seq++);
        second_post(world, peer, AM_DATA, 0);
        WORLD_UNTIL(second.pml_got == (uint64_t) part + 1);
        CHECK((part < 2) == (0 == second.got));
        world_barrier(world);
        if (1 == part) {
            CHECK(fab_counters.early_messages == 2 * KEPT);
            fab_lock(world->fab);
            fab_start(world->fab, FAB_USER_BTL);
            fab_unlock(world->fab);
            CHECK(2 * KEPT == second.got);
        }
        world_barrier(world);
    }
    CHECK(second.is_last && 3 * KEPT == second.got && 2 * KEPT == fab_counters.early_messages);
    peer->user[FAB_USER_PML] = world;
    peer->user[FAB_USER_BTL] = &second;
    world_barrier(world);
    fab_close(world->fab, FAB_USER_BTL);
    CHECK(world == peer->user[FAB_USER_PML] && NULL == peer->user[FAB_USER_BTL]);
    world_barrier(world);
    second_post(world, peer, AM_BTL_DATA, 0); /* for nobody: dropped */
    second_post(world, peer, AM_DATA, 0);
    WORLD_UNTIL(4 == second.pml_got);
    CHECK(3 * KEPT == second.got && 1 == fab_counters.late_messages && 0 == world->failures);
    world_barrier(world);
}

/* A peer that one user has closed stays open for the other, and is closed when both have. */
static void users_close_body(world_t *world)
{
    second_t second = {.world = world};
    fab_peer_t *peer = partner(world);

    fab_set_handler(world->fab, AM_DATA, first_arrived, &second);
    fab_set_handler(world->fab, AM_BTL_DATA, second_arrived, &second);
    second_open(world, &second);
    fab_start(world->fab, FAB_USER_BTL);
    world_barrier(world);
    CHECK(peer == second_peer(world) && peer == second_peer(world));
    fab_lock(world->fab);
    fab_peer_close(peer, FAB_USER_PML);
    fab_peer_close(peer, FAB_USER_PML);
    fab_unlock(world->fab);
    CHECK(FAB_PEER_UP == peer->state && peer == fab_peer_find(world->fab, peer->name));
    second_post(world, peer, AM_BTL_DATA, 0);
    WORLD_UNTIL(1 == second.got);
    world_barrier(world);
    uint64_t name = peer->name;
    fab_lock(world->fab);
    fab_peer_close(peer, FAB_USER_BTL);
    fab_unlock(world->fab);
    WORLD_UNTIL(NULL == fab_peer_find(world->fab, name));
    world->peers[world->size > 1 ? world->rank ^ 1 : 0] = NULL;
    world_barrier(world);
    fab_close(world->fab, FAB_USER_BTL);
}

static int users_item(fab_item_t *item, fab_peer_t *peer)
{
    int rc = fab_item_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);

    if (OPAL_ERR_RESOURCE_BUSY != rc) {
        free(item);
    }
    return OPAL_ERR_RESOURCE_BUSY == rc ? rc : OPAL_SUCCESS;
}

/* What a user that leaves has queued is forgotten; what the other has, and what is posted, is not. */
static void users_items_body(world_t *world)
{
    second_t second = {.world = world};
    static fab_item_t forgotten[3];
    fab_peer_t *peer = partner(world);

    fab_set_handler(world->fab, AM_DATA, first_arrived, &second);
    second_open(world, &second);
    world_barrier(world);
    fab_lock(world->fab);
    for (int i = 0; i < 3; i++) {
        fab_item_t *item = malloc(sizeof(*item));
        forgotten[i] = (fab_item_t){.fn = NULL, .user = FAB_USER_BTL};
        *item = (fab_item_t){.fn = users_item, .user = FAB_USER_PML};
        fab_queue(peer, &forgotten[i]);
        fab_queue(peer, item);
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    fab_unlock(world->fab);
    fab_close(world->fab, FAB_USER_BTL);
    WORLD_UNTIL(6 == second.pml_got);
    CHECK(NULL == peer->pending);
    world_barrier(world);
}

/* A failure is told to each user that has not closed the peer. */
static void users_failed_body(world_t *world)
{
    second_t second = {.world = world};
    fab_peer_t *peer = partner(world);

    second_open(world, &second);
    fab_start(world->fab, FAB_USER_BTL);
    world_barrier(world);
    (void) second_peer(world);
    if (0 == world->rank) {
        fab_lock(world->fab);
        fab_peer_fail(peer, OPAL_ERR_UNREACH, "The test wants it.");
        fab_unlock(world->fab);
        WORLD_UNTIL(1 == world->failures && 1 == second.failures);
    } else {
        fab_lock(world->fab);
        fab_peer_close(peer, FAB_USER_BTL);
        fab_peer_fail(peer, OPAL_ERR_UNREACH, "The test wants it.");
        fab_unlock(world->fab);
        WORLD_UNTIL(1 == world->failures);
        CHECK(0 == second.failures);
    }
    world_barrier(world);
    fab_close(world->fab, FAB_USER_BTL);
}

/* More than can be kept fails the sender, and is told. */
static void users_flood_body(world_t *world)
{
    static unsigned char buf[256];
    fab_peer_t *peer = partner(world);

    world_barrier(world);
    for (size_t bytes = 0; bytes <= 32 << 20 && 0 == world->failures; bytes += sizeof(buf)) {
        fab_lock(world->fab);
        int rc = fab_post(peer, fab_hdr(AM_BTL_DATA, 0, 0), buf, sizeof(buf));
        fab_unlock(world->fab);
        CHECK(OPAL_SUCCESS == rc || OPAL_ERR_UNREACH == rc);
        if (0 == bytes % 65536) {
            world_progress(world);
        }
    }
    WORLD_UNTIL(1 == world->failures);
    world_barrier(world);
}

/* A region exposed for any peer is read and written through its one key. */
static void region_body(world_t *world)
{
    rma_t rma = {.status = 0};
    enum { LEN = 1 << 20 };
    unsigned char *exposed = malloc(LEN), *local = malloc(LEN);
    struct {
        uint64_t at;
        fab_region_t region;
    } mine = {.at = (uint64_t) (uintptr_t) exposed}, theirs;

    rma_test = &rma;
    world_fill(exposed, 5, LEN);
    fab_lock(world->fab);
    fab_expose_any(world->fab, exposed, LEN, &mine.region);
    fab_unlock(world->fab);
    memcpy((void *) (uintptr_t) &world->shared->scratch[64 * world->rank], &mine, sizeof(mine));
    world_barrier(world);
    memcpy(
        &theirs,
        (void *) (uintptr_t) &world->shared->scratch[64 * (world->size > 1 ? world->rank ^ 1 : 0)],
        sizeof(theirs));
    CHECK(fab_region_is_reachable(&theirs.region, partner(world)) ==
          (0 != (partner(world)->caps & FAB_CAP_GET)));
    if (0 == (partner(world)->caps & FAB_CAP_GET)) {
        free(exposed);
        free(local);
        return;
    }
    fab_rma_t op = {.peer = partner(world),
                    .local = local,
                    .remote = theirs.at,
                    .len = LEN,
                    .rkey = theirs.region.rkey,
                    .complete = rma_complete};
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    fab_unlock(world->fab);
    WORLD_UNTIL(1 == rma.completed);
    CHECK(OPAL_SUCCESS == rma.status && world_is_filled(local, 5, LEN));
    world_barrier(world);
    world_fill(local, 9, LEN);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_put(&op));
    fab_unlock(world->fab);
    WORLD_UNTIL(2 == rma.completed);
    world_barrier(world);
    CHECK(world_is_filled(exposed, 9, LEN)); /* what has completed there is here */
    fab_lock(world->fab);
    fab_unexpose_any(world->fab, &mine.region);
    fab_unlock(world->fab);
    CHECK(!fab_region_is_reachable(&mine.region, partner(world)));
    free(exposed);
    free(local);
}

/* ---- from memory to its place -------------------------------------------- */

enum { OUTS = 400 };

typedef struct outs {
    world_t *world;
    unsigned char *from; /* FAB_FRAGMENT_MAX + 64 bytes each */
    unsigned char *to;
    uint64_t sent; /* handed over */
    uint64_t out;  /* completed */
    uint64_t got;  /* fragments and short messages, in order */
    int places;    /* given */
    bool is_busy;
    fab_out_t send;
    fab_item_t item;
} outs_t;

/* Every third is short, and goes by the usual way; others have all lengths up to the longest. */
static size_t outs_len(uint64_t seq)
{
    uint64_t x = seq * UINT64_C(0x9e3779b97f4a7c15) >> 40;

    return 2 == seq % 3   ? x % 100
           : 1 == seq % 9 ? FAB_FRAGMENT_MAX - x % 9
                          : 1 + x % FAB_FRAGMENT_MAX;
}

static void *outs_place(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    outs_t *outs = ctx;
    world_t *world = outs->world;

    CHECK(peer == partner(world) && hdr.tag == outs->got && len == outs_len(hdr.tag));
    outs->places++;
    return outs->to + hdr.tag % 8;
}

static void outs_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    outs_t *outs = ctx;
    world_t *world = outs->world;

    (void) peer;
    CHECK(hdr.tag == outs->got && len == outs_len(hdr.tag));
    CHECK(world_is_filled(data, hdr.tag, len));
    CHECK(data == outs->to + hdr.tag % 8 || 0 == ((uintptr_t) data & 7));
    outs->got++;
}

static void outs_complete(fab_out_t *out, int status)
{
    outs_t *outs = (outs_t *) ((char *) out - offsetof(outs_t, send));
    world_t *world = outs->world;

    CHECK(OPAL_SUCCESS == status && outs->is_busy);
    memset(outs->from, 0xee, FAB_FRAGMENT_MAX + 64); /* it is this process's again */
    outs->is_busy = false;
    outs->out++;
}

static int outs_item(fab_item_t *item, fab_peer_t *peer)
{
    outs_t *outs = (outs_t *) ((char *) item - offsetof(outs_t, item));
    fab_hdr_t hdr = fab_hdr(AM_DATA, outs->sent, 0);
    size_t len = outs_len(outs->sent);
    unsigned char buf[100];
    int rc;

    if (2 == outs->sent % 3) {
        world_fill(buf, outs->sent, len);
        rc = fab_item_send(peer, hdr, buf, len);
    } else {
        if (!outs->is_busy) {
            outs->send.buf = outs->from + outs->sent % 5;
            outs->send.len = len;
            outs->send.complete = outs_complete;
            world_fill(outs->from + outs->sent % 5, outs->sent, len);
        }
        rc = outs->is_busy ? OPAL_ERR_RESOURCE_BUSY : fab_item_send_from(peer, hdr, &outs->send);
        outs->is_busy = outs->is_busy || OPAL_SUCCESS == rc;
    }
    outs->sent += OPAL_SUCCESS == rc;
    return OPAL_SUCCESS == rc && outs->sent < OUTS ? OPAL_ERR_IN_PROCESS : rc;
}

static void outs_body(world_t *world)
{
    outs_t outs = {.world = world, .item = {.fn = outs_item, .user = FAB_USER_PML}};

    if (!fab_peer_has_places(partner(world))) {
        CHECK(0 != strcmp(fab_peer_provider_name(partner(world)), "tcp"));
        return;
    }
    outs.from = malloc(FAB_FRAGMENT_MAX + 64);
    outs.to = malloc(FAB_FRAGMENT_MAX + 64);
    fab_set_handler(world->fab, AM_DATA, outs_arrived, &outs);
    fab_set_place(world->fab, AM_DATA, outs_place, &outs);
    world_barrier(world);
    fab_lock(world->fab);
    fab_queue(partner(world), &outs.item);
    fab_unlock(world->fab);
    WORLD_UNTIL(OUTS == outs.got && OUTS == outs.sent && !outs.is_busy);
    CHECK(OUTS - OUTS / 3 == outs.out && outs.places > OUTS / 4);
    world_barrier(world);
    CHECK(0 == world->failures);
    free(outs.from);
    free(outs.to);
}

/* ---- nested messages to oneself ----------------------------------------- */

static void nested_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    world_t *world = peer->fab->config.ctx;
    int *deepest = ctx;

    if (hdr.tag < 20) {
        void *room = fab_reserve(peer, 4096);
        CHECK(NULL != room);
        world_fill(room, hdr.tag + 1, 4096);
        fab_commit(peer, fab_hdr(AM_DATA, hdr.tag + 1, 0), 4096);
    }
    CHECK(world_is_filled(data, hdr.tag, len)); /* still intact */
    *deepest = (int) hdr.tag > *deepest ? (int) hdr.tag : *deepest;
}

static void nested_body(world_t *world)
{
    unsigned char buf[4096];
    int deepest = 0;

    fab_set_handler(world->fab, AM_DATA, nested_arrived, &deepest);
    world_fill(buf, 0, sizeof(buf));
    CHECK(OPAL_SUCCESS == fab_send(partner(world), fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf)));
    CHECK(20 == deepest);
}

/* ---- several threads ---------------------------------------------------- */

enum { THREADS = 3, THREAD_POSTS = 5000 };

typedef struct threads {
    world_t *world;
    _Atomic int next_id;
    uint64_t got[THREADS];
    _Atomic int total;
} threads_t;

static void threads_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    threads_t *threads = ctx;
    world_t *world = peer->fab->config.ctx;

    /* in order for each thread */
    CHECK(hdr.app_ctx < THREADS && hdr.tag == threads->got[hdr.app_ctx]);
    CHECK(len == hdr.tag % 200 && world_is_filled(data, hdr.tag, len));
    threads->got[hdr.app_ctx]++;
    atomic_fetch_add(&threads->total, 1);
}

static void *threads_main(void *arg)
{
    threads_t *threads = arg;
    world_t *world = threads->world;
    uint32_t id = (uint32_t) atomic_fetch_add(&threads->next_id, 1);
    unsigned char buf[256];

    for (uint64_t seq = 0; seq < THREAD_POSTS; seq++) {
        world_fill(buf, seq, seq % 200);
        fab_lock(world->fab);
        int rc = fab_post(world->peers[world->rank ^ (world->size > 1)], fab_hdr(AM_DATA, seq, id),
                          buf, seq % 200);
        fab_unlock(world->fab);
        CHECK(OPAL_SUCCESS == rc);
        if (fab_trylock(world->fab)) {
            fab_progress(world->fab);
            fab_unlock(world->fab);
        }
    }
    WORLD_UNTIL(THREADS * THREAD_POSTS == atomic_load(&threads->total));
    return NULL;
}

static void threads_body(world_t *world)
{
    threads_t threads = {.world = world};
    pthread_t ids[THREADS];

    fab_set_handler(world->fab, AM_DATA, threads_arrived, &threads);
    world_barrier(world);
    (void) partner(world);
    for (int i = 0; i < THREADS; i++) {
        CHECK(0 == pthread_create(&ids[i], NULL, threads_main, &threads));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    world_barrier(world);
}

/* ---- many --------------------------------------------------------------- */

enum { MANY_MESSAGES = 50 };

static void many_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint32_t *got = ctx;
    world_t *world = peer->fab->config.ctx;
    uint32_t from = (uint32_t) peer->name;

    CHECK(from < WORLD_MAX && hdr.tag == got[from] && hdr.app_ctx == from);
    CHECK(world_is_filled(data, from + hdr.tag, len));
    got[from]++;
}

static void many_body(world_t *world)
{
    uint32_t got[WORLD_MAX] = {0};
    unsigned char buf[256];
    int complete = 0;

    fab_set_handler(world->fab, AM_DATA, many_arrived, got);
    world_barrier(world);
    for (uint32_t seq = 0; seq < MANY_MESSAGES; seq++) {
        for (int i = 1; i <= world->size; i++) {
            int to = (world->rank + i) % world->size;
            size_t len = (seq * 13 + (unsigned) to) % 256;
            world_fill(buf, (uint64_t) world->rank + seq, len);
            fab_peer_t *peer = world_peer(world, to);
            fab_lock(world->fab);
            CHECK(OPAL_SUCCESS ==
                  fab_post(peer, fab_hdr(AM_DATA, seq, (uint32_t) world->rank), buf, len));
            fab_unlock(world->fab);
        }
        world_progress(world);
    }
    do {
        world_progress(world);
        complete = 0;
        for (int i = 0; i < world->size; i++) {
            complete += MANY_MESSAGES == got[i];
        }
    } while (complete < world->size);
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* ---- who has what he waits for takes no more ---------------------------- */

enum { ENOUGH_MESSAGES = 100 };

typedef struct enough {
    uint32_t got[3]; /* by sender */
    uint32_t last;   /* its sender */
} enough_t;

static void enough_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    enough_t *enough = ctx;

    (void) hdr, (void) data, (void) len;
    enough->last = (uint32_t) peer->name;
    enough->got[enough->last % 3]++;
    peer->fab->must_return = true;
}

/* Ranks 1 and 2 send, rank 0 sleeps until all of it is there; then each poll gives it one message. */
static void enough_body(world_t *world)
{
    enough_t enough = {.last = 0};
    _Atomic uint64_t *sent = &world->shared->scratch[0];

    fab_set_handler(world->fab, AM_DATA, enough_arrived, &enough);
    world_barrier(world);
    for (uint32_t i = 0; 0 != world->rank && i < ENOUGH_MESSAGES; i++) {
        CHECK(OPAL_SUCCESS == fab_post(world_peer(world, 0), fab_hdr(AM_DATA, i, 0), NULL, 0));
        if (0 == i) {
            atomic_fetch_add(sent, 1);
            WORLD_UNTIL(atomic_load(sent) >= 3);
        }
    }
    if (0 != world->rank) {
        atomic_fetch_add(sent, 1);
    } else {
        WORLD_UNTIL(1 == enough.got[1] && 1 == enough.got[2]); /* both are polled */
        atomic_fetch_add(sent, 1);
        while (atomic_load(sent) < 5) {
            usleep(1000);
        }
        for (uint32_t i = 2; i < 2 * ENOUGH_MESSAGES; i++) {
            uint32_t last = enough.last;
            CHECK(1 == (i % 2 ? fab_poll(world->fab) : fab_progress(world->fab)));
            CHECK(last != enough.last);
        }
        CHECK(ENOUGH_MESSAGES == enough.got[1] && ENOUGH_MESSAGES == enough.got[2]);
    }
    world_barrier(world);
}

/* ---- the table: every test, every provider, both thread levels ---------- */

static void run_all(world_fn_t fn)
{
    assert_int_equal(world_run(1, false, fn), 0);
    assert_int_equal(world_run(1, true, fn), 0);
    assert_int_equal(world_run(2, false, fn), 0);
    assert_int_equal(world_run(2, true, fn), 0);
}

#define TEST_ALL(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void) state;                                                                              \
        run_all(name##_body);                                                                      \
    }

TEST_ALL(order)
TEST_ALL(post)
TEST_ALL(items)
TEST_ALL(rma)
TEST_ALL(outs)
TEST_ALL(users)
TEST_ALL(users_close)
TEST_ALL(users_items)
TEST_ALL(region)

static void test_users_failed(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, users_failed_body), 0);
    assert_int_equal(world_run(2, true, users_failed_body), 0);
}

static void test_users_flood(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, users_flood_body), 0);
    assert_int_equal(world_run(2, false, users_flood_body), 0);
}

static void test_passive(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, passive_body), 0);
    assert_int_equal(world_run(2, true, passive_body), 0);
}

static void test_reopen(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, reopen_body), 0);
}

static void test_unknown(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, unknown_body), 0);
    assert_int_equal(world_run(2, false, unknown_body), 0);
}

static void test_nested(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, nested_body), 0);
}

static void test_threads(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, true, threads_body), 0);
    assert_int_equal(world_run(2, true, threads_body), 0);
}

static void test_many(void **state)
{
    (void) state;
    assert_int_equal(world_run(32, false, many_body), 0);
}

/* Of shm: elsewhere it is a hint. */
static void test_enough(void **state)
{
    char *providers = fab_params.providers;

    (void) state;
    fab_params.providers = "shm";
    assert_int_equal(world_run(3, false, enough_body), 0);
    fab_params.providers = providers;
}

/* The same with room for a few messages only, which is used up all the time. */
static void test_tight(void **state)
{
    (void) state;
    fab_params.shm_ring_size = 4096;
    fab_params.verbs_window = 4;
    fab_params.verbs_buffers = 128;
    assert_int_equal(world_run(2, false, order_body), 0);
    assert_int_equal(world_run(2, false, post_body), 0);
    assert_int_equal(world_run(2, false, items_body), 0);
    fab_params.shm_ring_size = 0;
    fab_params.verbs_window = 64;
    fab_params.verbs_buffers = 4096;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_post),
        cmocka_unit_test(test_items),       cmocka_unit_test(test_rma),
        cmocka_unit_test(test_passive),     cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_unknown),     cmocka_unit_test(test_nested),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_many),
        cmocka_unit_test(test_outs),        cmocka_unit_test(test_tight),
        cmocka_unit_test(test_users),       cmocka_unit_test(test_users_close),
        cmocka_unit_test(test_users_items), cmocka_unit_test(test_users_failed),
        cmocka_unit_test(test_users_flood), cmocka_unit_test(test_region),
        cmocka_unit_test(test_enough),
    };

#ifdef WORLD_PROVIDERS
    world_use_providers(WORLD_PROVIDERS);
#endif
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
