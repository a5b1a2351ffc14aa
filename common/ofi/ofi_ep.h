/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: the provider's state for one peer.
 */
#ifndef FAB_OFI_EP_H
#define FAB_OFI_EP_H

#include <rdma/fi_domain.h>

#include "ofi/ofi_pool.h"
#include "ofi/ofi_types.h"
#include "ofi/ofi_wire.h"

typedef enum fab_ofi_state {
    FAB_OFI_IDLE = 0,     /* no session */
    FAB_OFI_ASKING = 1,   /* HELLO sent, or about to be */
    FAB_OFI_ANSWERED = 2, /* WELCOME sent; may not send before the peer has sent something */
    FAB_OFI_UP = 3,       /* may send */
} fab_ofi_state_t;

struct fab_ofi_ep {
    fab_peer_t *peer; /* NULL: nothing but messages to send is left of it */
    fab_ofi_domain_t *dom;
    fi_addr_t to; /* FI_ADDR_NOTAVAIL until the first message */
    fab_ofi_state_t state;

    /* session; index: of the slot, from ASKING or ANSWERED on */
    uint32_t index;
    uint32_t cookie;
    uint32_t peer_index;
    uint32_t peer_cookie;
    uint64_t nonce;              /* what the peer's next HELLO is to have; 0: none was told */
    uint16_t sent;               /* messages, modulo 2^16, as all of the following */
    uint16_t taken;              /* that the peer says it has taken of them */
    uint16_t consumed;           /* that were received */
    uint16_t advertised;         /* that the peer was told to have been */
    uint16_t window;             /* that may be under way to the peer */
    uint16_t granted;            /* and to this process */
    uint16_t next_seq;           /* of the next message to the peer */
    uint16_t next_recv;          /* of the next message to be delivered */
    struct fab_ofi_early *early; /* messages that came before one that goes before them */
    uint16_t missing;            /* that one, or the next when it was last looked */
    uint32_t missed_at;          /* dom->ticks when it was first seen to be missing */

    bool was_up;      /* a session was: the peer stays with this provider */
    bool is_local;    /* on this host: its pid means something */
    bool is_closing;  /* this process closed the peer */
    bool has_left;    /* the peer takes nothing any more */
    bool is_leaving;  /* LEAVE was sent */
    bool is_dropping; /* it failed, or moves: nothing more is asked for */
    bool has_heard;   /* something came since the last look whether it is there */
    bool is_probing;  /* a message is under way only to see whether the peer is there */
    bool is_sending, is_due, is_asked, is_in_rma; /* stands in that queue of the domain's */
    void *spare; /* the fabric's, until it was up: fab_provider_t.spare */

    bool is_batch;        /* between the calls of batch(): short messages are packed */
    uint32_t alone_poll;  /* dom->polls when short messages were last sent alone, ... */
    uint32_t num_alone;   /* ... and how many then */
    fab_ofi_sbuf_t *pack; /* messages that leave together; NULL: none. len: bytes of the parts */
    fab_ofi_sbuf_t *reserved;  /* by fab_reserve(); NULL: none */
    fab_ofi_sbuf_t *to_send;   /* messages that found no room, the oldest; NULL: none */
    fab_ofi_sbuf_t *last_send; /* the newest of them */
    fab_ofi_op_queue_t ops;    /* get and put of which something is to be asked for */
    fab_ofi_op_queue_t posted; /* and others until they end; first those that nothing ends */
    uint32_t num_xfers;        /* of them, handed to libfabric */
    size_t under_way;          /* bytes of these */
    uint32_t rma_period;       /* dom->period when one was last handed over */
    fab_ofi_exposed_list_t exposed;
    /* why it fails, when all that it sent is delivered: in dom->failing; NULL: it does not */
    struct fab_ofi_failure *failure;
    uint32_t asked_at; /* dom->ticks when HELLO was sent */
    uint64_t deadline; /* us: of what is left to send */

    TAILQ_ENTRY(fab_ofi_ep) sending_link;
    TAILQ_ENTRY(fab_ofi_ep) due_link;
    TAILQ_ENTRY(fab_ofi_ep) asked_link;
    TAILQ_ENTRY(fab_ofi_ep) rma_link;
    LIST_ENTRY(fab_ofi_ep) link; /* in dom->eps or dom->lingering */
    fab_ofi_addr_t addr;
};

/* A failure that waits until all that the peer sent before is delivered. */
typedef struct fab_ofi_failure {
    TAILQ_ENTRY(fab_ofi_failure) link; /* in dom->failing */
    fab_ofi_ep_t *ep;
    int rc;
    bool is_quiet; /* since then the completion queue was empty once */
    char why[384];
} fab_ofi_failure_t;

#endif /* FAB_OFI_EP_H */
