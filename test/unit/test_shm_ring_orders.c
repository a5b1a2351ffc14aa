/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of the shm provider alone: all interleavings of short runs at the granularity of each
 * access to shared memory.
 *
 * The two sides are coroutines, and FAB_SHM_STEP() is where they may be switched.  The thread
 * sanitizer does not know coroutines.  Nor does the search for uses of a stack after return, with
 * which this test takes ten times as long.
 *
 * TEST: sources=common/fabric/fab_copy.c variants=asan env="ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1" timeout=120 quick=no
 */
#include "test_shm_ring.h"

#include <ucontext.h>

/* ---- all interleavings -------------------------------------------------- */

/*
 * Two coroutines on one ring of 8 slots.  The sender sends the messages of a scenario, waiting when
 * the ring is full; the receiver takes them, and either polls or sleeps when the ring is empty.  A
 * side that waits is not run until the other made a step: looking again without that could not see
 * anything new.
 */
enum { STACK = 256 * 1024, MAX_STEPS = 200, MAX_MESSAGES = 3 };

enum side { SENDER, RECEIVER };

static struct model {
    ucontext_t main;
    ucontext_t side[2];
    char *stack[2];
    bool is_running; /* else step() does nothing */
    enum side current;
    bool is_done[2];
    bool is_waiting[2];
    bool is_asleep; /* the receiver waits for the doorbell, nothing else */
    bool is_wrong;
    ring_t *ring;
    int num_messages;
    size_t len[MAX_MESSAGES];
    bool sleeps;
    bool takes; /* messages past the poll, by ring_take() */
    bool is_ping_pong;
    bool is_growing;
    unsigned long grown; /* runs in which the ring has grown */
    uint32_t stale; /* slots of each message of the first lap, whose payload looks like words */
    unsigned kinds; /* of steps at which sides are switched: those that matter for the scenario */
    /* the schedule: at each step which side ran, and whether the other could have */
    uint8_t choice[MAX_STEPS];
    bool is_open[MAX_STEPS];
    int steps;
    unsigned long runs;
} model;

static void step(enum step what)
{
    if (model.is_running && (model.kinds & what)) {
        swapcontext(&model.side[model.current], &model.main);
    }
}

static void model_wait(void)
{
    model.is_waiting[model.current] = true;
    swapcontext(&model.side[model.current], &model.main);
}

static void model_sender(void)
{
    for (int i = 0; i < model.num_messages; i++) {
        while (!ring_send(model.ring, (uint64_t) i + 100, model.len[i], model.len[i])) {
            model_wait();
        }
    }
    model.is_done[SENDER] = true;
    swapcontext(&model.side[SENDER], &model.main);
}

static void model_receive_one(int i)
{
    ring_t *ring = model.ring;
    fab_shm_msg_t msg = {0};
    fab_shm_look_t look;

    if (model.takes && ring_take(ring, (uint64_t) i + 100, model.len[i], &model.is_wrong)) {
        return;
    }
    while (FAB_SHM_EMPTY == (look = fab_shm_rx_peek(&ring->rx, &msg))) {
        if (!model.sleeps) {
            model_wait();
        } else {
            if (fab_shm_rx_sleep(&ring->rx)) {
                model.is_asleep = true;
                model_wait();
                model.is_asleep = false;
                atomic_store(&ring->doorbell, 0);
            }
            fab_shm_rx_wake(&ring->rx);
        }
    }
    if (FAB_SHM_BAD == look || !message_is(&msg, (uint64_t) i + 100, model.len[i])) {
        model.is_wrong = true;
    }
    fab_shm_rx_advance(&ring->rx, msg.slots);
}

static void model_receiver(void)
{
    for (int i = 0; i < model.num_messages; i++) {
        model_receive_one(i);
    }
    model.is_done[RECEIVER] = true;
    swapcontext(&model.side[RECEIVER], &model.main);
}

static bool model_can_run(enum side side)
{
    if (RECEIVER == side && model.is_asleep) {
        return 0 != atomic_load(&model.ring->doorbell);
    }
    return !model.is_done[side] && !model.is_waiting[side];
}

static void model_start(enum side side, void (*fn)(void))
{
    getcontext(&model.side[side]);
    model.side[side].uc_stack.ss_sp = model.stack[side];
    model.side[side].uc_stack.ss_size = STACK;
    model.side[side].uc_link = &model.main;
    makecontext(&model.side[side], fn, 0);
    model.is_done[side] = model.is_waiting[side] = false;
}

/* A message of n slots whose payload is full of words of the second lap. */
static void send_words(ring_t *ring, uint32_t n)
{
    const uint64_t word = fab_shm_word(8, 1, 0, 2);
    const size_t len = (n - 1) * sizeof(fab_shm_slot_t); /* 24 bytes in its last slot */
    fab_shm_slot_t *slot = ring_reserve(ring, n);

    for (size_t at = 0; at < len; at += sizeof(word)) {
        memcpy((char *) fab_shm_payload(slot) + at, &word, sizeof(word));
    }
    fab_shm_tx_commit(&ring->tx, slot, fab_hdr(1, 0, 0), len, n);
}

/* Bring the ring, of 8 slots, to the position where the run begins. */
static void model_lead_in(ring_t *ring, uint32_t start)
{
    uint32_t n;

    for (uint32_t at = 0; at < start; at += n) {
        fab_shm_msg_t msg = {0};
        n = 0 != model.stale && at + model.stale <= 8 ? model.stale : 1;
        if (n > 1) {
            send_words(ring, n);
        } else if (!ring_send(ring, at, 0, 0)) {
            abort();
        }
        if (FAB_SHM_MESSAGE != fab_shm_rx_peek(&ring->rx, &msg)) {
            abort();
        }
        fab_shm_rx_advance(&ring->rx, msg.slots);
    }
}

/*
 * One run: follow the schedule as far as it goes, then prefer the sender. False: wrong, or nobody
 * can go on.
 */
static bool model_run(int given, uint32_t start)
{
    model.ring = ring_new_growing(8, model.is_growing ? 32 : 8);
    model.ring->is_ping_pong = model.is_ping_pong;
    model.ring->tx.promised = UINT64_MAX; /* it stays as it is, in the lead-in */
    model.is_running = false;
    model_lead_in(model.ring, start);
    model.ring->tx.promised = 0;
    model.is_wrong = model.is_asleep = false;
    model_start(SENDER, model_sender);
    model_start(RECEIVER, model_receiver);
    model.is_running = true;
    model.steps = 0;
    model.runs++;
    while (!(model.is_done[SENDER] && model.is_done[RECEIVER])) {
        bool can[2] = {model_can_run(SENDER), model_can_run(RECEIVER)};
        if (model.is_wrong || MAX_STEPS == model.steps || (!can[SENDER] && !can[RECEIVER])) {
            break;
        }
        enum side side = model.steps < given ? model.choice[model.steps]
                         : can[SENDER]       ? SENDER
                                             : RECEIVER;
        model.choice[model.steps] = (uint8_t) side;
        model.is_open[model.steps] = can[SENDER] && can[RECEIVER];
        model.steps++;
        model.current = side;
        swapcontext(&model.main, &model.side[side]);
        model.is_waiting[1 - side] = false; /* it may see something new */
    }
    model.is_running = false;
    model.grown += 31 == model.ring->rx.mask;
    free(model.ring);
    return !model.is_wrong && model.is_done[SENDER] && model.is_done[RECEIVER];
}

/*
 * All schedules of the scenario: depth first, the last open choice of the sender changed to the
 * receiver.
 */
static void model_schedules(uint32_t start)
{
    int given = 0;

    for (;;) {
        if (!model_run(given, start)) {
            print_error("from slot %u%s, messages of %zu %zu %zu bytes, schedule:", start,
                        model.is_ping_pong ? ", early wraps" : "", model.len[0], model.len[1],
                        model.len[2]);
            for (int i = 0; i < model.steps; i++) {
                print_error(" %c", SENDER == model.choice[i] ? 's' : 'r');
            }
            print_error("\n");
            fail();
        }
        for (given = model.steps;
             given > 0 && !(model.is_open[given - 1] && SENDER == model.choice[given - 1]);
             given--) {
        }
        if (0 == given) {
            return;
        }
        model.choice[given - 1] = RECEIVER;
    }
}

/*
 * The same without early wraps, and with them, in which case there are more ways: not of three
 * messages, and not from all slots.
 */
static void model_explore(uint32_t start)
{
    model.is_ping_pong = false;
    model_schedules(start);
    if (model.num_messages < 3 && 3 == start % 4) {
        model.is_ping_pong = true;
        model_schedules(start);
    }
}

static const size_t model_lens[] = {8, 41, 128}; /* 1, 2, 3 slots */

/* All pairs of sizes, from every slot of the second lap on, where old words are there. */
static void model_pairs(uint32_t stride)
{
    model.num_messages = 2;
    for (uint32_t start = 8; start < 16; start += stride) {
        for (int mix = 0; mix < 9; mix++) {
            model.len[0] = model_lens[mix % 3];
            model.len[1] = model_lens[mix / 3];
            model_explore(start);
        }
    }
}

static int model_setup(void **state)
{
    (void) state;
    model.stale = 0;
    model.stack[0] = malloc(STACK);
    model.stack[1] = malloc(STACK);
    return NULL == model.stack[0] || NULL == model.stack[1];
}

static int model_teardown(void **state)
{
    (void) state;
    print_message("%lu interleavings\n", model.runs);
    free(model.stack[0]);
    free(model.stack[1]);
    return 0;
}

static void test_all_interleavings_polling(void **state)
{
    (void) state;
    model.runs = 0;
    model.sleeps = false;
    model.kinds = STEP_word | STEP_data;
    model_pairs(1);
}

static void test_all_interleavings_taking(void **state)
{
    (void) state;
    model.runs = 0;
    model.sleeps = false;
    model.takes = true;
    model.kinds = STEP_word | STEP_data;
    model_pairs(4);
    model.takes = false;
}

/* The slot behind a message held payload: it must be cleared before the message is visible. */
static void test_all_interleavings_stale(void **state)
{
    (void) state;
    model.runs = 0;
    model.sleeps = false;
    model.kinds = STEP_word;
    for (model.stale = 3; model.stale > 1; model.stale--) {
        model_pairs(1);
    }
}

/* No message may be left behind when the receiver sleeps until the doorbell rings. */
static void test_all_interleavings_sleeping(void **state)
{
    (void) state;
    model.runs = 0;
    model.sleeps = true;
    model.kinds = STEP_word | STEP_idle;
    model.num_messages = 2;
    model.len[0] = model.len[1] = 8;
    model_explore(12);
}

static void test_all_interleavings_when_full(void **state)
{
    (void) state;
    model.runs = 0;
    model.sleeps = false;
    model.kinds = STEP_word | STEP_tail;
    model.num_messages = 3;
    model.len[0] = model.len[1] = model.len[2] = 128;
    for (uint32_t start = 8; start < 11; start++) { /* 9: with padding */
        model_explore(start);
    }
    model.num_messages = 2; /* an early wrap leaves no room */
    for (uint32_t start = 8; start < 16; start++) {
        model_explore(start);
    }
}

/* The ring grows among the messages: at each place where it may, with the receiver behind. */
static void test_all_interleavings_growing(void **state)
{
    (void) state;
    model.runs = model.grown = 0;
    model.sleeps = false;
    model.is_ping_pong = false;
    model.is_growing = true;
    model.kinds = STEP_word;
    model.num_messages = 2;
    for (uint32_t start = 32; start < 40; start++) {
        for (int mix = 0; mix < 9; mix++) {
            model.len[0] = model_lens[mix % 3];
            model.len[1] = model_lens[mix / 3];
            model_schedules(start);
        }
    }
    model.kinds = STEP_word | STEP_tail;
    model.len[0] = model.len[1] = 128;
    for (uint32_t start = 34; start < 37; start++) {
        model_schedules(start);
    }
    model.is_growing = false;
    print_message("grown in %lu of them\n", model.grown);
    assert_true(model.grown > 0 && model.grown < model.runs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_interleavings_polling, model_setup,
                                        model_teardown),
        cmocka_unit_test_setup_teardown(test_all_interleavings_taking, model_setup, model_teardown),
        cmocka_unit_test_setup_teardown(test_all_interleavings_stale, model_setup, model_teardown),
        cmocka_unit_test_setup_teardown(test_all_interleavings_sleeping, model_setup,
                                        model_teardown),
        cmocka_unit_test_setup_teardown(test_all_interleavings_when_full, model_setup,
                                        model_teardown),
        cmocka_unit_test_setup_teardown(test_all_interleavings_growing, model_setup,
                                        model_teardown),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
