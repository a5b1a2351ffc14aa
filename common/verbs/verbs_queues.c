/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain's queues and buffers.  A process that other providers serve wholly does without them,
 * until one joins that needs them.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/fab_params.h"

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
    fab_verbs_sleep_close(dom);
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
    fab_verbs_sleep_open(dom);
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
