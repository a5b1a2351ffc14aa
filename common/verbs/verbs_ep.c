/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what the verbs provider does for one peer.
 *
 *      attach ──> IDLE ──first send──> ... ──> UP        (verbs_connect.c)
 *      detach ──> CLOSE sent ──CLOSED, CLOSE or LEAVE of the peer──> gone
 *      CLOSE of the peer ──> CLOSED sent, connection lingers, IDLE again
 *      EVICT sent ──> EVICTING ──EVICTED or EVICT of the peer──> connection lingers, IDLE again
 *      drop   ──> LEAVE sent, if that can be done, connection lingers, gone
 *
 * A pair has one connection, on which both send. A process that closes the peer requests the end of
 * the connection (CLOSE); the other answers CLOSED, its last message on it, and makes a new one if
 * it has more to send.
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"
#include "verbs/verbs_end.h"

/* ---- sending ------------------------------------------------------------ */

/* Says why no message can be sent to the peer now. Connects, if that is the reason. */
static __attribute__((noinline)) int cannot_send(fab_verbs_ep_t *ep)
{
    if (NULL != ep->failure) {
        return OPAL_ERR_RESOURCE_BUSY; /* until it fails, in fab_progress() */
    }
    if (ep->has_left) {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH,
                      "It takes no more messages: it has left, or refused this process.");
        return OPAL_ERR_UNREACH;
    }
    if (FAB_VERBS_UP != ep->state) {
        fab_verbs_connect(ep);
    } else if (!fab_verbs_has_credit(ep->conn)) {
        fab_counters.no_credit++;
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

static inline bool fab_verbs_can_send(const fab_verbs_ep_t *ep)
{
    const fab_verbs_conn_t *conn = ep->conn;

    return NULL != conn && conn->is_ready && fab_verbs_has_credit(conn) &&
           fab_verbs_sq_room(conn) > FAB_VERBS_SQ_RESERVED &&
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
    uint32_t imm = conn->consumed;

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
        .credits = htobe16(conn->consumed),
        .app_ctx = htobe32(hdr.app_ctx),
        .tag = htobe64(hdr.tag),
    };
}

static inline void fab_verbs_sent(fab_verbs_conn_t *conn, fab_hdr_t hdr)
{
    conn->sent++;
    if (FAB_AM_FIN != hdr.id) { /* the receiver reads no credits there: take_credit() */
        conn->advertised = conn->consumed;
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
        conn->sent++; /* its credits go to the device, which does not pass them on */
        fab_counters.verbs_msgs_sent++;
        fab_counters.verbs_tm_requests++;
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
    ep->reserved = fab_verbs_send_buf(ep->dom);
    return NULL != ep->reserved ? ep->reserved->data + sizeof(fab_verbs_tmh_t) : NULL;
}

static void verbs_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_verbs_ep_t *ep = peer->ep;
    fab_verbs_buf_t *buf = ep->reserved;

    ep->reserved = NULL;
    if (OPAL_ERR_RESOURCE_BUSY == fab_verbs_send_msg(ep->conn, hdr, NULL, len, buf)) {
        /* there was room when it was reserved */
        fab_verbs_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                                   "%s has lost count of its send queue.", ep->dom->name);
    }
}

static void verbs_batch(fab_peer_t *peer, bool is_begin)
{
    fab_verbs_ep_t *ep = peer->ep;

    if (!is_begin) {
        fab_verbs_chain_end(ep->dom);
    } else if (NULL != ep->conn) {
        fab_verbs_chain_begin(ep->conn);
    }
}

const fab_ops_t fab_verbs_ops = {
    .send = verbs_send,
    .reserve = verbs_reserve,
    .commit = verbs_commit,
    .expose = fab_verbs_expose,
    .unexpose = fab_verbs_unexpose,
    .rma = fab_verbs_rma,
    .batch = verbs_batch,
};

/* ---- attach ------------------------------------------------------------- */

static bool addr_is_sound(const fab_verbs_addr_t *addr)
{
    return addr->eager_max >= FAB_VERBS_EAGER_MIN && addr->eager_max <= FAB_VERBS_EAGER_MAX &&
           addr->num_ips > 0 && addr->num_ips <= FAB_VERBS_IPS && addr->mtu >= IBV_MTU_256 &&
           addr->mtu <= IBV_MTU_4096 && addr->num_others < FAB_VERBS_PORTS &&
           (0 == (addr->flags & FAB_VERBS_ADDR_CM) || addr->cm_port > 0) && addr->pid > 0 &&
           addr->pid <= INT32_MAX && addr->max_read < 32 &&
           (IBV_LINK_LAYER_ETHERNET == addr->link_layer ||
            IBV_LINK_LAYER_INFINIBAND == addr->link_layer);
}

static bool others_are_sound(const fab_verbs_addr_t *addr)
{
    for (int i = 0; i < addr->num_others; i++) {
        const fab_verbs_port_addr_t *other = &addr->others[i];
        if (other->mtu < IBV_MTU_256 || other->mtu > IBV_MTU_4096 ||
            0 != (other->flags & ~(FAB_VERBS_ADDR_GRH | FAB_VERBS_ADDR_SHARE))) {
            return false;
        }
    }
    return true;
}

static const char *addr_flaw(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *addr)
{
    if (FAB_VERBS_VERSION != addr->version) {
        return fab_sentence(dom->fab, "its verbs address has version %u, this process knows %d",
                            addr->version, FAB_VERBS_VERSION);
    }
    return addr_is_sound(addr) && others_are_sound(addr) ? NULL : "its verbs address is damaged";
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
    ep = malloc(sizeof(*ep));
    if (NULL == ep) {
        *why = "there is not enough memory";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    *ep = (fab_verbs_ep_t){.peer = peer,
                           .dom = dom,
                           .addr = addr,
                           .is_local = addr.host == dom->addr.host,
                           .pair = (uint8_t) pair,
                           .remote = remote};
    STAILQ_INIT(&ep->ops);
    LIST_INSERT_HEAD(&dom->eps, ep, link);
    peer->caps = FAB_CAP_GET | FAB_CAP_PUT | (NULL != dom->tm ? FAB_CAP_TM : 0);
    peer->eager_max = fab_params_eager(fab_limits.verbs_eager, addr.eager_max);
    peer->ep = ep;
    return OPAL_SUCCESS;
}

/* ---- the end ------------------------------------------------------------ */

void fab_verbs_ep_free(fab_verbs_ep_t *ep)
{
    fab_verbs_domain_t *dom = ep->dom;

    fab_verbs_rails_end(ep);
    fab_verbs_connect_cancel(ep);
    fab_verbs_rma_drop(ep);
    fab_verbs_ep_forget_failure(ep);
    dom->num_ending -= 0 != ep->end_by;
    LIST_REMOVE(ep, link);
    free(ep->spare);
    free(ep);
}

void **fab_verbs_spare(const fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;

    return &ep->spare;
}

/* One that is being given up has ended for the other side, if that asks for another provider. */
bool fab_verbs_is_bound(const fab_peer_t *peer)
{
    const fab_verbs_ep_t *ep = peer->ep;

    return ep->is_bound && FAB_VERBS_EVICTING != ep->state;
}

static void ep_release(fab_verbs_ep_t *ep)
{
    fab_verbs_conn_release(ep);
    ep->peer->ep = NULL;
    fab_verbs_ep_free(ep);
}

void fab_verbs_ep_finish(fab_verbs_ep_t *ep)
{
    fab_peer_t *peer = ep->peer;

    ep_release(ep);
    if (FAB_PEER_CLOSED == peer->state) {
        fab_peer_left(peer);
    }
}

void fab_verbs_detach(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;

    (void) domain;
    ep->is_closing = true;
    fab_verbs_rails_end(ep);
    fab_verbs_rma_drop(ep);
    if (FAB_VERBS_IDLE == ep->state || FAB_VERBS_WAITING == ep->state || ep->has_left) {
        ep_release(ep);
    } else if (fab_verbs_is_connected(ep)) {
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_CLOSE);
        if (0 != ep->end_by) { /* the peer has closed it, too */
            ep_release(ep);
        }
    } /* else CLOSE is sent once it is connected: the peer may send */
}

/*
 * The other side has agreed to the connection's end and goes on by another provider; what it sent
 * before is to be delivered first.  Only a path that breaks at this moment can lose it.
 */
static bool is_awaiting_end(fab_verbs_ep_t *ep)
{
    fab_peer_t *peer = ep->peer;
    bool is_up = FAB_PEER_UP == peer->state;
    uint64_t now = fab_now_us();

    if (FAB_VERBS_EVICTING != ep->state || FAB_PEER_FAILED == peer->state) {
        return false;
    }
    ep->conn->linger_until = 0 != ep->conn->linger_until ? ep->conn->linger_until
                                                         : now + 2 * FAB_VERBS_LINGER_US;
    if (now < ep->conn->linger_until) {
        return is_up || !ep->conn->is_broken;
    }
    fab_peer_fail(peer, OPAL_ERR_UNREACH,
                  "It goes on by another provider, and what it sent before did not come.");
    return is_up;
}

bool fab_verbs_drop(fab_domain_t *domain, fab_peer_t *peer)
{
    fab_verbs_ep_t *ep = peer->ep;
    fab_verbs_conn_t *conn = ep->conn;

    (void) domain;
    if (is_awaiting_end(ep) || !fab_verbs_rails_drain(ep, fab_now_us())) {
        return false;
    }
    fab_verbs_rma_drop(ep);
    if (NULL != conn && (conn->is_broken || conn->in_flight > 0 || !fab_verbs_is_connected(ep))) {
        if (!fab_verbs_conn_drain(conn, fab_now_us())) {
            return false;
        }
        fab_verbs_conn_destroy(conn, OPAL_ERR_UNREACH);
    } else if (NULL != conn) {
        conn->is_ready = true; /* a failing endpoint's was not, to keep messages back */
        fab_verbs_conn_send_control(conn, FAB_VERBS_ID_LEAVE);
        fab_verbs_conn_linger(conn);
    }
    peer->ep = NULL;
    fab_verbs_ep_free(ep);
    return true;
}

/* ---- the peer's own messages -------------------------------------------- */

/*
 * The peer closed the connection or left.  Release it as soon as its device has answered, or cannot
 * any more.  If this process still needs the peer, the peer has failed.
 */
static void ep_end(fab_verbs_ep_t *ep, uint64_t now)
{
    if (fab_verbs_is_answer_due(ep) && now < ep->end_by) {
        return;
    }
    ep->end_by = 0;
    ep->dom->num_ending--;
    if (!ep->has_left && NULL != ep->conn) {
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_CLOSED);
        fab_verbs_conn_linger(ep->conn);
        fab_verbs_connect_cancel(ep);
        ep->is_bound = false;
    }
    if (ep->is_closing) {
        fab_verbs_ep_finish(ep);
    } else {
        fab_peer_has_left(ep->peer);
    }
}

static void ep_begin_end(fab_verbs_ep_t *ep)
{
    uint64_t now = fab_now_us();

    fab_verbs_rails_end(ep);
    ep->dom->num_ending += 0 == ep->end_by;
    ep->end_by = now + FAB_VERBS_ANSWER_US;
    ep_end(ep, now);
}

void fab_verbs_ep_end_ending(fab_verbs_domain_t *dom, uint64_t now)
{
    fab_verbs_ep_t *ep, *next;

    for (ep = LIST_FIRST(&dom->eps); NULL != ep; ep = next) {
        next = LIST_NEXT(ep, link);
        if (0 != ep->end_by) {
            ep_end(ep, now);
        }
    }
}

static bool are_rails_busy(const fab_verbs_ep_t *ep)
{
    const fab_verbs_ep_t *rail = ep->rails;

    while (NULL != rail && STAILQ_EMPTY(&rail->ops) &&
           (NULL == rail->conn || 0 == rail->conn->in_flight)) {
        rail = rail->next_rail;
    }
    return NULL != rail;
}

static void ep_left(fab_verbs_ep_t *ep)
{
    ep->has_left = true;
    ep->conn->is_ready = false;
    if (NULL != ep->failure && ep->failure->is_path) {
        fab_verbs_ep_forget_failure(ep); /* it left in order: no path is needed */
    }
    if (ep->is_closing) {
        fab_verbs_ep_finish(ep);
    } else if (!STAILQ_EMPTY(&ep->ops) || ep->conn->in_flight > 0 || are_rails_busy(ep)) {
        fab_verbs_ep_defer_failure(
            ep, OPAL_ERR_UNREACH,
            "It has left, or given this process up, while its memory was read or written.");
    } else {
        ep_begin_end(ep);
    }
}

/*
 * The connection has ended in order: who has more to send makes another one, or moves to another
 * provider if that cannot be.
 */
static void ep_conn_ended(fab_verbs_ep_t *ep)
{
    fab_verbs_conn_t *conn = ep->conn;

    if (conn->is_broken) {
        fab_verbs_ep_forget_failure(ep); /* the peer's side of it has ended first */
    }
    ep->is_bound = NULL != ep->failure;
    conn->is_ready = true; /* for what is still to be sent on it */
    fab_verbs_conn_linger(conn);
    conn->linger_until = UINT64_MAX; /* the peer waits for all of that */
    fab_verbs_connect_cancel(ep);
    if (ep->is_closing) {
        fab_verbs_ep_finish(ep);
    }
}

static void ep_go_on(fab_verbs_ep_t *ep)
{
    fab_verbs_set_state(ep, FAB_VERBS_UP);
    ep->conn->is_ready = NULL == ep->failure;
}

/* The peer ends the connection, or answers that this process wants to: verbs_end.h. */
static void ep_on_end(fab_verbs_ep_t *ep, uint8_t id)
{
    unsigned side = (FAB_VERBS_EVICTING == ep->state ? FAB_VERBS_SIDE_EVICTING : 0) |
                    (ep->is_closing ? FAB_VERBS_SIDE_CLOSING : 0) |
                    (fab_verbs_is_idle(ep->conn) ? 0 : FAB_VERBS_SIDE_BUSY);

    switch (fab_verbs_on_end(side, id)) {
    case FAB_VERBS_END_AGREE:
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_EVICTED);
        ep_conn_ended(ep);
        break;
    case FAB_VERBS_END_DECLINE:
        fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_STAY);
        break;
    case FAB_VERBS_END_OVER:
        ep_conn_ended(ep);
        break;
    case FAB_VERBS_END_GO_ON:
        ep_go_on(ep);
        break;
    case FAB_VERBS_END_CLOSED:
        ep_begin_end(ep);
        break;
    default:
        fab_verbs_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                                   "It agreed to end a connection that nobody wanted to end.");
        break;
    }
}

void fab_verbs_ep_on_control(fab_verbs_ep_t *ep, uint8_t id)
{
    if (NULL != ep->main && FAB_VERBS_ID_PROBE != id) {
        fab_verbs_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE, "It sent a message there.");
    } else if (FAB_VERBS_ID_LEAVE == id) {
        ep_left(ep);
    } else if (id >= FAB_VERBS_ID_RAIL) {
        fab_verbs_rail_failed_there(ep, id - FAB_VERBS_ID_RAIL);
    } else if (FAB_VERBS_ID_CREDIT != id && FAB_VERBS_ID_PROBE != id) {
        ep_on_end(ep, id);
    }
}
