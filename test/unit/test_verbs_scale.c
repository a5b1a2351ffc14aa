/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What many peers cost the verbs provider: memory of a thousand to a million that are known,
 * measured, and with it that of their connections, by calculation: doc/verbs.md, "Memory", has the
 * numbers. Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=plain cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=120 quick=no
 */
#include "test_verbs_world.h"

#include <malloc.h>

#include "fabric/fab_wire.h"
#include "verbs/verbs.h"

enum {
    MOST = 1000000,
    HOST_IPS = 4,         /* of each host */
    KNOWN_BYTES = 832,    /* of memory for one that is known: 64 of them its record */
    FIRST_BYTES = 131072, /* for the first of them: chunks of records, the table of names */
    BOUND = 256,          /* verbs_max_connections */
    /* of mlx5, for the operations that are used: an entry of the send queue; and its tables, 16
     * bytes for each 64 */
    ENTRY = 256,
    TABLES = ENTRY / 64 * 16,
    CONNECTION_KIB = 44, /* at most, with the longest queue */
};

static size_t memory(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* The address of rank 0, with this name, as that of another process. */
static size_t address_of(const world_t *world, uint64_t name, unsigned char *address)
{
    fab_wire_head_t head;
    size_t len;

    memcpy(address, world->shared->address[0], world->shared->len[0]);
    memcpy(&head, address, sizeof(head));
    head.name = name;
    memcpy(address, &head, sizeof(head));
    unsigned char *verbs = (unsigned char *) (uintptr_t) fab_address_section(address,
                                                                             FAB_WIRE_VERBS, &len);
    fab_verbs_addr_t addr = {0};
    memcpy(&addr, verbs, len);
    memcpy(addr.key, &name, sizeof(name));
    addr.num_ips = HOST_IPS;
    addr.lid = (uint16_t) (1 + name % 49151);
    memcpy(verbs, &addr, len);
    return world->shared->len[0];
}

/* Bytes of a connection, in a job of so many processes. */
static size_t connection(fab_verbs_domain_t *dom, uint32_t num_procs)
{
    size_t depth;

    dom->fab->config.num_procs = num_procs;
    depth = fab_verbs_sq_depth(dom);
    return sizeof(fab_verbs_conn_t) + depth * (sizeof(fab_verbs_wqe_t) + ENTRY + TABLES);
}

static void scale_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world);
    unsigned char address[FAB_ADDRESS_MAX];
    const char *why = "";
    size_t before = memory();
    fab_peer_t *peer;
    uint32_t known = 0;

    CHECK(connection(dom, 2) <= 1024 * CONNECTION_KIB);
    for (uint32_t peers = 1000; peers <= MOST; peers *= 10) {
        for (; known < peers; known++) {
            uint64_t name = UINT64_C(9) << 32 | known;
            size_t len = address_of(world, name, address);
            CHECK(OPAL_SUCCESS ==
                  fab_peer_open(world->fab, FAB_USER_PML, name, address, len, &peer, &why));
        }
        size_t bytes = memory() - before;
        fab_params.verbs_max_connections = 0;
        size_t all = bytes + peers * connection(dom, peers);
        fab_params.verbs_max_connections = BOUND;
        size_t few = bytes + BOUND * connection(dom, peers);
        printf("%u peers: %zu bytes each; with connections to all %.1f MiB, to %d %.1f MiB\n",
               peers, bytes / peers, (double) all / 1048576, BOUND, (double) few / 1048576);
        fflush(stdout);
        CHECK(bytes < FIRST_BYTES + (size_t) peers * KNOWN_BYTES);
    }
}

static void test_scale(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, scale_body), 0);
}

/* No sanitizer: its memory would be counted too. */
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scale)};

    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
