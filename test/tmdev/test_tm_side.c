/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of tag matching share: test_tm.h. */
#include "test_tm.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

void tm_open(side_t *t, uint32_t tags, uint32_t ops)
{
    memset(t, 0, sizeof(*t));
    world_open(&t->w);
    qp_options_t o = {0};
    if (0 == test_rank) {
        o.srq = world_tm_srq(&t->w, SRQ_SIZE, tags, ops);
        o.is_without_sq = true;
        for (int i = 0; i < SRQ_SIZE; i++) {
            CHECK_EQUAL(post_srq_recv(&t->w, (uint64_t) i, SRQ_AT + (size_t) i * SLOT, SLOT), 0);
        }
    }
    t->qp = connected_qp(&t->w, 1 - test_rank, &o, &t->far);
    if (1 == test_rank) {
        for (int i = 0; i < 200; i++) { /* FINs */
            CHECK_EQUAL(post_recv(&t->w, t->qp, 5000, MEMORY - 4096, 64), 0);
        }
    }
}

void tm_close(side_t *t)
{
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(t->qp), 0);
    world_close(&t->w);
}

int tm_op(side_t *t, enum ibv_ops_wr_opcode opcode, int flags, uint64_t wr_id)
{
    struct ibv_ops_wr wr = {.wr_id = wr_id,
                            .opcode = opcode,
                            .flags = flags,
                            .tm = {.unexpected_cnt = t->count, .handle = t->handle}};
    struct ibv_ops_wr *bad = NULL;
    int rc = ibv_post_srq_ops(t->w.srq, &wr, &bad);
    CHECK(0 == rc || bad == &wr);
    return rc;
}

int tm_add(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length, int flags)
{
    struct ibv_sge s = sge(&t->w, offset, length);
    struct ibv_ops_wr wr = {
        .wr_id = 1000 + offset,
        .opcode = IBV_WR_TAG_ADD,
        .flags = flags,
        .tm =
            {.unexpected_cnt = t->count,
             .add = {.recv_wr_id = offset, .sg_list = &s, .num_sge = 1, .tag = tag, .mask = mask}},
    };
    struct ibv_ops_wr *bad = NULL;
    int rc = ibv_post_srq_ops(t->w.srq, &wr, &bad);
    CHECK(0 == rc || bad == &wr);
    t->handle = wr.tm.handle;
    return rc;
}

void tm_add_ok(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length)
{
    CHECK_EQUAL(tm_add(t, tag, mask, offset, length, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC), 0);
    completion_t c = get_ok(&t->w, 1000 + offset, IBV_WC_TM_ADD);
    CHECK_EQUAL(c.flags, 0);
    CHECK_EQUAL(c.tm.tag, 0);
}

/* Send a message with header; the payload is filled with tag as seed. */
void tm_send(side_t *t, int opcode, uint64_t tag, size_t payload, bool has_imm)
{
    struct ibv_tmh tmh = {
        .opcode = (uint8_t) opcode, .app_ctx = htobe32((uint32_t) tag + 7), .tag = htobe64(tag)};
    memcpy(t->w.memory, &tmh, sizeof(tmh));
    fill(t->w.memory + TMH, payload, (uint32_t) tag);
    struct ibv_sge s = sge(&t->w, 0, TMH + payload);
    struct ibv_send_wr wr = {.wr_id = tag,
                             .sg_list = &s,
                             .num_sge = 1,
                             .opcode = has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = (uint32_t) tag + 9},
                       *bad;
    CHECK_EQUAL(ibv_post_send(t->qp, &wr, &bad), 0);
}

void tm_send_ok(side_t *t, int opcode, uint64_t tag, size_t payload)
{
    tm_send(t, opcode, tag, payload, false);
    get_ok(&t->w, tag, IBV_WC_SEND);
}

void tm_send_rts(side_t *t, uint64_t tag, size_t offset, size_t length, uint32_t rkey)
{
    struct ibv_tmh tmh = {
        .opcode = IBV_TMH_RNDV, .app_ctx = htobe32((uint32_t) tag + 7), .tag = htobe64(tag)};
    struct ibv_rvh rvh = {.va = htobe64((uintptr_t) t->w.memory + offset),
                          .rkey = htobe32(rkey),
                          .len = htobe32((uint32_t) length)};
    memcpy(t->w.memory, &tmh, sizeof(tmh));
    memcpy(t->w.memory + TMH, &rvh, sizeof(rvh));
    fill(t->w.memory + TMH + sizeof(rvh), 4, 99);
    CHECK_EQUAL(post_send(&t->w, t->qp, tag, 0, TMH + sizeof(rvh) + 4, IBV_SEND_SIGNALED), 0);
}

completion_t tm_get_match(side_t *t, uint64_t wr_id, unsigned int flags)
{
    completion_t c = get_ok(&t->w, wr_id, IBV_WC_TM_RECV);
    CHECK_EQUAL(c.flags & ~(unsigned int) IBV_WC_WITH_IMM, flags);
    return c;
}

void tm_get_unexpected(side_t *t, int opcode, uint64_t wr_id, uint64_t tag, size_t payload)
{
    completion_t c = get_ok(&t->w, wr_id, opcode);
    const uint8_t *at = t->w.memory + SRQ_AT + wr_id * SLOT;
    struct ibv_tmh tmh;
    memcpy(&tmh, at, sizeof(tmh));
    CHECK_EQUAL(c.flags & ~(unsigned int) IBV_WC_TM_SYNC_REQ, 0);
    CHECK_EQUAL(c.tm.tag, 0);
    CHECK_EQUAL(c.byte_len, TMH + payload);
    CHECK_EQUAL(be64toh(tmh.tag), tag);
    CHECK(is_filled(at + TMH, payload, (uint32_t) tag));
}
