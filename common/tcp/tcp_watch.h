/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What epoll tells of a connection.
 */
#ifndef FAB_TCP_WATCH_H
#define FAB_TCP_WATCH_H

#include "tcp/tcp_types.h"

/* The connection is up: from now on epoll tells of it.  Returns 0, or errno. */
int fab_tcp_watch_begin(fab_tcp_ep_t *ep);

/* Tell epoll what the connection waits for. */
void fab_tcp_watch(fab_tcp_ep_t *ep);

/* Shall epoll leave out what comes?  Then it is read by polls of the hot connection. */
void fab_tcp_watch_mute(fab_tcp_ep_t *ep, bool is_muted);

/* Read nothing until fab_tcp_stream_resume(). */
void fab_tcp_watch_pause(fab_tcp_ep_t *ep);

/* Read nothing any more: the peer has failed. */
void fab_tcp_watch_stop(fab_tcp_ep_t *ep);

#endif /* FAB_TCP_WATCH_H */
