/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes.  The fabric's peer record is in the process's endpoint slot. pml_tm's own record of a
 * peer (fab_peer_t.user[]) is for flow control.  It exists only for peers that throttle this
 * process or are throttled by it, or that have left; other peers cost no memory.
 */
#ifndef PML_TM_PEER_H
#define PML_TM_PEER_H

#include "pml_tm.h"

typedef struct mca_pml_tm_contexts {
    uint32_t count;
    uint32_t context[PML_TM_FLOW_CONTEXTS];
} mca_pml_tm_contexts_t;

/* Lock: the fabric's. */
struct mca_pml_tm_peer {
    mca_pml_tm_peer_t *next; /* all records */
    fab_peer_t *peer;
    bool has_left; /* the job, and no request needs it: see mca_pml_tm_answer() */
    /* flow control of unexpected messages (pml_tm_flow.h), as the receiver */
    bool is_throttled;            /* it was told to hold its messages back ... */
    mca_pml_tm_contexts_t wanted; /* ... except in these communicators */
    /* as the sender */
    bool must_hold;             /* the peer told this process to hold messages ... ... */
    mca_pml_tm_contexts_t open; /* ... except in these communicators, by its context ids */
    bool is_queued;             /* item item is queued: some held messages may go */
    fab_item_t item;
    fab_item_t *held; /* items of requests that are held back, oldest first */
    fab_item_t **held_tail;
};

/* The peer's record, made if need be; NULL: no memory, or the peer is closed. Lock held. */
mca_pml_tm_peer_t *mca_pml_tm_peer_record(fab_peer_t *peer);

/*
 * Tell a peer something that it may not wait for any more.  One that failed needs no answer, nor
 * does one that has left: to send to that would fail it.  Lock held.
 */
static inline void mca_pml_tm_answer(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    const mca_pml_tm_peer_t *record = (const mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];

    if (OPAL_LIKELY(NULL == record || !record->has_left)) {
        (void) fab_post(peer, hdr, buf, len);
    }
}

/*
 * Open the endpoint of a process at its first use.  Lock not held; may block on the modex.  On
 * failure returns NULL, with the reason in *rc; the user has been told.
 */
fab_peer_t *mca_pml_tm_peer_connect(ompi_proc_t *proc, int *rc);

static inline fab_peer_t *mca_pml_tm_peer_of(ompi_proc_t *proc, int *rc)
{
    fab_peer_t *peer = (fab_peer_t *) proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML];

    return OPAL_LIKELY(NULL != peer) ? peer : mca_pml_tm_peer_connect(proc, rc);
}

/*
 * The peer behind a rank of the communicator (of its remote group). As mca_pml_tm_peer_connect().
 */
static inline fab_peer_t *mca_pml_tm_peer_of_rank(ompi_communicator_t *comm, int rank, int *rc)
{
    return mca_pml_tm_peer_of(ompi_comm_peer_lookup(comm, rank), rc);
}

/*
 * Longest message to this peer that may go with its data, bytes. A peer that is short of memory
 * gets nothing that takes more memory than an announcement.
 */
static inline uint32_t mca_pml_tm_peer_eager_limit(const fab_peer_t *peer)
{
    const mca_pml_tm_peer_t *record = (const mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];
    uint32_t limit = mca_pml_tm.eager_limit;

    if (OPAL_UNLIKELY(NULL != record) && record->must_hold && limit > sizeof(fab_rndv_t)) {
        limit = sizeof(fab_rndv_t);
    }
    return limit < peer->eager_max ? limit : peer->eager_max;
}

/* Name this process has in the fabric. */
static inline uint64_t mca_pml_tm_peer_name(const opal_process_name_t *name)
{
    return fab_name(name->jobid, name->vpid);
}

/* Put this process's address into the modex. */
int mca_pml_tm_peer_publish(void);

/* Free the records when the component closes. */
void mca_pml_tm_peer_fini(void);

/* Could messages to this peer be streamed? */
static inline bool mca_pml_tm_peer_has_streams(const fab_peer_t *peer)
{
    return 0 != (peer->caps & FAB_CAP_RING) && 0 != mca_pml_tm.stream_limit;
}

/* Bytes of a fragment to the peer, with all that stands in front of the user's. */
uint32_t mca_pml_tm_peer_fragment(const fab_peer_t *peer);

/* Close the peer of a process, if it was ever opened. Lock held. */
void mca_pml_tm_peer_close(ompi_proc_t *proc);

#endif /* PML_TM_PEER_H */
