/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What many peers cost the tcp provider: memory of a million that are known, of one that is
 * connected and idle, and that each is found again.
 *
 * TEST: sources=@fabric variants=plain timeout=120 quick=no
 */
#include "test_fab_jobs.h"

#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "fabric/fab_core.h"
#include "fabric/fab_wire.h"
#include "tcp/tcp_types.h"

enum {
    KNOWN = 1000000,
    KNOWN_BYTES = 112,      /* of memory for one that is known: 64 of them its record */
    RANKS = 64,             /* of a host */
    CONNECTED_BYTES = 4096, /* for one that is connected */
    AM_DATA = 9,
    MANY = 24,
};

static size_t memory(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* ---- known peers -------------------------------------------------------- */

/* The address of rank 0, with this name, as that of another process and, by turns, host. */
static size_t address_of(const world_t *world, uint64_t name, unsigned char *address)
{
    const uint32_t rank = (uint32_t) name, host = rank / RANKS;
    fab_wire_head_t head;
    size_t len;

    memcpy(address, world->shared->address[0], world->shared->len[0]);
    memcpy(&head, address, sizeof(head));
    head.name = name;
    memcpy(address, &head, sizeof(head));
    unsigned char *tcp = (unsigned char *) (uintptr_t) fab_address_section(address, FAB_WIRE_TCP,
                                                                           &len);
    fab_tcp_addr_t addr = {0};
    memcpy(&addr, tcp, len);
    addr.host += host;
    memcpy(addr.key, &rank, sizeof(rank));
    for (int i = 0; i < addr.num_ips; i++) {
        memcpy(addr.ips[i].ip + 12, &host, sizeof(host));
        addr.ips[i].port = (uint16_t) (1024 + rank % RANKS);
    }
    memcpy(tcp, &addr, len);
    return world->shared->len[0];
}

/* Names of processes of one job follow each other. */
static uint64_t known_name(int i)
{
    return UINT64_C(9) << 32 | (unsigned) i;
}

static void known_body(world_t *world)
{
    unsigned char address[FAB_ADDRESS_MAX];
    fab_peer_t **peer = malloc(KNOWN * sizeof(fab_peer_t *));
    size_t before = memory();
    double start = world_now(), opened;
    const char *why = "";

    for (int i = 0; i < KNOWN; i++) {
        size_t len = address_of(world, known_name(i), address);
        CHECK(OPAL_SUCCESS ==
              fab_peer_open(world->fab, FAB_USER_PML, known_name(i), address, len, &peer[i], &why));
    }
    double bytes = (double) (memory() - before) / KNOWN;
    opened = world_now();
    for (int i = 0; i < KNOWN; i++) {
        CHECK(peer[i] == fab_peer_find(world->fab, known_name(i)));
    }
    printf("%d known peers: %.0f bytes each; %.2f us to open one, %.3f us to find one\n", KNOWN,
           bytes, 1e6 * (opened - start) / KNOWN, 1e6 * (world_now() - opened) / KNOWN);
    fflush(stdout);
    CHECK(bytes > 64 && bytes < KNOWN_BYTES);
    free(peer);
}

/* ---- connected peers ---------------------------------------------------- */

static int num_asked; /* connections that the kernel was asked about */

/* In place of libc's. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    num_asked += IPPROTO_TCP == level && TCP_INFO == name;
    return (int) syscall(SYS_getsockopt, fd, level, name, value, len);
}

/* Whether all peers are there is asked a few at a time, and of each once. */
static void check_all(world_t *world)
{
    fab_tcp_domain_t *dom = ((fab_tcp_ep_t *) world_peer(world, 1)->ep)->dom;

    WORLD_UNTIL(NULL == dom->to_check);
    num_asked = 0;
    dom->next_check = 0;
    for (int all = 0; all < world->size - 1;) {
        int before = num_asked;
        world_progress(world);
        CHECK(num_asked - before <= FAB_TCP_CHECK_PEERS);
        all = num_asked;
    }
    WORLD_UNTIL(NULL == dom->to_check);
    CHECK(world->size - 1 == num_asked);
}

static void arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) peer, (void) hdr, (void) data, (void) len;
    ++*(int *) ctx;
}

/* All send to rank 0, which answers each: no connection has a buffer when all is quiet. */
static void connected_body(world_t *world)
{
    int got = 0;

    fab_set_handler(world->fab, AM_DATA, arrived, &got);
    world_barrier(world);
    size_t before = memory();
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank && (0 == i || 0 == world->rank)) {
            CHECK(OPAL_SUCCESS == fab_post(world_peer(world, i), fab_hdr(AM_DATA, 0, 0), NULL, 0));
        }
    }
    WORLD_UNTIL(got == (0 == world->rank ? world->size - 1 : 1));
    world_barrier(world);
    if (0 == world->rank) {
        size_t kept = FAB_TCP_FREE_BUFS * sizeof(fab_tcp_buf_t) +
                      FAB_CHUNK_PEERS * sizeof(fab_peer_t); /* of all peers together */
        size_t grown = memory() - before;
        printf("%d connected peers: %zu bytes for all, %zu for each\n", world->size - 1,
               grown < kept ? grown : kept, sizeof(fab_tcp_ep_t));
        fflush(stdout);
        CHECK(grown < kept + (size_t) (world->size - 1) * CONNECTED_BYTES);
        check_all(world);
    }
    world_barrier(world);
}

/* No sanitizer: its memory would be counted too. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_known", known_body, .ranks = 1),
        WORLD_JOB("test_connected", connected_body, .ranks = MANY + 1),
    };

    world_use_providers("tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
