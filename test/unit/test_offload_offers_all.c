/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine with offers as its device (offers_world.h), in every order of events for small
 * programs.  TM_TEST_DEPTH=1: more of them, which takes minutes.
 *
 * TEST: sources=common/offload/offload.c,common/match/match.c,common/ofi/ofi_offers.c,common/ofi/ofi_places.c,test/unit/offers_world.c timeout=300 quick=no cflags="-O2 -DFAB_MATCH_SHORT_LEN=8 -DOFFERS_RECVS=4 -DOFFERS_MSGS=4 -DOFFERS_PLACES=8 -DOFFERS_QUEUE=16" variants=plain
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

#include "offers_world.h"

#define ANY FAB_MATCH_ANY

/*
 * What the receiver and the sender do, in order; everything else, and these, in every order.
 *   receiver  a b: posts for this tag; * for any; ? for any source and tag a; s: for tag a, with
 *             too little memory; 1 2 3: cancels its first, second, third
 *   sender    A B: a long message with this tag; x y: a short one
 */
typedef struct program {
    const char *receiver;
    const char *sender;
} program_t;

enum { SEEN_BITS = 22, DEPTH = 64, QUICK = 9 /* programs */ };

static offers_world_t world;
static uint64_t *visited; /* hashes of states, open addressing */
static uint64_t num_states;
static bool is_full; /* there was no room to remember all */
static program_t program;

typedef struct place_in_program {
    uint32_t receiver, sender;
} place_in_program_t;

static uint64_t hash_state(place_in_program_t at)
{
    const uint64_t *words = (const uint64_t *) (const void *) &world;
    uint64_t hash = 0xcbf29ce484222325ull ^ ((uint64_t) at.receiver << 32 | at.sender);

    for (size_t i = 0; i < sizeof(world) / sizeof(*words); i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return 0 == hash ? 1 : hash;
}

/* False: it was visited before, or there is no room to remember it. */
static bool is_new(uint64_t hash)
{
    const uint64_t mask = (UINT64_C(1) << SEEN_BITS) - 1;
    uint64_t at = hash & mask;

    while (0 != visited[at] && hash != visited[at]) {
        at = (at + 1) & mask;
    }
    is_full = is_full || num_states > mask / 4 * 3;
    if (hash == visited[at] || is_full) {
        return false;
    }
    visited[at] = hash;
    num_states++;
    return true;
}

static bool receiver_step(place_in_program_t *at)
{
    const char op = program.receiver[at->receiver];
    unsigned i = 0;

    if ('\0' == op) {
        return false;
    }
    at->receiver++;
    if (op >= '1' && op <= '3') {
        i = (unsigned) (op - '1');
        if (FREE != world.wrecv[i].state) {
            offers_cancel(&world, i);
        }
        return true;
    }
    for (uint32_t n = 0; n + 1 < at->receiver; n++) {
        i += program.receiver[n] < '1' || program.receiver[n] > '3';
    }
    offers_post(&world, i, '?' == op ? ANY : 0,
                '*' == op   ? ANY
                : 'b' == op ? 1
                            : 0,
                's' == op ? SMALL_LEN : LONG_LEN);
    return true;
}

static bool sender_step(place_in_program_t *at)
{
    const char op = program.sender[at->sender];

    if ('\0' == op ||
        !offers_send(&world, at->sender, 0, 'B' == op || 'y' == op, 'A' == op || 'B' == op)) {
        return false;
    }
    at->sender++;
    return true;
}

enum { STEPS = 9 };

static bool take_step(place_in_program_t *at, unsigned kind)
{
    switch (kind) {
    case 0:
        return receiver_step(at);
    case 1:
        return sender_step(at);
    case 2:
        return offers_tell_sender(&world, 0);
    case 3:
        return offers_data(&world, 0);
    case 4:
        return offers_execute_cancel(&world);
    case 5:
        return world.source[0].out.num > 0 && offers_poll(&world, 0, 1, 0, 0);
    case 6:
        return world.source[0].out.num > 1 && offers_poll(&world, 0, 2, 0, 0);
    case 7:
        return world.num_completions > 0 && offers_poll(&world, 0, 0, 0, 1);
    default:
        return world.num_completions > 1 && offers_poll(&world, 0, 0, 1, 1);
    }
}

static void explore(place_in_program_t at, unsigned depth, char *path)
{
    static offers_world_t saved[DEPTH];

    if (NULL != world.error) {
        path[depth] = '\0';
        fail_msg("%s: receiver %s, sender %s, steps %s", world.error, program.receiver,
                 program.sender, path);
    }
    if (!is_new(hash_state(at)) || DEPTH == depth) {
        return;
    }
    saved[depth] = world;
    for (unsigned kind = 0; kind < STEPS; kind++) {
        place_in_program_t next = at;

        path[depth] = (char) ('0' + kind);
        if (take_step(&next, kind)) {
            explore(next, depth + 1, path);
        }
        world = saved[depth];
    }
    path[depth] = '\0';
    offers_settle(&world);
    if (NULL != world.error) {
        fail_msg("%s: receiver %s, sender %s, steps %s, and then to the end", world.error,
                 program.receiver, program.sender, path);
    }
    world = saved[depth];
}

static void test_exhaustive(void **state)
{
    static const program_t programs[] = {
        {"aa", "xA"},  {"aa", "AA"},   {"a*", "BA"},   {"*a", "xA"},    {"sa", "AA"},
        {"?a", "AA"},  {"a1a", "AA"},  {"aa1", "xA"},  {"aa1", "AA"},   {"a*1", "AB"},
        {"ab1", "BA"}, {"*b1", "BAy"}, {"aa12", "AA"}, {"aa2", "AxA"},  {"aa1a", "AA"},
        {"a1", "AxA"}, {"*a1", "AAB"}, {"b*2a", "AA"}, {"a*1a", "xAA"},
    };
    const unsigned num = NULL != getenv("TM_TEST_DEPTH") ? sizeof(programs) / sizeof(programs[0])
                                                         : QUICK;
    char path[DEPTH + 1];

    (void) state;
    visited = calloc(UINT64_C(1) << SEEN_BITS, sizeof(*visited));
    assert_non_null(visited);
    for (unsigned i = 0; i < num; i++) {
        num_states = 0;
        is_full = false;
        memset(visited, 0, sizeof(*visited) << SEEN_BITS);
        program = programs[i];
        offers_init(&world);
        explore((place_in_program_t){0}, 0, path);
        print_message("receiver %-5s sender %-4s %8" PRIu64 " states%s\n", program.receiver,
                      program.sender, num_states, is_full ? ", and more" : "");
        assert_true(i >= QUICK || !is_full);
        offers_fini(&world);
    }
    free(visited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
