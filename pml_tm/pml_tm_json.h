/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report for programs: one JSON document in a file of its own (params.report_file).
 */
#ifndef PML_TM_JSON_H
#define PML_TM_JSON_H

#include <stdio.h>

#include "pml_tm.h"

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

#endif /* PML_TM_JSON_H */
