/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider as an object of its own (fab_load.c): the one name that it exports.
 */
#include "fabric/fab_abi.h"
#include "fabric/fab_reg.h"
#include "verbs/verbs_near.h"
#include "verbs/verbs.h"

static void use_ompi(void)
{
    fab_reg_use_rcache();
    fab_verbs_near_use_hwloc();
}

FAB_EXPORT extern const fab_object_t fab_verbs_object;

const fab_object_t fab_verbs_object = {
    .abi = FAB_ABI,
    .use_ompi = use_ompi,
    .provider = &fab_verbs_provider,
};
