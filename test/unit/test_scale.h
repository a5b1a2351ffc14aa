/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the cost of many peers share: the memory in use, addresses of processes that
 * there are not, and opening them.
 */
#ifndef TEST_SCALE_H
#define TEST_SCALE_H

#include "test_fab_world.h"

#include <malloc.h>

#include "fabric/fab_core.h"
#include "fabric/fab_wire.h"

static inline size_t memory(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* Names of processes of one job follow each other. */
static inline uint64_t known_name(uint32_t i)
{
    return UINT64_C(9) << 32 | i;
}

/*
 * The address of rank 0 as that of another process.  Copies the provider's section to *section,
 * which is as large as the longest and zeroed; returns where it is to be written, len bytes.
 */
static inline unsigned char *address_begin(const world_t *world, uint32_t i, uint16_t provider,
                                           unsigned char *address, void *section, size_t *len)
{
    const uint64_t name = known_name(i);
    unsigned char *at;

    memcpy(address, world->shared->address[0], world->shared->len[0]);
    memcpy(address + offsetof(fab_wire_head_t, name), &name, sizeof(name));
    at = (unsigned char *) (uintptr_t) fab_address_section(address, provider, len);
    memcpy(section, at, *len);
    return at;
}

/* Writes the address of the i-th process. */
typedef void (*scale_address_fn_t)(const world_t *world, uint32_t i, unsigned char *address);

static inline fab_peer_t *open_known(world_t *world, uint32_t i, scale_address_fn_t address_of)
{
    unsigned char address[FAB_ADDRESS_MAX];
    const char *why = "";
    fab_peer_t *peer;

    address_of(world, i, address);
    CHECK(OPAL_SUCCESS == fab_peer_open(world->fab, FAB_USER_PML, known_name(i), address,
                                        world->shared->len[0], &peer, &why));
    return peer;
}

/* Open num, and find each again: at most so many bytes for one.  The caller frees the list. */
static inline fab_peer_t **open_many(world_t *world, uint32_t num, scale_address_fn_t address_of,
                                     double most)
{
    fab_peer_t **peer = malloc(num * sizeof(fab_peer_t *));
    size_t before = memory();
    double start = world_now(), opened, bytes;

    for (uint32_t i = 0; i < num; i++) {
        peer[i] = open_known(world, i, address_of);
    }
    bytes = (double) (memory() - before) / num;
    opened = world_now();
    for (uint32_t i = 0; i < num; i++) {
        CHECK(peer[i] == fab_peer_find(world->fab, known_name(i)));
    }
    printf("%u known peers: %.0f bytes each; %.2f us to open one, %.3f us to find one\n", num,
           bytes, 1e6 * (opened - start) / num, 1e6 * (world_now() - opened) / num);
    fflush(stdout);
    CHECK(bytes > 64 && bytes < most);
    return peer;
}

#endif /* TEST_SCALE_H */
