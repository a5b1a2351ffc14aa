/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder of a queue pair: executes the peer's requests in order. A request that it cannot
 * take now is refused, and then everything behind it is dropped until the peer begins again from
 * there. READs are accepted in order and answered in turns, like transmitting.
 *
 * All under node->lock, most on the device thread.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Frames of one queue pair in a row. */
#define TURN_FRAMES 16
/* Frames before which a queue pair pauses, with TMDEV_DELAY_US. */
#define HOLD_PERMILLE 250

/* ---- answers ------------------------------------------------------------- */

static tmdev_frame_t answer(const tmdev_qp_t *qp, tmdev_frame_type_t type)
{
    return (tmdev_frame_t){
        .type = (uint8_t) type,
        .dst_qpn = qp->attr.dest_qp_num,
        .src_qpn = qp->qp.qp_base.qp_num,
        .ack = qp->expected_msn,
    };
}

static void owe_ack(tmdev_qp_t *qp)
{
    if (!qp->owes_ack) {
        qp->owes_ack = true;
        TAILQ_INSERT_TAIL(&qp->node->acks, qp, ack_link);
    }
}

static void forget_ack(tmdev_qp_t *qp)
{
    if (qp->owes_ack) {
        qp->owes_ack = false;
        TAILQ_REMOVE(&qp->node->acks, qp, ack_link);
    }
}

void tmdev_recv_ack(tmdev_qp_t *qp)
{
    if (qp->owes_ack && NULL != qp->reply_conn) {
        tmdev_frame_t frame = answer(qp, TMDEV_FRAME_ACK);
        tmdev_conn_send(qp->reply_conn, &frame, NULL, 0);
    }
    forget_ack(qp);
}

/* Refuse a frame of a queue pair that may not even exist. */
static void refuse(tmdev_conn_t *conn, const tmdev_frame_t *frame, tmdev_nak_t code, uint32_t ack,
                   uint64_t wait_us)
{
    tmdev_frame_t nak = {
        .type = TMDEV_FRAME_NAK,
        .dst_qpn = frame->src_qpn,
        .src_qpn = frame->dst_qpn,
        .msn = frame->msn,
        .ack = ack,
        .attempt = frame->attempt,
        .offset = wait_us,
        .code = code,
        .flags = TMDEV_FRAME_READ_DATA == frame->type ? TMDEV_FLAG_ABANDONED : 0,
    };
    tmdev_conn_send(conn, &nak, NULL, 0);
}

/* The times that the 5 bits of min_rnr_timer stand for, in 10 microseconds. */
static uint64_t rnr_wait_us(uint8_t timer)
{
    static const uint32_t times[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return (uint64_t) times[timer & 31] * 10;
}

void tmdev_recv_nak(tmdev_qp_t *qp, const tmdev_frame_t *frame, tmdev_nak_t code)
{
    qp->has_nakked = true;
    qp->nakked_attempt = frame->attempt;
    forget_ack(qp);
    if (NULL != qp->reply_conn) {
        refuse(qp->reply_conn, frame, code, qp->expected_msn, rnr_wait_us(qp->attr.min_rnr_timer));
    }
}

/* ---- completions --------------------------------------------------------- */

/* Report the receive in qp->in. */
static void report(tmdev_qp_t *qp, const tmdev_frame_t *frame, enum ibv_wc_status status)
{
    tmdev_cqe_t cqe = tmdev_qp_cqe(qp);
    cqe.wc.wr_id = qp->in.recv.wr_id;
    cqe.wc.status = status;
    cqe.wc.opcode = qp->in.opcode;
    cqe.returns = qp->in.returns;
    cqe.phase = qp->in.phase;
    cqe.is_unexpected = qp->in.is_unexpected;
    if (NULL != frame) {
        cqe.wc.byte_len = (uint32_t) frame->total;
        cqe.is_solicited = 0 != (frame->flags & TMDEV_FLAG_SOLICITED);
        if (0 != (frame->flags & TMDEV_FLAG_IMM)) {
            cqe.wc.wc_flags |= IBV_WC_WITH_IMM;
            cqe.wc.imm_data = frame->imm;
        }
    }
    tmdev_cq_push(NULL != qp->srq && qp->srq->is_tm ? qp->srq->cq : tmdev_cq(qp->init.recv_cq),
                  &cqe);
}

static bool take_receive(tmdev_qp_t *qp)
{
    qp->in.returns = NULL != qp->srq ? TMDEV_RETURNS_SRQ : TMDEV_RETURNS_RQ;
    return NULL != qp->srq ? tmdev_srq_take(qp->srq, &qp->in.recv)
                           : tmdev_rq_take(&qp->rq, &qp->in.recv);
}

void tmdev_recv_flush(tmdev_qp_t *qp)
{
    tmdev_in_t *in = &qp->in;
    tmdev_recv_ack(qp);
    if (TMDEV_IN_RECV == in->kind) {
        report(qp, NULL, IBV_WC_WR_FLUSH_ERR);
    } else if (TMDEV_IN_EAGER == in->kind) {
        tmdev_tm_cancelled(qp, in->handle);
    }
    memset(in, 0, sizeof(*in));
    in->returns = TMDEV_RETURNS_RQ;
    in->opcode = IBV_WC_RECV;
    while (NULL == qp->srq && tmdev_rq_take(&qp->rq, &in->recv)) {
        report(qp, NULL, IBV_WC_WR_FLUSH_ERR);
    }
    memset(in, 0, sizeof(*in));
}

void tmdev_recv_fail(tmdev_qp_t *qp, const tmdev_frame_t *frame, enum ibv_wc_status status,
                     tmdev_nak_t code)
{
    if (TMDEV_IN_RECV == qp->in.kind) {
        report(qp, frame, status);
        memset(&qp->in, 0, sizeof(qp->in));
    }
    tmdev_recv_nak(qp, frame, code);
    tmdev_qp_fatal(qp, TMDEV_NAK_ACCESS == code ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
}

/* ---- requests: memory ---------------------------------------------------- */

static void *remote_memory(tmdev_qp_t *qp, const tmdev_frame_t *frame, uint64_t va, uint64_t length,
                           unsigned int access)
{
    if (access != (qp->attr.qp_access_flags & access)) {
        tmdev_misuse(0,
                     "QP 0x%x: a remote access (0x%x) that its qp_access_flags (0x%x) do not allow",
                     qp->qp.qp_base.qp_num, access, qp->attr.qp_access_flags);
        return NULL;
    }
    void *memory = tmdev_mr_find(qp->node, tmdev_qp_pd(qp), frame->rkey, va, length, access);
    if (NULL == memory) {
        tmdev_misuse(0,
                     "QP 0x%x: remote access (0x%x) to %llu bytes at 0x%llx by rkey 0x%x: wrong "
                     "key, bounds or access",
                     qp->qp.qp_base.qp_num, access, (unsigned long long) length,
                     (unsigned long long) va, frame->rkey);
    }
    return memory;
}

void tmdev_recv_done(tmdev_qp_t *qp)
{
    memset(&qp->in, 0, sizeof(qp->in));
    qp->expected_msn++;
    owe_ack(qp);
    (void) tmdev_qp_counts_message(qp);
}

static void receiver_not_ready(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    memset(&qp->in, 0, sizeof(qp->in));
    tmdev_recv_nak(qp, frame, TMDEV_NAK_RNR);
}

/* The end of a WRITE WITH IMM takes a receive, but not its memory. */
static void write_done(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    if (0 != (frame->flags & TMDEV_FLAG_IMM)) {
        if (tmdev_chance(&qp->random, tmdev_settings()->rnr_permille) || !take_receive(qp)) {
            receiver_not_ready(qp, frame);
            return;
        }
        qp->in.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        report(qp, frame, IBV_WC_SUCCESS);
    }
    tmdev_recv_done(qp);
}

static void take_write(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    if (frame->offset != qp->in.received || frame->length > frame->total - frame->offset) {
        tmdev_recv_fail(qp, frame, IBV_WC_SUCCESS, TMDEV_NAK_INVALID);
        return;
    }
    qp->in.kind = TMDEV_IN_WRITE;
    if (frame->total > 0) {
        uint8_t *memory = remote_memory(qp, frame, frame->va, frame->total,
                                        IBV_ACCESS_REMOTE_WRITE);
        if (NULL == memory) {
            tmdev_recv_fail(qp, frame, IBV_WC_SUCCESS, TMDEV_NAK_ACCESS);
            return;
        }
        memcpy(memory + frame->offset, payload, frame->length);
    }
    qp->in.received += frame->length;
    if (qp->in.received == frame->total) {
        write_done(qp, frame);
    }
}

static void take_read(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    tmdev_read_t *read = tmdev_alloc(sizeof(*read));
    if (qp->reads_in >= qp->attr.max_dest_rd_atomic || NULL == read) {
        tmdev_misuse(0, "QP 0x%x: the peer reads more at a time than max_dest_rd_atomic (%u)",
                     qp->qp.qp_base.qp_num, qp->attr.max_dest_rd_atomic);
        free(read);
        tmdev_recv_fail(qp, frame, IBV_WC_SUCCESS, TMDEV_NAK_INVALID);
        return;
    }
    if (frame->total > 0 &&
        NULL == remote_memory(qp, frame, frame->va, frame->total, IBV_ACCESS_REMOTE_READ)) {
        free(read);
        tmdev_recv_fail(qp, frame, IBV_WC_SUCCESS, TMDEV_NAK_ACCESS);
        return;
    }
    *read = (tmdev_read_t){
        .msn = frame->msn, .rkey = frame->rkey, .va = frame->va, .total = frame->total};
    STAILQ_INSERT_TAIL(&qp->reads, read, link);
    qp->reads_in++;
    tmdev_recv_done(qp);
    tmdev_qp_ready(qp);
}

static void take_atomic(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    uint64_t operand[2], old;
    if (sizeof(operand) != frame->length || 0 != frame->va % 8 ||
        0 == qp->attr.max_dest_rd_atomic) {
        tmdev_misuse(0, "QP 0x%x: an atomic at 0x%llx: not aligned, or max_dest_rd_atomic is 0",
                     qp->qp.qp_base.qp_num, (unsigned long long) frame->va);
        tmdev_recv_fail(qp, frame, IBV_WC_SUCCESS, TMDEV_NAK_INVALID);
        return;
    }
    memcpy(operand, payload, sizeof(operand));
    uint64_t *memory = remote_memory(qp, frame, frame->va, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (NULL == memory) {
        tmdev_recv_fail(qp, frame, IBV_WC_SUCCESS, TMDEV_NAK_ACCESS);
        return;
    }
    if (TMDEV_FRAME_FADD == frame->type) {
        old = __atomic_fetch_add(memory, operand[0], __ATOMIC_SEQ_CST);
    } else {
        old = operand[0];
        __atomic_compare_exchange_n(memory, &old, operand[1], false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    }
    tmdev_recv_done(qp);
    if (NULL != qp->reply_conn) {
        tmdev_frame_t reply = answer(qp, TMDEV_FRAME_ATOMIC_DATA);
        struct iovec iov = {.iov_base = &old, .iov_len = sizeof(old)};
        reply.msn = frame->msn;
        reply.length = sizeof(old);
        tmdev_conn_send(qp->reply_conn, &reply, &iov, 1);
    }
}

/* ---- requests: messages -------------------------------------------------- */

/* The first frame: where does the message go? false: nowhere now. */
static bool begin_send(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    if (!take_receive(qp)) {
        receiver_not_ready(qp, frame);
        return false;
    }
    qp->in.kind = TMDEV_IN_RECV;
    qp->in.opcode = IBV_WC_RECV;
    return true;
}

/* Is the receive good for the message? */
static bool check_receive(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    const tmdev_recv_t *recv = &qp->in.recv;
    uint32_t qpn = qp->qp.qp_base.qp_num;
    if (frame->total > tmdev_sges_length(recv->sges, recv->count)) {
        tmdev_misuse(0, "QP 0x%x: a message of %llu bytes for a receive of %llu", qpn,
                     (unsigned long long) frame->total,
                     (unsigned long long) tmdev_sges_length(recv->sges, recv->count));
        tmdev_recv_fail(qp, frame, IBV_WC_LOC_LEN_ERR, TMDEV_NAK_INVALID);
        return false;
    }
    if (!tmdev_sges_valid(qp->node, tmdev_qp_pd(qp), recv->sges, recv->count,
                          IBV_ACCESS_LOCAL_WRITE)) {
        tmdev_misuse(0, "QP 0x%x: lkey, bounds or access of a receive's scatter entry are wrong",
                     qpn);
        tmdev_recv_fail(qp, frame, IBV_WC_LOC_PROT_ERR, TMDEV_NAK_OPERATION);
        return false;
    }
    return true;
}

static bool begin_message(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    if (tmdev_chance(&qp->random, tmdev_settings()->rnr_permille)) {
        receiver_not_ready(qp, frame);
        return false;
    }
    if (NULL == qp->srq || !qp->srq->is_tm) {
        return begin_send(qp, frame) && check_receive(qp, frame);
    }
    switch (tmdev_tm_arrive(qp, frame, payload)) {
    case TMDEV_TM_NO_RECV:
        receiver_not_ready(qp, frame);
        return false;
    case TMDEV_TM_DONE:
        return false;
    case TMDEV_TM_GO_ON:
        break;
    }
    return TMDEV_IN_RECV != qp->in.kind || check_receive(qp, frame);
}

/* The payload of a frame to where the message goes; the TMH of a matched one goes nowhere. */
static bool store(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    const tmdev_recv_t *recv = &qp->in.recv;
    uint64_t skip = TMDEV_IN_EAGER == qp->in.kind ? sizeof(struct ibv_tmh) : 0;
    uint64_t offset = frame->offset, length = frame->length;
    if (offset < skip) {
        uint64_t part = skip - offset < length ? skip - offset : length;
        offset += part;
        payload += part;
        length -= part;
    }
    return tmdev_sges_scatter(qp->node, tmdev_qp_pd(qp), recv->sges, recv->count, offset - skip,
                              payload, length);
}

static void take_send(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    if (0 == frame->offset && TMDEV_IN_NONE == qp->in.kind && !begin_message(qp, frame, payload)) {
        return;
    }
    if (frame->offset != qp->in.received || frame->length > frame->total - frame->offset) {
        tmdev_recv_fail(qp, frame, IBV_WC_LOC_QP_OP_ERR, TMDEV_NAK_INVALID);
        return;
    }
    if (frame->length > 0 && !store(qp, frame, payload)) {
        tmdev_misuse(0, "QP 0x%x: memory was deregistered while it was received into",
                     qp->qp.qp_base.qp_num);
        tmdev_recv_fail(qp, frame, IBV_WC_LOC_PROT_ERR, TMDEV_NAK_OPERATION);
        return;
    }
    qp->in.received += frame->length;
    if (qp->in.received < frame->total) {
        return;
    }
    if (TMDEV_IN_EAGER == qp->in.kind) {
        tmdev_tm_complete(qp, frame);
    } else {
        report(qp, frame, IBV_WC_SUCCESS);
    }
    tmdev_recv_done(qp);
}

/* ---- frames -------------------------------------------------------------- */

/* Can this queue pair take requests from there? */
static bool is_connected(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    if (NULL == qp || (IBV_QPS_RTR != qp->state && IBV_QPS_RTS != qp->state)) {
        return false;
    }
    uint32_t pkey = tmdev_settings()->pkeys[qp->attr.pkey_index];
    if (0 != ((frame->code ^ pkey) & 0x7fff) || 0 == ((frame->code | pkey) & 0x8000)) {
        return false; /* of another partition, or both are limited members: it is dropped */
    }
    if (frame->src_qpn == qp->attr.dest_qp_num && frame->psn == qp->attr.rq_psn &&
        frame->route == tmdev_own_route(qp)) {
        return true;
    }
    if (!qp->has_complained) {
        tmdev_misuse(0,
                     "QP 0x%x: requests of QP 0x%x by way of port %u, sq_psn 0x%x; expected are QP "
                     "0x%x, port %u, rq_psn 0x%x",
                     qp->qp.qp_base.qp_num, frame->src_qpn, frame->route, frame->psn,
                     qp->attr.dest_qp_num, tmdev_own_route(qp), qp->attr.rq_psn);
        qp->has_complained = true;
    }
    return false;
}

static void take_request(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload)
{
    if (IBV_QPS_RTS == qp->state) {
        tmdev_send_acked(qp, frame->ack);
    }
    if (qp->has_nakked && frame->attempt == qp->nakked_attempt) {
        return;
    }
    if (frame->msn != qp->expected_msn || (0 != frame->offset && TMDEV_IN_NONE == qp->in.kind)) {
        tmdev_recv_nak(qp, frame, TMDEV_NAK_NOT_READY);
        return;
    }
    qp->has_nakked = false;
    if (0 == frame->offset) {
        qp->in.received = 0; /* again from the beginning: the peer lost its connection */
    }
    switch (frame->type) {
    case TMDEV_FRAME_SEND:
        take_send(qp, frame, payload);
        break;
    case TMDEV_FRAME_WRITE:
        take_write(qp, frame, payload);
        break;
    case TMDEV_FRAME_READ:
        take_read(qp, frame);
        break;
    default:
        take_atomic(qp, frame, payload);
        break;
    }
}

static void deliver(tmdev_conn_t *conn, tmdev_qp_t *qp, const tmdev_frame_t *frame,
                    const uint8_t *payload)
{
    if (frame->type >= TMDEV_FRAME_ACK) {
        tmdev_send_answer(qp, frame, payload);
        return;
    }
    if (NULL != conn) {
        qp->reply_conn = conn;
    }
    if (is_connected(qp, frame)) {
        take_request(qp, frame, payload);
    } else if (NULL != conn) {
        refuse(conn, frame, TMDEV_NAK_NOT_READY, 0, 0);
    }
}

/* ---- frames that are held back ---------------------------------------- */

static void hold(tmdev_conn_t *conn, tmdev_qp_t *qp, const tmdev_frame_t *frame,
                 const uint8_t *payload)
{
    tmdev_held_t *held = malloc(sizeof(*held) + frame->length);
    if (NULL == held) {
        deliver(conn, qp, frame, payload);
        return;
    }
    uint64_t now = tmdev_now_us();
    held->due_us = now > qp->held_until_us ? now : qp->held_until_us; /* in order */
    if (tmdev_chance(&qp->random, HOLD_PERMILLE)) {
        held->due_us += tmdev_random(&qp->random) % (tmdev_settings()->delay_us + 1u);
    }
    qp->held_until_us = held->due_us;
    held->conn = conn;
    held->frame = *frame;
    memcpy(held->payload, payload, frame->length);
    if (STAILQ_EMPTY(&qp->held)) {
        tmdev_timer_arm(qp->node, &qp->held_timer, held->due_us > now ? held->due_us - now : 0);
    }
    STAILQ_INSERT_TAIL(&qp->held, held, link);
}

void tmdev_recv_held(void *object)
{
    tmdev_qp_t *qp = object;
    tmdev_held_t *held;
    uint64_t now = tmdev_now_us();
    while (NULL != (held = STAILQ_FIRST(&qp->held)) && held->due_us <= now) {
        STAILQ_REMOVE_HEAD(&qp->held, link);
        deliver(held->conn, qp, &held->frame, held->payload);
        free(held);
    }
    if (NULL != held) {
        tmdev_timer_arm(qp->node, &qp->held_timer, held->due_us - now);
    }
}

void tmdev_deliver(tmdev_conn_t *conn, const tmdev_frame_t *frame, const uint8_t *payload)
{
    tmdev_node_t *node = conn->node;
    tmdev_qp_t *qp = frame->dst_qpn >> 12 == node->id ? node->qps[frame->dst_qpn % TMDEV_QPS]
                                                      : NULL;
    if (NULL == qp) {
        if (frame->type < TMDEV_FRAME_ACK) {
            refuse(conn, frame, TMDEV_NAK_NOT_READY, 0, 0);
        }
        return;
    }
    if (0 != tmdev_settings()->delay_us) {
        hold(conn, qp, frame, payload);
    } else {
        deliver(conn, qp, frame, payload);
    }
}

/* ---- READs --------------------------------------------------------------- */

static void drop_read(tmdev_qp_t *qp, tmdev_read_t *read)
{
    STAILQ_REMOVE_HEAD(&qp->reads, link);
    qp->reads_in--;
    free(read);
}

/* A READ that was accepted will not be answered. */
static void abandon_read(tmdev_qp_t *qp, tmdev_read_t *read, tmdev_nak_t code)
{
    if (NULL != qp->reply_conn) {
        tmdev_frame_t request = {.type = TMDEV_FRAME_READ_DATA,
                                 .src_qpn = qp->attr.dest_qp_num,
                                 .dst_qpn = qp->qp.qp_base.qp_num,
                                 .msn = read->msn};
        refuse(qp->reply_conn, &request, code, read->msn, 0);
    }
    drop_read(qp, read);
}

static uint32_t frame_limit(const tmdev_qp_t *qp)
{
    return tmdev_settings()->has_small_frames ? 128u << qp->attr.path_mtu : TMDEV_FRAME_MAX;
}

/* Send the next part of the oldest READ. */
static void answer_read(tmdev_qp_t *qp, tmdev_read_t *read)
{
    tmdev_frame_t frame = answer(qp, TMDEV_FRAME_READ_DATA);
    struct iovec iov = {0};
    uint64_t left = read->total - read->offset;
    frame.msn = read->msn;
    frame.offset = read->offset;
    frame.length = left < frame_limit(qp) ? (uint32_t) left : frame_limit(qp);
    if (frame.length > 0) {
        iov.iov_len = frame.length;
        iov.iov_base = tmdev_mr_find(qp->node, tmdev_qp_pd(qp), read->rkey, read->va + read->offset,
                                     frame.length, IBV_ACCESS_REMOTE_READ);
        if (NULL == iov.iov_base) {
            tmdev_misuse(0, "QP 0x%x: memory was deregistered while the peer read it",
                         qp->qp.qp_base.qp_num);
            abandon_read(qp, read, TMDEV_NAK_ACCESS);
            return;
        }
    }
    tmdev_conn_send(qp->reply_conn, &frame, &iov, frame.length > 0 ? 1 : 0);
    read->offset += frame.length;
    if (read->offset == read->total) {
        drop_read(qp, read);
    }
}

static bool is_held(const tmdev_qp_t *qp, const tmdev_read_t *read)
{
    return tmdev_settings()->holds_reads && read->total > 128u << qp->attr.path_mtu;
}

void tmdev_recv_progress(tmdev_qp_t *qp)
{
    tmdev_read_t *read;
    for (int turn = 0; NULL != (read = STAILQ_FIRST(&qp->reads)) && NULL == qp->reader_conn &&
                       NULL != qp->reply_conn && !is_held(qp, read);
         turn++) {
        if (!tmdev_conn_is_free(qp->reply_conn)) {
            qp->reader_conn = qp->reply_conn;
            TAILQ_INSERT_TAIL(&qp->reply_conn->readers, qp, reader_link);
            return;
        }
        if (TURN_FRAMES == turn) {
            tmdev_qp_ready(qp);
            return;
        }
        answer_read(qp, read);
    }
}

/* ---- ends ---------------------------------------------------------------- */

static void stop_reading(tmdev_qp_t *qp)
{
    if (NULL != qp->reader_conn) {
        TAILQ_REMOVE(&qp->reader_conn->readers, qp, reader_link);
        qp->reader_conn = NULL;
    }
}

void tmdev_recv_conn_lost(tmdev_qp_t *qp)
{
    stop_reading(qp);
    qp->reply_conn = NULL;
    while (!STAILQ_EMPTY(&qp->reads)) {
        drop_read(qp, STAILQ_FIRST(&qp->reads));
    }
}

void tmdev_recv_reset(tmdev_qp_t *qp)
{
    tmdev_held_t *held;
    tmdev_recv_ack(qp);
    stop_reading(qp);
    while (!STAILQ_EMPTY(&qp->reads)) {
        abandon_read(qp, STAILQ_FIRST(&qp->reads), TMDEV_NAK_NOT_READY);
    }
    tmdev_timer_cancel(qp->node, &qp->held_timer);
    while (NULL != (held = STAILQ_FIRST(&qp->held))) {
        STAILQ_REMOVE_HEAD(&qp->held, link);
        if (NULL != held->conn && held->frame.type < TMDEV_FRAME_ACK) {
            refuse(held->conn, &held->frame, TMDEV_NAK_NOT_READY, qp->expected_msn, 0);
        }
        free(held);
    }
    if (TMDEV_IN_EAGER == qp->in.kind) {
        tmdev_tm_cancelled(qp, qp->in.handle);
    } else if (TMDEV_IN_RECV == qp->in.kind && NULL != qp->srq) {
        atomic_fetch_sub(&qp->srq->rq.slots, 1);
    }
    memset(&qp->in, 0, sizeof(qp->in));
    qp->rq.head = qp->rq.count = 0;
    qp->expected_msn = 0;
    qp->has_nakked = qp->has_complained = false;
    qp->reply_conn = NULL;
    qp->messages = 0;
}
