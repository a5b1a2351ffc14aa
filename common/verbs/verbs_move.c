/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer to which no connection can be made moves to another pair of ports (verbs_pair.c), and
 * after the last one to the next provider.  Only while it is not bound: nothing is on its way.
 *
 *      this process   its attempt has failed or was refused: the next pair
 *      the other      HELLO names a later pair than its own: that one; an earlier one: REFUSE, and
 *                     the asking process takes its next
 *
 * Neither goes back to an earlier pair, so both meet.
 */
#include "verbs/verbs.h"

#include <stdlib.h>

#include "fabric/fab_clock.h"

/*
 * What the peer may read stays registered with the former port's device, and its keys say so. Gets
 * and puts that wait are refused: messages take their place.
 */
static void use_ports(fab_verbs_ep_t *ep, fab_verbs_domain_t *dom, uint32_t pair, uint8_t remote)
{
    fab_peer_t *peer = ep->peer;

    fab_verbs_connect_cancel(ep);
    fab_verbs_rails_end(ep);
    fab_verbs_conn_release(ep);
    LIST_REMOVE(ep, link);
    LIST_INSERT_HEAD(&dom->eps, ep, link);
    if (0 != ep->end_by) {
        ep->dom->num_ending--;
        dom->num_ending++;
    }
    if (0 != (peer->caps & FAB_CAP_TM) && NULL == dom->tm) {
        peer->caps &= (uint8_t) ~FAB_CAP_TM;
        dom->fab->num_moved++; /* its messages do not come by the matching device any more */
    }
    fab_counters.verbs_other_ports++;
    fab_log(dom->fab, 10, "process 0x%llx: %s here and its port %u are tried",
            (unsigned long long) peer->name, dom->name, remote);
    fab_verbs_ops_unlist(ep);
    ep->dom = dom;
    ep->pair = (uint8_t) pair;
    ep->remote = remote;
}

bool fab_verbs_move_to(fab_verbs_ep_t *ep, uint32_t pair)
{
    fab_verbs_domain_t *dom;
    uint32_t found = pair;
    uint8_t remote;
    const char *why;

    if (ep->is_bound || pair <= ep->pair) {
        return false;
    }
    dom = fab_verbs_ports_choose(ep->dom->first, ep->peer->name, &ep->addr, &found, &remote, &why);
    if (NULL == dom || found != pair) {
        return false;
    }
    use_ports(ep, dom, pair, remote);
    fab_verbs_rma_refuse(ep); /* last: it may close the peer */
    return true;
}

/* False: it has tried all, or fails. */
static bool next_ports(fab_verbs_ep_t *ep, const fab_verbs_failure_t *failure)
{
    uint32_t pair = ep->pair + 1u;
    fab_verbs_domain_t *dom;
    uint8_t remote;
    const char *why;

    if (ep->is_bound || OPAL_ERR_PROC_ABORTED == failure->rc || failure->is_last ||
        FAB_PEER_UP != ep->peer->state || fab_peer_is_moving(ep->peer)) {
        return false;
    }
    dom = fab_verbs_ports_choose(ep->dom->first, ep->peer->name, &ep->addr, &pair, &remote, &why);
    if (NULL == dom) {
        return false;
    }
    fab_log(dom->fab, 1, "process 0x%llx is tried by %s and its port %u: %s",
            (unsigned long long) ep->peer->name, dom->name, remote, failure->why);
    use_ports(ep, dom, pair, remote);
    fab_verbs_rma_refuse(ep); /* last: it may close the peer */
    return true;
}

int fab_verbs_move_or_fail(fab_verbs_domain_t *dom)
{
    fab_verbs_ep_t *next;
    int events = 0;

    for (fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->failing); NULL != ep; ep = next) {
        fab_verbs_failure_t *failure;
        next = TAILQ_NEXT(ep, failing_link);
        if (NULL != ep->main) {
            events += fab_verbs_rail_fail(ep, fab_now_us());
            continue;
        }
        failure = fab_verbs_ep_take_failure(ep);
        if (!next_ports(ep, failure)) {
            fab_verbs_ep_fail(ep, failure);
        }
        free(failure);
        events++;
    }
    return events;
}
