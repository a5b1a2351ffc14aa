/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels. The descriptor is an eventfd that counts the events which nobody fetched
 * yet, so clients may poll it and make it non-blocking; the events themselves are in a list behind
 * it, under the channel's lock.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

typedef struct waiting {
    STAILQ_ENTRY(waiting) link;
    tmdev_cq_t *cq;
} waiting_t;

typedef struct channel {
    struct ibv_comp_channel channel; /* must be first */
    pthread_mutex_t lock;
    STAILQ_HEAD(, waiting) events;
} channel_t;

int tmdev_token_fd(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
}

void tmdev_token_put(int fd)
{
    uint64_t one = 1;
    (void) !write(fd, &one, sizeof(one));
}

/* Take one without waiting, if there is one. */
void tmdev_token_drop(int fd)
{
    uint64_t count;
    struct iovec iov = {.iov_base = &count, .iov_len = sizeof(count)};
    (void) !preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

/* Take one, and wait for it unless the client made the descriptor non-blocking. -1 with errno. */
int tmdev_token_get(int fd)
{
    uint64_t count;
    return sizeof(count) == read(fd, &count, sizeof(count)) ? 0 : -1;
}

TMDEV_PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    channel_t *channel;
    if (tmdev_fails(TMDEV_FAIL_CHANNEL) || NULL == (channel = tmdev_alloc(sizeof(*channel)))) {
        return NULL;
    }
    channel->channel.context = context;
    channel->channel.fd = tmdev_token_fd();
    if (channel->channel.fd < 0) {
        free(channel);
        return NULL;
    }
    pthread_mutex_init(&channel->lock, NULL);
    STAILQ_INIT(&channel->events);
    atomic_fetch_add(&tmdev_ctx(context)->objects, 1);
    return &channel->channel;
}

TMDEV_PUBLIC int ibv_destroy_comp_channel(struct ibv_comp_channel *ibchannel)
{
    channel_t *channel = (channel_t *) ibchannel;
    pthread_mutex_lock(&ibchannel->context->mutex);
    int refs = ibchannel->refcnt;
    pthread_mutex_unlock(&ibchannel->context->mutex);
    if (0 != refs) {
        return tmdev_misuse(EBUSY, "ibv_destroy_comp_channel: %d completion queues still use it",
                            refs);
    }
    atomic_fetch_sub(&tmdev_ctx(ibchannel->context)->objects, 1);
    close(ibchannel->fd);
    pthread_mutex_destroy(&channel->lock);
    free(channel);
    return 0;
}

void tmdev_channel_notify(struct ibv_comp_channel *ibchannel, tmdev_cq_t *cq)
{
    channel_t *channel = (channel_t *) ibchannel;
    waiting_t *event = malloc(sizeof(*event));
    if (NULL == event) {
        tmdev_misuse(0, "no memory for a completion event: it is lost");
        return;
    }
    event->cq = cq;
    pthread_mutex_lock(&channel->lock);
    STAILQ_INSERT_TAIL(&channel->events, event, link);
    pthread_mutex_unlock(&channel->lock);
    tmdev_token_put(ibchannel->fd);
}

void tmdev_channel_forget(struct ibv_comp_channel *ibchannel, tmdev_cq_t *cq)
{
    channel_t *channel = (channel_t *) ibchannel;
    waiting_t *event, *next;
    pthread_mutex_lock(&channel->lock);
    for (event = STAILQ_FIRST(&channel->events); NULL != event; event = next) {
        next = STAILQ_NEXT(event, link);
        if (event->cq == cq) {
            STAILQ_REMOVE(&channel->events, event, waiting, link);
            free(event);
            tmdev_token_drop(ibchannel->fd);
        }
    }
    pthread_mutex_unlock(&channel->lock);
}

TMDEV_PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *ibchannel, struct ibv_cq **cq,
                                  void **cq_context)
{
    channel_t *channel = (channel_t *) ibchannel;
    waiting_t *event;
    do {
        if (0 != tmdev_token_get(ibchannel->fd)) {
            return -1;
        }
        pthread_mutex_lock(&channel->lock);
        event = STAILQ_FIRST(&channel->events);
        if (NULL != event) {
            STAILQ_REMOVE_HEAD(&channel->events, link);
            atomic_fetch_add(&event->cq->events_fetched, 1);
        }
        pthread_mutex_unlock(&channel->lock);
    } while (NULL == event);
    *cq = ibv_cq_ex_to_cq(&event->cq->cq);
    *cq_context = (*cq)->cq_context;
    free(event);
    return 0;
}

TMDEV_PUBLIC void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += count;
    pthread_cond_broadcast(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
