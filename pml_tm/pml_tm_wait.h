/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Wait and MPI_Waitall.
 */
#ifndef PML_TM_WAIT_H
#define PML_TM_WAIT_H

#include "pml_tm.h"

/* Replace Open MPI's functions for MPI_Wait and MPI_Waitall, and restore them. */
void mca_pml_tm_wait_open(void);
void mca_pml_tm_wait_close(void);

#endif /* PML_TM_WAIT_H */
