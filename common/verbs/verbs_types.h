/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of the verbs provider's objects; each has a header of its own.
 *
 * Ownership. The domain (verbs_domain.h) is one port of one device: context, PD, two CQs, the SRQ,
 * the buffers. It owns all endpoints and connections. An endpoint (verbs_ep.h) belongs to one peer
 * record (fab_peer_t.ep) and has at most one connection (verbs_conn.h), an RC QP (two, if the
 * devices of both sides match tags and do rendezvous); when the pair is done with it, the
 * connection is taken from the endpoint and lingers until what was sent on it has been delivered.
 *
 *      fab_peer_t ── ep ── conn ── QP ──┬── send CQ     one for all connections
 *                     │                 └── receive CQ ── SRQ ── receive buffers, one pool
 *                     ├── sock      connection set-up, while it lasts (verbs_oob.h)
 *                     ├── ops       get and put, in the order in which they were asked for
 *                     └── exposed   memory that the peer may reach
 *
 * Completion queues never overrun: the receive CQ has room for all receive buffers, the send CQ for
 * twice as many work requests as sq_used may reach.
 *
 * All under the fabric's lock.
 */
#ifndef FAB_VERBS_TYPES_H
#define FAB_VERBS_TYPES_H

#include <sys/queue.h>
#include <infiniband/verbs.h>

#include "fabric/fab_provider.h"

typedef struct fab_verbs_domain fab_verbs_domain_t;
typedef struct fab_verbs_ep fab_verbs_ep_t;
typedef struct fab_verbs_conn fab_verbs_conn_t;
typedef struct fab_verbs_op fab_verbs_op_t;
typedef struct fab_verbs_exposed fab_verbs_exposed_t;
typedef struct fab_verbs_tm fab_verbs_tm_t;
typedef struct fab_verbs_cm fab_verbs_cm_t;

typedef LIST_HEAD(fab_verbs_conn_list, fab_verbs_conn) fab_verbs_conn_list_t;
typedef TAILQ_HEAD(fab_verbs_conn_queue, fab_verbs_conn) fab_verbs_conn_queue_t;
typedef LIST_HEAD(fab_verbs_exposed_list, fab_verbs_exposed) fab_verbs_exposed_list_t;
typedef STAILQ_HEAD(fab_verbs_op_queue, fab_verbs_op) fab_verbs_op_queue_t;
typedef LIST_HEAD(fab_verbs_ep_list, fab_verbs_ep) fab_verbs_ep_list_t;
typedef TAILQ_HEAD(fab_verbs_ep_queue, fab_verbs_ep) fab_verbs_ep_queue_t;

static inline uint32_t fab_verbs_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif /* FAB_VERBS_TYPES_H */
