/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of pml_tm and their states.  doc/states.md has the picture.
 *
 * Send and receive requests derive from Open MPI's base requests and come from its two global free
 * lists, where debuggers and pml_monitoring look for them.  Free requests of receives stay here
 * (mca_pml_tm.free_recvs): to use that list, under the fabric's lock, costs no atomic operation.
 *
 *   state        set by                                    may become
 *   INACTIVE     on the free list; persistent, at rest     ACTIVE
 *   ACTIVE       start                                     DONE; COMPLETING (mca_pml_tm_done(): a
 *                                                          request that can be completed in place)
 *   DONE         the transport is finished with it; it is  COMPLETING; INACTIVE (freed meanwhile)
 *                on the list of requests to complete
 *   COMPLETING   taken off the list: ompi_request_         INACTIVE (freed), ACTIVE (started again)
 *                complete() runs or has run
 *
 * A user may free a request at any time (MPI_Request_free). An ACTIVE or DONE request is released
 * when it would be completed, a COMPLETING request at once. If another thread is still inside
 * ompi_request_complete() with it, the freeing thread waits for those few instructions.
 */
#ifndef PML_TM_REQUEST_H
#define PML_TM_REQUEST_H

#include "pml_tm/base/pml_tm.h"

#include "pml_tm/request/pml_tm_blocks.h"
#include "pml_tm/request/pml_tm_offload.h"

typedef enum {
    PML_TM_INACTIVE = 0,
    PML_TM_ACTIVE,
    PML_TM_DONE,
    PML_TM_COMPLETING,
} mca_pml_tm_state_t;

/* What an ACTIVE request waits for. A message that names the request's id must fit the phase. */
typedef enum {
    PML_TM_WAIT_ROOM,  /* send: queued for room towards the peer */
    PML_TM_HELD,       /* send: held back because the receiver is short of memory */
    PML_TM_WAIT_ACK,   /* send: synchronous, until the receiver matched it */
    PML_TM_WAIT_FIN,   /* send: announced, until the receiver fetched the data or asks for it */
    PML_TM_SEND_DATA,  /* send: sending the data as messages */
    PML_TM_WAIT_MATCH, /* receive: posted, or in the hands of the matcher */
    PML_TM_FETCH,      /* receive: fetching the data from the sender's memory */
    PML_TM_STREAMED,   /* receive: a streamed message is arriving */
    PML_TM_WAIT_AGAIN, /* receive: the message must be announced again */
    PML_TM_WAIT_DATA,  /* receive: the data comes as messages */
} mca_pml_tm_phase_t;

/* What send and receive requests share; lock: the fabric's. */
struct mca_pml_tm_core {
    mca_pml_tm_core_t *next;      /* on the done list, or among free ones */
    mca_pml_base_request_t *base; /* the request this is part of; set once */
    fab_peer_t *peer;             /* send: the receiver; receive: the sender, once matched */
    uint32_t id;                  /* in the id map; 0: none */
    uint32_t remote_id;           /* the other side's */
    /* the following eight bytes are set by one store for a plain receive */
    uint8_t state;     /* mca_pml_tm_state_t */
    uint8_t phase;     /* mca_pml_tm_phase_t, while ACTIVE */
    bool has_callback; /* had a completion callback when it became COMPLETING; false before */
    bool is_seen;      /* waiting, by a tick since it became ACTIVE (pml_tm_hang.c) */
    /* of a blocking call; no other code knows it, so it is completed in place */
    bool is_private;
    /* a plain receive: it is one of mca_pml_tm_comm_t.num_recvs */
    bool is_counted;
    /* MPI error class; put into the status when it is complete, see below */
    int16_t error;
};

_Static_assert(MPI_ERR_LASTCODE <= INT16_MAX, "an error class fits mca_pml_tm_core_t");

/* State of MPI_Cancel for a message that was sent and is not known to be matched. */
typedef enum {
    PML_TM_CANCEL_NONE,    /* nothing */
    PML_TM_CANCEL_ASKED,   /* the receiver was asked to withdraw it (pml_tm_cancel.c) */
    PML_TM_CANCEL_DROPPED, /* the receiver has freed its communicator: nothing will match it */
} mca_pml_tm_cancel_t;

typedef struct mca_pml_tm_send_request {
    mca_pml_base_send_request_t req_send;
    mca_pml_tm_core_t core;
    fab_item_t item;   /* while queued for room towards the peer */
    uint64_t tag;      /* the message's */
    char *data;        /* contiguous data, or NULL: to be packed */
    void *buffer;      /* of a buffered send, from the attached buffer; NULL otherwise */
    size_t offset;     /* bytes sent, with the announcement and as PML_TM_AM_DATA */
    size_t wanted;     /* bytes the receiver asked for */
    fab_out_t out;     /* a part that is sent from the user's memory */
    int result;        /* the request's result, if is_over */
    uint32_t fragment; /* longest such, bytes; 0: data is copied */
    fab_rkey_t rkey;   /* while is_exposed */
    bool is_exposed;
    uint8_t exposed_by; /* the peer's provider then: the key is for that one */
    bool is_rndv;       /* announced, not sent with its data */
    bool is_streamed;   /* sent with its data, in fragments, as there is room */
    bool is_untagged;   /* the receiver's context id is not known */
    bool is_out;        /* out is under way: the request stays until it is not */
    bool is_over;       /* it has ended otherwise */
    uint8_t cancel;     /* mca_pml_tm_cancel_t */
    /* where offset is, in data of blocks */
    mca_pml_tm_place_t place;
    /* while held back: in the ring of its context; the oldest: the one of the next context */
    struct mca_pml_tm_send_request *held_next, *held_prev, *held_other;
    uint32_t held_context; /* the context id in its tag */
} mca_pml_tm_send_request_t;

OBJ_CLASS_DECLARATION(mca_pml_tm_send_request_t);

struct mca_pml_tm_recv_request {
    mca_pml_base_recv_request_t req_recv;
    mca_pml_tm_core_t core;
    char *data;      /* contiguous buffer, or NULL: to be unpacked */
    size_t capacity; /* bytes the receive can take */
    union {
        fab_match_recv_t match;     /* what the matcher knows */
        mca_pml_tm_listed_t listed; /* begins with match */
    };
    /* a short message touches nothing below */
    size_t wanted;   /* bytes of this message to receive: min(its length, capacity) */
    size_t received; /* bytes of these that have arrived */
    fab_rma_t rma;   /* fetching */
    /* where received is, in data of blocks */
    mca_pml_tm_place_t place;
    struct iovec block; /* what is left of the block that is unpacked (unpack_by_blocks()) */
};

OBJ_CLASS_DECLARATION(mca_pml_tm_recv_request_t);

/*
 * Only a complete request may have an error in its status: after an error in MPI_Waitall and the
 * like, Open MPI frees all requests of the call whose status has one, complete or not.
 */
static inline void mca_pml_tm_request_set_error(mca_pml_tm_core_t *core)
{
    if (OPAL_UNLIKELY(MPI_SUCCESS != core->error)) {
        core->base->req_ompi.req_status.MPI_ERROR = core->error;
    }
}

/* As mca_pml_tm_done(), through the list. */
void mca_pml_tm_done_listed(mca_pml_tm_core_t *core);

/* Complete finished requests; returns their number. Lock not held; runs callbacks. */
int mca_pml_tm_complete_done_slow(void);

/* req_free of both kinds. */
int mca_pml_tm_request_free(ompi_request_t **request);

/*
 * Make it free.  A free receive request is not persistent, has no callback, and was not freed by
 * its user. Lock not held: it may be the last to hold its communicator.
 */
void mca_pml_tm_request_release(mca_pml_base_request_t *base);

/* Make the request ACTIVE; called before anything can complete it. */
static inline void mca_pml_tm_request_activate(mca_pml_tm_core_t *core)
{
    core->state = PML_TM_ACTIVE;
    core->has_callback = false;
    core->is_seen = false;
    core->error = MPI_SUCCESS;
    core->base->req_ompi.req_status.MPI_ERROR = MPI_SUCCESS;
    core->base->req_pml_complete = false;
    core->base->req_ompi.req_complete = REQUEST_PENDING;
    core->base->req_ompi.req_state = OMPI_REQUEST_ACTIVE;
}

/* fab_config_t.others_wait: poll all of Open MPI next. */
void mca_pml_tm_others_wait(void *ctx);

/* Complete finished requests; every entry point calls it after it has released the lock. */
static inline int mca_pml_tm_complete_done(void)
{
    /*
     * relaxed: a thread sees its own additions; others see them in their next call
     */
    return OPAL_LIKELY(0 == atomic_load_explicit(&mca_pml_tm.done.count, memory_order_relaxed))
               ? 0
               : mca_pml_tm_complete_done_slow();
}

/* Is it complete? If so, all writes before its completion are visible. */
static inline bool mca_pml_tm_is_complete(const ompi_request_t *request)
{
    /* acquire: pairs with the release in mca_pml_tm_done() and mca_pml_tm_complete() */
    return REQUEST_COMPLETED == __atomic_load_n(&request->req_complete, __ATOMIC_ACQUIRE);
}

/* Tell the ompi_wait_sync_t that one more of its requests is complete, with this error. */
void mca_pml_tm_wake(void *sync, int error);

/*
 * Complete a request that the user may know, that has no callback, and that was not freed.  Another
 * thread may wait for it in Open MPI and have replaced REQUEST_PENDING by its ompi_wait_sync_t.
 * is_well: it has no error.  Lock held.
 */
static inline __attribute__((always_inline)) void mca_pml_tm_complete(mca_pml_tm_core_t *core,
                                                                      bool is_well)
{
    ompi_request_t *request = &core->base->req_ompi;
    void *sync = (void *) (uintptr_t) request->req_complete;
    int error = MPI_SUCCESS;

    core->state = PML_TM_COMPLETING;
    core->base->req_pml_complete = true;
    if (!is_well) {
        mca_pml_tm_request_set_error(core);
        error = request->req_status.MPI_ERROR;
    }
    if (OPAL_UNLIKELY(opal_using_threads())) {
        sync = __atomic_exchange_n((void **) (uintptr_t) &request->req_complete, REQUEST_COMPLETED,
                                   __ATOMIC_ACQ_REL);
    } else {
        request->req_complete = REQUEST_COMPLETED;
    }
    if (OPAL_UNLIKELY(REQUEST_PENDING != sync)) {
        mca_pml_tm_wake(sync, error);
    }
}

/* mca_pml_tm_done(); is_well: the request has had no error since it became ACTIVE. */
static inline __attribute__((always_inline)) void mca_pml_tm_done_as(mca_pml_tm_core_t *core,
                                                                     bool is_well)
{
    if (OPAL_LIKELY(core->is_private)) {
        core->state = PML_TM_COMPLETING;
        mca_pml_tm_request_set_error(core);
        __atomic_store_n(&core->base->req_ompi.req_complete, REQUEST_COMPLETED, __ATOMIC_RELEASE);
        mca_pml_tm.fab->must_return |= 0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT);
    } else if (OPAL_LIKELY(0 != (mca_pml_tm.fast & PML_TM_FAST_COMPLETE) &&
                           NULL == core->base->req_ompi.req_complete_cb &&
                           !core->base->req_free_called)) {
        mca_pml_tm_complete(core, is_well);
    } else {
        mca_pml_tm_done_listed(core);
    }
}

/*
 * The transport is finished with the request; status and error are set.  Lock held.  The caller
 * must not access the request afterwards.
 */
static inline void mca_pml_tm_done(mca_pml_tm_core_t *core)
{
    mca_pml_tm_done_as(core, false);
}

/* Is there a key for its data?  When a peer moves, its former provider drops the key. */
static inline bool mca_pml_tm_is_exposed(const mca_pml_tm_send_request_t *req)
{
    return req->is_exposed && req->exposed_by == req->core.peer->provider;
}

static inline mca_pml_tm_recv_request_t *mca_pml_tm_recv_of(fab_match_recv_t *match)
{
    return FAB_CONTAINER_OF(match, mca_pml_tm_recv_request_t, match);
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

static inline mca_pml_tm_send_request_t *mca_pml_tm_send_of_item(fab_item_t *item)
{
    return FAB_CONTAINER_OF(item, mca_pml_tm_send_request_t, item);
}

static inline mca_pml_tm_core_t *mca_pml_tm_core_of(mca_pml_base_request_t *base)
{
    return MCA_PML_REQUEST_SEND == base->req_type ? &((mca_pml_tm_send_request_t *) base)->core
                                                  : &((mca_pml_tm_recv_request_t *) base)->core;
}

/* The transport is finished with the request; error: MPI error class for its status. Lock held. */
void mca_pml_tm_send_finish(mca_pml_tm_send_request_t *req, int error);

/*
 * Make sure that there is one in free_recvs.  False: no memory, or all that may exist are in use.
 * Lock held.
 */
bool mca_pml_tm_recv_reserve(void);

/* One of free_recvs, of which there is one. Lock held. */
static inline mca_pml_tm_recv_request_t *mca_pml_tm_recv_pop(void)
{
    mca_pml_tm_core_t *core = mca_pml_tm.free_recvs;

    mca_pml_tm.free_recvs = core->next;
    return (mca_pml_tm_recv_request_t *) core->base;
}

/* A free request joins free_recvs.  Lock held. */
static inline void mca_pml_tm_recv_push(mca_pml_tm_recv_request_t *req)
{
    req->core.next = mca_pml_tm.free_recvs;
    mca_pml_tm.free_recvs = &req->core;
}

/* A free request; NULL: as mca_pml_tm_recv_reserve().  Lock held. */
static inline mca_pml_tm_recv_request_t *mca_pml_tm_recv_get(void)
{
    return OPAL_LIKELY(NULL != mca_pml_tm.free_recvs) || mca_pml_tm_recv_reserve()
               ? mca_pml_tm_recv_pop()
               : NULL;
}

/* A request, initialised, inactive; NULL: no memory. Lock not held. */
mca_pml_tm_recv_request_t *mca_pml_tm_recv_alloc(void *buf, size_t count, ompi_datatype_t *datatype,
                                                 int src, int tag, ompi_communicator_t *comm,
                                                 bool is_persistent);

/*
 * A request with an id: does it wait for an answer or data of its peer?  Not so a send that no
 * receive there will match, according to the peer.  Lock held.
 */
static inline bool mca_pml_tm_needs_peer(const mca_pml_tm_core_t *core)
{
    return PML_TM_ACTIVE == core->state &&
           (MCA_PML_REQUEST_SEND != core->base->req_type ||
            PML_TM_CANCEL_DROPPED != ((const mca_pml_tm_send_request_t *) core->base)->cancel);
}

#endif /* PML_TM_REQUEST_H */
