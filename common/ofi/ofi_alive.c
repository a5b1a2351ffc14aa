/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Are the peers there?  libfabric reports nothing of a peer to which nothing is sent.
 *
 * Peers of this host are looked up in /proc.  To one of another host from which nothing has come
 * for a while a message is sent: if it cannot be delivered, that is reported.  A message that does
 * not come in ofi_timeout, though later ones came, was lost by libfabric: its peer fails.
 */
#include "ofi/ofi.h"

#include "fabric/fab_host.h"
#include "fabric/fab_params.h"

enum { FAB_OFI_TICKS_PER_ROUND = 8 }; /* in which every peer is looked at once: 2 s */

/* Time passes while this process polls: it may have been stopped. */
static bool has_lost(fab_ofi_ep_t *ep)
{
    const uint64_t ticks = (uint64_t) fab_params.ofi_timeout * 1000000 / FAB_OFI_TICK_US;

    if (NULL == ep->early || ep->next_recv != ep->missing) {
        ep->missing = ep->next_recv;
        ep->missed_at = ep->dom->ticks;
    }
    return ep->dom->ticks - ep->missed_at > ticks;
}

static void check(fab_ofi_ep_t *ep)
{
    if (ep->has_left || NULL != ep->failure) {
        return;
    }
    if (has_lost(ep)) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                                 "A message of it was lost by %s: it has not come for %u s, and "
                                 "later ones have.",
                                 ep->dom->name, fab_params.ofi_timeout);
        return;
    }
    if (!ep->is_local) {
        if (!ep->has_heard) {
            fab_ofi_send_probe(ep);
        }
        ep->has_heard = false;
    } else if (fab_proc_is_gone(ep->addr.pid, ep->addr.start_time)) {
        fab_counters.peers_died++;
        fab_ofi_ep_defer_failure(
            ep, OPAL_ERR_PROC_ABORTED,
            "Its process (pid %u on this host) has ended without leaving the job.", ep->addr.pid);
    }
}

void fab_ofi_alive_tick(fab_ofi_domain_t *dom)
{
    uint32_t num = (dom->num_slots + FAB_OFI_TICKS_PER_ROUND - 1) / FAB_OFI_TICKS_PER_ROUND;

    dom->ticks++;
    for (; num > 0; num--) {
        dom->next_alive = dom->next_alive + 1 < dom->num_slots ? dom->next_alive + 1 : 0;
        if (NULL != dom->slots[dom->next_alive].ep) {
            check(dom->slots[dom->next_alive].ep);
        }
    }
}
