/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching of tmdev: phases, limits, and what is misuse of the list. That it
 * matches as MPI wants it show mpi/tm and all MPI programs over it, with lists of 4 and 1024.
 */
#include "test_tmdev.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
/* ---- rank 0 has the TM-SRQ, rank 1 sends ---------------------------------- */

/* Memory of rank 0: receives of the SRQ at SRQ_AT, SLOT bytes each; tagged buffers at 0. */
enum { SLOT = 8192, SRQ_AT = 8 << 20, SRQ_SIZE = 64, TMH = sizeof(struct ibv_tmh), FULL_MASK = -1 };

typedef struct side {
    world_t w;
    struct ibv_qp *qp;
    far_end_t far;
    uint32_t handle; /* of the last tm_add() */
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

static int tm_op(side_t *t, enum ibv_ops_wr_opcode opcode, int flags, uint64_t wr_id)
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

static int tm_add(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length, int flags)
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

static void tm_add_ok(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length)
{
    CHECK_EQUAL(tm_add(t, tag, mask, offset, length, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC), 0);
    completion_t c = get_ok(&t->w, 1000 + offset, IBV_WC_TM_ADD);
    CHECK_EQUAL(c.flags, 0);
    CHECK_EQUAL(c.tm.tag, 0);
}

/* Send a message with header; the payload is filled with tag as seed. */
static void tm_send(side_t *t, int opcode, uint64_t tag, size_t payload)
{
    struct ibv_tmh tmh = {
        .opcode = (uint8_t) opcode, .app_ctx = htobe32((uint32_t) tag + 7), .tag = htobe64(tag)};
    memcpy(t->w.memory, &tmh, sizeof(tmh));
    fill(t->w.memory + TMH, payload, (uint32_t) tag);
    struct ibv_sge s = sge(&t->w, 0, TMH + payload);
    struct ibv_send_wr wr = {.wr_id = tag,
                             .sg_list = &s,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    CHECK_EQUAL(ibv_post_send(t->qp, &wr, &bad), 0);
}

static void tm_send_ok(side_t *t, int opcode, uint64_t tag, size_t payload)
{
    tm_send(t, opcode, tag, payload);
    get_ok(&t->w, tag, IBV_WC_SEND);
}

static void tm_send_rts(side_t *t, uint64_t tag, size_t offset, size_t length, uint32_t rkey)
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

static completion_t tm_get_match(side_t *t, uint64_t wr_id, unsigned int flags)
{
    completion_t c = get_ok(&t->w, wr_id, IBV_WC_TM_RECV);
    CHECK_EQUAL(c.flags & ~(unsigned int) IBV_WC_WITH_IMM, flags);
    return c;
}

static void tm_get_unexpected(side_t *t, int opcode, uint64_t wr_id, uint64_t tag, size_t payload)
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

/* ---- phases -------------------------------------------------------------- */

static void phases(void)
{
    side_t t;
    tm_open(&t, 16, 16);
    if (0 == test_rank) {
        /* active before the unexpected message, and after */
        tm_add_ok(&t, 50, (uint64_t) FULL_MASK, 4096, 64);
        test_barrier();
        tm_get_unexpected(&t, IBV_WC_TM_RECV, 0, 1, 8);
        /* Stale: not active, and said so. */
        CHECK_EQUAL(tm_add(&t, 2, (uint64_t) FULL_MASK, 0, 64, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC),
                    0);
        completion_t c = get_ok(&t.w, 1000, IBV_WC_TM_ADD);
        CHECK_EQUAL(c.flags, IBV_WC_TM_SYNC_REQ);
        test_barrier();
        tm_get_unexpected(&t, IBV_WC_TM_RECV, 1, 2, 8);
        tm_get_match(&t, 4096, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        t.count = 1;
        /* of two */
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 77), 0);
        c = get_ok(&t.w, 77, IBV_WC_TM_SYNC);
        CHECK_EQUAL(c.flags, 0);
        test_barrier();
        tm_get_unexpected(&t, IBV_WC_TM_RECV, 2, 2, 8);
        t.count = 3;
        /* without the flag: nothing happens */
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED, 78), 0);
        get_ok(&t.w, 78, IBV_WC_TM_SYNC);
        test_barrier();
        tm_get_unexpected(&t, IBV_WC_TM_RECV, 3, 2, 8);
        t.count = 4;
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC, 79), 0);
        get_ok(&t.w, 79, IBV_WC_TM_SYNC);
        test_barrier();
        tm_get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
    } else {
        test_barrier();
        tm_send_ok(&t, IBV_TMH_EAGER, 1, 8);
        test_barrier();
        tm_send_ok(&t, IBV_TMH_EAGER, 2, 8);
        tm_send_ok(&t, IBV_TMH_EAGER, 50, 8);
        for (int i = 0; i < 3; i++) {
            test_barrier();
            tm_send_ok(&t, IBV_TMH_EAGER, 2, 8);
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

/* ---- limits and misuse --------------------------------------------------- */

static void limits(void)
{
    side_t t;
    tm_open(&t, 3, 5);
    if (0 == test_rank) {
        uint32_t handles[3];
        for (int i = 0; i < 3; i++) {
            CHECK_EQUAL(tm_add(&t, (uint64_t) i, 0xff, (size_t) i * 64, 64, 0), 0);
            handles[i] = t.handle;
        }
        CHECK_EQUAL(tm_add(&t, 9, 0xff, 256, 64, 0), ENOMEM); /* the list */
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), 0);
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED, 2), 0);
        /* operations: the completion was not polled */
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 3), ENOMEM);
        get_ok(&t.w, 2, IBV_WC_TM_SYNC);
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 3), 0);
        t.handle = handles[1];
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 4), 0);
        CHECK_EQUAL(tm_add(&t, 9, 0xff, 256, 64, 0), ENOMEM); /* the handle is in use until then */
        get_ok(&t.w, 4, IBV_WC_TM_DEL);
        CHECK_EQUAL(tm_add(&t, 9, 0xff, 256, 64, 0), 0);
        CHECK_EQUAL(t.handle, handles[1]);
        test_barrier();
        tm_get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        tm_get_match(&t, 256, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        tm_get_unexpected(&t, IBV_WC_TM_RECV, 0, 1, 8);
    } else {
        test_barrier();
        tm_send_ok(&t, IBV_TMH_EAGER, 0, 8);
        tm_send_ok(&t, IBV_TMH_EAGER, 9, 8);
        tm_send_ok(&t, IBV_TMH_EAGER, 1, 8); /* was removed */
    }
    tm_close(&t);
}

static void misuse(void)
{
    side_t t;
    struct ibv_wc wc;
    tm_open(&t, 4, 4);
    if (0 == test_rank) {
        CHECK_EQUAL(tm_add(&t, 0x1ff, 0xff, 0, 64, 0), EINVAL);
        CHECK_EQUAL(tm_add(&t, 1, 0xff, 0, 0, 0), EINVAL);
        struct ibv_sge two[2] = {sge(&t.w, 0, 8), sge(&t.w, 8, 8)};
        struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD, .tm.add = {.sg_list = two, .num_sge = 2}},
                          *bad;
        CHECK_EQUAL(ibv_post_srq_ops(t.w.srq, &wr, &bad), EINVAL);
        t.handle = 77;
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, 0, 1), EINVAL);
        t.handle = 2;
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, 0, 1), EINVAL);
        tm_add_ok(&t, 1, 0xff, 0, 64);
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 1), 0);
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 1), EINVAL);
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
                tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC | (2 == i ? IBV_OPS_SIGNALED : 0), 1),
                0);
        }
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), ENOMEM);
        CHECK_EQUAL(ibv_start_poll(t.w.cq_ex, &attr), 0);
        for (int i = 0; i < 3; i++) { /* what was polled is free */
            CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), 0);
        }
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 1), EDEADLK);
        ibv_end_poll(t.w.cq_ex);
    }
    tm_close(&t);
}

static void eager_overflow(void)
{
    side_t t;
    tm_open(&t, 4, 4);
    if (0 == test_rank) {
        tm_add_ok(&t, 1, 0xff, 0, 64);
        test_barrier();
        completion_t c = get(&t.w);
        CHECK_EQUAL(c.status, IBV_WC_LOC_LEN_ERR);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
        get_event(&t.w, IBV_EVENT_QP_LAST_WQE_REACHED);
    } else {
        test_barrier();
        tm_send(&t, IBV_TMH_EAGER, 1, 65);
        get_failed(&t.w, 1, IBV_WC_REM_INV_REQ_ERR);
        for (int i = 0; i < 200; i++) {
            get_failed(&t.w, 5000, IBV_WC_WR_FLUSH_ERR);
        }
    }
    tm_close(&t);
}

/* ---- removal ------------------------------------------------------------- */

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
        tm_add_ok(&t, 1, 0xff, 0, 64);
        t.w.mr = own;
        CHECK_EQUAL(ibv_dereg_mr(mr), 0);
        test_barrier();
        CHECK_EQUAL(get(&t.w).status, IBV_WC_LOC_PROT_ERR);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
    } else {
        test_barrier();
        tm_send(&t, IBV_TMH_EAGER, 1, 8);
        get_failed(&t.w, 1, IBV_WC_REM_OP_ERR);
    }
    tm_close(&t);
}

static void removal(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        tm_add_ok(&t, 1, 0xff, 0, 64);
        test_barrier();
        test_barrier(); /* the message was sent and acknowledged: it matched */
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 5), 0);
        tm_get_match(&t, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
        get_failed(&t.w, 5, IBV_WC_TM_ERR);
        /* Unsignaled, too late: the library does not know whose completion that is. */
        tm_add_ok(&t, 1, 0xff, 0, 64);
        test_barrier();
        test_barrier();
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, 0, 5), 0);
        get_failed(&t.w, 0, IBV_WC_GENERAL_ERR);
        /* Unsignaled in good time. */
        CHECK_EQUAL(tm_add(&t, 1, 0xff, 128, 64, 0), 0);
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, 0, 5), 0);
        test_barrier();
        tm_get_unexpected(&t, IBV_WC_TM_RECV, 0, 1, 8);
    } else {
        for (int i = 0; i < 2; i++) {
            test_barrier();
            tm_send_ok(&t, IBV_TMH_EAGER, 1, 8);
            test_barrier();
        }
        test_barrier();
        tm_send_ok(&t, IBV_TMH_EAGER, 1, 8);
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
            tm_send(&t, IBV_TMH_EAGER, 1, 8);
            get_ok(&t.w, 1, IBV_WC_SEND);
            if (1 == i % 4) {
                test_barrier(); /* the message is there */
            }
            test_barrier();
            continue;
        }
        bool is_deleted = false, is_matched = false, has_message = false;
        CHECK_EQUAL(tm_add(&t, 1, 0xff, 0, 64, IBV_OPS_TM_SYNC), 0);
        if (1 == i % 4) {
            CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED, 6), 0);
            get_ok(&t.w, 6, IBV_WC_TM_SYNC);
            test_barrier();
            test_barrier();
        } else if (2 == i % 4) {
            usleep((useconds_t) (i % 40) * 10);
        }
        CHECK_EQUAL(tm_op(&t, IBV_WR_TAG_DEL, IBV_OPS_SIGNALED, 5), 0);
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

/* ---- rendezvous ---------------------------------------------------------- */

/* Many at a time: the device reads max_rd_atomic of them at once. */
static void rendezvous_many(void)
{
    side_t t;
    tm_open(&t, 64, 128);
    if (0 == test_rank) {
        for (size_t i = 0; i < 50; i++) {
            tm_add_ok(&t, i, 0xff, i << 16, 1 << 16);
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
            tm_send_rts(&t, i, (i << 16) + 65536, 50000, t.w.mr->rkey);
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
        tm_add_ok(&t, 1, 0xff, 0, 100);
        test_barrier();
        completion_t c = get(&t.w);
        CHECK_EQUAL(c.status, IBV_WC_LOC_QP_OP_ERR);
    } else {
        test_barrier();
        tm_send_rts(&t, 1, 4096, 10, w.mr->rkey);
        get_failed(&t.w, 1, IBV_WC_REM_OP_ERR);
    }
    tm_close(&t);
}

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {
        {.name = "phases",
         .run = phases,
         .ranks = 2,
         .stderr_has = "IBV_WR_TAG_SYNC without IBV_OPS_TM_SYNC"},
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
        {.name = "rendezvous_many", .run = rendezvous_many, .ranks = 2},
        {.name = "rendezvous_send_queue",
         .run = rendezvous_send_queue,
         .ranks = 2,
         .stderr_has = "has a send queue"},
    };
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
