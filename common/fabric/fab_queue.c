/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits for room towards a peer: queued items and posted messages.
 *
 * fab_peer_t.pending is the peer's queue; while it is not empty the peer stands in core->busy, and
 * fab_progress() runs its items: the one that is run is taken out first, so fn may free it, and put
 * back in front if it has to stay.
 */
#include "fabric/fab_core.h"

#include <stdlib.h>
#include <string.h>

/* ---- items -------------------------------------------------------------- */

/* Put an item at the head of the ring; it is the tail as well if it is alone. */
static void peer_put_back(fab_peer_t *peer, fab_item_t *item)
{
    fab_item_t *last = peer->pending;

    if (NULL == last) {
        item->next = item->prev = item;
        peer->pending = item;
    } else {
        item->next = last->next;
        item->prev = last;
        last->next->prev = item;
        last->next = item;
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
        core->busy[core->num_busy++] = peer;
        fab_core_set_work(core, true);
    }
    peer_append(peer, item);
}

static void peer_unlink(fab_peer_t *peer, fab_item_t *item)
{
    if (item == item->next) {
        peer->pending = NULL;
    } else {
        item->prev->next = item->next;
        item->next->prev = item->prev;
        peer->pending = item == peer->pending ? item->prev : peer->pending;
    }
    item->next = NULL;
}

static fab_item_t *peer_take(fab_peer_t *peer)
{
    fab_item_t *item = peer->pending->next;

    peer_unlink(peer, item);
    return item;
}

/* The peer's queue has become empty outside of fab_queue_run(). */
static void core_forget_busy(fab_core_t *core, const fab_peer_t *peer)
{
    for (uint32_t i = 0; i < core->num_busy; i++) {
        if (core->busy[i] == peer) {
            core->busy[i] = core->busy[--core->num_busy];
            return;
        }
    }
}

/* Items were taken out of the peer's queue. */
static void core_note_taken(fab_core_t *core, const fab_peer_t *peer)
{
    if (NULL == peer->pending && core->running != peer) {
        core_forget_busy(core, peer);
    }
}

bool fab_unqueue_item(fab_peer_t *peer, fab_item_t *item)
{
    if (NULL == item->next) {
        return false;
    }
    peer_unlink(peer, item);
    core_note_taken(fab_core(peer->fab), peer);
    return true;
}

fab_item_t *fab_unqueue(fab_peer_t *peer, fab_item_is_fn_t is_it, const void *ctx)
{
    fab_item_t *last = peer->pending, *taken = NULL, **taken_tail = &taken;
    bool is_last = NULL == last;

    while (!is_last) {
        fab_item_t *item = peer_take(peer);
        is_last = item == last;
        if (!is_it(item, ctx)) {
            peer_append(peer, item);
            continue;
        }
        *taken_tail = item;
        taken_tail = &item->next;
    }
    if (NULL != taken) {
        core_note_taken(fab_core(peer->fab), peer);
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

int fab_queue_run(fab_core_t *core)
{
    int events = 0;

    for (uint32_t n = core->num_busy < FAB_PEERS_PER_PASS ? core->num_busy : FAB_PEERS_PER_PASS;
         n > 0; n--) {
        uint32_t at = core->next_busy < core->num_busy ? core->next_busy : 0;
        fab_peer_t *peer = core->busy[at];
        events += peer_run_items(core, peer);
        if (NULL == peer->pending) {
            core_forget_busy(core, peer); /* not busy[at]: callbacks may have removed others */
            fab_record_try_release(peer);
        } else {
            at++;
        }
        core->next_busy = at;
    }
    return events;
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

/* ---- a user, or the fabric, closes -------------------------------------- */

static bool is_of(const fab_item_t *item, const void *user)
{
    return item->user == *(const fab_user_t *) user;
}

void fab_queue_forget(fab_core_t *core, fab_user_t user)
{
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        if (NULL != fab_core_record(core, i)->pending) {
            (void) fab_unqueue(fab_core_record(core, i), is_of, &user);
        }
    }
}

void fab_queue_free(fab_core_t *core)
{
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        while (NULL != peer->pending) {
            fab_item_t *item = peer_take(peer);
            if (post_run == item->fn) {
                free(item);
            }
        }
    }
    free(core->busy);
}
