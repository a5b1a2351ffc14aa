/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What many peers cost the verbs provider: memory of a thousand to a million that are known,
 * measured, and with it that of their connections, by calculation: doc/verbs.md, "Memory", has the
 * numbers. Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=plain cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=120 quick=no
 */
#include "test_fab_jobs.h"
#include "test_scale.h"
#include "test_verbs_world.h"

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

static void address_of(const world_t *world, uint32_t i, unsigned char *address)
{
    fab_verbs_addr_t addr = {0};
    size_t len;
    unsigned char *verbs = address_begin(world, i, FAB_WIRE_VERBS, address, &addr, &len);

    memcpy(addr.key, &i, sizeof(i));
    addr.num_ips = HOST_IPS;
    addr.ports[0].lid = (uint16_t) (1 + i % 49151);
    memcpy(verbs, &addr, len);
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
    size_t before = memory();
    uint32_t known = 0;

    CHECK(connection(dom, 2) <= 1024 * CONNECTION_KIB);
    for (uint32_t peers = 1000; peers <= MOST; peers *= 10) {
        for (; known < peers; known++) {
            (void) open_known(world, known, address_of);
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

/* No sanitizer: its memory would be counted too. */
int main(void)
{
    const struct CMUnitTest tests[] = {WORLD_JOB("test_scale", scale_body, .ranks = 1)};

    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
