/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives: functions that the files of the receiving side share.
 */
#ifndef PML_TM_RECV_H
#define PML_TM_RECV_H

#include "pml_tm_comm.h"

static inline mca_pml_tm_recv_request_t *mca_pml_tm_recv_of(fab_offload_recv_t *recv)
{
    return (mca_pml_tm_recv_request_t *) ((char *) recv -
                                          offsetof(mca_pml_tm_recv_request_t, offload));
}

/* Is the buffer not contiguous, so that the convertor is needed? */
static inline bool mca_pml_tm_recv_is_packed(const mca_pml_tm_recv_request_t *req)
{
    return NULL == req->data && 0 != req->capacity;
}

/* The status of a blocking receive that had no request; status may be MPI_STATUS_IGNORE. */
static inline void mca_pml_tm_set_status(ompi_status_public_t *status, int source, int tag,
                                         size_t len)
{
    if (MPI_STATUS_IGNORE != status) {
        status->MPI_SOURCE = source;
        status->MPI_TAG = tag;
        status->_cancelled = 0;
        status->_ucount = len;
    }
}

/*
 * A message of len bytes matched the receive: set its status and the number of bytes to receive.
 * Lock held.
 */
void mca_pml_tm_recv_matched(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                             size_t len);

/* The message is here: deliver it, done. Lock held. */
void mca_pml_tm_recv_eager(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                           const void *data, size_t len);

/* The message is in the user's buffer already: done. Lock held. */
void mca_pml_tm_recv_placed(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                            size_t len);

/*
 * The message is announced, its first len bytes are here: get the rest (pml_tm_rndv.c).  Lock held.
 */
void mca_pml_tm_recv_rndv(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                          const fab_rndv_t *rndv, const void *part, size_t len);

/*
 * Ask the sender of an announced message to send the missing data as messages. False: this is
 * impossible, and the receive has ended. Lock held.
 */
bool mca_pml_tm_recv_pipeline(mca_pml_tm_recv_request_t *req);

/*
 * All data that the receive takes of an announced message has arrived: tell the sender, and finish.
 * Lock held.
 */
void mca_pml_tm_recv_fetched(mca_pml_tm_recv_request_t *req);

/*
 * Read the missing data of a matched receive from its sender's memory, or ask for it if that is
 * impossible.  False: so is that, and the receive has ended.  Lock held.
 */
bool mca_pml_tm_recv_fetch(mca_pml_tm_recv_request_t *req, const fab_rndv_t *rndv);

/*
 * The announcement of the message was overwritten: ask its sender to announce it again
 * (pml_tm_rndv.c). Lock held.
 */
void mca_pml_tm_recv_again(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr);

/*
 * The receive of a rendezvous has its data, or will not have it: error is an MPI error class. A
 * truncation reported before stands. Lock held.
 */
void mca_pml_tm_recv_finish(mca_pml_tm_recv_request_t *req, int error);

/*
 * The next len bytes of the message, len <= wanted - received, go to the user's buffer. Lock held.
 */
void mca_pml_tm_recv_put(mca_pml_tm_recv_request_t *req, const void *data, size_t len);

/* Post a started request: match an unexpected message, or wait in the domain. Lock held. */
void mca_pml_tm_recv_post(mca_pml_tm_recv_request_t *req);

/*
 * mca_pml_tm_wait() for a receive, without threads.  If no other is posted in its communicator, it
 * waits as a blocking receive does: it looks at the sender's ring first, past the matcher, and no
 * more messages are taken than its own.
 */
void mca_pml_tm_recv_await(mca_pml_tm_recv_request_t *req);

/*
 * For a probe, without threads: if the next message in the ring of src is one that
 * mca_pml_tm_recv() would take, its length and tag.  It stays there, and need not be stored.
 */
bool mca_pml_tm_recv_peek(int src, int tag, ompi_communicator_t *comm, size_t *len, int *found);

/* mca_pml_tm_request_release() of a receive. */
void mca_pml_tm_recv_release(mca_pml_tm_recv_request_t *req);

/* Counted receives of one communicator that are complete and are to be free: all at once. */
typedef struct mca_pml_tm_freed {
    mca_pml_tm_core_t *first; /* NULL: none */
    mca_pml_tm_core_t *last;
    ompi_communicator_t *comm;
    unsigned count;
} mca_pml_tm_freed_t;

/* Make them free, and *freed empty. Lock not held. */
void mca_pml_tm_recv_flush(mca_pml_tm_freed_t *freed);

/* Add one that has no handle for Fortran. Lock not held. */
static inline __attribute__((always_inline)) void
mca_pml_tm_recv_collect(mca_pml_tm_freed_t *freed, mca_pml_tm_recv_request_t *req)
{
    mca_pml_base_request_t *base = &req->req_recv.req_base;

    if (OPAL_UNLIKELY(base->req_comm != freed->comm)) {
        mca_pml_tm_recv_flush(freed);
        freed->comm = base->req_comm;
        freed->last = &req->core;
    }
    req->core.state = PML_TM_INACTIVE;
    base->req_ompi.req_state = OMPI_REQUEST_INVALID;
    req->core.next = freed->first;
    freed->first = &req->core;
    ++freed->count;
}

/* When the component closes: return the requests that are kept to their free list. */
void mca_pml_tm_recv_fini(void);

#endif /* PML_TM_RECV_H */
