/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cooperative copy: the process whose memory a large get reads copies a part of it, while it is
 * inside MPI and has nothing to fetch itself.  shm_coop_inl.h describes how chunks are claimed, and
 * why no copy outlives the get.
 *
 * The fetcher offers a get in a descriptor of the peer's segment and then works as if it were
 * alone: it claims chunks and reads them.  It waits for the helper only when all chunks are
 * claimed.  If the helper never helps, the get costs one more system call.
 *
 * The helper acts when a progress call finds exposed memory, nothing to fetch, and a bit in its
 * segment's help word.  It copies one chunk per call, out of memory that it has exposed to that
 * same peer, or to any.  Claim and copy finish before the call returns, so unexpose, which comes
 * between two calls, finds no copy under way.
 *
 * When a get ends early (the memory cannot be read, or the peer failed), the fetcher claims all
 * that is left and waits until the helper has reported its chunks, or is dead.  Only then may the
 * user use the buffer again.
 */
#include "shm/shm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_cpus.h"
#include "fabric/fab_host.h"
#include "fabric/fab_params.h"

enum {
    FAB_SHM_CHUNK_MIN = 16384,
    FAB_SHM_UNHELPED = 4, /* after so many gets in a row without help ... */
    FAB_SHM_SKIPPED = 16, /* ... only one get of so many is offered */
};

void fab_shm_coop_configure(fab_shm_domain_t *dom)
{
    const char *choice = fab_params.shm_cooperative;

    if (0 == dom->cpus) {
        dom->cpus = fab_cpus("");
    }
    dom->is_coop_forced = NULL != choice && 0 == strcmp(choice, "always");
    /* with more processes than processors a claimed chunk could wait for a time slice */
    dom->is_coop = dom->is_coop_forced ||
                   (!fab_params_is_none(choice) && dom->fab->config.num_local <= dom->cpus);
}

/* ---- exposed memory ----------------------------------------------------- */

static fab_shm_exposure_t *exposure_alloc(fab_shm_domain_t *dom)
{
    uint32_t number = dom->free_exposure;

    if (0 == number) {
        uint32_t max = dom->max_exposures > 0 ? 2 * dom->max_exposures : 64;
        fab_shm_exposure_t *all = realloc(dom->exposures, max * sizeof(*all));
        if (NULL == all) {
            return NULL;
        }
        dom->exposures = all;
        for (number = max; number > dom->max_exposures; number--) {
            all[number - 1] = (fab_shm_exposure_t){.next = dom->free_exposure};
            dom->free_exposure = number;
        }
        dom->max_exposures = max;
        number = dom->free_exposure;
    }
    dom->free_exposure = dom->exposures[number - 1].next;
    return &dom->exposures[number - 1];
}

static void exposure_free(fab_shm_domain_t *dom, fab_shm_exposure_t *exposure)
{
    if (NULL != exposure->peer) {
        ((fab_shm_ep_t *) exposure->peer->ep)->num_exposed--;
    } else {
        dom->num_exposed_any -= !exposure->is_window;
    }
    exposure->is_used = false;
    exposure->generation++;
    exposure->next = dom->free_exposure;
    dom->free_exposure = (uint32_t) (exposure - dom->exposures) + 1;
    dom->num_exposed--;
}

/* The exposure with this key, or NULL. */
static fab_shm_exposure_t *exposure_find(const fab_shm_domain_t *dom, uint64_t key)
{
    uint32_t number = (uint32_t) key;
    fab_shm_exposure_t *exposure;

    if (0 == number || number > dom->max_exposures) {
        return NULL;
    }
    exposure = &dom->exposures[number - 1];
    return exposure->is_used && exposure->generation == (uint32_t) (key >> 32) ? exposure : NULL;
}

uint64_t fab_shm_coop_expose(fab_shm_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len,
                             bool is_window)
{
    fab_shm_exposure_t *exposure = NULL;

    if (dom->is_coop && len >= FAB_SHM_COOP_MIN) {
        exposure = exposure_alloc(dom);
    }
    if (NULL == exposure) {
        return 0;
    }
    exposure->at = (uint64_t) (uintptr_t) buf;
    exposure->len = len;
    exposure->peer = peer;
    exposure->is_used = true;
    exposure->is_window = is_window;
    if (NULL != peer) {
        ((fab_shm_ep_t *) peer->ep)->num_exposed++;
    } else {
        dom->num_exposed_any += !is_window;
    }
    dom->num_exposed++;
    return (uint64_t) exposure->generation << 32 | ((uint32_t) (exposure - dom->exposures) + 1);
}

void fab_shm_coop_unexpose(fab_shm_domain_t *dom, uint64_t key)
{
    fab_shm_exposure_t *exposure = exposure_find(dom, key);

    if (NULL != exposure) {
        exposure_free(dom, exposure);
    }
}

void fab_shm_coop_forget(fab_shm_domain_t *dom, const fab_peer_t *peer)
{
    for (uint32_t i = 0; i < dom->max_exposures; i++) {
        if (dom->exposures[i].is_used && peer == dom->exposures[i].peer) {
            exposure_free(dom, &dom->exposures[i]);
        }
    }
}

/* ---- helper ------------------------------------------------------------- */

/* Is the get's memory exposed by this process to that peer, or to any? */
static bool is_exposed(const fab_shm_domain_t *dom, const fab_shm_ep_t *ep,
                       const fab_shm_desc_t *desc)
{
    const fab_shm_exposure_t *exposure = exposure_find(dom, desc->key);

    return NULL != exposure && (NULL == exposure->peer || exposure->peer == ep->peer) &&
           desc->from >= exposure->at && desc->from - exposure->at <= exposure->len &&
           desc->len <= exposure->len - (desc->from - exposure->at) &&
           desc->to <= UINT64_MAX - desc->len;
}

/* Write chunk i to the peer. False: not all of it could be written. */
static bool help_copy(fab_shm_ep_t *ep, const fab_shm_desc_t *desc, uint32_t i)
{
    uint64_t at = (uint64_t) i * desc->chunk;
    uint64_t end = at + fab_shm_coop_len(desc, i);

    while (at < end) {
        size_t moved = 0;
        int rc = fab_shm_transfer(ep, true, (void *) (uintptr_t) (desc->from + at), desc->to + at,
                                  end - at, &moved);
        if (OPAL_SUCCESS != rc && OPAL_ERR_IN_PROCESS != rc) {
            return false;
        }
        at += moved;
        fab_counters.shm_coop_given += moved;
    }
    return true;
}

/* Copy one chunk for the sender of a ring. False: it offers nothing that this process can copy. */
static bool help_one(fab_shm_domain_t *dom, fab_shm_in_t *in)
{
    fab_shm_ep_t *ep = in->ep;

    if (FAB_PEER_UP != ep->peer->state || !fab_shm_is_accessible(ep)) {
        return false;
    }
    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        fab_shm_coop_t *coop = &dom->entries[in->index].coops[k];
        fab_shm_desc_t desc;
        uint32_t i;
        if (fab_shm_coop_look(coop, &desc) && desc.seq != in->unable[k] &&
            is_exposed(dom, ep, &desc) && fab_shm_coop_take_back(coop, &desc, &i)) {
            bool is_failed = !help_copy(ep, &desc, i);
            in->unable[k] = is_failed ? desc.seq : 0;
            fab_shm_coop_report(coop, &desc, i, is_failed);
            return true;
        }
    }
    return false;
}

int fab_shm_coop_help(fab_shm_domain_t *dom)
{
    uint32_t high = fab_shm_high(dom);

    if (0 != atomic_load_explicit(&dom->seg->help, memory_order_relaxed)) {
        /* acquire: pairs with the release in open_get(): the descriptor is visible */
        dom->help |= atomic_exchange_explicit(&dom->seg->help, 0, memory_order_acq_rel);
    }
    while (0 != dom->help) {
        for (uint32_t index = (uint32_t) __builtin_ctzll(dom->help); index < high; index += 64) {
            if (NULL != dom->ins[index] && help_one(dom, dom->ins[index])) {
                return 1;
            }
        }
        dom->help &= dom->help - 1;
    }
    return 0;
}

/* ---- fetcher ------------------------------------------------------------ */

static fab_shm_coop_t *coop_of(const fab_shm_ep_t *ep, const fab_shm_fetch_t *fetch)
{
    return &ep->entry->coops[fetch - ep->fetches];
}

_Static_assert(sizeof(fab_shm_rkey_t) <= sizeof(fab_rkey_t), "it must fit");

uint64_t fab_shm_key_of(const fab_rkey_t *rkey)
{
    uint64_t key;

    memcpy(&key, rkey->bytes + offsetof(fab_shm_rkey_t, key), sizeof(key));
    return key;
}

bool fab_shm_coop_is_worth_it(const fab_shm_ep_t *ep, const fab_rma_t *op)
{
    if (!ep->dom->is_coop || FAB_GET != op->kind || 0 != op->done || op->len < FAB_SHM_COOP_MIN ||
        NULL == ep->entry || 0 == fab_shm_key_of(&op->rkey)) {
        return false;
    }
    if (ep->dom->is_coop_forced) {
        return true;
    }
    /*
     * A peer that fetches a message from this process has no time to help, so one call is better
     * than two.  A window says nothing: it is there for long.  Nor does one help that computes
     * while it sends.
     */
    return 0 == ep->num_exposed && 0 == ep->dom->num_exposed_any &&
           (ep->unhelped < FAB_SHM_UNHELPED || 0 == ep->considered % FAB_SHM_SKIPPED);
}

/*
 * Half of the get, since each call costs as much as the copy of some 10 to 40 KiB, but no more than
 * a progress call is to copy: who comes late leaves the rest to the other one.
 */
static uint32_t chunk_for(size_t len)
{
    size_t chunk = len / 2;

    chunk = chunk > fab_params.shm_copy_step ? fab_params.shm_copy_step : chunk;
    chunk = chunk < FAB_SHM_CHUNK_MIN ? FAB_SHM_CHUNK_MIN : chunk;
    chunk = chunk < len / (FAB_SHM_COOP_CHUNKS / 2) ? len / (FAB_SHM_COOP_CHUNKS / 2) : chunk;
    return (uint32_t) fab_shm_round_up(chunk, FAB_SHM_PAGE_MIN);
}

static void open_get(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, fab_rma_t *op)
{
    uint32_t chunk = chunk_for(op->len);

    *fetch = (fab_shm_fetch_t){
        .op = op,
        .desc = {.to = (uint64_t) (uintptr_t) op->local,
                 .from = op->remote,
                 .len = op->len,
                 .key = fab_shm_key_of(&op->rkey),
                 .chunk = chunk,
                 .n = fab_shm_coop_count(op->len, chunk),
                 .seq = fetch->desc.seq + 1},
    };
    fab_shm_coop_open(coop_of(ep, fetch), &fetch->desc);
    atomic_fetch_or_explicit(&ep->seg->help, UINT64_C(1) << ep->tx.doorbell_bit,
                             memory_order_acq_rel);
    fab_counters.shm_coop_offered++;
}

fab_shm_fetch_t *fab_shm_fetch_of(fab_shm_ep_t *ep, fab_rma_t *op)
{
    fab_shm_fetch_t *unused = NULL;

    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        if (op == ep->fetches[k].op) {
            return &ep->fetches[k];
        }
        if (NULL == ep->fetches[k].op) {
            unused = &ep->fetches[k];
        }
    }
    if (!fab_shm_coop_is_worth_it(ep, op)) {
        unused = NULL;
    }
    ep->considered += 0 == op->done;
    if (NULL != unused) {
        open_get(ep, unused, op);
    }
    return unused;
}

static int fetch_spoilt(fab_shm_ep_t *ep)
{
    fab_peer_fail(ep->peer, OPAL_ERR_COMM_FAILURE,
                  "Its side of the shared memory has been overwritten.");
    return OPAL_ERR_UNREACH;
}

/* Claim up to max chunks. False: none is left. */
static bool fetch_claim(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, uint32_t max)
{
    int n = fab_shm_coop_take_front(coop_of(ep, fetch), &fetch->desc, fetch->front, max,
                                    &fetch->back);

    if (n < 0) {
        fetch->status = fetch_spoilt(ep);
        fetch->is_spoilt = true;
        return false;
    }
    fetch->at = (uint64_t) fetch->front * fetch->desc.chunk;
    fetch->front += (uint32_t) n;
    fetch->end = (uint64_t) fetch->front * fetch->desc.chunk;
    fetch->end = fetch->end < fetch->desc.len ? fetch->end : fetch->desc.len;
    return n > 0;
}

/*
 * How many chunks to claim at once, max bytes at most: first half of them, so that some are left
 * for the peer; then, if the peer helps, one; else all.
 */
static uint32_t fetch_share(const fab_shm_fetch_t *fetch, size_t max)
{
    size_t fitting = max / fetch->desc.chunk;
    uint32_t want = 0 == fetch->front  ? (fetch->desc.n + 1) / 2
                    : 0 == fetch->back ? fetch->desc.n
                                       : 1;

    want = fitting < want ? (uint32_t) fitting : want;
    return 0 == want ? 1 : want;
}

/* Read up to max bytes of the claimed chunks. */
static int fetch_read(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max)
{
    size_t left = fetch->end - fetch->at;
    size_t moved = 0;
    int rc = fab_shm_transfer(ep, false, (char *) fetch->op->local + fetch->at,
                              fetch->op->remote + fetch->at, left < max ? left : max, &moved);

    if (OPAL_SUCCESS == rc) {
        fetch->at += moved;
        fetch->op->done += moved;
        return OPAL_ERR_IN_PROCESS;
    }
    if (OPAL_ERR_IN_PROCESS != rc) {
        fetch->at = fetch->end;
        fetch->status = rc;
    }
    return OPAL_ERR_IN_PROCESS;
}

static void fetch_free(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch)
{
    ep->unhelped = 0 == fetch->back ? ep->unhelped + 1 : 0;
    fab_counters.shm_coop_helped += fetch->back > 0;
    if (!fetch->is_spoilt) {
        fab_shm_coop_idle(coop_of(ep, fetch), fetch->desc.seq);
    }
    fetch->op = NULL;
}

/*
 * All chunks are claimed.  OPAL_ERR_RESOURCE_BUSY: the helper is still copying.
 * OPAL_ERR_IN_PROCESS: this process must read the chunk that the helper could not copy.  Any other
 * result: the get has ended with it.
 */
static int fetch_settle(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch)
{
    const fab_shm_desc_t *desc = &fetch->desc;
    bool is_failed;
    int done = fab_shm_coop_done(coop_of(ep, fetch), desc, fetch->back, &is_failed);
    int status;

    if (done < 0 && !fetch->is_spoilt) {
        fetch->status = fetch_spoilt(ep);
        fetch->is_spoilt = true;
    }
    if (!fetch->is_spoilt && !ep->is_died && (uint32_t) done < fetch->back) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    if (is_failed && !fetch->is_redone && OPAL_SUCCESS == fetch->status) {
        fetch->is_redone = true;
        fetch->at = (uint64_t) (desc->n - fetch->back) * desc->chunk;
        fetch->end = fetch->at + fab_shm_coop_len(desc, desc->n - fetch->back);
        return OPAL_ERR_IN_PROCESS;
    }
    status = ep->is_died && OPAL_SUCCESS == fetch->status ? OPAL_ERR_UNREACH : fetch->status;
    if (OPAL_SUCCESS == status) {
        fetch->op->done = fetch->op->len;
    }
    fetch_free(ep, fetch);
    return status;
}

int fab_shm_fetch_step(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max)
{
    if (FAB_PEER_FAILED == ep->peer->state && OPAL_SUCCESS == fetch->status) {
        fetch->status = OPAL_ERR_UNREACH;
        fetch->at = fetch->end;
    }
    if (fetch->at < fetch->end) {
        return fetch_read(ep, fetch, max);
    }
    if (OPAL_SUCCESS != fetch->status) {
        (void) fetch_claim(ep, fetch, fetch->desc.n); /* so that the helper finds nothing more */
        fetch->at = fetch->end;
    } else if (!fetch->is_redone && fetch_claim(ep, fetch, fetch_share(fetch, max))) {
        return fetch_read(ep, fetch, max);
    }
    return fetch_settle(ep, fetch);
}

bool fab_shm_fetch_end(fab_shm_ep_t *ep)
{
    bool is_ended = true;

    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        fab_shm_fetch_t *fetch = &ep->fetches[k];
        if (NULL == fetch->op) {
            continue;
        }
        fetch->status = OPAL_SUCCESS == fetch->status ? OPAL_ERR_UNREACH : fetch->status;
        fetch->at = fetch->end;
        if (OPAL_ERR_RESOURCE_BUSY == fab_shm_fetch_step(ep, fetch, 0)) {
            ep->is_died = ep->is_died || fab_proc_is_gone(ep->addr.pid, ep->addr.start_time);
            is_ended = false;
        }
    }
    return is_ended;
}

void fab_shm_fetch_wait(fab_shm_ep_t *ep)
{
    while (!fab_shm_fetch_end(ep)) {
        sched_yield();
    }
}
