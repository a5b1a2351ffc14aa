/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reports are written with.  Text for people: lines that are gathered and then printed at
 * once, so that mpirun does not mix the lines of several processes; and names for tags.
 * For programs: one JSON document in a file of its own (params.report_file).
 */
#ifndef PML_TM_TEXT_H
#define PML_TM_TEXT_H

#include <stdio.h>

#include "pml_tm/base/pml_tm.h"

/* ---- for people ---------------------------------------------------------- */

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

/* ---- for programs -------------------------------------------------------- */

typedef struct mca_pml_tm_json {
    FILE *stream; /* to text, which has len bytes when it is closed; NULL: no memory */
    char *text;
    size_t len;
} mca_pml_tm_json_t;

/* Begin a document, which stays where it is.  False: no memory. */
bool mca_pml_tm_json_open(mca_pml_tm_json_t *json);

/*
 * Write the document to params.report_file, if there is one, with this behind it, and free it.  The
 * file gets that name when it is whole.  Lock not held.
 */
void mca_pml_tm_json_write(mca_pml_tm_json_t *json, const char *behind);

#endif /* PML_TM_TEXT_H */
