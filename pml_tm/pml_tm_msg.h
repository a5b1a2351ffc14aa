/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: arrival from the fabric, and storage until a receive matches them.
 */
#ifndef PML_TM_MSG_H
#define PML_TM_MSG_H

#include "pml_tm_comm.h"

/*
 * An unexpected message (in its communicator's domain), an early message (its communicator does not
 * exist here yet), or a message that a matched probe has taken.  Owner: the domain, the early list,
 * or the ompi_message_t.
 */
struct mca_pml_tm_msg {
    fab_match_msg_t match;
    mca_pml_tm_msg_t *next; /* early list; cache of free ones */
    fab_peer_t *peer;       /* the sender */
    fab_hdr_t hdr;
    size_t len;                              /* bytes of the whole message */
    size_t data_len;                         /* bytes in data */
    char data[] __attribute__((aligned(8))); /* eager: the message; rendezvous: fab_rndv_t, data */
};

static inline mca_pml_tm_msg_t *mca_pml_tm_msg_of(fab_match_msg_t *match)
{
    return (mca_pml_tm_msg_t *) ((char *) match - offsetof(mca_pml_tm_msg_t, match));
}

/* Handlers of FAB_AM_EAGER and FAB_AM_RNDV. */
void mca_pml_tm_msg_eager(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);
void mca_pml_tm_msg_rndv(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

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
 * Match a message before all of it has arrived. *req is its receive, or NULL if there is none, or
 * if a device takes part in matching.  False: the message was malformed and the peer has failed.
 * Lock held.
 */
bool mca_pml_tm_msg_find(fab_peer_t *peer, fab_hdr_t hdr, mca_pml_tm_recv_request_t **req);

/* A message that was gathered in memory is complete: match it or keep it.  Lock held. */
void mca_pml_tm_msg_arrive(mca_pml_tm_msg_t *msg);

/* Give the message to the receive that it matched and release it. Lock held. */
void mca_pml_tm_msg_receive(mca_pml_tm_msg_t *msg, mca_pml_tm_recv_request_t *req);

/*
 * Give the message to a blocking receive of a plain type that has no request, and release it.
 * False: it is longer than size bytes, or not all here, or its sender waits for an answer. Lock
 * held.
 */
bool mca_pml_tm_msg_give(mca_pml_tm_msg_t *msg, void *buf, size_t size,
                         ompi_status_public_t *status);

/* Free it. Lock held. */
void mca_pml_tm_msg_release(mca_pml_tm_msg_t *msg);

/* Move the early messages of a new communicator into its domain. Lock held. */
void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc);

/* Take the early message that the peer sent under this id off its list; NULL: there is none. */
mca_pml_tm_msg_t *mca_pml_tm_msg_take_early(const fab_peer_t *peer, uint32_t id);

/* Free what is left when the component closes. */
void mca_pml_tm_msg_fini(void);

#endif /* PML_TM_MSG_H */
