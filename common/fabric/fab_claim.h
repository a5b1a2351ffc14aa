/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The claim word of what either of two processes of a host may do: the helper does parts of it, in
 * order, until its owner closes the word and does the rest.  So each part is done once, and nothing
 * waits for a helper that is not there.
 *
 *      number << 32 | closed << 31 | parts that the helper has taken on
 *
 * The owner opens it, before it tells the helper, and closes it once.  The helper counts a part
 * before it does that part, by a compare-and-swap that fails if the word is closed or another
 * number's.
 *
 * Users: cooperative gets (shm_coop.c: many parts) and offers (btl_fabric_ways.c: one).
 */
#ifndef FAB_CLAIM_H
#define FAB_CLAIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAB_CLAIM_CLOSED (UINT32_C(1) << 31)

/* The word of what has this number, and no part of which is taken on. */
static inline uint64_t fab_claim_word(uint32_t number)
{
    return (uint64_t) number << 32;
}

/* Owner: what has this number begins; the message that says so comes after this. */
static inline void fab_claim_open(_Atomic uint64_t *claim, uint32_t number)
{
    atomic_store_explicit(claim, fab_claim_word(number), memory_order_relaxed);
}

/* Helper: take on one more part than these. False: no more. */
static inline bool fab_claim_part(_Atomic uint64_t *claim, uint32_t number, uint32_t parts)
{
    uint64_t expected = fab_claim_word(number) | parts;

    return atomic_compare_exchange_strong(claim, &expected, expected + 1);
}

/* Owner: the helper takes on no more than *parts. False: the word is invalid. */
static inline bool fab_claim_close(_Atomic uint64_t *claim, uint32_t number, uint32_t *parts)
{
    uint64_t word = atomic_fetch_or(claim, FAB_CLAIM_CLOSED);

    *parts = (uint32_t) word;
    return word >> 32 == number && *parts < FAB_CLAIM_CLOSED;
}

#endif /* FAB_CLAIM_H */
