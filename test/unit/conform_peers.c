/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conformance of a provider: peers that come, go and fail, many of them, several threads. See
 * conform.h.
 */
#include "conform.h"

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

void conform_passive(world_t *world)
{
    passive_t passive = {0};

    fab_set_handler(world->fab, AM_DATA, passive_arrived, &passive);
    fab_set_handler(world->fab, AM_REPLY, passive_arrived, &passive);
    world_barrier(world);
    if (0 == world->rank) {
        fab_peer_t *peer = conform_partner(world);
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

enum { REOPENS = 20 };

void conform_reopen(world_t *world)
{
    world_barrier(world);
    for (int i = 0; i < REOPENS; i++) {
        if (0 == world->rank) {
            for (int k = 0; k < 100; k++) {
                post(world, conform_partner(world));
            }
            WORLD_UNTIL(NULL == conform_partner(world)->pending);
            fab_peer_close(conform_partner(world), FAB_USER_PML);
            world->peers[conform_partner(world) == world->peers[1] ? 1 : 0] = NULL;
            /* on shm at once, as it never sent */
            WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        } else {
            WORLD_UNTIL(100u * (unsigned) (i + 1) ==
                        world->got); /* all that was sent before it was closed */
        }
        world_barrier(world);
    }
    CHECK(0 == world->failures);
}

/* ---- a message that nobody expects -------------------------------------- */

void conform_unknown(world_t *world)
{
    fab_peer_t *peer = conform_partner(world);

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
    fab_rma_t op = {.peer = peer};
    CHECK(OPAL_ERR_UNREACH == fab_get(&op));
    for (int i = 0; i < 10000; i++) {
        world_progress(world);
    }
    CHECK(1 == world->failures);
    world_barrier(world);
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

void conform_threads(world_t *world)
{
    threads_t threads = {.world = world};
    pthread_t ids[THREADS];

    fab_set_handler(world->fab, AM_DATA, threads_arrived, &threads);
    world_barrier(world);
    (void) conform_partner(world);
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

void conform_many(world_t *world)
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
