/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Cancel of sends.
 *
 * A send that has not left is cancelled locally.  If it has left and was not answered, the receiver
 * decides: either the message was matched first, or the receiver withdraws it.
 *
 *   sender                                      receiver
 *   CANCEL, app_ctx: the send's id, tag: its ->  not matched: removes the message
 *                                            <-  WITHDRAWN, app_ctx: the send's id
 *                                                matched: nothing, since the match is answered anyway
 *
 * So a send gets exactly one answer that completes it: ACK, FIN, CTS or NACK if it was matched,
 * WITHDRAWN if not.  CANCEL needs no more state at the receiver than the message itself.
 *
 * The receiver also sends WITHDRAWN, without a CANCEL, when it frees the communicator with the
 * message unmatched.  If the program then cancels that send, no CANCEL is needed.
 *
 * Lock: the fabric's.
 */
#ifndef PML_TM_CANCEL_H
#define PML_TM_CANCEL_H

#include "pml_tm_comm.h"

/* req_cancel of sends: MPI_Cancel, and Open MPI giving up on a request whose peer failed. */
int mca_pml_tm_cancel_send(ompi_request_t *request, int flag);

/* Handlers of PML_TM_AM_CANCEL and PML_TM_AM_WITHDRAWN. */
void mca_pml_tm_cancel_asked(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len);
void mca_pml_tm_cancel_withdrawn(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                 size_t len);

#endif /* PML_TM_CANCEL_H */
