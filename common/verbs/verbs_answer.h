/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the other side says while a connection is made.
 */
#ifndef FAB_VERBS_ANSWER_H
#define FAB_VERBS_ANSWER_H

#include "verbs/verbs_types.h"

/* Active side: the QP is connected, or cannot be; why is a sentence. */
void fab_verbs_connected(fab_verbs_ep_t *ep);
void fab_verbs_connect_failed(fab_verbs_ep_t *ep, const char *why);

/* The QPs were made ready in a thread, or cannot be. */
void fab_verbs_connect_resolved(const fab_verbs_job_t *job);
/* Of those that are being probed: see whose packet has passed, or will not. */
void fab_verbs_connect_probed(fab_verbs_domain_t *dom);

/* What the sockets (verbs_oob.c) report. */
void fab_verbs_on_frame(fab_sock_t *sock, const void *frame);
void fab_verbs_on_broken(fab_sock_t *sock, const char *why);

#endif /* FAB_VERBS_ANSWER_H */
