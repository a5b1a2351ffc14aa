/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between nodes: unix stream sockets, non-blocking. Their names are in the abstract
 * name space, so that nothing is left behind whatever happens; below TMDEV_DIR if that is set, for
 * processes that do not share a network name space.
 *
 * Connections are closed and freed under node->progress_lock only; everybody else may mark one as
 * broken.
 */
#include "tmdev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Bytes that are read at a time; at least one frame of full size. */
#define CONN_IN_SIZE (4u * TMDEV_FRAME_MAX)

/* ---- names --------------------------------------------------------------- */

static socklen_t node_name(uint32_t id, struct sockaddr_un *name)
{
    const tmdev_settings_t *s = tmdev_settings();
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    char *path = name->sun_path;
    int n;
    if (NULL != s->dir) {
        n = snprintf(path, sizeof(name->sun_path), "%s/tmdev-%s-%u", s->dir, s->fabric, id);
    } else {
        n = 1 + snprintf(path + 1, sizeof(name->sun_path) - 1, "tmdev-%u-%s-%u",
                         (unsigned) getuid(), s->fabric, id);
    }
    if (n >= (int) sizeof(name->sun_path)) {
        n = (int) sizeof(name->sun_path) - 1;
    }
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + (size_t) n);
}

static int node_connect(uint32_t id)
{
    struct sockaddr_un name;
    socklen_t length = node_name(id, &name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && 0 != connect(fd, (struct sockaddr *) &name, length)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* A name in a directory outlives its process. */
static void remove_stale(uint32_t id)
{
    struct sockaddr_un name;
    if (NULL == tmdev_settings()->dir) {
        return;
    }
    (void) node_name(id, &name);
    int fd = node_connect(id);
    if (fd >= 0) {
        close(fd);
    } else if (ECONNREFUSED == errno) {
        unlink(name.sun_path);
    }
}

int tmdev_listen(tmdev_node_t *node)
{
    struct sockaddr_un name;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    /* Begin anywhere: the number of a process that just died should not be used at once. */
    uint64_t state = (uint64_t) getpid() ^ (tmdev_now_us() << 20);
    uint32_t first = (uint32_t) (tmdev_random(&state) % (TMDEV_NODES - 1));
    for (uint32_t i = 0; i < TMDEV_NODES - 1; i++) {
        node->id = 1 + (first + i) % (TMDEV_NODES - 1);
        remove_stale(node->id);
        socklen_t length = node_name(node->id, &name);
        if (0 == bind(fd, (struct sockaddr *) &name, length) && 0 == listen(fd, 1024)) {
            return fd;
        }
        if (EADDRINUSE != errno) {
            break;
        }
    }
    int error = tmdev_misuse(
        errno, "no socket for this process (%s)%s%s", strerror(errno),
        NULL != tmdev_settings()->dir ? ": is TMDEV_DIR a directory, its path short? " : "",
        NULL != tmdev_settings()->dir ? tmdev_settings()->dir : "");
    close(fd);
    errno = error;
    return -1;
}

void tmdev_unlisten(tmdev_node_t *node)
{
    struct sockaddr_un name;
    close(node->listen_fd);
    node->listen_fd = -1;
    if (NULL != tmdev_settings()->dir) {
        (void) node_name(node->id, &name);
        unlink(name.sun_path);
    }
}

/* ---- opening and closing ------------------------------------------------- */

static tmdev_conn_t *conn_new(tmdev_node_t *node, int fd, bool is_outgoing)
{
    tmdev_conn_t *conn = tmdev_alloc(sizeof(*conn));
    if (NULL == conn || NULL == (conn->in = malloc(CONN_IN_SIZE))) {
        free(conn);
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    conn->node = node;
    conn->fd = fd;
    conn->is_outgoing = is_outgoing;
    TAILQ_INIT(&conn->waiting);
    TAILQ_INIT(&conn->readers);
    TAILQ_INSERT_TAIL(&node->conns, conn, link);
    struct epoll_event event = {.events = node->is_cut ? 0 : EPOLLIN, .data.ptr = conn};
    (void) epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    return conn;
}

tmdev_conn_t *tmdev_conn_to(tmdev_node_t *node, uint32_t peer)
{
    tmdev_conn_t *conn = node->peers[peer];
    if (NULL != conn) {
        return conn;
    }
    int fd = node_connect(peer);
    if (fd < 0 || NULL == (conn = conn_new(node, fd, true))) {
        return NULL;
    }
    conn->peer = peer;
    node->peers[peer] = conn;
    tmdev_frame_t hello = {
        .type = TMDEV_FRAME_HELLO, .src_qpn = node->id, .psn = TMDEV_WIRE_VERSION};
    tmdev_conn_send(conn, &hello, NULL, 0);
    return conn;
}

void tmdev_conn_accept(tmdev_node_t *node)
{
    int fd;
    while ((fd = accept4(node->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred who = {0};
        socklen_t length = sizeof(who);
        if (0 != getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) ||
            (who.uid != getuid() && 0 != who.uid)) {
            close(fd);
            continue;
        }
        (void) conn_new(node, fd, false);
    }
}

/* Nobody may remember it, and who depends on it must know. */
static void conn_forget(tmdev_conn_t *conn)
{
    tmdev_node_t *node = conn->node;
    if (conn->is_outgoing && node->peers[conn->peer] == conn) {
        node->peers[conn->peer] = NULL;
    }
    for (uint32_t i = 1; i < TMDEV_QPS; i++) {
        tmdev_qp_t *qp = node->qps[i];
        if (NULL == qp) {
            continue;
        }
        if (qp->wait_conn == conn) {
            TAILQ_REMOVE(&conn->waiting, qp, wait_link);
            qp->wait_conn = NULL;
            tmdev_qp_ready(qp);
        }
        if (qp->reply_conn == conn) {
            tmdev_recv_conn_lost(qp);
        }
        tmdev_held_t *held;
        STAILQ_FOREACH(held, &qp->held, link) {
            if (held->conn == conn) {
                held->conn = NULL;
            }
        }
        if (conn->is_outgoing && qp->attr.dest_qp_num >> 12 == conn->peer) {
            tmdev_send_conn_lost(qp);
        }
    }
}

void tmdev_conn_close(tmdev_conn_t *conn)
{
    TAILQ_REMOVE(&conn->node->conns, conn, link);
    conn_forget(conn);
    close(conn->fd);
    free(conn->in);
    free(conn->out);
    free(conn);
}

static void conn_break(tmdev_conn_t *conn)
{
    if (!conn->is_broken) {
        conn->is_broken = true;
        if (conn->is_outgoing && conn->node->peers[conn->peer] == conn) {
            conn->node->peers[conn->peer] = NULL;
        }
        tmdev_node_wake(conn->node);
    }
}

/* ---- sending ------------------------------------------------------------- */

static void want_room(tmdev_conn_t *conn, bool is_wanted)
{
    struct epoll_event event = {.events = EPOLLIN | (is_wanted ? EPOLLOUT : 0u), .data.ptr = conn};
    event.events = conn->node->is_cut ? 0 : event.events;
    (void) epoll_ctl(conn->node->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

void tmdev_conns_watch(tmdev_node_t *node)
{
    tmdev_conn_t *conn;
    TAILQ_FOREACH(conn, &node->conns, link) {
        want_room(conn, conn->out_length > 0);
    }
}

bool tmdev_conn_is_free(const tmdev_conn_t *conn)
{
    return 0 == conn->out_length;
}

/* Keep what the socket did not take. */
static void conn_keep(tmdev_conn_t *conn, const struct iovec *iov, int count, size_t skip)
{
    if (0 == conn->out_length) {
        want_room(conn, true);
    }
    if (conn->out_offset > 0) {
        memmove(conn->out, conn->out + conn->out_offset, conn->out_length);
        conn->out_offset = 0;
    }
    for (int i = 0; i < count; i++) {
        size_t part = iov[i].iov_len > skip ? iov[i].iov_len - skip : 0;
        if (conn->out_length + part > conn->out_size) {
            size_t size = 2 * (conn->out_length + part);
            uint8_t *out = realloc(conn->out, size);
            if (NULL == out) {
                conn_break(conn);
                return;
            }
            conn->out = out;
            conn->out_size = size;
        }
        if (part > 0) {
            memcpy(conn->out + conn->out_length, (const uint8_t *) iov[i].iov_base + skip, part);
            conn->out_length += part;
        }
        skip -= iov[i].iov_len - part;
    }
}

void tmdev_conn_send(tmdev_conn_t *conn, tmdev_frame_t *frame, const struct iovec *payload,
                     int count)
{
    struct iovec iov[1 + TMDEV_MAX_SGE];
    frame->magic = TMDEV_WIRE_MAGIC;
    iov[0] = (struct iovec){.iov_base = frame, .iov_len = sizeof(*frame)};
    for (int i = 0; i < count; i++) {
        iov[1 + i] = payload[i];
    }
    if (conn->is_broken) {
        return;
    }
    if (conn->out_length > 0 || conn->node->is_cut) {
        conn_keep(conn, iov, 1 + count, 0);
        return;
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t) count + 1};
    ssize_t n;
    do {
        n = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && EINTR == errno);
    if (n < 0 && EAGAIN != errno && EWOULDBLOCK != errno && ENOBUFS != errno) {
        conn_break(conn);
        return;
    }
    if (n < (ssize_t) (sizeof(*frame) + frame->length)) {
        conn_keep(conn, iov, 1 + count, n > 0 ? (size_t) n : 0);
    }
}

void tmdev_conn_flush(tmdev_conn_t *conn)
{
    tmdev_qp_t *qp;
    if (conn->node->is_cut) {
        return;
    }
    while (conn->out_length > 0 && !conn->is_broken) {
        ssize_t n = send(conn->fd, conn->out + conn->out_offset, conn->out_length,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (EAGAIN != errno && EWOULDBLOCK != errno && EINTR != errno && ENOBUFS != errno) {
                conn_break(conn);
            }
            return;
        }
        conn->out_offset += (size_t) n;
        conn->out_length -= (size_t) n;
    }
    conn->out_offset = 0;
    want_room(conn, false);
    while (NULL != (qp = TAILQ_FIRST(&conn->waiting))) {
        TAILQ_REMOVE(&conn->waiting, qp, wait_link);
        qp->wait_conn = NULL;
        tmdev_qp_ready(qp);
    }
    while (NULL != (qp = TAILQ_FIRST(&conn->readers))) {
        TAILQ_REMOVE(&conn->readers, qp, reader_link);
        qp->reader_conn = NULL;
        tmdev_qp_ready(qp);
    }
}

/* ---- receiving ----------------------------------------------------------- */

static bool take_hello(tmdev_conn_t *conn, const tmdev_frame_t *frame)
{
    if (TMDEV_WIRE_VERSION != frame->psn || 0 == frame->src_qpn || frame->src_qpn >= TMDEV_NODES) {
        return false;
    }
    conn->peer = frame->src_qpn;
    return true;
}

/* Is it something that the other end can have meant? */
static bool frame_is_valid(const tmdev_conn_t *conn, const tmdev_frame_t *frame)
{
    bool is_answer = frame->type >= TMDEV_FRAME_ACK;
    return TMDEV_WIRE_MAGIC == frame->magic && frame->length <= TMDEV_FRAME_MAX &&
           frame->type >= TMDEV_FRAME_HELLO && frame->type <= TMDEV_FRAME_ATOMIC_DATA &&
           is_answer == conn->is_outgoing && frame->dst_qpn <= 0xffffff &&
           frame->src_qpn <= 0xffffff && frame->total <= 1ull << 31 &&
           frame->offset <= 1ull << 31 && (TMDEV_FRAME_HELLO == frame->type) == (0 == conn->peer);
}

/* Hand out the complete frames; false if the bytes make no sense. */
static bool take_frames(tmdev_conn_t *conn)
{
    size_t at = 0;
    bool is_good = true;
    tmdev_frame_t frame;
    while (is_good && conn->in_length - at >= sizeof(frame)) {
        memcpy(&frame, conn->in + at, sizeof(frame));
        is_good = frame_is_valid(conn, &frame);
        if (!is_good || conn->in_length - at < sizeof(frame) + frame.length) {
            break;
        }
        if (TMDEV_FRAME_HELLO == frame.type) {
            is_good = take_hello(conn, &frame);
        } else {
            tmdev_deliver(conn, &frame, conn->in + at + sizeof(frame));
        }
        at += sizeof(frame) + frame.length;
    }
    memmove(conn->in, conn->in + at, conn->in_length - at);
    conn->in_length -= at;
    return is_good;
}

/* One turn; epoll comes back if there is more. */
void tmdev_conn_read(tmdev_conn_t *conn)
{
    tmdev_node_t *node = conn->node;
    ssize_t n = recv(conn->fd, conn->in + conn->in_length, CONN_IN_SIZE - conn->in_length,
                     MSG_DONTWAIT);
    if (n < 0 && (EAGAIN == errno || EWOULDBLOCK == errno || EINTR == errno)) {
        return;
    }
    tmdev_node_lock(node);
    if (n <= 0) {
        conn_break(conn);
    } else {
        conn->in_length += (size_t) n;
        if (!take_frames(conn)) {
            tmdev_misuse(
                0, "the connection to node %u carries what is no frame of this version: closed",
                conn->peer);
            conn_break(conn);
        }
    }
    tmdev_node_unlock(node);
}
