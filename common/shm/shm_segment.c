/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: this process's own, and claiming a ring in a peer's.  Layout and states: shm_wire.h.
 *
 * A segment's size is sealed, so no peer can shrink it under the feet of the others; memory for
 * what a claimer touches is allocated by fallocate() before it is touched, so a lack of memory is
 * an error here and not a SIGBUS.
 */
#include "shm/shm_types.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fabric/fab_params.h"

enum {
    FAB_SHM_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    FAB_SHM_BACK_STEP = 1 << 16,
};

/* ---- this process's segment --------------------------------------------- */

static void fab_shm_seg_fill(const fab_shm_domain_t *dom, fab_shm_seg_t *seg)
{
    const fab_shm_addr_t *addr = &dom->addr;

    seg->magic = FAB_SHM_MAGIC;
    seg->version = FAB_SHM_VERSION;
    seg->ring_size = addr->ring_size;
    seg->num_rings = addr->num_rings;
    seg->eager_max = addr->eager_max;
    seg->size = fab_shm_seg_size(addr->ring_size, addr->num_rings);
    seg->name = dom->fab->config.name;
    memcpy(seg->nonce, addr->nonce, sizeof(seg->nonce));
}

static int fab_shm_seg_error(fab_shm_domain_t *dom, const char *call, size_t size, const char **why)
{
    *why = fab_sentence(dom->fab, "%s of the segment for shared memory (%zu bytes) failed: %s.",
                        call, size, strerror(errno));
    return OPAL_ERR_OUT_OF_RESOURCE;
}

/*
 * Memory for these bytes.  False, and errno, if there is none.  A signal to the program ends
 * fallocate() and undoes what that call did, so it is tried again, and in steps that are over
 * before the next tick of a profiler's timer.
 */
static bool fab_shm_back(int fd, off_t at, off_t len)
{
    while (len > 0) {
        off_t step = len < FAB_SHM_BACK_STEP ? len : FAB_SHM_BACK_STEP;
        if (0 == fallocate(fd, 0, at, step)) {
            at += step;
            len -= step;
        } else if (EINTR != errno) {
            return false;
        }
    }
    return true;
}

int fab_shm_seg_create(fab_shm_domain_t *dom, uint32_t ring_size, uint32_t num_rings,
                       const char **why)
{
    size_t size = fab_shm_seg_size(ring_size, num_rings);
    uint32_t eager_max = fab_shm_ring_eager_max(ring_size);
    void *at;
    int rc;

    dom->fd = memfd_create("pml_tm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (dom->fd < 0) {
        return fab_shm_seg_error(dom, "memfd_create()", size, why);
    }
    if (0 != ftruncate(dom->fd, (off_t) size) || 0 != fcntl(dom->fd, F_ADD_SEALS, FAB_SHM_SEALS) ||
        !fab_shm_back(dom->fd, 0, FAB_SHM_PAGE)) {
        rc = fab_shm_seg_error(dom, "ftruncate(), fcntl(F_ADD_SEALS) or fallocate()", size, why);
        goto err_close;
    }
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, dom->fd, 0);
    if (MAP_FAILED == at) {
        rc = fab_shm_seg_error(dom, "mmap()", size, why);
        goto err_close;
    }
    dom->seg = at;
    dom->entries = fab_shm_seg_entries(at);
    dom->rings = (unsigned char *) at + fab_shm_rings_at(num_rings);
    dom->addr.fd = dom->fd;
    dom->addr.ring_size = ring_size;
    dom->addr.num_rings = num_rings;
    dom->addr.eager_max = eager_max < fab_params.shm_eager_limit ? eager_max
                                                                 : fab_params.shm_eager_limit;
    fab_shm_seg_fill(dom, at);
    return OPAL_SUCCESS;

err_close:
    close(dom->fd);
    dom->fd = -1;
    return rc;
}

void fab_shm_seg_destroy(fab_shm_domain_t *dom)
{
    if (NULL != dom->seg) {
        munmap(dom->seg, fab_shm_seg_size(dom->addr.ring_size, dom->addr.num_rings));
        close(dom->fd);
        dom->seg = NULL;
    }
}

void fab_shm_ring_free(fab_shm_domain_t *dom, uint32_t index)
{
    fab_shm_entry_t *entry = &dom->entries[index];
    void *ring = dom->rings + (size_t) index * dom->addr.ring_size;

    /*
     * The next claimer must find zeros; giving the memory back does that as well.  By address, not
     * by dom->fd: a program that closed all its file descriptors may have opened something else
     * under that number.
     */
    if (0 != madvise(ring, dom->addr.ring_size, MADV_REMOVE)) {
        memset(ring, 0, dom->addr.ring_size);
    }
    atomic_store_explicit(&entry->ctl.tail, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->ctl.idle, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->ctl.is_refused, 0, memory_order_relaxed);
    /* release: pairs with the CAS in fab_shm_claim() */
    atomic_store_explicit(&entry->state, FAB_SHM_FREE, memory_order_release);
    atomic_store_explicit(&dom->seg->claim_hint, index, memory_order_relaxed);
}

/* ---- a peer's segment --------------------------------------------------- */

static bool fab_shm_is_regular(const struct stat *st, size_t size)
{
    return S_ISREG(st->st_mode) && (off_t) size == st->st_size;
}

/*
 * Open what the path leads to if it has the size of the segment.  Otherwise -1, and errno, 0 if it
 * is another file.
 */
static int fab_shm_open_file(const char *path, size_t size)
{
    struct stat st;
    int fd = -1;
    int seals;

    if (0 != stat(path, &st)) {
        return -1;
    }
    /* Asked before it is opened: opening something else could block or have effects. */
    if (fab_shm_is_regular(&st, size)) {
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            return -1;
        }
        seals = fcntl(fd, F_GET_SEALS);
        if (0 == fstat(fd, &st) && fab_shm_is_regular(&st, size) && seals >= 0 &&
            0 != (seals & F_SEAL_SHRINK)) {
            return fd;
        }
        close(fd);
    }
    errno = 0;
    return -1;
}

static int fab_shm_open_peer(fab_shm_ep_t *ep, const char **why)
{
    const fab_shm_addr_t *addr = &ep->addr;
    const char *advice =
        "Both processes must have the same user and user namespace; share them between containers.";
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/fd/%d", addr->pid, addr->fd);
    fd = fab_shm_open_file(path, fab_shm_seg_size(addr->ring_size, addr->num_rings));
    if (fd < 0) {
        int error = errno;
        if (0 == error || ENOENT == error) {
            advice = "The process has ended, or has left the job.";
        }
        *why = fab_sentence(
            ep->dom->fab,
            "The shared memory of process %u on this host cannot be opened (%s: %s). %s", addr->pid,
            path, 0 == error ? "another file" : strerror(error), advice);
    }
    return fd;
}

static bool fab_shm_seg_matches(const fab_shm_ep_t *ep, const fab_shm_seg_t *seg)
{
    const fab_shm_addr_t *addr = &ep->addr;

    return FAB_SHM_MAGIC == seg->magic && FAB_SHM_VERSION == seg->version &&
           addr->ring_size == seg->ring_size && addr->num_rings == seg->num_rings &&
           fab_shm_seg_size(addr->ring_size, addr->num_rings) == seg->size &&
           ep->peer->name == seg->name && 0 == memcmp(seg->nonce, addr->nonce, sizeof(seg->nonce));
}

static int fab_shm_map_peer(fab_shm_ep_t *ep, int fd, const char **why)
{
    size_t len = fab_shm_rings_at(ep->addr.num_rings);
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (MAP_FAILED == at) {
        *why = fab_sentence(ep->dom->fab,
                            "mmap() of %zu bytes of the shared memory of process %u failed: %s.",
                            len, ep->addr.pid, strerror(errno));
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (!fab_shm_seg_matches(ep, at)) {
        *why = fab_sentence(
            ep->dom->fab,
            "The shared memory of process %u is another process's: its head has other marks than "
            "its address. The process has ended.",
            ep->addr.pid);
        munmap(at, len);
        return OPAL_ERR_UNREACH;
    }
    ep->seg = at;
    ep->seg_len = len;
    return OPAL_SUCCESS;
}

static void fab_shm_unmap_peer(fab_shm_ep_t *ep)
{
    munmap(ep->seg, ep->seg_len);
    ep->seg = NULL;
}

/* Memory for the page that holds the entry; entries lie across pages, so for both. */
static bool fab_shm_back_entry(int fd, uint32_t index)
{
    off_t at = (off_t) (sizeof(fab_shm_seg_t) + (size_t) index * sizeof(fab_shm_entry_t));

    return fab_shm_back(fd, at, sizeof(fab_shm_entry_t));
}

/* Raise seg->high above index. */
static void fab_shm_raise_high(fab_shm_seg_t *seg, uint32_t index)
{
    uint32_t high = atomic_load_explicit(&seg->high, memory_order_relaxed);

    while (high <= index && !atomic_compare_exchange_weak(&seg->high, &high, index + 1)) {
    }
}

/* Take a free entry. Returns its index; num_rings if there is none, and then *why. */
static uint32_t fab_shm_claim(fab_shm_ep_t *ep, int fd, const char **why)
{
    uint32_t num_rings = ep->addr.num_rings;
    fab_shm_entry_t *entries = fab_shm_seg_entries(ep->seg);
    uint64_t claimed = fab_shm_state(ep->dom->addr.pid, FAB_SHM_CLAIMED);
    uint32_t hint = atomic_load_explicit(&ep->seg->claim_hint, memory_order_relaxed) % num_rings;

    for (uint32_t i = 0; i < num_rings; i++) {
        uint32_t index = (hint + i) % num_rings;
        uint64_t expected = FAB_SHM_FREE;
        if (!fab_shm_back_entry(fd, index)) {
            *why = fab_sentence(ep->dom->fab,
                                "There is no memory for a ring towards process %u: %s.",
                                ep->addr.pid, strerror(errno));
            return num_rings;
        }
        /* acquire: pairs with the release in fab_shm_ring_free() */
        if (atomic_compare_exchange_strong(&entries[index].state, &expected, claimed)) {
            atomic_store_explicit(&ep->seg->claim_hint, index + 1, memory_order_relaxed);
            fab_shm_raise_high(ep->seg, index);
            return index;
        }
    }
    fab_counters.shm_rings_exhausted++;
    *why = fab_sentence(
        ep->dom->fab,
        "All %u rings of process %u are in use by other processes. Raise "
        "%sshm_max_peers above the number of processes on this host that talk to one.",
        num_rings, ep->addr.pid, fab_params.prefix);
    return num_rings;
}

/* Map the claimed ring and prepare to send through it. */
static int fab_shm_tx_open(fab_shm_ep_t *ep, int fd, uint32_t index, const char **why)
{
    uint32_t size = ep->addr.ring_size;
    uint32_t num_slots = size / FAB_SHM_LINE;
    off_t at = (off_t) (fab_shm_rings_at(ep->addr.num_rings) + (size_t) index * size);
    uint64_t *stale = calloc((num_slots + 63) / 64, sizeof(*stale));
    void *slots = MAP_FAILED;

    if (NULL != stale && fab_shm_back(fd, at, size)) {
        slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    }
    if (MAP_FAILED == slots) {
        *why = fab_sentence(
            ep->dom->fab,
            "There is no memory for a ring of %u bytes towards process %u: %s. Lower "
            "%sshm_ring_size.",
            size, ep->addr.pid, strerror(errno), fab_params.prefix);
        /* what part of it was had */
        (void) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, size);
        free(stale);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    ep->entry = &fab_shm_seg_entries(ep->seg)[index];
    fab_shm_tx_init(&ep->tx, slots, num_slots, stale, &ep->entry->ctl, &ep->seg->doorbell, index);
    return OPAL_SUCCESS;
}

static void fab_shm_ring_doorbell(fab_shm_tx_t *tx)
{
    atomic_fetch_or_explicit(tx->doorbell, UINT64_C(1) << tx->doorbell_bit, memory_order_acq_rel);
}

/* Tell the owner who sends here. */
static void fab_shm_introduce(fab_shm_ep_t *ep)
{
    const fab_shm_domain_t *dom = ep->dom;

    ep->entry->name = dom->fab->config.name;
    ep->entry->addr = dom->addr;
    /* release: pairs with the acquire in fab_shm_look_at() */
    atomic_store_explicit(&ep->entry->state, fab_shm_state(dom->addr.pid, FAB_SHM_READY),
                          memory_order_release);
    fab_shm_ring_doorbell(&ep->tx);
}

int fab_shm_connect(fab_shm_ep_t *ep, const char **why)
{
    int fd = fab_shm_open_peer(ep, why);
    int rc = OPAL_ERR_UNREACH;
    uint32_t index;

    if (fd < 0) {
        return rc;
    }
    if (OPAL_SUCCESS != fab_shm_map_peer(ep, fd, why)) {
        goto err_close;
    }
    if (atomic_load_explicit(&ep->seg->is_finalized, memory_order_relaxed)) {
        *why = fab_sentence(ep->dom->fab, "Process %u has left.", ep->addr.pid);
        goto err_unmap;
    }
    if (OPAL_SUCCESS != fab_shm_conn_add(ep)) {
        *why = fab_sentence(ep->dom->fab, "There is not enough memory to connect to process %u.",
                            ep->addr.pid);
        goto err_unmap;
    }
    index = fab_shm_claim(ep, fd, why);
    if (index == ep->addr.num_rings) {
        goto err_conn;
    }
    if (OPAL_SUCCESS != fab_shm_tx_open(ep, fd, index, why)) {
        goto err_claim;
    }
    fab_shm_introduce(ep);
    close(fd);
    return OPAL_SUCCESS;

err_claim:
    atomic_store_explicit(&fab_shm_seg_entries(ep->seg)[index].state, FAB_SHM_FREE,
                          memory_order_release);
err_conn:
    fab_shm_conn_remove(ep);
err_unmap:
    fab_shm_unmap_peer(ep);
err_close:
    close(fd);
    return rc;
}

void fab_shm_disconnect(fab_shm_ep_t *ep)
{
    if (NULL == ep->entry) {
        return;
    }
    /* release: pairs with the acquire in fab_shm_look_at(): all messages are there before it */
    atomic_store_explicit(&ep->entry->state, fab_shm_state(ep->dom->addr.pid, FAB_SHM_CLOSED),
                          memory_order_release);
    fab_shm_ring_doorbell(&ep->tx);
    munmap(ep->tx.slots, ep->addr.ring_size);
    free(ep->tx.stale);
    ep->tx = (fab_shm_tx_t){0};
    ep->entry = NULL;
    fab_shm_unmap_peer(ep);
    fab_shm_conn_remove(ep);
}
