/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets whose local side may be memory of a device: as those of btl_fabric_rma.h, which
 * they call, with a copy in the host's memory.
 */
#ifndef BTL_FABRIC_STAGED_H
#define BTL_FABRIC_STAGED_H

#include "btl_fabric.h"

int mca_btl_fabric_staged_put(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                              int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                              void *context, void *cbdata);
int mca_btl_fabric_staged_get(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                              int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                              void *context, void *cbdata);

#endif /* BTL_FABRIC_STAGED_H */
