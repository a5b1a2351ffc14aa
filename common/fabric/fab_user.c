/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The users of the fabric: their handlers, and the messages for one that is not there yet, or not
 * any more.
 */
#include "fabric/fab_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- handlers ----------------------------------------------------------- */

static void no_handler(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    char why[128];

    (void) ctx;
    (void) data;
    snprintf(why, sizeof(why),
             "It sent a message of %zu bytes with id %u, for which this process has no handler.",
             len, hdr.id);
    fab_peer_fail(peer, OPAL_ERR_COMM_FAILURE, why);
}

/* The user to whom messages with this id belong; FAB_NUM_USERS: they are a provider's. */
static fab_user_t owner(uint8_t id)
{
    if (id >= FAB_AM_PROVIDER && id < FAB_AM_FIRST_USER) {
        return FAB_NUM_USERS;
    }
    return id < FAB_AM_BTL ? FAB_USER_PML : FAB_USER_BTL;
}

void fab_set_place(fab_t *fab, uint8_t id, fab_place_fn_t fn, void *ctx)
{
    if (id < FAB_AM_MAX) {
        fab->placers[id] = (struct fab_placer){.fn = fn, .ctx = ctx};
    }
}

void fab_set_handler(fab_t *fab, uint8_t id, fab_am_fn_t fn, void *ctx)
{
    fab_core_t *core = fab_core(fab);

    if (id >= FAB_AM_MAX) {
        return;
    }
    core->handlers[id] = (struct fab_handler){.fn = NULL != fn ? fn : no_handler, .ctx = ctx};
    if (FAB_NUM_USERS == owner(id) || fab_is_started(fab, owner(id))) {
        fab->handlers[id] = core->handlers[id];
    }
}

/* All ids of a user get this handler; NULL: those that it has set. */
static void use_handlers(fab_core_t *core, fab_user_t user, fab_am_fn_t fn)
{
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        if (owner(id) == user) {
            core->fab.handlers[id] = NULL != fn ? (struct fab_handler){.fn = fn}
                                                : core->handlers[id];
        }
    }
}

/* ---- users that are not there yet, or not any more ---------------------- */

/* The handler of a user that has left. */
static void drop(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr, (void) data, (void) len;
}

/* The handler of a user that has not started. */
static void keep(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    fab_user_state_t *user = &fab_core(peer->fab)->users[owner(hdr.id)];
    fab_kept_t *kept = NULL;

    (void) ctx;
    if (user->kept_bytes + sizeof(*kept) + len <= FAB_KEEP_MAX) {
        kept = malloc(sizeof(*kept) + len);
    }
    if (NULL == kept) {
        fab_peer_fail(
            peer, OPAL_ERR_OUT_OF_RESOURCE,
            "It sent more messages than can be kept for a component that is not in use in "
            "this process, or not yet: do all processes have the same parameters?");
        return;
    }
    *kept = (fab_kept_t){.peer = peer, .hdr = hdr, .len = len};
    if (len > 0) {
        memcpy(kept->data, data, len);
    }
    STAILQ_INSERT_TAIL(&user->kept, kept, link);
    user->kept_bytes += sizeof(*kept) + len;
}

/* Hand on, or throw away, all that is kept for a user. A handler may send to this process. */
static void end_keeping(fab_core_t *core, fab_user_state_t *user, bool is_wanted)
{
    fab_kept_t *kept;

    while (NULL != (kept = STAILQ_FIRST(&user->kept))) {
        STAILQ_REMOVE_HEAD(&user->kept, link);
        user->kept_bytes -= sizeof(*kept) + kept->len;
        const struct fab_handler *handler = &core->handlers[kept->hdr.id];
        if (is_wanted && FAB_PEER_FAILED != kept->peer->state) {
            handler->fn(handler->ctx, kept->peer, kept->hdr, kept->data, kept->len);
        }
        fab_record_try_release(kept->peer);
        free(kept);
    }
}

/* ---- users come and go -------------------------------------------------- */

void fab_user_init(fab_core_t *core)
{
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        core->handlers[id].fn = core->fab.handlers[id].fn = no_handler;
    }
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        STAILQ_INIT(&core->users[user].kept);
        use_handlers(core, (fab_user_t) user, keep);
    }
}

void fab_user_add(fab_core_t *core, const fab_config_t *config)
{
    fab_user_state_t *user = &core->users[config->user];

    user->config = *config;
    user->is_open = true;
    core->fab.may_sleep |= config->may_sleep;
    if (NULL != config->is_threaded) {
        core->fab.is_threaded = config->is_threaded;
    }
    use_handlers(core, config->user, keep);
}

void fab_start(fab_t *fab, fab_user_t user)
{
    fab_core_t *core = fab_core(fab);

    end_keeping(core, &core->users[user], true);
    atomic_store_explicit(&fab->is_started[user], true, memory_order_relaxed);
    use_handlers(core, user, NULL);
}

void fab_wake_others(fab_t *fab, fab_user_t user)
{
    fab_core_t *core = fab_core(fab);

    for (int other = 0; other < FAB_NUM_USERS; other++) {
        const fab_config_t *config = &core->users[other].config;
        if (other != (int) user && fab_is_started(fab, (fab_user_t) other) &&
            NULL != config->others_wait) {
            config->others_wait(config->ctx);
        }
    }
}

void fab_user_remove(fab_core_t *core, fab_user_t user)
{
    core->users[user].is_open = false;
    atomic_store_explicit(&core->fab.is_started[user], false, memory_order_relaxed);
    end_keeping(core, &core->users[user], false);
    use_handlers(core, user, drop);
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        if (owner(id) == user) {
            fab_set_handler(&core->fab, id, NULL, NULL);
            fab_set_place(&core->fab, id, NULL, NULL);
        }
    }
}

void fab_user_free(fab_core_t *core)
{
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        end_keeping(core, &core->users[user], false);
    }
}
