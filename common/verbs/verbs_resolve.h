/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The step of connecting queue pairs that may wait for the network, in a thread.  With RoCE the
 * kernel looks for the address of the peer's port when a queue pair is made ready to receive, and
 * waits for an answer for a second or more if none comes.  With iWARP rdma_connect() may make a TCP
 * connection, and wait as long as TCP does.  The lock is not held meanwhile, so messages of other
 * peers go on.  One thread for a port, made when it is first needed.
 *
 *      submit ──> todo ──thread──> done ──poll──> the connection goes on (fab_verbs_cm_ops_t)
 *
 * The thread touches the job and its connection's QPs alone; a connection is not destroyed while
 * its job is on the way.  InfiniBand needs no thread: the kernel asks nobody.
 */
#ifndef FAB_VERBS_RESOLVE_H
#define FAB_VERBS_RESOLVE_H

#include "verbs/verbs_types.h"

struct fab_verbs_job {
    STAILQ_ENTRY(fab_verbs_job) link;
    fab_verbs_conn_t *conn;
    fab_verbs_frame_t frame;    /* of the peer; not with iWARP */
    fab_verbs_cm_hello_t hello; /* iWARP: of this side */
    int error;                  /* errno */
};

/* Do the step of a copy of this job.  False: there is no thread for it, do it now. */
bool fab_verbs_resolve_submit(const fab_verbs_job_t *job);
/* Go on with the jobs that have ended. */
void fab_verbs_resolve_poll(fab_verbs_domain_t *dom);
/* Something has ended: the descriptor was readable. */
void fab_verbs_resolve_is_awake(fab_verbs_domain_t *dom);
/*
 * Wait for what the thread is doing, or end that where the step allows it, and end the thread.
 * Jobs are dropped.
 */
void fab_verbs_resolve_stop(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_RESOLVE_H */
