/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: of messages that wait to be written, and of those that have come in part.
 */
#ifndef FAB_TCP_BUF_H
#define FAB_TCP_BUF_H

#include "tcp/tcp_types.h"

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

#endif /* FAB_TCP_BUF_H */
