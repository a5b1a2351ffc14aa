/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes ask each other what they wait for, and find of the answers which are stuck.
 */
#include "pml_tm/report/pml_tm_nodes.h"

#include <stdlib.h>

#include "fabric/fab_look_read.h"

#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_state.h"
#include "pml_tm/wait/pml_tm_idle.h"

enum {
    MAX_ASKERS = 256,
    MAX_ANY = 64, /* ranks that a wait for any rank is followed to */
};

mca_pml_tm_nodes_t mca_pml_tm_nodes;

/* Processes that wait for an answer.  A peer's record may go, its name stays. */
static struct {
    uint64_t name;
    uint32_t question;
} askers[MAX_ASKERS];

/* ---- asking ------------------------------------------------------------- */

bool mca_pml_tm_ask_begin(void)
{
    mca_pml_tm_nodes_t *nodes = &mca_pml_tm_nodes;

    nodes->count = 0;
    if (NULL == nodes->node) {
        nodes->node = malloc(PML_TM_MAX_NODES * sizeof(*nodes->node));
    }
    return NULL != nodes->node;
}

static int find(uint64_t name)
{
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (mca_pml_tm_nodes.node[i].name == name) {
            return i;
        }
    }
    return -1;
}

int mca_pml_tm_ask_add(uint64_t name)
{
    mca_pml_tm_nodes_t *nodes = &mca_pml_tm_nodes;
    int at = find(name);

    if (at < 0 && nodes->count < PML_TM_MAX_NODES) {
        at = nodes->count++;
        nodes->node[at] = (mca_pml_tm_node_t){.name = name, .next = -1};
    }
    return at;
}

/* May it be asked? If not, *status says why. */
static bool may_ask(const fab_peer_t *peer, mca_pml_tm_node_status_t *status)
{
    const mca_pml_tm_peer_t *record = NULL != peer ? peer->user[FAB_USER_PML] : NULL;

    *status = PML_TM_NODE_UNKNOWN;
    if (NULL == peer || NULL == peer->ep) {
        return false;
    }
    *status = PML_TM_NODE_GONE;
    return FAB_PEER_UP == peer->state && (NULL == record || !record->has_left);
}

void mca_pml_tm_ask(mca_pml_tm_node_t *node, uint64_t now_ns)
{
    fab_peer_t *peer = fab_peer_find(mca_pml_tm.fab, node->name);

    if (may_ask(peer, &node->status)) {
        node->status = PML_TM_NODE_ASKED;
        node->asked_ns = now_ns;
        (void) fab_post(peer, fab_hdr(PML_TM_AM_ASK, 0, mca_pml_tm_nodes.question), NULL, 0);
    }
}

bool mca_pml_tm_ask_is_open(uint64_t now_ns)
{
    bool is_open = false;

    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        mca_pml_tm_node_t *node = &mca_pml_tm_nodes.node[i];

        if (PML_TM_NODE_ASKED == node->status && now_ns - node->asked_ns >= PML_TM_ASK_NS) {
            node->status = PML_TM_NODE_SILENT;
        }
        is_open |= PML_TM_NODE_ASKED == node->status;
    }
    return is_open;
}

static bool is_valid(mca_pml_tm_answer_t *state)
{
    if (state->num_waits > PML_TM_STATE_MAX_WAITS ||
        state->num_near > PML_TM_STATE_MAX_WAITS - state->num_waits ||
        0 != (state->flags & ~PML_TM_STATE_ALL)) {
        return false;
    }
    fab_look_clean(state->call, sizeof(state->call));
    fab_look_clean(state->host, sizeof(state->host));
    for (int i = 0; i < state->num_waits + state->num_near; ++i) {
        const fab_wait_t *wait = &state->waits[i];
        const bool is_near = FAB_LOOK_MESSAGE == wait->what && FAB_NEAR_NOT != wait->near;
        const bool is_wait = wait->what <= FAB_LOOK_ARRIVING && FAB_NEAR_NOT == wait->near;

        if (!fab_look_is_wait(&state->waits[i]) || !(i < state->num_waits ? is_wait : is_near)) {
            return false;
        }
    }
    return true;
}

void mca_pml_tm_ask_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_answer_t state;
    int at = find(peer->name);

    (void) ctx;
    if (sizeof(state) != len) {
        mca_pml_tm_bad_message(peer, "state: its length");
        return;
    }
    memcpy(&state, data, sizeof(state)); /* another process may still write it */
    if (!is_valid(&state)) {
        mca_pml_tm_bad_message(peer, "state: no such flags or waits");
        return;
    }
    if (at >= 0 && hdr.app_ctx == mca_pml_tm_nodes.question &&
        PML_TM_NODE_ASKED == mca_pml_tm_nodes.node[at].status) {
        mca_pml_tm_nodes.node[at].state = state;
        mca_pml_tm_nodes.node[at].status = PML_TM_NODE_ANSWERED;
        mca_pml_tm_hurry_tick();
    }
}

/* ---- answering ---------------------------------------------------------- */

void mca_pml_tm_ask_asked(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_nodes_t *nodes = &mca_pml_tm_nodes;
    unsigned at = 0;

    (void) ctx, (void) data;
    if (0 != len) {
        mca_pml_tm_bad_message(peer, "question: its length");
        return;
    }
    while (at < nodes->num_askers && askers[at].name != peer->name) {
        ++at;
    }
    if (at < MAX_ASKERS) { /* for more there is no answer, as if this process did not call MPI */
        askers[at].name = peer->name;
        askers[at].question = hdr.app_ctx;
        nodes->num_askers += at == nodes->num_askers;
        mca_pml_tm_hurry_tick();
    }
}

void mca_pml_tm_ask_reply(const mca_pml_tm_answer_t *state)
{
    mca_pml_tm_nodes_t *nodes = &mca_pml_tm_nodes;
    mca_pml_tm_node_status_t status;

    while (nodes->num_askers > 0) {
        fab_peer_t *peer = fab_peer_find(mca_pml_tm.fab, askers[--nodes->num_askers].name);

        if (may_ask(peer, &status)) {
            (void) fab_post(peer, fab_hdr(PML_TM_AM_STATE, 0, askers[nodes->num_askers].question),
                            state, sizeof(*state));
        }
    }
}

/* ---- which are stuck ---------------------------------------------------- */

/* Calls fn for each process that one of the waits may end by.  False: they are not all known. */
static bool for_each_peer(const mca_pml_tm_node_t *node, void (*fn)(void *ctx, uint64_t name),
                          void *ctx)
{
    bool is_complete = 0 == (node->state.flags & PML_TM_STATE_MORE);

    for (int i = 0; i < node->state.num_waits; ++i) {
        const fab_wait_t *wait = &node->state.waits[i];
        const mca_pml_tm_comm_t *tmc = mca_pml_tm_state_comm(wait);

        if (FAB_LOOK_ANY != wait->peer) {
            fn(ctx, wait->peer);
            continue;
        }
        is_complete &= NULL != tmc && tmc->num_sources <= MAX_ANY;
        for (int32_t rank = 0; is_complete && rank < tmc->num_sources; ++rank) {
            const uint64_t name = mca_pml_tm_comm_name(tmc, rank);

            if (name != node->name) {
                fn(ctx, name);
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

void mca_pml_tm_stuck_expand(uint64_t now_ns)
{
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (mca_pml_tm_node_waits(mca_pml_tm_node(i)) && !mca_pml_tm_node(i)->is_expanded) {
            mca_pml_tm_node(i)->is_expanded = true;
            (void) for_each_peer(mca_pml_tm_node(i), add_peer, NULL);
        }
        if (PML_TM_NODE_NEW == mca_pml_tm_node(i)->status) {
            mca_pml_tm_ask(mca_pml_tm_node(i), now_ns);
        }
    }
}

/* How the processes are that a node waits for. */
typedef struct peers {
    int first_stuck; /* a node; -1: none */
    int first_free;
    int first_root;      /* of these, the first that does not wait */
    bool is_one_unknown; /* there was no room for it */
} peers_t;

static void look_at_peer(void *ctx, uint64_t name)
{
    peers_t *peers = ctx;
    int at = mca_pml_tm_ask_add(name);

    if (at < 0) {
        peers->is_one_unknown = true;
    } else if (mca_pml_tm_node(at)->is_stuck) {
        peers->first_stuck = peers->first_stuck < 0 ? at : peers->first_stuck;
    } else {
        peers->first_free = peers->first_free < 0 ? at : peers->first_free;
        if (peers->first_root < 0 && !mca_pml_tm_node_waits(mca_pml_tm_node(at))) {
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
    return !mca_pml_tm_node_waits(node) ||
           0 != (node->state.flags & (PML_TM_STATE_MOVES | PML_TM_STATE_THREADS));
}

/*
 * All are stuck at first; then each that waits for one that is not stuck is not, until nothing
 * changes.
 * The way of one that is not stuck leads to one that was found not to be so before, so it ends.
 * From the last to the first: most wait for processes that were asked after them.
 */
void mca_pml_tm_stuck_find(void)
{
    bool has_changed = true;

    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        mca_pml_tm_node(i)->is_stuck = !is_out_of_sight(mca_pml_tm_node(i));
        mca_pml_tm_node(i)->next = -1;
    }
    while (has_changed) {
        has_changed = false;
        for (int i = mca_pml_tm_nodes.count; i-- > 0;) {
            if (mca_pml_tm_node(i)->is_stuck && may_go_on(mca_pml_tm_node(i))) {
                mca_pml_tm_node(i)->is_stuck = false;
                has_changed = true;
            }
        }
    }
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        if (mca_pml_tm_node_waits(mca_pml_tm_node(i)) && is_out_of_sight(mca_pml_tm_node(i))) {
            (void) may_go_on(
                mca_pml_tm_node(i)); /* another thread may, or data comes: for next alone */
        }
    }
    for (int i = 0; i < mca_pml_tm_nodes.count; ++i) {
        mca_pml_tm_node(i)->is_circle = -1 == mca_pml_tm_stuck_root(i);
    }
}

int mca_pml_tm_stuck_root(int at)
{
    for (int steps = 0; steps <= mca_pml_tm_nodes.count; ++steps) {
        if (!mca_pml_tm_node_waits(mca_pml_tm_node(at)) || mca_pml_tm_node(at)->next < 0) {
            return at;
        }
        at = mca_pml_tm_node(at)->next;
    }
    return -1;
}

void mca_pml_tm_ask_fini(void)
{
    free(mca_pml_tm_nodes.node);
    mca_pml_tm_nodes = (mca_pml_tm_nodes_t){.question = mca_pml_tm_nodes.question};
}
