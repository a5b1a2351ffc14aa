/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's fabric: opening and closing its providers, handlers, address, progress,
 * description.
 *
 * There is one fabric per process, fab_the_core; its users come and go under fab_open_lock. All
 * else is under the fabric's own lock.
 */
#include "fabric/fab.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fabric/fab_abi.h"
#include "fabric/fab_copy.h"
#include "fabric/fab_core.h"
#include "fabric/fab_load.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"

fab_counters_t fab_counters;

/* What is known of a provider before it is loaded. */
#if FAB_HAVE_OFI
static const fab_provider_t ofi_not_loaded = {
    .name = "ofi",
    .id = FAB_WIRE_OFI,
    .reaches_hosts = true,
    .load = fab_load_ofi,
};
#endif

#if FAB_HAVE_VERBS
static const fab_provider_t verbs_not_loaded = {
    .name = "verbs",
    .id = FAB_WIRE_VERBS,
    .reaches_hosts = true,
    .load = fab_load_verbs,
};
#endif

const fab_provider_t *fab_providers[FAB_NUM_PROVIDERS] = {
    &fab_self_provider, &fab_shm_provider,
#if FAB_HAVE_OFI
    &ofi_not_loaded,
#endif
#if FAB_HAVE_VERBS
    &verbs_not_loaded,
#endif
    &fab_tcp_provider,
};

static pthread_mutex_t fab_open_lock = PTHREAD_MUTEX_INITIALIZER;
static fab_core_t *fab_the_core;
/* *why of fab_open(): outlives a fabric that did not open */
static char fab_open_why[FAB_SENTENCE_MAX];

const char *fab_sentence(fab_t *fab, const char *format, ...)
{
    fab_core_t *core = fab_core(fab);
    va_list args;

    va_start(args, format);
    vsnprintf(core->sentence, sizeof(core->sentence), format, args);
    va_end(args);
    return core->sentence;
}

void fab_log(fab_t *fab, int level, const char *format, ...)
{
    const fab_core_t *core = fab_core(fab);
    char text[FAB_SENTENCE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        const fab_config_t *config = &core->users[user].config;
        if (core->users[user].is_open && NULL != config->log) {
            config->log(config->ctx, level, text);
        }
    }
}

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

/* The user to whom messages with this id belong. */
static fab_user_t owner(uint8_t id)
{
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
    if (fab_is_started(fab, owner(id))) {
        fab->handlers[id] = core->handlers[id];
    }
}

/* All ids of a user get this handler; NULL: those that it has set. */
static void core_use_handlers(fab_core_t *core, fab_user_t user, fab_am_fn_t fn)
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
    fab_counters.late_messages++;
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
    *user->kept_tail = kept;
    user->kept_tail = &kept->next;
    user->kept_bytes += sizeof(*kept) + len;
    fab_counters.early_messages++;
}

static fab_kept_t *take_kept(fab_user_state_t *user)
{
    fab_kept_t *kept = user->kept;

    if (NULL != kept) {
        user->kept = kept->next;
        user->kept_bytes -= sizeof(*kept) + kept->len;
    }
    if (NULL == user->kept) {
        user->kept_tail = &user->kept;
    }
    return kept;
}

bool fab_core_has_kept(const fab_core_t *core, const fab_peer_t *peer)
{
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        for (const fab_kept_t *kept = core->users[user].kept; NULL != kept; kept = kept->next) {
            if (kept->peer == peer) {
                return true;
            }
        }
    }
    return false;
}

/* Hand on, or throw away, all that is kept for a user. A handler may send to this process. */
static void core_end_keeping(fab_core_t *core, fab_user_state_t *user, bool is_wanted)
{
    fab_kept_t *kept;

    while (NULL != (kept = take_kept(user))) {
        const struct fab_handler *handler = &core->handlers[kept->hdr.id];
        if (is_wanted && FAB_PEER_FAILED != kept->peer->state) {
            handler->fn(handler->ctx, kept->peer, kept->hdr, kept->data, kept->len);
        }
        fab_core_try_release(kept->peer);
        free(kept);
    }
}

void fab_start(fab_t *fab, fab_user_t user)
{
    fab_core_t *core = fab_core(fab);

    core_end_keeping(core, &core->users[user], true);
    atomic_store_explicit(&fab->is_started[user], true, memory_order_relaxed);
    core_use_handlers(core, user, NULL);
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

/* ---- open and close ----------------------------------------------------- */

static const fab_provider_t *provider_named(const char *name, size_t len)
{
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (strlen(fab_providers[i]->name) == len &&
            0 == strncmp(fab_providers[i]->name, name, len)) {
            return fab_providers[i];
        }
    }
    return NULL;
}

/*
 * Is this provider in the user's list, or, if that begins with ^, not in it?  An empty list holds
 * all; self is always used.
 */
static bool provider_wanted(const fab_provider_t *provider)
{
    const char *list = fab_params.providers;
    bool is_exclusive = NULL != list && '^' == *list;

    if (NULL == list || '\0' == *list || provider == &fab_self_provider) {
        return true;
    }
    list += is_exclusive;
    while ('\0' != *list) {
        size_t len = strcspn(list, ",");
        if (provider_named(list, len) == provider) {
            return !is_exclusive;
        }
        list += len + ('\0' != list[len]);
    }
    return is_exclusive;
}

bool fab_provider_is_list(const char *list)
{
    list += '^' == *list;
    while ('\0' != *list) {
        size_t len = strcspn(list, ",");
        if (len > 0 && NULL == provider_named(list, len)) {
            return false;
        }
        list += len + ('\0' != list[len]);
    }
    return true;
}

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

/* Open provider i, or keep the reason why not. */
static void core_open_provider(fab_core_t *core, int i)
{
    const char *why = "no reason given";
    fab_slot_t *slot = &core->slots[i];

    if (!provider_wanted(fab_providers[i])) {
        snprintf(slot->why_not, sizeof(slot->why_not), "not wanted by %sproviders (%s)",
                 fab_params.prefix, fab_params.providers);
        return;
    }
    if (NULL != fab_providers[i]->load) {
        const fab_provider_t *loaded = fab_providers[i]->load(&core->fab, &why);
        fab_providers[i] = NULL != loaded ? loaded : fab_providers[i];
    }
    if (NULL != fab_providers[i]->load ||
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
            len += (size_t) snprintf(buf + len, size - len, " %s: %s", fab_providers[i]->name,
                                     core->slots[i].why_not);
        }
    }
}

static void core_free(fab_core_t *core)
{
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        core_end_keeping(core, &core->users[user], false);
    }
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL != core->slots[i].dom) {
            fab_providers[i]->close(core->slots[i].dom);
            core->slots[i].dom = NULL; /* the next one's close may ask which providers are idle */
        }
    }
    fab_core_free_queues(core);
    fab_core_free_peers(core);
    free(core);
}

static void core_choose_poll(fab_core_t *core);

static void core_add_user(fab_core_t *core, const fab_config_t *config)
{
    fab_user_state_t *user = &core->users[config->user];

    user->config = *config;
    user->is_open = true;
    if (NULL != config->is_threaded) {
        core->fab.is_threaded = config->is_threaded;
    }
    core_use_handlers(core, config->user, keep);
}

/* Others stay. */
static void core_remove_user(fab_core_t *core, fab_user_t user)
{
    fab_lock(&core->fab);
    core->users[user].is_open = false;
    atomic_store_explicit(&core->fab.is_started[user], false, memory_order_relaxed);
    core_end_keeping(core, &core->users[user], false);
    core_use_handlers(core, user, drop);
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        if (owner(id) == user) {
            fab_set_handler(&core->fab, id, NULL, NULL);
            fab_set_place(&core->fab, id, NULL, NULL);
        }
    }
    fab_core_forget_items(core, user);
    fab_core_close_peers(core, user);
    fab_unlock(&core->fab);
}

static bool core_has_other_users(const fab_core_t *core, fab_user_t user)
{
    for (int other = 0; other < FAB_NUM_USERS; other++) {
        if (other != (int) user && core->users[other].is_open) {
            return true;
        }
    }
    return false;
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
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        core->handlers[id].fn = no_handler;
    }
    for (int user = 0; user < FAB_NUM_USERS; user++) {
        core->users[user].kept_tail = &core->users[user].kept;
        core_use_handlers(core, (fab_user_t) user, keep);
    }
    core_add_user(core, config);
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        core->fab.is_covered = core_covers_job(core);
        core_open_provider(core, i);
    }
    if (NULL == core->slots[0].dom || (config->num_local > 1 && !core_reaches_others(core))) {
        core_why_no_provider(core, fab_open_why, sizeof(fab_open_why));
        core_free(core);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    core_choose_poll(core);
    *out = core;
    return OPAL_SUCCESS;
}

int fab_open_abi(uint64_t abi, const fab_config_t *config, fab_t **fab, const char **why)
{
    int rc = OPAL_SUCCESS;

    if (FAB_ABI != abi) { /* config may be anything */
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
        core_add_user(fab_the_core, config);
        fab_unlock(&fab_the_core->fab);
    }
    if (OPAL_SUCCESS == rc) {
        *fab = &fab_the_core->fab;
    }
    pthread_mutex_unlock(&fab_open_lock);
    return rc;
}

void fab_close(fab_t *fab, fab_user_t user)
{
    fab_core_t *core = fab_core(fab);

    pthread_mutex_lock(&fab_open_lock);
    if (core_has_other_users(core, user)) {
        core_remove_user(core, user);
    } else {
        core->users[user].is_open = false;
        fab_the_core = NULL;
        core_free(core);
    }
    pthread_mutex_unlock(&fab_open_lock);
}

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
    const char *why = "the provider verbs was not built: libibverbs was not there";

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

/* ---- memory for any peer ------------------------------------------------ */

/*
 * A key has room for one provider of other hosts: the first one, if several can give access.  Peers
 * that another one reaches find that the region is not for them.
 */
void fab_expose_any(fab_t *fab, const fab_peer_t *peer, const void *buf, size_t len,
                    unsigned access, fab_region_t *region)
{
    const fab_core_t *core = fab_core(fab);
    bool is_taken = false;

    *region = (fab_region_t){.providers = 0};
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        const fab_provider_t *provider = fab_providers[i];
        fab_domain_t *dom = core->slots[i].dom;
        bool is_wanted = NULL != dom && (NULL == peer || i == peer->provider) &&
                         !(is_taken && provider->reaches_hosts);
        if (is_wanted && (NULL == provider->expose_any ||
                          provider->expose_any(dom, buf, len, access, &region->rkey))) {
            region->providers |= 1u << provider->id;
            is_taken = is_taken || provider->reaches_hosts;
        }
    }
}

void fab_unexpose_any(fab_t *fab, fab_region_t *region)
{
    const fab_core_t *core = fab_core(fab);

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        const fab_provider_t *provider = fab_providers[i];
        if (0 != (region->providers >> provider->id & 1) && NULL != provider->unexpose_any) {
            provider->unexpose_any(core->slots[i].dom, &region->rkey);
        }
    }
    region->providers = 0;
}

bool fab_region_is_reachable(const fab_region_t *region, const fab_peer_t *peer)
{
    return 0 != (region->providers >> fab_providers[peer->provider]->id & 1);
}

/* ---- address ------------------------------------------------------------ */

size_t fab_address(const fab_t *fab, void *buf, size_t size)
{
    const fab_core_t *core = (const fab_core_t *) fab;
    unsigned char bytes[FAB_ADDRESS_MAX] = {0};
    fab_wire_head_t head = {
        .magic = FAB_WIRE_MAGIC, .version = FAB_WIRE_VERSION, .name = fab->config.name};
    size_t len = sizeof(head);

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        const fab_provider_t *provider = fab_providers[i];
        fab_wire_section_t section = {.provider = provider->id,
                                      .len = (uint16_t) provider->address_len};
        size_t start = len + sizeof(section);
        if (NULL == core->slots[i].dom) {
            continue;
        }
        if (start + section.len > sizeof(bytes)) {
            return 0; /* without it peers would think that this process has not got the provider */
        }
        memcpy(bytes + len, &section, sizeof(section));
        if (section.len > 0) {
            memcpy(bytes + start, provider->address(core->slots[i].dom), section.len);
        }
        len = start + ((section.len + 7u) & ~7u);
        head.sections++;
    }
    if (len > size || len > sizeof(bytes)) {
        return 0;
    }
    head.len = (uint32_t) len;
    memcpy(bytes, &head, sizeof(head));
    memcpy(buf, bytes, len);
    return len;
}

const char *fab_peer_provider_name(const fab_peer_t *peer)
{
    return fab_providers[peer->provider]->name;
}

/* ---- progress ----------------------------------------------------------- */

int fab_progress(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);
    int events = 0;

    fab->must_return = false;
    fab->passes++;
    for (unsigned i = 0; i < core->num_open; i++) {
        events += core->open[i].progress(core->open[i].dom);
    }
    fab->events += (uint32_t) events;
    if (__builtin_expect(core->has_work, 0)) {
        events += fab_core_run_queues(core);
    }
    return events;
}

static int poll_all(void *fab)
{
    return fab_progress(fab);
}

/*
 * fab_poll() calls a provider directly, if it is the only one that messages come by and nothing is
 * queued or failed. Self needs no polling for messages.
 */
static void core_choose_poll(fab_core_t *core)
{
    core->fab.poll = poll_all;
    core->fab.poll_arg = core;
    if (core->has_work) {
        return;
    }
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL == core->slots[i].dom || fab_providers[i] == &fab_self_provider ||
            (NULL != fab_providers[i]->is_idle && fab_providers[i]->is_idle(core->slots[i].dom))) {
            continue;
        }
        if (poll_all != core->fab.poll || NULL == fab_providers[i]->poll) {
            core->fab.poll = poll_all;
            core->fab.poll_arg = core;
            return;
        }
        core->fab.poll = fab_providers[i]->poll;
        core->fab.poll_arg = core->slots[i].dom;
    }
}

void fab_idle_changed(fab_t *fab)
{
    core_choose_poll(fab_core(fab));
}

void fab_core_set_work(fab_core_t *core, bool has_work)
{
    if (has_work != core->has_work) {
        core->has_work = has_work;
        core_choose_poll(core);
    }
}

/* ---- sleep -------------------------------------------------------------- */

bool fab_sleep(fab_t *fab, unsigned us)
{
    const fab_core_t *core = fab_core(fab);
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    struct pollfd fds[FAB_NUM_PROVIDERS];
    int slots[FAB_NUM_PROVIDERS];
    nfds_t num = 0;

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL != core->slots[i].dom && NULL != fab_providers[i]->wake_fd) {
            slots[num] = i;
            fds[num++] = (struct pollfd){.fd = fab_providers[i]->wake_fd(core->slots[i].dom),
                                         .events = POLLIN};
        }
    }
    if (ppoll(fds, num, &time, NULL) <= 0) {
        return false;
    }
    fab_lock(fab);
    for (nfds_t i = 0; i < num; i++) {
        if (0 != fds[i].revents) {
            fab_providers[slots[i]]->is_awake(core->slots[slots[i]].dom);
        }
    }
    fab_unlock(fab);
    return true;
}

/* ---- description -------------------------------------------------------- */

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
    if (!FAB_HAVE_OFI && len < size) {
        len += (size_t) snprintf(buf + len, size - len,
                                 "-              ofi    not built: configure found no libfabric\n");
    }
    if (!FAB_HAVE_VERBS && len < size) {
        snprintf(buf + len, size - len,
                 "-              verbs  not built: configure found no libibverbs\n");
    }
}
