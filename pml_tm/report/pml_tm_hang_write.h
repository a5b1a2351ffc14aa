/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a report of a long wait says, as text and for programs.
 */
#ifndef PML_TM_HANG_WRITE_H
#define PML_TM_HANG_WRITE_H

#include "pml_tm/report/pml_tm_text.h"

/* What is to be printed, and written for programs, when the lock is released. */
typedef struct mca_pml_tm_hang_report {
    mca_pml_tm_text_t text;
    mca_pml_tm_text_t json;
    uint64_t silent; /* the process that the others wait for and that does not answer; or ANY */
} mca_pml_tm_hang_report_t;

/*
 * All answers are here, and the nodes say which processes are stuck (pml_tm_nodes.h).
 * is_by_signal: every process prints.  No text: others report this.  site: where the program calls
 * MPI, or "".  Lock held.
 */
void mca_pml_tm_hang_write(mca_pml_tm_hang_report_t *report, bool is_by_signal, const char *site);

/*
 * A line for a process that does not answer, if it is one of this user on this host: what it shows
 * (fab_look_read.h), and what the kernel says of it.  /proc is searched: lock not held.
 */
void mca_pml_tm_hang_write_silent(mca_pml_tm_text_t *text, uint64_t name);

#endif /* PML_TM_HANG_WRITE_H */
