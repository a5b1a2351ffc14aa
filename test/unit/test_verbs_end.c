/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How connections of verbs end in order (verbs_end.h): all interleavings of two sides that send,
 * read, evict, close and connect again, over two ordered channels and the set-up's own, which is
 * faster or slower than these; then random runs of more.  No message or READ is lost, no message
 * overtaken, no side waits for ever, nobody calls the other wrong.
 *
 * The sides are a model; what they do when the other ends a connection is the provider's.
 *
 * TEST: sources=common/verbs/verbs_end.c variants=asan timeout=300 depends=common/verbs/verbs_end.c,common/verbs/verbs_end.h,common/verbs/verbs_wire.h,test/unit/test_verbs_end.c
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "verbs/verbs_end.h"

/* ---- the model ---------------------------------------------------------- */

enum { CHANNEL = 32, DATA = 1 /* any id that is not the provider's own */ };

typedef enum { IDLE, ASKING, ANSWERED, UP, EVICTING } state_t;

typedef struct side {
    uint8_t state;
    uint8_t qp;      /* its queue pair; 0: none */
    uint8_t peer_qp; /* to which it is connected */
    uint8_t last_qp;
    uint8_t is_closing;
    uint8_t sent; /* messages so far */
    uint8_t received;
    uint8_t to_send; /* how many more of each it may do */
    uint8_t evicts;
    uint8_t closes;
    uint8_t reads;
    uint8_t is_reading; /* a READ is under way */
} side_t;

typedef struct message {
    uint8_t qp; /* to this one */
    uint8_t id;
    uint8_t number; /* of DATA */
} message_t;

typedef struct world {
    side_t sides[2];
    message_t channels[2][CHANNEL]; /* from each side */
    uint8_t lens[2];
    uint8_t has_closed; /* a side has closed the other */
    /* the set-up: what is under way from each side, by the queue pair of who asked; 0: nothing */
    uint8_t hellos[2];
    uint8_t is_parked[2];   /* the hello of this side is set aside by the other */
    uint8_t replies[2];     /* to the hello of this side: the other's queue pair */
    uint8_t replies_for[2]; /* ... and this side's */
    uint8_t readies[2];
} world_t;

typedef struct limits {
    int messages, evicts, closes, reads;
} limits_t;

static const char *flaw; /* what went wrong; NULL: nothing yet */

static void put(world_t *world, int me, uint8_t id)
{
    side_t *side = &world->sides[me];

    assert_true(world->lens[me] < CHANNEL);
    world->channels[me][world->lens[me]++] = (message_t){
        .qp = side->peer_qp, .id = id, .number = DATA == id ? side->sent++ : 0};
}

static void drop_ask(world_t *world, int me)
{
    world->hellos[me] = world->is_parked[me] = world->replies[me] = world->replies_for[me] = 0;
}

/* The connection has ended: what still comes on it meets nobody. */
static void end(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    side->state = IDLE;
    side->qp = side->peer_qp = 0;
    side->is_closing = 0;
}

static void up(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    side->state = UP;
    if (side->is_closing) {
        put(world, me, FAB_VERBS_ID_CLOSE);
    }
}

/* ---- what a side does of its own accord --------------------------------- */

static bool ask(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (IDLE != side->state || 0 == side->to_send) {
        return false;
    }
    side->qp = ++side->last_qp;
    side->state = ASKING;
    world->hellos[me] = side->qp;
    return true;
}

static bool send_data(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (UP != side->state || side->is_closing || 0 == side->to_send) {
        return false;
    }
    side->to_send--;
    put(world, me, DATA);
    return true;
}

static bool begin_read(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (UP != side->state || side->is_closing || side->is_reading || 0 == side->reads) {
        return false;
    }
    side->reads--;
    side->is_reading = 1;
    return true;
}

/* It needs the other side's queue pair.  Who closes a peer is done with what others read of it. */
static bool end_read(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (!side->is_reading) {
        return false;
    }
    side->is_reading = 0;
    if (!world->has_closed && (0 == side->peer_qp || side->peer_qp != world->sides[!me].qp)) {
        flaw = "a READ is lost";
    }
    return true;
}

static bool evict(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (UP != side->state || side->is_closing || side->is_reading || 0 == side->evicts) {
        return false;
    }
    side->evicts--;
    side->state = EVICTING;
    put(world, me, FAB_VERBS_ID_EVICT);
    return true;
}

static bool close_peer(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (side->is_closing || side->is_reading || 0 == side->closes) {
        return false;
    }
    side->closes--;
    world->has_closed = 1;
    if (IDLE != side->state) {
        side->is_closing = 1;
    }
    if (UP == side->state || EVICTING == side->state) {
        put(world, me, FAB_VERBS_ID_CLOSE);
    }
    return true;
}

/* ---- what comes over the set-up ----------------------------------------- */

static void answer(world_t *world, int me, uint8_t qp)
{
    side_t *side = &world->sides[me];

    drop_ask(world, me);
    if (0 == side->qp) {
        side->qp = ++side->last_qp;
    }
    side->peer_qp = qp;
    side->state = ANSWERED;
    world->hellos[!me] = world->is_parked[!me] = 0;
    world->replies[!me] = side->qp;
    world->replies_for[!me] = qp;
}

static bool take_hello(world_t *world, int me)
{
    side_t *side = &world->sides[me];
    uint8_t qp = world->hellos[!me];

    if (0 == qp || world->is_parked[!me] || EVICTING == side->state ||
        (side->is_closing && UP == side->state)) {
        return false; /* or later */
    }
    if (IDLE == side->state || (ASKING == side->state && 1 == me)) {
        answer(world, me, qp);
    } else if (ASKING == side->state) {
        world->is_parked[!me] = 1; /* side 0 has precedence */
    } else {
        flaw = qp == side->peer_qp ? flaw : "it gave up the connection and requests another one";
        world->hellos[!me] = 0;
    }
    return true;
}

static bool take_reply(world_t *world, int me)
{
    side_t *side = &world->sides[me];

    if (0 == world->replies[me]) {
        return false;
    }
    if (ASKING == side->state && side->qp == world->replies_for[me]) {
        side->peer_qp = world->replies[me];
        world->readies[me] = side->qp;
        world->hellos[!me] = world->is_parked[!me] = 0; /* it named the one that has answered */
        up(world, me);
    }
    world->replies[me] = 0;
    return true;
}

static bool take_ready(world_t *world, int me)
{
    uint8_t qp = world->readies[!me];

    world->readies[!me] = 0;
    if (0 != qp && ANSWERED == world->sides[me].state && qp == world->sides[me].peer_qp) {
        up(world, me);
    }
    return 0 != qp;
}

/* ---- what comes over the connection ------------------------------------- */

static void on_end(world_t *world, int me, uint8_t id)
{
    side_t *side = &world->sides[me];
    unsigned flags = (EVICTING == side->state ? FAB_VERBS_SIDE_EVICTING : 0) |
                     (side->is_closing ? FAB_VERBS_SIDE_CLOSING : 0) |
                     (side->is_reading ? FAB_VERBS_SIDE_BUSY : 0);

    switch (fab_verbs_on_end(flags, id)) {
    case FAB_VERBS_END_AGREE:
        put(world, me, FAB_VERBS_ID_EVICTED);
        end(world, me);
        break;
    case FAB_VERBS_END_DECLINE:
        put(world, me, FAB_VERBS_ID_STAY);
        break;
    case FAB_VERBS_END_OVER:
        end(world, me);
        break;
    case FAB_VERBS_END_GO_ON:
        side->state = UP;
        break;
    case FAB_VERBS_END_CLOSED:
        put(world, me, FAB_VERBS_ID_CLOSED);
        end(world, me);
        break;
    default:
        flaw = "an answer that nobody has asked for";
        break;
    }
}

static bool take(world_t *world, int me)
{
    side_t *side = &world->sides[me];
    message_t message = world->channels[!me][0];

    if (0 == world->lens[!me]) {
        return false;
    }
    world->lens[!me]--;
    memmove(&world->channels[!me][0], &world->channels[!me][1], (CHANNEL - 1) * sizeof(message));
    world->channels[!me][CHANNEL - 1] = (message_t){0};
    if (message.qp != side->qp) {
        flaw = DATA == message.id ? "a message is lost" : flaw;
        return true;
    }
    if (ANSWERED == side->state) {
        up(world, me);
    }
    if (DATA != message.id) {
        on_end(world, me, message.id);
    } else {
        flaw = message.number == side->received++ ? flaw : "a message is overtaken";
    }
    return true;
}

/* ---- all together ------------------------------------------------------- */

enum { CHOICES = 2 * 10, MUST = 2 * 7 /* the first: what a side that may, does */ };

/* False: it cannot happen now. */
static bool step(world_t *world, int choice)
{
    int me = choice % 2;

    switch (choice / 2) {
    case 0:
        return take(world, me);
    case 1:
        return end_read(world, me);
    case 2:
        return take_hello(world, me);
    case 3:
        return take_reply(world, me);
    case 4:
        return take_ready(world, me);
    case 5:
        return ask(world, me);
    case 6:
        return send_data(world, me);
    case 7:
        return evict(world, me);
    case 8:
        return begin_read(world, me);
    default:
        return close_peer(world, me);
    }
}

/* Nothing is left to do: is all in order? */
static void check_rest(const world_t *world)
{
    const side_t *a = &world->sides[0], *b = &world->sides[1];

    if (a->sent != b->received || b->sent != a->received || 0 != a->to_send || 0 != b->to_send) {
        flaw = "messages are left";
    } else if (a->state != b->state || (IDLE != a->state && UP != a->state)) {
        flaw = "a side waits for ever";
    } else if (a->is_closing || b->is_closing) {
        flaw = "a close is not answered";
    } else if (a->qp != b->peer_qp || b->qp != a->peer_qp) {
        flaw = "they do not have the same connection";
    }
}

static world_t begin(const limits_t *limits)
{
    side_t side = {.to_send = (uint8_t) limits->messages,
                   .evicts = (uint8_t) limits->evicts,
                   .closes = (uint8_t) limits->closes,
                   .reads = (uint8_t) limits->reads};

    return (world_t){.sides = {side, side}};
}

/* ---- all interleavings -------------------------------------------------- */

enum { TABLE = 1 << 23, DEPTH = 200 };

static uint64_t *seen;
static size_t num_seen;
static int path[DEPTH];

static uint64_t hash(const world_t *world)
{
    const uint8_t *bytes = (const uint8_t *) world;
    uint64_t sum = 0x9e3779b97f4a7c15;

    for (size_t i = 0; i < sizeof(*world); i++) {
        sum = (sum ^ bytes[i]) * 0x100000001b3;
        sum ^= sum >> 29;
    }
    return sum | 1;
}

/* False: it was there. */
static bool enter(uint64_t key)
{
    size_t at = key * 0x9e3779b97f4a7c15 >> 41;

    while (0 != seen[at]) {
        if (key == seen[at]) {
            return false;
        }
        at = (at + 1) % TABLE;
    }
    assert_true(++num_seen < TABLE / 2);
    seen[at] = key;
    return true;
}

static void say(int depth)
{
    static const char *const names[] = {"take", "end_read", "hello", "reply", "ready",
                                        "ask",  "send",     "evict", "read",  "close"};

    printf("%s:", flaw);
    for (int i = 0; i < depth; i++) {
        printf(" %d.%s", path[i] % 2, names[path[i] / 2]);
    }
    printf("\n");
}

static void explore(const world_t *world, int depth)
{
    bool is_over = true;

    assert_true(depth < DEPTH);
    if (!enter(hash(world))) {
        return;
    }
    for (int choice = 0; choice < CHOICES && NULL == flaw; choice++) {
        world_t next = *world;
        path[depth] = choice;
        if (step(&next, choice)) {
            is_over = is_over && choice >= MUST;
            if (NULL == flaw) {
                explore(&next, depth + 1);
            } else {
                say(depth + 1);
            }
        }
    }
    if (is_over && NULL == flaw) {
        check_rest(world);
        if (NULL != flaw) {
            say(depth);
        }
    }
}

static void test_all(void **state)
{
    static const limits_t limits[] = {{2, 2, 0, 1}, {1, 1, 1, 1}, {2, 2, 1, 0}};

    (void) state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        world_t world = begin(&limits[i]);
        seen = calloc(TABLE, sizeof(*seen));
        num_seen = 0;
        explore(&world, 0);
        free(seen);
        printf("%zu states\n", num_seen);
        assert_null(flaw);
        assert_true(num_seen > 1000);
    }
}

/* ---- random ------------------------------------------------------------- */

static void walk(void)
{
    static const limits_t limits = {20, 6, 3, 3};
    world_t world = begin(&limits);
    bool is_over = false;

    while (!is_over && NULL == flaw) {
        for (int i = 0; i < 40 && NULL == flaw; i++) {
            (void) step(&world, (int) (random() % (0 == random() % 8 ? CHOICES : MUST)));
        }
        is_over = true; /* unless there is something that a side must do */
        for (int choice = 0; choice < MUST && NULL == flaw; choice++) {
            is_over = !step(&world, choice) && is_over;
        }
    }
    if (NULL == flaw) {
        check_rest(&world);
    }
}

static void test_random(void **state)
{
    (void) state;
    srandom(1);
    for (int i = 0; i < 5000 && NULL == flaw; i++) {
        walk();
    }
    if (NULL != flaw) {
        printf("%s\n", flaw);
    }
    assert_null(flaw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
