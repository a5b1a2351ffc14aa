/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reports are written with: a text that grows in memory.  One for people is printed at once,
 * so that mpirun does not mix the lines of several processes.  One for programs is a JSON document,
 * in a file of its own (params.report_file).
 */
#ifndef PML_TM_TEXT_H
#define PML_TM_TEXT_H

#include <stdio.h>

#include "pml_tm/base/pml_tm.h"

typedef struct mca_pml_tm_text {
    FILE *stream; /* to text, which has len bytes when it is closed; NULL: there is none */
    char *text;
    size_t len;
    unsigned lines; /* that may still be added; others are only counted */
    unsigned left_out;
} mca_pml_tm_text_t;

/* Begin a text, which stays where it is.  False: no memory. */
bool mca_pml_tm_text_open(mca_pml_tm_text_t *text, unsigned lines);

/* Add a line; it ends here.  If there is no room for it, it is counted. */
void mca_pml_tm_text_line(mca_pml_tm_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print and free it, if there is one, with the number of lines left out.  Lock not held. */
void mca_pml_tm_text_print(mca_pml_tm_text_t *text);

/*
 * Write it, if there is one, to params.report_file, if that is set, with this behind the name, and
 * free it.  The file gets that name when it is whole.  Lock not held.
 */
void mca_pml_tm_text_write(mca_pml_tm_text_t *text, const char *behind);

#endif /* PML_TM_TEXT_H */
