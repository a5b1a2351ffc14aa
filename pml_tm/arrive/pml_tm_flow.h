/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control of unexpected messages.
 *
 * When unexpected messages take more than params.unexpected_max bytes, the receiver sends HOLD to
 * the sender of each further one.  That sender then starts no more user messages, of any length,
 * until half of the memory is free again.  A blocking send waits meanwhile.  A non-blocking one
 * stays an open request of its sender and costs the receiver nothing.
 *
 * MPI allows a receive to wait for any message that was sent, however many unmatched ones are ahead
 * of it.  So the receiver lets a sender go on (OPEN) in communicators where a receive waits for
 * that sender, or a probe found nothing.  When a message arrives and no receive waits for another
 * one, the receiver stops the sender again (CLOSE).
 *
 *   receiver                                   sender
 *   HOLD                                   ->  user messages are held back, in order
 *   OPEN, tag: a communicator              ->  those in this communicator go on, in order; one longer
 *                                              than an announcement is announced (rendezvous)
 *   CLOSE, tag: a communicator             ->  they are held back again
 *   ALL                                    ->  all go on, and nothing is held back any more
 *
 * Messages with internal tags (collectives) are never held back: no user message can match their
 * receives, and collectives must not wait for receives of the user.  Nor are untagged messages
 * (pml_tm_excid.h), which are sent for one round trip only, and messages of a process to itself,
 * whose requests would take more memory than the messages.  A message to itself that is longer than
 * an announcement is announced.
 *
 * Order: within a communicator, messages that are queued for room in the fabric are older than held
 * ones, and no message overtakes a held message.  Messages of different communicators may.  So each
 * communicator has a ring of its own of what is held back for a peer, oldest first; a message looks
 * at the oldest of each at most, and MPI_Cancel, too:
 *
 *      record->held ──> oldest, context A ──held_other──> oldest, context B ──> NULL
 *                          ⇅ held_next, held_prev            ⇅
 *                         ...  newest                       ...
 *
 * Lock: the fabric's.
 */
#ifndef PML_TM_FLOW_H
#define PML_TM_FLOW_H

#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_request.h"

/* ---- receiver ----------------------------------------------------------- */

/* A message was kept although unexpected_max is reached: throttle its sender. Lock held. */
void mca_pml_tm_flow_stop(fab_peer_t *peer, fab_hdr_t hdr);

/* There is memory again: release all senders. Lock held. */
void mca_pml_tm_flow_release(void);

/* Let throttled senders for which a receive waits go on. Lock held. */
void mca_pml_tm_flow_feed(void);

/* A probe has found nothing: let senders that may have a matching message go on. Lock held. */
void mca_pml_tm_flow_probe(mca_pml_tm_comm_t *tmc, int32_t source, int32_t tag);

/* ---- sender ------------------------------------------------------------- */

/* Must a send to this peer have a request, because it may have to be held? */
static inline bool mca_pml_tm_flow_is_slow(const mca_pml_tm_peer_t *record)
{
    return record->must_hold || NULL != record->held;
}

/* Hold an initialised request back, if it must be. Lock held. */
bool mca_pml_tm_flow_hold(mca_pml_tm_send_request_t *req);

/* Take back a request that is held; it is in phase PML_TM_HELD. Lock held. */
void mca_pml_tm_flow_unhold(mca_pml_tm_send_request_t *req);

/* Handler of PML_TM_AM_FLOW. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_flow_told);

#endif /* PML_TM_FLOW_H */
