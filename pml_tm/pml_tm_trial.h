/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways is faster, 0 or 1?  The first 16 times way 0 is used: memory that is touched
 * for the first time makes it slow.  Then come rounds, one of 64 uses, the others of 256.  A round
 * begins with two tries of each way, in turn; the way with the shorter least time is used for the
 * rest of it.  The least time counts, since a delay (this process or the other one was not running)
 * only makes a time longer.  All zero is a trial that has not begun.
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
} mca_pml_tm_trial_t;

/* The way to use now.  *is_try: give the time that it takes to mca_pml_tm_trial_note(). */
static inline unsigned mca_pml_tm_trial_next(mca_pml_tm_trial_t *trial, bool *is_try)
{
    unsigned turn;

    if (trial->turn == trial->round) {
        unsigned round = 0 == trial->round ? PML_TM_TRIAL_FIRST : 4 * trial->round;
        *trial = (mca_pml_tm_trial_t){
            .least = {UINT32_MAX, UINT32_MAX},
            .round = round < PML_TM_TRIAL_ROUND_MAX ? round : PML_TM_TRIAL_ROUND_MAX,
        };
    }
    turn = trial->turn++;
    *is_try = turn < PML_TM_TRIAL_TRIES && PML_TM_TRIAL_FIRST != trial->round;
    return *is_try ? turn % 2 : trial->least[1] < trial->least[0];
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
