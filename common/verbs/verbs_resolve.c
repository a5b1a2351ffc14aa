/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The step of connecting queue pairs that may wait for the network, in a thread.  With RoCE the
 * kernel looks for the address of the peer's port when a queue pair is made ready to receive, and
 * waits for an answer for a second or more if none comes.  With iWARP rdma_connect() may make a TCP
 * connection, and wait as long as TCP does.  The lock is not held meanwhile, so messages of other
 * peers go on.  One thread for a port, made when it is first needed.
 *
 *      submit ──> todo ──thread──> done ──poll──> the connection goes on
 *
 * The thread touches the job and its connection's QPs alone; a connection is not destroyed while
 * its job is on the way.  InfiniBand needs no thread: the kernel asks no other port.
 *
 * Lock order: the fabric's, then the resolver's, which is held for moments only.
 */
#include "verbs/verbs.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs/verbs_cm.h"

typedef STAILQ_HEAD(fab_verbs_jobs, fab_verbs_job) fab_verbs_jobs_t;

struct fab_verbs_resolver {
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t cond;  /* todo or is_stopping has changed */
    fab_verbs_jobs_t todo;
    fab_verbs_jobs_t done;
    bool is_stopping;
    int fd; /* readable: done is not empty; -1: no thread sleeps */
};

/* ---- the thread --------------------------------------------------------- */

/* NULL: the thread is to end. */
static fab_verbs_job_t *next_job(fab_verbs_resolver_t *resolver)
{
    fab_verbs_job_t *job = NULL;

    pthread_mutex_lock(&resolver->lock);
    while (STAILQ_EMPTY(&resolver->todo) && !resolver->is_stopping) {
        pthread_cond_wait(&resolver->cond, &resolver->lock);
    }
    if (!resolver->is_stopping) {
        job = STAILQ_FIRST(&resolver->todo);
        STAILQ_REMOVE_HEAD(&resolver->todo, link);
    }
    pthread_mutex_unlock(&resolver->lock);
    return job;
}

/* With iWARP the end of the process need not wait for it: rdma_connect() waits in a write(). */
static int do_step(const fab_verbs_job_t *job)
{
    const fab_verbs_cm_ops_t *ops = job->conn->dom->cm_ops;
    int error;

    if (NULL == ops) {
        return fab_verbs_conn_to_receive(job);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    error = ops->ask(job);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return error;
}

static void *run(void *arg)
{
    fab_verbs_resolver_t *resolver = arg;
    fab_verbs_job_t *job;
    const uint64_t one = 1;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    while (NULL != (job = next_job(resolver))) {
        job->error = do_step(job);
        pthread_mutex_lock(&resolver->lock);
        STAILQ_INSERT_TAIL(&resolver->done, job, link);
        if (resolver->fd >= 0 && sizeof(one) != write(resolver->fd, &one, sizeof(one))) {
            resolver->fd = -1; /* cannot be; it is found by polling */
        }
        pthread_mutex_unlock(&resolver->lock);
    }
    return NULL;
}

/* The program's signals are not for this thread. */
static int thread_start(fab_verbs_resolver_t *resolver)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&resolver->thread, NULL, run, resolver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* ---- its user ----------------------------------------------------------- */

static fab_verbs_resolver_t *resolver_open(fab_verbs_domain_t *dom)
{
    fab_verbs_resolver_t *resolver = calloc(1, sizeof(*resolver));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &dom->resolver};

    if (NULL == resolver) {
        return NULL;
    }
    pthread_mutex_init(&resolver->lock, NULL);
    pthread_cond_init(&resolver->cond, NULL);
    STAILQ_INIT(&resolver->todo);
    STAILQ_INIT(&resolver->done);
    resolver->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolver->fd >= 0) {
        (void) epoll_ctl(dom->epoll, EPOLL_CTL_ADD, resolver->fd, &event);
    }
    if (0 != thread_start(resolver)) {
        resolver->is_stopping = true; /* all is done without it */
    }
    return resolver;
}

bool fab_verbs_resolve_submit(const fab_verbs_job_t *wanted)
{
    fab_verbs_domain_t *dom = wanted->conn->dom;
    fab_verbs_job_t *job;

    if (NULL == dom->resolver) {
        dom->resolver = resolver_open(dom);
    }
    if (NULL == dom->resolver || dom->resolver->is_stopping) {
        return false;
    }
    job = malloc(sizeof(*job));
    if (NULL == job) {
        return false;
    }
    *job = *wanted;
    job->conn->job = job;
    pthread_mutex_lock(&dom->resolver->lock);
    STAILQ_INSERT_TAIL(&dom->resolver->todo, job, link);
    pthread_cond_signal(&dom->resolver->cond);
    pthread_mutex_unlock(&dom->resolver->lock);
    return true;
}

fab_verbs_job_t *fab_verbs_resolve_poll(fab_verbs_domain_t *dom)
{
    fab_verbs_job_t *job;

    pthread_mutex_lock(&dom->resolver->lock);
    job = STAILQ_FIRST(&dom->resolver->done);
    if (NULL != job) {
        STAILQ_REMOVE_HEAD(&dom->resolver->done, link);
        job->conn->job = NULL;
    }
    pthread_mutex_unlock(&dom->resolver->lock);
    return job;
}

void fab_verbs_resolve_is_awake(fab_verbs_domain_t *dom)
{
    uint64_t count;

    if (sizeof(count) != read(dom->resolver->fd, &count, sizeof(count))) {
        return; /* it was read before */
    }
}

void fab_verbs_resolve_stop(fab_verbs_domain_t *dom)
{
    fab_verbs_resolver_t *resolver = dom->resolver;
    fab_verbs_conn_t *conn;
    bool has_thread;

    if (NULL == resolver) {
        return;
    }
    pthread_mutex_lock(&resolver->lock);
    has_thread = !resolver->is_stopping;
    resolver->is_stopping = true;
    pthread_cond_signal(&resolver->cond);
    pthread_mutex_unlock(&resolver->lock);
    if (has_thread) {
        (void) pthread_cancel(resolver->thread);
        pthread_join(resolver->thread, NULL);
    }
    TAILQ_FOREACH(conn, &dom->conns, link) {
        free(conn->job);
        conn->job = NULL;
    }
    if (resolver->fd >= 0) {
        close(resolver->fd);
    }
    pthread_cond_destroy(&resolver->cond);
    pthread_mutex_destroy(&resolver->lock);
    free(resolver);
    dom->resolver = NULL;
}
