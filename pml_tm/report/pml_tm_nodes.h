/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes ask each other what they wait for; of the answers, which are stuck.  pml_tm_hang.c says
 * what that means.
 *
 * A question is answered by a poll of all of Open MPI that finds nothing, so silence is an answer,
 * too: the process does not call MPI.  Asking opens no connection.  Processes that have left the
 * job are not asked: a message to one would count as its failure.
 *
 * Lock: the fabric's, for all functions.
 */
#ifndef PML_TM_NODES_H
#define PML_TM_NODES_H

#include "pml_tm/base/pml_tm.h"

typedef enum {
    PML_TM_NODE_NEW,      /* not asked yet */
    PML_TM_NODE_ASKED,    /* no answer yet */
    PML_TM_NODE_ANSWERED, /* state is the answer */
    PML_TM_NODE_SILENT,   /* no answer in time */
    PML_TM_NODE_UNKNOWN,  /* there was no contact with it */
    PML_TM_NODE_GONE,     /* it failed or has left */
} mca_pml_tm_node_status_t;

/* A process that is asked. */
typedef struct mca_pml_tm_node {
    uint64_t name;
    uint64_t asked_ns;
    mca_pml_tm_node_status_t status;
    bool is_expanded;    /* those that it waits for were added */
    bool is_stuck;       /* it waits only for processes that are stuck */
    int next;            /* the first that it waits for and that decides: a node; -1: none */
    bool is_circle;      /* its way, along next, leads into a circle */
    uint32_t first_wait; /* state.wait of the first of two answers */
    mca_pml_tm_answer_t state;
} mca_pml_tm_node_t;

enum {
    PML_TM_MAX_NODES = 1024,
    PML_TM_ASK_NS = 2000000000, /* time for an answer */
};

typedef struct mca_pml_tm_nodes {
    int count;
    uint32_t question;   /* the number of the last question */
    unsigned num_askers; /* that get their answer by mca_pml_tm_ask_reply() */
    mca_pml_tm_node_t *node;
} mca_pml_tm_nodes_t;

/* Those that this process asks, or has asked; the first is this process. */
extern mca_pml_tm_nodes_t mca_pml_tm_nodes;

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

/* Forget all. False: no memory for others. */
bool mca_pml_tm_ask_begin(void);

/* The node with this name, added if it is new; -1: there is no room. */
int mca_pml_tm_ask_add(uint64_t name);

/* Ask a node. */
void mca_pml_tm_ask(mca_pml_tm_node_t *node, uint64_t now_ns);

/* Processes that did not answer in time are silent.  True: some answers are still to come. */
bool mca_pml_tm_ask_is_open(uint64_t now_ns);

/* Ask those that the answers so far lead to. */
void mca_pml_tm_stuck_expand(uint64_t now_ns);

/* Set is_stuck, next and is_circle of all nodes. */
void mca_pml_tm_stuck_find(void);

/* The end of the way from a node, along next; -1: the way ends nowhere. */
int mca_pml_tm_stuck_root(int at);

/* Answer all that have asked. */
void mca_pml_tm_ask_reply(const mca_pml_tm_answer_t *state);

/* Handlers of PML_TM_AM_ASK and PML_TM_AM_STATE. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_ask_asked);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_ask_told);

/* Free what is left when the component closes. */
void mca_pml_tm_ask_fini(void);

#endif /* PML_TM_NODES_H */
