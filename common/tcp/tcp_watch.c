/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What epoll tells of a connection: that something came, unless it is not to be read now, and that
 * the kernel takes more, if the connection is blocked.
 */
#include "tcp/tcp.h"

#include <sys/epoll.h>

/* 0, or errno: only EPOLL_CTL_ADD can fail. */
static int watch(fab_tcp_ep_t *ep, int op)
{
    bool wants_in = !ep->is_eof && !ep->is_paused && !ep->is_muted;
    uint32_t in = wants_in ? EPOLLIN : ep->is_paused ? EPOLLRDHUP : 0;
    struct epoll_event event = {.events = in | (ep->is_blocked ? EPOLLOUT : 0), .data.ptr = ep};

    return 0 == epoll_ctl(ep->dom->epoll, op, ep->fd, &event) ? 0 : errno;
}

int fab_tcp_watch_begin(fab_tcp_ep_t *ep)
{
    return watch(ep, EPOLL_CTL_ADD);
}

void fab_tcp_watch(fab_tcp_ep_t *ep)
{
    (void) watch(ep, EPOLL_CTL_MOD);
}

void fab_tcp_watch_mute(fab_tcp_ep_t *ep, bool is_muted)
{
    if (is_muted != ep->is_muted) {
        ep->is_muted = is_muted;
        fab_tcp_watch(ep);
    }
}
