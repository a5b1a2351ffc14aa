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
 * lasting place.  So the sender measures.  After a slow copy it makes one past the cache, after a
 * second slow one 3, and so on up to 255, and tries the ring again in between.
 */
#include "fabric/fab_clock.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_params.h"
#include "shm/shm_types.h"

#if defined(__SSE2__)

#include <emmintrin.h>

enum {
    TIMED_EVERY = 8, /* of the copies through the cache, while the ring is not slow */
    PAST_MAX = 255,
};

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

void fab_shm_copy_in(fab_shm_pace_t *pace, void *to, const void *from, size_t len)
{
    uint64_t start;

    if (0 != pace->past) {
        --pace->past;
        fab_counters.shm_copies_past_cache++;
        copy_past_cache(to, from, len);
        return;
    }
    if (0 == pace->last && 0 != ++pace->untimed % TIMED_EVERY) {
        fab_copy(to, from, len);
        return;
    }
    start = fab_now_ns();
    fab_copy(to, from, len);
    if (len * 1000 < (fab_now_ns() - start) * fab_params.shm_slow_rate) {
        pace->last = pace->last < PAST_MAX ? (uint16_t) (2 * pace->last + 1) : pace->last;
        pace->past = pace->last;
    } else {
        pace->last /= 2;
    }
}

#else /* no such stores: all goes through the cache, and there is no need to measure */

void fab_shm_copy_in(fab_shm_pace_t *pace, void *to, const void *from, size_t len)
{
    (void) pace;
    fab_copy(to, from, len);
}

#endif
