/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching: the SRQ's list of tagged buffers, the operations on it, messages that meet it, and
 * rendezvous.
 *
 * Two sides meet here, as in a real adapter. The device's side (under node->lock): the list,
 * operations waiting to be executed, and hw_count, which counts the messages delivered unexpected.
 * An entry that is appended while the client has not yet reported all of these (sw_count) is
 * disabled, until an operation makes the counters equal. The library's side (under tag_lock):
 * handles, the operations queue's slots, and what is given back when completions are polled. A
 * handle is free again when all completions that are expected for it were polled; an unsignaled
 * removal frees it at once, and then a match that is on its way already finds it free, or serving
 * another receive: only legal for clients who know that this cannot be.
 */
#include "tmdev.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HELD = 500 }; /* of 1000 list operations, if TMDEV_HOLD_US is set */

/* Unexpected messages that may be unreported before the library asks for it. */
#define SYNC_DIFFERENCE_MAX 0x3fffu

static bool is_broken(uint32_t what)
{
    return 0 != (tmdev_settings()->tm_broken & what);
}

/* ---- the device's list --------------------------------------------------- */

static void enable_all(tmdev_srq_t *srq)
{
    tmdev_tag_t *tag;
    TAILQ_FOREACH(tag, &srq->list, link) {
        tag->is_enabled = true;
    }
}

static void synchronize(tmdev_srq_t *srq, uint16_t count)
{
    srq->sw_count = count;
    if (srq->sw_count == srq->hw_count) {
        enable_all(srq);
    }
}

static void push_op_done(tmdev_srq_t *srq, const tmdev_op_t *op, bool is_ok)
{
    static const enum ibv_wc_opcode opcodes[] = {IBV_WC_TM_ADD, IBV_WC_TM_DEL, IBV_WC_TM_SYNC};
    if (!op->is_signaled) {
        return;
    }
    tmdev_cqe_t cqe = {
        .srq = srq,
        .returns = TMDEV_RETURNS_OP,
        .number = op->number,
        .handle = op->handle,
        .del_done = IBV_WR_TAG_DEL == op->opcode && is_ok,
        .phase = srq->hw_count,
        .wc = {.wr_id = op->wr_id,
               .opcode = opcodes[op->opcode],
               .status = is_ok ? IBV_WC_SUCCESS : IBV_WC_TM_ERR},
    };
    tmdev_cq_push(srq->cq, &cqe);
}

static void execute(tmdev_srq_t *srq, tmdev_op_t *op)
{
    bool is_ok = true;
    if (IBV_WR_TAG_ADD == op->opcode) {
        tmdev_tag_t *tag = &srq->tags[op->handle];
        tag->tag = op->tag;
        tag->mask = op->mask;
        tag->sge = op->sge;
        tag->is_listed = true;
        tag->is_enabled = srq->sw_count == srq->hw_count;
        TAILQ_INSERT_TAIL(&srq->list, tag, link);
    } else if (IBV_WR_TAG_DEL == op->opcode) {
        tmdev_tag_t *tag = &srq->tags[op->handle];
        is_ok = tag->is_listed;
        if (tag->is_listed && !is_broken(TMDEV_BROKEN_DEL)) {
            tag->is_listed = false;
            TAILQ_REMOVE(&srq->list, tag, link);
        }
    }
    if (op->has_count) {
        if (IBV_WR_TAG_ADD == op->opcode && op->count != srq->hw_count) {
            srq->tags[op->handle].is_enabled = false;
        }
        if (!is_broken(TMDEV_BROKEN_SYNC)) {
            synchronize(srq, op->count);
        }
    }
    push_op_done(srq, op, is_ok);
}

/* Execute what is due, in order. */
static void run_ops(void *object)
{
    tmdev_srq_t *srq = object;
    tmdev_op_t *op;
    uint64_t now = tmdev_now_us();
    while (NULL != (op = STAILQ_FIRST(&srq->ops)) && op->due_us <= now) {
        STAILQ_REMOVE_HEAD(&srq->ops, link);
        execute(srq, op);
        free(op);
    }
    if (NULL != op) {
        tmdev_timer_arm(tmdev_ctx(srq->srq.context)->node, &srq->ops_timer, op->due_us - now);
    }
}

/* ---- messages ------------------------------------------------------------ */

static tmdev_tag_t *match(tmdev_srq_t *srq, uint64_t message_tag)
{
    tmdev_tag_t *tag;
    TAILQ_FOREACH(tag, &srq->list, link) {
        if (tag->is_enabled && (message_tag & tag->mask) == tag->tag) {
            return tag;
        }
    }
    return NULL;
}

/* The number of a queue pair of this process, of another one if there is. */
static uint32_t another_qpn(const tmdev_qp_t *qp)
{
    for (uint32_t i = 1; i < TMDEV_QPS; i++) {
        const tmdev_qp_t *other = qp->node->qps[(qp->index + i) % TMDEV_QPS];
        if (NULL != other) {
            return other->qp.qp_base.qp_num;
        }
    }
    return qp->qp.qp_base.qp_num;
}

/* A completion about a listed tag; its wr_id is looked up when it is polled. */
static tmdev_cqe_t tag_cqe(tmdev_qp_t *qp, int handle, unsigned int flags)
{
    tmdev_cqe_t cqe = tmdev_qp_cqe(qp);
    cqe.returns = 0 != (flags & IBV_WC_TM_DATA_VALID) ? TMDEV_RETURNS_TAG : TMDEV_PEEKS_TAG;
    cqe.number = (uint32_t) handle;
    cqe.wc.opcode = IBV_WC_TM_RECV;
    cqe.wc.wc_flags = flags;
    if (IBV_WC_TM_MATCH == flags && tmdev_settings()->has_wrong_qpn) {
        cqe.wc.qp_num = another_qpn(qp);
    }
    return cqe;
}

static void add_immediate(tmdev_cqe_t *cqe, const tmdev_frame_t *frame)
{
    cqe->is_solicited = 0 != (frame->flags & TMDEV_FLAG_SOLICITED);
    if (0 != (frame->flags & TMDEV_FLAG_IMM) && !is_broken(TMDEV_BROKEN_IMM)) {
        cqe->wc.wc_flags |= IBV_WC_WITH_IMM;
        cqe->wc.imm_data = frame->imm;
    }
}

static void add_tag(tmdev_cqe_t *cqe, const struct ibv_tmh *tmh)
{
    cqe->tm.tag = be64toh(tmh->tag);
    cqe->tm.priv = is_broken(TMDEV_BROKEN_TAG) ? 0 : be32toh(tmh->app_ctx);
}

static bool is_single_packet(const tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    return frame->total <= 128u << qp->attr.path_mtu;
}

/*
 * An error that a client can only avoid, not handle: the buffer of a listed tag was too small. The
 * completion has the wr_id of some SRQ receive, as the library on top of real hardware takes it
 * from there.
 */
static void fail_listed(tmdev_qp_t *qp, const tmdev_frame_t *frame, enum ibv_wc_status status)
{
    tmdev_cqe_t cqe = tmdev_qp_cqe(qp);
    cqe.wc.status = status;
    cqe.wc.wr_id = qp->srq->rq.count > 0 ? qp->srq->rq.ring[qp->srq->rq.head].wr_id : 0;
    tmdev_cq_push(qp->srq->cq, &cqe);
    tmdev_recv_nak(qp, frame,
                   IBV_WC_LOC_LEN_ERR == status ? TMDEV_NAK_INVALID : TMDEV_NAK_OPERATION);
    tmdev_qp_fatal(qp, IBV_EVENT_QP_FATAL);
}

static bool buffer_is_good(tmdev_qp_t *qp, const tmdev_tag_t *tag, const tmdev_frame_t *frame,
                           uint64_t length)
{
    uint32_t qpn = qp->qp.qp_base.qp_num;
    if (length > tag->sge.length) {
        tmdev_misuse(0, "QP 0x%x: a message of %llu bytes matched a listed tag whose buffer has %u",
                     qpn, (unsigned long long) length, tag->sge.length);
        fail_listed(qp, frame, IBV_WC_LOC_LEN_ERR);
        return false;
    }
    if (!tmdev_sges_valid(qp->node, tmdev_qp_pd(qp), &tag->sge, 1, IBV_ACCESS_LOCAL_WRITE)) {
        tmdev_misuse(0, "QP 0x%x: lkey, bounds or access of a listed tag's buffer are wrong", qpn);
        fail_listed(qp, frame, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    return true;
}

static int unlist(tmdev_srq_t *srq, tmdev_tag_t *tag)
{
    tag->is_listed = false;
    TAILQ_REMOVE(&srq->list, tag, link);
    return (int) (tag - srq->tags);
}

static tmdev_tm_verdict_t match_eager(tmdev_qp_t *qp, tmdev_tag_t *tag, const tmdev_frame_t *frame,
                                      const struct ibv_tmh *tmh)
{
    int handle = unlist(qp->srq, tag);
    if (!buffer_is_good(qp, tag, frame, frame->total - sizeof(*tmh))) {
        return TMDEV_TM_DONE;
    }
    qp->in.kind = TMDEV_IN_EAGER;
    qp->in.handle = handle;
    qp->in.recv = (tmdev_recv_t){.count = 1, .sges = {tag->sge}};
    if (is_single_packet(qp, frame)) {
        qp->in.tmh = *tmh;
    } else {
        qp->in.is_matched = true;
        tmdev_cqe_t cqe = tag_cqe(qp, handle, IBV_WC_TM_MATCH);
        add_tag(&cqe, tmh);
        tmdev_cq_push(qp->srq->cq, &cqe);
    }
    return TMDEV_TM_GO_ON;
}

void tmdev_tm_complete(tmdev_qp_t *qp, const tmdev_frame_t *frame)
{
    tmdev_cqe_t cqe = tag_cqe(qp, qp->in.handle,
                              (qp->in.is_matched ? 0u : IBV_WC_TM_MATCH) | IBV_WC_TM_DATA_VALID);
    if (!qp->in.is_matched) {
        add_tag(&cqe, &qp->in.tmh);
    }
    cqe.wc.byte_len = (uint32_t) (frame->total - sizeof(struct ibv_tmh));
    if (cqe.wc.byte_len > 0 &&
        is_broken(qp->in.is_matched ? TMDEV_BROKEN_SEGMENTS : TMDEV_BROKEN_EAGER)) {
        ((uint8_t *) (uintptr_t) qp->in.recv.sges[0].addr)[cqe.wc.byte_len - 1] ^= 1;
    }
    add_immediate(&cqe, frame);
    tmdev_cq_push(qp->srq->cq, &cqe);
    qp->in.kind = TMDEV_IN_NONE;
}

void tmdev_tm_cancelled(tmdev_qp_t *qp, int handle)
{
    tmdev_cqe_t cqe = tag_cqe(qp, handle, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    if (tmdev_settings()->is_tm_silent) {
        return;
    }
    cqe.wc.status = IBV_WC_TM_RNDV_INCOMPLETE;
    cqe.wc.opcode = IBV_WC_SEND; /* drivers have no opcode for it */
    tmdev_cq_push(qp->srq->cq, &cqe);
}

/* ---- rendezvous ---------------------------------------------------------- */

/* Tell the sender that its data were read: a copy of its request. */
static void send_fin(tmdev_qp_t *qp, const uint8_t *header)
{
    struct ibv_tmh tmh;
    tmdev_wqe_t *wqe = is_broken(TMDEV_BROKEN_FIN) ? NULL : tmdev_wqe_alloc(32);
    if (is_broken(TMDEV_BROKEN_FIN)) {
        return;
    }
    if (NULL == wqe) {
        tmdev_qp_fatal(qp, IBV_EVENT_QP_FATAL);
        return;
    }
    memcpy(wqe->inline_data, header, 32);
    memcpy(&tmh, header, sizeof(tmh));
    tmh.opcode = IBV_TMH_FIN;
    memcpy(wqe->inline_data, &tmh, sizeof(tmh));
    wqe->kind = TMDEV_WQE_FIN;
    wqe->opcode = IBV_WR_SEND;
    wqe->total = 32;
    if (0 != tmdev_settings()->fin_us) {
        if (TAILQ_EMPTY(&qp->fins)) {
            tmdev_timer_arm(qp->node, &qp->fin_timer, tmdev_settings()->fin_us);
        }
        TAILQ_INSERT_TAIL(&qp->fins, wqe, link);
        return;
    }
    tmdev_send_append(qp, wqe);
    tmdev_qp_ready(qp);
}

void tmdev_tm_send_fins(void *object)
{
    tmdev_qp_t *qp = object;
    tmdev_wqe_t *wqe;

    while (NULL != (wqe = TAILQ_FIRST(&qp->fins))) {
        TAILQ_REMOVE(&qp->fins, wqe, link);
        tmdev_send_append(qp, wqe);
    }
    tmdev_qp_ready(qp);
}

static void rndv_done(tmdev_qp_t *qp, int handle, uint64_t length, const uint8_t *header)
{
    tmdev_cqe_t cqe = tag_cqe(qp, handle, IBV_WC_TM_DATA_VALID);
    cqe.wc.byte_len = (uint32_t) length;
    tmdev_cq_push(qp->srq->cq, &cqe);
    send_fin(qp, header);
}

void tmdev_tm_read_done(tmdev_qp_t *qp, tmdev_wqe_t *wqe)
{
    rndv_done(qp, wqe->handle, wqe->total, wqe->tm_header);
}

static bool start_read(tmdev_qp_t *qp, int handle, const tmdev_tag_t *tag,
                       const struct ibv_rvh *rvh, const uint8_t *header)
{
    tmdev_wqe_t *wqe = tmdev_wqe_alloc(0);
    if (NULL == wqe) {
        return false;
    }
    wqe->kind = TMDEV_WQE_RNDV_READ;
    wqe->opcode = IBV_WR_RDMA_READ;
    wqe->handle = handle;
    wqe->va = be64toh(rvh->va);
    wqe->rkey = be32toh(rvh->rkey);
    wqe->total = be32toh(rvh->len);
    wqe->count = 1;
    wqe->sges[0] = tag->sge;
    wqe->sges[0].length = (uint32_t) wqe->total;
    memcpy(wqe->tm_header, header, sizeof(wqe->tm_header));
    tmdev_send_append(qp, wqe);
    tmdev_qp_ready(qp);
    return true;
}

/* The data do not fit: the request itself goes to the buffer, and software goes on. */
static void match_too_long(tmdev_qp_t *qp, int handle, const tmdev_tag_t *tag,
                           const tmdev_frame_t *frame, const uint8_t *payload)
{
    if (!buffer_is_good(qp, tag, frame, frame->total)) {
        return;
    }
    (void) tmdev_sges_scatter(qp->node, tmdev_qp_pd(qp), &tag->sge, 1, 0, payload, frame->total);
    bool is_twice = 2 == tmdev_settings()->tm_left;
    tmdev_cqe_t cqe = tag_cqe(qp, handle, IBV_WC_TM_MATCH | (is_twice ? 0u : IBV_WC_TM_DATA_VALID));
    struct ibv_tmh tmh;
    memcpy(&tmh, payload, sizeof(tmh));
    cqe.wc.status = is_broken(TMDEV_BROKEN_INCOMPLETE) ? IBV_WC_SUCCESS : IBV_WC_TM_RNDV_INCOMPLETE;
    cqe.wc.byte_len = is_twice ? 0 : (uint32_t) frame->total;
    add_tag(&cqe, &tmh);
    add_immediate(&cqe, frame);
    tmdev_cq_push(qp->srq->cq, &cqe);
    if (is_twice) {
        cqe = tag_cqe(qp, handle, IBV_WC_TM_DATA_VALID);
        cqe.wc.byte_len = (uint32_t) frame->total;
        tmdev_cq_push(qp->srq->cq, &cqe);
    }
    tmdev_recv_done(qp);
}

/* Can this queue pair do a rendezvous? What is not known of hardware is refused. */
static bool rndv_is_possible(tmdev_qp_t *qp, const tmdev_frame_t *frame, uint64_t length)
{
    uint32_t qpn = qp->qp.qp_base.qp_num;
    if (!tmdev_settings()->has_tm_rndv) {
        tmdev_misuse(
            0, "QP 0x%x: a rendezvous request matched, but the device has no IBV_TM_CAP_RC", qpn);
    } else if (0 != qp->init.cap.max_send_wr) {
        tmdev_misuse(
            0, "QP 0x%x: a rendezvous request matched, but the queue pair has a send queue", qpn);
    } else if (IBV_QPS_RTS != qp->state || 0 == qp->attr.max_rd_atomic) {
        tmdev_misuse(0,
                     "QP 0x%x: a rendezvous request matched, but the queue pair is not in RTS, or "
                     "max_rd_atomic is 0",
                     qpn);
    } else if (frame->total > TMDEV_RNDV_HDR_MAX ||
               frame->total < sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh)) {
        tmdev_misuse(0, "QP 0x%x: a rendezvous request of %llu bytes; 32 to %u are possible", qpn,
                     (unsigned long long) frame->total, TMDEV_RNDV_HDR_MAX);
    } else if (length > tmdev_settings()->max_msg) {
        tmdev_misuse(0, "QP 0x%x: a rendezvous of %llu bytes is longer than max_msg_sz", qpn,
                     (unsigned long long) length);
    } else {
        return true;
    }
    fail_listed(qp, frame, IBV_WC_LOC_QP_OP_ERR);
    return false;
}

static void match_rndv(tmdev_qp_t *qp, tmdev_tag_t *tag, const tmdev_frame_t *frame,
                       const uint8_t *payload)
{
    struct ibv_tmh tmh;
    struct ibv_rvh rvh = {0};
    int handle = unlist(qp->srq, tag);
    memcpy(&tmh, payload, sizeof(tmh));
    if (frame->total >= sizeof(tmh) + sizeof(rvh)) {
        memcpy(&rvh, payload + sizeof(tmh), sizeof(rvh));
    }
    uint64_t length = be32toh(rvh.len);
    if (!rndv_is_possible(qp, frame, length)) {
        return;
    }
    if (length > tag->sge.length) {
        match_too_long(qp, handle, tag, frame, payload);
        return;
    }
    if (!buffer_is_good(qp, tag, frame, length)) {
        return;
    }
    tmdev_cqe_t cqe = tag_cqe(qp, handle, IBV_WC_TM_MATCH);
    add_tag(&cqe, &tmh);
    add_immediate(&cqe, frame);
    tmdev_cq_push(qp->srq->cq, &cqe);
    tmdev_recv_done(qp);
    if (IBV_QPS_RTS != qp->state) {
        tmdev_tm_cancelled(qp, handle);
        return;
    }
    tmdev_recv_ack(qp); /* the sender sees its request complete before the data are read */
    if (0 == length || is_broken(TMDEV_BROKEN_RNDV)) {
        rndv_done(qp, handle, length, payload);
    } else if (!start_read(qp, handle, tag, &rvh, payload)) {
        tmdev_tm_cancelled(qp, handle);
        tmdev_qp_fatal(qp, IBV_EVENT_QP_FATAL);
    }
}

/* ---- arrival ------------------------------------------------------------- */

/* No listed tag: the message takes a receive of the SRQ, header and all. */
static tmdev_tm_verdict_t take_unexpected(tmdev_qp_t *qp, bool is_tagged)
{
    tmdev_srq_t *srq = qp->srq;
    if (!tmdev_srq_take(srq, &qp->in.recv)) {
        return TMDEV_TM_NO_RECV;
    }
    qp->in.kind = TMDEV_IN_RECV;
    qp->in.returns = TMDEV_RETURNS_SRQ;
    qp->in.opcode = is_tagged ? IBV_WC_TM_RECV : IBV_WC_TM_NO_TAG;
    qp->in.is_unexpected = is_tagged;
    if (is_tagged) {
        srq->hw_count++;
    }
    return TMDEV_TM_GO_ON;
}

/*
 * Error completions that drivers of real devices give: of a match that they have lost count of,
 * with the wr_id of whatever was polled before; and of the queue pair that carries list operations,
 * whose wr_id nobody has set.
 */
static void push_error(tmdev_qp_t *qp, enum ibv_wc_status status)
{
    tmdev_cqe_t cqe = tmdev_qp_cqe(qp);
    cqe.wc.status = status;
    cqe.wc.opcode = IBV_WC_TM_RECV;
    cqe.is_repeated = IBV_WC_GENERAL_ERR == status;
    if (!cqe.is_repeated) {
        cqe.wc.qp_num = 0;
        cqe.wc.wr_id = UINT64_C(0xa5a5a5a5a5a5a5a7);
    }
    tmdev_cq_push(qp->srq->cq, &cqe);
}

static void count_arrival(tmdev_qp_t *qp)
{
    const tmdev_settings_t *s = tmdev_settings();
    uint32_t number = ++qp->srq->arrived;
    if (number == s->general_error) {
        push_error(qp, IBV_WC_GENERAL_ERR);
    }
    if (number == s->command_error) {
        push_error(qp, IBV_WC_WR_FLUSH_ERR);
    }
}

tmdev_tm_verdict_t tmdev_tm_arrive(tmdev_qp_t *qp, const tmdev_frame_t *frame,
                                   const uint8_t *payload)
{
    tmdev_srq_t *srq = qp->srq;
    struct ibv_tmh tmh = {0};
    if (srq->posted < TMDEV_XRQ_MIN_WQES) {
        return TMDEV_TM_NO_RECV;
    }
    if (frame->length >= sizeof(tmh)) {
        memcpy(&tmh, payload, sizeof(tmh));
    }
    count_arrival(qp);
    bool is_rndv = IBV_TMH_RNDV == tmh.opcode;
    if (!is_rndv && IBV_TMH_EAGER != tmh.opcode) {
        return take_unexpected(qp, false);
    }
    tmdev_tag_t *tag = match(srq, be64toh(tmh.tag));
    if (NULL == tag) {
        return take_unexpected(qp, true);
    }
    srq->matched++;
    if (is_rndv) {
        match_rndv(qp, tag, frame, payload);
        return TMDEV_TM_DONE;
    }
    return match_eager(qp, tag, frame, &tmh);
}

/* ---- the library's side -------------------------------------------------- */

/* One completion less to come. Under tag_lock. */
static void tag_seen(tmdev_srq_t *srq, uint32_t handle)
{
    tmdev_tag_t *tag = &srq->tags[handle];
    if (0 == --tag->expected) {
        tag->has_del = false;
        srq->free_tags[(srq->free_head + srq->free_count++) % srq->max_tags] = handle;
    }
}

static void consumption_polled(tmdev_srq_t *srq, tmdev_cqe_t *cqe)
{
    tmdev_tag_t *tag = &srq->tags[cqe->number];
    cqe->wc.wr_id = tag->recv_wr_id;
    if (0 == tag->expected) {
        tmdev_misuse(0,
                     "a match for tag handle %u, which an unsignaled IBV_WR_TAG_DEL has freed: it "
                     "raced with a message",
                     cqe->number);
        cqe->wc.status = IBV_WC_GENERAL_ERR;
    } else if (TMDEV_RETURNS_TAG == cqe->returns) {
        tag_seen(srq, cqe->number);
    }
}

static void op_polled(tmdev_srq_t *srq, tmdev_cqe_t *cqe)
{
    srq->ops_tail = cqe->number + 1;
    if (cqe->handle < 0) {
        return;
    }
    tmdev_tag_t *tag = &srq->tags[cqe->handle];
    if (cqe->phase != tag->phase) {
        cqe->wc.wc_flags |= IBV_WC_TM_SYNC_REQ;
    }
    if (cqe->del_done) {
        tag_seen(srq, (uint32_t) cqe->handle); /* its consumption will not come */
    } else if (IBV_WC_TM_DEL == cqe->wc.opcode) {
        tag->has_del = false;
    }
    tag_seen(srq, (uint32_t) cqe->handle);
}

void tmdev_tm_polled(tmdev_cqe_t *cqe)
{
    tmdev_srq_t *srq = cqe->srq;
    pthread_mutex_lock(&srq->tag_lock);
    if (TMDEV_RETURNS_TAG == cqe->returns || TMDEV_PEEKS_TAG == cqe->returns) {
        consumption_polled(srq, cqe);
    } else if (TMDEV_RETURNS_OP == cqe->returns) {
        op_polled(srq, cqe);
    } else if (cqe->is_unexpected) {
        srq->unexp_in++;
        if (srq->unexp_in - srq->unexp_out > SYNC_DIFFERENCE_MAX) {
            cqe->wc.wc_flags |= IBV_WC_TM_SYNC_REQ;
        }
    }
    pthread_mutex_unlock(&srq->tag_lock);
}

static int check_add(const tmdev_srq_t *srq, const struct ibv_ops_wr *wr)
{
    if (1 != wr->tm.add.num_sge) {
        return tmdev_misuse(EINVAL, "IBV_WR_TAG_ADD: %d scatter entries, one is possible",
                            wr->tm.add.num_sge);
    }
    if (0 == wr->tm.add.sg_list[0].length) {
        return tmdev_misuse(EINVAL, "IBV_WR_TAG_ADD: a buffer without length; drivers may then "
                                    "write to the buffer of an earlier tag");
    }
    if (0 != (wr->tm.add.tag & ~wr->tm.add.mask)) {
        return tmdev_misuse(
            EINVAL, "IBV_WR_TAG_ADD: tag 0x%llx has bits outside mask 0x%llx and would never match",
            (unsigned long long) wr->tm.add.tag, (unsigned long long) wr->tm.add.mask);
    }
    return 0 == srq->free_count ? ENOMEM : 0;
}

static int check_del(const tmdev_srq_t *srq, const struct ibv_ops_wr *wr)
{
    if (wr->tm.handle >= srq->max_tags) {
        return tmdev_misuse(EINVAL, "IBV_WR_TAG_DEL: handle %u of %u", wr->tm.handle,
                            srq->max_tags);
    }
    const tmdev_tag_t *tag = &srq->tags[wr->tm.handle];
    if (0 == tag->expected || tag->has_del) {
        return tmdev_misuse(EINVAL, "IBV_WR_TAG_DEL: handle %u is %s", wr->tm.handle,
                            0 == tag->expected ? "not in use" : "being removed already");
    }
    return 0;
}

/* Everything that can be said against an operation. Under tag_lock. */
static int check_op(const tmdev_srq_t *srq, const struct ibv_ops_wr *wr)
{
    if (srq->ops_head - srq->ops_tail >= srq->max_ops) {
        if (atomic_load(&srq->cq->poller) == (unsigned long) pthread_self()) {
            return tmdev_misuse(EDEADLK,
                                "ibv_post_srq_ops between ibv_start_poll and ibv_end_poll with a "
                                "full operations queue: "
                                "drivers wait for the completion queue's lock here, for ever");
        }
        return ENOMEM;
    }
    if (0 != (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC))) {
        return tmdev_misuse(EINVAL, "ibv_post_srq_ops: flags 0x%x", (unsigned int) wr->flags);
    }
    switch (wr->opcode) {
    case IBV_WR_TAG_ADD:
        return check_add(srq, wr);
    case IBV_WR_TAG_DEL:
        return check_del(srq, wr);
    case IBV_WR_TAG_SYNC:
        if (0 == (wr->flags & IBV_OPS_TM_SYNC)) {
            tmdev_misuse(0, "IBV_WR_TAG_SYNC without IBV_OPS_TM_SYNC does nothing");
        }
        return 0;
    default:
        return tmdev_misuse(EINVAL, "ibv_post_srq_ops: opcode %d", wr->opcode);
    }
}

/* Give out a handle. Under tag_lock. */
static void prepare_add(tmdev_srq_t *srq, struct ibv_ops_wr *wr, tmdev_op_t *op)
{
    uint32_t handle = srq->free_tags[srq->free_head];
    srq->free_head = (srq->free_head + 1) % srq->max_tags;
    srq->free_count--;
    tmdev_tag_t *tag = &srq->tags[handle];
    if (op->has_count) {
        srq->unexp_out = wr->tm.unexpected_cnt;
    }
    tag->expected = op->is_signaled ? 2 : 1;
    tag->recv_wr_id = wr->tm.add.recv_wr_id;
    /* as the client passed it: compared with the device's 16 bits later */
    tag->phase = srq->unexp_out;
    op->handle = (int) handle;
    op->tag = wr->tm.add.tag;
    op->mask = wr->tm.add.mask;
    op->sge = wr->tm.add.sg_list[0];
    wr->tm.handle = handle;
}

static void prepare_del(tmdev_srq_t *srq, const struct ibv_ops_wr *wr, tmdev_op_t *op)
{
    tmdev_tag_t *tag = &srq->tags[wr->tm.handle];
    op->handle = (int) wr->tm.handle;
    if (op->is_signaled) {
        tag->expected++;
        tag->has_del = true;
    } else {
        tag_seen(srq, wr->tm.handle); /* its consumption is taken as not to come */
    }
}

static int prepare(tmdev_srq_t *srq, struct ibv_ops_wr *wr, tmdev_op_t *op)
{
    int rc = check_op(srq, wr);
    if (0 != rc) {
        return rc;
    }
    op->opcode = wr->opcode;
    op->is_signaled = 0 != (wr->flags & IBV_OPS_SIGNALED);
    op->has_count = 0 != (wr->flags & IBV_OPS_TM_SYNC);
    op->count = (uint16_t) wr->tm.unexpected_cnt;
    op->wr_id = wr->wr_id;
    op->number = srq->ops_head++;
    op->handle = -1;
    if (IBV_WR_TAG_ADD == wr->opcode) {
        prepare_add(srq, wr, op);
    } else if (IBV_WR_TAG_DEL == wr->opcode) {
        prepare_del(srq, wr, op);
    }
    return 0;
}

/* When an operation is executed: now, or by TMDEV_HOLD_US later; never before its predecessors. */
static void schedule(tmdev_srq_t *srq, tmdev_op_t *op)
{
    const tmdev_settings_t *s = tmdev_settings();
    op->due_us = tmdev_now_us();
    if (0 != s->hold_us && tmdev_chance(&srq->random, HELD)) {
        op->due_us += tmdev_random(&srq->random) % s->hold_us + 1;
    }
    if (srq->ops_until_us > op->due_us) {
        op->due_us = srq->ops_until_us;
    }
    srq->ops_until_us = op->due_us;
    STAILQ_INSERT_TAIL(&srq->ops, op, link);
}

int tmdev_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
    tmdev_srq_t *srq = tmdev_srq(ibsrq);
    tmdev_node_t *node = tmdev_ctx(ibsrq->context)->node;
    int rc = 0;
    if (!srq->is_tm) {
        *bad = wr;
        return tmdev_misuse(EINVAL, "ibv_post_srq_ops: the SRQ is not for tag matching");
    }
    tmdev_alone_begin(tmdev_alone_of(ibsrq->pd), "ibv_post_srq_ops");
    tmdev_node_lock(node);
    for (; NULL != wr && 0 == rc; wr = wr->next) {
        tmdev_op_t *op = tmdev_alloc(sizeof(*op));
        pthread_mutex_lock(&srq->tag_lock);
        rc = NULL == op ? ENOMEM : prepare(srq, wr, op);
        pthread_mutex_unlock(&srq->tag_lock);
        if (0 != rc) {
            *bad = wr;
            free(op);
        } else {
            schedule(srq, op);
        }
    }
    run_ops(srq);
    tmdev_node_unlock(node);
    tmdev_alone_end(tmdev_alone_of(ibsrq->pd));
    return rc;
}

/* ---- making and destroying ----------------------------------------------- */

static int check_caps(const tmdev_cq_t *cq, const struct ibv_tm_cap *cap)
{
    const tmdev_settings_t *s = tmdev_settings();
    if (!cq->is_extended) {
        return tmdev_misuse(
            EINVAL,
            "ibv_create_srq_ex: a TM-SRQ needs a completion queue made by ibv_create_cq_ex");
    }
    if (0 == cap->max_num_tags || cap->max_num_tags > s->tm_tags || 0 == cap->max_ops ||
        cap->max_ops > s->tm_ops) {
        return tmdev_misuse(EINVAL,
                            "ibv_create_srq_ex: max_num_tags %u (1 to %u), max_ops %u (1 to %u)",
                            cap->max_num_tags, s->tm_tags, cap->max_ops, s->tm_ops);
    }
    if (cap->max_ops > s->tm_ops / s->tm_blocks) {
        return EINVAL; /* drivers say no more */
    }
    if (s->needs_grh) {
        return EINVAL;
    }
    return tmdev_is_ethernet(cq->cq.context)
               ? tmdev_misuse(EINVAL,
                              "ibv_create_srq_ex: a TM-SRQ cannot be made on an Ethernet port")
               : 0;
}

int tmdev_tm_init(tmdev_srq_t *srq, tmdev_cq_t *cq, const struct ibv_tm_cap *cap)
{
    tmdev_node_t *node = tmdev_ctx(srq->srq.context)->node;
    int rc = check_caps(cq, cap);
    if (0 != rc) {
        return rc;
    }
    srq->tags = calloc(cap->max_num_tags, sizeof(*srq->tags));
    srq->free_tags = calloc(cap->max_num_tags, sizeof(*srq->free_tags));
    if (NULL == srq->tags || NULL == srq->free_tags) {
        free(srq->tags);
        free(srq->free_tags);
        return ENOMEM;
    }
    srq->is_tm = true;
    srq->cq = cq;
    srq->max_tags = srq->free_count = cap->max_num_tags;
    srq->max_ops = cap->max_ops;
    srq->random = tmdev_seed_of(0x10000u + srq->number);
    for (uint32_t i = 0; i < srq->max_tags; i++) {
        srq->free_tags[i] = i;
    }
    pthread_mutex_init(&srq->tag_lock, NULL);
    tmdev_timer_init(&srq->ops_timer, run_ops, srq);
    atomic_fetch_add(&cq->users, 1);
    atomic_fetch_add(&cq->tm_users, 1);
    tmdev_node_lock(node);
    TAILQ_INSERT_TAIL(&node->tm_srqs, srq, link);
    tmdev_node_unlock(node);
    return 0;
}

void tmdev_tm_fini(tmdev_srq_t *srq)
{
    tmdev_node_t *node = tmdev_ctx(srq->srq.context)->node;
    tmdev_op_t *op;
    tmdev_node_lock(node);
    TAILQ_REMOVE(&node->tm_srqs, srq, link);
    tmdev_timer_cancel(node, &srq->ops_timer);
    while (NULL != (op = STAILQ_FIRST(&srq->ops))) {
        STAILQ_REMOVE_HEAD(&srq->ops, link);
        free(op);
    }
    tmdev_cq_clean(srq->cq, NULL, srq);
    tmdev_node_unlock(node);
    tmdev_report(srq->matched);
    atomic_fetch_sub(&srq->cq->users, 1);
    atomic_fetch_sub(&srq->cq->tm_users, 1);
    pthread_mutex_destroy(&srq->tag_lock);
    free(srq->tags);
    free(srq->free_tags);
}
