/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the program calls: sends, receives, probes, waits, cancels.
 */
#ifndef PML_TM_CALLS_H
#define PML_TM_CALLS_H

#include "pml_tm/request/pml_tm_request.h"

/* ---- pml_tm_send.c ------------------------------------------------------ */

/* Start an initialised request. Lock held; errors come through the request. */
void mca_pml_tm_send_start(mca_pml_tm_send_request_t *req);

/*
 * Start a persistent buffered send: the data goes to the attached buffer, the request is done. Lock
 * not held.
 */
void mca_pml_tm_bsend_start(mca_pml_tm_send_request_t *req);

/*
 * A queued send's turn, with the protocol chosen again. Lock held; OPAL_ERR_RESOURCE_BUSY: no room.
 */
int mca_pml_tm_send_item(fab_item_t *item, fab_peer_t *peer);

FAB_FUNCTION(mca_pml_base_module_isend_init_fn_t, mca_pml_tm_isend_init);
FAB_FUNCTION(mca_pml_base_module_isend_fn_t, mca_pml_tm_isend);
FAB_FUNCTION(mca_pml_base_module_send_fn_t, mca_pml_tm_send);

/* ---- pml_tm_recv.c ------------------------------------------------------ */

/* Post a started request: match an unexpected message, or wait in the domain. Lock held. */
void mca_pml_tm_recv_post(mca_pml_tm_recv_request_t *req);

/*
 * mca_pml_tm_wait() for a receive, without threads.  If no other is posted in its communicator, it
 * waits as a blocking receive does: it looks at the sender's ring first, past the matcher, and no
 * more messages are taken than its own.
 */
void mca_pml_tm_recv_await(mca_pml_tm_recv_request_t *req);

/*
 * For a probe, without threads: if the next message in the ring of src is one that
 * mca_pml_tm_recv() would take, its length and tag.  It stays there, and need not be stored.
 */
bool mca_pml_tm_recv_peek(int src, int tag, ompi_communicator_t *comm, size_t *len, int *found);

FAB_FUNCTION(mca_pml_base_module_irecv_init_fn_t, mca_pml_tm_irecv_init);
FAB_FUNCTION(mca_pml_base_module_irecv_fn_t, mca_pml_tm_irecv);
FAB_FUNCTION(mca_pml_base_module_recv_fn_t, mca_pml_tm_recv);
int mca_pml_tm_cancel(ompi_request_t *request, int flag);
FAB_FUNCTION(mca_pml_base_module_imrecv_fn_t, mca_pml_tm_imrecv);
FAB_FUNCTION(mca_pml_base_module_mrecv_fn_t, mca_pml_tm_mrecv);

/* ---- pml_tm_cancel.c ---------------------------------------------------- */

/* req_cancel of sends: MPI_Cancel, and Open MPI giving up on a request whose peer failed. */
int mca_pml_tm_cancel_send(ompi_request_t *request, int flag);

/* Handlers of PML_TM_AM_CANCEL and PML_TM_AM_WITHDRAWN. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_cancel_asked);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_cancel_withdrawn);

/* ---- pml_tm_probe.c, pml_tm_wait.c -------------------------------------- */

FAB_FUNCTION(mca_pml_base_module_iprobe_fn_t, mca_pml_tm_iprobe);
FAB_FUNCTION(mca_pml_base_module_probe_fn_t, mca_pml_tm_probe);
FAB_FUNCTION(mca_pml_base_module_improbe_fn_t, mca_pml_tm_improbe);
FAB_FUNCTION(mca_pml_base_module_mprobe_fn_t, mca_pml_tm_mprobe);

/* Replace Open MPI's functions for MPI_Wait and MPI_Waitall, and restore them. */
void mca_pml_tm_wait_open(void);
void mca_pml_tm_wait_close(void);

#endif /* PML_TM_CALLS_H */
