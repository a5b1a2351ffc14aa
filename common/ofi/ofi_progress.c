/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call of the ofi provider: take what the completion queue has, hand over what waits,
 * return credits, move RMA on, and now and then look at the clock.  Reading the queue also drives
 * libfabric, which makes no progress by itself.
 */
#include "ofi/ofi.h"

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

static inline __attribute__((always_inline)) void deliver(fab_ofi_ep_t *ep, fab_hdr_t hdr,
                                                          const void *data, size_t len)
{
    ep->ses.is_used = true;
    fab_ses_take(&ep->ses, 1);
    fab_deliver(ep->dom->fab, ep->peer, hdr, data, len);
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
            fab_peer_bad_message(ep->peer, "a part is cut off");
            return;
        }
        memcpy(&part, data, sizeof(part));
        data += sizeof(part);
        len -= sizeof(part);
        if (part.id >= FAB_AM_MAX || fab_ofi_padded(part.len) > len) {
            fab_peer_bad_message(ep->peer, "a part is too long, or there is no such id");
            return;
        }
        deliver(ep, fab_hdr(part.id, part.tag, part.app_ctx), data, part.len);
        data += fab_ofi_padded(part.len);
        len -= fab_ofi_padded(part.len);
        ep = fab_ofi_session(dom, index, cookie);
    }
}

static void on_bye(fab_ofi_ep_t *ep, unsigned bye)
{
    fab_peer_t *peer = ep->peer;

    if (!fab_ses_on_bye(&ep->ses, bye)) {
        fab_peer_bad_message(ep->peer, "it ends a session against the protocol");
    } else if (ep != peer->ep) {
        return; /* both have closed: the endpoint is released, and the record */
    } else if (FAB_SES_BYE_CLOSE == bye) {
        fab_peer_has_left(peer); /* its user needs this process no more */
    } else if (FAB_SES_GONE == ep->ses.state &&
               (!TAILQ_EMPTY(&ep->ops) || !TAILQ_EMPTY(&ep->posted))) {
        fab_peer_fail(peer, OPAL_ERR_UNREACH,
                      "It has left, or given this process up, while its memory was read or "
                      "written.");
    }
}

/* One of the provider's own messages. */
static __attribute__((noinline)) void on_own(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr)
{
    const uint8_t id = fab_ofi_hdr_id(hdr);

    if (FAB_OFI_ID_CREDIT == id) {
        if (0 != (hdr->app_ctx & FAB_OFI_ASK)) {
            ep->is_answer_due = true;
            fab_ofi_enqueue(&ep->dom->due, &ep->due, ep);
        }
    } else if (FAB_OFI_ID_BYE == id) {
        on_bye(ep, hdr->app_ctx);
    } else if (FAB_OFI_ID_REFUSE == id) {
        fab_ofi_on_refuse(ep, hdr->app_ctx);
    } else {
        fab_peer_bad_message(ep->peer, "there is no such id");
    }
}

/* The session is not up: may this come?  The first word of the asking side makes it up. */
static __attribute__((noinline)) bool is_awaited(fab_ofi_ep_t *ep, uint8_t id)
{
    if (FAB_SES_ASKED == ep->ses.state && FAB_OFI_ID_REFUSE != id) {
        fab_ses_first(&ep->ses);
    }
    return FAB_SES_UP == ep->ses.state || FAB_SES_CLOSING == ep->ses.state ||
           FAB_OFI_ID_REFUSE == id;
}

/* The next message of a session. */
static inline __attribute__((always_inline)) void
on_next(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len)
{
    const uint8_t id = fab_ofi_hdr_id(hdr);

    ep->next_recv++;
    ep->has_heard = true;
    if (__builtin_expect(FAB_SES_UP != ep->ses.state, 0) && !is_awaited(ep, id)) {
        fab_peer_bad_message(ep->peer, "the session is not up");
    } else if (!fab_ses_on_credit16(&ep->ses, hdr->credits)) {
        fab_peer_bad_message(ep->peer, "it takes credit for more than was sent");
    } else if (id < FAB_AM_MAX) {
        deliver(ep, fab_hdr(id, hdr->tag, hdr->app_ctx), data, len);
    } else if (FAB_OFI_ID_PACK == id) {
        on_pack(ep, data, len);
    } else {
        on_own(ep, hdr);
    }
}

/* Of a session that has ended, or for a process that leaves. */
static __attribute__((noinline)) void on_stray(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr)
{
    fab_counters.ofi_strays++;
    if (NULL != ep && hdr->seq == ep->next_recv) {
        ep->next_recv++; /* BYE may follow */
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
            fab_peer_bad_message(ep->peer, "its number is wrong, or there is no memory to keep it");
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
    if (id >= FAB_OFI_ID_KNOCK && id <= FAB_OFI_ID_WELCOME) {
        fab_ofi_on_frame(dom, id, data, len);
    } else if (FAB_OFI_ID_CREDIT != id) { /* whose sender wants to know whether it is delivered */
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
    fab_ofi_ep_t *ep = NULL != error || buf->is_tracked
                           ? fab_ofi_session(dom, buf->index, buf->cookie)
                           : NULL;

    dom->num_sends--;
    if (NULL != ep) {
        ep->own_under_way -= buf->is_tracked && ep->own_under_way > 0;
    } else if (NULL != error) {
        ep = fab_ofi_challenger(dom, buf);
    }
    fab_ofi_pool_put(&dom->send_pool, buf);
    if (NULL != ep && NULL != error) {
        fab_ofi_ep_broke(ep, OPAL_ERR_UNREACH,
                         fab_sentence(dom->fab,
                                      "It cannot be reached (%s: %s): its process has ended, or "
                                      "the network is down.",
                                      dom->name, error));
    }
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

    if (NULL != ep) {
        fab_ofi_ep_broke(
            ep, OPAL_ERR_COMM_FAILURE,
            fab_sentence(dom->fab, "%s cannot move memory of it: %s.", dom->name, error));
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
    fab_ofi_ep_t *next;

    dom->is_dead = true;
    fab_log(dom->fab, 1, "%s %s: %s", dom->name, what, fi_strerror((int) -rc));
    for (fab_ofi_ep_t *ep = LIST_FIRST(&dom->eps); NULL != ep; ep = next) {
        next = LIST_NEXT(ep, link);
        fab_ofi_ep_broke(
            ep, OPAL_ERR_COMM_FAILURE,
            fab_sentence(dom->fab, "%s here %s: %s.", dom->name, what, fi_strerror((int) -rc)));
    }
}

/* Only failures of the endpoint are awaited. */
static void poll_events(fab_ofi_domain_t *dom)
{
    struct fi_eq_err_entry error = {.err_data_size = 0};
    struct fi_eq_entry entry;
    uint32_t event;

    if (NULL != dom->eq && !dom->is_dead &&
        -FI_EAVAIL == fi_eq_read(dom->eq, &event, &entry, sizeof(entry), 0) &&
        fi_eq_readerr(dom->eq, &error, 0) > 0) {
        domain_failed(dom, "reports a failure", -error.err);
    }
}

/* Returns the number of entries. */
static int poll_queue(fab_ofi_domain_t *dom)
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
        dom->num_quiet++;
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
    poll_events(dom);
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
    int events = 0;

    dom->polls++;
    if (__builtin_expect(!dom->is_dead, 1)) {
        events = poll_queue(dom);
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
    if (__builtin_expect(!TAILQ_EMPTY(&dom->broken), 0)) {
        events += fab_ofi_look_at_broken(dom);
    }
    if (__builtin_expect(!STAILQ_EMPTY(&dom->again), 0)) {
        fab_ofi_look_again(dom);
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

    if (dom->sessions.used > 0 || 0 == pass % FAB_OFI_IDLE_PASSES || !TAILQ_EMPTY(&dom->sending)) {
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
