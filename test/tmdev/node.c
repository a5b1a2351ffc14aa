/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process as a node of the fabric: its number, its lock, its timers, and the device thread
 * that does all work which no client's call does. The thread sleeps in epoll_wait() and wakes for
 * frames, room to send, timers, and tmdev_node_wake(). A client that finds a completion queue empty
 * does the thread's work itself, which saves two changes of context per message where clients spin;
 * the thread then only looks in now and then, and takes over within a millisecond when they stop.
 *
 * There is one node as long as a context is open. A forked child has none of its own until it opens
 * the device; its copies of the parent's descriptors are closed at once, so that the parent's death
 * is seen by its peers.
 */
#include "tmdev.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define POLLS_PER_YIELD 16

/* The node of this process and the number of its users, under node_lock. */
static tmdev_node_t *the_node;
static uint32_t node_users;
static pthread_mutex_t node_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- timers -------------------------------------------------------------- */

void tmdev_timer_init(tmdev_timer_t *timer, void (*fire)(void *), void *object)
{
    timer->is_armed = false;
    timer->fire = fire;
    timer->object = object;
}

/* Let the descriptor become readable at the first timer's time. */
static void set_timer_fd(tmdev_node_t *node)
{
    struct itimerspec when = {0};
    tmdev_timer_t *first = TAILQ_FIRST(&node->timers);
    if (NULL != first) {
        when.it_value.tv_sec = (time_t) (first->due_us / 1000000u);
        when.it_value.tv_nsec = (long) (first->due_us % 1000000u * 1000u);
    }
    (void) timerfd_settime(node->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void tmdev_timer_arm(tmdev_node_t *node, tmdev_timer_t *timer, uint64_t delay_us)
{
    tmdev_timer_t *other;
    if (timer->is_armed) {
        TAILQ_REMOVE(&node->timers, timer, link);
    }
    timer->is_armed = true;
    timer->due_us = tmdev_now_us() + delay_us;
    TAILQ_FOREACH_REVERSE(other, &node->timers, tmdev_timers, link) {
        if (other->due_us <= timer->due_us) {
            TAILQ_INSERT_AFTER(&node->timers, other, timer, link);
            return;
        }
    }
    TAILQ_INSERT_HEAD(&node->timers, timer, link);
    set_timer_fd(node);
}

void tmdev_timer_cancel(tmdev_node_t *node, tmdev_timer_t *timer)
{
    if (timer->is_armed) {
        timer->is_armed = false;
        TAILQ_REMOVE(&node->timers, timer, link);
    }
}

static void run_timers(tmdev_node_t *node)
{
    uint64_t count, now = tmdev_now_us();
    tmdev_timer_t *timer;
    (void) !read(node->timer_fd, &count, sizeof(count));
    while (NULL != (timer = TAILQ_FIRST(&node->timers)) && timer->due_us <= now) {
        tmdev_timer_cancel(node, timer);
        timer->fire(timer->object);
    }
    set_timer_fd(node);
}

/* ---- the device thread --------------------------------------------------- */

void tmdev_node_wake(tmdev_node_t *node)
{
    uint64_t one = 1;
    (void) !write(node->wake_fd, &one, sizeof(one));
}

/* Let everybody who can transmit do so for a turn. */
static void run_ready(tmdev_node_t *node)
{
    tmdev_qp_t *qp, *last = TAILQ_LAST(&node->ready, tmdev_qps);
    while (NULL != (qp = TAILQ_FIRST(&node->ready))) {
        tmdev_qp_unready(qp);
        tmdev_recv_progress(qp);
        tmdev_send_progress(qp);
        if (qp == last) {
            break;
        }
    }
}

static void run_acks(tmdev_node_t *node)
{
    tmdev_qp_t *qp;
    while (NULL != (qp = TAILQ_FIRST(&node->acks))) {
        tmdev_recv_ack(qp);
    }
}

static void close_broken(tmdev_node_t *node)
{
    tmdev_conn_t *conn = TAILQ_FIRST(&node->conns), *next;
    for (; NULL != conn; conn = next) {
        next = TAILQ_NEXT(conn, link);
        if (conn->is_broken) {
            tmdev_conn_close(conn);
        }
    }
}

static void handle_event(tmdev_node_t *node, const struct epoll_event *event)
{
    if (event->data.ptr == &node->wake_fd) {
        uint64_t count;
        (void) !read(node->wake_fd, &count, sizeof(count));
        return;
    }
    if (event->data.ptr == &node->timer_fd || event->data.ptr == &node->listen_fd) {
        tmdev_node_lock(node);
        if (event->data.ptr == &node->timer_fd) {
            run_timers(node);
        } else {
            tmdev_conn_accept(node);
        }
        tmdev_node_unlock(node);
        return;
    }
    tmdev_conn_t *conn = event->data.ptr;
    if (0 != (event->events & EPOLLOUT)) {
        tmdev_node_lock(node);
        tmdev_conn_flush(conn);
        tmdev_node_unlock(node);
    }
    if (0 != (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        tmdev_conn_read(conn);
    }
}

/*
 * Handle all that has come up, without waiting. true if there is more to do at once. Under
 * progress_lock.
 */
static bool take_turn(tmdev_node_t *node)
{
    struct epoll_event events[32];
    int n = epoll_wait(node->epoll_fd, events, 32, 0);
    for (int i = 0; i < n; i++) {
        handle_event(node, &events[i]);
    }
    tmdev_node_lock(node);
    run_acks(node);
    run_ready(node);
    close_broken(node);
    bool is_busy = !TAILQ_EMPTY(&node->ready);
    tmdev_node_unlock(node);
    return is_busy;
}

void tmdev_node_polled(tmdev_node_t *node, bool is_empty)
{
    if (!tmdev_settings()->has_poll_progress) {
        return;
    }
    unsigned long polls = atomic_fetch_add_explicit(&node->polls, 1, memory_order_relaxed);
    if (is_empty && 0 == polls % POLLS_PER_YIELD) {
        sched_yield(); /* what a client spins for may have to run on its processor */
    }
    if (is_empty && 0 == pthread_mutex_trylock(&node->progress_lock)) {
        (void) take_turn(node);
        pthread_mutex_unlock(&node->progress_lock);
    } else if (is_empty) {
        /* So that TSan knows: what the thread has written until now is older than this poll. */
        tmdev_node_lock(node);
        tmdev_node_unlock(node);
    }
}

/*
 * Sleep until there is something to do, or, while clients poll and so do the work themselves, for a
 * moment. Whoever armed a completion queue is about to sleep, not to poll.
 */
static void wait_for_work(tmdev_node_t *node, unsigned long *polls_seen)
{
    struct epoll_event event;
    struct pollfd woken = {.fd = node->wake_fd, .events = POLLIN};
    unsigned long polls = atomic_load_explicit(&node->polls, memory_order_relaxed);
    if (polls != *polls_seen && 0 == atomic_load(&node->armed)) {
        *polls_seen = polls;
        (void) poll(&woken, 1, 1);
    } else {
        (void) epoll_wait(node->epoll_fd, &event, 1, -1);
    }
}

static void *device_thread(void *arg)
{
    tmdev_node_t *node = arg;
    unsigned long polls_seen = 0;
    bool is_busy = false;
    while (!atomic_load(&node->is_stopping)) {
        if (!is_busy) {
            wait_for_work(node, &polls_seen);
        }
        pthread_mutex_lock(&node->progress_lock);
        is_busy = take_turn(node);
        pthread_mutex_unlock(&node->progress_lock);
    }
    return NULL;
}

static int start_thread(tmdev_node_t *node)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the client's */
    int rc = pthread_create(&node->thread, NULL, device_thread, node);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (0 == rc) {
        pthread_setname_np(node->thread, "tmdev");
    }
    return rc;
}

/* ---- the node ------------------------------------------------------------ */

static void watch(tmdev_node_t *node, int *fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};
    (void) epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, *fd, &event);
}

static void close_fds(tmdev_node_t *node)
{
    tmdev_conn_t *conn;
    TAILQ_FOREACH(conn, &node->conns, link) {
        close(conn->fd);
    }
    close(node->epoll_fd);
    close(node->wake_fd);
    close(node->timer_fd);
    if (node->listen_fd >= 0) {
        close(node->listen_fd);
    }
}

static tmdev_node_t *node_open(void)
{
    tmdev_node_t *node = tmdev_alloc(sizeof(*node));
    if (NULL == node) {
        return NULL;
    }
    pthread_mutex_init(&node->lock, NULL);
    pthread_mutex_init(&node->progress_lock, NULL);
    TAILQ_INIT(&node->conns);
    TAILQ_INIT(&node->timers);
    TAILQ_INIT(&node->ready);
    TAILQ_INIT(&node->acks);
    TAILQ_INIT(&node->tm_srqs);
    TAILQ_INIT(&node->contexts);
    tmdev_faults_init(node);
    node->next_qp = 1;
    node->next_mr = 1;
    node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    node->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    node->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    node->listen_fd = tmdev_listen(node);
    if (node->epoll_fd < 0 || node->wake_fd < 0 || node->timer_fd < 0 || node->listen_fd < 0) {
        goto err_close;
    }
    watch(node, &node->wake_fd);
    watch(node, &node->timer_fd);
    watch(node, &node->listen_fd);
    errno = start_thread(node);
    if (0 == errno) {
        return node;
    }
err_close:;
    int error = errno;
    close_fds(node);
    free(node);
    errno = error;
    return NULL;
}

/* What was written must have left: peers may still wait for the last acknowledgements. */
static void flush_conns(tmdev_node_t *node)
{
    tmdev_conn_t *conn;
    tmdev_node_lock(node);
    run_acks(node);
    for (int i = 0; i < 100; i++) {
        bool is_flushed = true;
        TAILQ_FOREACH(conn, &node->conns, link) {
            tmdev_conn_flush(conn);
            is_flushed = is_flushed && (conn->is_broken || 0 == conn->out_length);
        }
        if (is_flushed) {
            break;
        }
        usleep(1000);
    }
    tmdev_node_unlock(node);
}

static void node_close(tmdev_node_t *node)
{
    tmdev_conn_t *conn;
    atomic_store(&node->is_stopping, true);
    tmdev_node_wake(node);
    pthread_join(node->thread, NULL);
    flush_conns(node);
    tmdev_node_lock(node);
    while (NULL != (conn = TAILQ_FIRST(&node->conns))) {
        tmdev_conn_close(conn);
    }
    tmdev_node_unlock(node);
    tmdev_unlisten(node);
    close_fds(node);
    pthread_mutex_destroy(&node->lock);
    pthread_mutex_destroy(&node->progress_lock);
    free(node->mrs);
    free(node);
}

static void before_fork(void)
{
    pthread_mutex_lock(&node_lock);
    if (NULL != the_node) {
        pthread_mutex_lock(&the_node->lock);
    }
}

static void after_fork_parent(void)
{
    if (NULL != the_node) {
        pthread_mutex_unlock(&the_node->lock);
    }
    pthread_mutex_unlock(&node_lock);
}

/* The memory of the parent's node stays: the child's copies of its objects point there. */
static void after_fork_child(void)
{
    if (NULL != the_node) {
        close_fds(the_node);
        pthread_mutex_unlock(&the_node->lock);
    }
    the_node = NULL;
    node_users = 0;
    pthread_mutex_unlock(&node_lock);
}

static void init_once(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

tmdev_node_t *tmdev_node_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
    pthread_mutex_lock(&node_lock);
    if (NULL == the_node) {
        the_node = node_open();
    }
    tmdev_node_t *node = the_node;
    if (NULL != node) {
        node_users++;
    }
    pthread_mutex_unlock(&node_lock);
    return node;
}

void tmdev_node_put(tmdev_node_t *node)
{
    tmdev_node_t *last = NULL;
    pthread_mutex_lock(&node_lock);
    if (node == the_node && 0 == --node_users) {
        last = the_node;
        the_node = NULL;
    }
    pthread_mutex_unlock(&node_lock);
    if (NULL != last) {
        node_close(last);
    }
}

void tmdev_node_lock(tmdev_node_t *node)
{
    pthread_mutex_lock(&node->lock);
}

void tmdev_node_unlock(tmdev_node_t *node)
{
    pthread_mutex_unlock(&node->lock);
}
