/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag matching of tmdev. Rank 0 has the TM-SRQ, rank 1 sends. */
#include "test_tmdev.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory of rank 0: receives of the SRQ at SRQ_AT, SLOT bytes each; tagged buffers at 0. */
enum { SLOT = 8192, SRQ_AT = 8 << 20, SRQ_SIZE = 64, TMH = sizeof(struct ibv_tmh), FULL_MASK = -1 };

typedef struct side {
    world_t w;
    struct ibv_qp *qp;
    far_end_t far;
    uint32_t handle; /* of the last add() */
    uint16_t count;  /* unexpected messages handled */
} side_t;

static void tm_open(side_t *t, uint32_t tags, uint32_t ops)
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

static void tm_close(side_t *t)
{
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(t->qp), 0);
    world_close(&t->w);
}

static int op(side_t *t, enum ibv_ops_wr_opcode opcode, int flags, uint64_t wr_id)
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

/* List a receive of length bytes at offset, which is also its wr_id. */
static int add(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length, int flags)
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

static void add_ok(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length)
{
    CHECK_EQUAL(add(t, tag, mask, offset, length, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC), 0);
    completion_t c = get_ok(&t->w, 1000 + offset, IBV_WC_TM_ADD);
    CHECK_EQUAL(c.flags, 0);
    CHECK_EQUAL(c.tm.tag, 0);
}

/* Send a message with header; the payload is filled with tag as seed. */
static void send_tagged(side_t *t, int opcode, uint64_t tag, size_t payload, bool has_imm)
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

static void send_ok(side_t *t, int opcode, uint64_t tag, size_t payload)
{
    send_tagged(t, opcode, tag, payload, false);
    get_ok(&t->w, tag, IBV_WC_SEND);
}

/* A rendezvous request for length bytes at offset, 4 bytes of meta-data behind it. */
static void send_rts(side_t *t, uint64_t tag, size_t offset, size_t length, uint32_t rkey)
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

static completion_t get_match(side_t *t, uint64_t wr_id, unsigned int flags)
{
    completion_t c = get_ok(&t->w, wr_id, IBV_WC_TM_RECV);
    CHECK_EQUAL(c.flags & ~(unsigned int) IBV_WC_WITH_IMM, flags);
    return c;
}

/* An unexpected message, in the SRQ's next receive. */
static void get_unexpected(side_t *t, int opcode, uint64_t wr_id, uint64_t tag, size_t payload)
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

/*
 * ---- matching
 * ----------------------------------------------------------------------------------------------------------------
 */

static const size_t sizes[] = {0, 1, 100, 4000};

static void eager(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    for (size_t i = 0; i < 4; i++) {
        uint64_t tag = 0x1122334400000000u + i;
        if (0 == test_rank) {
            add_ok(&t, tag, (uint64_t) FULL_MASK, 4096, 4000);
            test_barrier();
            completion_t c = get_match(&t, 4096, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
            CHECK_EQUAL(c.byte_len, sizes[i]);
            CHECK_EQUAL(c.tm.tag, tag);
            CHECK_EQUAL(c.tm.priv, (uint32_t) tag + 7);
            CHECK_EQUAL(c.qp_num, t.qp->qp_num);
            CHECK_EQUAL(c.src_qp, t.far.qpn);
            CHECK_EQUAL(c.flags & IBV_WC_WITH_IMM, 1 == i ? IBV_WC_WITH_IMM : 0);
            CHECK(1 != i || (uint32_t) tag + 9 == c.imm);
            CHECK(is_filled(t.w.memory + 4096, sizes[i], (uint32_t) tag));
        } else {
            test_barrier();
            send_tagged(&t, IBV_TMH_EAGER, tag, sizes[i], 1 == i);
            get_ok(&t.w, tag, IBV_WC_SEND);
        }
    }
    tm_close(&t);
}

/* The first posted that fits gets the message; masks. */
static void order(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    if (0 == test_rank) {
        add_ok(&t, 0x100, 0xf00, 0, 64);
        add_ok(&t, 0x123, 0xfff, 64, 64);
        add_ok(&t, 0, 0, 128, 64);
        add_ok(&t, 0x123, 0xfff, 192, 64);
    }
    test_barrier();
    if (1 == test_rank) {
        send_ok(&t, IBV_TMH_EAGER, 0x123, 8); /* fits all: the first */
        send_ok(&t, IBV_TMH_EAGER, 0x200, 8); /* only the one without mask */
        send_ok(&t, IBV_TMH_EAGER, 0x123, 8);
        send_ok(&t, IBV_TMH_EAGER, 0x123, 8);
    } else {
        static const uint64_t expected[] = {0, 128, 64, 192};
        for (int i = 0; i < 4; i++) {
            get_match(&t, expected[i], IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        }
    }
    tm_close(&t);
}

static void multi_packet(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    if (0 == test_rank) {
        add_ok(&t, 1, (uint64_t) FULL_MASK, 0, 65536);
        test_barrier();
        completion_t c = get_match(&t, 0, IBV_WC_TM_MATCH);
        CHECK_EQUAL(c.tm.tag, 1);
        CHECK_EQUAL(c.tm.priv, 8);
        CHECK_EQUAL(c.flags & IBV_WC_WITH_IMM, 0);
        c = get_match(&t, 0, IBV_WC_TM_DATA_VALID);
        CHECK_EQUAL(c.byte_len, 5000);
        CHECK_EQUAL(c.tm.tag, 0);
        CHECK_EQUAL(c.imm, 10);
        CHECK(is_filled(t.w.memory, 5000, 1));
        get_unexpected(&t, IBV_WC_TM_RECV, 0, 2, 5000); /* one completion all the same */
    } else {
        test_barrier();
        send_tagged(&t, IBV_TMH_EAGER, 1, 5000, true);
        get_ok(&t.w, 1, IBV_WC_SEND);
        send_ok(&t, IBV_TMH_EAGER, 2, 5000);
    }
    tm_close(&t);
}

static void no_tag(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    if (0 == test_rank) {
        add_ok(&t, 0, 0, 0, 4096);
        test_barrier();
        get_unexpected(&t, IBV_WC_TM_NO_TAG, 0, 5, 100);
        get_unexpected(&t, IBV_WC_TM_NO_TAG, 1, 6, 32);
        completion_t c = get_ok(&t.w, 2, IBV_WC_TM_NO_TAG); /* too short for a header */
        CHECK_EQUAL(c.byte_len, 10);
        /* none of them counted: still in phase */
        get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        add_ok(&t, 0, 0, 0, 4096);
        test_barrier();
        get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    } else {
        test_barrier();
        send_ok(&t, IBV_TMH_NO_TAG, 5, 100);
        send_ok(&t, IBV_TMH_FIN, 6, 32);
        struct ibv_tmh tmh = {.opcode = IBV_TMH_EAGER};
        memcpy(t.w.memory, &tmh, sizeof(tmh));
        CHECK_EQUAL(post_send(&t.w, t.qp, 7, 0, 10, IBV_SEND_SIGNALED), 0);
        get_ok(&t.w, 7, IBV_WC_SEND);
        send_ok(&t, IBV_TMH_EAGER, 8, 1);
        test_barrier();
        send_ok(&t, IBV_TMH_EAGER, 9, 1);
    }
    tm_close(&t);
}

/*
 * ---- phases
 * ------------------------------------------------------------------------------------------------------------------
 */

static void phases(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    if (0 == test_rank) {
        /* active before the unexpected message, and after */
        add_ok(&t, 50, (uint64_t) FULL_MASK, 4096, 64);
        test_barrier();
        get_unexpected(&t, IBV_WC_TM_RECV, 0, 1, 8);
        /* Stale: not active, and said so. */
        CHECK_EQUAL(add(&t, 2, (uint64_t) FULL_MASK, 0, 64, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC), 0);
        completion_t c = get_ok(&t.w, 1000, IBV_WC_TM_ADD);
        CHECK_EQUAL(c.flags, IBV_WC_TM_SYNC_REQ);
        test_barrier();
        get_unexpected(&t, IBV_WC_TM_RECV, 1, 2, 8);
        get_match(&t, 4096, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        t.count = 1;
        /* of two */
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 77), 0);
        c = get_ok(&t.w, 77, IBV_WC_TM_SYNC);
        CHECK_EQUAL(c.flags, 0);
        test_barrier();
        get_unexpected(&t, IBV_WC_TM_RECV, 2, 2, 8);
        t.count = 3;
        /* without the flag: nothing happens */
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED, 78), 0);
        get_ok(&t.w, 78, IBV_WC_TM_SYNC);
        test_barrier();
        get_unexpected(&t, IBV_WC_TM_RECV, 3, 2, 8);
        t.count = 4;
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 79), 0);
        get_ok(&t.w, 79, IBV_WC_TM_SYNC);
        test_barrier();
        get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    } else {
        test_barrier();
        send_ok(&t, IBV_TMH_EAGER, 1, 8);
        test_barrier();
        send_ok(&t, IBV_TMH_EAGER, 2, 8);
        send_ok(&t, IBV_TMH_EAGER, 50, 8);
        for (int i = 0; i < 3; i++) {
            test_barrier();
            send_ok(&t, IBV_TMH_EAGER, 2, 8);
        }
    }
    tm_close(&t);
}

/* The counter passes 65535. */
static void wrap(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    t.count = 65530;
    for (int i = 0; i < 12; i++) {
        if (0 == test_rank) {
            test_barrier();
            get_unexpected(&t, IBV_WC_TM_RECV, (uint64_t) i, 1, 8);
            t.count++;
            add_ok(&t, 2, (uint64_t) FULL_MASK, 0, 64);
            test_barrier();
            get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        } else {
            test_barrier();
            send_ok(&t, IBV_TMH_EAGER, 1, 8);
            test_barrier();
            send_ok(&t, IBV_TMH_EAGER, 2, 8);
        }
    }
    tm_close(&t);
}

/* No message moves before 33 receives were posted. */
static void needs_33(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {0};
    world_open(&w);
    if (0 == test_rank) {
        o.srq = world_tm_srq(&w, 64, 4, 4);
        o.is_without_sq = true;
        for (int i = 0; i < 32; i++) {
            CHECK_EQUAL(post_srq_recv(&w, (uint64_t) i, 0, 64), 0);
        }
    }
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, &o, &far);
    if (0 == test_rank) {
        get_none(&w, 50);
        CHECK_EQUAL(post_srq_recv(&w, 32, 0, 64), 0);
        get_ok(&w, 0, IBV_WC_TM_NO_TAG);
    } else {
        CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, IBV_SEND_SIGNALED), 0);
        get_ok(&w, 1, IBV_WC_SEND);
    }
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

/*
 * ---- limits and misuse
 * -------------------------------------------------------------------------------------------------------
 */

static void limits(void)
{
    side_t t;
    tm_open(&t, 3, 5);
    if (0 == test_rank) {
        uint32_t handles[3];
        for (int i = 0; i < 3; i++) {
            CHECK_EQUAL(add(&t, (uint64_t) i, 0xff, (size_t) i * 64, 64, 0), 0);
            handles[i] = t.handle;
        }
        CHECK_EQUAL(add(&t, 9, 0xff, 256, 64, 0), ENOMEM); /* the list */
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), 0);
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED, 2), 0);
        /* operations: the completion was not polled */
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 3), ENOMEM);
        get_ok(&t.w, 2, IBV_WC_TM_SYNC);
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 3), 0);
        t.handle = handles[1];
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 4), 0);
        CHECK_EQUAL(add(&t, 9, 0xff, 256, 64, 0), ENOMEM); /* the handle is in use until then */
        get_ok(&t.w, 4, IBV_WC_TM_DEL);
        CHECK_EQUAL(add(&t, 9, 0xff, 256, 64, 0), 0);
        CHECK_EQUAL(t.handle, handles[1]);
        test_barrier();
        get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        get_match(&t, 256, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        get_unexpected(&t, IBV_WC_TM_RECV, 0, 1, 8);
    } else {
        test_barrier();
        send_ok(&t, IBV_TMH_EAGER, 0, 8);
        send_ok(&t, IBV_TMH_EAGER, 9, 8);
        send_ok(&t, IBV_TMH_EAGER, 1, 8); /* was removed */
    }
    tm_close(&t);
}

static void misuse(void)
{
    side_t t;
    struct ibv_wc wc;
    tm_open(&t, 4, 4);
    if (0 == test_rank) {
        CHECK_EQUAL(add(&t, 0x1ff, 0xff, 0, 64, 0), EINVAL);
        CHECK_EQUAL(add(&t, 1, 0xff, 0, 0, 0), EINVAL);
        struct ibv_sge two[2] = {sge(&t.w, 0, 8), sge(&t.w, 8, 8)};
        struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD, .tm.add = {.sg_list = two, .num_sge = 2}},
                          *bad;
        CHECK_EQUAL(ibv_post_srq_ops(t.w.srq, &wr, &bad), EINVAL);
        t.handle = 77;
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, 0, 1), EINVAL);
        t.handle = 2;
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, 0, 1), EINVAL);
        add_ok(&t, 1, 0xff, 0, 64);
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 1), 0);
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 1), EINVAL);
        get_ok(&t.w, 1, IBV_WC_TM_DEL);
        CHECK_EQUAL(ibv_poll_cq(t.w.cq, 1, &wc), -1);
        CHECK_EQUAL(ibv_destroy_srq(t.w.srq), EBUSY);
        struct ibv_cq *plain = ibv_create_cq(t.w.context, 10, NULL, NULL, 0);
        struct ibv_srq_init_attr_ex attr = {
            .attr = {.max_wr = 64, .max_sge = 1},
            .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                         IBV_SRQ_INIT_ATTR_TM,
            .srq_type = IBV_SRQT_TM,
            .pd = t.w.pd,
            .cq = plain,
            .tm_cap = {.max_num_tags = 4, .max_ops = 4}};
        CHECK(NULL == ibv_create_srq_ex(t.w.context, &attr) && EINVAL == errno);
        attr.cq = t.w.cq;
        attr.tm_cap.max_num_tags = 100000;
        CHECK(NULL == ibv_create_srq_ex(t.w.context, &attr) && EINVAL == errno);
        CHECK_EQUAL(ibv_destroy_cq(plain), 0);
    }
    tm_close(&t);
}

/* A full queue of operations, while polling: drivers would deadlock. */
static void full_while_polling(void)
{
    side_t t;
    tm_open(&t, 4, 4);
    if (0 == test_rank) {
        struct ibv_poll_cq_attr attr = {0};
        for (int i = 0; i < 4; i++) {
            CHECK_EQUAL(
                op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC | (2 == i ? IBV_OPS_SIGNALED : 0), 1), 0);
        }
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), ENOMEM);
        CHECK_EQUAL(ibv_start_poll(t.w.cq_ex, &attr), 0);
        for (int i = 0; i < 3; i++) { /* what was polled is free */
            CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), 0);
        }
        CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), EDEADLK);
        ibv_end_poll(t.w.cq_ex);
    }
    tm_close(&t);
}

static void eager_overflow(void)
{
    side_t t;
    tm_open(&t, 4, 4);
    if (0 == test_rank) {
        add_ok(&t, 1, 0xff, 0, 64);
        test_barrier();
        completion_t c = get(&t.w);
        CHECK_EQUAL(c.status, IBV_WC_LOC_LEN_ERR);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
        get_event(&t.w, IBV_EVENT_QP_LAST_WQE_REACHED);
    } else {
        test_barrier();
        send_tagged(&t, IBV_TMH_EAGER, 1, 65, false);
        get_failed(&t.w, 1, IBV_WC_REM_INV_REQ_ERR);
        for (int i = 0; i < 200; i++) {
            get_failed(&t.w, 5000, IBV_WC_WR_FLUSH_ERR);
        }
    }
    tm_close(&t);
}

/*
 * ---- removal
 * -----------------------------------------------------------------------------------------------------------------
 */

/*
 * A listed buffer whose memory is deregistered: said at once, and an error when a message matches.
 */
static void listed_key(void)
{
    side_t t;
    tm_open(&t, 4, 4);
    if (0 == test_rank) {
        struct ibv_mr *mr = ibv_reg_mr(t.w.pd, t.w.memory, 4096, IBV_ACCESS_LOCAL_WRITE),
                      *own = t.w.mr;
        CHECK(NULL != mr);
        t.w.mr = mr;
        add_ok(&t, 1, 0xff, 0, 64);
        t.w.mr = own;
        CHECK_EQUAL(ibv_dereg_mr(mr), 0);
        test_barrier();
        CHECK_EQUAL(get(&t.w).status, IBV_WC_LOC_PROT_ERR);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
    } else {
        test_barrier();
        send_tagged(&t, IBV_TMH_EAGER, 1, 8, false);
        get_failed(&t.w, 1, IBV_WC_REM_OP_ERR);
    }
    tm_close(&t);
}

static void removal(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        add_ok(&t, 1, 0xff, 0, 64);
        test_barrier();
        test_barrier(); /* the message was sent and acknowledged: it matched */
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 5), 0);
        get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        get_failed(&t.w, 5, IBV_WC_TM_ERR);
        /* Unsignaled, too late: the library does not know whose completion that is. */
        add_ok(&t, 1, 0xff, 0, 64);
        test_barrier();
        test_barrier();
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, 0, 5), 0);
        get_failed(&t.w, 0, IBV_WC_GENERAL_ERR);
        /* Unsignaled in good time. */
        CHECK_EQUAL(add(&t, 1, 0xff, 128, 64, 0), 0);
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, 0, 5), 0);
        test_barrier();
        get_unexpected(&t, IBV_WC_TM_RECV, 0, 1, 8);
    } else {
        for (int i = 0; i < 2; i++) {
            test_barrier();
            send_ok(&t, IBV_TMH_EAGER, 1, 8);
            test_barrier();
        }
        test_barrier();
        send_ok(&t, IBV_TMH_EAGER, 1, 8);
    }
    tm_close(&t);
}

/*
 * Cancelling races with matching: each receive ends once, one way or the other, and each message
 * arrives once. Of four rounds, the removal is first in one, the message in another, and two race.
 */
static void removal_race(void)
{
    enum { ROUNDS = 300 };
    side_t t;
    int matched = 0, removed = 0, unexpected = 0;
    tm_open(&t, 4, 64);
    for (int i = 0; i < ROUNDS; i++) {
        test_barrier();
        if (1 == test_rank) {
            if (0 == i % 4) {
                test_barrier(); /* the receive is removed */
            } else if (1 == i % 4) {
                test_barrier(); /* it is listed */
            }
            send_tagged(&t, IBV_TMH_EAGER, 1, 8, false);
            get_ok(&t.w, 1, IBV_WC_SEND);
            if (1 == i % 4) {
                test_barrier(); /* the message is there */
            }
            test_barrier();
            continue;
        }
        bool is_deleted = false, is_matched = false, has_message = false;
        CHECK_EQUAL(add(&t, 1, 0xff, 0, 64, IBV_OPS_TM_SYNC), 0);
        if (1 == i % 4) {
            CHECK_EQUAL(op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED, 6), 0);
            get_ok(&t.w, 6, IBV_WC_TM_SYNC);
            test_barrier();
            test_barrier();
        } else if (2 == i % 4) {
            usleep((useconds_t) (i % 40) * 10);
        }
        CHECK_EQUAL(op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 5), 0);
        while (!has_message || !is_deleted) {
            completion_t c = get(&t.w);
            if (0 == i % 4 && !is_deleted) {
                test_barrier(); /* now the message may come */
            }
            if (5 == c.wr_id && IBV_WC_TM_ERR == c.status) {
                CHECK(is_matched); /* it is ahead in the queue */
                is_deleted = true;
            } else if (5 == c.wr_id && IBV_WC_TM_DEL == c.opcode) {
                CHECK(!is_matched);
                is_deleted = true;
                removed++;
            } else if (0 != (c.flags & IBV_WC_TM_MATCH)) {
                CHECK(!has_message && 0 == c.wr_id);
                is_matched = has_message = true;
                matched++;
            } else {
                CHECK(!has_message && IBV_WC_TM_RECV == c.opcode &&
                      0 == (c.flags & ~(unsigned int) IBV_WC_TM_SYNC_REQ));
                has_message = true;
                unexpected++;
                t.count++;
                CHECK_EQUAL(post_srq_recv(&t.w, c.wr_id, SRQ_AT + c.wr_id * SLOT, SLOT), 0);
            }
        }
        test_barrier();
    }
    if (0 == test_rank) {
        CHECK_EQUAL(matched + removed, ROUNDS);
        CHECK_EQUAL(matched + unexpected, ROUNDS);
        printf("    %d matched, %d removed\n", matched, removed);
        CHECK(matched > 0 && removed > 0);
    }
    tm_close(&t);
}

/*
 * ---- rendezvous
 * --------------------------------------------------------------------------------------------------------------
 */

static void get_fin(side_t *t, uint64_t tag)
{
    completion_t c = get_ok(&t->w, 5000, IBV_WC_RECV);
    struct ibv_tmh tmh;
    memcpy(&tmh, t->w.memory + MEMORY - 4096, sizeof(tmh));
    CHECK_EQUAL(c.byte_len, 32);
    CHECK_EQUAL(tmh.opcode, IBV_TMH_FIN);
    CHECK_EQUAL(be32toh(tmh.app_ctx), tag + 7);
    CHECK_EQUAL(be64toh(tmh.tag), tag);
}

static void rendezvous(void)
{
    static const size_t lengths[] = {0, 1, 5000, 4 << 20};
    side_t t;
    tm_open(&t, 4, 8);
    for (size_t i = 0; i < 4; i++) {
        uint64_t tag = 10 + i;
        if (0 == test_rank) {
            add_ok(&t, tag, 0xff, 4096, 4 << 20);
            test_barrier();
            if (3 == i) {
                test_barrier(); /* nobody polls here: the device works alone until the FIN is there */
            }
            completion_t c = get_match(&t, 4096, IBV_WC_TM_MATCH);
            CHECK_EQUAL(c.tm.tag, tag);
            CHECK_EQUAL(c.tm.priv, tag + 7);
            c = get_match(&t, 4096, IBV_WC_TM_DATA_VALID);
            CHECK_EQUAL(c.byte_len, lengths[i]);
            CHECK_EQUAL(c.tm.tag, 0);
            CHECK(is_filled(t.w.memory + 4096, lengths[i], (uint32_t) tag));
        } else {
            fill(t.w.memory + 8192, lengths[i], (uint32_t) tag);
            test_barrier();
            send_rts(&t, tag, 8192, lengths[i], t.w.mr->rkey);
            get_ok(&t.w, tag, IBV_WC_SEND);
            get_fin(&t, tag);
            if (3 == i) {
                test_barrier();
            }
        }
    }
    tm_close(&t);
}

/* Many at a time: the device reads max_rd_atomic of them at once. */
static void rendezvous_many(void)
{
    side_t t;
    tm_open(&t, 64, 128);
    if (0 == test_rank) {
        for (size_t i = 0; i < 50; i++) {
            add_ok(&t, i, 0xff, i << 16, 1 << 16);
        }
        test_barrier();
        for (int valid = 0, matched = 0; valid < 50;) {
            completion_t c = get(&t.w);
            CHECK_EQUAL(c.status, IBV_WC_SUCCESS);
            matched += IBV_WC_TM_MATCH == c.flags;
            if (IBV_WC_TM_DATA_VALID == c.flags) {
                CHECK(valid++ < matched);
                CHECK(is_filled(t.w.memory + c.wr_id, 50000, (uint32_t) (c.wr_id >> 16)));
            }
        }
    } else {
        for (size_t i = 0; i < 50; i++) {
            fill(t.w.memory + (i << 16) + 65536, 50000, (uint32_t) i);
        }
        test_barrier();
        int fins = 0;
        for (size_t i = 0; i < 50; i++) {
            send_rts(&t, i, (i << 16) + 65536, 50000, t.w.mr->rkey);
            completion_t c = get(&t.w); /* the header's memory is used again */
            while (IBV_WC_SEND != c.opcode) {
                fins++;
                c = get(&t.w);
            }
        }
        for (; fins < 50; fins++) {
            get_ok(&t.w, 5000, IBV_WC_RECV);
        }
    }
    tm_close(&t);
}

static void rendezvous_incomplete(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        add_ok(&t, 1, 0xff, 0, 100);
        test_barrier();
        bool is_twice = NULL != getenv("TMDEV_TM_LEFT");
        completion_t c = get(&t.w);
        CHECK_EQUAL(c.status, IBV_WC_TM_RNDV_INCOMPLETE);
        CHECK_EQUAL(c.wr_id, 0);
        CHECK_EQUAL(c.flags, IBV_WC_TM_MATCH | (is_twice ? 0u : IBV_WC_TM_DATA_VALID));
        CHECK_EQUAL(c.tm.tag, 1);
        if (is_twice) {
            c = get_match(&t, 0, IBV_WC_TM_DATA_VALID);
        }
        CHECK_EQUAL(c.byte_len, 36);
        struct ibv_rvh rvh;
        memcpy(&rvh, t.w.memory + TMH, sizeof(rvh));
        CHECK_EQUAL(be32toh(rvh.len), 101);
        CHECK(is_filled(t.w.memory + 32, 4, 99));
        c = get_ok(&t.w, 0, IBV_WC_TM_RECV); /* another: unexpected */
        CHECK_EQUAL(c.flags, 0);
        CHECK_EQUAL(c.byte_len, 36);
    } else {
        test_barrier();
        send_rts(&t, 1, 4096, 101, t.w.mr->rkey);
        get_ok(&t.w, 1, IBV_WC_SEND);
        send_rts(&t, 2, 4096, 101, t.w.mr->rkey);
        get_ok(&t.w, 2, IBV_WC_SEND);
        get_none(&t.w, 20); /* no FIN */
    }
    tm_close(&t);
}

/* The device's READ is refused: the receive ends in error, and the queue pair with it. */
static void rendezvous_bad_key(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        add_ok(&t, 1, 0xff, 4096, 100);
        test_barrier();
        get_match(&t, 4096, IBV_WC_TM_MATCH);
        get_failed(&t.w, 4096, IBV_WC_TM_RNDV_INCOMPLETE);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
        get_event(&t.w, IBV_EVENT_QP_LAST_WQE_REACHED);
    } else {
        test_barrier();
        send_rts(&t, 1, 4096, 100, t.w.mr->rkey + 1);
        get_ok(&t.w, 1, IBV_WC_SEND);
        get_event(&t.w, IBV_EVENT_QP_ACCESS_ERR);
    }
    tm_close(&t);
}

static void rendezvous_death(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        add_ok(&t, 1, 0xff, 4096, 4 << 20);
        pid_t peer;
        test_barrier();
        test_receive_from(1, &peer, sizeof(peer));
        get_match(&t, 4096, IBV_WC_TM_MATCH);
        CHECK_EQUAL(kill(peer, SIGKILL), 0);
        get_failed(&t.w, 4096, IBV_WC_TM_RNDV_INCOMPLETE);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
        get_event(&t.w, IBV_EVENT_QP_LAST_WQE_REACHED);
        CHECK_EQUAL(ibv_destroy_qp(t.qp), 0);
        world_close(&t.w);
    } else {
        pid_t self = getpid();
        test_barrier();
        test_send_to(0, &self, sizeof(self));
        send_rts(&t, 1, 4096, 4 << 20, t.w.mr->rkey); /* its READ is never answered */
        pause();
    }
}

/* A queue pair with a send queue gets no rendezvous. */
static void rendezvous_send_queue(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    qp_options_t o = {0};
    side_t t = {0};
    if (0 == test_rank) {
        o.srq = world_tm_srq(&w, 64, 4, 4);
        for (int i = 0; i < 64; i++) {
            CHECK_EQUAL(post_srq_recv(&w, (uint64_t) i, SRQ_AT, SLOT), 0);
        }
    }
    t.qp = connected_qp(&w, 1 - test_rank, &o, &far);
    t.w = w;
    if (0 == test_rank) {
        add_ok(&t, 1, 0xff, 0, 100);
        test_barrier();
        completion_t c = get(&t.w);
        CHECK_EQUAL(c.status, IBV_WC_LOC_QP_OP_ERR);
    } else {
        test_barrier();
        send_rts(&t, 1, 4096, 10, w.mr->rkey);
        get_failed(&t.w, 1, IBV_WC_REM_OP_ERR);
    }
    tm_close(&t);
}

/*
 * ---- what drivers make of it
 * -------------------------------------------------------------------------------------------------
 */

static void foreign_errors(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        test_barrier();
        get_ok(&t.w, 0, IBV_WC_TM_RECV);
        get_failed(&t.w, 0, IBV_WC_GENERAL_ERR); /* the first one's wr_id */
        get_ok(&t.w, 1, IBV_WC_TM_RECV);
        completion_t c = get(&t.w);
        CHECK(IBV_WC_WR_FLUSH_ERR == c.status && c.wr_id > UINT32_MAX && 0 == c.qp_num);
        get_ok(&t.w, 2, IBV_WC_TM_RECV);
    } else {
        test_barrier();
        for (uint64_t i = 0; i < 3; i++) {
            send_ok(&t, IBV_TMH_EAGER, i, 8);
        }
    }
    tm_close(&t);
}

static void poll_errors(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        struct ibv_poll_cq_attr attr = {0};
        test_barrier();
        test_barrier(); /* four messages are there */
        CHECK_EQUAL(ibv_start_poll(t.w.cq_ex, &attr), 0);
        CHECK_EQUAL(ibv_next_poll(t.w.cq_ex), -2);
        ibv_end_poll(t.w.cq_ex);
        CHECK_EQUAL(ibv_start_poll(t.w.cq_ex, &attr), -2);
        get_ok(&t.w, 3, IBV_WC_TM_RECV);
    } else {
        struct ibv_tmh tmh = {.opcode = IBV_TMH_EAGER};
        memcpy(t.w.memory, &tmh, sizeof(tmh));
        test_barrier();
        for (uint64_t i = 0; i < 4; i++) {
            CHECK_EQUAL(post_send(&t.w, t.qp, i, 0, 64, 3 == i ? IBV_SEND_SIGNALED : 0), 0);
        }
        get_ok(&t.w, 3, IBV_WC_SEND);
        test_barrier();
    }
    tm_close(&t);
}

static void blocks(void)
{
    world_t w;
    world_open(&w);
    struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 64, .max_sge = 1},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
                                        .srq_type = IBV_SRQT_TM,
                                        .pd = w.pd,
                                        .cq = w.cq,
                                        .tm_cap = {.max_num_tags = 4, .max_ops = 17}};
    CHECK(NULL == ibv_create_srq_ex(w.context, &attr) && EINVAL == errno);
    attr.tm_cap.max_ops = 16;
    w.srq = ibv_create_srq_ex(w.context, &attr);
    CHECK(NULL != w.srq);
    world_close(&w);
}

static void wrong_qpn(void)
{
    world_t w;
    far_end_t far;
    side_t t;
    tm_open(&t, 16, 16);
    qp_options_t o = {.srq = t.w.srq, .is_without_sq = 0 == test_rank};
    w = t.w;
    struct ibv_qp *other = connected_qp(&w, 1 - test_rank, &o, &far);
    if (0 == test_rank) {
        add_ok(&t, 1, (uint64_t) FULL_MASK, 0, 65536);
        test_barrier();
        CHECK_EQUAL(get_match(&t, 0, IBV_WC_TM_MATCH).qp_num, other->qp_num);
        CHECK_EQUAL(get_match(&t, 0, IBV_WC_TM_DATA_VALID).qp_num, t.qp->qp_num);
    } else {
        test_barrier();
        send_ok(&t, IBV_TMH_EAGER, 1, 5000);
    }
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(other), 0);
    tm_close(&t);
}

/*
 * ---- the whole protocol
 * ------------------------------------------------------------------------------------------------------
 */

/*
 * A client as it should be: every receive is in a software list, some are listed on the device,
 * too; some are cancelled. Messages carry a number; those of one tag must be received in order,
 * each once. Two queue pairs of the sender would not be ordered, so there is one.
 */
enum {
    PROTOCOL_OF_TAG = 1000,
    PROTOCOL_TAGS = 3,
    PROTOCOL_MESSAGES = PROTOCOL_TAGS * PROTOCOL_OF_TAG,
    PROTOCOL_RECEIVES = 24,
    PROTOCOL_BUFFER = 4096,
    PROTOCOL_KEPT = 4096,
    PROTOCOL_CANCEL = 1 << 20,
    PROTOCOL_LIST = 8, /* length of the device's list */
    PROTOCOL_OPS = 32  /* operations that may be under way */
};

typedef struct receive {
    bool is_used;
    uint64_t posted; /* order */
    int tag;
    bool is_listed, is_cancelling;
    uint32_t handle;
} receive_t;

typedef struct protocol {
    side_t t;
    receive_t receives[PROTOCOL_RECEIVES];
    uint64_t posted;
    uint32_t kept[PROTOCOL_KEPT]; /* numbers of unexpected messages, by arrival */
    int kept_tag[PROTOCOL_KEPT], kept_count;
    uint32_t next[PROTOCOL_TAGS]; /* expected of each tag */
    uint32_t sent_before[PROTOCOL_TAGS];
    /* receives that were not cancelled; those waiting */
    int posted_of[PROTOCOL_TAGS], waiting_of[PROTOCOL_TAGS];
    int done, listed, unlisted, unsignaled, cancelled, too_late, matched;
    uint16_t reported;
    /* operations posted, and known to be executed; the numbers of those whose completion is due */
    uint32_t ops, ops_done, signaled[PROTOCOL_OPS], signaled_head, signaled_tail;
    uint64_t random;
} protocol_t;

typedef struct payload {
    uint32_t number, tag, length, pad;
} payload_t;

static void take_payload(protocol_t *p, const uint8_t *at, uint32_t length, int tag)
{
    payload_t m;
    memcpy(&m, at, sizeof(m));
    CHECK_EQUAL(m.tag, tag);
    CHECK_EQUAL(m.length, length);
    CHECK(is_filled(at + sizeof(m), length - sizeof(m), m.number));
    CHECK_EQUAL(m.number, p->next[tag]);
    p->next[tag]++;
    p->done++;
}

/*
 * Is there room for an operation, other than the removal that an unexpected message needs? Those
 * must not be refused, and there is one at most for each listed receive.
 */
static bool protocol_has_room(const protocol_t *p)
{
    return p->ops - p->ops_done < PROTOCOL_OPS - PROTOCOL_LIST;
}

/* Enough of the operations must be signaled. */
static int protocol_op_flags(const protocol_t *p)
{
    return IBV_OPS_TM_SYNC | (p->unsignaled >= 8 ? IBV_OPS_SIGNALED : 0);
}

/* An operation that carried the count was posted, or was not. */
static bool protocol_posted(protocol_t *p, int rc, int flags)
{
    CHECK(0 == rc || ENOMEM == rc);
    if (0 != rc) {
        return false;
    }
    if (0 != (flags & IBV_OPS_TM_SYNC)) {
        p->reported = p->t.count;
    }
    p->unsignaled++;
    if (0 != (flags & IBV_OPS_SIGNALED)) {
        p->unsignaled = 0;
        p->signaled[p->signaled_tail++ % PROTOCOL_OPS] = p->ops;
    }
    p->ops++;
    return true;
}

/* A signaled operation completed: all before it are executed, too. */
static void protocol_op_done(protocol_t *p)
{
    p->ops_done = p->signaled[p->signaled_head++ % PROTOCOL_OPS] + 1;
}

static void protocol_list(protocol_t *p, int i)
{
    receive_t *r = &p->receives[i];
    int flags = protocol_op_flags(p);
    if (protocol_has_room(p) &&
        protocol_posted(p,
                        add(&p->t, (uint64_t) r->tag, 0xff, (size_t) i * PROTOCOL_BUFFER,
                            PROTOCOL_BUFFER, flags),
                        flags)) {
        r->is_listed = true;
        r->handle = p->t.handle;
        p->listed++;
    }
}

/*
 * Post a receive: from the kept messages, or into the list and, if all earlier ones of the tag are
 * listed, on the device.
 */
static void protocol_post(protocol_t *p, int i)
{
    receive_t *r = &p->receives[i];
    int tag = (int) (test_random(&p->random) % PROTOCOL_TAGS);
    if (PROTOCOL_OF_TAG == p->posted_of[tag] ||
        PROTOCOL_RECEIVES / PROTOCOL_TAGS == p->waiting_of[tag]) {
        return;
    }
    *r = (receive_t){.is_used = true, .posted = p->posted++, .tag = tag};
    p->posted_of[tag]++;
    for (int k = 0; k < p->kept_count; k++) {
        if (p->kept_tag[k] == r->tag) {
            CHECK_EQUAL(p->kept[k], p->next[r->tag]);
            p->next[r->tag]++;
            p->done++;
            r->is_used = false;
            memmove(&p->kept[k], &p->kept[k + 1],
                    (size_t) (p->kept_count - k - 1) * sizeof(p->kept[0]));
            memmove(&p->kept_tag[k], &p->kept_tag[k + 1],
                    (size_t) (p->kept_count - k - 1) * sizeof(p->kept_tag[0]));
            p->kept_count--;
            return;
        }
    }
    p->waiting_of[tag]++;
    for (int k = 0; k < PROTOCOL_RECEIVES; k++) {
        if (k != i && p->receives[k].is_used && p->receives[k].tag == r->tag &&
            !p->receives[k].is_listed) {
            return;
        }
    }
    if (0 != test_random(&p->random) % 4) {
        protocol_list(p, i);
    }
}

/*
 * An unexpected message: the oldest receive that fits has it; if that is listed, it must leave the
 * device.
 */
static void protocol_unexpected(protocol_t *p, const completion_t *c)
{
    const uint8_t *at = p->t.w.memory + SRQ_AT + c->wr_id * SLOT;
    struct ibv_tmh tmh;
    payload_t m;
    receive_t *oldest = NULL;
    memcpy(&tmh, at, sizeof(tmh));
    memcpy(&m, at + TMH, sizeof(m));
    for (int i = 0; i < PROTOCOL_RECEIVES; i++) {
        receive_t *r = &p->receives[i];
        if (r->is_used && !r->is_cancelling && (uint64_t) r->tag == be64toh(tmh.tag) &&
            (NULL == oldest || r->posted < oldest->posted)) {
            oldest = r;
        }
    }
    if (NULL == oldest) {
        p->kept[p->kept_count] = m.number;
        p->kept_tag[p->kept_count++] = (int) m.tag;
        CHECK(p->kept_count < PROTOCOL_KEPT);
    } else {
        if (oldest->is_listed) {
            p->t.handle = oldest->handle; /* out of phase, so it cannot match: unsignaled */
            CHECK(protocol_posted(p, op(&p->t, IBV_WR_TAG_DEL, 0, 0), 0));
            p->unlisted++;
        }
        take_payload(p, at + TMH, c->byte_len - TMH, oldest->tag);
        p->waiting_of[oldest->tag]--;
        oldest->is_used = false;
    }
    p->t.count++; /* only now */
    CHECK_EQUAL(post_srq_recv(&p->t.w, c->wr_id, SRQ_AT + c->wr_id * SLOT, SLOT), 0);
}

static void protocol_cancel(protocol_t *p, int i)
{
    receive_t *r = &p->receives[i];
    const int flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    p->t.handle = r->handle;
    if (p->matched > 0 && protocol_has_room(p) && r->is_used && r->is_listed && !r->is_cancelling &&
        protocol_posted(p, op(&p->t, IBV_WR_TAG_DEL, flags, PROTOCOL_CANCEL + (uint64_t) i),
                        flags)) {
        r->is_cancelling = true;
    }
}

/* A removal: done, or the match was ahead of it. */
static void protocol_cancelled(protocol_t *p, const completion_t *c)
{
    receive_t *r = &p->receives[c->wr_id - PROTOCOL_CANCEL];
    CHECK(r->is_cancelling);
    protocol_op_done(p);
    r->is_cancelling = false;
    p->cancelled += IBV_WC_SUCCESS == c->status;
    p->too_late += IBV_WC_TM_ERR == c->status;
    if (IBV_WC_SUCCESS == c->status) {
        CHECK(r->is_used);
        p->posted_of[r->tag]--;
        p->waiting_of[r->tag]--;
        r->is_used = false;
    }
}

static void protocol_completion(protocol_t *p, const completion_t *c)
{
    if (c->wr_id >= PROTOCOL_CANCEL) {
        protocol_cancelled(p, c);
        return;
    }
    CHECK_EQUAL(c->status, IBV_WC_SUCCESS);
    if (IBV_WC_TM_ADD == c->opcode || IBV_WC_TM_SYNC == c->opcode) {
        protocol_op_done(p);
        return;
    }
    CHECK_EQUAL(c->opcode, IBV_WC_TM_RECV);
    if (0 == (c->flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID))) {
        protocol_unexpected(p, c);
    } else if (0 != (c->flags & IBV_WC_TM_DATA_VALID)) {
        int i = (int) (c->wr_id / PROTOCOL_BUFFER);
        CHECK(p->receives[i].is_used && p->receives[i].is_listed);
        take_payload(p, p->t.w.memory + c->wr_id, c->byte_len, p->receives[i].tag);
        p->waiting_of[p->receives[i].tag]--;
        p->receives[i].is_used = false;
        p->matched++;
    }
}

/* What a client does when there is no completion: report, post, cancel. */
static void protocol_idle(protocol_t *p)
{
    if (p->reported != p->t.count && protocol_has_room(p)) {
        int flags = protocol_op_flags(p);
        (void) protocol_posted(p, op(&p->t, IBV_WR_TAG_SYNC, flags, 0), flags);
    }
    for (int i = 0; i < PROTOCOL_RECEIVES; i++) {
        uint64_t choice = test_random(&p->random) % 2048;
        if (!p->receives[i].is_used && !p->receives[i].is_cancelling && choice < 512) {
            protocol_post(p, i);
        } else if (2047 == choice) {
            protocol_cancel(p, i);
        }
    }
}

/* A receive is on the list before anything is sent: so the device matches, however fast all are. */
static void protocol_begin(protocol_t *p)
{
    const int flags = IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED;
    p->receives[0] = (receive_t){.is_used = true, .posted = p->posted++, .tag = 0};
    p->posted_of[0] = p->waiting_of[0] = 1;
    protocol_list(p, 0);
    CHECK_EQUAL(p->listed, 1);
    CHECK(protocol_posted(p, op(&p->t, IBV_WR_TAG_SYNC, flags, 0), flags));
    while (p->ops_done < p->ops) {
        completion_t c = get(&p->t.w);
        protocol_completion(p, &c);
    }
    test_barrier();
}

static void protocol_receive(protocol_t *p)
{
    completion_t c;
    protocol_begin(p);
    while (p->done < PROTOCOL_MESSAGES) {
        if (try_get(&p->t.w, &c)) {
            protocol_completion(p, &c);
        } else {
            protocol_idle(p);
        }
    }
    printf("    %d receives, %d listed: %d matched by the device, %d removed, %d cancelled, %d too "
           "late\n",
           (int) p->posted, p->listed, p->matched, p->unlisted, p->cancelled, p->too_late);
    CHECK(p->matched > 0);
}

static void protocol_send(protocol_t *p)
{
    side_t *t = &p->t;
    test_barrier();
    for (uint32_t i = 0; i < PROTOCOL_MESSAGES; i++) {
        int tag = (int) (test_random(&p->random) % PROTOCOL_TAGS);
        while (PROTOCOL_OF_TAG == p->sent_before[tag]) {
            tag = (tag + 1) % PROTOCOL_TAGS;
        }
        size_t at = (i % 128) * SLOT;
        payload_t m = {.number = p->sent_before[tag]++,
                       .tag = (uint32_t) tag,
                       .length = (uint32_t) (sizeof(m) + test_random(&p->random) % 1000)};
        struct ibv_tmh tmh = {.opcode = IBV_TMH_EAGER, .tag = htobe64((uint64_t) tag)};
        memcpy(t->w.memory + at, &tmh, sizeof(tmh));
        memcpy(t->w.memory + at + TMH, &m, sizeof(m));
        fill(t->w.memory + at + TMH + sizeof(m), m.length - sizeof(m), m.number);
        CHECK_EQUAL(
            post_send(&t->w, t->qp, 1, at, TMH + m.length, 63 == i % 64 ? IBV_SEND_SIGNALED : 0),
            0);
        if (63 == i % 64) {
            get_ok(&t->w, 1, IBV_WC_SEND);
        }
    }
}

static void whole_protocol(void)
{
    protocol_t *p = calloc(1, sizeof(*p));
    tm_open(&p->t, PROTOCOL_LIST, PROTOCOL_OPS);
    const char *start = getenv("TMDEV_TM_START");
    p->t.count = p->reported = (uint16_t) (NULL == start ? 0 : atoi(start));
    p->random = 88172645463325252u + (uint64_t) test_rank;
    if (0 == test_rank) {
        protocol_receive(p);
    } else {
        protocol_send(p);
    }
    test_barrier();
    /* Listed receives that nobody will match any more end with the SRQ. */
    CHECK_EQUAL(ibv_destroy_qp(p->t.qp), 0);
    CHECK(0 != test_rank || 0 == ibv_destroy_srq(p->t.w.srq));
    p->t.w.srq = NULL;
    world_close(&p->t.w);
    free(p);
}

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {
        {.name = "eager", .run = eager, .ranks = 2},
        {.name = "order", .run = order, .ranks = 2},
        {.name = "multi_packet", .run = multi_packet, .ranks = 2, .env = "TMDEV_MTU=256"},
        {.name = "multi_packet_delayed",
         .run = multi_packet,
         .ranks = 2,
         .env = "TMDEV_MTU=512 TMDEV_DELAY_US=2000"},
        {.name = "no_tag", .run = no_tag, .ranks = 2},
        {.name = "phases",
         .run = phases,
         .ranks = 2,
         .stderr_has = "IBV_WR_TAG_SYNC without IBV_OPS_TM_SYNC"},
        {.name = "wrap", .run = wrap, .ranks = 2, .env = "TMDEV_TM_START=65530"},
        {.name = "needs_33", .run = needs_33, .ranks = 2},
        {.name = "limits", .run = limits, .ranks = 2},
        {.name = "misuse",
         .run = misuse,
         .ranks = 2,
         .stderr_has = "bits outside mask|without length|scatter entries|handle 77 of|not in "
                       "use|being removed "
                       "already|ibv_poll_cq on "
                       "|still attached|made by ibv_create_cq_ex|max_num_tags 100000"},
        {.name = "full_while_polling",
         .run = full_while_polling,
         .ranks = 2,
         .stderr_has = "with a full operations queue"},
        {.name = "eager_overflow",
         .run = eager_overflow,
         .ranks = 2,
         .stderr_has = "a message of 65 bytes matched a listed tag"},
        {.name = "listed_key",
         .run = listed_key,
         .ranks = 2,
         .stderr_has = "still uses the region|access of a listed tag's buffer are wrong"},
        {.name = "removal", .run = removal, .ranks = 2, .stderr_has = "it raced with a message"},
        {.name = "removal_race", .run = removal_race, .ranks = 2},
        {.name = "removal_race_held",
         .run = removal_race,
         .ranks = 2,
         .env = "TMDEV_HOLD_US=300 TMDEV_DELAY_US=300"},
        {.name = "rendezvous", .run = rendezvous, .ranks = 2},
        {.name = "rendezvous_thread", .run = rendezvous, .ranks = 2, .env = "TMDEV_POLL=0"},
        {.name = "rendezvous_faults",
         .run = rendezvous,
         .ranks = 2,
         .env = "TMDEV_MTU=4096 TMDEV_DELAY_US=100 TMDEV_RNR=300"},
        {.name = "rendezvous_many", .run = rendezvous_many, .ranks = 2},
        {.name = "rendezvous_incomplete", .run = rendezvous_incomplete, .ranks = 2},
        {.name = "rendezvous_incomplete_twice",
         .run = rendezvous_incomplete,
         .ranks = 2,
         .env = "TMDEV_TM_LEFT=2"},
        {.name = "foreign_errors",
         .run = foreign_errors,
         .ranks = 2,
         .env = "TMDEV_TM_ERROR=general:2,command:3"},
        {.name = "poll_errors",
         .run = poll_errors,
         .ranks = 2,
         .env = "TMDEV_POLL_ERROR=start:2,next"},
        {.name = "blocks", .run = blocks, .ranks = 1, .env = "TMDEV_TM_BLOCKS=4 TMDEV_TM_OPS=64"},
        {.name = "wrong_qpn", .run = wrong_qpn, .ranks = 2, .env = "TMDEV_MTU=256 TMDEV_TM_QPN=1"},
        {.name = "rendezvous_bad_key",
         .run = rendezvous_bad_key,
         .ranks = 2,
         .stderr_has = "wrong key, bounds or access"},
        {.name = "rendezvous_death",
         .run = rendezvous_death,
         .ranks = 2,
         .env = "TMDEV_HOLD_READS=1",
         .is_killed = true},
        {.name = "rendezvous_send_queue",
         .run = rendezvous_send_queue,
         .ranks = 2,
         .stderr_has = "has a send queue"},
        {.name = "protocol", .run = whole_protocol, .ranks = 2},
        {.name = "protocol_held",
         .run = whole_protocol,
         .ranks = 2,
         .env = "TMDEV_HOLD_US=200 TMDEV_DELAY_US=50 TMDEV_TM_START=65000 TMDEV_SEED=7"},
        {.name = "protocol_faults",
         .run = whole_protocol,
         .ranks = 2,
         .env = "TMDEV_MTU=256 TMDEV_RNR=50 TMDEV_SEED=3"},
    };
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
