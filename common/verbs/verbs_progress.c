/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call of the verbs provider: take what arrived, complete what was sent, return
 * credits, move RMA on, and now and then look at the clock, and by it at sockets and peers.
 * Without a connection it costs a few loads, and 25 ns every 16 calls.
 */
#include "verbs/verbs.h"

#include "fabric/fab_clock.h"

enum {
    FAB_VERBS_CLOCK_PASSES = 16, /* progress calls between looks at the clock (25 ns) */
    /* time between looks at the sockets (0.5 us) when nothing is expected */
    FAB_VERBS_OOB_US = 1000,
    FAB_VERBS_TICK_US = 250000, /* time between looks whether peers live */
};

static __attribute__((noinline)) void cannot_poll(fab_verbs_domain_t *dom)
{
    fab_verbs_give_up(dom, "cannot be polled", "ibv_poll_cq() failed");
}

/* Returns the number of messages, at most a batch. */
static int poll_recv(fab_verbs_domain_t *dom)
{
    struct ibv_wc wcs[FAB_VERBS_BATCH];
    int n = ibv_poll_cq(dom->recv_cq, FAB_VERBS_BATCH, wcs);

    if (__builtin_expect(n < 0, 0)) {
        cannot_poll(dom);
        return 0;
    }
    dom->empty_polls += 0 == n;
    for (int i = 0; i < n && !dom->is_dead; i++) {
        fab_verbs_on_recv(dom, &wcs[i]);
    }
    if (NULL != dom->to_post) {
        fab_verbs_srq_repost(dom);
    }
    return n;
}

int fab_verbs_poll_send(fab_verbs_domain_t *dom)
{
    struct ibv_wc wcs[FAB_VERBS_BATCH];
    int n = ibv_poll_cq(dom->send_cq, FAB_VERBS_BATCH, wcs);

    if (__builtin_expect(n < 0, 0)) {
        cannot_poll(dom);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        fab_verbs_conn_t *conn = fab_verbs_conn_by_qpn(dom, wcs[i].qp_num);
        if (NULL != conn) {
            fab_verbs_conn_complete(conn, &wcs[i]);
        }
    }
    return n;
}

/* After an empty poll: completions end a sleep from now on.  What came before is polled here. */
static int prepare_to_sleep(fab_verbs_domain_t *dom)
{
    if (dom->is_dead || !fab_verbs_sleep_arm(dom)) {
        return 0;
    }
    return fab_verbs_poll_send(dom) + (NULL != dom->tm ? fab_verbs_tm_poll(dom) : poll_recv(dom));
}

/* events: of this call so far. */
static __attribute__((noinline)) int housekeeping(fab_verbs_domain_t *dom, int events)
{
    uint64_t now = fab_now_us();
    bool is_empty = 0 == events;

    if (dom == dom->first && (fab_sock_set_is_busy(dom->socks) || now >= dom->next_oob)) {
        dom->next_oob = now + FAB_VERBS_OOB_US;
        events += fab_verbs_oob_poll(dom);
    }
    if (NULL != dom->resolver) {
        fab_verbs_connect_resolved(dom);
    }
    if (!TAILQ_EMPTY(&dom->probing)) {
        fab_verbs_connect_probed(dom);
    }
    if (!TAILQ_EMPTY(&dom->waiting)) {
        fab_verbs_connect_waiting(dom);
    }
    if (!LIST_EMPTY(&dom->lingering)) {
        fab_verbs_conn_end_lingering(dom, now);
    }
    if (dom->num_ending > 0) {
        fab_verbs_ep_end_ending(dom, now);
    }
    if (now >= dom->next_tick) {
        dom->next_tick = now + FAB_VERBS_TICK_US;
        fab_verbs_tick(dom, now);
        if (dom == dom->first) {
            fab_verbs_make_room(dom, 0);
        }
    }
    if (is_empty && dom->fab->may_sleep) {
        events += prepare_to_sleep(dom);
    }
    return events;
}

void fab_verbs_is_awake(fab_domain_t *domain)
{
    for (fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain; NULL != dom; dom = dom->next) {
        dom->pass |= FAB_VERBS_CLOCK_PASSES - 1; /* the next call looks at all */
        dom->next_oob = 0;
    }
}

static int progress(fab_verbs_domain_t *dom)
{
    bool is_clock_time = 0 == ++dom->pass % FAB_VERBS_CLOCK_PASSES;
    int events = 0;

    if (NULL != dom->tm) {
        events = fab_verbs_tm_poll(dom);
    }
    if (dom->num_conns > 0 && !dom->is_dead) {
        events += NULL == dom->tm ? poll_recv(dom) : 0;
        /* unsignaled requests complete only in error */
        if (dom->num_signaled > 0 || (is_clock_time && dom->sq_used > 0)) {
            events += fab_verbs_poll_send(dom);
        }
        if (!LIST_EMPTY(&dom->due)) {
            fab_verbs_conn_send_due(dom);
        }
    }
    if (__builtin_expect(!TAILQ_EMPTY(&dom->failing), 0) && events < FAB_VERBS_BATCH) {
        events += fab_verbs_settle(dom);
    }
    if (!TAILQ_EMPTY(&dom->rma)) {
        events += fab_verbs_rma_progress(dom);
    }
    if (is_clock_time) {
        events = housekeeping(dom, events);
    }
    return events;
}

int fab_verbs_progress(fab_domain_t *domain)
{
    int events = 0;

    for (fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain; NULL != dom; dom = dom->next) {
        events += progress(dom);
    }
    return events;
}
