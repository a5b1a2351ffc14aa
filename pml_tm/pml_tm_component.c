/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: parameters and counters, selection, opening and closing the fabric.
 */
#include "pml_tm/base/pml_tm.h"

#include <string.h>

#include "fabric/fab_abi.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_cuda.h"
#include "fabric/fab_help.h"
#include "fabric/fab_look.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/arrive/pml_tm_stream.h"
#include "pml_tm/calls/pml_tm_calls.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/pml_tm_entry.h"
#include "pml_tm/report/pml_tm_reports.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/request/pml_tm_offload.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_idle.h"
#include "pml_tm/wait/pml_tm_progress.h"
#include "tm_commit.h"

OMPI_DECLSPEC extern mca_pml_base_component_t mca_pml_tm_component;

static const char *commit = TM_COMMIT; /* the sources' */

/* ---- parameters --------------------------------------------------------- */

static int register_params(void)
{
    (void) mca_base_component_var_register(
        &mca_pml_tm_component.pmlm_version, "commit",
        "Commit of the sources that this component was built from. Read only.",
        MCA_BASE_VAR_TYPE_STRING, NULL, 0, MCA_BASE_VAR_FLAG_DEFAULT_ONLY, OPAL_INFO_LVL_2,
        MCA_BASE_VAR_SCOPE_CONSTANT, &commit);
    return fab_param_register(&mca_pml_tm_param_table, &mca_pml_tm.params);
}

/* ---- counters ----------------------------------------------------------- */

#define COUNT_ONE(name, field, help) +1
_Static_assert(0 PML_TM_OFFLOAD_COUNTERS(COUNT_ONE) ==
                   sizeof(*mca_pml_tm_offload_counters) / sizeof(unsigned long long),
               "each counter of the offload engine, each reason among them, has a name");
#undef COUNT_ONE

/* read: NULL, or what gets the value; then ctx is for it, else where the value is. */
static void register_pvar(const char *name, const char *help, int class,
                          mca_base_get_value_fn_t read, void *ctx)
{
    (void) mca_base_component_pvar_register(
        &mca_pml_tm_component.pmlm_version, name, help, OPAL_INFO_LVL_4, class,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, NULL, ctx);
}

static void register_counter(const char *name, const char *help, unsigned long long *counter)
{
    register_pvar(name, help, MCA_BASE_PVAR_CLASS_COUNTER, NULL, counter);
}

/* High-water marks of all communicators. */
static int read_high_water(const mca_base_pvar_t *pvar, void *value, void *obj)
{
    uint32_t posted_max = 0, unexp_max = 0;

    (void) obj;
    if (NULL != mca_pml_tm.fab) {
        fab_lock(mca_pml_tm.fab); /* another thread may make or free a communicator */
        mca_pml_tm_comm_depths(&posted_max, &unexp_max);
        fab_unlock(mca_pml_tm.fab);
    }
    *(unsigned long long *) value = NULL != pvar->ctx ? posted_max : unexp_max;
    return OMPI_SUCCESS;
}

/* Ids that are alive: sends and receives that wait for their peer. */
static int read_open_operations(const mca_base_pvar_t *pvar, void *value, void *obj)
{
    unsigned long long used = 0;

    (void) pvar, (void) obj;
    if (NULL != mca_pml_tm.fab) {
        fab_lock(mca_pml_tm.fab);
        used = mca_pml_tm.ids.used;
        fab_unlock(mca_pml_tm.fab);
    }
    *(unsigned long long *) value = used;
    return OMPI_SUCCESS;
}

static int read_sent(const mca_base_pvar_t *pvar, void *value, void *obj)
{
    (void) obj;
    *(unsigned long long *) value = mca_pml_tm_sent_by(
        (mca_pml_tm_protocol_t) (uintptr_t) pvar->ctx);
    return OMPI_SUCCESS;
}

static void register_sent(const char *name, const char *help, mca_pml_tm_protocol_t protocol)
{
    register_pvar(name, help, MCA_BASE_PVAR_CLASS_COUNTER, read_sent,
                  (void *) (uintptr_t) protocol);
}

static void register_counters(void)
{
    register_sent("eager_sent", "messages sent with their data (eager protocol)",
                  PML_TM_SENT_EAGER);
    register_sent("eager_sync_sent", "synchronous messages sent with their data",
                  PML_TM_SENT_EAGER_SYNC);
    register_sent("rndv_sent", "messages announced by a request to send (rendezvous protocol)",
                  PML_TM_SENT_RNDV);
#define REGISTER_COUNTER(name, help) register_counter(#name, help, &mca_pml_tm.counters.name);
    PML_TM_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
    fab_counters_register();
#define REGISTER_COUNTER(name, field, help)                                                        \
    register_counter(#name, help, &mca_pml_tm_offload_counters->field);
    PML_TM_OFFLOAD_COUNTERS(REGISTER_COUNTER)
#undef REGISTER_COUNTER
    register_pvar("posted_max", "most receives posted at once in any one communicator",
                  MCA_BASE_PVAR_CLASS_HIGHWATERMARK, read_high_water, &mca_pml_tm);
    register_pvar("unexpected_max_count",
                  "most unexpected messages at once in any one communicator",
                  MCA_BASE_PVAR_CLASS_HIGHWATERMARK, read_high_water, NULL);
    register_pvar("open_operations",
                  "sends and receives that wait now for an answer or data of their peer",
                  MCA_BASE_PVAR_CLASS_LEVEL, read_open_operations, NULL);
}

/* ---- component functions ------------------------------------------------ */

static int tm_register(void)
{
    int rc;

    if (!fab_fit_check(&mca_pml_tm_fit)) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    rc = register_params();
    register_counters();
    mca_pml_tm.component = &mca_pml_tm_component.pmlm_version;
    return OPAL_SUCCESS == rc ? fab_params_register() : rc;
}

static int tm_open(void)
{
    mca_pml_tm.output = opal_output_open(NULL);
    opal_output_set_verbosity(mca_pml_tm.output, fab_params.verbose);
    /* if no PML is named, selection considers only a fixed list: join it */
    opal_pointer_array_add(&mca_pml_base_pml, strdup("tm"));
    return OMPI_SUCCESS;
}

static int tm_close(void)
{
    opal_output_close(mca_pml_tm.output);
    mca_pml_tm.output = -1;
    return OMPI_SUCCESS;
}

/*
 * tm cannot be used in this process, for a reason that others of this host may have, too: one of
 * them tells the user.  If the user allows nothing but tm, the job ends; Open MPI would end it as
 * well, and say that there is no component.
 */
static void refuse(const char *topic, const char *why)
{
    bool is_only = false;

    opal_output_verbose(1, mca_pml_tm.output, "pml tm is not used: %s", why);
    if (!fab_params_pml_is_tm(&is_only)) {
        return;
    }
    if (fab_help_is_first(mca_pml_tm.component, is_only)) {
        fab_help_show(mca_pml_tm_help, topic, fab_process.nodename, why);
    }
    if (is_only) {
        ompi_rte_abort(1, NULL);
    }
}

/*
 * A job on several hosts without a provider between them is refused before it starts, not at its
 * first message.
 */
static bool reaches_all_hosts(void)
{
    unsigned num_local = (unsigned) fab_process.num_local_peers + 1;
    const char *why_not = fab_why_one_host(mca_pml_tm.fab);
    char why[512];

    if (fab_process.num_procs <= num_local || NULL == why_not) {
        return true;
    }
    snprintf(why, sizeof(why), "%u of %u processes are on this host; not by tcp: %s", num_local,
             fab_process.num_procs, why_not);
    refuse("several-hosts", why);
    return false;
}

static bool publish(void)
{
    if (OMPI_SUCCESS == mca_pml_tm_peer_publish()) {
        return true;
    }
    refuse("no-fabric", "the address could not be published (PMIx)");
    return false;
}

static unsigned choose_source_bits(unsigned num_procs)
{
    unsigned bits = 16;

    if (0 != mca_pml_tm.params.tag_source_bits) {
        return (unsigned) mca_pml_tm.params.tag_source_bits;
    }
    while (bits < PML_TM_SOURCE_BITS_MAX && num_procs > 1u << bits) {
        ++bits;
    }
    return bits;
}

static void log_line(void *ctx, int level, const char *text)
{
    (void) ctx;
    opal_output_verbose(level, mca_pml_tm.output, "%s", text);
}

static int open_fabric(void)
{
    fab_config_t config = {
        .user = FAB_USER_PML,
        .name = mca_pml_tm_peer_name(OMPI_PROC_MY_NAME),
        .num_local = (uint32_t) fab_process.num_local_peers + 1,
        .local_rank = fab_process.my_local_rank,
        .num_procs = fab_process.num_procs,
        .is_threaded = &opal_uses_threads,
        .shm_abi = FAB_SHM_ABI,
        .outlives_peers = mca_pml_tm_is_fault_tolerant(),
        .may_sleep = PML_TM_SLEEP == mca_pml_tm.idle || mca_pml_tm.params.progress_thread,
        .peer_failed = mca_pml_tm_peer_failed,
        .peer_left = mca_pml_tm_peer_left,
        .others_wait = mca_pml_tm_others_wait,
        .log = log_line,
    };
    const char *why = "unknown";
    int rc = fab_cuda_open(&why) ? fab_open(&config, &mca_pml_tm.fab, &why)
                                 : OPAL_ERR_NOT_AVAILABLE;

    if (OPAL_SUCCESS != rc) {
        refuse("no-fabric", why);
        return rc;
    }
    fab_look_counters(mca_pml_tm.fab, FAB_LOOK_PML, &mca_pml_tm.counters,
                      sizeof(mca_pml_tm.counters) / sizeof(uint64_t), PML_TM_COUNTER_NAMES);
    fab_look_counters(mca_pml_tm.fab, FAB_LOOK_OFFLOAD, mca_pml_tm_offload_counters,
                      sizeof(*mca_pml_tm_offload_counters) / sizeof(uint64_t),
                      PML_TM_OFFLOAD_NAMES);
    fab_look_counters(
        mca_pml_tm.fab, FAB_LOOK_SENT, mca_pml_tm.short_sent,
        (size_t) ((uint64_t *) (&mca_pml_tm.sent + 1) - (uint64_t *) &mca_pml_tm.short_sent), "");
    return OPAL_SUCCESS;
}

static void init_state(void)
{
    mca_pml_tm_msg_init();
    mca_pml_tm_choose_idle();
    mca_pml_tm.is_ending = mca_pml_tm.is_end_told = false;
    mca_pml_tm.done.head = NULL;
    mca_pml_tm.done.tail = &mca_pml_tm.done.head;
    fab_match_init(&mca_pml_tm.early);
    fab_idmap_init(&mca_pml_tm.ids);
    mca_pml_tm.eager_limit = fab_params.eager_limit < 0 ? PML_TM_EAGER_LIMIT
                                                        : (uint32_t) fab_params.eager_limit;
    mca_pml_tm.whole_limit = fab_params.eager_limit < 0 ? PML_TM_STREAM_MIN
                                                        : mca_pml_tm.eager_limit;
    mca_pml_tm.stream_limit = mca_pml_tm.params.stream_limit;
    mca_pml_tm.short_max = mca_pml_tm.eager_limit < FAB_SHORT_MAX ? mca_pml_tm.eager_limit
                                                                  : FAB_SHORT_MAX;
    mca_pml_tm.source_bits = choose_source_bits(fab_process.num_procs);
    mca_pml_tm.match_mask = (UINT64_C(1) << (PML_TM_TAG_BITS + mca_pml_tm.source_bits)) - 1;
    mca_pml_tm.max_context = 1u << (32 - mca_pml_tm.source_bits);
    mca_pml_tm_module.pml_max_contextid = mca_pml_tm.max_context;
}

/* A misspelt parameter has no effect; the job goes on.  One process of each host says so. */
static void warn_of_unknown(void)
{
    char names[512];

    if (0 == fab_process.my_local_rank &&
        fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, fab_params_is_known, names,
                           sizeof(names)) > 0) {
        fab_help_show(mca_pml_tm_help, "unknown-parameter", fab_process.nodename, names);
    }
}

/* Is ob1, which runs everywhere, among the PMLs of this job, with a priority above tm's? */
static bool is_ob1_above(int priority)
{
    const int *value = NULL;
    int index = mca_base_var_find("ompi", "pml", "ob1", "priority");

    return 0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, &value, NULL, NULL) &&
           NULL != value && *value > priority;
}

static mca_pml_base_module_t *tm_init(int *priority, bool enable_progress_threads,
                                      bool enable_mpi_threads)
{
    char why[512];
    int best = *priority;
    bool is_only;

    *priority = mca_pml_tm.params.priority;
    if (OPAL_SUCCESS != fab_param_check(&mca_pml_tm_param_table, &mca_pml_tm.params, "pml_tm_", why,
                                        sizeof(why)) ||
        OPAL_SUCCESS != fab_params_check(why, sizeof(why))) {
        refuse("bad-parameter", why);
        return NULL;
    }
    if ((best > *priority || is_ob1_above(*priority)) && !fab_params_pml_is_tm(&is_only)) {
        return NULL; /* before anything is opened */
    }
    warn_of_unknown();
    init_state();
    if (mca_pml_tm.params.progress_thread) {
        opal_set_using_threads(true); /* before the fabric is opened: Open MPI is to use locks */
    }
    if (OPAL_SUCCESS != open_fabric()) {
        return NULL;
    }
    if (!reaches_all_hosts() || !publish()) {
        fab_close(mca_pml_tm.fab, FAB_USER_PML);
        mca_pml_tm.fab = NULL;
        return NULL;
    }
    if (OMPI_SUCCESS != mca_pml_tm_open_btls(enable_progress_threads, enable_mpi_threads)) {
        opal_output_verbose(1, mca_pml_tm.output,
                            "no BTL can be used: one-sided MPI will not work");
    }
    return &mca_pml_tm_module;
}

/*
 * No operation may complete after the requests are gone, so each that is left is waited for, until
 * success or the failure of its peer.
 */
static void finish_gets(void)
{
    fab_lock(mca_pml_tm.fab);
    while (mca_pml_tm.num_gets > 0) {
        (void) fab_progress(mca_pml_tm.fab);
    }
    fab_unlock(mca_pml_tm.fab);
}

static int finalize(void)
{
    if (NULL == mca_pml_tm.fab) {
        return OMPI_SUCCESS;
    }
    mca_pml_tm_thread_end();
    mca_pml_tm_end(); /* with processes of other jobs, which were not closed */
    finish_gets();
    if (NULL != mca_bml.bml_finalize) {
        /* one-sided MPI has made Open MPI poll the BTLs, which are unloaded soon */
        (void) mca_bml.bml_finalize();
    }
    mca_pml_tm.is_enabled = false;
    mca_pml_tm.light_left = 0;
    mca_pml_tm_hang_close();
    mca_pml_tm_wait_close();
    mca_pml_tm_comm_fini();
    mca_pml_tm_stream_fini();
    mca_pml_tm_msg_fini();
    mca_pml_tm_recv_fini();
    mca_pml_tm_failure_fini();
    mca_pml_tm_peer_fini();
    fab_idmap_fini(&mca_pml_tm.ids);
    fab_close(mca_pml_tm.fab, FAB_USER_PML);
    mca_pml_tm.fab = NULL;
    return OMPI_SUCCESS;
}

mca_pml_base_component_t mca_pml_tm_component = {
    .pmlm_version =
        {
            PML_TM_BASE_VERSION,

            .mca_component_name = "tm",
            .mca_component_major_version = FAB_MAJOR_VERSION,
            .mca_component_minor_version = FAB_MINOR_VERSION,
            .mca_component_release_version = FAB_RELEASE_VERSION,
            .mca_open_component = tm_open,
            .mca_close_component = tm_close,
            .mca_register_component_params = tm_register,
        },
    .pmlm_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .pmlm_init = tm_init,
    .pmlm_finalize = finalize,
};
