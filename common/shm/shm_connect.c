/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claiming a ring in a peer's segment, and giving it up.  Layout and states: shm_wire.h.
 *
 * A claimer gets memory for all that it will touch, before it touches it, so a lack of memory is an
 * error here and not a SIGBUS.
 */
#include "shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "fabric/fab_host.h"
#include "fabric/fab_params.h"

static void shm_raise(_Atomic uint32_t *word, uint32_t to)
{
    uint32_t is = atomic_load_explicit(word, memory_order_relaxed);

    while (is < to && !atomic_compare_exchange_weak(word, &is, to)) {
    }
}

/*
 * Get memory for a part of the peer's segment, which is mapped.  False, and errno: there is none.
 * Without its file (fd is -1) and with a Linux older than 5.14, there is memory only at the first
 * access.  Where there is no memory for the file, the kernel says EFAULT: an access would be a
 * SIGBUS.
 */
static bool back_mapped(fab_shm_ep_t *ep, int fd, size_t at, size_t len)
{
    if (fd >= 0) {
        return fab_file_back(fd, (off_t) at, (off_t) len);
    }
    if (0 == madvise((unsigned char *) ep->seg + at, len, MADV_POPULATE_WRITE) || EINVAL == errno) {
        return true;
    }
    errno = EFAULT == errno ? ENOSPC : errno;
    return false;
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
    shm_raise(&ep->seg->backed, fab_shm_entries_within(&ep->addr, to));
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
            return fab_shm_connect_error(errno);
        }
        shm_raise(&ep->seg->high, *index + 1); /* first: the owner finds a claimer that died */
        if (claim_entry(ep, *index)) {
            return OPAL_SUCCESS;
        }
    }
    *why = fab_sentence(
        ep->dom->fab,
        "All %u rings of process %u are in use by other processes. Raise "
        "pml_tm_shm_max_peers above the number of processes on this host that send to one.",
        num_rings, ep->addr.pid);
    return OPAL_ERR_RESOURCE_BUSY;
}

/* The ring in this process; NULL, and errno. One that is not among the first has what is between
 * them and it unmapped. */
static void *map_ring(fab_shm_ep_t *ep, uint32_t index)
{
    const size_t ahead = ep->seg_len, at = fab_shm_ring_at(&ep->addr, index);

    if (index >= ep->addr.num_ahead) {
        if (!fab_shm_map_more(ep, at + ep->addr.ring_size)) {
            return NULL;
        }
        ep->seg_len = ahead;
        ep->ring_len = ep->addr.ring_size;
        (void) munmap((unsigned char *) ep->seg + ahead, at - ahead);
    }
    return (unsigned char *) ep->seg + at;
}

/*
 * Get memory and page-table entries for the part of the ring that is used at first.  False, and
 * errno: there is no memory.
 */
static bool back_ring(fab_shm_ep_t *ep, int fd, uint32_t index, void *slots)
{
    const size_t first = fab_shm_round_up(fab_shm_first_size(&ep->addr), ep->addr.page);

    if (!back_mapped(ep, fd, fab_shm_ring_at(&ep->addr, index), first)) {
        return false;
    }
    if (fd >= 0) { /* else the first access to each page costs a fault */
        (void) madvise(slots, first, MADV_POPULATE_WRITE);
    }
    return true;
}

bool fab_shm_tx_back(fab_shm_tx_t *tx)
{
    const size_t first = ((size_t) tx->mask + 1) * FAB_SHM_LINE;
    const size_t all = ((size_t) tx->full + 1) * FAB_SHM_LINE;

    /* before Linux 5.14 a lack of memory would only be known by a SIGBUS */
    if (0 != madvise((unsigned char *) tx->slots + first, all - first, MADV_POPULATE_WRITE)) {
        tx->full = tx->mask;
    }
    return tx->mask != tx->full;
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
        int rc = fab_shm_connect_error(errno);
        *why = fab_sentence(
            ep->dom->fab,
            "There is no memory for a ring of %u bytes towards process %u: %s. Lower "
            "pml_tm_shm_ring_size.",
            ep->addr.ring_size, ep->addr.pid, strerror(errno));
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
        /* numbers go on: a part of an earlier get may still be in a ring */
        ep->fetches[k] = (fab_shm_fetch_t){.seq = 0 == ep->fetches[k].seq ? (uint32_t) k
                                                                          : ep->fetches[k].seq};
    }
    fab_shm_tx_init(&ep->tx, slots, fab_shm_first_size(&ep->addr) / FAB_SHM_LINE, num_slots, stale,
                    &ep->entry->ctl, &ep->seg->doorbell, index);
    return OPAL_SUCCESS;
}

static void ring_doorbell(fab_shm_tx_t *tx)
{
    atomic_fetch_or_explicit(tx->doorbell, UINT64_C(1) << tx->doorbell_bit, memory_order_acq_rel);
}

/* Tell the owner which process sends here. */
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

    rc = claim(ep, fd, &index, why);
    if (OPAL_SUCCESS == rc) {
        rc = tx_open(ep, fd, index, why);
        if (OPAL_SUCCESS == rc) {
            introduce(ep);
        } else {
            fab_shm_entry_release(ep->seg, index);
        }
    }
    return rc;
}

/*
 * Is the mapping that was found before (fab_shm_find()) enough, without the file?  Its process
 * lives, and the parts can get memory (from Linux 5.14 on).  One that has left has no file: what is
 * sent to it then goes where it would have gone had this process been connected before.
 */
static bool is_enough(fab_shm_ep_t *ep)
{
    return NULL != ep->seg &&
           (0 != atomic_load_explicit(&ep->seg->is_finalized, memory_order_relaxed) ||
            (!fab_proc_has_no_pid(ep->addr.pid) &&
             0 == madvise(ep->seg, ep->addr.page, MADV_POPULATE_WRITE)));
}

int fab_shm_connect(fab_shm_ep_t *ep, const char **why)
{
    int fd = -1;
    int rc = is_enough(ep) ? OPAL_SUCCESS : fab_shm_map_open(ep, &fd, why);

    if (OPAL_SUCCESS == rc && NULL == ep->seg) {
        rc = fab_shm_map_head(ep, fd, why);
    } else if (OPAL_SUCCESS != rc && !fab_proc_is_gone(ep->addr.pid, ep->addr.start_time)) {
        if (NULL != ep->seg) {
            rc = OPAL_SUCCESS; /* found before: the programs may have changed their surroundings */
        } else if (OPAL_ERR_UNREACH == rc && fab_shm_pass_is_possible(ep->dom, &ep->addr)) {
            rc = fab_shm_pass_ask(ep, why);
        }
    }
    if (OPAL_SUCCESS == rc) {
        rc = fab_shm_map_ahead(ep, why);
    }
    if (OPAL_SUCCESS == rc) {
        rc = connect_ring(ep, fd, why);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

void fab_shm_disconnect(fab_shm_ep_t *ep)
{
    if (NULL != ep->entry) {
        /* release: pairs with the acquire in fab_shm_look_at(): all messages are there before it */
        atomic_store_explicit(&ep->entry->state, fab_shm_state(ep->dom->addr.pid, FAB_SHM_CLOSED),
                              memory_order_release);
        ring_doorbell(&ep->tx);
        unmap_ring(ep, ep->tx.slots);
        free(ep->tx.stale);
        ep->tx = (fab_shm_tx_t){0};
        ep->entry = NULL;
    }
    fab_shm_unmap(ep);
}
