/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bound on connections (verbs_max_connections): before another one is made, an idle session is
 * paused, to be made again when it is needed (BYE pause: session.h).
 *
 * The limit is soft, so it cannot deadlock: if every connection is busy, it is exceeded for a
 * while.  A connection is busy for as long as a program likes, with a rendezvous for which its
 * receiver has posted no receive.
 *
 * What belongs to the process and not to the connection stays: listed receives, registered memory.
 */
#include "verbs/verbs.h"

#include "fabric/fab_params.h"

bool fab_verbs_is_idle(const fab_verbs_conn_t *conn)
{
    const fab_verbs_ep_t *ep = conn->ep;

    return 0 == conn->in_flight && 0 == conn->to_send && conn->dom->chained != conn &&
           fab_verbs_is_up(ep) && !ep->ses.is_closed && NULL == ep->peer->pending &&
           STAILQ_EMPTY(&ep->ops) && !fab_verbs_is_answer_due(ep) &&
           !fab_verbs_tm_is_receiving(conn);
}

/* Was it used since this was asked last?  Messages note nothing for it: their counts tell. */
static bool was_used(fab_verbs_conn_t *conn)
{
    uint64_t counts = (uint64_t) conn->head << 32 | conn->ep->ses.consumed;
    bool is_used = counts != conn->last_counts;

    conn->last_counts = counts;
    return is_used;
}

/*
 * One that was not used since the last look, or else any that is idle; NULL: all are busy.  By
 * whichever port of the process.
 */
static fab_verbs_conn_t *choose(fab_verbs_domain_t *first)
{
    fab_verbs_conn_t *conn, *idle = NULL;

    for (fab_verbs_domain_t *dom = first; NULL != dom; dom = dom->next) {
        TAILQ_FOREACH(conn, &dom->conns, link) {
            if (NULL == conn->ep || !fab_verbs_is_idle(conn)) {
                continue;
            }
            if (!was_used(conn)) {
                return conn;
            }
            idle = NULL == idle ? conn : idle;
        }
    }
    return idle;
}

static bool evict(fab_verbs_domain_t *first)
{
    fab_verbs_conn_t *conn = choose(first);

    if (NULL == conn || !fab_ses_pause(&conn->ep->ses)) {
        return false;
    }
    fab_counters.verbs_evicted++;
    return true;
}

static uint32_t num_in_use(const fab_verbs_domain_t *first)
{
    const fab_verbs_conn_t *conn;
    uint32_t num = 0;

    for (const fab_verbs_domain_t *dom = first; NULL != dom; dom = dom->next) {
        TAILQ_FOREACH(conn, &dom->conns, link) {
            num += NULL != conn->ep && FAB_SES_CLOSING != conn->ep->ses.state;
        }
    }
    return num;
}

void fab_verbs_make_room(fab_verbs_domain_t *first, uint32_t more)
{
    const uint32_t max = fab_params.verbs_max_connections;

    if (0 == max || fab_verbs_is_iwarp(first)) {
        return;
    }
    for (uint32_t num = num_in_use(first) + more; num > max && evict(first); num--) {
    }
}
