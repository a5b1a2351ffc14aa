/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching by a device: between the provider that has one (verbs: a TM-SRQ) and its one user,
 * which runs the offload engine (offload/offload.h).
 *
 * The user takes the device with fab_tm_use(), gives its operations to the engine, and gets
 * completions by the calls of fab_tm_user_t, from fab_progress(), with the lock held:
 *
 *      poll_begin, { handler of an unexpected message, handled | matched | done }..., poll_end
 *
 * Messages that the device did not match go to the handlers of their ids as on any provider.  Those
 * of FAB_AM_EAGER and FAB_AM_RNDV from peers with FAB_CAP_TM are those that the device counts:
 * handled() follows each of them.
 */
#ifndef FAB_TM_H
#define FAB_TM_H

#include "fabric/fab.h"

/* ---- the device's list -------------------------------------------------- */

/* A receive as the device knows it, part of the user's. */
typedef struct fab_tm_recv {
    /* The user's, unchanged while the receive is listed. */
    uint64_t tag;  /* the device matches (message's tag & mask) == tag */
    uint64_t mask; /* tag has no bit outside it */
    /* memory that a message may be put into as it is; NULL: it has a layout of its own */
    void *data;
    size_t len; /* bytes */
    /* The provider's, written when it takes the ADD. */
    void *place; /* what it holds for the receive, until the user gives it back; NULL: nothing */
    uint32_t handle;
} fab_tm_recv_t;

typedef enum fab_tm_op {
    FAB_TM_NOP = 0, /* never handed over: an ADD that was taken back */
    FAB_TM_ADD,
    FAB_TM_DEL,
    FAB_TM_SYNC
} fab_tm_op_t;

/* One command to the device.  All carry a count (IBV_OPS_TM_SYNC). */
typedef struct fab_tm_cmd {
    uint8_t op;          /* fab_tm_op_t */
    bool is_signaled;    /* never an ADD */
    uint16_t count;      /* unexpected_cnt */
    uint32_t handle;     /* DEL: which */
    uint64_t wr_id;      /* signaled: what fab_tm_user_t.done() wants back */
    fab_tm_recv_t *recv; /* ADD; its address is the recv_wr_id */
} fab_tm_cmd_t;

typedef struct fab_tm_ops {
    /*
     * Hand a command to the device, now: FAB_TM_POSTED, FAB_TM_BUSY (ENOMEM: list or command queue
     * full), or FAB_TM_DEAD.  Calls nothing of the user.
     */
    int (*post)(void *device, const fab_tm_cmd_t *cmd);
} fab_tm_ops_t;

enum { FAB_TM_POSTED = 0, FAB_TM_BUSY, FAB_TM_DEAD };

/* ---- completions -------------------------------------------------------- */

typedef enum fab_tm_kind {
    FAB_TM_EAGER, /* the message is there */
    /* the message is there: the device has read it, and notified the sender */
    FAB_TM_READ,
    FAB_TM_RNDV, /* the message is announced: rndv */
    /* as RNDV, but the program has written over rndv: the sender is to be asked again */
    FAB_TM_AGAIN,
    FAB_TM_LOST, /* nothing is there: the connection broke */
} fab_tm_kind_t;

/* One of the one or two completions of a receive that the device matched. */
typedef struct fab_tm_match {
    bool is_first; /* hdr is set */
    bool is_last;  /* nothing more comes for it: the following are set */
    fab_tm_kind_t kind;
    size_t len;       /* bytes that are there */
    const void *data; /* where; NULL: in the memory that the receive gave. Valid until release() */
    fab_hdr_t hdr;    /* id is not set */
    fab_peer_t *peer; /* the sender; NULL: it has failed or was closed */
    fab_rndv_t rndv;  /* FAB_TM_RNDV */
} fab_tm_match_t;

typedef struct fab_tm_user {
    void (*poll_begin)(void *ctx);
    /* is_idle: no completion came; poll_begin() may have been left out. */
    void (*poll_end)(void *ctx, bool is_idle);
    void (*handled)(void *ctx);
    /* May no buffers be given back to the device now? */
    bool (*must_hold)(void *ctx);
    /* The sender of messages with this tag that fit the receive; NULL: it is not known. */
    fab_peer_t *(*sender)(void *ctx, const fab_tm_recv_t *recv, uint64_t tag);
    /* These two return false for a completion that is impossible: the device is then given up. */
    bool (*matched)(void *ctx, fab_tm_recv_t *recv, const fab_tm_match_t *match);
    bool (*done)(void *ctx, uint64_t wr_id, bool is_success);
    /* The device has failed: nothing comes through it any more. */
    void (*failed)(void *ctx);
} fab_tm_user_t;

/* ---- taking the device -------------------------------------------------- */

typedef struct fab_tm_device {
    void *device; /* for the following */
    const fab_tm_ops_t *ops;
    uint32_t max_tags;
    uint32_t max_ops;
    size_t min_len; /* bytes; the parameter below which receives are not to be listed */
    size_t own_len; /* bytes; receives of this length are listed with memory of their own */
    /*
     * The receive is off the list for good, or what was matched has been taken: give up what was
     * held for it (its place).
     */
    void (*release)(void *device, void *place);
} fab_tm_device_t;

/*
 * Take the matching device of this process; user and ctx stay valid until it is given back (user
 * NULL).  False: there is none. The lock is held.
 */
FAB_EXPORT bool fab_tm_use(fab_t *fab, const fab_tm_user_t *user, void *ctx,
                           fab_tm_device_t *device);

#endif /* FAB_TM_H */
