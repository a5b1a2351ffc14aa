/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that does not answer, since it does not call MPI: what it shows by shared memory
 * (fab_look_read.h), and what the kernel says of it.  Only of one of this user on this host.
 */
#ifndef PML_TM_OUTSIDE_H
#define PML_TM_OUTSIDE_H

#include "pml_tm_text.h"

/* Add a line on the process with this name, if something is known. */
void mca_pml_tm_outside_line(mca_pml_tm_text_t *text, uint64_t name);

#endif /* PML_TM_OUTSIDE_H */
