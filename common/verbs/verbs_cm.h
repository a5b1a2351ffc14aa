/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_cm (verbs_cm_rdma.c), which connects the queue pairs of iWARP: the kernel gives a queue pair
 * a TCP stream of its own and moves it from INIT to ready in one step, behind WELCOME.  (With
 * InfiniBand and RoCE frames are enough, verbs_connect.c: each side moves its own to ready.)
 *
 *      asking side                                asked side
 *      WELCOME came, QP in INIT                   WELCOME sent, QP in INIT; listens since it was
 *                                                 opened
 *      rdma_connect(fab_verbs_cm_hello_t)  ──>    identifies the connection, rdma_accept()
 *      established: the path works                established: up when the first word came
 *
 * The asking side sends first; iWARP does not allow the other to.
 */
#ifndef FAB_VERBS_CM_H
#define FAB_VERBS_CM_H

#include "verbs/verbs_types.h"

struct fab_verbs_cm_ops {
    /* Of a port: its IP address, IPv4 as ::ffff:a.b.c.d.  NULL, or why it cannot be used. */
    const char *(*find_ip)(struct ibv_context *ctx, uint8_t port, uint8_t *ip);
    /* NULL, or why it cannot be used. */
    const char *(*open)(fab_verbs_domain_t *dom);
    void (*close)(fab_verbs_domain_t *dom);
    /* Handle pending events. Returns their number. */
    int (*poll)(fab_verbs_domain_t *dom);

    /* TRYING: ends in fab_ses_path_works(), or fab_ses_path_broke(). */
    void (*connect)(fab_verbs_ep_t *ep);
    /* Ask the peer, without the lock, as it may wait (verbs_resolve.c).  Returns an errno. */
    int (*ask)(const fab_verbs_job_t *job);
    /* It has ended, in a thread: job->error.  The endpoint may have given the connection up. */
    void (*asked)(const fab_verbs_job_t *job);
    /* The QP is destroyed: destroy the state that connected it, too. */
    void (*forget)(fab_verbs_conn_t *conn);
    /* Its work requests were flushed: the peer fails. */
    void (*lost)(fab_verbs_conn_t *conn);
};

/* NULL: built without librdmacm. */
extern const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma;

#endif /* FAB_VERBS_CM_H */
