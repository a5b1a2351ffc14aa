/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The claim word of a cooperative get (shm_coop.c): how many parts the giver has taken on, from the
 * front, and whether the fetcher lets it take more.
 *
 *      number of the get << 32 | closed << 31 | parts
 *
 * The fetcher opens it, before it asks, and closes it once.  The giver counts a part, before it is
 * sent, by a compare-and-swap that fails if the word is closed, or another get's.
 */
#ifndef FAB_SHM_COOP_INL_H
#define FAB_SHM_COOP_INL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAB_SHM_CLAIM_CLOSED (UINT32_C(1) << 31)

/* Fetcher: the get with this number begins; the message that asks for it comes after this. */
static inline void fab_shm_claim_open(_Atomic uint64_t *claim, uint32_t seq)
{
    atomic_store_explicit(claim, (uint64_t) seq << 32, memory_order_relaxed);
}

/* Giver: take on one more part than these. False: no more. */
static inline bool fab_shm_claim_part(_Atomic uint64_t *claim, uint32_t seq, uint32_t parts)
{
    uint64_t expected = (uint64_t) seq << 32 | parts;

    return atomic_compare_exchange_strong(claim, &expected, expected + 1);
}

/* Fetcher: the giver takes on no more than *parts. False: the word is invalid. */
static inline bool fab_shm_claim_close(_Atomic uint64_t *claim, uint32_t seq, uint32_t *parts)
{
    uint64_t word = atomic_fetch_or(claim, FAB_SHM_CLAIM_CLOSED);

    *parts = (uint32_t) word;
    return word >> 32 == seq && *parts < FAB_SHM_CLAIM_CLOSED;
}

#endif /* FAB_SHM_COOP_INL_H */
