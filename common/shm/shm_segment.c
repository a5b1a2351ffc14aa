/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: this process's own, and claiming a ring in a peer's.  Layout and states: shm_wire.h.
 *
 * A segment's size is sealed, so no peer can shrink it while others have it mapped.  A claimer gets
 * memory for all that it will touch, before it touches it, so a lack of memory is an error here and
 * not a SIGBUS.  The owner does not read past what the claimer uses.
 */
#include "shm/shm_types.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"
#include "fabric/fab_params.h"

#define NOEXEC_SEAL 8U /* MFD_NOEXEC_SEAL: a host may forbid memory files without it */

enum {
    FAB_SHM_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    FAB_SHM_BACK_STEP = 1 << 16, /* bytes; takes some 10 us */
    FAB_SHM_SPACE_SHARE = 16,    /* of a limit on address space, that spare rings may lead to */
};

/* ---- this process's segment --------------------------------------------- */

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Entries that lie wholly in the first len bytes of the segment. */
static uint32_t entries_within(const fab_shm_addr_t *addr, size_t len)
{
    size_t n = (len - sizeof(fab_shm_seg_t)) / sizeof(fab_shm_entry_t);

    return n < addr->num_rings ? (uint32_t) n : addr->num_rings;
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
    atomic_store_explicit(&seg->backed, entries_within(addr, addr->page), memory_order_relaxed);
}

static int seg_error(fab_shm_domain_t *dom, const char *call, size_t size, const char **why)
{
    *why = fab_sentence(dom->fab, "%s of the segment for shared memory (%zu bytes) failed: %s.",
                        call, size, strerror(errno));
    return OPAL_ERR_OUT_OF_RESOURCE;
}

/*
 * Allocate memory for these bytes.  False, with errno, if there is none.  A signal ends fallocate()
 * and undoes what the call did.  Then smaller steps are tried, which are over before the next tick
 * of a profiler's timer.
 */
static bool back(int fd, off_t at, off_t len)
{
    off_t max_step = len;

    while (len > 0) {
        off_t step = len < max_step ? len : max_step;
        if (0 == fallocate(fd, 0, at, step)) {
            at += step;
            len -= step;
        } else if (EINTR == errno) {
            max_step = FAB_SHM_BACK_STEP;
        } else {
            return false;
        }
    }
    return true;
}

/*
 * The size of a ring in bytes, if no parameter sets it: by count and by time the best of 64 KiB to
 * 4 MiB for the first thousand messages of a pair, and for collectives, since all of it stays in
 * the processors' own caches.  It does not depend on the number of processes, unless these would
 * take more than FAB_SHM_RINGS_BYTES to send to one of them.
 */
static uint32_t choose_ring_size(uint32_t num_local)
{
    uint32_t size = FAB_SHM_RING_SIZE;

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
    addr->ring_size = 0 != fab_params.shm_ring_size ? fab_params.shm_ring_size : ring_size;
    addr->num_rings = 0 != fab_params.shm_max_peers ? fab_params.shm_max_peers
                                                    : choose_num_rings(addr, num_local);
    addr->num_ahead = min(min(num_local, addr->num_rings),
                          (uint32_t) (FAB_SHM_AHEAD_MAX / fab_shm_stride(addr)));
    addr->eager_max = min(fab_shm_ring_eager_max(addr->ring_size), fab_params.shm_eager_limit);
}

void fab_shm_file_open(fab_shm_file_t *file, int fd)
{
    struct stat st;

    *file = (fab_shm_file_t){.fd = -1};
    if (fd >= 0 && 0 == fstat(fd, &st)) {
        *file = (fab_shm_file_t){
            .fd = fd, .dev = (uint64_t) st.st_dev, .ino = (uint64_t) st.st_ino};
    }
}

bool fab_shm_file_is_open(const fab_shm_file_t *file)
{
    struct stat st;

    return file->fd >= 0 && 0 == fstat(file->fd, &st) && file->dev == (uint64_t) st.st_dev &&
           file->ino == (uint64_t) st.st_ino;
}

void fab_shm_file_close(fab_shm_file_t *file)
{
    if (fab_shm_file_is_open(file)) {
        close(file->fd);
    }
    file->fd = -1;
}

/* A memfd of this size, which is sealed, with memory for its first page. -1, and errno. */
static int seg_file(const fab_shm_addr_t *addr, size_t size)
{
    int fd;

    if (size > limit_of(RLIMIT_FSIZE)) { /* ftruncate() would end the process: SIGXFSZ */
        errno = EFBIG;
        return -1;
    }
    fd = memfd_create("pml_tm", MFD_CLOEXEC | MFD_ALLOW_SEALING | NOEXEC_SEAL);
    if (fd < 0 && EINVAL == errno) { /* Linux before 6.3 */
        fd = memfd_create("pml_tm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd >= 0 && (0 != ftruncate(fd, (off_t) size) ||
                    0 != fcntl(fd, F_ADD_SEALS, FAB_SHM_SEALS) || !back(fd, 0, addr->page))) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/*
 * Map the segment without getting memory for it: most of it is never used.  In a program that
 * called mlockall(MCL_FUTURE), a new mapping gets memory for all of it that is accessible.  So its
 * first part becomes accessible only after it was unlocked, and the rest, of spare rings, only when
 * these are used: mlockall(MCL_CURRENT) leaves it alone.  Core dumps leave out all of it.
 * MAP_FAILED, and errno.
 */
static void *seg_map(int fd, size_t size, size_t first)
{
    void *at = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (MAP_FAILED != at &&
        (0 != munlock(at, size) || 0 != mprotect(at, first, PROT_READ | PROT_WRITE))) {
        int error = errno;
        munmap(at, size);
        errno = error;
        return MAP_FAILED;
    }
    if (MAP_FAILED != at) {
        (void) madvise(at, size, MADV_DONTDUMP);
    }
    return at;
}

int fab_shm_seg_create(fab_shm_domain_t *dom, const char **why)
{
    size_t size;
    void *at;
    int rc;

    choose_layout(&dom->addr, dom->fab->config.num_local);
    size = fab_shm_seg_size(&dom->addr);
    fab_shm_file_open(&dom->file, seg_file(&dom->addr, size));
    if (dom->file.fd < 0) {
        return seg_error(dom, "memfd_create(), ftruncate(), fcntl(F_ADD_SEALS) or fallocate()",
                         size, why);
    }
    at = seg_map(dom->file.fd, size, fab_shm_ring_at(&dom->addr, dom->addr.num_ahead));
    if (MAP_FAILED == at) {
        rc = seg_error(dom, "mmap(), munlock() or mprotect()", size, why);
        fab_shm_file_close(&dom->file);
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
        fab_shm_file_close(&dom->file);
        munmap(dom->seg, fab_shm_seg_size(&dom->addr));
        dom->seg = NULL;
    }
}

/* The entry and its ring are free. Claimers look there first if it is lower than their hint. */
static void entry_release(fab_shm_seg_t *seg, uint32_t index)
{
    /* release: pairs with the CAS in claim_entry() */
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
    for (int i = 0; i < FAB_SHM_ANSWERS; i++) {
        atomic_store_explicit(&entry->ctl.answers[i].number, 0, memory_order_relaxed);
    }
    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        atomic_store_explicit(&entry->coops[k].done, 0, memory_order_relaxed);
    }
    entry_release(dom->seg, index);
}

/* ---- a peer's segment --------------------------------------------------- */

/*
 * OPAL_ERR_OUT_OF_RESOURCE: something is used up, which others may give back; try again later.
 */
static int connect_error(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
        return OPAL_ERR_OUT_OF_RESOURCE;
    default:
        return OPAL_ERR_UNREACH;
    }
}

static int not_its_segment(fab_shm_ep_t *ep, const char **why)
{
    *why = fab_sentence(ep->dom->fab,
                        "The shared memory of process %u is another file: its head does not match "
                        "the process's address. The process has ended, or closed its descriptors.",
                        ep->addr.pid);
    return OPAL_ERR_UNREACH;
}

static bool seg_matches(const fab_shm_ep_t *ep, const fab_shm_seg_t *seg)
{
    const fab_shm_addr_t *addr = &ep->addr;

    return FAB_SHM_MAGIC == seg->magic && FAB_SHM_VERSION == seg->version &&
           addr->ring_size == seg->ring_size && addr->num_rings == seg->num_rings &&
           addr->page == seg->page && addr->num_ahead == seg->num_ahead &&
           fab_shm_seg_size(addr) == seg->size && ep->peer->name == seg->name &&
           0 == memcmp(seg->nonce, addr->nonce, sizeof(seg->nonce));
}

/*
 * Is this file the peer's segment?  It is read, not mapped, since reading does no harm whatever the
 * file is.  If its head has the nonce of the peer's address, that process made it, and its size is
 * sealed.
 */
static bool is_segment(const fab_shm_ep_t *ep, int fd)
{
    fab_shm_seg_t head;

    return (ssize_t) sizeof(head) == pread(fd, &head, sizeof(head), 0) && seg_matches(ep, &head);
}

/* The file of the peer's segment.  On an error *fd is -1. */
static int open_peer(fab_shm_ep_t *ep, int *fd, const char **why)
{
    const fab_shm_addr_t *addr = &ep->addr;
    const char *advice =
        "Both processes must have the same user, and the same user or network namespace.";
    char path[64];
    int rc;

    snprintf(path, sizeof(path), "/proc/%u/fd/%d", addr->pid, addr->fd);
    /* The pid may be another process's by now: a pipe or a terminal of it must not block. */
    *fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd >= 0) {
        if (is_segment(ep, *fd)) {
            return OPAL_SUCCESS;
        }
        close(*fd);
        *fd = -1;
        return not_its_segment(ep, why);
    }
    rc = connect_error(errno);
    if (ENOENT == errno) {
        advice = "The process has ended, or has left the job.";
    } else if (EMFILE == errno || ENFILE == errno) {
        advice = "Raise the limit on open files (ulimit -n), or close some.";
    } else if (OPAL_ERR_OUT_OF_RESOURCE == rc) {
        advice = "The host is short of memory.";
    }
    *why = fab_sentence(
        ep->dom->fab, "The shared memory of process %u on this host cannot be opened (%s: %s). %s",
        addr->pid, path, strerror(errno), advice);
    return rc;
}

static int map_error(fab_shm_ep_t *ep, size_t len, const char **why)
{
    int rc = connect_error(errno);

    *why = fab_sentence(ep->dom->fab,
                        "mmap() of %zu bytes of the shared memory of process %u failed: %s.", len,
                        ep->addr.pid, strerror(errno));
    return rc;
}

/* Map the first page. */
static int map_head(fab_shm_ep_t *ep, int fd, const char **why)
{
    void *at = mmap(NULL, ep->addr.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (MAP_FAILED == at) {
        return map_error(ep, ep->addr.page, why);
    }
    (void) madvise(at, ep->addr.page, MADV_DONTDUMP); /* also when it is extended */
    ep->seg = at;
    ep->seg_len = ep->addr.page;
    return OPAL_SUCCESS;
}

void fab_shm_find(fab_shm_ep_t *ep)
{
    const char *why;
    int fd;

    if (OPAL_SUCCESS == open_peer(ep, &fd, &why)) {
        (void) map_head(ep, fd, &why);
        close(fd);
    }
}

void fab_shm_found(fab_shm_ep_t *ep, int fd)
{
    const char *why;

    if (NULL == ep->seg && is_segment(ep, fd) && OPAL_SUCCESS == map_head(ep, fd, &why)) {
        fab_counters.shm_segments_passed++;
        ep->retry_at = 0;
    }
}

/*
 * Extend the mapping, which may move.  No file is needed for this.  The mapping is unlocked, since
 * a locked one would get memory for all of it.
 */
static bool map_more(fab_shm_ep_t *ep, size_t len)
{
    void *at = ep->seg;

    if (len > ep->seg_len) {
        (void) munlock(ep->seg, ep->seg_len);
        at = mremap(ep->seg, ep->seg_len, len, MREMAP_MAYMOVE);
    }
    if (MAP_FAILED == at) {
        return false;
    }
    ep->seg = at;
    ep->seg_len = len;
    return true;
}

/* What a claimer maps in any case. */
static int map_ahead(fab_shm_ep_t *ep, const char **why)
{
    size_t len = fab_shm_ring_at(&ep->addr, ep->addr.num_ahead);

    return map_more(ep, len) ? OPAL_SUCCESS : map_error(ep, len, why);
}

static void unmap_peer(fab_shm_ep_t *ep)
{
    if (NULL != ep->seg) {
        munmap(ep->seg, ep->seg_len);
        ep->seg = NULL;
    }
}

static void shm_raise(_Atomic uint32_t *word, uint32_t to)
{
    uint32_t is = atomic_load_explicit(word, memory_order_relaxed);

    while (is < to && !atomic_compare_exchange_weak(word, &is, to)) {
    }
}

/*
 * Get memory for a part of the peer's segment, which is mapped.  Without its file (fd is -1) and
 * with a Linux older than 5.14, there is memory only at the first access.
 */
static bool back_mapped(fab_shm_ep_t *ep, int fd, size_t at, size_t len)
{
    return fd >= 0 ? back(fd, (off_t) at, (off_t) len)
                   : 0 == madvise((unsigned char *) ep->seg + at, len, MADV_POPULATE_WRITE) ||
                         EINVAL == errno;
}

/* Get memory for the pages of all entries up to this one. False, and errno, if there is none. */
static bool back_entries(fab_shm_ep_t *ep, int fd, uint32_t index)
{
    size_t page = ep->addr.page;
    uint32_t backed = atomic_load_explicit(&ep->seg->backed, memory_order_relaxed);
    size_t from = fab_shm_entry_at(backed) & ~(page - 1);
    size_t to = fab_shm_round_up(fab_shm_entry_at(index + 1), page);

    if (index < backed) {
        return true;
    }
    if (!back_mapped(ep, fd, from, to - from)) {
        return false;
    }
    shm_raise(&ep->seg->backed, entries_within(&ep->addr, to));
    return true;
}

static bool claim_entry(fab_shm_ep_t *ep, uint32_t index)
{
    fab_shm_entry_t *entry = &fab_shm_seg_entries(ep->seg)[index];
    uint64_t expected = FAB_SHM_FREE;

    if (expected != atomic_load_explicit(&entry->state, memory_order_relaxed)) {
        return false;
    }
    /* acquire: pairs with the release in fab_shm_ring_free() */
    return atomic_compare_exchange_strong(&entry->state, &expected,
                                          fab_shm_state(ep->dom->addr.pid, FAB_SHM_CLAIMED));
}

/*
 * Claim a free entry.  Each claimer begins its search at another entry, so that concurrent claimers
 * do not meet.  OPAL_ERR_RESOURCE_BUSY (all are in use), OPAL_ERR_OUT_OF_RESOURCE: with *why.
 */
static int claim(fab_shm_ep_t *ep, int fd, uint32_t *index, const char **why)
{
    uint32_t num_rings = ep->addr.num_rings;
    uint32_t hint = atomic_fetch_add_explicit(&ep->seg->claim_hint, 1, memory_order_relaxed);

    for (uint32_t i = 0; i < num_rings; i++) {
        *index = (hint % num_rings + i) % num_rings;
        if (!back_entries(ep, fd, *index)) {
            *why = fab_sentence(ep->dom->fab,
                                "There is no memory for a ring towards process %u: %s.",
                                ep->addr.pid, strerror(errno));
            return connect_error(errno);
        }
        shm_raise(&ep->seg->high, *index + 1); /* first: the owner finds a claimer that died */
        if (claim_entry(ep, *index)) {
            return OPAL_SUCCESS;
        }
    }
    *why = fab_sentence(
        ep->dom->fab,
        "All %u rings of process %u are in use by other processes. Raise "
        "%sshm_max_peers above the number of processes on this host that send to one.",
        num_rings, ep->addr.pid, fab_params.prefix);
    return OPAL_ERR_RESOURCE_BUSY;
}

/* The ring in this process; NULL, and errno. One that is not among the first has what is between
 * them and it unmapped. */
static void *map_ring(fab_shm_ep_t *ep, uint32_t index)
{
    const size_t ahead = ep->seg_len, at = fab_shm_ring_at(&ep->addr, index);

    if (index >= ep->addr.num_ahead) {
        if (!map_more(ep, at + ep->addr.ring_size)) {
            return NULL;
        }
        ep->seg_len = ahead;
        ep->ring_len = ep->addr.ring_size;
        (void) munmap((unsigned char *) ep->seg + ahead, at - ahead);
    }
    return (unsigned char *) ep->seg + at;
}

/* Get memory and page-table entries for the ring. False, and errno: there is no memory. */
static bool back_ring(fab_shm_ep_t *ep, int fd, uint32_t index, void *slots)
{
    if (!back_mapped(ep, fd, fab_shm_ring_at(&ep->addr, index), ep->addr.ring_size)) {
        return false;
    }
    /* else, and before Linux 5.14, the first access to each page costs a fault */
    (void) madvise(slots, ep->addr.ring_size, MADV_POPULATE_WRITE);
    return true;
}

static void unmap_ring(fab_shm_ep_t *ep, void *slots)
{
    if (0 != ep->ring_len) {
        munmap(slots, ep->ring_len);
        ep->ring_len = 0;
    }
}

/* Map the claimed ring and prepare to send through it. */
static int tx_open(fab_shm_ep_t *ep, int fd, uint32_t index, const char **why)
{
    uint32_t num_slots = fab_shm_num_slots_of(&ep->addr);
    uint64_t *stale = calloc((num_slots + 63) / 64, sizeof(*stale));
    void *slots = NULL != stale ? map_ring(ep, index) : NULL;

    if (NULL == slots || !back_ring(ep, fd, index, slots)) {
        int rc = connect_error(errno);
        *why = fab_sentence(
            ep->dom->fab,
            "There is no memory for a ring of %u bytes towards process %u: %s. Lower "
            "%sshm_ring_size.",
            ep->addr.ring_size, ep->addr.pid, strerror(errno), fab_params.prefix);
        if (NULL != slots) {
            /* give back the part of it that was allocated */
            (void) madvise(slots, ep->addr.ring_size, MADV_REMOVE);
            unmap_ring(ep, slots);
        }
        free(stale);
        return rc;
    }
    ep->entry = &fab_shm_seg_entries(ep->seg)[index];
    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        ep->fetches[k] = (fab_shm_fetch_t){.op = NULL};
        fab_shm_coop_idle(&ep->entry->coops[k], 0);
    }
    fab_shm_tx_init(&ep->tx, slots, num_slots, stale, &ep->entry->ctl, &ep->seg->doorbell, index);
    return OPAL_SUCCESS;
}

static void ring_doorbell(fab_shm_tx_t *tx)
{
    atomic_fetch_or_explicit(tx->doorbell, UINT64_C(1) << tx->doorbell_bit, memory_order_acq_rel);
}

/* Tell the owner who sends here. */
static void introduce(fab_shm_ep_t *ep)
{
    const fab_shm_domain_t *dom = ep->dom;

    ep->entry->name = dom->fab->config.name;
    ep->entry->addr = dom->addr;
    /* release: pairs with the acquire in fab_shm_look_at() */
    atomic_store_explicit(&ep->entry->state, fab_shm_state(dom->addr.pid, FAB_SHM_READY),
                          memory_order_release);
    ring_doorbell(&ep->tx);
}

/* Claim a ring in the peer's segment, which is mapped. */
static int connect_ring(fab_shm_ep_t *ep, int fd, const char **why)
{
    uint32_t index;
    int rc;

    if (OPAL_SUCCESS != fab_shm_conn_add(ep)) {
        *why = fab_sentence(ep->dom->fab, "There is not enough memory to connect to process %u.",
                            ep->addr.pid);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = claim(ep, fd, &index, why);
    if (OPAL_SUCCESS == rc) {
        rc = tx_open(ep, fd, index, why);
        if (OPAL_SUCCESS == rc) {
            introduce(ep);
            return OPAL_SUCCESS;
        }
        entry_release(ep->seg, index);
    }
    fab_shm_conn_remove(ep);
    return rc;
}

/* The peer's segment is mapped; fd is its file, or -1. */
static int connect_mapped(fab_shm_ep_t *ep, int fd, const char **why)
{
    int rc;

    if (0 != atomic_load_explicit(&ep->seg->is_finalized, memory_order_relaxed)) {
        *why = fab_sentence(ep->dom->fab, "Process %u has left.", ep->addr.pid);
        return OPAL_ERR_UNREACH;
    }
    rc = map_ahead(ep, why);
    return OPAL_SUCCESS == rc ? connect_ring(ep, fd, why) : rc;
}

int fab_shm_connect(fab_shm_ep_t *ep, const char **why)
{
    int fd;
    int rc = open_peer(ep, &fd, why);

    if (OPAL_SUCCESS == rc && NULL == ep->seg) {
        rc = map_head(ep, fd, why);
    } else if (OPAL_SUCCESS != rc && !fab_proc_is_gone(ep->addr.pid, ep->addr.start_time)) {
        if (NULL != ep->seg) {
            rc = OPAL_SUCCESS; /* found before: the programs may have changed their surroundings */
        } else if (OPAL_ERR_UNREACH == rc && fab_shm_pass_is_possible(ep->dom, &ep->addr)) {
            rc = fab_shm_pass_ask(ep, why);
        }
    }
    if (OPAL_SUCCESS == rc) {
        rc = connect_mapped(ep, fd, why);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

void fab_shm_disconnect(fab_shm_ep_t *ep)
{
    if (NULL == ep->entry) {
        unmap_peer(ep);
        return;
    }
    /* release: pairs with the acquire in fab_shm_look_at(): all messages are there before it */
    atomic_store_explicit(&ep->entry->state, fab_shm_state(ep->dom->addr.pid, FAB_SHM_CLOSED),
                          memory_order_release);
    ring_doorbell(&ep->tx);
    unmap_ring(ep, ep->tx.slots);
    free(ep->tx.stale);
    ep->tx = (fab_shm_tx_t){0};
    ep->entry = NULL;
    unmap_peer(ep);
    fab_shm_conn_remove(ep);
}
