/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways is faster, 0 or 1?  The first 16 times way 0 is used: memory that is touched
 * for the first time makes it slow.  Then come rounds, which begin with tries of each way, one way
 * after the other; then the way is used that took less time, or, while a time is missing, the same
 * as before.  Each round is longer than the one before, up to 256 uses; or 4096 if one way took
 * half as long again as the other, or more, since tries of that one cost most.  Who needs an answer
 * sooner begins with fewer uses.
 *
 * Usually a way is tried twice, and its least time counts: a delay (this process or the other one
 * was not running) only makes a time longer, and so do data that the way before left in the cache
 * of another processor.  Where times scatter, and a first one is always long, each way is tried
 * four times, and its second least time counts: the trial is sure.  All zero is a trial that has
 * not begun, and is not sure.
 */
#ifndef PML_TM_TRIAL_H
#define PML_TM_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PML_TM_TRIAL_TRIES = 2, /* of each way */
    PML_TM_TRIAL_TRIES_SURE = 4,
    PML_TM_TRIAL_FIRST = 16, /* uses of way 0 before the first round */
    PML_TM_TRIAL_ROUND_MAX = 256,
    PML_TM_TRIAL_ROUND_CLEAR = 4096,
};

typedef struct mca_pml_tm_trial {
    uint32_t least[2];  /* of the tries of each way since the round began, ns per MiB */
    uint32_t second[2]; /* the least but one */
    uint16_t turn;      /* uses since the round began */
    uint16_t round;     /* uses in a round; 0: not begun */
    bool has_tries;     /* it is a round with tries */
    bool is_sure;
    uint8_t before; /* the way that was used in the round before */
} mca_pml_tm_trial_t;

/* A trial that uses way 0 that often before its first round of tries. */
static inline mca_pml_tm_trial_t mca_pml_tm_trial_begin(unsigned uses, bool is_sure)
{
    return (mca_pml_tm_trial_t){
        .least = {UINT32_MAX, UINT32_MAX},
        .second = {UINT32_MAX, UINT32_MAX},
        .round = (uint16_t) uses,
        .is_sure = is_sure,
    };
}

/* The time of a way that counts, UINT32_MAX: it is not known. */
static inline uint32_t mca_pml_tm_trial_time(const mca_pml_tm_trial_t *trial, unsigned way)
{
    return trial->is_sure ? trial->second[way] : trial->least[way];
}

/* Are the times of both ways known? */
static inline bool mca_pml_tm_trial_knows(const mca_pml_tm_trial_t *trial)
{
    return UINT32_MAX != mca_pml_tm_trial_time(trial, 0) &&
           UINT32_MAX != mca_pml_tm_trial_time(trial, 1);
}

/* The way that took less time. */
static inline unsigned mca_pml_tm_trial_best(const mca_pml_tm_trial_t *trial)
{
    return mca_pml_tm_trial_knows(trial)
               ? mca_pml_tm_trial_time(trial, 1) < mca_pml_tm_trial_time(trial, 0)
               : trial->before;
}

/* Tries of each way in a round. */
static inline unsigned mca_pml_tm_trial_tries(const mca_pml_tm_trial_t *trial)
{
    return trial->is_sure ? PML_TM_TRIAL_TRIES_SURE : PML_TM_TRIAL_TRIES;
}

/* Uses in the round after this one. */
static inline unsigned mca_pml_tm_trial_next_round(const mca_pml_tm_trial_t *trial)
{
    const unsigned best = mca_pml_tm_trial_best(trial);
    const uint64_t less = mca_pml_tm_trial_time(trial, best);
    const uint64_t more = mca_pml_tm_trial_time(trial, !best);
    const bool is_clear = trial->is_sure && mca_pml_tm_trial_knows(trial) && 2 * more >= 3 * less;
    const unsigned max = is_clear ? PML_TM_TRIAL_ROUND_CLEAR : PML_TM_TRIAL_ROUND_MAX;
    const unsigned tries = mca_pml_tm_trial_tries(trial);
    const unsigned round = tries * tries * trial->round;

    return round < max ? round : max;
}

/* Would mca_pml_tm_trial_next() begin a try? */
static inline bool mca_pml_tm_trial_is_due(const mca_pml_tm_trial_t *trial)
{
    return 0 != trial->round &&
           (trial->turn == trial->round ||
            (trial->has_tries && trial->turn < 2 * mca_pml_tm_trial_tries(trial)));
}

/* If it would: the way that is tried. */
static inline unsigned mca_pml_tm_trial_due(const mca_pml_tm_trial_t *trial)
{
    return trial->turn == trial->round ? 0 : trial->turn / mca_pml_tm_trial_tries(trial);
}

/* The way to use now.  *is_try: give the time that it takes to mca_pml_tm_trial_note(). */
static inline unsigned mca_pml_tm_trial_next(mca_pml_tm_trial_t *trial, bool *is_try)
{
    unsigned way;

    if (0 == trial->round) {
        *trial = mca_pml_tm_trial_begin(PML_TM_TRIAL_FIRST, false);
    } else if (trial->turn == trial->round) {
        const uint8_t before = (uint8_t) mca_pml_tm_trial_best(trial);
        *trial = mca_pml_tm_trial_begin(mca_pml_tm_trial_next_round(trial), trial->is_sure);
        trial->has_tries = true;
        trial->before = before;
    }
    *is_try = mca_pml_tm_trial_is_due(trial);
    way = *is_try ? mca_pml_tm_trial_due(trial) : mca_pml_tm_trial_best(trial);
    trial->turn++;
    return way;
}

/* A try of this way took ns nanoseconds for that many bytes, at least 1. */
static inline void mca_pml_tm_trial_note(mca_pml_tm_trial_t *trial, unsigned way, size_t bytes,
                                         uint64_t ns)
{
    uint64_t time = (ns < UINT32_MAX ? ns : UINT32_MAX) * 1048576 / bytes;

    if (time < trial->least[way]) {
        trial->second[way] = trial->least[way];
        trial->least[way] = (uint32_t) time;
    } else if (time < trial->second[way]) {
        trial->second[way] = (uint32_t) time;
    }
}

#endif /* PML_TM_TRIAL_H */
