/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider as an object of its own (fab_load.c): the one name that it exports.
 */
#include "fabric/fab_abi.h"
#include "fabric/fab_reg.h"
#include "ofi/ofi.h"

static void use_ompi(void)
{
    fab_reg_use_rcache();
}

FAB_EXPORT extern const fab_object_t fab_ofi_object;

const fab_object_t fab_ofi_object = {
    .abi = FAB_ABI,
    .use_ompi = use_ompi,
    .provider = &fab_ofi_provider,
};
