/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inline fast paths of fab_match_post() and fab_match_arrive(), for callers that cannot afford a
 * call: few receives are posted, and messages arrive in their order.
 */
#ifndef FAB_MATCH_INL_H
#define FAB_MATCH_INL_H

#include "match.h"

/* The bits of a key that hold the sign of the tag. */
#define FAB_MATCH_TAG_SIGN 0x80000000ull

static inline uint64_t fab_match_key(int32_t source, int32_t tag)
{
    return (uint64_t) (uint32_t) source << 32 | (uint32_t) tag;
}

/* The place in the short list of the i-th entry after the oldest. */
static inline uint32_t fab_match_short_place(const fab_match_dom_t *dom, uint32_t i)
{
    return (dom->short_at + i) % FAB_MATCH_SHORT_LEN;
}

/*
 * fab_match_post(), if the short list has room.  False: the receive is not posted; the list is full
 * or must not be used, or so many receives have not been posted before.
 */
static inline bool fab_match_short_append(fab_match_dom_t *dom, fab_match_recv_t *recv,
                                          int32_t source, int32_t tag)
{
    fab_match_short_t *list = dom->posted_short;
    const uint32_t count = dom->nshort;
    const uint32_t at = fab_match_short_place(dom, count);

    recv->link.key = fab_match_key(source, tag);
    if (__builtin_expect(count >= dom->short_max, 0)) {
        return false;
    }
    dom->nshort = count + 1;
    dom->posted_count = count + 1;
    list->key[at] = recv->link.key;
    list->mask[at] = ~0ull;
    if (__builtin_expect((source | tag) < 0, 0)) { /* a wildcard, or an internal tag */
        const uint64_t named = fab_match_key(FAB_MATCH_ANY == source ? 0 : -1,
                                             FAB_MATCH_ANY == tag ? 0 : -1);
        list->key[at] &= named;
        list->mask[at] = named | FAB_MATCH_TAG_SIGN;
    }
    list->recv[at] = recv;
    recv->where = FAB_MATCH_IN_SHORT;
    return true;
}

/*
 * If the message fits the oldest receive of all, remove and return that.  NULL: call
 * fab_match_arrive().
 */
static inline fab_match_recv_t *fab_match_arrive_first(fab_match_dom_t *dom, uint64_t key)
{
    const fab_match_short_t *list = dom->posted_short;
    const uint32_t at = dom->short_at;
    fab_match_recv_t *recv;

    if (__builtin_expect(0 == dom->nshort || (key & list->mask[at]) != list->key[at], 0)) {
        return NULL;
    }
    recv = list->recv[at];
    dom->short_at = (at + 1) % FAB_MATCH_SHORT_LEN;
    dom->nshort--;
    dom->posted_count--;
    recv->where = FAB_MATCH_IDLE;
    return recv;
}

/* Are other receives posted than the one that fab_match_arrive_first() has compared? */
static inline bool fab_match_has_others(const fab_match_dom_t *dom)
{
    return dom->posted_count > 1 || dom->posted_count != dom->nshort;
}

#endif /* FAB_MATCH_INL_H */
