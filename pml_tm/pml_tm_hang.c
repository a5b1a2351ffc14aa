/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report of a wait that takes long.
 */
#include "pml_tm_hang.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fabric/fab_clock.h"

#include "pml_tm_ask.h"
#include "pml_tm_hang_json.h"
#include "pml_tm_msg.h"
#include "pml_tm_outside.h"
#include "pml_tm_state.h"
#include "pml_tm_text.h"

enum {
    MAX_REPORTS = 3,       /* of one wait: after the time, twice and four times as long */
    MAX_LINES = 40,        /* of a report */
    MAX_NEAR = 4,          /* messages that nearly fit */
    MAX_ANY = 64,          /* ranks that a wait for any rank is followed to */
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
    bool is_by_signal; /* everybody prints */
} report;

/* Lock of both: the fabric's. */
static uint64_t waited_ns; /* in all waits */
static struct {
    uint64_t ns; /* of these, for the rank, less those for others since: a vote (pml_tm_advice.h) */
    uint32_t rank;
} waited_for;

static volatile sig_atomic_t is_asked; /* by the signal */

/* ---- the picture -------------------------------------------------------- */

static inline mca_pml_tm_node_t *node_of(int at)
{
    return &mca_pml_tm_nodes.node[at];
}

static bool has_answer(const mca_pml_tm_node_t *node)
{
    return PML_TM_NODE_ANSWERED == node->status;
}

static bool is_waiting(const mca_pml_tm_node_t *node)
{
    return has_answer(node) && 0 != (node->state.flags & PML_TM_STATE_WAITS);
}

/* Calls fn for each process that one of the waits may end by.  False: they are not all known. */
static bool for_each_peer(const mca_pml_tm_node_t *node, void (*fn)(void *ctx, uint64_t name),
                          void *ctx)
{
    bool is_complete = 0 == node->state.more;

    for (int i = 0; i < node->state.num_waits; ++i) {
        const mca_pml_tm_wait_t *wait = &node->state.waits[i];
        const mca_pml_tm_comm_t *tmc = mca_pml_tm_state_comm(wait);

        if (PML_TM_ANY_PEER != wait->peer) {
            fn(ctx, wait->peer);
            continue;
        }
        is_complete &= NULL != tmc && tmc->num_sources <= MAX_ANY;
        for (int32_t rank = 0; is_complete && rank < tmc->num_sources; ++rank) {
            opal_process_name_t name = ompi_group_get_proc_name(tmc->comm->c_remote_group, rank);

            if (mca_pml_tm_peer_name(&name) != node->name) {
                fn(ctx, mca_pml_tm_peer_name(&name));
            }
        }
    }
    return is_complete;
}

static void add_peer(void *ctx, uint64_t name)
{
    (void) ctx;
    (void) mca_pml_tm_ask_add(name);
}

/* Ask those that the answers so far lead to. */
static void expand(uint64_t now_ns)
{
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (is_waiting(node_of(i)) && !node_of(i)->is_expanded) {
            node_of(i)->is_expanded = true;
            (void) for_each_peer(node_of(i), add_peer, NULL);
        }
        if (PML_TM_NODE_NEW == node_of(i)->status) {
            mca_pml_tm_ask(node_of(i), now_ns);
        }
    }
}

/* How the processes are that a node waits for. */
typedef struct peers {
    int first_stuck; /* a node; -1: none */
    int first_free;
    int first_root;      /* of these, the first that waits for nobody */
    bool is_one_unknown; /* there was no room for it */
} peers_t;

static void look_at_peer(void *ctx, uint64_t name)
{
    peers_t *peers = ctx;
    int at = mca_pml_tm_ask_add(name);

    if (at < 0) {
        peers->is_one_unknown = true;
    } else if (node_of(at)->is_stuck) {
        peers->first_stuck = peers->first_stuck < 0 ? at : peers->first_stuck;
    } else {
        peers->first_free = peers->first_free < 0 ? at : peers->first_free;
        if (peers->first_root < 0 && !is_waiting(node_of(at))) {
            peers->first_root = at;
        }
    }
}

/* Can one of its waits end?  Sets next. */
static bool may_go_on(mca_pml_tm_node_t *node)
{
    peers_t peers = {.first_stuck = -1, .first_free = -1, .first_root = -1};
    const bool is_complete = for_each_peer(node, look_at_peer, &peers);

    node->next = peers.first_root >= 0   ? peers.first_root
                 : peers.first_free >= 0 ? peers.first_free
                                         : peers.first_stuck;
    return !is_complete || peers.is_one_unknown || peers.first_free >= 0 || peers.first_stuck < 0;
}

static bool is_out_of_sight(const mca_pml_tm_node_t *node)
{
    return !is_waiting(node) ||
           0 != (node->state.flags & (PML_TM_STATE_MOVES | PML_TM_STATE_THREADS));
}

/*
 * Who is stuck?  All at first; then who waits for one that is not is not, until nothing changes.
 * The way of one that is not stuck leads to one that was found not to be so before, so it ends.
 */
static void find_stuck(void)
{
    bool has_changed = true;

    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        node_of(i)->is_stuck = !is_out_of_sight(node_of(i));
        node_of(i)->next = -1;
    }
    while (has_changed) {
        has_changed = false;
        for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
            if (node_of(i)->is_stuck && may_go_on(node_of(i))) {
                node_of(i)->is_stuck = false;
                has_changed = true;
            }
        }
    }
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (is_waiting(node_of(i)) && is_out_of_sight(node_of(i))) {
            (void) may_go_on(node_of(i)); /* another thread may, or data comes: for next alone */
        }
    }
}

/* The end of the way from a node that is not stuck; -1: the way ends nowhere. */
static int root_of(int at)
{
    for (int steps = 0; steps <= mca_pml_tm_nodes.count; ++steps) {
        if (!is_waiting(node_of(at)) || node_of(at)->next < 0) {
            return at;
        }
        at = node_of(at)->next;
    }
    return -1;
}

/* ---- text --------------------------------------------------------------- */

static unsigned rank_of(uint64_t name)
{
    return (unsigned) (uint32_t) name; /* fab_name() */
}

static const char *to_or_from(mca_pml_tm_for_t what)
{
    return PML_TM_FOR_RECV == what || PML_TM_FOR_PROBE == what ? "from" : "to";
}

static const char *why_waits(const mca_pml_tm_wait_t *wait)
{
    static const char *const why[] = {
        [PML_TM_FOR_RECV] = "no message fits",
        [PML_TM_FOR_PROBE] = "no message fits",
        [PML_TM_FOR_ROOM] = "no room towards the receiver",
        [PML_TM_FOR_HELD] = "held back, the receiver is short of memory for unexpected messages",
        [PML_TM_FOR_MATCH] = "the receiver knows of it, no receive fits",
        [PML_TM_FOR_DATA] = "data is on the way",
    };

    return why[wait->what];
}

static void line_of_wait(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node,
                         const mca_pml_tm_wait_t *wait)
{
    char tag[PML_TM_NAME_SIZE], peer[32] = "any rank", bytes[48] = "";

    if (PML_TM_FOR_PROBE != wait->what) {
        snprintf(bytes, sizeof(bytes), "%s%llu bytes, ",
                 PML_TM_FOR_RECV == wait->what ? "up to " : "", (unsigned long long) wait->bytes);
    }
    if (PML_TM_ANY_PEER != wait->peer) {
        snprintf(peer, sizeof(peer), "rank %u", rank_of(wait->peer));
    }
    mca_pml_tm_text_line(text, "  rank %-4u %s:%u  %s %s %s, tag %s, %s%s: %s; %.1f s",
                         rank_of(node->name), node->state.host, node->state.pid,
                         '\0' != node->state.call[0] ? node->state.call : "MPI",
                         to_or_from(wait->what), peer, mca_pml_tm_text_tag(tag, wait->tag), bytes,
                         wait->comm, why_waits(wait), node->state.waited_ms / 1000.0);
}

static void line_of_other(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node)
{
    static const char silent[] = "has not answered for 2 s: it does not call MPI; it computes, or "
                                 "was stopped";
    static const char *const how[] = {
        [PML_TM_NODE_NEW] = "was not asked",
        [PML_TM_NODE_ASKED] = "was not asked",
        [PML_TM_NODE_ANSWERED] = "",
        [PML_TM_NODE_SILENT] = silent,
        [PML_TM_NODE_UNKNOWN] = "was never in contact with this process, and was not asked",
        [PML_TM_NODE_GONE] = "has left the job, or failed",
    };
    const bool has_host = has_answer(node);

    if (!has_host) {
        mca_pml_tm_text_line(text, "  rank %-4u %s", rank_of(node->name), how[node->status]);
    } else {
        mca_pml_tm_text_line(text, "  rank %-4u %s:%u  is in %s, and waits for no message there",
                             rank_of(node->name), node->state.host, node->state.pid,
                             '\0' != node->state.call[0] ? node->state.call : "a call of MPI");
    }
}

/* What a node waits for, or what is known of it. */
static void lines_of_node(mca_pml_tm_text_t *text, const mca_pml_tm_node_t *node)
{
    if (!has_answer(node) || 0 == node->state.num_waits) {
        line_of_other(text, node);
        return;
    }
    for (int i = 0; i < node->state.num_waits; ++i) {
        line_of_wait(text, node, &node->state.waits[i]);
    }
    if (0 != node->state.more) {
        mca_pml_tm_text_line(text, "            ... and %u more", node->state.more);
    }
    if (!is_waiting(node)) {
        mca_pml_tm_text_line(text, PML_TM_FOR_PROBE == node->state.waits[0].what
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

static bool is_near_tag(int32_t wanted, int32_t tag)
{
    return OMPI_ANY_TAG == wanted ? tag >= 0 : wanted == tag;
}

/* Why the message does not fit; NULL: in too many ways. */
static const char *why_not(const near_t *near, const mca_pml_tm_msg_t *msg)
{
    const bool is_source = PML_TM_ANY_PEER == near->wait->peer ||
                           near->wait->peer == msg->peer->name;
    const bool is_tag = is_near_tag(near->wait->tag, mca_pml_tm_tag_tag(msg->hdr.tag));
    const bool is_internal = near->wait->tag < 0 && OMPI_ANY_TAG != near->wait->tag;

    if (near->is_same_comm && is_source && !is_tag &&
        is_internal == (mca_pml_tm_tag_tag(msg->hdr.tag) < 0)) {
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
    char tag[PML_TM_NAME_SIZE];

    if (NULL != why) {
        if (NULL != near->text) {
            mca_pml_tm_text_line(near->text, "    nearly: from rank %u, tag %s, %zu bytes, %s: %s",
                                 rank_of(msg->peer->name),
                                 mca_pml_tm_text_tag(tag, mca_pml_tm_tag_tag(msg->hdr.tag)),
                                 msg->len, near->tmc->comm->c_name, why);
        }
        ++near->count;
    }
    return near->count < MAX_NEAR;
}

/* Unexpected messages here that nearly fit what this process waits for; returns how many. */
static int look_for_near(mca_pml_tm_text_t *text)
{
    const mca_pml_tm_answer_t *state = &node_of(0)->state;
    near_t near = {.text = text, .wait = &state->waits[0]};

    if (1 != state->num_waits ||
        (PML_TM_FOR_RECV != state->waits[0].what && PML_TM_FOR_PROBE != state->waits[0].what)) {
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

/* ---- the reports -------------------------------------------------------- */

static double waited_s(void)
{
    return node_of(0)->state.waited_ms / 1000.0;
}

/* This process: its wait, where in the program, and what nearly fits. */
static void lines_of_self(mca_pml_tm_text_t *text)
{
    char place[PML_TM_PLACE_SIZE];

    lines_of_node(text, node_of(0));
    mca_pml_tm_state_place(place);
    if ('\0' != place[0]) {
        mca_pml_tm_text_line(text, "    called at %s", place);
    }
    (void) look_for_near(text);
}

/* Is every process of the circle from `at` on in such a wait? */
static bool is_circle_of(int at, mca_pml_tm_for_t what)
{
    int i = at;

    do {
        if (node_of(i)->state.waits[0].what != what) {
            return false;
        }
        i = node_of(i)->next;
    } while (i != at);
    return true;
}

static void advise_circle(mca_pml_tm_text_t *text, int at)
{
    if (at == node_of(at)->next) {
        mca_pml_tm_text_line(text, "  Nobody else can end this call: post the receive, or the "
                                   "non-blocking send, before it.");
    } else if (is_circle_of(at, PML_TM_FOR_MATCH)) {
        mca_pml_tm_text_line(text,
                             "  Each has the other's message and no receive for it. Messages above "
                             "%u bytes (pml_tm_eager_limit), and",
                             mca_pml_tm.eager_limit);
        mca_pml_tm_text_line(text, "  synchronous ones, wait for their receive, with every MPI: "
                                   "post the receives first, or use MPI_Sendrecv.");
    } else if (is_circle_of(at, PML_TM_FOR_RECV)) {
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
    if (!node_of(0)->is_stuck) {
        mca_pml_tm_text_line(text,
                             "pml tm: %d ranks wait for each other, unless other threads of "
                             "theirs go on; rank %u has waited for %.0f s (pml_tm_report_after):",
                             length, rank_of(node_of(0)->name), waited_s());
    } else if (1 == length) {
        mca_pml_tm_text_line(text,
                             "pml tm: rank %u has waited for %.0f s, for itself "
                             "(pml_tm_report_after):",
                             rank_of(node_of(0)->name), waited_s());
    } else {
        mca_pml_tm_text_line(text,
                             "pml tm: %d ranks wait for each other; rank %u has waited for %.0f s "
                             "(pml_tm_report_after):",
                             length, rank_of(node_of(0)->name), waited_s());
    }
    lines_of_self(text);
    for (int at = node_of(0)->next; at != 0; at = node_of(at)->next) {
        lines_of_node(text, node_of(at));
    }
    advise_circle(text, 0);
}

/* The number of processes in this one's circle, if it is its lowest; 0: it is not. */
static int circle_length(void)
{
    int length = 1, at = node_of(0)->next;

    while (at > 0 && length <= mca_pml_tm_nodes.count) {
        if (node_of(at)->name < node_of(0)->name) {
            return 0;
        }
        ++length;
        at = node_of(at)->next;
    }
    return 0 == at ? length : 0;
}

/* A circle that would be stuck, if its processes had no other threads? */
static bool is_circle_of_threads(void)
{
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (-1 == root_of(i) && 0 != (node_of(i)->state.flags & PML_TM_STATE_MOVES)) {
            return false;
        }
    }
    return -1 == root_of(0);
}

/* How many ranks wait for this root, with this one; *is_lowest: of those that do so directly. */
static int count_waiting_for(int root, bool *is_lowest)
{
    int count = 0;

    *is_lowest = true;
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (i != root && is_waiting(node_of(i)) && root == root_of(i)) {
            ++count;
            *is_lowest &= root != node_of(i)->next || node_of(i)->name >= node_of(0)->name;
        }
    }
    return count;
}

/* This process waits for one that is not stuck. */
static bool lines_of_wait(mca_pml_tm_text_t *text, bool must_print)
{
    const int root = root_of(0);
    bool is_lowest = false;
    int waiting = root > 0 ? count_waiting_for(root, &is_lowest) : 0;

    if (!must_print && !(root > 0 && root == node_of(0)->next && is_lowest)) {
        return false;
    }
    mca_pml_tm_text_line(text,
                         "pml tm: rank %u has waited for %.0f s%s:", rank_of(node_of(0)->name),
                         waited_s(), report.is_by_signal ? "" : " (pml_tm_report_after)");
    lines_of_self(text);
    if (root <= 0) {
        return true;
    }
    lines_of_node(text, node_of(root));
    if (PML_TM_NODE_SILENT == node_of(root)->status) {
        mca_pml_tm_outside_line(text, node_of(root)->name);
    }
    if (waiting > 1) {
        mca_pml_tm_text_line(text, "  %d ranks wait for rank %u, directly or through others.",
                             waiting, rank_of(node_of(root)->name));
    }
    if (PML_TM_NODE_SILENT == node_of(root)->status && !report.is_by_signal) {
        mca_pml_tm_text_line(text,
                             "  If rank %u computes for so long, nothing is wrong: raise "
                             "pml_tm_report_after.",
                             rank_of(node_of(root)->name));
    }
    return true;
}

/* What is to be printed, and written for programs; NULL: nothing. */
typedef struct written {
    mca_pml_tm_text_t *text;
    mca_pml_tm_json_t *json;
} written_t;

/* All answers are here.  Text NULL: others report this. */
static written_t write_report(void)
{
    mca_pml_tm_text_t *text = mca_pml_tm_text_new(MAX_LINES);
    const bool must_print = report.is_by_signal || look_for_near(NULL) > 0;
    int length;

    if (NULL == text) {
        return (written_t){NULL, NULL};
    }
    length = node_of(0)->is_stuck || is_circle_of_threads() ? circle_length() : 0;
    if (length > 0) {
        lines_of_circle(text, length);
        return (written_t){
            text,
            mca_pml_tm_hang_json(node_of(0)->is_stuck ? "circle" : "circle of threads", length)};
    }
    if (node_of(0)->is_stuck ? must_print : lines_of_wait(text, must_print)) {
        if (node_of(0)->is_stuck) {
            mca_pml_tm_text_line(text,
                                 "pml tm: rank %u has waited for %.0f s, for ranks that wait "
                                 "for each other:",
                                 rank_of(node_of(0)->name), waited_s());
            lines_of_self(text);
        }
        return (written_t){
            text, mca_pml_tm_hang_json(node_of(0)->is_stuck ? "behind a circle" : "wait", 0)};
    }
    free(text);
    return (written_t){NULL, NULL};
}

/* ---- the steps ---------------------------------------------------------- */

static void begin_asking(void)
{
    ++mca_pml_tm_nodes.question;
    report.step = ASK;
}

static void begin(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    if (!mca_pml_tm_ask_begin() || 0 != mca_pml_tm_ask_add(mca_pml_tm.fab->config.name)) {
        return;
    }
    report.watch = watch;
    report.begun_ns = now_ns;
    report.wait = watch->number;
    report.is_crowd = false;
    begin_asking();
}

static void give_up(uint64_t now_ns)
{
    report.step = IDLE;
    report.next_ns = now_ns + AGAIN_NS;
}

/*
 * This process is the first in line for one that waits for nobody: ask all of its communicator, to
 * see who else is.  True: some are to be asked.
 */
static bool add_crowd(void)
{
    const mca_pml_tm_comm_t *tmc;
    const int known = mca_pml_tm_nodes.count;

    if (report.is_crowd || node_of(0)->is_stuck || 0 == node_of(0)->state.num_waits) {
        return false;
    }
    report.is_crowd = true;
    tmc = mca_pml_tm_state_comm(&node_of(0)->state.waits[0]);
    if (NULL == tmc || tmc->num_sources > PML_TM_MAX_NODES || root_of(0) != node_of(0)->next) {
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
        if (node_of(i)->is_stuck) {
            node_of(i)->first_wait = node_of(i)->state.wait;
            mca_pml_tm_ask(node_of(i), now_ns);
        }
    }
    report.step = AGAIN;
}

/* Has everybody who was found to be stuck the same wait as before? */
static bool is_confirmed(void)
{
    for (int i = 1; i < mca_pml_tm_nodes.count; ++i) {
        const mca_pml_tm_node_t *node = node_of(i);

        if (node->is_stuck && (!has_answer(node) || node->first_wait != node->state.wait)) {
            return false;
        }
    }
    find_stuck();
    return node_of(0)->is_stuck;
}

/* One step on.  *is_done: the report can be written now. */
static void go_on(uint64_t now_ns, bool *is_done)
{
    if (ASK == report.step) {
        expand(now_ns);
    }
    if (PAUSE != report.step && mca_pml_tm_ask_is_open(now_ns)) {
        return;
    }
    switch (report.step) {
    case ASK:
        find_stuck();
        if (node_of(0)->is_stuck) {
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

static bool is_due(const mca_pml_tm_watch_t *watch, const mca_pml_tm_answer_t *state,
                   uint64_t now_ns)
{
    const uint64_t after_ns = (uint64_t) mca_pml_tm.params.report_after * 1000000000;

    return IDLE == report.step &&
           (0 != is_asked ||
            (0 != after_ns && watch->reports < MAX_REPORTS && now_ns >= report.next_ns &&
             now_ns - watch->since_ns >= after_ns << watch->reports && state->num_waits > 0));
}

/* Is the wait so long that its state is worth looking at? Most ticks come in short ones. */
static bool is_to_look(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    return IDLE != report.step || 0 != is_asked || mca_pml_tm_ask_has_askers() ||
           (0 != mca_pml_tm.params.report_after &&
            now_ns - watch->since_ns >=
                (uint64_t) mca_pml_tm.params.report_after * UINT64_C(1000000000));
}

static void count_waited_for(uint64_t name, uint64_t ns)
{
    const uint32_t rank = (uint32_t) name;

    if (PML_TM_ANY_PEER == name || (uint32_t) (name >> 32) != OMPI_PROC_MY_NAME->jobid) {
        return;
    }
    if (rank == waited_for.rank) {
        waited_for.ns += ns;
    } else if (ns <= waited_for.ns) {
        waited_for.ns -= ns;
    } else {
        waited_for.ns = ns - waited_for.ns;
        waited_for.rank = rank;
    }
}

/* The time since the last tick, if that was in the same wait. */
static void count_waited(mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    const uint64_t ns = now_ns - watch->last_ns;

    if (0 != watch->last_ns &&
        (NULL != watch->what.core || (NULL != watch->what.comm && !watch->what.may_return))) {
        waited_ns += ns;
        count_waited_for(mca_pml_tm_state_peer(watch), ns);
    }
    watch->last_ns = now_ns;
}

uint64_t mca_pml_tm_hang_waited_ns(void)
{
    return waited_ns;
}

uint64_t mca_pml_tm_hang_waited_for(uint32_t *rank)
{
    *rank = waited_for.rank;
    return waited_for.ns;
}

/* Lock held. */
static written_t look(mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    written_t written = {NULL, NULL};
    mca_pml_tm_answer_t state;
    bool is_done = false;

    mca_pml_tm_watch_look(watch, now_ns);
    count_waited(watch, now_ns);
    mca_pml_tm_state_show(watch, now_ns);
    if (!is_to_look(watch, now_ns)) {
        return written;
    }
    mca_pml_tm_state_get(&state, watch, now_ns);
    mca_pml_tm_ask_reply(&state);
    if (IDLE != report.step && report.watch == watch && report.wait != watch->number) {
        give_up(now_ns); /* the wait has ended */
    }
    if (IDLE != report.step && report.watch != watch) {
        if (now_ns - report.begun_ns >= ABANDONED_NS) {
            give_up(now_ns);
        }
        return written; /* another thread makes one */
    }
    if (is_due(watch, &state, now_ns)) {
        report.is_by_signal = 0 != is_asked;
        is_asked = 0;
        begin(watch, now_ns);
    }
    if (IDLE != report.step) {
        node_of(0)->state = state;
        node_of(0)->status = PML_TM_NODE_ANSWERED;
        go_on(now_ns, &is_done);
    }
    if (is_done) {
        written = write_report();
        watch->reports += !report.is_by_signal;
        report.step = IDLE;
        report.next_ns = now_ns;
    }
    return written;
}

/* The n-th of this process. Lock not held. */
static void write_json(mca_pml_tm_json_t *json)
{
    static atomic_uint number;
    char behind[64];

    snprintf(behind, sizeof(behind), "wait.%u.%u", OMPI_PROC_MY_NAME->vpid,
             atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1);
    mca_pml_tm_json_write(json, behind);
}

static void tick(void)
{
    written_t written;

    if (!fab_trylock(mca_pml_tm.fab)) {
        return;
    }
    written = look(mca_pml_tm_watch(), fab_now_ns());
    fab_unlock(mca_pml_tm.fab);
    if (NULL != written.json) {
        write_json(written.json);
    }
    if (NULL != written.text) {
        mca_pml_tm_text_print(written.text);
    }
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
