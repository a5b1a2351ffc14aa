/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching hardware: a shared receive queue with a tag list (TM-SRQ), list operations, and the
 * buffers of listed receives.  doc/offload.md and doc/verbs.md say why.
 *
 * wr_id: of receive buffers the fab_verbs_buf_t; of listed receives the fab_tm_recv_t, with
 * FAB_VERBS_LISTED; of signaled list operations what the engine gave.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_tm_wc.h"

enum {
    FAB_VERBS_TM_MIN_BUFS = 33,            /* posted before mlx5's TM-SRQ does anything */
    FAB_VERBS_TM_MAX_BUFS = (1 << 15) - 1, /* doc/offload.md, R11 */
    FAB_VERBS_TM_MIN_OPS = 16,
};

_Static_assert(_Alignof(fab_tm_recv_t) > FAB_VERBS_LISTED &&
                   _Alignof(fab_verbs_buf_t) > FAB_VERBS_LISTED,
               "addresses have room for the bit");

void fab_verbs_tm_broke(fab_verbs_domain_t *dom, const char *why)
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
    tm->max_tags = fab_verbs_min(attr.tm_caps.max_num_tags, fab_limits.verbs_tm_tags);
    tm->max_ops = fab_verbs_min(attr.tm_caps.max_ops, 2 * tm->max_tags + FAB_VERBS_TM_MIN_OPS);
    tm->has_rndv = 0 != (attr.tm_caps.flags & IBV_TM_CAP_RC) &&
                   attr.tm_caps.max_rndv_hdr_size >=
                       sizeof(fab_verbs_tmh_t) + sizeof(fab_verbs_rvh_t);
    return tm->max_ops >= FAB_VERBS_TM_MIN_OPS ? NULL : "its queue of list operations is too short";
}

/* NULL, or what cannot be made. */
static const char *tm_make(fab_verbs_domain_t *dom, fab_verbs_tm_t *tm)
{
    uint32_t num_bufs = fab_verbs_min(fab_params.verbs_buffers, (uint32_t) dom->device.max_srq_wr);
    uint32_t cqe;

    num_bufs = fab_verbs_min(num_bufs, FAB_VERBS_TM_MAX_BUFS);
    /* each message, both completions of each match, each operation */
    cqe = num_bufs + 2 * tm->max_tags + tm->max_ops;
    if (num_bufs < FAB_VERBS_TM_MIN_BUFS || cqe > (uint32_t) dom->device.max_cqe) {
        return "its queues are too short";
    }
    tm->cq = fab_verbs_tm_cq(dom, cqe, dom->channel);
    if (NULL == tm->cq) {
        return strerror(errno);
    }
    dom->srq = fab_verbs_tm_srq(dom, tm->cq, num_bufs, tm->max_tags, tm->max_ops);
    /* a list operation may take more of the queue than the device's limit counts for it: mlx5, 4 */
    while (NULL == dom->srq && (EINVAL == errno || ENOMEM == errno) &&
           tm->max_ops / 2 >= FAB_VERBS_TM_MIN_OPS) {
        tm->max_ops /= 2;
        dom->srq = fab_verbs_tm_srq(dom, tm->cq, num_bufs, tm->max_tags, tm->max_ops);
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

/*
 * libmlx5 makes a queue pair of its own for list operations, on port 1, whichever port is used.
 */
static bool is_port_1_up(const fab_verbs_domain_t *dom)
{
    struct ibv_port_attr port;

    memset(&port, 0, sizeof(port));
    return 1 == dom->port_num ||
           (0 == ibv_query_port(dom->ctx, 1, &port) && IBV_PORT_ACTIVE == port.state);
}

/*
 * Does it what it says?  Firmware's matching is tested nowhere else, so this process tests it, with
 * verbs_tm auto.  NULL, or what is wrong; a device that fails in rendezvous alone is used without.
 */
static const char *tm_try(fab_verbs_domain_t *dom, fab_verbs_tm_t *tm)
{
    const char *why = is_port_1_up(dom) ? NULL : "its port 1, which list operations need, is down";
    const char *no_rndv = NULL;

    if (NULL != why || 0 != strcmp("auto", fab_params.verbs_tm)) {
        return why;
    }
    if (0 != (dom->port_addr.flags & FAB_VERBS_PORT_GRH)) {
        return "its port needs a GRH, which its queue pair for list operations has not";
    }
    why = fab_verbs_tm_test(dom, tm->max_tags, tm->max_ops, tm->has_rndv ? &no_rndv : NULL);
    if (NULL == why && NULL != no_rndv) {
        fab_log(dom->fab, 1, "%s does no rendezvous by itself: %s", dom->name, no_rndv);
        tm->has_rndv = false;
    }
    fab_counters.verbs_tm_failed += NULL != why || NULL != no_rndv;
    return why;
}

bool fab_verbs_tm_open(fab_verbs_domain_t *dom)
{
    fab_verbs_tm_t *tm = !fab_params_is_none(fab_params.verbs_tm) ? calloc(1, sizeof(*tm)) : NULL;
    const char *why;

    if (NULL == tm) {
        return false;
    }
    why = tm_query(dom, tm);
    why = NULL == why ? tm_try(dom, tm) : why;
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
    fab_verbs_pool_init(&tm->pool, dom->pd, fab_verbs_eager(), tm->max_tags + FAB_VERBS_TM_SPARE);
    dom->tm = tm;
    dom->recv_cq = ibv_cq_ex_to_cq(tm->cq);
    dom->addr.flags |= FAB_VERBS_ADDR_TM | (tm->has_rndv ? FAB_VERBS_ADDR_TM_RNDV : 0);
    dom->addr.max_read = verbs_log2(dom->port.max_msg_sz);
    dom->max_requested = tm->has_rndv && dom->max_recv_bufs > 4 * FAB_VERBS_FIN_BUFS
                             ? FAB_VERBS_FIN_BUFS
                             : 0;
    return true;
}

/* Of the user. */
static inline void give_up_memory(fab_verbs_domain_t *dom, fab_verbs_place_t *place)
{
    if (NULL != place->reg) {
        fab_reg_ops->put(dom->regs, place->reg);
        place->reg = NULL;
    }
}

void fab_verbs_tm_close(fab_verbs_domain_t *dom)
{
    if (NULL != dom->tm) {
        for (uint32_t i = 0; i < dom->tm->max_tags + FAB_VERBS_TM_SPARE; i++) {
            give_up_memory(dom, &dom->tm->places[i]);
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
    if (NULL == recv->data || recv->len < fab_verbs_eager()) {
        return false;
    }
    place->len = recv->len < dom->port.max_msg_sz ? (uint32_t) recv->len : dom->port.max_msg_sz;
    place->reg = fab_verbs_register(dom, recv->data, place->len, FAB_REG_LOCAL_WRITE);
    if (NULL == place->reg) {
        return false;
    }
    place->data = recv->data;
    place->lkey = fab_verbs_mr(place->reg)->lkey;
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
    place->len = fab_verbs_eager();
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
    if (NULL != place->reg) {
        give_up_memory(dom, place);
    } else {
        fab_verbs_pool_put(&dom->tm->pool, place->buf);
    }
    place->next = dom->tm->free_places;
    dom->tm->free_places = place;
}

static int tm_failed(fab_verbs_domain_t *dom, int error)
{
    if (ENOMEM == error) {
        return FAB_TM_BUSY;
    }
    fab_verbs_tm_broke(dom, strerror(error));
    return FAB_TM_DEAD;
}

static int tm_add(fab_verbs_domain_t *dom, const fab_tm_cmd_t *cmd)
{
    fab_tm_recv_t *recv = cmd->recv;
    fab_verbs_place_t *place = tm_get_place(dom, recv);
    struct ibv_ops_wr wr, *bad;
    struct ibv_sge sge;
    int error;

    if (NULL == place) {
        return FAB_TM_BUSY;
    }
    sge = (struct ibv_sge){(uintptr_t) place->data, place->len, place->lkey};
    wr.wr_id = 0;
    wr.next = NULL;
    wr.opcode = IBV_WR_TAG_ADD;
    wr.flags = IBV_OPS_TM_SYNC;
    wr.tm.unexpected_cnt = cmd->count;
    wr.tm.add.recv_wr_id = (uintptr_t) recv | FAB_VERBS_LISTED;
    wr.tm.add.sg_list = &sge;
    wr.tm.add.num_sge = 1;
    wr.tm.add.tag = recv->tag;
    wr.tm.add.mask = recv->mask;
    error = ibv_post_srq_ops(dom->srq, &wr, &bad);
    if (__builtin_expect(0 != error, 0)) {
        tm_release(dom, place);
        return tm_failed(dom, error);
    }
    recv->handle = wr.tm.handle;
    recv->place = place;
    return FAB_TM_POSTED;
}

/* Not an ADD. */
static int tm_command(fab_verbs_domain_t *dom, const fab_tm_cmd_t *cmd)
{
    struct ibv_ops_wr wr = {
        .wr_id = cmd->wr_id,
        .opcode = FAB_TM_DEL == cmd->op ? IBV_WR_TAG_DEL : IBV_WR_TAG_SYNC,
        .flags = IBV_OPS_TM_SYNC | (cmd->is_signaled ? IBV_OPS_SIGNALED : 0),
        .tm = {.unexpected_cnt = cmd->count, .handle = cmd->handle},
    };
    struct ibv_ops_wr *bad;
    int error = ibv_post_srq_ops(dom->srq, &wr, &bad);

    return 0 == error ? FAB_TM_POSTED : tm_failed(dom, error);
}

static int tm_post(void *device, const fab_tm_cmd_t *cmd)
{
    fab_verbs_domain_t *dom = device;

    if (__builtin_expect(dom->is_dead, 0)) {
        return tm_failed(dom, EIO);
    }
    return FAB_TM_ADD == cmd->op ? tm_add(dom, cmd) : tm_command(dom, cmd);
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
            .own_len = fab_verbs_eager(),
            .release = tm_release,
        };
    }
    return true;
}

/* ---- what other files call ---------------------------------------------- */

bool fab_verbs_tm_must_hold(const fab_verbs_domain_t *dom)
{
    const fab_verbs_tm_t *tm = dom->tm;

    return NULL != tm->user && tm->user->must_hold(tm->ctx);
}

bool fab_verbs_tm_is_receiving(const fab_verbs_conn_t *conn)
{
    const fab_verbs_tm_t *tm = conn->dom->tm;

    for (uint32_t i = 0; NULL != tm && i < tm->max_tags + FAB_VERBS_TM_SPARE; i++) {
        if (conn == tm->places[i].conn) {
            return true;
        }
    }
    return false;
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
