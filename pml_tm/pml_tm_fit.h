/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Was pml tm built for the Open MPI that runs?
 */
#ifndef PML_TM_FIT_H
#define PML_TM_FIT_H

#include <stdbool.h>

/*
 * If not, the user is told, and nothing of Open MPI may be read by an offset in a structure.  To be
 * called before anything is.
 */
bool mca_pml_tm_fits(void);

#endif /* PML_TM_FIT_H */
