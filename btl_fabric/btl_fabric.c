/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that all files share.
 */
#include "btl_fabric.h"

mca_btl_fabric_t mca_btl_fabric = {.output = -1};
