/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings that peers claimed in this process's segment: finding, polling and releasing them.
 *
 *      entry READY ──fab_shm_look_at──> hot <──message or doorbell── cold
 *                                        └──────── no message for long ──^
 *      entry CLOSED, or the sender died, and the ring is empty ──> released
 *
 *      hot: polled in each progress call        cold: only swept, one per 16 calls
 */
#include "shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t fab_shm_high(const fab_shm_domain_t *dom)
{
    uint32_t high = atomic_load_explicit(&dom->seg->high, memory_order_relaxed);

    return high < dom->addr.num_rings ? high : dom->addr.num_rings;
}

/* ---- hot and cold ------------------------------------------------------- */

void fab_shm_in_heat(fab_shm_domain_t *dom, fab_shm_in_t *in)
{
    in->age = 0;
    if (FAB_SHM_COLD != in->hot_at) {
        return;
    }
    if (in->rx.idle & 1) {
        fab_shm_rx_wake(&in->rx);
    }
    in->ep->rx = &in->rx;
    in->hot_at = dom->num_hot;
    dom->hot[dom->num_hot++] = in;
}

static void in_unlist(fab_shm_domain_t *dom, fab_shm_in_t *in)
{
    fab_shm_in_t *last;

    if (FAB_SHM_COLD == in->hot_at) {
        return;
    }
    in->ep->rx = NULL;
    last = dom->hot[--dom->num_hot];
    dom->hot[in->hot_at] = last;
    last->hot_at = in->hot_at;
    in->hot_at = FAB_SHM_COLD;
}

void fab_shm_in_cool(fab_shm_domain_t *dom, fab_shm_in_t *in)
{
    if (!fab_shm_rx_sleep(&in->rx)) {
        fab_shm_rx_wake(&in->rx);
        in->age = 0;
        return;
    }
    in_unlist(dom, in);
}

void fab_shm_ep_died(fab_shm_ep_t *ep)
{
    char why[128];

    ep->is_died = true;
    if (NULL != ep->in && fab_shm_rx_is_ready(&ep->in->rx)) {
        fab_shm_in_heat(ep->dom, ep->in); /* deliver first; the next round comes back to it */
        return;
    }
    if (FAB_PEER_FAILED != ep->peer->state) {
        fab_counters.peers_died++;
        snprintf(why, sizeof(why),
                 "Its process (pid %u on this host) has ended without leaving the job.",
                 ep->addr.pid);
        fab_peer_fail(ep->peer, OPAL_ERR_PROC_ABORTED, why);
    }
}

/* ---- a sender comes ----------------------------------------------------- */

/*
 * The endpoint of the peer that claims to be a ring's sender.  NULL: refuse the ring, because the
 * peer is not reached by shm, has failed, or has another address.
 */
static fab_shm_ep_t *sender(fab_shm_domain_t *dom, uint64_t name, const fab_shm_addr_t *addr)
{
    bool is_later; /* shm goes before those that a peer can leave */
    fab_peer_t *peer = fab_peer_from_wire(dom->fab, dom->provider, name, addr, sizeof(*addr),
                                          &is_later);
    fab_shm_ep_t *ep = NULL != peer ? peer->ep : NULL;

    return NULL != ep && 0 == memcmp(&ep->addr, addr, sizeof(*addr)) ? ep : NULL;
}

/* A new ring: find its sender, and poll it from now on. */
static void adopt(fab_shm_domain_t *dom, uint32_t index, uint64_t state)
{
    fab_shm_entry_t *entry = &dom->entries[index];
    fab_shm_addr_t addr = entry->addr; /* copied once: its sender may change it at any time */
    fab_shm_ep_t *ep = addr.pid == fab_shm_pid_of(state) ? sender(dom, entry->name, &addr) : NULL;
    fab_shm_in_t *in;

    if (NULL != ep && NULL != ep->in &&
        FAB_SHM_CLOSED == fab_shm_state_of(atomic_load_explicit(&dom->entries[ep->in->index].state,
                                                                memory_order_acquire))) {
        return; /* it left and connected again: the old ring first, a later tick finds this one */
    }
    if (NULL == ep || NULL != ep->in) {
        /* it stays in use until its claimer, which may write there at any time, is gone */
        atomic_store_explicit(&entry->ctl.is_refused, 1, memory_order_relaxed);
        fab_counters.bad_messages++;
        return;
    }
    /* what each poll reads of a hot ring is then in one line */
    in = aligned_alloc(FAB_SHM_LINE, fab_shm_round_up(sizeof(*in), FAB_SHM_LINE));
    if (NULL == in || !fab_shm_ring_open(dom, index)) {
        free(in);
        return; /* no memory; a later tick tries again */
    }
    *in = (fab_shm_in_t){.ep = ep,
                         .index = index,
                         .hot_at = FAB_SHM_COLD,
                         .is_closing = FAB_SHM_CLOSED == fab_shm_state_of(state)};
    fab_shm_rx_init(&in->rx, fab_shm_ring(dom, index),
                    fab_shm_first_size(&dom->addr) / FAB_SHM_LINE, fab_shm_num_slots_of(&dom->addr),
                    dom->addr.eager_max, &entry->ctl);
    ep->in = in;
    dom->ins[index] = in;
    fab_shm_in_heat(dom, in);
}

void fab_shm_look_at(fab_shm_domain_t *dom, uint32_t index)
{
    fab_shm_entry_t *entry = &dom->entries[index];
    fab_shm_in_t *in = dom->ins[index];
    /* acquire: pairs with the releases in introduce() and fab_shm_disconnect() */
    uint64_t state = atomic_load_explicit(&entry->state, memory_order_acquire);

    if (NULL != in) {
        if (FAB_SHM_CLOSED == fab_shm_state_of(state)) {
            in->is_closing = true;
        }
        if (in->is_closing || fab_shm_rx_is_ready(&in->rx)) {
            fab_shm_in_heat(dom, in);
        }
        return;
    }
    if (atomic_load_explicit(&entry->ctl.is_refused, memory_order_relaxed)) {
        if (FAB_SHM_CLOSED == fab_shm_state_of(state)) {
            fab_shm_ring_free(dom, index);
        }
        return;
    }
    if (FAB_SHM_READY == fab_shm_state_of(state) || FAB_SHM_CLOSED == fab_shm_state_of(state)) {
        adopt(dom, index, state);
    }
}

/* ---- a sender goes ------------------------------------------------------ */

void fab_shm_give_end(fab_shm_give_t *give)
{
    TAILQ_REMOVE(&give->in->ep->dom->gives, give, link);
    give->in = NULL;
}

void fab_shm_in_release(fab_shm_domain_t *dom, fab_shm_in_t *in, bool is_sender_gone)
{
    fab_shm_ep_t *ep = in->ep;

    in_unlist(dom, in);
    for (int k = 0; k < FAB_SHM_COOPS; k++) {
        if (NULL != in->gives[k].in) {
            fab_shm_give_end(&in->gives[k]);
        }
    }
    dom->ins[in->index] = NULL;
    ep->in = NULL;
    if (is_sender_gone || in->is_closing) {
        fab_shm_ring_free(dom, in->index);
    } else {
        atomic_store_explicit(&in->rx.ctl->is_refused, 1, memory_order_relaxed);
    }
    free(in);
}
