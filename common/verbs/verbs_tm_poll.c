/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of matching hardware.  They are copied out first, a batch at a time, and looked at
 * when polling has ended: between ibv_start_poll and ibv_end_poll the device's library holds locks
 * that other calls want.
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "verbs/verbs_tm_wc.h"

/*
 * The device matched a rendezvous and did no more, because the message is longer than the listed
 * buffer: that buffer has the request. A rendezvous that began and broke off has the same status,
 * and devices differ in how they tell the two apart. False: it broke off, or something has written
 * over the request.
 */
static bool tm_is_left(const fab_tm_recv_t *recv, fab_tm_match_t *match)
{
    const fab_verbs_place_t *place = recv->place;
    fab_verbs_tmh_t tmh;
    fab_verbs_rvh_t rvh;

    if (!place->is_left) {
        return false;
    }
    memcpy(&tmh, place->data, sizeof(tmh));
    memcpy(&rvh, (const char *) place->data + sizeof(tmh), sizeof(rvh));
    if (FAB_AM_RNDV != tmh.opcode || (be64toh(tmh.tag) & recv->mask) != recv->tag ||
        be32toh(rvh.len) <= place->len) {
        return false;
    }
    match->hdr = fab_hdr(FAB_AM_RNDV, be64toh(tmh.tag), be32toh(tmh.app_ctx));
    match->rndv = fab_verbs_rndv(&rvh);
    return true;
}

/*
 * Another receive has the same memory, which is an error of the program, and its message has
 * overwritten this one.
 */
static fab_tm_kind_t tm_again(void)
{
    fab_counters.verbs_tm_overwritten++;
    return FAB_TM_AGAIN;
}

/*
 * The last completion of a match came: what was the message? One that a device read has no
 * immediate data; eager messages and announcements have.
 */
static fab_tm_kind_t tm_kind(const fab_tm_recv_t *recv, const fab_verbs_tm_wc_t *wc,
                             fab_tm_match_t *match)
{
    const fab_verbs_place_t *place = recv->place;

    match->data = NULL != place->reg ? NULL : place->data;
    if (IBV_WC_SUCCESS != wc->status || place->is_left) {
        if (tm_is_left(recv, match)) {
            return FAB_TM_RNDV;
        }
        /* if it broke off, so has the connection, and no answer comes */
        return place->is_left && NULL != place->reg ? tm_again() : FAB_TM_LOST;
    }
    if (0 == (wc->flags & IBV_WC_WITH_IMM)) {
        fab_counters.verbs_tm_rndv++;
        return FAB_TM_READ;
    }
    if (0 == (wc->imm & FAB_VERBS_IMM_RNDV)) {
        return FAB_TM_EAGER;
    }
    memcpy(&match->rndv, place->data, sizeof(match->rndv));
    if (sizeof(match->rndv) != wc->len) {
        return FAB_TM_LOST;
    }
    if (fab_verbs_imm_check(&match->rndv, sizeof(match->rndv)) !=
        wc->imm >> FAB_VERBS_IMM_CHECK_AT) {
        return tm_again();
    }
    if (NULL != place->reg) {
        memcpy(place->data, place->covered, sizeof(place->covered));
    }
    return FAB_TM_RNDV;
}

/* Count the message for the connection that it came on. */
static void tm_account(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn, const fab_tm_match_t *match,
                       const fab_verbs_tm_wc_t *wc)
{
    if (match->is_first) {
        fab_verbs_on_matched(conn);
    }
    if (0 != (wc->flags & IBV_WC_WITH_IMM)) {
        fab_verbs_take_credits(conn, (uint16_t) (wc->imm & FAB_VERBS_IMM_CREDITS));
    }
    if (match->is_last && FAB_TM_LOST == match->kind) {
        fab_verbs_broke(conn->ep, OPAL_ERR_COMM_FAILURE, "A message from it was lost (%s).",
                        dom->name);
    }
}

/*
 * The connection of the sender. At the first completion the tag says which one: the number of the
 * queue pair may be another's. At the second it is known. NULL: unknown, or gone.
 */
static fab_verbs_conn_t *tm_conn(const fab_verbs_tm_t *tm, const fab_tm_recv_t *recv,
                                 const fab_verbs_tm_wc_t *wc)
{
    const fab_verbs_place_t *place = recv->place;
    const fab_peer_t *peer;

    if (0 == (wc->flags & IBV_WC_TM_MATCH) || IBV_WC_TM_RECV != wc->opcode || NULL == tm->user) {
        return place->conn;
    }
    peer = tm->user->sender(tm->ctx, recv, wc->tag);
    return NULL != peer && 0 != (peer->caps & FAB_CAP_TM) && NULL != peer->ep
               ? ((const fab_verbs_ep_t *) peer->ep)->conn
               : NULL;
}

/*
 * tm_matched() for most messages: all of one is there, in one completion, and its sender is known.
 * False: nothing was done.
 */
static inline bool tm_eager(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc,
                            fab_tm_recv_t *recv, bool *is_possible)
{
    const unsigned int flags = IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID | IBV_WC_WITH_IMM;
    const fab_verbs_tm_t *tm = dom->tm;
    const fab_verbs_place_t *place = recv->place;
    fab_verbs_conn_t *conn;
    fab_tm_match_t match;

    if (IBV_WC_SUCCESS != wc->status || NULL == tm->user || flags != (wc->flags & flags) ||
        0 != (wc->imm & FAB_VERBS_IMM_RNDV) || place->is_left) {
        return false;
    }
    conn = tm_conn(tm, recv, wc);
    if (NULL == conn || NULL == conn->ep || FAB_PEER_FAILED == conn->ep->peer->state) {
        return false;
    }
    match.is_first = true;
    match.is_last = true;
    match.kind = FAB_TM_EAGER;
    match.len = wc->len;
    match.data = NULL != place->reg ? NULL : place->data;
    match.hdr = fab_hdr(FAB_AM_EAGER, wc->tag, wc->priv);
    match.peer = conn->ep->peer;
    fab_verbs_on_matched(conn);
    fab_verbs_take_credits(conn, (uint16_t) (wc->imm & FAB_VERBS_IMM_CREDITS));
    *is_possible = tm->user->matched(tm->ctx, recv, &match);
    return true;
}

/* The device matched a listed receive, in any way. */
static __attribute__((noinline)) bool
tm_matched_any(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc, fab_tm_recv_t *recv)
{
    fab_verbs_tm_t *tm = dom->tm;
    fab_verbs_conn_t *conn = tm_conn(tm, recv, wc);
    fab_verbs_place_t *place = recv->place;
    bool has_peer = NULL != conn && NULL != conn->ep && FAB_PEER_FAILED != conn->ep->peer->state;
    fab_tm_match_t match; /* what kind does not need is left as it is */

    match.is_first = 0 != (wc->flags & IBV_WC_TM_MATCH);
    match.is_last = 0 != (wc->flags & IBV_WC_TM_DATA_VALID);
    match.kind = FAB_TM_EAGER;
    match.len = wc->len;
    match.data = NULL;
    match.hdr = fab_hdr(FAB_AM_EAGER, wc->tag, wc->priv);
    match.peer = NULL != conn && NULL != conn->ep ? conn->ep->peer : NULL;
    if (0 == (wc->flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID))) {
        return false;
    }
    place->is_left |= IBV_WC_TM_RNDV_INCOMPLETE == wc->status && IBV_WC_TM_RECV == wc->opcode &&
                      match.is_first;
    if (match.is_last) {
        match.kind = tm_kind(recv, wc, &match);
        /* what broke off need not say what it was */
        match.is_first = match.is_first && FAB_TM_LOST != match.kind;
    }
    if (has_peer) {
        tm_account(dom, conn, &match, wc);
    }
    if (NULL != conn && match.is_last && FAB_TM_READ == match.kind) {
        conn->has_answered = true;
    }
    place->recv = recv;
    place->conn = match.is_last ? NULL : conn;
    return NULL == tm->user || tm->user->matched(tm->ctx, recv, &match);
}

static inline bool tm_matched(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc)
{
    fab_tm_recv_t *recv = (fab_tm_recv_t *) (uintptr_t) (wc->wr_id & ~(uint64_t) FAB_VERBS_LISTED);
    bool is_possible;

    return __builtin_expect(tm_eager(dom, wc, recv, &is_possible), 1)
               ? is_possible
               : tm_matched_any(dom, wc, recv);
}

/* The device counts messages of these ids that it did not match. */
static void tm_unexpected(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc)
{
    const fab_verbs_buf_t *buf = (const fab_verbs_buf_t *) (uintptr_t) wc->wr_id;
    struct ibv_wc plain = {
        .wr_id = wc->wr_id, .status = wc->status, .byte_len = wc->len, .qp_num = wc->qp_num};
    uint8_t opcode = IBV_WC_TM_NO_TAG != wc->opcode ? buf->data[0] : FAB_AM_NO_TAG;

    fab_verbs_on_recv(dom, &plain);
    if ((FAB_AM_EAGER == opcode || FAB_AM_RNDV == opcode) && NULL != dom->tm->user) {
        dom->tm->user->handled(dom->tm->ctx);
    }
}

/*
 * A connection that ends flushes what it had begun to receive.  Any other error is one of the
 * device, not of a peer: false.
 */
static __attribute__((noinline)) bool tm_flushed(fab_verbs_domain_t *dom,
                                                 const fab_verbs_tm_wc_t *wc)
{
    fab_verbs_buf_t *buf = fab_verbs_pool_find(&dom->recv_pool, wc->wr_id);

    if (IBV_WC_WR_FLUSH_ERR != wc->status || NULL == fab_verbs_conn_by_qpn(dom, wc->qp_num)) {
        fab_log(dom->fab, 1, "%s: a completion in error (%s) for queue pair %u", dom->name,
                ibv_wc_status_str(wc->status), wc->qp_num);
        return false;
    }
    if (NULL != buf) {
        (void) fab_verbs_collect(dom, buf);
    }
    return true;
}

static bool tm_take(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc)
{
    fab_verbs_tm_t *tm = dom->tm;
    bool is_op = IBV_WC_TM_ADD == wc->opcode || IBV_WC_TM_DEL == wc->opcode ||
                 IBV_WC_TM_SYNC == wc->opcode;

    if (__builtin_expect(!fab_verbs_tm_is_meant(wc->status), 0)) {
        return tm_flushed(dom, wc);
    }
    if (is_op) {
        return NULL == tm->user || tm->user->done(tm->ctx, wc->wr_id, IBV_WC_SUCCESS == wc->status);
    }
    if (0 != (wc->wr_id & FAB_VERBS_LISTED)) {
        return tm_matched(dom, wc);
    }
    tm_unexpected(dom, wc);
    return true;
}

static void tm_report_failure(fab_verbs_tm_t *tm)
{
    if (!tm->is_failure_reported && NULL != tm->user) {
        tm->is_failure_reported = true;
        tm->user->failed(tm->ctx);
    }
}

int fab_verbs_tm_poll(fab_verbs_domain_t *dom)
{
    fab_verbs_tm_wc_t wcs[FAB_VERBS_BATCH];
    fab_verbs_tm_t *tm = dom->tm;
    int n, rc;

    if (dom->is_dead) {
        tm_report_failure(tm);
        return 0;
    }
    n = fab_verbs_tm_collect(tm->cq, wcs, &rc);
    dom->empty_polls += 0 == n;
    if (0 != n && NULL != tm->user) {
        tm->user->poll_begin(tm->ctx);
    }
    for (int i = 0; i < n && !dom->is_dead; i++) {
        if (!tm_take(dom, &wcs[i])) {
            fab_verbs_tm_broke(dom, "it reported an impossible event");
        }
    }
    if (__builtin_expect(ENOENT != rc, 0)) {
        fab_verbs_tm_broke(dom, "it cannot be polled");
    }
    if (NULL != tm->user) {
        tm->user->poll_end(tm->ctx, 0 == n);
    }
    if (NULL != dom->to_post) {
        fab_verbs_srq_repost(dom);
    }
    return n;
}
