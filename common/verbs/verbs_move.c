/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer to which there can be no session moves to another pair of ports (verbs_ports.c), and after
 * the last one to the next provider.  The rule is that of session.h: only if the session was not
 * used, so nothing is on its way.
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

/* The session begins again there; the peer may still wait for the last word of the one that was. */
static void begin_again(fab_verbs_ep_t *ep, fab_verbs_domain_t *dom)
{
    const uint64_t ended = ep->ses.ended;

    fab_ses_drop(&ep->ses);
    fab_ses_fini(&ep->ses);
    fab_ses_init(&ep->ses, &dom->first->ses, ep->peer);
    ep->ses.ended = ended;
}

/*
 * What the peer may read stays registered with the former port's device, and its keys say so. Gets
 * and puts that wait are refused: messages take their place.
 */
static void use_ports(fab_verbs_ep_t *ep, fab_verbs_domain_t *dom, uint32_t pair, uint8_t remote)
{
    fab_peer_t *peer = ep->peer;
    const bool is_owed = ep->ses.is_owed;

    begin_again(ep, dom);
    fab_verbs_conn_release(ep);
    LIST_REMOVE(ep, link);
    LIST_INSERT_HEAD(&dom->eps, ep, link);
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
    if (is_owed) {
        fab_ses_ask_owed(&ep->ses);
    }
    fab_verbs_rma_refuse(ep); /* last: it may close the peer */
}

/* Is there this pair, or a later one if is_exact is false?  Its domain here. */
static fab_verbs_domain_t *later_pair(const fab_verbs_ep_t *ep, uint32_t *pair, bool is_exact,
                                      uint8_t *remote)
{
    const uint32_t from = *pair;
    const char *why;
    fab_verbs_domain_t *dom = fab_verbs_ports_choose(ep->dom->first, ep->peer->name, &ep->addr,
                                                     pair, remote, &why);

    return NULL != dom && (!is_exact || from == *pair) ? dom : NULL;
}

void fab_verbs_move_asked_by(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello)
{
    uint32_t pair = hello->pair;
    uint8_t remote;
    fab_verbs_domain_t *dom = pair > ep->pair ? later_pair(ep, &pair, true, &remote) : NULL;
    fab_moves_t moves;

    if (NULL == dom) {
        fab_ses_refuse(ep->ses.dom, sock, FAB_SES_REASON_WAY);
        return;
    }
    moves = fab_verbs_asked_by_later(ep->peer);
    if (FAB_STAYS == moves) {
        fab_ses_refuse(ep->ses.dom, sock, FAB_SES_REASON_PEER);
        return;
    }
    fab_sock_via_again(sock); /* the peer may be closed then: looked up again */
    if (FAB_MOVES == moves && ep->ses.is_closed) {
        fab_verbs_ep_finish(ep); /* the record that follows answers */
    } else if (FAB_MOVES == moves) {
        use_ports(ep, dom, pair, remote);
    }
}

/* By the next pair.  False: there is none, or they are of no use. */
static bool move_on(fab_verbs_ep_t *ep, const char *why)
{
    uint32_t pair = ep->pair + 1u;
    fab_verbs_domain_t *dom;
    uint8_t remote;

    if (ep->is_refused || FAB_PEER_FAILED == ep->peer->state || fab_peer_is_moving(ep->peer)) {
        return false;
    }
    dom = later_pair(ep, &pair, false, &remote);
    if (NULL == dom) {
        return false;
    }
    fab_log(dom->fab, 1, "process 0x%llx is tried by %s and its port %u: %s",
            (unsigned long long) ep->peer->name, dom->name, remote, why);
    use_ports(ep, dom, pair, remote);
    return true;
}

/* ---- what was noted ------------------------------------------------------ */

/* False: not yet. */
static bool is_due(fab_verbs_ep_t *ep)
{
    if (FAB_VERBS_CANNOT == ep->failure->kind) {
        return true;
    }
    if (ep->dom->pass == ep->failure->pass && !ep->dom->is_dead) {
        return false; /* the queue is to be polled once more */
    }
    return NULL == ep->main || FAB_VERBS_BROKE != ep->failure->kind ||
           fab_verbs_rail_stop(ep, fab_now_us());
}

/* The peer cannot be used any more, but can be told so. */
static bool is_whole(const fab_verbs_ep_t *ep)
{
    return NULL == ep->main && FAB_SES_UP == ep->ses.state && ep->ses.is_used && NULL != ep->conn &&
           !ep->conn->is_broken;
}

/* The endpoint may be gone afterwards. */
static void settle(fab_verbs_ep_t *ep)
{
    fab_verbs_failure_t *failure = fab_verbs_take_failure(ep);

    if (0 != ep->late_bye && FAB_VERBS_CANNOT != failure->kind) {
        fab_verbs_ep_take_bye(ep); /* it has left in order */
    } else if (FAB_VERBS_VIA_LOST == failure->kind) {
        fab_ses_via_broke(&ep->ses, failure->why);
    } else if (FAB_VERBS_BROKE == failure->kind && is_whole(ep)) {
        fab_peer_fail(ep->peer, failure->rc, failure->why);
    } else if (FAB_VERBS_BROKE == failure->kind) {
        fab_ses_path_broke(&ep->ses, failure->rc, failure->why);
    } else if (NULL != ep->main) {
        fab_verbs_rail_failed(ep, failure->why);
    } else if (OPAL_ERR_PROC_ABORTED == failure->rc) {
        fab_peer_fail(ep->peer, failure->rc, failure->why);
    } else if (!move_on(ep, failure->why)) {
        fab_ses_go_on(&ep->ses, failure->rc, failure->why);
    }
    free(failure);
}

int fab_verbs_settle(fab_verbs_domain_t *dom)
{
    fab_verbs_ep_t *next;
    int events = 0;

    for (fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->failing); NULL != ep; ep = next) {
        const bool is_now = is_due(ep);
        next = TAILQ_NEXT(ep, failing_link);
        if (is_now) {
            settle(ep);
            events++;
        }
    }
    return events;
}
