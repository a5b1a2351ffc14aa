/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI matching rule as a pair of linear lists; see match_ref.h. */
#include "match_ref.h"

#include <assert.h>
#include <string.h>

#define ANY (-1)

/* The rule. */
static bool fits(int32_t msg_source, int32_t msg_tag, int32_t recv_source, int32_t recv_tag)
{
    return (ANY == recv_source || recv_source == msg_source) &&
           (ANY == recv_tag ? msg_tag >= 0 : recv_tag == msg_tag);
}

static void list_add(match_ref_list_t *list, void *id, int32_t source, int32_t tag)
{
    assert(list->count < MATCH_REF_ROOM);
    list->entry[list->count++] = (match_ref_entry_t){.id = id, .source = source, .tag = tag};
}

static void *list_take(match_ref_list_t *list, size_t i)
{
    void *id = list->entry[i].id;

    list->count--;
    memmove(&list->entry[i], &list->entry[i + 1], (list->count - i) * sizeof(*list->entry));
    return id;
}

/* The place of an entry; count if it is not there. */
static size_t list_place(const match_ref_list_t *list, const void *id)
{
    size_t i = 0;

    while (i < list->count && list->entry[i].id != id) {
        i++;
    }
    return i;
}

/* The place of the oldest message that fits; count if there is none. */
static size_t oldest_msg(const match_ref_t *ref, int32_t source, int32_t tag)
{
    size_t i = 0;

    while (i < ref->unexp.count &&
           !fits(ref->unexp.entry[i].source, ref->unexp.entry[i].tag, source, tag)) {
        i++;
    }
    return i;
}

void match_ref_init(match_ref_t *ref)
{
    ref->posted.count = 0;
    ref->unexp.count = 0;
}

void *match_ref_post(match_ref_t *ref, void *recv, int32_t source, int32_t tag)
{
    const size_t i = oldest_msg(ref, source, tag);

    if (i < ref->unexp.count) {
        return list_take(&ref->unexp, i);
    }
    list_add(&ref->posted, recv, source, tag);
    return NULL;
}

void *match_ref_arrive(match_ref_t *ref, int32_t source, int32_t tag)
{
    for (size_t i = 0; i < ref->posted.count; i++) {
        if (fits(source, tag, ref->posted.entry[i].source, ref->posted.entry[i].tag)) {
            return list_take(&ref->posted, i);
        }
    }
    return NULL;
}

void match_ref_add_msg(match_ref_t *ref, void *msg, int32_t source, int32_t tag)
{
    list_add(&ref->unexp, msg, source, tag);
}

void *match_ref_probe(const match_ref_t *ref, int32_t source, int32_t tag)
{
    const size_t i = oldest_msg(ref, source, tag);

    return i < ref->unexp.count ? ref->unexp.entry[i].id : NULL;
}

void match_ref_remove_msg(match_ref_t *ref, void *msg)
{
    list_take(&ref->unexp, list_place(&ref->unexp, msg));
}

bool match_ref_cancel(match_ref_t *ref, void *recv)
{
    const size_t i = list_place(&ref->posted, recv);

    return i < ref->posted.count && list_take(&ref->posted, i) == recv;
}

void *match_ref_first_msg(const match_ref_t *ref)
{
    return ref->unexp.count > 0 ? ref->unexp.entry[0].id : NULL;
}

void *match_ref_first_recv(const match_ref_t *ref)
{
    return ref->posted.count > 0 ? ref->posted.entry[0].id : NULL;
}
