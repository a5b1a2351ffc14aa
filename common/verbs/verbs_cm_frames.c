/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of InfiniBand and RoCE, which the frames of connection set-up are enough to connect.
 */
#include "verbs/verbs_cm.h"

#include "verbs/verbs.h"

/* Each side's QP that sends goes with the other's that receives. */
static int to_receive(const fab_verbs_job_t *job)
{
    const fab_verbs_conn_t *conn = job->conn;
    const fab_verbs_frame_t *frame = &job->frame;
    const fab_verbs_domain_t *dom = conn->dom;
    bool has_tm = NULL != conn->tm_qp;
    fab_verbs_frame_t to = *frame;
    int error;

    to.addr = fab_verbs_addr_at(&frame->addr, conn->remote);
    error = fab_verbs_qp_to_receive(dom, conn->qp, &to, has_tm ? frame->tm_qpn : frame->qpn,
                                    has_tm ? frame->tm_psn : frame->psn);
    return 0 == error && has_tm
               ? fab_verbs_qp_to_receive(dom, conn->tm_qp, &to, frame->qpn, frame->psn)
               : error;
}

static int to_send(const fab_verbs_conn_t *conn)
{
    int error = fab_verbs_qp_to_send(conn->dom, conn->qp, conn->psn, conn->reads);

    return 0 == error && NULL != conn->tm_qp
               ? fab_verbs_qp_to_send(conn->dom, conn->tm_qp, conn->tm_psn, conn->reads)
               : error;
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
    .step = to_receive,
    .stepped = fab_verbs_connect_resolved,
    .to_send = to_send,
    .connect = fab_verbs_connect_probe,
    .forget = frames_forget,
    .lost = frames_lost,
};

#ifndef FAB_HAVE_RDMACM
const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma;
#endif
