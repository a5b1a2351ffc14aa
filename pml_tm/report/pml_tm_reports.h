/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits in this process, for debuggers; reports of long waits and at the end of the job.
 */
#ifndef PML_TM_REPORTS_H
#define PML_TM_REPORTS_H

#include "pml_tm/base/pml_tm.h"

/* ---- pml_tm_state.c ----------------------------------------------------- */

/*
 * pml_dump of the module, for debuggers: print the communicator's counts; with verbose > 0 its
 * lists, at most 100 lines; with verbose > 1 those of all communicators.
 */
FAB_FUNCTION(mca_pml_base_module_dump_fn_t, mca_pml_tm_dump);

/* ---- pml_tm_hang.c, pml_tm_report.c ------------------------------------- */

/* Begin to watch, if the parameters ask for it. */
void mca_pml_tm_hang_open(void);
void mca_pml_tm_hang_close(void);

/* How long calls of this process have waited, ns, without the first 20 us or so. Lock held. */
uint64_t mca_pml_tm_hang_waited(void);

/* MPI_COMM_WORLD is about to go. Lock not held. */
void mca_pml_tm_report_end(ompi_communicator_t *world);

/* Handler of PML_TM_AM_REPORT. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_report_told);

#endif /* PML_TM_REPORTS_H */
