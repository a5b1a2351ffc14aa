/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a connection, both ways.
 *
 * Writing.  The first message after a progress call leaves at once, by a system call of its own and
 * without a copy.  Others wait in the fabric's queue, where their requests stay open, until the
 * next progress call sends a whole batch by one call.  The part of a write that the kernel did not
 * take is kept here, and nothing overtakes it.  A send from memory is queued as a reference, and
 * completes from progress when the kernel has taken all of it.
 *
 * Reading.  A call reads all available data into a buffer, in which messages are parsed in place;
 * the connection has the buffer only while it contains part of a message.  All messages are
 * multiples of 8 bytes, so payload is aligned.  The rest of a long message that has begun is read
 * straight to its destination, if it has one; the same call reads a little more, so that the next
 * header is there.  If more of a long message is expected, only a little is read at first, so that
 * the rest can go straight to its destination.
 *
 * The window.  At most FAB_TCP_WINDOW bytes of messages are sent for which the peer has given no
 * credit (CREDIT).  The receiver must keep messages that it has no receive for, and its kernel may
 * hold megabytes of them.
 *
 * Memory.  What a peer may wait for (CREDIT, and the last message) lies in the endpoint.  All else
 * waits for a buffer.  The domain has some from the start, and writing leaves one of them for
 * reading: a message that has begun to arrive can always be read, so every buffer comes back.
 *
 * Parts. A striped message comes in part by links (tcp_link.c). Its parts are read to their places
 * by any connection. After its own part, the connection pauses until the message is complete, so
 * nothing is delivered out of order; a link pauses before a piece that was not announced yet.
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

/* ---- open and close ----------------------------------------------------- */

/* 0, or errno: only EPOLL_CTL_ADD can fail. */
static int watch(fab_tcp_ep_t *ep, int op)
{
    bool wants_in = !ep->is_eof && !ep->is_paused && !ep->is_muted;
    struct epoll_event event = {
        .events = (wants_in ? EPOLLIN : 0) | (ep->is_blocked ? EPOLLOUT : 0), .data.ptr = ep};

    return 0 == epoll_ctl(ep->dom->epoll, op, ep->fd, &event) ? 0 : errno;
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
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, timeout >= 4 ? timeout / 2 : 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, timeout >= 12 ? timeout / 6 : 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/* Keep the peer's address for messages: the kernel may forget it when the connection is lost. */
static void name_peer(fab_tcp_ep_t *ep)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    fab_sock_ip_t ip = {.port = 0};

    snprintf(ep->to, sizeof(ep->to), "address unknown");
    if (0 == getpeername(ep->fd, (struct sockaddr *) &sa, &len) &&
        fab_sock_ip_of((struct sockaddr *) &sa, ip.ip)) {
        ip.port = ntohs(AF_INET6 == sa.ss_family ? ((struct sockaddr_in6 *) &sa)->sin6_port
                                                 : ((struct sockaddr_in *) &sa)->sin_port);
        (void) fab_sock_ip_text(&ip, ep->to, sizeof(ep->to));
    }
}

/* Queue bytes that need not be a multiple of 8 at the head of an empty queue; buf is empty. */
static void put_first(fab_tcp_ep_t *ep, fab_tcp_buf_t *buf, const struct iovec *iov, int num,
                      size_t skip)
{
    size_t len = 0;

    for (int i = 0; i < num; i++) {
        len += iov[i].iov_len;
    }
    buf->node.start = buf->node.end = (uint32_t) (padded(len - skip) - (len - skip));
    for (int i = 0; i < num; i++) {
        size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
        skip -= cut;
        if (iov[i].iov_len > cut) {
            memcpy(buf->node.bytes + buf->node.end, (char *) iov[i].iov_base + cut,
                   iov[i].iov_len - cut);
            buf->node.end += (uint32_t) (iov[i].iov_len - cut);
        }
    }
    ep->out = ep->out_last = &buf->node;
    ep->num_out = 1;
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
    name_peer(ep);
    set_options(fd);
    error = watch(ep, EPOLL_CTL_ADD);
    fab_tcp_expect(ep->dom);
    if (NULL != buf) {
        put_first(ep, buf, &iov, 1, 0);
        fab_tcp_stream_flush(ep);
    } else if (left_len > 0) {
        error = ENOMEM;
    }
    if (0 != error) {
        no_stream(ep, error);
    }
}

/* Is it of a buffer?  If not, of a send from memory, or of a notice. */
static bool is_buf(const fab_tcp_ep_t *ep, const fab_tcp_node_t *node)
{
    return NULL == node->out && &ep->credit.node != node && &ep->end.node != node;
}

/* The node was written, or is given up. */
static void release(fab_tcp_ep_t *ep, fab_tcp_node_t *node, int status)
{
    fab_out_t *out = node->out;

    if (is_buf(ep, node)) {
        ep->num_out--;
        fab_tcp_buf_put(ep->dom, (fab_tcp_buf_t *) node);
        return;
    }
    if (NULL == out) {
        node->start = node->end = 0; /* of a notice, which can be queued again */
        return;
    }
    ep->num_outs--;
    out->status = OPAL_SUCCESS != status ? status : out->status;
    if (0 == --out->pieces) {
        node = (fab_tcp_node_t *) (void *) out->provider; /* that of its last part */
        node->next = ep->dom->done;
        ep->dom->done = node;
    }
}

static void free_queue(fab_tcp_ep_t *ep)
{
    while (NULL != ep->out) {
        fab_tcp_node_t *node = ep->out;
        ep->out = node->next;
        release(ep, node, OPAL_ERR_UNREACH);
    }
    ep->out_last = NULL;
}

int fab_tcp_complete(fab_tcp_domain_t *dom)
{
    int events = 0;

    while (NULL != dom->done) {
        fab_out_t *out = dom->done->out;
        dom->done = dom->done->next;
        out->complete(out, out->status);
        events++;
    }
    return events;
}

void fab_tcp_stream_close(fab_tcp_ep_t *ep)
{
    if (NULL == ep->main) {
        fab_tcp_links_close(ep);
    }
    free_queue(ep);
    if (NULL != ep->in) {
        fab_tcp_buf_put(ep->dom, ep->in);
        ep->in = NULL;
    }
    if (ep->dom->hot == ep) {
        ep->dom->hot = NULL;
    }
    ep->dom->num_blocked -= ep->is_blocked;
    close(ep->fd); /* and out of the epoll set */
    ep->fd = -1;
    ep->error = 0;
    ep->is_blocked = ep->is_end_sent = ep->is_shut = ep->is_end_come = ep->is_eof = false;
    ep->is_used = ep->is_bulk = ep->is_muted = ep->is_paused = ep->has_asked = false;
    ep->has_limit = false;
    ep->window_used = ep->credit_due = 0;
    ep->placing.at = NULL;
    ep->skip = ep->silences = 0;
    ep->state = FAB_TCP_IDLE;
    if (0 == --ep->dom->num_up) {
        fab_idle_changed(ep->dom->fab);
    }
}

/* ---- writing ------------------------------------------------------------ */

static void block(fab_tcp_ep_t *ep, bool is_blocked)
{
    if (is_blocked != ep->is_blocked) {
        ep->is_blocked = is_blocked;
        (void) watch(ep, EPOLL_CTL_MOD);
        ep->dom->num_blocked += is_blocked ? 1 : -1;
        fab_counters.tcp_blocked += is_blocked;
    }
}

/*
 * If the connection is lost, what came before is still to be read, and says how it ended.  If it is
 * not, but the memory of a message cannot be read, nothing else would end it.
 */
static void write_failed(fab_tcp_ep_t *ep, int error)
{
    ep->error = error;
    if (EFAULT == error) {
        fab_peer_fail(ep->peer, OPAL_ERR_BAD_PARAM,
                      "The memory of a message to it cannot be read by this process.");
    }
    if (NULL != ep->main) {
        fab_tcp_link_ended(ep, error);
    }
    free_queue(ep);
    ep->is_shut = true;
    block(ep, false);
}

/* n bytes of the queue were written. */
static void consume(fab_tcp_ep_t *ep, size_t n)
{
    while (n > 0) {
        fab_tcp_node_t *node = ep->out;
        size_t used = node->end - node->start;
        if (n < used) {
            node->start += (uint32_t) n;
            return;
        }
        n -= used;
        ep->out = node->next;
        release(ep, node, OPAL_SUCCESS);
    }
    if (NULL == ep->out) {
        ep->out_last = NULL;
    }
}

/* Errors of a call after which it may be tried again later. */
static bool may_go_on(int error)
{
    return EAGAIN == error || EINTR == error || ENOBUFS == error || ENOMEM == error;
}

/* One system call.  Returns the bytes written; -1: errno, or 0 there if no more goes now. */
static ssize_t write_some(fab_tcp_ep_t *ep, struct iovec *iov, int num)
{
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t) num};
    ssize_t n;

    do {
        n = 1 == num ? send(ep->fd, iov->iov_base, iov->iov_len, flags)
                     : sendmsg(ep->fd, &msg, flags);
    } while (n < 0 && EINTR == errno);
    fab_counters.tcp_writes++;
    if (n < 0 && may_go_on(errno)) {
        block(ep, true);
        errno = 0;
    }
    return n;
}

static void give_credit(fab_tcp_ep_t *ep);

void fab_tcp_stream_flush(fab_tcp_ep_t *ep)
{
    struct iovec iov[FAB_TCP_IOVS];

    while (NULL != ep->out && !ep->is_blocked) {
        int num = 0;
        for (fab_tcp_node_t *node = ep->out; NULL != node && num < FAB_TCP_IOVS;
             node = node->next) {
            iov[num++] = (struct iovec){.iov_base = node->bytes + node->start,
                                        .iov_len = node->end - node->start};
        }
        ssize_t n = write_some(ep, iov, num);
        if (n < 0 && 0 != errno) {
            write_failed(ep, errno);
            return;
        }
        consume(ep, n > 0 ? (size_t) n : 0);
    }
    if (NULL == ep->out && ep->credit_due >= FAB_TCP_CREDIT) {
        give_credit(ep); /* it could not be queued before */
    }
    if (NULL == ep->out && NULL != ep->main) {
        ep = ep->main; /* its end may have waited for this link */
    }
    if (NULL == ep->out && ep->is_end_sent && !ep->is_shut && !fab_tcp_links_are_busy(ep)) {
        ep->is_shut = true;
        (void) shutdown(ep->fd, SHUT_WR);
    }
}

void fab_tcp_stream_unblock(fab_tcp_ep_t *ep)
{
    block(ep, false);
    fab_tcp_stream_flush(ep);
}

/* Bytes of the window that a message of len bytes takes. */
static uint32_t counted(size_t len)
{
    return len <= FAB_TCP_EAGER_MAX ? (uint32_t) (sizeof(fab_tcp_hdr_t) + padded(len)) : 0;
}

/* A message of len bytes was written or queued. */
static void count_sent(fab_tcp_ep_t *ep, size_t len)
{
    ep->is_used = true;
    ep->window_used += counted(len);
    fab_counters.tcp_msgs_sent++;
}

bool fab_tcp_stream_is_ready(fab_tcp_ep_t *ep, size_t len)
{
    if (ep->is_blocked || (NULL != ep->out && !ep->is_batch)) {
        return false;
    }
    if (ep->window_used >= FAB_TCP_WINDOW) {
        fab_counters.tcp_window_full++;
        return false;
    }
    if (ep->is_batch || len >= FAB_TCP_TOGETHER) {
        return true;
    }
    bool is_first = ep->alone_pass != ep->dom->pass;
    ep->alone_pass = ep->dom->pass;
    return is_first;
}

static void append(fab_tcp_ep_t *ep, fab_tcp_node_t *node)
{
    if (NULL == ep->out) {
        ep->out = node;
    } else {
        ep->out_last->next = node;
    }
    ep->out_last = node;
}

/* The last of at most max buffers, with room for size bytes.  NULL: none now. */
static fab_tcp_node_t *last_buf(fab_tcp_ep_t *ep, size_t size, unsigned max)
{
    fab_tcp_node_t *last = ep->out_last;
    fab_tcp_buf_t *buf;

    if (NULL != last && is_buf(ep, last) && FAB_TCP_BUF - last->end >= size) {
        return last;
    }
    buf = ep->num_out < max ? fab_tcp_buf_get(ep->dom, FAB_TCP_FOR_READING) : NULL;
    if (NULL == buf) {
        fab_counters.tcp_queue_full++;
        return NULL;
    }
    append(ep, &buf->node);
    ep->num_out++;
    return &buf->node;
}

void *fab_tcp_stream_reserve(fab_tcp_ep_t *ep, size_t len)
{
    fab_tcp_node_t *buf = last_buf(ep, sizeof(fab_tcp_hdr_t) + padded(len), FAB_TCP_QUEUE);

    return NULL != buf ? buf->bytes + buf->end + sizeof(fab_tcp_hdr_t) : NULL;
}

static fab_tcp_hdr_t wire_hdr(fab_hdr_t hdr, size_t len)
{
    return (fab_tcp_hdr_t){
        .id_len = hdr.id | (uint32_t) len << 8, .app_ctx = hdr.app_ctx, .tag = hdr.tag};
}

/* Queue the message whose payload is in the last buffer, and write it unless a batch goes on. */
static void queue_last(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_node_t *buf = ep->out_last;
    char *at = buf->bytes + buf->end;
    fab_tcp_hdr_t wire = wire_hdr(hdr, len);

    memcpy(at, &wire, sizeof(wire));
    memset(at + sizeof(wire) + len, 0, padded(len) - len);
    buf->end += (uint32_t) (sizeof(wire) + padded(len));
    if (!ep->is_batch) {
        fab_tcp_stream_flush(ep);
    }
}

void fab_tcp_stream_commit(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    count_sent(ep, len);
    queue_last(ep, hdr, len);
}

/* Write these size bytes now, and queue what the kernel does not take. */
static int write_alone(fab_tcp_ep_t *ep, struct iovec *iov, int num, size_t size)
{
    fab_tcp_buf_t *spare = fab_tcp_buf_get(ep->dom, FAB_TCP_FOR_READING);
    ssize_t n;

    if (NULL == spare) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    count_sent(ep, size - sizeof(fab_tcp_hdr_t));
    n = write_some(ep, iov, num);
    if (size == (size_t) n || (n < 0 && 0 != errno)) {
        fab_tcp_buf_put(ep->dom, spare);
    }
    if (n < 0 && 0 != errno) {
        write_failed(ep, errno);
    } else if (size != (size_t) n) {
        put_first(ep, spare, iov, num, n > 0 ? (size_t) n : 0);
        fab_tcp_stream_flush(ep);
    }
    return OPAL_SUCCESS;
}

/* A short message, copied: one piece of memory costs the kernel less than three. */
static int send_copy(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len)
{
    struct {
        fab_tcp_hdr_t wire;
        char data[FAB_TCP_COPY];
    } message;
    const size_t size = sizeof(message.wire) + padded(len);
    struct iovec iov = {.iov_base = &message, .iov_len = size};

    message.wire = wire_hdr(hdr, len);
    if (len > 0) {
        memset(message.data + padded(len) - 8, 0, 8);
        memcpy(message.data, buf, len);
    }
    return write_alone(ep, &iov, 1, size);
}

static int send_alone(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len)
{
    static const char zeros[8];
    fab_tcp_hdr_t wire = wire_hdr(hdr, len);
    struct iovec iov[3] = {
        {.iov_base = &wire, .iov_len = sizeof(wire)},
        {.iov_base = (void *) (uintptr_t) buf, .iov_len = len},
        {.iov_base = (void *) (uintptr_t) zeros, .iov_len = padded(len) - len},
    };

    if (len <= FAB_TCP_COPY) {
        return send_copy(ep, hdr, buf, len);
    }
    return write_alone(ep, iov, 3, sizeof(wire) + padded(len));
}

int fab_tcp_stream_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len)
{
    void *room;

    if (!ep->is_batch) {
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

int fab_tcp_stream_send_from(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t ahead,
                             uint32_t links)
{
    const size_t total = out->head_len + out->len;
    const size_t len = total - ahead;
    const size_t num = 0 != links ? 2 : 1; /* headers */
    const fab_tcp_hdr_t wire[2] = {wire_hdr(fab_hdr(FAB_TCP_ID_STRIPE, total, links), 0),
                                   wire_hdr(hdr, len)};
    fab_tcp_node_t *node = (fab_tcp_node_t *) (void *) out->provider;
    size_t pad = padded(len) - len;
    fab_tcp_buf_t *tail = NULL; /* the padding; messages that follow go behind it */
    fab_tcp_node_t *buf = NULL;

    if (0 != pad && ep->num_outs < FAB_TCP_OUTS) {
        tail = fab_tcp_buf_get(ep->dom, FAB_TCP_FOR_READING);
    }
    if (ep->num_outs < FAB_TCP_OUTS && (0 == pad || NULL != tail)) {
        buf = last_buf(ep, num * sizeof(wire[0]) + out->head_len, FAB_TCP_QUEUE - 1);
    }
    if (NULL == buf) {
        if (NULL != tail) {
            fab_tcp_buf_put(ep->dom, tail);
        }
        return OPAL_ERR_RESOURCE_BUSY;
    }
    memcpy(buf->bytes + buf->end, &wire[2 - num], num * sizeof(wire[0]));
    buf->end += (uint32_t) (num * sizeof(wire[0]));
    if (out->head_len > 0) {
        memcpy(buf->bytes + buf->end, out->head, out->head_len);
        buf->end += (uint32_t) out->head_len;
    }
    out->status = OPAL_SUCCESS;
    out->pieces = 1 + (uint32_t) __builtin_popcount(links);
    *node = (fab_tcp_node_t){.bytes = (char *) (uintptr_t) out->buf + ahead,
                             .end = (uint32_t) (out->len - ahead),
                             .out = out};
    append(ep, node);
    ep->num_outs++;
    if (NULL != tail) {
        memset(tail->data, 0, sizeof(tail->data[0]));
        tail->node.start = (uint32_t) (sizeof(tail->data[0]) - pad);
        tail->node.end = sizeof(tail->data[0]);
        append(ep, &tail->node);
        ep->num_out++;
    }
    count_sent(ep, total);
    fab_counters.tcp_sends_from_memory++;
    if (!ep->is_batch || 0 != links) { /* its announcement should arrive before the pieces */
        fab_tcp_stream_flush(ep);
    }
    return OPAL_SUCCESS;
}

void fab_tcp_stream_send_piece(fab_tcp_ep_t *link, fab_tcp_buf_t *buf, fab_out_t *out, size_t at,
                               size_t len)
{
    fab_tcp_node_t *node = &link->links->pieces[link->link];
    const fab_tcp_hdr_t wire = wire_hdr(fab_hdr(FAB_TCP_ID_PIECE, at, 0), len);

    memcpy(buf->node.bytes, &wire, sizeof(wire));
    buf->node.end = sizeof(wire);
    append(link, &buf->node);
    link->num_out++;
    *node = (fab_tcp_node_t){
        .bytes = (char *) (uintptr_t) out->buf + at, .end = (uint32_t) len, .out = out};
    append(link, node);
    link->num_outs++;
    fab_tcp_stream_flush(link);
}

/* Queue a message of the provider itself, behind what is queued.  False: one is queued already. */
static bool queue_notice(fab_tcp_ep_t *ep, fab_tcp_notice_t *notice, fab_hdr_t hdr)
{
    fab_tcp_node_t *last = ep->out_last;

    if (NULL != last && is_buf(ep, last) && FAB_TCP_BUF - last->end >= sizeof(notice->hdr)) {
        queue_last(ep, hdr, 0);
        return true;
    }
    if (notice->node.start < notice->node.end) {
        return false;
    }
    notice->hdr = wire_hdr(hdr, 0);
    notice->node = (fab_tcp_node_t){.bytes = (char *) &notice->hdr, .end = sizeof(notice->hdr)};
    append(ep, &notice->node);
    if (!ep->is_batch) {
        fab_tcp_stream_flush(ep);
    }
    return true;
}

void fab_tcp_stream_end(fab_tcp_ep_t *ep, uint8_t id)
{
    if (ep->is_end_sent || 0 != ep->error) {
        return;
    }
    (void) queue_notice(ep, &ep->end, fab_hdr(id, 0, 0)); /* its only one */
    ep->is_used = true;
    ep->is_end_sent = true;
    fab_tcp_stream_flush(ep);
}

/* ---- what came ---------------------------------------------------------- */

void fab_tcp_bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len)
{
    char why[128];

    snprintf(why, sizeof(why), "It sent a malformed message (id %u, %zu bytes).", id, len);
    fab_counters.tcp_bad_messages++;
    fab_peer_fail(ep->peer, OPAL_ERR_COMM_FAILURE, why);
}

/* The peer has read so many bytes more. */
static void on_credit(fab_tcp_ep_t *ep, uint32_t bytes)
{
    if (bytes > ep->window_used) {
        fab_tcp_bad_message(ep, FAB_TCP_ID_CREDIT, 0);
        return;
    }
    ep->window_used -= bytes;
}

/* Tell the peer how much was read; if that cannot be now, once the queue is empty. */
static void give_credit(fab_tcp_ep_t *ep)
{
    const uint32_t due = ep->credit_due;

    if (ep->is_end_sent || 0 != ep->error) {
        return;
    }
    ep->credit_due = 0; /* queueing may write, and come back here */
    if (!queue_notice(ep, &ep->credit, fab_hdr(FAB_TCP_ID_CREDIT, 0, due))) {
        ep->credit_due = due;
    }
}

/* A message of len bytes was read. */
static void count_read(fab_tcp_ep_t *ep, size_t len)
{
    ep->credit_due += counted(len);
    if (ep->credit_due >= FAB_TCP_CREDIT) {
        give_credit(ep);
    }
}

/* A message of the provider itself. */
static void own_message(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    unsigned id = hdr.id;

    if (id < FAB_TCP_ID_CLOSE || id > FAB_TCP_ID_STRIPE || 0 != len) {
        fab_tcp_bad_message(ep, id, len);
        return;
    }
    if (FAB_TCP_ID_CREDIT == id) {
        on_credit(ep, hdr.app_ctx);
        return;
    }
    if (FAB_TCP_ID_STRIPE == id) {
        fab_tcp_stripe_announced(ep, hdr);
        return;
    }
    ep->is_end_come = true;
    ep->has_left = FAB_TCP_ID_CLOSE != id;
    if (FAB_TCP_ID_REFUSE == id) {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH, "It refused this process.");
        return;
    }
    fab_tcp_stream_end(ep, FAB_TCP_ID_CLOSE);
    if (FAB_TCP_ID_LEAVE == id) {
        fab_peer_has_left(ep->peer); /* what is sent to it after this fails it as well */
    }
}

/* Does a buffer hold a message of so many bytes? */
static bool fits(size_t len)
{
    return sizeof(fab_tcp_hdr_t) + padded(len) <= FAB_TCP_BUF;
}

/* May messages with this id have a destination of their own? */
static bool has_places(const fab_tcp_domain_t *dom, uint8_t id)
{
    return id < FAB_AM_MAX && NULL != dom->fab->placers[id].fn;
}

/*
 * A part of a message is here: ask for the destination, and copy the part there.  False: there is
 * none, or little is still to come.
 */
static bool place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_node_t *in = &ep->in->node;
    size_t have = in->end - in->start - sizeof(fab_tcp_hdr_t);
    char *at;

    if (len < have + FAB_TCP_PLACE_MIN && fits(len)) {
        return false;
    }
    at = fab_place(ep->dom->fab, ep->peer, hdr, len);
    if (NULL == at) {
        return false;
    }
    memcpy(at, in->bytes + in->start + sizeof(fab_tcp_hdr_t), have);
    in->start = in->end = 0;
    ep->placing = (fab_tcp_placing_t){.at = at + have, .left = len - have, .hdr = hdr, .len = len};
    return true;
}

/* The next message is part of a striped one: copy what is here.  False: it is not complete. */
static bool take_part(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_node_t *in = &ep->in->node;
    size_t have = in->end - in->start - sizeof(fab_tcp_hdr_t);
    size_t now = have < len ? have : len;
    char *at;

    if (have >= len && have < padded(len)) {
        return false; /* only padding is missing */
    }
    at = fab_tcp_stripe_place(ep, hdr, len);
    if (NULL == at) {
        return false;
    }
    memcpy(at, in->bytes + in->start + sizeof(fab_tcp_hdr_t), now);
    if (now < len) {
        in->start = in->end = 0;
        ep->placing = (fab_tcp_placing_t){
            .at = at + now, .left = len - now, .hdr = hdr, .len = len};
        return false;
    }
    in->start += (uint32_t) (sizeof(fab_tcp_hdr_t) + padded(len));
    ep->is_bulk = true;
    fab_tcp_stripe_done(ep);
    return true;
}

/* Deliver the first message in ep->in if it is complete.  False: it is not, or it is illegal. */
static bool deliver_one(fab_tcp_ep_t *ep)
{
    fab_tcp_domain_t *dom = ep->dom;
    fab_tcp_node_t *in = &ep->in->node;
    fab_tcp_hdr_t wire;

    memcpy(&wire, in->bytes + in->start, sizeof(wire));
    uint8_t id = wire.id_len & 0xff;
    size_t len = wire.id_len >> 8;
    fab_hdr_t hdr = fab_hdr(id, wire.tag, wire.app_ctx);
    if (__builtin_expect(NULL != ep->links, 0) && fab_tcp_is_part(ep)) {
        return take_part(ep, hdr, len);
    }
    if (len > (has_places(dom, id) ? FAB_FRAGMENT_MAX : dom->addr.eager_max) || ep->is_end_come) {
        fab_tcp_bad_message(ep, id, len);
        return false;
    }
    if (in->end - in->start < sizeof(wire) + padded(len)) {
        if (!(has_places(dom, id) && place(ep, hdr, len)) && !fits(len)) {
            fab_tcp_bad_message(ep, id, len); /* nobody here has asked for so much */
        }
        return false;
    }
    char *data = in->bytes + in->start + sizeof(wire);
    in->start += (uint32_t) (sizeof(wire) + padded(len));
    ep->is_bulk = FAB_AM_RNDV == id && len > sizeof(fab_rndv_t);
    fab_counters.tcp_msgs_received++;
    if (id < FAB_AM_MAX) {
        count_read(ep, len);
        fab_deliver(dom->fab, ep->peer, hdr, data, len);
    } else {
        own_message(ep, hdr, len);
    }
    return true;
}

/* Deliver the complete messages in ep->in. Returns how many. */
static int deliver(fab_tcp_ep_t *ep)
{
    fab_tcp_node_t *in = &ep->in->node;
    int events = 0;

    while (in->end - in->start >= sizeof(fab_tcp_hdr_t) && !ep->is_paused &&
           FAB_PEER_FAILED != ep->peer->state && deliver_one(ep)) {
        events++;
    }
    return events;
}

/* n bytes came; those for ep->placing are at their destination. */
static int placed(fab_tcp_ep_t *ep, size_t n)
{
    fab_tcp_placing_t *placing = &ep->placing;
    size_t mine = n < placing->left ? n : placing->left;
    char *data = placing->at - (placing->len - placing->left);

    placing->at += mine;
    placing->left -= mine;
    ep->in->node.end += (uint32_t) (n - mine);
    if (0 != placing->left) {
        return 0;
    }
    placing->at = NULL;
    ep->is_bulk = true;
    ep->skip = (uint8_t) (padded(placing->len) - placing->len);
    if (NULL != ep->links && fab_tcp_is_part(ep)) {
        fab_tcp_stripe_done(ep);
        return 1;
    }
    fab_counters.tcp_msgs_received++;
    fab_counters.tcp_placed++;
    count_read(ep, placing->len);
    fab_deliver(ep->dom->fab, ep->peer, placing->hdr, data, placing->len);
    return 1;
}

/* Make room behind the beginning of a message. */
static void move_to_front(fab_tcp_node_t *in)
{
    if (0 != in->start) {
        memmove(in->bytes, in->bytes + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
}

/* The connection has ended normally on both sides. */
static void ended(fab_tcp_ep_t *ep)
{
    fab_tcp_stream_close(ep);
    fab_tcp_connect_again(ep);
}

/* Has the connection ended, on both sides?  Then ep may be gone afterwards. */
void fab_tcp_stream_end_if_done(fab_tcp_ep_t *ep)
{
    if (FAB_TCP_UP == ep->state && ep->is_eof && ep->is_shut && NULL == ep->main) {
        ended(ep);
    }
}

void fab_tcp_stream_stop(fab_tcp_ep_t *ep)
{
    ep->is_eof = true;
    (void) watch(ep, EPOLL_CTL_MOD);
}

/* Nothing comes any more: errno, or 0 at the end of the stream. */
static void on_eof(fab_tcp_ep_t *ep, int error)
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
        (void) watch(ep, EPOLL_CTL_MOD);
        fab_tcp_stream_end_if_done(ep);
        return;
    }
    ep->is_eof = true;
    (void) watch(ep, EPOLL_CTL_MOD);
    fab_counters.tcp_peers_lost++;
    error = 0 != ep->error ? ep->error : error;
    snprintf(why, sizeof(why), "The TCP connection to it (%s) was lost: %s.", ep->to,
             0 != error ? strerror(error) : "closed by its host; its process has probably ended");
    fab_peer_fail(ep->peer, 0 != error ? OPAL_ERR_UNREACH : OPAL_ERR_PROC_ABORTED, why);
}

/* One system call, as recv().  *room: the bytes for which there was room. */
static ssize_t read_some(fab_tcp_ep_t *ep, size_t *room)
{
    fab_tcp_node_t *in = &ep->in->node;
    fab_tcp_placing_t *placing = &ep->placing;
    struct iovec iov[2];

    if (NULL == placing->at) {
        *room = ep->is_bulk && in->start == in->end ? FAB_TCP_AHEAD : FAB_TCP_BUF - in->end;
        return recv(ep->fd, in->bytes + in->end, *room, MSG_DONTWAIT);
    }
    /* the padding comes first, and the header after it is to be aligned */
    in->start = in->end = (uint32_t) ((8 - (padded(placing->len) - placing->len)) % 8);
    iov[0] = (struct iovec){.iov_base = placing->at, .iov_len = placing->left};
    iov[1] = (struct iovec){.iov_base = in->bytes + in->end, .iov_len = FAB_TCP_AHEAD};
    *room = placing->left + FAB_TCP_AHEAD;
    return readv(ep->fd, iov, 2);
}

/* n bytes came. Returns the number of messages. */
static int take(fab_tcp_ep_t *ep, size_t n)
{
    fab_tcp_node_t *in = &ep->in->node;
    int events = 0;

    ep->is_used = true;
    fab_counters.tcp_reads++;
    if (NULL != ep->placing.at) {
        events = placed(ep, n);
    } else {
        in->end += (uint32_t) n;
    }
    while (ep->skip > 0 && in->start < in->end) {
        in->start++;
        ep->skip--;
    }
    return NULL == ep->placing.at ? events + deliver(ep) : events;
}

/*
 * Keep the buffer only if it holds something.  A link that the peer made keeps it: the connection
 * may hold all others, and wait for what comes by the link.
 */
static void tidy(fab_tcp_ep_t *ep)
{
    fab_tcp_node_t *in = &ep->in->node;

    if (in->start != in->end) {
        move_to_front(in);
    } else if (fab_tcp_is_link_in(ep)) {
        in->start = in->end = 0;
    } else if (0 == ep->skip) {
        fab_tcp_buf_put(ep->dom, ep->in);
        ep->in = NULL;
    }
}

int fab_tcp_stream_read(fab_tcp_ep_t *ep)
{
    int events = 0;

    for (int i = 0;
         i < FAB_TCP_READS && FAB_PEER_FAILED != ep->peer->state && !ep->is_eof && !ep->is_paused;
         i++) {
        size_t room;
        ep->in = NULL != ep->in ? ep->in : fab_tcp_buf_get(ep->dom, 0);
        if (NULL == ep->in) {
            return events; /* no memory; it stays in the kernel */
        }
        ssize_t n = read_some(ep, &room);
        int error = n < 0 ? errno : 0;
        events += n > 0 ? take(ep, (size_t) n) : 0;
        tidy(ep);
        if (0 == n || (n < 0 && !may_go_on(error))) {
            on_eof(ep, error);
            return events + 1;
        }
        if (n < (ssize_t) room) {
            break;
        }
    }
    return events;
}

void fab_tcp_stream_mute(fab_tcp_ep_t *ep, bool is_muted)
{
    if (is_muted != ep->is_muted) {
        ep->is_muted = is_muted;
        (void) watch(ep, EPOLL_CTL_MOD);
    }
}

void fab_tcp_stream_pause(fab_tcp_ep_t *ep)
{
    ep->is_paused = true;
    (void) watch(ep, EPOLL_CTL_MOD);
}

void fab_tcp_stream_resume(fab_tcp_ep_t *ep)
{
    if (!ep->is_paused) {
        return;
    }
    ep->is_paused = false;
    (void) watch(ep, EPOLL_CTL_MOD);
    if (NULL != ep->in) {
        (void) deliver(ep);
        tidy(ep);
    }
}

/*
 * With TCP_USER_TIMEOUT (tcp(7)) the kernel would also end the connection to a process that
 * computes for so long while its receive buffer is full.  So that limit is set only while data is
 * not acknowledged; while the peer has no room, its answers to probes count.
 */
void fab_tcp_stream_check(fab_tcp_ep_t *ep)
{
    const uint32_t limit_ms = fab_params.tcp_timeout * 1000;
    struct tcp_info info = {.tcpi_state = 0};
    socklen_t len = sizeof(info);
    bool is_silent, has_limit;

    if (0 != getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) {
        return;
    }
    is_silent = (info.tcpi_unacked > 0 || info.tcpi_probes > 0) &&
                info.tcpi_last_ack_recv >= limit_ms / FAB_TCP_CHECKS;
    has_limit = is_silent && 0 == info.tcpi_probes;
    ep->silences = is_silent ? (uint8_t) (ep->silences + 1) : 0;
    if (has_limit != ep->has_limit) {
        ep->has_limit = has_limit;
        set_option(ep->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, has_limit ? (int) limit_ms : 0);
    }
    if (ep->silences > FAB_TCP_CHECKS) {
        ep->silences = 0;
        if (!has_limit && !ep->is_eof) {
            on_eof(ep, ETIMEDOUT);
        }
    }
}

void fab_tcp_stream_broken(fab_tcp_ep_t *ep)
{
    int error = 0;
    socklen_t len = sizeof(error);

    (void) getsockopt(ep->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    on_eof(ep, error);
}
