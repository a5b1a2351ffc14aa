/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: the provider's state for one peer.
 */
#ifndef FAB_VERBS_EP_H
#define FAB_VERBS_EP_H

#include "sock/sock.h"
#include "verbs/verbs_pool.h"
#include "verbs/verbs_types.h"
#include "verbs/verbs_wire.h"

typedef enum fab_verbs_state {
    FAB_VERBS_IDLE = 0,     /* no connection */
    FAB_VERBS_WAITING = 1,  /* in dom->waiting: will connect when its turn comes */
    FAB_VERBS_ASKING = 2,   /* active side: HELLO sent or about to be; conn has a QP */
    FAB_VERBS_ANSWERED = 3, /* passive side: REPLY sent; may not send before READY */
    FAB_VERBS_UP = 4,       /* may send */
} fab_verbs_state_t;

struct fab_verbs_ep {
    fab_peer_t *peer;
    fab_verbs_domain_t *dom;
    fab_verbs_conn_t *conn; /* from ASKING or ANSWERED on */
    fab_sock_t *sock;       /* ASKING, ANSWERED */
    /* socket of the peer's HELLO, set aside: both connect, and this process has precedence */
    fab_sock_t *parked;
    fab_verbs_buf_t *reserved; /* by fab_reserve(); NULL: none */
    fab_verbs_op_queue_t ops;  /* not yet posted in full */
    fab_verbs_exposed_list_t exposed;
    TAILQ_ENTRY(fab_verbs_ep) waiting_link; /* in dom->waiting */
    TAILQ_ENTRY(fab_verbs_ep) rma_link;     /* in dom->rma */
    TAILQ_ENTRY(fab_verbs_ep) failing_link; /* in dom->failing */
    LIST_ENTRY(fab_verbs_ep) link;          /* in dom->eps */
    fab_verbs_state_t state;
    bool was_up;     /* a connection was: the peer stays with this provider */
    void *spare;     /* the fabric's, until then: fab_provider_t.spare */
    bool is_in_rma;  /* stands in dom->rma */
    bool is_closing; /* this process closed the peer */
    bool has_left;   /* the peer takes nothing any more */
    /*
     * us: the peer closed the connection, or left; until then its device may have answers under way
     */
    uint64_t end_by; /* 0: it did not */
    /* why it fails, when all that it sent is delivered: in dom->failing; NULL: it does not */
    struct fab_verbs_failure *failure;
    bool is_local; /* on this host: its pid means something */
    fab_verbs_addr_t addr;
};

extern const fab_ops_t fab_verbs_ops;

int fab_verbs_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_verbs_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_verbs_drop(fab_domain_t *dom, fab_peer_t *peer);
void **fab_verbs_spare(const fab_peer_t *peer);
/* Free it and all that it owns but its connection, which is gone already. */
void fab_verbs_ep_free(fab_verbs_ep_t *ep);
/*
 * The peer will not come back, or this process is done with it: free the endpoint and, if it was
 * closed, the record.
 */
void fab_verbs_ep_finish(fab_verbs_ep_t *ep);
/* Fail the peer as soon as all that it sent before is delivered. */
void fab_verbs_ep_defer_failure(fab_verbs_ep_t *ep, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int fab_verbs_ep_fail_deferred(fab_verbs_domain_t *dom);
/* Release peers that closed the connection, or left, and whose answers have all arrived. */
void fab_verbs_ep_end_ending(fab_verbs_domain_t *dom, uint64_t now);
/* One of the provider's own messages came. */
void fab_verbs_ep_on_control(fab_verbs_ep_t *ep, uint8_t id);

#endif /* FAB_VERBS_EP_H */
