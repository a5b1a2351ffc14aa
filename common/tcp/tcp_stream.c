/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: it is opened, watched by epoll, checked, and ends.  tcp_stream_write.c and
 * tcp_stream_read.c move its bytes.
 *
 * The end.  Each side's last message is CLOSE, LEAVE or REFUSE, after which it shuts its direction
 * down; the socket is closed when both are.  Any other end is a failure of the peer.
 */
#include "tcp/tcp_types.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/fab_params.h"

enum { FAB_TCP_NOTSENT = 131072 }; /* bytes that the kernel keeps unsent: what follows waits less */

/* 0, or errno: only EPOLL_CTL_ADD can fail. */
static int watch(fab_tcp_ep_t *ep, int op)
{
    bool wants_in = !ep->is_eof && !ep->is_paused && !ep->is_muted;
    uint32_t in = wants_in ? EPOLLIN : ep->is_paused ? EPOLLRDHUP : 0;
    struct epoll_event event = {.events = in | (ep->is_blocked ? EPOLLOUT : 0), .data.ptr = ep};

    return 0 == epoll_ctl(ep->dom->epoll, op, ep->fd, &event) ? 0 : errno;
}

void fab_tcp_stream_watch(fab_tcp_ep_t *ep)
{
    (void) watch(ep, EPOLL_CTL_MOD);
}

static void set_option(int fd, int level, int name, int value)
{
    (void) setsockopt(fd, level, name, &value, sizeof(value));
}

/*
 * Within the host there is no network to share.  Congestion control must not pace there, as bbr
 * does: it sets a timer for each 64 KiB, and 4 MiB took twice as long.  Every kernel has reno and
 * allows it to everybody.
 */
static void set_local_options(int fd)
{
    static const char name[] = "reno";

    (void) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name) - 1);
}

/*
 * The kernel looks for a host that is lost while nothing is sent.  It gives the connection up only
 * when no probe was answered for all of tcp_timeout.
 */
static void set_options(int fd)
{
    const int timeout = (int) fab_params.tcp_timeout;
    const int period = (timeout + FAB_TCP_CHECKS - 1) / FAB_TCP_CHECKS;

    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, FAB_TCP_NOTSENT);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, period);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, period);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, (timeout + period - 1) / period);
}

/* The connection is made, but there is no memory for its use, or no place in the epoll set. */
static void no_stream(fab_tcp_ep_t *ep, int error)
{
    char why[256];

    snprintf(why, sizeof(why), "The TCP connection to it (%s) cannot be used: %s.", ep->to,
             strerror(error));
    fab_peer_fail(ep->peer, OPAL_ERR_OUT_OF_RESOURCE, why);
}

void fab_tcp_stream_open(fab_tcp_ep_t *ep, int fd, const void *left, size_t left_len)
{
    struct iovec iov = {.iov_base = (void *) (uintptr_t) left, .iov_len = left_len};
    fab_tcp_buf_t *buf = left_len > 0 ? fab_tcp_buf_get(ep->dom, FAB_TCP_FOR_READING) : NULL;
    int error;

    ep->fd = fd;
    ep->state = FAB_TCP_UP;
    if (1 == ++ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
    fab_counters.tcp_connections += NULL == ep->main;
    /* the kernel may forget it when the connection is lost */
    (void) fab_sock_peer_text(fd, ep->to, sizeof(ep->to));
    set_options(fd);
    if (ep->is_local) {
        set_local_options(fd);
    }
    error = watch(ep, EPOLL_CTL_ADD);
    fab_tcp_expect(ep->dom);
    if (NULL != buf) {
        fab_tcp_stream_put_first(ep, buf, &iov, 1, 0);
        fab_tcp_stream_flush(ep);
    } else if (left_len > 0) {
        error = ENOMEM;
    }
    if (0 != error) {
        no_stream(ep, error);
    }
}

void fab_tcp_stream_close(fab_tcp_ep_t *ep)
{
    if (NULL == ep->main) {
        fab_tcp_links_close(ep);
    }
    fab_tcp_stream_discard(ep);
    fab_tcp_stream_put_in(ep);
    if (ep->dom->hot == ep) {
        ep->dom->hot = NULL;
    }
    ep->dom->num_blocked -= ep->is_blocked;
    close(ep->fd); /* and out of the epoll set */
    ep->fd = -1;
    ep->error = 0;
    ep->is_blocked = ep->is_end_sent = ep->is_shut = ep->is_end_come = ep->is_eof = false;
    ep->is_used = ep->is_bulk = ep->is_muted = ep->is_paused = ep->has_asked = false;
    ep->window_used = ep->credit_due = 0;
    ep->placing.at = NULL;
    ep->skip = ep->silences = 0;
    ep->state = FAB_TCP_IDLE;
    if (0 == --ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
}

void fab_tcp_stream_mute(fab_tcp_ep_t *ep, bool is_muted)
{
    if (is_muted != ep->is_muted) {
        ep->is_muted = is_muted;
        fab_tcp_stream_watch(ep);
    }
}

/* ---- the end ------------------------------------------------------------ */

void fab_tcp_stream_end_if_done(fab_tcp_ep_t *ep)
{
    if (FAB_TCP_UP == ep->state && ep->is_eof && ep->is_shut && NULL == ep->main) {
        fab_tcp_stream_close(ep);
        fab_tcp_connect_again(ep);
    }
}

void fab_tcp_stream_stop(fab_tcp_ep_t *ep)
{
    ep->is_eof = true;
    fab_tcp_stream_watch(ep);
}

void fab_tcp_stream_eof(fab_tcp_ep_t *ep, int error)
{
    char why[256];

    if (FAB_PEER_FAILED == ep->peer->state) {
        fab_tcp_stream_stop(ep);
        return;
    }
    if (NULL != ep->main) {
        fab_tcp_link_ended(ep, error);
        return;
    }
    if (ep->is_end_come || !ep->is_used) {
        /* an unused connection is one that the peer requested and did not need */
        ep->is_eof = true;
        ep->is_shut = ep->is_shut || 0 != error || !ep->is_used;
        fab_tcp_stream_watch(ep);
        fab_tcp_stream_end_if_done(ep);
        return;
    }
    ep->is_eof = true;
    fab_tcp_stream_watch(ep);
    fab_counters.tcp_peers_lost++;
    error = 0 != ep->error ? ep->error : error;
    snprintf(why, sizeof(why), "The TCP connection to it (%s) was lost: %s.", ep->to,
             0 != error ? strerror(error) : "closed by its host; its process has probably ended");
    fab_peer_fail(ep->peer, 0 != error ? OPAL_ERR_UNREACH : OPAL_ERR_PROC_ABORTED, why);
}

void fab_tcp_stream_broken(fab_tcp_ep_t *ep)
{
    int error = 0;
    socklen_t len = sizeof(error);

    (void) getsockopt(ep->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    fab_tcp_stream_eof(ep, error);
}

/*
 * TCP_USER_TIMEOUT (tcp(7)) does not do: it also ends the connection to a process that computes for
 * so long while its receive buffer is full, whose kernel answers.  A time without checks, as this
 * process computes, does not count: the kernel may try again only after it.
 */
void fab_tcp_stream_check(fab_tcp_ep_t *ep)
{
    struct tcp_info info = {.tcpi_state = 0};
    socklen_t len = sizeof(info);
    bool is_silent;

    if (0 != getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) {
        return;
    }
    is_silent = (info.tcpi_unacked > 0 || info.tcpi_probes > 0) &&
                info.tcpi_last_ack_recv >= fab_params.tcp_timeout * 1000 / FAB_TCP_CHECKS;
    ep->silences = is_silent ? (uint8_t) (ep->silences + 1) : 0;
    /* what a link carries can go by another way */
    if ((NULL == ep->main ? FAB_TCP_CHECKS : 1) == ep->silences && !ep->is_eof) {
        fab_tcp_stream_eof(ep, ETIMEDOUT);
    }
}
