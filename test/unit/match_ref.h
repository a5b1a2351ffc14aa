/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI matching rule as a pair of linear lists, to hold the matcher against.  Plainly right, and
 * slow.
 *
 * Receives and messages are known by the caller's pointers, which are only compared.  FAB_MATCH_ANY
 * is the wildcard.
 */
#ifndef TM_MATCH_REF_H
#define TM_MATCH_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct match_ref_entry {
    void *id;
    int32_t source;
    int32_t tag;
} match_ref_entry_t;

#define MATCH_REF_ROOM 1024

/* Entries oldest first. */
typedef struct match_ref_list {
    match_ref_entry_t entry[MATCH_REF_ROOM];
    size_t count;
} match_ref_list_t;

typedef struct match_ref {
    match_ref_list_t posted;
    match_ref_list_t unexp;
} match_ref_t;

void match_ref_init(match_ref_t *ref);

/* Each as the fab_match_ function of that name. */
void *match_ref_post(match_ref_t *ref, void *recv, int32_t source, int32_t tag);
void *match_ref_arrive(match_ref_t *ref, int32_t source, int32_t tag);
void match_ref_add_msg(match_ref_t *ref, void *msg, int32_t source, int32_t tag);
void *match_ref_probe(const match_ref_t *ref, int32_t source, int32_t tag);
void match_ref_remove_msg(match_ref_t *ref, void *msg);
bool match_ref_cancel(match_ref_t *ref, void *recv);
void *match_ref_first_msg(const match_ref_t *ref);
void *match_ref_first_recv(const match_ref_t *ref);

#endif /* TM_MATCH_REF_H */
