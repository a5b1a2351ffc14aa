/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection writes.
 *
 * The first few messages after a progress call leave at once, each by a system call of its own and
 * without a copy, since the next progress call may be far away.  Others wait in the fabric's queue,
 * where their requests stay open, until that sends a whole batch by one call.  The part of a write
 * that the kernel did not take is kept here, and nothing overtakes it.  A send from memory is
 * queued as a reference, and completes from progress when the kernel has taken all of it.
 *
 * The window.  At most FAB_TCP_WINDOW bytes of messages are sent for which the peer has given no
 * credit (CREDIT).  The receiver must keep messages that it has no receive for, and its kernel may
 * hold megabytes of them.
 *
 * Memory.  What a peer may wait for (CREDIT, and the last message) lies in the endpoint.  All else
 * waits for a buffer.  The domain has some from the start, and writing leaves one of them for
 * reading: a message that has begun to arrive can always be read, so every buffer comes back.
 */
#include "tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* ---- the queue ---------------------------------------------------------- */

/* Is it of a buffer?  If not, of a send from memory, or of a notice. */
static bool is_buf(const fab_tcp_ep_t *ep, const fab_tcp_node_t *node)
{
    return NULL == node->out && &ep->credit.node != node && &ep->end.node != node;
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

void fab_tcp_stream_part_done(fab_tcp_domain_t *dom, fab_out_t *out, int status)
{
    out->status = OPAL_SUCCESS != status ? status : out->status;
    if (0 == --out->pieces) {
        fab_tcp_node_t *node = (fab_tcp_node_t *) (void *) out->provider; /* of its last part */
        node->next = dom->done;
        dom->done = node;
    }
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
    fab_tcp_stream_part_done(ep->dom, out, status);
}

void fab_tcp_stream_discard(fab_tcp_ep_t *ep)
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

/* n bytes of the queue were written. */
static void consume(fab_tcp_ep_t *ep, size_t n)
{
    fab_tcp_node_t *node;

    while (NULL != (node = ep->out)) { /* one may be empty */
        size_t used = node->end - node->start;
        if (n < used) {
            node->start += (uint32_t) n;
            return;
        }
        n -= used;
        ep->out = node->next;
        release(ep, node, OPAL_SUCCESS);
    }
    ep->out_last = NULL;
}

void fab_tcp_stream_put_first(fab_tcp_ep_t *ep, fab_tcp_buf_t *buf, const struct iovec *iov,
                              int num, size_t skip)
{
    size_t len = 0;

    for (int i = 0; i < num; i++) {
        len += iov[i].iov_len;
    }
    buf->node.start = buf->node.end = (uint32_t) (fab_tcp_padded(len - skip) - (len - skip));
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

static fab_tcp_hdr_t wire_hdr(fab_hdr_t hdr, size_t len)
{
    return (fab_tcp_hdr_t){
        .id_len = hdr.id | (uint32_t) len << 8, .app_ctx = hdr.app_ctx, .tag = hdr.tag};
}

/* Queue a piece on a link, whose queue is empty. */
static void put_piece(fab_tcp_ep_t *link, const fab_tcp_piece_t *piece)
{
    fab_tcp_notice_t *head = &link->end;
    fab_tcp_node_t *data = &link->credit.node;

    head->hdr = wire_hdr(fab_hdr(FAB_TCP_ID_PIECE, piece->at, 0), piece->len);
    head->node = (fab_tcp_node_t){.bytes = (char *) &head->hdr, .end = sizeof(head->hdr)};
    *data = (fab_tcp_node_t){.bytes = (char *) (uintptr_t) piece->out->buf + piece->at,
                             .end = (uint32_t) piece->len};
    append(link, &head->node);
    append(link, data);
}

/* Queue the next piece on a link, whose queue is empty.  False: there is none. */
static bool put_next(fab_tcp_ep_t *link)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    if (sent->written == sent->next) {
        return false;
    }
    put_piece(link, &sent->piece[sent->written++ % FAB_TCP_PIECES]);
    return true;
}

/* ---- system calls ------------------------------------------------------- */

static void block(fab_tcp_ep_t *ep, bool is_blocked)
{
    if (is_blocked != ep->is_blocked) {
        ep->is_blocked = is_blocked;
        fab_tcp_watch(ep);
        ep->dom->num_blocked += is_blocked ? 1 : -1;
    }
}

/*
 * If the connection is lost, what came before is still to be read, and says how it ended.  If it is
 * not, but the memory of a message cannot be read, nothing else would end it.
 */
static void write_failed(fab_tcp_ep_t *ep, int error)
{
    char why[256];

    ep->error = error;
    if (EFAULT == error) {
        fab_peer_fail(ep->peer, OPAL_ERR_BAD_PARAM,
                      "The memory of a message to it cannot be read by this process.");
    }
    if (ep->is_out) {
        ep->dom->on_ended(ep, error);
        return;
    }
    fab_tcp_stream_discard(ep);
    ep->is_shut = true;
    block(ep, false);
    if (NULL == ep->main && FAB_SES_BYE_NONE == ep->ses.peer_bye) { /* else the end says it all */
        snprintf(why, sizeof(why), "The TCP connection to it (%s) was lost: %s.", ep->to,
                 strerror(error));
        fab_ses_path_broke(&ep->ses, OPAL_ERR_UNREACH, why);
    }
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
    if (n < 0 && fab_tcp_may_go_on(errno)) {
        block(ep, true);
        errno = 0;
    }
    return n;
}

void fab_tcp_stream_flush(fab_tcp_ep_t *ep)
{
    struct iovec iov[FAB_TCP_IOVS];

    while (!ep->is_blocked && (NULL != ep->out || (ep->is_out && put_next(ep)))) {
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
    if (NULL == ep->out && ep->ses.is_credit_due) {
        fab_tcp_stream_give_credit(ep); /* it could not be queued before */
    }
    if (NULL == ep->out && FAB_SES_BYE_NONE != ep->ses.bye && !ep->is_shut &&
        !fab_tcp_links_are_busy(ep)) {
        ep->is_shut = true;
        (void) shutdown(ep->fd, SHUT_WR);
    }
}

void fab_tcp_stream_unblock(fab_tcp_ep_t *ep)
{
    block(ep, false);
    fab_tcp_stream_flush(ep);
}

/* ---- messages ----------------------------------------------------------- */

/* A message of len bytes was written or queued. */
static void count_sent(fab_tcp_ep_t *ep, size_t len)
{
    ep->ses.is_used = true;
    ep->ses.sent += fab_tcp_counted(len);
    fab_counters.tcp_msgs_sent++;
}

bool fab_tcp_stream_is_ready(fab_tcp_ep_t *ep, size_t len)
{
    if (ep->is_blocked || (NULL != ep->out && !ep->is_batch)) {
        return false;
    }
    if (!fab_ses_may_send(&ep->ses)) {
        fab_counters.no_credit++;
        return false;
    }
    if (ep->is_batch || len >= FAB_TCP_TOGETHER) {
        return true;
    }
    if (ep->alone_pass != ep->dom->pass) {
        ep->alone_pass = ep->dom->pass;
        ep->num_alone = 0;
    }
    return ep->num_alone++ < FAB_TCP_ALONE;
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
        return NULL;
    }
    append(ep, &buf->node);
    ep->num_out++;
    return &buf->node;
}

void *fab_tcp_stream_reserve(fab_tcp_ep_t *ep, size_t len)
{
    fab_tcp_node_t *buf = last_buf(ep, sizeof(fab_tcp_hdr_t) + fab_tcp_padded(len), FAB_TCP_QUEUE);

    return NULL != buf ? buf->bytes + buf->end + sizeof(fab_tcp_hdr_t) : NULL;
}

/* Queue the message whose payload is in the last buffer, and write it unless a batch goes on. */
static void queue_last(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_node_t *buf = ep->out_last;
    char *at = buf->bytes + buf->end;
    fab_tcp_hdr_t wire = wire_hdr(hdr, len);

    memcpy(at, &wire, sizeof(wire));
    memset(at + sizeof(wire) + len, 0, fab_tcp_padded(len) - len);
    buf->end += (uint32_t) (sizeof(wire) + fab_tcp_padded(len));
    if (!ep->is_batch) {
        fab_tcp_stream_flush(ep);
    }
}

void fab_tcp_stream_commit(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    count_sent(ep, len);
    queue_last(ep, hdr, len);
}

/* Write a message of len bytes, in all size bytes, now, and queue what the kernel does not take. */
static int write_alone(fab_tcp_ep_t *ep, struct iovec *iov, int num, size_t size, size_t len)
{
    fab_tcp_buf_t *spare = fab_tcp_buf_get(ep->dom, FAB_TCP_FOR_READING);
    ssize_t n;

    if (NULL == spare) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    count_sent(ep, len);
    n = write_some(ep, iov, num);
    if (size == (size_t) n || (n < 0 && 0 != errno)) {
        fab_tcp_buf_put(ep->dom, spare);
    }
    if (n < 0 && 0 != errno) {
        write_failed(ep, errno);
    } else if (size != (size_t) n) {
        fab_tcp_stream_put_first(ep, spare, iov, num, n > 0 ? (size_t) n : 0);
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
    const size_t size = sizeof(message.wire) + fab_tcp_padded(len);
    struct iovec iov = {.iov_base = &message, .iov_len = size};

    message.wire = wire_hdr(hdr, len);
    if (len > 0) {
        memset(message.data + fab_tcp_padded(len) - 8, 0, 8);
        memcpy(message.data, buf, len);
    }
    return write_alone(ep, &iov, 1, size, len);
}

/*
 * What comes before a long payload, 64 bytes in all.  Behind only 16 bytes the kernel copies a
 * payload that begins a page to 16 bytes behind the begin of a page, which some processors do very
 * slowly: an AMD EPYC copies 32 KiB by "rep movsb" in 10.6 us, and otherwise in 0.6.
 */
typedef struct far_hdr {
    fab_tcp_hdr_t fill[3]; /* CREDIT, of what the peer may know already */
    fab_tcp_hdr_t wire;
} far_hdr_t;

_Static_assert(64 == sizeof(far_hdr_t), "the comment says so");

static int send_alone(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len)
{
    static const char zeros[8];
    const fab_tcp_hdr_t fill = wire_hdr(fab_hdr(FAB_TCP_ID_CREDIT, ep->ses.consumed, 0), 0);
    far_hdr_t head = {.fill = {fill, fill, fill}, .wire = wire_hdr(hdr, len)};
    struct iovec iov[3] = {
        {.iov_base = &head, .iov_len = sizeof(head)},
        {.iov_base = (void *) (uintptr_t) buf, .iov_len = len},
        {.iov_base = (void *) (uintptr_t) zeros, .iov_len = fab_tcp_padded(len) - len},
    };

    if (len <= FAB_TCP_COPY) {
        return send_copy(ep, hdr, buf, len);
    }
    return write_alone(ep, iov, 3, sizeof(head) + fab_tcp_padded(len), len);
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
    size_t pad = fab_tcp_padded(len) - len;
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

void fab_tcp_stream_bye(fab_tcp_ep_t *ep, fab_ses_bye_t bye)
{
    if (0 == ep->error) {
        (void) queue_notice(ep, &ep->end, fab_hdr(FAB_TCP_ID_BYE, 0, bye)); /* its only one */
        ep->ses.is_used = true;
        fab_tcp_stream_flush(ep);
    }
}

void fab_tcp_stream_give_credit(fab_tcp_ep_t *ep)
{
    const uint32_t told = ep->ses.told;
    fab_hdr_t hdr = fab_hdr(FAB_TCP_ID_CREDIT, ep->ses.consumed, 0);

    if (FAB_SES_BYE_NONE != ep->ses.bye || 0 != ep->error) {
        return;
    }
    if (NULL != ep->main) {
        hdr = fab_hdr(FAB_TCP_ID_CONFIRM, ep->links->got[ep->link], ep->links->slow[ep->link]);
    }
    fab_ses_told(&ep->ses); /* queueing may write, and come back here */
    ep->ses.is_credit_due = false;
    if (!queue_notice(ep, &ep->credit, hdr)) {
        ep->ses.told = told;
        ep->ses.is_credit_due = true;
    }
}
