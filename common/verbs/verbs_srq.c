/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared receive queue and its buffers.
 *
 * Each connection is granted a window, and with each come as many receive buffers as its window, up
 * to the user's limit; beyond that the windows of new connections are smaller.  A sender within its
 * window normally finds a buffer.  When buffers run out (the limit is reached, memory cannot be
 * locked), the device answers RNR, and the sender retries without limit.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

enum {
    /* receive buffers beyond the windows: credits, and what waits to be posted again */
    FAB_VERBS_SLACK_BUFS = 64,
    FAB_VERBS_WINDOW_MIN = 4,
    /* iWARP: a peer's own messages that may be on their way: CREDIT twice, CLOSE, LEAVE */
    FAB_VERBS_OWN_MSGS = 4,
    /* iWARP: connections that the buffers still to be had should do for */
    FAB_VERBS_CM_SHARES = 64,
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

/*
 * iWARP has no RNR: a message that finds no buffer ends the connection.  So every window has its
 * buffers, windows get smaller as buffers get rare, and none are given when they are used up.
 */
static uint16_t srq_grant_all(fab_verbs_domain_t *dom)
{
    uint32_t need = FAB_VERBS_SLACK_BUFS, window;
    const fab_verbs_conn_t *conn;

    TAILQ_FOREACH(conn, &dom->conns, link) {
        need += conn->granted > 0 ? conn->granted + FAB_VERBS_OWN_MSGS : 0;
    }
    window = need < dom->max_recv_bufs ? (dom->max_recv_bufs - need) / FAB_VERBS_CM_SHARES : 0;
    window = fab_verbs_min(window > FAB_VERBS_WINDOW_MIN ? window : FAB_VERBS_WINDOW_MIN,
                           fab_limits.verbs_window);
    need += window + FAB_VERBS_OWN_MSGS;
    if (need > dom->max_recv_bufs ||
        (need > dom->recv_pool.num && OPAL_SUCCESS != srq_add(dom, need - dom->recv_pool.num))) {
        return 0;
    }
    fab_counters.small_windows += window < fab_limits.verbs_window;
    return (uint16_t) window;
}

uint16_t fab_verbs_srq_grant(fab_verbs_domain_t *dom)
{
    uint32_t window = fab_limits.verbs_window;
    uint32_t left = dom->max_recv_bufs - dom->recv_pool.num;
    uint32_t more = fab_verbs_min(window, left);
    uint32_t share = dom->max_recv_bufs / (dom->num_conns > 0 ? dom->num_conns : 1);

    if (dom->cm_ops->is_iwarp) {
        return srq_grant_all(dom);
    }
    if (dom->recv_pool.num >= FAB_VERBS_SLACK_BUFS + dom->max_requested + dom->num_conns * window) {
        return (uint16_t) window; /* an earlier connection left its buffers */
    }
    if (more > 0 && OPAL_SUCCESS != srq_add(dom, more)) {
        fab_counters.verbs_locked_memory++;
        more = 0;
    }
    if (more == window) {
        return (uint16_t) window;
    }
    fab_counters.small_windows++;
    share = fab_verbs_min(share, window);
    return (uint16_t) (share > FAB_VERBS_WINDOW_MIN ? share : FAB_VERBS_WINDOW_MIN);
}
