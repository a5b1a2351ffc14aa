/* SPDX-License-Identifier: BSD-3-Clause */
/* What a receiver asks for, when the times are as they were measured between two processors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/fab_choice.h"

enum {
    LONG = 65536, /* bytes of a message */
    FIRST = 8112, /* of them come with the first fragment of a stream */
    FAST = 8 * FAB_TRIAL_TRIES + 2 * FAB_TRIAL_FIRST, /* messages after which it is chosen */
    MANY = 100000,
};

/* ns from the first fragment, or the announcement, to the end; again and again in this order */
typedef struct {
    uint16_t ns[2][16];
} trace_t;

/* processors that share a cache: read 4.8 us, streamed 6.9 */
static const trace_t near = {{{6650, 5720, 5710, 5790, 5700, 5810, 5740, 9120, 5690, 5730, 5700,
                               5760, 5710, 14300, 5720, 5700},
                              {5900, 4420, 4350, 4380, 4360, 4340, 4400, 4350, 7800, 4360, 4350,
                               4370, 4340, 4390, 11900, 4350}}};

/* others: streamed 5.1, read 7.9 */
static const trace_t far = {{{5200, 4010, 4050, 3980, 4120, 3990, 4000, 6900, 4030, 4010, 3990,
                              4060, 15200, 4000, 4010, 4020},
                             {9200, 7450, 7390, 7510, 7400, 7420, 7380, 8900, 7430, 7390, 7400,
                              12800, 7410, 7460, 7390, 7400}}};

typedef struct {
    fab_choice_t choice;
    unsigned wanted; /* the way that the sender knows of */
    unsigned at[2];  /* the next time of each way */
    unsigned used[2];
    unsigned timed;
} pair_t;

static pair_t pair(void)
{
    return (pair_t){.choice = fab_choice_begin()};
}

/* The next message comes, in this way. */
static void come(pair_t *p, const trace_t *trace, unsigned way)
{
    const size_t bytes = FAB_BY_RING == way ? LONG - FIRST : LONG;
    const uint64_t ns = trace->ns[way][p->at[way]++ % 16];
    const bool is_timed = fab_choice_is_timed(&p->choice, way);

    p->used[way]++;
    p->timed += is_timed;
    p->wanted = fab_choice_came(&p->choice, way, bytes, is_timed ? ns : 0);
}

static void run(pair_t *p, const trace_t *trace, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        come(p, trace, p->wanted);
    }
}

static void near_processors_read(void **state)
{
    pair_t p = pair();

    (void) state;
    run(&p, &near, FAB_TRIAL_FIRST);
    assert_int_equal(0, p.used[FAB_BY_READING]); /* the first ones are streamed, and not timed */
    run(&p, &near, FAST - FAB_TRIAL_FIRST);
    assert_int_equal(FAB_BY_READING, fab_trial_best(&p.choice.trial));
    p.used[FAB_BY_RING] = p.timed = 0;
    run(&p, &near, MANY);
    assert_in_range(p.used[FAB_BY_RING], 1, MANY / 500);
    assert_in_range(p.timed, 1, MANY / 250);
}

static void others_stream(void **state)
{
    pair_t p = pair();

    (void) state;
    run(&p, &far, FAST);
    assert_int_equal(FAB_BY_RING, fab_trial_best(&p.choice.trial));
    p.used[FAB_BY_READING] = 0;
    run(&p, &far, MANY);
    assert_in_range(p.used[FAB_BY_READING], 1, MANY / 500);
}

/* A process is moved to another processor. */
static void it_changes(void **state)
{
    pair_t p = pair();

    (void) state;
    for (int i = 0; i < 4; i++) {
        run(&p, i % 2 ? &far : &near, 3 * FAB_TRIAL_ROUND_LONG);
        p.used[FAB_BY_RING] = p.used[FAB_BY_READING] = 0;
        run(&p, i % 2 ? &far : &near, FAB_TRIAL_ROUND_LONG);
        assert_in_range(p.used[i % 2 ? FAB_BY_READING : FAB_BY_RING], 0, FAB_TRIAL_ROUND_LONG / 64);
    }
}

/* Messages that the sender can only announce, as those of nonblocking sends. */
static void some_come_in_one_way_only(void **state)
{
    pair_t p = pair();
    unsigned both = 0;

    (void) state;
    for (unsigned i = 0; i < 2000; i++) {
        come(&p, &far, i % 3 ? FAB_BY_READING : p.wanted);
        both += 0 == i % 3 && FAB_BY_RING == p.wanted;
    }
    assert_int_equal(FAB_BY_RING, fab_trial_best(&p.choice.trial));
    assert_in_range(both, 600, 667);
}

/* The sender learns only after two messages more what it is asked for. */
static void the_sender_learns_late(void **state)
{
    unsigned later[2] = {FAB_BY_RING, FAB_BY_RING};
    pair_t p = pair();

    (void) state;
    for (unsigned i = 0; i < MANY; i++) {
        come(&p, &near, later[i % 2]);
        later[i % 2] = p.wanted;
    }
    assert_int_equal(FAB_BY_READING, fab_trial_best(&p.choice.trial));
    assert_in_range(p.used[FAB_BY_RING], 1, MANY / 50);
}

/* No time can be taken of messages that come before their receive. */
static void without_times_it_stays(void **state)
{
    pair_t p = pair();

    (void) state;
    for (unsigned i = 0; i < MANY; i++) {
        p.wanted = fab_choice_came(&p.choice, p.wanted, LONG, 0);
        p.used[p.wanted]++;
    }
    assert_int_equal(FAB_BY_RING, fab_trial_best(&p.choice.trial));
    assert_in_range(p.used[FAB_BY_READING], 1, MANY / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_processors_read),
        cmocka_unit_test(others_stream),
        cmocka_unit_test(it_changes),
        cmocka_unit_test(some_come_in_one_way_only),
        cmocka_unit_test(the_sender_learns_late),
        cmocka_unit_test(without_times_it_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
