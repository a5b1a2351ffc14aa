/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report of a long wait, for programs.
 */
#include "pml_tm_hang_json.h"

#include "pml_tm_ask.h"

static void add_wait(mca_pml_tm_json_t *json, const mca_pml_tm_wait_t *wait)
{
    static const char *const what[] = {
        [PML_TM_FOR_RECV] = "receive",      [PML_TM_FOR_PROBE] = "probe",
        [PML_TM_FOR_ROOM] = "room",         [PML_TM_FOR_HELD] = "held",
        [PML_TM_FOR_MATCH] = "match",       [PML_TM_FOR_SENDING] = "sending",
        [PML_TM_FOR_ARRIVING] = "arriving",
    };

    mca_pml_tm_json_open(json, NULL, "{}");
    mca_pml_tm_json_text(json, "for", what[wait->what]);
    mca_pml_tm_json_number(json, "rank",
                           PML_TM_ANY_PEER == wait->peer ? -1 : (long long) (uint32_t) wait->peer);
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
    static const char *const status[] = {
        [PML_TM_NODE_NEW] = "not asked",    [PML_TM_NODE_ASKED] = "not asked",
        [PML_TM_NODE_ANSWERED] = "answers", [PML_TM_NODE_SILENT] = "does not call MPI",
        [PML_TM_NODE_UNKNOWN] = "unknown",  [PML_TM_NODE_GONE] = "gone",
    };

    mca_pml_tm_json_open(json, NULL, "{}");
    mca_pml_tm_json_number(json, "rank", (uint32_t) node->name);
    mca_pml_tm_json_text(json, "status", status[node->status]);
    if (node->next >= 0) {
        mca_pml_tm_json_number(json, "waits_for",
                               (uint32_t) mca_pml_tm_nodes.node[node->next].name);
    }
    if (PML_TM_NODE_ANSWERED == node->status) {
        add_answer(json, &node->state);
    }
    mca_pml_tm_json_close(json, "{}");
}

mca_pml_tm_json_t *mca_pml_tm_hang_json(const char *kind, int length)
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
