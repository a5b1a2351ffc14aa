/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of tmdev: what they refuse, and say so. That what they accept works is the matter of
 * the tests that use them: unit/test_verbs_*, the MPI programs, and rdma-core's own (clients.sh).
 */
#include "test_tmdev.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* ---- errors -------------------------------------------------------------- */

/* A request of rank 1 that rank 0 refuses; both queue pairs end. */
static void refused(enum ibv_wr_opcode opcode, int qp_access, int mr_access, int64_t beyond,
                    uint32_t key_error)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {.access = 0 == test_rank ? qp_access : ALL_ACCESS};
    world_open(&w);
    struct ibv_mr *mr = ibv_reg_mr(w.pd, w.memory, 4096, mr_access);
    CHECK(NULL != mr);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, &o, &far);
    if (0 == test_rank) {
        test_send(&mr->rkey, sizeof(mr->rkey));
        CHECK_EQUAL(post_recv(&w, qp, 7, 8192, 64), 0);
        test_barrier();
        get_failed(&w, 7, IBV_WC_WR_FLUSH_ERR);
        get_event(&w, IBV_EVENT_QP_ACCESS_ERR);
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        CHECK_EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
        CHECK_EQUAL(attr.qp_state, IBV_QPS_ERR);
    } else {
        uint32_t rkey;
        test_receive(&rkey, sizeof(rkey));
        test_barrier();
        CHECK_EQUAL(
            post_rdma(&w, qp, opcode, 1, 0, 100, far.memory + (uint64_t) beyond, rkey + key_error),
            0);
        get_failed(&w, 1, IBV_WC_REM_ACCESS_ERR);
    }
    test_barrier();
    CHECK_EQUAL(ibv_dereg_mr(mr), 0);
    pair_close(&w, qp);
}

static void bad_rkey(void)
{
    refused(IBV_WR_RDMA_READ, ALL_ACCESS, ALL_ACCESS, 0, 1);
}

static void bad_bounds(void)
{
    refused(IBV_WR_RDMA_WRITE, ALL_ACCESS, ALL_ACCESS, 4096 - 99, 0);
}

static void bad_access(void)
{
    refused(IBV_WR_RDMA_WRITE, ALL_ACCESS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 0);
}

static void bad_qp_access(void)
{
    refused(IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_WRITE, ALL_ACCESS, 0, 0);
}

/* A wrong lkey is found when the request is executed, and those before it are not harmed. */
static void bad_lkey(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    if (0 == test_rank) {
        CHECK_EQUAL(post_recv(&w, qp, 1, 0, 64), 0);
        test_barrier();
        get_ok(&w, 1, IBV_WC_RECV);
    } else {
        struct ibv_sge s = sge(&w, 0, 8);
        struct ibv_send_wr third = {.wr_id = 3, .opcode = IBV_WR_SEND};
        struct ibv_send_wr second = {.wr_id = 2,
                                     .next = &third,
                                     .sg_list = &s,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_SEND},
                           *bad;
        s.lkey++;
        test_barrier();
        CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, IBV_SEND_SIGNALED), 0);
        CHECK_EQUAL(ibv_post_send(qp, &second, &bad), 0);
        get_ok(&w, 1, IBV_WC_SEND);
        get_failed(&w, 2, IBV_WC_LOC_PROT_ERR);
        get_failed(&w, 3, IBV_WC_WR_FLUSH_ERR);
    }
    pair_close(&w, qp);
}

static void too_long(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    if (0 == test_rank) {
        CHECK_EQUAL(post_recv(&w, qp, 1, 0, 63), 0);
        test_barrier();
        get_failed(&w, 1, IBV_WC_LOC_LEN_ERR);
        get_event(&w, IBV_EVENT_QP_REQ_ERR);
    } else {
        test_barrier();
        CHECK_EQUAL(post_send(&w, qp, 1, 0, 64, 0), 0);
        get_failed(&w, 1, IBV_WC_REM_INV_REQ_ERR);
    }
    pair_close(&w, qp);
}

static void max_message(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 0, NULL, &far);
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_READ, 1, 0, 8193, far.memory + 100000, far.rkey), 0);
    get_failed(&w, 1, IBV_WC_LOC_LEN_ERR);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

/*
 * Nobody answers: an unknown queue pair, one that expects another packet number, one that is gone.
 */
static void no_answer(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {.psn_error = 0 == test_rank ? 1 : 0};
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, &o, &far);
    if (1 == test_rank) {
        double start = test_now();
        CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), 0);
        get_failed(&w, 1, IBV_WC_RETRY_EXC_ERR);
        CHECK(test_now() - start > 0.02); /* it was tried again */
        o.timeout = 8;
        struct ibv_qp *lost = world_qp(&w, &o);
        far.qpn += 100;
        CHECK_EQUAL(to_init(lost, ALL_ACCESS) + to_rtr(lost, &far, &o) + to_rts(lost, &o), 0);
        CHECK_EQUAL(post_send(&w, lost, 2, 0, 8, 0), 0);
        get_failed(&w, 2, IBV_WC_RETRY_EXC_ERR);
        CHECK_EQUAL(ibv_destroy_qp(lost), 0);
    }
    pair_close(&w, qp);
}

/* ---- states and limits --------------------------------------------------- */

static void states(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {0};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    world_open(&w);
    struct ibv_qp *qp = world_qp(&w, &o);
    exchange(&w, qp, 0, &far);
    CHECK_EQUAL(post_recv(&w, qp, 1, 0, 8), EINVAL);
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), EINVAL);
    CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    CHECK_EQUAL(to_rtr(qp, &far, &o), EINVAL);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    CHECK_EQUAL(to_init(qp, ALL_ACCESS), 0);
    CHECK_EQUAL(post_recv(&w, qp, 1, 0, 8), 0);
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), EINVAL);
    CHECK_EQUAL(to_rtr(qp, &far, &o), 0);
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), EINVAL);
    CHECK_EQUAL(to_rts(qp, &o), 0);
    CHECK_EQUAL(to_rts(qp, &o), EINVAL);
    attr.qp_state = IBV_QPS_ERR;
    CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    get_failed(&w, 1, IBV_WC_WR_FLUSH_ERR);
    CHECK_EQUAL(post_recv(&w, qp, 2, 0, 8), 0);
    get_failed(&w, 2, IBV_WC_WR_FLUSH_ERR);
    attr.qp_state = IBV_QPS_RESET;
    CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    CHECK_EQUAL(to_init(qp, ALL_ACCESS), 0); /* and it works again */
    CHECK_EQUAL(to_rtr(qp, &far, &o), 0);
    CHECK_EQUAL(to_rts(qp, &o), 0);
    CHECK_EQUAL(post_recv(&w, qp, 3, 0, 8), 0);
    CHECK_EQUAL(post_send(&w, qp, 4, 0, 8, 0), 0);
    get_ok(&w, 3, IBV_WC_RECV);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

static void limits(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {.cap = {.max_send_wr = 4,
                              .max_send_sge = 1,
                              .max_recv_wr = 2,
                              .max_recv_sge = 1,
                              .max_inline_data = 10}};
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 0, &o, &far);
    struct ibv_sge s[2] = {sge(&w, 0, 8), sge(&w, 0, 8)};
    struct ibv_send_wr wr = {.sg_list = s, .num_sge = 2, .opcode = IBV_WR_SEND}, *bad;
    CHECK_EQUAL(ibv_post_send(qp, &wr, &bad), EINVAL);
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 13, IBV_SEND_INLINE), EINVAL); /* 12 were granted */
    CHECK_EQUAL(post_recv(&w, qp, 1, 0, 8) + post_recv(&w, qp, 2, 0, 8), 0);
    CHECK_EQUAL(post_recv(&w, qp, 3, 0, 8), ENOMEM);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_WRITE, i, 0, 8, far.memory + 64, far.rkey), 0);
    }
    usleep(50000); /* all are done, but nobody looked */
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_WRITE, 9, 0, 8, far.memory + 64, far.rkey), ENOMEM);
    get_ok(&w, 0, IBV_WC_RDMA_WRITE);
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_WRITE, 9, 0, 8, far.memory + 64, far.rkey), 0);
    CHECK_EQUAL(ibv_dealloc_pd(w.pd), EBUSY);
    CHECK_EQUAL(ibv_destroy_cq(w.cq), EBUSY);
    CHECK_EQUAL(ibv_close_device(w.context), EBUSY);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    struct ibv_qp_init_attr init = {.send_cq = w.cq,
                                    .recv_cq = w.cq,
                                    .cap = {.max_send_wr = 1, .max_inline_data = 5000},
                                    .qp_type = IBV_QPT_RC};
    CHECK(NULL == ibv_create_qp(w.pd, &init) && EINVAL == errno);
    init.qp_type = IBV_QPT_UD;
    CHECK(NULL == ibv_create_qp(w.pd, &init) && EOPNOTSUPP == errno);
    world_close(&w);
}

/* A queue pair that was made for some operations takes no others. */
static void operations(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {0};
    world_open(&w);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = w.cq,
        .recv_cq = w.cq,
        .cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = w.pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ};
    struct ibv_qp *qp = ibv_create_qp_ex(w.context, &init);
    CHECK(NULL != qp);
    world_connect(&w, qp, 0, &o, &far);
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), EINVAL);
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_READ, 2, 0, 8, far.memory + 64, far.rkey), 0);
    get_ok(&w, 2, IBV_WC_RDMA_READ);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

static void *poll_besides(void *cq)
{
    struct ibv_wc wc;
    CHECK_EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
    return NULL;
}

/* Queues that are used in one thread at a time, with memory of the plain protection domain. */
static void thread_domain(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {0};
    world_open(&w);
    struct ibv_td_init_attr none = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = w.pd};
    parent.td = ibv_alloc_td(w.context, &none);
    CHECK(NULL != parent.td);
    struct ibv_pd *pd = ibv_alloc_parent_domain(w.context, &parent);
    CHECK(NULL != pd);
    struct ibv_cq_init_attr_ex single = {.cqe = 4,
                                         .wc_flags = IBV_WC_STANDARD_FLAGS,
                                         .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                         .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(w.context, &single);
    CHECK(NULL != cq);
    struct ibv_qp_init_attr init = {
        .send_cq = ibv_cq_ex_to_cq(cq),
        .recv_cq = ibv_cq_ex_to_cq(cq),
        .cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(NULL != qp);
    world_connect(&w, qp, 0, &o, &far);
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_READ, 2, 0, 8, far.memory + 64, far.rkey), 0);
    struct ibv_poll_cq_attr attr = {0};
    while (ENOENT == ibv_start_poll(cq, &attr)) {
        usleep(1000);
    }
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, poll_besides, ibv_cq_ex_to_cq(cq)), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    ibv_end_poll(cq);
    CHECK_EQUAL(ibv_dealloc_pd(pd), EBUSY);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    CHECK_EQUAL(ibv_dealloc_td(parent.td), EBUSY);
    CHECK_EQUAL(ibv_dealloc_pd(pd), 0);
    CHECK_EQUAL(ibv_dealloc_td(parent.td), 0);
    CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    world_close(&w);
}

static void memory(void)
{
    world_t w;
    world_open(&w);
    uint8_t *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);
    munmap(hole + 4096, 4096);
    CHECK(NULL == ibv_reg_mr(w.pd, hole, 3 * 4096, 0) && EFAULT == errno);
    CHECK_EQUAL(mprotect(hole, 4096, PROT_READ), 0);
    CHECK(NULL == ibv_reg_mr(w.pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE) && EFAULT == errno);
    struct ibv_mr *mr = ibv_reg_mr(w.pd, hole + 10, 100, IBV_ACCESS_REMOTE_READ);
    CHECK(NULL != mr);
    CHECK_EQUAL(ibv_dereg_mr(mr), 0);
    CHECK(NULL == ibv_reg_mr(w.pd, hole, 10, IBV_ACCESS_REMOTE_WRITE) && EINVAL == errno);
    struct ibv_mr *mrs[1000];
    for (int i = 0; i < 1000; i++) {
        mrs[i] = ibv_reg_mr(w.pd, w.memory, 10, 0);
        CHECK(NULL != mrs[i] && (0 == i || mrs[i]->lkey != mrs[i - 1]->lkey));
    }
    for (int i = 0; i < 1000; i++) {
        CHECK_EQUAL(ibv_dereg_mr(mrs[i]), 0);
    }
    world_close(&w);
}

/* Of a shared receive queue: its size, its limit, and who may post where. */
static void shared_receives(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {0};
    world_open(&w);
    o.srq = 0 == test_rank ? world_srq(&w, 8) : NULL;
    struct ibv_qp *a = connected_qp(&w, 1 - test_rank, &o, &far),
                  *b = connected_qp(&w, 1 - test_rank, &o, &far);
    if (0 == test_rank) {
        struct ibv_srq_attr attr = {.srq_limit = 5};
        for (uint64_t i = 0; i < 8; i++) {
            CHECK_EQUAL(post_srq_recv(&w, i, i * 64, 64), 0);
        }
        CHECK_EQUAL(post_srq_recv(&w, 8, 0, 64), ENOMEM);
        CHECK_EQUAL(post_recv(&w, a, 1, 0, 64), EINVAL);
        CHECK_EQUAL(ibv_modify_srq(w.srq, &attr, IBV_SRQ_LIMIT), 0);
        CHECK_EQUAL(ibv_query_srq(w.srq, &attr), 0);
        CHECK(5 == attr.srq_limit && 8 == attr.max_wr);
        CHECK_EQUAL(ibv_destroy_srq(w.srq), EBUSY);
        test_barrier();
        for (uint64_t i = 0; i < 4; i++) {
            /* in order of posting, whatever the queue pair */
            completion_t c = get_ok(&w, i, IBV_WC_RECV);
            CHECK(c.qp_num == a->qp_num || c.qp_num == b->qp_num);
        }
        struct ibv_async_event event = get_event(&w, IBV_EVENT_SRQ_LIMIT_REACHED);
        CHECK(event.element.srq == w.srq);
        CHECK_EQUAL(ibv_query_srq(w.srq, &attr), 0);
        CHECK_EQUAL(attr.srq_limit, 0);
        for (uint64_t i = 0; i < 4; i++) { /* room again, because of the polling */
            CHECK_EQUAL(post_srq_recv(&w, i, i * 64, 64), 0);
        }
    } else {
        test_barrier();
        for (uint64_t i = 0; i < 4; i++) {
            CHECK_EQUAL(post_send(&w, 0 == i % 2 ? a : b, i, 0, 32, IBV_SEND_SIGNALED), 0);
            get_ok(&w, i, IBV_WC_SEND);
        }
    }
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(b), 0);
    pair_close(&w, a);
}

static void never_ready(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {.rnr_retry = 2};
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, &o, &far);
    if (1 == test_rank) {
        CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), 0);
        CHECK_EQUAL(post_send(&w, qp, 2, 0, 8, 0), 0);
        get_failed(&w, 1, IBV_WC_RNR_RETRY_EXC_ERR); /* though not signaled */
        get_failed(&w, 2, IBV_WC_WR_FLUSH_ERR);
        CHECK_EQUAL(post_send(&w, qp, 3, 0, 8, 0), 0); /* allowed, and flushed */
        get_failed(&w, 3, IBV_WC_WR_FLUSH_ERR);
    }
    pair_close(&w, qp);
}

/* ---- completion queues --------------------------------------------------- */

static void overrun(void)
{
    world_t w;
    far_end_t far;
    struct ibv_wc wc[8];
    world_open(&w);
    struct ibv_cq *small = ibv_create_cq(w.context, 2, NULL, NULL, 0), *own = w.cq;
    w.cq = small;
    struct ibv_qp *qp = connected_qp(&w, 0, &(qp_options_t){0}, &far);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_WRITE, i, 0, 8, far.memory + 64, far.rkey), 0);
    }
    struct ibv_async_event event = get_event(&w, IBV_EVENT_CQ_ERR);
    CHECK(event.element.cq == small);
    CHECK_EQUAL(ibv_poll_cq(small, 8, wc), 2);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    CHECK_EQUAL(ibv_destroy_cq(small), 0);
    w.cq = own;
    world_close(&w);
}

/* ---- the port ------------------------------------------------------------ */

static void ethernet(void)
{
    world_t w;
    far_end_t far;
    struct ibv_gid_entry entries[8];
    qp_options_t o = {0};
    world_open(&w);
    CHECK_EQUAL(ibv_query_gid_table(w.context, entries, 8, 0), 4);
    CHECK(IBV_GID_TYPE_ROCE_V1 == entries[0].gid_type &&
          IBV_GID_TYPE_ROCE_V2 == entries[3].gid_type);
    struct ibv_qp *qp = world_qp(&w, &o);
    CHECK_EQUAL(to_init(qp, ALL_ACCESS), 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = qp->qp_num,
                               .ah_attr = {.port_num = 1}};
    CHECK_EQUAL(ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                EINVAL);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    qp = connected_qp(&w, 1 - test_rank, &o, &far);
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_READ, 1, 0, 5000, far.memory + 8192, far.rkey), 0);
    get_ok(&w, 1, IBV_WC_RDMA_READ);
    pair_close(&w, qp);
}

/* Requests to a port that is not there. */
static void wrong_port(void)
{
    world_t w;
    far_end_t far;
    qp_options_t o = {.timeout = 8};
    world_open(&w);
    struct ibv_qp *qp = world_qp(&w, &o);
    exchange(&w, qp, 0, &far);
    far.lid = 77;
    CHECK_EQUAL(to_init(qp, ALL_ACCESS) + to_rtr(qp, &far, &o) + to_rts(qp, &o), 0);
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, 0), 0);
    get_failed(&w, 1, IBV_WC_RETRY_EXC_ERR);
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {
        {.name = "bad_rkey",
         .run = bad_rkey,
         .ranks = 2,
         .stderr_has = "wrong key, bounds or access"},
        {.name = "bad_bounds",
         .run = bad_bounds,
         .ranks = 2,
         .stderr_has = "wrong key, bounds or access"},
        {.name = "bad_access",
         .run = bad_access,
         .ranks = 2,
         .stderr_has = "wrong key, bounds or access"},
        {.name = "bad_qp_access",
         .run = bad_qp_access,
         .ranks = 2,
         .stderr_has = "qp_access_flags (0x2) do not allow"},
        {.name = "bad_lkey",
         .run = bad_lkey,
         .ranks = 2,
         .stderr_has = "access of a gather entry are wrong"},
        {.name = "too_long",
         .run = too_long,
         .ranks = 2,
         .stderr_has = "a message of 64 bytes for a receive of 63"},
        {.name = "max_message",
         .run = max_message,
         .ranks = 1,
         .env = "TMDEV_MAX_MSG=8192",
         .stderr_has = "max_msg_sz is 8192"},
        {.name = "no_answer", .run = no_answer, .ranks = 2, .stderr_has = "expected are QP"},
        {.name = "states",
         .run = states,
         .ranks = 1,
         .stderr_has = "ibv_post_recv in state RESET|ibv_post_send in state RESET|no way from "
                       "RESET to RTS|no way from RESET to RTR|"
                       "attributes missing|ibv_post_send in state INIT|ibv_post_send in state "
                       "RTR|RTS to RTS"},
        {.name = "limits",
         .run = limits,
         .ranks = 1,
         .stderr_has = "2 gather entries|13 bytes inline|the queue of 2 is "
                       "full|ibv_dealloc_pd|ibv_destroy_cq|ibv_close_device|inline 5000"},
        {.name = "shared_receives",
         .run = shared_receives,
         .ranks = 2,
         .stderr_has =
             "the queue of 8 is full|receives from an SRQ|2 queue pairs are still attached"},
        {.name = "never_ready", .run = never_ready, .ranks = 2},
        {.name = "operations",
         .run = operations,
         .ranks = 1,
         .stderr_has = "not in the send_ops_flags"},
        {.name = "thread_domain",
         .run = thread_domain,
         .ranks = 1,
         .stderr_has = "in two threads at once|ibv_dealloc_pd|ibv_dealloc_td"},
        {.name = "memory",
         .run = memory,
         .ranks = 1,
         .stderr_has = "without IBV_ACCESS_LOCAL_WRITE"},
        {.name = "overrun", .run = overrun, .ranks = 1, .stderr_has = "completion queue overrun"},
        {.name = "ethernet",
         .run = ethernet,
         .ranks = 2,
         .env = "TMDEV_LINK=eth",
         .stderr_has = "needs is_global"},
        {.name = "wrong_port", .run = wrong_port, .ranks = 1, .stderr_has = "by way of port 77"},
    };
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
