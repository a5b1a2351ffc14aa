/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completing and freeing requests; only this file handles their races (see pml_tm_request.h).
 */
#include "pml_tm/request/pml_tm_request.h"

#include <sched.h>

#include "pml_tm/peer/pml_tm_comm.h"

void mca_pml_tm_recv_flush(mca_pml_tm_freed_t *freed)
{
    ompi_communicator_t *comm = freed->comm;
    bool is_last;

    if (NULL == freed->first) {
        return;
    }
    fab_lock(mca_pml_tm.fab);
    freed->last->next = mca_pml_tm.free_recvs;
    mca_pml_tm.free_recvs = freed->first;
    is_last = 0 == (mca_pml_tm_comm(comm)->num_recvs -= freed->count);
    fab_unlock(mca_pml_tm.fab);
    *freed = (mca_pml_tm_freed_t){.first = NULL};
    if (is_last) {
        OBJ_RELEASE(comm);
    }
}

static void recv_release(mca_pml_tm_recv_request_t *req)
{
    mca_pml_base_request_t *base = &req->req_recv.req_base;
    ompi_communicator_t *comm = base->req_comm;

    OMPI_REQUEST_FINI(&base->req_ompi); /* a handle for Fortran */
    OMPI_DATATYPE_RELEASE(base->req_datatype);
    if (NULL == req->data && 0 != req->capacity) { /* it was unpacked by the convertor */
        opal_convertor_cleanup(&base->req_convertor);
    }
    base->req_ompi.req_persistent = false;
    base->req_ompi.req_complete_cb = NULL;
    base->req_free_called = false;
    if (req->core.is_counted) {
        mca_pml_tm_freed_t freed = {.first = NULL};
        mca_pml_tm_recv_collect(&freed, req);
        mca_pml_tm_recv_flush(&freed);
        return;
    }
    req->core.state = PML_TM_INACTIVE;
    base->req_ompi.req_state = OMPI_REQUEST_INVALID;
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_recv_push(req);
    fab_unlock(mca_pml_tm.fab);
    OBJ_RELEASE(comm);
}

void mca_pml_tm_request_release(mca_pml_base_request_t *base)
{
    if (MCA_PML_REQUEST_SEND == base->req_type) {
        mca_pml_tm_core_of(base)->state = PML_TM_INACTIVE;
        mca_pml_base_send_request_t *req = (mca_pml_base_send_request_t *) base;
        void *buffer = ((mca_pml_tm_send_request_t *) req)->buffer;
        if (NULL != buffer) {
            mca_pml_tm_bsend_free(base->req_comm, buffer);
        }
        MCA_PML_BASE_SEND_REQUEST_FINI(req);
        opal_free_list_return(&mca_pml_base_send_requests, (opal_free_list_item_t *) req);
    } else {
        recv_release((mca_pml_tm_recv_request_t *) base);
    }
}

/* Under the lock, so a load and a store suffice instead of one atomic operation. */
static inline void count_done(int by)
{
    unsigned count = atomic_load_explicit(&mca_pml_tm.done.count, memory_order_relaxed);

    atomic_store_explicit(&mca_pml_tm.done.count, count + (unsigned) by, memory_order_relaxed);
}

void mca_pml_tm_done_listed(mca_pml_tm_core_t *core)
{
    core->state = PML_TM_DONE;
    core->next = NULL;
    *mca_pml_tm.done.tail = core;
    mca_pml_tm.done.tail = &core->next;
    count_done(1);
}

/* Poll all of Open MPI after at most this many more polls of blocking calls.  Lock held. */
static void poll_others_soon(unsigned polls)
{
    if (polls < mca_pml_tm.polls_left) {
        mca_pml_tm.polls_left = polls;
    }
    mca_pml_tm.light_left = 0;
    mca_pml_tm.locked_polls = mca_pml_tm.progress_interval;
}

/*
 * Called in a poll: its caller may yet count it, after which one must be left.  If each poll calls
 * this, every second one is of all of Open MPI.
 */
void mca_pml_tm_others_wait(void *ctx)
{
    (void) ctx;
    poll_others_soon(2);
}

/*
 * Take the oldest request off the list. *is_freed: its user has freed it, so it only has to be
 * released.
 */
static mca_pml_tm_core_t *take_done(bool *is_freed)
{
    mca_pml_tm_core_t *core;

    fab_lock(mca_pml_tm.fab);
    core = mca_pml_tm.done.head;
    if (NULL != core) {
        mca_pml_tm.done.head = core->next;
        if (NULL == core->next) {
            mca_pml_tm.done.tail = &mca_pml_tm.done.head;
        }
        count_done(-1);
        core->base->req_pml_complete = true;
        core->has_callback = NULL != core->base->req_ompi.req_complete_cb;
        core->state = PML_TM_COMPLETING;
        *is_freed = core->base->req_free_called;
        if (core->has_callback) {
            /*
             * It takes the message for another component, such as osc/pt2pt, which handles it in
             * its own progress function.  Over TCP progress_interval polls would take 15 us.
             */
            poll_others_soon(1);
        }
    }
    fab_unlock(mca_pml_tm.fab);
    return core;
}

void mca_pml_tm_wake(void *sync, int error)
{
    wait_sync_update((ompi_wait_sync_t *) sync, 1, error);
}

int mca_pml_tm_complete_done_slow(void)
{
    mca_pml_tm_core_t *core;
    bool is_freed;
    int count = 0;

    /* one at a time: a callback may free, start or complete any other request */
    while (NULL != (core = take_done(&is_freed))) {
        if (is_freed) {
            /*
             * without the lock: the request may hold the last reference to its communicator, and
             * freeing that calls this PML again
             */
            mca_pml_tm_request_release(core->base);
        } else {
            mca_pml_tm_request_set_error(core);
            ompi_request_complete(&core->base->req_ompi, true);
        }
        ++count;
    }
    return count;
}

/*
 * Is another thread inside ompi_request_complete() with this request? No if the request is
 * complete, and no if it has a callback: then this call comes from that callback.
 */
static inline bool is_being_completed(const mca_pml_tm_core_t *core)
{
    return PML_TM_COMPLETING == core->state && !core->has_callback &&
           !REQUEST_COMPLETE(&core->base->req_ompi);
}

int mca_pml_tm_request_free(ompi_request_t **request)
{
    mca_pml_base_request_t *base = (mca_pml_base_request_t *) *request;
    mca_pml_tm_core_t *core = mca_pml_tm_core_of(base);
    bool is_pending;

    *request = MPI_REQUEST_NULL;
    fab_lock(mca_pml_tm.fab);
    is_pending = PML_TM_ACTIVE == core->state || PML_TM_DONE == core->state;
    if (is_pending) {
        base->req_free_called = true;
    }
    fab_unlock(mca_pml_tm.fab);
    if (is_pending) {
        return OMPI_SUCCESS;
    }
    while (is_being_completed(core)) {
        sched_yield();
    }
    mca_pml_tm_request_release(base);
    return OMPI_SUCCESS;
}

bool mca_pml_tm_recv_reserve(void)
{
    mca_pml_tm_recv_request_t *req;

    if (NULL == mca_pml_tm.free_recvs) {
        req = (mca_pml_tm_recv_request_t *) opal_free_list_get(&mca_pml_base_recv_requests);
        if (NULL == req) {
            return false;
        }
        mca_pml_tm_recv_push(req);
    }
    return true;
}

mca_pml_tm_recv_request_t *mca_pml_tm_recv_alloc(void *buf, size_t count, ompi_datatype_t *datatype,
                                                 int src, int tag, ompi_communicator_t *comm,
                                                 bool is_persistent)
{
    mca_pml_tm_recv_request_t *req;
    char *data;

    fab_lock(mca_pml_tm.fab);
    req = mca_pml_tm_recv_get();
    fab_unlock(mca_pml_tm.fab);
    if (OPAL_UNLIKELY(NULL == req)) {
        return NULL;
    }
    MCA_PML_BASE_RECV_REQUEST_INIT(&req->req_recv, buf, count, datatype, src, tag, comm,
                                   is_persistent);
    req->data = mca_pml_tm_is_contiguous(buf, count, datatype, &data, &req->capacity) ? data : NULL;
    req->core.is_private = false;
    req->core.is_counted = false;
    return req;
}

void mca_pml_tm_recv_fini(void)
{
    while (NULL != mca_pml_tm.free_recvs) {
        opal_free_list_return(&mca_pml_base_recv_requests,
                              (opal_free_list_item_t *) mca_pml_tm_recv_pop());
    }
}

void mca_pml_tm_send_finish(mca_pml_tm_send_request_t *req, int error)
{
    if (0 != req->core.id) {
        fab_idmap_remove(&mca_pml_tm.ids, req->core.id);
        req->core.id = 0;
    }
    if (mca_pml_tm_is_exposed(req)) {
        fab_unexpose(req->core.peer, &req->rkey);
    }
    req->is_exposed = false;
    req->core.error = error;
    mca_pml_tm_done(&req->core);
}
