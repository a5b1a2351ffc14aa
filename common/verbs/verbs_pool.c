/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of registered buffers of one size, made in chunks of one registration each, given back when
 * the domain closes.
 */
#include "verbs/verbs_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/fab_provider.h"
#include "verbs/verbs_wire.h"

enum { FAB_VERBS_BUF_ALIGN = 64 };

typedef struct fab_verbs_chunk {
    struct fab_verbs_chunk *next;
    struct ibv_mr *mr;
    void *memory;
    size_t size;
    fab_verbs_buf_t bufs[];
} fab_verbs_chunk_t;

void fab_verbs_pool_init(fab_verbs_pool_t *pool, struct ibv_pd *pd, size_t payload, uint32_t max)
{
    size_t size = sizeof(fab_verbs_tmh_t) + payload;

    *pool = (fab_verbs_pool_t){.pd = pd,
                               .max = max,
                               .buf_size = (size + FAB_VERBS_BUF_ALIGN - 1) &
                                           ~(size_t) (FAB_VERBS_BUF_ALIGN - 1)};
}

/*
 * Pages of its own: with fork support, what is registered may vanish from children, page by page.
 */
static int chunk_map(fab_verbs_pool_t *pool, fab_verbs_chunk_t *chunk, size_t size)
{
    int error;

    chunk->size = size;
    chunk->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == chunk->memory) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    chunk->mr = ibv_reg_mr(pool->pd, chunk->memory, size, IBV_ACCESS_LOCAL_WRITE);
    if (NULL == chunk->mr) {
        error = errno;
        munmap(chunk->memory, size);
        errno = error;
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}

int fab_verbs_pool_grow(fab_verbs_pool_t *pool, uint32_t num)
{
    fab_verbs_chunk_t *chunk = calloc(1, sizeof(*chunk) + num * sizeof(chunk->bufs[0]));

    if (NULL == chunk) {
        errno = ENOMEM;
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (OPAL_SUCCESS != chunk_map(pool, chunk, num * pool->buf_size)) {
        free(chunk);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (uint32_t i = 0; i < num; i++) {
        chunk->bufs[i].data = (unsigned char *) chunk->memory + i * pool->buf_size;
        chunk->bufs[i].lkey = chunk->mr->lkey;
        chunk->bufs[i].next = pool->free;
        pool->free = &chunk->bufs[i];
    }
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->num += num;
    return OPAL_SUCCESS;
}

void fab_verbs_pool_extend(fab_verbs_pool_t *pool)
{
    if (OPAL_SUCCESS != fab_verbs_pool_grow(pool, FAB_VERBS_CHUNK_BUFS)) {
        pool->max = pool->num;
        fab_counters.verbs_locked_memory++;
    }
}

fab_verbs_buf_t *fab_verbs_pool_find(const fab_verbs_pool_t *pool, uint64_t address)
{
    for (fab_verbs_chunk_t *chunk = pool->chunks; NULL != chunk; chunk = chunk->next) {
        uint64_t offset = address - (uintptr_t) chunk->bufs;
        uint64_t at = offset / sizeof(chunk->bufs[0]);
        if (at < chunk->size / pool->buf_size && 0 == offset % sizeof(chunk->bufs[0])) {
            return &chunk->bufs[at];
        }
    }
    return NULL;
}

void fab_verbs_pool_fini(fab_verbs_pool_t *pool)
{
    while (NULL != pool->chunks) {
        fab_verbs_chunk_t *chunk = pool->chunks;
        pool->chunks = chunk->next;
        (void) ibv_dereg_mr(chunk->mr);
        munmap(chunk->memory, chunk->size);
        free(chunk);
    }
    pool->free = NULL;
    pool->num = 0;
    pool->used = 0;
}
