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
 * lasting place.  So the sender measures both ways, by a trial.  It sees its own part only, and the
 * receiver has more to do if lines are not in a cache: so copies go past the cache only where
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

/* ---- the trial ---------------------------------------------------------- */

/* Are the times of both ways known? */
static inline bool trial_knows(const fab_shm_copies_t *trial)
{
    return UINT32_MAX != trial->second[0] && UINT32_MAX != trial->second[1];
}

/* The way that took less time. */
static inline unsigned trial_best(const fab_shm_copies_t *trial)
{
    return trial_knows(trial) ? trial->second[1] < trial->second[0] : trial->before;
}

/* Is one way clearly faster? */
static inline bool trial_is_clear(const fab_shm_copies_t *trial)
{
    const unsigned best = trial_best(trial);

    return trial_knows(trial) &&
           2 * (uint64_t) trial->second[!best] >= 3 * (uint64_t) trial->second[best];
}

/* The round is over: the next one. */
static inline fab_shm_copies_t trial_next_round(const fab_shm_copies_t *last)
{
    const bool is_long = last->rounds > 1 && trial_is_clear(last);
    const unsigned max = is_long ? FAB_SHM_COPIES_ROUND_LONG : FAB_SHM_COPIES_ROUND_MAX;
    const unsigned uses = FAB_SHM_COPIES_TRIES * FAB_SHM_COPIES_TRIES * last->round;
    fab_shm_copies_t trial = fab_shm_copies_round(uses < max ? uses : max);

    trial.rounds = 0 == last->rounds ? 1 : 2;
    trial.before = (uint8_t) trial_best(last);
    trial.is_check = !last->is_check && trial.before != last->before;
    return trial;
}

/* The way to use now.  *is_try: give the time that it takes to trial_note(). */
static inline unsigned trial_next(fab_shm_copies_t *trial, bool *is_try)
{
    unsigned turn, way;

    if (trial->turn == trial->round) {
        *trial = trial_next_round(trial);
    }
    turn = trial->turn++;
    *is_try = trial->rounds > 0 && turn < 2 * FAB_SHM_COPIES_TRIES;
    if (*is_try) {
        return turn < FAB_SHM_COPIES_TRIES ? trial->before : !trial->before;
    }
    way = trial_best(trial);
    if (way != trial->before && 2 * FAB_SHM_COPIES_TRIES == turn) {
        if (trial->is_check) {
            trial->round = FAB_SHM_COPIES_ROUND_LONG;
        } else if (trial->round > FAB_SHM_COPIES_ROUND_CHANGED) {
            trial->round = FAB_SHM_COPIES_ROUND_CHANGED;
        }
    }
    return way;
}

/* A try of this way took ns nanoseconds for that many bytes, at least 1. */
static inline void trial_note(fab_shm_copies_t *trial, unsigned way, size_t bytes, uint64_t ns)
{
    uint64_t time = (ns < UINT32_MAX ? ns : UINT32_MAX) * 1048576 / bytes;

    time = time < UINT32_MAX ? time : UINT32_MAX - 1; /* slow, but known */
    if (time < trial->least[way]) {
        trial->second[way] = trial->least[way];
        trial->least[way] = (uint32_t) time;
    } else if (time < trial->second[way]) {
        trial->second[way] = (uint32_t) time;
    }
    if (trial->rounds > 1 && way != trial->before && UINT32_MAX != trial->second[way] &&
        trial->least[way] / 2 >= trial->second[trial->before] &&
        trial->turn < 2 * FAB_SHM_COPIES_TRIES) {
        trial->turn = (uint16_t) (2 * FAB_SHM_COPIES_TRIES);
    }
}

/* ---- copies ------------------------------------------------------------- */

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

void fab_shm_copy_in(fab_shm_copies_t *trial, void *to, const void *from, size_t len)
{
    bool is_try;
    const unsigned way = trial_next(trial, &is_try);
    const uint64_t since = is_try ? fab_now_ns() : 0;

    if (0 != way && (is_try || trial_is_clear(trial))) {
        fab_counters.shm_copies_past_cache++;
        copy_past_cache(to, from, len);
    } else {
        fab_copy(to, from, len);
    }
    if (is_try) {
        trial_note(trial, way, len, fab_now_ns() - since);
    }
}

#else /* no such stores: all goes through the cache, and there is no need to measure */

void fab_shm_copy_in(fab_shm_copies_t *trial, void *to, const void *from, size_t len)
{
    (void) trial;
    fab_copy(to, from, len);
}

#endif
