/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the tests of tmdev: cases that run as one or two processes, each with a world of its own:
 * device, protection domain, completion queue, memory. A failed CHECK ends the process, and fails
 * the case; so does a line on standard error that the case does not announce.
 */
#ifndef TEST_TMDEV_H
#define TEST_TMDEV_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: rank %d: %s\n", __FILE__, __LINE__, test_rank, #condition);             \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_EQUAL(a, b)                                                                          \
    do {                                                                                           \
        long long a_ = (long long) (a), b_ = (long long) (b);                                      \
        if (a_ != b_) {                                                                            \
            printf("%s:%d: rank %d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, test_rank,   \
                   #a, a_, #b, b_);                                                                \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

enum { MAX_RANKS = 2 };
extern int test_rank, test_ranks;

typedef struct test_case {
    const char *name;
    void (*run)(void);
    int ranks;
    const char *env; /* NAME=value ... */
    /* every line there has one of these, separated by |; NULL: nothing may be there */
    const char *stderr_has;
} test_case_t;

/* Run the cases (those named by the arguments, if any) and return the exit status. */
int test_main(int argc, char **argv, const test_case_t *cases, size_t count);

/* ---- in a case ----------------------------------------------------------- */

/* To and from the other rank. */
void test_send(const void *data, size_t size);
void test_receive(void *data, size_t size);
void test_barrier(void);
double test_now(void);
/* Seconds that a case may take: for what must end with it. Only a hang meets this limit. */
unsigned int test_time_limit(void);

/* A completion, as an extended completion queue shows it. */
typedef struct completion {
    uint64_t wr_id;
    enum ibv_wc_status status;
    int opcode;
    unsigned int flags;
    uint32_t byte_len, qp_num;
    struct ibv_wc_tm_info tm;
} completion_t;

enum { MEMORY = 12 << 20 };

typedef struct world {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_cq_ex *cq_ex;
    struct ibv_mr *mr;
    uint8_t *memory;
    struct ibv_srq *srq;
} world_t;

typedef struct far_end {
    uint32_t qpn, psn, rkey;
    uint16_t lid;
    union ibv_gid gid;
    uint64_t memory;
} far_end_t;

typedef struct qp_options {
    struct ibv_qp_cap cap;
    struct ibv_srq *srq;
    int access;    /* default: all */
    int rnr_retry; /* default: 7 */
    int timeout;   /* default: 10 (4 ms) */
    bool is_without_sq;
    uint32_t psn_error; /* added to what is expected */
} qp_options_t;

#define ALL_ACCESS                                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)

void world_open(world_t *w);
void world_close(world_t *w);
/* Wait for the others, then close all. */
void pair_close(world_t *w, struct ibv_qp *qp);
struct ibv_srq *world_srq(world_t *w, int receives);
struct ibv_srq *world_tm_srq(world_t *w, int receives, uint32_t tags, uint32_t ops);
struct ibv_qp *world_qp(world_t *w, const qp_options_t *o);
/* Exchange and connect with the other rank's queue pair; collective. */
void world_connect(world_t *w, struct ibv_qp *qp, int rank, const qp_options_t *o, far_end_t *far);
void exchange(world_t *w, struct ibv_qp *qp, int rank, far_end_t *far);
int to_init(struct ibv_qp *qp, int access);
int to_rtr(struct ibv_qp *qp, const far_end_t *far, const qp_options_t *o);
int to_rts(struct ibv_qp *qp, const qp_options_t *o);
struct ibv_qp *connected_qp(world_t *w, int rank, const qp_options_t *o, far_end_t *far);

struct ibv_sge sge(const world_t *w, size_t offset, size_t length);
int post_send(world_t *w, struct ibv_qp *qp, uint64_t wr_id, size_t offset, size_t length,
              unsigned int flags);
int post_rdma(world_t *w, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id,
              size_t offset, size_t length, uint64_t far, uint32_t rkey);
int post_recv(world_t *w, struct ibv_qp *qp, uint64_t wr_id, size_t offset, size_t length);
int post_srq_recv(world_t *w, uint64_t wr_id, size_t offset, size_t length);
/* Wait for one: no longer than the case may take. */
completion_t get(world_t *w);
bool try_get(world_t *w, completion_t *c);
/* There is none, and none comes within a while. */
void get_none(world_t *w, int milliseconds);
completion_t get_ok(world_t *w, uint64_t wr_id, int opcode);
void get_failed(world_t *w, uint64_t wr_id, enum ibv_wc_status status);
struct ibv_async_event get_event(world_t *w, enum ibv_event_type type);
void fill(uint8_t *memory, size_t length, uint32_t seed);
bool is_filled(const uint8_t *memory, size_t length, uint32_t seed);

#endif
