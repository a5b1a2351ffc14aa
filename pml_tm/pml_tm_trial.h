/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways is faster, 0 or 1?  The first 16 times way 0 is used: memory that is touched
 * for the first time makes it slow.  Then come rounds, one of 64 uses, the others of 256; who needs
 * an answer sooner begins with fewer uses, and the rounds are longer each time by four.  A round
 * begins with two tries of each way, one way after the other; the way with the shorter least time
 * is used for the rest of it.  The least time counts: a delay (this process or the other one was
 * not running) only makes a time longer, and so do data that the way before left in the cache of
 * another processor.  All zero is a trial that has not begun.
 */
#ifndef PML_TM_TRIAL_H
#define PML_TM_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PML_TM_TRIAL_TRIES = 4,
    PML_TM_TRIAL_FIRST = 16, /* uses of way 0 before the first round */
    PML_TM_TRIAL_ROUND_MAX = 256,
};

typedef struct mca_pml_tm_trial {
    uint32_t least[2]; /* of the tries of each way since the round began, ns per MiB */
    uint16_t turn;     /* uses since the round began */
    uint16_t round;    /* uses in a round; 0: not begun */
    bool has_tries;    /* it is a round with tries */
} mca_pml_tm_trial_t;

/* A trial that uses way 0 that often before its first round of tries. */
static inline mca_pml_tm_trial_t mca_pml_tm_trial_begin(unsigned uses)
{
    return (mca_pml_tm_trial_t){.least = {UINT32_MAX, UINT32_MAX}, .round = (uint16_t) uses};
}

/* The way to use now.  *is_try: give the time that it takes to mca_pml_tm_trial_note(). */
static inline unsigned mca_pml_tm_trial_next(mca_pml_tm_trial_t *trial, bool *is_try)
{
    unsigned turn;

    if (0 == trial->round) {
        *trial = mca_pml_tm_trial_begin(PML_TM_TRIAL_FIRST);
    } else if (trial->turn == trial->round) {
        unsigned round = 4 * trial->round;
        *trial = mca_pml_tm_trial_begin(round < PML_TM_TRIAL_ROUND_MAX ? round
                                                                       : PML_TM_TRIAL_ROUND_MAX);
        trial->has_tries = true;
    }
    turn = trial->turn++;
    *is_try = trial->has_tries && turn < PML_TM_TRIAL_TRIES;
    return *is_try ? turn / 2 : trial->least[1] < trial->least[0];
}

/* Would mca_pml_tm_trial_next() begin a try? */
static inline bool mca_pml_tm_trial_is_due(const mca_pml_tm_trial_t *trial)
{
    return 0 != trial->round &&
           (trial->turn == trial->round || (trial->has_tries && trial->turn < PML_TM_TRIAL_TRIES));
}

/* A try of this way took ns nanoseconds for that many bytes, at least 1. */
static inline void mca_pml_tm_trial_note(mca_pml_tm_trial_t *trial, unsigned way, size_t bytes,
                                         uint64_t ns)
{
    uint64_t time = (ns < UINT32_MAX ? ns : UINT32_MAX) * 1048576 / bytes;

    if (time < trial->least[way]) {
        trial->least[way] = (uint32_t) time;
    }
}

#endif /* PML_TM_TRIAL_H */
