/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs of tools/ use as well.
 */
#ifndef PML_TM_SHARED_H
#define PML_TM_SHARED_H

#include <stdio.h>

#include "fabric/fab_fit.h"
#include "fabric/fab_help.h"
#include "fabric/fab_look_wire.h"

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

/*
 * What waits, in words: "receive from rank 1, tag 7, up to 8 bytes, row: no message fits"; valid
 * until buf goes.  Without a communicator its name and the bytes are left out.  call: instead of
 * the first word; NULL: none.
 */
enum { PML_TM_WAIT_SIZE = 256 };
const char *mca_pml_tm_wait_text(char buf[PML_TM_WAIT_SIZE], const fab_wait_t *wait,
                                 const char *call);

/* In what a message nearly fits: "tag"; NULL: in nothing. */
const char *mca_pml_tm_near_text(uint8_t near);

/* For programs: a JSON object. */
void mca_pml_tm_wait_json(FILE *file, const fab_wait_t *wait);

/* The members of "NAME": "TEXT", in any encoding: what JSON would have to escape becomes '?'. */
void mca_pml_tm_json_text(FILE *file, const char *name, const char *text);

#endif /* PML_TM_SHARED_H */
