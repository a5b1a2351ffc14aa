/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get and atomic operations, from their start to their callback (btl_fabric_op.c).
 *
 *      start ──fab_put, fab_get──> done by the fabric ──────────────────> done ──upcall──> callback
 *        │                             ^ withdrawn                           ^
 *        ├──offer────> waits for the target ──DONE or DATA───────────────────┤
 *        └──message──> queued, if there is no room ──> waits ──DONE or DATA──┘
 *
 * The fabric does puts and gets where it can reach the peer's memory.  Where it copies the bytes
 * itself (shared memory), it does them at once, but for very long ones, and the callback runs
 * before the function returns; short ones may be offered to the target first.  Where the fabric
 * cannot reach the memory, or fails half-way, a put or get goes by messages, as atomic operations
 * always do.  A put is complete when its data is in the target's memory.  What needs no answer but
 * that it was done is counted (btl_fabric_wire.h), except in shared memory.  An operation that
 * finds no room is queued, not refused: the layer above may start it from a callback, where it
 * cannot wait.  Outside callbacks it is refused while too many are under way with the endpoint.  It
 * is refused if there is no memory for its record; it can be started once those under way have
 * ended, since there is always one record.
 */
#include "btl_fabric_entry.h"

#include <string.h>

#include "btl_fabric_mem.h"
#include "btl_fabric_op.h"

enum {
    DONE_NOW = 1, /* no error code: the operation is done, and has no record any more */
};

/* ---- answers ------------------------------------------------------------ */

/* The operation on this peer, a get or not, with this id; NULL: none, and the peer has failed. */
static mca_btl_fabric_op_t *find_op(fab_peer_t *peer, uint32_t id, bool is_get)
{
    mca_btl_fabric_op_t *op = fab_idmap_find(&mca_btl_fabric.ids, id);

    if (NULL == op || op->call.ep->peer != peer || is_get != (BTL_FABRIC_AM_GET == op->call.am) ||
        op->is_queued) {
        mca_btl_fabric_bad_message(peer, "an answer to an unknown operation");
        return NULL;
    }
    return op;
}

void *mca_btl_fabric_place_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    const mca_btl_fabric_op_t *op = fab_idmap_find(&mca_btl_fabric.ids, hdr.app_ctx);

    (void) ctx;
    if (NULL == op || op->call.ep->peer != peer || BTL_FABRIC_AM_GET != op->call.am ||
        op->is_queued || hdr.tag < op->done || hdr.tag > op->call.len ||
        len > op->call.len - hdr.tag) {
        return NULL;
    }
    return (char *) op->call.local + hdr.tag;
}

void mca_btl_fabric_on_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    mca_btl_fabric_op_t *op = find_op(peer, hdr.app_ctx, true);

    (void) ctx;
    if (NULL == op) {
        return;
    }
    if (hdr.tag != op->done || len > op->call.len - op->done || (0 == len && 0 != op->call.len)) {
        mca_btl_fabric_bad_message(peer, "data that was not requested");
        return;
    }
    if (len > 0 && data != (char *) op->call.local + op->done) {
        fab_copy((char *) op->call.local + op->done, data, len);
    }
    op->done += len;
    op->call.ep->heard = mca_btl_fabric.polls;
    if (op->done == op->call.len) {
        mca_btl_fabric_op_done(op, OPAL_SUCCESS);
    }
}

void mca_btl_fabric_on_done(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    mca_btl_fabric_op_t *op = find_op(peer, hdr.app_ctx, false);

    (void) ctx, (void) data, (void) len;
    if (NULL == op) {
        return;
    }
    if (BTL_FABRIC_AM_ATOMIC == op->call.am && NULL != op->call.local) { /* the old value */
        if (8 == op->call.len) {
            memcpy(op->call.local, &hdr.tag, 8);
        } else {
            memcpy(op->call.local, &(uint32_t){(uint32_t) hdr.tag}, 4);
        }
    }
    mca_btl_fabric_op_done(op, OPAL_SUCCESS);
}

void mca_btl_fabric_on_count(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len)
{
    mca_btl_fabric_ep_t *ep = peer->user[FAB_USER_BTL];

    (void) ctx, (void) data, (void) len;
    for (uint32_t n = hdr.app_ctx; n > 0; n--) {
        mca_btl_fabric_op_t *op = NULL != ep ? STAILQ_FIRST(&ep->counted) : NULL;
        if (NULL == op) {
            mca_btl_fabric_bad_message(peer, "an answer to more operations than there were");
            return;
        }
        STAILQ_REMOVE_HEAD(&ep->counted, counted);
        mca_btl_fabric_op_done(op, OPAL_SUCCESS);
    }
}

/* ---- the module's functions --------------------------------------------- */

/* A new operation. Lock held. */
static int start(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    mca_btl_fabric_op_t *op = mca_btl_fabric_op_new(call);
    int rc;

    if (NULL == op) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (BTL_FABRIC_AM_ATOMIC == call->am) {
        mca_btl_fabric.counters.atomics++;
    } else if (mca_btl_fabric_op_start_rma(op, region)) {
        mca_btl_fabric.counters.rma++;
        return OPAL_SUCCESS;
    }
    rc = mca_btl_fabric_op_by_messages(op);
    if (OPAL_SUCCESS != rc) {
        mca_btl_fabric_op_cancel(op);
    }
    return rc;
}

/* Start or do an operation: success, DONE_NOW, or an error. Lock held. */
static int start_any(const mca_btl_fabric_call_t *call, const fab_region_t *region)
{
    /* the layer above polls then, and tries again, but cannot do so in a callback */
    if (OPAL_UNLIKELY(call->ep->outstanding >= BTL_FABRIC_OPS_MAX) &&
        !mca_btl_fabric_in_callback()) {
        mca_btl_fabric.counters.refused++;
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (BTL_FABRIC_AM_ATOMIC == call->am) {
        return start(call, region);
    }
    if (mca_btl_fabric_offer(call, region)) {
        return OPAL_SUCCESS;
    }
    return mca_btl_fabric_do_now(call, region) ? DONE_NOW : start(call, region);
}

/* What btl_put, btl_get and btl_atomic_* have in common. */
static int start_or_do(mca_btl_fabric_call_t *call,
                       const struct mca_btl_base_registration_handle_t *remote_handle)
{
    struct mca_btl_base_registration_handle_t remote;
    int rc;

    /* osc/rdma up to Open MPI 4.1.4 does this for MPI_Compare_and_swap on memory of its host */
    if (OPAL_UNLIKELY(NULL == call->ep || NULL == remote_handle)) {
        /* as btl.h has it; but osc/rdma repeats atomic operations until they are not supported */
        return BTL_FABRIC_AM_ATOMIC == call->am ? OPAL_ERR_NOT_SUPPORTED : OPAL_ERR_NOT_AVAILABLE;
    }
    memcpy(&remote, remote_handle, BTL_FABRIC_HANDLE); /* it may be unaligned */
    call->atomic.key = remote.key;
    fab_lock(mca_btl_fabric.fab);
    rc = start_any(call, &remote.region);
    fab_unlock(mca_btl_fabric.fab);
    if (DONE_NOW == rc) {
        mca_btl_fabric_call_back(call, OPAL_SUCCESS);
        return OPAL_SUCCESS;
    }
    return rc;
}

/* The part of a call that comes with each function of the module. */
static inline mca_btl_fabric_call_t call_of(mca_btl_fabric_ep_t *ep, void *local, uint64_t remote,
                                            struct mca_btl_base_registration_handle_t *local_handle,
                                            mca_btl_base_rdma_completion_fn_t cbfunc, void *context,
                                            void *cbdata)
{
    return (mca_btl_fabric_call_t){.ep = ep,
                                   .local = local,
                                   .remote = remote,
                                   .local_handle = local_handle,
                                   .cbfunc = cbfunc,
                                   .context = context,
                                   .cbdata = cbdata};
}

int mca_btl_fabric_put(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                       uint64_t remote, struct mca_btl_base_registration_handle_t *local_handle,
                       struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                       void *context, void *cbdata)
{
    mca_btl_fabric_call_t call = call_of(ep, local, remote, local_handle, cbfunc, context, cbdata);

    (void) btl, (void) flags, (void) order;
    call.am = BTL_FABRIC_AM_PUT;
    call.len = size;
    return start_or_do(&call, remote_handle);
}

int mca_btl_fabric_get(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                       uint64_t remote, struct mca_btl_base_registration_handle_t *local_handle,
                       struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                       void *context, void *cbdata)
{
    mca_btl_fabric_call_t call = call_of(ep, local, remote, local_handle, cbfunc, context, cbdata);

    (void) btl, (void) flags, (void) order;
    call.am = BTL_FABRIC_AM_GET;
    call.len = size;
    return start_or_do(&call, remote_handle);
}

/* The caller has set all of call except am, len and atomic. */
static int start_atomic(mca_btl_fabric_call_t *call, btl_fabric_atomic_t atomic, int flags,
                        const struct mca_btl_base_registration_handle_t *remote_handle)
{
    atomic.len = 0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT) ? 4 : 8;
    if (0 != (flags & MCA_BTL_ATOMIC_FLAG_FLOAT) ||
        !mca_btl_fabric_can_apply(atomic.op, atomic.len, call->remote)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    call->am = BTL_FABRIC_AM_ATOMIC;
    call->len = atomic.len;
    call->atomic = atomic;
    return start_or_do(call, remote_handle);
}

int mca_btl_fabric_atomic_op(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                             uint64_t remote,
                             struct mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *context, void *cbdata)
{
    return mca_btl_fabric_atomic_fop(btl, ep, NULL, remote, NULL, remote_handle, op, operand, flags,
                                     order, cbfunc, context, cbdata);
}

int mca_btl_fabric_atomic_fop(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t cbfunc, void *context, void *cbdata)
{
    mca_btl_fabric_call_t call = call_of(ep, local, remote, local_handle, cbfunc, context, cbdata);

    (void) btl, (void) order;
    return start_atomic(&call, (btl_fabric_atomic_t){.op = (uint16_t) op, .operand = operand},
                        flags, remote_handle);
}

int mca_btl_fabric_atomic_cswap(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                                void *local, uint64_t remote,
                                struct mca_btl_base_registration_handle_t *local_handle,
                                struct mca_btl_base_registration_handle_t *remote_handle,
                                uint64_t compare, uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t cbfunc, void *context,
                                void *cbdata)
{
    mca_btl_fabric_call_t call = call_of(ep, local, remote, local_handle, cbfunc, context, cbdata);

    (void) btl, (void) order;
    return start_atomic(
        &call, (btl_fabric_atomic_t){.op = BTL_FABRIC_CSWAP, .operand = value, .compare = compare},
        flags, remote_handle);
}
