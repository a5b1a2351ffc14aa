/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends: what pml_tm_send.c gives to the other files.
 */
#ifndef PML_TM_SEND_H
#define PML_TM_SEND_H

#include "pml_tm_comm.h"
#include "pml_tm_request.h"

/* Start an initialised request. Lock held; errors come through the request. */
void mca_pml_tm_send_start(mca_pml_tm_send_request_t *req);

/*
 * Start a persistent buffered send: the data goes to the attached buffer, the request is done. Lock
 * not held.
 */
void mca_pml_tm_bsend_start(mca_pml_tm_send_request_t *req);

/*
 * A queued send's turn, with the protocol chosen anew. Lock held; OPAL_ERR_RESOURCE_BUSY: no room.
 */
int mca_pml_tm_send_item(fab_item_t *item, fab_peer_t *peer);

int mca_pml_tm_isend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                          int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                          ompi_request_t **request);
int mca_pml_tm_isend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                     mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                     ompi_request_t **request);
int mca_pml_tm_send(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                    mca_pml_base_send_mode_t mode, ompi_communicator_t *comm);

#endif /* PML_TM_SEND_H */
