/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that have failed, and all that their providers are to let go of.
 *
 * A failure, or a move to another provider (fab_move.c), is noted at once (state, ops) and worked
 * off in fab_progress(), outside of any provider or handler.
 */
#include "fabric/fab_core.h"
#include "fabric/fab_look.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- noting a failure --------------------------------------------------- */

static void fill(fab_drop_t *drop, fab_peer_t *peer, int rc, const char *why)
{
    drop->peer = peer;
    drop->rc = rc;
    drop->address = NULL;
    drop->is_owed = drop->is_reported = false;
    snprintf(drop->why, sizeof(drop->why), "%s", why);
}

fab_drop_t *fab_drop_add(fab_core_t *core, fab_peer_t *peer, int rc, const char *why)
{
    fab_drop_t *drop = malloc(sizeof(*drop));

    if (NULL != drop) {
        fill(drop, peer, rc, why);
        LIST_INSERT_HEAD(&core->drops, drop, link);
    }
    return drop;
}

void fab_drop_end(fab_core_t *core, fab_drop_t *drop)
{
    LIST_REMOVE(drop, link);
    fab_record_try_release(drop->peer);
    free(drop->address);
    if (&core->reserve == drop) {
        drop->peer = NULL;
    } else {
        free(drop);
    }
}

/* There is always memory for one, so one at least is reported.  It takes the place of a move. */
static void core_add_failure(fab_core_t *core, fab_peer_t *peer, int rc, const char *why)
{
    fab_drop_t *move = fab_drop_of(core, peer);

    if (NULL != move) {
        free(move->address);
        fill(move, peer, rc, why);
    } else if (NULL == fab_drop_add(core, peer, rc, why)) {
        if (NULL != core->reserve.peer) {
            core->is_failure_lost = true;
            return;
        }
        fill(&core->reserve, peer, rc, why);
        LIST_INSERT_HEAD(&core->drops, &core->reserve, link);
    }
}

void fab_peer_fail(fab_peer_t *peer, int rc, const char *why)
{
    fab_core_t *core = fab_core(peer->fab);
    const fab_drop_t *drop = fab_drop_of(core, peer);

    if (FAB_PEER_FAILED == peer->state || (NULL != drop && NULL == drop->address)) {
        return;
    }
    if (FAB_PEER_UP == peer->state) {
        peer->state = FAB_PEER_FAILED;
    }
    fab_look_event(&core->fab, (fab_event_t){.kind = FAB_EVENT_PEER_FAILED, .peer = peer->name});
    peer->ops = &fab_no_ops;
    peer->caps = 0;
    core->fab.must_return = true;
    fab_core_set_work(core, true);
    core_add_failure(core, peer, rc, why);
}

void fab_peer_bad_message(fab_peer_t *peer, const char *what)
{
    char why[128];

    fab_counters.bad_messages++;
    snprintf(why, sizeof(why), "It sent a malformed message: %s.", what);
    fab_peer_fail(peer, OPAL_ERR_COMM_FAILURE, why);
}

void fab_peer_has_left(fab_peer_t *peer)
{
    const fab_core_t *core = fab_core(peer->fab);

    for (int n = 0; n < FAB_NUM_USERS && FAB_PEER_UP == peer->state; n++) {
        const fab_user_state_t *user = &core->users[n];
        if (user->is_open && NULL != user->config.peer_left &&
            0 == (peer->users & fab_peer_closed_bit((fab_user_t) n)) &&
            user->config.peer_left(user->config.ctx, peer)) {
            fab_peer_fail(peer, OPAL_ERR_UNREACH,
                          "It has left the job, and messages between it and this process are not "
                          "complete.");
        }
    }
}

bool fab_peer_is_gone(const fab_peer_t *peer)
{
    const fab_core_t *core = fab_core(peer->fab);

    return FAB_PEER_UP != peer->state && NULL == peer->pending && core->running != peer &&
           !core->is_failure_lost && NULL == fab_drop_of(core, peer);
}

/* ---- reporting it ------------------------------------------------------- */

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

bool fab_drop_try(fab_core_t *core, fab_peer_t *peer)
{
    return NULL == peer->ep ||
           fab_providers[peer->provider]->drop(core->slots[peer->provider].dom, peer);
}

void fab_failed_find(fab_core_t *core)
{
    core->is_failure_lost = false;
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        if (&fab_no_ops == peer->ops && NULL != peer->ep && FAB_PEER_FAILED == peer->state &&
            NULL == fab_drop_of(core, peer)) {
            core_add_failure(core, peer, OPAL_ERR_UNREACH,
                             "It failed; there was no memory to keep the reason.");
        }
    }
}

bool fab_failed_report(fab_core_t *core, fab_drop_t *drop, int *events)
{
    if (!drop->is_reported) {
        drop->is_reported = true;
        ++*events;
        core_tell_failure(core, drop->peer, drop->rc, drop->why);
    }
    return fab_drop_try(core, drop->peer);
}

void fab_drop_free(fab_core_t *core)
{
    while (!LIST_EMPTY(&core->drops)) {
        fab_drop_end(core, LIST_FIRST(&core->drops));
    }
}
