/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of the ofi provider's objects; each has a header of its own.
 *
 * Ownership. The domain (ofi_domain.h) is one endpoint (FI_EP_RDM) of one domain of libfabric's,
 * with one completion queue and one address vector.  It owns all endpoints of ours (ofi_ep.h), one
 * for each peer record (fab_peer_t.ep), and the table of sessions.  The session (session.h) belongs
 * to the endpoint.
 *
 *      fab_peer_t ── ep ─┬── session, with its index in the table
 *                        ├── to send: messages that found no room, in order
 *                        ├── ops      get and put
 *                        └── exposed  memory that the peer may reach
 *
 * Every operation handed to libfabric has a context that begins with fab_ofi_ctx_t: the first part
 * is the provider's until the operation completes, kind says what follows it.  Contexts never die
 * with an endpoint: messages name their session by number, RMA its operation.
 *
 * All under the fabric's lock: libfabric is asked for FI_THREAD_DOMAIN.
 */
#ifndef FAB_OFI_TYPES_H
#define FAB_OFI_TYPES_H

#include <sys/queue.h>
#include <rdma/fabric.h>

#include "fabric/fab_provider.h"

typedef struct fab_ofi_domain fab_ofi_domain_t;
typedef struct fab_ofi_ep fab_ofi_ep_t;
typedef struct fab_ofi_via fab_ofi_via_t;
typedef struct fab_ofi_op fab_ofi_op_t;
typedef struct fab_ofi_xfer fab_ofi_xfer_t;
typedef struct fab_ofi_exposed fab_ofi_exposed_t;

/* A queue of endpoints, and what an endpoint has to stand in one. */
typedef struct fab_ofi_queued {
    fab_ofi_ep_t *ep; /* NULL: it does not stand there */
    TAILQ_ENTRY(fab_ofi_queued) link;
} fab_ofi_queued_t;
typedef TAILQ_HEAD(fab_ofi_ep_queue, fab_ofi_queued) fab_ofi_ep_queue_t;

typedef STAILQ_HEAD(fab_ofi_via_queue, fab_ofi_via) fab_ofi_via_queue_t;
typedef LIST_HEAD(fab_ofi_ep_list, fab_ofi_ep) fab_ofi_ep_list_t;
typedef TAILQ_HEAD(fab_ofi_op_queue, fab_ofi_op) fab_ofi_op_queue_t;
typedef LIST_HEAD(fab_ofi_xfer_list, fab_ofi_xfer) fab_ofi_xfer_list_t;
typedef LIST_HEAD(fab_ofi_exposed_list, fab_ofi_exposed) fab_ofi_exposed_list_t;

typedef enum fab_ofi_kind {
    FAB_OFI_SEND, /* fab_ofi_sbuf_t */
    FAB_OFI_RECV, /* fab_ofi_rbuf_t */
    FAB_OFI_RMA,  /* fab_ofi_xfer_t */
} fab_ofi_kind_t;

typedef struct fab_ofi_ctx {
    struct fi_context2 provider;
    fab_ofi_kind_t kind;
} fab_ofi_ctx_t;

/* At the end of the queue, unless it is there already. */
static inline void fab_ofi_enqueue(fab_ofi_ep_queue_t *queue, fab_ofi_queued_t *at,
                                   fab_ofi_ep_t *ep)
{
    if (NULL == at->ep) {
        at->ep = ep;
        TAILQ_INSERT_TAIL(queue, at, link);
    }
}

/* Out of the queue, if it is there. */
static inline void fab_ofi_dequeue(fab_ofi_ep_queue_t *queue, fab_ofi_queued_t *at)
{
    if (NULL != at->ep) {
        at->ep = NULL;
        TAILQ_REMOVE(queue, at, link);
    }
}

static inline fab_ofi_ep_t *fab_ofi_queue_first(const fab_ofi_ep_queue_t *queue)
{
    const fab_ofi_queued_t *first = TAILQ_FIRST(queue);

    return NULL != first ? first->ep : NULL;
}

static inline uint32_t fab_ofi_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif /* FAB_OFI_TYPES_H */
