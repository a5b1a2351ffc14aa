/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process of a host tells the user what is wrong in several of them; see fab_help.h.
 */
#include "fabric/fab_ompi.h"

#include "fabric/fab_help.h"

#include <stdlib.h>

#include "opal/mca/base/base.h"

/* The ranks of this job on this host, "0,1,2", to be freed; NULL: not known. */
static char *local_ranks(void)
{
    opal_process_name_t job = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = OPAL_VPID_WILDCARD};
    char *ranks = NULL;
    int rc;

    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, FAB_LOCAL_RANKS, &job, &ranks, FAB_LOCAL_RANKS_TYPE);
    return OPAL_SUCCESS == rc ? ranks : NULL;
}

/* Has the process published the address of this component?  Waits until it has published all. */
static bool has_published(uint32_t rank, const mca_base_component_t *component)
{
    opal_process_name_t name = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = rank};
    void *address = NULL;
    size_t len = 0;
    int rc;

    OPAL_MODEX_RECV(rc, component, &name, &address, &len);
    free(address);
    return OPAL_SUCCESS == rc;
}

bool fab_help_is_first(const struct mca_base_component_2_1_0_t *component, bool ends_job)
{
    char *ranks = local_ranks(), *at = ranks;
    bool is_first = true;

    while (is_first && NULL != at && '\0' != *at) {
        uint32_t rank = (uint32_t) strtoul(at, &at, 10);
        at += strspn(at, ",");
        if (rank < OPAL_PROC_MY_NAME.vpid && !has_published(rank, component)) {
            is_first = ends_job;
        }
    }
    free(ranks);
    return is_first;
}
