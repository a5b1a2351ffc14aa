/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs of tmdev without tag matching, between two or three processes. */
#include "test_tmdev.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * What other processes did to this one's memory, or will read there, is ordered with this one's
 * accesses by the device, and that by its lock: for the thread sanitizer, which sees no other
 * process.
 */
static void see_memory(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK_EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
}

static void pair_close(world_t *w, struct ibv_qp *qp)
{
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(w);
}

/*
 * ---- messages
 * ----------------------------------------------------------------------------------------------------------------
 */

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

/*
 * ---- receives
 * ----------------------------------------------------------------------------------------------------------------
 */

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

/*
 * ---- errors
 * ------------------------------------------------------------------------------------------------------------------
 */

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
        test_send_to(1, &mr->rkey, sizeof(mr->rkey));
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
        test_receive_from(0, &rkey, sizeof(rkey));
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

/* All threads of a process have stopped: SIGSTOP takes its time. */
static void wait_stopped(pid_t pid)
{
    char path[300], text[500];
    for (bool is_stopped = false; !is_stopped; sched_yield()) {
        snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
        DIR *tasks = opendir(path);
        struct dirent *task;
        CHECK(NULL != tasks);
        is_stopped = true;
        while (NULL != (task = readdir(tasks))) {
            snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int) pid, task->d_name);
            FILE *file = '.' == task->d_name[0] ? NULL : fopen(path, "r");
            if (NULL != file) {
                is_stopped = is_stopped && NULL != fgets(text, sizeof(text), file) &&
                             NULL != strstr(text, ") T ");
                fclose(file);
            }
        }
        closedir(tasks);
    }
}

static void death(void)
{
    world_t w;
    far_end_t far;
    world_open(&w);
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    if (1 == test_rank) {
        pid_t self = getpid();
        CHECK_EQUAL(post_recv(&w, qp, 1, 0, 64), 0);
        test_send_to(0, &self, sizeof(self));
        get_ok(&w, 1, IBV_WC_RECV);
        pid_t child = fork();
        if (0 == child) { /* must not keep the parent's connections */
            alarm(test_time_limit());
            pause();
        }
        test_send_to(0, &child, sizeof(child));
        pause();
    }
    pid_t peer, child;
    test_receive_from(1, &peer, sizeof(peer));
    CHECK_EQUAL(post_send(&w, qp, 1, 0, 8, IBV_SEND_SIGNALED), 0);
    get_ok(&w, 1, IBV_WC_SEND);
    test_receive_from(1, &child, sizeof(child));
    CHECK_EQUAL(kill(peer, SIGSTOP), 0);
    wait_stopped(peer);
    CHECK_EQUAL(post_rdma(&w, qp, IBV_WR_RDMA_READ, 2, 0, 1 << 20, far.memory, far.rkey), 0);
    CHECK_EQUAL(post_send(&w, qp, 3, 0, 8, 0), 0);
    get_none(&w, 300); /* slow is not dead */
    CHECK_EQUAL(kill(peer, SIGKILL), 0);
    get_failed(&w, 2, IBV_WC_RETRY_EXC_ERR);
    get_failed(&w, 3, IBV_WC_WR_FLUSH_ERR);
    CHECK_EQUAL(kill(child, SIGKILL), 0); /* it was there all the time */
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(&w);
}

/*
 * ---- states and limits
 * ---------------------------------------------------------------------------------------------------------
 */

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

/*
 * ---- completion queues
 * ---------------------------------------------------------------------------------------------------------
 */

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

static bool is_readable(int fd, int milliseconds)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return 1 == poll(&p, 1, milliseconds);
}

/* Let rank 1 send a message, until it is there. */
static void let_send(void)
{
    test_barrier();
    test_barrier();
}

/* Rank 1 sends; rank 0 sleeps on a channel. */
static void channel(void)
{
    world_t w;
    far_end_t far;
    struct ibv_wc wc;
    struct ibv_cq *cq, *own;
    void *context;
    world_open(&w);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(w.context);
    own = w.cq;
    w.cq = 0 == test_rank ? ibv_create_cq(w.context, 10, &w, channel, 0) : own;
    struct ibv_qp *qp = connected_qp(&w, 1 - test_rank, NULL, &far);
    if (0 == test_rank) {
        for (uint64_t i = 0; i < 4; i++) {
            CHECK_EQUAL(post_recv(&w, qp, i, 0, 8), 0);
        }
        let_send();
        CHECK(!is_readable(channel->fd, 50)); /* not armed */
        CHECK_EQUAL(ibv_poll_cq(w.cq, 1, &wc), 1);
        CHECK_EQUAL(ibv_req_notify_cq(w.cq, 1), 0);
        let_send();
        CHECK(!is_readable(channel->fd, 50)); /* not solicited */
        CHECK_EQUAL(ibv_poll_cq(w.cq, 1, &wc), 1);
        let_send();
        CHECK(is_readable(channel->fd, -1));
        CHECK_EQUAL(ibv_get_cq_event(channel, &cq, &context), 0);
        CHECK(cq == w.cq && context == &w);
        CHECK_EQUAL(ibv_poll_cq(w.cq, 1, &wc), 1);
        CHECK_EQUAL(ibv_req_notify_cq(w.cq, 0), 0);
        test_barrier();
        CHECK_EQUAL(ibv_get_cq_event(channel, &cq, &context), 0); /* sleeps */
        CHECK_EQUAL(ibv_poll_cq(w.cq, 1, &wc), 1);
        test_barrier();
        ibv_ack_cq_events(cq, 2);
        fcntl(channel->fd, F_SETFL, O_NONBLOCK);
        CHECK(-1 == ibv_get_cq_event(channel, &cq, &context) && EAGAIN == errno);
        CHECK_EQUAL(ibv_req_notify_cq(w.cq, 0), 0);
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        CHECK_EQUAL(post_recv(&w, qp, 9, 0, 8), 0);
        CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        CHECK(is_readable(channel->fd, -1)); /* never fetched: goes with its queue */
    } else {
        for (uint64_t i = 0; i < 4; i++) {
            test_barrier();
            usleep(3 == i ? 100000 : 0);
            CHECK_EQUAL(
                post_send(&w, qp, i, 0, 8, IBV_SEND_SIGNALED | (2 == i ? IBV_SEND_SOLICITED : 0u)),
                0);
            get_ok(&w, i, IBV_WC_SEND);
            test_barrier();
        }
    }
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    if (0 == test_rank) {
        CHECK_EQUAL(ibv_destroy_comp_channel(channel), EBUSY);
        CHECK_EQUAL(ibv_destroy_cq(w.cq), 0);
        CHECK(!is_readable(channel->fd, 0));
        w.cq = own;
    }
    CHECK_EQUAL(ibv_destroy_comp_channel(channel), 0);
    world_close(&w);
}

/*
 * ---- the port
 * ------------------------------------------------------------------------------------------------------------------
 */

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

/*
 * ---- faults
 * ----------------------------------------------------------------------------------------------------------------------
 */

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

/*
 * ---- everything at once
 * ----------------------------------------------------------------------------------------------------------
 */

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
        {.name = "death", .run = death, .ranks = 2, .is_killed = true},
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
        {.name = "memory",
         .run = memory,
         .ranks = 1,
         .stderr_has = "without IBV_ACCESS_LOCAL_WRITE"},
        {.name = "overrun", .run = overrun, .ranks = 1, .stderr_has = "completion queue overrun"},
        {.name = "channel",
         .run = channel,
         .ranks = 2,
         .stderr_has = "completion queues still use it"},
        {.name = "ethernet",
         .run = ethernet,
         .ranks = 2,
         .env = "TMDEV_LINK=eth",
         .stderr_has = "needs is_global"},
        {.name = "wrong_port", .run = wrong_port, .ranks = 1, .stderr_has = "by way of port 77"},
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
