/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path from this port to another one, and the states of a queue pair on it.
 */
#include "verbs/verbs.h"

#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

#ifndef FAB_HAVE_RDMACM
const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma;
#endif

enum {
    FAB_VERBS_MIN_RNR_TIMER = 12, /* 0.64 ms until a sender that found no buffer tries again */
    FAB_VERBS_RETRIES = 6,        /* retry_cnt: Soft-RoCE takes 7 as without end */
    FAB_VERBS_FOREVER = 7,        /* rnr_retry */
    FAB_VERBS_HOPS = 255,         /* routers that a packet may pass */
};

uint8_t fab_verbs_reads_served(const fab_verbs_domain_t *dom)
{
    return (uint8_t) fab_verbs_min((uint32_t) dom->device.max_qp_rd_atom, FAB_VERBS_READS);
}

int fab_verbs_qp_init(fab_verbs_domain_t *dom, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = dom->pkey_index,
        .port_num = dom->port_num,
        .qp_access_flags = (unsigned int) dom->access,
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
                             (fab_verbs_is_iwarp(dom) ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT));
}

/* RoCE; a router between two subnets; virtual functions that the kernel has so configured. */
static bool needs_grh(const fab_verbs_domain_t *dom, const fab_verbs_port_addr_t *to)
{
    return fab_verbs_is_ethernet(dom) ||
           0 != ((dom->port_addr.flags | to->flags) & FAB_VERBS_PORT_GRH) ||
           0 != memcmp(to->gid, dom->port_addr.gid, 8);
}

static struct ibv_ah_attr path_to(const fab_verbs_domain_t *dom, const fab_verbs_port_addr_t *to)
{
    struct ibv_ah_attr path = {
        .dlid = to->lid, .sl = (uint8_t) fab_params.verbs_sl, .port_num = dom->port_num};

    if (needs_grh(dom, to)) {
        path.is_global = 1;
        path.grh.sgid_index = dom->gid_index;
        path.grh.hop_limit = FAB_VERBS_HOPS;
        path.grh.traffic_class = dom->traffic_class;
        memcpy(&path.grh.dgid, to->gid, sizeof(to->gid));
    }
    return path;
}

int fab_verbs_qp_to_receive(const fab_verbs_domain_t *dom, struct ibv_qp *qp,
                            const fab_verbs_port_addr_t *to, uint32_t peer_qpn, uint32_t peer_psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = to->mtu < dom->port_addr.mtu ? to->mtu : dom->port_addr.mtu,
        .dest_qp_num = peer_qpn,
        .rq_psn = peer_psn,
        .max_dest_rd_atomic = fab_verbs_reads_served(dom),
        .min_rnr_timer = FAB_VERBS_MIN_RNR_TIMER,
        .ah_attr = path_to(dom, to),
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int fab_verbs_qp_to_send(const fab_verbs_domain_t *dom, struct ibv_qp *qp, uint32_t psn,
                         uint8_t reads)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t) fab_params.verbs_timeout,
        .retry_cnt = FAB_VERBS_RETRIES,
        .rnr_retry = FAB_VERBS_FOREVER,
        .sq_psn = psn,
        .max_rd_atomic = reads,
        .qp_access_flags = (unsigned int) dom->access,
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS);
}

/* Each side's QP that sends goes with the other's that receives. */
int fab_verbs_conn_to_receive(const fab_verbs_job_t *job)
{
    const fab_verbs_conn_t *conn = job->conn;
    const fab_verbs_frame_t *frame = &job->frame;
    const fab_verbs_port_addr_t *to = &frame->addr.ports[conn->remote];
    const bool has_tm = NULL != conn->tm_qp;
    int error = fab_verbs_qp_to_receive(conn->dom, conn->qp, to,
                                        has_tm ? frame->tm_qpn : frame->qpn,
                                        has_tm ? frame->tm_psn : frame->psn);

    return 0 == error && has_tm
               ? fab_verbs_qp_to_receive(conn->dom, conn->tm_qp, to, frame->qpn, frame->psn)
               : error;
}
