/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: what Open MPI calls (pml.h).
 */
#ifndef PML_TM_MODULE_H
#define PML_TM_MODULE_H

#include "pml_tm.h"

extern mca_pml_base_module_t mca_pml_tm_module;

int mca_pml_tm_enable(bool enable);

int mca_pml_tm_add_procs(ompi_proc_t **procs, size_t nprocs);
int mca_pml_tm_del_procs(ompi_proc_t **procs, size_t nprocs);
int mca_pml_tm_add_comm(ompi_communicator_t *comm);
int mca_pml_tm_del_comm(ompi_communicator_t *comm);
int mca_pml_tm_start(size_t count, ompi_request_t **requests);

/* Print the table of paths to the peers if params.verbose asks for it. */
void mca_pml_tm_show_paths(void);

/* Free what is left when the component closes. */
void mca_pml_tm_comm_fini(void);

#endif /* PML_TM_MODULE_H */
