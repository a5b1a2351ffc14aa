/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the provider tcp have for each other, from the floor up.
 */
#ifndef FAB_TCP_H
#define FAB_TCP_H

#include "tcp/tcp_types.h"

/* ---- tcp_buf.c ---- */

/* The domain's first buffers.  False: no memory. */
bool fab_tcp_bufs_init(fab_tcp_domain_t *dom);
void fab_tcp_bufs_fini(fab_tcp_domain_t *dom);

/*
 * A buffer.  keep: if there is no more memory, so many of the free ones are left to others.  NULL:
 * there is none.
 */
fab_tcp_buf_t *fab_tcp_buf_get(fab_tcp_domain_t *dom, uint32_t keep);
void fab_tcp_buf_put(fab_tcp_domain_t *dom, fab_tcp_buf_t *buf);

/* A buffer of the bytes that wait in this one, with room for size bytes.  NULL: no memory. */
fab_tcp_buf_t *fab_tcp_buf_fit(const fab_tcp_buf_t *buf, size_t size);

/* The connection's buffer to read into.  False: no memory. */
bool fab_tcp_in_get(fab_tcp_ep_t *ep);

/* Give it back, with what it holds. */
void fab_tcp_in_put(fab_tcp_ep_t *ep);

/* ---- tcp_watch.c: what epoll tells of a connection ---- */

/* The connection is up: from now on epoll tells of it.  Returns 0, or errno. */
int fab_tcp_watch_begin(fab_tcp_ep_t *ep);

/* Tell epoll what the connection waits for: is_eof, is_paused or is_blocked has changed. */
void fab_tcp_watch(fab_tcp_ep_t *ep);

/* Shall epoll leave out what comes?  Then it is read by polls of the hot connection. */
void fab_tcp_watch_mute(fab_tcp_ep_t *ep, bool is_muted);

/* ---- tcp_stream_write.c: what a connection writes ---- */

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
 * May a message of len bytes be sent now?  A short one only in a batch, or as one of the first
 * after a progress call; others wait, to be written together.
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

/* Queue BYE, after which nothing is sent on this connection. */
void fab_tcp_stream_bye(fab_tcp_ep_t *ep, fab_ses_bye_t bye);

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

/* Write what is queued, or what the kernel takes of it. */
void fab_tcp_stream_flush(fab_tcp_ep_t *ep);

/* The kernel takes more again. */
void fab_tcp_stream_unblock(fab_tcp_ep_t *ep);

/* Give up what is queued. */
void fab_tcp_stream_discard(fab_tcp_ep_t *ep);

/* Call complete() of the sends from memory that are done.  Returns how many. */
int fab_tcp_complete(fab_tcp_domain_t *dom);

/* ---- tcp_stream.c: a connection: it is opened, checked, and closed ---- */

/* Give up the attempt to make it. */
void fab_tcp_stream_cancel(fab_tcp_ep_t *ep);

/* The connection is up: take fd over, and write left_len bytes of left first. */
void fab_tcp_stream_open(fab_tcp_ep_t *ep, int fd, const void *left, size_t left_len);

/* The same of the socket that made it. */
void fab_tcp_stream_take(fab_tcp_ep_t *ep, fab_sock_t *sock);

/* Close the socket and drop queued data. */
void fab_tcp_stream_close(fab_tcp_ep_t *ep);

/*
 * Does the peer's host still answer?  Called FAB_SOCK_CHECKS times in each tcp_timeout.  If it does
 * not answer for so long, the peer fails.
 */
void fab_tcp_stream_check(fab_tcp_ep_t *ep);

/* Nothing comes any more: error is errno, or 0 at the end of the stream. */
void fab_tcp_stream_eof(fab_tcp_ep_t *ep, int error);

/* The connection has failed while it was paused. */
void fab_tcp_stream_broken(fab_tcp_ep_t *ep);

/* The peer sent something illegal: it fails. */
void fab_tcp_bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len);

/* ---- tcp_stripe.c: messages striped over the connection to a peer and its links ---- */

/*
 * As fab_tcp_stream_send_from(), striped over all links that are ready.  Then out->len is set to
 * what goes at once of all bytes.
 */
int fab_tcp_stripe_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t all);

/* The peer has so many pieces of this link: they are done, and the others are written. */
void fab_tcp_link_go_on(fab_tcp_ep_t *link, uint64_t got);

/* CONFIRM came. */
void fab_tcp_link_confirmed(fab_tcp_ep_t *link, fab_hdr_t hdr, size_t len);

/* The peer has the pieces of a link before number `until`, or they are given up. */
void fab_tcp_stripe_release(fab_tcp_ep_t *link, uint64_t until, int status);

/* STRIPE came. */
void fab_tcp_stripe_announced(fab_tcp_ep_t *ep, fab_hdr_t hdr);

/*
 * A part of len bytes begins: its destination.  NULL: it has to wait, or is illegal.  With
 * the part of an endpoint, what its links carry may be read: they are to be resumed.
 */
char *fab_tcp_stripe_place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len);

/* The part is at its destination.  True: the message is complete, and was delivered. */
bool fab_tcp_stripe_done(fab_tcp_ep_t *ep);

/* Does the striped message that is arriving wait for a link that was lost? */
bool fab_tcp_stripe_is_lost(const fab_tcp_ep_t *ep);

/* ---- tcp_stream_read.c: what a connection reads ---- */

/* Read what came, and deliver it.  Returns the number of messages and other events. */
int fab_tcp_stream_read(fab_tcp_ep_t *ep);

/* Go on to read, if the connection is paused, with what is here already. */
void fab_tcp_stream_resume(fab_tcp_ep_t *ep);

/* ---- tcp_link.c: links: further connections to a peer ---- */

/* Ask for links to the peer, once: a long message is about to be sent. */
void fab_tcp_links_ask(fab_tcp_ep_t *ep);

/* The peer asks for this link, once more if it has lost it.  NULL: no. */
fab_tcp_ep_t *fab_tcp_link_accept(fab_tcp_ep_t *ep, uint32_t number);

/* The link could not be made. */
void fab_tcp_link_refused(fab_tcp_ep_t *link);

/* The link has ended, by error (errno, or 0). */
void fab_tcp_link_ended(fab_tcp_ep_t *link, int error);

/* fab_tcp_stream_check() of those on which this process sends. */
void fab_tcp_links_check(const fab_tcp_ep_t *ep);

/* The process leaves: write what links have to write, and read what the peer confirms. */
void fab_tcp_links_leave(const fab_tcp_ep_t *ep);

/* Close all links of an endpoint. */
void fab_tcp_links_close(fab_tcp_ep_t *ep);

/* Free closed links: no event of epoll refers to them any more. */
void fab_tcp_links_reap(fab_tcp_domain_t *dom);

/* ---- tcp_ep.c: endpoints ---- */

/* NULL: no memory. */
fab_tcp_ep_t *fab_tcp_ep_new(fab_tcp_domain_t *dom, fab_peer_t *peer, const fab_tcp_addr_t *addr);

/* Close the connection, and all links. */
void fab_tcp_ep_close(fab_tcp_ep_t *ep);

void fab_tcp_ep_free(fab_tcp_ep_t *ep);

/* This process closed the peer, and the connection has ended: free both. */
void fab_tcp_ep_finish(fab_tcp_ep_t *ep);

/* ---- tcp_connect.c: its sessions, and what an end leads to ---- */

extern const fab_ses_ops_t fab_tcp_ses_ops;

/* If both directions have ended, close it; ep may be gone then. */
void fab_tcp_connect_end_if_done(fab_tcp_ep_t *ep);

/* fab_tcp_domain_t.on_ended. */
void fab_tcp_on_ended(fab_tcp_ep_t *ep, int error);

/* Upcalls of the sockets. */
void fab_tcp_on_proven(fab_sock_t *sock, void *frame);
void fab_tcp_on_frame(fab_sock_t *sock, const void *frame);
void fab_tcp_on_broken(fab_sock_t *sock, const char *why);

/* ---- tcp_peer.c: what the tcp provider does for one peer, and one progress call ---- */

extern const fab_ops_t fab_tcp_ops;

int fab_tcp_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_tcp_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_tcp_drop(fab_domain_t *dom, fab_peer_t *peer);
void fab_tcp_ask_owed(fab_peer_t *peer);

/* ---- tcp_progress.c: a progress call ---- */

int fab_tcp_progress(fab_domain_t *dom);

#endif /* FAB_TCP_H */
