/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers: a few large ones, each filled by many messages of any peers (FI_MULTI_RECV).
 *
 * libfabric says with an entry of the completion queue that a buffer takes no more messages: with
 * that of its last message, with one of its own, or, some providers, before entries of messages in
 * it, which it may still be filling.  So a buffer is posted again only when its messages, which lie
 * one behind the other, are delivered up to where no other has room, and the queue was empty after
 * that.  If that does not come to pass within a second of polling, there are none under way:
 * the provider leaves gaps between messages, or released the buffer early.
 */
#ifndef FAB_OFI_RECV_H
#define FAB_OFI_RECV_H

#include <rdma/fi_eq.h>

#include "ofi/ofi_domain.h"

/* NULL, or why not. */
const char *fab_ofi_recv_open(fab_ofi_domain_t *dom);
const char *fab_ofi_recv_post_all(fab_ofi_domain_t *dom);
void fab_ofi_recv_close(fab_ofi_domain_t *dom);

/*
 * An entry for this buffer: the message in it, of entry->len bytes, aligned, valid until the next
 * call.  NULL: there is none.
 */
const void *fab_ofi_recv_take_any(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf,
                                  const struct fi_cq_tagged_entry *entry);

/* The same, inline for an aligned message that does not release the buffer. */
static inline const void *fab_ofi_recv_take(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf,
                                            const struct fi_cq_tagged_entry *entry)
{
    const fab_ofi_rbufs_t *recv = &dom->recv;
    const size_t len = entry->len, offset = (uintptr_t) entry->buf - (uintptr_t) buf->data;

    if (__builtin_expect(FI_RECV != (entry->flags & (FI_RECV | FI_MULTI_RECV)) ||
                             len - 1 >= recv->min_free || offset > recv->size - len ||
                             0 != offset % FAB_OFI_ALIGN,
                         0)) {
        return fab_ofi_recv_take_any(dom, buf, entry);
    }
    buf->num_quiet = 0;
    buf->high = offset + len > buf->high ? offset + len : buf->high;
    buf->filled += len;
    return entry->buf;
}

/* The entry was an error: the buffer takes no more, if flags say so. */
void fab_ofi_recv_error(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf, uint64_t flags);
/* The completion queue was empty: post what is free again. */
void fab_ofi_recv_quiet(fab_ofi_domain_t *dom);

#endif /* FAB_OFI_RECV_H */
