/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Liveness of peers.  Every quarter of a second kill(2), which is cheap, checks an eighth of the
 * connected peers, so that all are checked within two seconds.  kill() does not detect a zombie,
 * nor a pid that belongs to another process by now.  So a few peers, in turn, are also checked in
 * /proc; only four per tick, so that a host full of processes does not spend its time there.  This
 * way up to 32 connected peers are all checked within two seconds, 256 within sixteen.
 *
 * A peer that left normally (its segment says so, or it closed its ring here) has not failed,
 * unless a user still needs it.  A peer that died has failed.  Both are reported only when all that
 * the peer sent was delivered.
 *
 * The same tick looks for entries that were claimed by processes that have died since.
 */
#include "shm/shm_alive.h"

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"

#include "shm/shm_connect.h"
#include "shm/shm_died.h"
#include "shm/shm_in.h"
#include "shm/shm_pass.h"
#include "shm/shm_segment.h"
#include "shm/shm_xpmem.h"

/* Has the peer's process announced that it leaves the job? */
static bool is_finalized(const fab_shm_ep_t *ep)
{
    /* acquire: pairs with the release in say_goodbye(): what it sent can be seen */
    return NULL != ep->seg &&
           0 != atomic_load_explicit(&ep->seg->is_finalized, memory_order_acquire);
}

static bool ep_has_left(const fab_shm_ep_t *ep)
{
    if (is_finalized(ep)) {
        return true;
    }
    return NULL == ep->entry && NULL != ep->in && ep->in->is_closing;
}

/*
 * The peer has left the job, and nobody needs it: unmap what belongs to it, and check it no more.
 * Not before its ring here was released, which it closes after it has set is_finalized.
 */
static void let_go(fab_shm_ep_t *ep)
{
    if (FAB_PEER_UP == ep->peer->state && NULL == ep->in && STAILQ_EMPTY(&ep->dom->rma)) {
        fab_shm_xpmem_disconnect(ep);
        fab_shm_disconnect(ep);
    }
}

/*
 * The peer has left the job: once its ring is empty, check whether a user still needs it.  It may
 * have claimed a ring that was not noticed here yet; this tick will find that ring, so the check
 * waits for the next round.
 */
static void look_after_left(fab_shm_ep_t *ep)
{
    if (NULL != ep->in && fab_shm_rx_is_ready(&ep->in->rx)) {
        fab_shm_in_heat(ep->dom, ep->in);
    } else if (ep->is_left) {
        fab_peer_has_left(ep->peer);
        let_go(ep);
    }
    ep->is_left = true;
}

static void look_after(fab_shm_ep_t *ep, bool is_close)
{
    const fab_shm_addr_t *addr = &ep->addr;

    if (NULL != ep->in) {
        fab_shm_look_at(ep->dom, ep->in->index); /* it may have closed its ring */
    }
    if (!ep_has_left(ep) && (is_close ? fab_proc_is_gone(addr->pid, addr->start_time)
                                      : fab_proc_has_no_pid(addr->pid))) {
        fab_shm_ep_died(ep);
    } else if (!is_close && is_finalized(ep)) { /* once a tick at most */
        look_after_left(ep);
    }
}

static fab_shm_ep_t *next_conn(const fab_shm_domain_t *dom, uint32_t *at)
{
    *at = *at + 1 < dom->num_conns ? *at + 1 : 0;
    return dom->conns[*at];
}

/* Check some of the connected peers, in turn.  One that has left may be the last one in conns. */
static void look_after_some(fab_shm_domain_t *dom)
{
    uint32_t n = (dom->num_conns + FAB_SHM_TICKS_PER_ROUND - 1) / FAB_SHM_TICKS_PER_ROUND;

    for (uint32_t i = 0; i < n && 0 != dom->num_conns; i++) {
        look_after(next_conn(dom, &dom->alive_at), false);
    }
    for (uint32_t i = 0; i < n && i < FAB_SHM_LOOKS_PER_TICK && 0 != dom->num_conns; i++) {
        look_after(next_conn(dom, &dom->looked_at), true);
    }
}

/* Check entries that are claimed but not polled: of senders not noticed yet, refused, or dead. */
static void look_after_entries(fab_shm_domain_t *dom)
{
    uint32_t high = fab_shm_high(dom);

    for (uint32_t index = 0; index < high; index++) {
        uint64_t state = atomic_load_explicit(&dom->entries[index].state, memory_order_relaxed);
        if (NULL != dom->ins[index] || FAB_SHM_FREE == fab_shm_state_of(state)) {
            continue;
        }
        fab_shm_look_at(dom, index);
        /* the pid must suffice: an entry has its claimer's start time only from READY on */
        if (NULL == dom->ins[index] && fab_proc_is_gone(fab_shm_pid_of(state), 0) &&
            atomic_load_explicit(&dom->entries[index].state, memory_order_relaxed) == state) {
            fab_shm_ring_free(dom, index);
        }
    }
}

int fab_shm_tick(fab_shm_domain_t *dom)
{
    uint64_t now = fab_now_us();

    if (now >= dom->next_pass) {
        dom->next_pass = now + FAB_SHM_PASS_US;
        fab_shm_pass_serve(dom);
    }
    if (now >= dom->next_tick) {
        dom->next_tick = now + FAB_SHM_TICK_US;
        look_after_some(dom);
        look_after_entries(dom);
    }
    return 0;
}
