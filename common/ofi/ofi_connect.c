/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over libfabric: what the state machine of session.h has this provider do, and what
 * frames and errors tell it.
 *
 * There is neither a via nor a stream: a HELLO is a message, and the path is two entries of the
 * tables of sessions, here and at the peer.  KNOCK and CHALLENGE come before HELLO and are no
 * matter of the session: every KNOCK is answered, and changes nothing but the nonce.
 *
 * HELLO and WELCOME are as long as the longest message of a user, so the session that they make is
 * by a way that such messages pass, there and back.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "sock/sha256.h"

_Static_assert((int) FAB_OFI_PROOF == (int) FAB_SHA256_LEN, "a proof is an HMAC");

static fab_ofi_ep_t *ep_of(const fab_ses_t *ses)
{
    return ses->peer->ep;
}

/* ---- the table ----------------------------------------------------------- */

/* Messages to this process name the session by this number from now on. */
static void slot_name(fab_ofi_ep_t *ep, uint64_t serial)
{
    ep->cookie = (uint32_t) serial;
    ep->own_under_way = 0;
    ep->asked_at = ep->dom->ticks;
}

/* Give the endpoint a slot.  False: no memory, or no number left. */
static bool slot_take(fab_ofi_ep_t *ep, uint64_t serial)
{
    fab_idmap_t *sessions = &ep->dom->sessions;
    const uint32_t id = fab_idmap_add(sessions, ep), index = id & (FAB_ID_MAX - 1);

    if (0 == id) {
        return false;
    }
    if (index >= FAB_OFI_NO_INDEX) {
        fab_idmap_remove(sessions, id);
        return false;
    }
    ep->index = index;
    slot_name(ep, serial);
    if (1 == sessions->used) {
        fab_idle_changed(ep->dom->fab);
    }
    return true;
}

static void slot_give_back(fab_ofi_ep_t *ep)
{
    fab_idmap_t *sessions = &ep->dom->sessions;

    fab_idmap_remove(sessions, sessions->slots[ep->index].id);
    ep->index = FAB_OFI_NO_INDEX;
    if (0 == sessions->used) {
        fab_idle_changed(ep->dom->fab);
    }
}

/* NULL, or why not. */
static const char *make_reachable(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;
    int rc = FI_ADDR_NOTAVAIL != ep->to ? 1
                                        : fi_av_insert(dom->av, ep->addr.name, 1, &ep->to, 0, NULL);

    if (1 != rc) {
        ep->to = FI_ADDR_NOTAVAIL;
        return fab_sentence(dom->fab, "%s does not take its address: %s.", dom->name,
                            rc < 0 ? fi_strerror(-rc) : "no reason given");
    }
    return NULL;
}

/* NULL, or why there can be no session. */
static const char *slot_open(fab_ofi_ep_t *ep, uint64_t serial)
{
    fab_ofi_domain_t *dom = ep->dom;
    const char *why = dom->is_dead ? fab_sentence(dom->fab, "%s has failed here.", dom->name)
                                   : make_reachable(ep);

    if (NULL == why && !slot_take(ep, serial)) {
        why = "There is no memory for another peer.";
    }
    ep->next_seq = ep->next_recv = 0;
    ep->silences = 0;
    ep->is_asking = false;
    return why;
}

/* ---- frames --------------------------------------------------------------- */

/* Of a frame with zeros in the place of the proof. */
static void prove(const fab_ofi_addr_t *receiver, fab_ofi_frame_t frame,
                  uint8_t proof[FAB_OFI_PROOF])
{
    memset(frame.proof, 0, sizeof(frame.proof));
    fab_hmac(receiver->key, sizeof(receiver->key), &frame, sizeof(frame), proof);
}

static void send_frame(fab_ofi_ep_t *ep, uint8_t id, const fab_ses_msg_t *msg, uint32_t index,
                       uint64_t nonce)
{
    const fab_ofi_domain_t *dom = ep->dom;
    fab_ofi_frame_t frame = {.magic = FAB_OFI_MAGIC,
                             .version = FAB_OFI_VERSION,
                             .name = dom->fab->config.name,
                             .target = ep->peer->name,
                             .msg = *msg,
                             .nonce = nonce,
                             .index = index,
                             .addr = dom->addr};
    const bool is_long = FAB_OFI_ID_HELLO == id || FAB_OFI_ID_WELCOME == id;

    prove(&ep->addr, frame, frame.proof);
    fab_ofi_send_frame(ep, id, &frame,
                       is_long ? fab_ofi_min(ep->addr.eager_max, (uint32_t) dom->eager_limit)
                               : sizeof(frame));
}

/* Is this for this process, from one that got its address from the job? */
static bool is_sound(const fab_ofi_domain_t *dom, uint8_t id, const fab_ofi_frame_t *frame)
{
    uint8_t proof[FAB_OFI_PROOF];

    prove(&dom->addr, *frame, proof);
    return FAB_OFI_MAGIC == frame->magic && FAB_OFI_VERSION == frame->version &&
           dom->fab->config.name == frame->target && frame->target != frame->name &&
           fab_bytes_are_equal(proof, frame->proof, sizeof(proof)) &&
           frame->index < FAB_OFI_NO_INDEX && fab_ses_msg_is_sound(&frame->msg) &&
           frame->msg.kind == (FAB_OFI_ID_WELCOME == id ? FAB_SES_WELCOME : FAB_SES_HELLO) &&
           frame->msg.window <= FAB_OFI_WINDOW_MAX && frame->addr.name_len == dom->addr.name_len &&
           frame->addr.addr_format == dom->addr.addr_format;
}

/* A frame that is to be looked at later.  NULL: no memory. */
static fab_ofi_via_t *via_new(fab_ofi_domain_t *dom, uint8_t id, const fab_ofi_frame_t *frame)
{
    fab_ofi_via_t *via = malloc(sizeof(*via));

    if (NULL != via) {
        *via = (fab_ofi_via_t){.dom = dom, .id = id, .frame = *frame};
    }
    return via;
}

/*
 * HELLO, or WELCOME, of this number leads to nothing: an endpoint without a peer says so, and
 * goes when that is sent.
 */
static void refuse(fab_ofi_domain_t *dom, const fab_ofi_addr_t *addr, uint32_t index,
                   uint64_t serial, fab_ses_reason_t reason)
{
    fab_ofi_ep_t *ep = fab_ofi_ep_new(dom, NULL, addr);

    fab_counters.refused++;
    if (NULL == ep) {
        return; /* its sender waits: as long as this process lives, there may be memory again */
    }
    ep->peer_index = index;
    ep->peer_cookie = (uint32_t) serial;
    ep->deadline = fab_now_us() + UINT64_C(1000000) * fab_params.ofi_timeout;
    if (NULL == make_reachable(ep)) {
        fab_ofi_send_own(ep, FAB_OFI_ID_REFUSE, reason);
    }
}

/* ---- what a session needs --------------------------------------------------- */

static const char *ses_ask(fab_ses_t *ses)
{
    fab_ofi_ep_t *ep = ep_of(ses);
    const fab_ses_msg_t knock = {
        .kind = FAB_SES_HELLO, .window = ses->dom->window, .serial = ++ses->dom->serial};
    const char *why = slot_open(ep, knock.serial);

    if (NULL == why) {
        send_frame(ep, FAB_OFI_ID_KNOCK, &knock, ep->index, 0);
    }
    return why;
}

static void session_end(fab_ofi_ep_t *ep)
{
    if (FAB_OFI_NO_INDEX != ep->index) {
        fab_ofi_dequeue(&ep->dom->due, &ep->due);
        fab_ofi_early_drop(ep);
        slot_give_back(ep);
    }
}

static void ses_cancel(fab_ses_t *ses)
{
    session_end(ep_of(ses));
}

static const char *ses_answer(fab_ses_t *ses, void *at, const fab_ses_msg_t *welcome)
{
    fab_ofi_ep_t *ep = ep_of(ses);
    fab_ofi_via_t *via = at;
    const char *why = slot_open(ep, welcome->other);

    if (NULL != why) {
        return why;
    }
    ep->peer_index = via->frame.index;
    ep->peer_cookie = (uint32_t) via->frame.msg.serial;
    free(via);
    send_frame(ep, FAB_OFI_ID_WELCOME, welcome, ep->index, 0);
    return NULL;
}

static const char *ses_accept(fab_ses_t *ses, const fab_ses_msg_t *welcome)
{
    fab_ofi_ep_t *ep = ep_of(ses);

    ep->peer_index = ep->dom->frame->index;
    ep->peer_cookie = (uint32_t) welcome->other;
    return NULL;
}

static void ses_refuse(fab_ses_domain_t *ses_dom, void *at, const fab_ses_msg_t *msg)
{
    fab_ofi_via_t *via = at;

    (void) ses_dom;
    refuse(via->dom, &via->frame.addr, via->frame.index, msg->serial, msg->reason);
    free(via);
}

/* Of its WELCOME that just came, or of the HELLO that this session has answered. */
static void ses_refuse_peer(fab_ses_t *ses, const fab_ses_msg_t *msg)
{
    const fab_ofi_ep_t *ep = ep_of(ses);
    const fab_ofi_frame_t *frame = ep->dom->frame;

    refuse(ep->dom, &ep->addr, NULL != frame ? frame->index : ep->peer_index, msg->serial,
           msg->reason);
}

static const fab_ses_msg_t *ses_hello(const void *via)
{
    return &((const fab_ofi_via_t *) via)->frame.msg;
}

static bool ses_is_open(const void *via)
{
    (void) via;
    return true; /* or it is void */
}

static void ses_free_via(void *via)
{
    fab_counters.crossed++;
    free(via);
}

static void ses_again(void *at)
{
    fab_ofi_via_t *via = at;

    STAILQ_INSERT_TAIL(&via->dom->again, via, link);
}

static void ses_up(fab_ses_t *ses, bool has_asked)
{
    fab_ofi_ep_t *ep = ep_of(ses);

    ep->nonce = 0; /* if the peer has asked, too, it waits no more */
    if (has_asked) {
        fab_ofi_send_own(ep, FAB_OFI_ID_CREDIT, 0);
    }
}

static void ses_bye(fab_ses_t *ses, fab_ses_bye_t bye)
{
    fab_ofi_send_own(ep_of(ses), FAB_OFI_ID_BYE, bye);
}

static void ses_credit(fab_ses_t *ses)
{
    fab_ofi_ep_t *ep = ep_of(ses);

    fab_ofi_enqueue(&ep->dom->due, &ep->due, ep);
}

static void ses_close(fab_ses_t *ses, bool lingers)
{
    (void) lingers; /* what was to be sent goes all the same: the receiver knows its number */
    session_end(ep_of(ses));
}

static void ses_gone(fab_ses_t *ses)
{
    fab_peer_t *peer = ses->peer;

    fab_ofi_ep_release(ep_of(ses));
    fab_peer_left(peer);
}

static bool ses_is_idle(const fab_ses_t *ses)
{
    const fab_ofi_ep_t *ep = ep_of(ses);

    return NULL == ses->peer->pending && NULL == ep->pack && NULL == ep->to_send &&
           TAILQ_EMPTY(&ep->ops) && TAILQ_EMPTY(&ep->posted);
}

const fab_ses_ops_t fab_ofi_ses_ops = {
    .ask = ses_ask,
    .cancel = ses_cancel,
    .answer = ses_answer,
    .accept = ses_accept,
    .refuse = ses_refuse,
    .refuse_peer = ses_refuse_peer,
    .hello = ses_hello,
    .is_open = ses_is_open,
    .free_via = ses_free_via,
    .again = ses_again,
    .up = ses_up,
    .bye = ses_bye,
    .credit = ses_credit,
    .close = ses_close,
    .gone = ses_gone,
    .is_idle = ses_is_idle,
    .is_drained = fab_ofi_is_drained,
};

/* ---- HELLO ------------------------------------------------------------------- */

/* The endpoint of the process that asks.  NULL: it is refused. */
static fab_ofi_ep_t *asker(fab_ofi_domain_t *dom, const fab_ofi_frame_t *frame, bool *is_later)
{
    fab_peer_t *peer = fab_peer_from_wire(dom->fab, dom->provider, frame->name, &frame->addr,
                                          sizeof(frame->addr), is_later);
    fab_ofi_ep_t *ep = NULL != peer ? peer->ep : NULL;

    return NULL != ep && 0 == memcmp(&ep->addr, &frame->addr, sizeof(ep->addr)) ? ep : NULL;
}

/* The sender of this KNOCK, or HELLO, is to send HELLO with a nonce. */
static void challenge(fab_ofi_ep_t *ep, const fab_ofi_frame_t *frame)
{
    fab_ofi_domain_t *dom = ep->dom;
    const char *why = make_reachable(ep);

    while (0 == ep->nonce) {
        ep->nonce = dom->next_nonce++;
    }
    if (NULL != why) {
        fab_ofi_ep_broke(ep, OPAL_ERR_UNREACH, why);
        return;
    }
    send_frame(ep, FAB_OFI_ID_CHALLENGE, &frame->msg, frame->index, ep->nonce);
}

static void on_ask(fab_ofi_domain_t *dom, uint8_t id, const fab_ofi_frame_t *frame)
{
    bool is_later = false;
    fab_ofi_ep_t *ep = asker(dom, frame, &is_later);
    fab_ofi_via_t *via = NULL;
    fab_ses_reason_t reason = FAB_SES_REASON_PEER;

    if (NULL != ep && (FAB_OFI_ID_KNOCK == id || 0 == frame->nonce || ep->nonce != frame->nonce)) {
        challenge(ep, frame);
        return;
    }
    if (NULL != ep || is_later) {
        via = via_new(dom, id, frame);
        reason = FAB_SES_REASON_RESOURCES;
    }
    if (NULL == via) {
        refuse(dom, &frame->addr, frame->index, frame->msg.serial, reason);
    } else if (is_later) {
        ses_again(via);
    } else {
        ep->nonce = 0;
        dom->has_clocks = true;
        fab_ses_on_hello(&ep->ses, via);
    }
}

void fab_ofi_look_again(fab_ofi_domain_t *dom)
{
    fab_ofi_via_queue_t vias = STAILQ_HEAD_INITIALIZER(vias);
    fab_ofi_via_t *via;

    STAILQ_CONCAT(&vias, &dom->again);
    while (NULL != (via = STAILQ_FIRST(&vias))) {
        STAILQ_REMOVE_HEAD(&vias, link);
        on_ask(dom, via->id, &via->frame);
        free(via);
    }
}

/* ---- answers ----------------------------------------------------------------- */

/* The endpoint of the process of this name.  NULL: there is none, or it has failed. */
static fab_ofi_ep_t *ep_named(const fab_ofi_domain_t *dom, uint64_t name)
{
    const fab_peer_t *peer = fab_peer_find(dom->fab, name);

    return NULL != peer && FAB_PEER_FAILED != peer->state && NULL != peer->ep &&
                   dom->provider == fab_peer_provider(peer)
               ? peer->ep
               : NULL;
}

fab_ofi_ep_t *fab_ofi_challenger(const fab_ofi_domain_t *dom, const fab_ofi_sbuf_t *buf)
{
    const fab_ofi_hdr_t *hdr = (const fab_ofi_hdr_t *) buf->data;
    fab_ofi_frame_t frame;

    if (FAB_OFI_ID_CHALLENGE != fab_ofi_hdr_id(hdr)) {
        return NULL;
    }
    memcpy(&frame, hdr + 1, sizeof(frame));
    return ep_named(dom, frame.target);
}

static void on_challenge(fab_ofi_domain_t *dom, const fab_ofi_frame_t *frame)
{
    fab_ofi_ep_t *ep = fab_ofi_session(dom, frame->index, (uint32_t) frame->msg.serial);
    fab_ses_msg_t hello;

    if (NULL == ep || FAB_SES_ASKING != ep->ses.state || frame->name != ep->peer->name) {
        fab_counters.ofi_strays++;
        return;
    }
    fab_ses_stamp(&ep->ses, &hello);
    slot_name(ep, hello.serial);
    send_frame(ep, FAB_OFI_ID_HELLO, &hello, ep->index, frame->nonce);
}

static void on_welcome(fab_ofi_domain_t *dom, const fab_ofi_frame_t *frame)
{
    fab_ofi_ep_t *ep = ep_named(dom, frame->name);

    if (NULL == ep || 0 != memcmp(&ep->addr, &frame->addr, sizeof(ep->addr))) {
        refuse(dom, &frame->addr, frame->index, frame->msg.other, FAB_SES_REASON_GAVE_UP);
        return;
    }
    dom->frame = frame;
    fab_ses_on_answer(&ep->ses, &frame->msg);
    dom->frame = NULL;
}

void fab_ofi_on_frame(fab_ofi_domain_t *dom, uint8_t id, const void *data, size_t len)
{
    fab_ofi_frame_t frame;

    if (len < sizeof(frame)) {
        fab_counters.ofi_strays++;
        return;
    }
    memcpy(&frame, data, sizeof(frame));
    if (!is_sound(dom, id, &frame)) {
        fab_counters.ofi_strays++;
    } else if (FAB_OFI_ID_CHALLENGE == id) {
        on_challenge(dom, &frame);
    } else if (FAB_OFI_ID_WELCOME == id) {
        on_welcome(dom, &frame);
    } else {
        on_ask(dom, id, &frame);
    }
}

void fab_ofi_on_refuse(fab_ofi_ep_t *ep, uint32_t reason)
{
    const fab_ses_msg_t msg = {
        .kind = FAB_SES_REFUSE, .reason = (uint8_t) reason, .serial = ep->ses.serial};
    const fab_peer_t *peer = ep->peer;

    ep->quiet_at = ep->dom->num_quiet;
    fab_ses_on_answer(&ep->ses, &msg);
    fab_ofi_ep_list_if_broken(ep, peer);
}
