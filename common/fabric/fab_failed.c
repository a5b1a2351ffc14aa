/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that have failed.
 *
 * A failure is noted at once (state, ops) and worked off in fab_progress(), outside of any provider
 * or handler.
 */
#include "fabric/fab_core.h"
#include "fabric/fab_look.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- noting a failure --------------------------------------------------- */

/* There is always memory for one, so one at least is reported. */
static void core_add_failure(fab_core_t *core, fab_peer_t *peer, int rc, const char *why)
{
    fab_failure_t *failure = malloc(sizeof(*failure));

    if (NULL == failure && NULL == core->reserve.peer) {
        failure = &core->reserve;
    }
    if (NULL == failure) {
        core->is_failure_lost = true;
        return;
    }
    failure->peer = peer;
    failure->rc = rc;
    failure->is_reported = false;
    snprintf(failure->why, sizeof(failure->why), "%s", why);
    LIST_INSERT_HEAD(&core->failures, failure, link);
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

bool fab_peer_is_gone(const fab_peer_t *peer)
{
    const fab_core_t *core = fab_core(peer->fab);

    return FAB_PEER_UP != peer->state && NULL == peer->pending && core->running != peer &&
           !core->is_failure_lost && !fab_core_has_failure(core, peer);
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

bool fab_failed_drop(fab_core_t *core, fab_peer_t *peer)
{
    return NULL == peer->ep ||
           fab_providers[peer->provider]->drop(core->slots[peer->provider].dom, peer);
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
        if (&fab_no_ops == peer->ops && NULL != peer->ep && FAB_PEER_FAILED == peer->state &&
            !fab_core_has_failure(core, peer)) {
            core_add_failure(core, peer, OPAL_ERR_UNREACH,
                             "It failed; there was no memory to keep the reason.");
        }
    }
}

static void core_end_failure(fab_core_t *core, fab_failure_t *failure)
{
    LIST_REMOVE(failure, link);
    fab_record_try_release(failure->peer);
    if (&core->reserve == failure) {
        failure->peer = NULL;
    } else {
        free(failure);
    }
}

int fab_failed_report(fab_core_t *core)
{
    fab_failure_t *next;
    int events = 0;

    if (core->is_failure_lost) {
        core_find_failures(core);
    }
    for (fab_failure_t *failure = LIST_FIRST(&core->failures); NULL != failure; failure = next) {
        bool is_new = !failure->is_reported;
        failure->is_reported = true;
        if (is_new) {
            events++;
            core_tell_failure(core, failure->peer, failure->rc, failure->why);
        }
        bool is_done = fab_failed_drop(core, failure->peer);
        next = LIST_NEXT(failure, link);
        if (is_done) {
            core_end_failure(core, failure);
        }
    }
    return events;
}

void fab_failed_free(fab_core_t *core)
{
    while (!LIST_EMPTY(&core->failures)) {
        core_end_failure(core, LIST_FIRST(&core->failures));
    }
}
