/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that fail: what they sent before is delivered first, then the fabric hears of it, in
 * progress, where no function of the provider is under way.
 */
#include "verbs/verbs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

fab_verbs_failure_t *fab_verbs_ep_take_failure(fab_verbs_ep_t *ep)
{
    fab_verbs_failure_t *failure = ep->failure;

    if (NULL != failure) {
        TAILQ_REMOVE(&ep->dom->failing, ep, failing_link);
        ep->failure = NULL;
    }
    return failure;
}

void fab_verbs_ep_forget_failure(fab_verbs_ep_t *ep)
{
    free(fab_verbs_ep_take_failure(ep));
}

void fab_verbs_ep_defer_failure(fab_verbs_ep_t *ep, int rc, const char *format, ...)
{
    va_list args;

    if (NULL != ep->failure) {
        return;
    }
    ep->failure = malloc(sizeof(*ep->failure));
    if (NULL == ep->failure) {
        fab_peer_fail(ep->peer, rc, "It failed; there was no memory to keep the reason.");
        return;
    }
    va_start(args, format);
    vsnprintf(ep->failure->why, sizeof(ep->failure->why), format, args);
    va_end(args);
    ep->failure->rc = rc;
    ep->failure->is_last = false;
    ep->failure->is_path = false;
    TAILQ_INSERT_TAIL(&ep->dom->failing, ep, failing_link);
    if (NULL != ep->conn) {
        ep->conn->is_ready = false;
    }
}

void fab_verbs_ep_refused_for_good(fab_verbs_ep_t *ep)
{
    if (NULL != ep->failure) {
        ep->failure->is_last = true;
    }
}

void fab_verbs_ep_path_failed(fab_verbs_ep_t *ep)
{
    if (NULL != ep->failure) {
        ep->failure->is_path = true;
    }
}

void fab_verbs_ep_fail(fab_verbs_ep_t *ep, const fab_verbs_failure_t *failure)
{
    if (!ep->is_bound && OPAL_ERR_PROC_ABORTED != failure->rc) {
        fab_peer_cannot_connect(ep->peer, failure->rc, failure->why);
    } else if (!(ep->has_left && OPAL_ERR_PROC_ABORTED == failure->rc)) {
        /* else its LEAVE came after its process was found dead: it left in order */
        fab_peer_fail(ep->peer, failure->rc, failure->why);
    }
}

void fab_verbs_fail_all(fab_verbs_domain_t *dom, const char *what)
{
    fab_verbs_ep_t *ep;

    LIST_FOREACH(ep, &dom->eps, link) {
        if (NULL != ep->conn && !ep->has_left) {
            fab_verbs_ep_defer_failure(
                ep, OPAL_ERR_COMM_FAILURE,
                "%s here %s (ibv_devinfo, and the system's log, may say why).", dom->name, what);
        }
    }
}

void fab_verbs_port_lost(fab_verbs_domain_t *dom)
{
    fab_verbs_ep_t *ep;

    fab_verbs_fail_all(dom, "is down");
    LIST_FOREACH(ep, &dom->eps, link) {
        fab_verbs_ep_path_failed(ep);
    }
}

void fab_verbs_give_up(fab_verbs_domain_t *dom, const char *what, const char *why)
{
    fab_log(dom->fab, 1, "%s %s: %s", dom->name, what, why);
    dom->is_dead = true;
    fab_verbs_fail_all(dom, what);
}
