/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that a receiver asked for, though it could read it from the sender's memory.  It comes
 * through the ring, where that is faster, but only while the sender calls MPI.  MPI lets a receive
 * complete even if the sender of a nonblocking send makes no further call.  So if nothing comes
 * from it at all for some time, the receiver reads the data itself, a part at a time:
 *
 *   sender                                   receiver
 *                                        <-  CTS
 *   (does not call MPI)                      reads a part, and looks into the ring: if that is
 *                                            empty, the part is what was to be sent
 *                                        <-  FIN, tag: the receive's id, when it has all
 *   DATA ...                             ->  ignored, as far as it has them
 *   DATA of 0 bytes, tag: STOPPED        ->  no more will come
 *
 * Why the part is right: the sender's program may change its memory when all data is in the ring,
 * not before.  If the ring is empty after the part was read, this had not happened.
 *
 * A sender that had sent all ignores the FIN.  The receive's id stays in use until STOPPED or the
 * last byte comes.
 */
#ifndef PML_TM_ASKED_H
#define PML_TM_ASKED_H

#include "pml_tm_request.h"

/* What is left of a receive that has read its data, but whose id the sender may still name. */
typedef struct mca_pml_tm_taken mca_pml_tm_taken_t;

/*
 * The receive has asked for its data; rma.remote and rma.rkey say where it could read all of the
 * message.  Lock held.
 */
void mca_pml_tm_asked_add(mca_pml_tm_recv_request_t *req);

/* It has is_asked set, and ends.  Lock held. */
void mca_pml_tm_asked_remove(mca_pml_tm_recv_request_t *req);

/* Read for those whose senders have sent nothing for long.  Lock held; mca_pml_tm.asked is set. */
void mca_pml_tm_asked_check(void);

/* A message PML_TM_AM_DATA for what is left of a receive (phase PML_TM_TAKEN).  Lock held. */
void mca_pml_tm_taken_data(mca_pml_tm_core_t *core, fab_hdr_t hdr, size_t len);

/* The peer failed or is closed: nothing more comes of it.  NULL: all peers.  Lock held. */
void mca_pml_tm_asked_drop(const fab_peer_t *peer);

#endif /* PML_TM_ASKED_H */
