/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that makes progress while the program computes (pml_tm_progress_thread).
 *
 * It polls the fabric, under its lock, as any thread of the program does that waits.  So Open MPI
 * must run as with MPI_THREAD_MULTIPLE, with locks, whatever level the program asked for.
 *
 * It runs nothing of Open MPI: requests with a callback, and failures, wait for the program's next
 * call.  A component of Open MPI may have been told that there are no threads, and then its
 * callbacks expect none.
 *
 * The thread sleeps while the program polls, which fab_t.passes shows.  It also sleeps after some
 * empty polls, longer each time, up to SLEEP_MAX_US; data that arrives by a provider with a file
 * descriptor (tcp) ends this sleep.
 */
#include "pml_tm/wait/pml_tm_progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

enum {
    YIELDS_BEFORE_SLEEP = 4, /* empty polls in a row: messages often come in groups */
    SLEEP_STEP_US = 10,      /* by which sleeps grow */
    SLEEP_MAX_US = 1000,
};

typedef struct looker {
    uint32_t passes;  /* fab_t.passes after this thread's last look */
    unsigned empties; /* empty polls in a row */
    bool was_woken;   /* data ended the last sleep */
} looker_t;

static pthread_t thread;
static bool is_running; /* of the program's threads alone */
static atomic_bool must_end;

/* Events of a poll; -1: none was made, the program has polled since, or holds the lock. */
static int look(looker_t *looker)
{
    fab_t *fab = mca_pml_tm.fab;
    int events = -1;

    if (!fab_trylock(fab)) {
        return -1;
    }
    if (looker->passes == fab->passes) {
        events = mca_pml_tm_progress_locked();
        mca_pml_tm.counters.thread_events += (unsigned) events;
    }
    looker->passes = fab->passes;
    fab_unlock(fab);
    return events;
}

static void sleep_us(unsigned us)
{
    const struct timespec time = {.tv_nsec = 1000 * (long) us};

    (void) nanosleep(&time, NULL);
}

/*
 * After an empty poll.  If data ended the last sleep and the poll found nothing, data does not end
 * this one: what is there may be nothing that a poll can take.
 */
static void rest(looker_t *looker)
{
    unsigned us;

    if (looker->empties < YIELDS_BEFORE_SLEEP) {
        looker->empties++;
        sched_yield();
        return;
    }
    us = (looker->empties - YIELDS_BEFORE_SLEEP + 1) * SLEEP_STEP_US;
    looker->empties += us < SLEEP_MAX_US;
    if (looker->was_woken) {
        looker->was_woken = false;
        sleep_us(us);
    } else {
        looker->was_woken = fab_sleep(mca_pml_tm.fab, us);
    }
}

static void *run(void *arg)
{
    looker_t looker = {.passes = 0};

    /* relaxed: it orders nothing else */
    while (!atomic_load_explicit(&must_end, memory_order_relaxed)) {
        const int events = look(&looker);

        if (events > 0) {
            looker.empties = 0;
            looker.was_woken = false;
        } else if (0 == events) {
            rest(&looker);
        } else {
            sleep_us(SLEEP_MAX_US);
        }
    }
    return arg;
}

int mca_pml_tm_thread_start(void)
{
    sigset_t all, before;

    if (!mca_pml_tm.params.progress_thread) {
        return OMPI_SUCCESS;
    }
    atomic_store(&must_end, false);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    is_running = 0 == pthread_create(&thread, NULL, run, NULL);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_running ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

void mca_pml_tm_thread_end(void)
{
    if (is_running) {
        atomic_store(&must_end, true);
        (void) pthread_join(thread, NULL);
        is_running = false;
    }
}
