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

#include <sys/mman.h>

#include "fabric/fab_claim.h"
#include "fabric/fab_file.h"
#include "fabric/fab_provider.h"
#include "idmap/idmap.h"
#include "shm/shm_ring_inl.h"
#include "shm/shm_ways.h"
#include "shm/shm_wire.h"

#ifndef MADV_POPULATE_WRITE /* glibc before 2.35, whatever the kernel */
#define MADV_POPULATE_WRITE 23
#endif

enum {
    /*
     * messages of one ring per progress call, so that no peer starves the others; and the slots in
     * them, those of 32 fragments of 8 KiB: meanwhile this process sends nothing that waits for
     * room.  Windows of 16 KiB both ways have 1.4 to 1.8 times the rate that they have without.
     */
    FAB_SHM_BATCH = 32,
    FAB_SHM_BATCH_SLOTS = FAB_SHM_BATCH * 128,
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
    FAB_SHM_TICKS_PER_ROUND = 8, /* ticks in which every peer is checked once: 2 s */
    FAB_SHM_LOOKS_PER_TICK = 4,  /* of these, so many in /proc: open, read, close */
    /* rings for processes that join the job later, if shm_max_peers is automatic */
    FAB_SHM_SPARE_RINGS = 1024,
    /* bytes of a ring: shm_segment.c says on what it depends */
    FAB_SHM_RING_LONG = 256 << 10,
    FAB_SHM_RING_LONGER = 512 << 10,
    FAB_SHM_RING_FIRST = 64 << 10, /* of which so many are used at first */
    FAB_SHM_RING_LEAST = 16 << 10, /* where the job has very many processes here */
    /* of the rings of all processes that send to one: if they are long, and in any case */
    FAB_SHM_LONG_BYTES = 2 << 20,
    FAB_SHM_RINGS_BYTES = 8 << 20,
    /* most bytes of rings that a claimer maps with the head: address space in each sender */
    FAB_SHM_AHEAD_MAX = 8 << 20,
    FAB_SHM_AT_ONCE = 512 << 10, /* bytes of rings of a process up to which all connect at start */
    FAB_SHM_COOP_MIN = 8192,     /* bytes; shorter gets are not cooperative */
    FAB_SHM_RETRY_US = 8000,     /* between attempts to connect */
};

typedef struct fab_shm_domain fab_shm_domain_t;
typedef struct fab_shm_ep fab_shm_ep_t;
typedef struct fab_shm_in fab_shm_in_t;
typedef struct fab_shm_window fab_shm_window_t; /* of shm_xpmem.c */

/* A get of a peer's whose memory this process sends (shm_coop.c). */
typedef struct fab_shm_give {
    TAILQ_ENTRY(fab_shm_give) link; /* in dom->gives */
    fab_shm_in_t *in;               /* the ring of the peer; NULL: none */
    fab_shm_ask_t ask;
    uint32_t seq;  /* number of the get */
    uint32_t sent; /* parts */
} fab_shm_give_t;

/* A ring of this process's segment that a peer sends through. */
struct fab_shm_in {
    fab_shm_rx_t rx;
    fab_shm_ep_t *ep;
    uint32_t index;   /* the ring's */
    uint32_t hot_at;  /* index in domain->hot, or FAB_SHM_COLD */
    uint32_t age;     /* ageings since the last message */
    uint64_t aged_at; /* rx.pos at the last ageing */
    bool is_closing;  /* the sender has left: release the ring when it is empty */
    fab_shm_give_t gives[FAB_SHM_COOPS];
};

#define FAB_SHM_COLD UINT32_MAX

typedef enum fab_shm_access {
    FAB_SHM_ACCESS_UNTRIED = 0,
    FAB_SHM_ACCESS_WORKS = 1,
    FAB_SHM_ACCESS_REFUSED = 2, /* by the kernel, or switched off by the user's parameter */
} fab_shm_access_t;

/* A get whose memory the peer may give (shm_coop.c). */
typedef struct fab_shm_fetch {
    fab_rma_t *op;     /* NULL: none */
    uint32_t seq;      /* number of the get, or of the last one */
    uint32_t part;     /* bytes of a part */
    uint64_t received; /* bytes that the peer has given */
    uint64_t end;      /* bytes that it gives, at most */
    uint64_t at;       /* bytes from end to here are read; if is_closed */
    bool is_closed;    /* this process reads the bytes from end on */
} fab_shm_fetch_t;

/* Memory that a peer, or any, may read, for large gets. */
typedef struct fab_shm_exposure {
    uint64_t at;
    uint64_t len;
    const fab_peer_t *peer; /* NULL: any may */
    uint32_t id;            /* in dom->exposures */
} fab_shm_exposure_t;

/* What the provider knows of a peer. */
struct fab_shm_ep {
    fab_shm_tx_t tx;  /* to the peer; tx.limit is 0 until connected */
    fab_shm_rx_t *rx; /* &in->rx while that ring is hot; NULL otherwise */
    fab_peer_t *peer;
    fab_shm_domain_t *dom;
    fab_shm_in_t *in;       /* the peer's ring here; NULL: it has claimed none yet */
    fab_shm_entry_t *entry; /* of tx in the peer's segment; NULL: not connected */
    fab_shm_access_t access;
    uint64_t proven_at;        /* ns; when prove() last began to read the nonce; 0: never */
    int64_t xpmem_apid;        /* libxpmem's name for the right to map the peer's memory */
    fab_shm_window_t *windows; /* mapped parts of the peer's memory; NULL: no XPMEM */
    bool is_died;              /* its process is dead; it fails when its ring is empty */
    bool is_left;              /* a tick found that its process has left the job */
    /* all entries and num_ahead rings of the peer's segment; before the first send only its first
     * page may be accessed */
    fab_shm_seg_t *seg;
    size_t seg_len;       /* bytes of it */
    size_t ring_len;      /* bytes of the ring's own mapping; 0: the ring is in seg */
    uint64_t waits_since; /* us; when the first attempt to connect failed; 0: none did */
    uint64_t retry_at;    /* us; no attempt before this time */
    fab_shm_fetch_t fetches[FAB_SHM_COOPS];
    uint64_t given_at;     /* ns; when the peer was asked, or gave a part, last */
    uint64_t beaten_at;    /* ns; when the peer's beat was seen to change, or to be odd */
    uint32_t beat;         /* that was seen last */
    fab_shm_ways_t *ways;  /* how its long messages come; NULL: there was none yet */
    uint32_t num_open;     /* long messages from the peer that are under way */
    uint32_t num_long;     /* long gets from the peer in dom->rma; at most FAB_SHM_COOPS */
    fab_rma_queue_t later; /* long gets that follow, oldest first; only while these are as many */
    LIST_ENTRY(fab_shm_ep) link; /* in dom->eps */
    fab_shm_addr_t addr;
};

_Static_assert(offsetof(fab_shm_pair_t, tx) == offsetof(fab_shm_ep_t, tx) &&
                   offsetof(fab_shm_pair_t, rx) == offsetof(fab_shm_ep_t, rx),
               "FAB_CAP_RING promises a fab_shm_pair_t");
_Static_assert(FAB_SHM_EAGER_MIN >= FAB_SHM_SHORT_MAX, "a short message may always be sent");

struct fab_shm_domain {
    fab_t *fab;

    /* polling */
    fab_shm_in_t **hot; /* rings that each progress call polls; has room for all rings */
    uint32_t num_hot;
    uint32_t hot_at;     /* index of the ring that was polled last */
    uint32_t pass;       /* number of polls */
    uint32_t sweep_at;   /* ring that was swept last */
    fab_rma_queue_t rma; /* operations under way, next first */

    /* cooperative gets */
    fab_idmap_t exposures;            /* fab_shm_exposure_t */
    TAILQ_HEAD(, fab_shm_give) gives; /* under way, oldest first */
    bool is_coop;                     /* long gets are cooperative */
    bool is_choosing;                 /* ... where that is measured to be faster (shm_ways.h) */
    uint64_t patience;                /* ns; how long to wait for a part of a giver in MPI */
    uint64_t away;                    /* ns; whose beat stands still for so long is not */

    /* own segment */
    fab_shm_seg_t *seg;
    fab_shm_entry_t *entries;
    fab_shm_in_t **ins; /* by ring; NULL: not in use, or its sender was not noticed yet */
    fab_file_t file;
    fab_file_t socket;   /* for passing it (shm_pass.c) */
    fab_shm_addr_t addr; /* this process's, as peers get it */
    uint8_t *nonce;      /* addr.nonce_at is its address */

    /* endpoints */
    const fab_provider_t *provider; /* of those that are found by their rings: this one */
    LIST_HEAD(, fab_shm_ep) eps;    /* all; those with seg, tx or in are checked */
    uint32_t num_eps;
    fab_shm_ep_t *alive_next; /* to be checked next, by kill(); NULL: the first one */
    fab_shm_ep_t *look_next;  /* the same, in /proc */
    uint64_t next_tick;       /* us */
    uint64_t next_pass;       /* us; when to look whether somebody asks for the segment */

    /* for the description */
    unsigned num_refused;  /* peers that shared memory does not reach */
    char why_refused[128]; /* the last of them */
    bool has_said_wait;    /* the user knows that messages wait for a ring, or for a segment */
    int cma_errno;         /* error of the last peer whose memory could not be read; 0: none */
    int ptrace_scope;      /* /proc/sys/kernel/yama/ptrace_scope; -1: this kernel has none */
};

static inline uint32_t fab_shm_num_slots_of(const fab_shm_addr_t *addr)
{
    return addr->ring_size / FAB_SHM_LINE;
}

/* Bytes of a ring that are used at first. */
static inline uint32_t fab_shm_first_size(const fab_shm_addr_t *addr)
{
    uint32_t size = FAB_SHM_RING_FIRST;

    while (size < addr->page || fab_shm_ring_eager_max(size) < addr->eager_max) {
        size *= 2;
    }
    return size < addr->ring_size ? size : addr->ring_size;
}

/* A ring of this process's segment. */
static inline void *fab_shm_ring(const fab_shm_domain_t *dom, uint32_t index)
{
    return (unsigned char *) dom->seg + fab_shm_ring_at(&dom->addr, index);
}

#endif /* FAB_SHM_TYPES_H */
