/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages, until a receive has them: matched, or kept until a receive matches them.
 */
#ifndef PML_TM_MSG_H
#define PML_TM_MSG_H

#include "fabric/fab_copy.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/peer/pml_tm_comm.h"

/*
 * An unexpected message (in its communicator's domain), an early message (its communicator does not
 * exist here yet), or a message that a matched probe has taken.  Owner: the domain, that of early
 * messages, or the ompi_message_t.
 */
struct mca_pml_tm_msg {
    fab_match_msg_t match;
    mca_pml_tm_msg_t *next; /* cache of free ones; a list of a moment */
    fab_peer_t *peer;       /* the sender */
    fab_hdr_t hdr;
    size_t len;                              /* bytes of the whole message */
    size_t data_len;                         /* bytes in data */
    char data[] __attribute__((aligned(8))); /* eager: the message; rendezvous: fab_rndv_t, data */
};

static inline mca_pml_tm_msg_t *mca_pml_tm_msg_of(fab_match_msg_t *match)
{
    return FAB_CONTAINER_OF(match, mca_pml_tm_msg_t, match);
}

/*
 * Keep an untagged message for a communicator that does not exist here yet. data has len bytes and
 * begins with the prefix, which was checked.  Lock held.
 */
void mca_pml_tm_msg_early_untagged(fab_peer_t *peer, fab_hdr_t hdr,
                                   const mca_pml_tm_untagged_t *prefix, const void *data,
                                   size_t len);

/*
 * Store a message of len bytes, with room for data_len bytes of data, `here` of which are copied
 * now.  Its memory counts as used.  If memory runs out the message would be lost, so the job ends.
 * Lock held.
 */
mca_pml_tm_msg_t *mca_pml_tm_msg_keep(fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                      size_t here, size_t data_len, size_t len);

/* Set memory aside for the next function. */
void mca_pml_tm_msg_init(void);

/* There is no memory for an arrived message: end the job. */
void mca_pml_tm_msg_no_memory(size_t bytes);

/*
 * Give the message to a blocking receive of a plain type that has no request, and release it.
 * False: it is longer than size bytes, or not all here, or its sender waits for an answer. Lock
 * held.
 */
bool mca_pml_tm_msg_give(mca_pml_tm_msg_t *msg, void *buf, size_t size,
                         ompi_status_public_t *status);

/* Free it. Lock held. */
void mca_pml_tm_msg_release(mca_pml_tm_msg_t *msg);

/*
 * As fab_match_withdraw(), of the early messages with this tag, or untagged, and under the id that
 * is hdr.app_ctx.  Lock held.
 */
fab_match_msg_t *mca_pml_tm_msg_take_early(fab_hdr_t hdr, bool is_untagged, fab_match_is_fn_t is_it,
                                           const void *ctx);

/* Take the oldest early message with this context id, or the oldest untagged one.  Lock held. */
mca_pml_tm_msg_t *mca_pml_tm_msg_next_early(uint32_t context, bool is_untagged);

/* Drop a message that no receive will match, and tell its sender.  Lock held. */
void mca_pml_tm_msg_withdraw(mca_pml_tm_msg_t *msg);

/*
 * Drop all messages of a domain, that of a communicator or of early ones; is_told: and tell their
 * senders.  Lock held.
 */
void mca_pml_tm_msg_drop(fab_match_dom_t *dom, bool is_told);

/* Free what is left when the component closes. */
void mca_pml_tm_msg_fini(void);

/* Bytes that the record of a short message has room for. */
enum { PML_TM_MSG_SHORT = 64 };

_Static_assert(FAB_COPY_SHORT_MAX <= PML_TM_MSG_SHORT, "a short message fits one of these");

/* The memory that it takes, bytes. */
static inline size_t mca_pml_tm_msg_bytes(const mca_pml_tm_msg_t *msg)
{
    return sizeof(*msg) + (msg->data_len > PML_TM_MSG_SHORT ? msg->data_len : PML_TM_MSG_SHORT);
}

/* It takes memory from now on. */
static inline void mca_pml_tm_msg_count(const mca_pml_tm_msg_t *msg)
{
    mca_pml_tm.unexpected_bytes += mca_pml_tm_msg_bytes(msg);
    if (OPAL_UNLIKELY(mca_pml_tm.unexpected_bytes > mca_pml_tm.params.unexpected_max)) {
        mca_pml_tm_flow_stop(msg->peer, msg->hdr);
    }
}

/* The rank of its sender. */
static inline int32_t mca_pml_tm_msg_source(fab_hdr_t hdr)
{
    return mca_pml_tm_tag_source(hdr.tag, mca_pml_tm.source_bits);
}

/* Add it to the early messages. Lock held. */
void mca_pml_tm_msg_add_early(mca_pml_tm_msg_t *msg);

/* ---- matching ----------------------------------------------------------- */

/*
 * Match a message before all of it has arrived. *req is its receive, or NULL if there is none, or
 * if a device takes part in matching.  False: the message was malformed and the peer has failed.
 * Lock held.
 */
bool mca_pml_tm_msg_find(fab_peer_t *peer, fab_hdr_t hdr, mca_pml_tm_recv_request_t **req);

/* A message that was gathered in memory is complete: match it or keep it.  Lock held. */
void mca_pml_tm_msg_arrive(mca_pml_tm_msg_t *msg);

/* Give the message to the receive that it matched and release it. Lock held. */
void mca_pml_tm_msg_receive(mca_pml_tm_msg_t *msg, mca_pml_tm_recv_request_t *req);

/* Is the source the sender's rank in this communicator, and is the tag legal for a send? */
static inline bool mca_pml_tm_match_is_valid(mca_pml_tm_comm_t *tmc, fab_peer_t *peer,
                                             fab_hdr_t hdr)
{
    return mca_pml_tm_comm_is_sender(tmc, peer, mca_pml_tm_msg_source(hdr)) &&
           OMPI_ANY_TAG != mca_pml_tm_tag_tag(hdr.tag);
}

/*
 * Find the receive for a message.  NULL: there is none.  Then the message must be kept, unless
 * *is_bad; *tmc is its communicator, or NULL if the message is early.
 */
mca_pml_tm_recv_request_t *mca_pml_tm_match_msg(fab_peer_t *peer, fab_hdr_t hdr,
                                                mca_pml_tm_comm_t **tmc, bool *is_bad);

/* Keep a message in its communicator; tmc NULL: among the early ones. Lock held. */
void mca_pml_tm_match_store(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                            const void *data, size_t data_len, size_t len);

/* Add it to the unexpected messages. Lock held. */
void mca_pml_tm_match_unexpected(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg);

/* ---- pml_tm_arrive.c ---------------------------------------------------- */

/* Handlers of FAB_AM_NO_TAG, PML_TM_AM_CONTEXT, FAB_AM_EAGER, FAB_AM_RNDV and PML_TM_AM_DATA. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_excid_untagged);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_excid_context);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_eager);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_rndv);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_data);

/* Move the early messages of a new communicator into its domain. Lock held. */
void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc);

#endif /* PML_TM_MSG_H */
