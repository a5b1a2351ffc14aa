/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's parameters: its own table, and the check of all tables.
 */
#include "fabric/fab_params.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_provider.h"

fab_params_t fab_params;

#define FAB_LIMIT(name, value) .name = (value),
#define FAB_LIMITS_STANDARD                                                                        \
    {                                                                                              \
        FAB_LIMITS(FAB_LIMIT)                                                                      \
    }
fab_limits_t fab_limits = FAB_LIMITS_STANDARD;

static const fab_param_t fab_rows[] = {
    {
        FAB_PARAM(fab_params_t, verbose, INT, 1),
        FAB_PARAM_NUMBER(0, 0, 100),
        .help = "From 10 on, the first process prints a table of the paths to its peers: provider, "
                "protocol by message size, and single-copy mechanism, or why there is none. From "
                "20 on, every process does. From 1 on, messages say why a provider or a process "
                "cannot be used.",
    },
    {
        FAB_PARAM(fab_params_t, providers, STRING, 1),
        .is_valid = fab_provider_is_list,
        .form = "a list of self, shm, ofi, verbs, tcp with commas between",
        .empty_means = "all",
        .help =
            "Providers that may be used, or, after ^, those that may not. The first that reaches a "
            "peer is used, in the order shm, ofi, verbs, tcp. A process always reaches itself "
            "(self).",
    },
    {
        FAB_PARAM(fab_params_t, eager_limit, INT, 4),
        FAB_PARAM_NUMBER(-1, 0, INT_MAX),
        .unit = "bytes",
        .special = -1,
        .special_means = "16384; 8192 over ofi and verbs, and inside a host if the receiver has "
                         "found reading to be faster",
        .help = "Longest message that is sent with its data before its receive is known (eager "
                "protocol); longer ones are announced and then fetched (rendezvous). Most that "
                "providers take: self 16384, shm 4 MiB (its rings grow to four times this value, "
                "unless shm_ring_size is set), ofi 65536 (with cxi 16352), verbs 1 MiB (the size "
                "of its buffers), tcp 122880. Higher values reduce the latency of expected "
                "messages, lower values the memory that late receivers need.",
    },
};

static const fab_param_table_t fab_own_params = FAB_PARAM_TABLE(fab_rows);

const fab_param_table_t *const fab_params_tables[] = {
    &fab_own_params, &fab_shm_params, &fab_ofi_params, &fab_verbs_params, &fab_tcp_params};
const size_t fab_params_num_tables = sizeof(fab_params_tables) / sizeof(fab_params_tables[0]);

unsigned int fab_set_by_test(const char *name, unsigned int standard)
{
    char variable[64];
    const char *text;

    snprintf(variable, sizeof(variable), "PML_TM_TEST_%s", name);
    text = getenv(variable);
    return NULL != text ? (unsigned int) strtoul(text, NULL, 0) : standard;
}

void fab_params_reset(void)
{
    fab_limits = (fab_limits_t) FAB_LIMITS_STANDARD;
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
             "pml_tm_%s_if_include (%s) and pml_tm_%s_if_exclude (%s) are both set; set one of "
             "them.",
             provider, include, provider, exclude);
    return false;
}

int fab_params_check(char *buf, size_t size)
{
    const fab_params_t *p = &fab_params;

    for (size_t t = 0; t < fab_params_num_tables; t++) {
        int rc = fab_param_check(fab_params_tables[t], p, "pml_tm_", buf, size);
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
