/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine between a matcher and a device (offload_dev.h), and beside them the MPI rules,
 * plainly: who was posted and who arrived when, and who may match whom.  The tests take steps, in
 * whatever order; each step is followed by all checks.
 *
 * Checked at every match, be it the device's or software's (numbers as in doc/offload.md):
 *  I1 the message fits the receive;
 *  I2 neither was used before;
 *  I3 no older message of that source that fits the receive is waiting;
 *  I4 no older receive that the message fits is waiting, unless it turns out cancelled, or to be
 *  for a message that was here before;
 * and after every step:
 *  I5 no message waits in the matcher that a waiting receive fits;
 *  I6 a cancelled receive is cancelled or completed, once;
 *  I7, I8 the device has nothing to complain about (full queues, freed handles, old counts);
 *  the engine's own invariants (head of offload.c).
 *
 * The structure holds everything, without allocated memory, so that a test may copy it away and
 * back.
 */
#ifndef TM_OFFLOAD_WORLD_H
#define TM_OFFLOAD_WORLD_H

#include "offload_dev.h"

#ifndef WORLD_RECVS
#define WORLD_RECVS 4
#endif
#ifndef WORLD_MSGS
#define WORLD_MSGS 5
#endif
#ifndef WORLD_SCOPES
#define WORLD_SCOPES 1
#endif
#define WORLD_SELF 3 /* the source behind another path; those below are behind the device */
#ifndef WORLD_RING
#define WORLD_RING 32
#endif

typedef enum ref_state {
    REF_FREE = 0,
    REF_WAITING, /* posted, or arrived, and not matched */
    REF_MATCHED,
    REF_CANCELLED
} ref_state_t;

/* What MPI knows of a receive. */
typedef struct ref_recv {
    uint8_t state;     /* ref_state_t */
    bool is_cancelled; /* MPI_Cancel was called, the answer is open */
    bool is_mine;      /* the engine has given it back */
    /* a younger receive took a message that fits this one, on condition that ... */
    bool is_skipped;
    int8_t allowed; /* ... this one gets this message, or (-1) none */
    int8_t msg;     /* MATCHED */
    uint8_t scope;
    uint8_t reason; /* it was posted with */
    int32_t source;
    int32_t tag;
    uint64_t order; /* of posting */
} ref_recv_t;

typedef struct ref_msg {
    uint8_t state;
    uint8_t scope;
    bool by_device;
    bool is_asked_back; /* its sender wants to withdraw it */
    bool is_parked;     /* the engine keeps it, and has not said yet what became of it */
    int32_t source;
    int32_t tag;
    uint64_t order; /* of arrival */
} ref_msg_t;

typedef struct world {
    fab_offload_t engine;
    fab_offload_scope_t scope[WORLD_SCOPES];
    fab_match_dom_t dom[WORLD_SCOPES];
    fab_match_short_t posted_short[WORLD_SCOPES]; /* of dom: a world is copied as it is */
    hw_t dev;
    fab_offload_recv_t recv[WORLD_RECVS];
    fab_match_msg_t msg[WORLD_MSGS];
    ref_recv_t rrecv[WORLD_RECVS];
    ref_msg_t rmsg[WORLD_MSGS];
    uint32_t held_bufs; /* buffers that the engine wants held back */
    uint64_t order;
    bool is_black_box;
    bool is_forgotten;          /* the device, after a failure */
    unsigned long withdrawn[2]; /* messages: at once, by an event */
    unsigned long syncs;        /* commands that only report unexpected messages */
    unsigned long posted;       /* receives that found no message */
    unsigned long matched;      /* receives of which the engine knows that the device has */
    const char *error;          /* what went wrong first, or NULL */
    fab_tm_cmd_t ring[WORLD_RING];
    fab_offload_filter_t filter[WORLD_SCOPES][2];
} world_t;

typedef struct world_config {
    uint32_t slots;    /* of the device */
    uint32_t max_tags; /* as the engine believes; normally the same */
    uint32_t max_ops;
    uint32_t bufs;
    uint32_t report_every; /* the counters' modulus is four times this */
    uint16_t first_count;
    /* hold the engine to the MPI rules and the device's, not to its own invariants */
    bool is_black_box;
} world_config_t;

void world_init(world_t *w, const world_config_t *config);

/* Frees what a matcher may have allocated (many entries only). */
void world_fini(world_t *w);

/* Post receive i, which is free, on the domain; WORLD_SELF and FAB_MATCH_ANY are sources, too. */
void world_post(world_t *w, unsigned i, unsigned scope, int32_t source, int32_t tag,
                fab_offload_reason_t reason);
void world_cancel(world_t *w, unsigned i);

/* The sender wants message i back, which may be anywhere. */
void world_withdraw(world_t *w, unsigned i);

/*
 * Message i, which is free, arrives: by another path, or at the device.  False: the device cannot
 * take it.
 */
void world_other_path(world_t *w, unsigned i, unsigned scope, int32_t tag);
bool world_message(world_t *w, unsigned i, unsigned scope, int32_t source, int32_t tag,
                   bool is_split);

void world_execute(world_t *w);
void world_finish(world_t *w, uint32_t slot);

/* Poll up to n completions in one go; idle if there is none. */
void world_poll(world_t *w, unsigned n);

/* The device dies.  With dev.is_dead set, it dies as soon as a command is posted. */
void world_fail(world_t *w);

/* All that is under way comes to its end; then nothing may be left open. */
void world_settle(world_t *w);

/* Checks after a step; the functions above have done it. */
void world_check(world_t *w);

#endif /* TM_OFFLOAD_WORLD_H */
