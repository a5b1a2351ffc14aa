/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared receive queue and its buffers.
 *
 * Windows.  Each message that a peer may send has a receive buffer.  A peer may keep what HELLO or
 * WELCOME has granted it: its share of half of the buffers, by the connections that are expected.
 * The other half is for those that are busy.  Each of the two changes a window in one direction, by
 * a difference that CREDIT tells, so that both may do so at once:
 *
 *      receiver   grants more when it has taken several windows in a tick; noted before it is
 *                 told, so there is a buffer for it
 *      sender     gives that back when it has sent nothing for FAB_VERBS_QUIET ticks: what it sent
 *                 before comes before CREDIT, and is in the count of what it may send
 *
 * Only where connections are so many that WINDOW_MIN for each is more than all buffers, or where
 * memory cannot be locked, may a message find none: the device answers RNR, and the sender retries
 * without limit.  iWARP has no RNR: such a message would end the connection, so there is none then.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "fabric/fab_params.h"

enum {
    /* receive buffers beyond the windows: credits, and what waits to be posted again */
    FAB_VERBS_SLACK_BUFS = 64,
    FAB_VERBS_WINDOW_MIN = 4,
    /* iWARP: a peer's own messages that may be on their way: CREDIT four times, CLOSE, LEAVE */
    FAB_VERBS_OWN_MSGS = 6,
    /* what is left should do for so many connections more, and for so many wider windows */
    FAB_VERBS_SHARES = 32,
    FAB_VERBS_RAISES = 8,
    FAB_VERBS_BUSY = 4, /* windows in a tick: it is too small */
};

void fab_verbs_srq_repost(fab_verbs_domain_t *dom)
{
    if (NULL != dom->tm && fab_verbs_tm_must_hold(dom)) {
        return;
    }
    while (NULL != dom->to_post) {
        struct ibv_recv_wr wrs[FAB_VERBS_BATCH], *bad = NULL;
        struct ibv_sge sges[FAB_VERBS_BATCH];
        fab_verbs_buf_t *first = dom->to_post;
        int n = 0;
        for (fab_verbs_buf_t *buf = first; NULL != buf && n < FAB_VERBS_BATCH;
             buf = buf->next, n++) {
            sges[n] = (struct ibv_sge){(uintptr_t) buf->data, (uint32_t) dom->recv_pool.buf_size,
                                       buf->lkey};
            wrs[n] = (struct ibv_recv_wr){
                .wr_id = (uintptr_t) buf, .next = &wrs[n + 1], .sg_list = &sges[n], .num_sge = 1};
        }
        wrs[n - 1].next = NULL;
        int rc = ibv_post_srq_recv(dom->srq, wrs, &bad);
        int posted = 0 == rc ? n : (int) (bad - wrs);
        for (int i = 0; i < posted; i++) {
            dom->to_post->is_posted = true;
            dom->to_post = dom->to_post->next;
        }
        if (0 != rc) {
            return; /* no room now: the next call tries again */
        }
    }
}

/* Make num more receive buffers, and post them. */
static int srq_add(fab_verbs_domain_t *dom, uint32_t num)
{
    fab_verbs_pool_t *pool = &dom->recv_pool;
    int rc = fab_verbs_pool_grow(pool, num);

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    for (fab_verbs_buf_t *buf; NULL != (buf = fab_verbs_pool_get(pool));) {
        buf->next = dom->to_post;
        dom->to_post = buf;
    }
    fab_verbs_srq_repost(dom);
    return OPAL_SUCCESS;
}

static const char *srq_create(fab_verbs_domain_t *dom)
{
    uint32_t want = fab_params.verbs_buffers;
    struct ibv_srq_init_attr init = {.attr = {.max_sge = 1}};

    want = fab_verbs_min(want, (uint32_t) dom->device.max_srq_wr);
    want = fab_verbs_min(want, (uint32_t) dom->device.max_cqe);
    init.attr.max_wr = want;
    dom->srq = dom->device.max_srq > 0 ? ibv_create_srq(dom->queue_pd, &init) : NULL;
    if (NULL == dom->srq) {
        return fab_sentence(dom->fab, "%s cannot make a shared receive queue of %u buffers: %s.",
                            dom->name, want,
                            dom->device.max_srq > 0 ? strerror(errno) : "it has none");
    }
    dom->max_recv_bufs = want;
    return NULL;
}

const char *fab_verbs_no_bufs(const fab_verbs_domain_t *dom, size_t size)
{
    return fab_sentence(dom->fab,
                        "%s: %zu bytes for messages cannot be registered: %s. Is the limit on "
                        "locked memory (ulimit -l) too low?",
                        dom->name, size, strerror(errno));
}

const char *fab_verbs_srq_open(fab_verbs_domain_t *dom)
{
    const char *why = NULL != dom->tm ? NULL : srq_create(dom);
    uint32_t num;

    if (NULL != why) {
        return why;
    }
    fab_verbs_pool_init(&dom->recv_pool, dom->pd, fab_verbs_eager(), 0);
    num = fab_verbs_min(FAB_VERBS_SLACK_BUFS + dom->max_requested, dom->max_recv_bufs);
    return OPAL_SUCCESS == srq_add(dom, num)
               ? NULL
               : fab_verbs_no_bufs(dom, num * dom->recv_pool.buf_size);
}

/* ---- windows ------------------------------------------------------------ */

/* Receive buffers beyond what peers were granted: so many messages more may be. */
static uint32_t num_free(const fab_verbs_domain_t *dom)
{
    const uint32_t own = fab_verbs_is_iwarp(dom) ? FAB_VERBS_OWN_MSGS * dom->num_conns : 0;
    const uint32_t used = FAB_VERBS_SLACK_BUFS + dom->max_requested + own + dom->granted;

    return used < dom->max_recv_bufs ? dom->max_recv_bufs - used : 0;
}

static void add(fab_verbs_conn_t *conn, uint32_t num)
{
    conn->granted = (uint16_t) (conn->granted + num);
    conn->dom->granted += num;
}

/* That many messages more, each with a buffer.  False: there are not so many. */
static bool grant(fab_verbs_conn_t *conn, uint32_t num)
{
    fab_verbs_domain_t *dom = conn->dom;
    const uint32_t have = dom->recv_pool.num, left = num_free(dom);
    uint32_t need;

    if (num > left) {
        return false;
    }
    need = dom->max_recv_bufs - left + num;
    if (need > have) {
        need = need - have > fab_limits.verbs_window ? need - have : fab_limits.verbs_window;
        if (OPAL_SUCCESS != srq_add(dom, fab_verbs_min(need, dom->max_recv_bufs - have))) {
            fab_counters.verbs_locked_memory++;
            dom->max_recv_bufs = have; /* each try would cost a system call */
            return false;
        }
    }
    add(conn, num);
    return true;
}

/* What each of those that are expected may keep, if they keep half of the buffers together. */
static uint32_t share(const fab_verbs_domain_t *dom)
{
    const uint32_t expected = fab_verbs_num_expected(dom);
    const uint32_t num = expected > dom->num_conns ? expected : dom->num_conns;

    return fab_verbs_min(dom->max_recv_bufs / 2 / num, fab_limits.verbs_window);
}

bool fab_verbs_srq_grant(fab_verbs_conn_t *conn)
{
    fab_verbs_domain_t *dom = conn->dom;
    const uint32_t wanted = share(dom);
    uint32_t window = fab_verbs_min(num_free(dom) / FAB_VERBS_SHARES, wanted);

    window = window > FAB_VERBS_WINDOW_MIN ? window : FAB_VERBS_WINDOW_MIN;
    if (NULL != conn->ep->main) {
        add(conn, FAB_VERBS_RAIL_WINDOW);
    } else if (!grant(conn, window)) {
        if (fab_verbs_is_iwarp(dom)) {
            return false;
        }
        add(conn, FAB_VERBS_WINDOW_MIN); /* RNR */
        fab_counters.small_windows++;
    } else {
        fab_counters.small_windows += window < wanted;
    }
    conn->base = conn->granted;
    return true;
}

void fab_verbs_srq_follow(fab_verbs_conn_t *conn)
{
    const uint32_t limit = fab_limits.verbs_window, taken = conn->ep->ses.consumed;
    uint32_t num;

    if (conn->granted < limit &&
        taken - conn->seen_consumed >= (uint32_t) FAB_VERBS_BUSY * conn->granted) {
        num = fab_verbs_min(num_free(conn->dom) / FAB_VERBS_RAISES, limit - conn->granted);
        if (num > 0 && grant(conn, num)) {
            conn->to_grant = (uint16_t) (conn->to_grant + num);
        }
    }
}
