/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What breaks is noted.  What came before is taken first, then the session hears of it, in
 * progress, where no function of the provider is under way (verbs_move.c).
 */
#include "verbs/verbs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- noting ------------------------------------------------------------- */

fab_verbs_failure_t *fab_verbs_take_failure(fab_verbs_ep_t *ep)
{
    fab_verbs_failure_t *failure = ep->failure;

    if (NULL != failure) {
        TAILQ_REMOVE(&ep->dom->failing, ep, failing_link);
        ep->failure = NULL;
    }
    return failure;
}

void fab_verbs_forget_failure(fab_verbs_ep_t *ep)
{
    free(fab_verbs_take_failure(ep));
}

static void note(fab_verbs_ep_t *ep, fab_verbs_failure_kind_t kind, int rc, const char *why)
{
    if (NULL != ep->failure && FAB_VERBS_VIA_LOST != ep->failure->kind) {
        return;
    }
    fab_verbs_forget_failure(ep);
    ep->failure = malloc(sizeof(*ep->failure));
    if (NULL == ep->failure) {
        fab_peer_fail(ep->peer, rc, "It failed; there was no memory to keep the reason.");
        return;
    }
    ep->failure->kind = kind;
    ep->failure->rc = rc;
    ep->failure->pass = ep->dom->pass;
    snprintf(ep->failure->why, sizeof(ep->failure->why), "%s", why);
    TAILQ_INSERT_TAIL(&ep->dom->failing, ep, failing_link);
}

void fab_verbs_broke(fab_verbs_ep_t *ep, int rc, const char *format, ...)
{
    char why[384];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    ep->ses.window = 0;
    note(ep, FAB_VERBS_BROKE, rc, why);
}

void fab_verbs_via_lost(fab_verbs_ep_t *ep)
{
    note(ep, FAB_VERBS_VIA_LOST, OPAL_ERR_UNREACH, "It gave up the connection.");
}

void fab_verbs_cannot(fab_ses_t *ses, int rc, const char *why)
{
    note(fab_verbs_ep_of(ses), FAB_VERBS_CANNOT, rc, why);
}

/* ---- all peers ---------------------------------------------------------- */

void fab_verbs_fail_all(fab_verbs_domain_t *dom, const char *what)
{
    fab_verbs_ep_t *ep;

    LIST_FOREACH(ep, &dom->eps, link) {
        if (NULL != ep->conn) {
            fab_verbs_broke(ep, OPAL_ERR_COMM_FAILURE,
                            "%s here %s (ibv_devinfo, and the system's log, may say why).",
                            dom->name, what);
        }
    }
}

void fab_verbs_give_up(fab_verbs_domain_t *dom, const char *what, const char *why)
{
    fab_log(dom->fab, 1, "%s %s: %s", dom->name, what, why);
    dom->is_dead = true;
    fab_verbs_fail_all(dom, what);
}
