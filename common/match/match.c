/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher.  Structures and their picture: match_types.h; semantics: match.h.
 *
 * From below: the index (queues per key), posted receives (short list, then index), unexpected
 * messages.
 *
 * Invariants:
 *  - every ring of a key is ordered by seq from its leader on, since entries are only ever
 *    appended;
 *  - the short list is ordered by age, and all of it is older than all receives in the index;
 *  - an unexpected message is in one order ring; either all messages are filed, or none is;
 *  - a filed message is in the index under its own key; under (source, ANY) if has_by_source and
 *    its tag is not negative; under (ANY, tag) if has_by_tag.
 *
 * Memory is allocated in index_add_segment() and short_make() only.
 */
#include "match_inl.h"
#include "match_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Out of line, so that the common path need not save registers. */
#define NOINLINE __attribute__((noinline))

/* ---- the index ---------------------------------------------------------- */

static void index_init(fab_match_index_t *index)
{
    memset(index, 0, sizeof(*index));
    index->nbuckets = FAB_MATCH_FIRST_BUCKETS;
    index->mask = FAB_MATCH_FIRST_BUCKETS - 1;
    index->seg[0] = index->first;
}

static void index_fini(fab_match_index_t *index)
{
    for (int s = 1; s < FAB_MATCH_SEG_MAX; s++) {
        free(index->seg[s]);
    }
    index_init(index);
}

/*
 * Two rounds of multiply-xorshift: every bit of the key reaches the low bits, which are the ones
 * used.
 */
static inline uint64_t key_hash(uint64_t key)
{
    key = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull;
    key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9ull;
    return key ^ key >> 32;
}

/* The segment that holds a bucket: 0..3 in 0, 4..63 in 1, 64..1023 in 2, ... */
static inline unsigned bucket_segment(uint32_t bucket)
{
    const unsigned top_bit = 31u - (unsigned) __builtin_clz(bucket | 1);

    return (top_bit + 2) / FAB_MATCH_SEG_SHIFT;
}

static inline fab_match_link_t **index_bucket(fab_match_index_t *index, uint32_t bucket)
{
    return &index->seg[bucket_segment(bucket)][bucket];
}

/*
 * A bucket at or past nbuckets is not split off yet: its keys are still in the bucket without its
 * highest bit.
 */
static inline uint32_t key_bucket(const fab_match_index_t *index, uint64_t key)
{
    const uint32_t bucket = (uint32_t) key_hash(key) & index->mask;

    return bucket < index->nbuckets ? bucket : bucket & index->mask >> 1;
}

/* Where the leader of a key is, or would be: the pointer in its chain that leads to it. */
static inline fab_match_link_t **index_find(fab_match_index_t *index, uint64_t key)
{
    fab_match_link_t **at = index_bucket(index, key_bucket(index, key));
    uint64_t steps = 1;

    while (NULL != *at && (*at)->key != key) {
        at = &(*at)->chain;
        steps++;
    }
    index->steps += steps;
    return at;
}

/*
 * Make room for bucket number nbuckets.  False: there is no memory for it, or the maximum is
 * reached.
 */
static bool index_add_segment(fab_match_index_t *index)
{
    const unsigned s = bucket_segment(index->nbuckets);

    if (FAB_MATCH_SEG_MAX == s) {
        return false;
    }
    if (NULL == index->seg[s]) {
        /*
         * Not zeroed: a bucket is written when it is split off, so the pages of a large segment
         * come one by one.
         */
        index->seg[s] = malloc(((size_t) FAB_MATCH_FIRST_BUCKETS << s * FAB_MATCH_SEG_SHIFT) *
                               sizeof(*index->seg[s]));
    }
    return NULL != index->seg[s];
}

/* Split one bucket: its keys that hash to the new bucket, numbered nbuckets, move there. */
static void index_split(fab_match_index_t *index)
{
    const uint32_t added = index->nbuckets;
    fab_match_link_t **from;
    fab_match_link_t **to;

    if (!index_add_segment(index)) {
        return;
    }
    if (added > index->mask) {
        index->mask = index->mask << 1 | 1;
    }
    from = index_bucket(index, added & index->mask >> 1);
    to = index_bucket(index, added);
    index->nbuckets++;
    while (NULL != *from) {
        index->steps++;
        if (key_bucket(index, (*from)->key) == added) {
            *to = *from;
            *from = (*from)->chain;
            to = &(*to)->chain;
        } else {
            from = &(*from)->chain;
        }
    }
    *to = NULL;
}

/* Append an entry to the queue of a key. */
static void index_append(fab_match_index_t *index, fab_match_link_t *link, uint64_t key)
{
    fab_match_link_t **at = index_find(index, key);

    link->key = key;
    if (NULL != *at) {
        link->chain = link;
        list_insert(&(*at)->queue, &link->queue);
        return;
    }
    link->chain = NULL;
    list_init(&link->queue);
    *at = link;
    if (++index->nkeys > index->nbuckets) {
        index_split(index);
    }
}

/*
 * Remove the leader that index_find() has found; the next entry of its key, if any, becomes the
 * leader.
 */
static inline void index_unlink_leader(fab_match_index_t *index, fab_match_link_t **at)
{
    fab_match_link_t *leader = *at;
    fab_match_link_t *next = container_of(leader->queue.next, fab_match_link_t, queue);

    if (next != leader) {
        list_unlink(&leader->queue);
        next->chain = leader->chain;
        *at = next;
        return;
    }
    *at = leader->chain;
    index->nkeys--;
}

static void index_unlink(fab_match_index_t *index, fab_match_link_t *link)
{
    if (link->chain == link) {
        list_unlink(&link->queue);
    } else {
        index_unlink_leader(index, index_find(index, link->key));
    }
}

/* ---- patterns ----------------------------------------------------------- */

enum { ANY_TAG = 1, ANY_SOURCE = 2 };

/* By pattern: the bits of a key that it leaves open, all of them ones in its own key. */
static const uint64_t open_bits[4] = {
    [ANY_TAG] = UINT32_MAX, [ANY_SOURCE] = ~(uint64_t) UINT32_MAX, [ANY_TAG | ANY_SOURCE] = ~0ull};

static inline unsigned key_pattern(uint64_t key)
{
    return (UINT32_MAX == (uint32_t) key ? ANY_TAG : 0) |
           (UINT32_MAX == key >> 32 ? ANY_SOURCE : 0);
}

/* ---- posted receives ---------------------------------------------------- */

/*
 * Set how many receives fab_match_short_append() may put into the short list: none if any is in the
 * index or there is no list, and no more than were posted before, so that it need not look after
 * posted_max.
 */
static void short_open(fab_match_dom_t *dom)
{
    dom->short_max = 0;
    if (NULL != dom->posted_short && dom->posted_count == dom->nshort) {
        dom->short_max = dom->posted_max < FAB_MATCH_SHORT_LEN ? dom->posted_max
                                                               : FAB_MATCH_SHORT_LEN;
    }
}

static inline void short_copy(fab_match_dom_t *dom, uint32_t to, uint32_t from)
{
    fab_match_short_t *list = dom->posted_short;

    to = fab_match_short_place(dom, to);
    from = fab_match_short_place(dom, from);
    list->key[to] = list->key[from];
    list->mask[to] = list->mask[from];
    list->recv[to] = list->recv[from];
}

/* Remove the i-th oldest; the older or the younger entries move up, whichever are fewer. */
static fab_match_recv_t *short_take(fab_match_dom_t *dom, uint32_t i)
{
    fab_match_recv_t *recv = dom->posted_short->recv[fab_match_short_place(dom, i)];

    dom->nshort--;
    dom->posted_count--;
    if (i < dom->nshort / 2) {
        for (; i > 0; i--) {
            short_copy(dom, i, i - 1);
        }
        dom->short_at = fab_match_short_place(dom, 1);
    } else {
        for (; i < dom->nshort; i++) {
            short_copy(dom, i, i + 1);
        }
    }
    recv->where = FAB_MATCH_IDLE;
    return recv;
}

/* Remove and return the oldest receive in the short list that a message fits, or NULL. */
static fab_match_recv_t *short_search(fab_match_dom_t *dom, uint64_t key)
{
    const fab_match_short_t *list = dom->posted_short;

    for (uint32_t i = 0; i < dom->nshort; i++) {
        const uint32_t at = fab_match_short_place(dom, i);

        if ((key & list->mask[at]) == list->key[at]) {
            return short_take(dom, i);
        }
    }
    return NULL;
}

/* File it under the key that it has. */
static NOINLINE void posted_append(fab_match_dom_t *dom, fab_match_recv_t *recv)
{
    dom->npattern[key_pattern(recv->link.key)]++;
    dom->posted_count++;
    dom->short_max = 0;
    recv->seq = dom->seq++;
    list_insert(&dom->posted_order, &recv->order);
    recv->where = FAB_MATCH_IN_INDEX;
    index_append(&dom->posted_index, &recv->link, recv->link.key);
}

void fab_match_post(fab_match_dom_t *dom, fab_match_recv_t *recv, int32_t source, int32_t tag)
{
    if (NULL == dom->posted_short && 0 == dom->posted_count) {
        /* without memory all receives go into the index */
        dom->posted_short = malloc(sizeof(*dom->posted_short));
    }
    if (dom->posted_count >= dom->posted_max) {
        dom->posted_max = dom->posted_count + 1;
        short_open(dom);
    }
    if (!fab_match_short_append(dom, recv, source, tag)) {
        posted_append(dom, recv);
    }
}

/* The receive has left the index: remove it from the order ring and the counts, too. */
static void posted_forget(fab_match_dom_t *dom, fab_match_recv_t *recv)
{
    dom->npattern[key_pattern(recv->link.key)]--;
    dom->posted_count--;
    short_open(dom);
    list_unlink(&recv->order);
    recv->where = FAB_MATCH_IDLE;
}

/*
 * Remove and return the oldest receive in the index that a message fits, or NULL.  Compares at most
 * four heads.
 */
static NOINLINE fab_match_recv_t *posted_take(fab_match_dom_t *dom, uint64_t key)
{
    fab_match_link_t **best_at = NULL;
    fab_match_recv_t *best = NULL;

    for (unsigned pattern = 0; pattern < 4; pattern++) {
        fab_match_link_t **at;
        fab_match_recv_t *recv;

        if (0 == dom->npattern[pattern] ||
            (0 != (pattern & ANY_TAG) && 0 != (key & FAB_MATCH_TAG_SIGN))) {
            continue;
        }
        at = index_find(&dom->posted_index, key | open_bits[pattern]);
        recv = NULL != *at ? container_of(*at, fab_match_recv_t, link) : NULL;
        if (NULL != recv && (NULL == best || recv->seq < best->seq)) {
            best_at = at;
            best = recv;
        }
    }
    if (NULL != best) {
        index_unlink_leader(&dom->posted_index, best_at);
        posted_forget(dom, best);
    }
    return best;
}

fab_match_recv_t *fab_match_arrive(fab_match_dom_t *dom, int32_t source, int32_t tag)
{
    const uint64_t key = fab_match_key(source, tag);
    fab_match_recv_t *recv;

    assert(FAB_MATCH_ANY != source && FAB_MATCH_ANY != tag);
    recv = fab_match_arrive_first(dom, key);
    if (NULL == recv && dom->nshort > 0) {
        recv = short_search(dom, key);
    }
    if (NULL == recv && dom->posted_count != dom->nshort) {
        recv = posted_take(dom, key);
    }
    return recv;
}

bool fab_match_cancel(fab_match_dom_t *dom, fab_match_recv_t *recv)
{
    uint32_t i = 0;

    switch (recv->where) {
    case FAB_MATCH_IN_SHORT:
        while (dom->posted_short->recv[fab_match_short_place(dom, i)] != recv) {
            i++;
        }
        short_take(dom, i);
        return true;
    case FAB_MATCH_IN_INDEX:
        index_unlink(&dom->posted_index, &recv->link);
        posted_forget(dom, recv);
        return true;
    case FAB_MATCH_IDLE:
        break;
    }
    return false;
}

unsigned fab_match_wanted(const fab_match_dom_t *dom, int32_t sources[FAB_MATCH_SHORT_LEN])
{
    unsigned count = 0;

    if (dom->posted_count != dom->nshort) {
        sources[0] = FAB_MATCH_ANY;
        return 1;
    }
    for (uint32_t i = 0; i < dom->nshort; i++) {
        const fab_match_recv_t *recv = dom->posted_short->recv[fab_match_short_place(dom, i)];

        if ((recv->tag >= 0 || FAB_MATCH_ANY == recv->tag) &&
            (0 == count || recv->source != sources[count - 1])) {
            sources[count++] = recv->source;
        }
    }
    return count;
}

void fab_match_visit_recvs(const fab_match_dom_t *dom,
                           bool (*fn)(void *ctx, const fab_match_recv_t *recv), void *ctx)
{
    for (uint32_t i = 0; i < dom->nshort; i++) {
        if (!fn(ctx, dom->posted_short->recv[fab_match_short_place(dom, i)])) {
            return;
        }
    }
    for (const fab_match_list_t *item = dom->posted_order.next; item != &dom->posted_order;
         item = item->next) {
        if (!fn(ctx, container_of(item, fab_match_recv_t, order))) {
            return;
        }
    }
}

/* ---- unexpected messages ------------------------------------------------ */

/* The order ring for messages with this tag, or, for any tag, for user messages. */
static inline fab_match_list_t *unexp_list(fab_match_dom_t *dom, int32_t tag)
{
    return tag >= 0 || FAB_MATCH_ANY == tag ? &dom->unexp_user : &dom->unexp_internal;
}

static void msg_file_by_source(fab_match_dom_t *dom, fab_match_msg_t *msg)
{
    if (msg->tag >= 0) {
        index_append(&dom->unexp_index, &msg->by_source, msg->link.key | open_bits[ANY_TAG]);
    }
}

static void msg_file_by_tag(fab_match_dom_t *dom, fab_match_msg_t *msg)
{
    index_append(&dom->unexp_index, &msg->by_tag, msg->link.key | open_bits[ANY_SOURCE]);
}

static NOINLINE void msg_file(fab_match_dom_t *dom, fab_match_msg_t *msg)
{
    msg->is_filed = true;
    index_append(&dom->unexp_index, &msg->link, msg->link.key);
    if (dom->has_by_source) {
        msg_file_by_source(dom, msg);
    }
    if (dom->has_by_tag) {
        msg_file_by_tag(dom, msg);
    }
}

/*
 * Call fn for all messages.  Those of a tag are in one of the two rings, so walking one ring after
 * the other keeps their order.
 */
static NOINLINE void unexp_each(fab_match_dom_t *dom,
                                void (*fn)(fab_match_dom_t *, fab_match_msg_t *))
{
    fab_match_list_t *const lists[2] = {&dom->unexp_user, &dom->unexp_internal};

    for (int i = 0; i < 2; i++) {
        for (fab_match_list_t *item = lists[i]->next; item != lists[i]; item = item->next) {
            fn(dom, container_of(item, fab_match_msg_t, order));
        }
    }
}

void fab_match_add_msg(fab_match_dom_t *dom, fab_match_msg_t *msg, int32_t source, int32_t tag)
{
    const uint32_t count = dom->unexp_count++;

    assert(FAB_MATCH_ANY != source && FAB_MATCH_ANY != tag);
    if (count >= dom->unexp_max) {
        dom->unexp_max = count + 1;
    }
    if (FAB_MATCH_UNFILED_MAX == dom->nunfiled) { /* the few messages have become many */
        unexp_each(dom, msg_file);
        dom->nunfiled = 0;
    }
    msg->seq = dom->seq++;
    msg->link.key = fab_match_key(source, tag);
    list_insert(unexp_list(dom, tag), &msg->order);
    if (count != dom->nunfiled) {
        msg_file(dom, msg);
    } else {
        msg->is_filed = false;
        dom->nunfiled++;
    }
}

static NOINLINE void msg_unfile(fab_match_dom_t *dom, fab_match_msg_t *msg)
{
    index_unlink(&dom->unexp_index, &msg->link);
    if (dom->has_by_source && msg->tag >= 0) {
        index_unlink(&dom->unexp_index, &msg->by_source);
    }
    if (dom->has_by_tag) {
        index_unlink(&dom->unexp_index, &msg->by_tag);
    }
}

static inline void msg_remove(fab_match_dom_t *dom, fab_match_msg_t *msg)
{
    dom->unexp_count--;
    list_unlink(&msg->order);
    if (msg->is_filed) {
        msg_unfile(dom, msg);
    } else {
        dom->nunfiled--;
    }
}

void fab_match_remove_msg(fab_match_dom_t *dom, fab_match_msg_t *msg)
{
    msg_remove(dom, msg);
}

/*
 * The oldest message that fits, in a domain whose messages are filed.  The first search for
 * (source, ANY), or for (ANY, tag), files all in one walk; later messages are filed so when they
 * arrive.
 */
static NOINLINE fab_match_msg_t *unexp_find_filed(fab_match_dom_t *dom, uint64_t key)
{
    fab_match_list_t *oldest = dom->unexp_user.next;
    const unsigned pattern = key_pattern(key);
    fab_match_link_t *link;

    if ((ANY_TAG | ANY_SOURCE) == pattern) {
        return oldest == &dom->unexp_user ? NULL : container_of(oldest, fab_match_msg_t, order);
    }
    if (ANY_TAG == pattern && !dom->has_by_source) {
        dom->has_by_source = true;
        unexp_each(dom, msg_file_by_source);
    }
    if (ANY_SOURCE == pattern && !dom->has_by_tag) {
        dom->has_by_tag = true;
        unexp_each(dom, msg_file_by_tag);
    }
    link = *index_find(&dom->unexp_index, key);
    if (NULL == link) {
        return NULL;
    }
    switch (pattern) {
    case ANY_TAG:
        return container_of(link, fab_match_msg_t, by_source);
    case ANY_SOURCE:
        return container_of(link, fab_match_msg_t, by_tag);
    default:
        return container_of(link, fab_match_msg_t, link);
    }
}

/* The oldest message that fits, in a domain that has messages. */
static inline fab_match_msg_t *unexp_find(fab_match_dom_t *dom, uint64_t key)
{
    const fab_match_list_t *list = unexp_list(dom, (int32_t) (uint32_t) key);
    const uint64_t open = open_bits[key_pattern(key)];

    if (0 == dom->nunfiled) {
        return unexp_find_filed(dom, key);
    }
    for (fab_match_list_t *item = list->next; item != list; item = item->next) {
        fab_match_msg_t *msg = container_of(item, fab_match_msg_t, order);

        if (key == (msg->link.key | open)) {
            return msg;
        }
    }
    return NULL;
}

fab_match_msg_t *fab_match_probe(fab_match_dom_t *dom, int32_t source, int32_t tag)
{
    return dom->unexp_count > 0 ? unexp_find(dom, fab_match_key(source, tag)) : NULL;
}

/* As unexp_find(), and removes it, when all messages are filed, and under no other key. */
static NOINLINE fab_match_msg_t *take_exact(fab_match_dom_t *dom, uint64_t key)
{
    fab_match_link_t **at = index_find(&dom->unexp_index, key);
    fab_match_msg_t *msg;

    if (NULL == *at) {
        return NULL;
    }
    msg = container_of(*at, fab_match_msg_t, link);
    index_unlink_leader(&dom->unexp_index, at);
    list_unlink(&msg->order);
    dom->unexp_count--;
    return msg;
}

fab_match_msg_t *fab_match_take(fab_match_dom_t *dom, int32_t source, int32_t tag)
{
    const uint64_t key = fab_match_key(source, tag);
    fab_match_msg_t *msg;

    if (0 == dom->unexp_count) {
        return NULL;
    }
    if (0 == dom->nunfiled && 0 == key_pattern(key) && !dom->has_by_source && !dom->has_by_tag) {
        return take_exact(dom, key);
    }
    msg = unexp_find(dom, key);
    if (NULL != msg) {
        msg_remove(dom, msg);
    }
    return msg;
}

/* The next younger message with the same source and tag; NULL: there is none. */
static fab_match_msg_t *unexp_next(fab_match_dom_t *dom, const fab_match_msg_t *msg)
{
    const fab_match_list_t *list = unexp_list(dom, msg->tag);

    if (msg->is_filed) {
        /* the leader of the ring, the only entry that is not chained to itself, marks its end */
        fab_match_link_t *link = container_of(msg->link.queue.next, fab_match_link_t, queue);

        return link->chain == link ? container_of(link, fab_match_msg_t, link) : NULL;
    }
    for (fab_match_list_t *item = msg->order.next; item != list; item = item->next) {
        fab_match_msg_t *next = container_of(item, fab_match_msg_t, order);

        if (next->link.key == msg->link.key) {
            return next;
        }
    }
    return NULL;
}

fab_match_msg_t *fab_match_withdraw(fab_match_dom_t *dom, int32_t source, int32_t tag,
                                    fab_match_is_fn_t is_it, const void *ctx)
{
    fab_match_msg_t *msg = fab_match_probe(dom, source, tag);

    while (NULL != msg && !is_it(msg, ctx)) {
        msg = unexp_next(dom, msg);
    }
    if (NULL != msg) {
        fab_match_remove_msg(dom, msg);
    }
    return msg;
}

/* The older of two messages, each at its place in one of the rings; NULL: both are at the end. */
static fab_match_msg_t *unexp_older(const fab_match_dom_t *dom, const fab_match_list_t *user,
                                    const fab_match_list_t *internal)
{
    fab_match_msg_t *one = container_of(user, fab_match_msg_t, order);
    fab_match_msg_t *other = container_of(internal, fab_match_msg_t, order);

    if (user == &dom->unexp_user) {
        return internal == &dom->unexp_internal ? NULL : other;
    }
    return internal == &dom->unexp_internal || one->seq < other->seq ? one : other;
}

fab_match_msg_t *fab_match_first_msg(const fab_match_dom_t *dom)
{
    return unexp_older(dom, dom->unexp_user.next, dom->unexp_internal.next);
}

void fab_match_visit_msgs(const fab_match_dom_t *dom,
                          bool (*fn)(void *ctx, const fab_match_msg_t *msg), void *ctx)
{
    const fab_match_list_t *user = dom->unexp_user.next;
    const fab_match_list_t *internal = dom->unexp_internal.next;
    const fab_match_msg_t *msg;

    while (NULL != (msg = unexp_older(dom, user, internal))) {
        if (&msg->order == user) {
            user = user->next;
        } else {
            internal = internal->next;
        }
        if (!fn(ctx, msg)) {
            return;
        }
    }
}

/* ---- the domain --------------------------------------------------------- */

void fab_match_init(fab_match_dom_t *dom)
{
    memset(dom, 0, sizeof(*dom));
    list_init(&dom->posted_order);
    list_init(&dom->unexp_user);
    list_init(&dom->unexp_internal);
    index_init(&dom->posted_index);
    index_init(&dom->unexp_index);
}

void fab_match_fini(fab_match_dom_t *dom)
{
    index_fini(&dom->posted_index);
    index_fini(&dom->unexp_index);
    free(dom->posted_short);
    fab_match_init(dom);
}
