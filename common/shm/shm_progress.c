/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call of the shm provider: poll the hot rings, check the doorbell if they are empty,
 * advance RMA, and sometimes check cold rings and the clock.  Its cost depends on the number of hot
 * rings, not on the number of peers.
 */
#include "shm/shm.h"

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"

/* ---- liveness ----------------------------------------------------------- */

/*
 * Liveness of peers.  Every quarter of a second kill(2), which is cheap, checks an eighth of the
 * connected peers, so that all are checked within two seconds.  kill() does not detect a zombie,
 * nor a pid that belongs to another process by now.  So a few peers, in turn, are also checked in
 * /proc; only four per tick, so that a host full of processes does not spend its time there.  This
 * way up to 32 connected peers are all checked within two seconds, 256 within sixteen.
 *
 * A peer that left normally (its segment says so, or it closed its ring here) has not failed,
 * unless a user still needs it.  A peer that died has failed.  Both are reported only when all that
 * the peer sent was delivered.  Of one that was never sent to, and never sent, nothing is reported
 * if it died: its segment is unmapped.
 *
 * A peer that refuses this process's ring, and has not left, has failed, too: messages lie there,
 * and would fill it before the sender noticed.
 *
 * The same tick looks for entries that were claimed by processes that have died since.
 */

/* Has the peer's process announced that it leaves the job? */
static bool is_finalized(const fab_shm_ep_t *ep)
{
    /* acquire: pairs with the release in say_goodbye(): what it sent can be seen */
    return NULL != ep->seg &&
           0 != atomic_load_explicit(&ep->seg->is_finalized, memory_order_acquire);
}

/*
 * The peer has left the job, and no user needs it: unmap what belongs to it, and check it no more.
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

/* Does the peer, which has not left, take nothing from its ring?  A sender with room goes on. */
static bool is_refused(const fab_shm_ep_t *ep)
{
    /* acquire: pairs with the release in say_goodbye(), which first sets is_finalized */
    return NULL != ep->entry &&
           0 != atomic_load_explicit(&ep->entry->ctl.is_refused, memory_order_acquire) &&
           !is_finalized(ep);
}

/* It never sent to this process, nor this process to it: its segment is mapped, no more. */
static bool is_stranger(const fab_shm_ep_t *ep)
{
    return NULL == ep->in && NULL == ep->entry;
}

static void look_after(fab_shm_ep_t *ep, bool is_close)
{
    const fab_shm_addr_t *addr = &ep->addr;
    bool has_left;

    if (is_stranger(ep) && !is_finalized(ep)) {
        if (NULL != ep->seg && fab_proc_has_no_pid(addr->pid)) {
            fab_shm_disconnect(ep);
        }
        return;
    }
    if (NULL != ep->in) {
        fab_shm_look_at(ep->dom, ep->in->index); /* it may have closed its ring */
    }
    if (is_refused(ep)) {
        fab_peer_fail(ep->peer, OPAL_ERR_UNREACH,
                      "It takes no messages of this process by shared memory: it knows another "
                      "address of it, has no memory for it, or has found it faulty.");
    }
    has_left = is_finalized(ep) || (NULL == ep->entry && NULL != ep->in && ep->in->is_closing);
    if (!has_left && (is_close ? fab_proc_is_gone(addr->pid, addr->start_time)
                               : fab_proc_has_no_pid(addr->pid))) {
        fab_shm_ep_died(ep);
    } else if (!is_close && is_finalized(ep)) { /* once a tick at most */
        look_after_left(ep);
    }
}

/* The next one of all, in turn; there is one. */
static fab_shm_ep_t *next_of(const fab_shm_domain_t *dom, fab_shm_ep_t **next)
{
    fab_shm_ep_t *ep = NULL != *next ? *next : LIST_FIRST(&dom->eps);

    *next = LIST_NEXT(ep, link);
    return ep;
}

/* Check some of the peers, in turn. */
static void look_after_some(fab_shm_domain_t *dom)
{
    const uint32_t all = dom->num_eps;
    const uint32_t n = (all + FAB_SHM_TICKS_PER_ROUND - 1) / FAB_SHM_TICKS_PER_ROUND;
    uint32_t looks = n < FAB_SHM_LOOKS_PER_TICK ? n : FAB_SHM_LOOKS_PER_TICK;

    for (uint32_t i = 0; i < n; i++) {
        look_after(next_of(dom, &dom->alive_next), false);
    }
    for (uint32_t i = 0; i < all && looks > 0; i++) {
        fab_shm_ep_t *ep = next_of(dom, &dom->look_next);
        if (!is_stranger(ep)) {
            look_after(ep, true);
            looks--;
        }
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

void fab_shm_tick(fab_shm_domain_t *dom)
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
}

/* ---- polling ------------------------------------------------------------ */

static __attribute__((noinline)) void bad_message(fab_shm_in_t *in)
{
    fab_counters.bad_messages++;
    fab_peer_fail(in->ep->peer, OPAL_ERR_COMM_FAILURE,
                  "It left a malformed message in shared memory.");
}

/* Deliver a message of any length. False: there is none. Not inline: most take one slot. */
static __attribute__((noinline)) bool deliver_any(fab_t *fab, fab_shm_in_t *in)
{
    fab_shm_msg_t msg;

    switch (fab_shm_rx_peek(&in->rx, &msg)) {
    case FAB_SHM_EMPTY:
        return false;
    case FAB_SHM_BAD:
        bad_message(in);
        return false;
    case FAB_SHM_MESSAGE:
        break;
    }
    fab_deliver(fab, in->ep->peer, msg.hdr, msg.data, msg.len);
    fab_shm_rx_advance(&in->rx, msg.slots);
    return true;
}

/*
 * Deliver the ring's messages, up to FAB_SHM_BATCH or FAB_SHM_BATCH_SLOTS, or until a handler sets
 * must_return.  Not inline: an empty poll needs few registers.
 */
static __attribute__((noinline)) int deliver(fab_shm_domain_t *dom, fab_shm_in_t *in)
{
    fab_t *fab = dom->fab;
    fab_peer_t *peer = in->ep->peer;
    fab_shm_rx_t *rx = &in->rx;
    const uint64_t begin = rx->pos;
    int events = 0;

    if (FAB_PEER_FAILED == peer->state) {
        return 0;
    }
    do { /* also until the peer fails: fab_peer_fail() sets must_return */
        const fab_shm_slot_t *slot = rx->slot;
        uint64_t word = fab_shm_rx_word(rx);
        if (__builtin_expect(fab_shm_rx_is_short(rx, word), 1)) {
            fab_deliver(fab, peer,
                        fab_hdr_of((word >> 32 & 0xff) | (uint64_t) slot->app_ctx << 32, slot->tag),
                        slot->payload, (uint32_t) word);
            fab_shm_rx_advance(rx, 1);
        } else if (!deliver_any(fab, in)) {
            break;
        } else if (rx->pos - begin >= FAB_SHM_BATCH_SLOTS) {
            events++;
            break;
        }
        events++;
    } while (events < FAB_SHM_BATCH && !fab->must_return);
    fab_counters.shm_msgs_received += (unsigned) events;
    return events;
}

/* Somebody rang: look at all entries whose bit is set. */
static __attribute__((noinline)) void answer_doorbell(fab_shm_domain_t *dom)
{
    /* acquire: pairs with the fetch_or of the senders: what they rang for is visible */
    uint64_t bits = atomic_exchange_explicit(&dom->seg->doorbell, 0, memory_order_acq_rel);
    uint32_t high = fab_shm_high(dom);

    while (0 != bits) {
        uint32_t bit = (uint32_t) __builtin_ctzll(bits);
        bits &= bits - 1;
        for (uint32_t index = bit; index < high; index += 64) {
            fab_shm_look_at(dom, index);
        }
    }
}

/* The sender has left, and all that it sent is delivered. */
static void finish(fab_shm_domain_t *dom, fab_shm_in_t *in)
{
    fab_shm_ep_t *ep = in->ep;
    fab_peer_t *peer = ep->peer;

    fab_shm_in_release(dom, in, true);
    if (FAB_PEER_CLOSED == peer->state && NULL == ep->entry) {
        peer->ep = NULL;
        fab_shm_ep_free(ep);
        fab_peer_left(peer);
    }
}

/* Make rings cold that have had no message for long, and release those whose sender has left. */
static void cool_idle_rings(fab_shm_domain_t *dom)
{
    uint32_t max_age = dom->num_hot <= FAB_SHM_FEW_HOT ? FAB_SHM_AGE_FEW : FAB_SHM_AGE_MANY;

    for (uint32_t i = dom->num_hot; i-- > 0;) {
        fab_shm_in_t *in = dom->hot[i];
        if (in->rx.pos != in->aged_at) {
            in->aged_at = in->rx.pos;
            in->age = 0;
        }
        if (in->is_closing && !fab_shm_rx_is_ready(&in->rx) && !fab_shm_rx_has_retained(&in->rx)) {
            finish(dom, in);
        } else if (++in->age > max_age) {
            fab_shm_in_cool(dom, in);
        }
    }
}

/* Check some cold rings, in case their doorbells were missed (shm_ring_inl.h, "Idle"). */
static void sweep(fab_shm_domain_t *dom, uint32_t num)
{
    fab_shm_in_t *in;

    while (num-- > 0) {
        if (++dom->sweep_at >= fab_shm_high(dom)) {
            dom->sweep_at = 0;
        }
        in = dom->ins[dom->sweep_at];
        if (NULL != in && FAB_SHM_COLD == in->hot_at && fab_shm_rx_is_ready(&in->rx)) {
            fab_shm_in_heat(dom, in);
        }
    }
}

static inline bool is_rung(const fab_shm_domain_t *dom)
{
    return 0 != atomic_load_explicit(&dom->seg->doorbell, memory_order_relaxed);
}

static __attribute__((noinline)) void do_periodic(fab_shm_domain_t *dom)
{
    if (is_rung(dom)) { /* also if the hot rings are never empty */
        answer_doorbell(dom);
    }
    sweep(dom, 1);
    if (0 == dom->pass % FAB_SHM_AGE_PASSES) {
        cool_idle_rings(dom);
    }
    if (0 == dom->pass % FAB_SHM_CLOCK_PASSES) {
        fab_shm_tick(dom);
    }
}

/* The end of a poll: what else there is to do. Not inline, as it is seldom. */
static __attribute__((noinline)) int poll_rest(fab_shm_domain_t *dom)
{
    int events = 0;

    fab_shm_beat(dom);
    if (!STAILQ_EMPTY(&dom->rma)) {
        events += fab_shm_rma_progress(dom);
    }
    if (!TAILQ_EMPTY(&dom->gives)) {
        events += fab_shm_coop_give(dom);
    }
    fab_shm_beat(dom);
    if (0 == dom->pass % FAB_SHM_SWEEP_PASSES) {
        do_periodic(dom);
    }
    return events;
}

static inline bool has_rest(fab_shm_domain_t *dom)
{
    return 0 == ++dom->pass % FAB_SHM_SWEEP_PASSES || !STAILQ_EMPTY(&dom->rma) ||
           !TAILQ_EMPTY(&dom->gives);
}

static inline uint32_t next_hot(const fab_shm_domain_t *dom, uint32_t at)
{
    return at + 1 < dom->num_hot ? at + 1 : 0;
}

/*
 * The hot ring at this place has a message: deliver it, and what the next n - 1 rings have.  Not
 * inline: an empty poll needs no saved registers.
 */
static __attribute__((noinline)) int poll_from(fab_shm_domain_t *dom, uint32_t at, uint32_t n)
{
    int events = deliver(dom, dom->hot[at]);

    while (--n > 0 && !dom->fab->must_return) {
        at = next_hot(dom, at);
        if (fab_shm_rx_is_ready(&dom->hot[at]->rx)) {
            events += deliver(dom, dom->hot[at]);
        }
    }
    dom->hot_at = at;
    return has_rest(dom) ? events + poll_rest(dom) : events;
}

/* The hot rings were empty, but somebody rang: take what is in all of them then. */
static __attribute__((noinline)) int poll_rung(fab_shm_domain_t *dom)
{
    answer_doorbell(dom);
    if (0 == dom->num_hot) { /* what rang was no message */
        return has_rest(dom) ? poll_rest(dom) : 0;
    }
    return poll_from(dom, next_hot(dom, dom->hot_at), dom->num_hot);
}

/*
 * Poll the hot rings in turn.  If a handler ends the poll early, as the completion of a blocking
 * receive does, the next poll continues with the next ring.
 */
int fab_shm_poll(void *domain)
{
    fab_shm_domain_t *dom = domain;
    uint32_t at = dom->hot_at;

    for (uint32_t n = dom->num_hot; n > 0; n--) {
        at = next_hot(dom, at);
        if (__builtin_expect(fab_shm_rx_is_ready(&dom->hot[at]->rx), 0)) {
            return poll_from(dom, at, n);
        }
    }
    if (__builtin_expect(is_rung(dom), 0)) {
        return poll_rung(dom);
    }
    return __builtin_expect(has_rest(dom), 0) ? poll_rest(dom) : 0;
}

int fab_shm_progress(fab_domain_t *domain)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;

    if (dom->fab->is_far || dom->fab->is_yielding || dom->fab->may_sleep) {
        /* polls are far apart, or may be: what waits for many of them would wait long */
        fab_shm_tick(dom);
        sweep(dom, FAB_SHM_SWEEP_PASSES);
    }
    return fab_shm_poll(dom);
}
