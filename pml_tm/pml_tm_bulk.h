/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of long messages between processes of a host: messages that their sender only announced,
 * because it has others under way.  The receiver takes those of one sender in order, a few at a
 * time, and each in the way that is faster: through the ring, or read from the sender's memory.
 * Which way that is depends on the processors, on how much of the messages their caches hold, and
 * on what the sender does meanwhile; so it is measured.
 *
 * The unit of measurement is a batch: messages in one way, up to BULK_BATCH bytes, or until none is
 * left.  A batch that is a try (fab_trial.h) begins when all before it are complete, and its
 * bytes and its time count; the next one waits until it is complete.
 *
 *   WAIT_TURN   behind others of its sender, the receiver has not answered yet
 *   then        WAIT_DATA or FETCH, as any rendezvous (pml_tm_rndv.c)
 */
#ifndef PML_TM_BULK_H
#define PML_TM_BULK_H

#include "fabric/fab_trial.h"

#include "pml_tm_request.h"

/* What a receiver knows of one sender; all zero: nothing yet. Lock: the fabric's. */
typedef struct mca_pml_tm_bulk {
    mca_pml_tm_recv_request_t *first; /* wait for their turn, oldest first, by turn_next */
    mca_pml_tm_recv_request_t **tail; /* set if first is */
    unsigned open;                    /* messages that were begun and are not complete */
    size_t open_bytes;                /* of these */
    fab_trial_t trial;
    /* the batch */
    unsigned way; /* 0: through the ring; 1: read from the sender's memory */
    bool is_try;
    size_t left;    /* bytes that may still be begun in it; 0: none is under way */
    size_t bytes;   /* that were begun in it */
    uint64_t since; /* ns (fab_now_ns()) */
} mca_pml_tm_bulk_t;

/*
 * The message that is announced by rndv, of which nothing is here, matched the receive.  False: it
 * is not for this file, and nothing was done.  Lock held.
 */
bool mca_pml_tm_bulk_add(mca_pml_tm_recv_request_t *req, const fab_rndv_t *rndv);

/*
 * A receive from this peer that has is_bulk set, and takes that many bytes, has its data, or will
 * not have it.  Lock held.
 */
void mca_pml_tm_bulk_came(const fab_peer_t *peer, size_t bytes);

/* The peer failed: those that wait for their turn stay as they are.  Lock held. */
void mca_pml_tm_bulk_drop(const fab_peer_t *peer);

#endif /* PML_TM_BULK_H */
