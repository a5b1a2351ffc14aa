/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariants of a matching domain; see match_check.h. */
#include "match_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define ANY               FAB_MATCH_ANY
#define OWNER(p, type, m) ((type *) ((char *) (p) -offsetof(type, m)))

static uint64_t posted_seq(const fab_match_link_t *link)
{
    return OWNER(link, fab_match_recv_t, link)->seq;
}

static const fab_match_msg_t *link_msg(const fab_match_link_t *link)
{
    if (ANY == link->tag) {
        return OWNER(link, fab_match_msg_t, by_source);
    }
    if (ANY == link->source) {
        return OWNER(link, fab_match_msg_t, by_tag);
    }
    return OWNER(link, fab_match_msg_t, link);
}

static uint64_t unexp_seq(const fab_match_link_t *link)
{
    return link_msg(link)->seq;
}

/* The links of one key: a ring in order of age, its followers marked.  Returns their number. */
static size_t check_queue(const fab_match_link_t *leader, uint64_t (*seq)(const fab_match_link_t *))
{
    const fab_match_link_t *link = leader;
    size_t n = 0;

    do {
        const fab_match_link_t *next = OWNER(link->queue.next, fab_match_link_t, queue);

        n++;
        assert_ptr_equal(next->queue.prev, &link->queue);
        assert_true(link->key == leader->key);
        assert_true(link == leader ? link->chain != link : link->chain == link);
        assert_true(next == leader || seq(next) > seq(link));
        link = next;
    } while (link != leader);
    return n;
}

static fab_match_link_t *bucket_first(const fab_match_index_t *index, uint32_t bucket)
{
    uint32_t end = FAB_MATCH_FIRST_BUCKETS;
    unsigned s = 0;

    while (bucket >= end) {
        end <<= FAB_MATCH_SEG_SHIFT;
        s++;
    }
    return index->seg[s][bucket];
}

/* Returns the number of links in the index. */
static size_t check_index(const fab_match_index_t *index, uint64_t (*seq)(const fab_match_link_t *))
{
    size_t nlinks = 0;
    size_t nkeys = 0;

    assert_true(index->nbuckets <= index->mask + 1 && index->nbuckets > index->mask / 2);
    for (uint32_t b = 0; b < index->nbuckets; b++) {
        for (const fab_match_link_t *leader = bucket_first(index, b); NULL != leader;
             leader = leader->chain) {
            for (const fab_match_link_t *other = leader->chain; NULL != other;
                 other = other->chain) {
                assert_true(other->key != leader->key);
            }
            nkeys++;
            nlinks += check_queue(leader, seq);
        }
    }
    assert_int_equal(nkeys, index->nkeys);
    return nlinks;
}

static size_t check_posted_order(const fab_match_dom_t *dom)
{
    const uint32_t short_max = dom->posted_max < FAB_MATCH_SHORT_LEN ? dom->posted_max
                                                                     : FAB_MATCH_SHORT_LEN;
    uint64_t last = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < dom->nshort; i++) {
        const fab_match_recv_t *recv = dom->posted_short->recv[fab_match_short_place(dom, i)];

        assert_int_equal(recv->where, FAB_MATCH_IN_SHORT);
    }
    assert_true(dom->nshort <= FAB_MATCH_SHORT_LEN && dom->short_at < FAB_MATCH_SHORT_LEN);
    assert_int_equal(dom->short_max,
                     NULL != dom->posted_short && dom->posted_count == dom->nshort ? short_max : 0);
    for (const fab_match_list_t *item = dom->posted_order.next; item != &dom->posted_order;
         item = item->next) {
        const fab_match_recv_t *recv = OWNER(item, fab_match_recv_t, order);

        assert_int_equal(recv->where, FAB_MATCH_IN_INDEX);
        assert_ptr_equal(item->next->prev, item);
        assert_true(0 == n || recv->seq > last);
        last = recv->seq;
        n++;
    }
    return n;
}

static size_t check_msg_order(const fab_match_list_t *list, bool is_internal)
{
    uint64_t last = 0;
    size_t n = 0;

    for (const fab_match_list_t *item = list->next; item != list; item = item->next) {
        const fab_match_msg_t *msg = OWNER(item, fab_match_msg_t, order);

        assert_true((msg->tag < 0) == is_internal);
        assert_ptr_equal(item->next->prev, item);
        assert_true(0 == n || msg->seq > last);
        last = msg->seq;
        n++;
    }
    return n;
}

/*
 * The number of unfiled messages in a ring: the first ones, and older than the oldest filed one of
 * either ring.
 */
static size_t check_unfiled(const fab_match_list_t *list, uint64_t oldest_filed)
{
    const fab_match_list_t *item = list->next;
    size_t n = 0;

    for (; item != list && !OWNER(item, fab_match_msg_t, order)->is_filed; item = item->next) {
        assert_true(OWNER(item, fab_match_msg_t, order)->seq < oldest_filed);
        n++;
    }
    for (; item != list; item = item->next) {
        assert_true(OWNER(item, fab_match_msg_t, order)->is_filed);
    }
    return n;
}

static uint64_t oldest_filed(const fab_match_list_t *list)
{
    for (const fab_match_list_t *item = list->next; item != list; item = item->next) {
        if (OWNER(item, fab_match_msg_t, order)->is_filed) {
            return OWNER(item, fab_match_msg_t, order)->seq;
        }
    }
    return UINT64_MAX;
}

void match_check_dom(const fab_match_dom_t *dom)
{
    const size_t indexed = check_index(&dom->posted_index, posted_seq);
    const uint64_t user_filed = oldest_filed(&dom->unexp_user);
    const uint64_t internal_filed = oldest_filed(&dom->unexp_internal);
    const uint64_t filed = user_filed < internal_filed ? user_filed : internal_filed;
    const size_t user_unfiled = check_unfiled(&dom->unexp_user, filed);
    const size_t internal_unfiled = check_unfiled(&dom->unexp_internal, filed);
    const size_t user = check_msg_order(&dom->unexp_user, false) - user_unfiled;
    const size_t internal = check_msg_order(&dom->unexp_internal, true) - internal_unfiled;
    size_t links = user + internal;

    assert_int_equal(indexed + dom->nshort, dom->posted_count);
    assert_int_equal(check_posted_order(dom), indexed);
    assert_int_equal(dom->npattern[0] + dom->npattern[1] + dom->npattern[2] + dom->npattern[3],
                     indexed);
    assert_int_equal(user_unfiled + internal_unfiled, dom->nunfiled);
    assert_true(dom->nunfiled <= FAB_MATCH_UNFILED_MAX);
    assert_true(0 == dom->nunfiled || dom->nunfiled == dom->unexp_count);
    assert_int_equal(links + dom->nunfiled, dom->unexp_count);
    links += dom->has_by_source ? user : 0;
    links += dom->has_by_tag ? user + internal : 0;
    assert_int_equal(check_index(&dom->unexp_index, unexp_seq), links);
}
