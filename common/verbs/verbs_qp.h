/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of a connection: making, connecting and finding them.
 */
#ifndef FAB_VERBS_QP_H
#define FAB_VERBS_QP_H

#include "verbs/verbs_types.h"

/* Make the QPs, in state INIT. NULL, or what went wrong; fab_verbs_conn_destroy_qps() then. */
const char *fab_verbs_conn_make_qps(fab_verbs_conn_t *conn);
/* Work requests that a connection may have on its QP: a power of two. */
uint32_t fab_verbs_sq_depth(const fab_verbs_domain_t *dom);
/* Destroy whichever of its QPs exist. */
void fab_verbs_conn_destroy_qps(const fab_verbs_conn_t *conn);
/* Enter the connection, with its QPs, into the domain's tables; and take it from them. */
void fab_verbs_conn_enter(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn);
void fab_verbs_conn_leave(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn);
fab_verbs_conn_t *fab_verbs_conn_by_qpn(fab_verbs_domain_t *dom, uint32_t qpn);

/*
 * Connect to the peer's QP: ready to receive and to send. NULL, or why that cannot be.  If there is
 * a conn->job, that goes on, and fab_verbs_conn_connected() with its errno is the end.
 */
const char *fab_verbs_conn_connect(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame);
const char *fab_verbs_conn_connected(fab_verbs_conn_t *conn, int error);
/* iWARP: another QP in place of one that failed to connect.  Else errno. */
int fab_verbs_conn_renew(fab_verbs_conn_t *conn);

/*
 * Peers may do this (IBV_ACCESS_REMOTE_*) from now on, with memory that is registered for it.
 * False: the device does not allow it.
 */
bool fab_verbs_conns_allow(fab_verbs_domain_t *dom, int access);

/* The number of the QP that the peer's messages come to. */
static inline uint32_t fab_verbs_conn_recv_qpn(const fab_verbs_conn_t *conn)
{
    return conn->qpns[NULL != conn->tm_qp].qpn;
}

#endif /* FAB_VERBS_QP_H */
