/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path from this port to another one, and the states of a queue pair on it.
 */
#ifndef FAB_VERBS_PATH_H
#define FAB_VERBS_PATH_H

#include "verbs/verbs_types.h"

/* READs that a queue pair serves at a time. */
uint8_t fab_verbs_reads_served(const fab_verbs_domain_t *dom);
/* All return an errno.  To INIT: */
int fab_verbs_qp_init(fab_verbs_domain_t *dom, struct ibv_qp *qp);
/* To ready to receive, from the queue pair peer_qpn at the port of frame->addr. */
int fab_verbs_qp_to_receive(const fab_verbs_domain_t *dom, struct ibv_qp *qp,
                            const fab_verbs_frame_t *frame, uint32_t peer_qpn, uint32_t peer_psn);
/* To ready to send; reads: READs that the peer serves at a time. */
int fab_verbs_qp_to_send(const fab_verbs_domain_t *dom, struct ibv_qp *qp, uint32_t psn,
                         uint8_t reads);

#endif /* FAB_VERBS_PATH_H */
