/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl_fabric: the fabric as a BTL, for ob1 and one-sided MPI (osc/rdma).
 *
 * The files, from the ground: each uses only those above it (test/build/sources.sh).
 *
 *   btl_fabric_compat.h     releases of Open MPI
 *   btl_fabric_wire.h       the bytes that leave the process
 *   btl_fabric.c            the state that all share; endpoints
 *   btl_fabric_up.c         upcalls: what the layer above is to be told
 *   btl_fabric_mem.c        registered memory
 *   btl_fabric_target.c     put, get and atomic operations: the process whose memory they access
 *   btl_fabric_op.c         operations under way: their records, and their end
 *   btl_fabric_ways.c       how an operation is done: by the fabric, by messages, or offered first
 *   btl_fabric_rma.c        put, get and atomic operations: the process that starts them
 *   btl_fabric_staged.c     puts and gets from and to memory of a device
 *   btl_fabric_send.c       messages: descriptors, sending, receiving
 *   btl_fabric_progress.c   polling; waiting for operations
 *   btl_fabric_entry.h      what Open MPI, the fabric and the component call
 *   btl_fabric_module.c     the module: its table; processes come, go and fail
 *   btl_fabric_component.c  parameters and counters, opening the fabric
 *
 * Lock.  The fabric's lock (fab_lock()) covers everything here.  The layer above is never called
 * while it is held: messages, completions and failures for it go to a list of upcalls, which the
 * progress function runs.  There are two exceptions: if the fabric does a put or get at once
 * (mca_btl_fabric_do_now()), the callback runs before the BTL's function returns; and without
 * threads the progress function gives a message of a ring to the layer above where it lies.
 *
 * There is one module for all peers, whichever provider of the fabric reaches them.  Its limits and
 * flags are the same in all processes of a job, except what matters to the sender alone: the sizes
 * of messages and SEND_INPLACE (adapt_sizes()).
 */
#ifndef BTL_FABRIC_H
#define BTL_FABRIC_H

#include "btl_fabric_compat.h"

#include <stdatomic.h>
#include <sys/queue.h>

#include "btl_fabric_wire.h"
#include "fabric/fab_params.h"
#include "fabric/fab_spares.h"
#include "idmap/idmap.h"
#include "shm/shm_inl.h"

typedef struct mca_btl_fabric_up mca_btl_fabric_up_t;
typedef struct mca_btl_fabric_op mca_btl_fabric_op_t;
typedef struct mca_btl_fabric_msg mca_btl_fabric_msg_t;
typedef struct mca_btl_fabric_reply mca_btl_fabric_reply_t;
typedef struct mca_btl_base_endpoint_t mca_btl_fabric_ep_t;

/* One of these is called for each upcall, once. It takes over the object that embeds the upcall. */
typedef struct mca_btl_fabric_up_ops {
    void (*run)(mca_btl_fabric_up_t *up);  /* call the layer above; without the lock */
    void (*drop)(mca_btl_fabric_up_t *up); /* the module is finalized: free it; NULL: no need */
} mca_btl_fabric_up_ops_t;

/* A notification for the layer above, embedded in the object that it is about. */
struct mca_btl_fabric_up {
    mca_btl_fabric_up_t *next;
    const mca_btl_fabric_up_ops_t *ops;
};

/*
 * The place of an operation among those that a flush waits for, in the order in which they were
 * started.  It is left when the callback has returned: until then the layer above must keep what
 * the callback uses.
 */
typedef struct mca_btl_fabric_turn {
    struct mca_btl_fabric_turn *next;
    struct mca_btl_fabric_turn *prev; /* NULL: a flush does not wait for the operation */
    uint64_t number;
} mca_btl_fabric_turn_t;

/*
 * Counters, MPI_T performance variables btl_fabric_NAME: X(name, help).  Written under the fabric's
 * lock, or by atomic instructions; read at any time.
 */
#define BTL_FABRIC_COUNTERS(X)                                                                     \
    X(sends, "messages sent at once")                                                              \
    X(queued_sends, "messages queued for lack of room")                                            \
    X(in_place, "messages given to the layer above where they lay in shared memory, not copied")   \
    X(reused, "messages received of more than 16 KiB for which no new memory was needed")          \
    X(rma, "puts and gets that the fabric did (RDMA, CMA)")                                        \
    X(offered, "puts and gets offered to the target's CPU, to save a system call")                 \
    X(withdrawn, "of these, done without it, because it did not begin soon")                       \
    X(atomics, "atomic operations started")                                                        \
    X(no_rma, "puts and gets by messages because the peer's provider cannot do them")              \
    X(not_exposed, "puts and gets by messages because the target could not register the memory")   \
    X(rma_failed, "puts and gets that the fabric could not finish and that continued by messages") \
    X(refused, "operations refused for a while, as too many were under way with the process")      \
    X(flush_yields, "times that a flush gave the processor to others, when it had found nothing")

typedef struct mca_btl_fabric_counters {
#define BTL_FABRIC_COUNTER_FIELD(name, help) unsigned long long name;
    BTL_FABRIC_COUNTERS(BTL_FABRIC_COUNTER_FIELD)
#undef BTL_FABRIC_COUNTER_FIELD
} mca_btl_fabric_counters_t;

/* A process. Lives until the module is finalized: upcalls and operations refer to it. */
struct mca_btl_base_endpoint_t {
    mca_btl_fabric_ep_t *next; /* of all */
    fab_peer_t *peer;
    opal_proc_t *proc;                  /* NULL: it sent but was not added here, or was deleted */
    mca_btl_fabric_msg_t *part;         /* the message whose parts are arriving; NULL: none */
    LIST_HEAD(, mca_btl_fabric_op) ops; /* those that wait for the peer's answer */
    /* of these, those whose message was sent as counted, in order */
    STAILQ_HEAD(, mca_btl_fabric_op) counted;
    fab_item_t count;     /* while COUNT is to be sent */
    uint32_t num_counted; /* messages of the peer at which the next DONE is due; 0: none is */
    size_t outstanding;   /* operations whose callback has not returned */
    unsigned ignored;     /* times in a row that the target did nothing soon */
    unsigned skipped;     /* operations while that is often */
    unsigned heard;       /* mca_btl_fabric.polls when the latest answer to an offer came */
    bool is_deleted;      /* operations are under way; the peer is closed when they have ended */
    bool is_reporting;    /* failure is in the list of upcalls */
    bool is_reported;     /* the layer above knows that proc has failed */
    mca_btl_fabric_up_t failure; /* once it has failed: reports it */
    char *why;                   /* it failed; NULL: it did not, or there was no memory for it */
};

/* The message that the poll left in a ring, for the layer above to read in place. */
typedef struct mca_btl_fabric_retained {
    fab_retained_t *msg; /* NULL: there is none */
    mca_btl_fabric_ep_t *ep;
    const void *data;
    size_t len; /* bytes */
    mca_btl_base_tag_t tag;
} mca_btl_fabric_retained_t;

typedef struct mca_btl_fabric {
    mca_btl_base_module_t super;
    fab_t *fab;
    mca_btl_base_module_error_cb_fn_t error_cb;
    mca_btl_fabric_ep_t *eps;          /* all */
    _Atomic(mca_btl_fabric_up_t *) up; /* upcalls, oldest first */
    mca_btl_fabric_up_t **up_tail;
    mca_btl_fabric_retained_t retained;
    mca_btl_fabric_ep_t
        *latest;         /* whose message was retained last; NULL: none, or it was deleted */
    bool wants_retained; /* the progress function polls, and can give a message in place */
    bool is_giving;      /* the layer above has a message in place */
    fab_spares_t spares; /* memory of messages that have arrived */
    LIST_HEAD(, mca_btl_fabric_op) free_ops;
    /* operations whose callback has not returned; relaxed: a hint without the lock */
    _Atomic size_t outstanding;
    mca_btl_fabric_turn_t turns; /* head of the circular list, oldest first */
    uint64_t last_turn;          /* number of the latest one */
    _Atomic uint64_t oldest;     /* number of the oldest one in the list; UINT64_MAX: none */
    size_t num_rma;              /* operations, and sends from memory, that the fabric is doing */
    TAILQ_HEAD(, mca_btl_fabric_op) offers;    /* oldest first */
    unsigned polls;                            /* number of polls so far */
    uint64_t full_ticks;                       /* when everything was polled last (fab_ticks()) */
    fab_idmap_t ids;                           /* mca_btl_fabric_op_t */
    fab_idmap_t mems;                          /* mca_btl_base_registration_handle_t */
    LIST_HEAD(, mca_btl_fabric_reply) replies; /* data of gets of others that waits for room */
    opal_free_list_t frags_eager;
    opal_free_list_t frags_max;
    mca_btl_fabric_counters_t counters;
    bool is_named; /* the user names btl fabric (parameter btl) */
    int output;    /* stream of pml_tm_verbose */
} mca_btl_fabric_t;

extern mca_btl_fabric_t mca_btl_fabric;

/*
 * May peers be reached by btl fabric?  It is installed for all jobs on the machine, and osc/rdma
 * prefers it to others, so it serves only jobs that want it: the PML uses the fabric as well, or
 * the user names btl fabric.
 */
static inline bool mca_btl_fabric_is_wanted(void)
{
    return NULL != mca_btl_fabric.fab &&
           (mca_btl_fabric.is_named || fab_is_started(mca_btl_fabric.fab, FAB_USER_PML));
}

/*
 * May others need the processor while this process waits?  If the layer above yields, as it may be
 * told after the BTL was opened, or the job has more processes here than there are processors, the
 * fabric is told, too.  Lock held.
 */
static inline bool mca_btl_fabric_is_yielding(void)
{
    mca_btl_fabric.fab->is_yielding |= opal_progress_yield_when_idle;
    return mca_btl_fabric.fab->is_yielding;
}

/* ---- endpoints; the lock is held ---------------------------------------- */

/* The endpoint of a peer, created at the first call; NULL: no memory. */
mca_btl_fabric_ep_t *mca_btl_fabric_ep_of(fab_peer_t *peer);

/* Close the peer of a deleted endpoint if no operation needs it any more. */
void mca_btl_fabric_ep_close_if_idle(mca_btl_fabric_ep_t *ep);

/* Fail the peer because of an invalid message; `what` says what is wrong with it. */
void mca_btl_fabric_bad_message(fab_peer_t *peer, const char *what);

/* Fail the peer because there is no memory for what it sent. */
void mca_btl_fabric_no_memory(fab_peer_t *peer);

#endif /* BTL_FABRIC_H */
