/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A choice that the receiver makes for the sender: do long messages of one peer come through the
 * ring in fragments, or does it read them?  It takes the time of some messages by its own clock
 * (fab_trial.h) and says which way it wants from now on.  Messages that come in the other way were
 * sent before the sender knew, or can come in no other: they tell nothing.
 */
#ifndef FAB_CHOICE_H
#define FAB_CHOICE_H

#include "fabric/fab_trial.h"

enum { FAB_BY_RING = 0, FAB_BY_READING = 1 };

typedef struct fab_choice {
    fab_trial_t trial;
    uint8_t way; /* FAB_BY_...: that the sender is asked for */
    bool is_try;
    bool is_exchange; /* this process has a message of its own in the peer's ring, see below */
} fab_choice_t;

static inline fab_choice_t fab_choice_begin(void)
{
    return (fab_choice_t){.trial = fab_trial_begin()};
}

/* Is the time of a message that comes in this way to be taken? */
static inline bool fab_choice_is_timed(const fab_choice_t *choice, unsigned way)
{
    return choice->is_try && way == choice->way;
}

/*
 * This process sends a long message of its own through the ring.  is_exchange: it waits for one.
 * Then it looks at that only when its own is in the ring, and the time of both copies counts: twice
 * the one that it sees.
 */
static inline void fab_choice_sends(fab_choice_t *choice, bool is_exchange)
{
    choice->is_exchange = is_exchange;
}

/*
 * A message has come in this way; so many bytes, at least 1, in ns nanoseconds, 0: the time was not
 * taken.  Returns the way that the sender is to be asked for.
 */
static inline unsigned fab_choice_came(fab_choice_t *choice, unsigned way, size_t bytes,
                                       uint64_t ns)
{
    if (way == choice->way) {
        if (choice->is_try && 0 != ns) {
            fab_trial_note(&choice->trial, way, bytes,
                           FAB_BY_RING == way && choice->is_exchange ? 2 * ns : ns);
        }
        choice->way = (uint8_t) fab_trial_next(&choice->trial, &choice->is_try);
    }
    choice->is_exchange = false;
    return choice->way;
}

#endif /* FAB_CHOICE_H */
