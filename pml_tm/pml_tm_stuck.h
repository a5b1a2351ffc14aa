/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is stuck, of the processes that were asked (pml_tm_ask.h); node 0 is this process.
 * pml_tm_hang.c says what that means.
 *
 * Lock: the fabric's, for all functions.
 */
#ifndef PML_TM_STUCK_H
#define PML_TM_STUCK_H

#include "pml_tm_ask.h"

static inline mca_pml_tm_node_t *mca_pml_tm_node(int at)
{
    return &mca_pml_tm_nodes.node[at];
}

static inline bool mca_pml_tm_node_answers(const mca_pml_tm_node_t *node)
{
    return PML_TM_NODE_ANSWERED == node->status;
}

static inline bool mca_pml_tm_node_waits(const mca_pml_tm_node_t *node)
{
    return mca_pml_tm_node_answers(node) && 0 != (node->state.flags & PML_TM_STATE_WAITS);
}

/* Ask those that the answers so far lead to. */
void mca_pml_tm_stuck_expand(uint64_t now_ns);

/* Set is_stuck, next and is_circle of all nodes. */
void mca_pml_tm_stuck_find(void);

/* The end of the way from a node, along next; -1: the way ends nowhere. */
int mca_pml_tm_stuck_root(int at);

#endif /* PML_TM_STUCK_H */
