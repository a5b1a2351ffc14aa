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
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

enum {
    FAB_OFI_SETTLE_US = 1000000, /* after which nothing is under way to a released buffer */
    FAB_OFI_SETTLE_POLLS = 1000, /* if the queue was empty so often meanwhile */
};

const char *fab_ofi_recv_open(fab_ofi_domain_t *dom)
{
    fab_ofi_rbufs_t *recv = &dom->recv;
    unsigned char *data;

    recv->size = FAB_OFI_RECV_BYTES;
    recv->min_free = dom->eager_limit + sizeof(fab_ofi_hdr_t) + FAB_OFI_ALIGN;
    recv->num = recv->num_idle = fab_limits.ofi_buffers;
    recv->bufs = calloc(recv->num, sizeof(*recv->bufs));
    recv->aligned = malloc(recv->min_free);
    data = aligned_alloc(4096, recv->num * recv->size);
    if (NULL == recv->bufs || NULL == recv->aligned || NULL == data) {
        free(data);
        return "There is not enough memory for receive buffers.";
    }
    for (uint32_t i = 0; i < recv->num; i++) {
        recv->bufs[i].ctx.kind = FAB_OFI_RECV;
        recv->bufs[i].data = data + i * recv->size;
    }
    return NULL;
}

void fab_ofi_recv_close(fab_ofi_domain_t *dom)
{
    fab_ofi_rbufs_t *recv = &dom->recv;

    if (NULL != recv->bufs) {
        free(recv->bufs[0].data);
    }
    free(recv->bufs);
    free(recv->aligned);
    recv->bufs = NULL;
    recv->aligned = NULL;
}

/* Returns a negative error of libfabric's, or 0. */
static int post(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf)
{
    struct iovec iov = {.iov_base = buf->data, .iov_len = dom->recv.size};
    struct fi_msg msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &buf->ctx};
    ssize_t rc = fi_recvmsg(dom->rdm, &msg, FI_MULTI_RECV | FI_COMPLETION);

    if (0 == rc) {
        buf->is_posted = true;
        buf->is_released = false;
        buf->num_quiet = 0;
        buf->high = buf->filled = 0;
        dom->recv.num_idle--;
    }
    return (int) rc;
}

const char *fab_ofi_recv_post_all(fab_ofi_domain_t *dom)
{
    int rc = 0;

    for (uint32_t i = 0; i < dom->recv.num && 0 == rc; i++) {
        rc = post(dom, &dom->recv.bufs[i]);
    }
    if (0 == rc || -FI_EAGAIN == rc) {
        return NULL; /* the others later */
    }
    return fab_sentence(dom->fab, "%s takes no receive buffers: %s.", dom->name, fi_strerror(-rc));
}

static void release(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf)
{
    if (buf->is_posted) {
        buf->is_posted = false;
        buf->is_released = true;
        buf->released_at = fab_now_us();
        dom->recv.num_idle++;
    }
}

const void *fab_ofi_recv_take_any(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf,
                                  const struct fi_cq_tagged_entry *entry)
{
    fab_ofi_rbufs_t *recv = &dom->recv;
    const unsigned char *at = entry->buf;
    const size_t offset = (size_t) (at - buf->data);

    if (0 != (entry->flags & FI_MULTI_RECV)) {
        release(dom, buf);
    }
    buf->num_quiet = 0;
    if (NULL == at || 0 == entry->len || 0 == (entry->flags & FI_RECV)) {
        return NULL; /* it only says that the buffer is released */
    }
    if (offset >= recv->size || entry->len > recv->size - offset || entry->len > recv->min_free) {
        fab_counters.ofi_strays++; /* longer than anybody may send, or the provider is wrong */
        return NULL;
    }
    buf->high = offset + entry->len > buf->high ? offset + entry->len : buf->high;
    buf->filled += entry->len;
    if (0 == (uintptr_t) at % FAB_OFI_ALIGN) {
        return at;
    }
    memcpy(recv->aligned, at, entry->len);
    fab_counters.ofi_unaligned++;
    return recv->aligned;
}

void fab_ofi_recv_error(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf, uint64_t flags)
{
    if (0 != (flags & FI_MULTI_RECV)) {
        release(dom, buf);
    }
}

/* Has all that is in the released buffer been delivered, as far as can be told? */
static bool is_settled(fab_ofi_rbufs_t *recv, const fab_ofi_rbuf_t *buf)
{
    const bool is_dense = buf->filled == buf->high;

    if ((is_dense || recv->has_gaps) && buf->high + recv->min_free > recv->size) {
        return true;
    }
    if (buf->num_quiet < FAB_OFI_SETTLE_POLLS ||
        fab_now_us() - buf->released_at < FAB_OFI_SETTLE_US) {
        return false;
    }
    recv->has_gaps = recv->has_gaps || !is_dense;
    return true;
}

/* libfabric does not take it, for another reason than that it has no room now. */
static __attribute__((noinline)) void refused(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf, int rc)
{
    fab_ofi_rbufs_t *recv = &dom->recv;

    buf->is_refused = true;
    recv->num_idle--;
    recv->num_refused++;
    fab_counters.ofi_errors++;
    fab_log(dom->fab, 1, "%s refuses a receive buffer: %s; %u of %u are left", dom->name,
            fi_strerror(-rc), recv->num - recv->num_refused, recv->num);
}

int fab_ofi_recv_quiet(fab_ofi_domain_t *dom)
{
    fab_ofi_rbufs_t *recv = &dom->recv;
    int rc = 0;

    for (uint32_t i = 0; i < recv->num; i++) {
        fab_ofi_rbuf_t *buf = &recv->bufs[i];
        if (buf->is_posted || buf->is_refused) {
            continue;
        }
        buf->num_quiet++;
        if (buf->is_released && !is_settled(recv, buf)) {
            continue;
        }
        rc = post(dom, buf);
        if (0 != rc && -FI_EAGAIN != rc) { /* else the next call tries again */
            refused(dom, buf, rc);
        }
    }
    return recv->num == recv->num_refused ? rc : 0;
}
