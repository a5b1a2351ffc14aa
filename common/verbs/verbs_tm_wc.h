/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queues of matching hardware, and its completions as they are copied out.
 */
#ifndef FAB_VERBS_TM_WC_H
#define FAB_VERBS_TM_WC_H

#include <endian.h>
#include <errno.h>

#include "verbs/verbs_types.h"

static inline struct ibv_cq_ex *fab_verbs_tm_cq(fab_verbs_domain_t *dom, uint32_t cqe,
                                                struct ibv_comp_channel *channel)
{
    struct ibv_cq_init_attr_ex init = {
        .cqe = cqe,
        .channel = channel,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                    IBV_WC_EX_WITH_TM_INFO,
        .comp_mask = NULL != dom->td ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
        .flags = NULL != dom->td ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0,
    };

    return ibv_create_cq_ex(dom->ctx, &init);
}

static inline struct ibv_srq *fab_verbs_tm_srq(fab_verbs_domain_t *dom, struct ibv_cq_ex *cq,
                                               uint32_t num_bufs, uint32_t max_tags,
                                               uint32_t max_ops)
{
    struct ibv_srq_init_attr_ex init = {
        .attr = {.max_wr = num_bufs, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_TM,
        .srq_type = IBV_SRQT_TM,
        .pd = dom->queue_pd,
        .cq = ibv_cq_ex_to_cq(cq),
        .tm_cap = {.max_num_tags = max_tags, .max_ops = max_ops},
    };

    return ibv_create_srq_ex(dom->ctx, &init);
}

/* What is read of a completion. */
typedef struct fab_verbs_tm_wc {
    uint64_t wr_id;
    uint64_t tag; /* this and priv: IBV_WC_TM_MATCH */
    uint32_t priv;
    uint32_t imm; /* IBV_WC_WITH_IMM */
    uint32_t len;
    uint32_t qp_num;
    unsigned int flags;
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode; /* fab_verbs_tm_is_meant(status) */
} fab_verbs_tm_wc_t;

/* After any other status wr_id and the queue pair's number may be meaningless. */
static inline bool fab_verbs_tm_is_meant(enum ibv_wc_status status)
{
    return IBV_WC_SUCCESS == status || IBV_WC_TM_ERR == status ||
           IBV_WC_TM_RNDV_INCOMPLETE == status;
}

static inline void fab_verbs_tm_copy(struct ibv_cq_ex *cq, fab_verbs_tm_wc_t *wc)
{
    struct ibv_wc_tm_info info;

    wc->wr_id = cq->wr_id;
    wc->status = cq->status;
    wc->qp_num = ibv_wc_read_qp_num(cq);
    wc->flags = 0;
    wc->len = 0;
    if (!fab_verbs_tm_is_meant(cq->status)) {
        return;
    }
    wc->opcode = ibv_wc_read_opcode(cq);
    if (IBV_WC_TM_ERR == cq->status) {
        return;
    }
    wc->flags = ibv_wc_read_wc_flags(cq);
    wc->len = ibv_wc_read_byte_len(cq);
    if (0 != (wc->flags & IBV_WC_WITH_IMM)) {
        wc->imm = be32toh(ibv_wc_read_imm_data(cq));
    }
    if (0 != (wc->flags & IBV_WC_TM_MATCH)) {
        ibv_wc_read_tm_info(cq, &info);
        wc->tag = info.tag;
        wc->priv = info.priv;
    }
}

/* Returns how many; *rc: ENOENT, or what went wrong. */
static inline int fab_verbs_tm_collect(struct ibv_cq_ex *cq, fab_verbs_tm_wc_t *wcs, int *rc)
{
    struct ibv_poll_cq_attr attr = {0};
    int n = 0;

    *rc = ibv_start_poll(cq, &attr);
    if (0 != *rc) {
        return 0;
    }
    while (0 == *rc) {
        fab_verbs_tm_copy(cq, &wcs[n++]);
        *rc = n < FAB_VERBS_BATCH ? ibv_next_poll(cq) : ENOENT;
    }
    ibv_end_poll(cq);
    return n;
}

#endif /* FAB_VERBS_TM_WC_H */
