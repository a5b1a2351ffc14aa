/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues, both kinds. A completion frees the queue slots that it stands for when the
 * client polls it, not before: that is how drivers do it, and a client that posts too early would
 * find its queue full there.
 *
 * ring_lock guards the ring, armed and is_dead. A queue that overruns is dead for good.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* ---- the device's end ---------------------------------------------------- */

/* A completion was lost: nothing on this queue can be relied on any more. Under ring_lock. */
static void cq_overrun(tmdev_cq_t *cq)
{
    cq->is_dead = true;
    tmdev_misuse(0, "completion queue overrun: it has %u entries", cq->size);
    tmdev_event_raise(cq->cq.context, IBV_EVENT_CQ_ERR, cq);
}

/* Under ring_lock. */
static void set_armed(tmdev_cq_t *cq, int armed)
{
    tmdev_node_t *node = tmdev_ctx(cq->cq.context)->node;
    if (TMDEV_UNARMED == cq->armed && TMDEV_UNARMED != armed) {
        atomic_fetch_add(&node->armed, 1);
        tmdev_node_wake(node);
    } else if (TMDEV_UNARMED != cq->armed && TMDEV_UNARMED == armed) {
        atomic_fetch_sub(&node->armed, 1);
    }
    cq->armed = armed;
}

void tmdev_cq_push(tmdev_cq_t *cq, const tmdev_cqe_t *cqe)
{
    pthread_mutex_lock(&cq->ring_lock);
    uint32_t count = atomic_load_explicit(&cq->count, memory_order_relaxed);
    if (count == cq->size && !cq->is_dead) {
        cq_overrun(cq);
    }
    if (!cq->is_dead) {
        tmdev_cqe_t *slot = &cq->ring[(cq->head + count) % cq->size];
        *slot = *cqe;
        slot->time_ns = now_ns(CLOCK_MONOTONIC);
        /* release: pairs with the acquire in load(), which looks without the lock */
        atomic_store_explicit(&cq->count, count + 1, memory_order_release);
    }
    bool is_wanted = TMDEV_ARMED == cq->armed ||
                     (TMDEV_ARMED_SOLICITED == cq->armed &&
                      (cqe->is_solicited || IBV_WC_SUCCESS != cqe->wc.status));
    if (is_wanted) {
        set_armed(cq, TMDEV_UNARMED);
        tmdev_channel_notify(cq->cq.channel, cq);
    }
    pthread_mutex_unlock(&cq->ring_lock);
}

/*
 * Does a completion belong to an object that goes? Those of a TM-SRQ are the SRQ's, whatever the
 * queue pair.
 */
static bool cqe_is_of(const tmdev_cqe_t *cqe, const tmdev_qp_t *qp, const tmdev_srq_t *srq)
{
    if (NULL != qp) {
        return cqe->qp == qp && (NULL == cqe->srq || !cqe->srq->is_tm);
    }
    return cqe->srq == srq;
}

void tmdev_cq_clean(tmdev_cq_t *cq, const tmdev_qp_t *qp, const tmdev_srq_t *srq)
{
    pthread_mutex_lock(&cq->ring_lock);
    uint32_t count = atomic_load(&cq->count), kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        tmdev_cqe_t *cqe = &cq->ring[(cq->head + i) % cq->size];
        if (!cqe_is_of(cqe, qp, srq)) {
            cq->ring[(cq->head + kept++) % cq->size] = *cqe;
        } else if (TMDEV_RETURNS_SRQ == cqe->returns && NULL != qp) {
            atomic_fetch_sub(&cqe->srq->rq.slots, 1);
        }
    }
    atomic_store(&cq->count, kept);
    pthread_mutex_unlock(&cq->ring_lock);
}

/* ---- polling ------------------------------------------------------------- */

/*
 * Give back what a completion returns. Under ring_lock, so that tmdev_cq_clean() does not free the
 * objects meanwhile.
 */
static void cqe_polled(tmdev_cqe_t *cqe)
{
    switch (cqe->returns) {
    case TMDEV_RETURNS_SQ:
        atomic_store(&cqe->qp->sq_tail, cqe->number + 1);
        break;
    case TMDEV_RETURNS_RQ:
        atomic_fetch_sub(&cqe->qp->rq.slots, 1);
        break;
    case TMDEV_RETURNS_SRQ:
        atomic_fetch_sub(&cqe->srq->rq.slots, 1);
        break;
    case TMDEV_RETURNS_NOTHING:
    case TMDEV_RETURNS_TAG:
    case TMDEV_PEEKS_TAG:
    case TMDEV_RETURNS_OP:
        break;
    }
    if (NULL != cqe->srq && cqe->srq->is_tm) {
        tmdev_tm_polled(cqe);
    }
}

/* Take the oldest completion; false if there is none. */
static bool load(tmdev_cq_t *cq, tmdev_cqe_t *cqe)
{
    /* acquire: pairs with the release in tmdev_cq_push() */
    if (0 == atomic_load_explicit(&cq->count, memory_order_acquire)) {
        return false;
    }
    pthread_mutex_lock(&cq->ring_lock);
    bool has_one = 0 != atomic_load(&cq->count);
    if (has_one) {
        uint64_t previous = cqe->wc.wr_id;
        *cqe = cq->ring[cq->head];
        cqe->wc.wr_id = cqe->is_repeated ? previous : cqe->wc.wr_id;
        cq->head = (cq->head + 1) % cq->size;
        atomic_fetch_sub(&cq->count, 1);
        cqe_polled(cqe);
    }
    pthread_mutex_unlock(&cq->ring_lock);
    return has_one;
}

/* Does this successful poll fail by TMDEV_POLL_ERROR? The completion is lost. */
static bool poll_fails(atomic_uint *polls, uint32_t first)
{
    return 0 != first && atomic_fetch_add(polls, 1) + 1 == first;
}

/* What mlx5 returns for a completion of an object that it does not know. */
#define POLL_ERROR (-2)

int tmdev_poll_cq(struct ibv_cq *ibcq, int count, struct ibv_wc *wc)
{
    static atomic_uint polls;
    tmdev_cq_t *cq = tmdev_cq(ibcq);
    tmdev_cqe_t cqe = {0};
    int n = 0;
    if (0 != atomic_load_explicit(&cq->tm_users, memory_order_relaxed)) {
        return tmdev_misuse(-1, "ibv_poll_cq on the completion queue of a TM-SRQ: only "
                                "ibv_start_poll knows tag matching");
    }
    tmdev_alone_begin(cq->is_single ? &cq->thread : NULL, "ibv_poll_cq");
    while (n < count && load(cq, &cqe)) {
        wc[n++] = cqe.wc;
    }
    tmdev_alone_end(cq->is_single ? &cq->thread : NULL);
    tmdev_node_polled(tmdev_ctx(ibcq->context)->node, 0 == n);
    return n > 0 && poll_fails(&polls, tmdev_settings()->poll_error) ? POLL_ERROR : n;
}

static int show_next(tmdev_cq_t *cq)
{
    if (!load(cq, &cq->current)) {
        return ENOENT;
    }
    cq->cq.status = cq->current.wc.status;
    cq->cq.wr_id = cq->current.wc.wr_id;
    return 0;
}

static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
    tmdev_cq_t *cq = (tmdev_cq_t *) ibcq;
    if (0 != attr->comp_mask) {
        return EINVAL;
    }
    if (atomic_load(&cq->poller) == (unsigned long) pthread_self()) {
        return tmdev_misuse(EDEADLK, "ibv_start_poll between ibv_start_poll and ibv_end_poll");
    }
    static atomic_uint polls;
    tmdev_alone_begin(cq->is_single ? &cq->thread : NULL, "ibv_start_poll");
    pthread_mutex_lock(&cq->poll_lock);
    int rc = show_next(cq);
    if (0 == rc && poll_fails(&polls, tmdev_settings()->start_error)) {
        rc = POLL_ERROR;
    }
    if (0 != rc) {
        pthread_mutex_unlock(&cq->poll_lock);
        tmdev_alone_end(cq->is_single ? &cq->thread : NULL);
    }
    tmdev_node_polled(tmdev_ctx(ibcq->context)->node, 0 != rc);
    if (0 != rc) {
        return rc;
    }
    atomic_store(&cq->poller, (unsigned long) pthread_self());
    return 0;
}

static bool is_polling(tmdev_cq_t *cq, const char *function)
{
    if (atomic_load(&cq->poller) == (unsigned long) pthread_self()) {
        return true;
    }
    tmdev_misuse(0, "%s without a successful ibv_start_poll before", function);
    return false;
}

static int next_poll(struct ibv_cq_ex *ibcq)
{
    static atomic_uint polls;
    tmdev_cq_t *cq = (tmdev_cq_t *) ibcq;
    int rc = is_polling(cq, "ibv_next_poll") ? show_next(cq) : EINVAL;
    return 0 == rc && poll_fails(&polls, tmdev_settings()->next_error) ? POLL_ERROR : rc;
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
    tmdev_cq_t *cq = (tmdev_cq_t *) ibcq;
    if (is_polling(cq, "ibv_end_poll")) {
        atomic_store(&cq->poller, 0);
        pthread_mutex_unlock(&cq->poll_lock);
        tmdev_alone_end(cq->is_single ? &cq->thread : NULL);
    }
}

/* ---- what an extended completion queue shows of the current completion */

static const struct ibv_wc *shown(const struct ibv_cq_ex *cq)
{
    return &((const tmdev_cq_t *) cq)->current.wc;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return shown(cq)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
    return shown(cq)->vendor_err;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
    return shown(cq)->wc_flags;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
    return shown(cq)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
    return shown(cq)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
    return shown(cq)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
    return shown(cq)->src_qp;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
    return shown(cq)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
    return shown(cq)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
    return shown(cq)->dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
    return ((const tmdev_cq_t *) cq)->current.time_ns;
}

static uint64_t read_wallclock_ns(struct ibv_cq_ex *cq)
{
    return now_ns(CLOCK_REALTIME) -
           (now_ns(CLOCK_MONOTONIC) - ((const tmdev_cq_t *) cq)->current.time_ns);
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm)
{
    *tm = ((const tmdev_cq_t *) cq)->current.tm;
}

/* What was not asked for stays NULL, as with every driver. */
static void set_readers(struct ibv_cq_ex *cq, uint64_t flags)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_wc_flags = read_wc_flags;
    cq->read_byte_len = 0 != (flags & IBV_WC_EX_WITH_BYTE_LEN) ? read_byte_len : NULL;
    cq->read_imm_data = 0 != (flags & IBV_WC_EX_WITH_IMM) ? read_imm_data : NULL;
    cq->read_qp_num = 0 != (flags & IBV_WC_EX_WITH_QP_NUM) ? read_qp_num : NULL;
    cq->read_src_qp = 0 != (flags & IBV_WC_EX_WITH_SRC_QP) ? read_src_qp : NULL;
    cq->read_slid = 0 != (flags & IBV_WC_EX_WITH_SLID) ? read_slid : NULL;
    cq->read_sl = 0 != (flags & IBV_WC_EX_WITH_SL) ? read_sl : NULL;
    cq->read_dlid_path_bits = 0 != (flags & IBV_WC_EX_WITH_DLID_PATH_BITS) ? read_dlid_path_bits
                                                                           : NULL;
    cq->read_completion_ts = 0 != (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) ? read_completion_ts
                                                                                : NULL;
    cq->read_completion_wallclock_ns = 0 != (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
                                           ? read_wallclock_ns
                                           : NULL;
    cq->read_tm_info = 0 != (flags & IBV_WC_EX_WITH_TM_INFO) ? read_tm_info : NULL;
}

/* ---- making and destroying ----------------------------------------------- */

static tmdev_cq_t *cq_new(struct ibv_context *context, uint32_t cqe, void *cq_context,
                          struct ibv_comp_channel *channel, uint32_t vector)
{
    if (cqe < 1 || cqe > TMDEV_MAX_CQE || vector >= (uint32_t) context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    tmdev_cq_t *cq = tmdev_alloc(sizeof(*cq));
    if (NULL == cq || NULL == (cq->ring = calloc(cqe, sizeof(*cq->ring)))) {
        free(cq);
        errno = ENOMEM;
        return NULL;
    }
    cq->size = cqe;
    cq->cq.context = context;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    cq->cq.cqe = (int) cqe;
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    pthread_mutex_init(&cq->poll_lock, NULL);
    pthread_mutex_init(&cq->ring_lock, NULL);
    if (NULL != channel) {
        pthread_mutex_lock(&context->mutex);
        channel->refcnt++;
        pthread_mutex_unlock(&context->mutex);
    }
    atomic_fetch_add(&tmdev_ctx(context)->objects, 1);
    return cq;
}

TMDEV_PUBLIC struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                          struct ibv_comp_channel *channel, int comp_vector)
{
    if (tmdev_fails(TMDEV_FAIL_CQ)) {
        return NULL;
    }
    tmdev_cq_t *cq = cq_new(context, cqe < 0 ? 0 : (uint32_t) cqe, cq_context, channel,
                            (uint32_t) comp_vector);
    return NULL == cq ? NULL : ibv_cq_ex_to_cq(&cq->cq);
}

struct ibv_cq_ex *tmdev_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO |
                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                           IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    if (tmdev_fails(TMDEV_FAIL_CQ_EX)) {
        return NULL;
    }
    if (0 != (attr->wc_flags & ~known) ||
        0 != (attr->comp_mask & ~(uint32_t) IBV_CQ_INIT_ATTR_MASK_FLAGS) ||
        (0 != attr->comp_mask &&
         0 != (attr->flags & ~(uint32_t) IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    tmdev_cq_t *cq = cq_new(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
    if (NULL == cq) {
        return NULL;
    }
    cq->is_extended = true;
    cq->is_single = 0 != attr->comp_mask && 0 != (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    set_readers(&cq->cq, attr->wc_flags);
    return &cq->cq;
}

TMDEV_PUBLIC int ibv_destroy_cq(struct ibv_cq *ibcq)
{
    tmdev_cq_t *cq = tmdev_cq(ibcq);
    struct ibv_context *context = ibcq->context;
    if (0 != atomic_load(&cq->users)) {
        return tmdev_misuse(EBUSY, "ibv_destroy_cq: %u queue pairs or SRQs still use it",
                            atomic_load(&cq->users));
    }
    tmdev_event_forget(context, cq);
    if (NULL != ibcq->channel) {
        pthread_mutex_lock(&cq->ring_lock);
        set_armed(cq, TMDEV_UNARMED);
        pthread_mutex_unlock(&cq->ring_lock);
        tmdev_channel_forget(ibcq->channel, cq);
        tmdev_event_wait(&ibcq->mutex, &ibcq->cond, &ibcq->comp_events_completed,
                         &cq->events_fetched, "ibv_destroy_cq");
        pthread_mutex_lock(&context->mutex);
        ibcq->channel->refcnt--;
        pthread_mutex_unlock(&context->mutex);
    }
    tmdev_event_wait(&ibcq->mutex, &ibcq->cond, &ibcq->async_events_completed, &cq->async_fetched,
                     "ibv_destroy_cq");
    atomic_fetch_sub(&tmdev_ctx(context)->objects, 1);
    pthread_mutex_destroy(&cq->poll_lock);
    pthread_mutex_destroy(&cq->ring_lock);
    pthread_cond_destroy(&ibcq->cond);
    pthread_mutex_destroy(&ibcq->mutex);
    free(cq->ring);
    free(cq);
    return 0;
}

int tmdev_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
    tmdev_cq_t *cq = tmdev_cq(ibcq);
    if (NULL == ibcq->channel) {
        return 0;
    }
    pthread_mutex_lock(&cq->ring_lock);
    if (!solicited_only) {
        set_armed(cq, TMDEV_ARMED);
    } else if (TMDEV_UNARMED == cq->armed) {
        set_armed(cq, TMDEV_ARMED_SOLICITED);
    }
    pthread_mutex_unlock(&cq->ring_lock);
    return 0;
}
