/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer fails when all that it sent before is delivered: it may have left in order, and what says
 * so is still in the completion queue.
 */
#include "ofi/ofi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fab_ofi_ep_defer_failure(fab_ofi_ep_t *ep, int rc, const char *format, ...)
{
    fab_ofi_failure_t *failure;
    va_list args;

    if (NULL != ep->failure || NULL == ep->peer) {
        return;
    }
    failure = malloc(sizeof(*failure));
    if (NULL == failure) {
        fab_peer_fail(ep->peer, rc, "It failed; there was no memory to keep the reason.");
        return;
    }
    *failure = (fab_ofi_failure_t){.ep = ep, .rc = rc};
    va_start(args, format);
    vsnprintf(failure->why, sizeof(failure->why), format, args);
    va_end(args);
    ep->failure = failure;
    TAILQ_INSERT_TAIL(&ep->dom->failing, failure, link);
}

void fab_ofi_ep_forget_failure(fab_ofi_ep_t *ep)
{
    if (NULL != ep->failure) {
        TAILQ_REMOVE(&ep->dom->failing, ep->failure, link);
        free(ep->failure);
        ep->failure = NULL;
    }
}

static void fail(fab_ofi_failure_t *failure)
{
    const fab_ofi_ep_t *ep = failure->ep;

    if (!ep->was_up && FAB_PEER_UP == ep->peer->state) {
        fab_peer_cannot_connect(ep->peer, failure->rc, failure->why);
    } else if (!(ep->has_left && OPAL_ERR_PROC_ABORTED == failure->rc)) {
        fab_peer_fail(ep->peer, failure->rc, failure->why);
    } /* else it left in order, and its process was found dead after that */
}

int fab_ofi_ep_fail_deferred(fab_ofi_domain_t *dom)
{
    fab_ofi_failure_t *failure, *next;
    int events = 0;

    for (failure = TAILQ_FIRST(&dom->failing); NULL != failure; failure = next) {
        next = TAILQ_NEXT(failure, link);
        if (!failure->is_quiet) {
            failure->is_quiet = true;
            continue;
        }
        TAILQ_REMOVE(&dom->failing, failure, link);
        failure->ep->failure = NULL;
        fail(failure); /* frees no endpoint: the fabric drops it later */
        free(failure);
        events++;
    }
    return events;
}
