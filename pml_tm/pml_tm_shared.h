/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs of tools/ use as well.
 */
#ifndef PML_TM_SHARED_H
#define PML_TM_SHARED_H

#include "fabric/fab_fit.h"
#include "fabric/fab_help.h"

/*
 * pml_tm_fit.c: was pml tm built for the Open MPI that runs?  To be given to fab_fit_check() before
 * anything of Open MPI is read by an offset in a structure.
 */
extern const fab_fit_t mca_pml_tm_fit;

/* pml_tm_help.c: texts for the user. */
extern const fab_help_topic_t mca_pml_tm_help[];

/*
 * pml_tm_tags.c: a tag in words, "12", "any", or, of those that Open MPI uses for collective
 * operations, "-17 (MPI_Bcast)"; valid until buf goes.
 */
enum { PML_TM_TAG_SIZE = 48 };
const char *mca_pml_tm_tag_text(char buf[PML_TM_TAG_SIZE], int tag);

#endif /* PML_TM_SHARED_H */
