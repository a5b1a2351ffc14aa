/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag matching of tmdev: rendezvous, and what drivers make of the interface. See test_tm.h. */
#include "test_tm.h"

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
/* ---- rendezvous ---------------------------------------------------------- */

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
            tm_add_ok(&t, tag, 0xff, 4096, 4 << 20);
            test_barrier();
            if (3 == i) {
                test_barrier(); /* nobody polls: the device works alone until the FIN is there */
            }
            completion_t c = tm_get_match(&t, 4096, IBV_WC_TM_MATCH);
            CHECK_EQUAL(c.tm.tag, tag);
            CHECK_EQUAL(c.tm.priv, tag + 7);
            c = tm_get_match(&t, 4096, IBV_WC_TM_DATA_VALID);
            CHECK_EQUAL(c.byte_len, lengths[i]);
            CHECK_EQUAL(c.tm.tag, 0);
            CHECK(is_filled(t.w.memory + 4096, lengths[i], (uint32_t) tag));
        } else {
            fill(t.w.memory + 8192, lengths[i], (uint32_t) tag);
            test_barrier();
            tm_send_rts(&t, tag, 8192, lengths[i], t.w.mr->rkey);
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

static void rendezvous_incomplete(void)
{
    side_t t;
    tm_open(&t, 4, 8);
    if (0 == test_rank) {
        tm_add_ok(&t, 1, 0xff, 0, 100);
        test_barrier();
        bool is_twice = NULL != getenv("TMDEV_TM_LEFT");
        completion_t c = get(&t.w);
        CHECK_EQUAL(c.status, IBV_WC_TM_RNDV_INCOMPLETE);
        CHECK_EQUAL(c.wr_id, 0);
        CHECK_EQUAL(c.flags, IBV_WC_TM_MATCH | (is_twice ? 0u : IBV_WC_TM_DATA_VALID));
        CHECK_EQUAL(c.tm.tag, 1);
        if (is_twice) {
            c = tm_get_match(&t, 0, IBV_WC_TM_DATA_VALID);
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
        tm_send_rts(&t, 1, 4096, 101, t.w.mr->rkey);
        get_ok(&t.w, 1, IBV_WC_SEND);
        tm_send_rts(&t, 2, 4096, 101, t.w.mr->rkey);
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
        tm_add_ok(&t, 1, 0xff, 4096, 100);
        test_barrier();
        tm_get_match(&t, 4096, IBV_WC_TM_MATCH);
        get_failed(&t.w, 4096, IBV_WC_TM_RNDV_INCOMPLETE);
        get_event(&t.w, IBV_EVENT_QP_FATAL);
        get_event(&t.w, IBV_EVENT_QP_LAST_WQE_REACHED);
    } else {
        test_barrier();
        tm_send_rts(&t, 1, 4096, 100, t.w.mr->rkey + 1);
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
        tm_add_ok(&t, 1, 0xff, 4096, 4 << 20);
        pid_t peer;
        test_barrier();
        test_receive_from(1, &peer, sizeof(peer));
        tm_get_match(&t, 4096, IBV_WC_TM_MATCH);
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
        tm_send_rts(&t, 1, 4096, 4 << 20, t.w.mr->rkey); /* its READ is never answered */
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

/* ---- what drivers make of it --------------------------------------------- */

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
            tm_send_ok(&t, IBV_TMH_EAGER, i, 8);
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
        tm_add_ok(&t, 1, (uint64_t) FULL_MASK, 0, 65536);
        test_barrier();
        CHECK_EQUAL(tm_get_match(&t, 0, IBV_WC_TM_MATCH).qp_num, other->qp_num);
        CHECK_EQUAL(tm_get_match(&t, 0, IBV_WC_TM_DATA_VALID).qp_num, t.qp->qp_num);
    } else {
        test_barrier();
        tm_send_ok(&t, IBV_TMH_EAGER, 1, 5000);
    }
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(other), 0);
    tm_close(&t);
}

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {
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
    };
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
