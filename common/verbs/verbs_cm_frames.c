/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of InfiniBand and RoCE, which the frames of connection set-up are enough to connect.
 */
#include "verbs/verbs_cm.h"

#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_answer.h"
#include "verbs/verbs_connect.h"
#include "verbs/verbs_qp.h"

enum {
    FAB_VERBS_MIN_RNR_TIMER = 12, /* 0.64 ms until a sender that found no buffer tries again */
    FAB_VERBS_FOREVER = 7,        /* rnr_retry */
    FAB_VERBS_HOPS = 64,          /* routers that a RoCE packet may pass */
};

static struct ibv_ah_attr path_to(const fab_verbs_domain_t *dom, const fab_verbs_addr_t *addr)
{
    struct ibv_ah_attr path = {.dlid = addr->lid, .port_num = dom->port_num};

    if (IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer) {
        path.is_global = 1;
        path.grh.sgid_index = dom->gid_index;
        path.grh.hop_limit = FAB_VERBS_HOPS;
        memcpy(&path.grh.dgid, addr->gid, sizeof(addr->gid));
    }
    return path;
}

static int qp_to_receive(const fab_verbs_domain_t *dom, struct ibv_qp *qp,
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

static int qp_to_send(const fab_verbs_domain_t *dom, struct ibv_qp *qp, uint32_t psn, uint8_t reads)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t) fab_params.verbs_timeout,
        .retry_cnt = 7,
        .rnr_retry = FAB_VERBS_FOREVER,
        .sq_psn = psn,
        .max_rd_atomic = reads,
        .qp_access_flags = (unsigned int) dom->access,
    };

    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS);
}

/*
 * Each side's QP that sends goes with the other's that receives. Returns an errno, and the step
 * that failed.
 */
static int bring_up(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame, uint8_t reads,
                    const char **step)
{
    fab_verbs_domain_t *dom = conn->dom;
    bool has_tm = NULL != conn->tm_qp;
    int error = qp_to_receive(dom, conn->qp, frame, has_tm ? frame->tm_qpn : frame->qpn,
                              has_tm ? frame->tm_psn : frame->psn);

    *step = "receive";
    if (0 == error && has_tm) {
        error = qp_to_receive(dom, conn->tm_qp, frame, frame->qpn, frame->psn);
    }
    if (0 != error) {
        return error;
    }
    *step = "send";
    error = qp_to_send(dom, conn->qp, conn->psn, reads);
    return 0 == error && has_tm ? qp_to_send(dom, conn->tm_qp, conn->tm_psn, reads) : error;
}

static const char *frames_open(fab_verbs_domain_t *dom)
{
    (void) dom;
    return NULL;
}

static void frames_close(fab_verbs_domain_t *dom)
{
    (void) dom;
}

static int frames_poll(fab_verbs_domain_t *dom)
{
    (void) dom;
    return 0;
}

static void frames_forget(fab_verbs_conn_t *conn)
{
    (void) conn;
}

static bool frames_lost(fab_verbs_conn_t *conn)
{
    (void) conn;
    return false; /* an event of the device says more */
}

const fab_verbs_cm_ops_t fab_verbs_cm_frames = {
    .init_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT,
    .open = frames_open,
    .close = frames_close,
    .poll = frames_poll,
    .bring_up = bring_up,
    .connect = fab_verbs_connect_probe,
    .ready = fab_verbs_connect_done,
    .forget = frames_forget,
    .lost = frames_lost,
};

#ifndef FAB_HAVE_RDMACM
const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma;
#endif
