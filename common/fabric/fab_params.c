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

static const fab_param_t fab_rows[] = {
    {
        FAB_PARAM(fab_params_t, providers, STRING, 1),
        .is_valid = fab_provider_is_list,
        .form = "a list of self, shm, ofi" OFI_NOTE ", verbs" VERBS_NOTE
                ", tcp with commas between",
        .empty_means = "all",
        .help =
            "Providers that may be used, or, after ^, those that may not. The first that reaches a "
            "peer is used, in the order shm, ofi, verbs, tcp. A process always reaches itself "
            "(self).",
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
    const char *const prefixes[] = {p->prefix, "pml_tm_", "btl_fabric_", "opal_common_tm_", NULL};

    for (size_t t = 0; t < fab_params_num_tables; t++) {
        int rc = fab_param_check(fab_params_tables[t], p, prefixes, buf, size);
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
