/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry points: what Open MPI calls (the module's table, pml.h), what the fabric calls (handlers of
 * messages, callbacks), and what the parts of this component do when it opens and closes.
 */
#ifndef PML_TM_ENTRY_H
#define PML_TM_ENTRY_H

#include "pml_tm_comm.h"
#include "pml_tm_request.h"

/* ---- pml_tm_module.c ---------------------------------------------------- */

extern mca_pml_base_module_t mca_pml_tm_module;

FAB_FUNCTION(mca_pml_base_module_enable_fn_t, mca_pml_tm_enable);
FAB_FUNCTION(mca_pml_base_module_add_procs_fn_t, mca_pml_tm_add_procs);
FAB_FUNCTION(mca_pml_base_module_del_procs_fn_t, mca_pml_tm_del_procs);
FAB_FUNCTION(mca_pml_base_module_add_comm_fn_t, mca_pml_tm_add_comm);
FAB_FUNCTION(mca_pml_base_module_del_comm_fn_t, mca_pml_tm_del_comm);
FAB_FUNCTION(mca_pml_base_module_start_fn_t, mca_pml_tm_start);

/* Free the communicators that are left when the component closes. */
void mca_pml_tm_comm_fini(void);

/* ---- pml_tm_end.c ------------------------------------------------------- */

/*
 * Before peers are closed: complete what has begun, if their processes take part within
 * params.close_timeout; after that the user is told, once.  No receive may be posted any more.
 * Lock not held.
 */
void mca_pml_tm_end(void);

/* ---- pml_tm_arrive.c ---------------------------------------------------- */

/* Handlers of FAB_AM_NO_TAG, PML_TM_AM_CONTEXT, FAB_AM_EAGER, FAB_AM_RNDV and PML_TM_AM_DATA. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_excid_untagged);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_excid_context);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_eager);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_rndv);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_data);

/* Move the early messages of a new communicator into its domain. Lock held. */
void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc);

/* ---- pml_tm_cancel.c ---------------------------------------------------- */

/* req_cancel of sends: MPI_Cancel, and Open MPI giving up on a request whose peer failed. */
int mca_pml_tm_cancel_send(ompi_request_t *request, int flag);

/* Handlers of PML_TM_AM_CANCEL and PML_TM_AM_WITHDRAWN. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_cancel_asked);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_cancel_withdrawn);

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

/* ---- pml_tm_probe.c, pml_tm_wait.c, pml_tm_dump.c ------------------------- */

FAB_FUNCTION(mca_pml_base_module_iprobe_fn_t, mca_pml_tm_iprobe);
FAB_FUNCTION(mca_pml_base_module_probe_fn_t, mca_pml_tm_probe);
FAB_FUNCTION(mca_pml_base_module_improbe_fn_t, mca_pml_tm_improbe);
FAB_FUNCTION(mca_pml_base_module_mprobe_fn_t, mca_pml_tm_mprobe);

/* Replace Open MPI's functions for MPI_Wait and MPI_Waitall, and restore them. */
void mca_pml_tm_wait_open(void);
void mca_pml_tm_wait_close(void);

/*
 * pml_dump of the module, for debuggers: print the communicator's counts; with verbose > 0 its
 * lists, at most 100 lines; with verbose > 1 those of all communicators.
 */
FAB_FUNCTION(mca_pml_base_module_dump_fn_t, mca_pml_tm_dump);

/* ---- what the fabric and Open MPI report -------------------------------- */

/* Callback of the fabric, under its lock: a peer failed. */
void mca_pml_tm_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);

/*
 * Callback of the fabric, under its lock: a peer has left.  True: a pending request still needs it.
 */
bool mca_pml_tm_peer_left(void *ctx, fab_peer_t *peer);

/* pml_revoke_comm. coll_only: revoke only messages of collectives. */
int mca_pml_tm_revoke_comm(ompi_communicator_t *comm, bool coll_only);

/* ---- pml_tm_thread.c ---------------------------------------------------- */

/* They do nothing unless params.progress_thread is set.  Lock not held. */
int mca_pml_tm_thread_start(void);
void mca_pml_tm_thread_end(void);

/* ---- reports: pml_tm_hang.c, pml_tm_report.c ---------------------------- */

/* Begin to watch, if the parameters ask for it. */
void mca_pml_tm_hang_open(void);
void mca_pml_tm_hang_close(void);

/* How long calls of this process have waited, ns, without the first 20 us or so. Lock held. */
uint64_t mca_pml_tm_hang_waited(void);

/* MPI_COMM_WORLD is about to go. Lock not held. */
void mca_pml_tm_report_end(ompi_communicator_t *world);

/* Handler of PML_TM_AM_REPORT. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_report_told);

#endif /* PML_TM_ENTRY_H */
