/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device with hardware tag matching as a state machine, for the tests of the offload engine: a
 * list of tagged receives, a queue of commands that it executes when told to, a queue of
 * completions, buffers for unexpected messages.  As strict as hardware:
 *  - an entry added while the counts differ is listed but disabled; a command that makes them equal
 *    enables all;
 *  - an unsignaled DEL frees the handle when it is posted; a completion for a freed handle is an
 *    error, one for a handle in use again names the wrong receive;
 *  - commands make room for others when a signaled one behind them has been polled;
 *  - counts are compared modulo dev->modulus, and a command executed with a count that old is an
 *    error (*dev->error).
 *
 * All state is in the structure, without memory outside it, so that it can be copied.
 */
#ifndef TM_OFFLOAD_DEV_H
#define TM_OFFLOAD_DEV_H

#include <stdbool.h>
#include <stdint.h>

#include "offload/offload.h"

#ifndef HW_SLOTS
#define HW_SLOTS 4
#endif
#define HW_QUEUE 64 /* commands and completions, each */

typedef enum hw_kind {
    HW_UNEXPECTED, /* msg */
    HW_MATCHED,    /* recv, msg; has_data */
    HW_DATA,       /* recv, msg */
    HW_OP          /* wr_id, is_success */
} hw_kind_t;

typedef struct hw_completion {
    uint8_t kind;
    bool has_data;
    bool is_success;
    uint8_t handle;
    uint16_t msg;
    uint32_t op; /* number of the command */
    uint64_t wr_id;
    fab_offload_recv_t *recv; /* filled when polled */
} hw_completion_t;

/*
 * A handle, as the device's driver keeps it from ADD on, and what the device itself has under it
 * from the ADD's execution on.
 */
typedef struct hw_slot {
    fab_offload_recv_t *recv; /* given out with completions */
    uint8_t expect;           /* completions to come; 0: the handle is free */
    fab_offload_recv_t *hw_recv;
    uint64_t tag;
    uint64_t mask;
    bool is_listed;
    bool is_enabled;
    bool owes_data; /* matched, DATA to come */
    uint16_t msg;
    uint32_t age;
} hw_slot_t;

typedef struct hw_cmd {
    fab_tm_cmd_t cmd;
    uint64_t tag;
    uint64_t mask;
} hw_cmd_t;

typedef struct hw {
    uint32_t slots;
    uint32_t max_ops;
    uint16_t modulus;
    uint16_t hw;     /* unexpected messages so far */
    uint16_t sw_rep; /* as last reported */
    uint32_t bufs;
    uint32_t age;
    uint32_t posted;
    uint32_t tail;     /* commands whose room is free again */
    uint32_t refusals; /* ADDs to refuse for no reason */
    bool is_dead;      /* posting fails */
    /* while the counts differ nothing is matched, not even what was enabled before: nobody knows */
    bool disables_all;
    hw_slot_t slot[HW_SLOTS];
    hw_cmd_t cmd[HW_QUEUE];
    uint32_t ncmd;
    hw_completion_t cq[HW_QUEUE];
    uint32_t ncq;
    const char *error; /* what was done wrong to it first, or NULL */
} hw_t;

void hw_init(hw_t *dev, uint32_t slots, uint32_t max_ops, uint16_t modulus, uint32_t bufs,
             uint16_t first_count);

/* fab_tm_ops_t.post */
int hw_post(void *device, const fab_tm_cmd_t *cmd);

/* Execute the oldest command. */
void hw_execute(hw_t *dev);

/* The receive that a message would be given, or NULL. */
fab_offload_recv_t *hw_find(const hw_t *dev, uint64_t tag);

/*
 * A message.  False: it cannot be taken now (no buffer).  is_split: if it matches, its data is to
 * come later.
 */
bool hw_message(hw_t *dev, uint64_t tag, uint16_t msg, bool is_split);

/* The data of the message in this slot is in. */
void hw_finish(hw_t *dev, uint32_t slot);

/* Take the oldest completion; false: there is none. */
bool hw_poll(hw_t *dev, hw_completion_t *completion);

#endif /* TM_OFFLOAD_DEV_H */
