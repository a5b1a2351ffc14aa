/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives: posting, delivery of eager messages, matched receives, cancel.
 */
#include "pml_tm/calls/pml_tm_calls.h"

#include "match/match_inl.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_offload.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_progress.h"

/* Out of line, so that the common path need not save registers. */
#define NOINLINE __attribute__((noinline))

static void recv_start(mca_pml_tm_recv_request_t *req)
{
    MCA_PML_BASE_RECV_START(&req->req_recv);
    mca_pml_tm_request_activate(&req->core);
    req->core.phase = PML_TM_WAIT_MATCH;
    req->core.peer = NULL;
    req->core.id = 0;
}

/* An active request gets msg; if that is NULL, an unexpected message that fits, or it is posted. */
static void recv_match(mca_pml_tm_recv_request_t *req, fab_match_msg_t *msg)
{
    mca_pml_base_request_t *base = &req->req_recv.req_base;
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(base->req_comm);

    if (OPAL_UNLIKELY(NULL != tmc->scope)) {
        mca_pml_tm.offload->start(tmc, req, msg);
        return;
    }
    if (NULL == msg) {
        msg = fab_match_take(&tmc->match, base->req_peer, base->req_tag);
    }
    if (NULL != msg) {
        mca_pml_tm_msg_receive(mca_pml_tm_msg_of(msg), req);
    } else {
        fab_match_post(&tmc->match, &req->match, base->req_peer, base->req_tag);
    }
}

void mca_pml_tm_recv_post(mca_pml_tm_recv_request_t *req)
{
    recv_start(req);
    recv_match(req, NULL);
}

int mca_pml_tm_irecv_init(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                          ompi_communicator_t *comm, ompi_request_t **request)
{
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_alloc(buf, count, datatype, src, tag, comm,
                                                           true);

    if (NULL == req) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *request = &req->req_recv.req_base.req_ompi;
    return OMPI_SUCCESS;
}

/* Start a receive: takes and releases the lock, and completes finished requests. */
static inline int recv_new(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                           ompi_communicator_t *comm, bool is_blocking,
                           mca_pml_tm_recv_request_t **request)
{
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_alloc(buf, count, datatype, src, tag, comm,
                                                           false);

    if (OPAL_UNLIKELY(NULL == req)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    req->core.is_private = is_blocking && mca_pml_tm_may_be_private();
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_recv_post(req);
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    *request = req;
    return OMPI_SUCCESS;
}

/* ---- the short way ------------------------------------------------------ */

static inline bool is_short_way(const ompi_communicator_t *comm, const ompi_datatype_t *datatype)
{
    return OPAL_LIKELY(0 != (mca_pml_tm_comm(comm)->fast & PML_TM_FAST_RECV)) &&
           mca_pml_tm_is_plain(datatype);
}

/*
 * mca_pml_tm_recv_alloc() and recv_start() in one, for a free request that is not to be
 * persistent, with a plain type.  It does not retain its communicator.  is_private, is_counted: of
 * its core.
 */
static inline __attribute__((always_inline)) void
recv_begin(mca_pml_tm_recv_request_t *req, void *buf, size_t count, ompi_datatype_t *datatype,
           int src, int tag, ompi_communicator_t *comm, bool is_private, bool is_counted)
{
    mca_pml_base_request_t *base = &req->req_recv.req_base;
    ompi_request_t *request = &base->req_ompi;

    request->req_status.MPI_SOURCE = OMPI_ANY_SOURCE;
    request->req_status.MPI_TAG = OMPI_ANY_TAG;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    request->req_status._cancelled = 0;
    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_mpi_object.comm = comm;
    base->req_pml_complete = false;
    base->req_comm = comm;
    base->req_datatype = datatype;
    base->req_addr = buf;
    base->req_count = count;
    base->req_peer = src;
    base->req_tag = tag;
    req->core.peer = NULL;
    req->core.id = 0;
    req->core.state = PML_TM_ACTIVE;
    req->core.phase = PML_TM_WAIT_MATCH;
    req->core.has_callback = false;
    req->core.is_private = is_private;
    req->core.is_counted = is_counted;
    req->core.is_seen = false;
    req->core.error = MPI_SUCCESS;
    req->data = (char *) buf + datatype->super.true_lb;
    req->capacity = count * datatype->super.size;
}

/*
 * Make sure that a request is free for the next counted receive, and that its communicator is
 * retained, which only the first needs.  False: there is no memory for a request.  Lock held.
 */
static NOINLINE bool irecv_prepare(ompi_communicator_t *comm)
{
    if (!mca_pml_tm_recv_reserve()) {
        return false;
    }
    if (0 == mca_pml_tm_comm(comm)->num_recvs) {
        OBJ_RETAIN(comm);
    }
    return true;
}

/* The request of a receive of a plain type, begun.  NULL: there is no memory for it.  Lock held. */
static inline __attribute__((always_inline)) mca_pml_tm_recv_request_t *
irecv_begin(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
            ompi_communicator_t *comm)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);
    mca_pml_tm_recv_request_t *req;

    if (OPAL_UNLIKELY((NULL == mca_pml_tm.free_recvs || 0 == tmc->num_recvs) &&
                      !irecv_prepare(comm))) {
        return NULL;
    }
    req = mca_pml_tm_recv_pop();
    recv_begin(req, buf, count, datatype, src, tag, comm, false, true);
    ++tmc->num_recvs;
    return req;
}

static NOINLINE int irecv_any(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                              ompi_communicator_t *comm, ompi_request_t **request)
{
    mca_pml_tm_recv_request_t *req;
    int rc = recv_new(buf, count, datatype, src, tag, comm, false, &req);

    if (OPAL_LIKELY(OMPI_SUCCESS == rc)) {
        *request = &req->req_recv.req_base.req_ompi;
    }
    return rc;
}

/* Of a plain type; has_device: a device takes part in matching. */
static inline __attribute__((always_inline)) int
irecv_plain(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
            ompi_communicator_t *comm, ompi_request_t **request, bool has_device)
{
    fab_match_dom_t *match = &mca_pml_tm_comm(comm)->match;
    mca_pml_tm_recv_request_t *req;

    fab_lock(mca_pml_tm.fab);
    req = irecv_begin(buf, count, datatype, src, tag, comm);
    if (OPAL_UNLIKELY(NULL == req)) {
        fab_unlock(mca_pml_tm.fab);
        return irecv_any(buf, count, datatype, src, tag, comm, request);
    }
    if (has_device || OPAL_UNLIKELY(0 != match->unexp_count) ||
        OPAL_UNLIKELY(!fab_match_short_append(match, &req->match, src, tag))) {
        recv_match(req, NULL);
    }
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    *request = &req->req_recv.req_base.req_ompi;
    return OMPI_SUCCESS;
}

static NOINLINE int irecv_slow(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                               ompi_communicator_t *comm, ompi_request_t **request)
{
    return NULL != mca_pml_tm_comm(comm)->scope && 0 != (mca_pml_tm.fast & PML_TM_FAST_RECV) &&
                   mca_pml_tm_is_plain(datatype)
               ? irecv_plain(buf, count, datatype, src, tag, comm, request, true)
               : irecv_any(buf, count, datatype, src, tag, comm, request);
}

int mca_pml_tm_irecv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                     ompi_communicator_t *comm, ompi_request_t **request)
{
    return OPAL_LIKELY(is_short_way(comm, datatype))
               ? irecv_plain(buf, count, datatype, src, tag, comm, request, false)
               : irecv_slow(buf, count, datatype, src, tag, comm, request);
}

/*
 * A blocking receive from MPI_ANY_SOURCE cannot go on waiting after one of its sources failed.  If
 * it has its message, it ends with that, or when the sender fails, too.  A device may have to
 * release it first.
 */
static NOINLINE int recv_give_up(mca_pml_tm_recv_request_t *req)
{
    ompi_request_t *request = &req->req_recv.req_base.req_ompi;

    request->req_status.MPI_ERROR = PML_TM_ERR_PROC_FAILED; /* so it ends if its sender fails */
    mca_pml_tm_cancel(request, true);
    while (!REQUEST_COMPLETE(request)) {
        opal_progress(); /* what the runtime knows of failures, too */
        mca_pml_tm_cancel(request, true);
    }
    if (request->req_status._cancelled) {
        request->req_status._cancelled = false; /* not by the user */
        return PML_TM_ERR_PROC_FAILED;
    }
    return req->core.error;
}

/* Wait for a request of a blocking call, hand out its status. */
static inline __attribute__((always_inline)) int recv_wait(mca_pml_tm_recv_request_t *req,
                                                           ompi_status_public_t *status)
{
    int rc;

    mca_pml_tm_wait(&req->req_recv.req_base.req_ompi);
    rc = req->req_recv.req_base.req_ompi.req_status.MPI_ERROR;
    if (OPAL_UNLIKELY(!REQUEST_COMPLETE(&req->req_recv.req_base.req_ompi))) {
        rc = recv_give_up(req);
    }
    if (MPI_STATUS_IGNORE != status) {
        OMPI_COPY_STATUS(status, req->req_recv.req_base.req_ompi.req_status, false);
    }
    return rc;
}

/* The same, and free it. */
static int recv_wait_and_free(mca_pml_tm_recv_request_t *req, ompi_status_public_t *status)
{
    int rc = recv_wait(req, status);

    mca_pml_tm_request_release(&req->req_recv.req_base);
    return rc;
}

/* ---- the short way of a blocking receive -------------------------------- */

/* What a blocking receive is about. */
typedef struct wanted {
    void *buf; /* of the call, not yet at the type's lower bound */
    size_t count;
    ompi_datatype_t *datatype;
    int src;
    int tag;
    ompi_communicator_t *comm;
} wanted_t;

/* Take the message out of the ring, or leave it there. */
typedef enum { TAKE, PEEK } take_t;

/* A message that takes more than a slot.  Out of line: a short one needs fewer registers. */
static NOINLINE bool take_longer(fab_peer_t *peer, uint64_t want, uint64_t mask, void *buf,
                                 size_t *len, uint64_t *found)
{
    return fab_recv_any(peer, want, mask, buf, len, found);
}

/*
 * If the next message in the ring of src fits, *len bytes at most, it is copied to buf (TAKE), and
 * *len and *found are its length and tag.  No older receive may be posted that could fit as well.
 * Lock held.
 */
static inline __attribute__((always_inline)) bool take_from_ring(take_t which,
                                                                 ompi_communicator_t *comm, int src,
                                                                 int tag, unsigned looks, void *buf,
                                                                 size_t *len, uint64_t *found)
{
    const bool is_any_tag = OMPI_ANY_TAG == tag;
    /* any tag fits no internal one: the sign must be clear */
    const uint64_t mask = is_any_tag ? ~(uint64_t) INT32_MAX : ~(uint64_t) 0;
    fab_peer_t *peer;
    uint64_t want;

    if (OPAL_UNLIKELY(src < 0)) {
        return false;
    }
    peer = mca_pml_tm_comm_met(mca_pml_tm_comm(comm), src);
    if (OPAL_UNLIKELY(NULL == peer)) {
        return false;
    }
    want = mca_pml_tm_tag(mca_pml_tm_comm(comm)->context, (uint32_t) src, is_any_tag ? 0 : tag,
                          mca_pml_tm.source_bits);
    if (PEEK == which) {
        return fab_peek_any(peer, want, mask, len, found);
    }
    return OPAL_LIKELY(
               fab_recv_short(peer, looks, mca_pml_tm.is_pausing, want, mask, buf, len, found)) ||
           (*len > FAB_SHORT_MAX && 0 != (mca_pml_tm_comm(comm)->fast & PML_TM_FAST_LONGER) &&
            take_longer(peer, want, mask, buf, len, found));
}

/* The same for a blocking receive, which needs no request then. */
static inline __attribute__((always_inline)) bool
take_wanted(const wanted_t *wanted, unsigned looks, ompi_status_public_t *status)
{
    void *buf = (char *) wanted->buf + wanted->datatype->super.true_lb;
    size_t len = wanted->count * wanted->datatype->super.size;
    uint64_t tag;

    if (OPAL_UNLIKELY(0 != mca_pml_tm_comm(wanted->comm)->match.posted_count) ||
        OPAL_UNLIKELY(!take_from_ring(TAKE, wanted->comm, wanted->src, wanted->tag, looks, buf,
                                      &len, &tag))) {
        return false;
    }
    ++mca_pml_tm.counters.expected;
    ++mca_pml_tm.counters.taken;
    mca_pml_tm_set_status(status, wanted->src, mca_pml_tm_tag_tag(tag), len);
    return true;
}

/*
 * The oldest unexpected message that fits: given to the receive, which needs no request then: true.
 * *msg: it needs one, for this message; or NULL.  That there is one is made sure before: a message
 * that is taken cannot be put back to its place.  Lock held.
 */
static NOINLINE bool take_unexpected(const wanted_t *wanted, mca_pml_tm_msg_t **msg,
                                     ompi_status_public_t *status)
{
    fab_match_msg_t *match;

    if (OPAL_UNLIKELY(NULL == mca_pml_tm.free_recvs) && !mca_pml_tm_recv_reserve()) {
        return false;
    }
    match = fab_match_take(&mca_pml_tm_comm(wanted->comm)->match, wanted->src, wanted->tag);
    if (NULL == match) {
        return false;
    }
    *msg = mca_pml_tm_msg_of(match);
    return mca_pml_tm_msg_give(*msg, (char *) wanted->buf + wanted->datatype->super.true_lb,
                               wanted->count * wanted->datatype->super.size, status);
}

/*
 * Without a request, if that can be.  False: *msg, if it is not NULL, is what it gets.  Lock held.
 */
static inline __attribute__((always_inline)) bool recv_take(const wanted_t *wanted, unsigned looks,
                                                            mca_pml_tm_msg_t **msg,
                                                            ompi_status_public_t *status)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(wanted->comm);

    *msg = NULL;
    if (OPAL_UNLIKELY(0 == (tmc->fast & PML_TM_FAST_TAKE))) {
        return false;
    }
    if (OPAL_UNLIKELY(0 != tmc->match.unexp_count)) {
        if (take_unexpected(wanted, msg, status)) {
            return true;
        }
        if (NULL != *msg || NULL == mca_pml_tm.free_recvs) {
            return false;
        }
    }
    return 0 != looks && take_wanted(wanted, looks, status);
}

/* A request that was begun gets msg, or if that is NULL is posted.  Lock held. */
static inline void recv_give(mca_pml_tm_recv_request_t *req, const wanted_t *wanted,
                             mca_pml_tm_msg_t *msg)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(wanted->comm);

    if (OPAL_UNLIKELY(NULL != msg)) {
        mca_pml_tm_msg_receive(msg, req);
    } else if (OPAL_UNLIKELY(0 == (tmc->fast & PML_TM_FAST_TAKE))) {
        recv_match(req, NULL);
    } else if (OPAL_UNLIKELY(
                   !fab_match_short_append(&tmc->match, &req->match, wanted->src, wanted->tag))) {
        fab_match_post(&tmc->match, &req->match, wanted->src, wanted->tag);
    }
}

/* Free the request of a blocking receive.  Lock held, if there are threads. */
static inline void recv_free(mca_pml_tm_recv_request_t *req)
{
    req->core.state = PML_TM_INACTIVE;
    req->req_recv.req_base.req_ompi.req_state = OMPI_REQUEST_INVALID;
    mca_pml_tm_recv_push(req);
}

/*
 * A blocking receive need not retain the communicator, which outlives the call: no other thread can
 * free it.
 */
static NOINLINE int recv_with_request(const wanted_t *wanted, mca_pml_tm_msg_t *msg,
                                      ompi_status_public_t *status)
{
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_get();
    int rc;

    if (OPAL_UNLIKELY(NULL == req)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    recv_begin(req, wanted->buf, wanted->count, wanted->datatype, wanted->src, wanted->tag,
               wanted->comm, true, false);
    recv_give(req, wanted, msg);
    mca_pml_tm_complete_done();
    rc = recv_wait(req, status);
    recv_free(req);
    return rc;
}

static NOINLINE int recv_any(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                             ompi_communicator_t *comm, ompi_status_public_t *status)
{
    mca_pml_tm_recv_request_t *req;
    int rc = recv_new(buf, count, datatype, src, tag, comm, true, &req);

    return OPAL_LIKELY(OMPI_SUCCESS == rc) ? recv_wait_and_free(req, status) : rc;
}

/*
 * The same with threads.  The lock is held, and given back.  Without the lock another thread may
 * free the communicator.
 */
static NOINLINE int recv_with_request_locked(const wanted_t *wanted, mca_pml_tm_msg_t *msg,
                                             ompi_status_public_t *status)
{
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_get();
    bool is_retained = false;
    ompi_request_t *request;
    int rc;

    if (OPAL_UNLIKELY(NULL == req)) {
        fab_mutex_unlock(&mca_pml_tm.fab->lock);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request = &req->req_recv.req_base.req_ompi;
    recv_begin(req, wanted->buf, wanted->count, wanted->datatype, wanted->src, wanted->tag,
               wanted->comm, true, false);
    recv_give(req, wanted, msg);
    if (!mca_pml_tm_wait_locked(request)) {
        OBJ_RETAIN(wanted->comm);
        is_retained = true;
        fab_mutex_unlock(&mca_pml_tm.fab->lock);
        mca_pml_tm_complete_done();
        mca_pml_tm_wait_threads(request);
        fab_mutex_lock(&mca_pml_tm.fab->lock);
    }
    if (MPI_STATUS_IGNORE != status) {
        OMPI_COPY_STATUS(status, request->req_status, false);
    }
    rc = request->req_status.MPI_ERROR;
    recv_free(req);
    fab_mutex_unlock(&mca_pml_tm.fab->lock);
    mca_pml_tm_complete_done();
    if (is_retained) {
        ompi_communicator_t *comm = wanted->comm;
        OBJ_RELEASE(comm);
    }
    return rc;
}

/* Is it time to poll all, rather than look into the sender's ring first? */
static inline bool is_poll_due(void)
{
    return 1 == mca_pml_tm.polls_left % PML_TM_POLLS_PER_PROGRESS;
}

/*
 * The message of a posted receive, the only one of its communicator, out of its sender's ring.
 * True: it was there, and the receive is done.
 */
static bool look_for(mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(base->req_comm);
    ompi_status_public_t *status = &req->req_recv.req_base.req_ompi.req_status;
    size_t len = req->capacity;
    uint64_t tag;

    if (OPAL_UNLIKELY(!take_from_ring(TAKE, base->req_comm, base->req_peer, base->req_tag,
                                      mca_pml_tm.looks, req->data, &len, &tag))) {
        return false;
    }
    --mca_pml_tm.polls_left;
    ++mca_pml_tm.counters.expected;
    ++mca_pml_tm.counters.taken;
    (void) fab_match_arrive_first(&tmc->match, tag & mca_pml_tm.match_mask);
    status->MPI_SOURCE = base->req_peer;
    status->MPI_TAG = mca_pml_tm_tag_tag(tag);
    status->_ucount = len;
    mca_pml_tm_done(&req->core);
    return true;
}

void mca_pml_tm_recv_await(mca_pml_tm_recv_request_t *req)
{
    mca_pml_base_request_t *base = &req->req_recv.req_base;
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(base->req_comm);
    const bool is_posted = FAB_MATCH_IDLE != req->match.where;

    if (0 == (tmc->fast & PML_TM_FAST_LOOK) || is_posted != tmc->match.posted_count ||
        NULL != base->req_ompi.req_complete_cb) {
        mca_pml_tm_wait(&base->req_ompi);
        return;
    }
    req->core.is_private = true; /* what comes behind its message would be unexpected */
    if (FAB_MATCH_IN_SHORT != req->match.where || NULL == req->data || is_poll_due() ||
        !look_for(req)) {
        mca_pml_tm_wait(&base->req_ompi);
    }
    req->core.is_private = false;
    base->req_pml_complete = true;
}

/* mca_pml_tm_recv() by the short way, without threads. */
static NOINLINE int recv_alone(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                               ompi_communicator_t *comm, ompi_status_public_t *status)
{
    const wanted_t wanted = {buf, count, datatype, src, tag, comm};
    const bool is_turn = is_poll_due();
    mca_pml_tm_msg_t *msg;

    if (OPAL_LIKELY(recv_take(&wanted, is_turn ? 0 : mca_pml_tm.looks, &msg, status))) {
        mca_pml_tm.polls_left -= !is_turn;
        return MPI_SUCCESS;
    }
    return recv_with_request(&wanted, msg, status);
}

/*
 * The same with threads.  The lock is taken once, if the message is there or comes soon.
 */
static NOINLINE int recv_locked(void *buf, size_t count, ompi_datatype_t *datatype, int src,
                                int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    const wanted_t wanted = {buf, count, datatype, src, tag, comm};
    mca_pml_tm_msg_t *msg;
    bool is_turn;

    fab_mutex_lock(&mca_pml_tm.fab->lock);
    is_turn = 0 == (mca_pml_tm.locked_polls + 1) % PML_TM_POLLS_PER_PROGRESS;
    if (OPAL_LIKELY(recv_take(&wanted, is_turn ? 0 : 1, &msg, status))) {
        mca_pml_tm.locked_polls += !is_turn;
        fab_mutex_unlock(&mca_pml_tm.fab->lock);
        return MPI_SUCCESS;
    }
    return recv_with_request_locked(&wanted, msg, status);
}

bool mca_pml_tm_recv_peek(int src, int tag, ompi_communicator_t *comm, size_t *len, int *found)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);
    uint64_t tag_found;

    if (0 == (tmc->fast & PML_TM_FAST_TAKE) || 0 != tmc->match.posted_count || is_poll_due() ||
        !take_from_ring(PEEK, comm, src, tag, 1, NULL, len, &tag_found)) {
        return false;
    }
    --mca_pml_tm.polls_left;
    ++mca_pml_tm.counters.peeked;
    *found = mca_pml_tm_tag_tag(tag_found);
    return true;
}

int mca_pml_tm_recv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                    ompi_communicator_t *comm, ompi_status_public_t *status)
{
    if (OPAL_LIKELY(is_short_way(comm, datatype))) {
        if (OPAL_LIKELY(!opal_using_threads())) {
            return recv_alone(buf, count, datatype, src, tag, comm, status);
        }
        if (OPAL_LIKELY(mca_pml_tm_may_be_private())) {
            return recv_locked(buf, count, datatype, src, tag, comm, status);
        }
    }
    return recv_any(buf, count, datatype, src, tag, comm, status);
}

/* Start a receive of the message that a matched probe has taken. */
static int recv_message(void *buf, size_t count, ompi_datatype_t *datatype,
                        ompi_message_t **message, mca_pml_tm_recv_request_t **request)
{
    mca_pml_tm_msg_t *msg = (mca_pml_tm_msg_t *) (*message)->req_ptr;
    mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_alloc(buf, count, datatype, (*message)->peer,
                                                           mca_pml_tm_tag_tag(msg->hdr.tag),
                                                           (*message)->comm, false);

    if (NULL == req) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    OBJ_RELEASE((*message)->comm); /* the request retains it now */
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    fab_lock(mca_pml_tm.fab);
    recv_start(req);
    recv_match(req, &msg->match);
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    *request = req;
    return OMPI_SUCCESS;
}

int mca_pml_tm_imrecv(void *buf, size_t count, ompi_datatype_t *datatype, ompi_message_t **message,
                      ompi_request_t **request)
{
    mca_pml_tm_recv_request_t *req;
    int rc = recv_message(buf, count, datatype, message, &req);

    if (OMPI_SUCCESS == rc) {
        *request = &req->req_recv.req_base.req_ompi;
    }
    return rc;
}

int mca_pml_tm_mrecv(void *buf, size_t count, ompi_datatype_t *datatype, ompi_message_t **message,
                     ompi_status_public_t *status)
{
    mca_pml_tm_recv_request_t *req;
    int rc = recv_message(buf, count, datatype, message, &req);

    return OMPI_SUCCESS == rc ? recv_wait_and_free(req, status) : rc;
}

/*
 * A message that a probe has seen may still be in its sender's ring, but the receive that follows
 * matches it (MPI 4.1, 3.8.1).  So a message that fits and is next there is taken before the
 * receive is cancelled.  Lock held.
 */
static void take_probed(const mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(base->req_comm);
    const fab_peer_t *peer = base->req_peer >= 0 ? mca_pml_tm_comm_met(tmc, base->req_peer) : NULL;
    uint64_t tag;
    size_t len;

    while (
        0 != (tmc->fast & PML_TM_FAST_TAKE) && PML_TM_ACTIVE == req->core.state &&
        FAB_MATCH_IDLE != req->match.where && NULL != peer && FAB_PEER_UP == peer->state &&
        take_from_ring(PEEK, base->req_comm, base->req_peer, base->req_tag, 1, NULL, &len, &tag)) {
        (void) fab_progress(mca_pml_tm.fab);
    }
}

/* True: a device that has the receive answers later. */
static bool cancel_recv(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);
    bool is_late = false;

    fab_lock(mca_pml_tm.fab);
    take_probed(req);
    if (PML_TM_ACTIVE == req->core.state) {
        if (NULL == tmc->scope ? fab_match_cancel(&tmc->match, &req->match)
                               : mca_pml_tm.offload->cancel(tmc, req, &is_late)) {
            mca_pml_tm_recv_cancelled(req);
        } else if (mca_pml_tm_is_orphan(&req->core)) {
            mca_pml_tm_recv_finish(req, req->req_recv.req_base.req_ompi.req_status.MPI_ERROR);
        }
    }
    fab_unlock(mca_pml_tm.fab);
    return is_late;
}

/*
 * MPI_Cancel, which can cancel only a receive that is still posted; also called by Open MPI for a
 * request whose sender failed.
 */
int mca_pml_tm_cancel(ompi_request_t *request, int flag)
{
    (void) flag;
    /*
     * No message that is sent after MPI_Cancel has returned may find the receive, though MPI would
     * allow it: programs rely on it, and a device answers soon.  With fault tolerance Open MPI's
     * progress calls this.
     */
    while (cancel_recv((mca_pml_tm_recv_request_t *) request) && !mca_pml_tm_is_fault_tolerant()) {
        mca_pml_tm_progress();
    }
    mca_pml_tm_complete_done();
    return OMPI_SUCCESS;
}
