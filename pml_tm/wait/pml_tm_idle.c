/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call does after a poll that found nothing.
 *
 * If processes or threads outnumber the processors, one that polls keeps the one that it waits for
 * from running, for a whole time slice.  So a process or thread yields after an empty poll, in
 * blocking calls and in the progress function, which Open MPI calls when it waits.  In blocking
 * calls of this PML it also sleeps after many such polls, up to a millisecond at a time, or
 * (without threads) until a message comes by a network; and after each sleep it polls all of Open
 * MPI, whose other components must not wait for many.
 */
#include "pml_tm/wait/pml_tm_idle.h"

#include <sched.h>
#include <time.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_cpus.h"

enum {
    YIELDS_BEFORE_SLEEP = 1000, /* in a row: half a millisecond alone, a time slice of each other */
    SLEEP_GROWTH = 40,          /* the n-th takes n^2 / 40 us: a few percent of the time waited */
    SLEEP_MAX_US = 1000,
    LONG_YIELD_NS = 1000000, /* others had the processor */
    PAUSE_MAX_NS = 32,       /* of one that is worth it: measured with 25 */
    LOOKS_NS = 2000,         /* longer than an answer takes, also between processors far apart */
    LOOK_NS = 1,             /* nine instructions */
};

/*
 * How many threads of this process may wait at a time so that each has its own processor; at least
 * 1.
 */
static unsigned choose_max_thread_waits(double cpus)
{
    double share = cpus / (fab_process.num_local_peers + 1);
    cpu_set_t mine;

    if (0 == sched_getaffinity(0, sizeof(mine), &mine) && CPU_COUNT(&mine) < share) {
        share = CPU_COUNT(&mine);
    }
    return share < 1 ? 1 : (unsigned) share;
}

/*
 * A blocking receive looks at its sender's ring for LOOKS_NS: what comes in that time needs no
 * request, which would delay the answer so that the peer needs one, too: with 500 ns the first
 * thousand ping-pongs took twice as long between processors far apart.  A pause between two looks
 * leaves more of the processor to another hardware thread, which may be the sender's; a long one
 * would delay the message.  Between the polls of other waits there is none: nothing was gained by
 * it.
 */
static void choose_looks(void)
{
    const unsigned pause_ns = (unsigned) fab_cpu_pause_ns();
    const bool is_alone = PML_TM_SPIN == mca_pml_tm.idle;

    mca_pml_tm.is_pausing = is_alone && pause_ns <= PAUSE_MAX_NS;
    mca_pml_tm.looks = is_alone ? LOOKS_NS / (LOOK_NS + mca_pml_tm.is_pausing * pause_ns) : 1;
}

static mca_pml_tm_idle_t choose_idle(double cpus)
{
    const char *wait = mca_pml_tm.params.wait;

    if (0 == strcmp(wait, "spin")) {
        return PML_TM_SPIN;
    }
    if (0 == strcmp(wait, "yield")) {
        return PML_TM_YIELD;
    }
    if (0 == strcmp(wait, "sleep")) {
        return PML_TM_SLEEP;
    }
    mca_pml_tm.cpus = cpus; /* auto: sleep if the job has more processes here than processors */
    return fab_process.num_local_peers + 1 > cpus ? PML_TM_SLEEP : PML_TM_SPIN;
}

void mca_pml_tm_choose_idle(void)
{
    double cpus = fab_cpus("");

    mca_pml_tm.max_thread_waits = choose_max_thread_waits(cpus);
    mca_pml_tm.idle = choose_idle(cpus);
    choose_looks();
}

bool mca_pml_tm_is_crowd_polling(void)
{
    return PML_TM_SPIN == mca_pml_tm.idle && !opal_progress_yield_when_idle &&
           fab_process.num_local_peers + 1 > fab_cpus("");
}

void mca_pml_tm_yield(void)
{
    /* without the lock */
    __atomic_fetch_add(&mca_pml_tm.counters.wait_yields, 1, __ATOMIC_RELAXED);
    sched_yield();
}

/* Microseconds to sleep after this many empty polls in a row; 0: only yield. */
static inline unsigned sleep_time(unsigned polls)
{
    long sleeps = (long) polls - YIELDS_BEFORE_SLEEP;
    long us = 1 + sleeps * sleeps / SLEEP_GROWTH;

    if (sleeps <= 0 || PML_TM_SLEEP != mca_pml_tm.idle) {
        return 0;
    }
    return (unsigned) (us < SLEEP_MAX_US ? us : SLEEP_MAX_US);
}

/*
 * If an event ended a sleep and the next poll found nothing, events do not end the next sleep: such
 * an event may persist, for example a connection that cannot be accepted because unproven ones take
 * all places.
 */
static void sleep_for(unsigned us)
{
    const struct timespec time = {.tv_nsec = 1000 * (long) us};

    ++mca_pml_tm.counters.wait_sleeps;
    if (mca_pml_tm.was_woken) {
        mca_pml_tm.was_woken = false;
        (void) nanosleep(&time, NULL);
    } else if (fab_sleep(mca_pml_tm.fab, us)) {
        mca_pml_tm.was_woken = true;
        ++mca_pml_tm.counters.wait_wakes;
    }
}

/* On a crowded host one yield may take 100 ms; what is done now and then is due after that. */
static void yield_and_look(void)
{
    const uint64_t last_ns = mca_pml_tm.yielded_ns;

    mca_pml_tm_yield();
    mca_pml_tm.yielded_ns = fab_now_ns();
    if (1 < mca_pml_tm.idle_polls && mca_pml_tm.yielded_ns - last_ns >= LONG_YIELD_NS) {
        mca_pml_tm.polls_left = 1;
        mca_pml_tm_hurry_tick();
    }
}

void mca_pml_tm_pause(void)
{
    unsigned us = sleep_time(++mca_pml_tm.idle_polls);

    if (0 == us) {
        mca_pml_tm.was_woken = false;
        yield_and_look();
        return;
    }
    if (us >= SLEEP_MAX_US) {
        --mca_pml_tm.idle_polls;
    }
    sleep_for(us);
    mca_pml_tm.polls_left = 1;
}

static void yield_thread(void)
{
    const uint64_t begin_ns = fab_now_ns();

    mca_pml_tm_yield();
    if (fab_now_ns() - begin_ns >= LONG_YIELD_NS) {
        mca_pml_tm_hurry_tick();
    }
}

void mca_pml_tm_pause_thread(unsigned *polls)
{
    unsigned us = sleep_time(++*polls);
    const struct timespec time = {.tv_nsec = 1000 * (long) us};

    if (0 == us) {
        yield_thread();
        return;
    }
    if (us >= SLEEP_MAX_US) {
        --*polls;
    }
    __atomic_fetch_add(&mca_pml_tm.counters.wait_sleeps, 1, __ATOMIC_RELAXED);
    (void) nanosleep(&time, NULL);
}

/* ---- what is waited for, and ticks --------------------------------------- */

static _Thread_local mca_pml_tm_waiting_t mine;

mca_pml_tm_waiting_t *mca_pml_tm_waiting(void)
{
    return &mine;
}

void mca_pml_tm_count_tick(void)
{
    /* relaxed load and store: with threads the count need not be exact */
    unsigned polls = atomic_load_explicit(&mca_pml_tm.tick_polls, memory_order_relaxed) + 1;
    const bool is_due = polls >= PML_TM_POLLS_PER_TICK;

    atomic_store_explicit(&mca_pml_tm.tick_polls, is_due ? 0 : polls, memory_order_relaxed);
    if (is_due) {
        mca_pml_tm.tick();
    }
}

void mca_pml_tm_hurry_tick(void)
{
    atomic_store_explicit(&mca_pml_tm.tick_polls, PML_TM_POLLS_PER_TICK, memory_order_relaxed);
}
