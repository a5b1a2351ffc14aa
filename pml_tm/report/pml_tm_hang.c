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
#include "fabric/fab_look_read.h"

#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_nodes.h"
#include "pml_tm/report/pml_tm_state.h"
#include "pml_tm/report/pml_tm_text.h"

enum {
    MAX_LINES = 40,        /* of a report */
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

/* What is to be printed, and written for programs, when the lock is released. */
typedef struct written {
    mca_pml_tm_text_t text; /* none: nothing is */
    mca_pml_tm_text_t json;
    uint64_t silent; /* the process that the others wait for and that does not answer; or ANY */
} written_t;

static uint64_t waited_ns; /* in all waits; lock: the fabric's */

static volatile sig_atomic_t is_asked; /* by the signal */

static unsigned rank_of(uint64_t name)
{
    return (unsigned) (uint32_t) name; /* fab_name() */
}

/* ---- a process ---------------------------------------------------------- */

/* What is known of a node that is not waiting; for programs in fewer words. */
static const struct {
    const char *name;
    const char *text;
} statuses[] = {
    [PML_TM_NODE_NEW] = {"not asked", "was not asked"},
    [PML_TM_NODE_ASKED] = {"not asked", "was not asked"},
    [PML_TM_NODE_ANSWERED] = {"answers", ""},
    [PML_TM_NODE_SILENT] = {"does not call MPI", "has not answered for 2 s: it does not call MPI; "
                                                 "it computes, or was stopped"},
    [PML_TM_NODE_UNKNOWN] = {"unknown",
                             "was never in contact with this process, and was not asked"},
    [PML_TM_NODE_GONE] = {"gone", "has left the job, or failed"},
};

static void line_of_other(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node)
{
    if (!mca_pml_tm_node_answers(node)) {
        mca_pml_tm_text_line(text, "  rank %-4u %s", rank_of(node->name),
                             statuses[node->status].text);
    } else {
        mca_pml_tm_text_line(text, "  rank %-4u %s:%u  is in %s, and waits for no message there",
                             rank_of(node->name), node->state.host, node->state.pid,
                             '\0' != node->state.call[0] ? node->state.call : "a call of MPI");
    }
}

/* What a node waits for, and what nearly fits; or what is known of it.  site: or "". */
static void lines_of_node(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node, const char *site)
{
    const mca_pml_tm_answer_t *state = &node->state;
    char wait[PML_TM_WAIT_SIZE];

    if (!mca_pml_tm_node_answers(node) || 0 == state->num_waits) {
        line_of_other(text, node);
        return;
    }
    for (int i = 0; i < state->num_waits; ++i) {
        mca_pml_tm_wait_text(wait, &state->waits[i], '\0' != state->call[0] ? state->call : "MPI");
        mca_pml_tm_text_line(text, "  rank %-4u %s:%u  %s; %.1f s", rank_of(node->name),
                             state->host, state->pid, wait, state->waited_ms / 1000.0);
    }
    if (0 != (state->flags & PML_TM_STATE_MORE)) {
        mca_pml_tm_text_line(text, "            ... and more");
    }
    if (!mca_pml_tm_node_waits(node)) {
        mca_pml_tm_text_line(text, FAB_LOOK_PROBE == state->waits[0].what
                                       ? "            (in a loop: the call returns if there is "
                                         "none, and nothing was sent or received meanwhile)"
                                       : "            (the call may end without these)");
    }
    if ('\0' != site[0]) {
        mca_pml_tm_text_line(text, "    called at %s", site);
    }
    for (int i = 0; i < state->num_near; ++i) {
        mca_pml_tm_text_line(
            text, "    %s",
            mca_pml_tm_wait_text(wait, &state->waits[state->num_waits + i], "nearly:"));
    }
}

typedef struct search {
    uint64_t name;
    uint32_t pid; /* 0: not found */
    fab_look_t look;
} search_t;

/*
 * Names are those of Open MPI, which are unique only for one mpirun: a process of another one, with
 * the same name by chance, is told by its job's size.
 */
static bool is_it(void *ctx, uint32_t pid, int fd, const fab_look_t *look)
{
    search_t *search = ctx;

    (void) fd;
    if (look->name == search->name && look->num_procs == fab_process.num_procs) {
        search->pid = pid;
        search->look = *look;
    }
    return 0 == search->pid;
}

/*
 * A line for a process that does not answer, if it is one of this user on this host: what it shows
 * (fab_look_read.h), and what the kernel says of it.  /proc is searched: lock not held.
 */
static void line_of_silent(mca_pml_tm_text_t *text, uint64_t name)
{
    search_t search = {.name = name};
    char last[64] = "";

    fab_look_visit(is_it, &search);
    if (0 == search.pid) {
        return;
    }
    if (0 != search.look.status.seen_ns) {
        snprintf(last, sizeof(last), "; it last waited in MPI %.1f s ago",
                 (double) (int64_t) (fab_now_ns() - search.look.status.seen_ns) / 1e9);
    }
    mca_pml_tm_text_line(text, "  Rank %u is process %u (%s) of this host, which %s%s.",
                         rank_of(name), search.pid, search.look.program,
                         fab_look_what_it_does(fab_look_process_state(search.pid)), last);
}

/* ---- for programs ------------------------------------------------------- */

static void add_node(FILE *json, const mca_pml_tm_node_t *node)
{
    const mca_pml_tm_answer_t *state = &node->state;

    fprintf(json, "{\"rank\": %u, ", rank_of(node->name));
    mca_pml_tm_json_text(json, "status", statuses[node->status].name);
    if (node->next >= 0) {
        fprintf(json, ", \"waits_for\": %u", rank_of(mca_pml_tm_node(node->next)->name));
    }
    if (mca_pml_tm_node_answers(node)) {
        fputs(", ", json);
        mca_pml_tm_json_text(json, "host", state->host);
        fprintf(json, ", \"pid\": %u, ", state->pid);
        mca_pml_tm_json_text(json, "call", state->call);
        fprintf(json, ", \"waited_s\": %.3f, \"more_waits\": %s, \"waits\": [",
                state->waited_ms / 1000.0,
                0 != (state->flags & PML_TM_STATE_MORE) ? "true" : "false");
        for (int i = 0; i < state->num_waits + state->num_near; ++i) {
            fputs(0 == i ? "" : ", ", json);
            mca_pml_tm_wait_json(json, &state->waits[i]);
        }
        fputc(']', json);
    }
    fputc('}', json);
}

/*
 * All processes that were asked, and what they wait for; the first is this one.  kind: "circle", or
 * what else was found; length: of the circle.
 */
static void write_json(FILE *json, const char *kind, int length)
{
    fprintf(json, "{\"report\": \"wait\", \"kind\": \"%s\", \"circle\": %d, \"ranks\": [", kind,
            length);
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        fputs(0 == i ? "\n" : ",\n", json);
        add_node(json, mca_pml_tm_node(i));
    }
    fputs("]}\n", json);
}

/* ---- advice ------------------------------------------------------------- */

/* A message of another tag or communicator: where nothing else can come, that is the mistake. */
static bool advise_near(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node)
{
    for (int i = 0; i < node->state.num_near; ++i) {
        const fab_wait_t *near = &node->state.waits[node->state.num_waits + i];

        if (FAB_NEAR_TAG == near->near || FAB_NEAR_COMM == near->near) {
            mca_pml_tm_text_line(text,
                                 "  For rank %u a message is there that differs only in the %s: "
                                 "one of the two is wrong.",
                                 rank_of(node->name), mca_pml_tm_near_text(near->near));
            return true;
        }
    }
    return false;
}

static bool is_collective(const mca_pml_tm_node_t *node)
{
    return node->state.waits[0].tag < 0 && OMPI_ANY_TAG != node->state.waits[0].tag;
}

/* One is in a collective operation, and the other in another call. */
static bool advise_order(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node)
{
    const mca_pml_tm_node_t *other = mca_pml_tm_node(node->next);

    if ((!is_collective(node) && !is_collective(other)) || '\0' == node->state.call[0] ||
        '\0' == other->state.call[0] || 0 == strcmp(node->state.call, other->state.call)) {
        return false;
    }
    mca_pml_tm_text_line(text, "  Rank %u is in %s, rank %u in %s: they call in different orders.",
                         rank_of(node->name), node->state.call, rank_of(other->name),
                         other->state.call);
    return true;
}

/* Does one process of this one's circle give a reason for this advice? */
static bool is_advised(mca_pml_tm_text_t *text,
                       bool (*advise)(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node))
{
    int at = 0;

    do {
        if (advise(text, mca_pml_tm_node(at))) {
            return true;
        }
        at = mca_pml_tm_node(at)->next;
    } while (0 != at);
    return false;
}

static void advise_circle(mca_pml_tm_text_t *text)
{
    bool is_match = true, is_recv = true; /* all wait for that */
    int at = 0;

    if (is_advised(text, advise_near) || is_advised(text, advise_order)) {
        return;
    }
    do {
        is_match &= FAB_LOOK_MATCH == mca_pml_tm_node(at)->state.waits[0].what;
        is_recv &= FAB_LOOK_RECV == mca_pml_tm_node(at)->state.waits[0].what;
        at = mca_pml_tm_node(at)->next;
    } while (0 != at);
    if (0 == mca_pml_tm_node(0)->next) {
        mca_pml_tm_text_line(text, "  No other rank can end this call: post the receive, or the "
                                   "non-blocking send, before it.");
    } else if (is_match) {
        mca_pml_tm_text_line(text,
                             "  Each has the other's message and no receive for it. Messages above "
                             "%u bytes (pml_tm_eager_limit), and",
                             mca_pml_tm.whole_limit);
        mca_pml_tm_text_line(text, "  synchronous ones, wait for their receive, with every MPI: "
                                   "post the receives first, or use MPI_Sendrecv.");
    } else if (is_recv) {
        mca_pml_tm_text_line(text,
                             "  Each waits for a message before it sends one: let one of them "
                             "send first, or use MPI_Sendrecv.");
    } else {
        mca_pml_tm_text_line(text, "  None of these calls can end: what each waits for comes after "
                                   "the wait of the next.");
    }
}

/* ---- the reports -------------------------------------------------------- */

/* Its first line: for what this process has waited. */
static void line_of_head(mca_pml_tm_text_t *text, const char *for_what, const char *unless,
                         bool is_by_signal)
{
    mca_pml_tm_text_line(
        text, "pml tm: rank %u has waited for %.0f s%s%s%s:", rank_of(mca_pml_tm_node(0)->name),
        mca_pml_tm_node(0)->state.waited_ms / 1000.0, for_what, unless,
        is_by_signal ? "" : " (pml_tm_report_after)");
}

/* This process is in a circle, and the lowest in it. */
static void lines_of_circle(mca_pml_tm_text_t *text, int length, const char *site)
{
    const char *unless = mca_pml_tm_node(0)->is_stuck ? ""
                                                      : ", unless other threads of theirs go on";

    if (1 == length) {
        line_of_head(text, ", for itself", unless, false);
    } else {
        mca_pml_tm_text_line(text,
                             "pml tm: %d ranks wait for each other%s; rank %u has waited for %.0f "
                             "s (pml_tm_report_after):",
                             length, unless, rank_of(mca_pml_tm_node(0)->name),
                             mca_pml_tm_node(0)->state.waited_ms / 1000.0);
    }
    lines_of_node(text, mca_pml_tm_node(0), site);
    for (int at = mca_pml_tm_node(0)->next; at != 0; at = mca_pml_tm_node(at)->next) {
        lines_of_node(text, mca_pml_tm_node(at), "");
    }
    advise_circle(text);
}

/*
 * The number of processes in this one's circle, if it is the lowest of them; 0: it is in none;
 * -1: another one is.
 */
static int circle_length(void)
{
    int length = 1, at = mca_pml_tm_node(0)->next;
    bool is_lowest = true;

    while (at > 0 && length <= mca_pml_tm_nodes.count) {
        is_lowest &= mca_pml_tm_node(at)->name > mca_pml_tm_node(0)->name;
        ++length;
        at = mca_pml_tm_node(at)->next;
    }
    return 0 != at ? 0 : is_lowest ? length : -1;
}

/* A circle that would be stuck, if its processes had no other threads? */
static bool is_circle_of_threads(void)
{
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (mca_pml_tm_node(i)->is_circle &&
            0 != (mca_pml_tm_node(i)->state.flags & PML_TM_STATE_MOVES)) {
            return false;
        }
    }
    return mca_pml_tm_node(0)->is_circle;
}

/* How many ranks wait for this root, with this one; *is_lowest: of those that do so directly. */
static int count_waiting_for(int root, bool *is_lowest)
{
    int count = 0;

    *is_lowest = root == mca_pml_tm_node(0)->next;
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (i != root && mca_pml_tm_node_waits(mca_pml_tm_node(i)) &&
            root == mca_pml_tm_stuck_root(i)) {
            ++count;
            *is_lowest &= root != mca_pml_tm_node(i)->next ||
                          mca_pml_tm_node(i)->name >= mca_pml_tm_node(0)->name;
        }
    }
    return count;
}

/* This process waits for root, which is not stuck, and, with it, so many others do. */
static void lines_of_root(written_t *written, int root, int waiting, bool is_by_signal)
{
    const mca_pml_tm_node_t *node = mca_pml_tm_node(root);

    lines_of_node(&written->text, node, "");
    if (waiting > 1) {
        mca_pml_tm_text_line(&written->text,
                             "  %d ranks wait for rank %u, directly or through others.", waiting,
                             rank_of(node->name));
    }
    if (PML_TM_NODE_SILENT == node->status) {
        written->silent = node->name;
        if (!is_by_signal) {
            mca_pml_tm_text_line(&written->text,
                                 "  If rank %u computes for so long, nothing is wrong: raise "
                                 "pml_tm_report_after.",
                                 rank_of(node->name));
        }
    }
}

/*
 * All answers are here, and the nodes say which processes are stuck.  site: where the program calls
 * MPI, or "".  No text: others report this.
 */
static void write_report(written_t *written, bool is_by_signal, const char *site)
{
    const bool must_print = is_by_signal || mca_pml_tm_node(0)->state.num_near > 0;
    const bool is_stuck = mca_pml_tm_node(0)->is_stuck;
    const int length = is_stuck || is_circle_of_threads() ? circle_length() : 0;
    const int root = is_stuck ? -1 : mca_pml_tm_stuck_root(0);
    bool is_lowest = false;
    const int waiting = root > 0 ? count_waiting_for(root, &is_lowest) : 0;
    const char *kind = NULL;

    if (length > 0) {
        kind = is_stuck ? "circle" : "circle of threads";
    } else if (is_stuck && (is_by_signal || (must_print && 0 == length))) {
        kind = "behind a circle";
    } else if (!is_stuck && (must_print || is_lowest)) {
        kind = "wait";
    }
    if (NULL == kind || !mca_pml_tm_text_open(&written->text, MAX_LINES)) {
        return;
    }
    if (length > 0) {
        lines_of_circle(&written->text, length, site);
    } else {
        line_of_head(&written->text, is_stuck ? ", for ranks that wait for each other" : "", "",
                     is_by_signal);
        lines_of_node(&written->text, mca_pml_tm_node(0), site);
    }
    if (root > 0) {
        lines_of_root(written, root, waiting, is_by_signal);
    }
    if (mca_pml_tm_text_open(&written->json, 0)) {
        write_json(written->json.stream, kind, length > 0 ? length : 0);
    }
}

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
        (void) mca_pml_tm_ask_add(mca_pml_tm_comm_name(tmc, rank));
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
static void look(mca_pml_tm_watch_t *watch, uint64_t now_ns, written_t *written)
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
        write_report(written, report.is_by_signal, here.call.site);
        if (!report.is_by_signal) {
            ++watch->reports;
            watch->quiet_ns = 2 * (now_ns - watch->since_ns);
        }
        report.step = IDLE;
        report.next_ns = now_ns;
    }
}

/* Lock not held. */
static void print(written_t *written)
{
    static atomic_uint number; /* of reports of this process */
    char behind[64];

    if (NULL == written->text.stream) {
        return;
    }
    if (FAB_LOOK_ANY != written->silent) {
        line_of_silent(&written->text, written->silent);
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
    written_t written = {.silent = FAB_LOOK_ANY};

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
