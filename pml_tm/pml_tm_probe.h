/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probe and matched probe: entry points of the module (pml.h).
 */
#ifndef PML_TM_PROBE_H
#define PML_TM_PROBE_H

#include "pml_tm.h"

int mca_pml_tm_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                      ompi_status_public_t *status);
int mca_pml_tm_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status);
int mca_pml_tm_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                       ompi_message_t **message, ompi_status_public_t *status);
int mca_pml_tm_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                      ompi_status_public_t *status);

#endif /* PML_TM_PROBE_H */
