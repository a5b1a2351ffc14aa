/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control of unexpected messages.
 *
 * A receiver that keeps more than params.unexpected_max bytes of them tells the sender of each
 * further one to hold: it then starts no more user messages, of any length, until half of that
 * memory is free again.  A blocking send waits meanwhile; a non-blocking one stays an open request
 * of its sender, which costs the receiver nothing.
 *
 * MPI lets a receive wait for any message that was sent, however many unwanted ones are ahead of it.
 * So a sender may go on (OPEN) in those communicators in which a receive waits for it, or a probe
 * found nothing, until a message arrives and no receive waits for another (CLOSE).
 *
 *   receiver                                   sender
 *   HOLD                                   ->  user messages are held back, in order
 *   OPEN, tag: a communicator              ->  those in this communicator go on, in order; one longer
 *                                              than an announcement is announced (rendezvous)
 *   CLOSE, tag: a communicator             ->  they are held back again
 *   ALL                                    ->  all go on, and nothing is held back any more
 *
 * Messages with internal tags (collectives) are never held back: no user message can match their
 * receives, and collectives must not wait for receives of the user.  Untagged ones (pml_tm_excid.h)
 * are not either: they come for one round trip only.  Nor is what a process sends to itself: its
 * request would take more memory than the message.  One longer than an announcement is announced.
 *
 * Order: of one communicator's messages those that are queued for room in the fabric are older than
 * those that are held, and no message passes a held one of its communicator.
 *
 * Lock: the fabric's.
 */
#ifndef PML_TM_FLOW_H
#define PML_TM_FLOW_H

#include "pml_tm_comm.h"
#include "pml_tm_peer.h"

/* ---- receiver ----------------------------------------------------------- */

/* One more message is kept although unexpected_max is reached. Lock held. */
void mca_pml_tm_flow_stop(fab_peer_t *peer, fab_hdr_t hdr);

/* There is room again: all go on. Lock held. */
void mca_pml_tm_flow_release(void);

/* Senders that are held back and for which a receive waits go on. Lock held. */
void mca_pml_tm_flow_feed(void);

/* A probe has found nothing: senders that may have what it looks for go on.  Lock held. */
void mca_pml_tm_flow_probe(mca_pml_tm_comm_t *tmc, int32_t source, int32_t tag);

/* ---- sender ------------------------------------------------------------- */

/* Must a send to the peer with this record become a request, since it may have to be held? */
static inline bool mca_pml_tm_flow_is_slow(const mca_pml_tm_peer_t *record)
{
    return record->must_hold || NULL != record->held;
}

/* Hold an initialised request back, if it must be. Lock held. */
bool mca_pml_tm_flow_hold(mca_pml_tm_send_request_t *req);

/* Take back a request that is held; it is in phase PML_TM_HELD. Lock held. */
void mca_pml_tm_flow_unhold(mca_pml_tm_send_request_t *req);

/* Handler of PML_TM_AM_FLOW. */
void mca_pml_tm_flow_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

#endif /* PML_TM_FLOW_H */
