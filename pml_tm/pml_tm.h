/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pml_tm: MPI point-to-point messages over the fabric.
 *
 *   pml_tm_component.c  counters, selection, opening the fabric
 *   pml_tm.c            the module: adding and removing peers and communicators, progress
 *   pml_tm_peer.c       processes: from ompi_proc_t to fabric peer; records of peers
 *   pml_tm_flow.c       flow control of unexpected messages
 *   pml_tm_comm.c       communicators: context id to matching domain; early messages
 *   pml_tm_excid.c      communicators whose context ids differ between processes (MPI sessions)
 *   pml_tm_failure.c    peers that fail; revoked communicators
 *   pml_tm_send.c       all sends
 *   pml_tm_recv.c       all receives, cancel of these
 *   pml_tm_cancel.c     cancel of sends, both sides
 *   pml_tm_msg.c        messages from the wire: into a receive or among the unexpected
 *   pml_tm_offload.c    receives on a device that matches tags
 *   pml_tm_rndv.c       rendezvous, both sides
 *   pml_tm_stream.c     messages streamed in fragments
 *   pml_tm_probe.c      probe and matched probe
 *   pml_tm_start.c      persistent requests
 *   pml_tm_request.c    completing and freeing requests
 *   pml_tm_wait.c       how blocking calls wait; MPI_Waitall
 *   pml_tm_help.c       texts for the user
 *   pml_tm_params.c     the table of the parameters
 *   pml_tm_wire.h       the bytes that leave the process
 *
 * Lock.  There is one, the fabric's (fab_lock()): it covers the fabric, the matching domains, the
 * id map, the communicator table and the state of every request from its start until it is done.
 * No user code and no callback of Open MPI runs under it: finished requests go to a list, and
 * mca_pml_tm_complete_done(), called after the lock was released, completes them.  Without
 * MPI_THREAD_MULTIPLE taking the lock costs one predicted branch.
 */
#ifndef PML_TM_H
#define PML_TM_H

#include "pml_tm_compat.h"

#include "fabric/fab.h"
#include "fabric/fab_help.h"
#include "fabric/fab_params.h"
#include "fabric/fab_spares.h"
#include "fabric/fab_tm.h"
#include "match/match.h"
#include "offload/offload.h"

#include "pml_tm_counters.h"
#include "idmap/idmap.h"
#include "pml_tm_params.h"
#include "pml_tm_request.h"
#include "pml_tm_wire.h"

typedef struct mca_pml_tm_comm mca_pml_tm_comm_t;
typedef struct mca_pml_tm_excid mca_pml_tm_excid_t;
typedef struct mca_pml_tm_failure mca_pml_tm_failure_t;
typedef struct mca_pml_tm_msg mca_pml_tm_msg_t;
typedef struct mca_pml_tm_peer mca_pml_tm_peer_t;
typedef struct mca_pml_tm_stream mca_pml_tm_stream_t;

/* What a waiting call does after a poll that found nothing: params.wait. */
typedef enum mca_pml_tm_idle {
    PML_TM_SPIN,  /* poll on */
    PML_TM_YIELD, /* yield the processor */
    PML_TM_SLEEP, /* yield, and sleep after many such polls */
} mca_pml_tm_idle_t;

/* Of this many polls of a blocking call, one polls everything in the fabric. */
#define PML_TM_POLLS_PER_PROGRESS 16

enum { PML_TM_MEMORY_BUCKETS = 256 };

typedef struct mca_pml_tm {
    mca_pml_base_module_t super;
    fab_t *fab;
    unsigned fast; /* PML_TM_FAST_*: those in use */
    mca_pml_tm_idle_t idle;
    /* a blocking receive looks so often at its sender's ring before it is posted */
    unsigned looks;
    bool is_pausing; /* with a pause between two of them */
    /* processors that the job's processes on this host share, if params.wait is auto */
    double cpus;
    atomic_uint thread_polls;    /* empty polls of Open MPI's progress, with threads */
    atomic_uint thread_waits;    /* threads in mca_pml_tm_wait_threads() */
    unsigned max_thread_waits;   /* with more than these, threads share processors */
    unsigned locked_polls;       /* polls of waiting threads; lock: the fabric's */
    unsigned idle_polls;         /* polls of blocking calls since one found something */
    bool was_woken;              /* an event ended the last sleep */
    unsigned polls_left;         /* polls of blocking calls until one polls all of Open MPI */
    mca_pml_tm_done_list_t done; /* requests that wait for mca_pml_tm_complete_done() */
    fab_idmap_t ids;
    unsigned long long alone_arrived; /* messages that had come at the last send of one alone */
    mca_pml_tm_comm_t **comms;        /* by context id */
    uint32_t num_comms;               /* length of comms */
    uint32_t max_context;             /* context ids are below */
    mca_pml_tm_comm_t *excid_comms;   /* those that have an extended id */
    /* engine of the device that matches tags; NULL: no such device */
    fab_offload_t *engine;
    fab_offload_t offload; /* what engine points to */
    fab_tm_device_t device;
    /*
     * Pending receives into whose memory the device may store a message; hashed by memory address.
     */
    mca_pml_tm_recv_request_t *memory[PML_TM_MEMORY_BUCKETS];
    unsigned source_bits;  /* of the fabric tag */
    uint64_t match_mask;   /* the tag's bits for source and MPI tag: fab_match_key() of a message */
    uint32_t short_max;    /* bytes; longest send that goes straight into a ring */
    uint32_t eager_limit;  /* bytes; params.eager_limit as it is compared */
    uint32_t stream_limit; /* bytes; longest message that is streamed */
    mca_pml_tm_msg_t *early; /* messages for communicators not added yet, oldest first */
    mca_pml_tm_msg_t **early_tail;
    mca_pml_tm_msg_t *msg_cache;  /* free short ones */
    unsigned msg_cached;          /* how many */
    fab_spares_t spares;          /* for long ones */
    mca_pml_tm_stream_t *streams; /* messages that are arriving in fragments */
    mca_pml_tm_stream_t *free_streams;
    size_t unexpected_bytes;                  /* held in unexpected and early messages */
    mca_pml_tm_peer_t *peers;                 /* records of peers that have one */
    bool is_flush_in_vain;                    /* see mca_pml_tm_peer_flush() */
    unsigned sends_since_progress;            /* see send_progress() */
    unsigned num_throttled;                   /* number of peers that are throttled */
    unsigned num_gets;                        /* under way in the fabric */
    _Atomic(mca_pml_tm_failure_t *) failures; /* peers that failed, not handled yet */
    mca_pml_tm_params_t params;
    mca_pml_tm_counters_t counters;
    mca_pml_tm_core_t *free_recvs; /* free requests for receives of plain types */
    mca_pml_tm_recv_request_t
        *blocking; /* request kept for the next blocking receive; NULL: in use, or none */
    bool is_enabled;
} mca_pml_tm_t;

extern mca_pml_tm_t mca_pml_tm;
OMPI_DECLSPEC extern mca_pml_base_component_t mca_pml_tm_component;

/* ---- entry points of the module (pml.h), by file ------------------------ */

int mca_pml_tm_enable(bool enable);
int mca_pml_tm_progress(void);
int mca_pml_tm_add_procs(ompi_proc_t **procs, size_t nprocs);
int mca_pml_tm_del_procs(ompi_proc_t **procs, size_t nprocs);
int mca_pml_tm_add_comm(ompi_communicator_t *comm);
int mca_pml_tm_del_comm(ompi_communicator_t *comm);
int mca_pml_tm_dump(ompi_communicator_t *comm, int verbose);

int mca_pml_tm_isend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                          int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                          ompi_request_t **request);
int mca_pml_tm_isend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                     mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                     ompi_request_t **request);
int mca_pml_tm_send(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                    mca_pml_base_send_mode_t mode, ompi_communicator_t *comm);

int mca_pml_tm_irecv_init(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                          ompi_communicator_t *comm, ompi_request_t **request);
int mca_pml_tm_irecv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                     ompi_communicator_t *comm, ompi_request_t **request);
int mca_pml_tm_recv(void *buf, size_t count, ompi_datatype_t *datatype, int src, int tag,
                    ompi_communicator_t *comm, ompi_status_public_t *status);
int mca_pml_tm_cancel(ompi_request_t *request, int flag);
int mca_pml_tm_imrecv(void *buf, size_t count, ompi_datatype_t *datatype, ompi_message_t **message,
                      ompi_request_t **request);
int mca_pml_tm_mrecv(void *buf, size_t count, ompi_datatype_t *datatype, ompi_message_t **message,
                     ompi_status_public_t *status);

int mca_pml_tm_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                      ompi_status_public_t *status);
int mca_pml_tm_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status);
int mca_pml_tm_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                       ompi_message_t **message, ompi_status_public_t *status);
int mca_pml_tm_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                      ompi_status_public_t *status);

int mca_pml_tm_start(size_t count, ompi_request_t **requests);

/* ---- shared by several files -------------------------------------------- */

/*
 * Can the data be used in place?  If so, *data is its first byte. *len is the length of the data in
 * bytes, contiguous or not.
 */
static inline bool mca_pml_tm_is_contiguous(const void *buf, size_t count,
                                            const ompi_datatype_t *datatype, char **data,
                                            size_t *len)
{
    *len = count * datatype->super.size;
    *data = (char *) buf + datatype->super.true_lb;
    /* that function takes a 32-bit count, and only tests whether it is more than one */
    return 0 == *len ||
           opal_datatype_is_contiguous_memory_layout(&datatype->super, count > 1 ? 2 : 1);
}

/* Complete finished requests; every entry point calls it after it has released the lock. */
static inline int mca_pml_tm_complete_done(void)
{
    /*
     * relaxed: a thread sees its own additions; others see them in their next call
     */
    return OPAL_LIKELY(0 == atomic_load_explicit(&mca_pml_tm.done.count, memory_order_relaxed))
               ? 0
               : mca_pml_tm_complete_done_slow();
}

/*
 * Is data of this datatype contiguous and at the buffer's address, and is it unnecessary to retain
 * the type?
 */
static inline bool mca_pml_tm_is_plain(const ompi_datatype_t *datatype)
{
    const unsigned plain = OMPI_DATATYPE_FLAG_PREDEFINED | OPAL_DATATYPE_FLAG_NO_GAPS;

    return OPAL_LIKELY(plain == (datatype->super.flags & plain));
}

/* Is it complete? If so, all writes before its completion are visible. */
static inline bool mca_pml_tm_is_complete(const ompi_request_t *request)
{
    /* acquire: pairs with the release in mca_pml_tm_done() and mca_pml_tm_complete() */
    return REQUEST_COMPLETED == __atomic_load_n(&request->req_complete, __ATOMIC_ACQUIRE);
}

/* Tell the ompi_wait_sync_t that one more of its requests is complete, with this error. */
void mca_pml_tm_wake(void *sync, int error);

/*
 * Complete a request that the user may know, that has no callback, and that was not freed.  Another
 * thread may wait for it in Open MPI and have replaced REQUEST_PENDING by its ompi_wait_sync_t.
 * is_well: it has no error.  Lock held.
 */
static inline __attribute__((always_inline)) void mca_pml_tm_complete(mca_pml_tm_core_t *core,
                                                                      bool is_well)
{
    ompi_request_t *request = &core->base->req_ompi;
    void *sync = (void *) (uintptr_t) request->req_complete;
    int error = MPI_SUCCESS;

    core->state = PML_TM_COMPLETING;
    core->base->req_pml_complete = true;
    if (!is_well) {
        mca_pml_tm_request_set_error(core);
        error = request->req_status.MPI_ERROR;
    }
    if (OPAL_UNLIKELY(opal_using_threads())) {
        sync = __atomic_exchange_n((void **) (uintptr_t) &request->req_complete, REQUEST_COMPLETED,
                                   __ATOMIC_ACQ_REL);
    } else {
        request->req_complete = REQUEST_COMPLETED;
    }
    if (OPAL_UNLIKELY(REQUEST_PENDING != sync)) {
        mca_pml_tm_wake(sync, error);
    }
}

/* mca_pml_tm_done() and mca_pml_tm_done_well() in one. */
static inline __attribute__((always_inline)) void mca_pml_tm_done_as(mca_pml_tm_core_t *core,
                                                                     bool is_well)
{
    if (OPAL_LIKELY(core->is_private)) {
        core->state = PML_TM_COMPLETING;
        mca_pml_tm_request_set_error(core);
        __atomic_store_n(&core->base->req_ompi.req_complete, REQUEST_COMPLETED, __ATOMIC_RELEASE);
        mca_pml_tm.fab->must_return |= 0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT);
    } else if (OPAL_LIKELY(0 != (mca_pml_tm.fast & PML_TM_FAST_COMPLETE) &&
                           NULL == core->base->req_ompi.req_complete_cb &&
                           !core->base->req_free_called)) {
        mca_pml_tm_complete(core, is_well);
    } else {
        mca_pml_tm_done_listed(core);
    }
}

/*
 * The transport is finished with the request; status and error are set.  Lock held.  The caller
 * must not access the request afterwards.
 */
static inline void mca_pml_tm_done(mca_pml_tm_core_t *core)
{
    mca_pml_tm_done_as(core, false);
}

/* The same, if the request has had no error since it became ACTIVE. */
static inline __attribute__((always_inline)) void mca_pml_tm_done_well(mca_pml_tm_core_t *core)
{
    mca_pml_tm_done_as(core, true);
}

/*
 * The progress thread (pml_tm_thread.c): the functions do nothing unless params.progress_thread is
 * set.  Lock not held.
 */
/* Make Open MPI use locks, before the fabric is opened. */
void mca_pml_tm_thread_announce(void);
int mca_pml_tm_thread_start(void);
void mca_pml_tm_thread_end(void);

/* Replace Open MPI's functions for MPI_Wait and MPI_Waitall, and restore them (pml_tm_wait.c). */
void mca_pml_tm_wait_open(void);
void mca_pml_tm_wait_close(void);

/* Texts for the user (pml_tm_help.c), and to print one of these topics. */
extern const fab_help_topic_t mca_pml_tm_help[];
void mca_pml_tm_show_help(const char *topic, ...);

/* Print the table of paths to the peers if params.verbose asks for it. */
void mca_pml_tm_show_paths(void);

/* Fail the peer because of a malformed message; `what` names the fault. */
void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what);

/* Set mca_pml_tm.idle, by params.wait, and what follows from it. */
void mca_pml_tm_choose_idle(void);

/*
 * Called after a poll that found nothing, if idle is not SPIN. pause: yield or sleep in a blocking
 * call. yield: for the progress function, which will be called again.
 */
void mca_pml_tm_pause(void);
void mca_pml_tm_yield(void);

/* Poll all of Open MPI, in a blocking call. */
void mca_pml_tm_poll_ompi(void);

/* fab_progress(), and what this PML has to do now and then. Lock held. */
int mca_pml_tm_progress_locked(void);

/* As mca_pml_tm_progress(), without yielding. */
int mca_pml_tm_poll_all(void);

/*
 * One poll of a blocking call that began without threads; polls_left has been counted down.  An MPI
 * session that was opened meanwhile may have brought threads.
 */
static inline void mca_pml_tm_poll(void)
{
    int events;

    if (OPAL_UNLIKELY(0 == (mca_pml_tm.fast & PML_TM_FAST_WAIT) ||
                      0 == mca_pml_tm.polls_left % PML_TM_POLLS_PER_PROGRESS ||
                      fab_is_threaded(mca_pml_tm.fab))) {
        events = mca_pml_tm_poll_all();
    } else {
        events = fab_poll(mca_pml_tm.fab);
        if (0 != events) {
            mca_pml_tm_complete_done();
        }
    }
    if (OPAL_UNLIKELY(PML_TM_SPIN != mca_pml_tm.idle)) {
        if (0 == events) {
            mca_pml_tm_pause();
        } else {
            mca_pml_tm.idle_polls = 0;
        }
    }
}

/*
 * May the request of a blocking call be private, so that only mca_pml_tm_wait() waits for it?  With
 * threads and fault tolerance, or without PML_TM_FAST_WAIT, Open MPI's function waits.
 */
static inline bool mca_pml_tm_may_be_private(void)
{
    return !fab_is_threaded(mca_pml_tm.fab) ||
           (0 != (mca_pml_tm.fast & PML_TM_FAST_WAIT) && !mca_pml_tm_is_fault_tolerant());
}

/* mca_pml_tm_wait() with threads. */
void mca_pml_tm_wait_threads(ompi_request_t *request);

/*
 * Poll for a microsecond with the lock held, unless another thread wants the lock.  True: the
 * request is complete.
 */
bool mca_pml_tm_wait_locked(const ompi_request_t *request);

/*
 * Progress until the request is complete, or until it cannot complete because a process failed; its
 * status then says so.  Lock not held.  Polls only pml tm, and all of Open MPI once every
 * params.progress_interval polls, whether these found something or not.
 */
static inline void mca_pml_tm_wait(ompi_request_t *request)
{
    if (OPAL_UNLIKELY(fab_is_threaded(mca_pml_tm.fab))) {
        mca_pml_tm_wait_threads(request);
        return;
    }
    while (!REQUEST_COMPLETE(request)) {
        if (OPAL_LIKELY(0 != --mca_pml_tm.polls_left)) {
            mca_pml_tm_poll();
        } else {
            mca_pml_tm_poll_ompi();
            if (OPAL_UNLIKELY(mca_pml_tm_is_request_failed(request))) {
                return;
            }
        }
    }
}

#endif /* PML_TM_H */
