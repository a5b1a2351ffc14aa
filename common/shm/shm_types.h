/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shm provider's structures in this process's own memory, for the files of common/shm/ and its
 * tests.
 *
 * Ownership.  The domain owns the segment, a fab_shm_in_t for each ring of it that a peer uses, and
 * all endpoints.  An endpoint belongs to one peer record (fab_peer_t.ep) and owns the mapping of
 * that peer's segment.
 *
 * All under the fabric's lock.
 */
#ifndef FAB_SHM_TYPES_H
#define FAB_SHM_TYPES_H

#include "fabric/fab_provider.h"
#include "shm/shm_coop_inl.h"
#include "shm/shm_ring_inl.h"
#include "shm/shm_wire.h"

enum {
    /* messages of one ring per progress call, so that no peer starves the others */
    FAB_SHM_BATCH = 32,
    /*
     * every so many polls one cold ring is checked; so many of them in each fab_progress(), if
     * polls may be far apart
     */
    FAB_SHM_SWEEP_PASSES = 16,
    /* every so many polls all hot rings age; a multiple of the former */
    FAB_SHM_AGE_PASSES = 512,
    /* every so many polls the clock is read; a multiple of the former */
    FAB_SHM_CLOCK_PASSES = 1024,
    FAB_SHM_FEW_HOT = 8, /* polling up to so many hot rings is cheap: they stay hot longer */
    /* ageings without a message after which one of few hot rings goes cold: 32768 polls, ~0.3 ms */
    FAB_SHM_AGE_FEW = 64,
    FAB_SHM_AGE_MANY = 2,        /* the same if many rings are hot */
    FAB_SHM_TICK_US = 250000,    /* time between checks of peers */
    FAB_SHM_PASS_US = 1000,      /* time between looks at the socket */
    FAB_SHM_TICKS_PER_ROUND = 8, /* ticks in which every connected peer is checked once: 2 s */
    FAB_SHM_LOOKS_PER_TICK = 4,  /* of these, so many in /proc: open, read, close */
    /* rings for processes that join the job later, if shm_max_peers is automatic */
    FAB_SHM_SPARE_RINGS = 1024,
    FAB_SHM_RING_SIZE = 64 << 10,  /* bytes of a ring */
    FAB_SHM_RING_LEAST = 16 << 10, /* where the job has very many processes here */
    FAB_SHM_RINGS_BYTES = 8 << 20, /* of the rings of all processes that send to one */
    /* most bytes of rings that a claimer maps with the head: address space in each sender */
    FAB_SHM_AHEAD_MAX = 8 << 20,
    FAB_SHM_COOP_MIN = 32768,     /* bytes; for shorter gets help saves no time */
    FAB_SHM_RETRY_MAX_US = 64000, /* between attempts to connect; the first comes after 1 ms */
};

typedef struct fab_shm_domain fab_shm_domain_t;
typedef struct fab_shm_ep fab_shm_ep_t;
typedef struct fab_shm_window fab_shm_window_t; /* of shm_xpmem.c */

/*
 * A descriptor of this provider's.  A program may have closed it, and opened another file that has
 * its number: look before each use (fab_shm_is_open()).
 */
typedef struct fab_shm_file {
    int fd;       /* -1: none */
    uint64_t dev; /* with ino: the file, by fstat() */
    uint64_t ino;
} fab_shm_file_t;

/* A ring of this process's segment that a peer sends through. */
typedef struct fab_shm_in {
    fab_shm_rx_t rx;
    fab_shm_ep_t *ep;
    uint32_t index;   /* the ring's */
    uint32_t hot_at;  /* index in domain->hot, or FAB_SHM_COLD */
    uint32_t age;     /* ageings since the last message */
    uint64_t aged_at; /* rx.pos at the last ageing */
    bool is_closing;  /* the sender has left: release the ring when it is empty */
    uint32_t
        unable[FAB_SHM_COOPS]; /* numbers of the gets that this process cannot help with; 0: none */
} fab_shm_in_t;

#define FAB_SHM_COLD UINT32_MAX

typedef enum fab_shm_access {
    FAB_SHM_ACCESS_UNTRIED = 0,
    FAB_SHM_ACCESS_WORKS = 1,
    FAB_SHM_ACCESS_REFUSED = 2, /* by the kernel, or switched off by the user's parameter */
} fab_shm_access_t;

/* A get that the peer may help with (shm_coop.c). */
typedef struct fab_shm_fetch {
    fab_rma_t *op; /* NULL: none */
    fab_shm_offer_t offer;
    uint32_t front; /* chunks claimed by this process */
    uint32_t back;  /* by the peer, as last seen */
    uint64_t at;    /* bytes at..end-1 are claimed by this process and are still to be read */
    uint64_t end;
    int status;     /* why it ends early; OPAL_SUCCESS: it does not */
    bool is_redone; /* this process reads the chunk that the peer could not copy */
    bool is_spoilt; /* the shared words are invalid; they are not touched any more */
} fab_shm_fetch_t;

/* Memory that a peer, or any, may read, for large gets. */
typedef struct fab_shm_exposure {
    uint64_t at;
    uint64_t len;
    const fab_peer_t *peer; /* NULL: any may */
    uint32_t generation;
    uint32_t next; /* next free one: index + 1; 0: none */
    bool is_used;
    bool is_window; /* any peer may write it, too: it is no message, and stays */
} fab_shm_exposure_t;

/* What the provider knows of a peer. */
struct fab_shm_ep {
    fab_shm_tx_t tx;          /* to the peer; tx.limit is 0 until connected */
    fab_shm_rx_t *rx;         /* &in->rx while that ring is hot; NULL otherwise */
    const fab_shm_rx_t *ring; /* &in->rx; NULL: in is NULL */
    fab_peer_t *peer;
    fab_shm_domain_t *dom;
    fab_shm_in_t *in;       /* the peer's ring here; NULL: it has claimed none yet */
    fab_shm_entry_t *entry; /* of tx in the peer's segment; NULL: not connected */
    uint32_t conn_at;       /* index in dom->conns, or FAB_SHM_COLD: it has neither tx nor in */
    fab_shm_access_t access;
    uint64_t proven_at;        /* ns; when prove() last began to read the nonce; 0: never */
    int64_t xpmem_apid;        /* libxpmem's name for the right to map the peer's memory */
    fab_shm_window_t *windows; /* mapped parts of the peer's memory; NULL: no XPMEM */
    bool is_died;              /* its process is dead; it fails when its ring is empty */
    bool is_left;              /* a tick found that its process has left the job */
    /* of the peer's segment: its first page; from the first send on all entries, num_ahead rings */
    fab_shm_seg_t *seg;
    size_t seg_len;       /* bytes of it */
    size_t ring_len;      /* bytes of the ring's own mapping; 0: the ring is in seg */
    uint64_t waits_since; /* us; when the first attempt to connect failed; 0: none did */
    uint64_t retry_at;    /* us; no attempt before this time */
    uint32_t retry_us;    /* the pause after the next attempt */
    fab_shm_fetch_t fetches[FAB_SHM_COOPS];
    uint32_t unhelped;   /* gets in a row that were offered and that the peer did not help with */
    uint32_t considered; /* gets so far: while unhelped is high one in FAB_SHM_SKIPPED is offered */
    uint32_t num_exposed; /* regions that the peer may fetch with this process's help */
    uint32_t num_long;    /* long gets from the peer in dom->rma; at most FAB_SHM_COOPS */
    fab_rma_t *later;     /* long gets that follow, oldest first; only while these are as many */
    fab_rma_t **later_tail;
    fab_shm_ep_t *next; /* list of all endpoints of the domain */
    fab_shm_ep_t **prev;
    fab_shm_addr_t addr;
};

_Static_assert(offsetof(fab_shm_pair_t, tx) == offsetof(fab_shm_ep_t, tx) &&
                   offsetof(fab_shm_pair_t, rx) == offsetof(fab_shm_ep_t, rx) &&
                   offsetof(fab_shm_pair_t, ring) == offsetof(fab_shm_ep_t, ring),
               "FAB_CAP_RING promises a fab_shm_pair_t");
_Static_assert(FAB_SHM_EAGER_MIN >= FAB_SHM_SHORT_MAX, "a short message may always be sent");

struct fab_shm_domain {
    fab_t *fab;

    /* polling */
    fab_shm_in_t **hot; /* rings that each progress call polls; has room for all rings */
    uint32_t num_hot;
    uint32_t hot_at;    /* index of the ring that was polled last */
    uint32_t pass;      /* number of polls */
    uint32_t sweep_at;  /* ring that was swept last */
    uint32_t num_conns; /* endpoints in conns */
    fab_rma_t *rma;     /* operations under way, next first */
    fab_rma_t **rma_tail;

    /* cooperative copy */
    fab_shm_exposure_t *exposures;
    uint32_t max_exposures;
    uint32_t free_exposure; /* first free one: index + 1; 0: none */
    uint32_t num_exposed;
    uint32_t num_exposed_any; /* of these, to any peer, without windows */
    double cpus;              /* for this job's processes (fab_cpus()); 0: not known yet */
    bool is_coop;             /* this process offers gets and helps peers */
    bool is_coop_forced;      /* it offers all gets, also to peers that have not helped so far */
    uint64_t help;            /* bits taken from seg->help that are still to be served */

    /* own segment */
    fab_shm_seg_t *seg;
    fab_shm_entry_t *entries;
    fab_shm_in_t **ins; /* by ring; NULL: not in use, or its sender was not noticed yet */
    fab_shm_file_t file;
    fab_shm_file_t socket; /* for passing it (shm_pass.c) */
    fab_shm_addr_t addr;   /* this process's, as peers get it */
    uint8_t *nonce;        /* addr.nonce_at is its address */

    /* endpoints */
    fab_shm_ep_t *eps;    /* all */
    fab_shm_ep_t **conns; /* those with tx or in: their processes are checked */
    uint32_t max_conns;
    uint32_t alive_at;  /* index in conns: checked last by kill() */
    uint32_t looked_at; /* index in conns: checked last in /proc */
    uint64_t next_tick; /* us */
    uint64_t next_pass; /* us; when to look whether somebody asks for the segment */

    /* for the description */
    int cma_errno;    /* error of the last peer whose memory could not be read; 0: none */
    int ptrace_scope; /* /proc/sys/kernel/yama/ptrace_scope; -1: this kernel has none */
    uint64_t cma_peer;
};

static inline uint32_t fab_shm_num_slots_of(const fab_shm_addr_t *addr)
{
    return addr->ring_size / FAB_SHM_LINE;
}

/* A ring of this process's segment. */
static inline void *fab_shm_ring(const fab_shm_domain_t *dom, uint32_t index)
{
    return (unsigned char *) dom->seg + fab_shm_ring_at(&dom->addr, index);
}

/* ---- shm_segment.c: segments -------------------------------------------- */

/*
 * Create and map this process's segment.  addr.page is set; this fills in the other fields of addr
 * that describe the segment.  On an error *why is the reason.
 */
int fab_shm_seg_create(fab_shm_domain_t *dom, const char **why);
void fab_shm_seg_destroy(fab_shm_domain_t *dom);

/* The descriptor is the file's, if it is one; -1 stays -1. */
void fab_shm_file_open(fab_shm_file_t *file, int fd);
bool fab_shm_file_is_open(const fab_shm_file_t *file);
void fab_shm_file_close(fab_shm_file_t *file);

/*
 * Map the head of the peer's segment, if its file can be opened.  Done once, when the peer comes:
 * later this process may have no descriptor left or another root directory, and the files of the
 * peer below /proc may be out of reach.
 */
void fab_shm_find(fab_shm_ep_t *ep);

/* The peer has passed its segment's file: map its head.  The caller keeps fd. */
void fab_shm_found(fab_shm_ep_t *ep, int fd);

/*
 * Map the peer's segment and claim a ring in it: afterwards ep->tx can send.  On an error nothing
 * is left behind, and *why is the reason.  OPAL_ERR_RESOURCE_BUSY (all rings are in use) and
 * OPAL_ERR_OUT_OF_RESOURCE (no memory, or no file descriptor): a later attempt may succeed.
 * OPAL_ERR_IN_PROCESS: the peer was asked for its segment, and answers when it is in MPI.
 * OPAL_ERR_UNREACH: no attempt will succeed.
 */
int fab_shm_connect(fab_shm_ep_t *ep, const char **why);

/* Give up the ring: its owner takes what is in it, and then frees it. Unmap the segment. */
void fab_shm_disconnect(fab_shm_ep_t *ep);

/* Make a ring of this process's segment accessible.  False: the kernel has no memory for it. */
bool fab_shm_ring_open(fab_shm_domain_t *dom, uint32_t index);

/* Free a ring of this process's segment, whose claimer is gone. */
void fab_shm_ring_free(fab_shm_domain_t *dom, uint32_t index);

/* ---- shm_ep.c: endpoints ------------------------------------------------ */

extern const fab_ops_t fab_shm_ops;

/* See fab_provider_t. */
bool fab_shm_expose_any(fab_domain_t *domain, const void *buf, size_t len, unsigned access,
                        fab_rkey_t *rkey);
void fab_shm_unexpose_any(fab_domain_t *domain, const fab_rkey_t *rkey);

int fab_shm_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_shm_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_shm_drop(fab_domain_t *dom, fab_peer_t *peer);
void fab_shm_ep_free(fab_shm_ep_t *ep);

/* Enter an endpoint that gets tx or in into dom->conns; take it out again if it has neither. */
int fab_shm_conn_add(fab_shm_ep_t *ep);
void fab_shm_conn_remove(fab_shm_ep_t *ep);

/* ---- shm_in.c: rings that peers claimed here ---------------------------- */

/* Check an entry for a new sender, for one that has left, and for a message in a cold ring. */
void fab_shm_look_at(fab_shm_domain_t *dom, uint32_t index);

void fab_shm_in_heat(fab_shm_domain_t *dom, fab_shm_in_t *in);
void fab_shm_in_cool(fab_shm_domain_t *dom, fab_shm_in_t *in);

/* Release a peer's ring; it becomes free if its sender cannot write to it any more. */
void fab_shm_in_release(fab_shm_domain_t *dom, fab_shm_in_t *in, bool is_sender_gone);

/* Only entries below this may be in use. */
uint32_t fab_shm_high(const fab_shm_domain_t *dom);

/* ---- shm_alive.c: are the peers alive? ---------------------------------- */

/* Check a part of the peers, if it is time. Returns the number of events. */
int fab_shm_tick(fab_shm_domain_t *dom);

/* The peer's process is dead: fail the peer once all that it sent is delivered. */
void fab_shm_ep_died(fab_shm_ep_t *ep);

/* ---- shm_pass.c: segments that /proc does not let others open ----------- */

/* Make the socket; without it this process is reached only through /proc. */
void fab_shm_pass_open(fab_shm_domain_t *dom);

/* Can the peer be asked for its segment, and this process by the peer? */
bool fab_shm_pass_is_possible(const fab_shm_domain_t *dom, const fab_shm_addr_t *addr);

/* Ask the peer for its segment. OPAL_ERR_IN_PROCESS, or OPAL_ERR_UNREACH with *why. */
int fab_shm_pass_ask(fab_shm_ep_t *ep, const char **why);

/* Answer those who ask, and map what peers have passed. */
void fab_shm_pass_serve(fab_shm_domain_t *dom);

/* ---- shm_xpmem.c: a peer's memory, mapped ------------------------------- */

/*
 * Make this process's memory accessible, if there is XPMEM and it is to be used: then
 * dom->addr.xpmem_segid is set.
 */
void fab_shm_xpmem_open(fab_shm_domain_t *dom);
void fab_shm_xpmem_close(fab_shm_domain_t *dom);

/* Get access to the peer's memory, if it has not been done. False: there is none by XPMEM. */
bool fab_shm_xpmem_connect(fab_shm_ep_t *ep);
void fab_shm_xpmem_disconnect(fab_shm_ep_t *ep);

/*
 * Copy len bytes from (is_put: to) the peer's memory, which must be mapped there; ep->windows is
 * not NULL. Returns the number of bytes copied, less than len if a part could not be mapped here.
 */
size_t fab_shm_xpmem_copy(fab_shm_ep_t *ep, bool is_put, void *local, uint64_t remote, size_t len);

/* ---- shm_rma.c: get and put --------------------------------------------- */

/*
 * Read or write up to len bytes of the peer's memory.  OPAL_SUCCESS: *moved is their number.
 * OPAL_ERR_IN_PROCESS: try again.  OPAL_ERR_NOT_SUPPORTED: this memory cannot be accessed.
 * OPAL_ERR_UNREACH: the process is gone.
 */
int fab_shm_read(fab_shm_ep_t *ep, void *to, uint64_t from, size_t len, size_t *moved);
int fab_shm_write(fab_shm_ep_t *ep, const void *from, uint64_t to, size_t len, size_t *moved);

/* Can the peer's memory be accessed?  If this is not known, a test call finds out. */
bool fab_shm_is_accessible(fab_shm_ep_t *ep);

int fab_shm_rma(fab_rma_t *op);
bool fab_shm_rma_now(fab_rma_t *op);
int fab_shm_rma_progress(fab_shm_domain_t *dom);

/*
 * For fab_describe(): if there is a peer for which CMA was not tried yet, try it with one.
 */
void fab_shm_access_try_one(fab_shm_domain_t *dom);

/* The peer failed: complete all its RMA, in error. */
void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer);

/* ---- shm_coop.c: large gets that both sides copy ------------------------ */

/*
 * Set dom->is_coop, by the parameter and the number of cores.  Called again for each peer, because
 * the parameter may be registered after the fabric was opened, by the other user of the fabric.
 */
void fab_shm_coop_configure(fab_shm_domain_t *dom);

/* The part of a key that names memory of a process of this host. */
uint64_t fab_shm_key_of(const fab_rkey_t *rkey);

/*
 * Returns the key, also for unexpose; 0: this process will not help to copy this memory.  peer: who
 * may fetch it; NULL: any.  is_window: any may write it, too.
 */
uint64_t fab_shm_coop_expose(fab_shm_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len,
                             bool is_window);
void fab_shm_coop_unexpose(fab_shm_domain_t *dom, uint64_t key);

/* The peer is gone: end all that was exposed to it. */
void fab_shm_coop_forget(fab_shm_domain_t *dom, const fab_peer_t *peer);

/* Copy one chunk of a get that a peer offers, if there is any.  Returns the number of events. */
int fab_shm_coop_help(fab_shm_domain_t *dom);

/* Is it likely that the peer helps with this operation? */
bool fab_shm_coop_is_worth_it(const fab_shm_ep_t *ep, const fab_rma_t *op);

/* The cooperative get of this operation, offered now if worthwhile; NULL: it is none. */
fab_shm_fetch_t *fab_shm_fetch_of(fab_shm_ep_t *ep, fab_rma_t *op);

/*
 * Copy up to about max bytes.  OPAL_ERR_IN_PROCESS: call again.  OPAL_ERR_RESOURCE_BUSY: call again
 * later, the peer is copying the rest.  Any other result: the get has ended with it.
 */
int fab_shm_fetch_step(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max);

/* End all gets from the peer without completing them.  True: the peer writes no more. */
bool fab_shm_fetch_end(fab_shm_ep_t *ep);

/* The same, and wait: until the peer has copied its chunk, or is found dead. */
void fab_shm_fetch_wait(fab_shm_ep_t *ep);

/* ---- shm_progress.c ----------------------------------------------------- */

int fab_shm_progress(fab_domain_t *dom);
int fab_shm_poll(void *dom);

#endif /* FAB_SHM_TYPES_H */
