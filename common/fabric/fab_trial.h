/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways is faster, 0 or 1?  The first 16 times way 0 is used: memory that is touched
 * for the first time makes it slow.  Then come rounds, which begin with four tries of each way,
 * first of the one that was used before; then the way is used that took less time, or, while a time
 * is missing, the same as before.  Each round is longer than the one before, up to 256 uses; or
 * 4096, but for the first two, if one way is clearly faster: the other one takes half as long
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
#ifndef FAB_TRIAL_H
#define FAB_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FAB_TRIAL_TRIES = 4,  /* of each way */
    FAB_TRIAL_FIRST = 16, /* uses of way 0 before the first round */
    FAB_TRIAL_ROUND_MAX = 256,
    FAB_TRIAL_ROUND_LONG = 4096,
    FAB_TRIAL_ROUND_CHANGED = 32,
};

typedef struct fab_trial {
    uint32_t least[2];  /* of the tries of each way since the round began, ns per MiB */
    uint32_t second[2]; /* the least but one, which counts; UINT32_MAX: not known */
    uint16_t turn;      /* uses since the round began */
    uint16_t round;     /* uses in a round */
    uint8_t rounds;     /* with tries, and this one; 2: that many or more */
    bool is_check;      /* of a change in the round before */
    uint8_t before;     /* the way that was used in the round before */
} fab_trial_t;

/* A round of that many uses. */
static inline fab_trial_t fab_trial_round(unsigned uses)
{
    return (fab_trial_t){
        .least = {UINT32_MAX, UINT32_MAX},
        .second = {UINT32_MAX, UINT32_MAX},
        .round = (uint16_t) uses,
    };
}

static inline fab_trial_t fab_trial_begin(void)
{
    return fab_trial_round(FAB_TRIAL_FIRST);
}

/* Are the times of both ways known? */
static inline bool fab_trial_knows(const fab_trial_t *trial)
{
    return UINT32_MAX != trial->second[0] && UINT32_MAX != trial->second[1];
}

/* The way that took less time. */
static inline unsigned fab_trial_best(const fab_trial_t *trial)
{
    return fab_trial_knows(trial) ? trial->second[1] < trial->second[0] : trial->before;
}

/* Is one way clearly faster? */
static inline bool fab_trial_is_clear(const fab_trial_t *trial)
{
    const unsigned best = fab_trial_best(trial);

    return fab_trial_knows(trial) &&
           2 * (uint64_t) trial->second[!best] >= 3 * (uint64_t) trial->second[best];
}

/* The round is over: the next one. */
static inline fab_trial_t fab_trial_next_round(const fab_trial_t *last)
{
    const bool is_long = last->rounds > 1 && fab_trial_is_clear(last);
    const unsigned max = is_long ? FAB_TRIAL_ROUND_LONG : FAB_TRIAL_ROUND_MAX;
    const unsigned uses = FAB_TRIAL_TRIES * FAB_TRIAL_TRIES * last->round;
    fab_trial_t trial = fab_trial_round(uses < max ? uses : max);

    trial.rounds = 0 == last->rounds ? 1 : 2;
    trial.before = (uint8_t) fab_trial_best(last);
    trial.is_check = !last->is_check && trial.before != last->before;
    return trial;
}

/* The way to use now.  *is_try: give the time that it takes to fab_trial_note(). */
static inline unsigned fab_trial_next(fab_trial_t *trial, bool *is_try)
{
    unsigned turn, way;

    if (trial->turn == trial->round) {
        *trial = fab_trial_next_round(trial);
    }
    turn = trial->turn++;
    *is_try = trial->rounds > 0 && turn < 2 * FAB_TRIAL_TRIES;
    if (*is_try) {
        return turn < FAB_TRIAL_TRIES ? trial->before : !trial->before;
    }
    way = fab_trial_best(trial);
    if (way != trial->before && 2 * FAB_TRIAL_TRIES == turn) {
        if (trial->is_check) {
            trial->round = FAB_TRIAL_ROUND_LONG;
        } else if (trial->round > FAB_TRIAL_ROUND_CHANGED) {
            trial->round = FAB_TRIAL_ROUND_CHANGED;
        }
    }
    return way;
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
        trial->least[way] / 2 >= trial->second[trial->before] &&
        trial->turn < 2 * FAB_TRIAL_TRIES) {
        trial->turn = (uint16_t) (2 * FAB_TRIAL_TRIES);
    }
}

#endif /* FAB_TRIAL_H */
