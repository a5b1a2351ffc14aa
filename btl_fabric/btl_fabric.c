/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that all files share; endpoints, and the failure of a peer that this process finds out.
 */
#include "btl_fabric.h"

#include <stdio.h>
#include <stdlib.h>

#include "fabric/fab_counters.h"

mca_btl_fabric_t mca_btl_fabric = {.output = -1};

mca_btl_fabric_ep_t *mca_btl_fabric_ep_of(fab_peer_t *peer)
{
    mca_btl_fabric_ep_t *ep = peer->user[FAB_USER_BTL];

    if (OPAL_UNLIKELY(NULL == ep)) {
        ep = calloc(1, sizeof(*ep));
        if (NULL != ep) {
            ep->peer = peer;
            STAILQ_INIT(&ep->counted);
            ep->next = mca_btl_fabric.eps;
            mca_btl_fabric.eps = ep;
            peer->user[FAB_USER_BTL] = ep;
        }
    }
    return ep;
}

void mca_btl_fabric_ep_close_if_idle(mca_btl_fabric_ep_t *ep)
{
    if (OPAL_UNLIKELY(ep->is_deleted) && 0 == ep->outstanding) {
        ep->is_deleted = false;
        fab_peer_close(ep->peer, FAB_USER_BTL);
    }
}

void mca_btl_fabric_bad_message(fab_peer_t *peer, const char *what)
{
    char why[200];

    fab_counters.bad_messages++;
    snprintf(why, sizeof(why), "It sent a message that makes no sense (%s).", what);
    fab_peer_fail(peer, OPAL_ERR_BAD_PARAM, why);
}

void mca_btl_fabric_no_memory(fab_peer_t *peer)
{
    fab_peer_fail(peer, OPAL_ERR_OUT_OF_RESOURCE,
                  "There was no memory in this process for what it sent, or for an "
                  "operation with it.");
}
