/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider verbs: opening and closing it in this process, its address, its description, its table.
 */
#include "verbs/verbs_domain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>

#include "fabric/fab_host.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"
#include "verbs/verbs_conn.h"
#include "verbs/verbs_device.h"
#include "verbs/verbs_ep.h"
#include "verbs/verbs_oob.h"
#include "verbs/verbs_progress.h"
#include "verbs/verbs_rma.h"
#include "verbs/verbs_srq.h"
#include "verbs/verbs_tm.h"

enum {
    FAB_VERBS_LEAVE_US = 300000
}; /* for what was sent to be delivered when the process leaves */

/* ---- open --------------------------------------------------------------- */

/*
 * Before the first registration.  Kernels since 5.12 need nothing: they copy pinned pages when a
 * process forks.
 */
static void survive_fork(fab_verbs_domain_t *dom)
{
    int error = IBV_FORK_DISABLED == ibv_is_fork_initialized() ? ibv_fork_init() : 0;

    if (0 != error) {
        fab_log(dom->fab, 1, "fork() may damage messages, since ibv_fork_init() failed: %s",
                strerror(error));
    }
}

static int fill_address(fab_verbs_domain_t *dom, const char **why)
{
    fab_verbs_addr_t *addr = &dom->addr;

    addr->version = FAB_VERBS_VERSION;
    addr->eager_max = fab_params.verbs_eager_limit;
    addr->flags |= IBV_ATOMIC_NONE != dom->device.atomic_cap ? FAB_VERBS_ADDR_ATOMIC : 0;
    addr->pid = (uint32_t) getpid();
    addr->host = fab_host_identity();
    addr->start_time = fab_proc_start_time(addr->pid);
    if ((ssize_t) sizeof(addr->key) != getrandom(addr->key, sizeof(addr->key), 0)) {
        *why = fab_sentence(dom->fab, "getrandom() failed: %s.", strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

static int cq_open(fab_verbs_domain_t *dom, const char **why)
{
    int max = dom->device.max_cqe;

    dom->sq_used_max = max / 2 < FAB_VERBS_SQ_USED_MAX ? (uint32_t) max / 2 : FAB_VERBS_SQ_USED_MAX;
    dom->send_cq = ibv_create_cq(dom->ctx, (int) (2 * dom->sq_used_max), NULL, NULL, 0);
    /* of a domain on standby the list would not be used: its user looked for it at the start */
    if (dom->is_standby || !fab_verbs_tm_open(dom)) {
        int num = (int) fab_params.verbs_buffers < max ? (int) fab_params.verbs_buffers : max;
        dom->recv_cq = ibv_create_cq(dom->ctx, num, NULL, NULL, 0);
    }
    if (NULL == dom->send_cq || NULL == dom->recv_cq) {
        *why = fab_sentence(dom->fab, "%s cannot make completion queues: %s.", dom->name,
                            strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

static int send_bufs_open(fab_verbs_domain_t *dom, const char **why)
{
    fab_verbs_pool_init(&dom->send_pool, dom->pd, fab_params.verbs_eager_limit);
    dom->max_send_bufs = fab_params.verbs_buffers;
    if (OPAL_SUCCESS != fab_verbs_pool_grow(&dom->send_pool, FAB_VERBS_CHUNK_BUFS)) {
        *why = fab_sentence(dom->fab,
                            "%s: %zu bytes for messages cannot be registered: %s. Is the limit on "
                            "locked memory (ulimit -l) "
                            "too low?",
                            dom->name, FAB_VERBS_CHUNK_BUFS * dom->send_pool.buf_size,
                            strerror(errno));
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}

/* What fab_verbs_start() makes, in the reverse order; what was not made is NULL. */
static void stop(fab_verbs_domain_t *dom)
{
    if (NULL != dom->srq) {
        (void) ibv_destroy_srq(dom->srq);
    }
    if (NULL != dom->send_cq) {
        (void) ibv_destroy_cq(dom->send_cq);
    }
    if (NULL != dom->recv_cq) {
        (void) ibv_destroy_cq(dom->recv_cq);
    }
    dom->srq = NULL;
    dom->send_cq = dom->recv_cq = NULL;
    dom->to_post = NULL;
    fab_verbs_tm_close(dom);
    fab_verbs_pool_fini(&dom->send_pool);
    fab_verbs_pool_fini(&dom->recv_pool);
}

int fab_verbs_start(fab_verbs_domain_t *dom, const char **why)
{
    int rc;

    if (dom->is_dead) {
        *why = fab_sentence(dom->fab, "%s here failed.", dom->name);
        return OPAL_ERR_UNREACH;
    }
    if (dom->is_started) {
        return OPAL_SUCCESS;
    }
    rc = cq_open(dom, why);
    if (OPAL_SUCCESS == rc) {
        rc = fab_verbs_srq_open(dom, why);
    }
    if (OPAL_SUCCESS == rc) {
        rc = send_bufs_open(dom, why);
    }
    dom->is_started = OPAL_SUCCESS == rc;
    if (!dom->is_started) {
        stop(dom);
    }
    return rc;
}

static int open_steps(fab_verbs_domain_t *dom, const char **why)
{
    int rc = fab_verbs_device_open(dom, why);

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    (void) fcntl(dom->ctx->async_fd, F_SETFL, fcntl(dom->ctx->async_fd, F_GETFL) | O_NONBLOCK);
    survive_fork(dom);
    dom->pd = ibv_alloc_pd(dom->ctx);
    if (NULL == dom->pd) {
        *why = fab_sentence(dom->fab, "%s cannot allocate a protection domain: %s.", dom->name,
                            strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    dom->regs = fab_verbs_reg_ops->open(dom->pd);
    if (NULL == dom->regs) {
        *why = "The cache of registered memory cannot be opened.";
        return OPAL_ERR_NOT_AVAILABLE;
    }
    if (!dom->is_standby) {
        rc = fab_verbs_start(dom, why);
    }
    if (OPAL_SUCCESS == rc) {
        rc = fill_address(dom, why);
    }
    if (OPAL_SUCCESS == rc) {
        rc = dom->cm_ops->open(dom, why);
    }
    return OPAL_SUCCESS == rc ? fab_verbs_oob_open(dom, why) : rc;
}

/* In the reverse order; what was not made is NULL. */
static void domain_free(fab_verbs_domain_t *dom)
{
    fab_verbs_oob_close(dom);
    dom->cm_ops->close(dom);
    stop(dom);
    while (NULL != dom->exposed) {
        fab_verbs_let_go(dom, dom->exposed);
    }
    if (NULL != dom->regs) {
        fab_verbs_reg_ops->close(dom->regs);
    }
    if (NULL != dom->pd) {
        (void) ibv_dealloc_pd(dom->pd);
    }
    if (NULL != dom->ctx) {
        (void) ibv_close_device(dom->ctx);
    }
    while (NULL != dom->free_ops) {
        fab_verbs_op_t *op = dom->free_ops;
        dom->free_ops = op->next;
        free(op);
    }
    while (NULL != dom->free_exposed) {
        fab_verbs_exposed_t *exposed = dom->free_exposed;
        dom->free_exposed = exposed->next;
        free(exposed);
    }
    free(dom->conns);
    free(dom);
}

static int verbs_open(fab_t *fab, fab_domain_t **out, const char **why)
{
    fab_verbs_domain_t *dom;
    int rc;

    dom = calloc(1, sizeof(*dom));
    if (NULL == dom) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    dom->fab = fab;
    dom->is_standby = fab->is_covered;
    dom->cm_ops = &fab_verbs_cm_frames; /* until the device is known */
    dom->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    dom->rma_tail = &dom->rma;
    dom->waiting_tail = &dom->waiting;
    rc = open_steps(dom, why);
    if (OPAL_SUCCESS != rc) {
        domain_free(dom);
        return rc;
    }
    *out = (fab_domain_t *) dom;
    return OPAL_SUCCESS;
}

/* ---- close -------------------------------------------------------------- */

static bool is_drained(const fab_verbs_domain_t *dom)
{
    for (uint32_t i = 0; i < dom->max_conns; i++) {
        const fab_verbs_conn_t *conn = dom->conns[i];
        bool is_lost = NULL == conn || conn->is_broken || (NULL != conn->ep && conn->ep->has_left);
        if (!is_lost && (conn->head != conn->tail || 0 != conn->to_send)) {
            return false;
        }
    }
    return true;
}

/* Is the device to answer a peer still?  Only the peer can tell: by CLOSED, or CLOSE, it has all. */
static bool is_answering(const fab_verbs_domain_t *dom)
{
    const fab_verbs_ep_t *ep = dom->eps;

    while (NULL != ep && (!ep->is_closing || NULL == ep->conn || !ep->conn->has_answered ||
                          ep->conn->is_broken)) {
        ep = ep->next;
    }
    return NULL != ep;
}

/*
 * Send LEAVE to all peers and wait, FAB_VERBS_LEAVE_US at most, until what was sent is delivered:
 * unlike shared memory, a queue pair that is destroyed loses what it has not sent yet.
 */
static void announce_leave(fab_verbs_domain_t *dom)
{
    uint64_t until = fab_verbs_now_us() + FAB_VERBS_LINGER_US;

    while (!dom->is_dead && is_answering(dom) && fab_verbs_now_us() < until) {
        (void) fab_verbs_progress((fab_domain_t *) dom);
    }
    until = fab_verbs_now_us() + FAB_VERBS_LEAVE_US;
    for (fab_verbs_ep_t *ep = dom->eps; NULL != ep; ep = ep->next) {
        if (NULL != ep->conn && ep->conn->is_ready) {
            fab_verbs_conn_send_control(ep->conn, FAB_VERBS_ID_LEAVE);
        }
    }
    while (!dom->is_dead && !is_drained(dom) && fab_verbs_now_us() < until) {
        (void) fab_verbs_poll_send(dom);
        fab_verbs_conn_send_due(dom);
    }
}

static void verbs_close(fab_domain_t *domain)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;

    if ((uint32_t) getpid() != dom->addr.pid) {
        return; /* a child made by fork(): all is its parent's */
    }
    dom->is_closed = true;
    announce_leave(dom);
    for (uint32_t i = 0; i < dom->max_conns; i++) {
        if (NULL != dom->conns[i]) {
            fab_verbs_conn_destroy(dom->conns[i], OPAL_ERR_UNREACH);
        }
    }
    while (NULL != dom->eps) {
        dom->eps->peer->ep = NULL;
        fab_verbs_ep_free(dom->eps);
    }
    domain_free(dom);
}

/* ---- the rest ----------------------------------------------------------- */

static size_t verbs_address(fab_domain_t *domain, void *buf, size_t size)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;

    if (size < sizeof(dom->addr)) {
        return 0;
    }
    memcpy(buf, &dom->addr, sizeof(dom->addr));
    return sizeof(dom->addr);
}

static int verbs_describe(fab_domain_t *domain, char *buf, size_t size)
{
    const fab_verbs_domain_t *dom = (const fab_verbs_domain_t *) domain;
    bool is_roce = IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer;

    return snprintf(
        buf, size,
        "any host       verbs  0 to %-10u  eager, by SEND on %s (%s%s%s), window of %u messages: "
        "two copies\n"
        "                      longer           rendezvous, read by the receiver: no copy (READ, "
        "steps of %u bytes)\n"
        "                      derived types    rendezvous, fragments by SEND: two copies\n",
        fab_params.verbs_eager_limit, dom->name,
        !is_roce                                     ? "InfiniBand"
        : dom->cm_ops->is_iwarp                      ? "iWARP"
        : IBV_GID_TYPE_ROCE_V2 == dom->addr.gid_type ? "RoCE v2"
                                                     : "RoCE v1",
        NULL != dom->tm ? ", matches tags" : "", dom->is_started ? "" : ", not in use",
        fab_params.verbs_window, dom->step);
}

const fab_provider_t fab_verbs_provider = {
    .name = "verbs",
    .id = FAB_WIRE_VERBS,
    .reaches_hosts = true,
    .ops = &fab_verbs_ops,
    .open = verbs_open,
    .close = verbs_close,
    .address = verbs_address,
    .attach = fab_verbs_attach,
    .detach = fab_verbs_detach,
    .drop = fab_verbs_drop,
    .spare = fab_verbs_spare,
    .progress = fab_verbs_progress,
    .expose_any = fab_verbs_expose_any,
    .unexpose_any = fab_verbs_unexpose_any,
    .tm_use = fab_verbs_tm_use,
    .describe = verbs_describe,
};
