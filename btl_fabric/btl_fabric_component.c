/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: its parameters and counters, opening the fabric, progress.
 */
#include "btl_fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_abi.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_cpus.h"
#include "fabric/fab_help.h"

#include "btl_fabric_fit.h"

enum {
    MAX_UPCALLS = 64, /* per progress call, so that other components get their turn */
    /* one progress call in so many polls everything; the others only look for messages */
    POLLS_PER_PROGRESS = 16,
};

static int fabric_register(void);
static int fabric_open(void);
static int fabric_close(void);
static mca_btl_base_module_t **fabric_init(int *num_btls, bool enable_progress_threads,
                                           bool enable_mpi_threads);
static int fabric_progress(void);

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
    .btl_progress = fabric_progress,
};

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
    int rc;

    if (!mca_btl_fabric_fits()) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    rc = fab_param_register(&mca_btl_fabric_param_table, &mca_btl_fabric.params,
                            &mca_btl_fabric_component.btl_version);
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &mca_btl_fabric.counters.name);
    BTL_FABRIC_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &fab_counters.name);
    FAB_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
    mca_btl_base_param_register(&mca_btl_fabric_component.btl_version, &mca_btl_fabric.super);
    return OPAL_SUCCESS == rc ? fab_params_register(&mca_btl_fabric_component.btl_version) : rc;
}

/* ---- opening and closing ------------------------------------------------ */

static int fabric_open(void)
{
    mca_btl_fabric.output = opal_output_open(NULL);
    opal_output_set_verbosity(mca_btl_fabric.output, mca_btl_fabric.params.verbose);
    return OPAL_SUCCESS;
}

static int fabric_close(void)
{
    opal_progress_unregister(fabric_progress);
    opal_output_close(mca_btl_fabric.output);
    mca_btl_fabric.output = -1;
    return OPAL_SUCCESS;
}

static void log_line(void *ctx, int level, const char *text)
{
    (void) ctx;
    opal_output_verbose(level, mca_btl_fabric.output, "%s", text);
}

/* What btl fabric tells the user, by topic. */
/* clang-format off */
static const fab_help_topic_t help[] = {
    {"bad-value",
     "The BTL \"fabric\" is not used because one of its parameters has an invalid\n"
     "value.\n"
     "\n"
     "  Host:      %s\n"
     "  Problem:   %s\n"
     "\n"
     "\"ompi_info --param btl fabric --level 9\" explains every parameter with its\n"
     "range and default.\n"},
    {NULL, NULL},
};
/* clang-format on */

static void show_help(const char *topic, ...)
{
    va_list args;

    va_start(args, topic);
    fab_help_show(help, topic, args);
    va_end(args);
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
        .num_local = (uint32_t) mca_btl_fabric_process.num_local_peers + 1,
        .local_rank = mca_btl_fabric_process.my_local_rank,
        .num_procs = mca_btl_fabric_process.num_procs,
        .is_threaded = &opal_uses_threads,
        .outlives_peers = is_fault_tolerant(),
        .peer_failed = mca_btl_fabric_peer_failed,
        .peer_left = mca_btl_fabric_peer_left,
        .log = log_line,
    };
    const char *why = "unknown";
    int rc = fab_open(&config, &mca_btl_fabric.fab, &why);

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

/* Has nobody given a value to this parameter of the BTL? */
static bool is_default(const char *name)
{
    int index = mca_base_var_find("opal", "btl", "fabric", name);
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_SET;

    return 0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL) &&
           MCA_BASE_VAR_SOURCE_DEFAULT == source;
}

/*
 * Does ob1 send through this BTL over a network?  In a job on several hosts it does, unless the
 * user chose it inside the hosts, too; on one host only without shared memory.
 */
static bool is_network(void)
{
    return mca_btl_fabric_process.num_procs >
               (uint32_t) mca_btl_fabric_process.num_local_peers + 1 ||
           !fab_is_open(mca_btl_fabric.fab, "shm");
}

/*
 * osc/rdma looks for GLOB among the wrong flags, btl_flags, where the bit has no other meaning.
 * Without it a process's own window, and those of its host, wait for the host's first process to
 * call MPI.
 */
static void announce_glob(void)
{
    mca_btl_base_module_t *btl = &mca_btl_fabric.super;

    btl->btl_flags &= ~(uint32_t) MCA_BTL_ATOMIC_SUPPORTS_GLOB;
    btl->btl_flags |= btl->btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_GLOB;
}

/*
 * Over a network a copy costs less than a round trip, so more is sent eagerly; and messages that
 * find no room are better sent from the user's memory later (SEND_INPLACE) than copied twice. What
 * the user has set stays.
 */
static void adapt_sizes(void)
{
    mca_btl_base_module_t *btl = &mca_btl_fabric.super;

    if (!is_network()) {
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

/* Open the fabric and all that the module needs. On an error nothing stays open. */
static int start(void)
{
    int rc = open_fabric();

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    adapt_sizes();
    announce_glob();
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

static mca_btl_base_module_t **fabric_init(int *num_btls, bool enable_progress_threads,
                                           bool enable_mpi_threads)
{
    mca_btl_base_module_t **modules;
    char why[512];

    (void) enable_progress_threads, (void) enable_mpi_threads;
    *num_btls = 0;
    mca_btl_fabric.is_named = is_named();
    if (OPAL_SUCCESS != mca_btl_fabric_params_check(&mca_btl_fabric.params, why, sizeof(why)) ||
        !check_sizes(why, sizeof(why)) || OPAL_SUCCESS != fab_params_check(why, sizeof(why))) {
        show_help("bad-value", mca_btl_fabric_process.nodename, why);
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

/* Relaxed: written under the lock; without it, the value is only a hint. */
static unsigned num_ups(void)
{
    return atomic_load_explicit(&mca_btl_fabric.num_ups, memory_order_relaxed);
}

static void count_ups(int change)
{
    atomic_store_explicit(&mca_btl_fabric.num_ups, num_ups() + (unsigned) change,
                          memory_order_relaxed);
}

void mca_btl_fabric_up(mca_btl_fabric_up_t *up, const mca_btl_fabric_up_ops_t *ops)
{
    up->ops = ops;
    up->next = NULL;
    count_ups(1);
    if (NULL == mca_btl_fabric.up_tail) {
        /* release: pairs with the acquire in run_upcalls(), which looks without the lock */
        atomic_store_explicit(&mca_btl_fabric.up, up, memory_order_release);
    } else {
        *mca_btl_fabric.up_tail = up;
    }
    mca_btl_fabric.up_tail = &up->next;
    fab_wake_others(mca_btl_fabric.fab, FAB_USER_BTL);
}

static mca_btl_fabric_up_t *take_up(void)
{
    mca_btl_fabric_up_t *up;

    fab_lock(mca_btl_fabric.fab);
    up = atomic_load_explicit(&mca_btl_fabric.up, memory_order_relaxed);
    if (NULL != up) {
        atomic_store_explicit(&mca_btl_fabric.up, up->next, memory_order_relaxed);
        count_ups(-1);
        if (NULL == up->next) {
            mca_btl_fabric.up_tail = NULL;
        }
    }
    fab_unlock(mca_btl_fabric.fab);
    return up;
}

/*
 * With threads, held by the one that runs upcalls.  There is only one at a time: two could deliver
 * messages to the layer above in the wrong order.
 */
static pthread_mutex_t upcalls_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool runs_upcalls;

static bool enter_upcalls(void)
{
    if (!runs_upcalls) {
        runs_upcalls = 0 == pthread_mutex_trylock(&upcalls_lock);
        return runs_upcalls;
    }
    return false;
}

static void leave_upcalls(void)
{
    runs_upcalls = false;
    pthread_mutex_unlock(&upcalls_lock);
}

/* Run the upcalls that are there now. One may call progress, which then runs those after it. */
static int run_upcalls(void)
{
    bool is_alone = !fab_is_threaded(mca_btl_fabric.fab);
    bool has_entered = !is_alone && enter_upcalls();
    unsigned max = is_alone || runs_upcalls ? num_ups() : 0;
    mca_btl_fabric_up_t *up;
    int events = 0;

    for (max = max < MAX_UPCALLS ? max : MAX_UPCALLS; max > 0; max--) {
        up = take_up();
        if (NULL == up) {
            break;
        }
        up->ops->run(up);
        events++;
    }
    if (has_entered) {
        leave_upcalls();
    }
    return events;
}

void mca_btl_fabric_ups_fini(void)
{
    mca_btl_fabric_up_t *up;

    while (NULL != (up = take_up())) {
        if (NULL != up->ops->drop) {
            up->ops->drop(up);
        }
    }
}

/* Count a poll: is it one that polls everything? */
static bool count_poll(void)
{
    return 0 == ++mca_btl_fabric.polls % POLLS_PER_PROGRESS || mca_btl_fabric.num_rma > 0;
}

/* After a poll: operations that no message ends. Lock held. */
static inline void check_ops(void)
{
    if (NULL != mca_btl_fabric.asking) {
        mca_btl_fabric_answers_check();
    }
    if (NULL != mca_btl_fabric.offers) {
        mca_btl_fabric_offers_check();
    }
}

/* Lock held. */
static inline int poll_fabric(bool is_full)
{
    int events;

    if (is_full) {
        (void) mca_btl_fabric_is_yielding();
        events = fab_progress(mca_btl_fabric.fab);
    } else {
        events = fab_poll(mca_btl_fabric.fab);
    }
    check_ops();
    return events;
}

/* Has the process that sent the latest message sent another one? */
static inline bool has_more(void)
{
    const mca_btl_fabric_ep_t *ep = mca_btl_fabric.latest;

    if (NULL == ep || fab_has_come(ep->peer)) {
        return NULL != ep;
    }
    fab_fetch_ahead(ep->peer);
    return false;
}

/* Poll without threads, giving messages in place, those of the latest sender first. */
static inline int poll_and_give(void)
{
    bool is_full = count_poll();
    int events = has_more() ? mca_btl_fabric_give_more(MAX_UPCALLS) : 0;

    if (events > 0 && !is_full) {
        return events;
    }
    mca_btl_fabric.wants_held = true;
    events += poll_fabric(is_full);
    mca_btl_fabric.wants_held = false;
    if (NULL != mca_btl_fabric.held.hold) {
        mca_btl_fabric_give_held();
        events += mca_btl_fabric_give_more(MAX_UPCALLS);
    }
    return events;
}

int mca_btl_fabric_progress(void)
{
    fab_t *fab = mca_btl_fabric.fab;
    int events = 0;

    if (OPAL_UNLIKELY(NULL == fab)) {
        return 0;
    }
    if (OPAL_LIKELY(!fab_is_threaded(fab) && !mca_btl_fabric.is_giving)) {
        events = poll_and_give();
    } else if (fab_trylock(fab)) {
        events = poll_fabric(count_poll());
        fab_unlock(fab);
    }
    if (NULL != atomic_load_explicit(&mca_btl_fabric.up, memory_order_acquire)) {
        events += run_upcalls();
    }
    return events;
}

/* The PML polls the fabric: only do what its polls leave to this component. */
static int finish_polled(void)
{
    fab_t *fab = mca_btl_fabric.fab;

    if (0 != atomic_load_explicit(&mca_btl_fabric.outstanding, memory_order_relaxed) &&
        fab_trylock(fab)) {
        mca_btl_fabric.polls++;
        check_ops();
        fab_unlock(fab);
    }
    return NULL != atomic_load_explicit(&mca_btl_fabric.up, memory_order_acquire) ? run_upcalls()
                                                                                  : 0;
}

/*
 * What opal_progress() calls.  The fabric is polled once for each call: not here if the PML does,
 * nor if nobody can be reached.
 */
static int fabric_progress(void)
{
    const fab_t *fab = mca_btl_fabric.fab;

    if (OPAL_UNLIKELY(NULL == fab)) {
        return 0;
    }
    if (fab_is_started(fab, FAB_USER_PML)) {
        return finish_polled();
    }
    return mca_btl_fabric.is_named ? mca_btl_fabric_progress() : 0;
}
