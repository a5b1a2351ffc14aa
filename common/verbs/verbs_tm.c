/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching hardware: a shared receive queue with a tag list (TM-SRQ), its completions, list
 * operations, and the buffers of listed receives.  doc/offload.md and doc/verbs.md say why.
 *
 * Completions are copied out first, a batch at a time, and looked at when polling has ended:
 * between ibv_start_poll and ibv_end_poll the device's library holds locks that other calls want.
 *
 * wr_id: of receive buffers the fab_verbs_buf_t; of listed receives the fab_tm_recv_t, with
 * FAB_VERBS_LISTED; of signaled list operations what the engine gave.
 */
#include "verbs/verbs_tm.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_alive.h"
#include "verbs/verbs_conn.h"
#include "verbs/verbs_domain.h"
#include "verbs/verbs_ep.h"
#include "verbs/verbs_pool.h"
#include "verbs/verbs_progress.h"
#include "verbs/verbs_rma.h"
#include "verbs/verbs_srq.h"

enum {
    FAB_VERBS_TM_MIN_BUFS = 33,            /* posted before mlx5's TM-SRQ does anything */
    FAB_VERBS_TM_MAX_BUFS = (1 << 15) - 1, /* doc/offload.md, R11 */
    FAB_VERBS_TM_MIN_OPS = 16,
    /* places beyond the list's length: for receives that are off the list and not yet delivered */
    FAB_VERBS_TM_SPARE = FAB_VERBS_BATCH,
    FAB_VERBS_LISTED = 2, /* in a wr_id: a listed receive, not a buffer */
};

_Static_assert(_Alignof(fab_tm_recv_t) > FAB_VERBS_LISTED &&
                   _Alignof(fab_verbs_buf_t) > FAB_VERBS_LISTED,
               "addresses have room for the bit");

struct fab_verbs_tm {
    struct ibv_cq_ex *cq;
    uint32_t max_tags;
    uint32_t max_ops;
    fab_verbs_pool_t pool;          /* buffers of listed receives */
    fab_verbs_exposed_list_t held;  /* memory of users that is listed */
    struct fab_verbs_place *places; /* all */
    struct fab_verbs_place *free_places;
    const fab_tm_user_t *user; /* NULL: nobody lists receives */
    void *ctx;
    bool is_failure_reported;
    bool has_rndv; /* the device reads and answers by itself */
};

/* Where the device puts the message for a listed receive. */
typedef struct fab_verbs_place {
    struct fab_verbs_place *next; /* free */
    fab_tm_recv_t *recv;          /* matched, its data is to come */
    /* from there; NULL: it is not matched, all is there, or the sender is not known */
    fab_verbs_conn_t *conn;
    fab_verbs_exposed_t *held; /* the user's memory; NULL: buf */
    fab_verbs_buf_t *buf;
    void *data;
    uint32_t len;
    uint32_t lkey;
    bool is_left; /* the device matched a rendezvous and left it to software */
    /* the user's bytes that an announcement overwrites: it may be longer than its message */
    unsigned char covered[sizeof(fab_rndv_t)];
} fab_verbs_place_t;

/* What is read of a completion. */
typedef struct fab_verbs_tm_wc {
    uint64_t wr_id;
    uint64_t tag;
    uint32_t priv;
    uint32_t imm;
    uint32_t len;
    uint32_t qp_num;
    unsigned int flags;
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
} fab_verbs_tm_wc_t;

static void tm_broke(fab_verbs_domain_t *dom, const char *why)
{
    fab_verbs_give_up(dom, "broke in matching tags", why);
}

/* ---- open --------------------------------------------------------------- */

/* NULL: the device has tag matching, its limits are in tm. */
static const char *tm_query(fab_verbs_domain_t *dom, fab_verbs_tm_t *tm)
{
    struct ibv_device_attr_ex attr;

    memset(&attr, 0, sizeof(attr));
    if (0 != ibv_query_device_ex(dom->ctx, NULL, &attr) || 0 == attr.tm_caps.max_num_tags ||
        0 == attr.tm_caps.max_sge) {
        return "it has no tag matching";
    }
    tm->max_tags = fab_verbs_min(attr.tm_caps.max_num_tags, fab_params.verbs_tm_tags);
    tm->max_ops = fab_verbs_min(attr.tm_caps.max_ops, 2 * tm->max_tags + FAB_VERBS_TM_MIN_OPS);
    tm->has_rndv = 0 != (attr.tm_caps.flags & IBV_TM_CAP_RC) &&
                   attr.tm_caps.max_rndv_hdr_size >=
                       sizeof(fab_verbs_tmh_t) + sizeof(fab_verbs_rvh_t);
    return tm->max_ops >= FAB_VERBS_TM_MIN_OPS ? NULL : "its queue of list operations is too short";
}

static struct ibv_srq *tm_srq(fab_verbs_domain_t *dom, fab_verbs_tm_t *tm, uint32_t num_bufs)
{
    struct ibv_srq_init_attr_ex init = {
        .attr = {.max_wr = num_bufs, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
                     IBV_SRQ_INIT_ATTR_TM,
        .srq_type = IBV_SRQT_TM,
        .pd = dom->pd,
        .cq = ibv_cq_ex_to_cq(tm->cq),
        .tm_cap = {.max_num_tags = tm->max_tags, .max_ops = tm->max_ops},
    };

    return ibv_create_srq_ex(dom->ctx, &init);
}

/* NULL, or what cannot be made. */
static const char *tm_make(fab_verbs_domain_t *dom, fab_verbs_tm_t *tm)
{
    uint32_t num_bufs = fab_verbs_min(fab_params.verbs_buffers, (uint32_t) dom->device.max_srq_wr);
    struct ibv_cq_init_attr_ex init = {
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                    IBV_WC_EX_WITH_TM_INFO,
    };

    num_bufs = fab_verbs_min(num_bufs, FAB_VERBS_TM_MAX_BUFS);
    /* each message, both completions of each match, each operation */
    init.cqe = num_bufs + 2 * tm->max_tags + tm->max_ops;
    if (num_bufs < FAB_VERBS_TM_MIN_BUFS || init.cqe > (uint32_t) dom->device.max_cqe) {
        return "its queues are too short";
    }
    tm->cq = ibv_create_cq_ex(dom->ctx, &init);
    if (NULL == tm->cq) {
        return strerror(errno);
    }
    dom->srq = tm_srq(dom, tm, num_bufs);
    /* a list operation may take more of the queue than the device's limit counts for it: mlx5, 4 */
    while (NULL == dom->srq && (EINVAL == errno || ENOMEM == errno) &&
           tm->max_ops / 2 >= FAB_VERBS_TM_MIN_OPS) {
        tm->max_ops /= 2;
        dom->srq = tm_srq(dom, tm, num_bufs);
    }
    if (NULL == dom->srq) {
        int error = errno;
        (void) ibv_destroy_cq(ibv_cq_ex_to_cq(tm->cq));
        return strerror(error);
    }
    dom->max_recv_bufs = num_bufs;
    return NULL;
}

static bool tm_make_places(fab_verbs_tm_t *tm)
{
    uint32_t num = tm->max_tags + FAB_VERBS_TM_SPARE;

    tm->places = calloc(num, sizeof(*tm->places));
    for (uint32_t i = 0; NULL != tm->places && i < num; i++) {
        tm->places[i].next = tm->free_places;
        tm->free_places = &tm->places[i];
    }
    return NULL != tm->places;
}

/* The largest power of two that is not above n. */
static uint8_t verbs_log2(uint32_t n)
{
    return (uint8_t) (0 == n ? 0 : 31 - __builtin_clz(n));
}

bool fab_verbs_tm_open(fab_verbs_domain_t *dom)
{
    fab_verbs_tm_t *tm = !fab_params_is_none(fab_params.verbs_tm) ? calloc(1, sizeof(*tm)) : NULL;
    const char *why;

    if (NULL == tm) {
        return false;
    }
    why = tm_query(dom, tm);
    if (NULL == why && !tm_make_places(tm)) {
        why = "there is no memory";
    }
    if (NULL == why) {
        why = tm_make(dom, tm);
        fab_counters.verbs_tm_failed += NULL != why;
    }
    if (NULL != why) {
        fab_log(dom->fab, 1, "%s matches no tags: %s", dom->name, why);
        free(tm->places);
        free(tm);
        return false;
    }
    fab_log(dom->fab, 10, "%s: a list of %u receives, a queue of %u operations on it", dom->name,
            tm->max_tags, tm->max_ops);
    fab_verbs_pool_init(&tm->pool, dom->pd, fab_params.verbs_eager_limit,
                        tm->max_tags + FAB_VERBS_TM_SPARE);
    dom->tm = tm;
    dom->recv_cq = ibv_cq_ex_to_cq(tm->cq);
    dom->addr.flags |= FAB_VERBS_ADDR_TM | (tm->has_rndv ? FAB_VERBS_ADDR_TM_RNDV : 0);
    dom->addr.max_read = verbs_log2(dom->port.max_msg_sz);
    dom->max_requested = tm->has_rndv && dom->max_recv_bufs > 4 * FAB_VERBS_FIN_BUFS
                             ? FAB_VERBS_FIN_BUFS
                             : 0;
    return true;
}

void fab_verbs_tm_close(fab_verbs_domain_t *dom)
{
    if (NULL != dom->tm) {
        while (!LIST_EMPTY(&dom->tm->held)) {
            fab_verbs_let_go(dom, LIST_FIRST(&dom->tm->held));
        }
        fab_verbs_pool_fini(&dom->tm->pool);
        free(dom->tm->places);
        free(dom->tm);
        dom->tm = NULL;
    }
}

/* ---- what the engine calls ---------------------------------------------- */

/*
 * List the user's memory.  An eager message longer than a listed buffer breaks the connection, so
 * the memory must hold the longest one.  A buffer longer than the longest message of the device is
 * listed up to that length; longer messages are announced.
 */
static bool tm_hold(fab_verbs_domain_t *dom, fab_verbs_place_t *place, const fab_tm_recv_t *recv)
{
    if (NULL == recv->data || recv->len < fab_params.verbs_eager_limit) {
        return false;
    }
    place->len = recv->len < dom->port.max_msg_sz ? (uint32_t) recv->len : dom->port.max_msg_sz;
    place->held = fab_verbs_hold(dom, &dom->tm->held, recv->data, place->len, 0);
    if (NULL == place->held) {
        return false;
    }
    place->data = recv->data;
    place->lkey = fab_verbs_reg_ops->mr(place->held->reg)->lkey;
    memcpy(place->covered, recv->data, sizeof(place->covered));
    fab_counters.verbs_tm_listed_user++;
    return true;
}

/* A buffer of this process's own. */
static bool tm_get_buf(fab_verbs_tm_t *tm, fab_verbs_place_t *place)
{
    fab_verbs_buf_t *buf = fab_verbs_pool_get(&tm->pool);

    if (NULL == buf) {
        return false;
    }
    place->buf = buf;
    place->data = buf->data;
    place->len = fab_params.verbs_eager_limit;
    place->lkey = buf->lkey;
    return true;
}

/* Where the message for this receive is to go. NULL: there is no room now. */
static fab_verbs_place_t *tm_get_place(fab_verbs_domain_t *dom, const fab_tm_recv_t *recv)
{
    fab_verbs_tm_t *tm = dom->tm;
    fab_verbs_place_t *place = tm->free_places;

    if (NULL == place) {
        return NULL;
    }
    place->buf = NULL;
    place->held = NULL;
    place->is_left = false;
    if (!tm_hold(dom, place, recv) && !tm_get_buf(tm, place)) {
        return NULL;
    }
    tm->free_places = place->next;
    return place;
}

static void tm_release(void *device, void *released)
{
    fab_verbs_domain_t *dom = device;
    fab_verbs_place_t *place = released;

    place->conn = NULL;
    if (NULL != place->held) {
        fab_verbs_let_go(dom, place->held);
    } else {
        fab_verbs_pool_put(&dom->tm->pool, place->buf);
    }
    place->next = dom->tm->free_places;
    dom->tm->free_places = place;
}

static void tm_fill(struct ibv_ops_wr *wr, struct ibv_sge *sge, const fab_tm_cmd_t *cmd,
                    const fab_verbs_place_t *place)
{
    const fab_tm_recv_t *recv = cmd->recv;

    wr->wr_id = cmd->wr_id;
    wr->flags = IBV_OPS_TM_SYNC | (cmd->is_signaled ? IBV_OPS_SIGNALED : 0);
    wr->tm.unexpected_cnt = cmd->count;
    switch ((fab_tm_op_t) cmd->op) {
    case FAB_TM_ADD:
        *sge = (struct ibv_sge){(uintptr_t) place->data, place->len, place->lkey};
        wr->opcode = IBV_WR_TAG_ADD;
        wr->tm.add.recv_wr_id = (uintptr_t) recv | FAB_VERBS_LISTED;
        wr->tm.add.sg_list = sge;
        wr->tm.add.num_sge = 1;
        wr->tm.add.tag = recv->tag;
        wr->tm.add.mask = recv->mask;
        break;
    case FAB_TM_DEL:
        wr->opcode = IBV_WR_TAG_DEL;
        wr->tm.handle = cmd->handle;
        break;
    default:
        wr->opcode = IBV_WR_TAG_SYNC;
        break;
    }
}

static int tm_post(void *device, const fab_tm_cmd_t *cmd)
{
    fab_verbs_domain_t *dom = device;
    bool is_add = FAB_TM_ADD == cmd->op;
    fab_verbs_place_t *place = is_add && !dom->is_dead ? tm_get_place(dom, cmd->recv) : NULL;
    struct ibv_ops_wr wr, *bad = NULL;
    struct ibv_sge sge;
    int error = dom->is_dead ? EIO : is_add && NULL == place ? ENOMEM : 0;

    if (0 == error) {
        memset(&wr, 0, sizeof(wr));
        tm_fill(&wr, &sge, cmd, place);
        error = ibv_post_srq_ops(dom->srq, &wr, &bad);
    }
    if (0 != error && NULL != place) {
        tm_release(dom, place);
    }
    if (ENOMEM == error) {
        return FAB_TM_BUSY;
    }
    if (0 != error) {
        tm_broke(dom, strerror(error));
        return FAB_TM_DEAD;
    }
    if (is_add) {
        cmd->recv->handle = wr.tm.handle;
        cmd->recv->place = place;
        fab_counters.verbs_tm_listed++;
    }
    return FAB_TM_POSTED;
}

static const fab_tm_ops_t fab_verbs_tm_ops = {.post = tm_post};

bool fab_verbs_tm_use(fab_domain_t *domain, const fab_tm_user_t *user, void *ctx,
                      fab_tm_device_t *device)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;

    if (NULL == dom->tm) {
        return false;
    }
    dom->tm->user = user;
    dom->tm->ctx = ctx;
    if (NULL != device) {
        *device = (fab_tm_device_t){
            .device = dom,
            .ops = &fab_verbs_tm_ops,
            .max_tags = dom->tm->max_tags,
            .max_ops = dom->tm->max_ops,
            .min_len = fab_params.verbs_tm_min,
            .own_len = fab_params.verbs_eager_limit,
            .release = tm_release,
        };
    }
    return true;
}

/* ---- completions -------------------------------------------------------- */

/* After any other status wr_id and the queue pair's number may be meaningless. */
static inline bool fab_verbs_tm_is_meant(enum ibv_wc_status status)
{
    return IBV_WC_SUCCESS == status || IBV_WC_TM_ERR == status ||
           IBV_WC_TM_RNDV_INCOMPLETE == status;
}

static void tm_copy(struct ibv_cq_ex *cq, fab_verbs_tm_wc_t *wc)
{
    struct ibv_wc_tm_info info = {0};

    *wc = (fab_verbs_tm_wc_t){
        .wr_id = cq->wr_id, .status = cq->status, .qp_num = ibv_wc_read_qp_num(cq)};
    if (!fab_verbs_tm_is_meant(cq->status)) {
        return;
    }
    wc->opcode = ibv_wc_read_opcode(cq);
    if (IBV_WC_TM_ERR == cq->status) {
        return;
    }
    wc->flags = ibv_wc_read_wc_flags(cq);
    wc->len = ibv_wc_read_byte_len(cq);
    if (0 != (wc->flags & IBV_WC_WITH_IMM)) {
        wc->imm = be32toh(ibv_wc_read_imm_data(cq));
    }
    if (0 != (wc->flags & IBV_WC_TM_MATCH)) {
        ibv_wc_read_tm_info(cq, &info);
        wc->tag = info.tag;
        wc->priv = info.priv;
    }
}

/* Returns how many; *rc: ENOENT, or what went wrong. */
static int tm_collect(struct ibv_cq_ex *cq, fab_verbs_tm_wc_t *wcs, int *rc)
{
    struct ibv_poll_cq_attr attr = {0};
    int n = 0;

    *rc = ibv_start_poll(cq, &attr);
    if (0 != *rc) {
        return 0;
    }
    while (0 == *rc) {
        tm_copy(cq, &wcs[n++]);
        *rc = n < FAB_VERBS_BATCH ? ibv_next_poll(cq) : ENOENT;
    }
    ibv_end_poll(cq);
    return n;
}

/*
 * The device matched a rendezvous and did no more, because the message is longer than the listed
 * buffer: that buffer has the request. A rendezvous that began and broke off has the same status,
 * and devices differ in how they tell the two apart. False: it broke off, or something has written
 * over the request.
 */
static bool tm_is_left(const fab_tm_recv_t *recv, fab_tm_match_t *match)
{
    const fab_verbs_place_t *place = recv->place;
    fab_verbs_tmh_t tmh;
    fab_verbs_rvh_t rvh;

    if (!place->is_left) {
        return false;
    }
    memcpy(&tmh, place->data, sizeof(tmh));
    memcpy(&rvh, (const char *) place->data + sizeof(tmh), sizeof(rvh));
    if (FAB_AM_RNDV != tmh.opcode || (be64toh(tmh.tag) & recv->mask) != recv->tag ||
        be32toh(rvh.len) <= place->len) {
        return false;
    }
    match->hdr = fab_hdr(FAB_AM_RNDV, be64toh(tmh.tag), be32toh(tmh.app_ctx));
    match->rndv = fab_verbs_rndv(&rvh);
    return true;
}

/*
 * Another receive has the same memory, which is an error of the program, and its message has
 * overwritten this one.
 */
static fab_tm_kind_t tm_again(void)
{
    fab_counters.verbs_tm_overwritten++;
    return FAB_TM_AGAIN;
}

/*
 * The last completion of a match came: what was the message? One that a device read has no
 * immediate data; eager messages and announcements have.
 */
static fab_tm_kind_t tm_kind(const fab_tm_recv_t *recv, const fab_verbs_tm_wc_t *wc,
                             fab_tm_match_t *match)
{
    const fab_verbs_place_t *place = recv->place;

    match->data = NULL != place->held ? NULL : place->data;
    if (IBV_WC_SUCCESS != wc->status || place->is_left) {
        if (tm_is_left(recv, match)) {
            return FAB_TM_RNDV;
        }
        /* if it broke off, so has the connection, and nobody answers */
        return place->is_left && NULL != place->held ? tm_again() : FAB_TM_LOST;
    }
    if (0 == (wc->flags & IBV_WC_WITH_IMM)) {
        fab_counters.verbs_tm_rndv++;
        fab_counters.verbs_tm_rndv_bytes += wc->len;
        return FAB_TM_READ;
    }
    if (0 == (wc->imm & FAB_VERBS_IMM_RNDV)) {
        return FAB_TM_EAGER;
    }
    memcpy(&match->rndv, place->data, sizeof(match->rndv));
    if (sizeof(match->rndv) != wc->len) {
        return FAB_TM_LOST;
    }
    if (fab_verbs_imm_check(&match->rndv, sizeof(match->rndv)) !=
        wc->imm >> FAB_VERBS_IMM_CHECK_AT) {
        return tm_again();
    }
    if (NULL != place->held) {
        memcpy(place->data, place->covered, sizeof(place->covered));
    }
    return FAB_TM_RNDV;
}

/* Count the message for the connection that it came on. */
static void tm_account(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn, const fab_tm_match_t *match,
                       const fab_verbs_tm_wc_t *wc)
{
    if (match->is_first) {
        fab_verbs_on_matched(conn);
    }
    if (0 != (wc->flags & IBV_WC_WITH_IMM)) {
        fab_verbs_take_credits(conn, (uint16_t) (wc->imm & FAB_VERBS_IMM_CREDITS));
    }
    if (match->is_last && FAB_TM_LOST == match->kind) {
        fab_verbs_ep_defer_failure(conn->ep, OPAL_ERR_COMM_FAILURE,
                                   "A message from it was lost (%s).", dom->name);
    }
}

/*
 * The connection of the sender. At the first completion the tag says who that is: the number of the
 * queue pair may be another's. At the second it is known. NULL: unknown, or gone.
 */
static fab_verbs_conn_t *tm_conn(const fab_verbs_tm_t *tm, const fab_tm_recv_t *recv,
                                 const fab_verbs_tm_wc_t *wc)
{
    const fab_verbs_place_t *place = recv->place;
    const fab_peer_t *peer;

    if (0 == (wc->flags & IBV_WC_TM_MATCH) || IBV_WC_TM_RECV != wc->opcode || NULL == tm->user) {
        return place->conn;
    }
    peer = tm->user->sender(tm->ctx, recv, wc->tag);
    return NULL != peer && 0 != (peer->caps & FAB_CAP_TM) && NULL != peer->ep
               ? ((const fab_verbs_ep_t *) peer->ep)->conn
               : NULL;
}

/* The device matched a listed receive. */
static bool tm_matched(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc)
{
    fab_verbs_tm_t *tm = dom->tm;
    fab_tm_recv_t *recv = (fab_tm_recv_t *) (uintptr_t) (wc->wr_id & ~(uint64_t) FAB_VERBS_LISTED);
    fab_verbs_conn_t *conn = tm_conn(tm, recv, wc);
    fab_verbs_place_t *place = recv->place;
    bool has_peer = NULL != conn && NULL != conn->ep && FAB_PEER_FAILED != conn->ep->peer->state;
    fab_tm_match_t match = {
        .is_first = 0 != (wc->flags & IBV_WC_TM_MATCH),
        .is_last = 0 != (wc->flags & IBV_WC_TM_DATA_VALID),
        .len = wc->len,
        .hdr = fab_hdr(FAB_AM_EAGER, wc->tag, wc->priv),
        .peer = NULL != conn && NULL != conn->ep ? conn->ep->peer : NULL,
    };

    if (0 == (wc->flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID))) {
        return false;
    }
    place->is_left |= IBV_WC_TM_RNDV_INCOMPLETE == wc->status && IBV_WC_TM_RECV == wc->opcode &&
                      match.is_first;
    if (match.is_last) {
        match.kind = tm_kind(recv, wc, &match);
        /* what broke off need not say what it was */
        match.is_first = match.is_first && FAB_TM_LOST != match.kind;
        fab_counters.verbs_tm_matched++;
    }
    if (has_peer) {
        tm_account(dom, conn, &match, wc);
    }
    if (NULL != conn && match.is_last && FAB_TM_READ == match.kind) {
        conn->has_answered = true;
    }
    place->recv = recv;
    place->conn = match.is_last ? NULL : conn;
    return NULL == tm->user || tm->user->matched(tm->ctx, recv, &match);
}

/* The device counts messages of these ids that it did not match. */
static void tm_unexpected(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc)
{
    const fab_verbs_buf_t *buf = (const fab_verbs_buf_t *) (uintptr_t) wc->wr_id;
    struct ibv_wc plain = {
        .wr_id = wc->wr_id, .status = wc->status, .byte_len = wc->len, .qp_num = wc->qp_num};
    uint8_t opcode = IBV_WC_TM_NO_TAG != wc->opcode ? buf->data[0] : FAB_AM_NO_TAG;

    fab_verbs_on_recv(dom, &plain);
    if ((FAB_AM_EAGER == opcode || FAB_AM_RNDV == opcode) && NULL != dom->tm->user) {
        dom->tm->user->handled(dom->tm->ctx);
    }
}

/*
 * A connection that ends flushes what it had begun to receive.  Any other error is one of the
 * device, not of a peer: false.
 */
static __attribute__((noinline)) bool tm_flushed(fab_verbs_domain_t *dom,
                                                 const fab_verbs_tm_wc_t *wc)
{
    fab_verbs_buf_t *buf = fab_verbs_pool_find(&dom->recv_pool, wc->wr_id);

    if (IBV_WC_WR_FLUSH_ERR != wc->status || NULL == fab_verbs_conn_by_qpn(dom, wc->qp_num)) {
        fab_log(dom->fab, 1, "%s: a completion in error (%s) for queue pair %u", dom->name,
                ibv_wc_status_str(wc->status), wc->qp_num);
        return false;
    }
    if (NULL != buf) {
        (void) fab_verbs_collect(dom, buf);
    }
    return true;
}

static bool tm_take(fab_verbs_domain_t *dom, const fab_verbs_tm_wc_t *wc)
{
    fab_verbs_tm_t *tm = dom->tm;
    bool is_op = IBV_WC_TM_ADD == wc->opcode || IBV_WC_TM_DEL == wc->opcode ||
                 IBV_WC_TM_SYNC == wc->opcode;

    if (__builtin_expect(!fab_verbs_tm_is_meant(wc->status), 0)) {
        return tm_flushed(dom, wc);
    }
    if (is_op) {
        return NULL == tm->user || tm->user->done(tm->ctx, wc->wr_id, IBV_WC_SUCCESS == wc->status);
    }
    if (0 != (wc->wr_id & FAB_VERBS_LISTED)) {
        return tm_matched(dom, wc);
    }
    tm_unexpected(dom, wc);
    return true;
}

bool fab_verbs_tm_must_hold(const fab_verbs_domain_t *dom)
{
    const fab_verbs_tm_t *tm = dom->tm;

    return NULL != tm->user && tm->user->must_hold(tm->ctx);
}

void fab_verbs_tm_conn_gone(fab_verbs_conn_t *conn)
{
    fab_verbs_tm_t *tm = conn->dom->tm;
    fab_tm_match_t match = {.is_last = true, .kind = FAB_TM_LOST};

    for (uint32_t i = 0; i < tm->max_tags + FAB_VERBS_TM_SPARE; i++) {
        fab_verbs_place_t *place = &tm->places[i];
        if (place->conn == conn) {
            place->conn = NULL;
            fab_counters.verbs_tm_lost++;
            if (NULL != tm->user) {
                (void) tm->user->matched(tm->ctx, place->recv, &match);
            }
        }
    }
}

static void tm_report_failure(fab_verbs_tm_t *tm)
{
    if (!tm->is_failure_reported && NULL != tm->user) {
        tm->is_failure_reported = true;
        tm->user->failed(tm->ctx);
    }
}

int fab_verbs_tm_poll(fab_verbs_domain_t *dom)
{
    fab_verbs_tm_wc_t wcs[FAB_VERBS_BATCH];
    fab_verbs_tm_t *tm = dom->tm;
    int n, rc;

    if (dom->is_dead) {
        tm_report_failure(tm);
        return 0;
    }
    if (NULL != tm->user) {
        tm->user->poll_begin(tm->ctx);
    }
    n = tm_collect(tm->cq, wcs, &rc);
    dom->empty_polls += 0 == n;
    for (int i = 0; i < n && !dom->is_dead; i++) {
        if (!tm_take(dom, &wcs[i])) {
            tm_broke(dom, "it reported an impossible event");
        }
    }
    if (__builtin_expect(ENOENT != rc, 0)) {
        tm_broke(dom, "it cannot be polled");
    }
    if (NULL != tm->user) {
        tm->user->poll_end(tm->ctx, 0 == n);
    }
    if (NULL != dom->to_post) {
        fab_verbs_srq_repost(dom);
    }
    return n;
}
