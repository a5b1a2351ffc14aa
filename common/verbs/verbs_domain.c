/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A domain: what is made on one port of a device.  Its queues and buffers are made when they are
 * needed: a process that other providers serve wholly does without them, until one joins that needs
 * them.
 *
 * Completions end a sleep: both completion queues report to one channel, whose descriptor is in the
 * domain's epoll set beside the sockets.
 *
 *      an empty poll ──arm──> poll again ──> the caller may sleep
 *      completion ──event──> the descriptor is readable ──> awake ──disarm, poll
 *
 * An event costs an interrupt, so nothing is armed unless somebody may sleep (fab_t.may_sleep).
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "fabric/fab_params.h"

fab_verbs_domain_t *fab_verbs_domain_alloc(fab_t *fab, fab_verbs_domain_t *first)
{
    fab_verbs_domain_t *dom = calloc(1, sizeof(*dom));

    if (NULL == dom) {
        return NULL;
    }
    dom->fab = fab;
    dom->first = NULL != first ? first : dom;
    dom->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    dom->epoll = -1;
    TAILQ_INIT(&dom->conns);
    TAILQ_INIT(&dom->rma);
    TAILQ_INIT(&dom->failing);
    TAILQ_INIT(&dom->waiting);
    TAILQ_INIT(&dom->probing);
    return dom;
}

/*
 * All calls on queues are made with the fabric's lock held, so the driver needs no locks of its
 * own.  Some drivers can do without, and then have doorbells that they share with no other queue.
 */
static void open_thread_domain(fab_verbs_domain_t *dom)
{
    struct ibv_td_init_attr attr = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = dom->pd};

    dom->queue_pd = dom->pd;
    parent.td = ibv_alloc_td(dom->ctx, &attr);
    if (NULL == parent.td) {
        return;
    }
    dom->queue_pd = ibv_alloc_parent_domain(dom->ctx, &parent);
    if (NULL == dom->queue_pd) {
        (void) ibv_dealloc_td(parent.td);
        dom->queue_pd = dom->pd;
        return;
    }
    dom->td = parent.td;
    fab_log(dom->fab, 10, "%s: the driver takes no locks", dom->name);
}

static void close_thread_domain(fab_verbs_domain_t *dom)
{
    if (NULL != dom->td) {
        (void) ibv_dealloc_pd(dom->queue_pd);
        (void) ibv_dealloc_td(dom->td);
    }
}

const char *fab_verbs_domain_prepare(fab_verbs_domain_t *dom)
{
    (void) fcntl(dom->ctx->async_fd, F_SETFL, fcntl(dom->ctx->async_fd, F_GETFL) | O_NONBLOCK);
    dom->pd = ibv_alloc_pd(dom->ctx);
    if (NULL == dom->pd) {
        return fab_sentence(dom->fab, "%s cannot allocate a protection domain: %s.", dom->name,
                            strerror(errno));
    }
    open_thread_domain(dom);
    dom->regs = fab_reg_ops->open(&fab_verbs_reg_how, dom->pd);
    return NULL != dom->regs ? NULL : "The cache of registered memory cannot be opened.";
}

/* ---- sleep -------------------------------------------------------------- */

static void sleep_close(fab_verbs_domain_t *dom)
{
    if (NULL != dom->channel) {
        (void) ibv_destroy_comp_channel(dom->channel);
        dom->channel = NULL;
    }
    dom->is_armed = false;
}

/* What the completion queues report to.  Without it sleeps just end later. */
static void sleep_open(fab_verbs_domain_t *dom)
{
    dom->channel = ibv_create_comp_channel(dom->ctx);
    if (NULL != dom->channel && 0 != fcntl(dom->channel->fd, F_SETFL, O_NONBLOCK)) {
        sleep_close(dom);
    }
}

void fab_verbs_sleep_watch(fab_verbs_domain_t *dom)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &dom->channel};

    if (NULL != dom->channel && dom->epoll >= 0) {
        (void) epoll_ctl(dom->epoll, EPOLL_CTL_ADD, dom->channel->fd, &event);
    }
}

bool fab_verbs_sleep_arm(fab_verbs_domain_t *dom)
{
    if (NULL == dom->channel || dom->is_armed || 0 == dom->num_conns) {
        return false;
    }
    dom->is_armed = true;
    return 0 == ibv_req_notify_cq(dom->recv_cq, 0) && 0 == ibv_req_notify_cq(dom->send_cq, 0);
}

void fab_verbs_sleep_disarm(fab_verbs_domain_t *dom)
{
    struct ibv_cq *cq;
    void *ctx;

    while (NULL != dom->channel && 0 == ibv_get_cq_event(dom->channel, &cq, &ctx)) {
        ibv_ack_cq_events(cq, 1);
    }
    dom->is_armed = false;
}

/* ---- queues and buffers --------------------------------------------------- */

/* NULL: errno. */
static struct ibv_cq *cq_create(fab_verbs_domain_t *dom, uint32_t cqe)
{
    struct ibv_cq_init_attr_ex init = {
        .cqe = cqe,
        .channel = dom->channel,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
        .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    };
    struct ibv_cq_ex *cq = NULL != dom->td ? ibv_create_cq_ex(dom->ctx, &init) : NULL;

    return NULL != cq ? ibv_cq_ex_to_cq(cq)
                      : ibv_create_cq(dom->ctx, (int) cqe, NULL, dom->channel, 0);
}

static const char *cq_open(fab_verbs_domain_t *dom)
{
    uint32_t max = (uint32_t) dom->device.max_cqe;

    dom->sq_used_max = fab_verbs_min(max / 2, FAB_VERBS_SQ_USED_MAX);
    dom->send_cq = cq_create(dom, 2 * dom->sq_used_max);
    /* on standby the list would not be used: its user looks for one at the start alone */
    if (NULL != dom->send_cq && (dom->is_standby || !fab_verbs_tm_open(dom))) {
        dom->recv_cq = cq_create(dom, fab_verbs_min(fab_params.verbs_buffers, max));
    }
    if (NULL == dom->send_cq || NULL == dom->recv_cq) {
        return fab_sentence(dom->fab, "%s cannot make completion queues: %s.", dom->name,
                            strerror(errno));
    }
    return NULL;
}

static const char *send_bufs_open(fab_verbs_domain_t *dom)
{
    fab_verbs_pool_init(&dom->send_pool, dom->pd, fab_verbs_eager(), fab_params.verbs_buffers);
    return OPAL_SUCCESS == fab_verbs_pool_grow(&dom->send_pool, FAB_VERBS_CHUNK_BUFS)
               ? NULL
               : fab_verbs_no_bufs(dom, FAB_VERBS_CHUNK_BUFS * dom->send_pool.buf_size);
}

/* A READ of the first half, into the peer's second, proves that a path takes long packets. */
static const char *page_open(fab_verbs_domain_t *dom)
{
    void *page = mmap(NULL, 2 * FAB_VERBS_PACKET, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (MAP_FAILED == page) {
        return fab_verbs_no_bufs(dom, 2 * FAB_VERBS_PACKET);
    }
    dom->page = page;
    dom->page_mr = ibv_reg_mr(dom->pd, page, 2 * FAB_VERBS_PACKET,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    return NULL != dom->page_mr ? NULL : fab_verbs_no_bufs(dom, 2 * FAB_VERBS_PACKET);
}

static void page_close(fab_verbs_domain_t *dom)
{
    if (NULL != dom->page_mr) {
        (void) ibv_dereg_mr(dom->page_mr);
    }
    if (NULL != dom->page) {
        munmap(dom->page, 2 * FAB_VERBS_PACKET);
    }
    dom->page_mr = NULL;
    dom->page = NULL;
}

/* What was not made is NULL. */
void fab_verbs_stop(fab_verbs_domain_t *dom)
{
    if (NULL != dom->srq) {
        (void) ibv_destroy_srq(dom->srq);
    }
    if (NULL != dom->send_cq) {
        (void) ibv_destroy_cq(dom->send_cq);
    }
    if (NULL != dom->recv_cq) {
        (void) ibv_destroy_cq(dom->recv_cq);
    }
    dom->srq = NULL;
    dom->send_cq = dom->recv_cq = NULL;
    sleep_close(dom);
    dom->to_post = NULL;
    fab_verbs_tm_close(dom);
    fab_verbs_pool_fini(&dom->send_pool);
    fab_verbs_pool_fini(&dom->recv_pool);
    page_close(dom);
}

const char *fab_verbs_start(fab_verbs_domain_t *dom)
{
    const char *why;

    if (dom->is_dead) {
        return fab_sentence(dom->fab, "%s here failed.", dom->name);
    }
    if (dom->is_started) {
        return NULL;
    }
    sleep_open(dom);
    why = cq_open(dom);
    why = NULL == why ? fab_verbs_srq_open(dom) : why;
    why = NULL == why ? send_bufs_open(dom) : why;
    why = NULL == why ? page_open(dom) : why;
    dom->is_started = NULL == why;
    if (!dom->is_started) {
        fab_verbs_stop(dom);
    }
    fab_verbs_sleep_watch(dom);
    return why;
}

void fab_verbs_domain_free(fab_verbs_domain_t *dom)
{
    fab_verbs_stop(dom);
    if (NULL != dom->regs) {
        fab_reg_ops->close(dom->regs);
    }
    close_thread_domain(dom);
    if (NULL != dom->pd) {
        (void) ibv_dealloc_pd(dom->pd);
    }
    if (NULL != dom->ctx) {
        (void) ibv_close_device(dom->ctx);
    }
    free(dom);
}
