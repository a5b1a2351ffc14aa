/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers: a few large ones, each filled by many messages of any peers (FI_MULTI_RECV).
 *
 * libfabric says with an entry of the completion queue that a buffer is released: with that of its
 * last message, or with one of its own.  Some providers say so when the last message has begun, and
 * go on filling those that began before it: net, tcp before 1.20, and ofi_rxm with messages that it
 * fetches.  Therefore a released buffer is posted again only when nothing can be under way to it.
 * Messages lie one behind the other.  So it must be full of messages that were delivered, without a
 * gap, up to where no other has room, or up to one whose entry released the buffer.  No time proves
 * that: a sender may stop inside a message for as long as it likes.
 *
 * opx keeps records of its own between messages, so its buffers have gaps.  It releases one by an
 * entry of its own, and counts what is under way before it does.
 *
 * A buffer to which something is under way stays aside, for ever if its sender has died.  When all
 * are aside, other memory is posted.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

enum {
    FAB_OFI_ASIDE_US = 1000000, /* after which there is one more buffer, if all are aside */
    FAB_OFI_ASIDE_MAX = 8,      /* so many more at most, if no buffer was ever found free */
};

/* Pages of their own, as those of ofi_pool.c.  NULL: there is not enough memory. */
static unsigned char *pages(size_t size)
{
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return MAP_FAILED == data ? NULL : data;
}

/* One more buffer, not posted yet. */
static bool add(fab_ofi_rbufs_t *recv)
{
    fab_ofi_rbuf_t *buf = calloc(1, sizeof(*buf));
    unsigned char *data = NULL != buf ? pages(recv->size) : NULL;

    if (NULL == data) {
        free(buf);
        return false;
    }
    buf->ctx.kind = FAB_OFI_RECV;
    buf->data = data;
    buf->next = recv->bufs;
    recv->bufs = buf;
    recv->num_idle++;
    return true;
}

const char *fab_ofi_recv_open(fab_ofi_domain_t *dom)
{
    fab_ofi_rbufs_t *recv = &dom->recv;

    recv->size = FAB_OFI_RECV_BYTES;
    recv->min_free = dom->eager_limit + sizeof(fab_ofi_hdr_t) + FAB_OFI_ALIGN;
    recv->num = fab_limits.ofi_buffers;
    recv->is_final = fab_ofi_is_provider(dom->info, "opx");
    recv->aligned = malloc(recv->min_free);
    dom->flushed = (uint64_t *) pages(sizeof(*dom->flushed));
    for (uint32_t i = 0; i < recv->num; i++) {
        if (NULL == recv->aligned || NULL == dom->flushed || !add(recv)) {
            return "There is not enough memory for receive buffers.";
        }
    }
    return NULL;
}

void fab_ofi_recv_close(fab_ofi_domain_t *dom)
{
    fab_ofi_rbufs_t *recv = &dom->recv;

    while (NULL != recv->bufs) {
        fab_ofi_rbuf_t *buf = recv->bufs;
        recv->bufs = buf->next;
        (void) munmap(buf->data, recv->size);
        free(buf);
    }
    if (NULL != dom->flushed) {
        (void) munmap(dom->flushed, sizeof(*dom->flushed));
        dom->flushed = NULL;
    }
    free(recv->aligned);
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
        buf->is_released = buf->is_whole = false;
        buf->high = buf->filled = 0;
        dom->recv.num_idle--;
    }
    return (int) rc;
}

const char *fab_ofi_recv_post_all(fab_ofi_domain_t *dom)
{
    int rc = 0;

    for (fab_ofi_rbuf_t *buf = dom->recv.bufs; NULL != buf && 0 == rc; buf = buf->next) {
        rc = post(dom, buf);
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
    if (NULL == at || 0 == entry->len || 0 == (entry->flags & FI_RECV)) {
        return NULL; /* it only says that the buffer is released */
    }
    if (offset >= recv->size || entry->len > recv->size - offset) {
        fab_counters.ofi_strays++; /* the provider is wrong */
        return NULL;
    }
    if (offset > buf->high && offset - buf->high < sizeof(fab_ofi_hdr_t)) {
        buf->filled += offset - buf->high; /* no message is so short */
    }
    if (offset + entry->len > buf->high) {
        buf->high = offset + entry->len;
        buf->is_whole = 0 != (entry->flags & FI_MULTI_RECV);
    }
    buf->filled += entry->len;
    if (entry->len > recv->min_free) {
        fab_counters.ofi_strays++; /* longer than anybody may send */
        return NULL;
    }
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

/* Has all that libfabric put into the released buffer been delivered? */
static bool is_free(fab_ofi_rbufs_t *recv, const fab_ofi_rbuf_t *buf)
{
    const bool is_full = buf->is_whole || recv->size - buf->high < recv->min_free;

    if (recv->is_final || (is_full && buf->filled == buf->high)) {
        recv->is_known = true;
        return true;
    }
    return false;
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

/*
 * No buffer is posted, and none is free: something is under way to each, or has been lost.  The
 * first is so for a moment where many peers send.
 */
static __attribute__((noinline)) const char *all_aside(fab_ofi_domain_t *dom, int *rc)
{
    fab_ofi_rbufs_t *recv = &dom->recv;
    const uint64_t now = fab_now_us();

    if (0 == recv->aside_since) {
        recv->aside_since = now;
    }
    if (now - recv->aside_since < FAB_OFI_ASIDE_US) {
        return NULL;
    }
    recv->aside_since = 0;
    if (!recv->is_known && recv->num_more >= FAB_OFI_ASIDE_MAX) {
        *rc = -FI_EOPNOTSUPP;
        return "leaves gaps in receive buffers, so it is not known when one is free again; "
               "pml_tm_ofi_provider can name another provider";
    }
    recv->num_more += add(recv);
    fab_log(dom->fab, 1, "%s has released all receive buffers, and goes on filling them: one more",
            dom->name);
    return NULL;
}

const char *fab_ofi_recv_again(fab_ofi_domain_t *dom, int *rc)
{
    fab_ofi_rbufs_t *recv = &dom->recv;
    bool has_any = false; /* posted, or to be posted by the next call */

    *rc = 0;
    for (fab_ofi_rbuf_t *buf = recv->bufs; NULL != buf; buf = buf->next) {
        if (!buf->is_posted && !buf->is_refused && (!buf->is_released || is_free(recv, buf))) {
            int error = post(dom, buf);
            if (0 != error && -FI_EAGAIN != error) {
                *rc = error;
                refused(dom, buf, error);
                continue;
            }
            has_any = true;
        }
        has_any = has_any || buf->is_posted;
    }
    if (has_any) {
        recv->aside_since = 0;
        return NULL;
    }
    if (recv->num_refused >= recv->num) {
        return "takes no receive buffers";
    }
    return all_aside(dom, rc);
}
