/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call of the ofi provider: take what the completion queue has, hand over what waits,
 * return credits, move RMA on, and now and then look at the clock.  Reading the queue also drives
 * libfabric, which makes no progress by itself.
 */
#include "ofi/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"

enum {
    FAB_OFI_BATCH = 16,        /* entries read at once */
    FAB_OFI_BATCHES = 4,       /* in one call */
    FAB_OFI_CLOCK_PASSES = 16, /* progress calls between looks at the clock (25 ns) */
    FAB_OFI_IDLE_PASSES = 8,   /* progress calls between looks without a session */
};

/* ---- a message ----------------------------------------------------------- */

static __attribute__((noinline)) void bad_message(fab_ofi_ep_t *ep, const char *what)
{
    char why[128];

    fab_counters.bad_messages++;
    snprintf(why, sizeof(why), "It sent a malformed message: %s.", what);
    fab_peer_fail(ep->peer, OPAL_ERR_COMM_FAILURE, why);
}

/* The sender has taken this many of our messages. False: more than were sent. */
static bool take_credit(fab_ofi_ep_t *ep, uint16_t taken)
{
    if ((uint16_t) (taken - ep->taken) > (uint16_t) (ep->sent - ep->taken)) {
        return false;
    }
    ep->taken = taken;
    return true;
}

static inline __attribute__((always_inline)) void deliver(fab_ofi_ep_t *ep, fab_hdr_t hdr,
                                                          const void *data, size_t len)
{
    ep->consumed++;
    fab_deliver(ep->dom->fab, ep->peer, hdr, data, len);
    if ((uint16_t) (ep->consumed - ep->advertised) >= (ep->granted + 1) / 2) {
        fab_ofi_schedule_credits(ep);
    }
}

/* Several messages in one; any may end the session, and ep with it. */
static __attribute__((noinline)) void on_pack(fab_ofi_ep_t *ep, const unsigned char *data,
                                              size_t len)
{
    fab_ofi_domain_t *dom = ep->dom;
    const uint32_t index = ep->index, cookie = ep->cookie;
    fab_ofi_part_t part;

    while (len > 0 && NULL != ep && FAB_PEER_FAILED != ep->peer->state) {
        if (len < sizeof(part)) {
            bad_message(ep, "a part is cut off");
            return;
        }
        memcpy(&part, data, sizeof(part));
        data += sizeof(part);
        len -= sizeof(part);
        if (part.id >= FAB_AM_MAX || fab_ofi_padded(part.len) > len) {
            bad_message(ep, "a part is too long, or there is no such id");
            return;
        }
        deliver(ep, fab_hdr(part.id, part.tag, part.app_ctx), data, part.len);
        data += fab_ofi_padded(part.len);
        len -= fab_ofi_padded(part.len);
        ep = fab_ofi_session(dom, index, cookie);
    }
}

/* One of the provider's own messages. */
static __attribute__((noinline)) void on_own(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr,
                                             const void *data, size_t len)
{
    const uint8_t id = fab_ofi_hdr_id(hdr);

    if (FAB_OFI_ID_WELCOME == id || FAB_OFI_ID_REFUSE == id) {
        fab_ofi_on_answer(ep, hdr, data, len);
    } else if (id >= FAB_OFI_ID_CLOSE && id <= FAB_OFI_ID_LEFT) {
        fab_ofi_ep_on_end(ep, id);
    } else if (FAB_OFI_ID_CREDIT != id && FAB_OFI_ID_READY != id) {
        bad_message(ep, "there is no such id");
    }
}

/* The next message of a session. */
static inline __attribute__((always_inline)) void
on_next(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len)
{
    const uint8_t id = fab_ofi_hdr_id(hdr);

    ep->next_recv++;
    ep->has_heard = true;
    if (__builtin_expect(FAB_OFI_ANSWERED == ep->state, 0)) {
        fab_ofi_connect_done(ep); /* who sends is up */
    }
    if (__builtin_expect(FAB_OFI_UP != ep->state, 0)) {
        on_own(ep, hdr, data, len); /* WELCOME or REFUSE; others are refused there */
    } else if (!take_credit(ep, hdr->credits)) {
        bad_message(ep, "it takes credit for more than was sent");
    } else if (id < FAB_AM_MAX) {
        deliver(ep, fab_hdr(id, hdr->tag, hdr->app_ctx), data, len);
    } else if (FAB_OFI_ID_PACK == id) {
        on_pack(ep, data, len);
    } else {
        on_own(ep, hdr, data, len);
    }
}

/* Of a session that has ended, or for a process that leaves. */
static __attribute__((noinline)) void on_stray(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr)
{
    fab_counters.ofi_strays++;
    if (NULL != ep && hdr->seq == ep->next_recv) {
        ep->next_recv++; /* LEAVE may follow */
    }
}

/* One has come: so may have those after it. */
static __attribute__((noinline)) void on_followers(fab_ofi_domain_t *dom, uint32_t index,
                                                   uint32_t cookie)
{
    fab_ofi_early_t *early;
    fab_ofi_ep_t *ep;

    while (NULL != (ep = fab_ofi_session(dom, index, cookie)) &&
           FAB_PEER_FAILED != ep->peer->state && NULL != (early = fab_ofi_early_take(ep))) {
        on_next(ep, &early->hdr, early->data, early->len);
        free(early);
    }
}

/* A message of a session. */
static void on_session(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len)
{
    fab_ofi_domain_t *dom = ep->dom;

    if (FAB_PEER_FAILED == ep->peer->state) {
        return;
    }
    if (__builtin_expect(hdr->seq != ep->next_recv, 0)) {
        if (!fab_ofi_early_keep(ep, hdr, data, len)) {
            bad_message(ep, "its number is wrong, or there is no memory to keep it");
        }
        return;
    }
    on_next(ep, hdr, data, len); /* may end the session, and ep with it */
    if (__builtin_expect(dom->num_early > 0, 0)) {
        on_followers(dom, fab_ofi_hdr_index(hdr), hdr->cookie);
    }
}

/* A message of no session. */
static __attribute__((noinline)) void on_no_session(fab_ofi_domain_t *dom, uint8_t id,
                                                    const void *data, size_t len)
{
    if (FAB_OFI_ID_HELLO == id) {
        fab_ofi_on_hello(dom, data, len);
    } else if (FAB_OFI_ID_CHALLENGE == id) {
        fab_ofi_on_challenge(dom, data, len);
    } else {
        fab_counters.ofi_strays++;
    }
}

static bool is_users(const fab_ofi_hdr_t *hdr)
{
    return fab_ofi_hdr_id(hdr) < FAB_AM_MAX || FAB_OFI_ID_PACK == fab_ofi_hdr_id(hdr);
}

/* len bytes; the header is aligned, and stays until the message is delivered. */
static void on_message(fab_ofi_domain_t *dom, const fab_ofi_hdr_t *hdr, size_t len)
{
    fab_ofi_ep_t *ep;

    if (len < sizeof(*hdr) || len - sizeof(*hdr) < fab_ofi_hdr_pad(hdr)) {
        fab_counters.ofi_strays++;
        return;
    }
    len -= sizeof(*hdr) + fab_ofi_hdr_pad(hdr);
    if (__builtin_expect(FAB_OFI_NO_INDEX == fab_ofi_hdr_index(hdr), 0)) {
        on_no_session(dom, fab_ofi_hdr_id(hdr), hdr + 1, len);
        return;
    }
    ep = fab_ofi_session(dom, fab_ofi_hdr_index(hdr), hdr->cookie);
    if (__builtin_expect(NULL == ep || (dom->is_closed && is_users(hdr)), 0)) {
        on_stray(ep, hdr);
        return;
    }
    on_session(ep, hdr, hdr + 1, len);
}

/* ---- the completion queue ------------------------------------------------ */

static void send_ended(fab_ofi_domain_t *dom, fab_ofi_sbuf_t *buf, const char *error)
{
    fab_ofi_ep_t *ep = NULL != error || buf->is_probe
                           ? fab_ofi_session(dom, buf->index, buf->cookie)
                           : NULL;

    dom->num_sends--;
    if (NULL != ep && NULL != error) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_UNREACH,
                                 "It cannot be reached (%s: %s): its process has ended, or the "
                                 "network is down.",
                                 dom->name, error);
    } else if (NULL != ep) {
        ep->is_probing = false;
    }
    fab_ofi_pool_put(&dom->send_pool, buf);
}

static void on_entry(fab_ofi_domain_t *dom, const struct fi_cq_tagged_entry *entry)
{
    fab_ofi_ctx_t *ctx = entry->op_context;
    const void *msg;

    if (__builtin_expect(NULL == ctx, 0)) {
        return;
    }
    switch (ctx->kind) {
    case FAB_OFI_RECV:
        msg = fab_ofi_recv_take(dom, (fab_ofi_rbuf_t *) ctx, entry);
        if (__builtin_expect(NULL != msg, 1)) {
            on_message(dom, msg, entry->len);
        }
        break;
    case FAB_OFI_SEND:
        send_ended(dom, (fab_ofi_sbuf_t *) ctx, NULL);
        break;
    default:
        fab_ofi_xfer_end((fab_ofi_xfer_t *) ctx, OPAL_SUCCESS);
        break;
    }
}

static void xfer_failed(fab_ofi_domain_t *dom, fab_ofi_xfer_t *xfer, const char *error)
{
    fab_ofi_ep_t *ep = xfer->op->ep;

    if (NULL != ep && !ep->has_left) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE, "%s cannot move memory of it: %s.",
                                 dom->name, error);
    }
    fab_ofi_xfer_end(xfer, OPAL_ERR_UNREACH);
}

/* An operation failed.  Whose is not always said: of an injected message some providers do not. */
static __attribute__((noinline)) void on_error(fab_ofi_domain_t *dom)
{
    struct fi_cq_err_entry entry = {.err_data_size = 0};
    fab_ofi_ctx_t *ctx;
    const char *error;

    if (1 != fi_cq_readerr(dom->cq, &entry, 0)) {
        return;
    }
    ctx = entry.op_context;
    error = fi_strerror(entry.err);
    fab_counters.ofi_errors += FI_ECANCELED != entry.err;
    if (NULL == ctx) {
        fab_counters.ofi_lost_errors++;
        fab_log(dom->fab, 1, "%s reports an error of some peer: %s", dom->name, error);
    } else if (FAB_OFI_SEND == ctx->kind) {
        send_ended(dom, (fab_ofi_sbuf_t *) ctx, FI_ECANCELED == entry.err ? NULL : error);
    } else if (FAB_OFI_RMA == ctx->kind) {
        xfer_failed(dom, (fab_ofi_xfer_t *) ctx, error);
    } else {
        if (FI_ECANCELED != entry.err) {
            fab_log(dom->fab, 1, "%s reports a message that is lost: %s", dom->name, error);
        }
        fab_ofi_recv_error(dom, (fab_ofi_rbuf_t *) ctx, entry.flags);
    }
}

/* Nothing comes any more.  what: completes a sentence; rc: libfabric's error. */
static __attribute__((noinline)) void domain_failed(fab_ofi_domain_t *dom, const char *what,
                                                    ssize_t rc)
{
    fab_ofi_ep_t *ep;

    dom->is_dead = true;
    fab_log(dom->fab, 1, "%s %s: %s", dom->name, what, fi_strerror((int) -rc));
    LIST_FOREACH(ep, &dom->eps, link) {
        if (FAB_OFI_IDLE != ep->state && !ep->has_left) {
            fab_ofi_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE, "%s here %s: %s.", dom->name, what,
                                     fi_strerror((int) -rc));
        }
    }
}

/* Returns the number of entries; *is_quiet: the queue was empty. */
static int poll_queue(fab_ofi_domain_t *dom, bool *is_quiet)
{
    struct fi_cq_tagged_entry entries[FAB_OFI_BATCH];
    int events = 0;
    ssize_t num = FAB_OFI_BATCH;

    for (int i = 0; i < FAB_OFI_BATCHES && FAB_OFI_BATCH == num && !dom->fab->must_return; i++) {
        num = fi_cq_read(dom->cq, entries, FAB_OFI_BATCH);
        for (ssize_t n = 0; n < num; n++) {
            on_entry(dom, &entries[n]);
        }
        events += num > 0 ? (int) num : 0;
    }
    if (-FI_EAVAIL == num) {
        on_error(dom);
        events++;
    } else if (num <= 0 && (-FI_EAGAIN == num || 0 == num)) {
        *is_quiet = true;
    } else if (num < 0) {
        domain_failed(dom, "cannot be polled", num);
    }
    return events;
}

/* ---- a call -------------------------------------------------------------- */

static __attribute__((noinline)) void housekeeping(fab_ofi_domain_t *dom)
{
    const uint64_t now = fab_now_us();

    if (now >= dom->next_period) {
        dom->next_period = now + FAB_OFI_PERIOD_US;
        dom->period++;
    }
    if (now < dom->next_tick) {
        return;
    }
    dom->next_tick = now + FAB_OFI_TICK_US;
    fab_ofi_connect_late(dom);
    fab_ofi_ep_end_lingering(dom, now);
    fab_ofi_alive_tick(dom);
}

static __attribute__((noinline)) void post_again(fab_ofi_domain_t *dom)
{
    int rc;
    const char *why = fab_ofi_recv_again(dom, &rc);

    if (NULL != why) {
        domain_failed(dom, why, rc);
    }
}

int fab_ofi_poll(void *domain)
{
    fab_ofi_domain_t *dom = domain;
    bool is_quiet = false;
    int events = 0;

    dom->polls++;
    if (__builtin_expect(!dom->is_dead, 1)) {
        events = poll_queue(dom, &is_quiet);
        if (!TAILQ_EMPTY(&dom->sending)) {
            events += fab_ofi_send_waiting(dom);
        }
        if (!TAILQ_EMPTY(&dom->due)) {
            fab_ofi_send_credits(dom);
        }
        if (__builtin_expect(dom->recv.num_idle > 0, 0)) {
            post_again(dom);
        }
    }
    if (__builtin_expect(!TAILQ_EMPTY(&dom->failing), 0) && (is_quiet || dom->is_dead)) {
        events += fab_ofi_ep_fail_deferred(dom);
    }
    return events;
}

void fab_ofi_is_awake(fab_domain_t *domain)
{
    ((fab_ofi_domain_t *) domain)->pass |= FAB_OFI_CLOCK_PASSES -
                                           1; /* the next call looks at all */
}

int fab_ofi_progress(fab_domain_t *domain)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;
    const uint32_t pass = ++dom->pass;
    int events = 0;

    if (dom->num_sessions > 0 || 0 == pass % FAB_OFI_IDLE_PASSES || !TAILQ_EMPTY(&dom->sending)) {
        events = fab_ofi_poll(dom);
    }
    if (!TAILQ_EMPTY(&dom->rma)) {
        events += fab_ofi_rma_progress(dom);
    }
    if (0 == pass % FAB_OFI_CLOCK_PASSES) {
        housekeeping(dom);
    }
    return events;
}
