/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of the shm provider alone: every size at every position, stale words, malformed words,
 * two threads.
 *
 * TEST: sources=common/fabric/fab_copy.c variants=asan,tsan timeout=120 quick=no
 */
#define MAX_SLOTS 256

#include "test_shm_ring.h"

#include <pthread.h>

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

static void step(enum step what)
{
    (void) what;
}

static ring_t *ring_new(uint32_t num_slots)
{
    return ring_new_growing(num_slots, num_slots);
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
        fab_shm_slot_t *slot;
        slot = ring_reserve(ring, fab_shm_num_slots(len));
        if (NULL == slot) { /* all is consumed, but not published */
            fab_shm_rx_publish(&ring->rx);
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
    free(ring);
}

/*
 * A ring grows once, where it may, with messages in it: what comes before and after is right.
 * seed: which lengths come, and how many are in the ring.
 */
static void grow_once(uint32_t first, uint32_t full, uint32_t seed)
{
    ring_t *ring = ring_new_growing(first, full);
    uint64_t sent = 0, got = 0;

    ring->tx.promised = seed % 9 * first; /* not before */
    while (got < 40 * full) {
        seed = seed * 1103515245 + 12345;
        for (uint32_t n = 1 + (seed >> 16) % 8; n > 0; n--) {
            const size_t len = (sent + seed % 7) * 37 % (ring->rx.eager_max + 1);
            if (!ring_send(ring, len << 32 | sent, len, len)) {
                break;
            }
            sent++;
        }
        for (uint32_t n = 1 + (seed >> 20) % 8; n > 0 && got < sent; n--, got++) {
            fab_shm_msg_t msg = {0};
            assert_int_equal(FAB_SHM_MESSAGE, fab_shm_rx_peek(&ring->rx, &msg));
            assert_true((uint32_t) msg.hdr.tag == got);
            assert_true(message_is(&msg, msg.hdr.tag, msg.hdr.tag >> 32));
            fab_shm_rx_advance(&ring->rx, msg.slots);
        }
    }
    assert_int_equal(ring->tx.mask, full - 1);
    assert_int_equal(ring->rx.mask, full - 1);
    while (got < sent) {
        fab_shm_msg_t msg = {0};
        assert_int_equal(FAB_SHM_MESSAGE, fab_shm_rx_peek(&ring->rx, &msg));
        fab_shm_rx_advance(&ring->rx, msg.slots);
        got++;
    }
    ring_expect_empty(ring);
    free(ring);
}

static void test_growth(void **state)
{
    (void) state;
    for (uint32_t seed = 0; seed < 500; seed++) {
        grow_once(8, 16, seed);
        grow_once(8, 64, seed);
        grow_once(16, 64, seed);
        grow_once(32, 64, seed);
    }
}

/*
 * Not for messages of one slot, nor while each is answered, nor where the first part is all that
 * there is memory for.
 */
static void test_no_growth(void **state)
{
    ring_t *ring = ring_new_growing(16, 64);
    uint64_t seq = 0;

    (void) state;
    for (int i = 0; i < 100; i++) {
        assert_true(ring_send(ring, ++seq, 8, 8));
        ring_expect(ring, seq, 8);
    }
    assert_int_equal(ring->tx.mask, 15);
    ring->is_ping_pong = true;
    (void) laps_of_100(ring, &seq);
    ring->is_ping_pong = false;
    ring->tx.promised = UINT64_MAX;
    (void) laps_of_100(ring, &seq);
    assert_int_equal(ring->tx.mask, 15);
    ring->tx.promised = 0;
    ring->tx.full = 15;
    (void) laps_of_100(ring, &seq);
    assert_int_equal(ring->tx.mask, 15);
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

/* While a message is retained, later ones are read, but none of its slots is given back. */
static void test_retained(void **state)
{
    ring_t *ring = ring_new(8);
    fab_shm_msg_t first = {0}, msg = {0};

    (void) state;
    for (uint64_t round = 0; round < 100; round++) {
        uint64_t seq = 100 * round;
        unsigned sent = 1;

        assert_true(ring_send(ring, seq, 30, 30));
        assert_int_equal(FAB_SHM_MESSAGE, fab_shm_rx_peek(&ring->rx, &first));
        assert_false(fab_shm_rx_has_retained(&ring->rx));
        fab_shm_rx_retain(&ring->rx);
        assert_true(fab_shm_rx_has_retained(&ring->rx));
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

/* Lines are fetched ahead within the room that there is, by a sender that is not answered. */
static void test_ahead_sender(void **state)
{
    ring_t *ring = ring_new(64);
    uint64_t seq = 0;

    (void) state;
    for (uint32_t n = 1; n <= FAB_SHM_AHEAD_TX + 1; n++) {
        const size_t len = n * FAB_SHM_LINE - offsetof(fab_shm_slot_t, payload);
        fab_shm_msg_t msg = {0};
        if (n > fab_shm_num_slots(ring->rx.eager_max)) {
            break;
        }
        for (unsigned count = 0; ring_send(ring, seq, len, len); count++, seq++) {
            const bool has_room = ring->tx.head + 3 * n <= ring->tx.limit;
            ring->back.pos += 0 == count; /* the first one is an answer */
            assert_int_equal(count > 0 && has_room, fab_shm_tx_is_ahead(&ring->tx, &ring->back, n));
            assert_int_equal(has_room, fab_shm_tx_is_ahead(&ring->tx, &ring->back, n));
            fab_shm_tx_fetch_ahead(&ring->tx, &ring->back, n);
        }
        assert_false(fab_shm_tx_is_ahead(&ring->tx, &ring->back, n)); /* it is full */
        while (FAB_SHM_MESSAGE == fab_shm_rx_peek(&ring->rx, &msg)) {
            fab_shm_rx_advance(&ring->rx, msg.slots);
        }
        fab_shm_rx_publish(&ring->rx);
        assert_true(fab_shm_tx_refresh(&ring->tx));
    }
    assert_false(fab_shm_tx_is_ahead(&ring->tx, &ring->back, FAB_SHM_AHEAD_TX + 1));
    assert_false(fab_shm_tx_is_ahead(&ring->tx, NULL, 1)); /* not polled: its position is 0 */
    assert_true(fab_shm_tx_is_ahead(&ring->tx, NULL, 1));
    free(ring);
}

/* A receiver fetches ahead if the last message had a few slots, one excepted. */
static void test_ahead_receiver(void **state)
{
    ring_t *ring = ring_new(8);

    (void) state;
    assert_int_equal(0, ring->rx.ahead);
    for (uint32_t n = 1; n <= 2 * FAB_SHM_AHEAD_RX; n++) {
        fab_shm_rx_expect(&ring->rx, n);
        assert_int_equal(n > 1 && n <= FAB_SHM_AHEAD_RX ? n : 0, ring->rx.ahead);
        fab_shm_rx_fetch_ahead(&ring->rx);
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

/* A ring is told to grow where it may not: at its start, in another part's lap, twice. */
static void test_malformed_growth(void **state)
{
    const uint8_t grow = FAB_SHM_FLAG_PAD | FAB_SHM_FLAG_GROW;
    ring_t *ring = ring_new_growing(16, 64);

    (void) state;
    for (uint32_t at = 0; at < 64; at++) {
        const uint16_t lap = ring->rx.lap;
        if (0 == at || at >= 16) {
            assert_int_equal(look_with(ring, fab_shm_word(0, 0, grow, lap)), FAB_SHM_BAD);
        }
        assert_int_equal(look_with(ring, fab_shm_word(0, 0, FAB_SHM_FLAG_GROW, lap)), FAB_SHM_BAD);
        assert_int_equal(look_with(ring, fab_shm_word(1, 0, grow, lap)), FAB_SHM_BAD);
        fab_shm_rx_advance(&ring->rx, 1);
    }
    fab_shm_rx_advance(&ring->rx, 3);
    atomic_store(&ring->slots[0].word, 0);
    assert_int_equal(look_with(ring, fab_shm_word(0, 0, grow, ring->rx.lap)), FAB_SHM_EMPTY);
    assert_int_equal(ring->rx.mask, 63);
    assert_ptr_equal(ring->rx.slot, ring->slots);
    fab_shm_rx_advance(&ring->rx, 3);
    assert_int_equal(look_with(ring, fab_shm_word(0, 0, grow, ring->rx.lap)), FAB_SHM_BAD);
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
    return ring->tx.full > 63 ? 1000 : ring->is_ping_pong ? THREAD_MESSAGES / 20 : THREAD_MESSAGES;
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

static void two_threads(ring_t *ring)
{
    pthread_t sender;
    uint32_t sleeps = 0;

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
    ring_t *ring = ring_new(64);

    (void) state;
    two_threads(ring);
    ring = ring_new(64);
    ring->is_ping_pong = true;
    two_threads(ring);
}

/* The threads are so fast through a short ring that it grows early in a run. */
static void test_two_threads_growth(void **state)
{
    (void) state;
    for (int i = 0; i < 200; i++) {
        two_threads(ring_new_growing(64, 256));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_everywhere),
        cmocka_unit_test(test_commit_less_than_reserved),
        cmocka_unit_test(test_full_and_drain),
        cmocka_unit_test(test_stale_words),
        cmocka_unit_test(test_stale_words_early_wrap),
        cmocka_unit_test(test_skipped_slot_keeps_no_old_word),
        cmocka_unit_test(test_early_wrap_keeps_no_old_word),
        cmocka_unit_test(test_early_wrap),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_no_growth),
        cmocka_unit_test(test_take_short),
        cmocka_unit_test(test_take_any),
        cmocka_unit_test(test_take_malformed),
        cmocka_unit_test(test_retained),
        cmocka_unit_test(test_ahead_sender),
        cmocka_unit_test(test_ahead_receiver),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_malformed_growth),
        cmocka_unit_test(test_bad_tail),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_two_threads_growth),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
