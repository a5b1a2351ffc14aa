/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cooperative get: the process whose memory a long get reads, the giver, sends it through its
 * ring to the fetcher, while it is in MPI; the fetcher reads what it does not send.
 *
 *      fetcher                                            giver
 *      claim word: number of the get, no part
 *      ASK {from, len, key, part}, app_ctx: number   ->   is this memory exposed to that peer?
 *                                                    <-   PART, tag: offset, app_ctx: number, data
 *                                                         ... in order, as there is room, each
 *                                                         claimed before it is sent
 *      the giver's beat stands still, or no part
 *      came for long: closes the claim word, reads
 *      the rest, and waits for the parts that were
 *      claimed
 *
 * Why: a read takes the lines of the giver's buffer from its cache, and the giver has to get each
 * back before it can write it again.  Through a ring only the ring's lines go to and fro, and they
 * are written whole, without their old content.  Where a program writes what it sends and reads
 * what it receives this takes half the time, up to some MiB.
 *
 * The claim word is in the giver's segment, in the entry of the fetcher's ring; it alone says who
 * moves which bytes.  The giver counts a part in it before it sends the part, in the same call.  So
 * a giver that leaves MPI leaves nothing half done.  Its beat, in its segment, says whether it is
 * in MPI: it changes when the giver polls, and is odd while that copies.
 *
 * The giver writes only to its ring, and the fetcher copies from there.  So memory that either side
 * has taken back is not touched: parts of a get that has ended are dropped by their number, and a
 * giver looks before each part whether the memory still is exposed.
 */
#include "shm/shm.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_copy.h"
#include "fabric/fab_cpus.h"
#include "fabric/fab_params.h"
#include "shm/shm_inl.h"

enum {
    FAB_SHM_PART = 8168,         /* bytes; with its header a part is 128 lines */
    FAB_SHM_PATIENCE = 100000,   /* ns; a giver that is in MPI sends a part in a tenth of that */
    FAB_SHM_AWAY = 1000,         /* ns; a giver whose beat does not change for so long is away */
    FAB_SHM_AWAY_PER = 512,      /* bytes, for which it may take a ns longer */
    FAB_SHM_GIVE_PARTS = 4,      /* of a get in one progress call, which has more to do */
    FAB_SHM_GIVE_SPARE = 16,     /* slots of a ring that parts leave to other messages */
    FAB_SHM_PARTS_MAX = 1 << 30, /* of a get */
};

/* ---- the receiver's choice: whether it asks, or reads ---------------------- */

/* NULL: there is no choice, or no memory. */
static fab_shm_ways_t *ways_of(fab_shm_ep_t *ep)
{
    const uint64_t name = ep->dom->fab->config.name;

    if (!ep->dom->is_choosing || !fab_shm_is_accessible(ep)) {
        return NULL;
    }
    if (NULL == ep->ways) {
        ep->ways = malloc(sizeof(*ep->ways));
        if (NULL != ep->ways) {
            fab_shm_ways_init(ep->ways, name ^ ep->peer->name, name < ep->peer->name);
        }
    }
    return ep->ways;
}

/* Tell the peer, whose streams are a choice, too. */
static void publish(const fab_shm_ep_t *ep)
{
    _Atomic uint32_t *pulled = NULL != ep->in ? &ep->in->rx.ctl->pulled : NULL;
    const uint32_t word = fab_shm_ways_word(ep->ways);

    if (NULL != pulled && word != atomic_load_explicit(pulled, memory_order_relaxed)) {
        atomic_store_explicit(pulled, word, memory_order_relaxed);
    }
}

static void spell_begin(fab_shm_ep_t *ep, uint64_t now)
{
    /* any value is a preference, see fab_is_pulled() */
    const uint32_t peer = 0 != ep->tx.limit
                              ? atomic_load_explicit(&ep->tx.ctl->pulled, memory_order_relaxed)
                              : 0;

    fab_shm_spell_begin(ep->ways, now, peer);
    publish(ep);
}

void fab_shm_long_begin(fab_shm_ep_t *ep)
{
    if (0 == ep->num_open++ && NULL != ways_of(ep)) {
        spell_begin(ep, fab_now_ns());
    }
}

/* Of the messages of the spell one less is under way. */
static void one_less(fab_shm_ep_t *ep, bool is_long)
{
    uint64_t now;

    ep->num_open--;
    if (NULL == ways_of(ep) || (!is_long && ep->num_open > 0)) {
        return;
    }
    now = fab_now_ns();
    fab_shm_spell_end(ep->ways, now);
    if (ep->num_open > 0) {
        spell_begin(ep, now);
    }
}

void fab_shm_long_end(fab_shm_ep_t *ep, size_t len, unsigned way)
{
    one_less(ep, NULL != ep->ways && fab_shm_spell_add(ep->ways, len, way));
}

void fab_shm_long_fail(fab_shm_ep_t *ep, size_t len, unsigned way, int rc)
{
    if (OPAL_ERR_NOT_SUPPORTED == rc && FAB_SHM_PULL == way && NULL != ep->ways) {
        if (FAB_SHM_ACCESS_WORKS == ep->access) {
            fab_shm_ways_refuse(ep->ways, len); /* that memory cannot be read */
        } else {
            fab_shm_ways_init(ep->ways, 0, false); /* nothing can */
        }
        publish(ep);
    }
    one_less(ep, false);
}

/* A message of the first class comes, pushed.  True: it is to be timed. */
static bool short_begin(fab_shm_ep_t *ep)
{
    bool is_timed;

    if (0 != ep->num_open || NULL == ways_of(ep)) {
        return false;
    }
    is_timed = fab_shm_ways_is_turn(ep->ways);
    if (is_timed || ep->ways->took > 0) { /* that ends the period of one that was timed */
        spell_begin(ep, fab_now_ns());
    }
    return is_timed;
}

bool fab_shm_stream_begin(fab_peer_t *peer, size_t len)
{
    fab_shm_ep_t *ep = peer->ep;

    if (0 != fab_shm_class(len)) {
        fab_shm_long_begin(ep);
        return true;
    }
    return short_begin(ep);
}

void fab_shm_stream_end(fab_peer_t *peer, size_t len)
{
    fab_shm_ep_t *ep = peer->ep;

    if (0 != fab_shm_class(len)) {
        fab_shm_long_end(ep, len, FAB_SHM_PUSH);
    } else if (0 == ep->num_open) { /* no spell of longer ones has begun since */
        (void) fab_shm_spell_add(ep->ways, len, FAB_SHM_PUSH);
        fab_shm_spell_end(ep->ways, fab_now_ns());
    }
}

bool fab_shm_whole_begin(fab_peer_t *peer, size_t len, bool is_last)
{
    fab_shm_ep_t *ep = peer->ep;

    if ((0 == ep->num_open && NULL != ep->ways && fab_shm_block_add(ep->ways, len, is_last)) ||
        !short_begin(ep)) {
        return false;
    }
    ep->ways->is_open = !is_last;
    return true;
}

/* ---- exposed memory ----------------------------------------------------- */

static void exposure_free(fab_shm_domain_t *dom, fab_shm_exposure_t *exposure)
{
    fab_idmap_remove(&dom->exposures, exposure->id);
    free(exposure);
}

/* The exposure with this key, or NULL. */
static fab_shm_exposure_t *exposure_find(const fab_shm_domain_t *dom, uint64_t key)
{
    return key <= UINT32_MAX ? fab_idmap_find(&dom->exposures, (uint32_t) key) : NULL;
}

bool fab_shm_expose(fab_domain_t *domain, fab_peer_t *peer, const void *buf, size_t len,
                    unsigned access, fab_rkey_t *rkey)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;
    fab_shm_exposure_t *exposure;
    uint64_t key;

    /* what others may write is a window, whose owner may be away for long */
    if (!dom->is_coop || len < FAB_SHM_COOP_MIN || FAB_ACCESS_READ != access ||
        NULL == (exposure = malloc(sizeof(*exposure)))) {
        return true; /* what is not given is read, without a key */
    }
    *exposure = (fab_shm_exposure_t){.at = (uint64_t) (uintptr_t) buf, .len = len, .peer = peer};
    key = exposure->id = fab_idmap_add(&dom->exposures, exposure);
    if (0 == key) {
        free(exposure);
    }
    memcpy(rkey->bytes + offsetof(fab_shm_rkey_t, key), &key, sizeof(key));
    return true;
}

void fab_shm_unexpose(fab_domain_t *domain, fab_peer_t *peer, const fab_rkey_t *rkey)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;
    fab_shm_exposure_t *exposure = exposure_find(dom, fab_shm_key_of(rkey));

    (void) peer;
    if (NULL != exposure) {
        exposure_free(dom, exposure);
    }
}

void fab_shm_coop_forget(fab_shm_domain_t *dom, const fab_peer_t *peer)
{
    fab_shm_exposure_t *exposure;

    for (uint32_t i = 0; NULL != (exposure = fab_idmap_next(&dom->exposures, &i));) {
        if (peer == exposure->peer) {
            exposure_free(dom, exposure);
        }
    }
}

/* ---- giver -------------------------------------------------------------- */

/* Is the get's memory exposed by this process to that peer, or to any? */
static bool is_exposed(const fab_shm_domain_t *dom, const fab_peer_t *peer,
                       const fab_shm_ask_t *ask)
{
    const fab_shm_exposure_t *exposure = exposure_find(dom, ask->key);

    return NULL != exposure && (NULL == exposure->peer || exposure->peer == peer) &&
           ask->from >= exposure->at && ask->from - exposure->at <= exposure->len &&
           ask->len <= exposure->len - (ask->from - exposure->at);
}

/* Send the next part. False: it is the fetcher's. */
static bool give_part(fab_shm_give_t *give)
{
    fab_shm_ep_t *ep = give->in->ep;
    const fab_shm_ask_t *ask = &give->ask;
    const uint64_t offset = (uint64_t) give->sent * ask->part;
    const uint64_t left = ask->len - offset;
    const uint32_t len = left < ask->part ? (uint32_t) left : ask->part;
    fab_shm_entry_t *entry = &ep->dom->entries[give->in->index];
    fab_shm_slot_t *slot;

    if (!fab_claim_part(&entry->claims[give->seq % FAB_SHM_COOPS].word, give->seq, give->sent)) {
        return false;
    }
    slot = fab_shm_tx_reserve(&ep->tx, fab_shm_num_slots(len));
    fab_shm_tx_copy(&ep->tx, fab_shm_payload(slot), (const char *) (uintptr_t) ask->from + offset,
                    len);
    fab_shm_tx_commit(&ep->tx, slot, fab_hdr(FAB_SHM_AM_PART, offset, give->seq), len,
                      fab_shm_num_slots(len));
    give->sent++;
    fab_counters.shm_msgs_sent++;
    fab_counters.shm_coop_given += len;
    return true;
}

/* Is there room for a part?  Where it does not fit at the end of the ring, that is skipped. */
static bool has_room(fab_shm_tx_t *tx, uint32_t part)
{
    const uint32_t rest = tx->mask + 1 - ((uint32_t) tx->head & tx->mask);
    const uint32_t n = fab_shm_num_slots(part);
    const uint32_t slots = (n <= rest ? n : rest + n) + FAB_SHM_GIVE_SPARE;

    return fab_shm_tx_has_room(tx, slots) ||
           (fab_shm_tx_refresh(tx) && fab_shm_tx_has_room(tx, slots));
}

/* Send parts while there is room. Messages of users go first. Returns the number of parts. */
static int give_some(fab_shm_domain_t *dom, fab_shm_give_t *give)
{
    const fab_peer_t *peer = give->in->ep->peer;
    int parts = 0;

    if (FAB_PEER_UP != peer->state || !is_exposed(dom, peer, &give->ask)) {
        fab_shm_give_end(give);
        return 0;
    }
    while (parts < FAB_SHM_GIVE_PARTS && NULL == peer->pending &&
           has_room(&give->in->ep->tx, give->ask.part)) {
        if (!give_part(give)) {
            fab_shm_give_end(give);
            break;
        }
        parts++;
        if ((uint64_t) give->sent * give->ask.part >= give->ask.len) {
            fab_shm_give_end(give);
            break;
        }
    }
    return parts;
}

int fab_shm_coop_give(fab_shm_domain_t *dom)
{
    fab_shm_give_t *give, *next;
    int parts = 0;

    for (give = TAILQ_FIRST(&dom->gives); NULL != give; give = next) {
        next = TAILQ_NEXT(give, link);
        parts += give_some(dom, give);
    }
    return parts;
}

/* The endpoint of a peer that shm reaches. NULL: another provider does, and the peer fails. */
static fab_shm_ep_t *ep_of(const fab_shm_domain_t *dom, fab_peer_t *peer)
{
    if (dom->provider == fab_peer_provider(peer) && NULL != ((fab_shm_ep_t *) peer->ep)->in) {
        return peer->ep;
    }
    fab_peer_fail(peer, OPAL_ERR_COMM_FAILURE,
                  "It sent from another host what only processes of this one send.");
    return NULL;
}

/* Handler of FAB_SHM_AM_ASK.  Memory that is not exposed any more is not given. */
static void asked(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_shm_domain_t *dom = ctx;
    fab_shm_ep_t *ep = ep_of(dom, peer);
    fab_shm_give_t *give;
    fab_shm_ask_t ask;

    if (NULL == ep) {
        return;
    }
    memcpy(&ask, data, len < sizeof(ask) ? len : sizeof(ask));
    if (sizeof(ask) != len || 0 == ask.len || 0 == ask.part ||
        ask.len / ask.part >= FAB_SHM_PARTS_MAX) {
        fab_peer_fail(peer, OPAL_ERR_COMM_FAILURE, "It asks for memory in impossible parts.");
        return;
    }
    give = &ep->in->gives[hdr.app_ctx % FAB_SHM_COOPS];
    if (NULL != give->in) {
        fab_shm_give_end(give); /* that get is over, or its number would not be used again */
    }
    if (0 == ep->tx.limit || ask.part > peer->eager_max || !is_exposed(dom, peer, &ask)) {
        return;
    }
    *give = (fab_shm_give_t){.in = ep->in, .ask = ask, .seq = hdr.app_ctx};
    TAILQ_INSERT_TAIL(&dom->gives, give, link);
}

/* ---- fetcher ------------------------------------------------------------ */

/* Bytes of a part that both rings hold several of. */
static uint32_t part_for(const fab_shm_ep_t *ep)
{
    const uint32_t max = ep->dom->addr.eager_max;

    return max < FAB_SHM_PART ? max : FAB_SHM_PART;
}

bool fab_shm_coop_is_possible(const fab_rma_t *op)
{
    return FAB_GET == op->kind && op->len >= FAB_SHM_COOP_MIN && 0 != fab_shm_key_of(&op->rkey);
}

bool fab_shm_coop_is_worth_it(const fab_shm_ep_t *ep, const fab_rma_t *op)
{
    return ep->dom->is_coop && fab_shm_coop_is_possible(op) && 0 == op->done && NULL != ep->entry &&
           op->len / part_for(ep) < FAB_SHM_PARTS_MAX &&
           (NULL == ep->ways || FAB_SHM_PUSH == fab_shm_way_of(ep->ways, op->len));
}

static _Atomic uint64_t *claim_of(const fab_shm_ep_t *ep, const fab_shm_fetch_t *fetch)
{
    return &ep->entry->claims[fetch - ep->fetches].word;
}

/* Ask the peer for what this operation gets. False: there is no room to ask now. */
static bool ask_for(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, fab_rma_t *op)
{
    const uint32_t seq = fetch->seq + FAB_SHM_COOPS;
    const fab_shm_ask_t ask = {
        .from = op->remote, .len = op->len, .key = fab_shm_key_of(&op->rkey), .part = part_for(ep)};

    if (!fab_shm_tx_has_room(&ep->tx, 1) &&
        (!fab_shm_tx_refresh(&ep->tx) || !fab_shm_tx_has_room(&ep->tx, 1))) {
        return false;
    }
    op->is_given = true;
    *fetch = (fab_shm_fetch_t){.op = op, .seq = seq, .part = ask.part, .end = op->len};
    ep->given_at = ep->beaten_at = fab_now_ns();
    ep->beat = atomic_load_explicit(&ep->seg->beat, memory_order_relaxed);
    fab_claim_open(claim_of(ep, fetch), seq);
    (void) fab_shm_tx_send_short(&ep->tx, fab_hdr(FAB_SHM_AM_ASK, 0, seq), &ask, sizeof(ask));
    fab_counters.shm_msgs_sent++;
    fab_counters.shm_coop_offered++;
    return true;
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
    return NULL != unused && fab_shm_coop_is_worth_it(ep, op) && ask_for(ep, unused, op) ? unused
                                                                                         : NULL;
}

/* Handler of FAB_SHM_AM_PART. */
static void part_came(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_shm_ep_t *ep = ep_of(ctx, peer);
    fab_shm_fetch_t *fetch;
    uint64_t left;

    if (NULL == ep) {
        return;
    }
    fetch = &ep->fetches[hdr.app_ctx % FAB_SHM_COOPS];
    if (NULL == fetch->op || fetch->seq != hdr.app_ctx) {
        return; /* that get has ended in error */
    }
    left = fetch->end - fetch->received;
    if (hdr.tag != fetch->received || 0 == len ||
        len != (left < fetch->part ? left : fetch->part)) {
        fab_peer_fail(peer, OPAL_ERR_COMM_FAILURE, "It sends memory that it was not asked for.");
        return;
    }
    fab_shm_beat(ep->dom);
    fab_copy((char *) fetch->op->local + fetch->received, data, len);
    fab_shm_beat(ep->dom);
    fetch->received += len;
    fetch->op->done += len;
    ep->given_at = fab_now_ns();
}

/* The get has ended with this result. */
static int fetch_over(fab_shm_fetch_t *fetch, int rc)
{
    fab_counters.shm_coop_helped += fetch->received > 0;
    fetch->op = NULL;
    return rc;
}

/* The giver sends no more than it has claimed; the rest is to be read. False: the peer failed. */
static bool fetch_close(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch)
{
    uint32_t parts;

    if (!fab_claim_close(claim_of(ep, fetch), fetch->seq, &parts) ||
        (parts > 0 && (uint64_t) (parts - 1) * fetch->part >= fetch->end) ||
        (uint64_t) parts * fetch->part < fetch->received) {
        fab_peer_fail(ep->peer, OPAL_ERR_COMM_FAILURE,
                      "Its side of the shared memory has been overwritten.");
        return false;
    }
    if ((uint64_t) parts * fetch->part < fetch->end) {
        fetch->end = (uint64_t) parts * fetch->part;
    }
    fetch->at = fetch->end;
    fetch->is_closed = true;
    return true;
}

/*
 * Has the giver of this get shown no sign for so long that it is not in MPI?  After it has written
 * much its first calls take longer: its caches have nothing of what these need.
 */
static bool is_away(fab_shm_ep_t *ep, const fab_rma_t *op, uint64_t now)
{
    const uint64_t limit = ep->dom->away + op->len / FAB_SHM_AWAY_PER;
    uint32_t beat;

    if (now - ep->given_at < limit) {
        return false;
    }
    beat = atomic_load_explicit(&ep->seg->beat, memory_order_relaxed);
    if (beat != ep->beat || 0 != beat % 2) {
        ep->beat = beat;
        ep->beaten_at = now;
    }
    return now - ep->beaten_at >= limit;
}

int fab_shm_fetch_step(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max)
{
    fab_rma_t *op = fetch->op;
    size_t moved = 0;
    int rc;

    if (FAB_PEER_FAILED == ep->peer->state) {
        return fetch_over(fetch, OPAL_ERR_UNREACH);
    }
    if (!fetch->is_closed && fetch->received < op->len) {
        const uint64_t now = fab_now_ns();

        if (now - ep->given_at < ep->dom->patience && !is_away(ep, op, now)) {
            return OPAL_ERR_RESOURCE_BUSY;
        }
        if (!fetch_close(ep, fetch)) {
            return fetch_over(fetch, OPAL_ERR_UNREACH);
        }
    }
    if (fetch->is_closed && fetch->at < op->len) {
        const size_t left = op->len - fetch->at;
        rc = fab_shm_transfer(ep, false, (char *) op->local + fetch->at, op->remote + fetch->at,
                              left < max ? left : max, &moved);
        if (OPAL_SUCCESS != rc && OPAL_ERR_IN_PROCESS != rc) {
            return fetch_over(fetch, rc);
        }
        fetch->at += moved;
        op->done += moved;
        if (fetch->at < op->len) {
            return OPAL_ERR_IN_PROCESS;
        }
    }
    return fetch->received == fetch->end ? fetch_over(fetch, OPAL_SUCCESS) : OPAL_ERR_RESOURCE_BUSY;
}

void fab_shm_coop_open(fab_shm_domain_t *dom)
{
    const char *choice = fab_params.shm_cooperative;
    const bool is_always = NULL != choice && 0 == strcmp(choice, "always");

    /* with more processes than processors a get would wait for a time slice of its giver */
    dom->is_coop = is_always ||
                   (!fab_params_is_none(choice) && dom->fab->config.num_local <= fab_cpus(""));
    dom->is_choosing = dom->is_coop && !is_always;
    TAILQ_INIT(&dom->gives);
    fab_idmap_init(&dom->exposures);
    dom->patience = FAB_SHM_PATIENCE;
    dom->away = FAB_SHM_AWAY;
    fab_set_handler(dom->fab, FAB_SHM_AM_ASK, asked, dom);
    fab_set_handler(dom->fab, FAB_SHM_AM_PART, part_came, dom);
}

void fab_shm_coop_close(fab_shm_domain_t *dom)
{
    fab_shm_exposure_t *exposure;

    for (uint32_t i = 0; NULL != (exposure = fab_idmap_next(&dom->exposures, &i));) {
        free(exposure);
    }
    fab_idmap_fini(&dom->exposures);
}
