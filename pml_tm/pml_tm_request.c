/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completing and freeing requests; only this file handles their races (see pml_tm_request.h).
 */
#include "pml_tm_cancel.h"
#include "pml_tm_failure.h"
#include "pml_tm_recv.h"

#include <sched.h>

static void send_request_construct(mca_pml_tm_send_request_t *req)
{
    req->req_send.req_base.req_type = MCA_PML_REQUEST_SEND;
    req->req_send.req_base.req_ompi.req_start = mca_pml_tm_start;
    req->req_send.req_base.req_ompi.req_free = mca_pml_tm_request_free;
    req->req_send.req_base.req_ompi.req_cancel = mca_pml_tm_cancel_send;
    memset(&req->core, 0, sizeof(req->core));
    req->core.base = &req->req_send.req_base;
}

OBJ_CLASS_INSTANCE(mca_pml_tm_send_request_t, mca_pml_base_send_request_t, send_request_construct,
                   NULL);

static void recv_request_construct(mca_pml_tm_recv_request_t *req)
{
    req->req_recv.req_base.req_type = MCA_PML_REQUEST_RECV;
    req->req_recv.req_base.req_ompi.req_start = mca_pml_tm_start;
    req->req_recv.req_base.req_ompi.req_free = mca_pml_tm_request_free;
    req->req_recv.req_base.req_ompi.req_cancel = mca_pml_tm_cancel;
    req->req_recv.req_base.req_free_called = false;
    memset(&req->core, 0, sizeof(req->core));
    memset(&req->offload, 0, sizeof(req->offload));
    req->memory_prev = NULL;
    req->core.base = &req->req_recv.req_base;
}

OBJ_CLASS_INSTANCE(mca_pml_tm_recv_request_t, mca_pml_base_recv_request_t, recv_request_construct,
                   NULL);

static inline mca_pml_tm_core_t *request_core(mca_pml_base_request_t *base)
{
    return MCA_PML_REQUEST_SEND == base->req_type ? &((mca_pml_tm_send_request_t *) base)->core
                                                  : &((mca_pml_tm_recv_request_t *) base)->core;
}

void mca_pml_tm_request_release(mca_pml_base_request_t *base)
{
    if (MCA_PML_REQUEST_SEND == base->req_type) {
        request_core(base)->state = PML_TM_INACTIVE;
        mca_pml_base_send_request_t *req = (mca_pml_base_send_request_t *) base;
        void *buffer = ((mca_pml_tm_send_request_t *) req)->buffer;
        if (NULL != buffer) {
            mca_pml_base_bsend_request_free(buffer);
        }
        MCA_PML_BASE_SEND_REQUEST_FINI(req);
        opal_free_list_return(&mca_pml_base_send_requests, (opal_free_list_item_t *) req);
    } else {
        mca_pml_tm_recv_release((mca_pml_tm_recv_request_t *) base);
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

/*
 * A callback takes the message for another component, such as osc/pt2pt, which handles it in its
 * own progress function: poll all of Open MPI next.  Over TCP params.progress_interval polls take
 * 15 us.  Lock held.
 */
static void poll_others_next(void)
{
    mca_pml_tm.polls_left = 1;
    mca_pml_tm.locked_polls = (unsigned) mca_pml_tm.params.progress_interval;
}

/* Called in a poll: its caller may yet count it, after which one must be left. */
void mca_pml_tm_others_wait(void *ctx)
{
    (void) ctx;
    poll_others_next();
    mca_pml_tm.polls_left = 2;
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
            poll_others_next();
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
    mca_pml_tm_core_t *core = request_core(base);
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
