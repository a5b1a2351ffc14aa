/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of a provider's failures share: handlers, addresses that are damaged in all ways,
 * crossed requests, and the end of a peer that is needed.
 */
#ifndef TEST_FAB_FAULTS_H
#define TEST_FAB_FAULTS_H

#include "test_fab_world.h"

#include <dirent.h>

/* All close all others and wait until nothing is left of them: what is sent next connects again. */
static inline void close_peers(world_t *world)
{
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

/* All ask all others at the same moment, and close when all have got what was sent. */
static inline void cross_once(world_t *world, uint64_t wanted)
{
    world_barrier(world);
    world_barrier_idle(world); /* nobody asks before all have come here: all ask */
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            post(world, world_peer(world, i));
        }
    }
    WORLD_UNTIL(world->got == wanted);
    close_peers(world);
}

enum { CROSS_TRIES = 50 };

/*
 * All ask all others at the same moment, close, and begin again, so often, and on a busy machine
 * again until it did happen.  crossed: this process's counter of requests that met another on its
 * way.  Returns the number of rounds.
 */
static inline uint64_t cross(world_t *world, uint64_t rounds, const unsigned long long *crossed)
{
    uint64_t round = 0;
    bool is_crossed = false;

    while (!is_crossed && round < CROSS_TRIES * rounds) {
        for (uint64_t i = 0; i < rounds; i++) {
            cross_once(world, ++round * (uint64_t) (world->size - 1));
        }
        atomic_fetch_add(&world->shared->scratch[0], *crossed);
        world_barrier(world);
        is_crossed = atomic_load(&world->shared->scratch[0]) > 0;
        world_barrier(world);
    }
    CHECK(0 == world->failures);
    CHECK(is_crossed);
    return round;
}

/* Of 2 ranks. One that leaves, and is needed, has failed: when all that it sent was delivered. */
static inline void leave_needed_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world->needs_left = true;
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(world->got > 0);
    if (1 == world->rank) {
        for (int i = 0; i < 1000; i++) {
            post(world, peer);
        }
        WORLD_UNTIL(NULL == peer->pending);
        return;
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1001 == world->got && 1 == world->left && OPAL_ERR_UNREACH == world->failed_rc);
    CHECK(NULL != strstr(world->failed_why, "are not complete"));
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
}

static int completed;
static int complete_status;

static inline void rma_complete(fab_rma_t *op, int status)
{
    (void) op;
    completed++;
    complete_status = status;
}

/*
 * Hand out rank 1's address with each byte changed, cut off after each, and with some of its bytes
 * random.
 */
static inline void damage_address(world_t *world,
                                  void (*try_address)(world_t *world, const unsigned char *address,
                                                      size_t len))
{
    static const unsigned char flips[] = {0x01, 0x80, 0xff, 0x10};
    unsigned char address[FAB_ADDRESS_MAX];
    size_t len = world->shared->len[1];

    for (size_t i = 0; i < len; i++) {
        for (size_t f = 0; f < sizeof(flips); f++) {
            memcpy(address, world->shared->address[1], len);
            address[i] ^= flips[f];
            try_address(world, address, len);
        }
        memcpy(address, world->shared->address[1], len);
        try_address(world, address, i);
    }
    srandom(1);
    for (int i = 0; i < 2000; i++) {
        memcpy(address, world->shared->address[1], len);
        for (int k = 0; k < 4; k++) {
            address[(size_t) random() % len] = (unsigned char) random();
        }
        try_address(world, address, len);
    }
}

static inline int count_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (NULL != readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

#endif /* TEST_FAB_FAULTS_H */
