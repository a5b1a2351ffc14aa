/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for operations: btl_flush.
 */
#ifndef BTL_FABRIC_FLUSH_H
#define BTL_FABRIC_FLUSH_H

#include "btl_fabric.h"

int mca_btl_fabric_flush(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep);

#endif /* BTL_FABRIC_FLUSH_H */
