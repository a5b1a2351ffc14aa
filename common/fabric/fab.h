/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: how two processes of an MPI job exchange messages and memory.
 *
 * Above it stand its users, pml_tm (MPI point-to-point) and btl_fabric; below it one provider per
 * way to a peer: self, shm (same host), ofi (libfabric), verbs (RDMA devices), tcp.  A peer is
 * reached by exactly one provider for ordered traffic, chosen when the peer is opened.  It changes
 * to the next one if that one cannot connect and nothing was sent, or after a connection that ended
 * in order (fab_move.c): eager_max and caps change with it, and keys made by fab_expose() before
 * are of no use any more.
 *
 *      pml_tm    btl_fabric          upcalls: active message handlers, RMA completion, offloaded
 *         │           │                         receive matched or its data valid, peer failed
 *         ▼           ▼                              ▲
 *      fab_send  fab_reserve/commit  fab_queue  fab_get/put  fab_progress
 *         └───────────┴──── one fab_ops_t per provider (fab_provider.h) ────┘
 *
 * Messages.  A message is a 16-byte header, fab_hdr_t, with the fields of a verbs TM header (TMH):
 * an id (the TMH opcode), a 32-bit app_ctx and a 64-bit tag, and up to fab_peer_t.eager_max bytes
 * of payload.  Ids below FAB_AM_FIRST_USER are those of the TMH, which matching hardware
 * understands; the others are active messages, for which tag and app_ctx are 12 bytes of arguments.
 * Messages of a peer arrive exactly once, in the order in which they were sent.
 *
 * RMA operations (get, put) are not ordered with messages or with each other.  A completed put has
 * reached the peer's memory: the receiver of a later message sees its data.
 *
 * Users.  Each user opens the fabric separately, with its own callbacks, handlers (by range of ids)
 * and pointer in the peer records.  A peer is closed when all users that opened it have closed it.
 * Users may open and close the fabric at any time: messages for a user that has not started are
 * kept, those for a user that has closed the fabric are dropped.
 *
 * Hardware tag matching (verbs, TM-SRQ) adds fab_tm.h and changes nothing else: receives are listed
 * on the device, and its matches come back as upcalls.  Messages that the device does not match
 * arrive through the handlers of ids 0 to 3, as on any provider.  This is why tagged messages have
 * TMH fields on every provider.
 *
 * Threads.  One lock, the fabric's, covers peers, providers and the state that users access in
 * their handlers. fab_lock() takes it.  Callers of every function below must hold it, unless the
 * comment says otherwise.  It costs nothing unless *fab_config_t.is_threaded.  Handlers and
 * completions run with it held, from fab_progress() or, on the self provider, from within
 * fab_send() and fab_commit(); they may send, queue and start RMA, and must not block, call
 * fab_progress() or run user code.
 *
 * Errors.  OPAL error codes.  OPAL_ERR_RESOURCE_BUSY is no error: a bounded resource is used up at
 * the moment and nothing was done; fab_queue() an item, or try again after fab_progress().  As soon
 * as a peer has failed, every operation on it returns OPAL_ERR_UNREACH.  The next fab_progress()
 * reports the failure once (fab_config_t.peer_failed), ends the peer's RMA with an error, and runs
 * its queued items so that they see the error.
 *
 * The provider checks those bytes from other processes that the fabric understands (lengths,
 * ids, states); handlers must check tag, app_ctx and payload.
 */
#ifndef FAB_H
#define FAB_H

#include "opal_config.h" /* first: it defines _GNU_SOURCE */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

#include "opal/constants.h"

#include "fabric/fab_export.h"
#include "fabric/fab_lock.h"

/* The users of the fabric in this process. */
typedef enum fab_user {
    FAB_USER_PML,  /* ids below FAB_AM_BTL, without the providers' */
    FAB_USER_BTL,  /* from there on */
    FAB_NUM_USERS, /* also: no user */
} fab_user_t;

typedef struct fab fab_t;
typedef struct fab_peer fab_peer_t;
typedef struct fab_ops fab_ops_t;
typedef struct fab_rma fab_rma_t;

typedef STAILQ_HEAD(fab_rma_queue, fab_rma) fab_rma_queue_t;

/* ---- messages ----------------------------------------------------------- */

enum {
    /* TMH NO_TAG: tagged message that hardware must not match (extended communicator ids) */
    FAB_AM_NO_TAG = 0,
    /* TMH RNDV: request to send by rendezvous; payload: fab_rndv_t, then the user's bytes */
    FAB_AM_RNDV = 1,
    FAB_AM_FIN = 2,      /* TMH FIN: a rendezvous was fetched; app_ctx is that of the request */
    FAB_AM_EAGER = 3,    /* TMH EAGER: tagged message with its data */
    FAB_AM_PROVIDER = 4, /* 4..7: a provider's own */
    FAB_AM_FIRST_USER = 8,
    FAB_AM_PML = 8,  /* 8..23: pml_tm */
    FAB_AM_BTL = 24, /* 24..31: btl_fabric */
    FAB_AM_MAX = 32,
};

/* Message header; the fields of struct ibv_tmh. Passed by value: it fits two registers. */
typedef struct fab_hdr {
    uint8_t id; /* FAB_AM_* */
    uint8_t reserved[3];
    uint32_t app_ctx;
    uint64_t tag;
} fab_hdr_t;

_Static_assert(16 == sizeof(fab_hdr_t), "fab_hdr_t has the size of a TMH");

/*
 * Build a header from two words.  Written member by member and then read as a whole, it would wait
 * until all earlier stores, such as those of a payload, have reached the cache (store forwarding).
 */
static inline fab_hdr_t fab_hdr_of(uint64_t id_and_ctx, uint64_t tag)
{
    uint64_t words[2] = {id_and_ctx, tag};
    fab_hdr_t hdr;

    memcpy(&hdr, words, sizeof(hdr));
    return hdr;
}

_Static_assert(0 == offsetof(fab_hdr_t, id) && 4 == offsetof(fab_hdr_t, app_ctx) &&
                   8 == offsetof(fab_hdr_t, tag),
               "fab_hdr_of() relies on it");

static inline fab_hdr_t fab_hdr(uint8_t id, uint64_t tag, uint32_t app_ctx)
{
    return fab_hdr_of(id | (uint64_t) app_ctx << 32, tag);
}

/* A provider's key for exposed memory of a peer; opaque to all others, and sent unchanged. */
typedef struct fab_rkey {
    uint8_t bytes[32];
} fab_rkey_t;

/* Start of the payload of FAB_AM_RNDV: the contents of an RVH, without its 4 GiB limit. */
typedef struct fab_rndv {
    /*
     * address of the data in the sender's memory, for fab_get(); 0: data can only be sent (not
     * contiguous)
     */
    uint64_t addr;
    uint64_t len; /* bytes */
    fab_rkey_t rkey;
} fab_rndv_t;

_Static_assert(48 == sizeof(fab_rndv_t), "fab_rndv_t is a wire format");

/* Declares a function by the type of a table's pointers to it, which have the arguments. */
#define FAB_FUNCTION(pointer_type, name) __typeof__(*(pointer_type) 0) name

/* The structure of this type of which `pointer` points to this member. */
#define FAB_CONTAINER_OF(pointer, type, member)                                                    \
    ((type *) ((char *) (pointer) -offsetof(type, member)))

/*
 * A message arrived.  data..data+len is the payload in place, 8-byte aligned, valid until the
 * handler returns. peer is the sender; a peer that this process never opened gets its record from
 * the first message.
 */
typedef void (*fab_am_fn_t)(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);

/* Set the handler of an id.  Of a user's id it runs only after the user has called fab_start(). */
FAB_EXPORT void fab_set_handler(fab_t *fab, uint8_t id, fab_am_fn_t fn, void *ctx);

/*
 * The user has set its handlers: within this call, deliver the messages that were kept for it.
 * From now on its messages are delivered as they arrive, and a message whose id has no handler
 * fails its sender.
 */
FAB_EXPORT void fab_start(fab_t *fab, fab_user_t user);

/*
 * A message has begun to arrive: returns the destination for its payload of len bytes, or NULL for
 * anywhere.  The provider owns that memory until it calls the handler, with data at the
 * destination, or until the peer is gone (fab_peer_is_gone()).  The call has no other effect: the
 * message may still arrive elsewhere.
 */
typedef void *(*fab_place_fn_t)(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len);

/* Set the function that gives the destination of messages with this id. */
FAB_EXPORT void fab_set_place(fab_t *fab, uint8_t id, fab_place_fn_t fn, void *ctx);

/* ---- the process's fabric ----------------------------------------------- */

struct fab_handler {
    fab_am_fn_t fn;
    void *ctx;
};

/* A process's name in the fabric, derived from its Open MPI name. */
static inline uint64_t fab_name(uint32_t job, uint32_t rank)
{
    return (uint64_t) job << 32 | rank;
}

struct fab_placer {
    fab_place_fn_t fn; /* NULL: anywhere */
    void *ctx;
};

typedef struct fab_config {
    fab_user_t user; /* the user that opens the fabric */
    /* this process's name, unique among all processes that it will ever meet: fab_name() */
    uint64_t name;
    /* processes of the job on this host, this one included: sizes the default of shm rings */
    uint32_t num_local;
    /* rank of this process among them: with several devices, processes take them in turn */
    uint32_t local_rank;
    uint32_t num_procs; /* processes of the job on all hosts; 0: not known */
    /*
     * Several threads may call (opal_uses_threads); the same for all users.  It may become true
     * later, when an MPI session asks for threads.  NULL: never.
     */
    const bool *is_threaded;
    uint64_t shm_abi; /* FAB_SHM_ABI, if the user includes shm_inl.h; else 0 */
    /* the job goes on when one of its processes fails (fault tolerance) */
    bool outlives_peers;
    bool may_sleep; /* the user calls fab_sleep() */
    /* no MPI program: OPAL's memory hooks and its topology are not there, and tm_look shows none */
    bool is_tool;
    void *ctx; /* handed to the callbacks below */
    /*
     * A peer that this user has not closed has failed; rc is an OPAL error, why a sentence for the
     * user.  Called from fab_progress(), with the lock held.  NULL: never.
     */
    void (*peer_failed)(void *ctx, fab_peer_t *peer, int rc, const char *why);
    /*
     * A peer has left the job normally, and all that it sent was delivered.  Return true if a
     * pending operation of this user needs the peer, which then counts as failed.  May be called
     * again for the same peer.  Called as peer_failed().  NULL: never.
     */
    bool (*peer_left)(void *ctx, fab_peer_t *peer);
    /*
     * Another user has something that only its own progress function can do, or a poll took long:
     * this one, if it waits, is to call opal_progress() soon.  Called with the lock held.  NULL: it
     * always does.
     */
    void (*others_wait)(void *ctx);
    /* Something the user may want to know (verbose >= level); never an error.  NULL: silent. */
    void (*log)(void *ctx, int level, const char *text);
} fab_config_t;

/* The part of the fabric that users and providers see; the head of the fabric's own structure. */
struct fab {
    struct fab_handler handlers[FAB_AM_MAX];
    struct fab_placer placers[FAB_AM_MAX];
    fab_mutex_t lock;
    /*
     * what fab_poll() calls: the poll function of the only provider to poll, or all of
     * fab_progress()
     */
    int (*poll)(void *arg);
    void *poll_arg;
    const bool *is_threaded;
    /*
     * A handler sets it to stop further deliveries of this fab_progress() or fab_poll().  A hint: a
     * provider may finish its batch.
     */
    bool must_return;
    /* users that have called fab_start(); written under the lock, relaxed: a hint without it */
    _Atomic bool is_started[FAB_NUM_USERS];
    uint32_t events; /* of all providers in calls of fab_progress(), so far */
    uint32_t passes; /* calls of fab_progress(), so far */
    /*
     * Set by a user: a process whose poll finds nothing yields its processor, so each poll is to
     * look at all.
     */
    bool is_yielding;
    bool is_far;    /* set by a user for a fab_progress() that comes long after the one before */
    bool may_sleep; /* a user calls fab_sleep() */
    /* peers that were given to another provider, so far: their caps are others than they were */
    uint32_t num_moved;
    /* providers that are open reach all of the job: others serve processes that join it later */
    bool is_covered;
    fab_config_t config; /* that of the first user, for members that are the same for all users */
};

/*
 * Open the process's fabric for a user; called as fab_open() (fab_abi.h).  The first call opens
 * every provider that works here; for others it keeps the reason for fab_describe().  Once any user
 * is threaded, all use the lock.  Errors: OPAL_ERR_NOT_AVAILABLE if no provider other than self can
 * be opened and the job has more than one process here, OPAL_ERR_OUT_OF_RESOURCE,
 * OPAL_ERR_BAD_PARAM (also: the user has opened it already, or was compiled for another library);
 * then *why (a static or fabric-owned sentence) says what failed.
 */
FAB_EXPORT int fab_open_abi(uint64_t abi, const fab_config_t *config, fab_t **fab,
                            const char **why);

/*
 * Call fn when this user has opened the fabric, at once if it has: for a user that needs the fabric
 * only beside that one.  One fn for each user; NULL: none any more.
 */
FAB_EXPORT void fab_when_open(fab_user_t user, void (*fn)(void));

/*
 * NULL if some open provider reaches other hosts; otherwise a sentence why not.  The lock is not
 * needed.
 */
FAB_EXPORT const char *fab_why_one_host(const fab_t *fab);

/* Is the provider with this name ("shm") open?  The lock is not needed. */
FAB_EXPORT bool fab_is_open(const fab_t *fab, const char *provider);

/*
 * Close the fabric for a user: its items are no longer run, its peers are closed for it, and
 * messages for it are dropped.  If other users remain, none of its RMA may be under way.  The last
 * user closes all providers without waiting (verbs waits 0.3 s at most for messages in flight):
 * queued messages are not sent, and RMA under way ends without completion.  Lock not held.
 */
FAB_EXPORT void fab_close(fab_t *fab, fab_user_t user);

/*
 * This process's address for its peers (modex): position independent, self-describing, at most
 * FAB_ADDRESS_MAX bytes. Returns its length; 0 if it does not fit size.  The lock is not needed.
 */
#define FAB_ADDRESS_MAX 2048
FAB_EXPORT size_t fab_address(const fab_t *fab, void *buf, size_t size);

/*
 * Poll all providers once and run queued items that have room.  Returns the number of events (0:
 * nothing happened).
 */
FAB_EXPORT int fab_progress(fab_t *fab);

/*
 * Poll for messages, for a caller that waits for one and calls often: fab_progress() without the
 * work that may wait for some polls.  The caller must also call fab_progress() now and then: every
 * sixteenth time.
 */
static inline int fab_poll(fab_t *fab)
{
    fab->must_return = false;
    return fab->poll(fab->poll_arg);
}

/*
 * Sleep for at most this many microseconds, for a caller that has polled for long.  Data from a
 * peer whose provider has a file descriptor to wait for ends the sleep; then it returns true,
 * and the caller should poll.  Lock not held.
 */
FAB_EXPORT bool fab_sleep(fab_t *fab, unsigned us);

/* ---- peers -------------------------------------------------------------- */

enum {
    FAB_CAP_GET = 1u << 0, /* fab_get works: the peer's memory can be read */
    FAB_CAP_PUT = 1u << 1, /* fab_put works */
    /* its tagged messages come through this process's matching device (fab_tm.h) */
    FAB_CAP_TM = 1u << 2,
    FAB_CAP_RING = 1u << 3,   /* ep begins with a fab_shm_pair_t: for shm_inl.h */
    FAB_CAP_MAPPED = 1u << 4, /* gets and puts copy memory that is mapped here: no system call */
    /* a tagged message of the peer has come since a user took this bit away (tcp) */
    FAB_CAP_ANSWERED = 1u << 5,
};

enum {
    FAB_PEER_UP = 0,     /* may be sent to */
    FAB_PEER_FAILED = 1, /* it died, cannot be reached, or sent something illegal */
    /* this process closed it; the record goes when the peer has left as well */
    FAB_PEER_CLOSED = 2,
};

/*
 * Does an item wait for room towards a peer, or does a provider hold messages that would be lost if
 * this process ended?
 */
FAB_EXPORT bool fab_has_queued(const fab_t *fab);

/* Run by the fabric when the peer may take messages again. See fab_queue(). */
typedef struct fab_item fab_item_t;
typedef int (*fab_item_fn_t)(fab_item_t *item, fab_peer_t *peer);
struct fab_item {
    fab_item_t *next; /* the fabric's; NULL: it is not queued */
    fab_item_t *prev;
    fab_item_fn_t fn;
    fab_user_t user; /* its owner: the item is dropped when this user closes the fabric */
};

/* Providers, built or not. */
enum { FAB_NUM_PROVIDERS = 5 };

/*
 * A process that this one communicates with.  One cache line: a job may know a million peers.  Only
 * the fabric and the provider write it, except user.
 */
struct fab_peer {
    const fab_ops_t *ops; /* operations of the peer's provider */
    void *ep;             /* the provider's state; NULL until first use where that costs anything */
    /*
     * The newest queued item, in a ring: its next is the oldest.  NULL: none, so messages may be
     * sent directly.
     */
    fab_item_t *pending;
    uint64_t name;             /* fab_config_t.name of that process */
    void *user[FAB_NUM_USERS]; /* each user's own per-peer state */
    uint32_t eager_max;        /* longest payload of one message to this peer, bytes */
    /*
     * FAB_CAP_* that are known: FAB_CAP_GET is dropped when the peer's memory proves unreachable
     */
    uint8_t caps;
    uint8_t users;    /* bit n: opened by user n; bit 4 + n: closed by it */
    uint8_t state;    /* FAB_PEER_* */
    uint8_t provider; /* index into the fabric's providers */
    struct fab *fab;
};

_Static_assert(sizeof(fab_peer_t) <= 64, "a peer record is one cache line");

/*
 * Open the process with this name for the user, and return its peer record.  A new record is
 * created, and its provider chosen.  Opening it again has no effect: one fab_peer_close() closes
 * it. address is what that process's fab_address() returned.  Does not communicate: connections are
 * made at the first send.  Errors: OPAL_ERR_UNREACH if no provider reaches it, OPAL_ERR_BAD_PARAM
 * for an address that is malformed (version, length). *why then says for each provider why not (a
 * sentence; valid until the next call).
 */
FAB_EXPORT int fab_peer_open(fab_t *fab, fab_user_t user, uint64_t name, const void *address,
                             size_t len, fab_peer_t **peer, const char **why);

/* The record of a known peer, or NULL. */
FAB_EXPORT fab_peer_t *fab_peer_find(fab_t *fab, uint64_t name);

/*
 * Has the user opened the peer, and not closed it since?  Also to be asked of a record that
 * fab_peer_close() has released since the lock was taken.  Lock held.
 */
static inline bool fab_peer_is_open(const fab_peer_t *peer, fab_user_t user)
{
    return 0 != (peer->users >> user & 1);
}

/* Name of the provider that reaches the peer: "self", "shm", ... The lock is not needed. */
FAB_EXPORT const char *fab_peer_provider_name(const fab_peer_t *peer);

/* The same for each number that fab_peer_t.provider can be; NULL: it is none. */
FAB_EXPORT const char *fab_provider_name(unsigned provider);

/*
 * The user sends no more to that peer.  When all users that opened the peer have closed it and the
 * peer has left, its record may be released.  After this call use the record only in the handler of
 * a message from the peer.
 */
FAB_EXPORT void fab_peer_close(fab_peer_t *peer, fab_user_t user);

/*
 * Mark the peer as failed, for the reason rc and why (a sentence, copied).  From now on its
 * operations return OPAL_ERR_UNREACH; fab_progress() does the rest: peer_failed(), the end of its
 * RMA, queued items.  May be called from anywhere.  Calling it again for the same peer has no
 * effect.
 */
FAB_EXPORT void fab_peer_fail(fab_peer_t *peer, int rc, const char *why);

/*
 * True once the failure of the peer was reported and no operation on it is outstanding.
 * The lock is held.
 */
FAB_EXPORT bool fab_peer_is_gone(const fab_peer_t *peer);

/*
 * A send from the caller's memory: buf..buf+len must not change until complete(), which is called
 * once, from fab_progress(), with OPAL_SUCCESS, or OPAL_ERR_UNREACH if the peer failed.  The
 * payload is head, which is copied at once, followed by buf.
 */
typedef struct fab_out fab_out_t;
struct fab_out {
    const void *head;
    size_t head_len; /* at most FAB_OUT_HEAD_MAX */
    const void *buf;
    /*
     * With head_len at most FAB_FRAGMENT_LOCAL_MAX.  Of more than FAB_FRAGMENT_MAX the provider may
     * take less: len then says how much.
     */
    size_t len;
    void (*complete)(fab_out_t *out, int status);
    int status;      /* the provider owns this and the following members */
    uint32_t pieces; /* that are to be written yet */
    uint64_t provider[4];
};

/*
 * Longest payload of a send from memory, bytes: to a process of another host, and within the host.
 * A payload longer than eager_max may be sent only if the receiver has a destination for it
 * (fab_set_place()).
 */
#define FAB_FRAGMENT_MAX       262144
#define FAB_FRAGMENT_LOCAL_MAX 8388608
#define FAB_OUT_HEAD_MAX       64 /* bytes */

/* The operations of a peer: one table per provider; see fab_provider.h. */
struct fab_ops {
    int (*send)(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len);
    void *(*reserve)(fab_peer_t *peer, size_t max_len);
    void (*commit)(fab_peer_t *peer, fab_hdr_t hdr, size_t len);
    int (*rma)(fab_rma_t *op); /* NULL: no RMA to this peer */
    /* fab_get_now(), fab_put_now(); NULL: never */
    bool (*rma_now)(fab_rma_t *op);
    /*
     * Begin or end a batch: messages to the peer in between may be handed to the device together.
     * fab_progress() calls it around queued items, none of which closes the peer.  NULL: batches
     * gain nothing.
     */
    void (*batch)(fab_peer_t *peer, bool is_begin);
    /* fab_item_send_now(); NULL: send */
    int (*send_now)(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len);
    /* fab_item_send_from(); NULL: sends are copied, and fab_set_place() has no effect */
    int (*send_from)(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out);
    /* fab_peer_prepare(); NULL: nothing can be done before the first message */
    void (*prepare)(fab_peer_t *peer);
};

/*
 * Send header and len <= eager_max bytes; both are copied before it returns.  Errors:
 * OPAL_ERR_RESOURCE_BUSY (no room now, or queued items must go first), OPAL_ERR_UNREACH.
 */
static inline int fab_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    if (__builtin_expect(NULL != peer->pending, 0)) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    return peer->ops->send(peer, hdr, buf, len);
}

/*
 * The same in two steps, for data to pack: reserve room for up to max_len <= eager_max bytes, write
 * them, and commit the len <= max_len bytes that were written.  The caller must do nothing else
 * with the peer in between, and must commit every reservation.  Returns NULL if there is no room
 * now, items are queued, or the peer failed (state tells).
 */
static inline void *fab_reserve(fab_peer_t *peer, size_t max_len)
{
    if (__builtin_expect(NULL != peer->pending, 0)) {
        return NULL;
    }
    return peer->ops->reserve(peer, max_len);
}

static inline void fab_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    peer->ops->commit(peer, hdr, len);
}

/*
 * Queue an item at the end of the peer's queue.  When there may be room, fn runs (lock held), sends
 * with fab_item_send() or fab_item_reserve(), and returns
 *   OPAL_SUCCESS            done; the caller owns the item again (fn may have freed it);
 *   OPAL_ERR_RESOURCE_BUSY  no room: stay at the head;
 *   OPAL_ERR_IN_PROCESS     sent a part: go to the tail, so that others get their turn.
 * When the peer fails, fn runs, too: its send returns OPAL_ERR_UNREACH, and fn must then return
 * OPAL_SUCCESS.  The caller owns the item and must keep it valid until then.
 */
FAB_EXPORT void fab_queue(fab_peer_t *peer, fab_item_t *item);

/* Remove the item from the peer's queue, in constant time.  False: it is not there. */
FAB_EXPORT bool fab_unqueue_item(fab_peer_t *peer, fab_item_t *item);

/*
 * Remove from the peer's queue all items for which is_it() returns true.  Returns the first of
 * them, or NULL; next links them in their order.
 */
typedef bool (*fab_item_is_fn_t)(const fab_item_t *item, const void *ctx);
FAB_EXPORT fab_item_t *fab_unqueue(fab_peer_t *peer, fab_item_is_fn_t is_it, const void *ctx);

/* Call fn for each queued item of each peer, a peer's oldest first.  fn must not queue any. */
FAB_EXPORT void fab_visit_items(fab_t *fab,
                                void (*fn)(void *ctx, fab_peer_t *peer, const fab_item_t *item),
                                void *ctx);

static inline int fab_item_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    return peer->ops->send(peer, hdr, buf, len);
}

/*
 * As fab_item_send(), for a caller that waits until the message has left: it goes now, even where
 * the provider would otherwise wait for more that can leave with it.
 */
static inline int fab_item_send_now(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    return NULL != peer->ops->send_now ? peer->ops->send_now(peer, hdr, buf, len)
                                       : peer->ops->send(peer, hdr, buf, len);
}

static inline void *fab_item_reserve(fab_peer_t *peer, size_t max_len)
{
    return peer->ops->reserve(peer, max_len);
}

/* Can the peer be sent to from memory, and place what comes? */
static inline bool fab_peer_has_places(const fab_peer_t *peer)
{
    return NULL != peer->ops->send_from;
}

/*
 * Messages to the peer are likely: do now what the first one would have to wait for, if that takes
 * little time and memory.
 */
static inline void fab_peer_prepare(fab_peer_t *peer)
{
    if (FAB_PEER_UP == peer->state && NULL != peer->ops->prepare) {
        peer->ops->prepare(peer);
    }
}

/* Is it known that a tagged message of the peer has come since this was last true? */
static inline bool fab_peer_has_answered(fab_peer_t *peer)
{
    const bool has_answered = 0 != (peer->caps & FAB_CAP_ANSWERED);

    peer->caps &= (uint8_t) ~FAB_CAP_ANSWERED;
    return has_answered;
}

/*
 * Send header and payload without a copy.  OPAL_SUCCESS: complete() will be called.  As
 * fab_item_send() otherwise.
 */
static inline int fab_item_send_from(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out)
{
    return peer->ops->send_from(peer, hdr, out);
}

/*
 * Send a small message (len <= 256), or keep a copy and send it as soon as possible, in order.  For
 * control messages from handlers.  Errors: OPAL_ERR_UNREACH.  Without memory for the copy the peer
 * would wait for ever, so it is failed.
 */
FAB_EXPORT int fab_post(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len);

/* ---- remote memory ------------------------------------------------------ */

/*
 * Access of a peer to exposed memory.  A device enforces it; processes of one host that may read
 * each other's memory at all have full access.
 */
enum {
    FAB_ACCESS_READ = 1u << 0,  /* fab_get() */
    FAB_ACCESS_WRITE = 1u << 1, /* fab_put() */
};

/* What operations on a peer return that has no RMA. */
static inline int fab_no_rma(const fab_peer_t *peer)
{
    return FAB_PEER_UP == peer->state ? OPAL_ERR_NOT_SUPPORTED : OPAL_ERR_UNREACH;
}

/*
 * Give the peer access (FAB_ACCESS_*) to len bytes at buf, until fab_unexpose() with the same key.
 * Errors: OPAL_ERR_OUT_OF_RESOURCE, OPAL_ERR_NOT_SUPPORTED (no RMA to this peer).
 */
FAB_EXPORT int fab_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                          fab_rkey_t *rkey);
FAB_EXPORT void fab_unexpose(fab_peer_t *peer, const fab_rkey_t *rkey);

/*
 * Memory exposed to any peer, over any provider; sent to the peers unchanged.
 */
typedef struct fab_region {
    fab_rkey_t rkey;
    uint32_t providers; /* bit n: peers reached by the provider with id n (FAB_WIRE_*) can use it */
    uint32_t reserved;
} fab_region_t;

_Static_assert(40 == sizeof(fab_region_t), "fab_region_t is a wire format");

/*
 * Give all peers of region->providers this access to len bytes at buf.  peer: who will use it, so
 * that only its provider needs to register the memory; NULL: anyone.
 */
FAB_EXPORT void fab_expose_any(fab_t *fab, const fab_peer_t *peer, const void *buf, size_t len,
                               unsigned access, fab_region_t *region);
FAB_EXPORT void fab_unexpose_any(fab_t *fab, fab_region_t *region);

/* Can fab_get() and fab_put() reach this memory of the peer? The region is as that peer sent it. */
FAB_EXPORT bool fab_region_is_reachable(const fab_region_t *region, const fab_peer_t *peer);

typedef enum fab_rma_kind {
    FAB_GET,
    FAB_PUT,
} fab_rma_kind_t;

/*
 * A get or put.  The caller provides the memory from the call until complete(); the provider writes
 * done and is_given.  Large transfers go in bounded steps, one per fab_progress() and operation.
 */
struct fab_rma {
    STAILQ_ENTRY(fab_rma) link; /* the provider's */
    fab_peer_t *peer;           /* set all from here down to rkey */
    void *local;
    uint64_t remote; /* address in the peer */
    size_t len;      /* bytes */
    fab_rkey_t rkey; /* from the peer's fab_expose() */
    /*
     * status: OPAL_SUCCESS, or why (some of) the data is missing.  OPAL_ERR_NOT_SUPPORTED: RMA
     * cannot reach this memory; use messages.  Called from fab_progress(), never from fab_get().
     */
    void (*complete)(fab_rma_t *op, int status);
    size_t done;   /* bytes moved so far */
    uint8_t kind;  /* fab_rma_kind_t, set by the functions below */
    bool is_given; /* the peer was asked to send what is read (shm) */
};

/*
 * Start it.  OPAL_SUCCESS: complete() will be called, exactly once.  OPAL_ERR_NOT_SUPPORTED: this
 * peer's memory cannot be reached (found out at the first attempt, then FAB_CAP_GET is dropped):
 * use messages.  OPAL_ERR_UNREACH.
 */
static inline int fab_rma(fab_rma_t *op, fab_rma_kind_t kind)
{
    op->kind = (uint8_t) kind;
    op->is_given = false;
    op->done = 0;
    return NULL != op->peer->ops->rma ? op->peer->ops->rma(op) : fab_no_rma(op->peer);
}

static inline int fab_get(fab_rma_t *op)
{
    return fab_rma(op, FAB_GET);
}

static inline int fab_put(fab_rma_t *op)
{
    return fab_rma(op, FAB_PUT);
}

/*
 * A short get or put, done before the call returns where this process copies the bytes itself (shm,
 * self). True: it is done, and complete() is not called. False: it was not, or not all of it;
 * fab_get() or fab_put() of the same does it, or says why not.  So it is where the peer may give
 * what a get reads.  Up to FAB_RMA_NOW_MAX bytes, or FAB_RMA_NOW_LOCKED if other threads may wait
 * for the lock.
 */
#define FAB_RMA_NOW_MAX    (4 << 20) /* some 300 us */
#define FAB_RMA_NOW_LOCKED 524288    /* some 40 us */

static inline bool fab_rma_now(fab_rma_t *op)
{
    const size_t max = *op->peer->fab->is_threaded ? FAB_RMA_NOW_LOCKED : FAB_RMA_NOW_MAX;

    op->done = 0;
    return op->len <= max && NULL != op->peer->ops->rma_now && op->peer->ops->rma_now(op);
}

static inline bool fab_get_now(fab_rma_t *op)
{
    op->kind = FAB_GET;
    return fab_rma_now(op);
}

static inline bool fab_put_now(fab_rma_t *op)
{
    op->kind = FAB_PUT;
    return fab_rma_now(op);
}

/* ---- users and the lock -------------------------------------------------- */

/*
 * This user has something that its progress function is to do: tell the others.  FAB_NUM_USERS:
 * tell all, after a poll that took long.  Lock held.
 */
FAB_EXPORT void fab_wake_others(fab_t *fab, fab_user_t user);

/* Has this user called fab_start()?  Without the lock a hint. */
static inline bool fab_is_started(const fab_t *fab, fab_user_t user)
{
    return atomic_load_explicit(&fab->is_started[user], memory_order_relaxed);
}

static inline bool fab_is_threaded(const fab_t *fab)
{
    return *fab->is_threaded;
}

static inline void fab_lock(fab_t *fab)
{
    if (fab_is_threaded(fab)) {
        fab_mutex_lock(&fab->lock);
    }
}

/*
 * Take the lock if it is free and no thread waits for it; true: taken.  For progress, which
 * otherwise leaves the work to the holder, or to the waiting thread: a polling thread could take
 * the lock again before the thread that it has woken runs.
 */
static inline bool fab_trylock(fab_t *fab)
{
    return !fab_is_threaded(fab) ||
           (!fab_mutex_is_wanted(&fab->lock) && fab_mutex_trylock(&fab->lock));
}

/*
 * If the process became threaded after fab_lock(), this unlocks a lock that was not taken: that has
 * no effect.
 */
static inline void fab_unlock(fab_t *fab)
{
    if (fab_is_threaded(fab)) {
        fab_mutex_unlock(&fab->lock);
    }
}

/* ---- what a user sees --------------------------------------------------- */

/*
 * Fill buf with lines that say, for each provider, whether it is open, and if not why; for those
 * open, the peers' protocols by size and the single-copy mechanism, or why there is none.  For
 * pml_tm_verbose.
 */
FAB_EXPORT void fab_describe(fab_t *fab, char *buf, size_t size);

#endif /* FAB_H */
