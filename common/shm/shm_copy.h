/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into a ring: through the cache, or past it.
 */
#ifndef FAB_SHM_COPY_H
#define FAB_SHM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_export.h"

enum {
    FAB_SHM_COPIES_TRIES = 4,  /* of each way */
    FAB_SHM_COPIES_FIRST = 16, /* uses of way 0 before the first round */
    FAB_SHM_COPIES_ROUND_MAX = 256,
    FAB_SHM_COPIES_ROUND_LONG = 4096,
    FAB_SHM_COPIES_ROUND_CHANGED = 32,
};

/*
 * A trial: which of two ways is faster, 0 or 1?  The first 16 times way 0 is used: memory that is
 * touched for the first time makes it slow.  Then come rounds, which begin with four tries of each
 * way, first of the one that was used before; then the way is used that took less time, or, while a
 * time is missing, the same as before.  Each round is longer than the one before, up to 256 uses;
 * or 4096, but for the first two, if one way is clearly faster: the other one takes half as long
 * again, or more, and its tries cost most.
 *
 * Each way is rated by its second-shortest try. One short time may be chance. Long ones say little:
 * a delay (this process or the other one was not running) makes a time longer, and so do data that
 * the way before left in the cache of another processor.  If two tries of the way that was not used
 * before took twice as long as the other one, there are no more in this round; but in the first one
 * there are, as its first tries may touch new memory.
 *
 * A few tries may find memory in a state that steady use does not find: lines that no cache holds,
 * for example, where each use would have to take them from the other processor.  So a change is
 * checked after 32 uses.  If that takes it back, there are no tries for 4096 uses.
 */
typedef struct fab_shm_copies {
    uint32_t least[2];  /* of the tries of each way since the round began, ns per MiB */
    uint32_t second[2]; /* the least but one, which counts; UINT32_MAX: not known */
    uint16_t turn;      /* uses since the round began */
    uint16_t round;     /* uses in a round */
    uint8_t rounds;     /* with tries, and this one; 2: that many or more */
    bool is_check;      /* of a change in the round before */
    uint8_t before;     /* the way that was used in the round before */
} fab_shm_copies_t;

/* A round of that many uses. */
static inline fab_shm_copies_t fab_shm_copies_round(unsigned uses)
{
    return (fab_shm_copies_t){
        .least = {UINT32_MAX, UINT32_MAX},
        .second = {UINT32_MAX, UINT32_MAX},
        .round = (uint16_t) uses,
    };
}

static inline fab_shm_copies_t fab_shm_copies_begin(void)
{
    return fab_shm_copies_round(FAB_SHM_COPIES_FIRST);
}

enum { FAB_SHM_PAST_MIN = 2048 }; /* bytes; shorter copies are as fast through the cache */

/*
 * fab_copy() of at least FAB_SHM_PAST_MIN bytes into a ring, or as much past the cache.  trial: of
 * this ring; way 1 is past the cache.
 */
FAB_EXPORT void fab_shm_copy_in(fab_shm_copies_t *trial, void *to, const void *from, size_t len);

#endif /* FAB_SHM_COPY_H */
