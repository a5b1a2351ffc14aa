/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways is faster, 0 or 1?  The first 16 times way 0 is used: memory that is touched
 * for the first time makes it slow.  Then come rounds, which begin with tries of each way, first of
 * the one that was used before; then the way is used that took less time, or, while a time is
 * missing, the same as before.  Each round is longer than the one before, up to 256 uses; or 4096,
 * but for the first two, if one way is clearly faster: the other one takes half as long again, or
 * more, and its tries cost most.  Who needs an answer sooner begins with fewer uses.
 *
 * Usually a way is tried twice, and its least time counts: a delay (this process or the other one
 * was not running) only makes a time longer, and so do data that the way before left in the cache
 * of another processor.  Where times scatter, and a first one is always long, each way is tried
 * four times, and its second least time counts: the trial is sure.  If two tries of the way that
 * was not used before took twice as long as the other one, there are no more in this round; but in
 * the first one there are, as its first tries may touch new memory.  All zero is a trial that has
 * not begun, and is not sure.
 *
 * A few tries may find memory in a state that steady use does not find: lines that no cache holds,
 * for example, where each use would have to take them from the other processor.  So a change is
 * checked after 32 uses.  If that takes it back, and the trial is sure, there are no tries for 4096
 * uses.
 */
#ifndef FAB_TRIAL_H
#define FAB_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FAB_TRIAL_TRIES = 2, /* of each way */
    FAB_TRIAL_TRIES_SURE = 4,
    FAB_TRIAL_FIRST = 16, /* uses of way 0 before the first round */
    FAB_TRIAL_ROUND_MAX = 256,
    FAB_TRIAL_ROUND_LONG = 4096,
    FAB_TRIAL_ROUND_CHANGED = 32,
};

typedef struct fab_trial {
    uint32_t least[2];  /* of the tries of each way since the round began, ns per MiB */
    uint32_t second[2]; /* the least but one */
    uint16_t turn;      /* uses since the round began */
    uint16_t round;     /* uses in a round; 0: not begun */
    uint8_t rounds;     /* with tries, and this one; 2: that many or more */
    bool is_sure;
    bool is_check;  /* of a change in the round before */
    uint8_t before; /* the way that was used in the round before */
} fab_trial_t;

/* A trial that uses way 0 that often before its first round of tries. */
static inline fab_trial_t fab_trial_begin(unsigned uses, bool is_sure)
{
    return (fab_trial_t){
        .least = {UINT32_MAX, UINT32_MAX},
        .second = {UINT32_MAX, UINT32_MAX},
        .round = (uint16_t) uses,
        .is_sure = is_sure,
    };
}

/* The time of a way that counts, UINT32_MAX: it is not known. */
static inline uint32_t fab_trial_time(const fab_trial_t *trial, unsigned way)
{
    return trial->is_sure ? trial->second[way] : trial->least[way];
}

/* Are the times of both ways known? */
static inline bool fab_trial_knows(const fab_trial_t *trial)
{
    return UINT32_MAX != fab_trial_time(trial, 0) && UINT32_MAX != fab_trial_time(trial, 1);
}

/* The way that took less time. */
static inline unsigned fab_trial_best(const fab_trial_t *trial)
{
    return fab_trial_knows(trial) ? fab_trial_time(trial, 1) < fab_trial_time(trial, 0)
                                  : trial->before;
}

/* Tries of each way in a round. */
static inline unsigned fab_trial_tries(const fab_trial_t *trial)
{
    return trial->is_sure ? FAB_TRIAL_TRIES_SURE : FAB_TRIAL_TRIES;
}

/* Is one way clearly faster?  Only a sure trial knows. */
static inline bool fab_trial_is_clear(const fab_trial_t *trial)
{
    const unsigned best = fab_trial_best(trial);
    const uint64_t less = fab_trial_time(trial, best);
    const uint64_t more = fab_trial_time(trial, !best);

    return trial->is_sure && fab_trial_knows(trial) && 2 * more >= 3 * less;
}

/*
 * A trial for longer messages than the other one.  It begins with the way that is faster for these,
 * and, if that is `lasting`, which does not become slower than the other one as messages become
 * longer, stays with it for a long round.
 */
static inline fab_trial_t fab_trial_after(const fab_trial_t *shorter, unsigned lasting,
                                          bool is_sure)
{
    const unsigned best = fab_trial_best(shorter);
    const bool is_known = 0 != shorter->round && fab_trial_knows(shorter);
    const bool is_long = lasting == best && (is_known || FAB_TRIAL_ROUND_LONG == shorter->round);
    fab_trial_t trial = fab_trial_begin(is_long ? FAB_TRIAL_ROUND_LONG : FAB_TRIAL_FIRST, is_sure);

    trial.before = (uint8_t) best;
    return trial;
}

/* Uses in the round after this one. */
static inline unsigned fab_trial_next_round(const fab_trial_t *trial)
{
    const bool is_long = trial->rounds > 1 && fab_trial_is_clear(trial);
    const unsigned max = is_long ? FAB_TRIAL_ROUND_LONG : FAB_TRIAL_ROUND_MAX;
    const unsigned tries = fab_trial_tries(trial);
    const unsigned round = tries * tries * trial->round;

    return round < max ? round : max;
}

/* Would fab_trial_next() begin a try? */
static inline bool fab_trial_is_due(const fab_trial_t *trial)
{
    return 0 != trial->round && (trial->turn == trial->round ||
                                 (trial->rounds > 0 && trial->turn < 2 * fab_trial_tries(trial)));
}

/* If it would: the way that is tried. */
static inline unsigned fab_trial_due(const fab_trial_t *trial)
{
    if (trial->turn == trial->round) {
        return fab_trial_best(trial);
    }
    return trial->turn < fab_trial_tries(trial) ? trial->before : !trial->before;
}

/* The way to use now.  *is_try: give the time that it takes to fab_trial_note(). */
static inline unsigned fab_trial_next(fab_trial_t *trial, bool *is_try)
{
    unsigned way;

    if (0 == trial->round) {
        *trial = fab_trial_begin(FAB_TRIAL_FIRST, false);
    } else if (trial->turn == trial->round) {
        const fab_trial_t last = *trial;
        *trial = fab_trial_begin(fab_trial_next_round(&last), last.is_sure);
        trial->rounds = 0 == last.rounds ? 1 : 2;
        trial->before = (uint8_t) fab_trial_best(&last);
        trial->is_check = !last.is_check && trial->before != last.before;
    }
    *is_try = fab_trial_is_due(trial);
    way = *is_try ? fab_trial_due(trial) : fab_trial_best(trial);
    if (way != trial->before && trial->turn == 2 * fab_trial_tries(trial)) {
        if (!trial->is_check) {
            trial->round = trial->round < FAB_TRIAL_ROUND_CHANGED ? trial->round
                                                                  : FAB_TRIAL_ROUND_CHANGED;
        } else if (trial->is_sure) {
            trial->round = FAB_TRIAL_ROUND_LONG;
        }
    }
    trial->turn++;
    return way;
}

/* The latest use was a try, of which no time will be noted: it is made again. */
static inline void fab_trial_again(fab_trial_t *trial)
{
    trial->turn--;
}

/* A try of this way took ns nanoseconds for that many bytes, at least 1. */
static inline void fab_trial_note(fab_trial_t *trial, unsigned way, size_t bytes, uint64_t ns)
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
        trial->least[way] / 2 >= fab_trial_time(trial, trial->before) &&
        trial->turn < 2 * fab_trial_tries(trial)) {
        trial->turn = (uint16_t) (2 * fab_trial_tries(trial));
    }
}

#endif /* FAB_TRIAL_H */
