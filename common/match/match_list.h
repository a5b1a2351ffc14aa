/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings for the matcher and the offload engine: a head, which is not an entry, and entries that
 * each embed a fab_match_list_t.
 */
#ifndef FAB_MATCH_LIST_H
#define FAB_MATCH_LIST_H

#include "match_types.h"

#define container_of(ptr, type, member) ((type *) ((char *) (ptr) -offsetof(type, member)))

static inline void list_init(fab_match_list_t *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool list_is_empty(const fab_match_list_t *list)
{
    return list->next == list;
}

/* Insert before an entry; before the head means at the end. */
static inline void list_insert(fab_match_list_t *before, fab_match_list_t *item)
{
    item->next = before;
    item->prev = before->prev;
    before->prev->next = item;
    before->prev = item;
}

static inline void list_unlink(fab_match_list_t *item)
{
    item->next->prev = item->prev;
    item->prev->next = item->next;
}

#endif /* FAB_MATCH_LIST_H */
