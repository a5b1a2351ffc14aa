/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cooperative copy: two processes share the work of one large get.  The fetcher reads chunks
 * from the front; the helper, whose memory is read, writes chunks from the back, until they meet.
 * This file only claims chunks; shm_coop.c copies them and does the rest.
 *
 *      chunk     0     1     2     3     4     5     6     7
 *              ┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┐
 *              │  f  │  f  │  f  │     │     │     │  h  │  h  │      front 3, back 2
 *              └─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
 *                 fetcher, process_vm_readv ──>   <── helper, process_vm_writev
 *
 * The descriptor, fab_shm_coop_t, is in the helper's segment, in the entry of the fetcher's ring.
 *
 *      IDLE ──fetcher: fields, claim──> OPEN ──both: claim──> CLOSED ──fetcher, when done──> IDLE
 *           front: FAB_SHM_COOP_IDLE         front + back < n         front + back == n,
 *                                                                     done == back: all is there
 *
 * Writers.  The fetcher writes the fields while the claim word is IDLE.  Both sides claim by
 * compare-and-swap on the claim word.  It contains the number of the get, so a helper that has read
 * the fields of an earlier get claims nothing.  Each field is stored with release and loaded with
 * acquire: a helper that saw a field of the next get sees IDLE, or a later value, when it claims.
 *
 * The helper reports each chunk in a separate word, after the copy.  It also reports a chunk that
 * it could not copy (failed), and then claims no more; the fetcher copies that chunk, which is the
 * last one the helper claimed.  So when the number of reported chunks equals `back`, the helper has
 * no copy under way, and both processes may use their buffers again.
 *
 * Trust.  Each shared word is read once and checked: whatever the other side writes there can only
 * spoil the data of this get.  With XPMEM a helper that is given an address where the fetcher has
 * no memory gets a SIGBUS.
 */
#ifndef FAB_SHM_COOP_INL_H
#define FAB_SHM_COOP_INL_H

#include <stdbool.h>

#include "shm/shm_wire.h"

#ifndef FAB_SHM_STEP
#define FAB_SHM_STEP(what) ((void) 0)
#endif

enum {
    FAB_SHM_COOP_CHUNKS = 0x7fff, /* most chunks of a get */
    FAB_SHM_COOP_IDLE = 0xffff,   /* value of front: there is nothing to claim */
};

/* A descriptor: the get that the fetcher offers. */
typedef struct fab_shm_desc {
    uint64_t to;    /* in the fetcher's memory */
    uint64_t from;  /* in the helper's */
    uint64_t len;   /* bytes */
    uint64_t key;   /* of the memory that the helper exposed */
    uint32_t chunk; /* bytes */
    uint32_t n;     /* chunks */
    uint32_t seq;   /* number of the get */
} fab_shm_desc_t;

static inline uint64_t fab_shm_claim_word(uint32_t seq, uint32_t front, uint32_t back)
{
    return (uint64_t) seq << 32 | front << 16 | back;
}

static inline uint32_t fab_shm_claim_seq(uint64_t claim)
{
    return (uint32_t) (claim >> 32);
}

static inline uint32_t fab_shm_claim_front(uint64_t claim)
{
    return (uint32_t) claim >> 16;
}

static inline uint32_t fab_shm_claim_back(uint64_t claim)
{
    return (uint32_t) claim & 0xffff;
}

/* Number of chunks of this size; 0 if the descriptor is invalid. */
static inline uint32_t fab_shm_coop_count(uint64_t len, uint32_t chunk)
{
    uint64_t n = 0 != chunk ? len / chunk + (0 != len % chunk) : 0;

    return n <= FAB_SHM_COOP_CHUNKS ? (uint32_t) n : 0;
}

/* Bytes of chunk i. */
static inline uint64_t fab_shm_coop_len(const fab_shm_desc_t *desc, uint32_t i)
{
    uint64_t at = (uint64_t) i * desc->chunk;

    return desc->len - at < desc->chunk ? desc->len - at : desc->chunk;
}

/* ---- fetcher ------------------------------------------------------------ */

/* Publish the descriptor; the previous get is complete. */
static inline void fab_shm_coop_open(fab_shm_coop_t *coop, const fab_shm_desc_t *desc)
{
    FAB_SHM_STEP(fields);
    atomic_store_explicit(&coop->to, desc->to, memory_order_release);
    FAB_SHM_STEP(fields);
    atomic_store_explicit(&coop->from, desc->from, memory_order_release);
    atomic_store_explicit(&coop->len, desc->len, memory_order_release);
    FAB_SHM_STEP(fields);
    atomic_store_explicit(&coop->key, desc->key, memory_order_release);
    atomic_store_explicit(&coop->chunk, desc->chunk, memory_order_release);
    FAB_SHM_STEP(claim);
    /* release: pairs with the acquire in fab_shm_coop_look() */
    atomic_store_explicit(&coop->claim, fab_shm_claim_word(desc->seq, 0, 0), memory_order_release);
}

/* The get is complete: nothing can be claimed any more, and the fields may change. */
static inline void fab_shm_coop_idle(fab_shm_coop_t *coop, uint32_t seq)
{
    FAB_SHM_STEP(claim);
    atomic_store_explicit(&coop->claim, fab_shm_claim_word(seq, FAB_SHM_COOP_IDLE, 0),
                          memory_order_release);
}

/*
 * Claim up to max > 0 more chunks; the fetcher has claimed the first `front` chunks already.
 * Returns the number of chunks, or a negative value if the word is invalid.  *back is the number of
 * chunks that the helper has claimed.
 */
static inline int fab_shm_coop_take_front(fab_shm_coop_t *coop, const fab_shm_desc_t *desc,
                                          uint32_t front, uint32_t max, uint32_t *back)
{
    FAB_SHM_STEP(claim);
    uint64_t claim = atomic_load_explicit(&coop->claim, memory_order_relaxed);
    uint32_t n;

    do {
        *back = fab_shm_claim_back(claim);
        if (fab_shm_claim_seq(claim) != desc->seq || fab_shm_claim_front(claim) != front ||
            *back > desc->n - front) {
            return -1;
        }
        n = desc->n - front - *back;
        n = n < max ? n : max;
        FAB_SHM_STEP(claim);
    } while (n > 0 && !atomic_compare_exchange_strong(
                          &coop->claim, &claim, fab_shm_claim_word(desc->seq, front + n, *back)));
    return (int) n;
}

/*
 * Of the `back` chunks that the helper claimed, the number that it has reported; negative: the word
 * is invalid.  *is_failed: it could not copy the last one.
 */
static inline int fab_shm_coop_done(fab_shm_coop_t *coop, const fab_shm_desc_t *desc, uint32_t back,
                                    bool *is_failed)
{
    FAB_SHM_STEP(done);
    /* acquire: pairs with the release in fab_shm_coop_report(): the copies are visible */
    uint64_t done = atomic_load_explicit(&coop->done, memory_order_acquire);
    uint32_t count = fab_shm_claim_back(done);

    *is_failed = false;
    if (fab_shm_claim_seq(done) != desc->seq) {
        return 0;
    }
    *is_failed = 0 != fab_shm_claim_front(done);
    return count <= back ? (int) count : -1;
}

/* ---- helper ------------------------------------------------------------- */

/* Read the descriptor; false: nothing can be claimed. */
static inline bool fab_shm_coop_look(fab_shm_coop_t *coop, fab_shm_desc_t *desc)
{
    FAB_SHM_STEP(claim);
    /* acquire: pairs with the release in fab_shm_coop_open() */
    uint64_t claim = atomic_load_explicit(&coop->claim, memory_order_acquire);

    FAB_SHM_STEP(fields);
    desc->to = atomic_load_explicit(&coop->to, memory_order_acquire);
    FAB_SHM_STEP(fields);
    desc->from = atomic_load_explicit(&coop->from, memory_order_acquire);
    desc->len = atomic_load_explicit(&coop->len, memory_order_acquire);
    FAB_SHM_STEP(fields);
    desc->key = atomic_load_explicit(&coop->key, memory_order_acquire);
    desc->chunk = atomic_load_explicit(&coop->chunk, memory_order_acquire);
    desc->seq = fab_shm_claim_seq(claim);
    desc->n = fab_shm_coop_count(desc->len, desc->chunk);
    return fab_shm_claim_front(claim) + fab_shm_claim_back(claim) < desc->n;
}

/* Claim one chunk from the back; *i is its number.  False: this get has none left. */
static inline bool fab_shm_coop_take_back(fab_shm_coop_t *coop, const fab_shm_desc_t *desc,
                                          uint32_t *i)
{
    FAB_SHM_STEP(claim);
    uint64_t claim = atomic_load_explicit(&coop->claim, memory_order_relaxed);

    do {
        uint32_t back = fab_shm_claim_back(claim);
        if (fab_shm_claim_seq(claim) != desc->seq || fab_shm_claim_front(claim) + back >= desc->n) {
            return false;
        }
        *i = desc->n - 1 - back;
        FAB_SHM_STEP(claim);
    } while (!atomic_compare_exchange_strong(&coop->claim, &claim, claim + 1));
    return true;
}

/* Report that chunk i is copied, or could not be. */
static inline void fab_shm_coop_report(fab_shm_coop_t *coop, const fab_shm_desc_t *desc, uint32_t i,
                                       bool is_failed)
{
    FAB_SHM_STEP(done);
    atomic_store_explicit(&coop->done, fab_shm_claim_word(desc->seq, is_failed, desc->n - i),
                          memory_order_release);
}

#endif /* FAB_SHM_COOP_INL_H */
