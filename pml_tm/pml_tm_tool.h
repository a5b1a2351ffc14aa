/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events that a tool can listen to by MPI_T: messages that come before their receive or are longer
 * than it, and peers that fail or are reached by another network.  Open MPI has events from 6.0 on;
 * with an older one nothing of this is compiled.
 *
 * They are raised with the fabric's lock held, so a tool's callback must be one that makes no other
 * MPI calls (MPI_T_CB_REQUIRE_MPI_RESTRICTED; with threads MPI_T_CB_REQUIRE_THREAD_SAFE).
 */
#ifndef PML_TM_TOOL_H
#define PML_TM_TOOL_H

#include "pml_tm.h"

typedef enum {
    PML_TM_TOOL_UNEXPECTED,
    PML_TM_TOOL_TRUNCATED,
    PML_TM_TOOL_PEER_FAILED,
    PML_TM_TOOL_PEER_MOVED,
    PML_TM_TOOL_EVENTS
} mca_pml_tm_tool_event_t;

#if PML_TM_HAS_EVENTS

extern mca_base_event_t *mca_pml_tm_tool_events[PML_TM_TOOL_EVENTS];

/* Register the events.  Until then, and if that fails, nobody listens. */
void mca_pml_tm_tool_open(void);

/* Nothing is raised any more. */
void mca_pml_tm_tool_close(void);

/* To whoever listens: a message of len bytes, with the fabric's tag.  Lock held. */
void mca_pml_tm_tool_tell_message(mca_pml_tm_tool_event_t event, const ompi_communicator_t *comm,
                                  uint64_t tag, size_t len);

/* To whoever listens: a peer.  Lock held. */
void mca_pml_tm_tool_tell_peer(mca_pml_tm_tool_event_t event, const fab_peer_t *peer);

/* Does a tool listen?  A relaxed load: one that begins to listen may miss an event. */
static inline bool mca_pml_tm_tool_listens(mca_pml_tm_tool_event_t event)
{
    return OPAL_UNLIKELY(mca_base_event_active(mca_pml_tm_tool_events[event]));
}

static inline void mca_pml_tm_tool_message(mca_pml_tm_tool_event_t event,
                                           const ompi_communicator_t *comm, uint64_t tag,
                                           size_t len)
{
    if (mca_pml_tm_tool_listens(event)) {
        mca_pml_tm_tool_tell_message(event, comm, tag, len);
    }
}

static inline void mca_pml_tm_tool_peer(mca_pml_tm_tool_event_t event, const fab_peer_t *peer)
{
    if (mca_pml_tm_tool_listens(event)) {
        mca_pml_tm_tool_tell_peer(event, peer);
    }
}

#else

static inline void mca_pml_tm_tool_open(void)
{
}

static inline void mca_pml_tm_tool_close(void)
{
}

static inline void mca_pml_tm_tool_message(mca_pml_tm_tool_event_t event,
                                           const ompi_communicator_t *comm, uint64_t tag,
                                           size_t len)
{
    (void) event, (void) comm, (void) tag, (void) len;
}

static inline void mca_pml_tm_tool_peer(mca_pml_tm_tool_event_t event, const fab_peer_t *peer)
{
    (void) event, (void) peer;
}

#endif

#endif /* PML_TM_TOOL_H */
