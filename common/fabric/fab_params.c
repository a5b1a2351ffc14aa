/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's parameters: its own table, and the check of all tables.
 */
#include "fabric/fab_params.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fab_provider.h"

fab_params_t fab_params;

#if FAB_HAVE_OFI
#define OFI_NOTE ""
#else
#define OFI_NOTE " (not in this build)"
#endif
#if FAB_HAVE_VERBS
#define VERBS_NOTE ""
#else
#define VERBS_NOTE " (not in this build)"
#endif

static bool is_absolute(const char *path)
{
    return '/' == *path;
}

static const fab_param_t fab_rows[] = {
    {
        FAB_PARAM(fab_params_t, providers, STRING, 2),
        .is_valid = fab_provider_is_list,
        .form = "a list of self, shm, ofi" OFI_NOTE ", verbs" VERBS_NOTE
                ", tcp with commas between",
        .empty_means = "all",
        .help =
            "Providers that may be used, or, after ^, those that may not. The first that reaches a "
            "peer is used, in the order shm, ofi, verbs, tcp. A process always reaches itself "
            "(self).",
    },
    {
        FAB_PARAM(fab_params_t, recorder, UINT, 4),
        FAB_PARAM_NUMBER(1, 0, 2),
        .help = "What a process shows to tm_look, also while it is stuck. 1: what it waits for, "
                "its counters, and a ring of the last events other than short messages; 2: each "
                "message, too, for tm_trace, which slows short ones down, and keeps a device from "
                "matching tags; 0: nothing.",
    },
    {
        FAB_PARAM(fab_params_t, recorder_size, UINT, 5),
        FAB_PARAM_NUMBER(128 << 10, 4096, 1 << 30),
        .unit = "bytes",
        .help = "Memory of each process for the events of recorder, 32 bytes for each; the last "
                "power of two that fits is used.",
    },
    {
        FAB_PARAM(fab_params_t, recorder_dir, STRING, 4),
        .is_valid = is_absolute,
        .form = "an absolute path",
        .empty_means = "memory that goes with the process",
        .help = "Directory for a file of each process, with what recorder shows. It stays when the "
                "process ends or crashes: tm_look FILE. An existing file of the same job and rank "
                "is replaced. It should be on a local disk, or in memory (/dev/shm).",
    },
};

static const fab_param_table_t fab_own_params = FAB_PARAM_TABLE(fab_rows);

const fab_param_table_t *const fab_params_tables[] = {
    &fab_own_params, &fab_shm_params, &fab_ofi_params, &fab_verbs_params, &fab_tcp_params};
const size_t fab_params_num_tables = sizeof(fab_params_tables) / sizeof(fab_params_tables[0]);

void fab_params_reset(void)
{
    for (size_t t = 0; t < fab_params_num_tables; t++) {
        fab_param_reset(fab_params_tables[t], &fab_params);
    }
}

bool fab_params_is_none(const char *choice)
{
    return NULL != choice && 0 == strcmp(choice, "none");
}

/* Is at most one of the two lists of a provider set?  Otherwise buf says so. */
static bool is_one_list(const char *provider, const char *include, const char *exclude, char *buf,
                        size_t size)
{
    if (NULL == include || '\0' == *include || NULL == exclude || '\0' == *exclude) {
        return true;
    }
    snprintf(buf, size,
             "%s%s_if_include (%s) and %s%s_if_exclude (%s) are both set; set one of them.",
             fab_params.prefix, provider, include, fab_params.prefix, provider, exclude);
    return false;
}

int fab_params_check(char *buf, size_t size)
{
    const fab_params_t *p = &fab_params;

    for (size_t t = 0; t < fab_params_num_tables; t++) {
        int rc = fab_param_check(fab_params_tables[t], p, p->prefix, buf, size);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    if (!is_one_list("ofi", p->ofi_if_include, p->ofi_if_exclude, buf, size) ||
        !is_one_list("verbs", p->verbs_if_include, p->verbs_if_exclude, buf, size)) {
        return OPAL_ERR_BAD_PARAM;
    }
    return OPAL_SUCCESS;
}
