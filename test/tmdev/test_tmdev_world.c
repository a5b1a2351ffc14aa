/* SPDX-License-Identifier: BSD-3-Clause */
/* See test_tmdev.h. */
#include "test_tmdev.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int test_rank, test_ranks;
static int lines[MAX_RANKS]; /* of the line between both: each rank's end */

/* ---- cases --------------------------------------------------------------- */

static void set_environment(const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    for (char *item = strtok_r(copy, " ", &rest); NULL != item; item = strtok_r(NULL, " ", &rest)) {
        putenv(strdup(item));
    }
    free(copy);
}

static bool line_is_announced(const char *line, const char *announced)
{
    char *copy = strdup(NULL == announced ? "" : announced), *rest = NULL;
    bool is_found = false;
    for (char *item = strtok_r(copy, "|", &rest); NULL != item && !is_found;
         item = strtok_r(NULL, "|", &rest)) {
        is_found = NULL != strstr(line, item);
    }
    free(copy);
    return is_found;
}

/* Every line must be announced, and every announcement must come true. */
static bool check_stderr(FILE *file, const char *announced)
{
    char line[1000], all[20000] = "";
    bool is_good = true;
    rewind(file);
    while (NULL != fgets(line, sizeof(line), file)) {
        if (strlen(all) + strlen(line) < sizeof(all)) {
            strcat(all, line);
        }
        if (!line_is_announced(line, announced)) {
            printf("    on standard error: %s", line);
            is_good = false;
        }
    }
    char *copy = strdup(NULL == announced ? "" : announced), *rest = NULL;
    for (char *item = strtok_r(copy, "|", &rest); NULL != item; item = strtok_r(NULL, "|", &rest)) {
        if (NULL == strstr(all, item)) {
            printf("    missing on standard error: %s\n", item);
            is_good = false;
        }
    }
    free(copy);
    return is_good;
}

static void out_of_time(int number)
{
    static const char text[] = "    the time limit of the case is over\n";
    (void) number;
    _exit(0 < write(STDOUT_FILENO, text, sizeof(text) - 1) ? 1 : 2);
}

unsigned int test_time_limit(void)
{
    const char *scale = getenv("TM_TEST_TIMEOUT_SCALE");
    return 120u * (NULL == scale || atoi(scale) < 1 ? 1u : (unsigned int) atoi(scale));
}

static void run_rank(const test_case_t *test, int rank, FILE *errors)
{
    dup2(fileno(errors), STDERR_FILENO);
    close(lines[1 - rank]);
    test_rank = rank;
    test_ranks = test->ranks;
    if (NULL != test->env) {
        set_environment(test->env);
    }
    signal(SIGALRM, out_of_time);
    alarm(test_time_limit());
    test->run();
    fflush(stdout);
    exit(0);
}

/* One failed: the others may wait for it. */
static void kill_all(const pid_t *pids, int count)
{
    usleep(100000);
    for (int i = 0; i < count; i++) {
        if (0 != pids[i]) {
            kill(pids[i], SIGKILL);
        }
    }
}

static bool run_case(const test_case_t *test)
{
    FILE *errors = tmpfile();
    pid_t pids[MAX_RANKS];
    bool is_good = true;
    if (0 != socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines)) {
        abort();
    }
    fflush(stdout);
    for (int i = 0; i < test->ranks; i++) {
        pids[i] = fork();
        if (0 == pids[i]) {
            run_rank(test, i, errors);
        }
    }
    close(lines[0]);
    close(lines[1]);
    for (int left = test->ranks; left > 0; left--) {
        int status, i = 0;
        pid_t pid = wait(&status);
        while (pids[i] != pid) {
            i++;
        }
        pids[i] = 0;
        bool is_killed = WIFSIGNALED(status) && SIGKILL == WTERMSIG(status) && !is_good;
        if (!is_killed && !(WIFEXITED(status) && 0 == WEXITSTATUS(status))) {
            printf("    rank %d ended with status 0x%x\n", i, (unsigned int) status);
            is_good = false;
            kill_all(pids, test->ranks);
        }
    }
    is_good = check_stderr(errors, test->stderr_has) && is_good;
    fclose(errors);
    return is_good;
}

int test_main(int argc, char **argv, const test_case_t *cases, size_t count)
{
    int failed = 0, ran = 0;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < count; i++) {
        bool is_wanted = argc < 2;
        for (int j = 1; j < argc; j++) {
            is_wanted = is_wanted || NULL != strstr(cases[i].name, argv[j]);
        }
        if (!is_wanted) {
            continue;
        }
        double start = test_now();
        bool is_good = run_case(&cases[i]);
        printf("%s %s (%.2f s)\n", is_good ? "ok  " : "FAIL", cases[i].name, test_now() - start);
        fflush(stdout);
        failed += !is_good;
        ran++;
    }
    printf("%d of %d cases failed\n", failed, ran);
    return 0 == failed && ran > 0 ? 0 : 1;
}

/* ---- messages beside the device ------------------------------------------- */

void test_send(const void *data, size_t size)
{
    CHECK((ssize_t) size == send(lines[test_rank], data, size, MSG_NOSIGNAL));
}

void test_receive(void *data, size_t size)
{
    CHECK((ssize_t) size == recv(lines[test_rank], data, size, MSG_WAITALL));
}

void test_barrier(void)
{
    char byte = 0;
    if (test_ranks > 1) {
        test_send(&byte, 1);
        test_receive(&byte, 1);
    }
}

double test_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

/* ---- worlds -------------------------------------------------------------- */

void world_open(world_t *w)
{
    memset(w, 0, sizeof(*w));
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(NULL != list && NULL != list[0]);
    w->context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    CHECK(NULL != w->context);
    w->pd = ibv_alloc_pd(w->context);
    CHECK(NULL != w->pd);
    struct ibv_cq_init_attr_ex attr = {.cqe = 4096,
                                       .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
    w->cq_ex = ibv_create_cq_ex(w->context, &attr);
    CHECK(NULL != w->cq_ex);
    w->cq = ibv_cq_ex_to_cq(w->cq_ex);
    w->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(MAP_FAILED != (void *) w->memory);
    w->mr = ibv_reg_mr(w->pd, w->memory, MEMORY, ALL_ACCESS);
    CHECK(NULL != w->mr);
}

void world_close(world_t *w)
{
    if (NULL != w->srq) {
        CHECK_EQUAL(ibv_destroy_srq(w->srq), 0);
    }
    CHECK_EQUAL(ibv_dereg_mr(w->mr), 0);
    CHECK_EQUAL(ibv_destroy_cq(w->cq), 0);
    CHECK_EQUAL(ibv_dealloc_pd(w->pd), 0);
    CHECK_EQUAL(ibv_close_device(w->context), 0);
    munmap(w->memory, MEMORY);
}

struct ibv_srq *world_srq(world_t *w, int receives)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = (uint32_t) receives, .max_sge = 2}};
    w->srq = ibv_create_srq(w->pd, &attr);
    CHECK(NULL != w->srq);
    return w->srq;
}

struct ibv_srq *world_tm_srq(world_t *w, int receives, uint32_t tags, uint32_t ops)
{
    struct ibv_srq_init_attr_ex attr = {
        .attr = {.max_wr = (uint32_t) receives, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_TM,
        .srq_type = IBV_SRQT_TM,
        .pd = w->pd,
        .cq = w->cq,
        .tm_cap = {.max_num_tags = tags, .max_ops = ops},
    };
    w->srq = ibv_create_srq_ex(w->context, &attr);
    CHECK(NULL != w->srq);
    return w->srq;
}

struct ibv_qp *world_qp(world_t *w, const qp_options_t *o)
{
    struct ibv_qp_init_attr init = {
        .send_cq = w->cq, .recv_cq = w->cq, .srq = o->srq, .cap = o->cap, .qp_type = IBV_QPT_RC};
    if (0 == init.cap.max_send_wr && !o->is_without_sq) {
        init.cap.max_send_wr = 256;
        init.cap.max_send_sge = 4;
        init.cap.max_inline_data = 64;
    }
    if (NULL == o->srq && 0 == init.cap.max_recv_wr) {
        init.cap.max_recv_wr = 256;
        init.cap.max_recv_sge = 4;
    }
    struct ibv_qp *qp = ibv_create_qp(w->pd, &init);
    CHECK(NULL != qp);
    return qp;
}

void exchange(world_t *w, struct ibv_qp *qp, int rank, far_end_t *far)
{
    struct ibv_port_attr port;
    far_end_t own = {.qpn = qp->qp_num,
                     .psn = qp->qp_num * 7 & 0xffffff,
                     .rkey = w->mr->rkey,
                     .memory = (uintptr_t) w->memory};
    CHECK_EQUAL(ibv_query_port(w->context, 1, &port), 0);
    own.lid = port.lid;
    CHECK_EQUAL(ibv_query_gid(w->context, 1, port.gid_tbl_len - 1, &own.gid), 0);
    if (rank == test_rank) {
        *far = own;
        return;
    }
    test_send(&own, sizeof(own));
    test_receive(far, sizeof(*far));
}

int to_init(struct ibv_qp *qp, int access)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned int) access};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_rtr(struct ibv_qp *qp, const far_end_t *far, const qp_options_t *o)
{
    struct ibv_port_attr port;
    CHECK_EQUAL(ibv_query_port(qp->context, 1, &port), 0);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port.active_mtu,
        .dest_qp_num = far->qpn,
        .rq_psn = far->psn + o->psn_error,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = far->lid, .port_num = 1},
    };
    if (IBV_LINK_LAYER_ETHERNET == port.link_layer) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = far->gid;
        attr.ah_attr.grh.sgid_index = (uint8_t) (port.gid_tbl_len - 1);
        attr.ah_attr.grh.hop_limit = 64;
    }
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(struct ibv_qp *qp, const qp_options_t *o)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = qp->qp_num * 7 & 0xffffff,
        .timeout = (uint8_t) (o->timeout > 0 ? o->timeout : 10),
        .retry_cnt = 7,
        .rnr_retry = (uint8_t) (o->rnr_retry > 0 ? o->rnr_retry : 7),
        .max_rd_atomic = 4,
    };
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void world_connect(world_t *w, struct ibv_qp *qp, int rank, const qp_options_t *o, far_end_t *far)
{
    char byte = 0;
    exchange(w, qp, rank, far);
    CHECK_EQUAL(to_init(qp, 0 != o->access ? o->access : ALL_ACCESS), 0);
    CHECK_EQUAL(to_rtr(qp, far, o), 0);
    CHECK_EQUAL(to_rts(qp, o), 0);
    if (rank != test_rank) {
        test_send(&byte, 1);
        test_receive(&byte, 1);
    }
}

struct ibv_qp *connected_qp(world_t *w, int rank, const qp_options_t *o, far_end_t *far)
{
    static const qp_options_t standard;
    o = NULL == o ? &standard : o;
    struct ibv_qp *qp = world_qp(w, o);
    world_connect(w, qp, rank, o, far);
    return qp;
}

/* ---- posting ------------------------------------------------------------- */

struct ibv_sge sge(const world_t *w, size_t offset, size_t length)
{
    return (struct ibv_sge){
        .addr = (uintptr_t) w->memory + offset, .length = (uint32_t) length, .lkey = w->mr->lkey};
}

int post_send(world_t *w, struct ibv_qp *qp, uint64_t wr_id, size_t offset, size_t length,
              unsigned int flags)
{
    struct ibv_sge s = sge(w, offset, length);
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &s,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = flags},
                       *bad = NULL;
    int rc = ibv_post_send(qp, &wr, &bad);
    CHECK(0 == rc || bad == &wr);
    return rc;
}

int post_rdma(world_t *w, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id,
              size_t offset, size_t length, uint64_t far, uint32_t rkey)
{
    struct ibv_sge s = sge(w, offset, length);
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &s,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = far;
    wr.wr.rdma.rkey = rkey;
    wr.imm_data = 0x12345678;
    return ibv_post_send(qp, &wr, &bad);
}

int post_recv(world_t *w, struct ibv_qp *qp, uint64_t wr_id, size_t offset, size_t length)
{
    struct ibv_sge s = sge(w, offset, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &s, .num_sge = 1}, *bad;
    return ibv_post_recv(qp, &wr, &bad);
}

int post_srq_recv(world_t *w, uint64_t wr_id, size_t offset, size_t length)
{
    struct ibv_sge s = sge(w, offset, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &s, .num_sge = 1}, *bad;
    return ibv_post_srq_recv(w->srq, &wr, &bad);
}

/* ---- completions --------------------------------------------------------- */

bool try_get(world_t *w, completion_t *c)
{
    struct ibv_poll_cq_attr attr = {0};
    int rc = ibv_start_poll(w->cq_ex, &attr);
    if (ENOENT == rc) {
        return false;
    }
    CHECK_EQUAL(rc, 0);
    c->wr_id = w->cq_ex->wr_id;
    c->status = w->cq_ex->status;
    c->opcode = (int) ibv_wc_read_opcode(w->cq_ex);
    c->flags = ibv_wc_read_wc_flags(w->cq_ex);
    c->byte_len = ibv_wc_read_byte_len(w->cq_ex);
    c->qp_num = ibv_wc_read_qp_num(w->cq_ex);
    ibv_wc_read_tm_info(w->cq_ex, &c->tm);
    ibv_end_poll(w->cq_ex);
    return true;
}

completion_t get(world_t *w)
{
    completion_t c;
    while (!try_get(w, &c)) {
        sched_yield();
    }
    return c;
}

void get_none(world_t *w, int milliseconds)
{
    completion_t c;
    double until = test_now() + milliseconds * 1e-3;
    do {
        CHECK(!try_get(w, &c));
        usleep(500);
    } while (test_now() < until);
}

completion_t get_ok(world_t *w, uint64_t wr_id, int opcode)
{
    completion_t c = get(w);
    CHECK_EQUAL(c.status, IBV_WC_SUCCESS);
    CHECK_EQUAL(c.opcode, opcode);
    CHECK_EQUAL(c.wr_id, wr_id);
    return c;
}

void get_failed(world_t *w, uint64_t wr_id, enum ibv_wc_status status)
{
    completion_t c = get(w);
    CHECK_EQUAL(c.status, status);
    CHECK_EQUAL(c.wr_id, wr_id);
}

struct ibv_async_event get_event(world_t *w, enum ibv_event_type type)
{
    struct pollfd fd = {.fd = w->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    CHECK_EQUAL(poll(&fd, 1, -1), 1);
    CHECK_EQUAL(ibv_get_async_event(w->context, &event), 0);
    CHECK_EQUAL(event.event_type, type);
    ibv_ack_async_event(&event);
    return event;
}

/*
 * Byte i is seed + i + i / 256. Written and compared in blocks, since a sanitizer looks at a block
 * as fast as at a byte.
 */
enum { BLOCK = 256 };

static uint8_t numbers[2 * BLOCK]; /* at k: k */

static __attribute__((constructor)) void make_numbers(void)
{
    for (unsigned k = 0; k < sizeof(numbers); k++) {
        numbers[k] = (uint8_t) k;
    }
}

static const uint8_t *block_at(size_t i, uint32_t seed)
{
    return numbers + (uint8_t) (seed + i / BLOCK);
}

static size_t block_length(size_t i, size_t length)
{
    return length - i < BLOCK ? length - i : BLOCK;
}

void fill(uint8_t *memory, size_t length, uint32_t seed)
{
    for (size_t i = 0; i < length; i += BLOCK) {
        memcpy(memory + i, block_at(i, seed), block_length(i, length));
    }
}

bool is_filled(const uint8_t *memory, size_t length, uint32_t seed)
{
    for (size_t i = 0; i < length; i += BLOCK) {
        if (0 != memcmp(memory + i, block_at(i, seed), block_length(i, length))) {
            return false;
        }
    }
    return true;
}

void pair_close(world_t *w, struct ibv_qp *qp)
{
    test_barrier();
    CHECK_EQUAL(ibv_destroy_qp(qp), 0);
    world_close(w);
}
