/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread: the functions do nothing unless params.progress_thread is set.  Lock not
 * held.
 */
#ifndef PML_TM_THREAD_H
#define PML_TM_THREAD_H

#include "pml_tm.h"

/* Make Open MPI use locks, before the fabric is opened. */
void mca_pml_tm_thread_announce(void);
int mca_pml_tm_thread_start(void);
void mca_pml_tm_thread_end(void);

#endif /* PML_TM_THREAD_H */
