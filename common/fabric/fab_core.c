/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all files of the fabric use: counters, sentences and messages for the user, whether there is
 * work for fab_progress(), and so what fab_poll() calls.
 */
#include "fabric/fab_core.h"

#include <stdarg.h>
#include <stdio.h>

fab_counters_t fab_counters;

const char *fab_sentence(fab_t *fab, const char *format, ...)
{
    fab_core_t *core = fab_core(fab);
    va_list args;

    va_start(args, format);
    vsnprintf(core->sentence, sizeof(core->sentence), format, args);
    va_end(args);
    return core->sentence;
}

/* By one user: both have the same level. */
static void log_by_user(fab_t *fab, int level, const char *format, va_list args)
{
    const fab_core_t *core = fab_core(fab);
    char text[FAB_SENTENCE_MAX];

    vsnprintf(text, sizeof(text), format, args);
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        const fab_config_t *config = &core->users[user].config;
        if (core->users[user].is_open && NULL != config->log) {
            config->log(config->ctx, level, text);
            return;
        }
    }
}

void fab_log(fab_t *fab, int level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_by_user(fab, level, format, args);
    va_end(args);
}

void fab_warn(fab_t *fab, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_by_user(fab, 0 == fab->config.local_rank ? 0 : 1, format, args);
    va_end(args);
}

const fab_provider_t *fab_peer_provider(const fab_peer_t *peer)
{
    return fab_providers[peer->provider];
}

const char *fab_provider_name(unsigned provider)
{
    return provider < FAB_NUM_PROVIDERS ? fab_providers[provider]->name : NULL;
}

const char *fab_peer_provider_name(const fab_peer_t *peer)
{
    return fab_providers[peer->provider]->name;
}

fab_drop_t *fab_drop_of(const fab_core_t *core, const fab_peer_t *peer)
{
    fab_drop_t *drop;

    LIST_FOREACH(drop, &core->drops, link) {
        if (drop->peer == peer) {
            return drop;
        }
    }
    return NULL;
}

/* ---- operations on a peer that cannot be sent to --------------------------- */

/*
 * It has no RMA, and the provider lets go of what was exposed when it drops the peer.  UP: it moves
 * to another provider.
 */
static int none(const fab_peer_t *peer)
{
    return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
}

static int no_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    (void) hdr, (void) buf, (void) len;
    return none(peer);
}

static void *no_reserve(fab_peer_t *peer, size_t max_len)
{
    (void) peer, (void) max_len;
    return NULL;
}

static void no_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) peer, (void) hdr, (void) len;
}

static int no_send_from(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out)
{
    (void) hdr, (void) out;
    return none(peer);
}

const fab_ops_t fab_no_ops = {
    .send = no_send,
    .reserve = no_reserve,
    .commit = no_commit,
    .send_from = no_send_from,
};

/* ---- work ------------------------------------------------------------------ */

/*
 * fab_poll() calls a provider directly, if it is the only one that messages come by and nothing is
 * queued or failed. Self needs no polling for messages.
 */
void fab_idle_changed(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);

    core->fab.poll = core->poll_all;
    core->fab.poll_arg = core;
    if (core->has_work) {
        return;
    }
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL == core->slots[i].dom || fab_providers[i] == &fab_self_provider ||
            (NULL != fab_providers[i]->is_idle && fab_providers[i]->is_idle(core->slots[i].dom))) {
            continue;
        }
        if (core->poll_all != core->fab.poll || NULL == fab_providers[i]->poll) {
            core->fab.poll = core->poll_all;
            core->fab.poll_arg = core;
            return;
        }
        core->fab.poll = fab_providers[i]->poll;
        core->fab.poll_arg = core->slots[i].dom;
    }
}

void fab_core_set_work(fab_core_t *core, bool has_work)
{
    if (has_work != core->has_work) {
        core->has_work = has_work;
        fab_idle_changed(&core->fab);
    }
}
