/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: from a message to its receive, or to the unexpected messages.
 */
#ifndef PML_TM_MATCH_H
#define PML_TM_MATCH_H

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/request/pml_tm_request.h"

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

#endif /* PML_TM_MATCH_H */
