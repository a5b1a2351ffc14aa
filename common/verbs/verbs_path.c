/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path from this port to another one, and the states of a queue pair on it.
 */
#include "verbs/verbs.h"

#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

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

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | dom->cm_ops->init_mask);
}

/* RoCE; a router between two subnets; virtual functions that the kernel has so configured. */
static bool needs_grh(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *addr)
{
    return IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer ||
           0 != ((dom->addr.flags | addr->flags) & FAB_VERBS_ADDR_GRH) ||
           0 != memcmp(addr->gid, dom->addr.gid, 8);
}

static struct ibv_ah_attr path_to(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *addr)
{
    struct ibv_ah_attr path = {.dlid = addr->lid, .sl = dom->sl, .port_num = dom->port_num};

    if (needs_grh(dom, addr)) {
        path.is_global = 1;
        path.grh.sgid_index = dom->gid_index;
        path.grh.hop_limit = FAB_VERBS_HOPS;
        path.grh.traffic_class = dom->traffic_class;
        memcpy(&path.grh.dgid, addr->gid, sizeof(addr->gid));
    }
    return path;
}

int fab_verbs_qp_to_receive(const fab_verbs_domain_t *dom, struct ibv_qp *qp,
                            const fab_verbs_frame_t *frame, uint32_t peer_qpn, uint32_t peer_psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = frame->addr.mtu < dom->addr.mtu ? frame->addr.mtu : dom->addr.mtu,
        .dest_qp_num = peer_qpn,
        .rq_psn = peer_psn,
        .max_dest_rd_atomic = fab_verbs_reads_served(dom),
        .min_rnr_timer = FAB_VERBS_MIN_RNR_TIMER,
        .ah_attr = path_to(dom, &frame->addr),
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
