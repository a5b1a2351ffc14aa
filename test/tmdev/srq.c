/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive queues: those of queue pairs and shared ones. tm.c adds tag matching to the latter. */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- a queue of receives ------------------------------------------------- */

int tmdev_rq_init(tmdev_rq_t *rq, uint32_t max_wr, uint32_t max_sge)
{
    rq->size = max_wr;
    rq->max_sge = max_sge;
    if (0 == max_wr) {
        return 0;
    }
    rq->ring = calloc(max_wr, sizeof(*rq->ring));
    return NULL == rq->ring ? ENOMEM : 0;
}

void tmdev_rq_fini(tmdev_rq_t *rq)
{
    free(rq->ring);
    rq->ring = NULL;
}

int tmdev_rq_post(tmdev_rq_t *rq, const struct ibv_recv_wr *wr, const char *what)
{
    if (wr->num_sge < 0 || (uint32_t) wr->num_sge > rq->max_sge) {
        return tmdev_misuse(EINVAL, "%s: %d scatter entries, at most %u were asked for", what,
                            wr->num_sge, rq->max_sge);
    }
    /* Slots are freed by polling, so there may be more taken than waiting. */
    if (atomic_load(&rq->slots) >= rq->size) {
        return tmdev_misuse(ENOMEM, "%s: the queue of %u is full", what, rq->size);
    }
    atomic_fetch_add(&rq->slots, 1);
    tmdev_recv_t *recv = &rq->ring[(rq->head + rq->count++) % rq->size];
    recv->wr_id = wr->wr_id;
    recv->count = wr->num_sge;
    if (wr->num_sge > 0) {
        memcpy(recv->sges, wr->sg_list, (size_t) wr->num_sge * sizeof(recv->sges[0]));
    }
    return 0;
}

bool tmdev_rq_take(tmdev_rq_t *rq, tmdev_recv_t *recv)
{
    if (0 == rq->count) {
        return false;
    }
    *recv = rq->ring[rq->head];
    rq->head = (rq->head + 1) % rq->size;
    rq->count--;
    return true;
}

/* ---- shared receive queues ----------------------------------------------- */

bool tmdev_srq_take(tmdev_srq_t *srq, tmdev_recv_t *recv)
{
    if (!tmdev_rq_take(&srq->rq, recv)) {
        if (tmdev_settings()->is_rnr_misuse) {
            tmdev_misuse(0, "a message finds no receive in the SRQ");
        }
        return false;
    }
    if (srq->rq.count < srq->limit) {
        srq->limit = 0;
        tmdev_event_raise(srq->srq.context, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
    }
    return true;
}

static tmdev_srq_t *srq_new(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr)
{
    static atomic_uint numbers;
    if (attr->max_wr < 1 || attr->max_wr > TMDEV_MAX_WR - 1 || attr->max_sge > TMDEV_MAX_SGE) {
        errno = EINVAL;
        return NULL;
    }
    tmdev_srq_t *srq = tmdev_alloc(sizeof(*srq));
    if (NULL == srq || 0 != tmdev_rq_init(&srq->rq, attr->max_wr, attr->max_sge)) {
        free(srq);
        errno = ENOMEM;
        return NULL;
    }
    srq->srq.context = pd->context;
    srq->srq.srq_context = srq_context;
    srq->srq.pd = pd;
    srq->number = srq->srq.handle = atomic_fetch_add(&numbers, 1) + 1;
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    TAILQ_INIT(&srq->list);
    STAILQ_INIT(&srq->ops);
    atomic_fetch_add(&tmdev_ctx(pd->context)->objects, 1);
    atomic_fetch_add(&tmdev_pd(pd)->objects, 1);
    return srq;
}

static void srq_free(tmdev_srq_t *srq)
{
    atomic_fetch_sub(&tmdev_ctx(srq->srq.context)->objects, 1);
    atomic_fetch_sub(&tmdev_pd(srq->srq.pd)->objects, 1);
    pthread_cond_destroy(&srq->srq.cond);
    pthread_mutex_destroy(&srq->srq.mutex);
    tmdev_rq_fini(&srq->rq);
    free(srq);
}

TMDEV_PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    if (tmdev_lacks(pd->context, TMDEV_LACKS_SRQ)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (tmdev_fails(TMDEV_FAIL_SRQ)) {
        return NULL;
    }
    tmdev_srq_t *srq = srq_new(pd, attr->srq_context, &attr->attr);
    return NULL == srq ? NULL : &srq->srq;
}

/* Basic ones come by ibv_create_srq(), and there are no XRC ones. */
struct ibv_srq *tmdev_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t wanted = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                            IBV_SRQ_INIT_ATTR_TM;
    if (attr->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED ||
        0 == (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || IBV_SRQT_TM != attr->srq_type ||
        0 == tmdev_settings()->tm_tags || tmdev_lacks(context, TMDEV_LACKS_SRQ)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (wanted != (attr->comp_mask & wanted) || attr->pd->context != context ||
        attr->cq->context != context) {
        errno = tmdev_misuse(
            EINVAL,
            "ibv_create_srq_ex: a TM-SRQ needs type, protection domain, completion queue and "
            "tm_cap, of this context");
        return NULL;
    }
    if (tmdev_fails(TMDEV_FAIL_SRQ_TM)) {
        return NULL;
    }
    tmdev_srq_t *srq = srq_new(attr->pd, attr->srq_context, &attr->attr);
    if (NULL == srq) {
        return NULL;
    }
    int rc = tmdev_tm_init(srq, tmdev_cq(attr->cq), &attr->tm_cap);
    if (0 != rc) {
        srq_free(srq);
        errno = rc;
        return NULL;
    }
    return &srq->srq;
}

TMDEV_PUBLIC int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
    tmdev_srq_t *srq = tmdev_srq(ibsrq);
    tmdev_node_t *node = tmdev_ctx(ibsrq->context)->node;
    if (0 != (mask & ~IBV_SRQ_LIMIT)) {
        return 0 != (mask & IBV_SRQ_MAX_WR) ? EOPNOTSUPP : EINVAL;
    }
    tmdev_node_lock(node);
    int rc = 0 != (mask & IBV_SRQ_LIMIT) && attr->srq_limit > srq->rq.size ? EINVAL : 0;
    if (0 == rc && 0 != (mask & IBV_SRQ_LIMIT)) {
        srq->limit = attr->srq_limit;
        if (srq->rq.count < srq->limit) { /* below already */
            srq->limit = 0;
            tmdev_event_raise(ibsrq->context, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
        }
    }
    tmdev_node_unlock(node);
    return rc;
}

TMDEV_PUBLIC int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
    tmdev_srq_t *srq = tmdev_srq(ibsrq);
    tmdev_node_t *node = tmdev_ctx(ibsrq->context)->node;
    tmdev_node_lock(node);
    attr->max_wr = srq->rq.size;
    attr->max_sge = srq->rq.max_sge;
    attr->srq_limit = srq->limit;
    tmdev_node_unlock(node);
    return 0;
}

TMDEV_PUBLIC int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
    tmdev_srq_t *srq = tmdev_srq(ibsrq);
    if (0 != atomic_load(&srq->users)) {
        return tmdev_misuse(EBUSY, "ibv_destroy_srq: %u queue pairs are still attached",
                            atomic_load(&srq->users));
    }
    if (srq->is_tm) {
        tmdev_tm_fini(srq);
    }
    tmdev_event_forget(ibsrq->context, srq);
    tmdev_event_wait(&ibsrq->mutex, &ibsrq->cond, &ibsrq->events_completed, &srq->events_fetched,
                     "ibv_destroy_srq");
    srq_free(srq);
    return 0;
}

int tmdev_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    tmdev_srq_t *srq = tmdev_srq(ibsrq);
    tmdev_node_t *node = tmdev_ctx(ibsrq->context)->node;
    int rc = 0;
    tmdev_alone_begin(tmdev_alone_of(ibsrq->pd), "ibv_post_srq_recv");
    tmdev_node_lock(node);
    for (; NULL != wr; wr = wr->next) {
        rc = tmdev_rq_post(&srq->rq, wr, "ibv_post_srq_recv");
        if (0 != rc) {
            *bad = wr;
            break;
        }
        srq->posted++;
    }
    tmdev_node_unlock(node);
    tmdev_alone_end(tmdev_alone_of(ibsrq->pd));
    return rc;
}
