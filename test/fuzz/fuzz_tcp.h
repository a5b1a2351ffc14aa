/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzz targets share whose messages come by the provider tcp. */
#ifndef FUZZ_TCP_H
#define FUZZ_TCP_H

#include "fuzz.h"

#include <sys/socket.h>

#include "fabric/fab_core.h"
#include "tcp/tcp.h"

/* The provider's domain; the fabric is open. */
static inline fab_tcp_domain_t *fuzz_tcp_domain(fab_t *fab)
{
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (&fab_tcp_provider == fab_providers[i]) {
            return (fab_tcp_domain_t *) fab_core(fab)->slots[i].dom;
        }
    }
    return NULL;
}

/* A new peer, with a connection whose other end is *fd: what is sent goes there. */
static inline fab_peer_t *fuzz_tcp_peer(fab_t *fab, fab_user_t user, int *fd)
{
    static unsigned char address[FAB_ADDRESS_MAX];
    static uint64_t num_peers;
    size_t len = fab_address(fab, address, sizeof(address));
    uint64_t name = (UINT64_C(9) << 32) + num_peers++;
    fab_peer_t *peer = NULL;
    const char *why = "";
    int ends[2];

    memcpy(address + offsetof(fab_wire_head_t, name), &name, sizeof(name));
    if (OPAL_SUCCESS != fab_peer_open(fab, user, name, address, len, &peer, &why) ||
        0 != socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) {
        fuzz_fail(why);
    }
    fab_tcp_ep_t *ep = peer->ep;
    fab_tcp_stream_open(ep, ends[0], NULL, 0);
    ep->ses.state = FAB_SES_UP;
    ep->ses.window = ep->ses.peer_window = FAB_TCP_WINDOW;
    *fd = ends[1];
    return peer;
}

#endif /* FUZZ_TCP_H */
