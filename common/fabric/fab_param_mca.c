/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of parameters with the MCA variable system, and questions to it.
 */
#include "fabric/fab_param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_var.h"

#include "fabric/fab_params.h"

static const mca_base_var_type_t mca_types[] = {
    [FAB_PARAM_INT] = MCA_BASE_VAR_TYPE_INT,
    [FAB_PARAM_UINT] = MCA_BASE_VAR_TYPE_UNSIGNED_INT,
    [FAB_PARAM_SIZE] = MCA_BASE_VAR_TYPE_SIZE_T,
    [FAB_PARAM_STRING] = MCA_BASE_VAR_TYPE_STRING,
};

/* ---- of a component ----------------------------------------------------- */

int fab_param_register(const fab_param_table_t *table, void *values,
                       const struct mca_base_component_2_1_0_t *component)
{
    char help[2048];

    fab_param_reset(table, values);
    for (size_t i = 0; i < table->num; i++) {
        const fab_param_t *row = &table->rows[i];
        int rc;
        fab_param_help(row, help, sizeof(help));
        rc = mca_base_component_var_register(
            (const mca_base_component_t *) component, row->name, help, mca_types[row->type], NULL,
            0, row->is_live ? MCA_BASE_VAR_FLAG_SETTABLE : 0, OPAL_INFO_LVL_1 + row->level - 1,
            row->is_live ? MCA_BASE_VAR_SCOPE_LOCAL : MCA_BASE_VAR_SCOPE_READONLY,
            (char *) values + row->offset);
        if (rc < 0) {
            return rc;
        }
    }
    return OPAL_SUCCESS;
}

/* ---- of the fabric ------------------------------------------------------ */

/* The components that may open the fabric. */
static const struct {
    const char *project;
    const char *type;
    const char *name;
} mca_users[] = {{"ompi", "pml", "tm"}, {"opal", "btl", "fabric"}};

/* The variable opal_common_tm_NAME; it lives as long as the process.  Its index, or an error. */
static int mca_common_var(const fab_param_t *row)
{
    int index = mca_base_var_find("opal", "opal_common", "tm", row->name);
    char help[2048];

    if (index >= 0) {
        return index;
    }
    fab_param_reset(&(fab_param_table_t){row, 1}, &fab_params);
    fab_param_help(row, help, sizeof(help));
    return mca_base_var_register("opal", "opal_common", "tm", row->name, help, mca_types[row->type],
                                 NULL, 0, 0, OPAL_INFO_LVL_1 + row->level - 1,
                                 MCA_BASE_VAR_SCOPE_READONLY, (char *) &fab_params + row->offset);
}

/*
 * Each component has the variable under its own name.  Whichever comes first opens the fabric, so
 * all names are registered then: a value takes effect only when the name under which the user gave
 * it is known.
 */
static int mca_common_register(const fab_param_t *row)
{
    int index = mca_common_var(row);

    for (size_t i = 0; index >= 0 && i < sizeof(mca_users) / sizeof(mca_users[0]); i++) {
        int rc = mca_base_var_register_synonym(index, mca_users[i].project, mca_users[i].type,
                                               mca_users[i].name, row->name, 0);
        if (rc < 0) {
            return rc;
        }
    }
    return index < 0 ? index : OPAL_SUCCESS;
}

int fab_params_register(const struct mca_base_component_2_1_0_t *component)
{
    const mca_base_component_t *user = (const mca_base_component_t *) component;
    int rc = OPAL_SUCCESS;
    bool is_only;

    /* where the user has chosen pml tm, its names are those to show, whichever comes first */
    if (0 == strcmp("pml", user->mca_type_name) || fab_params_pml_is_tm(&is_only)) {
        snprintf(fab_params.prefix, sizeof(fab_params.prefix), "pml_tm_");
    } else if ('\0' == fab_params.prefix[0]) {
        snprintf(fab_params.prefix, sizeof(fab_params.prefix), "%s_%s_", user->mca_type_name,
                 user->mca_component_name);
    }
    for (size_t t = 0; OPAL_SUCCESS == rc && t < fab_params_num_tables; t++) {
        const fab_param_table_t *table = fab_params_tables[t];
        for (size_t i = 0; OPAL_SUCCESS == rc && i < table->num; i++) {
            rc = mca_common_register(&table->rows[i]);
        }
    }
    return rc;
}

/* ---- what the user wants -------------------------------------------------- */

bool fab_params_is_known(const char *name)
{
    int index;

    return OPAL_SUCCESS == mca_base_var_find_by_name(name, &index);
}

bool fab_params_pml_is_tm(bool *is_only)
{
    const char *const *value = NULL;
    const char *pml = getenv("OMPI_MCA_pml"); /* BTLs are opened before there is the variable */
    int index = mca_base_var_find("ompi", "pml", NULL, NULL);

    if (0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, &value, NULL, NULL) &&
        NULL != value) {
        pml = value[0];
    }
    if (NULL == pml || 0 != strncmp(pml, "tm", 2)) {
        return false;
    }
    *is_only = '\0' == pml[2];
    return '\0' == pml[2] || ',' == pml[2];
}
