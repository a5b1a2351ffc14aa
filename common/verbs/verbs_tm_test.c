/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The self-test of matching hardware: before a device lists receives, each thing that the provider
 * relies on is tried once, on queues of its own, by messages of this process to itself.
 *
 *      sender QP ──messages──> receiver QP          both at this port, both with the TM-SRQ; the
 *          <──FIN── READ of its memory ──┘          receiver has no send queue, as in connections
 *
 * Steps are strictly one after the other: what is asked for, its completion, the next.  So what
 * comes is known, and a completion that does not come, or another one, is the result.
 */
#include "verbs/verbs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/fab_clock.h"
#include "verbs/verbs_tm_wc.h"

enum {
    TRY_TAGS = 8,       /* at most, as the device may have fewer; one receive at a time is listed */
    TRY_OPS = 16,       /* list operations at most, too */
    TRY_BUFS = 64,      /* more than the 33 without which mlx5's TM-SRQ does nothing */
    TRY_BUF = 256,      /* bytes of each: no unexpected message is longer */
    TRY_LONG = 3 << 12, /* bytes of a message of several packets, whatever the MTU */
    TRY_LISTED = 1,     /* in a wr_id: a listed receive */
    TRY_US = 1000000,   /* for all of it */
    TRY_CTX = 0x5a17c0de,
    TRY_IMM = 0x1badcafe,
};

/* What is registered. */
typedef struct try_memory {
    unsigned char bufs[TRY_BUFS][TRY_BUF];
    unsigned char listed[TRY_LONG];
    unsigned char message[sizeof(fab_verbs_tmh_t) + TRY_LONG];
    unsigned char source[TRY_LONG]; /* of a rendezvous */
} try_memory_t;

typedef struct
try {
    fab_verbs_domain_t *dom;
    try_memory_t *memory;
    struct ibv_mr *mr;
    struct ibv_cq *send_cq;
    struct ibv_cq_ex *cq;
    struct ibv_srq *srq;
    struct ibv_qp *sender;
    struct ibv_qp *receiver;
    uint16_t unexpected;  /* messages that the list did not take */
    uint64_t tag;         /* of the last step */
    uint64_t until;       /* us */
    fab_verbs_tm_wc_t wc; /* the last completion */
}
try_t;

/* ---- queues ------------------------------------------------------------- */

static struct ibv_qp *try_qp(try_t *try, uint32_t depth)
{
    struct ibv_qp_init_attr init = {.send_cq = try->send_cq,
                                    .recv_cq = ibv_cq_ex_to_cq(try->cq),
                                    .srq = try->srq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = depth, .max_send_sge = depth > 0}};

    return ibv_create_qp(try->dom->queue_pd, &init);
}

static int connect_qp(const try_t *try, struct ibv_qp *qp, const struct ibv_qp *to)
{
    int error = fab_verbs_qp_init(try->dom, qp);

    error = 0 == error ? fab_verbs_qp_to_receive(try->dom, qp, &try->dom->port_addr, to->qp_num, 0)
                       : error;
    return 0 == error ? fab_verbs_qp_to_send(try->dom, qp, 0, 1) : error;
}

static bool post_bufs(const try_t *try)
{
    struct ibv_recv_wr *bad;

    for (uint64_t i = 0; i < TRY_BUFS; i++) {
        struct ibv_sge sge = {(uintptr_t) try->memory->bufs[i], TRY_BUF, try->mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = i << 1, .sg_list = &sge, .num_sge = 1};
        if (0 != ibv_post_srq_recv(try->srq, &wr, &bad)) {
            return false;
        }
    }
    return true;
}

/* False: errno may say why. */
static bool try_open(try_t *try, uint32_t max_tags, uint32_t max_ops)
{
    fab_verbs_domain_t *dom = try->dom;
    void *memory = mmap(NULL, sizeof(*try->memory), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    try->memory = MAP_FAILED != memory ? memory : NULL;
    if (NULL != try->memory) {
        try->mr = ibv_reg_mr(dom->pd, memory, sizeof(*try->memory),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    }
    try->send_cq = NULL != try->mr ? ibv_create_cq(dom->ctx, TRY_BUFS, NULL, NULL, 0) : NULL;
    try->cq = NULL != try->send_cq ? fab_verbs_tm_cq(dom, 4 * TRY_BUFS, NULL) : NULL;
    try->srq = NULL != try->cq
                   ? fab_verbs_tm_srq(dom, try->cq, TRY_BUFS, fab_verbs_min(TRY_TAGS, max_tags),
                                      fab_verbs_min(TRY_OPS, max_ops))
                   : NULL;
    try->sender = NULL != try->srq ? try_qp(try, TRY_OPS) : NULL;
    try->receiver = NULL != try->sender ? try_qp(try, 0) : NULL;
    if (NULL == try->receiver) {
        return false;
    }
    errno = connect_qp(try, try->receiver, try->sender);
    errno = 0 == errno ? connect_qp(try, try->sender, try->receiver) : errno;
    return 0 == errno && post_bufs(try);
}

static void try_close(try_t *try)
{
    if (NULL != try->receiver) {
        (void) ibv_destroy_qp(try->receiver);
    }
    if (NULL != try->sender) {
        (void) ibv_destroy_qp(try->sender);
    }
    if (NULL != try->srq) {
        (void) ibv_destroy_srq(try->srq);
    }
    if (NULL != try->cq) {
        (void) ibv_destroy_cq(ibv_cq_ex_to_cq(try->cq));
    }
    if (NULL != try->send_cq) {
        (void) ibv_destroy_cq(try->send_cq);
    }
    if (NULL != try->mr) {
        (void) ibv_dereg_mr(try->mr);
    }
    if (NULL != try->memory) {
        (void) munmap(try->memory, sizeof(*try->memory));
    }
}

/* ---- steps -------------------------------------------------------------- */

/* The next completion, in try->wc.  False: none comes, or one in error. */
static bool next(try_t *try)
{
    struct ibv_poll_cq_attr attr = {0};
    int rc;

    while (ENOENT == (rc = ibv_start_poll(try->cq, &attr)) && fab_now_us() < try->until) {
    }
    if (0 != rc) {
        return false;
    }
    fab_verbs_tm_copy(try->cq, &try->wc);
    ibv_end_poll(try->cq);
    return fab_verbs_tm_is_meant(try->wc.status);
}

static bool op(try_t *try, struct ibv_ops_wr *wr, enum ibv_wc_opcode done)
{
    struct ibv_ops_wr *bad;

    wr->flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    wr->tm.unexpected_cnt = try->unexpected;
    return 0 == ibv_post_srq_ops(try->srq, wr, &bad) && next(try) && done == try->wc.opcode &&
           IBV_WC_SUCCESS == try->wc.status;
}

/* List a receive of so many bytes. */
static bool add(try_t *try, uint64_t tag, uint32_t len, uint32_t *handle)
{
    struct ibv_sge sge = {(uintptr_t) try->memory->listed, len, try->mr->lkey};
    struct ibv_ops_wr wr;

    memset(&wr, 0, sizeof(wr));
    memset(try->memory->listed, 0, sizeof(try->memory->listed));
    wr.opcode = IBV_WR_TAG_ADD;
    wr.tm.add.recv_wr_id = tag << 1 | TRY_LISTED;
    wr.tm.add.sg_list = &sge;
    wr.tm.add.num_sge = 1;
    wr.tm.add.tag = tag;
    wr.tm.add.mask = UINT64_MAX;
    if (!op(try, &wr, IBV_WC_TM_ADD)) {
        return false;
    }
    *handle = wr.tm.handle;
    return true;
}

static bool del(try_t *try, uint32_t handle)
{
    struct ibv_ops_wr wr;

    memset(&wr, 0, sizeof(wr));
    wr.opcode = IBV_WR_TAG_DEL;
    wr.tm.handle = handle;
    return op(try, &wr, IBV_WC_TM_DEL);
}

static void fill(unsigned char *data, uint64_t seed, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        data[i] = (unsigned char) (1 + (seed * 31 + i) % 251);
    }
}

/* Send TMH and len bytes of the payload, which is in place. */
static bool send_message(try_t *try, uint8_t opcode, uint64_t tag, uint32_t len)
{
    fab_verbs_tmh_t tmh = {
        .opcode = opcode, .app_ctx = htobe32(TRY_CTX + (uint32_t) tag), .tag = htobe64(tag)};
    struct ibv_sge sge = {(uintptr_t) try->memory->message, (uint32_t) sizeof(tmh) + len,
                          try->mr->lkey};
    bool is_rndv = FAB_AM_RNDV == opcode;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED,
                             .opcode = is_rndv ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
                             .imm_data = htobe32(TRY_IMM)};
    struct ibv_send_wr *bad;

    memcpy(try->memory->message, &tmh, sizeof(tmh));
    return 0 == ibv_post_send(try->sender, &wr, &bad);
}

static bool send_eager(try_t *try, uint64_t tag, uint32_t len)
{
    fill(try->memory->message + sizeof(fab_verbs_tmh_t), tag, len);
    return send_message(try, FAB_AM_EAGER, tag, len);
}

static bool send_rndv(try_t *try, uint64_t tag, uint32_t len)
{
    fab_verbs_rvh_t rvh = {.addr = htobe64((uintptr_t) try->memory->source),
                           .rkey = htobe32(try->mr->rkey),
                           .len = htobe32(len)};

    fill(try->memory->source, tag, len);
    memcpy(try->memory->message + sizeof(fab_verbs_tmh_t), &rvh, sizeof(rvh));
    return send_message(try, FAB_AM_RNDV, tag, sizeof(rvh));
}

/* Is the last completion the match of the receive with this tag, with all that it should say? */
static bool is_match(const try_t *try, uint64_t tag)
{
    return try->wc.wr_id == (tag << 1 | TRY_LISTED) && 0 != (try->wc.flags & IBV_WC_TM_MATCH) &&
           IBV_WC_TM_RECV == try->wc.opcode && try->wc.tag == tag &&
           try->wc.priv == TRY_CTX + (uint32_t) tag;
}

/* Has it the data that was sent? */
static bool has_data(const try_t *try, uint64_t tag, const unsigned char *sent, uint32_t len)
{
    return try->wc.wr_id == (tag << 1 | TRY_LISTED) && IBV_WC_SUCCESS == try->wc.status &&
           0 != (try->wc.flags & IBV_WC_TM_DATA_VALID) && len == try->wc.len &&
           0 == memcmp(try->memory->listed, sent, len);
}

/* A message comes into a buffer, not to a listed receive; its header is right. */
static bool comes_apart(try_t *try, uint8_t opcode, uint64_t tag)
{
    fab_verbs_tmh_t tmh;

    if (!next(try) || IBV_WC_SUCCESS != try->wc.status || 0 != (try->wc.wr_id & TRY_LISTED) ||
        try->wc.wr_id >> 1 >= TRY_BUFS || try->wc.len < sizeof(tmh)) {
        return false;
    }
    memcpy(&tmh, try->memory->bufs[try->wc.wr_id >> 1], sizeof(tmh));
    return opcode == tmh.opcode && tag == be64toh(tmh.tag) &&
           TRY_CTX + (uint32_t) tag == be32toh(tmh.app_ctx);
}

/* ---- what is tried ------------------------------------------------------ */

/* A receive is listed, and a message of len bytes matches it. */
static bool eager_matches(try_t *try, uint64_t tag, uint32_t len)
{
    uint32_t handle;

    if (!add(try, tag, TRY_LONG, &handle) || !send_eager(try, tag, len) || !next(try) ||
        !is_match(try, tag)) {
        return false;
    }
    if (0 == (try->wc.flags & IBV_WC_TM_DATA_VALID) && !next(try)) {
        return false;
    }
    return has_data(try, tag, try->memory->message + sizeof(fab_verbs_tmh_t), len) &&
           0 != (try->wc.flags & IBV_WC_WITH_IMM) && TRY_IMM == try->wc.imm;
}

static bool is_unexpected(try_t *try, uint64_t tag, uint32_t len)
{
    bool is_right = send_eager(try, tag, len) && comes_apart(try, FAB_AM_EAGER, tag);

    try->unexpected++;
    return is_right;
}

/* What is removed matches no more. */
static bool removal_holds(try_t *try, uint64_t tag, uint32_t len)
{
    uint32_t handle;

    return add(try, tag, TRY_LONG, &handle) && del(try, handle) && is_unexpected(try, tag, len);
}

/* The device reads the data and tells the sender: data and FIN come in either order. */
static bool rndv_matches(try_t *try, uint64_t tag, uint32_t len)
{
    uint32_t handle;
    bool is_told = false;

    if (!add(try, tag, TRY_LONG, &handle) || !send_rndv(try, tag, len) || !next(try) ||
        !is_match(try, tag)) {
        return false;
    }
    if (0 == (try->wc.flags & IBV_WC_TM_DATA_VALID)) {
        is_told = next(try) && 0 == (try->wc.wr_id & TRY_LISTED);
        if (is_told && !next(try)) {
            return false;
        }
    }
    return has_data(try, tag, try->memory->source, len) &&
           (is_told || comes_apart(try, FAB_AM_FIN, tag));
}

/* One that is longer than the listed buffer leaves its request there, and says so. */
static bool too_long_is_said(try_t *try, uint64_t tag, uint32_t len)
{
    fab_verbs_tmh_t tmh;
    uint32_t handle;

    if (!add(try, tag, TRY_BUF, &handle) || !send_rndv(try, tag, len) || !next(try) ||
        !is_match(try, tag) || IBV_WC_TM_RNDV_INCOMPLETE != try->wc.status) {
        return false;
    }
    if (0 == (try->wc.flags & IBV_WC_TM_DATA_VALID) && !next(try)) {
        return false;
    }
    memcpy(&tmh, try->memory->listed, sizeof(tmh));
    return FAB_AM_RNDV == tmh.opcode && tag == be64toh(tmh.tag);
}

/* In this order: the one relies on what was tried before.  The tag is its number. */
typedef struct step {
    bool (*holds)(try_t *try, uint64_t tag, uint32_t len);
    uint32_t len; /* of the message */
    const char *what;
} step_t;

static const step_t eager_steps[] = {
    {eager_matches, 64, "a short message to a listed receive"},
    {eager_matches, TRY_LONG, "a message of several packets to a listed receive"},
    {is_unexpected, 64, "a message to no listed receive"},
    {eager_matches, 64, "a listed receive after an unexpected message (SYNC)"},
    {removal_holds, 64, "a receive that was taken off the list (DEL)"},
    {eager_matches, 64, "a listed receive after a removal"},
};

static const step_t rndv_steps[] = {
    {rndv_matches, TRY_LONG, "a rendezvous"},
    {too_long_is_said, TRY_LONG, "a rendezvous longer than the receive (INCOMPLETE)"},
};

static const char *try_steps(try_t *try, const step_t *steps, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        if (!steps[i].holds(try, ++try->tag, steps[i].len)) {
            return fab_sentence(try->dom->fab, "its self-test failed: %s", steps[i].what);
        }
    }
    return NULL;
}

const char *fab_verbs_tm_test(fab_verbs_domain_t *dom, uint32_t max_tags, uint32_t max_ops,
                              const char **no_rndv)
{
    try_t try = {.dom = dom, .until = fab_now_us() + TRY_US};
    const char *why = NULL;

    errno = 0;
    if (!try_open(&try, max_tags, max_ops)) {
        why = fab_sentence(dom->fab, "the queues for its self-test cannot be made: %s",
                           strerror(errno));
    } else {
        why = try_steps(&try, eager_steps, sizeof(eager_steps) / sizeof(step_t));
    }
    if (NULL == why && NULL != no_rndv) {
        *no_rndv = try_steps(&try, rndv_steps, sizeof(rndv_steps) / sizeof(step_t));
    }
    try_close(&try);
    return why;
}
