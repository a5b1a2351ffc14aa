/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into a ring: through the cache, or past it.
 *
 * A sender writes lines that the receiver has read, and must get each from the receiver's cache
 * before it can write it.  Between processors that share a cache this takes 25 to 60 ns a line, and
 * many are under way.  Between others it takes 160 ns and more: 2 GB/s.  A store past the cache
 * (non-temporal) need not get the line: 8 to 10 GB/s between any two processors, since the receiver
 * then reads memory.
 *
 * Nothing says where the other process runs: it may not be bound, and a virtual machine has no
 * lasting place.  So the sender measures both ways (fab_trial.h).  It sees its own part only, and
 * the receiver has more to do if lines are not in a cache: so copies go past the cache only where
 * that is clearly faster, half as fast again or more.  A source that no cache holds, a slow
 * processor or a slow clock make both ways slow, and change nothing.
 */
#include "shm/shm_copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_copy.h"
#include "fabric/fab_counters.h"

#include "shm/shm_wire.h"

#if defined(__SSE2__)

#include <emmintrin.h>

/* The first and last bytes, in lines that are shared with something else, go through the cache. */
static void copy_past_cache(uint8_t *to, const uint8_t *from, size_t len)
{
    size_t head = -(uintptr_t) to & (FAB_SHM_LINE - 1);
    size_t lines = (len - head) / FAB_SHM_LINE;
    size_t tail = len - head - lines * FAB_SHM_LINE;

    memcpy(to, from, head);
    to += head;
    from += head;
    for (size_t i = 0; i < lines; i++) {
        __m128i words[4];
        memcpy(words, from, sizeof(words));
        for (int k = 0; k < 4; k++) {
            _mm_stream_si128((__m128i *) to + k, words[k]);
        }
        to += FAB_SHM_LINE;
        from += FAB_SHM_LINE;
    }
    memcpy(to, from, tail);
    _mm_sfence(); /* such stores are visible only after it before later ones */
}

void fab_shm_copy_in(fab_trial_t *trial, void *to, const void *from, size_t len)
{
    bool is_try;
    const unsigned way = fab_trial_next(trial, &is_try);
    const uint64_t since = is_try ? fab_now_ns() : 0;

    if (0 != way && (is_try || fab_trial_is_clear(trial))) {
        fab_counters.shm_copies_past_cache++;
        copy_past_cache(to, from, len);
    } else {
        fab_copy(to, from, len);
    }
    if (is_try) {
        fab_trial_note(trial, way, len, fab_now_ns() - since);
    }
}

#else /* no such stores: all goes through the cache, and there is no need to measure */

void fab_shm_copy_in(fab_trial_t *trial, void *to, const void *from, size_t len)
{
    (void) trial;
    fab_copy(to, from, len);
}

#endif
