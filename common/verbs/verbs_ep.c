/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what the verbs provider does for one peer.
 *
 *      attach ──> endpoint, with a session (session.h)
 *      detach, drop ──> the session ends ──> its connection lingers, gone
 *
 * A device may have answers under way when a BYE comes (FIN, on another queue pair).  So the
 * session hears of that BYE, and answers it, when they are here.
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

/* ---- sending ------------------------------------------------------------ */

/* Says why no message can be sent to the peer now. Connects, if that is the reason. */
static __attribute__((noinline)) int cannot_send(fab_verbs_ep_t *ep)
{
    fab_counters.no_credit += 0 != ep->ses.window && !fab_ses_may_send(&ep->ses);
    fab_ses_want(&ep->ses);
    return FAB_PEER_UP == ep->peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
}

static inline bool fab_verbs_can_send(const fab_verbs_ep_t *ep)
{
    const fab_verbs_conn_t *conn = ep->conn;

    return fab_ses_may_send(&ep->ses) && fab_verbs_sq_room(conn) > FAB_VERBS_SQ_RESERVED &&
           conn->dom->sq_used < conn->dom->sq_used_max;
}

/* For matching hardware, a request is a message like others. */
static inline uint8_t fab_verbs_opcode(const fab_verbs_conn_t *conn, uint8_t id)
{
    if (__builtin_expect(FAB_AM_RNDV == id && conn->is_to_tm, 0)) {
        return FAB_AM_EAGER;
    }
    return id <= FAB_AM_EAGER ? id : FAB_AM_NO_TAG;
}

/* Messages that matching hardware may match have immediate data: see verbs_wire.h. */
static inline void fab_verbs_add_imm(const fab_verbs_conn_t *conn, struct ibv_send_wr *wr,
                                     uint8_t id, const void *payload, size_t len)
{
    uint32_t imm = conn->ep->ses.consumed & FAB_VERBS_IMM_CREDITS;

    if (__builtin_expect(conn->is_to_tm, 0) && (FAB_AM_RNDV == id || FAB_AM_EAGER == id)) {
        if (FAB_AM_RNDV == id) {
            imm |= FAB_VERBS_IMM_RNDV | fab_verbs_imm_check(payload, len) << FAB_VERBS_IMM_CHECK_AT;
        }
        wr->opcode = IBV_WR_SEND_WITH_IMM;
        wr->imm_data = htobe32(imm);
    }
}

static inline fab_verbs_tmh_t fab_verbs_tmh(const fab_verbs_conn_t *conn, fab_hdr_t hdr)
{
    return (fab_verbs_tmh_t){
        .opcode = fab_verbs_opcode(conn, hdr.id),
        .id = hdr.id,
        .credits = htobe16((uint16_t) conn->ep->ses.consumed),
        .app_ctx = htobe32(hdr.app_ctx),
        .tag = htobe64(hdr.tag),
    };
}

static inline void fab_verbs_sent(fab_verbs_conn_t *conn, fab_hdr_t hdr)
{
    fab_ses_t *ses = &conn->ep->ses;

    ses->sent++;
    ses->is_used = true;
    if (FAB_AM_FIN != hdr.id) { /* the receiver reads no credits there: take_credit() */
        fab_ses_told(ses);
    }
    fab_counters.verbs_msgs_sent++;
}

/* A message of the fabric's.  buf: as fab_verbs_conn_send() has it. */
static inline int fab_verbs_send_msg(fab_verbs_conn_t *conn, fab_hdr_t hdr, const void *data,
                                     size_t len, fab_verbs_buf_t *buf)
{
    fab_verbs_tmh_t tmh = fab_verbs_tmh(conn, hdr);
    const void *payload = NULL == data && NULL != buf ? buf->data + sizeof(tmh) : data;
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    int rc;

    fab_verbs_add_imm(conn, &wr, hdr.id, payload, len);
    rc = fab_verbs_conn_send(conn, &wr, &tmh, data, len, buf);
    if (__builtin_expect(OPAL_SUCCESS == rc, 1)) {
        fab_verbs_sent(conn, hdr);
    }
    return rc;
}

/* Can the receiver's device read it by itself? */
static inline bool fab_verbs_is_for_device(const fab_verbs_conn_t *conn, const fab_rndv_t *rndv,
                                           size_t len)
{
    if (NULL == conn->tm_qp || sizeof(*rndv) != len || 0 == rndv->addr ||
        rndv->len > conn->dom->port.max_msg_sz ||
        rndv->len > UINT64_C(1) << conn->ep->addr.max_read) {
        return false;
    }
    return conn->dom->num_requested <
           conn->dom->max_requested; /* else its answer might find no buffer */
}

/* A request that the receiver's device may fulfil. */
static int send_request(fab_verbs_conn_t *conn, fab_hdr_t hdr, const fab_rndv_t *rndv)
{
    fab_verbs_tmh_t tmh = fab_verbs_tmh(conn, hdr);
    fab_verbs_rvh_t rvh = fab_verbs_rvh(rndv);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    int rc;

    tmh.opcode = FAB_AM_RNDV;
    rc = fab_verbs_conn_send(conn, &wr, &tmh, &rvh, sizeof(rvh), NULL);
    if (OPAL_SUCCESS == rc) {
        conn->ep->ses.sent++; /* its credits go to the device, which does not pass them on */
        conn->ep->ses.is_used = true;
        fab_counters.verbs_msgs_sent++;
        fab_verbs_requested(conn->dom, rndv);
    }
    return rc;
}

static int verbs_send(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_verbs_ep_t *ep = peer->ep;

    if (__builtin_expect(!fab_verbs_can_send(ep), 0)) {
        return cannot_send(ep);
    }
    if (__builtin_expect(FAB_AM_RNDV == hdr.id, 0) &&
        fab_verbs_is_for_device(ep->conn, data, len)) {
        return send_request(ep->conn, hdr, data);
    }
    return len <= peer->eager_max ? fab_verbs_send_msg(ep->conn, hdr, data, len, NULL)
                                  : OPAL_ERR_BAD_PARAM;
}

static void *verbs_reserve(fab_peer_t *peer, size_t max_len)
{
    fab_verbs_ep_t *ep = peer->ep;

    (void) max_len;
    if (__builtin_expect(!fab_verbs_can_send(ep), 0)) {
        (void) cannot_send(ep);
        return NULL;
    }
    ep->reserved = fab_verbs_pool_get(&ep->dom->send_pool);
    return NULL != ep->reserved ? ep->reserved->data + sizeof(fab_verbs_tmh_t) : NULL;
}

static void verbs_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_verbs_ep_t *ep = peer->ep;
    fab_verbs_buf_t *buf = ep->reserved;

    ep->reserved = NULL;
    if (OPAL_ERR_RESOURCE_BUSY == fab_verbs_send_msg(ep->conn, hdr, NULL, len, buf)) {
        /* there was room when it was reserved */
        fab_verbs_broke(ep, OPAL_ERR_COMM_FAILURE, "%s has lost count of its send queue.",
                        ep->dom->name);
    }
}

static void verbs_batch(fab_peer_t *peer, bool is_begin)
{
    fab_verbs_ep_t *ep = peer->ep;

    if (!is_begin) {
        fab_verbs_chain_end(ep->dom);
    } else if (NULL != ep->conn) {
        ep->dom->chained = ep->conn;
    }
}

const fab_ops_t fab_verbs_ops = {
    .send = verbs_send,
    .reserve = verbs_reserve,
    .commit = verbs_commit,
    .rma = fab_verbs_rma,
    .batch = verbs_batch,
};

/* ---- attach ------------------------------------------------------------- */

static bool ports_are_sound(const fab_verbs_addr_t *addr)
{
    if (addr->num_ports < 1 || addr->num_ports > FAB_VERBS_PORTS) {
        return false;
    }
    for (int i = 0; i < addr->num_ports; i++) {
        const fab_verbs_port_addr_t *port = &addr->ports[i];
        const unsigned known = FAB_VERBS_PORT_GRH | (i > 0 ? FAB_VERBS_PORT_SHARE : 0);
        if (port->mtu < IBV_MTU_256 || port->mtu > IBV_MTU_4096 || 0 != (port->flags & ~known)) {
            return false;
        }
    }
    return true;
}

static bool addr_is_sound(const fab_verbs_addr_t *addr)
{
    return addr->eager_max >= FAB_VERBS_EAGER_MIN && addr->eager_max <= FAB_VERBS_EAGER_MAX &&
           addr->num_ips > 0 && addr->num_ips <= FAB_VERBS_IPS && ports_are_sound(addr) &&
           (0 == (addr->flags & FAB_VERBS_ADDR_CM) || addr->cm_port > 0) && addr->pid > 0 &&
           addr->pid <= INT32_MAX && addr->max_read < 32 &&
           (IBV_LINK_LAYER_ETHERNET == addr->link_layer ||
            IBV_LINK_LAYER_INFINIBAND == addr->link_layer);
}

static const char *addr_flaw(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *addr)
{
    if (FAB_VERBS_VERSION != addr->version) {
        return fab_sentence(dom->fab, "its verbs address has version %u, this process knows %d",
                            addr->version, FAB_VERBS_VERSION);
    }
    return addr_is_sound(addr) ? NULL : "its verbs address is damaged";
}

int fab_verbs_attach(fab_domain_t *domain, fab_peer_t *peer, const void *address, const char **why)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;
    uint32_t pair = 0;
    uint8_t remote = 0;
    fab_verbs_addr_t addr;
    fab_verbs_ep_t *ep;

    memcpy(&addr, address, sizeof(addr));
    *why = addr_flaw(dom, &addr);
    if (NULL != *why) {
        return OPAL_ERR_UNREACH;
    }
    dom = fab_verbs_ports_choose(dom, peer->name, &addr, &pair, &remote, why);
    if (NULL == dom) {
        return OPAL_ERR_UNREACH;
    }
    ep = fab_verbs_ep_new(dom, peer, &addr, pair, remote);
    if (NULL == ep) {
        *why = "there is not enough memory";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    peer->caps = FAB_CAP_GET | FAB_CAP_PUT | (NULL != dom->tm ? FAB_CAP_TM : 0);
    peer->eager_max = fab_params_eager(fab_limits.verbs_eager, addr.eager_max);
    peer->ep = ep;
    return OPAL_SUCCESS;
}

/* ---- the end ------------------------------------------------------------ */

void fab_verbs_ep_free(fab_verbs_ep_t *ep)
{
    fab_verbs_rails_end(ep);
    fab_verbs_connect_cancel(ep);
    fab_verbs_rma_drop(ep);
    fab_verbs_forget_late_bye(ep);
    fab_ses_fini(&ep->ses);
    LIST_REMOVE(ep, link);
    free(ep->spare);
    free(ep);
}

void **fab_verbs_spare(const fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;

    return &ep->spare;
}

fab_moves_t fab_verbs_asked_by_later(fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;

    /* its last word may have come, and not be taken yet */
    return NULL != ep->failure || 0 != ep->late_bye ? FAB_MOVES_LATER
                                                    : fab_ses_asked_by_later(&ep->ses);
}

void fab_verbs_ask_owed(fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;

    fab_ses_ask_owed(&ep->ses);
}

void fab_verbs_ep_finish(fab_verbs_ep_t *ep)
{
    fab_peer_t *peer = ep->peer;

    fab_verbs_conn_release(ep);
    peer->ep = NULL;
    fab_verbs_ep_free(ep);
    if (FAB_PEER_CLOSED == peer->state) {
        fab_peer_left(peer);
    }
}

void fab_verbs_detach(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;

    (void) domain;
    fab_verbs_rails_end(ep);
    fab_verbs_rma_drop(ep);
    if (fab_ses_close(&ep->ses)) {
        fab_verbs_conn_release(ep);
        peer->ep = NULL;
        fab_verbs_ep_free(ep);
    }
}

bool fab_verbs_drop(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;
    fab_verbs_conn_t *conn = ep->conn;

    (void) domain;
    if (!fab_verbs_rails_drain(ep, fab_now_us())) {
        return false;
    }
    fab_verbs_rma_drop(ep);
    if (NULL != conn && (conn->is_broken || conn->in_flight > 0 || ep->ses.state < FAB_SES_UP)) {
        if (!fab_verbs_conn_drain(conn, fab_now_us())) {
            return false;
        }
        fab_verbs_conn_destroy(conn, OPAL_ERR_UNREACH);
    }
    fab_ses_drop(&ep->ses);
    peer->ep = NULL;
    fab_verbs_ep_free(ep);
    return true;
}

/* ---- the peer's own messages -------------------------------------------- */

/* Does this process read or write the peer's memory? */
static bool is_in_rma(const fab_verbs_ep_t *ep)
{
    bool is_busy = !STAILQ_EMPTY(&ep->ops) || (NULL != ep->conn && ep->conn->in_flight > 0);

    for (const fab_verbs_ep_t *rail = ep->rails; NULL != rail && !is_busy; rail = rail->next_rail) {
        is_busy = !STAILQ_EMPTY(&rail->ops) || (NULL != rail->conn && rail->conn->in_flight > 0);
    }
    return is_busy;
}

/* The endpoint may be gone afterwards. */
void fab_verbs_ep_take_bye(fab_verbs_ep_t *ep)
{
    const uint8_t bye = ep->late_bye;
    fab_peer_t *peer = FAB_SES_BYE_CLOSE == bye && !ep->ses.is_closed ? ep->peer : NULL;

    fab_verbs_forget_late_bye(ep);
    if (!fab_ses_on_bye(&ep->ses, bye)) {
        fab_verbs_broke(ep, OPAL_ERR_COMM_FAILURE, "It ended a session that it has not.");
    } else if (NULL != peer) {
        fab_peer_has_left(peer); /* if this process still needs it */
    }
}

void fab_verbs_ep_end_ending(fab_verbs_domain_t *dom, uint64_t now)
{
    fab_verbs_ep_t *ep, *next;

    for (ep = LIST_FIRST(&dom->eps); NULL != ep; ep = next) {
        next = LIST_NEXT(ep, link);
        if (0 != ep->late_bye && (!fab_verbs_is_answer_due(ep) || now >= ep->end_by)) {
            fab_verbs_ep_take_bye(ep);
        }
    }
}

/* What is the peer's last word waits until its device has answered; it may decline a PAUSE. */
static void on_bye(fab_verbs_ep_t *ep, uint32_t bye)
{
    const bool is_last = FAB_SES_BYE_CLOSE == bye || FAB_SES_BYE_LEAVE == bye;

    if (FAB_SES_BYE_LEAVE == bye && !ep->ses.is_closed && is_in_rma(ep)) {
        fab_verbs_broke(ep, OPAL_ERR_UNREACH,
                        "It has left, or given this process up, while its memory was read or "
                        "written.");
        return;
    }
    if (FAB_SES_BYE_NONE == bye || bye >= FAB_SES_BYES || FAB_SES_BYE_NONE != ep->late_bye) {
        fab_verbs_broke(ep, OPAL_ERR_COMM_FAILURE, "It ended a session twice, or in no known way.");
        return;
    }
    ep->late_bye = (uint8_t) bye;
    ep->dom->num_ending++;
    ep->end_by = fab_now_us() + FAB_VERBS_ANSWER_US;
    if (!is_last || !fab_verbs_is_answer_due(ep)) {
        fab_verbs_ep_take_bye(ep);
    } else if (FAB_SES_BYE_LEAVE == bye) {
        ep->ses.window = 0;
    }
}

/* The peer grants more, and gives back of what it was granted. */
static void on_credit(fab_verbs_ep_t *ep, uint32_t changes)
{
    const uint32_t more = changes & FAB_VERBS_WINDOW_MASK, back = changes >> FAB_VERBS_BACK_AT;
    fab_verbs_conn_t *conn = ep->conn;
    fab_ses_t *ses = &ep->ses;

    if (more > FAB_VERBS_WINDOW_MAX - ses->peer_window ||
        back > (uint32_t) conn->granted - conn->base) {
        fab_peer_bad_message(ep->peer, "it changes a window by more than it may");
        return;
    }
    conn->more = (uint16_t) (conn->more + more);
    fab_ses_resize(ses, ses->peer_window + more);
    conn->granted = (uint16_t) (conn->granted - back);
    ep->dom->granted -= back;
    if (fab_verbs_owes_credit(conn)) { /* for which the window was too large */
        fab_verbs_conn_schedule_credits(conn);
    }
}

void fab_verbs_ep_on_control(fab_verbs_ep_t *ep, uint8_t id, uint32_t app_ctx)
{
    if (FAB_VERBS_ID_BYE == id && NULL != ep->main) {
        fab_verbs_broke(ep, OPAL_ERR_COMM_FAILURE, "It sent a message there.");
    } else if (FAB_VERBS_ID_BYE == id) {
        on_bye(ep, app_ctx);
    } else if (FAB_VERBS_ID_CREDIT == id && 0 != app_ctx) {
        on_credit(ep, app_ctx);
    }
}
