/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets from and to memory of a device.  osc/rdma passes the user's address on as it is.
 * The other side is always memory of the host: Open MPI makes no window in memory of a device, and
 * ob1 puts and gets none, unless the BTL's flags say that it can access such memory.
 */
#include "btl_fabric_entry.h"

#include <stdlib.h>

typedef struct staged {
    void *local; /* memory of the device */
    size_t len;
    bool is_get;
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *context;
    void *cbdata;
    _Alignas(64) char copy[];
} staged_t;

static void done(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *copy,
                 struct mca_btl_base_registration_handle_t *local_handle, void *context,
                 void *cbdata, int status)
{
    staged_t *staged = cbdata;

    (void) context;
    if (OPAL_SUCCESS == status && staged->is_get) {
        status = fab_device_copy(staged->local, copy, staged->len);
    }
    if (NULL != staged->cbfunc) {
        staged->cbfunc(btl, ep, staged->local, local_handle, staged->context, staged->cbdata,
                       status);
    }
    free(staged);
}

/* A put or get, by this function of the module. */
static int stage(mca_btl_base_module_put_fn_t fn, bool is_get, struct mca_btl_base_module_t *btl,
                 mca_btl_fabric_ep_t *ep, void *local, uint64_t remote,
                 struct mca_btl_base_registration_handle_t *local_handle,
                 struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                 int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *context, void *cbdata)
{
    staged_t *staged;
    int rc = OPAL_SUCCESS;

    if (!fab_is_device_address(local)) {
        return fn(btl, ep, local, remote, local_handle, remote_handle, size, flags, order, cbfunc,
                  context, cbdata);
    }
    staged = aligned_alloc(_Alignof(staged_t), (sizeof(*staged) + size + 63) & ~63ul);
    if (NULL == staged) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    *staged = (staged_t){.local = local,
                         .len = size,
                         .is_get = is_get,
                         .cbfunc = cbfunc,
                         .context = context,
                         .cbdata = cbdata};
    if (!is_get) {
        rc = fab_device_copy(staged->copy, local, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = fn(btl, ep, staged->copy, remote, local_handle, remote_handle, size, flags, order,
                done, NULL, staged);
    }
    if (OPAL_SUCCESS != rc) {
        free(staged);
    }
    return rc;
}

int mca_btl_fabric_staged_put(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                              int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                              void *context, void *cbdata)
{
    return stage(mca_btl_fabric_put, false, btl, ep, local, remote, local_handle, remote_handle,
                 size, flags, order, cbfunc, context, cbdata);
}

int mca_btl_fabric_staged_get(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                              int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                              void *context, void *cbdata)
{
    return stage(mca_btl_fabric_get, true, btl, ep, local, remote, local_handle, remote_handle,
                 size, flags, order, cbfunc, context, cbdata);
}
