/* SPDX-License-Identifier: BSD-3-Clause */
/* A device with hardware tag matching as a state machine; see offload_dev.h. */
#include "offload_dev.h"

#include <string.h>

static void hw_error(hw_t *dev, const char *text)
{
    if (NULL == dev->error) {
        dev->error = text;
    }
}

void hw_init(hw_t *dev, uint32_t slots, uint32_t max_ops, uint16_t modulus, uint32_t bufs,
             uint16_t first_count)
{
    memset(dev, 0, sizeof(*dev));
    dev->slots = slots;
    dev->max_ops = max_ops;
    dev->modulus = modulus;
    dev->bufs = bufs;
    dev->hw = first_count;
    dev->sw_rep = first_count;
}

static uint32_t free_slot(const hw_t *dev)
{
    uint32_t i = 0;

    while (i < dev->slots && 0 != dev->slot[i].expect) {
        i++;
    }
    return i;
}

static int post_add(hw_t *dev, const fab_tm_cmd_t *cmd)
{
    const uint32_t i = free_slot(dev);

    if (i == dev->slots) {
        return FAB_TM_BUSY;
    }
    if (dev->refusals > 0) {
        dev->refusals--;
        return FAB_TM_BUSY;
    }
    if (0 != (cmd->recv->tag & ~cmd->recv->mask)) {
        hw_error(dev, "ADD with an empty buffer or a tag outside its mask");
    }
    dev->slot[i].recv = fab_offload_recv_of(cmd->recv);
    dev->slot[i].expect = 1;
    cmd->recv->handle = i;
    dev->cmd[dev->ncmd].tag = cmd->recv->tag;
    dev->cmd[dev->ncmd].mask = cmd->recv->mask;
    return FAB_TM_POSTED;
}

static void post_del(hw_t *dev, const fab_tm_cmd_t *cmd)
{
    hw_slot_t *slot = &dev->slot[cmd->handle];

    if (cmd->handle >= dev->slots || 0 == slot->expect) {
        hw_error(dev, "DEL of a handle that is free");
        return;
    }
    if (cmd->is_signaled) {
        slot->expect++;
    } else {
        slot->expect--;
    }
}

int hw_post(void *device, const fab_tm_cmd_t *cmd)
{
    hw_t *dev = device;

    if (dev->is_dead) {
        return FAB_TM_DEAD;
    }
    if (dev->posted - dev->tail >= dev->max_ops || HW_QUEUE == dev->ncmd) {
        hw_error(dev, "no room in the command queue");
        return FAB_TM_BUSY;
    }
    if (FAB_TM_ADD == cmd->op && FAB_TM_POSTED != post_add(dev, cmd)) {
        return FAB_TM_BUSY;
    }
    if (FAB_TM_DEL == cmd->op) {
        post_del(dev, cmd);
    }
    if (FAB_TM_NOP == cmd->op || (FAB_TM_ADD == cmd->op && cmd->is_signaled)) {
        hw_error(dev, "a command that must not be posted");
    }
    dev->cmd[dev->ncmd].cmd = *cmd;
    if (FAB_TM_ADD == cmd->op) {
        dev->cmd[dev->ncmd].cmd.handle = cmd->recv->handle;
    }
    dev->ncmd++;
    dev->posted++;
    return FAB_TM_POSTED;
}

static void complete(hw_t *dev, hw_completion_t completion)
{
    if (HW_QUEUE == dev->ncq) {
        hw_error(dev, "completion queue overrun");
        return;
    }
    dev->cq[dev->ncq++] = completion;
}

static bool counts_are_equal(const hw_t *dev)
{
    return 0 == ((dev->sw_rep ^ dev->hw) & (dev->modulus - 1));
}

static void enable_all(hw_t *dev)
{
    for (uint32_t i = 0; i < dev->slots; i++) {
        dev->slot[i].is_enabled = dev->slot[i].is_listed;
    }
}

void hw_execute(hw_t *dev)
{
    const hw_cmd_t first = dev->cmd[0];
    const fab_tm_cmd_t cmd = first.cmd;
    hw_slot_t *slot = &dev->slot[cmd.handle];
    const uint32_t number = dev->posted - dev->ncmd;
    bool is_success = true;

    dev->ncmd--;
    memmove(dev->cmd, dev->cmd + 1, dev->ncmd * sizeof(dev->cmd[0]));
    if ((uint16_t) (dev->hw - cmd.count) >= dev->modulus) {
        hw_error(dev, "a command carries a count so old that it means another");
    }
    if (FAB_TM_ADD == cmd.op) {
        if (slot->is_listed || slot->owes_data) {
            hw_error(dev, "ADD where a receive is listed");
        }
        slot->hw_recv = fab_offload_recv_of(cmd.recv);
        slot->tag = first.tag;
        slot->mask = first.mask;
        slot->is_listed = true;
        slot->is_enabled = false;
        slot->age = dev->age++;
    } else if (FAB_TM_DEL == cmd.op) {
        is_success = slot->is_listed;
        slot->is_listed = false;
    }
    dev->sw_rep = cmd.count;
    if (counts_are_equal(dev)) {
        enable_all(dev);
    }
    if (cmd.is_signaled) {
        complete(dev,
                 (hw_completion_t){.kind = HW_OP,
                                   .is_success = is_success,
                                   .handle = FAB_TM_DEL == cmd.op ? (uint8_t) cmd.handle : HW_SLOTS,
                                   .op = number,
                                   .wr_id = cmd.wr_id});
    }
}

static uint32_t find_slot(const hw_t *dev, uint64_t tag)
{
    uint32_t best = HW_SLOTS;

    if (dev->disables_all && !counts_are_equal(dev)) {
        return HW_SLOTS;
    }
    for (uint32_t i = 0; i < dev->slots; i++) {
        const hw_slot_t *slot = &dev->slot[i];

        if (slot->is_listed && slot->is_enabled && (tag & slot->mask) == slot->tag &&
            (HW_SLOTS == best || (int32_t) (slot->age - dev->slot[best].age) < 0)) {
            best = i;
        }
    }
    return best;
}

fab_offload_recv_t *hw_find(const hw_t *dev, uint64_t tag)
{
    const uint32_t i = find_slot(dev, tag);

    return i < HW_SLOTS ? dev->slot[i].hw_recv : NULL;
}

bool hw_message(hw_t *dev, uint64_t tag, uint16_t msg, bool is_split)
{
    const uint32_t i = find_slot(dev, tag);

    if (i < HW_SLOTS) {
        dev->slot[i].is_listed = false;
        dev->slot[i].owes_data = is_split;
        dev->slot[i].msg = msg;
        complete(dev,
                 (hw_completion_t){
                     .kind = HW_MATCHED, .has_data = !is_split, .handle = (uint8_t) i, .msg = msg});
        return true;
    }
    if (0 == dev->bufs) {
        return false;
    }
    dev->bufs--;
    dev->hw++;
    complete(dev, (hw_completion_t){.kind = HW_UNEXPECTED, .msg = msg});
    return true;
}

void hw_finish(hw_t *dev, uint32_t slot)
{
    dev->slot[slot].owes_data = false;
    complete(dev, (hw_completion_t){
                      .kind = HW_DATA, .handle = (uint8_t) slot, .msg = dev->slot[slot].msg});
}

/* What the provider does with the handle when a completion for it is polled. */
static void release(hw_t *dev, uint8_t handle, uint8_t n)
{
    if (dev->slot[handle].expect < n) {
        hw_error(dev, "completion for a handle that is free");
        return;
    }
    dev->slot[handle].expect = (uint8_t) (dev->slot[handle].expect - n);
}

bool hw_poll(hw_t *dev, hw_completion_t *completion)
{
    if (0 == dev->ncq) {
        return false;
    }
    *completion = dev->cq[0];
    dev->ncq--;
    memmove(dev->cq, dev->cq + 1, dev->ncq * sizeof(dev->cq[0]));
    switch ((hw_kind_t) completion->kind) {
    case HW_MATCHED:
    case HW_DATA:
        completion->recv = dev->slot[completion->handle].recv;
        if (0 == dev->slot[completion->handle].expect) {
            hw_error(dev, "match of a handle that is free");
        }
        if (HW_DATA == completion->kind || completion->has_data) {
            release(dev, completion->handle, 1);
        }
        break;
    case HW_OP:
        dev->tail = completion->op + 1;
        if (completion->handle < HW_SLOTS) {
            release(dev, completion->handle, completion->is_success ? 2 : 1);
        }
        break;
    case HW_UNEXPECTED:
        break;
    }
    return true;
}
