/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions that end a sleep: both completion queues report to one channel, whose descriptor is
 * in the domain's epoll set beside the sockets.
 *
 *      an empty poll ──arm──> poll again ──> the caller may sleep
 *      completion ──event──> the descriptor is readable ──> awake ──disarm, poll
 *
 * An event costs an interrupt, so nothing is armed unless somebody may sleep (fab_t.may_sleep).
 */
#include "verbs/verbs.h"

#include <fcntl.h>
#include <sys/epoll.h>

void fab_verbs_sleep_open(fab_verbs_domain_t *dom)
{
    dom->channel = ibv_create_comp_channel(dom->ctx);
    if (NULL != dom->channel && 0 != fcntl(dom->channel->fd, F_SETFL, O_NONBLOCK)) {
        fab_verbs_sleep_close(dom);
    }
}

void fab_verbs_sleep_close(fab_verbs_domain_t *dom)
{
    if (NULL != dom->channel) {
        (void) ibv_destroy_comp_channel(dom->channel);
        dom->channel = NULL;
    }
    dom->is_armed = false;
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
