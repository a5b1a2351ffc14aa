/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a report of a long wait says, as text and for programs.
 */
#include "pml_tm/report/pml_tm_hang_write.h"

#include <stdio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_look_read.h"

#include "pml_tm/report/pml_tm_nodes.h"

enum { MAX_LINES = 40 }; /* of a report */

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

void mca_pml_tm_hang_write_silent(mca_pml_tm_text_t *text, uint64_t name)
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

/* Is every process of this one's circle in such a wait? */
static bool is_circle_of(fab_look_wait_t what)
{
    int at = 0;

    do {
        if (mca_pml_tm_node(at)->state.waits[0].what != what) {
            return false;
        }
        at = mca_pml_tm_node(at)->next;
    } while (0 != at);
    return true;
}

static void advise_circle(mca_pml_tm_text_t *text)
{
    if (is_advised(text, advise_near) || is_advised(text, advise_order)) {
        return;
    }
    if (0 == mca_pml_tm_node(0)->next) {
        mca_pml_tm_text_line(text, "  No other rank can end this call: post the receive, or the "
                                   "non-blocking send, before it.");
    } else if (is_circle_of(FAB_LOOK_MATCH)) {
        mca_pml_tm_text_line(text,
                             "  Each has the other's message and no receive for it. Messages above "
                             "%u bytes (pml_tm_eager_limit), and",
                             mca_pml_tm.whole_limit);
        mca_pml_tm_text_line(text, "  synchronous ones, wait for their receive, with every MPI: "
                                   "post the receives first, or use MPI_Sendrecv.");
    } else if (is_circle_of(FAB_LOOK_RECV)) {
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
static void lines_of_root(mca_pml_tm_hang_report_t *report, int root, int waiting,
                          bool is_by_signal)
{
    const mca_pml_tm_node_t *node = mca_pml_tm_node(root);

    lines_of_node(&report->text, node, "");
    if (waiting > 1) {
        mca_pml_tm_text_line(&report->text,
                             "  %d ranks wait for rank %u, directly or through others.", waiting,
                             rank_of(node->name));
    }
    if (PML_TM_NODE_SILENT == node->status) {
        report->silent = node->name;
        if (!is_by_signal) {
            mca_pml_tm_text_line(&report->text,
                                 "  If rank %u computes for so long, nothing is wrong: raise "
                                 "pml_tm_report_after.",
                                 rank_of(node->name));
        }
    }
}

void mca_pml_tm_hang_write(mca_pml_tm_hang_report_t *report, bool is_by_signal, const char *site)
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
    if (NULL == kind || !mca_pml_tm_text_open(&report->text, MAX_LINES)) {
        return;
    }
    if (length > 0) {
        lines_of_circle(&report->text, length, site);
    } else {
        line_of_head(&report->text, is_stuck ? ", for ranks that wait for each other" : "", "",
                     is_by_signal);
        lines_of_node(&report->text, mca_pml_tm_node(0), site);
    }
    if (root > 0) {
        lines_of_root(report, root, waiting, is_by_signal);
    }
    if (mca_pml_tm_text_open(&report->json, 0)) {
        write_json(report->json.stream, kind, length > 0 ? length : 0);
    }
}
