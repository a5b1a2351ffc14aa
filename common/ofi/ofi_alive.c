/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Are the peers there?  libfabric reports nothing of a peer to which nothing is sent.
 *
 * A peer of this host is looked up in /proc.  One from which nothing has come for a while is asked:
 * if the message cannot be delivered, libfabric says so, and an answer shows whether a message was
 * lost before it.  One that computes does not answer, and may do so for hours, so the questions
 * come at doubled distance, and end: they fill its queue otherwise.  An answer begins that again.
 *
 * A frame to another host that libfabric has not delivered in ofi_timeout goes by a way that is
 * closed, perhaps: if another provider can take the peer, it does.  What is delivered is waited for
 * without limit, as is a process of this host.
 *
 * A message that does not come in ofi_timeout, though later ones came, was lost by libfabric: its
 * peer fails.
 */
#include "ofi/ofi.h"

#include <stdlib.h>

#include "fabric/fab_host.h"
#include "fabric/fab_params.h"

enum {
    FAB_OFI_TICKS_PER_ROUND = 8, /* in which every peer is looked at once: 2 s, ... */
    FAB_OFI_LOOKS = 1000,        /* ... or longer: looks in a tick at most */
    FAB_OFI_QUESTIONS = 8,       /* to a silent peer: after 2, 4 ... 256 s */
};

/* Time passes while this process polls: it may have been stopped. */
static bool is_late(const fab_ofi_ep_t *ep, uint32_t since)
{
    return ep->dom->ticks - since > (uint64_t) fab_params.ofi_timeout * 1000000 / FAB_OFI_TICK_US;
}

static bool has_lost(fab_ofi_ep_t *ep)
{
    if (NULL == ep->early || ep->next_recv != ep->missing) {
        ep->missing = ep->next_recv;
        ep->missed_at = ep->dom->ticks;
    }
    return is_late(ep, ep->missed_at);
}

/* KNOCK or HELLO has gone nowhere, and the peer has another way. */
static bool is_way_closed(const fab_ofi_ep_t *ep)
{
    return FAB_SES_ASKING == ep->ses.state && !ep->is_local && NULL != ep->spare &&
           ep->own_under_way > 0 && is_late(ep, ep->asked_at);
}

static void ask(fab_ofi_ep_t *ep)
{
    if (ep->has_heard) {
        fab_ofi_hear(ep);
        return;
    }
    ep->silences++;
    if (0 == (ep->silences & (ep->silences - 1)) && ep->silences < 1 << FAB_OFI_QUESTIONS) {
        fab_ofi_send_probe(ep);
    }
}

/* May release it. */
static void check(fab_ofi_ep_t *ep)
{
    const fab_ofi_domain_t *dom = ep->dom;

    if (ep->ses.is_used) {
        free(ep->spare); /* it stays with this provider */
        ep->spare = NULL;
    }
    if (ep->ses.is_broken) {
        return;
    }
    if (has_lost(ep)) {
        fab_ofi_ep_broke(ep, OPAL_ERR_COMM_FAILURE,
                         fab_sentence(dom->fab,
                                      "A message of it was lost by %s: it has not come for %u s, "
                                      "and later ones have.",
                                      dom->name, fab_params.ofi_timeout));
    } else if (is_way_closed(ep)) {
        fab_ofi_ep_broke(ep, OPAL_ERR_UNREACH,
                         fab_sentence(dom->fab,
                                      "It was not reached over %s within %u s "
                                      "(pml_tm_ofi_timeout).",
                                      dom->name, fab_params.ofi_timeout));
    } else if (ep->is_local && fab_proc_is_gone(ep->addr.pid, ep->addr.start_time)) {
        fab_counters.peers_died++;
        fab_ofi_ep_broke(ep, OPAL_ERR_PROC_ABORTED,
                         fab_sentence(dom->fab,
                                      "Its process (pid %u on this host) has ended without leaving "
                                      "the job.",
                                      ep->addr.pid));
    } else {
        ask(ep);
    }
}

/* Of sessions that await a last word, if there are any. */
static void tick(fab_ofi_domain_t *dom)
{
    fab_ofi_ep_t *ep;
    uint32_t i = 0;

    dom->has_clocks = false;
    while (NULL != (ep = fab_idmap_next(&dom->sessions, &i))) {
        if (0 != ep->ses.num_ticks) {
            dom->has_clocks = true;
            fab_ofi_ep_tick(ep); /* may release it */
        }
    }
}

void fab_ofi_alive_tick(fab_ofi_domain_t *dom)
{
    const fab_idmap_t *sessions = &dom->sessions;
    const uint32_t share = (sessions->size + FAB_OFI_TICKS_PER_ROUND - 1) / FAB_OFI_TICKS_PER_ROUND;

    dom->ticks++;
    if (dom->has_clocks) {
        tick(dom);
    }
    for (uint32_t n = 0; n < share && n < FAB_OFI_LOOKS; n++, dom->next_look++) {
        if (dom->next_look >= share * FAB_OFI_TICKS_PER_ROUND) {
            dom->next_look = 0;
        }
        if (dom->next_look < sessions->size && NULL != sessions->slots[dom->next_look].object) {
            check(sessions->slots[dom->next_look].object);
        }
    }
}
