/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the verbs provider's inside share: its objects behind those of the fabric.
 */
#ifndef TEST_VERBS_WORLD_H
#define TEST_VERBS_WORLD_H

#include "test_fab_faults.h"

#include "fabric/fab_core.h"
#include "verbs/verbs_conn.h"
#include "verbs/verbs_types.h"
#include "verbs/verbs_ep.h"
#include "verbs/verbs_post.h"

static inline fab_verbs_domain_t *verbs_domain(const world_t *world)
{
    return (fab_verbs_domain_t *) fab_core(world->fab)->slots[2].dom;
}

static inline fab_verbs_ep_t *ep_of(const fab_peer_t *peer)
{
    return peer->ep;
}

/* Connect to it, both ways of traffic ready here. */
static inline void connect_to(world_t *world, fab_peer_t *peer)
{
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    WORLD_UNTIL(FAB_VERBS_UP == ep_of(peer)->state);
}

#endif /* TEST_VERBS_WORLD_H */
