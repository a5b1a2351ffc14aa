/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The random test's state. A lane is one thread of each rank with communicators of its own; it goes
 * through epochs. One thread alone uses a lane; the watchdog reads `steps` and `doing` only.
 *
 * Everything that more than one rank must know (which messages there are, who is in which
 * communicator) is drawn from tm_rng(seed, lane, epoch), so that each rank can work it out for all
 * others.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include "tm_test.h"
#include "tm_types.h"

enum {
    MAX_RANKS = 16,
    MAX_LANES = 8,
    /* communicators of a lane: SLOT_BASE, SLOT_COMMON, and some that come and go */
    NSLOTS = 7,
    SLOT_BASE = 0, /* duplicate of MPI_COMM_WORLD */
    /* MPI_COMM_WORLD itself; with several lanes all share it, each with its own tags */
    SLOT_COMMON = 1,
    FIRST_DYNAMIC = 2,
    NRANDOM = 8, /* random datatypes */
    MAX_TYPES = TM_NTYPES + NRANDOM,
    MAX_DEFS = 4,   /* persistent requests of a kind in an epoch */
    LANE_TAGS = 10, /* tags of a lane in the common communicator */
    RESERVED_TAG = 5000,
    NGROUPS = 3,      /* reserved tags */
    UNTOUCHED = 0xee, /* what is in receive buffers before */
    GAP = 0x11,       /* what is between the data of send buffers */
};

/* How ranks may block in an epoch; see random_run.c. */
typedef enum rnd_style {
    /* nobody blocks but in reserved sends, so that all may meet: Sendrecv, new communicators */
    STYLE_FREE,
    STYLE_SENDS, /* blocking sends to ranks that come later in the epoch's order */
    STYLE_RECVS, /* blocking receives and probes of what ranks that come earlier send */
    NSTYLES,
} rnd_style_t;

typedef enum rnd_mode {
    MODE_SEND,
    MODE_SSEND,
    MODE_RSEND,
    MODE_BSEND,
    MODE_ISEND,
    MODE_ISSEND,
    MODE_IRSEND,
    MODE_IBSEND,
    MODE_INIT,
    MODE_SINIT,
    MODE_RINIT,
    MODE_BINIT,
    NMODES,
} rnd_mode_t;

typedef enum rnd_make {
    MAKE_DUP,
    MAKE_IDUP,
    MAKE_SPLIT,
    MAKE_INTER,
    MAKE_MERGE,
    MAKE_GROUP,
    NMAKES
} rnd_make_t;

typedef struct rnd_slot {
    MPI_Comm comm;   /* MPI_COMM_NULL: this rank is not in it, or it is not there yet */
    MPI_Comm coming; /* while MPI_Comm_idup is under way, with this request */
    MPI_Request req; /* MPI_REQUEST_NULL: it is not */
    bool is_live;
    bool is_inter;
    bool is_common;  /* other lanes use it, too: no MPI_ANY_TAG */
    rnd_make_t make; /* how it is made, from which other one; */
    int from, key;   /* key: order of ranks, or which side goes first */
    /* by rank in MPI_COMM_WORLD: its group (its side of an intercommunicator); -1: in none */
    int color[MAX_RANKS];
    /* rank in MPI_COMM_WORLD to the one that names it here, or MPI_UNDEFINED */
    int local[MAX_RANKS];
    int world[MAX_RANKS]; /* and back */
    int nlocal;           /* entries of world */
    /* for the epoch */
    int tag_base, ntags;
    int num_expected; /* messages to this rank but reserved ones */
    int num_received;
} rnd_slot_t;

typedef struct rnd_msg {
    int src, dst; /* ranks in MPI_COMM_WORLD */
    int slot, tag;
    rnd_mode_t mode;
    bool is_reserved; /* its receive is posted before the epoch's first send */
    bool is_freed;    /* MPI_Request_free after the start */
    bool may_cancel;  /* by its sender; all ranks learn before the drain whether it was */
    int def;          /* of a persistent request; -1: none */
    int index;        /* in its sender's order */
    const tm_type_t *type;
    size_t count, n; /* elements, bytes */
    uint64_t key;
    bool is_taken; /* in the oracle */
} rnd_msg_t;

typedef struct rnd_op rnd_op_t;

/* A persistent request. */
typedef struct rnd_def {
    MPI_Request req;
    tm_layout_t l;
    int slot, src, tag; /* of a receive */
    size_t room;
    bool may_fail;
    rnd_op_t *active; /* what it was started for; NULL: it may be started */
} rnd_def_t;

typedef enum rnd_kind { OP_SEND, OP_RECV, OP_PROBE } rnd_kind_t;

/* One send, receive (matched probes included), or successful probe. */
struct rnd_op {
    rnd_kind_t kind;
    int slot, src, tag; /* src: rank in MPI_COMM_WORLD, or MPI_ANY_SOURCE */
    const rnd_msg_t *msg;
    tm_layout_t l;
    size_t room;
    MPI_Request req;
    rnd_def_t *def;   /* its request is this one's */
    MPI_Message held; /* taken by a matched probe, to be received later */
    size_t probed;    /* its length then */
    MPI_Status st;
    int rc;
    const char *by; /* the call that completed it */
    bool is_reserved, is_freed, is_done, is_started;
    bool may_fail;                /* may be truncated */
    long posted, done, cancelled; /* steps; cancelled 0: MPI_Cancel was not called */
};

typedef struct rnd_lane {
    int id, nlanes;
    MPI_Comm ctl; /* collectives, Sendrecv */
    rnd_slot_t slot[NSLOTS];

    /* the epoch */
    long epoch;
    rnd_style_t style;
    int profile;
    int order[MAX_RANKS]; /* of the ranks, for blocking calls */
    int hot;              /* a rank that gets more than the others; -1: none */
    int comm_made;        /* slot made in the middle of the epoch; -1: none */
    bool is_comm_begun;   /* or there is none */
    int comm_freed;       /* slot freed at its end; -1: none */
    int nexchanges;       /* rounds of exchange()*/
    bool has_reserved;
    bool has_cancels;    /* of sends: then no message that a probe saw is sure to be there later */
    tm_rng_t mine;       /* of this rank alone */
    rnd_msg_t *in, *out; /* messages to and from this rank; each sender's in its order */
    int nin, nout, cap_in, cap_out;
    rnd_op_t **op; /* in the order of their calls */
    int nops, cap_ops;
    int first_open; /* all ops before it are complete */
    rnd_def_t sdef[MAX_DEFS], rdef[MAX_DEFS];

    /* for the watchdog */
    atomic_long steps;
    const char *_Atomic doing;
    long nmessages, nepochs, ncancelled, nunsent, ntruncated, nprobed, nblocking;
} rnd_lane_t;

/* random.c; written before the lanes start */
extern tm_type_t *rnd_type[MAX_TYPES];
extern int rnd_ntypes;
extern int rnd_tag_ub;
extern size_t rnd_max; /* bytes of the longest message */

#define RND_CHECK(lane, cond, ...) rnd_check(lane, cond, __FILE__, __LINE__, __VA_ARGS__)

/* TM_CHECK with the place in the run. */
static inline bool __attribute__((format(printf, 5, 6)))
rnd_check(const rnd_lane_t *lane, bool cond, const char *file, int line, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    if (!cond) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        tm_error(file, line, "lane %d epoch %ld style %d: %s", lane->id, lane->epoch, lane->style,
                 text);
    }
    return cond;
}

static inline bool rnd_chance(tm_rng_t *rng, unsigned percent)
{
    return tm_below(rng, 100) < percent;
}

static inline int rnd_below(tm_rng_t *rng, int n)
{
    return (int) tm_below(rng, (uint64_t) n);
}

/* Random numbers that all ranks know. */
static inline tm_rng_t rnd_rng(const rnd_lane_t *lane, int what)
{
    return tm_rng((uint64_t) lane->epoch, ((uint64_t) lane->id << 32) + (uint64_t) what);
}

static inline long rnd_step(rnd_lane_t *lane, const char *doing)
{
    atomic_store_explicit(&lane->doing, doing, memory_order_relaxed);
    return atomic_fetch_add_explicit(&lane->steps, 1, memory_order_relaxed) + 1;
}

/* The array has room for one more element. */
static inline void *rnd_grow(void *array, int n, int *cap, size_t size)
{
    if (n == *cap) {
        *cap = 2 * *cap + 64;
        array = realloc(array, (size_t) *cap * size);
        if (NULL == array) {
            TM_FATAL("out of memory");
        }
    }
    return array;
}

static inline bool rnd_is_linked(const rnd_slot_t *slot, int a, int b)
{
    return slot->is_live && slot->color[a] >= 0 && slot->color[b] >= 0 &&
           (slot->color[a] == slot->color[b]) != slot->is_inter;
}

static inline bool rnd_fits(int slot, int src, int tag, const rnd_msg_t *m)
{
    return m->slot == slot && (MPI_ANY_SOURCE == src || src == m->src) &&
           (MPI_ANY_TAG == tag || tag == m->tag);
}

/* ---- random_comms.c ------------------------------------------------------ */

void rnd_comm_plan(rnd_lane_t *lane, int s, tm_rng_t rng);
void rnd_comm_begin(rnd_lane_t *lane, int s);
void rnd_comm_end(rnd_lane_t *lane, int s);
void rnd_comm_release(rnd_slot_t *slot);
void rnd_comm_open_first(rnd_lane_t *lane);
void rnd_comm_close_all(rnd_lane_t *lane);

/* ---- random_ops.c -------------------------------------------------------- */

typedef enum rnd_how {
    TEST,
    TESTANY,
    TESTSOME,
    TESTALL,
    WAIT,
    WAITANY,
    WAITSOME,
    WAITALL,
    NHOWS
} rnd_how_t;

typedef bool (*rnd_want_fn_t)(const rnd_op_t *op);

rnd_op_t *rnd_op_new(rnd_lane_t *lane, rnd_kind_t kind, int slot, int src, int tag,
                     const char *what);
MPI_Request *rnd_op_req(rnd_op_t *op);
bool rnd_op_is_open(const rnd_op_t *op);
bool rnd_op_was_cancelled(const rnd_op_t *op);
bool rnd_want_all(const rnd_op_t *op);
bool rnd_want_recvs(const rnd_op_t *op);
bool rnd_want_sends(const rnd_op_t *op);
bool rnd_want_reserved(const rnd_op_t *op);
bool rnd_complete(rnd_lane_t *lane, rnd_want_fn_t want, int max, rnd_how_t how);
rnd_how_t rnd_test_how(rnd_lane_t *lane);
rnd_how_t rnd_wait_how(rnd_lane_t *lane);
void rnd_complete_op(rnd_lane_t *lane, rnd_op_t *op, bool is_wait);
void rnd_send_next(rnd_lane_t *lane, const rnd_msg_t *m);
size_t rnd_longest(const rnd_lane_t *lane, int slot, int src, int tag);
void rnd_recv_post(rnd_lane_t *lane, rnd_op_t *op);
void rnd_def_use(rnd_def_t *def, rnd_op_t *op);
bool rnd_recv_persistent(rnd_lane_t *lane, rnd_op_t *op);
void rnd_recv_block(rnd_lane_t *lane, rnd_op_t *op, size_t n);
bool rnd_recv_all_held(rnd_lane_t *lane, unsigned percent);
bool rnd_probe(rnd_lane_t *lane, int s, int src, int tag, bool is_blocking);

/* ---- random_plan.c ------------------------------------------------------- */

void rnd_find_edges(void);
size_t rnd_plan_size(const rnd_lane_t *lane, tm_rng_t *rng);
int rnd_plain_tag(const rnd_lane_t *lane, const rnd_slot_t *slot, int i);
int rnd_plan_epoch(rnd_lane_t *lane);
void rnd_plan_messages(rnd_lane_t *lane);

/* ---- random_run.c -------------------------------------------------------- */

void rnd_buffer_detach(void);
void rnd_run_epoch(rnd_lane_t *lane);

/* ---- random_oracle.c ----------------------------------------------------- */

void rnd_check_epoch(rnd_lane_t *lane);

#endif /* RANDOM_H */
