/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report of a wait that takes long (params.report_after), or by a signal (report_signal).
 *
 * The waiting thread makes it between two polls of all of Open MPI, step by step:
 *
 *   ASK     the processes that it waits for are asked what they wait for, then those that these
 *           wait for, and so on
 *   PAUSE   each process whose way leads into a circle is asked again, 100 ms later: a stuck one
 *           has the same waits as before.  Otherwise the picture was put together from different
 *           moments, and the report begins again.
 *   AGAIN   until these have answered, too
 *
 * A process is stuck if it is in a call that can only end when one of the processes that it waits
 * for goes on, and all of those are stuck.  It is not stuck if it does not answer (it computes),
 * has data on the way, has other threads, or waits for a process of which nothing is known: a
 * program that moves is never called stuck.  Along the first of the processes that each waits for,
 * a stuck process leads into one circle; of the others, each way ends at one process.
 *
 * Of a circle the lowest rank prints; of the processes that wait for the same one directly, the
 * lowest; and, outside circles, each that has a message that nearly fits.  By a signal each process
 * prints.  A report never ends the job.
 */
#include "pml_tm/report/pml_tm_reports.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "fabric/fab_clock.h"

#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_hang_write.h"
#include "pml_tm/report/pml_tm_nodes.h"
#include "pml_tm/report/pml_tm_state.h"

enum {
    MAX_REPORTS = 3,       /* of one wait: after the time, and each time that it has doubled */
    PAUSE_NS = 100000000,  /* from one question to the second */
    AGAIN_NS = 1000000000, /* until the next try, if something moved */
};

/* A thread that began a report and does not poll any more is not waited for longer than this. */
#define ABANDONED_NS UINT64_C(10000000000)

typedef enum { IDLE, ASK, PAUSE, AGAIN } step_t;

/* The report that is being made; node 0 is this process.  Lock: the fabric's. */
static struct {
    step_t step;
    const mca_pml_tm_watch_t *watch; /* the thread's that makes it */
    uint32_t wait;                   /* the number of its wait */
    uint64_t next_ns;                /* PAUSE: its end; IDLE: nothing earlier */
    uint64_t begun_ns;
    bool is_crowd;     /* all of the communicator were added */
    bool is_by_signal; /* each process prints */
} report;

static uint64_t waited_ns; /* in all waits; lock: the fabric's */

static volatile sig_atomic_t is_asked; /* by the signal */

/* ---- the steps ---------------------------------------------------------- */

static void begin(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    if (!mca_pml_tm_ask_begin() || 0 != mca_pml_tm_ask_add(mca_pml_tm.fab->config.name)) {
        return;
    }
    report.watch = watch;
    report.begun_ns = now_ns;
    report.wait = watch->number;
    report.is_crowd = false;
    ++mca_pml_tm_nodes.question;
    report.step = ASK;
}

static void give_up(uint64_t now_ns)
{
    report.step = IDLE;
    report.next_ns = now_ns + AGAIN_NS;
}

/*
 * This process is the first in line for one that does not wait: ask all of its communicator, to
 * see which others are in that line.  True: some are to be asked.
 */
static bool add_crowd(void)
{
    const mca_pml_tm_comm_t *tmc;
    const int known = mca_pml_tm_nodes.count;

    if (report.is_crowd || mca_pml_tm_node(0)->is_stuck ||
        0 == mca_pml_tm_node(0)->state.num_waits) {
        return false;
    }
    report.is_crowd = true;
    tmc = mca_pml_tm_state_comm(&mca_pml_tm_node(0)->state.waits[0]);
    if (NULL == tmc || tmc->num_sources > PML_TM_MAX_NODES ||
        mca_pml_tm_stuck_root(0) != mca_pml_tm_node(0)->next) {
        return false;
    }
    for (int32_t rank = 0; rank < tmc->num_sources; ++rank) {
        opal_process_name_t name = ompi_group_get_proc_name(tmc->comm->c_remote_group, rank);

        (void) mca_pml_tm_ask_add(mca_pml_tm_peer_name(&name));
    }
    return mca_pml_tm_nodes.count > known;
}

static void ask_again(uint64_t now_ns)
{
    ++mca_pml_tm_nodes.question;
    for (int i = 1; i < mca_pml_tm_nodes.count; ++i) {
        mca_pml_tm_node_t *node = mca_pml_tm_node(i);

        if (node->is_circle) {
            node->first_wait = node->state.wait;
            mca_pml_tm_ask(node, now_ns);
        }
    }
    report.step = AGAIN;
}

/* Has each process that was asked again the same wait as before? */
static bool is_confirmed(void)
{
    for (int i = 1; i < mca_pml_tm_nodes.count; ++i) {
        const mca_pml_tm_node_t *node = mca_pml_tm_node(i);

        if (node->is_circle &&
            (!mca_pml_tm_node_answers(node) || node->first_wait != node->state.wait)) {
            return false;
        }
    }
    mca_pml_tm_stuck_find();
    return mca_pml_tm_node(0)->is_circle;
}

/* One step on.  *is_done: the report can be written now. */
static void go_on(uint64_t now_ns, bool *is_done)
{
    if (ASK == report.step) {
        mca_pml_tm_stuck_expand(now_ns);
    }
    if (PAUSE != report.step && mca_pml_tm_ask_is_open(now_ns)) {
        return;
    }
    switch (report.step) {
    case ASK:
        mca_pml_tm_stuck_find();
        if (mca_pml_tm_node(0)->is_circle) {
            report.step = PAUSE;
            report.next_ns = now_ns + PAUSE_NS;
        } else {
            *is_done = !add_crowd();
        }
        break;
    case PAUSE:
        if (now_ns >= report.next_ns) {
            ask_again(now_ns);
        }
        break;
    case AGAIN:
        *is_done = is_confirmed();
        if (!*is_done) {
            give_up(now_ns);
        }
        break;
    case IDLE:
        break;
    }
}

/* Has the wait lasted for params.report_after? */
static bool is_long(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    const uint64_t after_s = (uint64_t) mca_pml_tm.params.report_after;

    return 0 != after_s && now_ns - watch->since_ns >= after_s * UINT64_C(1000000000);
}

/* Is a report of it due, if it waits for something? */
static bool is_to_report(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    return is_long(watch, now_ns) && now_ns - watch->since_ns >= watch->quiet_ns &&
           watch->reports < MAX_REPORTS && now_ns >= report.next_ns;
}

static bool is_due(const mca_pml_tm_watch_t *watch, const mca_pml_tm_answer_t *state,
                   uint64_t now_ns)
{
    return IDLE == report.step &&
           (0 != is_asked || (is_to_report(watch, now_ns) && state->num_waits > 0));
}

/* Is the state of this process needed? Most ticks come in short waits. */
static bool is_to_look(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    return IDLE != report.step || 0 != is_asked || 0 != mca_pml_tm_nodes.num_askers ||
           is_to_report(watch, now_ns);
}

/* The time since the last tick, if that was in the same wait. */
static void count_waited(mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    const uint64_t ns = now_ns - watch->last_ns;

    if (0 != watch->last_ns &&
        (NULL != watch->what.core || (NULL != watch->what.comm && !watch->what.may_return))) {
        waited_ns += ns;
    }
    watch->last_ns = now_ns;
}

uint64_t mca_pml_tm_hang_waited(void)
{
    return waited_ns;
}

/*
 * The call that this thread is in, if the last tick wanted it.  Each tick that needs it asks the
 * next one to find it, before that takes the lock.
 */
static _Thread_local struct {
    bool is_wanted;
    bool is_known; /* in this tick */
    mca_pml_tm_call_t call;
} here;

/* *written: a report that is to be printed, if it has a text. Lock held. */
static void look(mca_pml_tm_watch_t *watch, uint64_t now_ns, mca_pml_tm_hang_report_t *written)
{
    mca_pml_tm_answer_t state;
    bool is_done = false;

    mca_pml_tm_watch_look(watch, now_ns);
    count_waited(watch, now_ns);
    mca_pml_tm_state_show(watch, now_ns);
    here.is_wanted = is_to_look(watch, now_ns);
    if (!here.is_wanted || !here.is_known) {
        if (here.is_wanted) {
            mca_pml_tm_hurry_tick();
        }
        return;
    }
    mca_pml_tm_state_get(&state, watch, &here.call, now_ns);
    mca_pml_tm_ask_reply(&state);
    if (IDLE != report.step && report.watch == watch && report.wait != watch->number) {
        give_up(now_ns); /* the wait has ended */
    }
    if (IDLE != report.step && report.watch != watch) {
        if (now_ns - report.begun_ns >= ABANDONED_NS) {
            give_up(now_ns);
        }
        return; /* another thread makes one */
    }
    if (is_due(watch, &state, now_ns)) {
        report.is_by_signal = 0 != is_asked;
        is_asked = 0;
        begin(watch, now_ns);
    }
    if (IDLE != report.step) {
        mca_pml_tm_node(0)->state = state;
        mca_pml_tm_node(0)->status = PML_TM_NODE_ANSWERED;
        go_on(now_ns, &is_done);
    }
    if (is_done) {
        mca_pml_tm_hang_write(written, report.is_by_signal, here.call.site);
        if (!report.is_by_signal) {
            ++watch->reports;
            watch->quiet_ns = 2 * (now_ns - watch->since_ns);
        }
        report.step = IDLE;
        report.next_ns = now_ns;
    }
}

/* Lock not held. */
static void print(mca_pml_tm_hang_report_t *written)
{
    static atomic_uint number; /* of reports of this process */
    char behind[64];

    if (NULL == written->text.stream) {
        return;
    }
    if (FAB_LOOK_ANY != written->silent) {
        mca_pml_tm_hang_write_silent(&written->text, written->silent);
    }
    snprintf(behind, sizeof(behind), "wait.%u.%u", OMPI_PROC_MY_NAME->vpid,
             atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1);
    mca_pml_tm_text_write(&written->json, behind);
    mca_pml_tm_text_print(&written->text);
}

static void tick(void)
{
    mca_pml_tm_watch_t *watch = mca_pml_tm_watch();
    uint64_t now_ns = fab_now_ns();
    mca_pml_tm_hang_report_t written = {.silent = FAB_LOOK_ANY};

    if (mca_pml_tm_watch_is_early(watch, now_ns)) {
        return;
    }
    here.is_known = here.is_wanted;
    if (here.is_wanted) {
        mca_pml_tm_call_find(&here.call);
        now_ns = fab_now_ns();
    }
    if (!fab_trylock(mca_pml_tm.fab)) {
        return;
    }
    look(watch, now_ns, &written);
    fab_unlock(mca_pml_tm.fab);
    print(&written);
}

/* ---- opening ------------------------------------------------------------ */

static struct sigaction before; /* the signal's action */

/* The second time in a row: this process does not poll. */
static void handle_signal(int number)
{
    static const char text[] = "pml tm: this process does not call MPI; its stack:\n";
    void *frames[64];

    (void) number;
    if (0 != is_asked && write(STDERR_FILENO, text, sizeof(text) - 1) > 0) {
        backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    }
    is_asked = 1;
}

void mca_pml_tm_hang_open(void)
{
    const struct sigaction action = {.sa_handler = handle_signal, .sa_flags = SA_RESTART};
    void *frame;

    if (0 != mca_pml_tm.params.report_signal) {
        (void) backtrace(&frame, 1); /* loads what a handler must not */
        if (0 != sigaction(mca_pml_tm.params.report_signal, &action, &before)) {
            mca_pml_tm.params.report_signal = 0;
        }
    }
    waited_ns = 0;
    mca_pml_tm.tick = tick; /* MPI_T may ask for reports at any time */
}

void mca_pml_tm_hang_close(void)
{
    mca_pml_tm.tick = NULL;
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_watch_look(mca_pml_tm_watch(), fab_now_ns()); /* records the last wait */
    fab_unlock(mca_pml_tm.fab);
    if (0 != mca_pml_tm.params.report_signal) {
        (void) sigaction(mca_pml_tm.params.report_signal, &before, NULL);
    }
    report.step = IDLE;
    mca_pml_tm_ask_fini();
}
