/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the tcp provider's inside share: its objects behind those of the fabric, and a
 * peer whose bytes the test writes and reads.
 */
#ifndef TEST_TCP_WORLD_H
#define TEST_TCP_WORLD_H

#include "test_fab_world.h"

#include "fabric/fab_core.h"
#include "tcp/tcp.h"

static inline fab_tcp_domain_t *tcp_domain(world_t *world)
{
    const fab_core_t *core = fab_core(world->fab);

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (&fab_tcp_provider == fab_providers[i]) {
            return (fab_tcp_domain_t *) core->slots[i].dom;
        }
    }
    return NULL;
}

static inline fab_tcp_ep_t *ep_of(fab_peer_t *peer)
{
    return peer->ep;
}

/* A peer of that name, with a connection whose other end is *fd. */
static inline fab_peer_t *mad_peer(world_t *world, uint64_t name, int *fd)
{
    unsigned char address[FAB_ADDRESS_MAX];
    fab_peer_t *peer;
    const char *why = "";
    int ends[2];

    memcpy(address, world->shared->address[0], sizeof(address));
    memcpy(address + 8, &name, sizeof(name));
    int rc = fab_peer_open(world->fab, FAB_USER_PML, name, address, world->shared->len[0], &peer,
                           &why);
    if (OPAL_SUCCESS != rc) {
        fprintf(stderr, "%s\n", why);
    }
    CHECK(OPAL_SUCCESS == rc);
    CHECK(0 == socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    fab_tcp_ep_t *ep = ep_of(peer);
    fab_tcp_stream_open(ep, ends[0], NULL, 0);
    ep->ses.state = FAB_SES_UP;
    ep->ses.window = ep->ses.peer_window = FAB_TCP_WINDOW;
    *fd = ends[1];
    return peer;
}

/* The peer writes a message without payload. */
static inline void write_hdr(world_t *world, int fd, uint8_t id, uint64_t tag)
{
    const fab_tcp_hdr_t hdr = {.id_len = id, .tag = tag};

    CHECK((ssize_t) sizeof(hdr) == send(fd, &hdr, sizeof(hdr), MSG_NOSIGNAL));
    fab_tcp_expect(tcp_domain(world));
    world_progress(world);
}

#endif /* TEST_TCP_WORLD_H */
