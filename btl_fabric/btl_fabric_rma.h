/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, gets and atomic operations of this process, and the answers to them.
 */
#ifndef BTL_FABRIC_RMA_H
#define BTL_FABRIC_RMA_H

#include "btl_fabric.h"

int mca_btl_fabric_put(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                       uint64_t remote, struct mca_btl_base_registration_handle_t *local_handle,
                       struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                       void *context, void *cbdata);
int mca_btl_fabric_get(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                       uint64_t remote, struct mca_btl_base_registration_handle_t *local_handle,
                       struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                       void *context, void *cbdata);
int mca_btl_fabric_atomic_op(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                             uint64_t remote,
                             struct mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *context, void *cbdata);
int mca_btl_fabric_atomic_fop(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t cbfunc, void *context,
                              void *cbdata);
int mca_btl_fabric_atomic_cswap(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                                void *local, uint64_t remote,
                                struct mca_btl_base_registration_handle_t *local_handle,
                                struct mca_btl_base_registration_handle_t *remote_handle,
                                uint64_t compare, uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t cbfunc, void *context,
                                void *cbdata);

/* End the operations that were answered in place. Lock held. */
void mca_btl_fabric_answers_check(void);

/* Where the data of a get goes: a fab_place_fn_t. */
void *mca_btl_fabric_place_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len);

/* Handlers of BTL_FABRIC_AM_DATA, DONE and COUNT. */
void mca_btl_fabric_on_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);
void mca_btl_fabric_on_done(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);
void mca_btl_fabric_on_count(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len);

#endif /* BTL_FABRIC_RMA_H */
