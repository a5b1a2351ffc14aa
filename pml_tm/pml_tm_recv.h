/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives: functions that the files of the receiving side share.
 */
#ifndef PML_TM_RECV_H
#define PML_TM_RECV_H

#include "pml_tm_comm.h"
#include "pml_tm_request.h"

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

int mca_pml_tm_irecv_init(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                          ompi_communicator_t *comm, ompi_request_t **request);
int mca_pml_tm_irecv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                     ompi_communicator_t *comm, ompi_request_t **request);
int mca_pml_tm_recv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                    ompi_communicator_t *comm, ompi_status_public_t *status);
int mca_pml_tm_cancel(ompi_request_t *request, int flag);
int mca_pml_tm_imrecv(void *buf, size_t count, ompi_datatype_t *datatype, ompi_message_t **message,
                      ompi_request_t **request);
int mca_pml_tm_mrecv(void *buf, size_t count, ompi_datatype_t *datatype, ompi_message_t **message,
                     ompi_status_public_t *status);

#endif /* PML_TM_RECV_H */
