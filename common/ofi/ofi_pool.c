/* SPDX-License-Identifier: BSD-3-Clause */
#include "ofi/ofi_pool.h"

#include <sys/mman.h>

enum { FAB_OFI_CHUNK_BUFS = 16 }; /* made at a time */

/*
 * Pages of its own: where a provider makes fork() safe, a child has none of those that the
 * provider registers.
 */
typedef struct fab_ofi_chunk {
    struct fab_ofi_chunk *next;
    size_t size; /* bytes of all */
    unsigned char bytes[] __attribute__((aligned(64)));
} fab_ofi_chunk_t;

bool fab_ofi_pool_grow(fab_ofi_pool_t *pool)
{
    const size_t stride = (sizeof(fab_ofi_sbuf_t) + pool->size + 63) & ~(size_t) 63;
    const size_t size = sizeof(fab_ofi_chunk_t) + FAB_OFI_CHUNK_BUFS * stride;
    fab_ofi_chunk_t *chunk = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                  -1, 0);

    if (MAP_FAILED == chunk) {
        return false;
    }
    chunk->size = size;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    for (int i = 0; i < FAB_OFI_CHUNK_BUFS; i++) {
        fab_ofi_sbuf_t *buf = (fab_ofi_sbuf_t *) (chunk->bytes + (size_t) i * stride);
        buf->ctx.kind = FAB_OFI_SEND;
        buf->next = pool->free;
        pool->free = buf;
    }
    return true;
}

void fab_ofi_pool_fini(fab_ofi_pool_t *pool)
{
    while (NULL != pool->chunks) {
        fab_ofi_chunk_t *chunk = pool->chunks;
        pool->chunks = chunk->next;
        (void) munmap(chunk, chunk->size);
    }
    pool->free = NULL;
}
