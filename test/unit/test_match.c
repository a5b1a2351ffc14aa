/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher: random operations against the reference lists, with the structure's invariants, and
 * failing allocation. test_match_exhaustive has all short sequences.
 *
 * The random tests have four seeds, the first from TM_TEST_RANDOM; in a short run that one alone.
 * TM_TEST_SEED runs them from one seed, TM_TEST_OPS sets the operations for each seed and key mix.
 *
 * TEST: sources=common/match/match.c,test/unit/match_check.c,test/unit/match_ref.c timeout=120 ldflags=-Wl,--wrap=malloc
 */
#include <inttypes.h>

#include "match/match.h"
#include "match_check.h"
#include "match_ref.h"
#include "test_cmocka.h"

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
    world_expect(w, match_first_recv(&w->dom), match_ref_first_recv(&w->ref), "first_recv");
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
    fab_match_msg_t *msg = match_post(&w->dom, recv, source, tag);

    world_expect(w, msg, match_ref_post(&w->ref, recv, source, tag), "post");
    if (NULL != msg) {
        world_give_recv(w, recv);
        world_give_msg(w, msg);
    } else {
        assert_int_equal(recv->source, source);
        assert_int_equal(recv->tag, tag);
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

/* A look for a message that is not there: it visits all with this source and tag, oldest first. */
typedef struct visit {
    world_t *w;
    int32_t source, tag;
    size_t *at; /* in the reference */
} visit_t;

/* The reference's next with this source and tag. */
static const void *visit_next(const visit_t *visit)
{
    const match_ref_list_t *unexp = &visit->w->ref.unexp;

    while (*visit->at < unexp->count && (visit->source != unexp->entry[*visit->at].source ||
                                         visit->tag != unexp->entry[*visit->at].tag)) {
        ++*visit->at;
    }
    return *visit->at < unexp->count ? unexp->entry[(*visit->at)++].id : NULL;
}

static bool is_none(const fab_match_msg_t *msg, const void *ctx)
{
    const visit_t *visit = ctx;

    world_expect(visit->w, msg, visit_next(visit), "visit");
    return false;
}

static void world_visit(world_t *w, int32_t source, int32_t tag)
{
    size_t at = 0;
    const visit_t visit = {.w = w, .source = source, .tag = tag, .at = &at};

    assert_null(fab_match_withdraw(&w->dom, source, tag, is_none, &visit));
    world_expect(w, NULL, visit_next(&visit), "end of visit");
}

/* Probe; take the message out if asked to. */
static void world_probe(world_t *w, int32_t source, int32_t tag, bool is_matched)
{
    fab_match_msg_t *msg = fab_match_probe(&w->dom, source, tag);

    world_expect(w, msg, match_ref_probe(&w->ref, source, tag), "probe");
    if (ANY != source && ANY != tag) {
        world_visit(w, source, tag);
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
    for (fab_match_recv_t *recv; NULL != (recv = match_first_recv(&w->dom));) {
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

/* ---- what no sequence of operations shows -------------------------------- */

/* An empty domain has no memory; a receive that was never posted is not posted. */
static void test_empty_domain(void **state)
{
    fab_match_recv_t recv = {0};
    fab_match_dom_t dom;

    (void) state;
    alloc_state.calls = 0;
    fab_match_init(&dom);
    assert_int_equal(alloc_state.calls, 0);
    assert_false(fab_match_cancel(&dom, &recv));
    assert_null(fab_match_arrive(&dom, 0, 0));
    assert_null(fab_match_probe(&dom, ANY, ANY));
    assert_null(fab_match_probe(&dom, 0, ANY));
    assert_null(fab_match_first_msg(&dom));
    assert_null(match_first_recv(&dom));
    match_check_dom(&dom);
    fab_match_fini(&dom);
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
                assert_null(match_post(&dom, &recv[i], 3, i * 64));
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
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_random_against_reference),
        cmocka_unit_test(test_random_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
