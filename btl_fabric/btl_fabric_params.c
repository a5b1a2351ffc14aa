/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the parameters of btl fabric.
 */
#include "btl_fabric_params.h"

#include <limits.h>
#include <stdio.h>

#include "fabric/fab.h"

static const fab_param_t rows[] = {
    {
        FAB_PARAM(mca_btl_fabric_params_t, verbose, INT, 1),
        FAB_PARAM_NUMBER(0, 0, 100),
        .help = "From 10 on, the first process prints a table of the paths to its peers. From 20 "
                "on, every process does. From 1 on, messages say why a provider or a process "
                "cannot be used.",
    },
    {
        FAB_PARAM(mca_btl_fabric_params_t, free_list_num, INT, 8),
        FAB_PARAM_NUMBER(8, 1, 1000000),
        .unit = "descriptors",
        .help = "Descriptors of each size allocated at start.",
    },
    {
        FAB_PARAM(mca_btl_fabric_params_t, free_list_max, INT, 8),
        FAB_PARAM_NUMBER(-1, 1, INT_MAX),
        .unit = "descriptors",
        .special = -1,
        .special_means = "no limit",
        .help = "Limit for the number of descriptors of each size; at least free_list_num. When "
                "they are used up, the layer above waits for one.",
    },
    {
        FAB_PARAM(mca_btl_fabric_params_t, free_list_inc, INT, 8),
        FAB_PARAM_NUMBER(32, 1, 1000000),
        .unit = "descriptors",
        .help = "Descriptors allocated at once when they run out.",
    },
    {
        FAB_PARAM(mca_btl_fabric_params_t, offer_max, SIZE, 5),
        FAB_PARAM_NUMBER(8192, 1, BTL_FABRIC_OFFER_MAX),
        .unit = "bytes",
        .special = 0,
        .special_means = "none is offered",
        .help = "Longest put or get that is offered to the target's CPU, in shared memory. A "
                "target that polls does it sooner than a system call would. If the target does not "
                "begin soon, the system call is made.",
    },
};

const fab_param_table_t mca_btl_fabric_param_table = FAB_PARAM_TABLE(rows);

int mca_btl_fabric_params_check(const mca_btl_fabric_params_t *params, char *buf, size_t size)
{
    static const char *const prefixes[] = {"btl_fabric_", NULL};
    int rc = fab_param_check(&mca_btl_fabric_param_table, params, prefixes, buf, size);

    if (OPAL_SUCCESS == rc && -1 != params->free_list_max &&
        params->free_list_max < params->free_list_num) {
        snprintf(buf, size,
                 "btl_fabric_free_list_max is %d; it must be -1, or at least "
                 "btl_fabric_free_list_num, which is %d.",
                 params->free_list_max, params->free_list_num);
        rc = OPAL_ERR_BAD_PARAM;
    }
    return rc;
}
