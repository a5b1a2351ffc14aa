/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes.  The fabric's peer record is found by the process's name; communicators keep it by
 * rank (pml_tm_comm.h).  pml_tm's own record of a peer (fab_peer_t.user[]) is for flow control.  It
 * exists only for peers that throttle this process or are throttled by it, or that have left; other
 * peers cost no memory.
 */
#ifndef PML_TM_PEER_H
#define PML_TM_PEER_H

#include "pml_tm/base/pml_tm.h"
#include "pml_tm/base/pml_tm_sizes.h"

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
    bool must_hold;             /* the peer told this process to hold messages ... */
    mca_pml_tm_contexts_t open; /* ... except in these communicators, by its context ids */
    bool is_queued;             /* item item is queued: some held messages may go */
    fab_item_t item;
    struct mca_pml_tm_send_request *held; /* back: the oldest of each context (pml_tm_flow.h) */
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

/* The peer with this name, if it is open; or NULL.  Lock held. */
static inline fab_peer_t *mca_pml_tm_peer_find(uint64_t name)
{
    fab_peer_t *peer = fab_peer_find(mca_pml_tm.fab, name);

    return NULL != peer && fab_peer_is_open(peer, FAB_USER_PML) ? peer : NULL;
}

/*
 * The peer of a process; opened at its first use.  Lock not held; may block on the modex.  On
 * failure returns NULL, with the reason in *rc; the user has been told.
 */
fab_peer_t *mca_pml_tm_peer_connect(const ompi_proc_t *proc, int *rc);

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

/*
 * Does a message of len bytes, above the eager limit, go with its data, as the peer answers?  Where
 * the processes take turns, the answer to an announcement costs a round trip; in a window it comes
 * while other messages are sent, and the copy at the receiver costs more.  Only over tcp: 64 KiB
 * between two network namespaces 25 us, announced 37, but 1.8 GB/s in windows, announced 3.7.
 */
static inline bool mca_pml_tm_peer_takes_whole(fab_peer_t *peer, size_t len)
{
    const mca_pml_tm_peer_t *record = (const mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];

    return len <= (size_t) PML_TM_WHOLE * mca_pml_tm.eager_limit && len <= peer->eager_max &&
           (NULL == record || !record->must_hold) && fab_peer_has_answered(peer);
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

/*
 * May a message of this length be streamed (pml_tm_stream.h)?  One that is not longer than a
 * fragment has nothing to overlap.
 */
static inline bool mca_pml_tm_peer_streams(const fab_peer_t *peer, size_t len)
{
    return OPAL_UNLIKELY(len > PML_TM_STREAM_MIN) && 0 != (peer->caps & FAB_CAP_RING) &&
           len <= mca_pml_tm.stream_limit;
}

/* Bytes of a message with a copied part of the data, at most, with what stands before it. */
static inline uint32_t mca_pml_tm_peer_fragment(const fab_peer_t *peer)
{
    const bool is_short = 0 != (peer->caps & FAB_CAP_RING) && 0 != mca_pml_tm.stream_limit;

    return is_short && PML_TM_STREAM_FRAGMENT < peer->eager_max ? PML_TM_STREAM_FRAGMENT
                                                                : peer->eager_max;
}

/*
 * Close the peer of a process, if it is open; mca_pml_tm_comm_forget_closed() has to follow before
 * the lock is released.  Lock held.
 */
void mca_pml_tm_peer_close(const ompi_proc_t *proc);

#endif /* PML_TM_PEER_H */
