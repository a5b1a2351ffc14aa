/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs of tmdev without tag matching, between two or three processes: transfers, faults. */
#include "test_tmdev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
/* ---- messages ------------------------------------------------------------ */

static void messages(void)
{
    static const size_t sizes[] = {0, 1, 63, 4096, 65536, 65537, 1000000, 5 << 20};
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    for (size_t i = 0; i < 8; i++) {
        if (0 == test_rank) {
            memset(w.memory, 0xee, sizes[i] + 1);
            CHECK_EQUAL(post_recv(&w, qp, i, 0, 6 << 20), 0);
            test_barrier();
            completion_t c = get_ok(&w, i, IBV_WC_RECV);
            CHECK_EQUAL(c.byte_len, sizes[i]);
            CHECK_EQUAL(c.flags, 0);
            CHECK_EQUAL(c.qp_num, qp->qp_num);
            CHECK_EQUAL(c.src_qp, far.qpn);
            CHECK(is_filled(w.memory, sizes[i], (uint32_t) i) && 0xee == w.memory[sizes[i]]);
        } else {
            fill(w.memory, sizes[i], (uint32_t) i);
            test_barrier();
            CHECK_EQUAL(post_send(&w, qp, 100 + i, 0, sizes[i], IBV_SEND_SIGNALED), 0);
            get_ok(&w, 100 + i, IBV_WC_SEND);
        }
    }
    pair_close(&w, qp);
}

/* Several entries on both sides, immediate data, inline data whose buffer is used again at once. */
static void gather(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    if (0 == test_rank) {
        struct ibv_sge s[3] = {sge(&w, 0, 5), sge(&w, 100, 0), sge(&w, 200, 50)};
        struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = s, .num_sge = 3}, *bad;
        CHECK_EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
        CHECK_EQUAL(post_recv(&w, qp, 2, 1000, 64), 0);
        test_barrier();
        completion_t c = get_ok(&w, 1, IBV_WC_RECV);
        CHECK_EQUAL(c.byte_len, 30);
        CHECK_EQUAL(c.flags, IBV_WC_WITH_IMM);
        CHECK_EQUAL(c.imm, htonl(4711));
        CHECK(0 == memcmp(w.memory, "aaaaa", 5) &&
              0 == memcmp(w.memory + 200, "aaaaabbbbbbbbbbbbbbbbbbbb", 25));
        get_ok(&w, 2, IBV_WC_RECV);
        CHECK(0 == memcmp(w.memory + 1000, "inline", 6));
    } else {
        char text[] = "inline";
        memset(w.memory, 'a', 10);
        memset(w.memory + 500, 'b', 20);
        struct ibv_sge s[2] = {sge(&w, 0, 10), sge(&w, 500, 20)};
        struct ibv_sge local = {.addr = (uintptr_t) text, .length = 6};
        struct ibv_send_wr second = {.wr_id = 2,
                                     .sg_list = &local,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_SEND,
                                     .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED};
        struct ibv_send_wr first = {.wr_id = 1,
                                    .next = &second,
                                    .sg_list = s,
                                    .num_sge = 2,
                                    .opcode = IBV_WR_SEND_WITH_IMM,
                                    .imm_data = htonl(4711)},
                           *bad;
        test_barrier();
        CHECK_EQUAL(ibv_post_send(qp, &first, &bad), 0);
        memset(text, 0, sizeof(text));
        get_ok(&w, 2, IBV_WC_SEND); /* the first was not signaled */
    }
    pair_close(&w, qp);
}

/*
 * RDMA in both directions at once, with immediate data, more READs than are allowed at a time, a
 * fence.
 */
static void rdma(void)
{
    enum { PART = 300000, PARTS = 16 };
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    fill(w.memory, PART, 1 + (uint32_t) test_rank);
    CHECK_EQUAL(post_recv(&w, qp, 9, 0, 0), 0);
    test_barrier();
    for (size_t i = 0; i < PARTS; i++) {
        CHECK_EQUAL(
            post_rdma(&w, qp, IBV_WR_RDMA_READ, i, PART * (1 + i), PART, far.memory, far.rkey), 0);
    }
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_WRITE, 100, 0, PART, far.memory + 6000000, far.rkey),
                0);
    CHECK_EQUAL(
        post_rdma(&w, qp, IBV_WR_RDMA_WRITE_WITH_IMM, 101, 0, 1000, far.memory + 7000000, far.rkey),
        0);
    bool has_received = false;
    for (uint64_t next = 0; next < PARTS + 2 || !has_received;) {
        completion_t c = get(&w);
        CHECK_EQUAL(c.status, IBV_WC_SUCCESS);
        if (IBV_WC_RECV_RDMA_WITH_IMM == c.opcode) {
            has_received = true;
            CHECK_EQUAL(c.wr_id, 9);
            CHECK_EQUAL(c.byte_len, 1000);
            CHECK_EQUAL(c.imm, 0x12345678);
            /* was before it */
            CHECK(is_filled(w.memory + 6000000, PART, 2 - (uint32_t) test_rank));
            CHECK(is_filled(w.memory + 7000000, 1000, 2 - (uint32_t) test_rank));
            continue;
        }
        uint64_t expected = next < PARTS ? next : 100 + next - PARTS;
        CHECK_EQUAL(c.wr_id, expected);
        CHECK(next >= PARTS ||
              (IBV_WC_RDMA_READ == c.opcode &&
               is_filled(w.memory + PART * (1 + next), PART, 2 - (uint32_t) test_rank)));
        next++;
    }
    pair_close(&w, qp);
}

static int post_atomic(world_t *w, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t add,
                       uint64_t swap, const far_end_t *far)
{
    struct ibv_sge s = sge(w, 4096, 8);
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &s,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.atomic.remote_addr = far->memory;
    wr.wr.atomic.rkey = far->rkey;
    wr.wr.atomic.compare_add = add;
    wr.wr.atomic.swap = swap;
    return ibv_post_send(qp, &wr, &bad);
}

/* Ranks 1 and 2 add to a word of rank 0. */
static void atomics(void)
{
    world_t w;
    far_end_t far;
    struct ibv_qp *qps[2];
    uint64_t old;
    world_open(&w);
    if (0 == test_rank) {
        qps[0] = connected_qp(&w, 1, NULL, &far);
        qps[1] = connected_qp(&w, 2, NULL, &far);
        test_barrier();
        see_memory(qps[0]);
        memcpy(&old, w.memory, sizeof(old));
        CHECK_EQUAL(old, 1000);
        see_memory(qps[0]);
        test_barrier();
        test_barrier();
        CHECK_EQUAL(ibv_destroy_qp(qps[1]), 0);
    } else {
        qps[0] = connected_qp(&w, 0, NULL, &far);
        for (uint64_t i = 0; i < 500; i++) {
            CHECK_EQUAL(post_atomic(&w, qps[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, &far), 0);
            get_ok(&w, 1, IBV_WC_FETCH_ADD);
            memcpy(&old, w.memory + 4096, sizeof(old));
            CHECK(old >= i && old < 1000);
        }
        test_barrier();
        test_barrier();
        if (1 == test_rank) {
            CHECK_EQUAL(post_atomic(&w, qps[0], IBV_WR_ATOMIC_CMP_AND_SWP, 5, 6, &far), 0);
            get_ok(&w, 1, IBV_WC_COMP_SWAP);
            memcpy(&old, w.memory + 4096, sizeof(old));
            CHECK_EQUAL(old, 1000);
            CHECK_EQUAL(post_atomic(&w, qps[0], IBV_WR_ATOMIC_CMP_AND_SWP, 1000, 6, &far), 0);
            get_ok(&w, 1, IBV_WC_COMP_SWAP);
            CHECK_EQUAL(post_atomic(&w, qps[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, &far), 0);
            get_ok(&w, 1, IBV_WC_FETCH_ADD);
            memcpy(&old, w.memory + 4096, sizeof(old));
            CHECK_EQUAL(old, 6);
        }
        test_barrier();
    }
    CHECK_EQUAL(ibv_destroy_qp(qps[0]), 0);
    world_close(&w);
}

/* A process that makes no calls is read from and written to. */
static void alone(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    test_barrier();
    if (1 == test_rank) {
        CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_READ, 1, 0, 5 << 20, far.memory, far.rkey), 0);
        get_ok(&w, 1, IBV_WC_RDMA_READ);
    }
    pair_close(&w, qp); /* where rank 0 waits meanwhile */
}

/* A queue pair connected to itself. */
static void self(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 0, NULL, &far);
    fill(w.memory, 100000, 3);
    CHECK_EQUAL(post_recv(&w, qp, 1, 200000, 100000), 0);
    CHECK_EQUAL(post_send(&w, qp, 2, 0, 100000, IBV_SEND_SIGNALED), 0);
    completion_t a = get(&w), b = get(&w);
    CHECK(3 == a.wr_id + b.wr_id && IBV_WC_SUCCESS == a.status && IBV_WC_SUCCESS == b.status);
    CHECK(is_filled(w.memory + 200000, 100000, 3));
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

/* ---- receives ------------------------------------------------------------ */

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

static void not_ready(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    if (0 == test_rank) {
        test_barrier();
        usleep(100000);
        for (uint64_t i = 0; i < 20; i++) {
            CHECK_EQUAL(post_recv(&w, qp, i, 0, 64), 0);
            completion_t c = get_ok(&w, i, IBV_WC_RECV);
            CHECK_EQUAL(c.imm, 0);
            CHECK_EQUAL(w.memory[0], i);
        }
    } else {
        test_barrier();
        for (uint64_t i = 0; i < 20; i++) {
            w.memory[i] = (uint8_t) i;
            CHECK_EQUAL(post_send(&w, qp, i, i, 1, IBV_SEND_SIGNALED), 0);
        }
        for (uint64_t i = 0; i < 20; i++) {
            get_ok(&w, i, IBV_WC_SEND);
        }
    }
    pair_close(&w, qp);
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

/* ---- faults -------------------------------------------------------------- */

static void failing_calls(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    static char bytes[64];
    struct ibv_mr *mr = ibv_reg_mr(pd, bytes, 64, 0);
    CHECK(NULL != mr);
    CHECK(NULL == ibv_reg_mr(pd, bytes, 64, 0) && ENOMEM == errno);
    CHECK(NULL == ibv_reg_mr(pd, bytes, 64, 0) && ENOMEM == errno);
    CHECK_EQUAL(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_mr(pd, bytes, 64, 0);
    CHECK(NULL != mr);
    struct ibv_cq_init_attr_ex attr = {.cqe = 10, .wc_flags = IBV_WC_STANDARD_FLAGS};
    CHECK(NULL == ibv_create_cq_ex(context, &attr) && EOPNOTSUPP == errno);
    CHECK_EQUAL(ibv_dereg_mr(mr), 0);
    CHECK_EQUAL(ibv_dealloc_pd(pd), 0);
    CHECK_EQUAL(ibv_close_device(context), 0);
}

static void failing_queue_pair(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    test_barrier();
    if (1 == test_rank) {
        for (uint64_t i = 0; i < 10; i++) {
            CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_WRITE, i, 0, 8, far.memory, far.rkey), 0);
        }
        for (uint64_t i = 0; i < 5; i++) {
            get_ok(&w, i, IBV_WC_RDMA_WRITE);
        }
        get_failed(&w, 5, IBV_WC_RETRY_EXC_ERR);
        for (uint64_t i = 6; i < 10; i++) {
            get_failed(&w, i, IBV_WC_WR_FLUSH_ERR);
        }
    } else {
        get_event(&w, IBV_EVENT_QP_FATAL);
    }
    pair_close(&w, qp);
}

enum { REORDERING_MESSAGES = 200 };

static uint32_t reordering_receive(world_t *w, struct ibv_qp **qps)
{
    uint32_t next[2] = {0}, last = 0, overtaken = 0;
    for (uint64_t i = 0; i < REORDERING_MESSAGES; i++) {
        CHECK_EQUAL(post_recv(w, qps[i % 2], i % 2, i * 64, 64), 0);
    }
    test_barrier();
    for (int i = 0; i < REORDERING_MESSAGES; i++) {
        completion_t c = get(w);
        CHECK_EQUAL(c.status, IBV_WC_SUCCESS);
        CHECK_EQUAL(c.imm, next[c.wr_id] * 2 + c.wr_id);
        next[c.wr_id]++;
        overtaken += c.imm < last;
        last = c.imm;
    }
    return overtaken;
}

static void reordering_send(world_t *w, struct ibv_qp **qps)
{
    struct ibv_sge s = sge(w, 0, 8);
    test_barrier();
    for (uint32_t i = 0; i < REORDERING_MESSAGES; i++) {
        struct ibv_send_wr wr = {.wr_id = i,
                                 .sg_list = &s,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND_WITH_IMM,
                                 .imm_data = i,
                                 .send_flags = IBV_SEND_SIGNALED},
                           *bad;
        CHECK_EQUAL(ibv_post_send(qps[i % 2], &wr, &bad), 0);
    }
    for (int i = 0; i < REORDERING_MESSAGES; i++) {
        CHECK_EQUAL(get(w).status, IBV_WC_SUCCESS);
    }
}

/* Two queue pairs: each in order, together not. */
static void reordering(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qps[2];
    qps[0] = connected_qp(&w, 1 - test_rank, NULL, &far);
    qps[1] = connected_qp(&w, 1 - test_rank, NULL, &far);
    /* How many overtake in a round depends on the machine: until enough have. */
    for (uint32_t overtaken = 0; overtaken <= 3;) {
        if (0 == test_rank) {
            overtaken += reordering_receive(&w, qps);
            test_send_to(1, &overtaken, sizeof(overtaken));
        } else {
            reordering_send(&w, qps);
            test_receive_from(0, &overtaken, sizeof(overtaken));
        }
    }
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(qps[1]), 0);
    pair_close(&w, qps[0]);
}

/* ---- everything at once -------------------------------------------------- */

enum { CROWD_MESSAGES = 600, CROWD_SLOT = 20000, CROWD_RECV_AT = 4 << 20, CROWD_READ = 150000 };

/* All ranks send to all others and read from them, random sizes, one shared receive queue each. */
static void crowd(void)
{
    world_t w;
    far_end_t far[MAX_RANKS];
    struct ibv_qp *qps[MAX_RANKS] = {NULL};
    uint32_t sent[MAX_RANKS] = {0}, received[MAX_RANKS] = {0}, out[MAX_RANKS] = {0};
    uint64_t random = 88172645463325252u + (uint64_t) test_rank;
    int open = 0, receives = 0, total = CROWD_MESSAGES * (test_ranks - 1);
    world_open(&w);
    qp_options_t o = {.srq = world_srq(&w, 64)};
    for (uint64_t i = 0; i < 64; i++) {
        CHECK_EQUAL(post_srq_recv(&w, i, CROWD_RECV_AT + i * CROWD_SLOT, CROWD_SLOT), 0);
    }
    for (int i = 0; i < test_ranks; i++) {
        if (i != test_rank) {
            qps[i] = connected_qp(&w, i, &o, &far[i]);
        }
    }
    fill(w.memory + (3 << 20), CROWD_READ, 77);
    see_memory(qps[0 == test_rank ? 1 : 0]);
    test_barrier();
    for (int done = 0; done < total || receives < total || open > 0;) {
        int to = (int) (test_random(&random) % (uint64_t) test_ranks);
        completion_t c;
        if (to != test_rank && sent[to] < CROWD_MESSAGES && out[to] < 8) {
            size_t at = (size_t) (to * 8 + (int) (sent[to] % 8)) * CROWD_SLOT,
                   length = 8 + test_random(&random) % (CROWD_SLOT - 8);
            bool is_read = 0 == sent[to] % 5;
            uint32_t header[2] = {sent[to], (uint32_t) length};
            memcpy(w.memory + at, header, 8);
            fill(w.memory + at + 8, length - 8, sent[to]);
            CHECK_EQUAL(post_send(&w, qps[to], (uint64_t) to, at, length, IBV_SEND_SIGNALED), 0);
            open += 1 + is_read;
            out[to] += 1u + is_read;
            if (is_read) {
                uint64_t slot = (uint64_t) to * 8 + sent[to] % 8;
                CHECK_EQUAL(post_rdma(&w, qps[to], IBV_WR_RDMA_READ, slot << 8 | (uint64_t) to,
                                      (6 << 20) + slot * CROWD_READ, CROWD_READ,
                                      far[to].memory + (3 << 20), far[to].rkey),
                            0);
            }
            sent[to]++;
        }
        if (!try_get(&w, &c)) {
            continue;
        }
        CHECK_EQUAL(c.status, IBV_WC_SUCCESS);
        if (IBV_WC_RECV == c.opcode) {
            const uint8_t *at = w.memory + CROWD_RECV_AT + c.wr_id * CROWD_SLOT;
            int from = 0;
            uint32_t header[2];
            while (NULL == qps[from] || qps[from]->qp_num != c.qp_num) {
                from++;
            }
            memcpy(header, at, 8);
            CHECK_EQUAL(header[0], received[from]);
            CHECK_EQUAL(header[1], c.byte_len);
            CHECK(is_filled(at + 8, c.byte_len - 8, header[0]));
            received[from]++;
            receives++;
            CHECK_EQUAL(
                post_srq_recv(&w, c.wr_id, CROWD_RECV_AT + c.wr_id * CROWD_SLOT, CROWD_SLOT), 0);
        } else {
            CHECK(IBV_WC_RDMA_READ != c.opcode ||
                  is_filled(w.memory + (6 << 20) + (c.wr_id >> 8) * CROWD_READ, CROWD_READ, 77));
            done += IBV_WC_SEND == c.opcode;
            out[c.wr_id & 0xff]--;
            open--;
        }
    }
    test_barrier();
    for (int i = 0; i < test_ranks; i++) {
        CHECK(NULL == qps[i] || 0 == ibv_destroy_qp(qps[i]));
    }
    world_close(&w);
}

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {
        {.name = "messages", .run = messages, .ranks = 2},
        {.name = "messages_thread", .run = messages, .ranks = 2, .env = "TMDEV_POLL=0"},
        {.name = "messages_packets", .run = messages, .ranks = 2, .env = "TMDEV_MTU=256"},
        {.name = "gather", .run = gather, .ranks = 2},
        {.name = "rdma", .run = rdma, .ranks = 2},
        {.name = "rdma_faults",
         .run = rdma,
         .ranks = 2,
         .env = "TMDEV_MTU=4096 TMDEV_DELAY_US=20 TMDEV_RNR=500"},
        {.name = "atomics", .run = atomics, .ranks = 3},
        {.name = "alone", .run = alone, .ranks = 2},
        {.name = "self", .run = self, .ranks = 1},
        {.name = "shared_receives",
         .run = shared_receives,
         .ranks = 2,
         .stderr_has =
             "the queue of 8 is full|receives from an SRQ|2 queue pairs are still attached"},
        {.name = "not_ready", .run = not_ready, .ranks = 2},
        {.name = "never_ready", .run = never_ready, .ranks = 2},
        {.name = "failing_calls",
         .run = failing_calls,
         .ranks = 1,
         .env = "TMDEV_FAIL=mr:2-3,cq_ex"},
        {.name = "failing_queue_pair",
         .run = failing_queue_pair,
         .ranks = 2,
         .env = "TMDEV_QP_ERROR=5"},
        {.name = "reordering", .run = reordering, .ranks = 2, .env = "TMDEV_DELAY_US=5000"},
        {.name = "crowd", .run = crowd, .ranks = 3},
        {.name = "crowd_thread", .run = crowd, .ranks = 3, .env = "TMDEV_POLL=0"},
        {.name = "crowd_faults",
         .run = crowd,
         .ranks = 3,
         .env = "TMDEV_MTU=2048 TMDEV_DELAY_US=50 TMDEV_RNR=50 TMDEV_SEED=5"},
    };
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
