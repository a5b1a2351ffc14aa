/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: it is opened, checked, and closed.  tcp_stream_write.c and tcp_stream_read.c move
 * its bytes.
 */
#include "tcp/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/fab_params.h"

void fab_tcp_stream_cancel(fab_tcp_ep_t *ep)
{
    if (NULL != ep->sock) {
        fab_sock_release(ep->sock);
        ep->sock = NULL;
    }
}

/*
 * Within the host there is no network to share.  Congestion control must not pace there, as bbr
 * does: it sets a timer for each 64 KiB, and 4 MiB took twice as long.  Every kernel has reno and
 * allows it to everybody.
 */
static void do_not_pace(int fd)
{
    static const char reno[] = "reno";

    (void) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1);
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
    if (1 == ++ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
    fab_counters.connections += NULL == ep->main;
    fab_counters.tcp_links_made += NULL != ep->main;
    ep->is_bulk = NULL != ep->main; /* a header is read first, and then to its place */
    /* the kernel may forget it when the connection is lost */
    (void) fab_sock_peer_text(fd, ep->to, sizeof(ep->to));
    if (ep->is_local) {
        do_not_pace(fd);
    }
    error = fab_tcp_watch_begin(ep);
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

void fab_tcp_stream_take(fab_tcp_ep_t *ep, fab_sock_t *sock)
{
    fab_sock_sealed_t left;
    size_t left_len;
    int fd = fab_sock_take(sock, &left, &left_len);

    fab_tcp_stream_open(ep, fd, &left, left_len);
}

void fab_tcp_stream_close(fab_tcp_ep_t *ep)
{
    fab_tcp_stream_discard(ep);
    fab_tcp_in_put(ep);
    if (ep->dom->hot == ep) {
        ep->dom->hot = NULL;
    }
    ep->dom->num_blocked -= ep->is_blocked;
    close(ep->fd); /* and out of the epoll set */
    ep->fd = -1;
    ep->error = 0;
    ep->is_blocked = ep->is_shut = ep->is_eof = false;
    ep->is_bulk = ep->is_muted = ep->is_paused = ep->has_asked = ep->ses.is_credit_due = false;
    ep->placing.at = NULL;
    ep->skip = ep->silences = 0;
    if (0 == --ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
}

/* ---- the end ------------------------------------------------------------ */

void fab_tcp_stream_eof(fab_tcp_ep_t *ep, int error)
{
    if (FAB_PEER_FAILED == ep->peer->state) {
        ep->is_eof = true;
        fab_tcp_watch(ep);
        return;
    }
    ep->dom->on_ended(ep, error);
}

void fab_tcp_stream_broken(fab_tcp_ep_t *ep)
{
    int error = 0;
    socklen_t len = sizeof(error);

    (void) getsockopt(ep->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    fab_tcp_stream_eof(ep, error);
}

void fab_tcp_bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len)
{
    char what[64];

    snprintf(what, sizeof(what), "id %u, %zu bytes", id, len);
    fab_peer_bad_message(ep->peer, what);
}

/*
 * TCP_USER_TIMEOUT (tcp(7)) does not do: it also ends the connection to a process that computes for
 * so long while its receive buffer is full, whose kernel answers.  What was sent just now cannot be
 * acknowledged yet, however long nothing came before it; so only what was sent again counts.
 */
void fab_tcp_stream_check(fab_tcp_ep_t *ep)
{
    struct tcp_info info = {.tcpi_state = 0};
    socklen_t len = sizeof(info);
    bool is_silent;

    if (0 != getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) {
        return;
    }
    is_silent = ((info.tcpi_unacked > 0 && info.tcpi_retransmits > 0) || info.tcpi_probes > 0) &&
                info.tcpi_last_ack_recv >= fab_params.tcp_timeout * 1000 / FAB_SOCK_CHECKS;
    ep->silences = is_silent ? (uint8_t) (ep->silences + 1) : 0;
    /* what a link carries can go by another way */
    if ((NULL == ep->main ? FAB_SOCK_CHECKS : 1) == ep->silences && !ep->is_eof) {
        fab_tcp_stream_eof(ep, ETIMEDOUT);
    }
}
