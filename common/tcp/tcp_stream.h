/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: it is opened, checked, and closed.
 */
#ifndef FAB_TCP_STREAM_H
#define FAB_TCP_STREAM_H

#include "tcp/tcp_types.h"

/* Give up the attempt to make it. */
void fab_tcp_stream_cancel(fab_tcp_ep_t *ep);

/* The connection is up: take fd over, and write left_len bytes of left first. */
void fab_tcp_stream_open(fab_tcp_ep_t *ep, int fd, const void *left, size_t left_len);

/* Close the socket and drop queued data. */
void fab_tcp_stream_close(fab_tcp_ep_t *ep);

/*
 * Does the peer's host still answer?  Called FAB_TCP_CHECKS times in each tcp_timeout.  If it does
 * not answer for so long, the peer fails.
 */
void fab_tcp_stream_check(fab_tcp_ep_t *ep);

/* Nothing comes any more: error is errno, or 0 at the end of the stream. */
void fab_tcp_stream_eof(fab_tcp_ep_t *ep, int error);

/* The connection has failed while it was paused. */
void fab_tcp_stream_broken(fab_tcp_ep_t *ep);

/* The peer sent something illegal: it fails. */
void fab_tcp_bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len);

#endif /* FAB_TCP_STREAM_H */
