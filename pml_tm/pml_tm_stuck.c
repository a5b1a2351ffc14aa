/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who waits for whom, and who is stuck.
 */
#include "pml_tm_stuck.h"

#include "pml_tm_peer.h"
#include "pml_tm_state.h"

enum { MAX_ANY = 64 }; /* ranks that a wait for any rank is followed to */

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
    int first_root;      /* of these, the first that waits for nobody */
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
 * Who is stuck?  All at first; then who waits for one that is not is not, until nothing changes.
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
