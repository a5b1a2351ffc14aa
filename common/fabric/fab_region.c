/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for a peer, or for any.
 */
#include "fabric/fab_core.h"

int fab_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access, fab_rkey_t *rkey)
{
    const fab_provider_t *provider = fab_providers[peer->provider];
    fab_domain_t *dom = fab_core(peer->fab)->slots[peer->provider].dom;

    *rkey = (fab_rkey_t){{0}};
    if (NULL == peer->ops->rma) {
        return fab_no_rma(peer);
    }
    return NULL == provider->expose || provider->expose(dom, peer, buf, len, access, rkey)
               ? OPAL_SUCCESS
               : OPAL_ERR_NOT_SUPPORTED;
}

/* Of a peer that has failed or moves the provider has let go of all when it dropped the peer. */
void fab_unexpose(fab_peer_t *peer, const fab_rkey_t *rkey)
{
    const fab_provider_t *provider = fab_providers[peer->provider];

    if (NULL != peer->ops->rma && NULL != provider->unexpose) {
        provider->unexpose(fab_core(peer->fab)->slots[peer->provider].dom, peer, rkey);
    }
}

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
        bool is_wanted = NULL != dom && NULL != provider->ops->rma &&
                         (NULL == peer || i == peer->provider) &&
                         !(is_taken && provider->reaches_hosts);
        if (is_wanted && (NULL == provider->expose ||
                          provider->expose(dom, NULL, buf, len, access, &region->rkey))) {
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
        if (0 != (region->providers >> provider->id & 1) && NULL != provider->unexpose) {
            provider->unexpose(core->slots[i].dom, NULL, &region->rkey);
        }
    }
    region->providers = 0;
}

bool fab_region_is_reachable(const fab_region_t *region, const fab_peer_t *peer)
{
    return 0 != (region->providers >> fab_providers[peer->provider]->id & 1);
}
