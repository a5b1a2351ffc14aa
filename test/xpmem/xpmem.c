/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libxpmem without its kernel module, for tests (mpi/xpmem): preloaded into a program, it lets
 * other processes map the program's heap.
 *
 * The heap is shared memory: malloc() and its kin are replaced.  xpmem_attach() maps what it finds
 * of it in /proc/PID/maps, through /proc/PID/map_files, so it needs root.  An area that is not all
 * in a heap cannot be attached.  The heap begins and ends at a multiple of HEAP_ALIGN, so an
 * aligned area of that size is either in it or not.
 *
 * A program that goes on after fork() would share its heap with the child.
 *
 * XPMEM_FAILS=make, get, or attach: that call fails, as without the device, or the right to use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define HEAP_ALIGN (UINT64_C(32) << 20)
#define HEAP_SIZE  (UINT64_C(8) << 30) /* of addresses; memory comes with use */

/* ---- the heap ----------------------------------------------------------- */

/* Before each block. */
typedef struct head {
    uint32_t class;  /* the block and what is before it have 2^class bytes */
    uint32_t before; /* bytes from the start of these to the block */
    uint64_t reserved;
} head_t;

enum { CLASS_MIN = 6, CLASS_MAX = 40 };

static char *heap, *heap_unused;
static void *freed[CLASS_MAX + 1]; /* blocks by class, each with the address of the next */
static atomic_flag heap_lock = ATOMIC_FLAG_INIT;

static bool heap_make(void)
{
    char *all = mmap(NULL, HEAP_SIZE + HEAP_ALIGN, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *at = (char *) (((uintptr_t) all + HEAP_ALIGN - 1) & ~(HEAP_ALIGN - 1));

    if (MAP_FAILED == (void *) all ||
        MAP_FAILED == mmap(at, HEAP_SIZE, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)) {
        return false;
    }
    heap = heap_unused = at;
    return true;
}

/* 2^class bytes, or NULL. */
static void *heap_take(uint32_t class)
{
    void *block = NULL;

    while (atomic_flag_test_and_set_explicit(&heap_lock, memory_order_acquire)) {
    }
    if (NULL != freed[class]) {
        block = freed[class];
        memcpy(&freed[class], block, sizeof(void *));
    } else if (NULL != heap || heap_make()) {
        uint64_t size = UINT64_C(1) << class;
        uint64_t at = ((uint64_t) (heap_unused - heap) + size - 1) & ~(size - 1);
        if (at + size <= HEAP_SIZE) {
            block = heap + at;
            heap_unused = heap + at + size;
        }
    }
    atomic_flag_clear_explicit(&heap_lock, memory_order_release);
    return block;
}

static void *allocate(size_t align, size_t size)
{
    size_t before = align < sizeof(head_t) ? sizeof(head_t) : align;
    uint32_t class = CLASS_MIN;
    char *block = NULL, *start;
    head_t head;

    while (class < CLASS_MAX && UINT64_C(1) << class < size + before) {
        class ++;
    }
    start = size < UINT64_C(1) << (CLASS_MAX - 1) ? heap_take(class) : NULL;
    if (NULL == start) {
        errno = ENOMEM;
        return NULL;
    }
    /* start is aligned to 2^class, up to HEAP_ALIGN, so the block is aligned to before */
    block = start + before;
    head = (head_t){.class = class, .before = (uint32_t) before};
    memcpy(block - sizeof(head), &head, sizeof(head));
    return block;
}

static head_t head_of(const void *block)
{
    head_t head;

    memcpy(&head, (const char *) block - sizeof(head), sizeof(head));
    return head;
}

/* What the loader allocated before is not in the heap. */
static bool is_ours(const void *block)
{
    return NULL != heap && (const char *) block >= heap && (const char *) block < heap + HEAP_SIZE;
}

EXPORT void *malloc(size_t size)
{
    return allocate(16, size);
}

EXPORT void free(void *block)
{
    head_t head;
    char *start;

    if (!is_ours(block)) {
        return;
    }
    head = head_of(block);
    start = (char *) block - head.before;
    while (atomic_flag_test_and_set_explicit(&heap_lock, memory_order_acquire)) {
    }
    memcpy(start, &freed[head.class], sizeof(void *));
    freed[head.class] = start;
    atomic_flag_clear_explicit(&heap_lock, memory_order_release);
}

EXPORT size_t malloc_usable_size(void *block)
{
    head_t head;

    if (!is_ours(block)) {
        return 0;
    }
    head = head_of(block);
    return (UINT64_C(1) << head.class) - head.before;
}

EXPORT void *calloc(size_t n, size_t size)
{
    size_t all;
    void *block;

    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    block = malloc(all);
    return NULL == block ? NULL : memset(block, 0, all);
}

EXPORT void *realloc(void *block, size_t size)
{
    size_t old = malloc_usable_size(block);
    void *other;

    if (old >= size && size > 0) {
        return block;
    }
    other = malloc(size);
    if (NULL != other && NULL != block) {
        memcpy(other, block, old < size ? old : size);
        free(block);
    }
    return other;
}

EXPORT void *memalign(size_t align, size_t size)
{
    return allocate(align, size);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
    return allocate(align, size);
}

EXPORT int posix_memalign(void **block, size_t align, size_t size)
{
    *block = allocate(align, size);
    return NULL == *block ? ENOMEM : 0;
}

EXPORT void *valloc(size_t size)
{
    return allocate((size_t) sysconf(_SC_PAGESIZE), size);
}

/* ---- libxpmem ----------------------------------------------------------- */

/* libxpmem's */
typedef struct xpmem_addr {
    int64_t apid;
    off_t offset;
} xpmem_addr_t;

static bool fails(const char *call)
{
    const char *failing = getenv("XPMEM_FAILS");

    if (NULL == failing || 0 != strcmp(call, failing)) {
        return false;
    }
    errno = EACCES;
    return true;
}

/* A segment, and the right to use it, have the number of the process. */
EXPORT int64_t xpmem_make(void *at, size_t size, int permit_type, void *permit_value)
{
    (void) permit_type;
    (void) permit_value;
    if (NULL != at || (size_t) -1 != size) {
        errno = EINVAL;
        return -1;
    }
    return fails("make") ? -1 : getpid();
}

EXPORT int xpmem_remove(int64_t segid)
{
    return segid == getpid() ? 0 : -1;
}

EXPORT int64_t xpmem_get(int64_t segid, int flags, int permit_type, void *permit_value)
{
    (void) flags;
    (void) permit_type;
    (void) permit_value;
    return fails("get") ? -1 : segid;
}

EXPORT int xpmem_release(int64_t apid)
{
    return apid > 0 ? 0 : -1;
}

/* The heap of the process that has [at, at + size): its range in *start and *end. */
static bool find_heap(int64_t pid, uint64_t at, size_t size, uint64_t *start, uint64_t *end)
{
    char path[64], line[PATH_MAX + 128], shared;
    bool is_found = false;
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%lld/maps", (long long) pid);
    maps = fopen(path, "re");
    while (NULL != maps && !is_found && NULL != fgets(line, sizeof(line), maps)) {
        unsigned long long low, high;
        is_found = 3 == sscanf(line, "%llx-%llx rw-%c", &low, &high, &shared) && 's' == shared &&
                   at >= low && at + size <= high;
        *start = low;
        *end = high;
    }
    if (NULL != maps) {
        fclose(maps);
    }
    return is_found;
}

EXPORT void *xpmem_attach(xpmem_addr_t addr, size_t size, void *at)
{
    uint64_t offset = (uint64_t) addr.offset, start, end;
    char path[96];
    void *base;
    int fd;

    if (NULL != at || fails("attach")) {
        return (void *) -1;
    }
    if (!find_heap(addr.apid, offset, size, &start, &end)) {
        errno = ENOENT;
        return (void *) -1;
    }
    snprintf(path, sizeof(path), "/proc/%lld/map_files/%llx-%llx", (long long) addr.apid,
             (unsigned long long) start, (unsigned long long) end);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return (void *) -1;
    }
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t) (offset - start));
    close(fd);
    return base;
}

/* Whoever detaches what is not attached, or detaches it twice, is to be found. */
EXPORT int xpmem_detach(void *at)
{
    if (0 != munmap(at, HEAP_ALIGN)) {
        abort();
    }
    return 0;
}
