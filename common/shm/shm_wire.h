/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory between the processes of a host: every byte that two processes see.
 *
 * Each process has one segment, a memfd: it has no name, so nothing can be left behind.  A peer
 * maps it through /proc/<pid>/fd/<fd>; pid and fd are in the address.  Where /proc refuses this, it
 * asks the owner for the descriptor (fab_shm_pass_t).  The segment belongs to the receiver and has
 * one ring for each process that sends to it.
 *
 *      0                 256            rings_at (page)                   rings_at + i * stride
 *      ┌─────────────────┬──────────────┬──────────────┬──────────────┬──────
 *      │ fab_shm_seg_t   │ entries[n]   │ ring 0       │ ring 1       │ ...
 *      └─────────────────┴──────────────┴──────────────┴──────────────┴──────
 * stride is ring_size, or the page size if that is larger: rings begin at page boundaries, because
 * the kernel maps only whole pages.  The claimer of a ring gets memory for the pages that it uses.
 * So a segment for 1000 peers of which 3 communicate costs 3 rings, or the parts of them that are
 * used, and a lack of memory is an error, not a SIGBUS.  Every process computes the layout from the
 * owner's address (page, ring_size, num_rings), so no offset is ever read from shared memory.
 *
 * A claimer maps the first num_ahead rings together with the head and the entries; the rings of the
 * owner's job are among these.  Any other ring, of a process that joined the job later, is mapped
 * separately.
 *
 * Who writes what.  "owner" is the process whose segment it is, "sender" the one that claimed the
 * ring.
 *
 *      fab_shm_seg_t    line 0  owner, before its address is known; constant then
 *                       line 1  owner: is_finalized, once; beat
 *                       line 2  senders, when they claim a ring; owner, when it frees one
 *                       line 3  doorbell: senders set bits, owner clears them
 *      fab_shm_entry_t  line 0  owner: idle, is_refused, pulled
 *                       line 1  owner: tail
 *                       line 2+ sender: identity; state by both, see below
 *                       line 4+ claims of cooperative gets, see fab_claim.h
 *      ring             slots   sender
 *
 * State of an entry.  The word also contains the claimer's pid, so that the owner finds entries
 * whose claimer has died.
 *
 *      FREE ──sender: CAS──> CLAIMED ──sender: identity written──> READY ──sender leaves──> CLOSED
 *       ^                       │                                    │                        │
 *       └───────────────────────┴───────── owner: claimer dead ──────┴──── owner: drained ────┘
 */
#ifndef FAB_SHM_WIRE_H
#define FAB_SHM_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab.h"

#define FAB_SHM_MAGIC   UINT64_C(0x314d485342414650) /* "PFABSHM1", little endian */
#define FAB_SHM_VERSION 14
#define FAB_SHM_FILE    "pml_tm" /* name of the segment's memfd */

enum {
    FAB_SHM_LINE = 64,       /* bytes of a cache line and of a slot */
    FAB_SHM_PAGE_MIN = 4096, /* bytes; pages of any supported kernel are in this range */
    FAB_SHM_PAGE_MAX = 1 << 20,
    FAB_SHM_RING_MIN = 4096, /* bytes */
    FAB_SHM_RING_MAX = 1 << 24,
    FAB_SHM_RINGS_MAX = 65536, /* rings in a segment */
    FAB_SHM_EAGER_MIN = 304,   /* bytes: FAB_POST_MAX, and sizeof(fab_rndv_t) */
    FAB_SHM_NONCE = 16,        /* bytes */
};

/*
 * Section of a process's address.  The process also copies it into the entry of each ring that it
 * claims, so that the ring's owner can send to it.
 */
typedef struct fab_shm_addr {
    uint32_t version;
    uint32_t pid;
    int32_t fd; /* of the segment, in that process */
    uint32_t uid;
    /* hash of host name, boot and pid namespace: pid and fd have a meaning only there */
    uint64_t host;
    /* of the process, clock ticks since boot: distinguishes it from a later one with its pid */
    uint64_t start_time;
    uint64_t nonce_at; /* address of the nonce in its memory; reading it proves that CMA works */
    uint8_t nonce[FAB_SHM_NONCE];
    uint32_t ring_size; /* bytes of slots per ring */
    uint32_t num_rings;
    uint32_t eager_max;  /* longest payload that the owner accepts, bytes */
    uint32_t page;       /* bytes of a page of its kernel */
    uint32_t num_ahead;  /* rings that a claimer maps together with the head */
    uint32_t socket;     /* name of its Unix socket + 1; 0: it has none */
    int64_t xpmem_segid; /* of its memory; 0: not accessible by XPMEM */
    uint64_t user_ns;    /* hash of its user namespace: in another one /proc refuses */
    uint64_t net_ns;     /* of its network namespace: the socket's name has a meaning only there */
} fab_shm_addr_t;

_Static_assert(104 == sizeof(fab_shm_addr_t), "fab_shm_addr_t is a wire format");

/*
 * A datagram between the Unix sockets of two processes, which the kernel names (5 hexadecimal
 * digits in the abstract namespace).  The answer goes to whom the question came from, with the
 * segment's descriptor (SCM_RIGHTS).  The nonce, which only the job's processes know, says whose
 * segment is meant, and proves that the asker belongs to the job; the kernel adds the sender's user
 * (SCM_CREDENTIALS).
 */
typedef struct fab_shm_pass {
    uint32_t magic; /* FAB_SHM_ASK or FAB_SHM_GIVE */
    uint32_t version;
    uint8_t nonce[FAB_SHM_NONCE]; /* of the segment's owner */
} fab_shm_pass_t;

_Static_assert(24 == sizeof(fab_shm_pass_t), "fab_shm_pass_t is a wire format");

#define FAB_SHM_ASK  UINT32_C(0x4b534153) /* "SASK", little endian */
#define FAB_SHM_GIVE UINT32_C(0x56474153) /* "SAGV" */

typedef struct fab_shm_seg {
    /* line 0 */
    uint64_t magic;
    uint32_t version;
    uint32_t ring_size;
    uint32_t num_rings;
    uint32_t eager_max;
    uint64_t size; /* bytes of the segment */
    uint64_t name;
    uint8_t nonce[FAB_SHM_NONCE];
    uint32_t page;
    uint32_t num_ahead;
    /* line 1 */
    _Atomic uint32_t is_finalized; /* the owner left in an orderly way */
    _Atomic uint32_t beat;         /* changes while the owner polls; odd: it copies; shm_coop.c */
    uint8_t pad1[56];
    /* line 2 */
    _Atomic uint32_t claim_hint; /* where to look for a free entry first: fetch-and-add */
    _Atomic uint32_t high;       /* only entries below this may be in use */
    _Atomic uint32_t backed;     /* entries below this have memory */
    uint8_t pad2[52];
    /* line 3 */
    _Atomic uint64_t doorbell; /* bit i % 64: look at entry i */
    uint8_t pad3[56];
} fab_shm_seg_t;

_Static_assert(256 == sizeof(fab_shm_seg_t), "fab_shm_seg_t is shared");
_Static_assert(64 == offsetof(fab_shm_seg_t, is_finalized), "the owner's line");
_Static_assert(128 == offsetof(fab_shm_seg_t, claim_hint), "the claimers' line");
_Static_assert(192 == offsetof(fab_shm_seg_t, doorbell), "the doorbell's line");

/*
 * What the receiver tells the sender of a ring.  The sender reads line 0 after each message, line 1
 * seldom: so a tail that is published does not take line 0 from its cache.
 */
typedef struct fab_shm_ctl {
    /* line 0 */
    /* odd: the receiver does not poll this ring: ring the doorbell; one number per idle period */
    _Atomic uint32_t idle;
    _Atomic uint32_t is_refused; /* the receiver takes no more messages from this ring */
    _Atomic uint32_t pulled;     /* fab_shm_ways_word(): bits by class: is to be announced */
    uint8_t pad0[52];
    /* line 1 */
    _Atomic uint64_t tail; /* slots consumed since the ring was claimed: shm_ring_inl.h, "Flow" */
    uint8_t pad1[56];
} fab_shm_ctl_t;

_Static_assert(2 * FAB_SHM_LINE == sizeof(fab_shm_ctl_t), "lines of its own");
_Static_assert(FAB_SHM_LINE == offsetof(fab_shm_ctl_t, tail), "a line of its own");

/*
 * A get whose memory the owner may give: shm_coop.c.  The fetcher is the process that claimed the
 * ring.
 */
typedef struct fab_shm_claim {
    _Atomic uint64_t word; /* fab_claim.h */
    uint8_t pad[56];
} fab_shm_claim_t;

_Static_assert(64 == sizeof(fab_shm_claim_t), "a line of its own");

/* Ids of messages between two processes of a host that no user sees. */
enum {
    FAB_SHM_AM_ASK = FAB_AM_PROVIDER,      /* fab_shm_ask_t; app_ctx: number of the get */
    FAB_SHM_AM_PART = FAB_AM_PROVIDER + 1, /* data; tag: offset; app_ctx: number of the get */
};

/* Give this memory. */
typedef struct fab_shm_ask {
    uint64_t from; /* in the giver's memory */
    uint64_t len;  /* bytes */
    uint64_t key;  /* fab_shm_rkey_t.key of the memory that the giver exposed */
    uint32_t part; /* bytes of a part; the last one may be shorter */
    uint32_t reserved;
} fab_shm_ask_t;

_Static_assert(32 == sizeof(fab_shm_ask_t), "fab_shm_ask_t is a wire format");

/* Start of fab_rkey_t. */
typedef struct fab_shm_rkey {
    uint8_t other[16]; /* the part of a provider for other hosts: fab_expose_any() */
    uint64_t key;      /* id of the memory in the owner (idmap.h); 0: it is not given */
} fab_shm_rkey_t;

_Static_assert(sizeof(fab_shm_rkey_t) <= sizeof(fab_rkey_t), "it must fit");

static inline uint64_t fab_shm_key_of(const fab_rkey_t *rkey)
{
    uint64_t key;

    memcpy(&key, rkey->bytes + offsetof(fab_shm_rkey_t, key), sizeof(key));
    return key;
}

enum {
    FAB_SHM_COOPS = 2, /* cooperative gets of one peer at a time */
};

enum {
    FAB_SHM_FREE = 0,
    FAB_SHM_CLAIMED = 1, /* a sender writes its identity */
    FAB_SHM_READY = 2,   /* in use */
    FAB_SHM_CLOSED = 3,  /* the sender sends no more */
};

typedef struct fab_shm_entry {
    fab_shm_ctl_t ctl;      /* from the owner to the sender */
    _Atomic uint64_t state; /* FAB_SHM_*, and the claimer's pid << 32 */
    uint64_t name;          /* of the sender; name and addr are valid from READY on */
    fab_shm_addr_t addr;
    uint8_t pad[8];
    fab_shm_claim_t claims[FAB_SHM_COOPS]; /* number of the get % FAB_SHM_COOPS */
} fab_shm_entry_t;

_Static_assert(384 == sizeof(fab_shm_entry_t), "fab_shm_entry_t is shared");
_Static_assert(256 == offsetof(fab_shm_entry_t, claims), "lines of their own");
_Static_assert(128 == offsetof(fab_shm_entry_t, state), "the two sides write to different lines");

/*
 * A slot: one cache line.  A message begins with a slot's 24 bytes of header; its payload follows
 * from byte 24 on, through as many of the next slots as it needs, without gap.  So a message of up
 * to 40 bytes is one line, any payload is contiguous and 8-byte aligned.
 *
 *       0 word     u64: len (32 bits) | id (8) << 32 | flags (8) << 40 | lap (16) << 48, written
 *                  last
 *       8 tag      u64
 *      16 app_ctx  u32
 *      20 reserved u32
 *      24 payload  ...
 *
 * lap counts the sender's laps around the ring: 1, 2, ... 65535, 1, ...  It is never 0, so a
 * cleared word is no message.
 */
typedef struct fab_shm_slot {
    _Atomic uint64_t word;
    uint64_t tag;
    uint32_t app_ctx;
    uint32_t reserved;
    uint8_t payload[40];
} fab_shm_slot_t;

_Static_assert(FAB_SHM_LINE == sizeof(fab_shm_slot_t), "a slot is a line");
_Static_assert(24 == offsetof(fab_shm_slot_t, payload), "payload begins 8-byte aligned");

/* Where the payload begins; it may continue in the next slots. */
static inline uint8_t *fab_shm_payload(fab_shm_slot_t *slot)
{
    return (uint8_t *) slot + offsetof(fab_shm_slot_t, payload);
}

enum {
    FAB_SHM_FLAG_PAD = 1,  /* no message: skip the rest of the ring, continue at its start */
    FAB_SHM_FLAG_GROW = 2, /* with PAD: and from there on use all of the ring */
};

static inline uint64_t fab_shm_word(uint32_t len, uint8_t id, uint8_t flags, uint16_t lap)
{
    return len | (uint64_t) id << 32 | (uint64_t) flags << 40 | (uint64_t) lap << 48;
}

/* Longest payload for a ring of this size: a message takes at most a quarter of it and one slot. */
static inline uint32_t fab_shm_ring_eager_max(uint32_t ring_size)
{
    return ring_size / 4;
}

/* The size of a ring that is at least `least`, and takes such a payload if any ring does. */
static inline uint32_t fab_shm_ring_for(uint32_t eager_max, uint32_t least)
{
    while (fab_shm_ring_eager_max(least) < eager_max && least < FAB_SHM_RING_MAX) {
        least *= 2;
    }
    return least;
}

static inline size_t fab_shm_round_up(size_t len, size_t unit)
{
    return (len + unit - 1) & ~(unit - 1);
}

/* Offset of entry i, and so the end of the first i entries. */
static inline size_t fab_shm_entry_at(uint32_t i)
{
    return sizeof(fab_shm_seg_t) + (size_t) i * sizeof(fab_shm_entry_t);
}

/* Bytes from one ring to the next. */
static inline size_t fab_shm_stride(const fab_shm_addr_t *addr)
{
    return addr->ring_size < addr->page ? addr->page : addr->ring_size;
}

/* Offset of ring i; that of ring num_rings is the end of the segment. */
static inline size_t fab_shm_ring_at(const fab_shm_addr_t *addr, uint32_t i)
{
    return fab_shm_round_up(fab_shm_entry_at(addr->num_rings), addr->page) +
           i * fab_shm_stride(addr);
}

static inline size_t fab_shm_seg_size(const fab_shm_addr_t *addr)
{
    return fab_shm_ring_at(addr, addr->num_rings);
}

static inline fab_shm_entry_t *fab_shm_seg_entries(fab_shm_seg_t *seg)
{
    return (fab_shm_entry_t *) (seg + 1);
}

static inline uint32_t fab_shm_state_of(uint64_t state)
{
    return (uint32_t) (state & 0xff);
}

static inline uint32_t fab_shm_pid_of(uint64_t state)
{
    return (uint32_t) (state >> 32);
}

static inline uint64_t fab_shm_state(uint32_t pid, uint32_t state)
{
    return (uint64_t) pid << 32 | state;
}

#endif /* FAB_SHM_WIRE_H */
