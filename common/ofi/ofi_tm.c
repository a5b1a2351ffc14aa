/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A matching device (fab_tm.h) over libfabric's tagged messages: offers of ofi_offers.h and
 * ofi_places.h, and their messages (ofi_wire.h).  Only with pml_tm_ofi_tagged.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "ofi/ofi_places.h"

enum {
    FAB_OFI_PLACES = 1024, /* on the list, or not done with: a power of two */
    FAB_OFI_TAGS = 256,    /* on the list */
    FAB_OFI_OPS = 1024,    /* signaled commands without completion: a power of two */
};

/* A tagged receive. */
typedef struct fab_ofi_trecv {
    fab_ofi_ctx_t ctx;
    fab_ofi_place_t *place;
    void *junk; /* where data goes that nobody wants */
} fab_ofi_trecv_t;

/* A tagged send. */
typedef struct fab_ofi_tsend {
    fab_ofi_ctx_t ctx;
    fab_ofi_tm_ep_t *from; /* NULL: it is gone, and so is the user */
    fab_out_t *out;
    uint32_t offer;
    LIST_ENTRY(fab_ofi_tsend) link;
    TAILQ_ENTRY(fab_ofi_tsend) wait_link;
} fab_ofi_tsend_t;

struct fab_ofi_tm {
    fab_ofi_domain_t *dom;
    const fab_tm_user_t *user; /* NULL: nobody lists receives */
    void *user_ctx;
    bool is_failure_reported;
    TAILQ_HEAD(, fab_ofi_tsend) to_send; /* data that is to be handed to libfabric */
    LIST_HEAD(, fab_ofi_tsend) orphans;  /* data of peers that are gone */
    fab_ofi_places_t places;
    fab_ofi_source_t nowhere; /* of receives from peers that are not behind the device any more */
    fab_ofi_place_t place[FAB_OFI_PLACES];
    fab_ofi_trecv_t trecv[FAB_OFI_PLACES];
    fab_ofi_signal_t signal[FAB_OFI_OPS];
};

struct fab_ofi_tm_ep {
    fab_ofi_source_t source;
    fab_ofi_offers_t offers;
    fab_ofi_ep_t *ep;
    LIST_HEAD(, fab_ofi_tsend) sends;
    uint32_t max_sent; /* entries of offers.sent */
};

static fab_ofi_tm_ep_t *ep_of(const fab_ofi_source_t *source)
{
    return (fab_ofi_tm_ep_t *) ((char *) (uintptr_t) source - offsetof(fab_ofi_tm_ep_t, source));
}

/* ---- what the places ask for ---------------------------------------------- */

static bool can_tell(void *ctx, const fab_ofi_source_t *source)
{
    const fab_ofi_tm_t *tm = ctx;
    const fab_ofi_ep_t *ep = NULL != source && &tm->nowhere != source ? ep_of(source)->ep : NULL;

    return NULL != ep && FAB_OFI_UP == ep->state && NULL == ep->failure && !ep->is_closing &&
           !ep->has_left && FAB_PEER_UP == ep->peer->state;
}

static void tell(void *ctx, fab_ofi_place_t *place, fab_ofi_word_t word)
{
    fab_ofi_offer_msg_t msg = {.id = place->id};
    fab_ofi_ep_t *ep;

    if (!can_tell(ctx, place->source)) {
        return;
    }
    ep = ep_of(place->source)->ep;
    if (FAB_OFI_OFFER == word) {
        msg.tag = place->recv->tag;
        msg.mask = place->recv->mask;
        msg.len = place->recv->len;
        msg.count = ep->consumed;
        fab_counters.ofi_offers++;
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_OFFER, 0, &msg, sizeof(msg));
    } else if (FAB_OFI_WITHDRAW == word) {
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_WITHDRAW, place->id, NULL, 0);
    } else {
        fab_counters.ofi_placed++;
        fab_counters.ofi_placed_bytes += place->len;
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_PLACED, place->hdr.app_ctx, NULL, 0);
    }
}

static bool post(void *ctx, fab_ofi_place_t *place, void *buf, size_t len)
{
    fab_ofi_tm_t *tm = ctx;
    fab_ofi_trecv_t *trecv = &tm->trecv[place->index];
    void *junk = NULL == buf ? malloc(len) : NULL;
    struct iovec iov = {.iov_base = NULL != buf ? buf : junk, .iov_len = len};
    struct fi_msg_tagged msg = {.msg_iov = &iov,
                                .iov_count = 1,
                                .addr = FI_ADDR_UNSPEC,
                                .tag = place->id,
                                .context = &trecv->ctx};
    ssize_t rc;

    if (NULL == iov.iov_base) {
        return false;
    }
    *trecv = (fab_ofi_trecv_t){.ctx = {.kind = FAB_OFI_TRECV}, .place = place, .junk = junk};
    rc = fi_trecvmsg(tm->dom->rdm, &msg, FI_COMPLETION);
    if (0 != rc) {
        free(junk);
        trecv->junk = NULL;
    }
    fab_counters.ofi_again += -FI_EAGAIN == rc;
    if (0 != rc && -FI_EAGAIN != rc) {
        fab_counters.ofi_errors++;
        fab_ofi_ep_defer_failure(ep_of(place->source)->ep, OPAL_ERR_UNREACH,
                                 "%s refused a tagged receive: %s.", tm->dom->name,
                                 fi_strerror((int) -rc));
    }
    return 0 == rc;
}

/* What it returns says nothing: the receive's own entry does. */
static void cancel(void *ctx, fab_ofi_place_t *place)
{
    fab_ofi_tm_t *tm = ctx;

    (void) fi_cancel(&tm->dom->rdm->fid, &tm->trecv[place->index].ctx);
}

static bool matched(void *ctx, fab_ofi_place_t *place, const fab_tm_match_t *match)
{
    const fab_ofi_tm_t *tm = ctx;
    const fab_ofi_tm_ep_t *from = NULL != place->source ? ep_of(place->source) : NULL;
    fab_tm_match_t all = *match;

    if (NULL == tm->user) {
        return true;
    }
    all.peer = NULL != from ? from->ep->peer : NULL;
    if (!tm->user->matched(tm->user_ctx, place->recv, &all) && NULL != from) {
        fab_ofi_ep_defer_failure(from->ep, OPAL_ERR_COMM_FAILURE,
                                 "It named a receive that is not there.");
        return false;
    }
    return true;
}

static bool done(void *ctx, uint64_t wr_id, bool is_success)
{
    const fab_ofi_tm_t *tm = ctx;

    return NULL == tm->user || tm->user->done(tm->user_ctx, wr_id, is_success);
}

static const fab_ofi_places_ops_t places_ops = {
    .can_tell = can_tell,
    .tell = tell,
    .post = post,
    .cancel = cancel,
    .matched = matched,
    .done = done,
};

/* ---- the device ----------------------------------------------------------- */

bool fab_ofi_tm_open(fab_ofi_domain_t *dom)
{
    fab_ofi_tm_t *tm = calloc(1, sizeof(*tm));

    if (NULL == tm) {
        return false;
    }
    tm->dom = dom;
    TAILQ_INIT(&tm->to_send);
    LIST_INIT(&tm->orphans);
    tm->places = (fab_ofi_places_t){.ops = &places_ops,
                                    .ctx = tm,
                                    .place = tm->place,
                                    .num = FAB_OFI_PLACES,
                                    .signals = tm->signal,
                                    .max_signals = FAB_OFI_OPS};
    fab_ofi_places_init(&tm->places);
    fab_ofi_source_init(&tm->nowhere);
    dom->tm = tm;
    dom->addr.flags |= FAB_OFI_ADDR_TAGGED;
    return true;
}

void fab_ofi_tm_close(fab_ofi_domain_t *dom)
{
    fab_ofi_tm_t *tm = dom->tm;
    fab_ofi_tsend_t *tsend;

    if (NULL == tm) {
        return;
    }
    for (uint32_t i = 0; i < FAB_OFI_PLACES; i++) {
        free(tm->trecv[i].junk);
    }
    while (NULL != (tsend = LIST_FIRST(&tm->orphans))) {
        LIST_REMOVE(tsend, link);
        free(tsend);
    }
    dom->tm = NULL;
    free(tm);
}

/* Where the messages for this receive come from. */
static fab_ofi_source_t *source_of(fab_ofi_tm_t *tm, const fab_tm_recv_t *recv)
{
    const fab_peer_t *peer = tm->user->sender(tm->user_ctx, recv, recv->tag);
    const fab_ofi_ep_t *ep;

    if (NULL == peer || 0 == (peer->caps & FAB_CAP_TM) || fab_ofi_is_known(peer)) {
        return &tm->nowhere;
    }
    ep = peer->ep;
    return NULL != ep->tm ? &ep->tm->source : &tm->nowhere;
}

static int tm_post(void *device, const fab_tm_cmd_t *cmd)
{
    fab_ofi_domain_t *dom = device;
    fab_ofi_tm_t *tm = dom->tm;

    if (dom->is_dead) {
        return FAB_TM_DEAD;
    }
    return fab_ofi_places_post(&tm->places, cmd,
                               FAB_TM_ADD == cmd->op ? source_of(tm, cmd->recv) : NULL);
}

static void tm_release(void *device, void *place)
{
    fab_ofi_domain_t *dom = device;

    fab_ofi_places_release(&dom->tm->places, place);
}

static const fab_tm_ops_t tm_ops = {.post = tm_post};

bool fab_ofi_tm_use(fab_domain_t *domain, const fab_tm_user_t *user, void *ctx,
                    fab_tm_device_t *device)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;

    if (NULL == dom->tm) {
        return false;
    }
    dom->tm->user = user;
    dom->tm->user_ctx = ctx;
    if (NULL == user) {
        fab_ofi_places_clear(&dom->tm->places);
    }
    if (NULL != device) {
        *device = (fab_tm_device_t){
            .device = dom,
            .ops = &tm_ops,
            .max_tags = FAB_OFI_TAGS,
            .max_ops = FAB_OFI_OPS,
            .min_len = dom->eager_limit + 1,
            .own_len = dom->eager_limit + 1,
            .is_direct = true,
            .release = tm_release,
        };
    }
    return true;
}

/* ---- messages for offers --------------------------------------------------- */

void fab_ofi_tm_handled(fab_ofi_domain_t *dom, uint8_t id)
{
    fab_ofi_tm_t *tm = dom->tm;

    if ((FAB_AM_EAGER == id || FAB_AM_RNDV == id) && NULL != tm->user) {
        fab_ofi_places_handled(&tm->places);
        tm->user->handled(tm->user_ctx);
    }
}

static const char *on_offer(fab_ofi_tm_ep_t *from, const void *data, size_t len)
{
    fab_ofi_offer_msg_t msg;

    if (sizeof(msg) != len) {
        return "an offer of another length";
    }
    memcpy(&msg, data, sizeof(msg));
    return fab_ofi_offers_add(
               &from->offers,
               &(fab_ofi_offer_t){.tag = msg.tag, .mask = msg.mask, .len = msg.len, .id = msg.id},
               msg.count, from->ep->sent)
               ? NULL
               : "an impossible offer";
}

/* The message is unexpected: it named in vain. */
static void deliver_unnamed(fab_ofi_ep_t *ep, fab_hdr_t hdr, const fab_rndv_t *rndv)
{
    fab_ofi_domain_t *dom = ep->dom;

    fab_counters.ofi_placed_in_vain++;
    fab_deliver(dom->fab, ep->peer, hdr, rndv, sizeof(*rndv));
    fab_ofi_tm_handled(dom, FAB_AM_RNDV);
}

static const char *on_named(fab_ofi_ep_t *ep, uint32_t app_ctx, const void *data, size_t len)
{
    fab_ofi_named_msg_t msg;
    fab_hdr_t hdr;

    if (sizeof(msg) != len) {
        return "an announcement of another length";
    }
    memcpy(&msg, data, sizeof(msg));
    hdr = fab_hdr(FAB_AM_RNDV, msg.tag, app_ctx);
    switch (
        fab_ofi_places_named(&ep->dom->tm->places, &ep->tm->source, msg.offer, hdr, msg.rndv.len)) {
    case FAB_OFI_NAMED_MATCH:
        return NULL;
    case FAB_OFI_NAMED_NONE:
        deliver_unnamed(ep, hdr, &msg.rndv);
        return NULL;
    default:
        return "it names an offer that there is not, or a message that does not fit it";
    }
}

const char *fab_ofi_tm_on_msg(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data,
                              size_t len)
{
    if (NULL == ep->offers) {
        return "an offer, though this process places nothing";
    }
    switch (fab_ofi_hdr_id(hdr)) {
    case FAB_OFI_ID_OFFER:
        return on_offer(ep->tm, data, len);
    case FAB_OFI_ID_WITHDRAW:
        fab_ofi_offers_remove(&ep->tm->offers, hdr->app_ctx);
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_GONE, hdr->app_ctx, NULL, 0);
        return NULL;
    case FAB_OFI_ID_GONE:
        return fab_ofi_places_gone(&ep->dom->tm->places, &ep->tm->source, hdr->app_ctx)
                   ? NULL
                   : "it gives up an offer that was not withdrawn";
    case FAB_OFI_ID_NAMED:
        return on_named(ep, hdr->app_ctx, data, len);
    default:
        fab_deliver(ep->dom->fab, ep->peer, fab_hdr(FAB_AM_FIN, 0, hdr->app_ctx), NULL, 0);
        return NULL;
    }
}

/* ---- data ------------------------------------------------------------------ */

/* It has ended, or will not begin. error: libfabric's, or 0. */
static void tsend_end(fab_ofi_tsend_t *tsend, int error)
{
    fab_out_t *out = tsend->out;
    const bool is_closed = tsend->from->ep->dom->is_closed;

    LIST_REMOVE(tsend, link);
    free(tsend);
    if (!is_closed) {
        out->complete(out, 0 == error ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
    }
}

static void tsend_failed(const fab_ofi_tsend_t *tsend, int error)
{
    fab_ofi_ep_defer_failure(tsend->from->ep, OPAL_ERR_UNREACH,
                             "It cannot be reached (%s: %s): its process has ended, or the "
                             "network is down.",
                             tsend->from->ep->dom->name, fi_strerror(error));
}

static ssize_t tsend_post(fab_ofi_tsend_t *tsend)
{
    const fab_ofi_ep_t *ep = tsend->from->ep;
    struct iovec iov = {.iov_base = (void *) (uintptr_t) tsend->out->buf,
                        .iov_len = tsend->out->len};
    struct fi_msg_tagged msg = {.msg_iov = &iov,
                                .iov_count = 1,
                                .addr = ep->to,
                                .tag = tsend->offer,
                                .context = &tsend->ctx};

    return fi_tsendmsg(ep->dom->rdm, &msg, FI_COMPLETION);
}

/*
 * Hand data over, in order, and behind the message that announces it: a provider that reads one
 * message after the other reads nothing behind data that nobody has asked for.
 */
static int send_data(fab_ofi_tm_t *tm)
{
    fab_ofi_tsend_t *tsend, *next;
    int num = 0;

    for (tsend = TAILQ_FIRST(&tm->to_send); NULL != tsend; tsend = next) {
        next = TAILQ_NEXT(tsend, wait_link);
        if (NULL != tsend->from->ep->to_send || NULL != tsend->from->ep->failure) {
            continue;
        }
        ssize_t rc = tsend_post(tsend);
        if (-FI_EAGAIN == rc) {
            fab_counters.ofi_again++;
            break;
        }
        if (0 != rc) { /* it waits until its peer has failed */
            fab_counters.ofi_errors++;
            tsend_failed(tsend, (int) -rc);
            continue;
        }
        TAILQ_REMOVE(&tm->to_send, tsend, wait_link);
        tm->dom->num_sends++;
        num++;
    }
    return num;
}

int fab_ofi_tm_send_offered(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out)
{
    fab_ofi_ep_t *ep = peer->ep;
    fab_ofi_tm_ep_t *to = ep->tm;
    fab_ofi_named_msg_t msg = {.tag = hdr.tag};
    fab_ofi_tsend_t *tsend;

    if (NULL == ep->offers || !fab_ofi_can_send(ep) ||
        out->len > ep->dom->info->ep_attr->max_msg_size) {
        return OPAL_ERR_NOT_FOUND;
    }
    msg.offer = fab_ofi_offers_find(&to->offers, hdr.tag, out->len);
    tsend = 0 != msg.offer ? malloc(sizeof(*tsend)) : NULL;
    if (NULL == tsend) {
        return OPAL_ERR_NOT_FOUND;
    }
    *tsend = (fab_ofi_tsend_t){
        .ctx = {.kind = FAB_OFI_TSEND}, .from = to, .out = out, .offer = msg.offer};
    LIST_INSERT_HEAD(&to->sends, tsend, link);
    TAILQ_INSERT_TAIL(&ep->dom->tm->to_send, tsend, wait_link);
    fab_ofi_offers_remove(&to->offers, msg.offer);
    memcpy(&msg.rndv, out->head, sizeof(msg.rndv));
    (void) fab_ofi_send_own(ep, FAB_OFI_ID_NAMED, hdr.app_ctx, &msg, sizeof(msg));
    (void) send_data(ep->dom->tm);
    return OPAL_SUCCESS;
}

void fab_ofi_tm_sent(fab_ofi_domain_t *dom, fab_ofi_ctx_t *ctx, int error)
{
    fab_ofi_tsend_t *tsend = (fab_ofi_tsend_t *) ctx;

    dom->num_sends--;
    if (NULL == tsend->from) {
        LIST_REMOVE(tsend, link);
        free(tsend);
        return;
    }
    if (0 != error) {
        tsend_failed(tsend, error);
    }
    tsend_end(tsend, error);
}

void fab_ofi_tm_received(fab_ofi_domain_t *dom, fab_ofi_ctx_t *ctx, size_t len, int error)
{
    fab_ofi_places_t *places = &dom->tm->places;
    fab_ofi_trecv_t *trecv = (fab_ofi_trecv_t *) ctx;
    fab_ofi_place_t *place = trecv->place;
    fab_ofi_ep_t *ep = NULL != place->source && &dom->tm->nowhere != place->source
                           ? ep_of(place->source)->ep
                           : NULL;
    bool is_right = true;

    free(trecv->junk);
    trecv->junk = NULL;
    if (0 == error) {
        is_right = fab_ofi_places_landed(places, place, len);
    } else {
        is_right = FI_ECANCELED == error;
        fab_ofi_places_cancelled(places, place, !is_right);
    }
    if (!is_right && NULL != ep) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE, "Data from it was lost (%s: %s).",
                                 dom->name, 0 != error ? fi_strerror(error) : "wrong length");
    }
}

/* ---- polling -------------------------------------------------------------- */

void fab_ofi_tm_poll_begin(fab_ofi_domain_t *dom)
{
    if (NULL != dom->tm->user) {
        dom->tm->user->poll_begin(dom->tm->user_ctx);
    }
}

void fab_ofi_tm_poll_end(fab_ofi_domain_t *dom, int events)
{
    fab_ofi_tm_t *tm = dom->tm;

    events += fab_ofi_places_step(&tm->places);
    if (!TAILQ_EMPTY(&tm->to_send) && !dom->is_dead) {
        events += send_data(tm);
    }
    if (NULL == tm->user) {
        return;
    }
    tm->user->poll_end(tm->user_ctx, 0 == events);
    if (dom->is_dead && !tm->is_failure_reported) {
        tm->is_failure_reported = true;
        tm->user->failed(tm->user_ctx);
    }
}

bool fab_ofi_tm_is_waiting(const fab_ofi_domain_t *dom)
{
    const fab_ofi_tm_t *tm = dom->tm;

    return tm->places.signals_head != tm->places.signals_tail || tm->places.num_wanted > 0 ||
           !TAILQ_EMPTY(&tm->to_send);
}

/* ---- peers ----------------------------------------------------------------- */

static uint32_t power_of_two(uint32_t least)
{
    uint32_t power = 1;

    while (power < least) {
        power *= 2;
    }
    return power;
}

bool fab_ofi_tm_ep_begin(fab_ofi_ep_t *ep)
{
    fab_ofi_tm_ep_t *tm = ep->tm;
    uint32_t window = power_of_two(ep->window);

    if (0 == (ep->dom->addr.flags & ep->addr.flags & FAB_OFI_ADDR_TAGGED)) {
        return true;
    }
    if (NULL == tm) {
        tm = ep->tm = calloc(1, sizeof(*tm));
        if (NULL == tm) {
            return false;
        }
        tm->ep = ep;
        fab_ofi_source_init(&tm->source);
        LIST_INIT(&tm->sends);
    }
    if (tm->max_sent < window) {
        free(tm->offers.sent);
        tm->offers.sent = calloc(window, sizeof(*tm->offers.sent));
        tm->max_sent = NULL != tm->offers.sent ? window : 0;
    }
    tm->offers.window = window;
    ep->offers = tm->max_sent >= window ? &tm->offers : NULL;
    return NULL != ep->offers;
}

/* Data that waits will not be sent. */
static void drop_sends(fab_ofi_tm_t *tm, const fab_ofi_tm_ep_t *from)
{
    fab_ofi_tsend_t *tsend, *next;

    for (tsend = TAILQ_FIRST(&tm->to_send); NULL != tsend; tsend = next) {
        next = TAILQ_NEXT(tsend, wait_link);
        if (from == tsend->from) {
            TAILQ_REMOVE(&tm->to_send, tsend, wait_link);
            tsend_end(tsend, FI_ECANCELED);
        }
    }
}

void fab_ofi_tm_ep_end(fab_ofi_ep_t *ep)
{
    if (NULL != ep->tm) {
        ep->tm->offers.num = 0;
        drop_sends(ep->dom->tm, ep->tm);
        fab_ofi_places_drop(&ep->dom->tm->places, &ep->tm->source);
    }
}

void fab_ofi_tm_ep_free(fab_ofi_ep_t *ep)
{
    fab_ofi_tm_ep_t *tm = ep->tm;
    fab_ofi_tsend_t *tsend;

    if (NULL == tm) {
        return;
    }
    fab_ofi_tm_ep_end(ep);
    fab_ofi_places_forget(&ep->dom->tm->places, &tm->source);
    while (NULL != (tsend = LIST_FIRST(&tm->sends))) {
        LIST_REMOVE(tsend, link);
        tsend->from = NULL;
        LIST_INSERT_HEAD(&ep->dom->tm->orphans, tsend, link);
    }
    free(tm->offers.sent);
    free(tm);
    ep->tm = NULL;
    ep->offers = NULL;
}

bool fab_ofi_tm_ep_is_busy(const fab_ofi_ep_t *ep)
{
    return NULL != ep->tm &&
           (!LIST_EMPTY(&ep->tm->sends) || fab_ofi_places_is_busy(&ep->tm->source));
}
