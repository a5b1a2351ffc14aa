/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, or gets, of about one length to one target: are offers to its CPU faster, or system calls?
 *
 * That depends on how far apart the two processors are, on the length, on whether the target polls,
 * and on whether the operations come one by one or in windows: then an offer keeps both processors
 * copying.  So both ways are tried now and then (fab_trial.h).
 *
 * The unit of measurement is a batch: a single operation; or at least 16 of a window and, if it is
 * a try, all that are under way when it would end.  A try takes from the beginning of the first
 * operation to the end of the last one.
 */
#ifndef BTL_FABRIC_PACE_H
#define BTL_FABRIC_PACE_H

#include "fabric/fab_trial.h"

enum {
    BTL_FABRIC_BATCH = 16,      /* operations of a window, at least */
    BTL_FABRIC_BATCH_MAX = 256, /* operations of a try, whatever is under way */
};

typedef enum mca_btl_fabric_way {
    BTL_FABRIC_BY_CALL = 0,
    BTL_FABRIC_BY_OFFER = 1,
} mca_btl_fabric_way_t;

/* All zero: nothing is known. */
typedef struct mca_btl_fabric_pace {
    fab_trial_t trial;
    /* the batch */
    mca_btl_fabric_way_t way;
    bool is_try;
    uint32_t number; /* how many there were */
    uint32_t begun;  /* operations */
    uint32_t open;   /* of these, if it is a try, those that have not ended */
    uint64_t bytes;  /* of those that have ended */
    uint64_t since;  /* ns; when the first one began */
    uint64_t until;  /* ns; when one of them ended last */
} mca_btl_fabric_pace_t;

/* What an operation belongs to. */
typedef struct mca_btl_fabric_try {
    mca_btl_fabric_pace_t *pace; /* NULL: to no try */
    uint32_t number;
} mca_btl_fabric_try_t;

/* Operations of a length begin in the way that is faster for shorter ones. */
static inline void mca_btl_fabric_pace_begin(mca_btl_fabric_pace_t *pace, bool is_window,
                                             const mca_btl_fabric_pace_t *shorter)
{
    pace->trial = fab_trial_after(&shorter->trial, BTL_FABRIC_BY_CALL, !is_window);
}

static inline bool mca_btl_fabric_pace_has_all(const mca_btl_fabric_pace_t *pace)
{
    const uint32_t size = pace->trial.is_sure ? 1 : BTL_FABRIC_BATCH;

    return 0 == pace->begun || (pace->begun >= size && (!pace->is_try || 0 == pace->open ||
                                                        pace->begun >= BTL_FABRIC_BATCH_MAX));
}

/* The way of the next operation, and the try that it belongs to. */
static inline mca_btl_fabric_way_t mca_btl_fabric_pace_next(mca_btl_fabric_pace_t *pace,
                                                            mca_btl_fabric_try_t *try)
{
    if (mca_btl_fabric_pace_has_all(pace)) {
        if (pace->is_try && 0 != pace->bytes) {
            fab_trial_note(&pace->trial, pace->way, pace->bytes, pace->until - pace->since);
        }
        pace->way = (mca_btl_fabric_way_t) fab_trial_next(&pace->trial, &pace->is_try);
        pace->number++;
        pace->begun = pace->open = 0;
        pace->bytes = 0;
    }
    pace->begun++;
    try->pace = pace->is_try ? pace : NULL;
    try->number = pace->number;
    return pace->way;
}

/* The operation, which belongs to a try, begins at this time (ns). */
static inline void mca_btl_fabric_try_begin(const mca_btl_fabric_try_t *try, uint64_t now)
{
    mca_btl_fabric_pace_t *pace = try->pace;

    if (0 == pace->open && 0 == pace->bytes) {
        pace->since = now;
    }
    pace->open++;
}

/*
 * An offer was withdrawn, perhaps because the target had to make room for the data first.  That
 * tells nothing of offers, so a single one is tried again.
 */
static inline void mca_btl_fabric_try_again(mca_btl_fabric_try_t *try)
{
    mca_btl_fabric_pace_t *pace = try->pace;

    if (NULL != pace && pace->is_try && pace->trial.is_sure && try->number == pace->number) {
        fab_trial_again(&pace->trial);
        pace->is_try = false;
        try->pace = NULL;
    }
}

/* An operation of that many bytes, which belongs to a try, has ended. */
static inline void mca_btl_fabric_try_end(const mca_btl_fabric_try_t *try, size_t len, uint64_t now)
{
    mca_btl_fabric_pace_t *pace = try->pace;

    if (try->number == pace->number && 0 != pace->open) {
        pace->open--;
        pace->bytes += len;
        pace->until = now;
    }
}

#endif /* BTL_FABRIC_PACE_H */
