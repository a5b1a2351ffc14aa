/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making queue pairs ready to receive, in a thread: with RoCE the kernel looks for the address of
 * the peer's port in that call, and waits for an answer for a second or more if none comes.  The
 * lock is not held meanwhile, so messages of other peers go on.  One thread for a port, made when
 * it is first needed.
 *
 *      submit ──> todo ──thread──> done ──poll──> the endpoint goes on (verbs_answer.c)
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
    fab_verbs_frame_t frame; /* of the peer */
    int error;               /* errno */
};

/* False: there is no thread for it, do it now. */
bool fab_verbs_resolve_submit(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame);
/* A job that has ended, which is the caller's to free; NULL: none has. */
fab_verbs_job_t *fab_verbs_resolve_poll(fab_verbs_domain_t *dom);
/* Something has ended: the descriptor was readable. */
void fab_verbs_resolve_is_awake(fab_verbs_domain_t *dom);
/* Wait for what the thread is doing, and end it; jobs that it has not begun are dropped. */
void fab_verbs_resolve_stop(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_RESOLVE_H */
