/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call of the tcp provider: read what came, and write what is queued.
 *
 * An empty poll costs a system call, so polls are rationed:
 *
 *  - The connection that received last is hot: most polls read only that one.  Every
 *    FAB_TCP_EPOLL_PERIOD-th poll covers all connections by epoll.  When another one becomes hot,
 *    that is every poll at first, then every third, and so on.
 *  - After FAB_TCP_MUTE_READS reads of the same hot connection it is muted: epoll is not told of
 *    its data.  That would cost the kernel some time for each message, and the next epoll_wait().
 *  - After each FAB_TCP_IDLE_POLLS empty polls in a row, one more progress call goes by between two
 *    polls, up to FAB_TCP_IDLE_PERIOD.  Each message sent or received makes every call poll again.
 *    For a program that calls seldom, the time counts as well: FAB_TCP_LATE_US.
 *  - Where other providers reach all of the job, and no connection was made, one poll in
 *    FAB_TCP_STANDBY_US looks for processes that have joined it.
 *  - When other providers have had no event for FAB_TCP_ALONE_POLLS polls, every call polls: there
 *    is nothing that a poll would delay.
 *
 * A poll holds the lock.  So it reads FAB_TCP_READ_MAX bytes from the hot connection, and as many
 * from all, before it begins no further read, and also stops when a handler says so (must_return).
 * What is left stays in the kernel; the next poll of all begins with another connection.
 *
 * Where waiting processes yield the processor, every call polls, since the next one may be a time
 * slice away; and after an empty poll each covers all connections, by one epoll_wait().
 */
#include "tcp/tcp.h"

#include <sys/epoll.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

static void set_hot(fab_tcp_domain_t *dom, fab_tcp_ep_t *ep)
{
    if (NULL != dom->hot) {
        fab_tcp_watch_mute(dom->hot, false);
    }
    dom->hot = ep;
    dom->hot_reads = 0;
    dom->period = 0; /* doubled by the next poll of all */
}

/* The hot connection.  A sleeping process must be woken by its messages. */
static int poll_hot(fab_tcp_domain_t *dom)
{
    int events;

    dom->budget = FAB_TCP_READ_MAX;
    events = fab_tcp_stream_read(dom->hot);
    if (events > 0 && ++dom->hot_reads == FAB_TCP_MUTE_READS && NULL != dom->hot &&
        !dom->fab->is_yielding && !dom->fab->may_sleep) {
        fab_tcp_watch_mute(dom->hot, true);
    }
    return events;
}

static int on_event(fab_tcp_domain_t *dom, fab_tcp_ep_t *ep, uint32_t events)
{
    int n = 0;

    if (!fab_tcp_is_up(ep)) {
        return 0; /* a link that was closed after epoll_wait() */
    }
    if (0 != (events & EPOLLOUT)) {
        fab_tcp_stream_unblock(ep);
        n++;
    }
    if (!fab_tcp_is_up(ep)) {
        return n;
    }
    if (ep->is_paused) {
        /* what it waits for comes no more if the peer has gone, and a link with it */
        if (0 != (events & EPOLLERR) ||
            (0 != (events & (EPOLLHUP | EPOLLRDHUP)) && fab_tcp_stripe_is_lost(ep))) {
            fab_tcp_stream_broken(ep);
        }
        return n;
    }
    if (0 != (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) && !ep->is_eof) {
        if (ep != dom->hot) {
            set_hot(dom, ep);
        }
        return n + fab_tcp_stream_read(ep);
    }
    fab_tcp_connect_end_if_done(ep);
    return n;
}

/*
 * Is it time to see whether all peers answer?  Then do so: FAB_TCP_CHECK_PEERS in a poll, since
 * each takes a system call.
 */
static void check_peers(fab_tcp_domain_t *dom)
{
    const uint64_t now = fab_now_us();

    if (now >= dom->next_check && NULL == dom->to_check) {
        dom->next_check = now + (uint64_t) fab_params.tcp_timeout * 1000000 / FAB_SOCK_CHECKS;
        dom->to_check = LIST_FIRST(&dom->eps);
    }
    for (int i = 0; i < FAB_TCP_CHECK_PEERS && NULL != dom->to_check; i++) {
        fab_tcp_ep_t *ep = dom->to_check;
        dom->to_check = LIST_NEXT(ep, entry);
        if (fab_tcp_is_up(ep)) {
            fab_tcp_links_check(ep);
            fab_tcp_stream_check(ep); /* ep may be gone */
        }
    }
}

static int poll_all(fab_tcp_domain_t *dom)
{
    struct epoll_event events[FAB_TCP_EVENTS];
    int n = epoll_wait(dom->epoll, events, FAB_TCP_EVENTS, 0);
    int sum = 0;

    dom->polls = 0;
    dom->alls++;
    dom->budget = FAB_TCP_READ_MAX;
    dom->period = dom->period < FAB_TCP_EPOLL_PERIOD / 2 ? 2 * dom->period + 1
                                                         : FAB_TCP_EPOLL_PERIOD;
    for (int i = 0; i < n && dom->budget > 0 && (0 == i || !dom->fab->must_return); i++) {
        const struct epoll_event *event = &events[(dom->alls + (uint32_t) i) % (uint32_t) n];
        if (NULL != event->data.ptr) {
            sum += on_event(dom, event->data.ptr, event->events);
        }
    }
    if (n > 0 || fab_sock_set_is_busy(dom->socks)) {
        sum += fab_sock_set_poll(dom->socks);
    }
    if (!LIST_EMPTY(&dom->dead)) {
        fab_tcp_links_reap(dom);
    }
    check_peers(dom);
    return sum;
}

/* Have other providers had no event for many polls? */
static bool others_are_idle(fab_tcp_domain_t *dom)
{
    uint32_t others = dom->fab->events - dom->events;

    if (others != dom->others) {
        dom->others = others;
        dom->alone_polls = 0;
    } else if (dom->alone_polls < FAB_TCP_ALONE_POLLS) {
        dom->alone_polls++;
    }
    return FAB_TCP_ALONE_POLLS == dom->alone_polls;
}

/* When to poll again.  On standby without a connection, the clock alone decides. */
static void plan(fab_tcp_domain_t *dom, int events)
{
    uint32_t max = dom->num_up > 0 || fab_sock_set_is_busy(dom->socks) ? FAB_TCP_IDLE_PERIOD
                                                                       : FAB_TCP_ALONE_PERIOD;
    uint32_t period;

    if (dom->is_standby && 0 == dom->num_up && !fab_sock_set_is_busy(dom->socks)) {
        dom->next_poll = dom->pass + INT32_MAX;
        dom->poll_by = fab_now_us() + FAB_TCP_STANDBY_US;
        return;
    }
    if (others_are_idle(dom) || dom->fab->is_yielding) {
        max = dom->num_up > 0 ? 1 : max;
    }
    dom->empty_polls = events > 0 ? 0 : dom->empty_polls + 1;
    period = 1 + dom->empty_polls / FAB_TCP_IDLE_POLLS;
    period = period < max ? period : max;
    dom->next_poll = dom->pass + period;
    dom->poll_by = period < FAB_TCP_LATE_CALLS ? UINT64_MAX : fab_now_us() + FAB_TCP_LATE_US;
}

/* Are the calls so far apart that this one is to poll, although others did not? */
static bool is_late(const fab_tcp_domain_t *dom)
{
    return 0 == dom->pass % FAB_TCP_LATE_CALLS && UINT64_MAX != dom->poll_by &&
           fab_now_us() >= dom->poll_by;
}

/*
 * Is it time to poll all connections?  What just came by the hot one is answered first, but not for
 * ever.
 */
static bool is_all_due(const fab_tcp_domain_t *dom, int events)
{
    return NULL == dom->hot || dom->num_blocked > 0 ||
           dom->polls >= (events > 0 ? 2 * dom->period : dom->period);
}

/* Poll, and plan the next poll. */
static int poll_now(fab_tcp_domain_t *dom, int events)
{
    bool is_for_all = dom->fab->is_yielding && dom->empty_polls > 0;

    if (NULL != dom->hot && (!is_for_all || dom->hot->is_muted)) {
        events += poll_hot(dom);
    }
    dom->polls++;
    if (is_all_due(dom, events) || is_for_all) {
        events += poll_all(dom);
    }
    if (NULL != dom->done) {
        events += fab_tcp_complete(dom);
    }
    plan(dom, events);
    return events;
}

int fab_tcp_progress(fab_domain_t *domain)
{
    fab_tcp_domain_t *dom = (fab_tcp_domain_t *) domain;
    int events = 0;

    dom->pass++;
    if (NULL != dom->done) {
        events = fab_tcp_complete(dom);
    }
    if (__builtin_expect((int32_t) (dom->pass - dom->next_poll) >= 0, 0) || is_late(dom)) {
        events = poll_now(dom, events);
    }
    dom->events += (uint32_t) events;
    return events;
}
