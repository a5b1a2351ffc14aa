/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events for tools; see pml_tm_tool.h.
 */
#include "pml_tm_tool.h"

#if PML_TM_HAS_EVENTS

#include "opal/mca/threads/thread_usage.h"

#include "pml_tm_wire.h"

/* What a tool reads. */
typedef struct message {
    uint64_t comm; /* its handle, as Open MPI's own events name communicators */
    uint64_t len;  /* bytes */
    int32_t source, tag;
} message_t;

typedef struct process {
    uint32_t job, rank; /* of MPI_COMM_WORLD, in its job */
} process_t;

static const mca_base_var_type_t message_types[] = {
    MCA_BASE_VAR_TYPE_UINT64_T, MCA_BASE_VAR_TYPE_UINT64_T, MCA_BASE_VAR_TYPE_INT32_T,
    MCA_BASE_VAR_TYPE_INT32_T};
static const ptrdiff_t message_offsets[] = {offsetof(message_t, comm), offsetof(message_t, len),
                                            offsetof(message_t, source), offsetof(message_t, tag)};

static const mca_base_var_type_t process_types[] = {MCA_BASE_VAR_TYPE_UINT32_T,
                                                    MCA_BASE_VAR_TYPE_UINT32_T};
static const ptrdiff_t process_offsets[] = {offsetof(process_t, job), offsetof(process_t, rank)};

typedef struct kind {
    const char *name, *help;
    int num;
    const mca_base_var_type_t *types;
    const ptrdiff_t *offsets;
} kind_t;

#define MESSAGE 4, message_types, message_offsets
#define PROCESS 2, process_types, process_offsets

static const kind_t kinds[PML_TM_TOOL_EVENTS] = {
    [PML_TM_TOOL_UNEXPECTED] = {"message_unexpected",
                                "A message arrived before its receive (communicator, bytes, source "
                                "rank, tag)",
                                MESSAGE},
    [PML_TM_TOOL_TRUNCATED] = {"message_truncated",
                               "A message is longer than its receive (communicator, bytes of the "
                               "message, source rank, tag)",
                               MESSAGE},
    [PML_TM_TOOL_PEER_FAILED] = {"peer_failed", "A process failed (its job, its rank)", PROCESS},
    [PML_TM_TOOL_PEER_MOVED] = {"peer_moved",
                                "A network cannot reach a process, another one does (its job, its "
                                "rank)",
                                PROCESS},
};

static mca_base_event_t nobody; /* listens */

mca_base_event_t *mca_pml_tm_tool_events[PML_TM_TOOL_EVENTS] = {
    [PML_TM_TOOL_UNEXPECTED] = &nobody,
    [PML_TM_TOOL_TRUNCATED] = &nobody,
    [PML_TM_TOOL_PEER_FAILED] = &nobody,
    [PML_TM_TOOL_PEER_MOVED] = &nobody,
};

/* All events have one source, so that a tool can order them: they are raised under one lock. */
static mca_base_event_source_t *open_source(void)
{
    mca_base_event_source_t *source = NULL;
    int index = mca_base_event_source_register("ompi.pml_tm", "Events of pml tm",
                                               MCA_BASE_EVENT_SOURCE_ORDERED, 1000000000,
                                               OPAL_COUNT_MAX, NULL, true, NULL);

    if (0 > index || OPAL_SUCCESS != mca_base_event_source_get_by_index(index, &source)) {
        return NULL;
    }
    return source;
}

void mca_pml_tm_tool_open(void)
{
    mca_base_event_source_t *source = open_source();

    for (int i = 0; NULL != source && i < PML_TM_TOOL_EVENTS; i++) {
        const kind_t *kind = &kinds[i];
        mca_base_event_t *event = NULL;
        int index = mca_base_component_event_register(
            mca_pml_tm.component, kind->name, kind->help, OPAL_INFO_LVL_4, kind->num, kind->types,
            kind->offsets, NULL, MCA_BASE_VAR_BIND_NO_OBJECT, (mca_base_event_flag_t) 0, source,
            NULL);
        if (0 <= index && OPAL_SUCCESS == mca_base_event_get_by_index(index, &event)) {
            mca_pml_tm_tool_events[i] = event;
        }
    }
}

void mca_pml_tm_tool_close(void)
{
    for (int i = 0; i < PML_TM_TOOL_EVENTS; i++) {
        mca_pml_tm_tool_events[i] = &nobody;
    }
}

static void raise_event(mca_pml_tm_tool_event_t event, const void *data)
{
    mca_base_event_raise_internal(mca_pml_tm_tool_events[event], NULL, NULL, data,
                                  opal_using_threads() ? MCA_BASE_EVENT_CB_REQUIRE_THREAD_SAFE
                                                       : MCA_BASE_EVENT_CB_REQUIRE_MPI_RESTRICTED);
}

void mca_pml_tm_tool_tell_message(mca_pml_tm_tool_event_t event, const ompi_communicator_t *comm,
                                  uint64_t tag, size_t len)
{
    const message_t message = {.comm = (uint64_t) (uintptr_t) comm,
                               .len = len,
                               .source = mca_pml_tm_tag_source(tag, mca_pml_tm.source_bits),
                               .tag = mca_pml_tm_tag_tag(tag)};

    raise_event(event, &message);
}

void mca_pml_tm_tool_tell_peer(mca_pml_tm_tool_event_t event, const fab_peer_t *peer)
{
    const process_t process = {.job = (uint32_t) (peer->name >> 32), .rank = (uint32_t) peer->name};

    raise_event(event, &process);
}

#endif
