/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: its table, enabling, progress, and what happens when a peer fails.
 */
#include "pml_tm.h"

#include <time.h>

#include "pml_tm_excid.h"
#include "pml_tm_msg.h"
#include "pml_tm_peer.h"
#include "pml_tm_send.h"

mca_pml_tm_t mca_pml_tm = {
    .super = {
        .pml_add_procs = mca_pml_tm_add_procs,
        .pml_del_procs = mca_pml_tm_del_procs,
        .pml_enable = mca_pml_tm_enable,
        .pml_progress = mca_pml_tm_progress,
        .pml_add_comm = mca_pml_tm_add_comm,
        .pml_del_comm = mca_pml_tm_del_comm,
        .pml_irecv_init = mca_pml_tm_irecv_init,
        .pml_irecv = mca_pml_tm_irecv,
        .pml_recv = mca_pml_tm_recv,
        .pml_isend_init = mca_pml_tm_isend_init,
        .pml_isend = mca_pml_tm_isend,
        .pml_send = mca_pml_tm_send,
        .pml_iprobe = mca_pml_tm_iprobe,
        .pml_probe = mca_pml_tm_probe,
        .pml_start = mca_pml_tm_start,
        .pml_improbe = mca_pml_tm_improbe,
        .pml_mprobe = mca_pml_tm_mprobe,
        .pml_imrecv = mca_pml_tm_imrecv,
        .pml_mrecv = mca_pml_tm_mrecv,
        .pml_dump = mca_pml_tm_dump,
        .pml_max_tag = INT_MAX,
        .pml_flags = PML_TM_FLAGS,
        PML_TM_MODULE_EXTRA
    },
};

static int init_free_list(opal_free_list_t *list, size_t size, opal_class_t *class)
{
    const mca_pml_tm_params_t *params = &mca_pml_tm.params;

    return opal_free_list_init(list, size, opal_cache_line_size, class, 0, opal_cache_line_size, params->free_list_num,
                               params->free_list_max, params->free_list_inc, NULL, 0, NULL, NULL, NULL);
}

static void set_handlers(fab_t *fab)
{
    fab_set_handler(fab, FAB_AM_NO_TAG, mca_pml_tm_excid_untagged, NULL);
    fab_set_handler(fab, PML_TM_AM_CONTEXT, mca_pml_tm_excid_context, NULL);
    fab_set_handler(fab, FAB_AM_EAGER, mca_pml_tm_msg_eager, NULL);
    fab_set_handler(fab, FAB_AM_RNDV, mca_pml_tm_msg_rndv, NULL);
    fab_set_handler(fab, FAB_AM_FIN, mca_pml_tm_rndv_fin, NULL);
    fab_set_handler(fab, PML_TM_AM_ACK, mca_pml_tm_rndv_ack, NULL);
    fab_set_handler(fab, PML_TM_AM_CTS, mca_pml_tm_rndv_cts, NULL);
    fab_set_handler(fab, PML_TM_AM_DATA, mca_pml_tm_rndv_data, NULL);
    fab_set_handler(fab, PML_TM_AM_NACK, mca_pml_tm_rndv_nack, NULL);
    fab_set_handler(fab, PML_TM_AM_ANNOUNCE, mca_pml_tm_peer_announce, NULL);
}

int mca_pml_tm_enable(bool enable)
{
    int rc;

    if (!enable) {
        return OMPI_SUCCESS;
    }
    rc = init_free_list(&mca_pml_base_send_requests, sizeof(mca_pml_tm_send_request_t),
                        OBJ_CLASS(mca_pml_tm_send_request_t));
    if (OMPI_SUCCESS == rc) {
        rc = init_free_list(&mca_pml_base_recv_requests, sizeof(mca_pml_tm_recv_request_t),
                            OBJ_CLASS(mca_pml_tm_recv_request_t));
    }
    if (OMPI_SUCCESS == rc) {
        set_handlers(mca_pml_tm.fab);
        mca_pml_tm.is_enabled = true;
    }
    return rc;
}

/* Seconds that mpirun, which usually knows first, is given to end the job before pml tm does. */
#define FAILURE_GRACE 3.0

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/*
 * Callback of the fabric, under its lock: note it, the rest is mca_pml_tm_progress()'s.
 *
 * Requests that need the peer stay open.  An error now would have MPI's error handler end the job, with a message that says
 * nothing, before mpirun or this module can say which process was lost.
 */
void mca_pml_tm_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    (void) ctx;
    (void) rc;
    if (NULL == mca_pml_tm.failed) {
        mca_pml_tm.failed_at = now();
        snprintf(mca_pml_tm.failed_why, sizeof(mca_pml_tm.failed_why), "%s", why);
        /* release: pairs with the acquire in mca_pml_tm_progress() */
        atomic_store_explicit(&mca_pml_tm.failed, peer, memory_order_release);
    }
}

/*
 * Without fault tolerance a peer that fails ends the job: with one message that says which and why.  That message is mpirun's if
 * the peer died as its child, and ours if not.
 */
static void report_failure(const fab_peer_t *peer)
{
    opal_process_name_t name = {.jobid = (opal_jobid_t) (peer->name >> 32), .vpid = (opal_vpid_t) peer->name};

    if (now() - mca_pml_tm.failed_at < FAILURE_GRACE) {
        return;
    }
    mca_pml_tm_show_help("peer-failed", mca_pml_tm_process.nodename,
                   OMPI_NAME_PRINT(OMPI_PROC_MY_NAME), OMPI_NAME_PRINT(&name), mca_pml_tm.failed_why);
    ompi_rte_abort(1, NULL);
}

void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what)
{
    char why[200];

    ++mca_pml_tm.counters.bad_messages;
    snprintf(why, sizeof(why), "it sent a message that makes no sense (%s)", what);
    fab_peer_fail(peer, OMPI_ERR_BAD_PARAM, why);
}

int mca_pml_tm_progress(void)
{
    const fab_peer_t *failed;
    int events = 0;

    if (OPAL_UNLIKELY(!mca_pml_tm.is_enabled)) {
        return 0;
    }
    if (OPAL_LIKELY(fab_trylock(mca_pml_tm.fab))) {
        events = fab_progress(mca_pml_tm.fab);
        fab_unlock(mca_pml_tm.fab);
    }
    events += mca_pml_tm_complete_done();
    failed = atomic_load_explicit(&mca_pml_tm.failed, memory_order_acquire);
    if (OPAL_UNLIKELY(NULL != failed)) {
        report_failure(failed);
    }
    return events;
}
