/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for messages of more than 16 KiB, up to 256 KiB, which is used again for later ones.  The
 * C library gives such memory back to the kernel when it is freed, and its pages come back by a
 * fault each, which takes longer than the copy of the message.  So up to 4 MiB are kept.
 */
#ifndef FAB_SPARES_H
#define FAB_SPARES_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric/fab_export.h"

enum { FAB_SPARES_KINDS = 4 };

/*
 * Memory with room for 32, 64, 128 and 256 KiB, linked by its first word.  All zero: none is kept.
 * Lock: the caller's.
 */
typedef struct fab_spares {
    void *first[FAB_SPARES_KINDS];
    size_t bytes; /* that these have room for */
} fab_spares_t;

/*
 * Memory for len bytes and a header of head, which is the same in all calls for these spares, and
 * at least sizeof(void *).  Its owner gives it back by fab_spares_free().  NULL: there is none.
 * *is_reused: it had been given back before.
 */
FAB_EXPORT void *fab_spares_alloc(fab_spares_t *spares, size_t head, size_t len, bool *is_reused);

/* len: as in fab_spares_alloc() */
FAB_EXPORT void fab_spares_free(fab_spares_t *spares, void *memory, size_t len);

/* Free all that is kept. */
FAB_EXPORT void fab_spares_fini(fab_spares_t *spares);

#endif /* FAB_SPARES_H */
