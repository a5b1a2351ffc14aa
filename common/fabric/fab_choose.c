/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which provider takes a peer: the first that is open on both sides and reaches it.
 */
#include "fabric/fab_core.h"

#include <stdio.h>

int fab_choose_this(fab_core_t *core, fab_peer_t *peer, int i, const void *address, size_t len,
                    const char **why)
{
    const fab_provider_t *provider = fab_providers[i];

    *why = "no reason given";
    peer->ops = provider->ops;
    peer->provider = (uint8_t) i;
    if (len != provider->address_len) {
        *why = fab_sentence(&core->fab, "its address for %s has %zu bytes, expected %zu",
                            provider->name, len, provider->address_len);
        return OPAL_ERR_UNREACH;
    }
    return provider->attach(core->slots[i].dom, peer, address, why);
}

int fab_choose(fab_core_t *core, fab_peer_t *peer, const void *address, int first, char *why,
               size_t size)
{
    size_t used = 0;

    why[0] = '\0';
    for (int i = first; i < FAB_NUM_PROVIDERS; i++) {
        const char *answer = core->slots[i].why_not;
        size_t len = 0;
        const void *section = fab_address_section(address, fab_providers[i]->id, &len);
        if (NULL != core->slots[i].dom) {
            answer = "the other process does not use it";
            if (NULL != section &&
                OPAL_SUCCESS == fab_choose_this(core, peer, i, section, len, &answer)) {
                return OPAL_SUCCESS;
            }
        }
        if (used < size) {
            used += (size_t) snprintf(why + used, size - used, "%s%s: %s", used > 0 ? "; " : "",
                                      fab_providers[i]->name, answer);
        }
    }
    return OPAL_ERR_UNREACH;
}
