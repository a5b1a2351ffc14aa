/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the queue pairs of two processes are connected, once frames over TCP (verbs_connect.h) have
 * told each of the other's.  There are two ways; the domain's device decides:
 *
 * frames (verbs_cm_frames.c): InfiniBand and RoCE. What the frames tell is enough: each side brings
 *     its queue pairs to ready by itself.
 *
 * rdma_cm (verbs_cm_rdma.c): iWARP, whose kernel part gives the queue pair a TCP stream of its own
 *     and moves it from INIT to ready in one step. Between REPLY and READY:
 *
 *      asking side                                answering side
 *      REPLY came, QP in INIT                     REPLY sent, QP in INIT; listens since it was opened
 *      rdma_connect(fab_verbs_cm_hello_t)  ──>    finds the connection that is meant, rdma_accept()
 *      established: CREDIT, READY                 established: may send when the first message came
 *
 *     The asking side sends first, for iWARP does not let the other one.
 */
#ifndef FAB_VERBS_CM_H
#define FAB_VERBS_CM_H

#include "verbs/verbs_types.h"
#include "verbs/verbs_wire.h"

typedef struct fab_verbs_cm_ops {
    /*
     * iWARP.  Then there is no RNR: a message that finds no buffer ends the connection; what answers
     * a READ is written as if by a peer; and rdma_cm ends the QPs.
     */
    bool is_iwarp;
    int init_mask; /* IBV_QP_*: attributes set in the transition to INIT, besides access */

    /* Of a port: its IP address, IPv4 as ::ffff:a.b.c.d.  NULL, or why it cannot be used. */
    const char *(*find_ip)(struct ibv_context *ctx, uint8_t port, uint8_t *ip);
    int (*open)(fab_verbs_domain_t *dom, const char **why);
    void (*close)(fab_verbs_domain_t *dom);
    /* Deal with what happened.  Returns the number of events. */
    int (*poll)(fab_verbs_domain_t *dom);

    /*
     * The peer's QPs are known: bring this side's as far as that can be done now.  Returns an errno,
     * and the step that failed: "ready to STEP".
     */
    int (*bring_up)(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame, uint8_t reads,
                    const char **step);
    /* Asking side, REPLY came.  Ends in fab_verbs_connected() or fab_verbs_connect_failed(). */
    void (*connect)(fab_verbs_ep_t *ep);
    /* Answering side, READY came. */
    void (*ready)(fab_verbs_ep_t *ep);
    /* The QP is destroyed: so is what connected it. */
    void (*forget)(fab_verbs_conn_t *conn);
    /* Its work requests were flushed.  True: the peer fails, with the reason. */
    bool (*lost)(fab_verbs_conn_t *conn);
} fab_verbs_cm_ops_t;

extern const fab_verbs_cm_ops_t fab_verbs_cm_frames;
/* NULL: built without librdmacm. */
extern const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma;

#endif /* FAB_VERBS_CM_H */
