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
#include "session/session.h"

struct fab_ofi_ep {
    fab_peer_t *peer; /* NULL: nothing but messages to send is left of it */
    fab_ofi_domain_t *dom;
    fi_addr_t to; /* FI_ADDR_NOTAVAIL until the first message */
    fab_ses_t ses;

    /* what names the session here, from ASKING or ASKED on, and at the peer */
    uint32_t index;  /* FAB_OFI_NO_INDEX: there is none */
    uint32_t cookie; /* low half of the serial of the own KNOCK, HELLO or WELCOME */
    uint32_t peer_index;
    uint32_t peer_cookie;
    uint64_t nonce;              /* what the peer's next HELLO is to have; 0: none was told */
    uint16_t next_seq;           /* of the next message to the peer */
    uint16_t next_recv;          /* of the next message to be delivered */
    struct fab_ofi_early *early; /* messages that came before one that goes before them */
    uint16_t missing;            /* that one, or the next when it was last looked */
    uint32_t missed_at;          /* dom->ticks when it was first seen to be missing */

    bool is_local;          /* on this host: its pid means something */
    bool is_dropping;       /* it failed, or moves: nothing more is asked for */
    bool is_speechless;     /* there was no memory for one of the provider's own messages */
    bool has_heard;         /* something came since fab_ofi_hear() */
    bool is_asking;         /* CREDIT that asks for an answer has none yet */
    bool is_answer_due;     /* the peer's has none yet */
    uint16_t silences;      /* looks in a row without a word of the peer */
    uint32_t own_under_way; /* own messages of this session that libfabric has not reported */
    uint32_t quiet_at;      /* dom->num_quiet when the path broke */
    void *spare;            /* the fabric's, until it is used: fab_provider_t.spare */

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
    uint32_t asked_at; /* dom->ticks when the last frame was sent */
    uint64_t deadline; /* us: of what is left to send */

    fab_ofi_queued_t sending, due, broken, rma; /* in the domain's queues of these names */
    LIST_ENTRY(fab_ofi_ep) link;                /* in dom->eps or dom->lingering */
    fab_ofi_addr_t addr;
};

/* A HELLO, or KNOCK, that waits: what the session calls a via (session.h). */
struct fab_ofi_via {
    STAILQ_ENTRY(fab_ofi_via) link; /* in dom->again */
    fab_ofi_domain_t *dom;
    uint8_t id;
    fab_ofi_frame_t frame;
};

#endif /* FAB_OFI_EP_H */
