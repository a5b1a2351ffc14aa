/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits for a peer: queued items, posted messages, and the news of its failure.
 *
 * fab_peer_t.pending is the peer's queue; while it is not empty the peer stands in core->busy, and
 * fab_progress() runs its items: the one that is run is taken out first, so fn may free it, and put
 * back in front if it has to stay.
 *
 * A failure is noted at once (state, ops) and worked off in fab_core_run_queues(), outside of any
 * provider or handler.
 */
#include "fabric/fab_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations on a failed or closed peer ------------------------------ */

static int failed_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    (void) peer, (void) hdr, (void) buf, (void) len;
    return OPAL_ERR_UNREACH;
}

static void *failed_reserve(fab_peer_t *peer, size_t max_len)
{
    (void) peer, (void) max_len;
    return NULL;
}

static void failed_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) peer, (void) hdr, (void) len;
}

static int failed_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                         fab_rkey_t *rkey)
{
    (void) peer, (void) buf, (void) len, (void) access, (void) rkey;
    return OPAL_ERR_UNREACH;
}

static void failed_unexpose(fab_peer_t *peer, fab_rkey_t *rkey)
{
    (void) peer, (void) rkey;
}

static int failed_rma(fab_rma_t *op)
{
    (void) op;
    return OPAL_ERR_UNREACH;
}

static int failed_send_from(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out)
{
    (void) peer, (void) hdr, (void) out;
    return OPAL_ERR_UNREACH;
}

const fab_ops_t fab_failed_ops = {
    .send = failed_send,
    .reserve = failed_reserve,
    .commit = failed_commit,
    .expose = failed_expose,
    .unexpose = failed_unexpose,
    .rma = failed_rma,
    .send_from = failed_send_from,
};

/* ---- items -------------------------------------------------------------- */

static void core_note_busy(fab_core_t *core, fab_peer_t *peer)
{
    if (core->num_busy == core->max_busy) {
        uint32_t max = core->max_busy > 0 ? 2 * core->max_busy : 64;
        fab_peer_t **busy = realloc(core->busy, max * sizeof(*busy));
        if (NULL == busy) {
            core->is_busy_partial = true;
            return;
        }
        core->busy = busy;
        core->max_busy = max;
    }
    core->busy[core->num_busy++] = peer;
}

/* Put an item at the head of the ring; it is the tail as well if it is alone. */
static void peer_put_back(fab_peer_t *peer, fab_item_t *item)
{
    if (NULL == peer->pending) {
        item->next = item;
        peer->pending = item;
    } else {
        item->next = peer->pending->next;
        peer->pending->next = item;
    }
}

static void peer_append(fab_peer_t *peer, fab_item_t *item)
{
    peer_put_back(peer, item);
    peer->pending = item; /* of a ring, the head that is called the tail */
}

void fab_queue(fab_peer_t *peer, fab_item_t *item)
{
    fab_core_t *core = fab_core(peer->fab);

    if (NULL == peer->pending && core->running != peer) {
        core_note_busy(core, peer);
        fab_core_set_work(core, true);
    }
    peer_append(peer, item);
    fab_counters.items_queued++;
}

static fab_item_t *peer_take(fab_peer_t *peer)
{
    fab_item_t *item = peer->pending->next;

    if (item == peer->pending) {
        peer->pending = NULL;
    } else {
        peer->pending->next = item->next;
    }
    return item;
}

/* The peer's queue has become empty outside of core_run_items(). */
static void core_forget_busy(fab_core_t *core, const fab_peer_t *peer)
{
    for (uint32_t i = 0; i < core->num_busy; i++) {
        if (core->busy[i] == peer) {
            core->busy[i] = core->busy[--core->num_busy];
            return;
        }
    }
}

fab_item_t *fab_unqueue(fab_peer_t *peer, fab_item_is_fn_t is_it, const void *ctx)
{
    fab_core_t *core = fab_core(peer->fab);
    fab_item_t *last = peer->pending, *taken = NULL, **taken_tail = &taken;
    bool is_last = NULL == last;

    while (!is_last) {
        fab_item_t *item = peer_take(peer);
        is_last = item == last;
        if (!is_it(item, ctx)) {
            peer_append(peer, item);
            continue;
        }
        item->next = NULL;
        *taken_tail = item;
        taken_tail = &item->next;
    }
    if (NULL != taken && NULL == peer->pending && core->running != peer) {
        core_forget_busy(core, peer);
    }
    return taken;
}

void fab_visit_items(fab_t *fab, void (*fn)(void *ctx, fab_peer_t *peer, const fab_item_t *item),
                     void *ctx)
{
    const fab_core_t *core = fab_core(fab);

    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        const fab_item_t *item = peer->pending;

        while (NULL != item) {
            item = item->next; /* of the newest: the oldest */
            fn(ctx, peer, item);
            if (item == peer->pending) {
                break;
            }
        }
    }
}

/* Run items of one peer until one has no room. Returns how many went on. */
static int peer_run_items(fab_core_t *core, fab_peer_t *peer)
{
    const fab_ops_t *ops = peer->ops; /* it may fail on the way */
    bool is_batch = NULL != ops->batch && NULL != peer->pending &&
                    peer->pending != peer->pending->next;
    int events = 0;

    core->running = peer;
    if (is_batch) {
        ops->batch(peer, true);
    }
    for (int n = 0; n < FAB_ITEMS_PER_PASS && NULL != peer->pending; n++) {
        fab_item_t *item = peer_take(peer);
        int rc = item->fn(item, peer);
        if (OPAL_ERR_RESOURCE_BUSY == rc) {
            peer_put_back(peer, item);
            break;
        }
        if (OPAL_ERR_IN_PROCESS == rc) {
            peer_append(peer, item);
        }
        events++;
    }
    if (is_batch) {
        ops->batch(peer, false);
    }
    core->running = NULL;
    return events;
}

/* Note in busy who has items and nobody else. Rare, so the search may be long. */
static void core_find_busy(fab_core_t *core)
{
    core->is_busy_partial = false;
    core->num_busy = 0;
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        if (NULL != peer->pending) {
            core_note_busy(core, peer);
        }
    }
}

static int core_run_items(fab_core_t *core)
{
    int events = 0;

    if (core->is_busy_partial) { /* there was no memory once to note a peer */
        core_find_busy(core);
    }
    for (uint32_t n = core->num_busy < FAB_PEERS_PER_PASS ? core->num_busy : FAB_PEERS_PER_PASS;
         n > 0; n--) {
        uint32_t at = core->next_busy < core->num_busy ? core->next_busy : 0;
        fab_peer_t *peer = core->busy[at];
        events += peer_run_items(core, peer);
        if (NULL == peer->pending) {
            core_forget_busy(core, peer); /* not busy[at]: callbacks may have removed others */
            fab_core_try_release(peer);
        } else {
            at++;
        }
        core->next_busy = at;
    }
    return events;
}

/* Does a provider hold messages? */
static bool has_holder(const fab_core_t *core)
{
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL != core->slots[i].dom && NULL != fab_providers[i]->is_holding &&
            fab_providers[i]->is_holding(core->slots[i].dom)) {
            return true;
        }
    }
    return false;
}

bool fab_has_queued(const fab_t *fab)
{
    const fab_core_t *core = (const fab_core_t *) fab;

    return core->num_busy > 0 || core->is_busy_partial || has_holder(core);
}

/* ---- posted messages ---------------------------------------------------- */

static int post_run(fab_item_t *item, fab_peer_t *peer)
{
    fab_post_t *post = (fab_post_t *) item;
    int rc = fab_item_send(peer, post->hdr, post->data, post->len);

    if (OPAL_ERR_RESOURCE_BUSY == rc) {
        return rc;
    }
    free(post);
    return OPAL_SUCCESS;
}

int fab_post(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    int rc = fab_send(peer, hdr, buf, len);
    fab_post_t *post;

    if (OPAL_ERR_RESOURCE_BUSY != rc) {
        return rc;
    }
    if (len > FAB_POST_MAX) {
        return OPAL_ERR_BAD_PARAM;
    }
    post = malloc(sizeof(*post) + len);
    if (NULL == post) {
        fab_peer_fail(
            peer, OPAL_ERR_OUT_OF_RESOURCE,
            "This process has no memory for a message without which the peer would wait for ever.");
        return OPAL_ERR_UNREACH;
    }
    post->item = (fab_item_t){.fn = post_run, .user = FAB_NUM_USERS};
    post->hdr = hdr;
    post->len = len;
    if (len > 0) {
        memcpy(post->data, buf, len);
    }
    fab_queue(peer, &post->item);
    return OPAL_SUCCESS;
}

/* ---- failure ------------------------------------------------------------ */

bool fab_core_has_failure(const fab_core_t *core, const fab_peer_t *peer)
{
    for (const fab_failure_t *failure = core->failures; NULL != failure; failure = failure->next) {
        if (failure->peer == peer) {
            return true;
        }
    }
    return false;
}

bool fab_peer_is_gone(const fab_peer_t *peer)
{
    const fab_core_t *core = fab_core(peer->fab);

    return FAB_PEER_UP != peer->state && NULL == peer->pending && core->running != peer &&
           !core->is_failure_lost && !fab_core_has_failure(core, peer);
}

static void core_tell_failure(fab_core_t *core, fab_peer_t *peer, int rc, const char *why)
{
    for (int n = 0; n < FAB_NUM_USERS; n++) {
        const fab_user_state_t *user = &core->users[n];
        bool is_closed = FAB_PEER_CLOSED == peer->state ||
                         0 != (peer->users & fab_peer_closed_bit((fab_user_t) n));
        if (user->is_open && !is_closed && NULL != user->config.peer_failed) {
            user->config.peer_failed(user->config.ctx, peer, rc, why);
        }
    }
}

bool fab_core_drop(fab_core_t *core, fab_peer_t *peer)
{
    return NULL == peer->ep ||
           fab_providers[peer->provider]->drop(core->slots[peer->provider].dom, peer);
}

/* A new record; NULL: no memory. There is always memory for one, so one at least is reported. */
static fab_failure_t *failure_alloc(fab_core_t *core)
{
    fab_failure_t *failure = malloc(sizeof(*failure));

    return NULL == failure && NULL == core->reserve.peer ? &core->reserve : failure;
}

static void failure_free(fab_core_t *core, fab_failure_t *failure)
{
    if (&core->reserve == failure) {
        failure->peer = NULL;
    } else {
        free(failure);
    }
}

static void core_add_failure(fab_core_t *core, fab_peer_t *peer, int rc, const char *why)
{
    fab_failure_t *failure = failure_alloc(core);

    if (NULL == failure) {
        core->is_failure_lost = true;
        return;
    }
    failure->peer = peer;
    failure->rc = rc;
    failure->is_reported = false;
    snprintf(failure->why, sizeof(failure->why), "%s", why);
    failure->next = core->failures;
    core->failures = failure;
}

void fab_peer_fail(fab_peer_t *peer, int rc, const char *why)
{
    fab_core_t *core = fab_core(peer->fab);

    if (FAB_PEER_FAILED == peer->state || fab_core_has_failure(core, peer)) {
        return;
    }
    if (FAB_PEER_UP == peer->state) {
        peer->state = FAB_PEER_FAILED;
    }
    peer->ops = &fab_failed_ops;
    peer->caps = 0;
    core->fab.must_return = true;
    fab_core_set_work(core, true);
    core_add_failure(core, peer, rc, why);
}

static bool needs(const fab_core_t *core, int n, fab_peer_t *peer)
{
    const fab_user_state_t *user = &core->users[n];

    return user->is_open && NULL != user->config.peer_left &&
           0 == (peer->users & fab_peer_closed_bit((fab_user_t) n)) &&
           user->config.peer_left(user->config.ctx, peer);
}

void fab_peer_has_left(fab_peer_t *peer)
{
    const fab_core_t *core = fab_core(peer->fab);

    for (int n = 0; n < FAB_NUM_USERS && FAB_PEER_UP == peer->state; n++) {
        if (needs(core, n, peer)) {
            fab_peer_fail(peer, OPAL_ERR_UNREACH,
                          "It has left the job, and messages between it and this process are not "
                          "complete.");
        }
    }
}

/*
 * No memory once to keep a failure: those that failed and still have their provider's state were
 * not reported.
 */
static void core_find_failures(fab_core_t *core)
{
    core->is_failure_lost = false;
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        if (&fab_failed_ops == peer->ops && NULL != peer->ep && FAB_PEER_FAILED == peer->state &&
            !fab_core_has_failure(core, peer)) {
            core_add_failure(core, peer, OPAL_ERR_UNREACH,
                             "It failed; there was no memory to keep the reason.");
        }
    }
}

static void core_end_failure(fab_core_t *core, fab_failure_t *failure)
{
    fab_failure_t **at = &core->failures;

    while (*at != failure) {
        at = &(*at)->next;
    }
    *at = failure->next;
    fab_core_try_release(failure->peer);
    failure_free(core, failure);
}

/*
 * Report each once; it stays in the list until the provider has released what it holds.  Callbacks
 * may add others.
 */
static int core_report_failures(fab_core_t *core)
{
    fab_failure_t *next;
    int events = 0;

    if (core->is_failure_lost) {
        core_find_failures(core);
    }
    for (fab_failure_t *failure = core->failures; NULL != failure; failure = next) {
        bool is_new = !failure->is_reported;
        failure->is_reported = true;
        if (is_new) {
            events++;
            core_tell_failure(core, failure->peer, failure->rc, failure->why);
        }
        bool is_done = fab_core_drop(core, failure->peer);
        next = failure->next;
        if (is_done) {
            core_end_failure(core, failure);
        }
    }
    return events;
}

/* ---- from fab_progress() and fab_close() -------------------------------- */

int fab_core_run_queues(fab_core_t *core)
{
    int events = fab_core_run_moves(core);

    events += core_report_failures(core);
    events += core_run_items(core);
    fab_core_set_work(core, core->num_busy > 0 || core->is_busy_partial || NULL != core->failures ||
                                core->is_failure_lost || NULL != core->moves);
    return events;
}

static void core_free_pending(fab_peer_t *peer)
{
    while (NULL != peer->pending) {
        fab_item_t *item = peer_take(peer);
        if (post_run == item->fn) {
            free(item);
        }
    }
}

/* Items of the user are not run any more; their memory goes with it. */
void fab_core_forget_items(fab_core_t *core, fab_user_t user)
{
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        fab_item_t *last = peer->pending;
        bool is_last = NULL == last;
        while (!is_last) {
            fab_item_t *item = peer_take(peer);
            is_last = item == last;
            if (item->user != user) {
                peer_append(peer, item);
            }
        }
    }
    core_find_busy(core);
}

void fab_core_free_queues(fab_core_t *core)
{
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        core_free_pending(fab_core_record(core, i));
    }
    while (NULL != core->failures) {
        fab_failure_t *failure = core->failures;
        core->failures = failure->next;
        failure_free(core, failure);
    }
    fab_core_free_moves(core);
    free(core->busy);
}
