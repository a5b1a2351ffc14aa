/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short ring, and messages through it that the receiver can check: for the tests of the ring
 * alone.  Each access to shared memory is preceded by a call of step(), which the test defines.
 */
#ifndef TEST_SHM_RING_H
#define TEST_SHM_RING_H

enum step { STEP_word = 1, STEP_tail = 2, STEP_idle = 4, STEP_data = 8 };
static void step(enum step what);
#define FAB_SHM_STEP(what) step(STEP_##what)
#define FAB_SHM_WRAP_EVERY 4
#define FAB_SHM_WRAP_MAX   8
#define FAB_SHM_WRAP_LAG   1
#define FAB_SHM_LAG        1
#define FAB_SHM_GROW_AT    1
#define FAB_SHM_GROW_FOR   2

#include "shm/shm_ring_inl.h"
#include "test_cmocka.h"

#ifndef MAX_SLOTS
#define MAX_SLOTS 64
#endif

typedef struct ring {
    fab_shm_slot_t slots[MAX_SLOTS];
    fab_shm_ctl_t ctl;
    _Atomic uint64_t doorbell __attribute__((aligned(64)));
    uint64_t stale[MAX_SLOTS / 64];
    fab_shm_tx_t tx;
    fab_shm_rx_t rx;
    fab_shm_rx_t back; /* the ring from the peer: only its position */
    bool is_ping_pong; /* the peer answers each message */
} ring_t;

/* A ring that begins with num_slots, and may grow to num_full. */
static ring_t *ring_new_growing(uint32_t num_slots, uint32_t num_full)
{
    ring_t *ring = aligned_alloc(64, (sizeof(*ring) + 63) & ~(size_t) 63);

    memset(ring, 0, sizeof(*ring));
    fab_shm_tx_init(&ring->tx, ring->slots, num_slots, num_full, ring->stale, &ring->ctl,
                    &ring->doorbell, 5);
    fab_shm_rx_init(&ring->rx, ring->slots, num_slots, num_full,
                    fab_shm_ring_eager_max(num_slots * FAB_SHM_LINE), &ring->ctl);
    return ring;
}

bool fab_shm_tx_back(fab_shm_tx_t *tx)
{
    return tx->mask != tx->full;
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

/* Room for n slots; NULL: there is none. */
static fab_shm_slot_t *ring_reserve(ring_t *ring, uint32_t n)
{
    fab_shm_slot_t *slot;

    while (NULL == (slot = fab_shm_tx_reserve(&ring->tx, n))) {
        const uint64_t limit = ring->tx.limit;
        if (!fab_shm_tx_refresh(&ring->tx)) {
            abort();
        }
        if (limit == ring->tx.limit) {
            return NULL;
        }
    }
    return slot;
}

/* Send message seq with len bytes, room for max_len reserved; false: no room. */
static bool ring_send(ring_t *ring, uint64_t seq, size_t len, size_t max_len)
{
    fab_hdr_t hdr = fab_hdr((uint8_t) (seq % FAB_AM_MAX), seq, ctx_of(seq));
    fab_shm_slot_t *slot = ring_reserve(ring, fab_shm_num_slots(max_len));

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

#endif /* TEST_SHM_RING_H */
