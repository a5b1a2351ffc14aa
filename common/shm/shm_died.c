/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's process has died.  The tick (shm_alive.c) and accesses to its memory find that out.
 */
#include "shm/shm_died.h"

#include <stdio.h>

#include "shm/shm_in.h"

void fab_shm_ep_died(fab_shm_ep_t *ep)
{
    char why[128];

    ep->is_died = true;
    if (NULL != ep->in && fab_shm_rx_is_ready(&ep->in->rx)) {
        fab_shm_in_heat(ep->dom, ep->in); /* deliver first; the next round comes back to it */
        return;
    }
    if (FAB_PEER_FAILED != ep->peer->state) {
        fab_counters.shm_peers_died++;
        snprintf(why, sizeof(why),
                 "Its process (pid %u on this host) has ended without leaving the job.",
                 ep->addr.pid);
        fab_peer_fail(ep->peer, OPAL_ERR_PROC_ABORTED, why);
    }
}
