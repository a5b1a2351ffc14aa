/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of two ways a trial chooses, and how often it tries.  Copies into a ring, through the cache
 * and past it: what is written, and when which is used, by a clock that this test moves.  The same
 * without stores past the cache, as on other processors: plain copies, without a measurement.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=clock_gettime variants=asan
 */
#include <time.h>

#include "fabric/fab_counters.h"
#include "shm/shm_ring_inl.h"

#if defined(__SSE2__)
#define HAS_PAST 1
#else
#define HAS_PAST 0
#endif

/* What is compiled for other processors. */
#undef __SSE2__
#define fab_shm_copy_in plain_copy_in
void plain_copy_in(fab_shm_copies_t *trial, void *to, const void *from, size_t len);
#include "shm/shm_copy.c"
#include "test_cmocka.h"
#undef fab_shm_copy_in

enum { MARGIN = 128, MAX = 8192 };

typedef void (*copy_fn_t)(fab_shm_copies_t *trial, void *to, const void *from, size_t len);

static uint8_t from[MAX + MARGIN], to[MAX + 2 * MARGIN];

/* Copies past the cache since the last call. */
static unsigned past(void)
{
    static unsigned long long before;
    unsigned n = (unsigned) (fab_counters.shm_copies_past_cache - before);

    before = fab_counters.shm_copies_past_cache;
    return n;
}

/* ns that a copy takes, by its way */
static uint64_t cost[2];

/* Each look at the clock comes after a copy, or before one. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    static unsigned long long seen;
    static uint64_t ns;

    (void) clock;
    ns += cost[seen != fab_counters.shm_copies_past_cache];
    seen = fab_counters.shm_copies_past_cache;
    *now = (struct timespec){.tv_sec = (time_t) (ns / 1000000000),
                             .tv_nsec = (long) (ns % 1000000000)};
    return 0;
}

/* A trial that has found this way to be the faster one, and is not due for long. */
static fab_shm_copies_t tried(unsigned way)
{
    fab_shm_copies_t trial = fab_shm_copies_round(FAB_SHM_COPIES_ROUND_LONG);

    trial.second[way] = 1000;
    trial.second[!way] = 4000;
    trial.before = (uint8_t) way;
    return trial;
}

static void copy_by(copy_fn_t fn, fab_shm_copies_t *trial, size_t in, size_t out, size_t len)
{
    memset(to, 0, sizeof(to));
    fn(trial, to + MARGIN + out, from + in, len);
    assert_memory_equal(to + MARGIN + out, from + in, len);
    for (size_t i = 0; i < MARGIN; i++) {
        assert_true(0 == to[i + out] && 0 == to[MARGIN + out + len + i % 64]);
    }
}

static void copy(fab_shm_copies_t *trial, size_t in, size_t out, size_t len)
{
    copy_by(fab_shm_copy_in, trial, in, out, len);
}

/* Either side anywhere in a line, lengths around whole lines; nothing else is written. */
static void test_all_places(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(from); i++) {
        from[i] = (uint8_t) (i * 7 + (i >> 8)) | 1; /* never 0 */
    }
    (void) past();
    for (size_t out = 0; out < 64; out++) {
        for (size_t len = FAB_SHM_PAST_MIN; len < FAB_SHM_PAST_MIN + 130; len++) {
            fab_shm_copies_t trial = tried(1);
            copy(&trial, len * 5 % 64, out, len);
            trial = tried(0);
            copy(&trial, out, len % 64, len);
            copy_by(plain_copy_in, &trial, out, len % 64, len);
        }
    }
    assert_int_equal(past(), HAS_PAST * 64 * 130);
}

/* However slow the ring is. */
static void test_plain(void **state)
{
    fab_shm_copies_t trial = tried(1);

    (void) state;
    (void) past();
    for (int i = 0; i < 100; i++) {
        copy_by(plain_copy_in, &trial, 0, 0, MAX);
    }
    assert_int_equal(past(), 0);
}

#if HAS_PAST

/* Copies past the cache, of so many. */
static unsigned past_of(fab_shm_copies_t *trial, unsigned n)
{
    (void) past();
    for (unsigned i = 0; i < n; i++) {
        copy(trial, 0, 0, MAX);
    }
    return past();
}

static void test_faster_way(void **state)
{
    enum {
        TRIES = 4,
        TRIED = FAB_SHM_COPIES_FIRST + 2 * TRIES,
        LONG = 2 * FAB_SHM_COPIES_ROUND_LONG
    };
    fab_shm_copies_t trial = fab_shm_copies_begin();

    (void) state;
    /* distant processors */
    cost[0] = 4000;
    cost[1] = 1000;
    assert_int_equal(past_of(&trial, FAB_SHM_COPIES_FIRST), 0);
    assert_int_equal(past_of(&trial, 2 * TRIES), TRIES);
    assert_true(past_of(&trial, 1000) >= 1000 - 8 * TRIES);
    /* they are near now */
    cost[0] = 500;
    (void) past_of(&trial, LONG);
    assert_true(past_of(&trial, LONG) <= 40 * TRIES);
    /* near from the first copy on; the cost of a source in memory is in both ways */
    for (unsigned source = 0; source <= 100000; source = 10 * source + 1000) {
        trial = fab_shm_copies_begin();
        cost[0] = 500 + source;
        cost[1] = 1000 + source;
        assert_true(past_of(&trial, LONG) <= 40 * TRIES);
        /* not clearly slower */
        trial = fab_shm_copies_begin();
        cost[0] = 1400 + source;
        assert_true(past_of(&trial, LONG) <= 40 * TRIES);
    }
}

#endif

/* Use the trial that often; way w takes ns[w] for each try. Returns how often way 1 was used. */
static unsigned use(fab_shm_copies_t *trial, unsigned times, const uint64_t *ns, unsigned *tries)
{
    unsigned ones = 0;

    *tries = 0;
    for (unsigned i = 0; i < times; i++) {
        bool is_try;
        unsigned way = trial_next(trial, &is_try);
        ones += way;
        if (is_try) {
            trial_note(trial, way, 1048576, ns[way]);
            ++*tries;
        }
    }
    return ones;
}

/* A trial whose first round begins. */
static fab_shm_copies_t begun(void)
{
    static const uint64_t ns[2];
    fab_shm_copies_t trial = fab_shm_copies_begin();
    unsigned tries;

    assert_int_equal(0, use(&trial, FAB_SHM_COPIES_FIRST, ns, &tries));
    assert_int_equal(0, tries);
    return trial;
}

static void uses_the_faster_way(void **state)
{
    static const uint64_t slow_one[] = {100, 101}, fast_one[] = {101, 100}, equal[] = {7, 7};
    fab_shm_copies_t trial = begun();
    unsigned tries;

    (void) state;
    assert_int_equal(4, use(&trial, 256, slow_one, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 256, equal, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(28, use(&trial, 32, fast_one, &tries)); /* a change is checked soon */
    assert_int_equal(8, tries);
    assert_int_equal(4 * 252, use(&trial, 4 * 256, fast_one, &tries));
    assert_int_equal(32, tries);
}

/* A change that the check takes back is not tried again for long. */
static void changes_are_checked(void **state)
{
    static const uint64_t slow_one[] = {100, 101}, fast_one[] = {101, 100};
    fab_shm_copies_t trial = begun();
    unsigned tries;

    (void) state;
    assert_int_equal(28, use(&trial, 32, fast_one, &tries));
    assert_int_equal(4, use(&trial, 4096, slow_one, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(28, use(&trial, 32, fast_one, &tries));
    assert_int_equal(8, tries);
}

/* Times are compared per byte. */
static void lengths_may_differ(void **state)
{
    fab_shm_copies_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = trial_next(&trial, &is_try);
        trial_note(&trial, way, 0 == way ? 20000 : 100000, 0 == way ? 1000 : 4000);
    }
    assert_int_equal(1, trial_next(&trial, &is_try));
}

/* A time per MiB that does not fit is a long one, and known. */
static void times_may_be_very_long(void **state)
{
    fab_shm_copies_t trial = begun();
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = trial_next(&trial, &is_try);
        trial_note(&trial, way, 1024, 0 == way ? UINT64_C(1) << 22 : 1000);
    }
    assert_true(trial_knows(&trial));
    assert_int_equal(1, trial_best(&trial));
}

/*
 * Tries may end late, in any order, or never: while a time is unknown the way is used that was used
 * before, at first way 0.
 */
static void tries_may_never_end(void **state)
{
    static const uint64_t fast_one[] = {101, 100};
    fab_shm_copies_t trial = begun();
    unsigned tries;
    bool is_try;

    (void) state;
    for (unsigned i = 0; i < 8; i++) {
        (void) trial_next(&trial, &is_try);
        assert_true(is_try);
    }
    assert_int_equal(0, trial_next(&trial, &is_try));
    trial_note(&trial, 1, 1, UINT64_MAX); /* longer than can be noted */
    trial_note(&trial, 1, 4096, 0);
    trial_note(&trial, 1, 4096, 0);
    assert_int_equal(0, trial_next(&trial, &is_try));
    trial_note(&trial, 0, 4096, 1);
    assert_int_equal(0, trial_next(&trial, &is_try));
    trial_note(&trial, 0, 4096, 1);
    assert_int_equal(1, trial_next(&trial, &is_try));

    trial = begun();
    assert_int_equal(28, use(&trial, 32, fast_one, &tries));
    for (unsigned i = 0; i < 8; i++) {
        (void) trial_next(&trial, &is_try);
        assert_true(is_try);
    }
    assert_int_equal(1, trial_next(&trial, &is_try));
}

/* Of four tries of each way the second least time counts. */
static void odd_times_are_passed_over(void **state)
{
    static const uint64_t ns[] = {300, 1, 400, 310, 100000, 301, 299, 302};
    fab_shm_copies_t trial = fab_shm_copies_begin();
    unsigned tries;
    bool is_try;

    (void) state;
    assert_int_equal(0, use(&trial, FAB_SHM_COPIES_FIRST, ns, &tries));
    for (unsigned i = 0; i < 8; i++) {
        unsigned way = trial_next(&trial, &is_try);
        assert_true(is_try);
        assert_int_equal(i / 4, way);
        assert_int_equal(0, trial_best(&trial));
        trial_note(&trial, way, 1048576, ns[i]);
    }
    assert_int_equal(300, trial.second[0]);
    assert_int_equal(301, trial.second[1]);
    assert_int_equal(0, trial_next(&trial, &is_try));
}

/* Rounds are longer where one way is clearly slower. */
static void clear_rounds_are_long(void **state)
{
    static const uint64_t near[] = {100, 140}, clear[] = {150, 100};
    fab_shm_copies_t trial = fab_shm_copies_begin();
    unsigned tries;

    (void) state;
    assert_int_equal(0, use(&trial, FAB_SHM_COPIES_FIRST, near, &tries));
    assert_int_equal(4, use(&trial, 256, near, &tries));
    assert_int_equal(28, use(&trial, 32, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(508, use(&trial, 16 * 32, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4092, use(&trial, 4096, clear, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 32, near, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(4, use(&trial, 256, near, &tries));
    assert_int_equal(8, tries);
}

/* Tries begin with the way that was used before; the other one is given up if it is far slower. */
static void slow_way_is_given_up(void **state)
{
    static const uint64_t slow_one[] = {100, 200}, less_slow[] = {100, 199},
                          slow_zero[] = {200, 100};
    fab_shm_copies_t trial = fab_shm_copies_begin();
    unsigned tries;

    (void) state;
    assert_int_equal(0, use(&trial, FAB_SHM_COPIES_FIRST, slow_one, &tries));
    assert_int_equal(4, use(&trial, 256, slow_one, &tries)); /* of the first round all are made */
    assert_int_equal(8, tries);
    assert_int_equal(2, use(&trial, 256 - 2, slow_one, &tries)); /* nor is the second one longer */
    assert_int_equal(6, tries);
    assert_int_equal(2, use(&trial, 4096 - 2, slow_one, &tries));
    assert_int_equal(6, tries);
    assert_int_equal(4, use(&trial, 4096, less_slow, &tries));
    assert_int_equal(8, tries);
    assert_int_equal(28, use(&trial, 32, slow_zero, &tries)); /* way 0, used before, is not */
    assert_int_equal(8, tries);
    assert_int_equal(512 - 4, use(&trial, 512 - 2, slow_zero, &tries));
    assert_int_equal(6, tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_the_faster_way),
        cmocka_unit_test(changes_are_checked),
        cmocka_unit_test(lengths_may_differ),
        cmocka_unit_test(times_may_be_very_long),
        cmocka_unit_test(tries_may_never_end),
        cmocka_unit_test(odd_times_are_passed_over),
        cmocka_unit_test(clear_rounds_are_long),
        cmocka_unit_test(slow_way_is_given_up),
        cmocka_unit_test(test_all_places),
        cmocka_unit_test(test_plain),
#if HAS_PAST
        cmocka_unit_test(test_faster_way),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
