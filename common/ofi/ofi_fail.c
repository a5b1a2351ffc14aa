/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path that breaks: all that came by it is delivered first, since the peer's last word may be
 * among that.
 */
#include "ofi/ofi.h"

bool fab_ofi_is_drained(const fab_ses_t *ses)
{
    const fab_ofi_ep_t *ep = ses->peer->ep;

    return ep->dom->is_dead || ep->dom->num_quiet - ep->quiet_at >= 2;
}

void fab_ofi_ep_list_if_broken(fab_ofi_ep_t *ep, const fab_peer_t *peer)
{
    if (ep == peer->ep && NULL != ep->ses.failure) {
        fab_ofi_enqueue(&ep->dom->broken, &ep->broken, ep);
    }
}

void fab_ofi_ep_broke(fab_ofi_ep_t *ep, int rc, const char *why)
{
    const fab_peer_t *peer = ep->peer;

    if (NULL == peer) {
        return; /* what it has still to send is lost */
    }
    if (FAB_SES_KNOWN == ep->ses.state && 0 != ep->nonce) {
        ep->nonce = 0;
        fab_peer_owes(ep->peer, rc, why); /* it waits for CHALLENGE */
        return;
    }
    ep->quiet_at = ep->dom->num_quiet;
    fab_ses_path_broke(&ep->ses, rc, why);
    fab_ofi_ep_list_if_broken(ep, peer);
}

void fab_ofi_ep_tick(fab_ofi_ep_t *ep)
{
    const fab_peer_t *peer = ep->peer;

    ep->quiet_at = ep->dom->num_quiet;
    fab_ses_tick(&ep->ses);
    fab_ofi_ep_list_if_broken(ep, peer);
}

void fab_ofi_ep_is_speechless(fab_ofi_ep_t *ep)
{
    if (NULL != ep->peer) {
        ep->is_speechless = true;
        fab_ofi_enqueue(&ep->dom->broken, &ep->broken, ep);
    }
}

static void look_at(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;

    if (ep->is_speechless) {
        ep->is_speechless = false;
        fab_ofi_dequeue(&dom->broken, &ep->broken);
        fab_ofi_ep_broke(ep, OPAL_ERR_OUT_OF_RESOURCE,
                         fab_sentence(dom->fab, "There is no memory for a message to it."));
    } else if (NULL == ep->ses.failure) {
        fab_ofi_dequeue(&dom->broken, &ep->broken);
    } else if (fab_ofi_is_drained(&ep->ses)) {
        fab_ofi_dequeue(&dom->broken, &ep->broken);
        fab_ses_drained(&ep->ses); /* may release it */
    }
}

int fab_ofi_look_at_broken(fab_ofi_domain_t *dom)
{
    fab_ofi_queued_t *next;
    int events = 0;

    for (fab_ofi_queued_t *at = TAILQ_FIRST(&dom->broken); NULL != at; at = next) {
        next = TAILQ_NEXT(at, link);
        look_at(at->ep); /* others stay in the list, or go to its end */
        events++;
    }
    return events;
}
