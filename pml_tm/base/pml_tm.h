/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pml_tm: MPI point-to-point messages over the fabric.
 *
 * The folders and files, from the ground: each uses only those above it (test/build/sources.sh).
 *
 *   base/                    what all others stand on
 *   pml_tm_compat.h          releases of Open MPI
 *   pml_tm_shared.h          what the tools use as well
 *   pml_tm_fit.c             was it built for the Open MPI that runs?
 *   pml_tm_help.c            what the user is told, by topic
 *   pml_tm_tags.c            names of collective operations; what waits, in words
 *   pml_tm_wire.h            the bytes that leave the process
 *   pml_tm_sizes.h           the sizes at which a message's way changes
 *   pml_tm_params.c          parameters
 *   pml_tm_counters.h        counters
 *   pml_tm.c                 the state that all share
 *
 *   peer/                    the others
 *   pml_tm_peer.c            processes: from ompi_proc_t to fabric peer; records of peers
 *   pml_tm_comm.c            communicators: from context id to matching domain
 *   pml_tm_excid.c           communicators whose context ids differ between processes
 *
 *   request/                 what a call asked for
 *   pml_tm_offload.h         a device that matches tags, as one table
 *   pml_tm_blocks.c          data types that are blocks of memory
 *   pml_tm_request.c         requests: taking, completing, freeing
 *   pml_tm_failure.c         peers that failed, revoked communicators: what they refuse
 *
 *   data/                    a message that has its receive
 *   pml_tm_deliver.c         data into the user's buffer; the end of a receive
 *   pml_tm_rndv.c            rendezvous, both sides
 *
 *   arrive/                  a message, until it has its receive
 *   pml_tm_flow.c            flow control of unexpected messages
 *   pml_tm_msg.c             from a message to its receive, or kept until a receive matches it
 *   pml_tm_stream.c          messages streamed in fragments, both sides
 *   pml_tm_arrive.c          messages from the wire
 *   pml_tm_offload_engine.c  receives on a device that matches tags
 *
 *   wait/                    until something comes
 *   pml_tm_idle.c            what a call waits for, and does after a poll that found nothing
 *   pml_tm_progress.c        polling; waiting for a request
 *   pml_tm_thread.c          the progress thread
 *
 *   calls/                   what the program calls
 *   pml_tm_cancel.c          cancel of sends, both sides
 *   pml_tm_send.c            all sends
 *   pml_tm_recv.c            all receives, cancel of these
 *   pml_tm_probe.c           probe and matched probe
 *   pml_tm_wait.c            MPI_Wait, MPI_Waitall, MPI_Test, MPI_Testany
 *
 *   report/                  what waits
 *   pml_tm_text.c            what reports are written with
 *   pml_tm_state.c           what waits in this process: one list of records, also as text
 *   pml_tm_nodes.c           processes ask each other: which waits for which, which is stuck
 *   pml_tm_hang.c            a report of a wait that takes long: what it says, when, step by step
 *   pml_tm_report.c          a table for the job at its end, and advice
 *
 *   beside the folders
 *   pml_tm_end.c             what a failure, MPIX_Comm_revoke and the end of this process end
 *   pml_tm_module.c          the module: peers and communicators come and go; persistent requests
 *   pml_tm_component.c       parameters and counters, selection, opening the fabric
 *
 * Lock.  There is one, the fabric's (fab_lock()): it covers the fabric, the matching domains, the
 * id map, the communicator table and the state of every request from its start until it is done.
 * No user code and no callback of Open MPI runs under it: finished requests go to a list, and
 * mca_pml_tm_complete_done(), called after the lock was released, completes them.  Without
 * MPI_THREAD_MULTIPLE taking the lock costs one predicted branch.
 */
#ifndef PML_TM_H
#define PML_TM_H

#include "pml_tm/base/pml_tm_compat.h"

#include <stdatomic.h>

#include "fabric/fab.h"
#include "fabric/fab_params.h"
#include "fabric/fab_spares.h"
#include "idmap/idmap.h"
#include "match/match.h"

#include "pml_tm/base/pml_tm_counters.h"
#include "pml_tm/base/pml_tm_params.h"
#include "pml_tm/base/pml_tm_shared.h"
#include "pml_tm/base/pml_tm_wire.h"

typedef struct mca_pml_tm_comm mca_pml_tm_comm_t;
typedef struct mca_pml_tm_core mca_pml_tm_core_t;
typedef struct mca_pml_tm_excid mca_pml_tm_excid_t;
typedef struct mca_pml_tm_failure mca_pml_tm_failure_t;
typedef struct mca_pml_tm_msg mca_pml_tm_msg_t;
typedef struct mca_pml_tm_offload mca_pml_tm_offload_t;
typedef struct mca_pml_tm_peer mca_pml_tm_peer_t;
typedef struct mca_pml_tm_recv_request mca_pml_tm_recv_request_t;
typedef struct mca_pml_tm_stream mca_pml_tm_stream_t;

/* What a waiting call does after a poll that found nothing: params.wait. */
typedef enum mca_pml_tm_idle {
    PML_TM_SPIN,  /* poll on */
    PML_TM_YIELD, /* yield the processor */
    PML_TM_SLEEP, /* yield, and sleep after many such polls */
} mca_pml_tm_idle_t;

/* Requests that the transport is finished with, oldest first. */
typedef struct mca_pml_tm_done_list {
    mca_pml_tm_core_t *head;
    mca_pml_tm_core_t **tail;
    /* written under the lock; read without it, to see whether taking the lock is worthwhile */
    atomic_uint count;
} mca_pml_tm_done_list_t;

/* Of this many polls of a blocking call, one polls everything in the fabric. */
#define PML_TM_POLLS_PER_PROGRESS 16

enum { PML_TM_SHORT_LENGTHS = 64 }; /* more than FAB_SHORT_MAX */

typedef struct mca_pml_tm {
    const mca_base_component_t *component; /* the name of its addresses in the modex */
    int output;                            /* stream of params.verbose */
    fab_t *fab;
    unsigned fast; /* PML_TM_FAST_*: those in use */
    mca_pml_tm_idle_t idle;
    /* a blocking receive looks so often at its sender's ring before it is posted */
    unsigned looks;
    bool is_pausing; /* with a pause between two of them */
    /* processors that the job's processes on this host share, if params.wait is auto */
    double cpus;
    atomic_uint thread_polls;  /* empty polls of Open MPI's progress, with threads */
    atomic_uint thread_waits;  /* threads in mca_pml_tm_wait_threads() */
    unsigned max_thread_waits; /* with more than these, threads share processors */
    /* the one thread that has waited so far: its mca_pml_tm_waiting(); this struct: several have */
    _Atomic(const void *) only_thread;
    unsigned locked_polls;      /* polls of waiting threads; lock: the fabric's */
    unsigned idle_polls;        /* polls of blocking calls since one found something */
    bool was_woken;             /* an event ended the last sleep */
    uint64_t yielded_ns;        /* end of the last yield in a blocking call */
    unsigned progress_interval; /* polls of pml tm for one of all of Open MPI, when it waits */
    unsigned polls_left;        /* polls of blocking calls until one polls all of Open MPI */
    /* polls of calls that return until one polls everything; lock: the fabric's */
    unsigned light_left;
    unsigned light_unread;       /* ... until one reads the clock; lock: the same */
    unsigned light_close;        /* ... that read it, each close to the last; lock: the same */
    uint64_t light_read;         /* fab_ticks() when one did; lock: the same */
    uint64_t light_until;        /* fab_ticks(); lock: the same */
    bool has_yielded;            /* since everything was polled; without threads */
    mca_pml_tm_done_list_t done; /* requests that wait for mca_pml_tm_complete_done() */
    fab_idmap_t ids;
    mca_pml_tm_comm_t **comms;      /* by context id */
    uint32_t num_comms;             /* length of comms */
    uint32_t max_context;           /* context ids are below */
    mca_pml_tm_comm_t *excid_comms; /* those that have an extended id */
    mca_pml_tm_comm_t *left_comms;  /* those that Open MPI freed though requests may hold them */
    const mca_pml_tm_offload_t *offload; /* a device that matches tags; NULL: there is none */
    unsigned source_bits;                /* of the fabric tag */
    uint64_t match_mask;   /* the tag's bits for source and MPI tag: fab_match_key() of a message */
    uint32_t short_max;    /* bytes; longest send that goes straight into a ring */
    uint32_t eager_limit;  /* bytes; params.eager_limit as it is compared */
    uint32_t whole_limit;  /* bytes; longer ones inside a host may be announced all the same */
    uint32_t stream_limit; /* bytes; longest message that is streamed */
    fab_match_dom_t early; /* messages for communicators not added yet (pml_tm_msg.c) */
    mca_pml_tm_msg_t *msg_cache;   /* free short ones */
    unsigned msg_cached;           /* how many */
    fab_spares_t spares;           /* for long ones */
    mca_pml_tm_stream_t *streams;  /* messages that are arriving in fragments */
    size_t unexpected_bytes;       /* held in unexpected and early messages */
    mca_pml_tm_peer_t *peers;      /* records of peers that have one */
    bool is_ending;                /* unexpected messages are dropped (pml_tm_end.c) */
    bool is_end_told;              /* the user knows that not all was completed */
    unsigned sends_since_progress; /* see send_progress() */
    /* a queued send's turn (pml_tm_send.c), by which pml_tm_flow.c tells it from other items */
    int (*send_item)(fab_item_t *item, fab_peer_t *peer);
    unsigned num_throttled;                   /* number of peers that are throttled */
    unsigned num_gets;                        /* under way in the fabric */
    _Atomic(mca_pml_tm_failure_t *) failures; /* peers that failed, not handled yet */
    mca_pml_tm_params_t params;
    mca_pml_tm_counters_t counters;
    /*
     * messages sent (mca_pml_tm_sent_by() sums them up): eager ones that went straight into a ring,
     * those of up to FAB_SHORT_MAX bytes by their length, which costs one instruction more than a
     * plain counter; all others
     */
    unsigned long long short_sent[PML_TM_SHORT_LENGTHS];
    mca_pml_tm_sent_t ring_sent;
    mca_pml_tm_sent_t sent[PML_TM_PROTOCOLS][FAB_NUM_PROVIDERS];
    uint32_t posted_max; /* of communicators that were freed: most receives posted at once */
    uint32_t unexp_max;  /* ... most unexpected messages at once */
    mca_pml_tm_core_t *free_recvs; /* free requests of receives */
    /* looks now and then at what waits (pml_tm_hang.c); NULL: not open */
    void (*tick)(void);
    atomic_uint tick_polls; /* empty polls of all of Open MPI since the last tick */
    uint64_t begin_ns;      /* when it was enabled */
    bool is_enabled;
    bool has_device_memory; /* a program may pass memory that only the convertor can copy */
} mca_pml_tm_t;

extern mca_pml_tm_t mca_pml_tm;

/* Does the data have no gaps? */
static inline bool mca_pml_tm_has_no_gaps(size_t count, const ompi_datatype_t *datatype)
{
    /* that function takes a 32-bit count, and only tests whether it is more than one */
    return opal_datatype_is_contiguous_memory_layout(&datatype->super, count > 1 ? 2 : 1);
}

/*
 * Can the data be used in place?  If so, *data is its first byte.  If not, it has gaps or is in
 * memory of a device, and the convertor copies it.  *len is its length in bytes, in either case.
 */
static inline bool mca_pml_tm_is_contiguous(const void *buf, size_t count,
                                            const ompi_datatype_t *datatype, char **data,
                                            size_t *len)
{
    *len = count * datatype->super.size;
    *data = (char *) buf + datatype->super.true_lb;
    return 0 == *len ||
           (mca_pml_tm_has_no_gaps(count, datatype) &&
            (OPAL_LIKELY(!mca_pml_tm.has_device_memory) || !fab_is_device_address(*data)));
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

/*
 * How many messages this process has sent by this protocol.  Read without the lock, by MPI_T, a sum
 * may lack the last messages.
 */
unsigned long long mca_pml_tm_sent_by(mca_pml_tm_protocol_t protocol);

/* All messages by this provider; adds to *sent, and returns how many are in it.  Lock held. */
unsigned long long mca_pml_tm_sent_through(unsigned provider, mca_pml_tm_sent_t *sent);

/* Fail the peer because of a malformed message; `what` names the fault. */
void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what);

#endif /* PML_TM_H */
