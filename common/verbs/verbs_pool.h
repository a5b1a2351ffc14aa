/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered buffers of one size.
 */
#ifndef FAB_VERBS_POOL_H
#define FAB_VERBS_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

enum {
    FAB_VERBS_CHUNK_BUFS = 64, /* send buffers made at a time */
};

typedef struct fab_verbs_buf {
    struct fab_verbs_buf *next;
    unsigned char *data; /* TMH, then payload; 64-byte aligned */
    uint32_t lkey;
    bool is_posted; /* the device has it, to receive into */
} fab_verbs_buf_t;

typedef struct fab_verbs_pool {
    struct ibv_pd *pd;
    struct fab_verbs_chunk *chunks;
    fab_verbs_buf_t *free;
    size_t buf_size;
    uint32_t num;  /* buffers, free or not */
    uint32_t max;  /* up to which fab_verbs_pool_get() adds buffers if all are in use */
    uint32_t used; /* those that are not free */
} fab_verbs_pool_t;

void fab_verbs_pool_init(fab_verbs_pool_t *pool, struct ibv_pd *pd, size_t payload, uint32_t max);
/* Add num buffers. OPAL_ERR_OUT_OF_RESOURCE: no memory, or it cannot be locked (errno). */
int fab_verbs_pool_grow(fab_verbs_pool_t *pool, uint32_t num);
/* Add some more; if that fails, never again. */
void fab_verbs_pool_extend(fab_verbs_pool_t *pool);
void fab_verbs_pool_fini(fab_verbs_pool_t *pool);
/* The buffer at this address, which need not be valid; NULL: there is none. Slow. */
fab_verbs_buf_t *fab_verbs_pool_find(const fab_verbs_pool_t *pool, uint64_t address);

static inline void fab_verbs_pool_put(fab_verbs_pool_t *pool, fab_verbs_buf_t *buf)
{
    buf->next = pool->free;
    pool->free = buf;
    pool->used--;
}

/* NULL: there is none. */
static inline fab_verbs_buf_t *fab_verbs_pool_get(fab_verbs_pool_t *pool)
{
    fab_verbs_buf_t *buf;

    if (__builtin_expect(NULL == pool->free, 0) && pool->num < pool->max) {
        fab_verbs_pool_extend(pool);
    }
    buf = pool->free;
    if (NULL != buf) {
        pool->free = buf->next;
        pool->used++;
    }
    return buf;
}

#endif /* FAB_VERBS_POOL_H */
