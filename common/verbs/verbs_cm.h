/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of iWARP, which only rdma_cm can make: its kernel part gives the QP a TCP stream of
 * its own and moves it from INIT to ready in one step.  A domain uses it if its port is iWARP: then
 * dom->cm is set.
 *
 * Who asks and who answers is settled as for other devices (verbs_connect.c).  What differs is the
 * step between REPLY and READY:
 *
 *      asking side                                answering side
 *      REPLY came, QP in INIT                     REPLY sent, QP in INIT; listens since it was opened
 *      rdma_connect(fab_verbs_cm_hello_t)  ──>    finds the connection that is meant, rdma_accept()
 *      established: CREDIT, READY                 established: may send when the first message came
 *
 * The asking side sends first, for iWARP does not let the other one.
 *
 * Built without librdmacm, there is none of this, and iWARP ports are refused.
 */
#ifndef FAB_VERBS_CM_H
#define FAB_VERBS_CM_H

#include "verbs/verbs_types.h"

#ifdef FAB_HAVE_RDMACM

/* The address of the port's network interface, IPv4 as ::ffff:a.b.c.d; NULL, or what is missing. */
const char *fab_verbs_cm_find_ip(struct ibv_context *ctx, uint8_t port, uint8_t *ip);

/* Listen at the IP address in dom->addr.gid.  Fills dom->cm and the port in dom->addr. */
int fab_verbs_cm_open(fab_verbs_domain_t *dom, const char **why);
void fab_verbs_cm_close(fab_verbs_domain_t *dom);

/*
 * Connect the QP to that of the peer, which has answered.  Ends in fab_verbs_connected() or
 * fab_verbs_connect_failed().
 */
void fab_verbs_cm_connect(fab_verbs_ep_t *ep);
/* The connection ends, its QP is gone. */
void fab_verbs_cm_forget(fab_verbs_conn_t *conn);
/* Deal with what happened.  Returns the number of events. */
int fab_verbs_cm_poll(fab_verbs_domain_t *dom);
/* The peer, or the network, has ended the connection. */
void fab_verbs_cm_lost(fab_verbs_conn_t *conn);

#else

static inline const char *fab_verbs_cm_find_ip(struct ibv_context *ctx, uint8_t port, uint8_t *ip)
{
    (void) ctx;
    (void) port;
    (void) ip;
    return "iWARP needs librdmacm, without which this was built (package librdmacm-dev)";
}

static inline int fab_verbs_cm_open(fab_verbs_domain_t *dom, const char **why)
{
    (void) dom;
    (void) why;
    return OPAL_SUCCESS;
}

static inline void fab_verbs_cm_close(fab_verbs_domain_t *dom)
{
    (void) dom;
}

static inline void fab_verbs_cm_connect(fab_verbs_ep_t *ep)
{
    (void) ep;
}

static inline void fab_verbs_cm_forget(fab_verbs_conn_t *conn)
{
    (void) conn;
}

static inline int fab_verbs_cm_poll(fab_verbs_domain_t *dom)
{
    (void) dom;
    return 0;
}

static inline void fab_verbs_cm_lost(fab_verbs_conn_t *conn)
{
    (void) conn;
}

#endif

#endif /* FAB_VERBS_CM_H */
