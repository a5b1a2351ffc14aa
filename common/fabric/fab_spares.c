/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of long messages that is kept: by the power of two that a message takes at most.
 */
#include "fabric/fab_spares.h"

#include <stdlib.h>

/* Bytes. EXTRA: a message of 2^n bytes and the header of a layer above is of the kind 2^n. */
enum { LEAST = 16384, EXTRA = 256, KEPT_MAX = 4 << 20 };

static size_t room_of(int kind)
{
    return ((size_t) LEAST << (kind + 1)) + EXTRA;
}

/* The index in first[] for this length; -1: it is not kept. */
static int kind_of(size_t len)
{
    int kind = 0;

    while (kind < FAB_SPARES_KINDS && len > room_of(kind)) {
        ++kind;
    }
    return len > LEAST && kind < FAB_SPARES_KINDS ? kind : -1;
}

/* One of this kind that was kept; NULL: there is none. */
static void *take(fab_spares_t *spares, int kind)
{
    void *memory = spares->first[kind];

    if (NULL != memory) {
        spares->first[kind] = *(void **) memory;
        spares->bytes -= room_of(kind);
    }
    return memory;
}

void *fab_spares_alloc(fab_spares_t *spares, size_t head, size_t len, bool *is_reused)
{
    int kind = kind_of(len);
    void *memory = kind < 0 ? NULL : take(spares, kind);

    *is_reused = NULL != memory;
    return *is_reused ? memory : malloc(head + (kind < 0 ? len : room_of(kind)));
}

/* Is there room to keep one more of this kind?  Those of other kinds make way for it. */
static bool has_place(fab_spares_t *spares, int kind)
{
    for (int other = 0; other < FAB_SPARES_KINDS; ++other) {
        while (spares->bytes + room_of(kind) > KEPT_MAX && other != kind &&
               NULL != spares->first[other]) {
            free(take(spares, other));
        }
    }
    return spares->bytes + room_of(kind) <= KEPT_MAX;
}

void fab_spares_free(fab_spares_t *spares, void *memory, size_t len)
{
    int kind = kind_of(len);

    if (kind < 0 || !has_place(spares, kind)) {
        free(memory);
        return;
    }
    *(void **) memory = spares->first[kind];
    spares->first[kind] = memory;
    spares->bytes += room_of(kind);
}

void fab_spares_fini(fab_spares_t *spares)
{
    for (int kind = 0; kind < FAB_SPARES_KINDS; ++kind) {
        while (NULL != spares->first[kind]) {
            free(take(spares, kind));
        }
    }
}
