/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that plays a device's, for the libraries that play its driver: device_play.c (Open MPI
 * 5.0) and device_cuda.c (Open MPI 4.1 with CUDA).  It is mapped twice: programs and Open MPI get
 * the address where it is PROT_NONE, and only the copy function here uses the other one.  So
 * whoever else touches it gets SIGSEGV, or EFAULT in the kernel.
 */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_play.h"

typedef struct block {
    struct block *next;
    char *front; /* PROT_NONE */
    char *back;
    size_t len; /* whole pages */
} block_t;

static block_t *blocks;

static void die(const char *what)
{
    fprintf(stderr, "device_memory: %s\n", what);
    abort();
}

/* The block that the address is in; NULL: it is memory of the host. */
static block_t *find(const void *addr)
{
    block_t *block = blocks;

    while (NULL != block && (size_t) ((const char *) addr - block->front) >= block->len) {
        block = block->next;
    }
    return block;
}

/* Where the bytes can be touched. */
static char *touchable(const void *addr, size_t len)
{
    const block_t *block = find(addr);
    size_t offset;

    if (NULL == block) {
        return (char *) (uintptr_t) addr;
    }
    offset = (size_t) ((const char *) addr - block->front);
    if (len > block->len - offset) {
        die("a copy beyond the end of the memory");
    }
    return block->back + offset;
}

static void *play_alloc(size_t len)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    block_t *block = malloc(sizeof(*block));
    int fd = memfd_create("device_memory", MFD_CLOEXEC);

    if (NULL == block || fd < 0) {
        die("no memory");
    }
    block->len = (len / page + 1) * page;
    if (0 != ftruncate(fd, (off_t) block->len)) {
        die("no memory");
    }
    block->front = mmap(NULL, block->len, PROT_NONE, MAP_SHARED, fd, 0);
    block->back = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (MAP_FAILED == (void *) block->front || MAP_FAILED == (void *) block->back) {
        die("no memory");
    }
    close(fd);
    block->next = blocks;
    blocks = block;
    return block->front;
}

static void play_free(void *ptr)
{
    block_t *block = find(ptr);
    block_t **link = &blocks;

    if (NULL == block || ptr != block->front) {
        die("this was not allocated");
    }
    while (block != *link) {
        link = &(*link)->next;
    }
    *link = block->next;
    munmap(block->front, block->len);
    munmap(block->back, block->len);
    free(block);
}

static void play_copy(void *dst, const void *src, size_t len)
{
    memmove(touchable(dst, len), touchable(src, len), len);
}

__attribute__((visibility("default"))) const tm_play_t tm_play = {play_alloc, play_free, play_copy};

#endif /* DEVICE_MEMORY_H */
