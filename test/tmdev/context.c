/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts: opening and closing the device, and the asynchronous events that are read from a
 * context.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

tmdev_ctx_t *tmdev_ctx(struct ibv_context *context)
{
    return (tmdev_ctx_t *) ((uint8_t *) context - offsetof(tmdev_ctx_t, v.context));
}

static int bind_mw_unsupported(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    (void) qp;
    (void) mw;
    (void) bind;
    return EOPNOTSUPP;
}

void tmdev_ctx_set_ops(struct verbs_context *v)
{
    v->sz = sizeof(*v);
    v->query_port = tmdev_query_port;
    v->query_device_ex = tmdev_query_device_ex;
    v->create_cq_ex = tmdev_create_cq_ex;
    v->create_srq_ex = tmdev_create_srq_ex;
    v->post_srq_ops = tmdev_post_srq_ops;
    v->create_qp_ex = tmdev_create_qp_ex;
    v->alloc_td = tmdev_alloc_td;
    v->dealloc_td = tmdev_dealloc_td;
    v->alloc_parent_domain = tmdev_alloc_parent_domain;
    v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    v->context.ops.bind_mw = bind_mw_unsupported;
    v->context.ops.poll_cq = tmdev_poll_cq;
    v->context.ops.req_notify_cq = tmdev_req_notify_cq;
    v->context.ops.post_srq_recv = tmdev_post_srq_recv;
    v->context.ops.post_send = tmdev_post_send;
    v->context.ops.post_recv = tmdev_post_recv;
}

TMDEV_PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (0 != (tmdev_settings()->lacks[ibv_get_device_index(device)] & TMDEV_LACKS_ACCESS)) {
        errno = EACCES;
        return NULL;
    }
    tmdev_ctx_t *ctx = tmdev_alloc(sizeof(*ctx));
    if (NULL == ctx) {
        return NULL;
    }
    tmdev_ctx_set_ops(&ctx->v);
    struct ibv_context *context = &ctx->v.context;
    context->device = device;
    context->num_comp_vectors = 1;
    pthread_mutex_init(&context->mutex, NULL);
    pthread_mutex_init(&ctx->event_lock, NULL);
    STAILQ_INIT(&ctx->events);
    context->async_fd = tmdev_token_fd();
    context->cmd_fd = tmdev_token_fd(); /* nobody reads it; some clients duplicate it */
    ctx->node = context->async_fd >= 0 && context->cmd_fd >= 0 ? tmdev_node_get() : NULL;
    if (NULL != ctx->node) {
        tmdev_node_lock(ctx->node);
        TAILQ_INSERT_TAIL(&ctx->node->contexts, ctx, link);
        tmdev_node_unlock(ctx->node);
        return context;
    }
    int error = errno;
    if (context->async_fd >= 0) {
        close(context->async_fd);
    }
    if (context->cmd_fd >= 0) {
        close(context->cmd_fd);
    }
    free(ctx);
    errno = error;
    return NULL;
}

TMDEV_PUBLIC int ibv_close_device(struct ibv_context *context)
{
    tmdev_ctx_t *ctx = tmdev_ctx(context);
    tmdev_event_t *event;
    if (0 != atomic_load(&ctx->objects)) {
        return tmdev_misuse(EBUSY, "ibv_close_device: %u objects of the context still exist",
                            atomic_load(&ctx->objects));
    }
    tmdev_node_lock(ctx->node);
    TAILQ_REMOVE(&ctx->node->contexts, ctx, link);
    tmdev_node_unlock(ctx->node);
    tmdev_node_put(ctx->node);
    while (NULL != (event = STAILQ_FIRST(&ctx->events))) {
        STAILQ_REMOVE_HEAD(&ctx->events, link);
        free(event);
    }
    close(context->async_fd);
    close(context->cmd_fd);
    pthread_mutex_destroy(&ctx->event_lock);
    pthread_mutex_destroy(&context->mutex);
    free(ctx);
    return 0;
}

/* ---- asynchronous events ------------------------------------------------- */

static void event_raise(struct ibv_context *context, const struct ibv_async_event *what)
{
    tmdev_ctx_t *ctx = tmdev_ctx(context);
    tmdev_event_t *event = tmdev_alloc(sizeof(*event));
    if (NULL == event) {
        tmdev_misuse(0, "no memory for the event %s: it is lost",
                     ibv_event_type_str(what->event_type));
        return;
    }
    event->event = *what;
    pthread_mutex_lock(&ctx->event_lock);
    STAILQ_INSERT_TAIL(&ctx->events, event, link);
    pthread_mutex_unlock(&ctx->event_lock);
    tmdev_token_put(context->async_fd);
}

void tmdev_event_raise(struct ibv_context *context, enum ibv_event_type type, void *object)
{
    /* all pointers of the union are the same */
    event_raise(context, &(struct ibv_async_event){.event_type = type, .element.qp = object});
}

void tmdev_event_raise_port(struct ibv_context *context, enum ibv_event_type type, int port)
{
    struct ibv_async_event event = {.event_type = type, .element.qp = NULL};
    event.element.port_num = port;
    event_raise(context, &event);
}

void tmdev_event_forget(struct ibv_context *context, void *object)
{
    tmdev_ctx_t *ctx = tmdev_ctx(context);
    tmdev_event_t *event, *next;
    pthread_mutex_lock(&ctx->event_lock);
    for (event = STAILQ_FIRST(&ctx->events); NULL != event; event = next) {
        next = STAILQ_NEXT(event, link);
        if ((void *) event->event.element.qp == object) {
            STAILQ_REMOVE(&ctx->events, event, tmdev_event, link);
            free(event);
            tmdev_token_drop(context->async_fd);
        }
    }
    pthread_mutex_unlock(&ctx->event_lock);
}

void tmdev_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
                      const atomic_uint *fetched, const char *what)
{
    bool has_complained = false;
    pthread_mutex_lock(mutex);
    while (*completed != atomic_load(fetched)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (ETIMEDOUT == pthread_cond_timedwait(cond, mutex, &until) && !has_complained) {
            tmdev_misuse(0, "%s waits: %u events were fetched, %u acknowledged", what,
                         atomic_load(fetched), *completed);
            has_complained = true;
        }
    }
    pthread_mutex_unlock(mutex);
}

/* What a kind of event is about: where it is counted as fetched, and acknowledged. */
static bool event_object(const struct ibv_async_event *event, atomic_uint **fetched,
                         uint32_t **completed, pthread_mutex_t **mutex, pthread_cond_t **cond)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
        tmdev_cq_t *cq = tmdev_cq(event->element.cq);
        *fetched = &cq->async_fetched;
        *completed = &cq->cq.async_events_completed;
        *mutex = &cq->cq.mutex;
        *cond = &cq->cq.cond;
        return true;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        *fetched = &tmdev_qp(event->element.qp)->events_fetched;
        *completed = &event->element.qp->events_completed;
        *mutex = &event->element.qp->mutex;
        *cond = &event->element.qp->cond;
        return true;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_SRQ_ERR:
        *fetched = &tmdev_srq(event->element.srq)->events_fetched;
        *completed = &event->element.srq->events_completed;
        *mutex = &event->element.srq->mutex;
        *cond = &event->element.srq->cond;
        return true;
    default:
        return false;
    }
}

TMDEV_PUBLIC int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
    tmdev_ctx_t *ctx = tmdev_ctx(context);
    atomic_uint *fetched;
    uint32_t *completed;
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    tmdev_event_t *event;
    do {
        if (0 != tmdev_token_get(context->async_fd)) {
            return -1;
        }
        pthread_mutex_lock(&ctx->event_lock);
        event = STAILQ_FIRST(&ctx->events);
        if (NULL != event) {
            STAILQ_REMOVE_HEAD(&ctx->events, link);
            if (event_object(&event->event, &fetched, &completed, &mutex, &cond)) {
                atomic_fetch_add(fetched, 1);
            }
        }
        pthread_mutex_unlock(&ctx->event_lock);
    } while (NULL == event);
    *out = event->event;
    free(event);
    return 0;
}

TMDEV_PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
    atomic_uint *fetched;
    uint32_t *completed;
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    if (event_object(event, &fetched, &completed, &mutex, &cond)) {
        pthread_mutex_lock(mutex);
        (*completed)++;
        pthread_cond_broadcast(cond);
        pthread_mutex_unlock(mutex);
    }
}
