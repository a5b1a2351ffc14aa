/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects the queue pairs of two processes, after each process has learned about the other's by
 * frames over TCP (verbs_connect.c).  There are two methods; the domain's device decides:
 *
 * frames (verbs_cm_frames.c): InfiniBand and RoCE. The frames are enough: each side moves its own
 *     queue pairs to ready.
 *
 * rdma_cm (verbs_cm_rdma.c): iWARP, whose kernel part gives the queue pair a TCP stream of its own
 *     and moves it from INIT to ready in one step, behind WELCOME:
 *
 *      asking side                                asked side
 *      WELCOME came, QP in INIT                   WELCOME sent, QP in INIT; listens since it was
 *                                                 opened
 *      rdma_connect(fab_verbs_cm_hello_t)  ──>    identifies the connection, rdma_accept()
 *      established: the path works                established: up when the first word came
 *
 *     The asking side sends first; iWARP does not allow the other to.
 */
#ifndef FAB_VERBS_CM_H
#define FAB_VERBS_CM_H

#include "verbs/verbs_types.h"

struct fab_verbs_cm_ops {
    /*
     * iWARP.  Then there is no RNR: a message that finds no buffer ends the connection; the
     * response to a READ counts as a remote write; and rdma_cm ends the QPs.
     */
    bool is_iwarp;
    int init_mask; /* IBV_QP_*: attributes set in the transition to INIT, besides access */

    /* Of a port: its IP address, IPv4 as ::ffff:a.b.c.d.  NULL, or why it cannot be used. */
    const char *(*find_ip)(struct ibv_context *ctx, uint8_t port, uint8_t *ip);
    /* NULL, or why it cannot be used. */
    const char *(*open)(fab_verbs_domain_t *dom);
    void (*close)(fab_verbs_domain_t *dom);
    /* Handle pending events. Returns their number. */
    int (*poll)(fab_verbs_domain_t *dom);

    /*
     * The call that may wait for the network, without the lock (verbs_resolve.c).  Returns an
     * errno.  frames: the peer's QPs are known, make this side's ready to receive.  rdma_cm: ask
     * the peer.
     */
    int (*step)(const fab_verbs_job_t *job);
    /* It has ended, in a thread: job->error.  The endpoint may have given the connection up. */
    void (*stepped)(const fab_verbs_job_t *job);
    /* After that, frames: make them ready to send. */
    int (*to_send)(const fab_verbs_conn_t *conn);
    /* TRYING: ends in fab_ses_path_works(), or fab_ses_path_broke(). */
    void (*connect)(fab_verbs_ep_t *ep);
    /* The QP is destroyed: destroy the state that connected it, too. */
    void (*forget)(fab_verbs_conn_t *conn);
    /* Its work requests were flushed.  True: the peer fails, with the reason. */
    bool (*lost)(fab_verbs_conn_t *conn);
};

extern const fab_verbs_cm_ops_t fab_verbs_cm_frames;
/* NULL: built without librdmacm. */
extern const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma;

#endif /* FAB_VERBS_CM_H */
