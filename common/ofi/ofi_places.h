/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers, at the receiver: a matching device (fab_tm.h) of which one half is at the senders
 * (ofi_offers.h) and the memory is libfabric's.  doc/ofi.md says why this is safe.
 *
 * ADD takes a place: the memory is handed to libfabric as a tagged receive whose tag is the offer's
 * number, and the sender gets the offer.  A message that names the offer is the match; its data has
 * come, or will come, to that memory.  What the sender does not know of, it cannot name: a place
 * without offer is on the list and is never matched, and so are all that come after it, until they
 * are offered in their order.
 *
 * DEL cancels the tagged receive and withdraws the offer; the sender answers GONE, behind any
 * message that named the offer.  Such a message matches nothing: it is unexpected, and its data is
 * received to be thrown away.  It may then take another receive in software, into whose memory
 * nothing may have come meanwhile.  So a signaled DEL (MPI_Cancel) takes the memory of all places
 * of that sender back, the youngest first, before it is done.  The offers are withdrawn, and made
 * anew when all are answered; while an answer is awaited nothing is offered.  A DEL that is not
 * signaled follows a message that named nothing, so its offer is not named any more.
 *
 * A state machine: what it does to libfabric, to the sender and to the user goes through
 * fab_ofi_places_ops_t.  No memory of its own.
 */
#ifndef FAB_OFI_PLACES_H
#define FAB_OFI_PLACES_H

#include <sys/queue.h>

#include "fabric/fab_tm.h"

typedef struct fab_ofi_place fab_ofi_place_t;
typedef struct fab_ofi_places fab_ofi_places_t;
typedef TAILQ_HEAD(fab_ofi_place_queue, fab_ofi_place) fab_ofi_place_queue_t;

/* What comes from one sender. */
typedef struct fab_ofi_source {
    fab_ofi_place_queue_t places;     /* in the order of the ADDs */
    uint32_t num_offered;             /* offers that may be named */
    uint32_t num_gone;                /* offers whose GONE is awaited */
    uint32_t num_unoffered;           /* places on the list without an offer */
    uint32_t num_cancelling;          /* tagged receives being cancelled */
    TAILQ_ENTRY(fab_ofi_source) link; /* in places->unoffered, if num_unoffered > 0 */
} fab_ofi_source_t;

typedef enum fab_ofi_io {
    FAB_OFI_IO_NONE = 0,
    FAB_OFI_IO_WANTED,     /* to be handed to libfabric, which had no room */
    FAB_OFI_IO_POSTED,     /* libfabric has it */
    FAB_OFI_IO_CANCELLING, /* and is to give it back */
    FAB_OFI_IO_LANDED,     /* data has come */
} fab_ofi_io_t;

struct fab_ofi_place {
    TAILQ_ENTRY(fab_ofi_place) link; /* in source->places, or free */
    fab_ofi_source_t *source;        /* NULL: it is gone */
    fab_tm_recv_t *recv;             /* NULL: the user has it back */
    uint32_t index;
    uint32_t id;    /* of the offer */
    uint8_t io;     /* fab_ofi_io_t */
    bool is_used;   /* not free */
    bool is_listed; /* its match or its DEL is to come */
    bool is_unoffered;
    bool is_offered;  /* may be named */
    bool is_gone;     /* withdrawn: GONE is to come */
    bool is_matched;  /* by a message that named it: hdr */
    bool is_deleting; /* a signaled DEL waits for its outcome */
    bool is_cut;      /* which is success */
    bool is_junk;     /* the data of a message that named it in vain is to come */
    bool is_lost;     /* or never will: the session has ended */
    fab_hdr_t hdr;
    size_t len;    /* bytes of the offer, then of the message that named it */
    size_t landed; /* bytes: LANDED */
};

typedef enum fab_ofi_word { FAB_OFI_OFFER, FAB_OFI_WITHDRAW, FAB_OFI_PLACED } fab_ofi_word_t;

typedef struct fab_ofi_places_ops {
    /* Can the sender be told something? */
    bool (*can_tell)(void *ctx, const fab_ofi_source_t *source);
    void (*tell)(void *ctx, fab_ofi_place_t *place, fab_ofi_word_t word);
    /* A tagged receive with tag place->id; buf NULL: of data to throw away. False: no room now. */
    bool (*post)(void *ctx, fab_ofi_place_t *place, void *buf, size_t len);
    /* fab_ofi_places_landed() or _cancelled() follows. */
    void (*cancel)(void *ctx, fab_ofi_place_t *place);
    /* fab_tm_user_t. */
    bool (*matched)(void *ctx, fab_ofi_place_t *place, const fab_tm_match_t *match);
    bool (*done)(void *ctx, uint64_t wr_id, bool is_success);
} fab_ofi_places_ops_t;

/* A signaled command whose completion is to come. */
typedef struct fab_ofi_signal {
    uint64_t wr_id;
    fab_ofi_place_t *place; /* NULL: SYNC */
} fab_ofi_signal_t;

struct fab_ofi_places {
    const fab_ofi_places_ops_t *ops;
    void *ctx;
    fab_ofi_place_t *place; /* all */
    uint32_t num;           /* a power of two */
    uint32_t num_wanted;    /* WANTED */
    uint16_t handled;       /* unexpected messages, modulo 2^16 */
    uint16_t reported;      /* those that the user's last command was behind */
    uint32_t next_id;
    fab_ofi_place_queue_t free;
    TAILQ_HEAD(, fab_ofi_source) unoffered;
    fab_ofi_signal_t *signals; /* in order, a ring */
    uint32_t max_signals;      /* a power of two */
    uint32_t signals_head;
    uint32_t signals_tail;
};

/* place, signals, num and max_signals are the caller's and set; the memory is zero. */
void fab_ofi_places_init(fab_ofi_places_t *places);
void fab_ofi_source_init(fab_ofi_source_t *source);

/* ---- the user's commands -------------------------------------------------- */

/* fab_tm_ops_t.post; ADD: from this source. */
int fab_ofi_places_post(fab_ofi_places_t *places, const fab_tm_cmd_t *cmd,
                        fab_ofi_source_t *source);
/* fab_tm_device_t.release */
void fab_ofi_places_release(fab_ofi_places_t *places, fab_ofi_place_t *place);
/* An unexpected message is matched, or visible to matching: fab_tm_user_t.handled. */
static inline void fab_ofi_places_handled(fab_ofi_places_t *places)
{
    places->handled++;
}

/* The user goes: nothing is on the list any more. */
void fab_ofi_places_clear(fab_ofi_places_t *places);

/* ---- what the sender says ------------------------------------------------- */

typedef enum fab_ofi_named {
    FAB_OFI_NAMED_MATCH, /* it is for the receive behind the offer */
    FAB_OFI_NAMED_NONE,  /* the offer was withdrawn: the message is unexpected */
    FAB_OFI_NAMED_BAD    /* there is no such offer, or it is too short */
} fab_ofi_named_t;

/* A message of len bytes named an offer.  Calls matched(). */
fab_ofi_named_t fab_ofi_places_named(fab_ofi_places_t *places, fab_ofi_source_t *source,
                                     uint32_t id, fab_hdr_t hdr, size_t len);
/* False: it was not asked for. */
bool fab_ofi_places_gone(fab_ofi_places_t *places, fab_ofi_source_t *source, uint32_t id);
/* The session with the sender has ended: nothing more comes of it. */
void fab_ofi_places_drop(fab_ofi_places_t *places, fab_ofi_source_t *source);
/* The source's memory is about to go, after fab_ofi_places_drop(). */
void fab_ofi_places_forget(fab_ofi_places_t *places, fab_ofi_source_t *source);

/* ---- what libfabric says -------------------------------------------------- */

/* False: the sender sent other data than it had said. */
bool fab_ofi_places_landed(fab_ofi_places_t *places, fab_ofi_place_t *place, size_t len);
/* Cancelled, or failed: is_broken. */
void fab_ofi_places_cancelled(fab_ofi_places_t *places, fab_ofi_place_t *place, bool is_broken);

/* What may be done now, is done: between poll_begin() and poll_end(). Returns how much that was. */
int fab_ofi_places_step(fab_ofi_places_t *places);

/* Is libfabric to write to memory of this source's places? */
bool fab_ofi_places_is_busy(const fab_ofi_source_t *source);

#endif /* FAB_OFI_PLACES_H */
