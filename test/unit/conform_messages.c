/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conformance of a provider: messages, by every way to send them. See conform.h.
 */
#include "conform.h"

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

    CHECK(peer == conform_partner(world));
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

void conform_order(world_t *world)
{
    order_t order = {.world = world, .item.fn = order_run_item};

    fab_set_handler(world->fab, AM_DATA, order_arrived, &order);
    world_barrier(world);
    fab_peer_t *peer = conform_partner(world);
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

void conform_post(world_t *world)
{
    unsigned char buf[256];
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, post_arrived, &got);
    world_barrier(world);
    fab_peer_t *peer = conform_partner(world);
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
void conform_items(world_t *world)
{
    items_t items = {.last = 99};

    fab_set_handler(world->fab, AM_DATA, items_arrived, &items);
    world_barrier(world);
    fab_peer_t *peer = conform_partner(world);
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
    WORLD_UNTIL(NULL == conform_partner(world)->pending);
    world_barrier(world);
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

    CHECK(peer == conform_partner(world) && hdr.tag == outs->got && len == outs_len(hdr.tag));
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
            unsigned char *from = outs->from + outs->sent % 5;
            size_t head_len = outs->sent % 4 * FAB_OUT_HEAD_MAX / 3;
            world_fill(from, outs->sent, len);
            outs->send.head_len = head_len < len ? head_len : 0;
            outs->send.head = buf;
            outs->send.buf = from + outs->send.head_len;
            outs->send.len = len - outs->send.head_len;
            outs->send.complete = outs_complete;
            memcpy(buf, from, outs->send.head_len); /* of this call only */
            memset(from, 0xee, outs->send.head_len);
        }
        rc = outs->is_busy ? OPAL_ERR_RESOURCE_BUSY : fab_item_send_from(peer, hdr, &outs->send);
        outs->is_busy = outs->is_busy || OPAL_SUCCESS == rc;
    }
    outs->sent += OPAL_SUCCESS == rc;
    return OPAL_SUCCESS == rc && outs->sent < OUTS ? OPAL_ERR_IN_PROCESS : rc;
}

void conform_outs(world_t *world)
{
    outs_t outs = {.world = world, .item = {.fn = outs_item, .user = FAB_USER_PML}};

    if (!fab_peer_has_places(conform_partner(world))) {
        CHECK(0 != strcmp(fab_peer_provider_name(conform_partner(world)), "tcp"));
        return;
    }
    outs.from = malloc(FAB_FRAGMENT_MAX + 64);
    outs.to = malloc(FAB_FRAGMENT_MAX + 64);
    fab_set_handler(world->fab, AM_DATA, outs_arrived, &outs);
    fab_set_place(world->fab, AM_DATA, outs_place, &outs);
    world_barrier(world);
    fab_lock(world->fab);
    fab_queue(conform_partner(world), &outs.item);
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

void conform_nested(world_t *world)
{
    unsigned char buf[4096];
    int deepest = 0;

    fab_set_handler(world->fab, AM_DATA, nested_arrived, &deepest);
    world_fill(buf, 0, sizeof(buf));
    CHECK(OPAL_SUCCESS ==
          fab_send(conform_partner(world), fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf)));
    CHECK(20 == deepest);
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

/*
 * Ranks 1 and 2 send, rank 0 sleeps until all of it is there; then each poll gives it one message.
 */
void conform_enough(world_t *world)
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
