/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: making and destroying them, the state machine, and posting. What the states mean for
 * messages is in send.c (requester) and recv.c (responder). Only reliable connections are
 * supported.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *state_name(enum ibv_qp_state state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state <= IBV_QPS_ERR ? names[state] : "unknown";
}

tmdev_cqe_t tmdev_qp_cqe(const tmdev_qp_t *qp)
{
    return (tmdev_cqe_t){
        .qp = (tmdev_qp_t *) qp,
        .srq = NULL != qp->srq ? qp->srq : NULL,
        .handle = -1,
        .wc.qp_num = qp->qp.qp_base.qp_num,
        .wc.src_qp = qp->attr.dest_qp_num,
        .wc.slid = qp->attr.ah_attr.dlid,
    };
}

/* ---- states -------------------------------------------------------------- */

void tmdev_qp_ready(tmdev_qp_t *qp)
{
    if (!qp->is_ready) {
        qp->is_ready = true;
        TAILQ_INSERT_TAIL(&qp->node->ready, qp, ready_link);
        tmdev_node_wake(qp->node);
    }
}

void tmdev_qp_unready(tmdev_qp_t *qp)
{
    if (qp->is_ready) {
        qp->is_ready = false;
        TAILQ_REMOVE(&qp->node->ready, qp, ready_link);
    }
}

void tmdev_qp_error(tmdev_qp_t *qp)
{
    if (IBV_QPS_ERR == qp->state) {
        return;
    }
    qp->state = qp->qp.qp_base.state = IBV_QPS_ERR;
    tmdev_send_flush(qp);
    tmdev_recv_flush(qp);
    if (NULL != qp->srq) {
        tmdev_event_raise(qp->qp.qp_base.context, IBV_EVENT_QP_LAST_WQE_REACHED, qp);
    }
}

void tmdev_qp_fatal(tmdev_qp_t *qp, enum ibv_event_type type)
{
    if (IBV_QPS_ERR != qp->state) {
        tmdev_event_raise(qp->qp.qp_base.context, type, qp);
        tmdev_qp_error(qp);
    }
}

bool tmdev_qp_counts_message(tmdev_qp_t *qp)
{
    const tmdev_settings_t *s = tmdev_settings();
    qp->messages++;
    if (0 == s->qp_error_after || qp->messages != s->qp_error_after ||
        (0 != s->qp_error_which && s->qp_error_which != qp->made)) {
        return true;
    }
    tmdev_qp_fatal(qp, IBV_EVENT_QP_FATAL);
    return false;
}

/* Back to the beginning: nothing is reported for what was posted, as the specification has it. */
static void qp_reset(tmdev_qp_t *qp)
{
    tmdev_send_reset(qp);
    tmdev_recv_reset(qp);
    tmdev_cq_clean(tmdev_cq(qp->init.send_cq), qp, NULL);
    tmdev_cq_clean(tmdev_cq(qp->init.recv_cq), qp, NULL);
    atomic_store(&qp->rq.slots, 0);
    atomic_store(&qp->sq_tail, qp->sq_head);
}

static const struct {
    enum ibv_qp_state from, to;
    int needed, allowed;
} transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

/* Packets in another class the network would drop now and then. */
static bool class_is_right(const struct ibv_qp_attr *attr)
{
    const tmdev_settings_t *s = tmdev_settings();
    uint32_t traffic_class = attr->ah_attr.is_global ? attr->ah_attr.grh.traffic_class : 0;
    return (UINT32_MAX == s->traffic_class || traffic_class == s->traffic_class) &&
           (UINT32_MAX == s->sl || attr->ah_attr.sl == s->sl);
}

static int check_values(const tmdev_qp_t *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (0 != (mask & IBV_QP_PORT) &&
        (attr->port_num < 1 || attr->port_num > tmdev_settings()->ports)) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: port %u", attr->port_num);
    }
    if (0 != (mask & IBV_QP_PKEY_INDEX) && attr->pkey_index >= tmdev_settings()->num_pkeys) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: pkey_index %u, the table has %u entries",
                            attr->pkey_index, tmdev_settings()->num_pkeys);
    }
    if (0 != (mask & IBV_QP_PATH_MTU) &&
        (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > tmdev_mtu_enum(tmdev_settings()->mtu))) {
        return tmdev_misuse(EINVAL,
                            "ibv_modify_qp: path_mtu %d is more than the port's active_mtu %d",
                            attr->path_mtu, tmdev_mtu_enum(tmdev_settings()->mtu));
    }
    if ((0 != (mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
         attr->max_dest_rd_atomic > TMDEV_MAX_RD_ATOMIC) ||
        (0 != (mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > TMDEV_MAX_RD_ATOMIC)) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: more than %d reads or atomics at a time",
                            TMDEV_MAX_RD_ATOMIC);
    }
    const struct ibv_context *context = qp->qp.qp_base.context;
    if (0 != (mask & IBV_QP_AV) && !class_is_right(attr)) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: SL %u, traffic class %u", attr->ah_attr.sl,
                            attr->ah_attr.is_global ? attr->ah_attr.grh.traffic_class : 0);
    }
    if (0 != (mask & IBV_QP_AV) && tmdev_settings()->needs_grh && !attr->ah_attr.is_global) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: the port needs a GRH");
    }
    if (0 != (mask & IBV_QP_AV) && tmdev_is_ethernet(context) &&
        (!attr->ah_attr.is_global || attr->ah_attr.grh.hop_limit < 1)) {
        return tmdev_misuse(
            EINVAL, "ibv_modify_qp: an Ethernet port needs is_global, a GID and a hop limit");
    }
    if (0 != (mask & IBV_QP_AV) && attr->ah_attr.is_global &&
        attr->ah_attr.grh.sgid_index >= tmdev_gid_count(context)) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: sgid_index %u", attr->ah_attr.grh.sgid_index);
    }
    if (0 != (mask & IBV_QP_AV) && tmdev_is_ethernet(context) &&
        0 != tmdev_settings()->foreign_gids && attr->ah_attr.grh.sgid_index < TMDEV_GIDS) {
        return tmdev_misuse(ENODEV, "ibv_modify_qp: GID %u is of another network name space",
                            attr->ah_attr.grh.sgid_index);
    }
    if (0 != (mask & (IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT)) &&
        (attr->rnr_retry > 7 || attr->retry_cnt > 7)) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: retry_cnt and rnr_retry have 3 bits");
    }
    if (0 != (mask & IBV_QP_DEST_QPN) &&
        (0 == attr->dest_qp_num >> 12 || attr->dest_qp_num > 0xffffff)) {
        return tmdev_misuse(EINVAL, "ibv_modify_qp: no queue pair has the number 0x%x",
                            attr->dest_qp_num);
    }
    if (0 != (mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state) {
        return EINVAL;
    }
    return 0;
}

static int check_transition(const tmdev_qp_t *qp, const struct ibv_qp_attr *attr,
                            enum ibv_qp_state to, int mask)
{
    int given = mask & ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        if (transitions[i].from != qp->state || transitions[i].to != to) {
            continue;
        }
        int needed = transitions[i].needed;
        if (needed != (given & needed) || 0 != (given & ~(needed | transitions[i].allowed))) {
            return tmdev_misuse(EINVAL,
                                "ibv_modify_qp %s to %s: attributes missing 0x%x, not allowed 0x%x",
                                state_name(qp->state), state_name(to), needed & ~given,
                                given & ~(needed | transitions[i].allowed));
        }
        return check_values(qp, attr, mask);
    }
    return tmdev_misuse(EINVAL, "ibv_modify_qp: there is no way from %s to %s",
                        state_name(qp->state), state_name(to));
}

static void take_values(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define TAKE(flag, field)                                                                          \
    if (0 != (mask & (flag))) {                                                                    \
        to->field = from->field;                                                                   \
    }
    TAKE(IBV_QP_PKEY_INDEX, pkey_index)
    TAKE(IBV_QP_PORT, port_num)
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags)
    TAKE(IBV_QP_AV, ah_attr)
    TAKE(IBV_QP_PATH_MTU, path_mtu)
    TAKE(IBV_QP_DEST_QPN, dest_qp_num)
    TAKE(IBV_QP_RQ_PSN, rq_psn)
    TAKE(IBV_QP_SQ_PSN, sq_psn)
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer)
    TAKE(IBV_QP_TIMEOUT, timeout)
    TAKE(IBV_QP_RETRY_CNT, retry_cnt)
    TAKE(IBV_QP_RNR_RETRY, rnr_retry)
#undef TAKE
    to->rq_psn &= 0xffffff;
    to->sq_psn &= 0xffffff;
}

TMDEV_PUBLIC int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
    tmdev_qp_t *qp = tmdev_qp(ibqp);
    if (0 != (mask & IBV_QP_STATE) && IBV_QPS_RTR == attr->qp_state &&
        tmdev_is_ethernet(ibqp->context)) {
        usleep(1000 * tmdev_settings()->rtr_ms);
    }
    tmdev_node_lock(qp->node);
    enum ibv_qp_state to = 0 != (mask & IBV_QP_STATE) ? attr->qp_state : qp->state;
    int rc = check_transition(qp, attr, to, mask);
    if (0 != rc) {
        tmdev_node_unlock(qp->node);
        return rc;
    }
    take_values(&qp->attr, attr, mask);
    if (IBV_QPS_ERR == to) {
        tmdev_qp_error(qp);
    } else if (IBV_QPS_RESET == to) {
        qp_reset(qp);
    } else if (IBV_QPS_RTS == to && IBV_QPS_RTR == qp->state) {
        qp->retries = qp->attr.retry_cnt;
        qp->rnr_retries = qp->attr.rnr_retry;
        tmdev_faults_start(qp->node);
    }
    qp->state = ibqp->state = to;
    tmdev_node_unlock(qp->node);
    return 0;
}

TMDEV_PUBLIC int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
                              struct ibv_qp_init_attr *init)
{
    tmdev_qp_t *qp = tmdev_qp(ibqp);
    (void) mask;
    tmdev_node_lock(qp->node);
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = ibqp->state = qp->state;
    attr->cap = qp->init.cap;
    *init = qp->init;
    tmdev_node_unlock(qp->node);
    return 0;
}

/* ---- making and destroying ----------------------------------------------- */

static int check_caps(const struct ibv_qp_init_attr *init)
{
    const struct ibv_qp_cap *cap = &init->cap;
    uint32_t recv_wr = NULL == init->srq ? cap->max_recv_wr : 0;
    if (cap->max_send_wr > TMDEV_MAX_WR || recv_wr > TMDEV_MAX_WR ||
        cap->max_send_sge > TMDEV_MAX_SGE || cap->max_recv_sge > TMDEV_MAX_SGE ||
        cap->max_inline_data > tmdev_settings()->max_inline) {
        return tmdev_misuse(EINVAL,
                            "ibv_create_qp: send_wr %u, recv_wr %u (of %d), send_sge %u, recv_sge "
                            "%u (of %d), inline %u (of %u)",
                            cap->max_send_wr, recv_wr, TMDEV_MAX_WR, cap->max_send_sge,
                            cap->max_recv_sge, TMDEV_MAX_SGE, cap->max_inline_data,
                            tmdev_settings()->max_inline);
    }
    return 0;
}

/* Find a number that was not in use lately. Under node->lock. */
static int qp_number(tmdev_node_t *node, tmdev_qp_t *qp)
{
    for (uint32_t i = 0; i < TMDEV_QPS - 1; i++) {
        uint32_t index = node->next_qp;
        node->next_qp = index + 1 < TMDEV_QPS ? index + 1 : 1;
        if (NULL == node->qps[index]) {
            node->qps[index] = qp;
            qp->index = index;
            qp->made = ++node->qps_made;
            return 0;
        }
    }
    return ENOMEM;
}

static int qp_init(tmdev_qp_t *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    qp->node = tmdev_ctx(pd->context)->node;
    qp->init = *init;
    qp->srq = NULL != init->srq ? tmdev_srq(init->srq) : NULL;
    if (NULL != qp->srq) {
        qp->init.cap.max_recv_wr = qp->init.cap.max_recv_sge = 0;
    }
    qp->init.cap.max_inline_data = 0 == qp->init.cap.max_send_wr
                                       ? 0
                                       : (qp->init.cap.max_inline_data + 3) & ~3u;
    TAILQ_INIT(&qp->sq);
    STAILQ_INIT(&qp->reads);
    STAILQ_INIT(&qp->held);
    TAILQ_INIT(&qp->fins);
    tmdev_timer_init(&qp->retry_timer, tmdev_send_retry, qp);
    tmdev_timer_init(&qp->held_timer, tmdev_recv_held, qp);
    tmdev_timer_init(&qp->fin_timer, tmdev_tm_send_fins, qp);
    struct ibv_qp *ibqp = &qp->qp.qp_base;
    ibqp->context = pd->context;
    ibqp->qp_context = init->qp_context;
    ibqp->pd = pd;
    ibqp->send_cq = init->send_cq;
    ibqp->recv_cq = init->recv_cq;
    ibqp->srq = init->srq;
    ibqp->qp_type = init->qp_type;
    pthread_mutex_init(&ibqp->mutex, NULL);
    pthread_cond_init(&ibqp->cond, NULL);
    return tmdev_rq_init(&qp->rq, qp->init.cap.max_recv_wr, qp->init.cap.max_recv_sge);
}

static void qp_free(tmdev_qp_t *qp)
{
    pthread_cond_destroy(&qp->qp.qp_base.cond);
    pthread_mutex_destroy(&qp->qp.qp_base.mutex);
    tmdev_rq_fini(&qp->rq);
    free(qp);
}

/*
 * Bytes of the send queue, as mlx5 makes it: each entry has room for the largest request that may
 * be posted, any at all if that is not said.
 */
static uint64_t sq_bytes(const struct ibv_qp_cap *cap, bool has_ops, uint64_t ops)
{
    const uint64_t atomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    uint64_t head = !has_ops ? 192 : 0 != (ops & atomics) ? 48 : 32;
    uint64_t data = 16 * (uint64_t) cap->max_send_sge;
    uint64_t in_line = ((uint64_t) cap->max_inline_data + 4 + 15) & ~UINT64_C(15);
    uint64_t entry = (head + (data > in_line ? data : in_line) + 63) & ~UINT64_C(63);
    uint64_t size = 64;
    while (size < entry * cap->max_send_wr) {
        size *= 2;
    }
    return 0 == cap->max_send_wr ? 0 : size;
}

static struct ibv_qp *qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init, bool has_ops,
                                uint64_t ops)
{
    if (IBV_QPT_RC != init->qp_type) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (NULL == init->send_cq || NULL == init->recv_cq) {
        errno = EINVAL;
        return NULL;
    }
    if (tmdev_lacks(pd->context, TMDEV_LACKS_QP)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    errno = check_caps(init);
    if (0 != errno || tmdev_fails(TMDEV_FAIL_QP)) {
        return NULL;
    }
    if (sq_bytes(&init->cap, has_ops, ops) > tmdev_settings()->max_sq) {
        errno = ENOMEM;
        return NULL;
    }
    tmdev_qp_t *qp = tmdev_alloc(sizeof(*qp));
    if (NULL == qp) {
        return NULL;
    }
    qp->has_ops = has_ops;
    qp->ops = ops;
    int rc = qp_init(qp, pd, init);
    tmdev_node_lock(qp->node);
    rc = 0 == rc ? qp_number(qp->node, qp) : rc;
    if (0 == rc) {
        qp->qp.qp_base.qp_num = qp->qp.qp_base.handle = qp->node->id << 12 | qp->index;
        qp->random = tmdev_seed_of(qp->made);
        atomic_fetch_add(&tmdev_cq(init->send_cq)->users, 1);
        atomic_fetch_add(&tmdev_cq(init->recv_cq)->users, 1);
        if (NULL != qp->srq) {
            atomic_fetch_add(&qp->srq->users, 1);
        }
        atomic_fetch_add(&tmdev_pd(pd)->objects, 1);
        atomic_fetch_add(&tmdev_ctx(pd->context)->objects, 1);
        init->cap = qp->init.cap;
    }
    tmdev_node_unlock(qp->node);
    if (0 != rc) {
        qp_free(qp);
        errno = rc;
        return NULL;
    }
    return &qp->qp.qp_base;
}

TMDEV_PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    return qp_create(pd, init, false, 0);
}

struct ibv_qp *tmdev_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    /* no ibv_wr_* interface: the operations that are named may be posted by ibv_post_send */
    const uint32_t ops = tmdev_settings()->has_qp_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0;
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | ops;
    if (0 != (attr->comp_mask & ~known) ||
        (0 != (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && 0 != attr->create_flags)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (0 == (attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd->context != context) {
        errno = EINVAL;
        return NULL;
    }
    /* The extended attributes begin with the plain ones. */
    return qp_create(attr->pd, (struct ibv_qp_init_attr *) attr,
                     0 != (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS),
                     attr->send_ops_flags);
}

TMDEV_PUBLIC int ibv_destroy_qp(struct ibv_qp *ibqp)
{
    tmdev_qp_t *qp = tmdev_qp(ibqp);
    struct ibv_context *context = ibqp->context;
    tmdev_event_forget(context, qp);
    tmdev_event_wait(&ibqp->mutex, &ibqp->cond, &ibqp->events_completed, &qp->events_fetched,
                     "ibv_destroy_qp");
    tmdev_node_lock(qp->node);
    qp_reset(qp);
    qp->node->qps[qp->index] = NULL;
    tmdev_event_forget(context, qp);
    tmdev_node_unlock(qp->node);
    atomic_fetch_sub(&tmdev_cq(qp->init.send_cq)->users, 1);
    atomic_fetch_sub(&tmdev_cq(qp->init.recv_cq)->users, 1);
    if (NULL != qp->srq) {
        atomic_fetch_sub(&qp->srq->users, 1);
    }
    atomic_fetch_sub(&tmdev_pd(ibqp->pd)->objects, 1);
    atomic_fetch_sub(&tmdev_ctx(context)->objects, 1);
    qp_free(qp);
    return 0;
}

/* ---- posting ------------------------------------------------------------- */

int tmdev_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    tmdev_qp_t *qp = tmdev_qp(ibqp);
    int rc = 0;
    tmdev_node_lock(qp->node);
    for (; NULL != wr; wr = wr->next) {
        if (NULL != qp->srq) {
            rc = tmdev_misuse(EINVAL, "ibv_post_recv: the queue pair receives from an SRQ");
        } else if (IBV_QPS_RESET == qp->state) {
            rc = tmdev_misuse(EINVAL, "ibv_post_recv in state RESET");
        } else {
            rc = tmdev_rq_post(&qp->rq, wr, "ibv_post_recv");
        }
        if (0 != rc) {
            *bad = wr;
            break;
        }
    }
    if (IBV_QPS_ERR == qp->state) {
        tmdev_recv_flush(qp);
    }
    tmdev_node_unlock(qp->node);
    return rc;
}

static bool is_supported(const struct ibv_send_wr *wr)
{
    return wr->opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
    return IBV_WR_ATOMIC_CMP_AND_SWP == opcode || IBV_WR_ATOMIC_FETCH_AND_ADD == opcode;
}

/* As enum ibv_qp_create_send_ops_flags. */
static uint64_t op_flag(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_SEND:
        return IBV_QP_EX_WITH_SEND;
    case IBV_WR_SEND_WITH_IMM:
        return IBV_QP_EX_WITH_SEND_WITH_IMM;
    case IBV_WR_RDMA_WRITE:
        return IBV_QP_EX_WITH_RDMA_WRITE;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    case IBV_WR_RDMA_READ:
        return IBV_QP_EX_WITH_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    default:
        return 0;
    }
}

static int check_send(const tmdev_qp_t *qp, const struct ibv_send_wr *wr)
{
    const struct ibv_qp_cap *cap = &qp->init.cap;
    bool is_inline = 0 != (wr->send_flags & IBV_SEND_INLINE);
    if (IBV_QPS_RTS != qp->state && IBV_QPS_ERR != qp->state) {
        return tmdev_misuse(EINVAL, "ibv_post_send in state %s", state_name(qp->state));
    }
    if (!is_supported(wr)) {
        return tmdev_misuse(EINVAL, "ibv_post_send: opcode %d is not supported", wr->opcode);
    }
    if (qp->has_ops && 0 == (qp->ops & op_flag(wr->opcode))) {
        return tmdev_misuse(EINVAL, "ibv_post_send: opcode %d is not in the send_ops_flags",
                            wr->opcode);
    }
    if (wr->num_sge < 0 || (!is_inline && (uint32_t) wr->num_sge > cap->max_send_sge) ||
        wr->num_sge > TMDEV_MAX_SGE) {
        return tmdev_misuse(EINVAL, "ibv_post_send: %d gather entries, at most %u were asked for",
                            wr->num_sge, cap->max_send_sge);
    }
    if (is_inline && (wr->opcode >= IBV_WR_RDMA_READ ||
                      tmdev_sges_length(wr->sg_list, wr->num_sge) > cap->max_inline_data)) {
        return tmdev_misuse(EINVAL,
                            "ibv_post_send: %llu bytes inline (opcode %d), at most %u were granted",
                            (unsigned long long) tmdev_sges_length(wr->sg_list, wr->num_sge),
                            wr->opcode, cap->max_inline_data);
    }
    if (is_atomic(wr->opcode) && (1 != wr->num_sge || 8 != wr->sg_list[0].length)) {
        return tmdev_misuse(
            EINVAL, "ibv_post_send: an atomic needs one entry of 8 bytes for the old value");
    }
    /* Requests leave their slots when a later or their own completion is polled. */
    return qp->sq_head - atomic_load(&qp->sq_tail) >= cap->max_send_wr ? ENOMEM : 0;
}

static tmdev_wqe_t *make_wqe(const struct ibv_send_wr *wr)
{
    bool is_inline = 0 != (wr->send_flags & IBV_SEND_INLINE);
    uint64_t total = tmdev_sges_length(wr->sg_list, wr->num_sge);
    tmdev_wqe_t *wqe = tmdev_wqe_alloc(is_inline ? total : 0);
    if (NULL == wqe) {
        return NULL;
    }
    wqe->wr_id = wr->wr_id;
    wqe->opcode = wr->opcode;
    wqe->total = total;
    wqe->imm = wr->imm_data;
    wqe->is_fenced = 0 != (wr->send_flags & IBV_SEND_FENCE);
    wqe->is_solicited = 0 != (wr->send_flags & IBV_SEND_SOLICITED);
    if (is_atomic(wr->opcode)) {
        wqe->va = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->operand[0] = wr->wr.atomic.compare_add;
        wqe->operand[1] = wr->wr.atomic.swap;
    } else if (IBV_WR_SEND != wr->opcode && IBV_WR_SEND_WITH_IMM != wr->opcode) {
        wqe->va = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
    if (!is_inline) {
        wqe->count = wr->num_sge;
        for (int i = 0; i < wr->num_sge; i++) {
            wqe->sges[i] = wr->sg_list[i];
        }
        return wqe;
    }
    uint8_t *to = wqe->inline_data;
    for (int i = 0; i < wr->num_sge; i++) {
        memcpy(to, (const void *) (uintptr_t) wr->sg_list[i].addr, wr->sg_list[i].length);
        to += wr->sg_list[i].length;
    }
    return wqe;
}

static int post_one(tmdev_qp_t *qp, const struct ibv_send_wr *wr)
{
    int rc = check_send(qp, wr);
    if (0 != rc) {
        return rc;
    }
    tmdev_wqe_t *wqe = make_wqe(wr);
    if (NULL == wqe) {
        return ENOMEM;
    }
    wqe->is_signaled = qp->init.sq_sig_all || 0 != (wr->send_flags & IBV_SEND_SIGNALED);
    wqe->number = qp->sq_head++;
    tmdev_send_append(qp, wqe);
    return 0;
}

int tmdev_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    tmdev_qp_t *qp = tmdev_qp(ibqp);
    int rc = 0;
    tmdev_alone_begin(tmdev_alone_of(ibqp->pd), "ibv_post_send");
    tmdev_node_lock(qp->node);
    for (; NULL != wr; wr = wr->next) {
        rc = post_one(qp, wr);
        if (0 != rc) {
            *bad = wr;
            break;
        }
    }
    if (IBV_QPS_ERR == qp->state) {
        tmdev_send_flush(qp);
    } else {
        tmdev_send_progress(qp);
    }
    tmdev_node_unlock(qp->node);
    tmdev_alone_end(tmdev_alone_of(ibqp->pd));
    return rc;
}
