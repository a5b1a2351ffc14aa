/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of the shm provider alone: every size at every position, stale words, malformed words,
 * two threads, and all interleavings of short runs at the granularity of each access to shared
 * memory.
 *
 * For the interleavings the two sides are coroutines, and FAB_SHM_STEP() is where they may be
 * switched.
 *
 * TEST: variants=asan,tsan timeout=120 quick=no
 */
enum step { STEP_word = 1, STEP_tail = 2, STEP_idle = 4, STEP_data = 8 };
static void step(enum step what);
#define FAB_SHM_STEP(what) step(STEP_##what)
#define FAB_SHM_WRAP_EVERY 4
#define FAB_SHM_WRAP_MAX   8
#define FAB_SHM_WRAP_LAG   1

#include "shm/shm_ring_inl.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

enum { MAX_SLOTS = 64 };

typedef struct ring {
    fab_shm_slot_t slots[MAX_SLOTS];
    fab_shm_ctl_t ctl;
    _Atomic uint64_t doorbell __attribute__((aligned(64)));
    uint64_t stale[MAX_SLOTS / 64];
    uint32_t num_slots;
    fab_shm_tx_t tx;
    fab_shm_rx_t rx;
    fab_shm_rx_t back; /* the ring from the peer: only its position */
    bool is_ping_pong; /* the peer answers each message */
} ring_t;

static ring_t *ring_new(uint32_t num_slots)
{
    ring_t *ring = aligned_alloc(64, (sizeof(*ring) + 63) & ~(size_t) 63);

    memset(ring, 0, sizeof(*ring));
    ring->num_slots = num_slots;
    fab_shm_tx_init(&ring->tx, ring->slots, num_slots, ring->stale, &ring->ctl, &ring->doorbell, 5);
    fab_shm_rx_init(&ring->rx, ring->slots, num_slots,
                    fab_shm_ring_eager_max(num_slots * FAB_SHM_LINE), &ring->ctl);
    return ring;
}

/* A message of n slots was sent. */
static void may_wrap(ring_t *ring, uint32_t n)
{
    ring->back.pos += ring->is_ping_pong ? FAB_SHM_WRAP_EVERY : 0;
    fab_shm_tx_wrap_early(&ring->tx, &ring->back, n);
}

static uint8_t pattern(uint64_t seq, size_t i)
{
    return (uint8_t) (seq * 31 + i * 7 + (i >> 8));
}

/* Half of the messages have one: those are not taken past the poll. */
static uint32_t ctx_of(uint64_t seq)
{
    return 0 != seq % 2 ? (uint32_t) ~seq : 0;
}

/* Send message seq with len bytes, room for max_len reserved; false: no room. */
static bool ring_send(ring_t *ring, uint64_t seq, size_t len, size_t max_len)
{
    fab_hdr_t hdr = fab_hdr((uint8_t) (seq % FAB_AM_MAX), seq, ctx_of(seq));
    fab_shm_slot_t *slot = fab_shm_tx_reserve(&ring->tx, fab_shm_num_slots(max_len));

    if (NULL == slot) {
        if (!fab_shm_tx_refresh(&ring->tx)) {
            abort();
        }
        slot = fab_shm_tx_reserve(&ring->tx, fab_shm_num_slots(max_len));
    }
    if (NULL == slot) {
        return false;
    }
    step(STEP_data);
    for (size_t i = 0; i < max_len; i++) {
        fab_shm_payload(slot)[i] = i < len ? pattern(seq, i) : 0xff;
    }
    fab_shm_tx_commit(&ring->tx, slot, hdr, len, fab_shm_num_slots(len));
    may_wrap(ring, fab_shm_num_slots(len));
    return true;
}

static bool message_is(const fab_shm_msg_t *msg, uint64_t seq, size_t len)
{
    const uint8_t *data = msg->data;

    if (msg->hdr.tag != seq || msg->hdr.app_ctx != ctx_of(seq) || msg->hdr.id != seq % FAB_AM_MAX ||
        msg->len != len) {
        return false;
    }
    step(STEP_data);
    for (size_t i = 0; i < len; i++) {
        if (data[i] != pattern(seq, i)) {
            return false;
        }
    }
    return true;
}

/* Take message seq.  False: it is not here; *is_wrong: it was taken and is another. */
static bool ring_take(ring_t *ring, uint64_t seq, size_t len, bool *is_wrong)
{
    const uint8_t id = (uint8_t) (seq % FAB_AM_MAX);
    uint8_t buf[1024];
    size_t size = sizeof(buf);
    uint64_t tag = 0;

    if (!fab_shm_rx_take_short(&ring->rx, id, seq, UINT64_MAX, buf, &size, &tag) &&
        !fab_shm_rx_take_any(&ring->rx, id, seq, UINT64_MAX, buf, &size, &tag)) {
        return false;
    }
    *is_wrong = *is_wrong || size != len || tag != seq || 0 != ctx_of(seq);
    for (size_t i = 0; i < len && !*is_wrong; i++) {
        *is_wrong = buf[i] != pattern(seq, i);
    }
    return true;
}

static void ring_expect(ring_t *ring, uint64_t seq, size_t len)
{
    fab_shm_msg_t msg = {0};

    assert_int_equal(fab_shm_rx_peek(&ring->rx, &msg), FAB_SHM_MESSAGE);
    assert_true(message_is(&msg, seq, len));
    assert_true(0 == ((uintptr_t) msg.data & 7));
    fab_shm_rx_advance(&ring->rx, msg.slots);
}

static void ring_expect_empty(ring_t *ring)
{
    fab_shm_msg_t msg = {0};

    assert_int_equal(fab_shm_rx_peek(&ring->rx, &msg), FAB_SHM_EMPTY);
}

/* ---- one thread --------------------------------------------------------- */

static void test_every_size_everywhere(void **state)
{
    ring_t *ring = ring_new(64);
    uint64_t seq = 0;

    (void) state;
    for (size_t len = 0; len <= ring->rx.eager_max; len++) {
        for (int i = 0; i < 65; i++) { /* coprime with 64: comes by all positions */
            assert_true(ring_send(ring, ++seq, len, len));
            ring_expect(ring, seq, len);
            ring_expect_empty(ring);
        }
    }
    free(ring);
}

static void test_commit_less_than_reserved(void **state)
{
    ring_t *ring = ring_new(16);
    uint64_t seq = 0;

    (void) state;
    for (size_t max_len = 0; max_len <= ring->rx.eager_max; max_len++) {
        for (size_t len = 0; len <= max_len; len += 1 + max_len / 16) {
            assert_true(ring_send(ring, ++seq, len, max_len));
            ring_expect(ring, seq, len);
            ring_expect_empty(ring);
        }
    }
    free(ring);
}

static void test_short_copy(void **state)
{
    uint8_t from[FAB_COPY_SHORT_MAX], to[FAB_COPY_SHORT_MAX + 8];

    (void) state;
    for (size_t len = 0; len <= sizeof(from); len++) {
        for (size_t i = 0; i < sizeof(from); i++) {
            from[i] = (uint8_t) (i + 1);
        }
        memset(to, 0, sizeof(to));
        fab_copy_short(to, from, len);
        for (size_t i = 0; i < sizeof(to); i++) {
            assert_int_equal(to[i], i < len ? i + 1 : 0);
        }
    }
}

/* Lengths around whole parts, with either side anywhere in a line; nothing else is written. */
static void test_copy(void **state)
{
    enum { MAX = 3 * FAB_COPY_PART + 64, MARGIN = 128 };
    uint8_t *from = malloc(MAX + MARGIN), *to = malloc(MAX + 2 * MARGIN);

    (void) state;
    for (size_t i = 0; i < MAX + MARGIN; i++) {
        from[i] = pattern(1, i) | 1; /* never 0 */
    }
    for (size_t len = 0; len <= MAX; len += len % FAB_COPY_PART < 130 ? 1 : 61) {
        const size_t in = len * 5 % 64, out = len * 7 % 64;
        memset(to, 0, MAX + 2 * MARGIN);
        fab_copy(to + MARGIN + out, from + in, len);
        assert_memory_equal(to + MARGIN + out, from + in, len);
        for (size_t i = 0; i < MARGIN; i++) {
            assert_true(0 == to[i + out] && 0 == to[MARGIN + out + len + i % 64]);
        }
    }
    free(from);
    free(to);
}

static void test_full_and_drain(void **state)
{
    ring_t *ring = ring_new(16);
    uint64_t sent = 0, got = 0;

    (void) state;
    for (int round = 0; round < 1000; round++) {
        while (ring_send(ring, sent + 1, (sent + 1) * 37 % 257, (sent + 1) * 37 % 257)) {
            sent++;
        }
        assert_true(sent > got); /* it always takes one when empty */
        while (got < sent) {
            got++;
            ring_expect(ring, got, got * 37 % 257);
        }
        ring_expect_empty(ring);
    }
    free(ring);
}

/*
 * Payload that looks like a message of the lap at hand, of the next, and of all others in turn, in
 * every word that a header could be read from, through more than all 65535 laps.
 */
static void stale_words(bool is_ping_pong)
{
    ring_t *ring = ring_new(16);
    uint32_t max_slots = fab_shm_num_slots(ring->rx.eager_max);
    uint64_t seq = 0;
    uint16_t seed = 1;

    ring->is_ping_pong = is_ping_pong;
    for (uint64_t lap = 0; lap < 140000 / (TEST_TSAN ? 20 : 1);) {
        seed = (uint16_t) (seed * 25173 + 13849);
        size_t len = (seed >> 4) % (ring->rx.eager_max + 1);
        size_t used = (seed & 3) ? len : len / 2;
        uint32_t before = ring->tx.lap;
        fab_shm_slot_t *slot = fab_shm_tx_reserve(&ring->tx, fab_shm_num_slots(len));
        if (NULL == slot) {
            assert_true(fab_shm_tx_refresh(&ring->tx));
            continue;
        }
        for (size_t at = 0; at + 8 <= len; at += 8) {
            uint16_t fake = at % 64 < 32 ? ring->tx.lap : (uint16_t) (ring->tx.lap + 1 + seed % 3);
            uint64_t word = fab_shm_word(1, 9, 0, fake);
            memcpy(fab_shm_payload(slot) + at, &word, 8);
        }
        fab_shm_tx_commit(&ring->tx, slot, fab_hdr(7, ++seq, 0), used, fab_shm_num_slots(used));
        /* sometimes it goes through all of the ring */
        ring->is_ping_pong = is_ping_pong && seq % 4096 < 4000;
        may_wrap(ring, fab_shm_num_slots(used));
        lap += ring->tx.lap != before;
        fab_shm_msg_t msg = {0};
        assert_int_equal(fab_shm_rx_peek(&ring->rx, &msg), FAB_SHM_MESSAGE);
        assert_true(msg.hdr.tag == seq && 7 == msg.hdr.id && msg.len == used &&
                    msg.slots <= max_slots);
        fab_shm_rx_advance(&ring->rx, msg.slots);
        ring_expect_empty(ring);
    }
    free(ring);
}

static void test_stale_words(void **state)
{
    (void) state;
    stale_words(false);
}

static void test_stale_words_early_wrap(void **state)
{
    (void) state;
    stale_words(true);
}

/*
 * A slot that is skipped by padding in every lap keeps a word of long ago: it must not become valid
 * when the lap comes again.
 */
static void test_skipped_slot_keeps_no_old_word(void **state)
{
    ring_t *ring = ring_new(16);
    uint64_t seq = 0;

    (void) state;
    for (uint32_t i = 0; i < 15; i++) {
        assert_true(ring_send(ring, ++seq, 8, 8));
        ring_expect(ring, seq, 8);
    }
    assert_true(ring_send(ring, ++seq, 8, 8)); /* slot 15, lap 1 */
    ring_expect(ring, seq, 8);
    /*
     * From here on slot 15 is skipped: four messages of 3 slots, one of 2, then one that does not
     * fit.
     */
    for (uint32_t lap = 2; lap <= 65536; lap++) {
        for (int i = 0; i < 5; i++) {
            assert_true(ring_send(ring, ++seq, i < 4 ? 168 : 100, i < 4 ? 168 : 100));
            ring_expect(ring, seq, i < 4 ? 168 : 100);
        }
    }
    /* The lap number is 1 again, slot 14 is next. */
    assert_int_equal(ring->tx.lap, 1);
    assert_true(ring_send(ring, ++seq, 8, 8));
    ring_expect(ring, seq, 8);
    ring_expect_empty(ring);
    free(ring);
}

/* The same for the slots that early wraps skip. */
static void test_early_wrap_keeps_no_old_word(void **state)
{
    ring_t *ring = ring_new(16);
    uint64_t seq = 0;

    (void) state;
    for (uint32_t i = 0; i < 16; i++) { /* words in all slots, lap 1 */
        assert_true(ring_send(ring, ++seq, 8, 8));
        ring_expect(ring, seq, 8);
    }
    ring->is_ping_pong = true;
    while (1 != ring->tx.lap) {
        assert_true(ring_send(ring, ++seq, 41, 41));
        ring_expect(ring, seq, 41);
        ring_expect_empty(ring);
    }
    assert_true(seq < 2 * 65536 + 64); /* two messages a lap */
    ring->is_ping_pong = false;
    for (uint32_t i = 0; i < 16; i++) {
        assert_true(ring_send(ring, ++seq, 8, 8));
        ring_expect(ring, seq, 8);
        ring_expect_empty(ring);
    }
    free(ring);
}

/* Send and receive 100 messages of 3 slots. Returns the number of laps. */
static unsigned laps_of_100(ring_t *ring, uint64_t *seq)
{
    unsigned laps = 0;

    for (unsigned i = 0; i < 100; i++) {
        uint16_t lap = ring->tx.lap;
        assert_true(ring_send(ring, ++*seq, 128, 128));
        laps += ring->tx.lap != lap;
        ring_expect(ring, *seq, 128);
        ring_expect_empty(ring);
    }
    return laps;
}

/* When the ring is wrapped early, and when not. */
static void test_early_wrap(void **state)
{
    ring_t *ring = ring_new(64);
    uint64_t seq = 0, lap;

    (void) state;
    assert_true(laps_of_100(ring, &seq) <= 5); /* no answers */
    ring->is_ping_pong = true;
    assert_true(laps_of_100(ring, &seq) >= 49); /* two messages a lap */
    assert_true(laps_of_100(ring, &seq) >= 48);
    ring->tx.promised = UINT64_MAX;
    assert_true(laps_of_100(ring, &seq) <= 5);
    ring->tx.promised = ring->tx.head;
    assert_true(laps_of_100(ring, &seq) >= 48);
    lap = ring->tx.head / 64;
    for (unsigned i = 0; i < 100; i++) { /* longer ones in between, of 12 slots */
        const size_t len = 0 == i % 2 ? 700 : 128;
        assert_true(ring_send(ring, ++seq, len, len));
        ring_expect(ring, seq, len);
    }
    assert_true(ring->tx.head / 64 - lap <= 16);
    ring->tx.limit = ring->tx.mask; /* as if it were to be extended */
    ring->tx.head = ring->tx.limit - 3;
    fab_shm_tx_wrap_early(&ring->tx, &ring->back, 3);
    assert_true(ring->tx.head == ring->tx.limit - 3);
    free(ring);
}

/* Send size bytes of the tag's lowest one, under id 3. */
static void send_bytes(ring_t *ring, uint64_t tag, uint32_t ctx, uint32_t size)
{
    fab_shm_slot_t *slot;

    while (NULL == (slot = fab_shm_tx_reserve(&ring->tx, fab_shm_num_slots(size)))) {
        assert_true(fab_shm_tx_refresh(&ring->tx));
    }
    memset(fab_shm_payload(slot), (int) (tag & 0xff), size);
    fab_shm_tx_commit(&ring->tx, slot, fab_hdr(3, tag, ctx), size, fab_shm_num_slots(size));
}

/* While a message is held, later ones are read, but none of its slots is given back. */
static void test_held(void **state)
{
    ring_t *ring = ring_new(8);
    fab_shm_msg_t first = {0}, msg = {0};

    (void) state;
    for (uint64_t round = 0; round < 100; round++) {
        uint64_t seq = 100 * round;
        unsigned sent = 1;

        assert_true(ring_send(ring, seq, 30, 30));
        assert_int_equal(FAB_SHM_MESSAGE, fab_shm_rx_peek(&ring->rx, &first));
        assert_false(fab_shm_rx_is_holding(&ring->rx));
        fab_shm_rx_hold(&ring->rx);
        assert_true(fab_shm_rx_is_holding(&ring->rx));
        fab_shm_rx_advance(&ring->rx, first.slots);
        while (ring_send(ring, seq + sent, 30, 30)) {
            assert_int_equal(FAB_SHM_MESSAGE, fab_shm_rx_peek(&ring->rx, &msg));
            assert_true(message_is(&msg, seq + sent, 30));
            fab_shm_rx_advance(&ring->rx, msg.slots);
            assert_true(sent++ < 8);
        }
        assert_true(sent > 5); /* nearly the whole ring */
        assert_true(message_is(&first, seq, 30));
        if (0 == round % 2) {
            assert_true(fab_shm_rx_sleep(&ring->rx));
            assert_false(ring_send(ring, seq + sent, 30, 30));
        }
        fab_shm_rx_release(&ring->rx);
        assert_true(ring_send(ring, seq + sent, 30, 30));
        assert_int_equal(FAB_SHM_MESSAGE, fab_shm_rx_peek(&ring->rx, &msg));
        fab_shm_rx_advance(&ring->rx, msg.slots);
        if (0 == round % 2) {
            fab_shm_rx_wake(&ring->rx);
        }
    }
    free(ring);
}

/* fab_shm_rx_take_short() or fab_shm_rx_take_any() */
typedef bool (*take_fn_t)(fab_shm_rx_t *rx, uint8_t id, uint64_t want, uint64_t mask, void *buf,
                          size_t *len, uint64_t *tag);

/* Only what is wanted is taken: each thing that differs leaves the message where it is. */
static void take_other(ring_t *ring, take_fn_t take, uint64_t tag, uint32_t size)
{
    const uint64_t mask = ~(uint64_t) 0xff;
    uint8_t buf[1] = {0};
    uint64_t found = 0;
    size_t len = SIZE_MAX;

    assert_false(take(&ring->rx, 4, tag, UINT64_MAX, buf, &len, &found));
    assert_false(take(&ring->rx, 3, tag + 1, UINT64_MAX, buf, &len, &found));
    assert_false(take(&ring->rx, 3, (tag & mask) + 256, mask, buf, &len, &found));
    len = size - 1; /* of 0: room enough */
    assert_true(0 == size || !take(&ring->rx, 3, tag, UINT64_MAX, buf, &len, &found));
    assert_true(0 == found && 0 == buf[0]);
}

/* Messages of this length at this place of the ring, with app_ctx and without. */
static void take_at(take_fn_t take, uint32_t place, uint32_t size, bool can)
{
    const uint64_t mask = ~(uint64_t) 0xff;
    ring_t *ring = ring_new(16);
    uint8_t buf[300];
    fab_shm_msg_t msg = {0};
    uint64_t tag = 0;
    size_t len;

    for (uint32_t i = 0; i < place; i++) {
        send_bytes(ring, 1, 0, 8);
        len = sizeof(buf);
        assert_true(take(&ring->rx, 3, 1, UINT64_MAX, buf, &len, &tag) && 8 == len && 1 == tag);
    }
    len = sizeof(buf);
    assert_false(take(&ring->rx, 3, 1, 0, buf, &len, &tag));
    send_bytes(ring, 0x123, 0, size);
    take_other(ring, take, 0x123, size);
    len = sizeof(buf);
    memset(buf, 0, sizeof(buf));
    assert_int_equal(take(&ring->rx, 3, 0x100, mask, buf, &len, &tag), can);
    if (can) {
        assert_true(len == size && 0x123 == tag);
        for (size_t i = 0; i < sizeof(buf); i++) {
            assert_int_equal(buf[i], i < size ? 0x23 : 0);
        }
    } else {
        assert_int_equal(fab_shm_rx_peek(&ring->rx, &msg), FAB_SHM_MESSAGE);
        fab_shm_rx_advance(&ring->rx, msg.slots);
    }
    send_bytes(ring, 0x124, 1, size); /* its sender waits for an answer */
    assert_false(take(&ring->rx, 3, 0x124, UINT64_MAX, buf, &len, &tag));
    assert_int_equal(fab_shm_rx_peek(&ring->rx, &msg), FAB_SHM_MESSAGE);
    assert_true(0x124 == msg.hdr.tag && 1 == msg.hdr.app_ctx && size == msg.len);
    fab_shm_rx_advance(&ring->rx, msg.slots);
    ring_expect_empty(ring);
    free(ring);
}

static void test_take_short(void **state)
{
    (void) state;
    for (uint32_t place = 0; place <= 16; place++) {
        for (uint32_t size = 0; size <= FAB_SHM_SHORT_MAX + 1; size++) {
            take_at(fab_shm_rx_take_short, place, size, size <= FAB_SHM_SHORT_MAX);
        }
    }
}

static void test_take_any(void **state)
{
    (void) state;
    for (uint32_t place = 0; place <= 16; place++) {
        for (uint32_t size = 0; size <= fab_shm_ring_eager_max(16 * FAB_SHM_LINE); size++) {
            take_at(fab_shm_rx_take_any, place, size, true);
        }
    }
}

/* ---- malformed ---------------------------------------------------------- */

static fab_shm_look_t look_with(ring_t *ring, uint64_t word)
{
    fab_shm_msg_t msg = {0};

    atomic_store(&ring->rx.slot->word, word);
    return fab_shm_rx_peek(&ring->rx, &msg);
}

static void test_malformed(void **state)
{
    ring_t *ring = ring_new(16);
    uint32_t max = ring->rx.eager_max;

    (void) state;
    assert_int_equal(look_with(ring, fab_shm_word(0, 0, 0, 0)), FAB_SHM_EMPTY);
    assert_int_equal(look_with(ring, fab_shm_word(0, 0, 0, 2)), FAB_SHM_EMPTY);
    assert_int_equal(look_with(ring, fab_shm_word(0, 0, 0, 1)), FAB_SHM_MESSAGE);
    assert_int_equal(look_with(ring, fab_shm_word(max, 31, 0, 1)), FAB_SHM_MESSAGE);
    assert_int_equal(look_with(ring, fab_shm_word(max + 1, 0, 0, 1)), FAB_SHM_BAD);
    assert_int_equal(look_with(ring, fab_shm_word(UINT32_MAX, 0, 0, 1)), FAB_SHM_BAD);
    assert_int_equal(look_with(ring, fab_shm_word(0, FAB_AM_MAX, 0, 1)), FAB_SHM_BAD);
    assert_int_equal(look_with(ring, fab_shm_word(0, 255, 0, 1)), FAB_SHM_BAD);
    for (uint32_t flags = 1; flags < 256; flags++) {
        assert_int_equal(look_with(ring, fab_shm_word(0, 0, (uint8_t) flags, 1)), FAB_SHM_BAD);
    }
    fab_shm_rx_advance(&ring->rx, 15);
    assert_int_equal(look_with(ring, fab_shm_word(40, 0, 0, 1)), FAB_SHM_MESSAGE);
    assert_int_equal(look_with(ring, fab_shm_word(41, 0, 0, 1)), FAB_SHM_BAD); /* beyond the end */
    assert_int_equal(look_with(ring, fab_shm_word(1, 0, FAB_SHM_FLAG_PAD, 1)), FAB_SHM_BAD);
    assert_int_equal(look_with(ring, fab_shm_word(0, 1, FAB_SHM_FLAG_PAD, 1)), FAB_SHM_BAD);
    atomic_store(&ring->slots[0].word, 0);
    /* skipped */
    assert_int_equal(look_with(ring, fab_shm_word(0, 0, FAB_SHM_FLAG_PAD, 1)), FAB_SHM_EMPTY);
    assert_ptr_equal(ring->rx.slot, ring->slots);
    assert_int_equal(ring->rx.lap, 2);
    free(ring);
}

/* A malformed message is not taken, however large the buffer, and stays for the poll. */
static void test_take_malformed(void **state)
{
    static const uint32_t lens[] = {257, 258, 4096, INT32_MAX, 0x80000000u, UINT32_MAX};
    ring_t *ring = ring_new(16);
    uint8_t buf[1] = {0};
    uint64_t tag = 0;
    size_t len = SIZE_MAX;

    (void) state;
    for (uint32_t at = 0; at < 16; at++) {
        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]) + 1; i++) {
            /* longer than accepted, or one byte past the end of the ring */
            uint32_t size = i > 0 ? lens[i - 1] : (16 - at) * FAB_SHM_LINE - 23;
            assert_int_equal(look_with(ring, fab_shm_word(size, 3, 0, 1)), FAB_SHM_BAD);
            assert_false(fab_shm_rx_take_any(&ring->rx, 3, 0, 0, buf, &len, &tag));
            assert_int_equal(look_with(ring, fab_shm_word(size, 3, 0, 1)), FAB_SHM_BAD);
        }
        for (uint32_t flags = 1; flags < 256; flags++) {
            atomic_store(&ring->rx.slot->word, fab_shm_word(1, 3, (uint8_t) flags, 1));
            assert_false(fab_shm_rx_take_any(&ring->rx, 3, 0, 0, buf, &len, &tag));
        }
        assert_ptr_equal(ring->rx.slot, &ring->slots[at]);
        fab_shm_rx_advance(&ring->rx, 1);
    }
    assert_true(0 == buf[0] && SIZE_MAX == len && 0 == tag);
    free(ring);
}

static void test_bad_tail(void **state)
{
    ring_t *ring = ring_new(16);

    (void) state;
    atomic_store(&ring->ctl.tail, 1); /* ahead of the head */
    assert_false(fab_shm_tx_refresh(&ring->tx));
    atomic_store(&ring->ctl.tail, (uint64_t) 0 - 17); /* behind it by more than the ring */
    assert_false(fab_shm_tx_refresh(&ring->tx));
    atomic_store(&ring->ctl.tail, 0);
    assert_true(fab_shm_tx_refresh(&ring->tx));
    free(ring);
}

/* ---- two threads -------------------------------------------------------- */

enum { THREAD_MESSAGES = TEST_TSAN ? 100000 : 1000000 };

static size_t thread_len(uint64_t seq)
{
    uint64_t x = seq * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return x % 8 < 5 ? x % 41 : x % 1025;
}

/* After an early wrap so short a ring has little room: the threads wait for each other often. */
static uint64_t thread_messages(const ring_t *ring)
{
    return ring->is_ping_pong ? THREAD_MESSAGES / 20 : THREAD_MESSAGES;
}

static void *thread_send(void *arg)
{
    ring_t *ring = arg;

    for (uint64_t seq = 1; seq <= thread_messages(ring); seq++) {
        size_t len = thread_len(seq);
        size_t max_len = seq % 5 ? len : (len + 1024) / 2;
        while (!ring_send(ring, seq, len, max_len)) {
            sched_yield();
        }
    }
    return NULL;
}

static void two_threads(bool is_ping_pong)
{
    ring_t *ring = ring_new(64);
    pthread_t sender;
    uint32_t sleeps = 0;

    ring->is_ping_pong = is_ping_pong;
    assert_int_equal(pthread_create(&sender, NULL, thread_send, ring), 0);
    for (uint64_t seq = 1; seq <= thread_messages(ring);) {
        fab_shm_msg_t msg = {0};
        fab_shm_look_t look;
        bool is_wrong = false;

        if (ring_take(ring, seq, thread_len(seq), &is_wrong)) {
            assert_false(is_wrong);
            seq++;
            continue;
        }
        look = fab_shm_rx_peek(&ring->rx, &msg);
        assert_int_not_equal(look, FAB_SHM_BAD);
        if (FAB_SHM_EMPTY == look) {
            if (0 == ++sleeps % 64) {
                (void) fab_shm_rx_sleep(&ring->rx);
                sched_yield();
                fab_shm_rx_wake(&ring->rx);
            }
            continue;
        }
        assert_true(message_is(&msg, seq, thread_len(seq)));
        fab_shm_rx_advance(&ring->rx, msg.slots);
        seq++;
    }
    pthread_join(sender, NULL);
    ring_expect_empty(ring);
    free(ring);
}

static void test_two_threads(void **state)
{
    (void) state;
    two_threads(false);
    two_threads(true);
}

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

#if !TEST_TSAN /* it does not know coroutines */

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
    fab_shm_slot_t *slot = fab_shm_tx_reserve(&ring->tx, n);

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
    model.ring = ring_new(8);
    model.ring->is_ping_pong = model.is_ping_pong;
    model.is_running = false;
    model_lead_in(model.ring, start);
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

#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] =
    { cmocka_unit_test(test_short_copy),
      cmocka_unit_test(test_copy),
      cmocka_unit_test(test_every_size_everywhere),
      cmocka_unit_test(test_commit_less_than_reserved),
      cmocka_unit_test(test_full_and_drain),
      cmocka_unit_test(test_stale_words),
      cmocka_unit_test(test_stale_words_early_wrap),
      cmocka_unit_test(test_skipped_slot_keeps_no_old_word),
      cmocka_unit_test(test_early_wrap_keeps_no_old_word),
      cmocka_unit_test(test_early_wrap),
      cmocka_unit_test(test_take_short),
      cmocka_unit_test(test_take_any),
      cmocka_unit_test(test_take_malformed),
      cmocka_unit_test(test_held),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_bad_tail),
      cmocka_unit_test(test_two_threads),
#if !TEST_TSAN
      cmocka_unit_test_setup_teardown(test_all_interleavings_polling, model_setup, model_teardown),
      cmocka_unit_test_setup_teardown(test_all_interleavings_taking, model_setup, model_teardown),
      cmocka_unit_test_setup_teardown(test_all_interleavings_stale, model_setup, model_teardown),
      cmocka_unit_test_setup_teardown(test_all_interleavings_sleeping, model_setup, model_teardown),
      cmocka_unit_test_setup_teardown(test_all_interleavings_when_full, model_setup,
                                      model_teardown),
#endif
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
