/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of parameters with the MCA variable system, and questions to it.
 */
#include "fabric/fab_param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"

#include "fabric/fab_counters.h"
#include "fabric/fab_params.h"

static const mca_base_var_type_t mca_types[] = {
    [FAB_PARAM_INT] = MCA_BASE_VAR_TYPE_INT,
    [FAB_PARAM_UINT] = MCA_BASE_VAR_TYPE_UNSIGNED_INT,
    [FAB_PARAM_SIZE] = MCA_BASE_VAR_TYPE_SIZE_T,
    [FAB_PARAM_STRING] = MCA_BASE_VAR_TYPE_STRING,
};

/* The variable pml_tm_NAME, which stands for this value. Its index, or an error. */
static int register_row(const fab_param_t *row, void *values, int flags)
{
    char help[2048];

    fab_param_help(row, help, sizeof(help));
    return mca_base_var_register(
        "ompi", "pml", "tm", row->name, help, mca_types[row->type], NULL, 0,
        flags | (row->is_live ? MCA_BASE_VAR_FLAG_SETTABLE : 0), OPAL_INFO_LVL_1 + row->level - 1,
        row->is_live ? MCA_BASE_VAR_SCOPE_LOCAL : MCA_BASE_VAR_SCOPE_READONLY,
        (char *) values + row->offset);
}

int fab_param_register(const fab_param_table_t *table, void *values)
{
    int rc = 0;

    fab_param_reset(table, values);
    for (size_t i = 0; 0 <= rc && i < table->num; i++) {
        rc = register_row(&table->rows[i], values, MCA_BASE_VAR_FLAG_DWG);
    }
    return 0 <= rc ? OPAL_SUCCESS : rc;
}

/*
 * A variable that lives as long as the process.  Its index, or an error.  It has a deprecated
 * second name, btl_fabric_NAME, of which Open MPI warns; but btl_fabric_eager_limit is one of those
 * that each BTL has.
 */
static int register_common(const fab_param_t *row)
{
    int index = mca_base_var_find("ompi", "pml", "tm", row->name);

    if (index < 0) {
        fab_param_reset(&(fab_param_table_t){row, 1}, &fab_params);
        index = register_row(row, &fab_params, 0);
    }
    return index < 0 || 0 == strcmp("eager_limit", row->name)
               ? index
               : mca_base_var_register_synonym(index, "opal", "btl", "fabric", row->name,
                                               MCA_BASE_VAR_SYN_FLAG_DEPRECATED);
}

int fab_params_register(void)
{
    int rc = 0;

#define FAB_LIMIT(name, value) fab_limits.name = fab_set_by_test(#name, value);
    FAB_LIMITS(FAB_LIMIT)
#undef FAB_LIMIT
    for (size_t t = 0; 0 <= rc && t < fab_params_num_tables; t++) {
        const fab_param_table_t *table = fab_params_tables[t];
        for (size_t i = 0; 0 <= rc && i < table->num; i++) {
            rc = register_common(&table->rows[i]);
        }
    }
    return 0 <= rc ? OPAL_SUCCESS : rc;
}

/* ---- the fabric's counters ------------------------------------------------ */

static void register_counter(const char *name, const char *help, unsigned long long *counter)
{
    if (0 > mca_base_pvar_find("ompi", "pml", "tm", name)) {
        (void) mca_base_pvar_register(
            "ompi", "pml", "tm", name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER,
            MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
            MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL, counter);
    }
}

void fab_counters_register(void)
{
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &fab_counters.name);
    FAB_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
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
