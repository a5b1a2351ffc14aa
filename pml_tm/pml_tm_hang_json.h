/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report of a long wait, for programs.
 */
#ifndef PML_TM_HANG_JSON_H
#define PML_TM_HANG_JSON_H

#include "pml_tm_json.h"

/*
 * All processes that were asked, and what they wait for; the first is this one.  kind: "circle", or
 * what else was found; length: of the circle.  NULL: there is no params.report_file, or no memory.
 * Lock held.
 */
mca_pml_tm_json_t *mca_pml_tm_hang_json(const char *kind, int length);

#endif /* PML_TM_HANG_JSON_H */
