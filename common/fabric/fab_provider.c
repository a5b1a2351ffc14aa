/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The providers of this build, and lists of their names.
 */
#include "fabric/fab_provider.h"

#include <string.h>

#include "fabric/fab_wire.h"

/* What is known of a provider before it is loaded, or if it was not built. */
static const fab_provider_t ofi_not_loaded = {
    .name = "ofi",
    .id = FAB_WIRE_OFI,
    .reaches_hosts = true,
    .is_apart = true,
};

static const fab_provider_t verbs_not_loaded = {
    .name = "verbs",
    .id = FAB_WIRE_VERBS,
    .reaches_hosts = true,
    .is_apart = true,
};

const fab_provider_t *fab_providers[FAB_NUM_PROVIDERS] = {
    &fab_self_provider, &fab_shm_provider, &ofi_not_loaded, &verbs_not_loaded, &fab_tcp_provider,
};

static const fab_provider_t *named(const char *name, size_t len)
{
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (strlen(fab_providers[i]->name) == len &&
            0 == strncmp(fab_providers[i]->name, name, len)) {
            return fab_providers[i];
        }
    }
    return NULL;
}

bool fab_provider_is_in(const fab_provider_t *provider, const char *list)
{
    bool is_exclusive = NULL != list && '^' == *list;

    if (NULL == list || '\0' == *list || provider == &fab_self_provider) {
        return true;
    }
    list += is_exclusive;
    while ('\0' != *list) {
        size_t len = strcspn(list, ",");
        if (named(list, len) == provider) {
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
        if (len > 0 && NULL == named(list, len)) {
            return false;
        }
        list += len + ('\0' != list[len]);
    }
    return true;
}
