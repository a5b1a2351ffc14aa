/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher's structures: the two nodes that callers embed, the index that finds them, and the
 * domain.
 *
 * (source, tag) is one 64-bit key.  FAB_MATCH_ANY is -1, and no message has -1 as source or tag, so
 * a pattern is a key as well: (3, ANY), (ANY, 7) and (ANY, ANY) are three more keys, distinct from
 * the key of every message.  One index of queues by key therefore serves all four patterns:
 *
 *   a posted receive     is filed once, under the key that its pattern is;
 *   an arriving message   looks at the heads of the (at most) four keys that it fits, and takes the
 *                         oldest;
 *   an unexpected message is filed under each key that a receive may ask for;
 *   a receive or a probe  looks at the head of one key.
 *
 * The index: buckets chain the *leaders*, the oldest entry of each key; the later entries of a key
 * hang in a ring behind its leader, oldest first.  When a leader leaves, the next of its ring takes
 * its place in the chain.  A key needs no object of its own, so filing needs no allocation that
 * could fail.
 *
 *      bucket[]
 *      +-----+      leader, key A           follower, key A          follower, key A (newest)
 *      |  0  |      +------------+  queue   +------------+  queue    +------------+
 *      |  1  |----->|  source,tag|<-------->|            |<--------->|            |<--+
 *      |  2  |      |  chain --+ |          | chain=self |           | chain=self |   |
 *      |  .  |   +->+----------|-+          +------------+           +------------+   |
 *      |  .  |   +-------------|------------------------------------------------------+
 *      +-----+                 v              (a ring: the newest is leader->queue.prev)
 *                   leader, key B (same bucket; alone, its ring is itself; chain = NULL: the last)
 *
 * The buckets grow by linear hashing (Litwin 1980): each new key beyond one per bucket splits the
 * next bucket in two.  So the longest step of an insertion is one short chain, a search checks one
 * bucket only, and nothing is ever copied.  Without memory for more buckets the present ones stay
 * in use; all are freed with the domain, eight bytes for each key at the fullest moment.  Buckets
 * are in segments, each a multiple of all segments before it, so that buckets never move:
 *
 *      seg[0] -> first[4], in the domain      buckets 0..3
 *      seg[1] -> malloc                       buckets 4..63
 *      seg[2] -> malloc                       buckets 64..1023
 *      ...       and so on, times 16
 *
 * A segment is indexed by the bucket's own number: its first sixteenth is unused, and its memory is
 * never touched.
 *
 * Costs, in cache lines that the domain does not already hold: a search 1 bucket + 1 leader; an
 * insertion 1 bucket + the queue's end, or one more bucket for the split; a removal stores to its
 * neighbours without waiting for them.
 */
#ifndef FAB_MATCH_TYPES_H
#define FAB_MATCH_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Length of the short list of receives, which a domain fills before it uses the index: the windows
 * of most codes and benchmarks fit.  A power of two; tests take a smaller one.
 */
#ifndef FAB_MATCH_SHORT_LEN
#define FAB_MATCH_SHORT_LEN 64
#endif

/*
 * Number of unexpected messages that a domain keeps only in their order ring; with one more, all
 * are filed in the index until none is left.  Walking a ring costs a cache line per node, so this
 * is less than the length above.  Measured (N added, then taken from the end, ns each): 12: 25 to
 * 28 unfiled, 30 to 32 if all but 8 are filed.  Tests take a smaller one, too.
 */
#ifndef FAB_MATCH_UNFILED_MAX
#define FAB_MATCH_UNFILED_MAX 16
#endif

/*
 * Bucket segments: the first within the domain, each next one ends at 2^FAB_MATCH_SEG_SHIFT times
 * as many buckets.
 */
#define FAB_MATCH_FIRST_BUCKETS 4
#define FAB_MATCH_SEG_SHIFT     4
/* 4 * 16^6 = 67 million buckets; more keys than that make longer chains */
#define FAB_MATCH_SEG_MAX 7

/* A ring, or a place in one. */
typedef struct fab_match_list {
    struct fab_match_list *next;
    struct fab_match_list *prev;
} fab_match_list_t;

/* An entry of an index, filed under (source, tag), either of which may be FAB_MATCH_ANY. */
typedef struct fab_match_link {
    union {
        uint64_t key; /* source in the high half */
        struct {
            int32_t tag;
            int32_t source;
        };
    };
    /* a leader: the next leader in its bucket, or NULL; a follower: itself */
    struct fab_match_link *chain;
    fab_match_list_t queue; /* the ring of the entries with this key */
} fab_match_link_t;

_Static_assert(32 == sizeof(fab_match_link_t), "two links per cache line");
_Static_assert(__ORDER_LITTLE_ENDIAN__ == __BYTE_ORDER__, "tag is the low half of the key");

/* Queues of links per key, found by hash. */
typedef struct fab_match_index {
    uint32_t nbuckets;
    uint32_t mask; /* 2^k - 1, the least that covers nbuckets - 1 */
    uint32_t nkeys;
    /* total of links visited by searches and splits; with a good hash a search visits one or two */
    uint64_t steps;
    fab_match_link_t **seg[FAB_MATCH_SEG_MAX];
    fab_match_link_t *first[FAB_MATCH_FIRST_BUCKETS];
} fab_match_index_t;

/* Where a posted receive is; zeroed memory is a receive that is not posted. */
typedef enum fab_match_where {
    FAB_MATCH_IDLE = 0, /* not posted: never was, or matched, or cancelled */
    FAB_MATCH_IN_SHORT, /* in the domain's short list */
    FAB_MATCH_IN_INDEX  /* in the domain's index and order ring */
} fab_match_where_t;

/*
 * A posted receive, embedded in the caller's request.  source and tag are the pattern of the latest
 * post and may be read at any time after it; the rest is the matcher's.
 */
typedef struct fab_match_recv {
    union {
        struct {
            int32_t tag;
            int32_t source;
        };
        fab_match_link_t link;
    };
    fab_match_list_t order; /* all receives in the index, oldest first */
    uint64_t seq;           /* order of posting, of those in the index */
    fab_match_where_t where;
} fab_match_recv_t;

/*
 * An unexpected message, embedded in the caller's descriptor.  source and tag may be read; the rest
 * is the matcher's.
 */
typedef struct fab_match_msg {
    union {
        struct {
            int32_t tag;
            int32_t source;
        };
        fab_match_link_t link; /* for (source, tag) receives */
    };
    /* all messages of its class (tag >= 0, tag < 0), oldest first; serves (ANY, ANY) receives */
    fab_match_list_t order;
    uint64_t seq;  /* order of arrival in the domain */
    bool is_filed; /* in the index; else found by walking the order ring */
    /* for (source, ANY) receives: linked if the domain needs it and tag >= 0 */
    fab_match_link_t by_source;
    fab_match_link_t by_tag; /* for (ANY, tag) receives: linked if the domain needs it */
} fab_match_msg_t;

_Static_assert(64 == sizeof(fab_match_recv_t), "a posted receive costs one cache line");
_Static_assert(offsetof(fab_match_recv_t, source) == offsetof(fab_match_recv_t, link.source),
               "one key, two names");
_Static_assert(offsetof(fab_match_recv_t, tag) == offsetof(fab_match_recv_t, link.tag),
               "one key, two names");
_Static_assert(128 == sizeof(fab_match_msg_t), "an unexpected message costs two cache lines");
_Static_assert(64 == offsetof(fab_match_msg_t, by_source),
               "without wildcards the second line is not touched");
_Static_assert(offsetof(fab_match_msg_t, source) == offsetof(fab_match_msg_t, link.source),
               "one key, two names");
_Static_assert(offsetof(fab_match_msg_t, tag) == offsetof(fab_match_msg_t, link.tag),
               "one key, two names");

/*
 * The short list, a circular array: a message's key fits an entry when (key & mask) is the entry's
 * key.  The parts of an entry are in separate arrays, so that a search reads only keys and masks.
 */
typedef struct fab_match_short {
    uint64_t key[FAB_MATCH_SHORT_LEN];
    /* the bits that the pattern names; for any tag the tag's sign too, which must then be clear */
    uint64_t mask[FAB_MATCH_SHORT_LEN];
    fab_match_recv_t *recv[FAB_MATCH_SHORT_LEN];
} fab_match_short_t;

_Static_assert(0 == (FAB_MATCH_SHORT_LEN & (FAB_MATCH_SHORT_LEN - 1)), "places are taken modulo");

/*
 * A matching domain.  It holds pointers to itself and so does not move between fab_match_init() and
 * fab_match_fini(). The four counters may be read by the caller at any time.
 *
 * The index is for deep queues; a few entries are found faster without it.
 *   posted receives: new ones go to the short list while there is room and the index is empty; so
 *     the nshort entries of posted_short from short_at on are older than all in the index, and are
 *     searched first;
 *   unexpected messages: all are unfiled (nunfiled is unexp_count), or all are filed (nunfiled is
 *     0).
 */
typedef struct fab_match_dom {
    uint64_t seq;          /* the next indexed receive's, or message's */
    uint32_t posted_count; /* receives posted now */
    uint32_t posted_max;   /* highest posted_count */
    uint32_t unexp_count;  /* unexpected messages held now */
    uint32_t unexp_max;    /* highest unexp_count */
    uint32_t nshort;       /* posted receives in posted_short */
    uint32_t short_at;     /* place of the oldest */
    uint32_t short_max;    /* receives may join while nshort is below; see short_open() */
    uint16_t nunfiled;     /* unexp_count, or 0: all are in unexp_index */
    bool has_by_source;    /* unexpected messages are linked for (source, ANY) */
    bool has_by_tag;       /* unexpected messages are linked for (ANY, tag) */
    /* allocated for the first receive; NULL: none was posted yet, or there was no memory */
    fab_match_short_t *posted_short;
    /* posted receives in posted_index by pattern; see match_pattern() */
    uint32_t npattern[4];

    fab_match_list_t posted_order; /* receives in posted_index, oldest first */
    fab_match_index_t posted_index;

    fab_match_list_t unexp_user;     /* messages with tag >= 0, oldest first */
    fab_match_list_t unexp_internal; /* messages with tag < 0, oldest first */
    /* exact keys and, where needed, (source, ANY) and (ANY, tag) */
    fab_match_index_t unexp_index;
} fab_match_dom_t;

_Static_assert(sizeof(fab_match_dom_t) <= 512, "an empty communicator stays small");
_Static_assert(64 == offsetof(fab_match_dom_t, posted_order),
               "what the fast path needs of a domain shares a line");

#endif /* FAB_MATCH_TYPES_H */
