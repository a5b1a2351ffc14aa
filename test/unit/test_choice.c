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
    uint32_t ns[2][16];
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

/*
 * Exchanges by MPI_Sendrecv, a line 188 ns: 7.1 to 7.5 us each way.  A receiver looks at a stream
 * only when its own is in the other ring.
 */
static const trace_t both = {{{14678, 2885, 4979, 3747, 4078, 6753, 6543, 4348, 4038, 4337, 3878,
                               3718, 3546, 3798, 2955, 4518},
                              {5581, 5691, 5421, 5642, 5460, 5730, 5631, 5380, 5540, 5260, 5671,
                               5520, 5300, 5680, 5250, 5601}}};

/* Each message comes to new memory, a page of which costs 8 us and more; other programs run. */
static const trace_t dear = {
    {{69686239, 273289, 72081340, 19992149, 162882125, 48465641, 44620279, 54630971, 278909, 326960,
      269411, 313054, 261626, 353661, 47754932, 47392716},
     {140818, 615667, 341478, 249894, 126901, 136338, 131319, 224175, 139825, 140005, 128013,
      136700, 192966, 136760, 183267, 133734}}};

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
    const uint32_t ns = trace->ns[way][p->at[way]++ % 16];
    const bool is_timed = fab_choice_is_timed(&p->choice, way);

    p->used[way]++;
    p->timed += is_timed;
    p->wanted = fab_choice_came(&p->choice, way, bytes, is_timed ? ns : 0);
}

/* In exchanges: the receiver sends a message of its own first, as its peer wants it. */
static void exchange(pair_t *p, const trace_t *trace, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        if (FAB_BY_RING == p->wanted) {
            fab_choice_sends(&p->choice, true);
        }
        come(p, trace, p->wanted);
    }
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

/* In an exchange the time of both copies counts; in a ping-pong, the one that is seen. */
static void exchanges_cost_both_copies(void **state)
{
    pair_t p = pair(), q = pair();

    (void) state;
    exchange(&p, &both, FAST);
    assert_int_equal(FAB_BY_READING, fab_trial_best(&p.choice.trial));
    p.used[FAB_BY_RING] = 0;
    exchange(&p, &both, MANY);
    assert_in_range(p.used[FAB_BY_RING], 1, MANY / 40);
    for (unsigned i = 0; i < FAST; i++) {
        fab_choice_sends(&q.choice, false);
        come(&q, &far, q.wanted);
    }
    assert_int_equal(FAB_BY_RING, fab_trial_best(&q.choice.trial));
}

/* Each message comes to new memory: to read it costs fewer faults of pages. */
static void dear_pages_are_read(void **state)
{
    pair_t p = pair();

    (void) state;
    run(&p, &dear, FAST);
    assert_int_equal(FAB_BY_READING, fab_trial_best(&p.choice.trial));
    p.used[FAB_BY_RING] = 0;
    run(&p, &dear, MANY);
    assert_in_range(p.used[FAB_BY_RING], 1, MANY / 40);
}

/* Only the first hundred do. */
static void dear_pages_are_forgotten(void **state)
{
    pair_t p = pair();

    (void) state;
    run(&p, &dear, 100);
    run(&p, &far, 3 * FAB_TRIAL_ROUND_LONG);
    assert_int_equal(FAB_BY_RING, fab_trial_best(&p.choice.trial));
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
        cmocka_unit_test(exchanges_cost_both_copies),
        cmocka_unit_test(dear_pages_are_read),
        cmocka_unit_test(dear_pages_are_forgotten),
        cmocka_unit_test(some_come_in_one_way_only),
        cmocka_unit_test(the_sender_learns_late),
        cmocka_unit_test(without_times_it_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
