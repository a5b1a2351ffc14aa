/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection reads.
 */
#ifndef FAB_TCP_STREAM_READ_H
#define FAB_TCP_STREAM_READ_H

#include "tcp/tcp_types.h"

/* Read what came, and deliver it.  Returns the number of messages and other events. */
int fab_tcp_stream_read(fab_tcp_ep_t *ep);

/* Go on to read after fab_tcp_watch_pause(), with what is here already. */
void fab_tcp_stream_resume(fab_tcp_ep_t *ep);

#endif /* FAB_TCP_STREAM_READ_H */
