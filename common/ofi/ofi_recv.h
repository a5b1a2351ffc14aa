/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers: a few large ones, each filled by many messages of any peers (FI_MULTI_RECV).
 *
 * libfabric says with an entry of the completion queue that a buffer takes no more messages: with
 * that of its last message, with one of its own, or, some providers, before entries of messages in
 * it.  So a buffer is posted again only when the last message in it is known to be delivered, as
 * far as its place in the buffer tells, and the queue was empty after that.
 */
#ifndef FAB_OFI_RECV_H
#define FAB_OFI_RECV_H

#include <rdma/fi_eq.h>

#include "ofi/ofi_types.h"

typedef struct fab_ofi_rbuf {
    fab_ofi_ctx_t ctx;
    unsigned char *data; /* 64-byte aligned */
    size_t high;         /* bytes up to the end of the message that lies last in it */
    bool is_posted;
    bool is_released;     /* libfabric puts nothing more into it */
    bool is_quiet;        /* since then the queue was empty once */
    uint64_t released_at; /* us */
} fab_ofi_rbuf_t;

typedef struct fab_ofi_rbufs {
    fab_ofi_rbuf_t *bufs;
    uint32_t num;
    uint32_t num_idle; /* not posted */
    size_t size;       /* bytes of each */
    size_t min_free;   /* with less room than this left, libfabric releases a buffer */
    uint64_t *aligned; /* for a message that is not */
} fab_ofi_rbufs_t;

/* NULL, or why not. */
const char *fab_ofi_recv_open(fab_ofi_domain_t *dom);
const char *fab_ofi_recv_post_all(fab_ofi_domain_t *dom);
void fab_ofi_recv_close(fab_ofi_domain_t *dom);

/*
 * An entry for this buffer: the message in it, *data and *len, aligned, valid until the next call.
 * False: there is none.
 */
bool fab_ofi_recv_take(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf,
                       const struct fi_cq_tagged_entry *entry, const unsigned char **data,
                       size_t *len);
/* The entry was an error: the buffer takes no more, if flags say so. */
void fab_ofi_recv_error(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf, uint64_t flags);
/* The completion queue was empty: post what is free again. */
void fab_ofi_recv_quiet(fab_ofi_domain_t *dom);

#endif /* FAB_OFI_RECV_H */
