/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester of a queue pair: transmits what was posted, in order, and completes it in order.
 *
 * Requests get their message number when they are transmitted first. What is not acknowledged stays
 * in qp->sq; after a refusal (NAK) the requester goes back to the refused message, waits, and
 * transmits that and all behind it again. A peer that does not answer at all can only be one whose
 * process is gone or whose queue pair is not ready; the first is seen as a lost connection, the
 * second is said by a NAK, and both are treated as the loss of a packet: after the timeout it is
 * sent again, retry_cnt times. A peer that is just slow is never timed out, however slow this host
 * is.
 *
 * All under node->lock.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * With so much on the way without acknowledgement no message is begun, so that what is sent in vain
 * to a receiver that is not ready stays small.
 */
#define WINDOW_BYTES    (1u << 20)
#define WINDOW_MESSAGES 256u
/* Frames of one queue pair in a row. */
#define TURN_FRAMES 16

static bool is_read(const tmdev_wqe_t *wqe)
{
    return IBV_WR_RDMA_READ == wqe->opcode || IBV_WR_ATOMIC_CMP_AND_SWP == wqe->opcode ||
           IBV_WR_ATOMIC_FETCH_AND_ADD == wqe->opcode;
}

tmdev_wqe_t *tmdev_wqe_alloc(size_t inline_length)
{
    tmdev_wqe_t *wqe = tmdev_alloc(sizeof(*wqe) + inline_length);
    if (NULL != wqe) {
        wqe->handle = -1;
        wqe->inline_data = inline_length > 0 ? (uint8_t *) (wqe + 1) : NULL;
    }
    return wqe;
}

void tmdev_send_append(tmdev_qp_t *qp, tmdev_wqe_t *wqe)
{
    TAILQ_INSERT_TAIL(&qp->sq, wqe, link);
    if (NULL == qp->next_tx) {
        qp->next_tx = wqe;
    }
}

/* ---- completing ---------------------------------------------------------- */

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

/* Report a request of the client, if it asked for that or it failed. */
static void report(tmdev_qp_t *qp, const tmdev_wqe_t *wqe)
{
    if (!wqe->is_signaled && IBV_WC_SUCCESS == wqe->status) {
        return;
    }
    tmdev_cqe_t cqe = tmdev_qp_cqe(qp);
    cqe.srq = NULL;
    cqe.wc.wr_id = wqe->wr_id;
    cqe.wc.status = wqe->status;
    cqe.wc.opcode = wc_opcode(wqe->opcode);
    cqe.wc.byte_len = is_read(wqe) ? (uint32_t) wqe->total : 0;
    cqe.returns = TMDEV_RETURNS_SQ;
    cqe.number = wqe->number;
    tmdev_cq_push(tmdev_cq(qp->init.send_cq), &cqe);
}

/* Take the oldest request out. */
static void retire(tmdev_qp_t *qp, tmdev_wqe_t *wqe)
{
    if (qp->next_tx == wqe) {
        qp->next_tx = TAILQ_NEXT(wqe, link);
    }
    TAILQ_REMOVE(&qp->sq, wqe, link);
    if (TMDEV_WQE_CLIENT == wqe->kind) {
        report(qp, wqe);
    } else if (TMDEV_WQE_RNDV_READ == wqe->kind && IBV_WC_SUCCESS == wqe->status) {
        tmdev_tm_read_done(qp, wqe);
    } else if (TMDEV_WQE_RNDV_READ == wqe->kind) {
        tmdev_tm_cancelled(qp, wqe->handle);
    }
    free(wqe);
}

void tmdev_send_flush(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe;
    tmdev_timer_cancel(qp->node, &qp->retry_timer);
    qp->is_backing_off = false;
    tmdev_timer_cancel(qp->node, &qp->fin_timer);
    while (NULL != (wqe = TAILQ_FIRST(&qp->fins))) {
        TAILQ_REMOVE(&qp->fins, wqe, link);
        free(wqe);
    }
    while (NULL != (wqe = TAILQ_FIRST(&qp->sq))) {
        if (IBV_WC_SUCCESS == wqe->status) {
            wqe->status = IBV_WC_WR_FLUSH_ERR;
        }
        retire(qp, wqe);
    }
}

/* Complete what is done, oldest first; a failure ends the queue pair. */
static void complete(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe;
    while (NULL != (wqe = TAILQ_FIRST(&qp->sq)) && wqe->is_done) {
        bool is_bad = IBV_WC_SUCCESS != wqe->status;
        bool is_internal = TMDEV_WQE_CLIENT != wqe->kind;
        retire(qp, wqe);
        if (is_bad && is_internal) {
            tmdev_qp_fatal(qp, IBV_EVENT_QP_FATAL); /* no completion tells of it */
        } else if (is_bad) {
            tmdev_qp_error(qp);
        }
    }
}

static void fail(tmdev_qp_t *qp, tmdev_wqe_t *wqe, enum ibv_wc_status status)
{
    wqe->status = status;
    wqe->is_done = true;
    complete(qp);
}

void tmdev_send_reset(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe;
    tmdev_timer_cancel(qp->node, &qp->retry_timer);
    tmdev_qp_unready(qp);
    if (NULL != qp->wait_conn) {
        TAILQ_REMOVE(&qp->wait_conn->waiting, qp, wait_link);
        qp->wait_conn = NULL;
    }
    while (NULL != (wqe = TAILQ_FIRST(&qp->sq))) {
        TAILQ_REMOVE(&qp->sq, wqe, link);
        free(wqe);
    }
    qp->next_tx = NULL;
    qp->next_msn = qp->acked_msn = 0;
    qp->reads_out = 0;
    qp->bytes_out = 0;
    qp->attempt++;
    qp->is_backing_off = false;
}

/* ---- going back ---------------------------------------------------------- */

/* Transmit again from this request on. */
static void rewind_to(tmdev_qp_t *qp, tmdev_wqe_t *first)
{
    qp->attempt++;
    qp->next_tx = first;
    for (tmdev_wqe_t *wqe = first; NULL != wqe; wqe = TAILQ_NEXT(wqe, link)) {
        if (!wqe->has_msn || wqe->is_done) {
            continue;
        }
        if (is_read(wqe) && wqe->is_sent) {
            qp->reads_out--;
        }
        qp->bytes_out -= is_read(wqe) ? 0 : wqe->sent;
        wqe->sent = wqe->received = 0;
        wqe->is_sent = false;
    }
}

static tmdev_wqe_t *find(tmdev_qp_t *qp, uint32_t msn)
{
    tmdev_wqe_t *wqe;
    TAILQ_FOREACH(wqe, &qp->sq, link) {
        if (wqe->has_msn && wqe->msn == msn) {
            return wqe;
        }
    }
    return NULL;
}

/* The request was not answered: again, but not at once, and not for ever. */
static void back_off(tmdev_qp_t *qp, tmdev_wqe_t *wqe)
{
    rewind_to(qp, wqe);
    qp->is_backing_off = true;
    if (0 == qp->attr.timeout) {
        return; /* no timer: it waits for ever */
    }
    if (0 == qp->retries) {
        qp->is_backing_off = false;
        fail(qp, wqe, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    qp->retries--;
    tmdev_timer_arm(qp->node, &qp->retry_timer,
                    ((uint64_t) 4096 << (qp->attr.timeout & 31)) / 1000);
}

static void receiver_not_ready(tmdev_qp_t *qp, tmdev_wqe_t *wqe, uint64_t wait_us)
{
    rewind_to(qp, wqe);
    if (0 == qp->rnr_retries) {
        fail(qp, wqe, IBV_WC_RNR_RETRY_EXC_ERR);
        return;
    }
    if (7 != qp->attr.rnr_retry) {
        qp->rnr_retries--;
    }
    qp->is_backing_off = true;
    tmdev_timer_arm(qp->node, &qp->retry_timer, wait_us);
}

void tmdev_send_retry(void *object)
{
    tmdev_qp_t *qp = object;
    qp->is_backing_off = false;
    tmdev_qp_ready(qp);
}

static tmdev_wqe_t *first_unanswered(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe;
    TAILQ_FOREACH(wqe, &qp->sq, link) {
        if (wqe->has_msn && !wqe->is_done) {
            return wqe;
        }
    }
    return NULL;
}

void tmdev_send_conn_lost(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe = first_unanswered(qp);
    if (IBV_QPS_RTS == qp->state && NULL != wqe && !qp->is_backing_off) {
        back_off(qp, wqe);
    }
}

/* ---- answers ------------------------------------------------------------- */

static void has_progress(tmdev_qp_t *qp)
{
    qp->retries = qp->attr.retry_cnt;
    qp->rnr_retries = qp->attr.rnr_retry;
}

/*
 * All messages before this number were executed. READs and atomics are done when their answers are
 * there, too.
 */
void tmdev_send_acked(tmdev_qp_t *qp, uint32_t ack)
{
    tmdev_wqe_t *wqe;
    if ((int32_t) (ack - qp->acked_msn) <= 0 || (int32_t) (ack - qp->next_msn) > 0) {
        return;
    }
    qp->acked_msn = ack;
    has_progress(qp);
    TAILQ_FOREACH(wqe, &qp->sq, link) {
        if (!wqe->has_msn || (int32_t) (wqe->msn - ack) >= 0) {
            break;
        }
        if (!is_read(wqe) && !wqe->is_done && wqe->is_sent) {
            wqe->is_done = true;
            qp->bytes_out -= wqe->sent;
        }
    }
    complete(qp);
}

/* An answer to a READ or atomic. */
static void take_data(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    tmdev_wqe_t *wqe = find(qp, frame->msn);
    if (NULL == wqe || !is_read(wqe) || wqe->is_done || !wqe->is_sent ||
        frame->offset != wqe->received || frame->length > wqe->total - wqe->received) {
        return;
    }
    if (!tmdev_sges_scatter(qp->node, tmdev_qp_pd(qp), wqe->sges, wqe->count, wqe->received,
                            payload, frame->length)) {
        tmdev_misuse(0, "the buffer of an RDMA READ or atomic on QP 0x%x is no longer registered",
                     qp->qp.qp_base.qp_num);
        qp->reads_out--;
        fail(qp, wqe, IBV_WC_LOC_PROT_ERR);
        return;
    }
    wqe->received += frame->length;
    if (wqe->received == wqe->total) {
        wqe->is_done = true;
        qp->reads_out--;
        has_progress(qp);
        complete(qp);
    }
}

static void take_nak(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    tmdev_wqe_t *wqe = find(qp, frame->msn);
    bool is_abandoned = 0 != (frame->flags & TMDEV_FLAG_ABANDONED);
    if (NULL == wqe || wqe->is_done ||
        (!is_abandoned && (qp->is_backing_off || frame->attempt != qp->attempt))) {
        return;
    }
    switch (frame->code) {
    case TMDEV_NAK_RNR:
        receiver_not_ready(qp, wqe, frame->offset);
        break;
    case TMDEV_NAK_NOT_READY:
        back_off(qp, wqe);
        break;
    case TMDEV_NAK_INVALID:
        fail(qp, wqe, IBV_WC_REM_INV_REQ_ERR);
        break;
    case TMDEV_NAK_ACCESS:
        fail(qp, wqe, IBV_WC_REM_ACCESS_ERR);
        break;
    default:
        fail(qp, wqe, IBV_WC_REM_OP_ERR);
        break;
    }
}

void tmdev_send_answer(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    if (IBV_QPS_RTS != qp->state || frame->src_qpn != qp->attr.dest_qp_num) {
        return;
    }
    tmdev_send_acked(qp, frame->ack);
    if (TMDEV_FRAME_READ_DATA == frame->type || TMDEV_FRAME_ATOMIC_DATA == frame->type) {
        take_data(qp, frame, payload);
    } else if (TMDEV_FRAME_NAK == frame->type) {
        take_nak(qp, frame);
    }
    tmdev_send_progress(qp);
}

/* ---- transmitting -------------------------------------------------------- */

/* Must the request wait for others to be answered? */
static bool must_wait(const tmdev_qp_t *qp, const tmdev_wqe_t *wqe)
{
    if (wqe->sent > 0) {
        return false; /* a message is acknowledged as a whole, however long it is */
    }
    if (is_read(wqe) && qp->reads_out >= qp->attr.max_rd_atomic) {
        return true;
    }
    return (wqe->is_fenced && qp->reads_out > 0) || qp->bytes_out >= WINDOW_BYTES ||
           (!wqe->has_msn && qp->next_msn - qp->acked_msn >= WINDOW_MESSAGES);
}

/* Local errors that a device finds when it comes to execute the request. */
static enum ibv_wc_status check(tmdev_qp_t *qp, const tmdev_wqe_t *wqe)
{
    unsigned int access = is_read(wqe) ? IBV_ACCESS_LOCAL_WRITE : 0;
    uint32_t qpn = qp->qp.qp_base.qp_num;
    if (wqe->total > tmdev_settings()->max_msg) {
        tmdev_misuse(0, "QP 0x%x: a message of %llu bytes, the port's max_msg_sz is %llu", qpn,
                     (unsigned long long) wqe->total,
                     (unsigned long long) tmdev_settings()->max_msg);
        return IBV_WC_LOC_LEN_ERR;
    }
    if (is_read(wqe) && 0 == qp->attr.max_rd_atomic) {
        tmdev_misuse(0, "QP 0x%x: an RDMA READ or atomic, but max_rd_atomic is 0", qpn);
        return IBV_WC_LOC_QP_OP_ERR;
    }
    if (!tmdev_sges_valid(qp->node, tmdev_qp_pd(qp), wqe->sges, wqe->count, access)) {
        tmdev_misuse(0, "QP 0x%x: lkey, bounds or access of a gather entry are wrong (opcode %d)",
                     qpn, wqe->opcode);
        return IBV_WC_LOC_PROT_ERR;
    }
    return IBV_WC_SUCCESS;
}

static const tmdev_frame_type_t frame_types[] = {
    [IBV_WR_RDMA_WRITE] = TMDEV_FRAME_WRITE,
    [IBV_WR_RDMA_WRITE_WITH_IMM] = TMDEV_FRAME_WRITE,
    [IBV_WR_SEND] = TMDEV_FRAME_SEND,
    [IBV_WR_SEND_WITH_IMM] = TMDEV_FRAME_SEND,
    [IBV_WR_RDMA_READ] = TMDEV_FRAME_READ,
    [IBV_WR_ATOMIC_CMP_AND_SWP] = TMDEV_FRAME_CAS,
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = TMDEV_FRAME_FADD,
};

static uint32_t frame_limit(const tmdev_qp_t *qp)
{
    return tmdev_settings()->has_small_frames ? 128u << qp->attr.path_mtu : TMDEV_FRAME_MAX;
}

/* The payload of the request's next frame; its number of iovecs, -1 if a key went wrong. */
static int frame_payload(tmdev_qp_t *qp, tmdev_wqe_t *wqe, tmdev_frame_t *frame, struct iovec *iov)
{
    if (IBV_WR_RDMA_READ == wqe->opcode) {
        frame->length = 0;
        return 0;
    }
    if (is_read(wqe)) {
        frame->length = sizeof(wqe->operand);
        iov[0] = (struct iovec){.iov_base = wqe->operand, .iov_len = sizeof(wqe->operand)};
        return 1;
    }
    uint64_t left = wqe->total - wqe->sent;
    frame->length = left < frame_limit(qp) ? (uint32_t) left : frame_limit(qp);
    if (NULL != wqe->inline_data) {
        iov[0] = (struct iovec){.iov_base = wqe->inline_data + wqe->sent, .iov_len = frame->length};
        return 1;
    }
    return tmdev_sges_gather(qp->node, tmdev_qp_pd(qp), wqe->sges, wqe->count, wqe->sent,
                             frame->length, iov);
}

/* Transmit one frame; false if the request failed. */
static bool transmit(tmdev_qp_t *qp, tmdev_wqe_t *wqe, tmdev_conn_t *conn)
{
    struct iovec iov[TMDEV_MAX_SGE];
    bool has_imm = IBV_WR_SEND_WITH_IMM == wqe->opcode || IBV_WR_RDMA_WRITE_WITH_IMM == wqe->opcode;
    tmdev_frame_t frame = {
        .type = (uint8_t) frame_types[wqe->opcode],
        .flags = (uint8_t) ((has_imm ? TMDEV_FLAG_IMM : 0) |
                            (wqe->is_solicited ? TMDEV_FLAG_SOLICITED : 0)),
        .attempt = qp->attempt,
        .dst_qpn = qp->attr.dest_qp_num,
        .src_qpn = qp->qp.qp_base.qp_num,
        .ack = qp->expected_msn,
        .psn = qp->attr.sq_psn,
        .imm = wqe->imm,
        .rkey = wqe->rkey,
        .total = wqe->total,
        .offset = wqe->sent,
        .va = wqe->va,
        .code = tmdev_settings()->pkeys[qp->attr.pkey_index],
        .route = tmdev_route(qp->qp.qp_base.context, &qp->attr.ah_attr),
    };
    int count = frame_payload(qp, wqe, &frame, iov);
    if (count < 0) {
        tmdev_misuse(0, "QP 0x%x: memory was deregistered while it was sent",
                     qp->qp.qp_base.qp_num);
        fail(qp, wqe, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    if (!wqe->has_msn) {
        wqe->has_msn = true;
        wqe->msn = qp->next_msn++;
    }
    frame.msn = wqe->msn;
    if (is_read(wqe)) {
        wqe->is_sent = true;
        qp->reads_out++;
    } else {
        wqe->sent += frame.length;
        qp->bytes_out += frame.length;
        wqe->is_sent = wqe->sent == wqe->total;
    }
    tmdev_conn_send(conn, &frame, iov, count);
    return true;
}

/* The first request that can be transmitted now. Sets *is_failed if one cannot be executed. */
static tmdev_wqe_t *next_request(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe = qp->next_tx;
    while (NULL != wqe && (wqe->is_sent || (wqe->is_done && IBV_WC_SUCCESS == wqe->status))) {
        wqe = TAILQ_NEXT(wqe, link);
    }
    qp->next_tx = wqe;
    if (NULL == wqe || wqe->is_done || must_wait(qp, wqe)) {
        return NULL; /* behind a request that failed nothing is transmitted */
    }
    if (0 == wqe->sent) {
        enum ibv_wc_status status = check(qp, wqe);
        if (IBV_WC_SUCCESS != status) {
            fail(qp, wqe, status);
            return NULL;
        }
    }
    return wqe;
}

/* Does a switch drop a packet of it, or of the answer? */
static bool is_too_long(const tmdev_qp_t *qp, const tmdev_wqe_t *wqe)
{
    const uint32_t hole = tmdev_settings()->hole;
    const uint32_t mtu = 128u << qp->attr.path_mtu;
    return 0 != hole && (wqe->total < mtu ? wqe->total : mtu) > hole;
}

void tmdev_send_progress(tmdev_qp_t *qp)
{
    tmdev_wqe_t *wqe;
    for (int turn = 0; IBV_QPS_RTS == qp->state && !qp->is_backing_off && NULL == qp->wait_conn;
         turn++) {
        wqe = next_request(qp);
        if (NULL == wqe) {
            return;
        }
        if (TURN_FRAMES == turn) {
            tmdev_qp_ready(qp); /* others, too */
            return;
        }
        if (tmdev_is_apart(qp) || is_too_long(qp, wqe)) {
            back_off(qp, wqe); /* it is lost on the way */
            return;
        }
        tmdev_conn_t *conn = tmdev_conn_to(qp->node, qp->attr.dest_qp_num >> 12);
        if (NULL == conn && EAGAIN == errno) {
            qp->is_backing_off = true; /* the peer has not yet accepted others */
            tmdev_timer_arm(qp->node, &qp->retry_timer, 1000);
            return;
        }
        if (NULL == conn) {
            back_off(qp, wqe);
            return;
        }
        if (!tmdev_conn_is_free(conn)) {
            TAILQ_INSERT_TAIL(&conn->waiting, qp, wait_link);
            qp->wait_conn = conn;
            return;
        }
        if (!transmit(qp, wqe, conn)) {
            return;
        }
    }
}
