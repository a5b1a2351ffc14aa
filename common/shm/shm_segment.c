/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's own segment.  Layout and states: shm_wire.h.
 *
 * Its size is sealed, so no peer can shrink it while others have it mapped.  The owner does not
 * read past what a claimer uses.
 */
#include "shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "fabric/fab_params.h"

enum {
    FAB_SHM_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    FAB_SHM_SPACE_SHARE = 16, /* of a limit on address space, that spare rings may lead to */
};

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void seg_fill(const fab_shm_domain_t *dom, fab_shm_seg_t *seg)
{
    const fab_shm_addr_t *addr = &dom->addr;

    seg->magic = FAB_SHM_MAGIC;
    seg->version = FAB_SHM_VERSION;
    seg->ring_size = addr->ring_size;
    seg->num_rings = addr->num_rings;
    seg->eager_max = addr->eager_max;
    seg->page = addr->page;
    seg->num_ahead = addr->num_ahead;
    seg->size = fab_shm_seg_size(addr);
    seg->name = dom->fab->config.name;
    memcpy(seg->nonce, addr->nonce, sizeof(seg->nonce));
    atomic_store_explicit(&seg->backed, fab_shm_entries_within(addr, addr->page),
                          memory_order_relaxed);
}

static int seg_error(fab_shm_domain_t *dom, const char *call, size_t size, const char **why)
{
    *why = fab_sentence(dom->fab, "%s of the segment for shared memory (%zu bytes) failed: %s.",
                        call, size, strerror(errno));
    return OPAL_ERR_OUT_OF_RESOURCE;
}

/*
 * The size of a ring in bytes, if no parameter sets it.  Some processors get a line faster from the
 * second-level cache of another one than from the first, which is busy with loads and stores: an
 * Intel processor with 48 KiB of first level fills a ring of 256 KiB up to twice as fast as one of
 * 128 KiB or less, and one of 512 KiB, which may take a quarter of its second level, up to 1.5
 * times as fast as that.  To others the length makes no difference.  A ring uses its first part
 * alone until much has been sent (shm_ring_inl.h, "Growth").
 *
 * With more processes rings are shorter: long ones only if those that a process receives by can all
 * be in its second-level cache, and at most FAB_SHM_RINGS_BYTES for all of them.
 */
static uint32_t choose_ring_size(uint32_t num_local)
{
    const long second_level = sysconf(_SC_LEVEL2_CACHE_SIZE); /* 0: it is not known */
    uint32_t size = second_level / 4 >= FAB_SHM_RING_LONGER ? FAB_SHM_RING_LONGER
                                                            : FAB_SHM_RING_LONG;

    while (size > FAB_SHM_RING_FIRST && (uint64_t) size * num_local > FAB_SHM_LONG_BYTES) {
        size /= 2;
    }
    while (size > FAB_SHM_RING_LEAST && (uint64_t) size * num_local > FAB_SHM_RINGS_BYTES) {
        size /= 2;
    }
    return size;
}

/* This process's limit (RLIMIT_*), bytes. */
static rlim_t limit_of(int resource)
{
    struct rlimit limit;

    return 0 == getrlimit(resource, &limit) ? limit.rlim_cur : RLIM_INFINITY;
}

/*
 * Most bytes of a segment with spare rings.  These take no memory, but count where the size of
 * files (ulimit -f) or the address space (ulimit -v), which the program needs, is limited.
 */
static rlim_t spare_limit(void)
{
    rlim_t file = limit_of(RLIMIT_FSIZE), space = limit_of(RLIMIT_AS);

    space = RLIM_INFINITY == space ? space : space / FAB_SHM_SPACE_SHARE;
    return file < space ? file : space;
}

/* The number of rings, if no parameter sets it. The other fields that the layout needs are set. */
static uint32_t choose_num_rings(const fab_shm_addr_t *addr, uint32_t num_local)
{
    const rlim_t limit = spare_limit();
    uint32_t spare = FAB_SHM_SPARE_RINGS;
    fab_shm_addr_t tried = *addr;

    do {
        tried.num_rings = min(num_local, FAB_SHM_RINGS_MAX - spare) + spare;
        spare /= 2;
    } while (tried.num_rings > num_local && fab_shm_seg_size(&tried) > limit);
    return tried.num_rings;
}

/* Choose number and size of the rings, and how many of them a claimer maps at once. */
static void choose_layout(fab_shm_addr_t *addr, uint32_t num_local)
{
    uint32_t ring_size = choose_ring_size(num_local);

    /* a smaller ring would leave the rest of its page unused */
    ring_size = ring_size < addr->page ? addr->page : ring_size;
    if (fab_params.eager_limit > 0) { /* the user's */
        ring_size = fab_shm_ring_for((uint32_t) fab_params.eager_limit, ring_size);
    }
    addr->ring_size = 0 != fab_params.shm_ring_size ? fab_params.shm_ring_size : ring_size;
    addr->num_rings = 0 != fab_params.shm_max_peers ? fab_params.shm_max_peers
                                                    : choose_num_rings(addr, num_local);
    addr->num_ahead = min(min(num_local, addr->num_rings),
                          (uint32_t) (FAB_SHM_AHEAD_MAX / fab_shm_stride(addr)));
    addr->eager_max = min(fab_shm_ring_eager_max(addr->ring_size),
                          fab_params_eager(fab_limits.shm_eager, FAB_SHM_RING_MAX));
}

/* A memfd of this size, which is sealed, with memory for its first page. -1, and errno. */
static int seg_file(const fab_shm_addr_t *addr, size_t size)
{
    int fd = fab_file_memory(FAB_SHM_FILE, MFD_ALLOW_SEALING, size);

    if (fd >= 0 &&
        (0 != fcntl(fd, F_ADD_SEALS, FAB_SHM_SEALS) || !fab_file_back(fd, 0, addr->page))) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int fab_shm_seg_create(fab_shm_domain_t *dom, const char **why)
{
    size_t size;
    void *at;
    int rc;

    choose_layout(&dom->addr, dom->fab->config.num_local);
    size = fab_shm_seg_size(&dom->addr);
    fab_file_open(&dom->file, seg_file(&dom->addr, size));
    if (dom->file.fd < 0) {
        return seg_error(dom, "memfd_create(), ftruncate(), fcntl(F_ADD_SEALS) or fallocate()",
                         size, why);
    }
    at = fab_shm_map_file(dom->file.fd, size, fab_shm_ring_at(&dom->addr, dom->addr.num_ahead));
    if (MAP_FAILED == at) {
        rc = seg_error(dom, "mmap(), munlock() or mprotect()", size, why);
        fab_file_close(&dom->file);
        return rc;
    }
    dom->seg = at;
    dom->entries = fab_shm_seg_entries(at);
    dom->addr.fd = dom->file.fd;
    seg_fill(dom, at);
    return OPAL_SUCCESS;
}

void fab_shm_seg_destroy(fab_shm_domain_t *dom)
{
    if (NULL != dom->seg) {
        /* while the segment is mapped, no other file has its inode number */
        fab_file_close(&dom->file);
        munmap(dom->seg, fab_shm_seg_size(&dom->addr));
        dom->seg = NULL;
    }
}

void fab_shm_entry_release(fab_shm_seg_t *seg, uint32_t index)
{
    /* release: pairs with the CAS in claim_entry() (shm_connect.c) */
    atomic_store_explicit(&fab_shm_seg_entries(seg)[index].state, FAB_SHM_FREE,
                          memory_order_release);
    if (index < atomic_load_explicit(&seg->claim_hint, memory_order_relaxed)) {
        atomic_store_explicit(&seg->claim_hint, index, memory_order_relaxed);
    }
}

bool fab_shm_ring_open(fab_shm_domain_t *dom, uint32_t index)
{
    return index < dom->addr.num_ahead ||
           0 == mprotect(fab_shm_ring(dom, index), fab_shm_stride(&dom->addr),
                         PROT_READ | PROT_WRITE);
}

void fab_shm_ring_free(fab_shm_domain_t *dom, uint32_t index)
{
    fab_shm_entry_t *entry = &dom->entries[index];
    void *ring = fab_shm_ring(dom, index);

    if (!fab_shm_ring_open(dom, index)) {
        return; /* no memory for page tables; a later tick tries again, or it stays in use */
    }

    /*
     * The next claimer must find zeros, and does if the memory is given back.  Give it back by
     * address, not by its file, whose descriptor may be another one's by now.
     */
    if (0 != madvise(ring, fab_shm_stride(&dom->addr), MADV_REMOVE)) {
        memset(ring, 0, dom->addr.ring_size);
    }
    atomic_store_explicit(&entry->ctl.tail, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->ctl.idle, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->ctl.is_refused, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->ctl.pulled, 0, memory_order_relaxed);
    fab_shm_entry_release(dom->seg, index);
}
