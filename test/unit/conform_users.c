/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conformance of a provider: two users of one process. See conform.h.
 */
#include "conform.h"

enum { AM_BTL_DATA = FAB_AM_BTL + 1, AM_BTL_LAST = FAB_AM_BTL + 2, KEPT = 500 };

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

    CHECK(peer == conform_partner(world) && hdr.tag == second->got);
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
void conform_users(world_t *world)
{
    second_t second = {.world = world};
    fab_peer_t *peer = conform_partner(world);
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
            fab_lock(world->fab);
            fab_start(world->fab, FAB_USER_BTL);
            fab_unlock(world->fab);
            CHECK(2 * KEPT == second.got);
        }
        world_barrier(world);
    }
    CHECK(second.is_last && 3 * KEPT == second.got);
    peer->user[FAB_USER_PML] = world;
    peer->user[FAB_USER_BTL] = &second;
    world_barrier(world);
    fab_close(world->fab, FAB_USER_BTL);
    CHECK(world == peer->user[FAB_USER_PML] && NULL == peer->user[FAB_USER_BTL]);
    world_barrier(world);
    second_post(world, peer, AM_BTL_DATA, 0); /* for nobody: dropped */
    second_post(world, peer, AM_DATA, 0);
    WORLD_UNTIL(4 == second.pml_got);
    CHECK(3 * KEPT == second.got && 0 == world->failures);
    world_barrier(world);
}

/* A peer that one user has closed stays open for the other, and is closed when both have. */
void conform_users_close(world_t *world)
{
    second_t second = {.world = world};
    fab_peer_t *peer = conform_partner(world);

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

/*
 * What a user that leaves has queued is forgotten; what the other has, and what is posted, is not.
 */
void conform_users_items(world_t *world)
{
    second_t second = {.world = world};
    static fab_item_t forgotten[3];
    fab_peer_t *peer = conform_partner(world);

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
        post(world, peer);
    }
    fab_unlock(world->fab);
    fab_close(world->fab, FAB_USER_BTL);
    /* All of the peer's may be here before the last of ours could be sent. */
    WORLD_UNTIL(6 == second.pml_got && NULL == peer->pending);
    world_barrier(world);
}

/* A failure is told to each user that has not closed the peer. */
void conform_users_failed(world_t *world)
{
    second_t second = {.world = world};
    fab_peer_t *peer = conform_partner(world);

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
void conform_users_flood(world_t *world)
{
    static unsigned char buf[256];
    fab_peer_t *peer = conform_partner(world);

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
