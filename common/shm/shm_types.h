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
    /* messages of one ring per progress call: one peer cannot starve the others */
    FAB_SHM_BATCH = 32,
    FAB_SHM_SWEEP_PASSES = 16, /* polls between looks at one cold ring */
    /* polls between ageings of the hot rings; a multiple of the former */
    FAB_SHM_AGE_PASSES = 512,
    /* polls between looks at the clock; a multiple of the former */
    FAB_SHM_CLOCK_PASSES = 1024,
    FAB_SHM_FEW_HOT = 8, /* up to so many hot rings polling is cheap: keep them long */
    /* ageings without message after which a ring goes cold, with few: 32768 polls, ~0.3 ms */
    FAB_SHM_AGE_FEW = 64,
    FAB_SHM_AGE_MANY = 2,        /* the same with many hot rings */
    FAB_SHM_TICK_US = 250000,    /* time between looks whether peers live */
    FAB_SHM_TICKS_PER_ROUND = 8, /* ticks in which every connected peer is looked at once: 2 s */
    FAB_SHM_LOOKS_PER_TICK = 4,  /* of which so many in /proc: open, read, close */
    /* rings for processes that join the job later, if shm_max_peers is automatic */
    FAB_SHM_SPARE_RINGS = 1024,
    FAB_SHM_RING_LARGE = 1 << 20,  /* bytes; what choose_ring_size() chooses between */
    FAB_SHM_RING_SMALL = 16 << 10, /* bytes */
    FAB_SHM_RINGS_BYTES = 4 << 20, /* of a process's rings, if all of its job on the host use one */
    /* bytes of rings at most that a claimer maps with the head: address space in each sender */
    FAB_SHM_AHEAD_MAX = 4 << 20,
    FAB_SHM_RETRY_MAX_US = 64000, /* between attempts to connect; the first comes after 1 ms */
};

typedef struct fab_shm_domain fab_shm_domain_t;
typedef struct fab_shm_ep fab_shm_ep_t;

/* A ring of this process's segment that a peer sends through. */
typedef struct fab_shm_in {
    fab_shm_rx_t rx; /* polled */
    fab_shm_ep_t *ep;
    uint32_t index;   /* of the ring */
    uint32_t hot_at;  /* index in domain->hot, or FAB_SHM_COLD */
    uint32_t age;     /* ageings since the last message ... */
    uint64_t aged_at; /* ... which had come by this position */
    bool is_closing;  /* the sender left: release when empty */
    uint32_t
        unable[FAB_SHM_COOPS]; /* numbers of gets with which this process cannot help; 0: none */
} fab_shm_in_t;

#define FAB_SHM_COLD UINT32_MAX

typedef enum fab_shm_cma {
    FAB_SHM_CMA_UNTRIED = 0,
    FAB_SHM_CMA_WORKS = 1,
    FAB_SHM_CMA_REFUSED = 2, /* by the kernel, or by the user's parameter */
} fab_shm_cma_t;

/* A get that the peer may help with (shm_coop.c). */
typedef struct fab_shm_fetch {
    fab_rma_t *op; /* NULL: none */
    fab_shm_offer_t offer;
    uint32_t front; /* chunks claimed by this process */
    uint32_t back;  /* by the peer, as last seen */
    uint64_t at;    /* bytes at..end-1 are claimed by this process and not read yet */
    uint64_t end;
    int status;     /* why it ends; OPAL_SUCCESS: it goes on */
    bool is_redone; /* what the peer could not copy is claimed */
    bool is_spoilt; /* the shared words make no sense: they are left alone */
} fab_shm_fetch_t;

/* Memory that a peer may read, for large gets. */
typedef struct fab_shm_exposure {
    uint64_t at;
    uint64_t len;
    const fab_peer_t *peer; /* NULL: free */
    uint32_t generation;
    uint32_t next; /* of the free ones: number + 1; 0: none */
} fab_shm_exposure_t;

/* What the provider knows of a peer. */
struct fab_shm_ep {
    fab_shm_tx_t tx;  /* towards the peer; tx.limit == 0 until connected */
    fab_shm_rx_t *rx; /* of in, while that is hot; NULL: it is not, or there is none */
    fab_peer_t *peer;
    fab_shm_domain_t *dom;
    fab_shm_in_t *in;       /* from the peer; NULL: it did not send yet */
    fab_shm_entry_t *entry; /* of tx in the peer's segment; NULL: not connected */
    uint32_t conn_at;       /* index in dom->conns, or FAB_SHM_COLD: neither tx nor in */
    fab_shm_cma_t cma;
    uint64_t proven_at;   /* ns; the clock before cma_prove() last read the nonce; 0: never */
    bool is_died;         /* found dead; fails when its ring is empty */
    bool is_left;         /* a tick has found that it left the job */
    fab_shm_seg_t *seg;   /* the peer's segment: head, entries, rings that are mapped ahead */
    size_t seg_len;       /* bytes mapped of it */
    size_t ring_len;      /* bytes of tx's own mapping; 0: it lies in seg */
    uint64_t waits_since; /* us; the first attempt to connect that failed; 0: none */
    uint64_t retry_at;    /* us; no attempt before */
    uint32_t retry_us;    /* before the next but one */
    fab_shm_fetch_t fetches[FAB_SHM_COOPS];
    uint32_t unhelped;  /* cooperative gets in a row that the peer did not help with */
    uint32_t skipped;   /* gets not offered for that reason */
    fab_shm_ep_t *next; /* of all in the domain */
    fab_shm_ep_t **prev;
    fab_shm_addr_t addr;
};

_Static_assert(offsetof(fab_shm_pair_t, tx) == offsetof(fab_shm_ep_t, tx) &&
                   offsetof(fab_shm_pair_t, rx) == offsetof(fab_shm_ep_t, rx),
               "FAB_CAP_RING promises a fab_shm_pair_t");
_Static_assert(FAB_SHM_EAGER_MIN >= FAB_SHM_SHORT_MAX, "a short message may always be sent");

struct fab_shm_domain {
    fab_t *fab;

    /* polling */
    fab_shm_in_t **hot; /* polled in each progress call; room for all rings */
    uint32_t num_hot;
    uint32_t hot_at;    /* the one polled last */
    uint32_t pass;      /* polls */
    uint32_t sweep_at;  /* ring that was swept last */
    uint32_t num_conns; /* connected endpoints */
    fab_rma_t *rma;     /* under way, oldest first */
    fab_rma_t **rma_tail;

    /* cooperative copy */
    fab_shm_exposure_t *exposures;
    uint32_t max_exposures;
    uint32_t free_exposure; /* number + 1; 0: none */
    uint32_t num_exposed;
    long num_cores;      /* of this host; 0: not asked */
    bool is_coop;        /* gets are offered, and peers helped */
    bool is_coop_forced; /* also where it did not pay so far */
    uint64_t help;       /* bits taken from seg->help, not worked off */

    /* own segment */
    fab_shm_seg_t *seg;
    fab_shm_entry_t *entries;
    fab_shm_in_t **ins; /* by ring; NULL: not in use, or not seen yet */
    int fd;
    uint64_t fd_dev; /* of the file that fd is, by fstat() */
    uint64_t fd_ino;
    fab_shm_addr_t addr; /* of this process, as peers get it */
    uint8_t *nonce;      /* what addr.nonce_at points at */

    /* endpoints */
    fab_shm_ep_t *eps;    /* all */
    fab_shm_ep_t **conns; /* connected: looked at whether they live */
    uint32_t max_conns;
    uint32_t alive_at;  /* asked last */
    uint32_t looked_at; /* looked at in /proc last */
    uint64_t next_tick; /* us */

    /* for the description */
    int cma_errno;    /* of the last peer whose memory was refused; 0: none */
    int ptrace_scope; /* /proc/sys/kernel/yama/ptrace_scope; -1: there is none */
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
 * Make and map this process's segment; addr.page is set, fills the rest of addr that concerns the
 * segment.  OPAL codes, with *why.
 */
int fab_shm_seg_create(fab_shm_domain_t *dom, const char **why);
void fab_shm_seg_destroy(fab_shm_domain_t *dom);

/*
 * Map the peer's segment and claim a ring in it: afterwards ep->tx can send.  On an error nothing
 * is left behind.  OPAL_ERR_RESOURCE_BUSY (all rings are in use) and OPAL_ERR_OUT_OF_RESOURCE (no
 * memory, no file descriptor): later perhaps.  OPAL_ERR_UNREACH: never.  With *why.
 */
int fab_shm_connect(fab_shm_ep_t *ep, const char **why);

/* Give the ring up; orderly: the receiver takes what is in it and then frees it. Unmap. */
void fab_shm_disconnect(fab_shm_ep_t *ep);

/* Make a ring of this process's segment free again; its claimer is gone. */
void fab_shm_ring_free(fab_shm_domain_t *dom, uint32_t index);

/* ---- shm_ep.c: endpoints ------------------------------------------------ */

extern const fab_ops_t fab_shm_ops;

int fab_shm_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_shm_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_shm_drop(fab_domain_t *dom, fab_peer_t *peer);
void fab_shm_ep_free(fab_shm_ep_t *ep);

/* An endpoint has tx or in: it is looked at whether it lives.  Undone when it has neither. */
int fab_shm_conn_add(fab_shm_ep_t *ep);
void fab_shm_conn_remove(fab_shm_ep_t *ep);

/* ---- shm_in.c: rings that peers claimed here ---------------------------- */

/* Look at entry index: a new sender, one that left, a message in a cold ring. */
void fab_shm_look_at(fab_shm_domain_t *dom, uint32_t index);

void fab_shm_in_heat(fab_shm_domain_t *dom, fab_shm_in_t *in);
void fab_shm_in_cool(fab_shm_domain_t *dom, fab_shm_in_t *in);

/* Release it; the ring becomes free if its sender cannot write to it any more. */
void fab_shm_in_release(fab_shm_domain_t *dom, fab_shm_in_t *in, bool is_sender_gone);

/* Entries that may be in use. */
uint32_t fab_shm_high(const fab_shm_domain_t *dom);

/* ---- shm_alive.c: do the peers live? ------------------------------------ */

/* The clock's turn. Returns events. */
int fab_shm_tick(fab_shm_domain_t *dom);

/* The peer's process is gone: fails it, once all that it sent was delivered. */
void fab_shm_ep_died(fab_shm_ep_t *ep);

/* ---- shm_cma.c: get and put --------------------------------------------- */

/*
 * Read or write up to len bytes of the peer's memory.  OPAL_SUCCESS: *moved says how many.
 * OPAL_ERR_IN_PROCESS: try again.  OPAL_ERR_NOT_SUPPORTED: it cannot be reached so.
 * OPAL_ERR_UNREACH: the process is gone.  Proven: these are that process's bytes, not those of a
 * later one with its pid.
 */
int fab_shm_cma_read_proven(fab_shm_ep_t *ep, void *to, uint64_t from, size_t len, size_t *moved);
int fab_shm_cma_write(fab_shm_ep_t *ep, const void *from, uint64_t to, size_t len, size_t *moved);

/* Can the peer's memory be reached?  Tried if it was not. */
bool fab_shm_cma_works(fab_shm_ep_t *ep);

int fab_shm_rma(fab_rma_t *op);
bool fab_shm_rma_now(fab_rma_t *op);
int fab_shm_rma_progress(fab_shm_domain_t *dom);

/*
 * Find out now whether one peer's memory can be read, if there is one not tried: for
 * fab_describe().
 */
void fab_shm_cma_try_one(fab_shm_domain_t *dom);

/* Complete all RMA with this peer: it failed. */
void fab_shm_rma_drop(fab_shm_domain_t *dom, fab_peer_t *peer);

/* ---- shm_coop.c: large gets that both sides copy ------------------------ */

/*
 * Whether, by the parameter and the number of cores.  With each peer again: another user may have
 * opened the fabric before the one whose parameters hold was registered.
 */
void fab_shm_coop_configure(fab_shm_domain_t *dom);

/* Returns the key for unexpose; 0: this process does not help with it. */
uint64_t fab_shm_coop_expose(fab_shm_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len);
void fab_shm_coop_unexpose(fab_shm_domain_t *dom, uint64_t key);

/* The peer is gone: nothing is exposed to it any more. */
void fab_shm_coop_forget(fab_shm_domain_t *dom, const fab_peer_t *peer);

/* Copy a chunk for a peer, if one wants it.  Returns events. */
int fab_shm_coop_help(fab_shm_domain_t *dom);

/* The operation as a cooperative one, offered now if it is worth while; NULL: it is none. */
fab_shm_fetch_t *fab_shm_fetch_of(fab_shm_ep_t *ep, fab_rma_t *op);

/*
 * Copy up to about max bytes.  OPAL_ERR_IN_PROCESS: go on later.  OPAL_ERR_RESOURCE_BUSY: the same,
 * and until then there is nothing to do but to wait for the peer.  Others: it has ended so.
 */
int fab_shm_fetch_step(fab_shm_ep_t *ep, fab_shm_fetch_t *fetch, size_t max);

/* End all with the peer, without completing them.  True: the peer writes nothing any more. */
bool fab_shm_fetch_end(fab_shm_ep_t *ep);

/* The same, wait for it: for as long as a chunk takes, or until the peer is found dead. */
void fab_shm_fetch_wait(fab_shm_ep_t *ep);

/* ---- shm_progress.c ----------------------------------------------------- */

int fab_shm_progress(fab_domain_t *dom);
int fab_shm_poll(void *dom);

#endif /* FAB_SHM_TYPES_H */
