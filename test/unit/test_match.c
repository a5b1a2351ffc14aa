/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher: each rule by name, random operations against the reference lists with the
 * structure's invariants, and failing allocation.
 *
 * The random tests have four seeds, the first from TM_TEST_RANDOM; in a short run that one alone.
 * TM_TEST_SEED runs them from one seed, TM_TEST_OPS sets the operations for each seed and key mix.
 *
 * TEST: sources=common/match/match.c,test/unit/match_check.c,test/unit/match_ref.c timeout=120 ldflags=-Wl,--wrap=malloc
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "match/match.h"
#include "match_check.h"
#include "match_ref.h"

#define ANY               FAB_MATCH_ANY
#define ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define OWNER(p, type, m) ((type *) ((char *) (p) -offsetof(type, m)))

/* ---- allocation failure: with --wrap=malloc match.c calls this ----------------------------- */

static struct {
    bool is_wrapped;
    bool is_failing;
    size_t calls;
} alloc_state;

extern void *__real_malloc(size_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    alloc_state.is_wrapped = true;
    alloc_state.calls++;
    return alloc_state.is_failing || NULL == __real_malloc ? NULL : __real_malloc(size);
}

/* ---- a domain beside its reference -------------------------------------- */

#define WORLD_NODES 400

typedef struct world {
    fab_match_dom_t dom;
    match_ref_t ref;
    uint32_t posted_max;
    uint32_t unexp_max;
    fab_match_recv_t recv[WORLD_NODES];
    fab_match_msg_t msg[WORLD_NODES];
    fab_match_recv_t *free_recv[WORLD_NODES];
    fab_match_msg_t *free_msg[WORLD_NODES];
    size_t nfree_recv;
    size_t nfree_msg;
    uint64_t rng;
    uint64_t seed;
    uint64_t ops;
    const char *mix;
} world_t;

static void world_expect(world_t *w, const void *got, const void *want, const char *what)
{
    if (got != want) {
        fail_msg("%s: got %p, reference %p; mix \"%s\", TM_TEST_SEED=%" PRIu64
                 ", operation %" PRIu64,
                 what, got, want, w->mix, w->seed, w->ops);
    }
}

static bool has_source(const int32_t *sources, unsigned count, int32_t source)
{
    unsigned i = 0;

    while (i < count && source != sources[i]) {
        i++;
    }
    return i < count;
}

/* Who is waited for is told; who is not is told only where there are too many to look at. */
static void world_check_wanted(const world_t *w)
{
    int32_t sources[FAB_MATCH_SHORT_LEN];
    int32_t expected[MATCH_REF_ROOM];
    const unsigned count = fab_match_wanted(&w->dom, sources);
    unsigned num_expected = 0;

    for (size_t i = 0; i < w->ref.posted.count; i++) {
        const match_ref_entry_t *entry = &w->ref.posted.entry[i];

        if (entry->tag >= 0 || ANY == entry->tag) {
            expected[num_expected++] = entry->source;
            assert_true(has_source(sources, count, entry->source) ||
                        has_source(sources, count, ANY));
        }
    }
    for (unsigned i = 0; i < count && w->dom.posted_count == w->dom.nshort; i++) {
        assert_true(has_source(expected, num_expected, sources[i]));
    }
}

/* A walk over all of one kind, held against a list of the reference. */
typedef struct walk {
    world_t *w;
    const match_ref_list_t *list;
    size_t count;
    size_t stop_at; /* the walk ends with this many */
} walk_t;

static bool walk_next(walk_t *walk, const void *node)
{
    assert_true(walk->count < walk->list->count);
    world_expect(walk->w, node, walk->list->entry[walk->count].id, "walk");
    return ++walk->count != walk->stop_at;
}

static bool walk_recv(void *ctx, const fab_match_recv_t *recv)
{
    return walk_next(ctx, recv);
}

static bool walk_msg(void *ctx, const fab_match_msg_t *msg)
{
    return walk_next(ctx, msg);
}

/* Walks visit all, oldest first, or as many as they want. */
static void world_check_walks(world_t *w)
{
    for (size_t stop_at = 0; stop_at < 3; stop_at++) {
        walk_t recvs = {.w = w, .list = &w->ref.posted, .stop_at = stop_at};
        walk_t msgs = {.w = w, .list = &w->ref.unexp, .stop_at = stop_at};

        fab_match_visit_recvs(&w->dom, walk_recv, &recvs);
        fab_match_visit_msgs(&w->dom, walk_msg, &msgs);
        if (0 == stop_at) {
            assert_int_equal(recvs.count, w->ref.posted.count);
            assert_int_equal(msgs.count, w->ref.unexp.count);
        }
        assert_true(0 == stop_at || (recvs.count <= stop_at && msgs.count <= stop_at));
    }
}

static void world_check_heads(world_t *w)
{
    if (0 == w->ops % 16) {
        world_check_wanted(w);
        world_check_walks(w);
    }
    w->ops++;
    world_expect(w, fab_match_first_msg(&w->dom), match_ref_first_msg(&w->ref), "first_msg");
    world_expect(w, fab_match_first_recv(&w->dom), match_ref_first_recv(&w->ref), "first_recv");
    w->posted_max = w->dom.posted_count > w->posted_max ? w->dom.posted_count : w->posted_max;
    w->unexp_max = w->dom.unexp_count > w->unexp_max ? w->dom.unexp_count : w->unexp_max;
    assert_int_equal(w->dom.posted_count, w->ref.posted.count);
    assert_int_equal(w->dom.unexp_count, w->ref.unexp.count);
    assert_int_equal(w->dom.posted_max, w->posted_max);
    assert_int_equal(w->dom.unexp_max, w->unexp_max);
}

/* Every node that the domain gives back is overwritten: it must hold no further reference to it. */
static void world_give_recv(world_t *w, fab_match_recv_t *recv)
{
    assert_false(fab_match_cancel(&w->dom, recv));
    memset(recv, 0x5a, sizeof(*recv));
    w->free_recv[w->nfree_recv++] = recv;
}

static void world_give_msg(world_t *w, fab_match_msg_t *msg)
{
    memset(msg, 0x5a, sizeof(*msg));
    w->free_msg[w->nfree_msg++] = msg;
}

static void world_post(world_t *w, int32_t source, int32_t tag)
{
    fab_match_recv_t *recv = w->free_recv[--w->nfree_recv];
    fab_match_msg_t *msg;

    if (0 != (w->dom.seq & 1)) {
        msg = fab_match_post(&w->dom, recv, source, tag);
    } else { /* the same in two halves */
        msg = fab_match_take(&w->dom, source, tag);
        if (NULL == msg) {
            fab_match_post_new(&w->dom, recv, source, tag);
        } else {
            recv->link.key = (uint64_t) (uint32_t) source << 32 | (uint32_t) tag;
            recv->where = FAB_MATCH_IDLE;
        }
    }
    world_expect(w, msg, match_ref_post(&w->ref, recv, source, tag), "post");
    assert_int_equal(recv->source, source);
    assert_int_equal(recv->tag, tag);
    if (NULL != msg) {
        world_give_recv(w, recv);
        world_give_msg(w, msg);
    }
}

static void world_arrive(world_t *w, int32_t source, int32_t tag)
{
    fab_match_recv_t *recv = fab_match_arrive(&w->dom, source, tag);

    world_expect(w, recv, match_ref_arrive(&w->ref, source, tag), "arrive");
    if (NULL != recv) {
        world_give_recv(w, recv);
    } else {
        fab_match_msg_t *msg = w->free_msg[--w->nfree_msg];

        fab_match_add_msg(&w->dom, msg, source, tag);
        match_ref_add_msg(&w->ref, msg, source, tag);
        assert_int_equal(msg->source, source);
        assert_int_equal(msg->tag, tag);
    }
}

/* All with this source and tag are visited, in order of arrival, from this one on. */
static void world_visit(world_t *w, int32_t source, int32_t tag, fab_match_msg_t *msg)
{
    for (size_t i = 0; i < w->ref.unexp.count; i++) {
        const match_ref_entry_t *entry = &w->ref.unexp.entry[i];

        if (source == entry->source && tag == entry->tag) {
            world_expect(w, msg, entry->id, "visit");
            msg = fab_match_next_msg(&w->dom, msg);
        }
    }
    world_expect(w, msg, NULL, "end of visit");
}

/* Probe; take the message out if asked to. */
static void world_probe(world_t *w, int32_t source, int32_t tag, bool is_matched)
{
    fab_match_msg_t *msg = fab_match_probe(&w->dom, source, tag);

    world_expect(w, msg, match_ref_probe(&w->ref, source, tag), "probe");
    if (ANY != source && ANY != tag) {
        world_visit(w, source, tag, msg);
    }
    if (NULL != msg && is_matched) {
        fab_match_remove_msg(&w->dom, msg);
        match_ref_remove_msg(&w->ref, msg);
        world_give_msg(w, msg);
    }
}

/* Cancel the i-th oldest posted receive. */
static void world_cancel(world_t *w, size_t i)
{
    fab_match_recv_t *recv = w->ref.posted.entry[i].id;

    assert_true(fab_match_cancel(&w->dom, recv));
    assert_true(match_ref_cancel(&w->ref, recv));
    world_give_recv(w, recv);
}

static void world_drain(world_t *w)
{
    for (fab_match_recv_t *recv; NULL != (recv = fab_match_first_recv(&w->dom));) {
        world_cancel(w, 0);
        world_check_heads(w);
    }
    for (fab_match_msg_t *msg; NULL != (msg = fab_match_first_msg(&w->dom));) {
        fab_match_remove_msg(&w->dom, msg);
        match_ref_remove_msg(&w->ref, msg);
        world_give_msg(w, msg);
        world_check_heads(w);
    }
    match_check_dom(&w->dom);
}

/* Drain the domain and start anew: among others, without links for wildcards. */
static void world_renew(world_t *w)
{
    world_drain(w);
    fab_match_fini(&w->dom);
    fab_match_init(&w->dom);
    w->posted_max = 0;
    w->unexp_max = 0;
}

static world_t *world_open(const char *mix, uint64_t seed)
{
    world_t *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->mix = mix;
    w->seed = seed;
    w->rng = seed * 0x9e3779b97f4a7c15ull + 1;
    for (size_t i = 0; i < WORLD_NODES; i++) {
        w->free_recv[w->nfree_recv++] = &w->recv[i];
        w->free_msg[w->nfree_msg++] = &w->msg[i];
    }
    fab_match_init(&w->dom);
    match_ref_init(&w->ref);
    return w;
}

static void world_close(world_t *w)
{
    world_drain(w);
    assert_int_equal(w->nfree_recv, WORLD_NODES);
    assert_int_equal(w->nfree_msg, WORLD_NODES);
    fab_match_fini(&w->dom);
    free(w);
}

/* xorshift64*: a number below n */
static uint32_t world_random(world_t *w, uint32_t n)
{
    w->rng ^= w->rng >> 12;
    w->rng ^= w->rng << 25;
    w->rng ^= w->rng >> 27;
    return (uint32_t) ((w->rng * 0x2545f4914f6cdd1dull >> 32) % n);
}

/* ---- random operations -------------------------------------------------- */

typedef void (*key_fn_t)(world_t *w, int32_t *source, int32_t *tag);

static void key_tiny(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) world_random(w, 2);
    *tag = (int32_t) world_random(w, 2);
}

static void key_small(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) world_random(w, 5);
    *tag = (int32_t) world_random(w, 5);
}

static void key_one_source(world_t *w, int32_t *source, int32_t *tag)
{
    *source = 3;
    *tag = (int32_t) world_random(w, 5000);
}

static void key_threads(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) world_random(w, 2);
    *tag = (int32_t) (world_random(w, 16) * 1024 + world_random(w, 8));
}

static void key_multiples(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) world_random(w, 3) * 1021;
    *tag = (int32_t) world_random(w, 100) * 1021;
}

static void key_powers(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) (world_random(w, 4) << 29);
    *tag = (int32_t) (world_random(w, 128) << 24);
}

static void key_random(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) (world_random(w, UINT32_MAX) & INT32_MAX);
    *tag = (int32_t) (world_random(w, UINT32_MAX) & INT32_MAX);
}

static void key_negative(world_t *w, int32_t *source, int32_t *tag)
{
    *source = (int32_t) world_random(w, 3);
    *tag = world_random(w, 2) ? (int32_t) world_random(w, 3) : -2 - (int32_t) world_random(w, 3);
}

static void key_extreme(world_t *w, int32_t *source, int32_t *tag)
{
    static const int32_t edge[] = {0,  1, INT32_MAX, INT32_MAX - 1, INT32_MIN, INT32_MIN + 1,
                                   -2, -3};

    *source = edge[world_random(w, 4)];
    *tag = edge[world_random(w, ARRAY_LEN(edge))];
}

static const struct {
    const char *name;
    key_fn_t pick;
} key_mix[] = {
    {"tiny", key_tiny},       {"small", key_small},         {"one source", key_one_source},
    {"threads", key_threads}, {"multiples", key_multiples}, {"powers of two", key_powers},
    {"random", key_random},   {"negative", key_negative},   {"extreme", key_extreme},
};

/* The key of some entry, so that large key spaces match too; false if there is none. */
static bool key_of_entry(world_t *w, const match_ref_list_t *list, int32_t *source, int32_t *tag)
{
    if (0 == list->count) {
        return false;
    }
    const match_ref_entry_t *entry = &list->entry[world_random(w, (uint32_t) list->count)];

    *source = ANY != entry->source ? entry->source : *source;
    *tag = ANY != entry->tag ? entry->tag : *tag;
    return true;
}

static void random_receive_key(world_t *w, key_fn_t pick, uint32_t wild_percent, int32_t *source,
                               int32_t *tag)
{
    pick(w, source, tag);
    if (world_random(w, 2)) {
        key_of_entry(w, &w->ref.unexp, source, tag);
    }
    if (world_random(w, 100) < wild_percent) {
        const uint32_t pattern = 1 + world_random(w, 3);

        *tag = pattern & 1 ? ANY : *tag;
        *source = pattern & 2 ? ANY : *source;
    }
}

/*
 * Weights of the operations, which change from phase to phase so that both queues fill and drain.
 */
typedef struct phase {
    const char *name;
    uint32_t post;
    uint32_t arrive;
    uint32_t probe;
    uint32_t mprobe;
    uint32_t cancel;
    uint32_t wild_percent;
} phase_t;

static const phase_t phases[] = {
    {"balance", 40, 40, 5, 5, 10, 30},    {"post", 85, 10, 1, 1, 3, 30},
    {"arrive", 10, 85, 3, 1, 1, 30},      {"exact post", 80, 15, 0, 0, 5, 0},
    {"exact arrive", 15, 80, 3, 2, 0, 0}, {"cancel", 25, 10, 0, 0, 65, 50},
    {"mprobe", 5, 35, 10, 50, 0, 70},     {"few", 45, 45, 0, 5, 5, 10},
};

#define EXACT_ARRIVE 4 /* so that messages are there before the first wildcard */

static void random_op(world_t *w, key_fn_t pick, const phase_t *phase)
{
    uint32_t dice = world_random(w, phase->post + phase->arrive + phase->probe + phase->mprobe +
                                        phase->cancel);
    int32_t source;
    int32_t tag;

    random_receive_key(w, pick, phase->wild_percent, &source, &tag);
    if (dice < phase->post) {
        if (w->nfree_recv > 0) {
            world_post(w, source, tag);
        }
        return;
    }
    dice -= phase->post;
    if (dice < phase->arrive) {
        pick(w, &source, &tag);
        if (world_random(w, 2)) {
            key_of_entry(w, &w->ref.posted, &source, &tag);
        }
        if (w->nfree_msg > 0) {
            world_arrive(w, source, tag);
        }
        return;
    }
    dice -= phase->arrive;
    if (dice < phase->probe + phase->mprobe) {
        world_probe(w, source, tag, dice >= phase->probe);
    } else if (w->ref.posted.count > 0) {
        world_cancel(w, world_random(w, (uint32_t) w->ref.posted.count));
    }
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return NULL != value ? strtoull(value, NULL, 0) : otherwise;
}

static void random_run(size_t mix, uint64_t seed, uint64_t ops)
{
    world_t *w = world_open(key_mix[mix].name, seed);
    const phase_t *phase = &phases[0];

    for (uint64_t i = 0; i < ops; i++) {
        if (0 == world_random(w, 300)) {
            phase = &phases[world_random(w, ARRAY_LEN(phases))];
        }
        if (0 == world_random(w, 5000)) {
            world_renew(w);
            phase = &phases[EXACT_ARRIVE];
        }
        random_op(w, key_mix[mix].pick, phase);
        world_check_heads(w);
        if (0 == i % 512) {
            match_check_dom(&w->dom);
        }
    }
    world_close(w);
}

static void run_all_mixes(uint64_t ops)
{
    const char *is_short = getenv("TM_TEST_SHORT");
    const bool is_one = NULL != getenv("TM_TEST_SEED") ||
                        (NULL != is_short && 0 == strcmp(is_short, "yes"));
    const uint64_t first = env_number("TM_TEST_SEED", 1 + 1000 * env_number("TM_TEST_RANDOM", 0));
    const uint64_t last = is_one ? first : first + 3;

    for (uint64_t seed = first; seed <= last; seed++) {
        for (size_t mix = 0; mix < ARRAY_LEN(key_mix); mix++) {
            random_run(mix, seed, ops);
        }
    }
}

static void test_random_against_reference(void **state)
{
    (void) state;
    run_all_mixes(env_number("TM_TEST_OPS", 250000));
}

static void test_random_without_memory(void **state)
{
    (void) state;
    alloc_state.is_failing = true;
    run_all_mixes(env_number("TM_TEST_OPS", 250000) / 10);
    alloc_state.is_failing = false;
    if (!alloc_state.is_wrapped) {
        print_message("malloc is not wrapped (-Wl,--wrap=malloc): nothing has failed\n");
        skip();
    }
}

/* ---- the rules, one by one ---------------------------------------------- */

/*
 * A domain with its short list of receives and its unfiled messages full (or not), so that each
 * rule is seen there and in the index.
 */
typedef struct fixture {
    fab_match_dom_t dom;
    fab_match_recv_t filler[FAB_MATCH_SHORT_LEN];
    fab_match_msg_t msg_filler[FAB_MATCH_UNFILED_MAX];
    fab_match_recv_t recv[32];
    fab_match_msg_t msg[32];
} fixture_t;

#define FILLER_SOURCE 77
#define FILLER_TAG    (-77) /* of messages, so that ANY does not see them */

static void fixture_init(fixture_t *f, size_t nfiller)
{
    memset(f, 0, sizeof(*f));
    fab_match_init(&f->dom);
    for (size_t i = 0; i < nfiller; i++) {
        assert_null(fab_match_post(&f->dom, &f->filler[i], FILLER_SOURCE, (int32_t) i));
    }
    for (size_t i = 0; i < nfiller && i < FAB_MATCH_UNFILED_MAX; i++) {
        fab_match_add_msg(&f->dom, &f->msg_filler[i], FILLER_SOURCE, FILLER_TAG);
    }
}

/* Take the fillers' messages out. */
static void fixture_clear(fixture_t *f)
{
    while (NULL != fab_match_first_msg(&f->dom) &&
           FILLER_TAG == fab_match_first_msg(&f->dom)->tag) {
        fab_match_remove_msg(&f->dom, fab_match_first_msg(&f->dom));
    }
}

static void fixture_post(fixture_t *f, int i, int32_t source, int32_t tag)
{
    assert_null(fab_match_post(&f->dom, &f->recv[i], source, tag));
}

static void fixture_add(fixture_t *f, int i, int32_t source, int32_t tag)
{
    assert_null(fab_match_arrive(&f->dom, source, tag));
    fab_match_add_msg(&f->dom, &f->msg[i], source, tag);
}

static void test_empty_domain(void **state)
{
    fixture_t f;

    (void) state;
    alloc_state.calls = 0;
    fixture_init(&f, 0);
    assert_int_equal(alloc_state.calls, 0);
    assert_null(fab_match_arrive(&f.dom, 0, 0));
    assert_null(fab_match_probe(&f.dom, ANY, ANY));
    assert_null(fab_match_probe(&f.dom, 0, ANY));
    assert_null(fab_match_first_msg(&f.dom));
    assert_null(fab_match_first_recv(&f.dom));
    match_check_dom(&f.dom);
    fab_match_fini(&f.dom);
}

/*
 * Four receives that all fit (1, 2), of any patterns in any order, some of them cancelled before
 * the messages come.
 */
static void test_oldest_posted_wins(void **state)
{
    static const int32_t pattern[4][2] = {{1, 2}, {1, ANY}, {ANY, 2}, {ANY, ANY}};
    fixture_t f;

    (void) state;
    for (int code = 0; code < 256 * 16 * 3; code++) {
        const int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        const int cancelled = code >> 8 & 15;
        static const size_t nfiller[3] = {0, FAB_MATCH_SHORT_LEN - 2, FAB_MATCH_SHORT_LEN};

        fixture_init(&f, nfiller[code >> 12]);
        for (int i = 0; i < 4; i++) {
            fixture_post(&f, i, pattern[order[i]][0], pattern[order[i]][1]);
        }
        for (int i = 0; i < 4; i++) {
            if (cancelled >> i & 1) {
                assert_true(fab_match_cancel(&f.dom, &f.recv[i]));
            }
        }
        for (int i = 0; i < 4; i++) {
            if (!(cancelled >> i & 1)) {
                assert_ptr_equal(fab_match_arrive(&f.dom, 1, 2), &f.recv[i]);
            }
        }
        assert_null(fab_match_arrive(&f.dom, 1, 2));
        match_check_dom(&f.dom);
        fab_match_fini(&f.dom);
    }
}

static void test_receive_that_does_not_fit_stays(void **state)
{
    fixture_t f;

    (void) state;
    for (size_t nfiller = 0; nfiller <= FAB_MATCH_SHORT_LEN; nfiller += FAB_MATCH_SHORT_LEN) {
        fixture_init(&f, nfiller);
        fixture_post(&f, 0, 1, 2);
        fixture_post(&f, 1, 1, ANY);
        fixture_post(&f, 2, ANY, 2);
        assert_null(fab_match_arrive(&f.dom, 2, 1));
        assert_null(fab_match_arrive(&f.dom, 3, 3));
        assert_ptr_equal(fab_match_arrive(&f.dom, 3, 2), &f.recv[2]);
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, 3), &f.recv[1]);
        assert_null(fab_match_arrive(&f.dom, 2, 2));
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, 2), &f.recv[0]);
        assert_int_equal(f.dom.posted_count, nfiller);
        fab_match_fini(&f.dom);
    }
}

/* 20 equal receives cross from the packed list into the index; some leave from the middle. */
static void test_equal_receives_keep_order(void **state)
{
    fixture_t f;

    (void) state;
    fixture_init(&f, 0);
    for (int i = 0; i < 20; i++) {
        fixture_post(&f, i, 4, 5);
    }
    match_check_dom(&f.dom);
    for (int i = 0; i < 20; i += 3) {
        assert_true(fab_match_cancel(&f.dom, &f.recv[i]));
        match_check_dom(&f.dom);
    }
    for (int i = 0; i < 20; i++) {
        if (0 != i % 3) {
            assert_ptr_equal(fab_match_first_recv(&f.dom), &f.recv[i]);
            assert_ptr_equal(fab_match_arrive(&f.dom, 4, 5), &f.recv[i]);
        }
        /* New ones stay behind the old while the index holds any. */
        if (12 == i) {
            fixture_post(&f, 20, ANY, ANY);
        }
    }
    assert_ptr_equal(fab_match_arrive(&f.dom, 4, 5), &f.recv[20]);
    assert_null(fab_match_arrive(&f.dom, 4, 5));
    fab_match_fini(&f.dom);
}

static void test_oldest_unexpected_wins(void **state)
{
    static const struct {
        int32_t source;
        int32_t tag;
        int first; /* the messages that fit, oldest first; -1 ends */
        int second;
        int third;
    } step[] = {
        {1, 2, 1, 4, -1},    {1, ANY, 1, 3, 4}, {ANY, 2, 1, 2, 4},
        {ANY, ANY, 0, 1, 2}, {5, 2, 2, -1, -1}, {5, 5, -1, -1, -1},
    };

    (void) state;
    for (size_t i = 0; i < 3 * ARRAY_LEN(step); i++) {
        static const size_t nfiller[3] = {0, FAB_MATCH_UNFILED_MAX - 2, FAB_MATCH_SHORT_LEN};
        const size_t s = i / 3;
        const int want[] = {step[s].first, step[s].second, step[s].third};
        fixture_t f;

        fixture_init(&f, nfiller[i % 3]);
        fixture_add(&f, 0, 7, 7);
        fixture_add(&f, 1, 1, 2);
        fixture_add(&f, 2, 5, 2);
        fixture_add(&f, 3, 1, 9);
        fixture_add(&f, 4, 1, 2);
        for (size_t k = 0; k < ARRAY_LEN(want); k++) {
            fab_match_msg_t *msg = want[k] >= 0 ? &f.msg[want[k]] : NULL;

            assert_ptr_equal(fab_match_probe(&f.dom, step[s].source, step[s].tag), msg);
            assert_ptr_equal(fab_match_post(&f.dom, &f.recv[k], step[s].source, step[s].tag), msg);
            match_check_dom(&f.dom);
            if (NULL == msg) {
                break;
            }
        }
        fab_match_fini(&f.dom);
    }
}

static void test_any_tag_passes_over_negative_tags(void **state)
{
    fixture_t f;

    (void) state;
    for (size_t nfiller = 0; nfiller <= FAB_MATCH_SHORT_LEN; nfiller += FAB_MATCH_SHORT_LEN) {
        /* posted first */
        fixture_init(&f, nfiller);
        fixture_post(&f, 0, ANY, ANY);
        fixture_post(&f, 1, 1, ANY);
        fixture_post(&f, 2, ANY, -5);
        fixture_post(&f, 3, 1, -5);
        assert_null(fab_match_arrive(&f.dom, 1, -6));
        assert_null(fab_match_arrive(&f.dom, 1, INT32_MIN));
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, -5), &f.recv[2]);
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, -5), &f.recv[3]);
        assert_null(fab_match_arrive(&f.dom, 1, -5));
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, INT32_MAX), &f.recv[0]);
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, 0), &f.recv[1]);
        fab_match_fini(&f.dom);

        /* message first */
        fixture_init(&f, nfiller);
        fixture_add(&f, 0, 1, -5);
        fixture_add(&f, 1, 1, -7);
        fixture_add(&f, 2, 1, 0);
        assert_ptr_equal(fab_match_probe(&f.dom, 1, ANY), &f.msg[2]);
        assert_ptr_equal(fab_match_probe(&f.dom, ANY, ANY), &f.msg[2]);
        assert_ptr_equal(fab_match_probe(&f.dom, ANY, -7), &f.msg[1]);
        assert_ptr_equal(fab_match_probe(&f.dom, 1, -7), &f.msg[1]);
        assert_ptr_equal(fab_match_post(&f.dom, &f.recv[0], ANY, ANY), &f.msg[2]);
        assert_null(fab_match_probe(&f.dom, 1, ANY));
        assert_null(fab_match_post(&f.dom, &f.recv[1], ANY, ANY));
        assert_null(fab_match_post(&f.dom, &f.recv[2], 1, ANY));
        assert_ptr_equal(fab_match_post(&f.dom, &f.recv[3], ANY, -5), &f.msg[0]);
        fixture_clear(&f);
        assert_ptr_equal(fab_match_first_msg(&f.dom), &f.msg[1]);
        fab_match_fini(&f.dom);
    }
}

static void test_cancel(void **state)
{
    fixture_t f;

    (void) state;
    for (size_t nfiller = 0; nfiller <= FAB_MATCH_SHORT_LEN; nfiller += FAB_MATCH_SHORT_LEN) {
        fixture_init(&f, nfiller);
        assert_false(fab_match_cancel(&f.dom, &f.recv[0])); /* zeroed, never posted */
        fixture_post(&f, 0, 1, 2);
        assert_true(fab_match_cancel(&f.dom, &f.recv[0]));
        assert_false(fab_match_cancel(&f.dom, &f.recv[0]));
        assert_null(fab_match_arrive(&f.dom, 1, 2));

        fixture_post(&f, 0, ANY, 2); /* the same node again */
        assert_ptr_equal(fab_match_arrive(&f.dom, 1, 2), &f.recv[0]);
        assert_false(fab_match_cancel(&f.dom, &f.recv[0])); /* matched by an arrival */

        fixture_add(&f, 0, 1, 2);
        memset(&f.recv[1], 0xff, sizeof(f.recv[1])); /* posting needs no initialised node */
        f.recv[1].where = FAB_MATCH_IN_INDEX;
        assert_ptr_equal(fab_match_post(&f.dom, &f.recv[1], 1, ANY), &f.msg[0]);
        assert_false(fab_match_cancel(&f.dom, &f.recv[1])); /* matched by its post */
        assert_int_equal(f.recv[1].source, 1);
        assert_int_equal(f.recv[1].tag, ANY);
        assert_int_equal(f.dom.posted_count, nfiller);
        fixture_clear(&f);
        assert_int_equal(f.dom.unexp_count, 0);
        match_check_dom(&f.dom);
        fab_match_fini(&f.dom);
    }
}

static void test_probe_leaves_and_matched_probe_takes(void **state)
{
    fixture_t f;

    (void) state;
    for (size_t nfiller = 0; nfiller <= FAB_MATCH_UNFILED_MAX; nfiller++) {
        fixture_init(&f, nfiller);
        fixture_add(&f, 0, 1, 2);
        fixture_add(&f, 1, 1, 2);
        fixture_add(&f, 2, 1, 2);
        assert_ptr_equal(fab_match_probe(&f.dom, 1, 2), &f.msg[0]);
        assert_ptr_equal(fab_match_probe(&f.dom, 1, ANY), &f.msg[0]);
        assert_int_equal(f.dom.unexp_count, nfiller + 3);
        fab_match_remove_msg(&f.dom, &f.msg[1]); /* from the middle of every queue */
        match_check_dom(&f.dom);
        fab_match_remove_msg(&f.dom, &f.msg[0]);
        assert_ptr_equal(fab_match_probe(&f.dom, ANY, 2), &f.msg[2]);
        assert_ptr_equal(fab_match_probe(&f.dom, ANY, ANY), &f.msg[2]);
        fab_match_remove_msg(&f.dom, &f.msg[2]);
        assert_null(fab_match_probe(&f.dom, 1, 2));
        assert_null(fab_match_probe(&f.dom, 1, ANY));
        assert_null(fab_match_probe(&f.dom, ANY, 2));
        assert_null(fab_match_probe(&f.dom, ANY, ANY));
        match_check_dom(&f.dom);
        fab_match_fini(&f.dom);
    }
}

/*
 * The wildcard links are made for the messages that came before the first wildcard search, and for
 * those after it.
 */
static void test_late_wildcards(void **state)
{
    static const int by_source[] = {0, 3, 4};
    static const int by_tag[] = {1, 5};
    fixture_t f;

    (void) state;
    fixture_init(&f, FAB_MATCH_SHORT_LEN);
    fixture_add(&f, 0, 1, 2);
    fixture_add(&f, 1, 1, -4);
    fixture_add(&f, 2, 2, 2);
    fixture_add(&f, 3, 1, 3);
    assert_false(f.dom.has_by_source || f.dom.has_by_tag);
    assert_ptr_equal(fab_match_probe(&f.dom, 1, ANY), &f.msg[0]);
    assert_true(f.dom.has_by_source && !f.dom.has_by_tag);
    match_check_dom(&f.dom);
    fixture_add(&f, 4, 1, 2);
    assert_ptr_equal(fab_match_probe(&f.dom, ANY, -4), &f.msg[1]);
    assert_true(f.dom.has_by_tag);
    fixture_add(&f, 5, 3, -4);
    match_check_dom(&f.dom);
    for (size_t i = 0; i < ARRAY_LEN(by_source); i++) {
        assert_ptr_equal(fab_match_post(&f.dom, &f.recv[0], 1, ANY), &f.msg[by_source[i]]);
    }
    for (size_t i = 0; i < ARRAY_LEN(by_tag); i++) {
        assert_ptr_equal(fab_match_post(&f.dom, &f.recv[0], ANY, -4), &f.msg[by_tag[i]]);
    }
    assert_ptr_equal(fab_match_post(&f.dom, &f.recv[0], ANY, 2), &f.msg[2]);
    fixture_clear(&f);
    assert_int_equal(f.dom.unexp_count, 0);
    match_check_dom(&f.dom);
    fab_match_fini(&f.dom);
}

static void test_drain_is_oldest_first(void **state)
{
    static const int32_t tag[] = {4, -2, 0, -9, -2, 4};
    fixture_t f;

    (void) state;
    fixture_init(&f, 0);
    for (int i = 0; i < (int) ARRAY_LEN(tag); i++) {
        fixture_add(&f, i, i, tag[i]);
    }
    for (int i = 0; i < (int) ARRAY_LEN(tag); i++) {
        assert_ptr_equal(fab_match_first_msg(&f.dom), &f.msg[i]);
        fab_match_remove_msg(&f.dom, &f.msg[i]);
    }
    assert_null(fab_match_first_msg(&f.dom));
    for (int i = 0; i < 20; i++) {
        fixture_post(&f, i, i & 1 ? ANY : i, i & 2 ? ANY : -i - 2);
    }
    for (int i = 0; i < 20; i++) {
        assert_ptr_equal(fab_match_first_recv(&f.dom), &f.recv[i]);
        assert_true(fab_match_cancel(&f.dom, &f.recv[i]));
    }
    assert_null(fab_match_first_recv(&f.dom));
    fab_match_fini(&f.dom);
}

static void test_counters(void **state)
{
    fixture_t f;

    (void) state;
    fixture_init(&f, 0);
    for (int i = 0; i < 12; i++) {
        fixture_post(&f, i, 1, i);
    }
    assert_ptr_equal(fab_match_arrive(&f.dom, 1, 3), &f.recv[3]);
    assert_true(fab_match_cancel(&f.dom, &f.recv[11]));
    assert_int_equal(f.dom.posted_count, 10);
    assert_int_equal(f.dom.posted_max, 12);
    for (int i = 0; i < 5; i++) {
        fixture_add(&f, i, 2, i);
    }
    assert_ptr_equal(fab_match_post(&f.dom, &f.recv[3], 2, 0), &f.msg[0]);
    fab_match_remove_msg(&f.dom, &f.msg[1]);
    assert_int_equal(f.dom.unexp_count, 3);
    assert_int_equal(f.dom.unexp_max, 5);
    assert_int_equal(f.dom.posted_max, 12);
    fab_match_fini(&f.dom);
}

/* Memory that ends at some growth, and comes back: the buckets that are there serve on. */
static void test_memory_ends(void **state)
{
    static fab_match_recv_t recv[3000];
    fab_match_dom_t dom;

    (void) state;
    for (int depth = 100; depth <= (int) ARRAY_LEN(recv); depth *= 5) {
        fab_match_init(&dom);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < depth; i++) {
                alloc_state.is_failing = 0 == round && i > depth / 8;
                assert_null(fab_match_post(&dom, &recv[i], 3, i * 64));
            }
            match_check_dom(&dom);
            for (int i = depth; i-- > 0;) {
                assert_ptr_equal(fab_match_arrive(&dom, 3, i * 64), &recv[i]);
            }
        }
        assert_true(dom.posted_index.nbuckets >= (uint32_t) depth - FAB_MATCH_SHORT_LEN);
        fab_match_fini(&dom);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_domain),
        cmocka_unit_test(test_oldest_posted_wins),
        cmocka_unit_test(test_receive_that_does_not_fit_stays),
        cmocka_unit_test(test_equal_receives_keep_order),
        cmocka_unit_test(test_oldest_unexpected_wins),
        cmocka_unit_test(test_any_tag_passes_over_negative_tags),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_probe_leaves_and_matched_probe_takes),
        cmocka_unit_test(test_late_wildcards),
        cmocka_unit_test(test_drain_is_oldest_first),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_random_against_reference),
        cmocka_unit_test(test_random_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
