/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for people: lines that are gathered and then printed at once, so that mpirun does not mix
 * the lines of several processes; and names for what they are about.
 */
#ifndef PML_TM_TEXT_H
#define PML_TM_TEXT_H

#include "pml_tm.h"

enum { PML_TM_TEXT_SIZE = 24 << 10 }; /* bytes: room for 200 lines */

typedef struct mca_pml_tm_text {
    size_t len;     /* bytes in buf, without the 0 at its end */
    unsigned lines; /* that may still be added; others are only counted */
    unsigned left_out;
    char buf[PML_TM_TEXT_SIZE];
} mca_pml_tm_text_t;

/* An empty text; NULL: no memory.  Free it with free(). */
mca_pml_tm_text_t *mca_pml_tm_text_new(unsigned lines);

/* Add a line; it ends here.  If there is no room for it, it is counted. */
void mca_pml_tm_text_line(mca_pml_tm_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print and free it, with the number of lines that were left out. Lock not held. */
void mca_pml_tm_text_print(mca_pml_tm_text_t *text);

/* Names for a source or tag of a receive, "any" or a number; valid until buf goes. */
enum { PML_TM_NAME_SIZE = 48 };
const char *mca_pml_tm_text_source(char buf[PML_TM_NAME_SIZE], int source);
/* Tags of Open MPI's collective operations are named. */
const char *mca_pml_tm_text_tag(char buf[PML_TM_NAME_SIZE], int tag);

#endif /* PML_TM_TEXT_H */
