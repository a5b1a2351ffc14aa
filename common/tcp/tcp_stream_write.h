/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection writes.
 */
#ifndef FAB_TCP_STREAM_WRITE_H
#define FAB_TCP_STREAM_WRITE_H

#include "tcp/tcp_types.h"

/* Bytes of the window that a message of len bytes takes. */
static inline uint32_t fab_tcp_counted(size_t len)
{
    return len <= FAB_TCP_EAGER_MAX ? (uint32_t) (sizeof(fab_tcp_hdr_t) + fab_tcp_padded(len)) : 0;
}

/* Errors of a call after which it may be tried again later. */
static inline bool fab_tcp_may_go_on(int error)
{
    return EAGAIN == error || EINTR == error || ENOBUFS == error || ENOMEM == error;
}

/*
 * May a message of len bytes be sent now?  A short one only in a batch, or as the first after a
 * progress call; others wait, to be written together.
 */
bool fab_tcp_stream_is_ready(fab_tcp_ep_t *ep, size_t len);

/*
 * Room for a message of len bytes, behind what is queued; the header comes before.  NULL: none now.
 */
void *fab_tcp_stream_reserve(fab_tcp_ep_t *ep, size_t len);

/* Queue the message whose payload was written there. */
void fab_tcp_stream_commit(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len);

/* The same, without a copy where it can be written at once.  OPAL codes as fab_send(). */
int fab_tcp_stream_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len);

/*
 * Send from the caller's memory, without a copy.  The first ahead bytes are left out: each link of
 * the bit mask gets a piece of them.
 */
int fab_tcp_stream_send_from(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t ahead,
                             uint32_t links);

/* One part of the send is done; with the last, the send is. */
void fab_tcp_stream_part_done(fab_tcp_domain_t *dom, fab_out_t *out, int status);

/* Queue one of the provider's own messages, after which nothing is sent on this connection. */
void fab_tcp_stream_end(fab_tcp_ep_t *ep, uint8_t id);

/*
 * Tell the peer how much was read, or which pieces came by this link; if that cannot be now, once
 * the queue is empty.
 */
void fab_tcp_stream_give_credit(fab_tcp_ep_t *ep);

/*
 * Queue the pieces of memory, without their first skip bytes, at the head of an empty queue.  They
 * need not be a multiple of 8.  Takes buf, which is empty.
 */
void fab_tcp_stream_put_first(fab_tcp_ep_t *ep, fab_tcp_buf_t *buf, const struct iovec *iov,
                              int num, size_t skip);

/* Write what is queued, as far as the kernel takes it. */
void fab_tcp_stream_flush(fab_tcp_ep_t *ep);

/* The kernel takes more again. */
void fab_tcp_stream_unblock(fab_tcp_ep_t *ep);

/* Give up what is queued. */
void fab_tcp_stream_discard(fab_tcp_ep_t *ep);

/* Call complete() of the sends from memory that are done.  Returns how many. */
int fab_tcp_complete(fab_tcp_domain_t *dom);

#endif /* FAB_TCP_STREAM_WRITE_H */
