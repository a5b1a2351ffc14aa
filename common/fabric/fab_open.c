/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's fabric: opening and closing its providers, what is open, and the description.
 *
 * There is one fabric per process, fab_the_core; its users come and go under fab_open_lock. All
 * else is under the fabric's own lock.
 */
#include "fabric/fab_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_abi.h"
#include "fabric/fab_copy.h"
#include "fabric/fab_look.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"

static pthread_mutex_t fab_open_lock = PTHREAD_MUTEX_INITIALIZER;
static fab_core_t *fab_the_core;
static void (*fab_open_hooks[FAB_NUM_USERS])(void); /* of fab_when_open() */
/* *why of fab_open(): outlives a fabric that did not open */
static char fab_open_why[FAB_SENTENCE_MAX];

/* ---- open --------------------------------------------------------------- */

static bool core_reaches_others(const fab_core_t *core)
{
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (fab_providers[i] != &fab_self_provider && NULL != core->slots[i].dom) {
            return true;
        }
    }
    return false;
}

/* Do the providers that are open reach all processes of the job? */
static bool core_covers_job(const fab_core_t *core)
{
    const fab_config_t *config = &core->fab.config;

    return 1 == config->num_procs ||
           (config->num_procs == config->num_local && core_reaches_others(core));
}

/* Only here is it known what configure has found: FAB_HAVE_OFI, FAB_HAVE_VERBS. */
static const fab_provider_t *load(fab_t *fab, const fab_provider_t *provider, const char **why)
{
#if FAB_HAVE_OFI
    if (FAB_WIRE_OFI == provider->id) {
        return fab_load_ofi(fab, why);
    }
#endif
#if FAB_HAVE_VERBS
    if (FAB_WIRE_VERBS == provider->id) {
        return fab_load_verbs(fab, why);
    }
#endif
    *why = fab_sentence(fab, "not built: configure found no %s",
                        FAB_WIRE_OFI == provider->id ? "libfabric" : "libibverbs");
    return NULL;
}

/* Open provider i, or keep the reason why not. */
static void core_open_provider(fab_core_t *core, int i)
{
    const char *why = "no reason given";
    fab_slot_t *slot = &core->slots[i];

    if (!fab_provider_is_in(fab_providers[i], fab_params.providers)) {
        snprintf(slot->why_not, sizeof(slot->why_not), "not wanted by pml_tm_providers (%s)",
                 fab_params.providers);
        return;
    }
    if (fab_providers[i]->is_apart) {
        const fab_provider_t *loaded = load(&core->fab, fab_providers[i], &why);
        fab_providers[i] = NULL != loaded ? loaded : fab_providers[i];
    }
    if (fab_providers[i]->is_apart ||
        OPAL_SUCCESS != fab_providers[i]->open(&core->fab, &slot->dom, &why)) {
        slot->dom = NULL;
        snprintf(slot->why_not, sizeof(slot->why_not), "%s", why);
        fab_log(&core->fab, 1, "provider %s is not used: %s", fab_providers[i]->name, why);
        return;
    }
    core->open[core->num_open].progress = fab_providers[i]->progress;
    core->open[core->num_open++].dom = slot->dom;
}

/* Say for every provider that is not open why. */
static void core_why_no_provider(const fab_core_t *core, char *buf, size_t size)
{
    size_t len = (size_t) snprintf(buf, size, "No provider can be used.");

    for (int i = 0; i < FAB_NUM_PROVIDERS && len < size; i++) {
        if (NULL == core->slots[i].dom) {
            len += (size_t) snprintf(buf + len, size - len, "\n             %s: %s",
                                     fab_providers[i]->name, core->slots[i].why_not);
        }
    }
}

static void core_free(fab_core_t *core)
{
    fab_user_free(core);
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL != core->slots[i].dom) {
            fab_providers[i]->close(core->slots[i].dom);
            core->slots[i].dom = NULL; /* the next one's close may ask which providers are idle */
        }
    }
    fab_queue_free(core);
    fab_drop_free(core);
    fab_record_free(core);
    fab_look_close(&core->fab);
    free(core);
}

static int poll_all(void *fab)
{
    return fab_progress(fab);
}

static int core_new(const fab_config_t *config, fab_core_t **out)
{
    static const bool never;
    fab_core_t *core = calloc(1, sizeof(*core));

    if (NULL == core) {
        snprintf(fab_open_why, sizeof(fab_open_why),
                 "There is not enough memory to open the fabric.");
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    fab_copy_probe();
    fab_mutex_init(&core->fab.lock);
    core->fab.config = *config;
    core->fab.is_threaded = &never;
    core->free_record = FAB_NO_RECORD;
    core->poll_all = poll_all;
    fab_user_init(core);
    fab_user_add(core, config);
    fab_look_open(&core->fab);
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        core->fab.is_covered = core_covers_job(core);
        core_open_provider(core, i);
    }
    if (NULL == core->slots[0].dom || (config->num_local > 1 && !core_reaches_others(core))) {
        core_why_no_provider(core, fab_open_why, sizeof(fab_open_why));
        core_free(core);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    fab_idle_changed(&core->fab);
    *out = core;
    return OPAL_SUCCESS;
}

int fab_open_abi(uint64_t abi, const fab_config_t *config, fab_t **fab, const char **why)
{
    void (*hook)(void) = NULL;
    int rc = OPAL_SUCCESS;

    if (FAB_ABI != abi /* config may be anything then */ ||
        (0 != config->shm_abi && fab_shm_provider.abi != config->shm_abi)) {
        *why =
            "libmca_common_tm is of another build than the component that opens it: install both "
            "from the same one.";
        return OPAL_ERR_BAD_PARAM;
    }
    pthread_mutex_lock(&fab_open_lock);
    *why = fab_open_why;
    if (NULL == fab_the_core) {
        rc = fab_params_check(fab_open_why, sizeof(fab_open_why));
        if (OPAL_SUCCESS == rc) {
            rc = core_new(config, &fab_the_core);
        }
    } else if (fab_the_core->users[config->user].is_open) {
        snprintf(fab_open_why, sizeof(fab_open_why), "The fabric was opened twice.");
        rc = OPAL_ERR_BAD_PARAM;
    } else {
        fab_lock(&fab_the_core->fab);
        fab_user_add(fab_the_core, config);
        fab_unlock(&fab_the_core->fab);
    }
    if (OPAL_SUCCESS == rc) {
        *fab = &fab_the_core->fab;
        hook = fab_open_hooks[config->user];
    }
    pthread_mutex_unlock(&fab_open_lock);
    if (NULL != hook) {
        hook();
    }
    return rc;
}

void fab_when_open(fab_user_t user, void (*fn)(void))
{
    bool is_open;

    pthread_mutex_lock(&fab_open_lock);
    fab_open_hooks[user] = fn;
    is_open = NULL != fab_the_core && fab_the_core->users[user].is_open;
    pthread_mutex_unlock(&fab_open_lock);
    if (NULL != fn && is_open) {
        fn();
    }
}

/* ---- close -------------------------------------------------------------- */

static bool core_has_other_users(const fab_core_t *core, fab_user_t user)
{
    for (int other = 0; other < FAB_NUM_USERS; other++) {
        if (other != (int) user && core->users[other].is_open) {
            return true;
        }
    }
    return false;
}

void fab_close(fab_t *fab, fab_user_t user)
{
    fab_core_t *core = fab_core(fab);

    pthread_mutex_lock(&fab_open_lock);
    if (core_has_other_users(core, user)) {
        fab_lock(fab);
        fab_user_remove(core, user);
        fab_queue_forget(core, user);
        fab_peer_close_all(core, user);
        fab_unlock(fab);
    } else {
        fab_user_remove(core, user); /* a provider may poll while it closes */
        fab_the_core = NULL;
        core_free(core);
    }
    pthread_mutex_unlock(&fab_open_lock);
}

/* ---- what is open ------------------------------------------------------- */

bool fab_tm_use(fab_t *fab, const fab_tm_user_t *user, void *ctx, fab_tm_device_t *device)
{
    const fab_core_t *core = fab_core(fab);

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        fab_domain_t *dom = core->slots[i].dom;
        if (NULL != dom && NULL != fab_providers[i]->tm_use &&
            fab_providers[i]->tm_use(dom, user, ctx, device)) {
            return true;
        }
    }
    return false;
}

const char *fab_why_one_host(const fab_t *fab)
{
    const fab_core_t *core = (const fab_core_t *) fab;
    const char *why = NULL;

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (fab_providers[i]->reaches_hosts && NULL != core->slots[i].dom) {
            return NULL;
        }
        why = fab_providers[i]->reaches_hosts ? core->slots[i].why_not : why;
    }
    return why;
}

bool fab_is_open(const fab_t *fab, const char *provider)
{
    const fab_core_t *core = (const fab_core_t *) fab;

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (0 == strcmp(provider, fab_providers[i]->name)) {
            return NULL != core->slots[i].dom;
        }
    }
    return false;
}

void fab_describe(fab_t *fab, char *buf, size_t size)
{
    fab_core_t *core = fab_core(fab);
    size_t len = (size_t) snprintf(buf, size, "to             by     bytes            protocol\n");
    for (int i = 0; i < FAB_NUM_PROVIDERS && len < size; i++) {
        const fab_slot_t *slot = &core->slots[i];
        if (NULL != slot->dom) {
            len += (size_t) fab_providers[i]->describe(slot->dom, buf + len, size - len);
            if (slot->num_moved > 0 && len < size) {
                len += (size_t) snprintf(buf + len, size - len,
                                         "                      but %u by another provider: %s\n",
                                         slot->num_moved, slot->why_moved);
            }
        } else {
            len += (size_t) snprintf(buf + len, size - len, "-              %-5s  not used: %s\n",
                                     fab_providers[i]->name, slot->why_not);
        }
    }
}
