/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: enabling, adding and removing processes and communicators, persistent requests; its
 * table.
 */
#include "pml_tm/pml_tm_entry.h"

#include <stdlib.h>

#include "fabric/fab_clock.h"
#include "match/match.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/base/pml_tm_sizes.h"
#include "pml_tm/calls/pml_tm_calls.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_nodes.h"
#include "pml_tm/report/pml_tm_reports.h"
#include "pml_tm/request/pml_tm_offload.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_idle.h"
#include "pml_tm/wait/pml_tm_progress.h"

enum {
    PML_TM_HEAP_KEPT = 4 << 20, /* bytes */
    PML_TM_INTERVAL = 32,       /* polls of pml tm for one of all of Open MPI, in a blocking call */
    /* requests of each kind that are allocated at start, and at once when they run out */
    PML_TM_REQUESTS_FIRST = 16,
    PML_TM_REQUESTS_MORE = 64,
};

static int init_free_list(opal_free_list_t *list, size_t size, opal_class_t *class)
{
    return opal_free_list_init(list, size, opal_cache_line_size, class, 0, opal_cache_line_size,
                               PML_TM_REQUESTS_FIRST, (int) fab_set_by_test("requests", -1),
                               PML_TM_REQUESTS_MORE, NULL, 0, NULL, NULL, NULL);
}

static void set_handlers(fab_t *fab)
{
    fab_set_handler(fab, FAB_AM_NO_TAG, mca_pml_tm_excid_untagged, NULL);
    fab_set_handler(fab, PML_TM_AM_CONTEXT, mca_pml_tm_excid_context, NULL);
    fab_set_handler(fab, FAB_AM_EAGER, mca_pml_tm_msg_eager, NULL);
    fab_set_handler(fab, FAB_AM_RNDV, mca_pml_tm_msg_rndv, NULL);
    fab_set_handler(fab, FAB_AM_FIN, mca_pml_tm_rndv_fin, NULL);
    fab_set_handler(fab, PML_TM_AM_ACK, mca_pml_tm_rndv_fin, NULL);
    fab_set_handler(fab, PML_TM_AM_CTS, mca_pml_tm_rndv_cts, NULL);
    fab_set_handler(fab, PML_TM_AM_DATA, mca_pml_tm_msg_data, NULL);
    fab_set_place(fab, PML_TM_AM_DATA, mca_pml_tm_rndv_place, NULL);
    fab_set_handler(fab, PML_TM_AM_NACK, mca_pml_tm_rndv_nack, NULL);
    fab_set_handler(fab, PML_TM_AM_FLOW, mca_pml_tm_flow_told, NULL);
    fab_set_handler(fab, PML_TM_AM_CANCEL, mca_pml_tm_cancel_asked, NULL);
    fab_set_handler(fab, PML_TM_AM_WITHDRAWN, mca_pml_tm_cancel_withdrawn, NULL);
    fab_set_handler(fab, PML_TM_AM_ASK, mca_pml_tm_ask_asked, NULL);
    fab_set_handler(fab, PML_TM_AM_STATE, mca_pml_tm_ask_told, NULL);
    fab_set_handler(fab, PML_TM_AM_REPORT, mca_pml_tm_report_told, NULL);
}

/*
 * Have the C library keep freed memory for the next allocation.  glibc maps blocks of 128 KiB and
 * more separately, and gives back the top of the heap when more than 128 KiB of it are free, until
 * a larger mapped block is freed: then that size, and twice that size, are its limits.  With these
 * defaults a program that allocates its buffers for each exchange gets new pages each time, and
 * their page faults take longer than the messages.  A user who has set limits (mallopt(),
 * MALLOC_TRIM_THRESHOLD_) keeps them: glibc then changes none.
 */
static void keep_heap(void)
{
    void *volatile block = malloc(PML_TM_HEAP_KEPT); /* volatile: the compiler would drop both */

    free(block);
}

static int enable(bool is_wanted)
{
    int rc;

    if (!is_wanted) {
        return OMPI_SUCCESS;
    }
    rc = init_free_list(&mca_pml_base_send_requests, sizeof(mca_pml_tm_send_request_t),
                        OBJ_CLASS(mca_pml_tm_send_request_t));
    if (OMPI_SUCCESS == rc) {
        rc = init_free_list(&mca_pml_base_recv_requests, sizeof(mca_pml_tm_recv_request_t),
                            OBJ_CLASS(mca_pml_tm_recv_request_t));
    }
    if (OMPI_SUCCESS == rc) {
        mca_pml_tm.send_item = mca_pml_tm_send_item;
        set_handlers(mca_pml_tm.fab);
        mca_pml_tm.has_device_memory = fab_has_device_memory();
        mca_pml_tm.fast = fab_set_by_test("fast_paths", PML_TM_FAST_ALL) & PML_TM_FAST_ALL &
                          ~(mca_pml_tm.has_device_memory ? PML_TM_FAST_IN_PLACE : 0u);
        mca_pml_tm_offload_open();
        mca_pml_tm_wait_open();
        keep_heap();
        /* The first use allocates it; the C library aborts if there is no memory then. */
        (void) mca_pml_tm_waiting();
        mca_pml_tm_hang_open();
        mca_pml_tm.begin_ns = fab_now_ns();
        mca_pml_tm.progress_interval = fab_set_by_test("progress_interval", PML_TM_INTERVAL);
        mca_pml_tm.polls_left = mca_pml_tm.progress_interval;
        mca_pml_tm.is_enabled = true;
        mca_pml_tm.fab->is_yielding = PML_TM_SPIN != mca_pml_tm.idle;
        fab_lock(mca_pml_tm.fab);
        fab_start(mca_pml_tm.fab, FAB_USER_PML);
        fab_unlock(mca_pml_tm.fab);
        rc = mca_pml_tm_thread_start();
    }
    return rc;
}

/* Make room for the context id in the table. */
static int comms_reserve(uint32_t context)
{
    uint32_t size = 0 == mca_pml_tm.num_comms ? 64 : mca_pml_tm.num_comms;
    mca_pml_tm_comm_t **comms;

    while (size <= context) {
        size *= 2;
    }
    if (size == mca_pml_tm.num_comms) {
        return OMPI_SUCCESS;
    }
    comms = realloc(mca_pml_tm.comms, size * sizeof(*comms));
    if (NULL == comms) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memset(comms + mca_pml_tm.num_comms, 0, (size - mca_pml_tm.num_comms) * sizeof(*comms));
    mca_pml_tm.comms = comms;
    mca_pml_tm.num_comms = size;
    return OMPI_SUCCESS;
}

/* Ids and ranks that do not fit the fabric tag are refused, never wrapped. */
static int check_limits(const ompi_communicator_t *comm)
{
    uint32_t context = mca_pml_tm_comm_index(comm);
    int max_size = ompi_comm_size((ompi_communicator_t *) comm);

    if (OMPI_COMM_IS_INTER(comm) &&
        ompi_comm_remote_size((ompi_communicator_t *) comm) > max_size) {
        max_size = ompi_comm_remote_size((ompi_communicator_t *) comm);
    }
    if (context < mca_pml_tm.max_context && (uint32_t) max_size <= 1u << mca_pml_tm.source_bits) {
        return OMPI_SUCCESS;
    }
    fab_help_show(mca_pml_tm_help, "tag-fields", fab_process.nodename, (unsigned) context,
                  (unsigned) mca_pml_tm.max_context, max_size, 1u << mca_pml_tm.source_bits,
                  mca_pml_tm.source_bits);
    return OMPI_ERR_OUT_OF_RESOURCE;
}

static int comm_add(ompi_communicator_t *comm)
{
    mca_pml_tm_comm_t *tmc;
    int rc = check_limits(comm);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    tmc = mca_pml_tm_comm_alloc(comm);
    if (NULL == tmc) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    fab_match_init(&tmc->match);
    tmc->my_rank = (uint32_t) comm->c_my_rank;
    tmc->sender_rank = -1;
    tmc->context = mca_pml_tm_comm_index(comm);

    fab_lock(mca_pml_tm.fab);
    rc = comms_reserve(tmc->context);
    if (OMPI_SUCCESS == rc) {
        rc = mca_pml_tm_excid_add(tmc);
    }
    if (OMPI_SUCCESS == rc) {
        tmc->tag_base = mca_pml_tm_tag(tmc->context, tmc->my_rank, 0, mca_pml_tm.source_bits);
        tmc->fast = mca_pml_tm.fast & ~(NULL != tmc->excid ? PML_TM_FAST_SEND : 0u);
        if (NULL != mca_pml_tm.offload) {
            mca_pml_tm.offload->add_comm(tmc);
        }
        comm->c_pml_comm = (struct mca_pml_comm_t *) tmc;
        mca_pml_tm.comms[tmc->context] = tmc;
        mca_pml_tm_msg_join(tmc);
    } else {
        mca_pml_tm_comm_release(tmc);
    }
    fab_unlock(mca_pml_tm.fab);
    return rc;
}

/* MPI_Init of Open MPI 4.1 ignores errors for its own communicators, so the job ends here. */
static int add_comm(ompi_communicator_t *comm)
{
    int rc = comm_add(comm);

    if (OMPI_ERR_OUT_OF_RESOURCE == rc &&
        (comm == &ompi_mpi_comm_world.comm || comm == &ompi_mpi_comm_self.comm)) {
        fab_help_show(mca_pml_tm_help, "no-communicator", fab_process.nodename);
        ompi_rte_abort(rc, NULL);
    }
    return rc;
}

/* It finds no more messages. */
static void comm_leave(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_excid_remove(tmc);
    mca_pml_tm.comms[tmc->context] = NULL;
}

static void comm_free(mca_pml_tm_comm_t *tmc)
{
    if (NULL != tmc->scope) {
        mca_pml_tm.offload->del_comm(tmc);
    }
    mca_pml_tm_comm_release(tmc);
}

/*
 * Requests retain their communicator.  MPI_Finalize takes MPI_COMM_WORLD, MPI_COMM_SELF and that
 * with the parent's processes nevertheless: then its state stays for them.
 */
static bool may_have_requests(const ompi_communicator_t *comm)
{
    return 0 != ((const opal_object_t *) comm)->obj_reference_count;
}

/*
 * Messages that were not received are dropped with their communicator.  A program that leaves such
 * messages is erroneous, unless their sender cancels them.
 */
static int del_comm(ompi_communicator_t *comm)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);

    if (NULL == tmc) {
        return OMPI_SUCCESS;
    }
    if (comm == &ompi_mpi_comm_world.comm) {
        if (0 != mca_pml_tm.params.report) {
            mca_pml_tm_report_end(comm);
        }
        mca_pml_tm_end(); /* while messages find their receives */
    }
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_msg_drop(&tmc->match, true);
    comm_leave(tmc);
    if (may_have_requests(comm)) {
        tmc->next = mca_pml_tm.left_comms;
        mca_pml_tm.left_comms = tmc;
    } else {
        comm->c_pml_comm = NULL;
        comm_free(tmc);
    }
    fab_unlock(mca_pml_tm.fab);
    return OMPI_SUCCESS;
}

void mca_pml_tm_comm_fini(void)
{
    mca_pml_tm_comm_t *tmc;

    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        tmc = mca_pml_tm.comms[i];
        if (NULL != tmc) {
            tmc->comm->c_pml_comm = NULL;
            mca_pml_tm_msg_drop(&tmc->match, false);
            comm_leave(tmc);
            comm_free(tmc);
        }
    }
    while (NULL != (tmc = mca_pml_tm.left_comms)) {
        mca_pml_tm.left_comms = tmc->next;
        comm_free(tmc);
    }
    free(mca_pml_tm.comms);
    mca_pml_tm.comms = NULL;
    mca_pml_tm.num_comms = 0;
}

/* A line for the table of paths. */
static void describe_waits(char *buf, size_t size)
{
    static const char *const what[] = {
        [PML_TM_SPIN] = "spins", [PML_TM_YIELD] = "yields", [PML_TM_SLEEP] = "yields, then sleeps"};
    unsigned num_local = (unsigned) fab_process.num_local_peers + 1;

    if (mca_pml_tm.cpus > 0) {
        snprintf(buf, size, "waiting        %s: %u processes, %.4g processors\n",
                 what[mca_pml_tm.idle], num_local, mca_pml_tm.cpus);
    } else {
        snprintf(buf, size, "waiting        %s, by pml_tm_wait\n", what[mca_pml_tm.idle]);
    }
}

/* Lines for the sizes at which a message's way changes (pml_tm_sizes.h). */
static void describe_sizes(char *buf, size_t size)
{
    const uint32_t eager = mca_pml_tm.eager_limit, limit = mca_pml_tm.stream_limit;

    snprintf(buf, size,
             "longer than    %-16zu takes several lines of a ring\n"
             "               %-16d is streamed inside a host by blocking sends, up to %u%s\n"
             "               %-16u is announced\n"
             "               %-16u is announced over tcp, too, if the peer answers\n"
             "               %-16d is announced with data over a network\n",
             FAB_SHORT_MAX, PML_TM_STREAM_MIN, limit, 0 != limit ? ", where that is faster" : "",
             eager, PML_TM_WHOLE * eager, PML_TM_FIRST_PART_MIN);
}

/* Print the table of paths to the peers if params.verbose asks for it. */
static void show_paths(void)
{
    char text[4096], waits[128], sizes[512];
    bool is_first = 0 == OMPI_PROC_MY_NAME->vpid;
    const bool is_shown = fab_params.verbose >= (is_first ? 10 : 20);

    if (!is_shown && (0 == mca_pml_tm.params.report || !is_first)) {
        return;
    }
    /* for the report at the end, too: when others have left, their memory cannot be tried */
    fab_lock(mca_pml_tm.fab);
    fab_describe(mca_pml_tm.fab, text, sizeof(text));
    fab_unlock(mca_pml_tm.fab);
    if (!is_shown) {
        return;
    }
    describe_waits(waits, sizeof(waits));
    describe_sizes(sizes, sizeof(sizes));
    opal_output(mca_pml_tm.output,
                "pml tm: process %s on %s; ranks below %u, communicators below %u\n%s%s%s",
                OMPI_NAME_PRINT(OMPI_PROC_MY_NAME), fab_process.nodename,
                1u << mca_pml_tm.source_bits, mca_pml_tm.max_context, text, sizes, waits);
}

/* A process of this host.  Those of the same job stay as long as this one. */
static int add_local(const ompi_proc_t *proc)
{
    int rc = OMPI_SUCCESS;
    fab_peer_t *peer = mca_pml_tm_peer_connect(proc, &rc);

    if (NULL != peer && proc->super.proc_name.jobid == ompi_proc_local()->super.proc_name.jobid) {
        fab_lock(mca_pml_tm.fab);
        fab_peer_prepare(peer);
        fab_unlock(mca_pml_tm.fab);
    }
    return rc;
}

/*
 * Opens the processes of this host, whose memory is to be found at once.  Others, which may be many
 * in a job that was spawned or joined, are opened at first use and take no memory until then.
 */
static int add_procs(ompi_proc_t **procs, size_t nprocs)
{
    int rc = mca_pml_base_pml_check_selected("tm", procs, nprocs);

    for (size_t i = 0; OMPI_SUCCESS == rc && i < nprocs; ++i) {
        if (OPAL_PROC_ON_LOCAL_HOST(procs[i]->super.proc_flags)) {
            rc = add_local(procs[i]);
        }
    }
    if (OMPI_SUCCESS == rc) {
        rc = mca_pml_tm_add_btl_procs(procs, nprocs);
    }
    if (OMPI_SUCCESS == rc) {
        show_paths();
    }
    return rc;
}

static int del_procs(ompi_proc_t **procs, size_t nprocs)
{
    mca_pml_tm_end();
    for (size_t i = 0; i < nprocs; ++i) {
        OBJ_RETAIN(procs[i]); /* the bml may hold the last reference but this */
    }
    /* one-sided MPI has added them to the BTLs; only the PML tells the BTLs of their end */
    if (NULL != mca_bml.bml_del_procs) {
        (void) mca_bml.bml_del_procs(nprocs, procs);
    }
    fab_lock(mca_pml_tm.fab);
    for (size_t i = 0; i < nprocs; ++i) {
        mca_pml_tm_peer_close(procs[i]);
    }
    mca_pml_tm_comm_forget_closed();
    fab_unlock(mca_pml_tm.fab);
    for (size_t i = 0; i < nprocs; ++i) {
        OBJ_RELEASE(procs[i]);
    }
    return OMPI_SUCCESS;
}

static void start_send(mca_pml_tm_send_request_t *req)
{
    if (MCA_PML_BASE_SEND_BUFFERED == req->req_send.req_send_mode) {
        mca_pml_tm_bsend_start(req);
        return;
    }
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_send_start(req);
    fab_unlock(mca_pml_tm.fab);
}

static int start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        mca_pml_base_request_t *base = (mca_pml_base_request_t *) requests[i];

        if (NULL == base || OMPI_REQUEST_PML != base->req_ompi.req_type) {
            continue;
        }
        if (MCA_PML_REQUEST_SEND == base->req_type) {
            start_send((mca_pml_tm_send_request_t *) base);
        } else {
            fab_lock(mca_pml_tm.fab);
            mca_pml_tm_recv_post((mca_pml_tm_recv_request_t *) base);
            fab_unlock(mca_pml_tm.fab);
        }
    }
    mca_pml_tm_complete_done();
    return OMPI_SUCCESS;
}

static void send_request_construct(mca_pml_tm_send_request_t *req)
{
    req->req_send.req_base.req_type = MCA_PML_REQUEST_SEND;
    req->req_send.req_base.req_ompi.req_start = start;
    req->req_send.req_base.req_ompi.req_free = mca_pml_tm_request_free;
    req->req_send.req_base.req_ompi.req_cancel = mca_pml_tm_cancel_send;
    memset(&req->core, 0, sizeof(req->core));
    req->core.base = &req->req_send.req_base;
}

OBJ_CLASS_INSTANCE(mca_pml_tm_send_request_t, mca_pml_base_send_request_t, send_request_construct,
                   NULL);

static void recv_request_construct(mca_pml_tm_recv_request_t *req)
{
    req->req_recv.req_base.req_type = MCA_PML_REQUEST_RECV;
    req->req_recv.req_base.req_ompi.req_start = start;
    req->req_recv.req_base.req_ompi.req_free = mca_pml_tm_request_free;
    req->req_recv.req_base.req_ompi.req_cancel = mca_pml_tm_cancel;
    req->req_recv.req_base.req_free_called = false;
    memset(&req->core, 0, sizeof(req->core));
    memset(&req->listed, 0, sizeof(req->listed));
    req->core.base = &req->req_recv.req_base;
}

OBJ_CLASS_INSTANCE(mca_pml_tm_recv_request_t, mca_pml_base_recv_request_t, recv_request_construct,
                   NULL);

mca_pml_base_module_t mca_pml_tm_module = {.pml_add_procs = add_procs,
                                           .pml_del_procs = del_procs,
                                           .pml_enable = enable,
                                           .pml_progress = mca_pml_tm_progress,
                                           .pml_add_comm = add_comm,
                                           .pml_del_comm = del_comm,
                                           .pml_irecv_init = mca_pml_tm_irecv_init,
                                           .pml_irecv = mca_pml_tm_irecv,
                                           .pml_recv = mca_pml_tm_recv,
                                           .pml_isend_init = mca_pml_tm_isend_init,
                                           .pml_isend = mca_pml_tm_isend,
                                           .pml_send = mca_pml_tm_send,
                                           .pml_iprobe = mca_pml_tm_iprobe,
                                           .pml_probe = mca_pml_tm_probe,
                                           .pml_start = start,
                                           .pml_improbe = mca_pml_tm_improbe,
                                           .pml_mprobe = mca_pml_tm_mprobe,
                                           .pml_imrecv = mca_pml_tm_imrecv,
                                           .pml_mrecv = mca_pml_tm_mrecv,
                                           .pml_dump = mca_pml_tm_dump,
                                           .pml_max_tag = INT_MAX,
                                           .pml_flags = PML_TM_FLAGS,
                                           PML_TM_MODULE_EXTRA};
