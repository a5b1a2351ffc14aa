/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine's structures: a receive that may be listed, the scope of one communicator, the
 * engine of one device.
 *
 * A posted receive is in the matcher (match.h), or will be as soon as anybody looks there, and may
 * also be on the device's list.  Where it is:
 *
 *                     post, may be listed            command handed over
 *      OUT ──┬──────────────────────────▶ QUEUED ──────────────────────▶ LISTED
 *            │                              ▲  │
 *            │ blocked, or no room          │  │ taken, cancelled
 *            ├───────────▶ WAITING ─────────┘  └─▶ OUT
 *            │                │ taken, cancelled
 *            │                └─▶ OUT
 *            │ not for the device
 *            └───────────▶ PLAIN ─▶ OUT       taken, cancelled
 *
 *      LISTED ──┬─▶ OUT           the device matched it, its data is in
 *               ├─▶ MATCHED       the device matched it, its data is still to come ─▶ OUT
 *               ├─▶ OUT           an unexpected message took it
 *               ├─▶ CANCELLING    MPI_Cancel ─▶ OUT or MATCHED
 *               └─▶ UNLISTING     a message by another path took it ─▶ OUT or MATCHED
 *
 * doc/offload.md has the table of all transitions and why each is safe.
 */
#ifndef FAB_OFFLOAD_TYPES_H
#define FAB_OFFLOAD_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_tm.h"
#include "match/match_types.h"

typedef struct fab_offload fab_offload_t;
typedef struct fab_offload_scope fab_offload_scope_t;
typedef struct fab_offload_recv fab_offload_recv_t;

/*
 * Why a receive is not listed.  The caller gives a reason of the first group, or LISTABLE; the
 * engine itself finds those of the second group.  Each receive is counted once, under the first
 * reason that applies.
 */
typedef enum fab_offload_reason {
    FAB_OFFLOAD_LISTABLE,
    FAB_OFFLOAD_OTHER_PATH, /* no message of its source comes through the device */
    FAB_OFFLOAD_ANY_SOURCE, /* MPI_ANY_SOURCE, and not every source is behind the device */
    FAB_OFFLOAD_UNKNOWN,    /* its source is not known yet, nor by which path its messages come */
    FAB_OFFLOAD_SHORT,      /* than what is worth listing */

    FAB_OFFLOAD_BLOCKED,   /* an earlier receive that may match the same messages is not listed */
    FAB_OFFLOAD_LIST_FULL, /* the device's list, or its queue of commands */
    FAB_OFFLOAD_FAILED,    /* the device */
    FAB_OFFLOAD_REASON_MAX
} fab_offload_reason_t;

typedef enum fab_offload_state {
    /* the engine ignores it: not posted, or posted and not relevant to the device */
    FAB_OFFLOAD_OUT = 0,
    /* posted, never to be listed; counted in scope->plain, since it may block others */
    FAB_OFFLOAD_PLAIN,
    FAB_OFFLOAD_WAITING, /* posted, in scope->waiting and counted in scope->late */
    FAB_OFFLOAD_QUEUED,  /* posted, its ADD is built and not yet handed to the device */
    /* posted, its ADD is handed over: the device may match it at any moment */
    FAB_OFFLOAD_LISTED,
    /* the device matched it, data to come; not in the matcher any more, as all below */
    FAB_OFFLOAD_MATCHED,
    FAB_OFFLOAD_CANCELLING, /* a signaled DEL is under way for MPI_Cancel */
    FAB_OFFLOAD_UNLISTING   /* a signaled DEL is under way for the first message of scope->parked */
} fab_offload_state_t;

/* A receive, embedded in the caller's request. Zeroed memory is a receive in state OUT. */
struct fab_offload_recv {
    fab_match_recv_t match;
    /* tag, mask, data and len: set by the caller before fab_offload_post() of a listable receive */
    fab_tm_recv_t tm;
    /* The engine's. */
    fab_offload_scope_t *scope;
    /* WAITING: in scope->waiting; QUEUED and below: in engine->listed_recvs */
    fab_match_list_t link;
    /*
     * place in the ring of the ADD (QUEUED) or signaled DEL (is_del_queued); of a DEL handed over
     * its number
     */
    uint32_t at;
    uint8_t state;      /* fab_offload_state_t */
    bool has_matched;   /* CANCELLING, UNLISTING: the device's match was ahead of the DEL */
    bool has_data;      /* CANCELLING, UNLISTING: all data is in */
    bool is_del_queued; /* CANCELLING, UNLISTING: the DEL is built, not yet handed over */
};

static inline fab_offload_recv_t *fab_offload_recv_of(const fab_tm_recv_t *recv)
{
    return (fab_offload_recv_t *) ((char *) (uintptr_t) recv - offsetof(fab_offload_recv_t, tm));
}

/* ---- scope -------------------------------------------------------------- */

/* hash buckets of a filter: 1 KiB */
#define FAB_OFFLOAD_BUCKETS 256

/*
 * Counts receives by what they can match, to detect an overlap in O(1).  It may report an overlap
 * where there is none (two keys in a bucket), but never misses one.
 */
typedef struct fab_offload_filter {
    /* [is_internal]: by tag class, which never meet; a wildcard tag counts as a user's */
    uint32_t total[2];
    uint32_t pattern[4]; /* (s,t) (s,ANY) (ANY,t) (ANY,ANY) */
    /* by hash of (source, tag), wildcards included as FAB_MATCH_ANY */
    uint32_t bucket[FAB_OFFLOAD_BUCKETS];
} fab_offload_filter_t;

/* One communicator.  The caller's memory; it does not move. */
struct fab_offload_scope {
    fab_offload_t *engine;
    fab_match_dom_t *dom;
    fab_offload_filter_t *plain; /* PLAIN receives */
    fab_offload_filter_t *late;  /* WAITING receives */
    /*
     * LISTED receives that are not in the matcher yet, by match.order, oldest first; all are
     * younger than those in it
     */
    fab_match_list_t unfiled;
    uint32_t num_unfiled;
    fab_match_list_t waiting; /* WAITING receives; if two overlap, the older is ahead */
    /* messages by other paths that wait for `removing`; in order of arrival */
    fab_match_list_t parked;
    /* in engine->ready while only room is missing to list the first of waiting */
    fab_match_list_t ready;
    fab_match_list_t unpark; /* in engine->unpark while the first of parked may be matched */
    /* the receive that the first of parked is for, once its DEL succeeds; or NULL */
    fab_offload_recv_t *unlisting;
    /*
     * the first of parked, if its sender wants to withdraw it unless `unlisting` takes it; or NULL
     */
    fab_match_msg_t *withdrawn;
    uint32_t removing; /* signaled DELs under way: CANCELLING and UNLISTING receives */
};

/* ---- engine ------------------------------------------------------------- */

typedef struct fab_offload_config {
    const fab_tm_ops_t *ops;
    void *device;      /* for ops */
    uint32_t max_tags; /* receives on the list at a time */
    uint32_t max_ops;  /* commands between signaled completions that the device has room for */
    /* limit for unexpected messages between reports: a quarter of the counter's modulus, 2^14 */
    uint32_t report_every;
    uint32_t first_count; /* what the counter of a new device reads: 0 */
} fab_offload_config_t;

typedef struct fab_offload_counters {
    /* receives posted, by why they were not listed at once; [0]: listed */
    unsigned long long reason[FAB_OFFLOAD_REASON_MAX];
    unsigned long long listed_late; /* receives listed after waiting */
    unsigned long long matched;     /* by the device */
    /* listed receives that an unexpected message took */
    unsigned long long taken;
    /* messages by other paths that waited for a DEL */
    unsigned long long parked;
    unsigned long long lost_races; /* DELs that found the receive matched */
    /* ADDs refused by the device though there was room */
    unsigned long long refused;
} fab_offload_counters_t;

/* One device, that is one TM-SRQ. */
struct fab_offload {
    fab_offload_config_t config;
    /* unexpected messages through the device that the matcher has seen; 16 bits of it are sent */
    uint32_t handled;
    uint32_t reported; /* the count that the latest command handed over carried */
    uint32_t acked;    /* a count that a completed command carried: no older one is under way */
    uint32_t listed;   /* receives in states QUEUED to UNLISTING: each has, or will have, a slot */
    bool is_failed;
    bool is_polling;        /* between poll_begin and poll_end: nothing is handed over */
    bool is_refused;        /* an ADD was refused: wait for a slot or a completion */
    bool is_tracking;       /* `tracked` is under way */
    uint32_t posted;        /* commands handed over */
    uint32_t completed;     /* commands known to be complete */
    uint32_t run;           /* handed over since the latest signaled one */
    uint32_t run_max;       /* limit of run: then a signaled one is due */
    uint32_t signaled;      /* signaled commands under way */
    uint32_t tracked;       /* number of a signaled command ... */
    uint32_t tracked_count; /* ... and its count, for `acked` */

    /*
     * Commands built and not handed over: ADD and DEL only.  There is always room for one DEL per
     * listed receive.
     */
    fab_tm_cmd_t *ring;
    uint32_t ring_mask;
    uint32_t ring_head;
    uint32_t ring_tail;

    fab_match_list_t listed_recvs; /* all that `listed` counts */
    fab_match_list_t ready;        /* scopes */
    fab_match_list_t unpark;       /* scopes */
    fab_offload_counters_t counters;
};

/* ---- results ------------------------------------------------------------ */

typedef enum fab_offload_result {
    FAB_OFFLOAD_NOTHING = 0,
    FAB_OFFLOAD_COMPLETE,  /* the device's message is in recv's buffer, recv is the caller's */
    FAB_OFFLOAD_CANCELLED, /* recv is cancelled and the caller's */
    FAB_OFFLOAD_DELIVER,   /* recv takes msg, which was parked; both are the caller's */
    /* msg, which was parked, is the caller's: it was withdrawn for its sender */
    FAB_OFFLOAD_WITHDRAWN,
    FAB_OFFLOAD_UNEXPECTED, /* msg, which was parked, found no receive: it is in the domain now */
    FAB_OFFLOAD_LOST,       /* the device failed after it had matched recv: complete it in error */
    FAB_OFFLOAD_BROKEN      /* the device violated the protocol: fail it */
} fab_offload_result_t;

typedef struct fab_offload_event {
    fab_offload_result_t result;
    fab_offload_recv_t *recv;
    fab_match_msg_t *msg; /* DELIVER, WITHDRAWN, UNEXPECTED */
} fab_offload_event_t;

/* What became of MPI_Cancel. */
typedef enum fab_offload_cancel {
    /* matched, or counted as matched, or cancelled before: unchanged */
    FAB_OFFLOAD_NOT_POSTED = 0,
    FAB_OFFLOAD_DONE, /* cancelled */
    FAB_OFFLOAD_LATER /* an event will follow: CANCELLED or COMPLETE */
} fab_offload_cancel_t;

#endif /* FAB_OFFLOAD_TYPES_H */
