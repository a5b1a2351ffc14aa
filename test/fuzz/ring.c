/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: a ring of shared memory whose bytes another process has written, read until it is
 * empty or refused. Input: one byte for the ring's size, then its slots. What the ring hands out
 * must lie within it.
 */
#include "shm/shm_ring_inl.h"

#include <stdlib.h>

enum { MAX_SLOTS = 64 };

static fab_shm_slot_t slots[MAX_SLOTS];
static fab_shm_ctl_t ctl;
static volatile uint8_t sink;

/* Read all of a message: a sanitizer sees what is outside. */
static void take(const fab_shm_msg_t *msg, uint32_t num_slots)
{
    const uint8_t *data = msg->data, *begin = (const uint8_t *) slots;

    if (msg->len > 0 && (data < begin || data + msg->len > begin + num_slots * sizeof(slots[0]))) {
        abort();
    }
    for (size_t i = 0; i < msg->len; i++) {
        sink ^= data[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const uint32_t sizes[] = {8, 16, 32, MAX_SLOTS};
    fab_shm_msg_t msg = {0};
    fab_shm_rx_t rx;

    if (0 == size) {
        return 0;
    }
    /* the ring may grow up to all slots */
    uint32_t first = sizes[input[0] % 4], num_slots = MAX_SLOTS;
    size_t len = size - 1 < num_slots * sizeof(slots[0]) ? size - 1 : num_slots * sizeof(slots[0]);
    memset(slots, 0, sizeof(slots));
    memcpy(slots, input + 1, len);
    memset(&ctl, 0, sizeof(ctl));
    fab_shm_rx_init(&rx, slots, first, num_slots, fab_shm_ring_eager_max(first * FAB_SHM_LINE),
                    &ctl);
    for (int i = 0; i < 4 * MAX_SLOTS && FAB_SHM_MESSAGE == fab_shm_rx_peek(&rx, &msg); i++) {
        take(&msg, num_slots);
        fab_shm_rx_advance(&rx, msg.slots);
    }
    return 0;
}
