/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl_fabric: the fabric as a BTL, for ob1 and one-sided MPI (osc/rdma).
 *
 *   btl_fabric_component.c  parameters, counters, opening and closing the fabric, progress
 *   btl_fabric.c            the module's table; processes, endpoints, failures
 *   btl_fabric_send.c       messages: descriptors, sending, receiving
 *   btl_fabric_mem.c        registered memory
 *   btl_fabric_op.c         operations under way: their records, and their end
 *   btl_fabric_rma.c        put, get and atomic operations: the process that starts them
 *   btl_fabric_offer.c      puts and gets that the target's CPU is offered first
 *   btl_fabric_target.c     put, get and atomic operations: the process whose memory they access
 *   btl_fabric_wire.h       the bytes that leave the process
 *
 * Lock.  The fabric's lock (fab_lock()) covers everything here.  The layer above is never called
 * while it is held: messages, completions and failures for it go to a list of upcalls, which the
 * component's progress function runs.  There are two exceptions: if the fabric does a put or get at
 * once (do_now()), or the target answers an atomic operation at once (is_answered_soon()), the
 * callback runs before the BTL's function returns; and without threads the progress function gives
 * a message of a ring to the layer above where it lies.
 *
 * There is one module for all peers, whichever provider of the fabric reaches them.  Its limits and
 * flags are the same in all processes of a job, except what matters to the sender alone: the sizes
 * of messages and SEND_INPLACE (adapt_sizes()).
 */
#ifndef BTL_FABRIC_H
#define BTL_FABRIC_H

#include "btl_fabric_compat.h"

#include <stdatomic.h>

#include "btl_fabric_counters.h"
#include "btl_fabric_pace.h"
#include "btl_fabric_params.h"
#include "btl_fabric_wire.h"
#include "fabric/fab_inl.h"
#include "fabric/fab_params.h"
#include "fabric/fab_spares.h"
#include "idmap/idmap.h"

/*
 * Defaults of btl_fabric_eager_limit and max_send_size, bytes: on one host, and on several.  ob1's
 * header takes 32 bytes, and 32 is a multiple of the lengths of all basic types: so no fragment
 * ends inside an element, unless several lengths are mixed.
 */
#define BTL_FABRIC_EAGER_LIMIT       16384
#define BTL_FABRIC_MAX_SEND_SIZE     32768
#define BTL_FABRIC_NET_EAGER_LIMIT   65792 /* 64 KiB and ob1's header */
#define BTL_FABRIC_NET_MAX_SEND_SIZE 131072

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

/* A target that has ignored this process several times in a row is tried only now and then. */
typedef struct mca_btl_fabric_trust {
    unsigned ignored; /* times in a row */
    unsigned skipped; /* operations while ignored is high */
} mca_btl_fabric_trust_t;

enum { BTL_FABRIC_PACES = 8 }; /* of up to 4, 8, ... 512 KiB */

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

/* A process. Lives until the module is finalized: upcalls and operations refer to it. */
struct mca_btl_base_endpoint_t {
    mca_btl_fabric_ep_t *next; /* of all */
    fab_peer_t *peer;
    opal_proc_t *proc;            /* NULL: it sent but was not added here, or was deleted */
    mca_btl_fabric_msg_t *part;   /* the message whose parts are arriving; NULL: none */
    mca_btl_fabric_op_t *ops;     /* those that wait for the peer's answer */
    mca_btl_fabric_op_t *counted; /* of these, those whose message was sent as counted, in order */
    mca_btl_fabric_op_t **counted_tail;
    fab_item_t count;     /* while COUNT is to be sent */
    uint32_t num_counted; /* messages of the peer that it will be for; 0: it is not queued */
    mca_btl_fabric_op_t *places[FAB_ANSWERS]; /* those that are answered in place; NULL: free */
    uint32_t number;                          /* of the last operation that is answered in place */
    size_t outstanding;                       /* operations whose callback has not returned */
    mca_btl_fabric_trust_t offers;            /* is an offer worthwhile? */
    unsigned heard;   /* mca_btl_fabric.polls when the latest answer to an offer came */
    unsigned started; /* mca_btl_fabric.polls when the latest put or get was started */
    /* of single gets and puts, and of those in windows; NULL: none yet */
    mca_btl_fabric_pace_t (*paces)[BTL_FABRIC_PACES];
    mca_btl_fabric_trust_t answers; /* is it worthwhile to look for an answer at once? */
    bool is_deleted;   /* operations are under way; the peer is closed when they have ended */
    bool is_reporting; /* failure is in the list of upcalls */
    bool is_reported;  /* the layer above knows that proc has failed */
    mca_btl_fabric_up_t failure; /* once it has failed: reports it */
    char *why;                   /* it failed; NULL: it did not, or there was no memory for it */
};

/* A message that arrived. */
struct mca_btl_fabric_msg {
    mca_btl_fabric_up_t up;
    mca_btl_fabric_ep_t *ep;
    mca_btl_base_tag_t tag;
    bool is_short; /* goes to mca_btl_fabric.free_msgs when it is freed */
    uint32_t len;  /* bytes */
    uint32_t got;  /* bytes that have arrived */
    uint64_t data[];
};

/* The message that the poll left in a ring, for the layer above to read in place. */
typedef struct mca_btl_fabric_held {
    fab_hold_t *hold; /* NULL: there is none */
    mca_btl_fabric_ep_t *ep;
    const void *data;
    size_t len; /* bytes */
    mca_btl_base_tag_t tag;
} mca_btl_fabric_held_t;

/* A descriptor: its first segment is in its own memory, the second, if any, is the user's. */
typedef struct mca_btl_fabric_frag {
    mca_btl_base_descriptor_t super;
    mca_btl_base_segment_t segments[2];
    opal_free_list_t *list; /* the list that it is returned to */
    mca_btl_fabric_up_t up;
    fab_item_t item; /* while it waits for room */
    mca_btl_fabric_ep_t *ep;
    size_t sent; /* bytes */
    int status;
    mca_btl_base_tag_t tag;
} mca_btl_fabric_frag_t;

OBJ_CLASS_DECLARATION(mca_btl_fabric_frag_t);

/*
 * Registered memory.  Peers get a copy of the first BTL_FABRIC_HANDLE bytes: so ob1's announcement
 * of a long message takes two cache lines.
 */
struct mca_btl_base_registration_handle_t {
    uint32_t key;   /* its id in mca_btl_fabric.mems */
    uint32_t flags; /* MCA_BTL_REG_FLAG_*: what peers may do */
    fab_region_t region;
    uint64_t base;
    uint64_t len;
    struct mca_btl_base_registration_handle_t *next; /* in mca_btl_fabric.free_mems */
};

enum { BTL_FABRIC_HANDLE = 48 };

_Static_assert(BTL_FABRIC_HANDLE == offsetof(struct mca_btl_base_registration_handle_t, base) &&
                   8 == offsetof(struct mca_btl_base_registration_handle_t, region),
               "mca_btl_base_registration_handle_t is a wire format");

/* A put, get or atomic operation as the layer above requests it. */
typedef struct mca_btl_fabric_call {
    mca_btl_fabric_ep_t *ep;
    void *local;
    uint64_t remote;
    size_t len;
    struct mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc; /* NULL: no callback */
    void *context;
    void *cbdata;
    btl_fabric_atomic_t atomic; /* atomic.key names the peer's memory for puts and gets, too */
    uint8_t am;                 /* BTL_FABRIC_AM_PUT, GET or ATOMIC */
} mca_btl_fabric_call_t;

/* A message in shared memory that asks the target to do an operation and that can be withdrawn. */
typedef struct mca_btl_fabric_offer {
    _Atomic uint32_t *claim;   /* its claim word; NULL: there is no offer */
    uint64_t position;         /* in the ring */
    unsigned polls;            /* mca_btl_fabric.polls when it was made */
    mca_btl_fabric_op_t *next; /* in mca_btl_fabric.offers */
    mca_btl_fabric_op_t **prev;
} mca_btl_fabric_offer_t;

/* An operation under way. */
struct mca_btl_fabric_op {
    mca_btl_fabric_up_t up;
    mca_btl_fabric_call_t call;
    mca_btl_fabric_turn_t turn;
    mca_btl_fabric_op_t *next; /* in ep->ops, or in mca_btl_fabric.free_ops */
    mca_btl_fabric_op_t **prev;
    mca_btl_fabric_op_t *next_counted;
    mca_btl_fabric_op_t *next_asking; /* in mca_btl_fabric.asking */
    size_t done;                      /* bytes sent of a put, or received of a get */
    uint32_t id;                      /* in mca_btl_fabric.ids; 0: none */
    int status;
    bool is_queued;
    bool is_offered; /* and not withdrawn, as far as is known here */
    bool is_waiting; /* in ep->ops */
    fab_item_t item; /* while its message waits for room */
    mca_btl_fabric_offer_t offer;
    mca_btl_fabric_try_t try;
    fab_rma_t rma; /* if the fabric does it, or may have to */
};

typedef struct mca_btl_fabric {
    mca_btl_base_module_t super;
    fab_t *fab;
    mca_btl_base_module_error_cb_fn_t error_cb;
    mca_btl_fabric_ep_t *eps;          /* all */
    _Atomic(mca_btl_fabric_up_t *) up; /* upcalls, oldest first */
    mca_btl_fabric_up_t **up_tail;
    _Atomic unsigned num_ups;
    mca_btl_fabric_held_t held;
    mca_btl_fabric_ep_t *latest; /* whose message was held last; NULL: none, or it was deleted */
    bool wants_held;             /* the progress function polls, and can give a message in place */
    bool is_giving;              /* the layer above has a message in place */
    mca_btl_fabric_msg_t *free_msgs; /* short ones */
    fab_spares_t spares;             /* for long ones */
    mca_btl_fabric_op_t *free_ops;
    /* operations whose callback has not returned; relaxed: a hint without the lock */
    _Atomic size_t outstanding;
    mca_btl_fabric_turn_t turns; /* head of the circular list, oldest first */
    uint64_t last_turn;          /* number of the latest one */
    _Atomic uint64_t oldest;     /* number of the oldest one in the list; UINT64_MAX: none */
    size_t num_rma;              /* operations, and sends from memory, that the fabric is doing */
    mca_btl_fabric_op_t *asking; /* those that are answered in place */
    unsigned num_asking;
    mca_btl_fabric_op_t *offers; /* oldest first */
    mca_btl_fabric_op_t **offers_tail;
    unsigned polls;   /* number of polls so far */
    fab_idmap_t ids;  /* mca_btl_fabric_op_t */
    fab_idmap_t mems; /* mca_btl_base_registration_handle_t */
    struct mca_btl_base_registration_handle_t *free_mems;
    mca_btl_fabric_reply_t *replies; /* data of gets of others that waits for room */
    opal_free_list_t frags_eager;
    opal_free_list_t frags_max;
    mca_btl_fabric_counters_t counters;
    mca_btl_fabric_params_t params;
    bool is_named; /* the user names btl fabric (parameter btl) */
    int output;    /* stream of btl_fabric_verbose */
} mca_btl_fabric_t;

extern mca_btl_fabric_t mca_btl_fabric;
OPAL_DECLSPEC extern mca_btl_base_component_t mca_btl_fabric_component;

/* ---- btl_fabric_component.c --------------------------------------------- */

/* Add an upcall; the progress function will run it. Lock held. */
void mca_btl_fabric_up(mca_btl_fabric_up_t *up, const mca_btl_fabric_up_ops_t *ops);

/* Drop the upcalls that have not run: the module is finalized. */
void mca_btl_fabric_ups_fini(void);

/* Poll the fabric, and run upcalls. */
int mca_btl_fabric_progress(void);

/*
 * May peers be reached by btl fabric?  It is installed for all jobs on the machine, and osc/rdma
 * prefers it to others, so it serves only jobs that want it: the PML uses the fabric as well, or
 * the user names btl fabric.
 */
static inline bool mca_btl_fabric_is_wanted(void)
{
    return mca_btl_fabric.is_named || fab_is_started(mca_btl_fabric.fab, FAB_USER_PML);
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

/* ---- btl_fabric.c ------------------------------------------------------- */

/* The endpoint of a peer, created at the first call; NULL: no memory. Lock held. */
mca_btl_fabric_ep_t *mca_btl_fabric_ep_of(fab_peer_t *peer);

/*
 * The endpoint of a process whose entry in the modex is blob, of len bytes.  NULL: it cannot be
 * reached, and *why says why.
 */
mca_btl_fabric_ep_t *mca_btl_fabric_ep_open(opal_proc_t *proc, const void *blob, size_t len,
                                            const char **why);

/* Close the peer of a deleted endpoint if no operation needs it any more. Lock held. */
void mca_btl_fabric_ep_close_if_idle(mca_btl_fabric_ep_t *ep);

/* The fabric's callbacks: fab_config_t. */
void mca_btl_fabric_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);
bool mca_btl_fabric_peer_left(void *ctx, fab_peer_t *peer);

/* Fail the peer because of an invalid message; `what` says what is wrong with it. Lock held. */
void mca_btl_fabric_bad_message(fab_peer_t *peer, const char *what);

/* Fail the peer because there is no memory for what it sent. Lock held. */
void mca_btl_fabric_no_memory(fab_peer_t *peer);

int mca_btl_fabric_add_procs(struct mca_btl_base_module_t *btl, size_t nprocs,
                             struct opal_proc_t **procs, mca_btl_fabric_ep_t **eps,
                             opal_bitmap_t *reachable);
int mca_btl_fabric_del_procs(struct mca_btl_base_module_t *btl, size_t nprocs,
                             struct opal_proc_t **procs, mca_btl_fabric_ep_t **eps);
int mca_btl_fabric_publish(void);
int mca_btl_fabric_register_error(struct mca_btl_base_module_t *btl,
                                  mca_btl_base_module_error_cb_fn_t cbfunc);
void mca_btl_fabric_dump(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, int verbose);
int mca_btl_fabric_finalize(struct mca_btl_base_module_t *btl);

/* ---- btl_fabric_send.c -------------------------------------------------- */

mca_btl_base_descriptor_t *mca_btl_fabric_alloc(struct mca_btl_base_module_t *btl,
                                                mca_btl_fabric_ep_t *ep, uint8_t order, size_t size,
                                                uint32_t flags);
int mca_btl_fabric_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *mca_btl_fabric_prepare_src(struct mca_btl_base_module_t *btl,
                                                      mca_btl_fabric_ep_t *ep,
                                                      opal_convertor_t *convertor, uint8_t order,
                                                      size_t reserve, size_t *size, uint32_t flags);
int mca_btl_fabric_send(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                        mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag);
int mca_btl_fabric_sendi(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                         opal_convertor_t *convertor, void *header, size_t header_size,
                         size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                         mca_btl_base_descriptor_t **des);
int mca_btl_fabric_frags_init(void);
void mca_btl_fabric_frags_fini(void);
void mca_btl_fabric_msg_free(mca_btl_fabric_msg_t *msg);

/*
 * Without threads only: give the message that the poll left in the ring (mca_btl_fabric.held) to
 * the layer above.
 */
void mca_btl_fabric_give_held(void);

/*
 * Without threads only: give messages from the peer that sent the last one, past the handler.
 * Returns their number, at most max.
 */
int mca_btl_fabric_give_more(int max);

/* Handlers of BTL_FABRIC_AM_SEND and PART. */
void mca_btl_fabric_on_send(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);
void mca_btl_fabric_on_part(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);

/* ---- btl_fabric_mem.c --------------------------------------------------- */

struct mca_btl_base_registration_handle_t *
mca_btl_fabric_register_mem(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *base,
                            size_t size, uint32_t flags);
int mca_btl_fabric_deregister_mem(struct mca_btl_base_module_t *btl,
                                  struct mca_btl_base_registration_handle_t *handle);
void mca_btl_fabric_mems_fini(void);

/*
 * Do these len bytes lie in the registered memory that the key names, and do its flags allow this
 * access (flag: one of MCA_BTL_REG_FLAG_REMOTE_*)?  Lock held.
 */
bool mca_btl_fabric_mem_allows(uint32_t key, uint64_t address, uint64_t len, uint32_t flag);

/* ---- btl_fabric_op.c ---------------------------------------------------- */

/* The peer failed: end the operations that wait for its answer. Lock held. */
void mca_btl_fabric_ops_fail(mca_btl_fabric_ep_t *ep);

/*
 * Allocate memory for one operation.  It is kept, so one operation at a time can always be started:
 * what is refused for want of memory succeeds once the others have ended.  On an error nothing is
 * allocated.
 */
int mca_btl_fabric_ops_init(void);

/* Free all operations, including those that still wait for an answer. */
void mca_btl_fabric_ops_fini(void);

/* ---- btl_fabric_rma.c --------------------------------------------------- */

int mca_btl_fabric_put(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                       uint64_t remote, struct mca_btl_base_registration_handle_t *local_handle,
                       struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                       void *context, void *cbdata);
int mca_btl_fabric_get(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                       uint64_t remote, struct mca_btl_base_registration_handle_t *local_handle,
                       struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                       void *context, void *cbdata);
int mca_btl_fabric_atomic_op(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                             uint64_t remote,
                             struct mca_btl_base_registration_handle_t *remote_handle,
                             mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *context, void *cbdata);
int mca_btl_fabric_atomic_fop(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                              void *local, uint64_t remote,
                              struct mca_btl_base_registration_handle_t *local_handle,
                              struct mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t cbfunc, void *context,
                              void *cbdata);
int mca_btl_fabric_atomic_cswap(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                                void *local, uint64_t remote,
                                struct mca_btl_base_registration_handle_t *local_handle,
                                struct mca_btl_base_registration_handle_t *remote_handle,
                                uint64_t compare, uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t cbfunc, void *context,
                                void *cbdata);
int mca_btl_fabric_flush(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep);

/* End the operations that were answered in place. Lock held. */
void mca_btl_fabric_answers_check(void);

/* Where the data of a get goes: a fab_place_fn_t. */
void *mca_btl_fabric_place_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len);

/* Handlers of BTL_FABRIC_AM_DATA, DONE and COUNT. */
void mca_btl_fabric_on_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);
void mca_btl_fabric_on_done(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);
void mca_btl_fabric_on_count(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len);

/* ---- btl_fabric_offer.c ------------------------------------------------- */

/* Withdraw the offers that the target has ignored for long. Lock held. */
void mca_btl_fabric_offers_check(void);

/* ---- btl_fabric_target.c ------------------------------------------------ */

/*
 * Is it an atomic operation that the module's flags announce, on a word (len: bytes) that is
 * aligned?
 */
static inline bool mca_btl_fabric_can_apply(unsigned op, size_t len, uint64_t address)
{
    return (4 == len || 8 == len) && 0 == (address & (len - 1)) &&
           (MCA_BTL_ATOMIC_ADD == op || MCA_BTL_ATOMIC_AND == op || MCA_BTL_ATOMIC_OR == op ||
            MCA_BTL_ATOMIC_XOR == op || MCA_BTL_ATOMIC_SWAP == op || BTL_FABRIC_CSWAP == op);
}

/* The fabric is closed: free the replies that it had not sent. */
void mca_btl_fabric_replies_fini(void);

/* Handlers of BTL_FABRIC_AM_PUT, GET and ATOMIC. */
void mca_btl_fabric_on_put(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                           size_t len);
void mca_btl_fabric_on_get(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                           size_t len);
void mca_btl_fabric_on_atomic(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                              size_t len);

#endif /* BTL_FABRIC_H */
