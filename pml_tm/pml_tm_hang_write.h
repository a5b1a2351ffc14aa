/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a report of a long wait says, as text and for programs.
 */
#ifndef PML_TM_HANG_WRITE_H
#define PML_TM_HANG_WRITE_H

#include "pml_tm_text.h"

/* What is to be printed, and written for programs; NULL: nothing. */
typedef struct mca_pml_tm_hang_report {
    mca_pml_tm_text_t *text;
    mca_pml_tm_json_t *json;
} mca_pml_tm_hang_report_t;

/*
 * All answers are here, and who is stuck is known (pml_tm_nodes.h).  is_by_signal: everybody
 * prints.  Text NULL: others report this.  Lock held.
 */
mca_pml_tm_hang_report_t mca_pml_tm_hang_write(bool is_by_signal);

#endif /* PML_TM_HANG_WRITE_H */
