/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of a provider's failures share: handlers, and addresses that are damaged in all
 * ways.
 */
#ifndef TEST_FAB_FAULTS_H
#define TEST_FAB_FAULTS_H

#include "test_fab_world.h"

#include <dirent.h>

enum { AM_DATA = 9, AM_ADDR = 11 };

/* Handler: counts, in *(uint64_t *) ctx. */
static inline void count_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                 size_t len)
{
    (void) peer, (void) hdr, (void) data, (void) len;
    ++*(uint64_t *) ctx;
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
