/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: its table, enabling, progress.
 */
#include "pml_tm.h"

#include "pml_tm_cancel.h"
#include "pml_tm_excid.h"
#include "pml_tm_failure.h"
#include "pml_tm_flow.h"
#include "pml_tm_msg.h"
#include "pml_tm_offload.h"
#include "pml_tm_peer.h"
#include "pml_tm_send.h"

mca_pml_tm_t mca_pml_tm = {
    .super = {.pml_add_procs = mca_pml_tm_add_procs,
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
              PML_TM_MODULE_EXTRA},
};

static int init_free_list(opal_free_list_t *list, size_t size, opal_class_t *class)
{
    const mca_pml_tm_params_t *params = &mca_pml_tm.params;

    return opal_free_list_init(list, size, opal_cache_line_size, class, 0, opal_cache_line_size,
                               params->free_list_num, params->free_list_max, params->free_list_inc,
                               NULL, 0, NULL, NULL, NULL);
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
    fab_set_place(fab, PML_TM_AM_DATA, mca_pml_tm_rndv_place, NULL);
    fab_set_handler(fab, PML_TM_AM_NACK, mca_pml_tm_rndv_nack, NULL);
    fab_set_handler(fab, PML_TM_AM_FLOW, mca_pml_tm_flow_told, NULL);
    fab_set_handler(fab, PML_TM_AM_CANCEL, mca_pml_tm_cancel_asked, NULL);
    fab_set_handler(fab, PML_TM_AM_WITHDRAWN, mca_pml_tm_cancel_withdrawn, NULL);
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
        mca_pml_tm_offload_open();
        mca_pml_tm.fast = (unsigned) mca_pml_tm.params.fast_paths &
                          ~(mca_pml_tm_has_device_memory() ? PML_TM_FAST_BLOCKS : 0u);
        mca_pml_tm_wait_open();
        mca_pml_tm.polls_left = (unsigned) mca_pml_tm.params.progress_interval;
        mca_pml_tm.is_enabled = true;
        mca_pml_tm.fab->is_yielding = PML_TM_SPIN != mca_pml_tm.idle;
        mca_pml_tm.fab->may_sleep = PML_TM_SLEEP == mca_pml_tm.idle ||
                                    mca_pml_tm.params.progress_thread;
        fab_lock(mca_pml_tm.fab);
        fab_start(mca_pml_tm.fab, FAB_USER_PML);
        fab_unlock(mca_pml_tm.fab);
        rc = mca_pml_tm_thread_start();
    }
    return rc;
}

void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what)
{
    char why[200];

    ++mca_pml_tm.counters.bad_messages;
    snprintf(why, sizeof(why), "it sent a message that makes no sense (%s)", what);
    fab_peer_fail(peer, OMPI_ERR_BAD_PARAM, why);
}

int mca_pml_tm_progress_locked(void)
{
    int events = fab_progress(mca_pml_tm.fab);

    if (OPAL_UNLIKELY(0 != mca_pml_tm.num_throttled)) {
        mca_pml_tm_flow_feed();
    }
    return events;
}

int mca_pml_tm_poll_all(void)
{
    int events = 0;

    if (OPAL_UNLIKELY(!mca_pml_tm.is_enabled)) {
        return 0;
    }
    if (OPAL_LIKELY(fab_trylock(mca_pml_tm.fab))) {
        events = mca_pml_tm_progress_locked();
        fab_unlock(mca_pml_tm.fab);
    }
    events += mca_pml_tm_complete_done();
    mca_pml_tm_handle_failures();
    return events;
}

/*
 * Should a thread yield after an empty poll? Yes if another thread wants the lock, and now and then
 * to one that may want the processor: threads may share processors even where processes do not.
 */
static bool is_thread_in_the_way(void)
{
    unsigned polls;

    if (fab_is_wanted(mca_pml_tm.fab)) {
        return true;
    }
    /* relaxed load and store: the count need not be exact */
    polls = atomic_load_explicit(&mca_pml_tm.thread_polls, memory_order_relaxed) + 1;
    atomic_store_explicit(&mca_pml_tm.thread_polls, polls, memory_order_relaxed);
    return 0 == polls % PML_TM_POLLS_PER_PROGRESS;
}

/* Where processes share processors: unless Open MPI does so after this, by mpi_yield_when_idle. */
static bool must_yield(void)
{
    return PML_TM_SPIN != mca_pml_tm.idle && !opal_progress_yield_when_idle;
}

int mca_pml_tm_progress(void)
{
    int events = mca_pml_tm_poll_all();

    if (0 == events && mca_pml_tm.is_enabled &&
        (OPAL_UNLIKELY(must_yield()) ||
         (OPAL_UNLIKELY(fab_is_threaded(mca_pml_tm.fab)) && is_thread_in_the_way()))) {
        mca_pml_tm_yield();
    }
    return events;
}
