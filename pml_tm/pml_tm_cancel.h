/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Cancel of sends.
 *
 * A send that has not left is taken back here.  If it has left and was not answered, the receiver
 * decides: either the message is matched first, or it is withdrawn.
 *
 *   sender                                      receiver
 *   CANCEL, app_ctx: the send's id, tag: its ->  not matched: takes the message out
 *                                            <-  WITHDRAWN, app_ctx: the send's id
 *                                                matched: nothing, since that was answered or will be
 *
 * So a send gets exactly one answer that completes it: ACK, FIN, CTS or NACK if it was matched,
 * WITHDRAWN if not.  CANCEL needs no more state at the receiver than the message itself.
 *
 * The receiver also sends WITHDRAWN, without a CANCEL, when it frees the communicator with the message
 * unmatched.  If the program then cancels that send, nobody needs to be asked.
 *
 * Lock: the fabric's.
 */
#ifndef PML_TM_CANCEL_H
#define PML_TM_CANCEL_H

#include "pml_tm_comm.h"

/* req_cancel of sends: MPI_Cancel, and Open MPI giving up on a request whose peer failed. */
int mca_pml_tm_cancel_send(ompi_request_t *request, int flag);

/* A message that no receive will match: its sender is told. Lock held. */
void mca_pml_tm_cancel_answer(const mca_pml_tm_msg_t *msg);

/* Handlers of PML_TM_AM_CANCEL and PML_TM_AM_WITHDRAWN. */
void mca_pml_tm_cancel_asked(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len);
void mca_pml_tm_cancel_withdrawn(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                 size_t len);

#endif /* PML_TM_CANCEL_H */
