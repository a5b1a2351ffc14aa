/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of the fabric's parameters with the MCA variable system; the only file of the fabric that needs libopen-pal.
 *
 * The storage is fab_params, in the common library: Open MPI deregisters the variables when the component closes, and the
 * library stays loaded (-z nodelete), so they never dangle.
 */
#include "fabric/fab_params.h"

#include <stdio.h>

#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/base/mca_base_var_enum.h"

static int fab_params_string(const mca_base_component_t *owner, const char *name, const char *help,
                             mca_base_var_info_lvl_t level, char **storage)
{
    return mca_base_component_var_register(owner, name, help, MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, level,
                                           MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int fab_params_uint(const mca_base_component_t *owner, const char *name, const char *help,
                           mca_base_var_info_lvl_t level, unsigned int *storage)
{
    return mca_base_component_var_register(owner, name, help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0, level,
                                           MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int fab_params_single_copy(const mca_base_component_t *owner)
{
    static const mca_base_var_enum_value_t values[] = {
        {FAB_SHM_SINGLE_COPY_AUTO, "auto"}, {FAB_SHM_SINGLE_COPY_NONE, "none"}, {0, NULL}};
    mca_base_var_enum_t *enumerator = NULL;
    int rc = mca_base_var_enum_create("shm_single_copy", values, &enumerator);

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    rc = mca_base_component_var_register(owner, "shm_single_copy",
                                         "How large messages between processes of one host are copied once. auto: by the "
                                         "kernel (CMA, process_vm_readv), where "
                                         "a test call on the peer succeeds, else through the rings; none: always through "
                                         "the rings (two copies). Default: auto.",
                                         MCA_BASE_VAR_TYPE_INT, enumerator, 0, 0, OPAL_INFO_LVL_4,
                                         MCA_BASE_VAR_SCOPE_READONLY, &fab_params.shm_single_copy);
    OBJ_RELEASE(enumerator);
    return rc;
}

/* mca_base_component_var_register() returns the variable's index, or an error. */
static int fab_params_register_all(const mca_base_component_t *owner)
{
    fab_params_t *p = &fab_params;
    int rc;

    rc = fab_params_string(
        owner, "providers",
        "Comma-separated list of the ways to other processes that may be used: shm. Empty: all. A process "
        "always reaches itself (self). Default: empty.",
        OPAL_INFO_LVL_2, &p->providers);
    if (rc >= 0) {
        rc = fab_params_uint(
            owner, "shm_ring_size",
            "Bytes of the shared-memory ring that a sender uses towards one receiver: a power of two, 4096 to "
            "16777216. 0: 64 KiB up to 16 processes per host, 32 KiB up to 64, 16 KiB beyond. A larger ring "
            "holds more messages before a sender must wait; memory is used per pair that communicates. "
            "Default: 0.",
            OPAL_INFO_LVL_5, &p->shm_ring_size);
    }
    if (rc >= 0) {
        rc = fab_params_uint(
            owner, "shm_max_peers",
            "Processes of the same host that can send to this process through shared memory at the same time: "
            "1 to 65536. 0: the processes of the job on this host and 64 more, for those that join later. "
            "Costs address space, and memory only for those that do send. Default: 0.",
            OPAL_INFO_LVL_5, &p->shm_max_peers);
    }
    if (rc >= 0) {
        rc = fab_params_uint(
            owner, "shm_eager_limit",
            "Bytes: longest message that is copied through the shared-memory ring as it is; longer ones are "
            "announced and fetched by the receiver. 304 to 4194304, and not above a quarter of the ring, which "
            "bounds it silently. Default: 16384.",
            OPAL_INFO_LVL_4, &p->shm_eager_limit);
    }
    if (rc >= 0) {
        rc = fab_params_uint(owner, "shm_copy_step",
                             "Bytes that one progress call copies with CMA (process_vm_readv) before it looks after other "
                             "messages: 4096 to 1073741824. Larger: fewer system calls; smaller: other messages wait less "
                             "(512 KiB take about 60 us). Default: 524288.",
                             OPAL_INFO_LVL_5, &p->shm_copy_step);
    }
    return rc >= 0 ? fab_params_single_copy(owner) : rc;
}

int fab_params_register(const struct mca_base_component_2_1_0_t *component)
{
    const mca_base_component_t *owner = (const mca_base_component_t *) component;
    int rc = fab_params_register_all(owner);

    snprintf(fab_params.prefix, sizeof(fab_params.prefix), "%s_%s_", owner->mca_type_name, owner->mca_component_name);

    return rc < 0 ? rc : OPAL_SUCCESS;
}
