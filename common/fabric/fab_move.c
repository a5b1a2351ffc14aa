/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer moves to the next provider that reaches it, if its own cannot make a connection.
 *
 * Only while nothing is on its way by the provider: before a connection was used, or after one that
 * ended in order (fab_provider_t.asked_by_later).  So nothing can be lost, doubled or overtaken.
 * What waits for the peer stays in its queue.
 *
 *      this process   fab_peer_cannot_connect(): its own attempt has failed, or was refused
 *      the other      fab_peer_from_wire() by a later provider: the peer's attempt has failed, and
 *                     it asks for a connection by the next one
 *
 *      UP ──noted: fab_no_ops──> old provider drops it ──> next provider takes it ──> UP
 *                                                       └──> there is none: FAILED
 *
 * The connecting side is up before the accepting side may send. So a process whose attempt
 * failed knows that the other has sent nothing, and the other, which finds its connection not up,
 * knows the same of the first. Both can come to it at the same time, each by itself; providers are
 * tried in the same order everywhere, and never one before the present one, so they meet.
 *
 * A process that has answered the peer, and finds that the answer cannot reach it, asks the peer by
 * the next provider at once (fab_peer_owes()): the peer would wait for ever.  So even one that is
 * closed here moves, and ends in order there.
 *
 * A connection that ends has ended here before its other side knows: then the other drops the peer
 * when it does, and what came last is delivered.
 *
 * Of a peer's address the sections of later providers are kept, as long as it may move.
 */
#include "fabric/fab_core.h"
#include "fabric/fab_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_wire.h"

/* ---- the address, as long as it may be needed ------------------------------ */

/* Where the provider keeps it; NULL: the peer will never move. */
static void **spare_of(const fab_peer_t *peer)
{
    const fab_provider_t *provider = fab_providers[peer->provider];

    return NULL != provider->spare && NULL != peer->ep ? provider->spare(peer) : NULL;
}

/*
 * Of a checked address the sections of open providers from this one on. NULL: none, or no memory.
 */
static void *spare_address(const fab_core_t *core, const void *address, int first)
{
    union {
        fab_wire_head_t head;
        unsigned char bytes[FAB_ADDRESS_MAX];
    } some = {.head = {.len = sizeof(some.head)}};
    void *spare;

    for (int i = first; i < FAB_NUM_PROVIDERS; i++) {
        size_t len = 0;
        const void *section = fab_address_section(address, fab_providers[i]->id, &len);
        if (NULL != core->slots[i].dom && NULL != section) {
            fab_address_add(&some.head, fab_providers[i]->id, section, len);
        }
    }
    spare = some.head.sections > 0 ? malloc(some.head.len) : NULL;
    if (NULL != spare) {
        memcpy(spare, &some, some.head.len);
    }
    return spare;
}

void fab_move_keep_address(fab_core_t *core, fab_peer_t *peer, const void *address)
{
    void **spare = FAB_PEER_UP == peer->state && !fab_peer_is_moving(peer) ? spare_of(peer) : NULL;

    if (NULL != spare && NULL == *spare) {
        *spare = spare_address(core, address, peer->provider + 1);
    }
}

/* ---- noting a move --------------------------------------------------------- */

bool fab_peer_is_moving(const fab_peer_t *peer)
{
    const fab_core_t *core = fab_core(peer->fab);

    return (FAB_PEER_UP == peer->state && &fab_no_ops == peer->ops) ||
           (FAB_PEER_CLOSED == peer->state && NULL != fab_drop_of(core, peer));
}

/* The address is the move's from now on.  False: there is no memory. */
static bool note(fab_core_t *core, fab_peer_t *peer, void *address, int rc, const char *why)
{
    fab_drop_t *move = fab_drop_add(core, peer, rc, why);

    if (NULL == move) {
        return false;
    }
    move->address = address;
    peer->ops = &fab_no_ops;
    peer->caps = 0;
    core->fab.must_return = true;
    fab_core_set_work(core, true);
    return true;
}

void fab_peer_cannot_connect(fab_peer_t *peer, int rc, const char *why)
{
    fab_core_t *core = fab_core(peer->fab);
    void **spare;

    if (FAB_PEER_UP != peer->state || fab_peer_is_moving(peer)) {
        return;
    }
    spare = spare_of(peer);
    if (NULL != spare && NULL != *spare && note(core, peer, *spare, rc, why)) {
        *spare = NULL;
        return;
    }
    if (NULL != spare && 0 == peer->users && NULL == peer->pending) {
        peer->state = FAB_PEER_CLOSED; /* it asked, and will by its next provider: no peer fails */
    }
    fab_peer_fail(peer, rc, why);
}

void fab_peer_owes(fab_peer_t *peer, int rc, const char *why)
{
    fab_core_t *core = fab_core(peer->fab);
    void **spare = spare_of(peer);

    if (FAB_PEER_FAILED == peer->state || fab_peer_is_moving(peer)) {
        return;
    }
    if (NULL != spare && NULL != *spare && note(core, peer, *spare, rc, why)) {
        *spare = NULL;
        LIST_FIRST(&core->drops)->is_owed = true;
    } else {
        fab_peer_fail(peer, rc, why);
    }
}

/* Note that a peer moves which is asked by this provider. */
static void follow(fab_core_t *core, fab_peer_t *peer, int provider, const void *section,
                   size_t len)
{
    const char *why = "The other process could not connect.";
    fab_wire_head_t *address;

    if (FAB_PEER_CLOSED == peer->state) {
        fab_peer_fail(peer, OPAL_ERR_UNREACH, why); /* the record goes; the next one is new */
        return;
    }
    address = len <= FAB_ADDRESS_MAX
                  ? calloc(1, sizeof(*address) + sizeof(fab_wire_section_t) + len + 8)
                  : NULL;
    if (NULL == address) {
        return;
    }
    address->len = sizeof(*address);
    fab_address_add(address, fab_providers[provider]->id, section, len);
    if (!note(core, peer, address, OPAL_ERR_UNREACH, why)) {
        free(address);
    }
}

bool fab_move_asked_by(fab_core_t *core, fab_peer_t *peer, int provider, const void *section,
                       size_t len)
{
    const fab_provider_t *present = fab_providers[peer->provider];
    fab_moves_t moves = FAB_STAYS;

    if (provider > peer->provider && FAB_PEER_FAILED != peer->state && !fab_peer_is_moving(peer)) {
        if (NULL != present->asked_by_later && NULL != peer->ep) {
            moves = present->asked_by_later(peer);
        } else if (NULL != spare_of(peer)) {
            moves = FAB_MOVES;
        }
    }
    if (FAB_MOVES == moves) {
        follow(core, peer, provider, section, len);
    }
    return FAB_MOVES_LATER == moves || fab_peer_is_moving(peer);
}

/* ---- moving ---------------------------------------------------------------- */

/* Its old provider has let go of it. */
static void attach_to_next(fab_core_t *core, fab_drop_t *move)
{
    fab_peer_t *peer = move->peer;
    int from = peer->provider;
    char why[2 * FAB_SENTENCE_MAX];
    int len = snprintf(why, sizeof(why), "%s: %s ", fab_providers[from]->name, move->why);

    if (OPAL_SUCCESS !=
        fab_choose(core, peer, move->address, from + 1, why + len, sizeof(why) - (size_t) len)) {
        peer->provider = (uint8_t) from;
        fab_peer_fail(peer, move->rc, why);
        return;
    }
    if (FAB_PEER_CLOSED == peer->state) {
        peer->ops = &fab_no_ops;
        peer->caps = 0;
    }
    fab_counters.peers_moved++;
    fab_look_event(&core->fab, (fab_event_t){.kind = FAB_EVENT_PEER_MOVED, .peer = peer->name});
    core->fab.num_moved++;
    core->slots[from].num_moved++;
    snprintf(core->slots[from].why_moved, sizeof(core->slots[from].why_moved), "%s", move->why);
    fab_log(&core->fab, 1, "process 0x%llx is reached by %s, not by %s: %s",
            (unsigned long long) peer->name, fab_peer_provider_name(peer),
            fab_providers[from]->name, move->why);
    if (move->is_owed && NULL != fab_providers[peer->provider]->ask_owed) {
        fab_providers[peer->provider]->ask_owed(peer);
    }
}

/* Move on.  True: it is over; but if it has failed, it is a failure now. */
static bool try_to_move(fab_core_t *core, fab_drop_t *move)
{
    if (FAB_PEER_CLOSED == move->peer->state && !move->is_owed) {
        return true; /* the peer does not wait */
    }
    if (fab_drop_try(core, move->peer) && NULL != move->address) {
        attach_to_next(core, move);
        return NULL != move->address;
    }
    return false;
}

int fab_drop_run(fab_core_t *core)
{
    fab_drop_t *next;
    int events = 0;

    if (core->is_failure_lost) {
        fab_failed_find(core);
    }
    for (fab_drop_t *drop = LIST_FIRST(&core->drops); NULL != drop; drop = next) {
        bool is_done = NULL != drop->address && try_to_move(core, drop);
        events += is_done;
        if (NULL == drop->address) {
            is_done = fab_failed_report(core, drop, &events);
        }
        next = LIST_NEXT(drop, link);
        if (is_done) {
            fab_drop_end(core, drop);
        }
    }
    return events;
}
