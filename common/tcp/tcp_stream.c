/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a connection, both ways.
 *
 * Writing.  The first messages after a progress call go out at once, each by a call of its own and
 * without a copy.  Those that follow before the next progress call, and all while the kernel takes
 * no more, are queued and leave together: by one call from the next progress, or when they are
 * FAB_TCP_TOGETHER bytes.
 *
 * Reading.  As much as there is, into a buffer in which messages are parsed in place; the buffer is
 * the connection's only while it holds a part of a message.  All in it is a multiple of 8 bytes, so
 * payload is aligned.
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
#include <sys/uio.h>
#include <unistd.h>

#include "fabric/fab_params.h"

enum { FAB_TCP_NOTSENT = 131072 }; /* bytes that the kernel keeps unsent: what follows waits less */

static size_t padded(size_t len)
{
    return (len + 7) & ~(size_t) 7;
}

static char *bytes_of(fab_tcp_buf_t *buf)
{
    return (char *) buf->data;
}

/* ---- open and close ----------------------------------------------------- */

static void watch(fab_tcp_ep_t *ep, int op)
{
    struct epoll_event event = {
        .events = (ep->is_eof ? 0 : EPOLLIN) | (ep->is_blocked ? EPOLLOUT : 0), .data.ptr = ep};

    (void) epoll_ctl(ep->dom->epoll, op, ep->fd, &event);
}

static void set_option(int fd, int level, int name, int value)
{
    (void) setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd)
{
    int timeout = (int) fab_params.tcp_timeout;

    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, FAB_TCP_NOTSENT);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout * 1000);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, timeout >= 4 ? timeout / 2 : 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, timeout >= 12 ? timeout / 6 : 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/* Queue bytes that need not be a multiple of 8 at the head of an empty queue; buf is empty. */
static void put_first(fab_tcp_ep_t *ep, fab_tcp_buf_t *buf, const struct iovec *iov, int num,
                      size_t skip)
{
    size_t len = 0;

    for (int i = 0; i < num; i++) {
        len += iov[i].iov_len;
    }
    buf->start = buf->end = (uint32_t) (padded(len - skip) - (len - skip));
    for (int i = 0; i < num; i++) {
        size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
        skip -= cut;
        if (iov[i].iov_len > cut) {
            memcpy(bytes_of(buf) + buf->end, (char *) iov[i].iov_base + cut, iov[i].iov_len - cut);
            buf->end += (uint32_t) (iov[i].iov_len - cut);
        }
    }
    ep->out = ep->out_last = buf;
    ep->num_out = 1;
}

void fab_tcp_stream_open(fab_tcp_ep_t *ep, int fd, const void *left, size_t left_len)
{
    struct iovec iov = {.iov_base = (void *) (uintptr_t) left, .iov_len = left_len};
    fab_tcp_buf_t *buf = left_len > 0 ? fab_tcp_buf_get(ep->dom) : NULL;

    ep->fd = fd;
    ep->state = FAB_TCP_UP;
    if (1 == ++ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
    fab_counters.tcp_connections++;
    set_options(fd);
    watch(ep, EPOLL_CTL_ADD);
    fab_tcp_expect(ep->dom);
    if (NULL != buf) {
        put_first(ep, buf, &iov, 1, 0);
        fab_tcp_stream_flush(ep);
    } else if (left_len > 0) {
        fab_peer_fail(ep->peer, OPAL_ERR_OUT_OF_RESOURCE, "There is not enough memory here.");
    }
}

static void free_queue(fab_tcp_ep_t *ep)
{
    while (NULL != ep->out) {
        fab_tcp_buf_t *buf = ep->out;
        ep->out = buf->next;
        fab_tcp_buf_put(ep->dom, buf);
    }
    ep->out_last = NULL;
    ep->num_out = 0;
}

static void make_clean(fab_tcp_ep_t *ep)
{
    fab_tcp_ep_t **at = &ep->dom->dirty;

    if (!ep->is_dirty) {
        return;
    }
    while (*at != ep) {
        at = &(*at)->dirty_next;
    }
    *at = ep->dirty_next;
    ep->is_dirty = false;
}

void fab_tcp_stream_close(fab_tcp_ep_t *ep)
{
    free_queue(ep);
    make_clean(ep);
    if (NULL != ep->in) {
        fab_tcp_buf_put(ep->dom, ep->in);
        ep->in = NULL;
    }
    if (ep->dom->hot == ep) {
        ep->dom->hot = NULL;
    }
    close(ep->fd); /* and out of the epoll set */
    ep->fd = -1;
    ep->error = 0;
    ep->is_blocked = ep->is_end_sent = ep->is_shut = ep->is_end_come = ep->is_eof = false;
    ep->is_used = false;
    ep->state = FAB_TCP_IDLE;
    if (0 == --ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
}

/* ---- writing ------------------------------------------------------------ */

static void make_dirty(fab_tcp_ep_t *ep)
{
    if (!ep->is_dirty) {
        ep->is_dirty = true;
        ep->dirty_next = ep->dom->dirty;
        ep->dom->dirty = ep;
    }
}

static void block(fab_tcp_ep_t *ep, bool is_blocked)
{
    if (is_blocked != ep->is_blocked) {
        ep->is_blocked = is_blocked;
        watch(ep, EPOLL_CTL_MOD);
        fab_counters.tcp_blocked += is_blocked;
    }
}

/* What came before is still to be read, and says how it ended. */
static void write_failed(fab_tcp_ep_t *ep, int error)
{
    ep->error = error;
    free_queue(ep);
    ep->is_shut = true;
    block(ep, false);
}

/* n bytes of the queue were written. */
static void consume(fab_tcp_ep_t *ep, size_t n)
{
    while (n > 0) {
        fab_tcp_buf_t *buf = ep->out;
        size_t used = buf->end - buf->start;
        if (n < used) {
            buf->start += (uint32_t) n;
            return;
        }
        n -= used;
        ep->out = buf->next;
        ep->num_out--;
        fab_tcp_buf_put(ep->dom, buf);
    }
    if (NULL == ep->out) {
        ep->out_last = NULL;
    }
}

/* One call. Bytes written; -1: errno, 0 for no more now. */
static ssize_t write_some(fab_tcp_ep_t *ep, struct iovec *iov, int num)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t) num};
    ssize_t n;

    do {
        n = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && EINTR == errno);
    fab_counters.tcp_writes++;
    if (n < 0 && (EAGAIN == errno || ENOBUFS == errno || ENOMEM == errno)) {
        block(ep, true);
        errno = 0;
    }
    return n;
}

void fab_tcp_stream_flush(fab_tcp_ep_t *ep)
{
    struct iovec iov[FAB_TCP_QUEUE + 1];

    while (NULL != ep->out && !ep->is_blocked) {
        int num = 0;
        for (fab_tcp_buf_t *buf = ep->out; NULL != buf; buf = buf->next) {
            iov[num++] = (struct iovec){.iov_base = bytes_of(buf) + buf->start,
                                        .iov_len = buf->end - buf->start};
        }
        ssize_t n = write_some(ep, iov, num);
        if (n < 0 && 0 != errno) {
            write_failed(ep, errno);
            return;
        }
        consume(ep, n > 0 ? (size_t) n : 0);
    }
    if (NULL == ep->out && ep->is_end_sent && !ep->is_shut) {
        ep->is_shut = true;
        (void) shutdown(ep->fd, SHUT_WR);
    }
}

void fab_tcp_stream_unblock(fab_tcp_ep_t *ep)
{
    block(ep, false);
    fab_tcp_stream_flush(ep);
}

/* May a message leave by a call of its own?  The first few after a progress call. */
static bool may_go_alone(fab_tcp_ep_t *ep)
{
    if (ep->direct_pass != ep->dom->pass) {
        ep->direct_pass = ep->dom->pass;
        ep->num_direct = 0;
    }
    if (ep->num_direct >= FAB_TCP_DIRECT) {
        return false;
    }
    ep->num_direct++;
    return true;
}

/* Room for size bytes in the last of at most max buffers.  NULL: none now. */
static fab_tcp_buf_t *last_buf(fab_tcp_ep_t *ep, size_t size, unsigned max)
{
    fab_tcp_buf_t *buf = ep->out_last;

    if (NULL != buf && sizeof(buf->data) - buf->end >= size) {
        return buf;
    }
    buf = ep->num_out < max ? fab_tcp_buf_get(ep->dom) : NULL;
    if (NULL == buf) {
        fab_counters.tcp_queue_full++;
        return NULL;
    }
    if (NULL == ep->out) {
        ep->out = buf;
    } else {
        ep->out_last->next = buf;
    }
    ep->out_last = buf;
    ep->num_out++;
    return buf;
}

void *fab_tcp_stream_reserve(fab_tcp_ep_t *ep, size_t len)
{
    fab_tcp_buf_t *buf = last_buf(ep, sizeof(fab_tcp_hdr_t) + padded(len), FAB_TCP_QUEUE);

    return NULL != buf ? bytes_of(buf) + buf->end + sizeof(fab_tcp_hdr_t) : NULL;
}

static fab_tcp_hdr_t wire_hdr(fab_hdr_t hdr, size_t len)
{
    return (fab_tcp_hdr_t){
        .id_len = hdr.id | (uint32_t) len << 8, .app_ctx = hdr.app_ctx, .tag = hdr.tag};
}

void fab_tcp_stream_commit(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_buf_t *buf = ep->out_last;
    char *at = bytes_of(buf) + buf->end;
    fab_tcp_hdr_t wire = wire_hdr(hdr, len);

    memcpy(at, &wire, sizeof(wire));
    memset(at + sizeof(wire) + len, 0, padded(len) - len);
    buf->end += (uint32_t) (sizeof(wire) + padded(len));
    ep->is_used = true;
    fab_counters.tcp_msgs_sent++;
    if (ep->is_batch || ep->is_blocked) {
        return;
    }
    if (ep->num_out > 1 || buf->end - buf->start >= FAB_TCP_TOGETHER || may_go_alone(ep)) {
        fab_tcp_stream_flush(ep);
    } else {
        make_dirty(ep);
    }
}

/* Nothing is queued: write it at once; what the kernel does not take is queued. */
static int send_alone(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len)
{
    static const char zeros[8];
    fab_tcp_hdr_t wire = wire_hdr(hdr, len);
    struct iovec iov[3] = {
        {.iov_base = &wire, .iov_len = sizeof(wire)},
        {.iov_base = (void *) (uintptr_t) buf, .iov_len = len},
        {.iov_base = (void *) (uintptr_t) zeros, .iov_len = padded(len) - len},
    };
    fab_tcp_buf_t *spare = fab_tcp_buf_get(ep->dom);
    ssize_t n;

    if (NULL == spare) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    n = write_some(ep, iov, 0 == len ? 1 : 3);
    ep->is_used = true;
    fab_counters.tcp_msgs_sent++;
    if (sizeof(wire) + padded(len) == (size_t) n || (n < 0 && 0 != errno)) {
        fab_tcp_buf_put(ep->dom, spare);
    }
    if (n < 0 && 0 != errno) {
        write_failed(ep, errno);
    } else if (sizeof(wire) + padded(len) != (size_t) n) {
        put_first(ep, spare, iov, 3, n > 0 ? (size_t) n : 0);
        fab_tcp_stream_flush(ep);
    }
    return OPAL_SUCCESS;
}

int fab_tcp_stream_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len)
{
    void *room;

    if (NULL == ep->out && !ep->is_batch && !ep->is_blocked &&
        (len >= FAB_TCP_TOGETHER || may_go_alone(ep))) {
        return send_alone(ep, hdr, buf, len);
    }
    room = fab_tcp_stream_reserve(ep, len);
    if (NULL == room) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    if (len > 0) {
        memcpy(room, buf, len);
    }
    fab_tcp_stream_commit(ep, hdr, len);
    return OPAL_SUCCESS;
}

void fab_tcp_stream_end(fab_tcp_ep_t *ep, uint8_t id)
{
    if (ep->is_end_sent || 0 != ep->error) {
        return;
    }
    if (NULL == last_buf(ep, sizeof(fab_tcp_hdr_t), FAB_TCP_QUEUE + 1)) {
        write_failed(ep, ENOMEM); /* the peer will see an end without CLOSE */
        (void) shutdown(ep->fd, SHUT_WR);
        return;
    }
    fab_tcp_stream_commit(ep, fab_hdr(id, 0, 0), 0);
    ep->is_end_sent = true;
    fab_tcp_stream_flush(ep);
}

/* ---- what came ---------------------------------------------------------- */

static void bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len)
{
    char why[128];

    snprintf(why, sizeof(why), "It sent a malformed message (id %u, %zu bytes).", id, len);
    fab_counters.tcp_bad_messages++;
    fab_peer_fail(ep->peer, OPAL_ERR_COMM_FAILURE, why);
}

/* A message of the provider itself. */
static void own_message(fab_tcp_ep_t *ep, unsigned id, size_t len)
{
    if (id < FAB_TCP_ID_CLOSE || id > FAB_TCP_ID_REFUSE || 0 != len) {
        bad_message(ep, id, len);
        return;
    }
    ep->is_end_come = true;
    ep->has_left = FAB_TCP_ID_CLOSE != id;
    if (FAB_TCP_ID_REFUSE == id) {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH, "It refused this process.");
        return;
    }
    fab_tcp_stream_end(ep, FAB_TCP_ID_CLOSE);
}

/* Deliver the whole messages in ep->in. Returns how many. */
static int deliver(fab_tcp_ep_t *ep)
{
    fab_tcp_domain_t *dom = ep->dom;
    fab_tcp_buf_t *buf = ep->in;
    fab_peer_t *peer = ep->peer;
    int events = 0;

    while (buf->end - buf->start >= sizeof(fab_tcp_hdr_t) && FAB_PEER_FAILED != peer->state) {
        fab_tcp_hdr_t wire;
        memcpy(&wire, bytes_of(buf) + buf->start, sizeof(wire));
        uint8_t id = wire.id_len & 0xff;
        size_t len = wire.id_len >> 8;
        if (len > dom->addr.eager_max || ep->is_end_come) {
            bad_message(ep, id, len);
            break;
        }
        if (buf->end - buf->start < sizeof(wire) + padded(len)) {
            break;
        }
        char *data = bytes_of(buf) + buf->start + sizeof(wire);
        buf->start += (uint32_t) (sizeof(wire) + padded(len));
        events++;
        if (id < FAB_AM_MAX) {
            fab_deliver(dom->fab, peer, fab_hdr(id, wire.tag, wire.app_ctx), data, len);
        } else {
            own_message(ep, id, len);
        }
    }
    fab_counters.tcp_msgs_received += (unsigned) events;
    return events;
}

/* Make room behind a message of which the beginning came. */
static void move_to_front(fab_tcp_buf_t *buf)
{
    if (0 != buf->start) {
        memmove(buf->data, bytes_of(buf) + buf->start, buf->end - buf->start);
        buf->end -= buf->start;
        buf->start = 0;
    }
}

/* The connection has ended as both sides wanted. */
static void ended(fab_tcp_ep_t *ep)
{
    fab_tcp_stream_close(ep);
    fab_tcp_connect_again(ep);
}

/* Has the connection ended, on both sides?  Then ep may be gone afterwards. */
void fab_tcp_stream_end_if_done(fab_tcp_ep_t *ep)
{
    if (FAB_TCP_UP == ep->state && ep->is_eof && ep->is_shut) {
        ended(ep);
    }
}

/* Nothing comes any more: error is errno, or 0. */
static void on_eof(fab_tcp_ep_t *ep, int error)
{
    char why[256];

    if (FAB_PEER_FAILED == ep->peer->state) {
        ep->is_eof = true;
        watch(ep, EPOLL_CTL_MOD);
        return;
    }
    if (ep->is_end_come || !ep->is_used) {
        /* an unused connection is one that the peer asked for and had no use for */
        ep->is_eof = true;
        ep->is_shut = ep->is_shut || 0 != error || !ep->is_used;
        watch(ep, EPOLL_CTL_MOD);
        fab_tcp_stream_end_if_done(ep);
        return;
    }
    ep->is_eof = true;
    watch(ep, EPOLL_CTL_MOD);
    fab_counters.tcp_peers_lost++;
    error = 0 != ep->error ? ep->error : error;
    snprintf(why, sizeof(why), "The connection to it by TCP was lost: %s.",
             0 != error ? strerror(error) : "closed by its host; its process has probably ended");
    fab_peer_fail(ep->peer, 0 != error ? OPAL_ERR_UNREACH : OPAL_ERR_PROC_ABORTED, why);
}

int fab_tcp_stream_read(fab_tcp_ep_t *ep)
{
    int events = 0;

    for (int i = 0; i < FAB_TCP_READS && FAB_PEER_FAILED != ep->peer->state && !ep->is_eof; i++) {
        ep->in = NULL != ep->in ? ep->in : fab_tcp_buf_get(ep->dom);
        fab_tcp_buf_t *buf = ep->in;
        if (NULL == buf) {
            return events; /* no memory; it stays in the kernel */
        }
        size_t room = sizeof(buf->data) - buf->end;
        ssize_t n = recv(ep->fd, bytes_of(buf) + buf->end, room, MSG_DONTWAIT);
        int error = n < 0 ? errno : 0;
        fab_counters.tcp_reads += n > 0;
        if (n > 0) {
            ep->is_used = true;
            buf->end += (uint32_t) n;
            events += deliver(ep);
        }
        if (buf->start == buf->end) {
            fab_tcp_buf_put(ep->dom, buf);
            ep->in = NULL;
        } else {
            move_to_front(buf);
        }
        if (0 == n || (n < 0 && EAGAIN != error && EINTR != error)) {
            on_eof(ep, error);
            return events + 1;
        }
        if (n < (ssize_t) room) {
            break;
        }
    }
    return events;
}
