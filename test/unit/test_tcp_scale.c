/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What many peers cost the tcp provider: memory of a hundred thousand that are known, of one that
 * is connected and idle, and that each is found again.
 *
 * TEST: sources=@fabric variants=plain timeout=120 quick=no
 */
#include "test_fab_jobs.h"
#include "test_scale.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tcp/tcp_types.h"

enum {
    KNOWN = 100000,
    KNOWN_BYTES = 1024,     /* of memory for one that is known, with its record */
    RANKS = 64,             /* of a host */
    CONNECTED_BYTES = 4096, /* for one that is connected */
    MANY = 24,
};

/* ---- known peers -------------------------------------------------------- */

/* By turns on the processes of a host. */
static void address_of(const world_t *world, uint32_t rank, unsigned char *address)
{
    const uint32_t host = rank / RANKS;
    fab_tcp_addr_t addr = {0};
    size_t len;
    unsigned char *tcp = address_begin(world, rank, FAB_WIRE_TCP, address, &addr, &len);

    addr.host += host;
    memcpy(addr.key, &rank, sizeof(rank));
    for (int i = 0; i < addr.num_ips; i++) {
        memcpy(addr.ips[i].ip + 12, &host, sizeof(host));
        addr.ips[i].port = (uint16_t) (1024 + rank % RANKS);
    }
    memcpy(tcp, &addr, len);
}

static void known_body(world_t *world)
{
    free(open_many(world, KNOWN, address_of, KNOWN_BYTES));
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

/* All send to rank 0, which answers each: no connection has a buffer when all is quiet. */
static void connected_body(world_t *world)
{
    world_barrier(world);
    size_t before = memory();
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank && (0 == i || 0 == world->rank)) {
            post(world, world_peer(world, i));
        }
    }
    WORLD_UNTIL(world->got == (0 == world->rank ? (unsigned) world->size - 1 : 1));
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
