/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's parameters: its own table, and the check of all tables.
 */
#include "fabric/fab_params.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fab_provider.h"

fab_params_t fab_params;

#if FAB_HAVE_VERBS
#define VERBS_NOTE ""
#else
#define VERBS_NOTE " (not in this build)"
#endif

static const fab_param_t fab_rows[] = {
    {
        .name = "providers",
        .type = FAB_PARAM_STRING,
        .level = 2,
        .offset = offsetof(fab_params_t, providers),
        .is_valid = fab_provider_is_list,
        .form = "a list of self, shm, verbs" VERBS_NOTE ", tcp with commas between",
        .empty_means = "all",
        .help =
            "Providers that may be used, or, after ^, those that may not. The first that reaches a "
            "peer is used, in the order shm, verbs, tcp. A process always reaches itself (self).",
    },
};

static const fab_param_table_t fab_own_params = FAB_PARAM_TABLE(fab_rows);

const fab_param_table_t *const fab_params_tables[] = {&fab_own_params, &fab_shm_params,
                                                      &fab_verbs_params, &fab_tcp_params};
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

int fab_params_check(char *buf, size_t size)
{
    const fab_params_t *p = &fab_params;

    for (size_t t = 0; t < fab_params_num_tables; t++) {
        int rc = fab_param_check(fab_params_tables[t], p, p->prefix, buf, size);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    if (NULL != p->verbs_if_include && '\0' != *p->verbs_if_include &&
        NULL != p->verbs_if_exclude && '\0' != *p->verbs_if_exclude) {
        snprintf(
            buf, size,
            "%sverbs_if_include (%s) and %sverbs_if_exclude (%s) are both set; set one of them.",
            p->prefix, p->verbs_if_include, p->prefix, p->verbs_if_exclude);
        return OPAL_ERR_BAD_PARAM;
    }
    return OPAL_SUCCESS;
}
