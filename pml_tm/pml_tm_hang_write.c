/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a report of a long wait says, as text and for programs.
 */
#include "pml_tm_hang_write.h"

#include <stdio.h>
#include <stdlib.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_look_read.h"

#include "pml_tm_msg.h"
#include "pml_tm_state.h"
#include "pml_tm_nodes.h"

enum {
    MAX_LINES = 40, /* of a report */
    MAX_NEAR = 4,   /* messages that nearly fit */
};

/* ---- text --------------------------------------------------------------- */

static unsigned rank_of(uint64_t name)
{
    return (unsigned) (uint32_t) name; /* fab_name() */
}

/* What a process waits for. */
static const struct {
    const char *name; /* for programs */
    const char *why;
    bool is_from; /* of a message that comes */
} waits[] = {
    [FAB_LOOK_RECV] = {"receive", "no message fits", true},
    [FAB_LOOK_PROBE] = {"probe", "no message fits", true},
    [FAB_LOOK_ROOM] = {"room", "no room towards the receiver", false},
    [FAB_LOOK_HELD] = {"held", "held back, the receiver is short of memory for unexpected messages",
                       false},
    [FAB_LOOK_MATCH] = {"match", "the receiver knows of it, no receive fits", false},
    [FAB_LOOK_SENDING] = {"sending", "data is on the way", false},
    [FAB_LOOK_ARRIVING] = {"arriving", "data is on the way", true},
};

static void line_of_wait(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node,
                         const mca_pml_tm_wait_t *wait)
{
    char tag[PML_TM_TAG_SIZE], peer[32] = "any rank", bytes[48] = "";

    if (FAB_LOOK_PROBE != wait->what) {
        snprintf(bytes, sizeof(bytes), "%s%llu bytes, ",
                 FAB_LOOK_RECV == wait->what ? "up to " : "", (unsigned long long) wait->bytes);
    }
    if (FAB_LOOK_ANY != wait->peer) {
        snprintf(peer, sizeof(peer), "rank %u", rank_of(wait->peer));
    }
    mca_pml_tm_text_line(
        text, "  rank %-4u %s:%u  %s %s %s, tag %s, %s%s: %s; %.1f s", rank_of(node->name),
        node->state.host, node->state.pid, '\0' != node->state.call[0] ? node->state.call : "MPI",
        waits[wait->what].is_from ? "from" : "to", peer, mca_pml_tm_tag_text(tag, wait->tag), bytes,
        wait->comm, waits[wait->what].why, node->state.waited_ms / 1000.0);
}

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

/* What a node waits for, or what is known of it. */
static void lines_of_node(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node)
{
    if (!mca_pml_tm_node_answers(node) || 0 == node->state.num_waits) {
        line_of_other(text, node);
        return;
    }
    for (int i = 0; i < node->state.num_waits; ++i) {
        line_of_wait(text, node, &node->state.waits[i]);
    }
    if (0 != node->state.more) {
        mca_pml_tm_text_line(text, "            ... and %u more", node->state.more);
    }
    if (!mca_pml_tm_node_waits(node)) {
        mca_pml_tm_text_line(text, FAB_LOOK_PROBE == node->state.waits[0].what
                                       ? "            (in a loop: the call returns if there is "
                                         "none, and nothing was sent or received meanwhile)"
                                       : "            (the call may end without these)");
    }
}

/* ---- messages that nearly fit ------------------------------------------- */

typedef struct near {
    mca_pml_tm_text_t *text; /* NULL: only count */
    const mca_pml_tm_wait_t *wait;
    const mca_pml_tm_comm_t *tmc; /* where the messages are */
    bool is_same_comm;
    int count;
} near_t;

/* Why the message does not fit; NULL: in too many ways. */
static const char *why_not(const near_t *near, const mca_pml_tm_msg_t *msg)
{
    const bool is_source = FAB_LOOK_ANY == near->wait->peer || near->wait->peer == msg->peer->name;
    const int32_t wanted = near->wait->tag, tag = mca_pml_tm_tag_tag(msg->hdr.tag);
    const bool is_tag = OMPI_ANY_TAG == wanted ? tag >= 0 : wanted == tag;
    const bool is_internal = wanted < 0 && OMPI_ANY_TAG != wanted;

    if (near->is_same_comm && is_source && !is_tag && is_internal == (tag < 0)) {
        return is_internal ? "another collective operation" : "another tag";
    }
    if (near->is_same_comm && !is_source && is_tag) {
        return "another source";
    }
    return !near->is_same_comm && is_source && is_tag ? "another communicator" : NULL;
}

static bool look_at_msg(void *ctx, const fab_match_msg_t *match)
{
    near_t *near = ctx;
    const mca_pml_tm_msg_t *msg = mca_pml_tm_msg_of((fab_match_msg_t *) match);
    const char *why = why_not(near, msg);
    char tag[PML_TM_TAG_SIZE];

    if (NULL != why) {
        if (NULL != near->text) {
            mca_pml_tm_text_line(near->text, "    nearly: from rank %u, tag %s, %zu bytes, %s: %s",
                                 rank_of(msg->peer->name),
                                 mca_pml_tm_tag_text(tag, mca_pml_tm_tag_tag(msg->hdr.tag)),
                                 msg->len, near->tmc->comm->c_name, why);
        }
        ++near->count;
    }
    return near->count < MAX_NEAR;
}

/* Unexpected messages here that nearly fit what this process waits for; returns how many. */
static int look_for_near(mca_pml_tm_text_t *text)
{
    const mca_pml_tm_answer_t *state = &mca_pml_tm_node(0)->state;
    near_t near = {.text = text, .wait = &state->waits[0]};

    if (1 != state->num_waits ||
        (FAB_LOOK_RECV != state->waits[0].what && FAB_LOOK_PROBE != state->waits[0].what)) {
        return 0;
    }
    for (uint32_t i = 0; i < mca_pml_tm.num_comms && near.count < MAX_NEAR; ++i) {
        near.tmc = mca_pml_tm.comms[i];
        if (NULL != near.tmc) {
            near.is_same_comm = near.wait->context == near.tmc->context;
            fab_match_visit_msgs(&near.tmc->match, look_at_msg, &near);
        }
    }
    return near.count;
}

/* ---- a process that does not answer, of this user on this host ---------- */

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

/* What it shows (fab_look_read.h), and what the kernel says of it; nothing, if it is not found. */
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
    mca_pml_tm_text_line(text, "    it is process %u (%s) of this host, which %s%s", search.pid,
                         search.look.program,
                         fab_look_what_it_does(fab_look_process_state(search.pid)), last);
}

/* ---- for programs ------------------------------------------------------- */

static void add_wait(mca_pml_tm_json_t *json, const mca_pml_tm_wait_t *wait)
{
    mca_pml_tm_json_open(json, NULL, "{}");
    mca_pml_tm_json_text(json, "for", waits[wait->what].name);
    mca_pml_tm_json_number(json, "rank",
                           FAB_LOOK_ANY == wait->peer ? -1 : (long long) (uint32_t) wait->peer);
    mca_pml_tm_json_number(json, "tag", wait->tag);
    mca_pml_tm_json_number(json, "bytes", (long long) wait->bytes);
    mca_pml_tm_json_text(json, "communicator", wait->comm);
    mca_pml_tm_json_close(json, "{}");
}

static void add_answer(mca_pml_tm_json_t *json, const mca_pml_tm_answer_t *state)
{
    mca_pml_tm_json_text(json, "host", state->host);
    mca_pml_tm_json_number(json, "pid", state->pid);
    mca_pml_tm_json_text(json, "call", state->call);
    mca_pml_tm_json_seconds(json, "waited_s", state->waited_ms);
    mca_pml_tm_json_open(json, "waits", "[]");
    for (int i = 0; i < state->num_waits; ++i) {
        add_wait(json, &state->waits[i]);
    }
    mca_pml_tm_json_close(json, "[]");
    mca_pml_tm_json_number(json, "more_waits", state->more);
}

static void add_node(mca_pml_tm_json_t *json, const mca_pml_tm_node_t *node)
{
    mca_pml_tm_json_open(json, NULL, "{}");
    mca_pml_tm_json_number(json, "rank", (uint32_t) node->name);
    mca_pml_tm_json_text(json, "status", statuses[node->status].name);
    if (node->next >= 0) {
        mca_pml_tm_json_number(json, "waits_for",
                               (uint32_t) mca_pml_tm_nodes.node[node->next].name);
    }
    if (PML_TM_NODE_ANSWERED == node->status) {
        add_answer(json, &node->state);
    }
    mca_pml_tm_json_close(json, "{}");
}

/*
 * All processes that were asked, and what they wait for; the first is this one.  kind: "circle", or
 * what else was found; length: of the circle.  NULL: there is no params.report_file, or no memory.
 */
static mca_pml_tm_json_t *write_json(const char *kind, int length)
{
    mca_pml_tm_json_t *json = mca_pml_tm_json_new();

    if (NULL == json) {
        return NULL;
    }
    mca_pml_tm_json_text(json, "report", "wait");
    mca_pml_tm_json_text(json, "kind", kind);
    mca_pml_tm_json_number(json, "circle", length);
    mca_pml_tm_json_open(json, "ranks", "[]");
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        add_node(json, &mca_pml_tm_nodes.node[i]);
    }
    mca_pml_tm_json_close(json, "[]");
    return json;
}

/* ---- the reports -------------------------------------------------------- */

static double waited_s(void)
{
    return mca_pml_tm_node(0)->state.waited_ms / 1000.0;
}

/* This process: its wait, where in the program, and what nearly fits. */
static void lines_of_self(mca_pml_tm_text_t *text)
{
    char place[PML_TM_PLACE_SIZE];

    lines_of_node(text, mca_pml_tm_node(0));
    mca_pml_tm_state_place(place);
    if ('\0' != place[0]) {
        mca_pml_tm_text_line(text, "    called at %s", place);
    }
    (void) look_for_near(text);
}

/* Is every process of the circle from `at` on in such a wait? */
static bool is_circle_of(int at, fab_look_wait_t what)
{
    int i = at;

    do {
        if (mca_pml_tm_node(i)->state.waits[0].what != what) {
            return false;
        }
        i = mca_pml_tm_node(i)->next;
    } while (i != at);
    return true;
}

static void advise_circle(mca_pml_tm_text_t *text, int at)
{
    if (at == mca_pml_tm_node(at)->next) {
        mca_pml_tm_text_line(text, "  No other rank can end this call: post the receive, or the "
                                   "non-blocking send, before it.");
    } else if (is_circle_of(at, FAB_LOOK_MATCH)) {
        mca_pml_tm_text_line(text,
                             "  Each has the other's message and no receive for it. Messages above "
                             "%u bytes (pml_tm_eager_limit), and",
                             mca_pml_tm.eager_limit);
        mca_pml_tm_text_line(text, "  synchronous ones, wait for their receive, with every MPI: "
                                   "post the receives first, or use MPI_Sendrecv.");
    } else if (is_circle_of(at, FAB_LOOK_RECV)) {
        mca_pml_tm_text_line(text,
                             "  Each waits for a message before it sends one: let one of them "
                             "send first, or use MPI_Sendrecv.");
    } else {
        mca_pml_tm_text_line(text, "  None of these calls can end: what each waits for comes after "
                                   "the wait of the next.");
    }
}

/* This process is in a circle, and the lowest in it. */
static void lines_of_circle(mca_pml_tm_text_t *text, int length)
{
    const unsigned rank = rank_of(mca_pml_tm_node(0)->name);
    const char *unless = mca_pml_tm_node(0)->is_stuck ? ""
                                                      : ", unless other threads of theirs go on";

    if (1 == length) {
        mca_pml_tm_text_line(text,
                             "pml tm: rank %u has waited for %.0f s, for itself%s "
                             "(pml_tm_report_after):",
                             rank, waited_s(), unless);
    } else {
        mca_pml_tm_text_line(text,
                             "pml tm: %d ranks wait for each other%s; rank %u has waited for %.0f "
                             "s (pml_tm_report_after):",
                             length, unless, rank, waited_s());
    }
    lines_of_self(text);
    for (int at = mca_pml_tm_node(0)->next; at != 0; at = mca_pml_tm_node(at)->next) {
        lines_of_node(text, mca_pml_tm_node(at));
    }
    advise_circle(text, 0);
}

/* The number of processes in this one's circle, if it is its lowest; 0: it is not. */
static int circle_length(void)
{
    int length = 1, at = mca_pml_tm_node(0)->next;

    while (at > 0 && length <= mca_pml_tm_nodes.count) {
        if (mca_pml_tm_node(at)->name < mca_pml_tm_node(0)->name) {
            return 0;
        }
        ++length;
        at = mca_pml_tm_node(at)->next;
    }
    return 0 == at ? length : 0;
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

    *is_lowest = true;
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

/* This process waits for one that is not stuck. */
static bool lines_of_wait(mca_pml_tm_text_t *text, bool must_print, bool is_by_signal)
{
    const int root = mca_pml_tm_stuck_root(0);
    bool is_lowest = false;
    int waiting = root > 0 ? count_waiting_for(root, &is_lowest) : 0;

    if (!must_print && !(root > 0 && root == mca_pml_tm_node(0)->next && is_lowest)) {
        return false;
    }
    mca_pml_tm_text_line(
        text, "pml tm: rank %u has waited for %.0f s%s:", rank_of(mca_pml_tm_node(0)->name),
        waited_s(), is_by_signal ? "" : " (pml_tm_report_after)");
    lines_of_self(text);
    if (root <= 0) {
        return true;
    }
    lines_of_node(text, mca_pml_tm_node(root));
    if (PML_TM_NODE_SILENT == mca_pml_tm_node(root)->status) {
        line_of_silent(text, mca_pml_tm_node(root)->name);
    }
    if (waiting > 1) {
        mca_pml_tm_text_line(text, "  %d ranks wait for rank %u, directly or through others.",
                             waiting, rank_of(mca_pml_tm_node(root)->name));
    }
    if (PML_TM_NODE_SILENT == mca_pml_tm_node(root)->status && !is_by_signal) {
        mca_pml_tm_text_line(text,
                             "  If rank %u computes for so long, nothing is wrong: raise "
                             "pml_tm_report_after.",
                             rank_of(mca_pml_tm_node(root)->name));
    }
    return true;
}

mca_pml_tm_hang_report_t mca_pml_tm_hang_write(bool is_by_signal)
{
    mca_pml_tm_text_t *text = mca_pml_tm_text_new(MAX_LINES);
    const bool must_print = is_by_signal || look_for_near(NULL) > 0;
    const bool is_stuck = mca_pml_tm_node(0)->is_stuck;
    const char *kind = NULL;
    int length;

    if (NULL == text) {
        return (mca_pml_tm_hang_report_t){NULL, NULL};
    }
    length = is_stuck || is_circle_of_threads() ? circle_length() : 0;
    if (length > 0) {
        lines_of_circle(text, length);
        kind = is_stuck ? "circle" : "circle of threads";
    } else if (is_stuck && must_print) {
        mca_pml_tm_text_line(text,
                             "pml tm: rank %u has waited for %.0f s, for ranks that wait for each "
                             "other:",
                             rank_of(mca_pml_tm_node(0)->name), waited_s());
        lines_of_self(text);
        kind = "behind a circle";
    } else if (!is_stuck && lines_of_wait(text, must_print, is_by_signal)) {
        kind = "wait";
    }
    if (NULL == kind) {
        free(text);
        return (mca_pml_tm_hang_report_t){NULL, NULL};
    }
    return (mca_pml_tm_hang_report_t){text, write_json(kind, length)};
}
