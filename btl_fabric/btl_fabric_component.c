/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: its parameters and counters, opening the fabric, progress.
 */
#include "btl_fabric.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/fab_counters.h"
#include "fabric/fab_help.h"

/* Upcalls per progress call at most, so that other components get their turn. */
enum { MAX_UPCALLS = 64 };

static int fabric_register(void);
static int fabric_open(void);
static int fabric_close(void);
static mca_btl_base_module_t **fabric_init(int *num_btls, bool enable_progress_threads,
                                           bool enable_mpi_threads);

mca_btl_base_component_t mca_btl_fabric_component = {
    .btl_version =
        {
            BTL_FABRIC_BASE_VERSION,

            .mca_component_name = "fabric",
            .mca_component_major_version = BTL_FABRIC_MAJOR_VERSION,
            .mca_component_minor_version = BTL_FABRIC_MINOR_VERSION,
            .mca_component_release_version = BTL_FABRIC_RELEASE_VERSION,
            .mca_open_component = fabric_open,
            .mca_close_component = fabric_close,
            .mca_register_component_params = fabric_register,
        },
    .btl_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .btl_init = fabric_init,
    .btl_progress = mca_btl_fabric_progress,
};

/* ---- parameters and counters -------------------------------------------- */

static void register_int(const char *name, mca_base_var_info_lvl_t level, int *storage,
                         const char *help)
{
    (void) mca_base_component_var_register(&mca_btl_fabric_component.btl_version, name, help,
                                           MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, level,
                                           MCA_BASE_VAR_SCOPE_LOCAL, storage);
}

static void register_params(void)
{
    mca_btl_fabric.verbose = 0;
    mca_btl_fabric.free_list_num = 8;
    mca_btl_fabric.free_list_max = -1;
    mca_btl_fabric.free_list_inc = 32;
    register_int("verbose", OPAL_INFO_LVL_2, &mca_btl_fabric.verbose,
                 "How much to say (0 to 100, default 0). From 1 on, why a provider or a process "
                 "cannot be used. From 10 on, the first process prints a table of the ways to its "
                 "peers; from 20 on, every process does.");
    register_int("free_list_num", OPAL_INFO_LVL_8, &mca_btl_fabric.free_list_num,
                 "Descriptors of each size allocated at start (0 to 1000000, default 8).");
    register_int("free_list_max", OPAL_INFO_LVL_8, &mca_btl_fabric.free_list_max,
                 "Most descriptors of each size that can exist (-1: no limit, the default; else at "
                 "least free_list_num). When they are used up the layer above waits for one.");
    register_int("free_list_inc", OPAL_INFO_LVL_8, &mca_btl_fabric.free_list_inc,
                 "Descriptors allocated at once when they run out (1 to 1000000, default 32).");
}

/* One parameter's value against its range; false: why says what is wrong. */
static bool check_range(const char *name, unsigned long long value, unsigned long long min,
                        unsigned long long max, char *why, size_t size)
{
    if (min <= value && value <= max) {
        return true;
    }
    snprintf(why, size, "btl_fabric_%s is %lld; it must be from %llu to %llu", name,
             (long long) value, min, max);
    return false;
}

static bool check_params(char *why, size_t size)
{
    const mca_btl_base_module_t *btl = &mca_btl_fabric.super;
    int num = mca_btl_fabric.free_list_num;

    return check_range("verbose", (unsigned long long) mca_btl_fabric.verbose, 0, 100, why, size) &&
           check_range("free_list_num", (unsigned long long) num, 0, 1000000, why, size) &&
           check_range("free_list_inc", (unsigned long long) mca_btl_fabric.free_list_inc, 1,
                       1000000, why, size) &&
           (-1 == mca_btl_fabric.free_list_max ||
            check_range("free_list_max", (unsigned long long) mca_btl_fabric.free_list_max,
                        (unsigned long long) (num > 1 ? num : 1), INT_MAX, why, size)) &&
           check_range("eager_limit", btl->btl_eager_limit, BTL_FABRIC_EAGER_MIN,
                       BTL_FABRIC_SEND_MAX, why, size) &&
           check_range("max_send_size", btl->btl_max_send_size, btl->btl_eager_limit,
                       BTL_FABRIC_SEND_MAX, why, size) &&
           check_range("rndv_eager_limit", btl->btl_rndv_eager_limit, BTL_FABRIC_EAGER_MIN,
                       btl->btl_max_send_size, why, size);
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
    register_params();
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &mca_btl_fabric.counters.name);
    BTL_FABRIC_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &fab_counters.name);
    FAB_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
    mca_btl_base_param_register(&mca_btl_fabric_component.btl_version, &mca_btl_fabric.super);
    return fab_params_register(&mca_btl_fabric_component.btl_version);
}

/* ---- opening and closing ------------------------------------------------ */

static int fabric_open(void)
{
    fab_help_add_dir(PML_TM_HELP_DIR, &mca_btl_fabric_component);
    mca_btl_fabric.output = opal_output_open(NULL);
    opal_output_set_verbosity(mca_btl_fabric.output, mca_btl_fabric.verbose);
    return OPAL_SUCCESS;
}

static int fabric_close(void)
{
    opal_progress_unregister(mca_btl_fabric_progress);
    opal_output_close(mca_btl_fabric.output);
    mca_btl_fabric.output = -1;
    return OPAL_SUCCESS;
}

static void log_line(void *ctx, int level, const char *text)
{
    (void) ctx;
    opal_output_verbose(level, mca_btl_fabric.output, "%s", text);
}

/* A topic of help-mpi-btl-fabric.txt. */
static void show_help(const char *topic, ...)
{
    va_list args;

    va_start(args, topic);
    fab_help_show("help-mpi-btl-fabric.txt", topic, args);
    va_end(args);
}

static int open_fabric(void)
{
    fab_config_t config = {
        .user = FAB_USER_BTL,
        .name = fab_name(OPAL_PROC_MY_NAME.jobid, OPAL_PROC_MY_NAME.vpid),
        .num_local = (uint32_t) mca_btl_fabric_process.num_local_peers + 1,
        .local_rank = mca_btl_fabric_process.my_local_rank,
        .num_procs = mca_btl_fabric_process.num_procs,
        .is_threaded = &opal_uses_threads,
        .peer_failed = mca_btl_fabric_peer_failed,
        .log = log_line,
    };
    const char *why = "unknown";
    int rc = fab_open(&config, &mca_btl_fabric.fab, &why);

    if (OPAL_SUCCESS != rc) {
        opal_output_verbose(1, mca_btl_fabric.output, "btl fabric is not used: %s", why);
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
    fab_set_handler(fab, BTL_FABRIC_AM_ATOMIC, mca_btl_fabric_on_atomic, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_DONE, mca_btl_fabric_on_done, NULL);
}

/* All that the module needs. Errors: nothing is left behind. */
static int start(void)
{
    int rc = open_fabric();

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    mca_btl_fabric.up_tail = NULL;
    fab_idmap_init(&mca_btl_fabric.ids);
    fab_idmap_init(&mca_btl_fabric.mems);
    rc = mca_btl_fabric_frags_init();
    if (OPAL_SUCCESS == rc) {
        rc = mca_btl_fabric_publish();
        if (OPAL_SUCCESS != rc) {
            mca_btl_fabric_frags_fini();
        }
    }
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

static mca_btl_base_module_t **fabric_init(int *num_btls, bool enable_progress_threads,
                                           bool enable_mpi_threads)
{
    mca_btl_base_module_t **modules;
    char why[256];

    (void) enable_progress_threads, (void) enable_mpi_threads;
    *num_btls = 0;
    if (!check_params(why, sizeof(why))) {
        show_help("bad-value", mca_btl_fabric_process.nodename, why);
        return NULL;
    }
    if (OPAL_SUCCESS != fab_params_check(why, sizeof(why))) {
        /* pml tm, which has the same parameters, says so itself */
        opal_output_verbose(1, mca_btl_fabric.output, "btl fabric is not used: %s", why);
        return NULL;
    }
    modules = malloc(sizeof(*modules)); /* the framework frees it */
    if (NULL == modules || OPAL_SUCCESS != start()) {
        free(modules);
        return NULL;
    }
    modules[0] = &mca_btl_fabric.super;
    *num_btls = 1;
    return modules;
}

/* ---- progress ----------------------------------------------------------- */

void mca_btl_fabric_up(mca_btl_fabric_up_t *up, void (*run)(mca_btl_fabric_up_t *))
{
    up->run = run;
    up->next = NULL;
    mca_btl_fabric.num_ups++;
    if (NULL == mca_btl_fabric.up_tail) {
        /* release: pairs with the acquire in run_upcalls(), which looks without the lock */
        atomic_store_explicit(&mca_btl_fabric.up, up, memory_order_release);
    } else {
        *mca_btl_fabric.up_tail = up;
    }
    mca_btl_fabric.up_tail = &up->next;
}

static mca_btl_fabric_up_t *take_up(void)
{
    mca_btl_fabric_up_t *up;

    fab_lock(mca_btl_fabric.fab);
    up = atomic_load_explicit(&mca_btl_fabric.up, memory_order_relaxed);
    if (NULL != up) {
        atomic_store_explicit(&mca_btl_fabric.up, up->next, memory_order_relaxed);
        mca_btl_fabric.num_ups--;
        if (NULL == up->next) {
            mca_btl_fabric.up_tail = NULL;
        }
    }
    fab_unlock(mca_btl_fabric.fab);
    return up;
}

/* Those that are there now; an upcall may call progress again, which then goes on with the next. */
static int run_upcalls(void)
{
    mca_btl_fabric_up_t *up;
    unsigned max = mca_btl_fabric.num_ups;
    int events = 0;

    for (max = max < MAX_UPCALLS ? max : MAX_UPCALLS; max > 0; max--) {
        up = take_up();
        if (NULL == up) {
            break;
        }
        up->run(up);
        events++;
    }
    return events;
}

int mca_btl_fabric_progress(void)
{
    int events = 0;

    if (OPAL_UNLIKELY(NULL == mca_btl_fabric.fab)) {
        return 0;
    }
    if (OPAL_LIKELY(fab_trylock(mca_btl_fabric.fab))) {
        events = fab_progress(mca_btl_fabric.fab);
        fab_unlock(mca_btl_fabric.fab);
    }
    if (NULL != atomic_load_explicit(&mca_btl_fabric.up, memory_order_acquire)) {
        events += run_upcalls();
    }
    return events;
}
