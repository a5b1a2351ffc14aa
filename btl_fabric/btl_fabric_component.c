/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: its parameters and counters, opening the fabric.
 */
#include "btl_fabric_compat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_abi.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_cpus.h"
#include "fabric/fab_cuda.h"
#include "fabric/fab_fit.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/runtime/opal.h"

#include "btl_fabric_entry.h"
#include "btl_fabric_help.h"
#include "btl_fabric_op.h"

OPAL_DECLSPEC extern mca_btl_base_component_t mca_btl_fabric_component;

/* The classes of Open MPI whose objects btl fabric reads. */
static const fab_fit_class_t classes[] = {FAB_FIT_OPAL_CLASSES};

static const fab_fit_t fit = {.component = "BTL \"fabric\"",
                              .built = OPAL_IDENT_STRING,
                              .runs = opal_version_string,
                              .classes = classes,
                              .num = sizeof(classes) / sizeof(classes[0])};

/* ---- parameters and counters -------------------------------------------- */

/* Parameters that Open MPI registers for every BTL; this table is only for checking them. */
#define SIZE_ROW(limit)                                                                            \
    {                                                                                              \
        .name = #limit, .type = FAB_PARAM_SIZE,                                                    \
        .offset = offsetof(mca_btl_base_module_t, btl_##limit), .min = BTL_FABRIC_EAGER_MIN,       \
        .max = BTL_FABRIC_SEND_MAX, .unit = "bytes"                                                \
    }

static const fab_param_t size_rows[] = {SIZE_ROW(eager_limit), SIZE_ROW(max_send_size),
                                        SIZE_ROW(rndv_eager_limit)};

static const fab_param_table_t size_table = FAB_PARAM_TABLE(size_rows);

static bool check_sizes(char *why, size_t size)
{
    const mca_btl_base_module_t *btl = &mca_btl_fabric.super;

    if (OPAL_SUCCESS != fab_param_check(&size_table, btl, "btl_fabric_", why, size)) {
        return false;
    }
    for (size_t i = 0; i < size_table.num; i++) {
        size_t value = *(const size_t *) ((const char *) btl + size_rows[i].offset);
        if (value > btl->btl_max_send_size) {
            snprintf(why, size,
                     "btl_fabric_%s is %zu; it must not be above btl_fabric_max_send_size, which "
                     "is %zu.",
                     size_rows[i].name, value, btl->btl_max_send_size);
            return false;
        }
    }
    return true;
}

static void register_counter(const char *name, const char *help, unsigned long long *counter)
{
    (void) mca_base_component_pvar_register(
        &mca_btl_fabric_component.btl_version, name, help, OPAL_INFO_LVL_4,
        MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
        MCA_BASE_VAR_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
        NULL, NULL, NULL, counter);
}

static int fabric_register(void)
{
    if (!fab_fit_check(&fit)) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    mca_btl_fabric_module_init(&mca_btl_fabric_component);
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &mca_btl_fabric.counters.name);
    BTL_FABRIC_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
    fab_counters_register();
    mca_btl_base_param_register(&mca_btl_fabric_component.btl_version, &mca_btl_fabric.super);
    return fab_params_register();
}

/* ---- opening and closing ------------------------------------------------ */

static int fabric_open(void)
{
    mca_btl_fabric.output = opal_output_open(NULL);
    opal_output_set_verbosity(mca_btl_fabric.output, fab_params.verbose);
    return OPAL_SUCCESS;
}

static int fabric_close(void)
{
    opal_progress_unregister(mca_btl_fabric_opal_progress);
    opal_output_close(mca_btl_fabric.output);
    mca_btl_fabric.output = -1;
    return OPAL_SUCCESS;
}

static void log_line(void *ctx, int level, const char *text)
{
    (void) ctx;
    opal_output_verbose(level, mca_btl_fabric.output, "%s", text);
}

/* Did mpirun request fault tolerance?  A BTL can only ask for the parameter, which 4.1 has not. */
static bool is_fault_tolerant(void)
{
    int index = mca_base_var_find("ompi", "mpi", "ft", "enable");
    const bool *value = NULL;

    return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &value, NULL, NULL) &&
           NULL != value && *value;
}

static int open_fabric(void)
{
    fab_config_t config = {
        .user = FAB_USER_BTL,
        .name = fab_name(OPAL_PROC_MY_NAME.jobid, OPAL_PROC_MY_NAME.vpid),
        .num_local = (uint32_t) fab_process.num_local_peers + 1,
        .local_rank = fab_process.my_local_rank,
        .num_procs = fab_process.num_procs,
        .is_threaded = &opal_uses_threads,
        .shm_abi = FAB_SHM_ABI,
        .outlives_peers = is_fault_tolerant(),
        .peer_failed = mca_btl_fabric_peer_failed,
        .peer_left = mca_btl_fabric_peer_left,
        .log = log_line,
    };
    const char *why = "unknown";
    int rc = fab_cuda_open(&why) ? fab_open(&config, &mca_btl_fabric.fab, &why)
                                 : OPAL_ERR_NOT_AVAILABLE;

    if (OPAL_SUCCESS != rc) {
        opal_output_verbose(1, mca_btl_fabric.output, "btl fabric is not used: %s", why);
    } else {
        mca_btl_fabric.fab->is_yielding |= config.num_local > fab_cpus("");
    }
    return rc;
}

static void set_handlers(fab_t *fab)
{
    fab_set_handler(fab, BTL_FABRIC_AM_SEND, mca_btl_fabric_on_send, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_PART, mca_btl_fabric_on_part, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_PUT, mca_btl_fabric_on_put, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_GET, mca_btl_fabric_on_get, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_DATA, mca_btl_fabric_on_data, NULL);
    fab_set_place(fab, BTL_FABRIC_AM_DATA, mca_btl_fabric_place_data, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_ATOMIC, mca_btl_fabric_on_atomic, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_DONE, mca_btl_fabric_on_done, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_COUNT, mca_btl_fabric_on_count, NULL);
}

/* What the module needs besides the fabric. On an error nothing is left. */
static int start_module(void)
{
    int rc = mca_btl_fabric_ops_init();

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    rc = mca_btl_fabric_frags_init();
    rc = OPAL_SUCCESS == rc ? mca_btl_fabric_publish() : rc;
    if (OPAL_SUCCESS != rc) {
        mca_btl_fabric_frags_fini();
        mca_btl_fabric_ops_fini();
    }
    return rc;
}

/* Is btl fabric in the list of BTLs that the user gives? Not by leaving others out (^). */
static bool is_named(void)
{
    static const char name[] = "fabric";
    const size_t len = sizeof(name) - 1;
    const char *const *list = NULL;
    int index = mca_base_var_find("opal", "btl", NULL, NULL);

    if (0 > index || OPAL_SUCCESS != mca_base_var_get_value(index, &list, NULL, NULL) ||
        NULL == list || NULL == list[0] || '^' == list[0][0]) {
        return false;
    }
    for (const char *at = list[0]; NULL != (at = strstr(at, name)); at += len) {
        if ((at == list[0] || ',' == at[-1]) && ('\0' == at[len] || ',' == at[len])) {
            return true;
        }
    }
    return false;
}

/* Has the user given no value to this parameter of the BTL? */
static bool is_default(const char *name)
{
    int index = mca_base_var_find("opal", "btl", "fabric", name);
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_SET;

    return 0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL) &&
           MCA_BASE_VAR_SOURCE_DEFAULT == source;
}

/*
 * In a job on several hosts ob1 sends through this BTL over a network, unless the user chose it
 * inside the hosts, too; on one host only without shared memory.
 *
 * Over a network a copy costs less than a round trip, so more is sent eagerly; and messages that
 * find no room are better sent from the user's memory later (SEND_INPLACE) than copied twice. What
 * the user has set stays.
 */
static void adapt_sizes(void)
{
    mca_btl_base_module_t *btl = &mca_btl_fabric.super;

    if (fab_process.num_procs <= (uint32_t) fab_process.num_local_peers + 1 &&
        fab_is_open(mca_btl_fabric.fab, "shm")) {
        return;
    }
    if (is_default("eager_limit") && is_default("max_send_size")) {
        btl->btl_eager_limit = BTL_FABRIC_NET_EAGER_LIMIT;
        btl->btl_max_send_size = BTL_FABRIC_NET_MAX_SEND_SIZE;
    }
    if (is_default("flags")) {
        btl->btl_flags |= MCA_BTL_FLAGS_SEND_INPLACE;
    }
}

/* On an error nothing stays open. */
static int open_all(void)
{
    int rc = open_fabric();

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    adapt_sizes();
    if (fab_has_device_memory()) { /* only then puts and gets look at the address */
        mca_btl_fabric.super.btl_put = mca_btl_fabric_staged_put;
        mca_btl_fabric.super.btl_get = mca_btl_fabric_staged_get;
    }
    mca_btl_fabric.up_tail = NULL;
    fab_idmap_init(&mca_btl_fabric.mems);
    rc = start_module();
    if (OPAL_SUCCESS != rc) {
        fab_close(mca_btl_fabric.fab, FAB_USER_BTL);
        mca_btl_fabric.fab = NULL;
        opal_output_verbose(1, mca_btl_fabric.output, "btl fabric is not used: %s",
                            opal_strerror(rc));
        return rc;
    }
    set_handlers(mca_btl_fabric.fab);
    fab_lock(mca_btl_fabric.fab);
    fab_start(mca_btl_fabric.fab, FAB_USER_BTL);
    fab_unlock(mca_btl_fabric.fab);
    return OPAL_SUCCESS;
}

static void tell_bad_value(const char *problem)
{
    if (fab_help_is_first(&mca_btl_fabric_component.btl_version, false)) {
        fab_help_show(mca_btl_fabric_help, "bad-value", fab_process.nodename, problem);
    }
}

/* What the user has to know of the values, shown once on a host.  False: they cannot be used. */
static bool check_params(void)
{
    char text[512];
    bool is_only;

    if (OPAL_SUCCESS != fab_params_check(text, sizeof(text))) {
        if (!fab_params_pml_is_tm(&is_only)) { /* which checks them, too */
            tell_bad_value(text);
        }
        return false;
    }
    if (!check_sizes(text, sizeof(text))) {
        tell_bad_value(text);
        return false;
    }
    if (0 == fab_process.my_local_rank &&
        fab_params_unknown("btl_fabric_", NULL, fab_params_is_known, text, sizeof(text)) > 0) {
        fab_help_show(mca_btl_fabric_help, "unknown-name", fab_process.nodename, text);
    }
    return true;
}

/* Open the fabric and all that the module needs.  False: nothing stays open. */
static bool start(void)
{
    return check_params() && OPAL_SUCCESS == open_all();
}

/* Without the fabric the module reaches no process. */
static void start_with_pml(void)
{
    (void) start();
}

static mca_btl_base_module_t **fabric_init(int *num_btls, bool enable_progress_threads,
                                           bool enable_mpi_threads)
{
    mca_btl_base_module_t **modules;

    (void) enable_progress_threads, (void) enable_mpi_threads;
    *num_btls = 0;
    mca_btl_fabric.is_named = is_named();
    modules = malloc(sizeof(*modules)); /* the framework frees it */
    if (NULL == modules || (mca_btl_fabric.is_named && !start())) {
        free(modules);
        return NULL;
    }
    if (!mca_btl_fabric.is_named) {
        /* Open MPI 4.1 chooses BTLs before it looks at PMLs */
        fab_when_open(FAB_USER_PML, start_with_pml);
    }
    modules[0] = &mca_btl_fabric.super;
    *num_btls = 1;
    return modules;
}

mca_btl_base_component_t mca_btl_fabric_component = {
    .btl_version =
        {
            BTL_FABRIC_BASE_VERSION,

            .mca_component_name = "fabric",
            .mca_component_major_version = FAB_MAJOR_VERSION,
            .mca_component_minor_version = FAB_MINOR_VERSION,
            .mca_component_release_version = FAB_RELEASE_VERSION,
            .mca_open_component = fabric_open,
            .mca_close_component = fabric_close,
            .mca_register_component_params = fabric_register,
        },
    .btl_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .btl_init = fabric_init,
    .btl_progress = mca_btl_fabric_opal_progress,
};
