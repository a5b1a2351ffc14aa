/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Was pml tm built for the Open MPI that runs?
 */
#ifndef PML_TM_FIT_H
#define PML_TM_FIT_H

#include "fabric/fab_fit.h"

/*
 * To be given to fab_fit_check() before anything of Open MPI is read by an offset in a structure.
 */
extern const fab_fit_t mca_pml_tm_fit;

#endif /* PML_TM_FIT_H */
