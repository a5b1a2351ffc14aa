/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reports are written with.  Text for people: lines that are gathered and then printed at
 * once, so that mpirun does not mix the lines of several processes; and names for tags.
 * For programs: one JSON document in a file of its own (params.report_file).
 */
#ifndef PML_TM_TEXT_H
#define PML_TM_TEXT_H

#include <stdio.h>

#include "pml_tm.h"

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

/* The source of a receive, "any" or a number; valid until buf goes. */
const char *mca_pml_tm_text_source(char buf[PML_TM_TAG_SIZE], int source);

/* ---- for programs -------------------------------------------------------- */

typedef struct mca_pml_tm_json {
    FILE *stream; /* to text, which has len bytes when it is closed */
    char *text;
    size_t len;
    bool is_first; /* no member or element yet of the object or array that is open */
} mca_pml_tm_json_t;

/* An object that is open; NULL: nobody wants a file, or there is no memory. */
mca_pml_tm_json_t *mca_pml_tm_json_new(void);

/* Open and close an object ("{}") or array ("[]").  name NULL: in an array. */
void mca_pml_tm_json_open(mca_pml_tm_json_t *json, const char *name, const char *brackets);
void mca_pml_tm_json_close(mca_pml_tm_json_t *json, const char *brackets);

void mca_pml_tm_json_number(mca_pml_tm_json_t *json, const char *name, long long number);
void mca_pml_tm_json_seconds(mca_pml_tm_json_t *json, const char *name, uint64_t ms);

/* A text in any encoding: what is not ASCII becomes '?'. */
void mca_pml_tm_json_text(mca_pml_tm_json_t *json, const char *name, const char *text);

/*
 * Close the first object and write the document to params.report_file, with this behind it.  It
 * gets that name when it is whole.  Frees it.
 */
void mca_pml_tm_json_write(mca_pml_tm_json_t *json, const char *behind);

#endif /* PML_TM_TEXT_H */
