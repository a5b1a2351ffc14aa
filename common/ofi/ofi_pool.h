/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send buffers: a message with its context.
 */
#ifndef FAB_OFI_POOL_H
#define FAB_OFI_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofi/ofi_types.h"
#include "ofi/ofi_wire.h"

enum { FAB_OFI_SEND_BUFS = 1024 }; /* that the fabric's messages may use */

typedef struct fab_ofi_sbuf {
    fab_ofi_ctx_t ctx;
    struct fab_ofi_sbuf *next; /* free, or in an endpoint's messages to send */
    uint32_t index;            /* the session whose failure it is, if it fails */
    uint32_t cookie;
    uint32_t len;    /* bytes of data */
    bool is_tracked; /* not to be injected: what becomes of it is to be reported */
    /* header and payload */
    unsigned char data[] __attribute__((aligned(FAB_OFI_ALIGN)));
} fab_ofi_sbuf_t;

typedef struct fab_ofi_pool {
    size_t size; /* bytes of data; its user sets it, all else is 0 at first */
    fab_ofi_sbuf_t *free;
    struct fab_ofi_chunk *chunks;
    uint32_t used; /* those that are not free */
} fab_ofi_pool_t;

void fab_ofi_pool_fini(fab_ofi_pool_t *pool);
/* Some more buffers. False: no memory. */
bool fab_ofi_pool_grow(fab_ofi_pool_t *pool);

/* NULL: no memory. */
static inline fab_ofi_sbuf_t *fab_ofi_pool_get(fab_ofi_pool_t *pool)
{
    fab_ofi_sbuf_t *buf;

    if (__builtin_expect(NULL == pool->free, 0) && !fab_ofi_pool_grow(pool)) {
        return NULL;
    }
    buf = pool->free;
    pool->free = buf->next;
    pool->used++;
    buf->is_tracked = false;
    return buf;
}

/* Only the provider's own messages may use more than FAB_OFI_SEND_BUFS. */
static inline bool fab_ofi_pool_has_room(const fab_ofi_pool_t *pool)
{
    return pool->used < FAB_OFI_SEND_BUFS;
}

static inline void fab_ofi_pool_put(fab_ofi_pool_t *pool, fab_ofi_sbuf_t *buf)
{
    buf->next = pool->free;
    pool->free = buf;
    pool->used--;
}

#endif /* FAB_OFI_POOL_H */
