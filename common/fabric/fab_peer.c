/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer comes and goes.
 *
 *      fab_peer_open, fab_peer_from_wire ──> UP ──fab_peer_fail──> FAILED ─┐
 *                                             └──────fab_peer_close────────┴──> CLOSED ──> released
 */
#include "fabric/fab_core.h"

/* ---- a peer comes ------------------------------------------------------- */

/* A record for a name that is not known. */
static int peer_make(fab_core_t *core, uint64_t name, const void *address, fab_peer_t **peer,
                     const char **why)
{
    uint32_t number;
    int rc;

    number = fab_record_new(core, name);
    if (FAB_NO_RECORD == number) {
        *why = fab_sentence(&core->fab, "There is no memory for another peer; %u are known.",
                            core->num_peers);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = fab_choose(core, fab_core_record(core, number), address, 0, core->open_sentence,
                    sizeof(core->open_sentence));
    if (OPAL_SUCCESS != rc) {
        fab_record_release(core, number);
        *why = core->open_sentence;
        return rc;
    }
    *peer = fab_record_enter(core, number);
    return OPAL_SUCCESS;
}

int fab_peer_open(fab_t *fab, fab_user_t user, uint64_t name, const void *address, size_t len,
                  fab_peer_t **peer, const char **why)
{
    fab_core_t *core = fab_core(fab);
    fab_peer_t *known = fab_peer_find(fab, name);

    if (NULL == known || FAB_PEER_CLOSED == known->state) {
        int rc = fab_address_check(core, name, address, len, why);
        if (OPAL_SUCCESS == rc && NULL != known) {
            *why = fab_sentence(fab, "This process closed it and it has not left yet.");
            rc = OPAL_ERR_UNREACH;
        }
        if (OPAL_SUCCESS == rc) {
            rc = peer_make(core, name, address, &known, why);
        }
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
        fab_move_keep_address(core, known, address);
    } else if (OPAL_SUCCESS == fab_address_check(core, name, address, len, why)) {
        fab_move_keep_address(core, known, address); /* it was known from what it sent */
    }
    known->users |= fab_peer_open_bit(user);
    known->users &= (uint8_t) ~fab_peer_closed_bit(user);
    *peer = known;
    return OPAL_SUCCESS;
}

/* A record, for this provider alone, for a name that is not known.  NULL: not possible. */
static fab_peer_t *peer_meet(fab_core_t *core, int provider, uint64_t name, const void *address,
                             size_t len)
{
    uint32_t number = fab_record_new(core, name);
    const char *why;

    if (FAB_NO_RECORD == number) {
        return NULL;
    }
    if (OPAL_SUCCESS !=
        fab_choose_this(core, fab_core_record(core, number), provider, address, len, &why)) {
        fab_log(&core->fab, 1, "a process that calls itself 0x%llx was refused by provider %s: %s",
                (unsigned long long) name, fab_providers[provider]->name, why);
        fab_record_release(core, number);
        return NULL;
    }
    return fab_record_enter(core, number);
}

fab_peer_t *fab_peer_from_wire(fab_t *fab, const fab_provider_t *provider, uint64_t name,
                               const void *address, size_t len, bool *is_later)
{
    fab_core_t *core = fab_core(fab);
    fab_peer_t *peer = fab_peer_find(fab, name);
    int i = 0;

    *is_later = false;
    if (name == fab->config.name) {
        return NULL;
    }
    while (fab_providers[i] != provider) {
        i++;
    }
    if (NULL == peer) {
        return peer_meet(core, i, name, address, len);
    }
    *is_later = fab_move_asked_by(core, peer, i, address, len);
    return !*is_later && FAB_PEER_FAILED != peer->state && NULL != peer->ep && i == peer->provider
               ? peer
               : NULL;
}

/* ---- a peer goes -------------------------------------------------------- */

/* No user has it open any more. */
static void peer_end(fab_peer_t *peer)
{
    fab_core_t *core = fab_core(peer->fab);
    int was = peer->state;

    peer->state = FAB_PEER_CLOSED;
    peer->ops = &fab_no_ops;
    peer->caps = 0;
    if (FAB_PEER_UP == was && NULL != peer->ep) {
        fab_providers[peer->provider]->detach(core->slots[peer->provider].dom, peer);
    }
    fab_record_try_release(peer);
}

void fab_peer_close(fab_peer_t *peer, fab_user_t user)
{
    uint8_t is_open = peer->users & fab_peer_open_bit(user);

    peer->users &= (uint8_t) ~fab_peer_open_bit(user);
    peer->users |= fab_peer_closed_bit(user);
    peer->user[user] = NULL;
    if (0 != is_open && 0 == peer->users % 16 && FAB_PEER_CLOSED != peer->state) {
        peer_end(peer);
    }
}

void fab_peer_close_all(fab_core_t *core, fab_user_t user)
{
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        if (NULL != peer->fab) {
            fab_peer_close(peer, user);
        }
    }
}
