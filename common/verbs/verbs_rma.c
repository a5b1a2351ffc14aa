/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put: RDMA READ and WRITE, in steps, a few of them under way on each connection;
 * operations of one peer take turns.
 *
 * What cannot be registered is refused (OPAL_ERR_NOT_SUPPORTED): the caller sends messages instead.
 */
#include "verbs/verbs_rma.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/verbs_conn.h"
#include "verbs/verbs_connect.h"
#include "verbs/verbs_domain.h"
#include "verbs/verbs_ep.h"

/* What this provider writes into fab_rkey_t. */
typedef struct fab_verbs_rkey {
    uint32_t rkey;
    uint32_t reserved;
    uint64_t exposed; /* for the exposing process: fab_verbs_exposed_t */
} fab_verbs_rkey_t;

_Static_assert(16 == sizeof(fab_verbs_rkey_t), "the rest is shm's: fab_shm_rkey_t");

/* ---- registering -------------------------------------------------------- */

/* access: IBV_ACCESS_*, besides reading. */
static fab_verbs_reg_t *verbs_register(fab_verbs_domain_t *dom, const void *buf, size_t len,
                                       int access)
{
    fab_verbs_reg_t *reg = fab_verbs_reg_ops->get(dom->regs, (void *) (uintptr_t) buf, len, access);
    int error = errno;

    if (NULL != reg) {
        return reg;
    }
    if (ENOMEM != error && EAGAIN != error) {
        fab_counters.verbs_unregistrable++;
        return NULL;
    }
    fab_counters.verbs_locked_memory++;
    if (!dom->is_memlock_logged) {
        dom->is_memlock_logged = true;
        fab_log(dom->fab, 1,
                "%s: memory cannot be locked (%s): large messages are copied. Raise RLIMIT_MEMLOCK "
                "(ulimit -l unlimited, "
                "/etc/security/limits.d).",
                dom->name, strerror(error));
    }
    return NULL;
}

fab_verbs_exposed_t *fab_verbs_hold(fab_verbs_domain_t *dom, fab_verbs_exposed_list_t *list,
                                    const void *buf, size_t len, unsigned access)
{
    /* in terms of the device, besides reading */
    int wanted = 0 == access                        ? IBV_ACCESS_LOCAL_WRITE
                 : 0 != (access & FAB_ACCESS_WRITE) ? IBV_ACCESS_REMOTE_WRITE
                                                    : 0;
    fab_verbs_exposed_t *exposed;

    if (!fab_verbs_conns_allow(dom, wanted)) {
        return NULL;
    }
    exposed = malloc(sizeof(*exposed));
    if (NULL == exposed) {
        return NULL;
    }
    exposed->reg = len > 0 ? verbs_register(dom, buf, len, wanted) : NULL;
    if (NULL == exposed->reg && len > 0) {
        free(exposed);
        return NULL;
    }
    exposed->is_requested = false;
    LIST_INSERT_HEAD(list, exposed, link);
    return exposed;
}

void fab_verbs_let_go(fab_verbs_domain_t *dom, fab_verbs_exposed_t *exposed)
{
    LIST_REMOVE(exposed, link);
    if (NULL != exposed->reg) {
        fab_verbs_reg_ops->put(dom->regs, exposed->reg);
    }
    dom->num_requested -= exposed->is_requested;
    free(exposed);
}

static fab_verbs_rkey_t key_of(const fab_rkey_t *rkey)
{
    fab_verbs_rkey_t key;

    memcpy(&key, rkey->bytes, sizeof(key));
    return key;
}

/* Of a key that this process made. */
static fab_verbs_exposed_t *exposed_of(const fab_rkey_t *rkey)
{
    return (fab_verbs_exposed_t *) (uintptr_t) key_of(rkey).exposed;
}

void fab_verbs_requested(fab_verbs_domain_t *dom, const fab_rndv_t *rndv)
{
    fab_verbs_exposed_t *exposed = exposed_of(&rndv->rkey);

    dom->num_requested += !exposed->is_requested;
    exposed->is_requested = true;
}

/* ---- operations --------------------------------------------------------- */

static void op_end(fab_verbs_op_t *op)
{
    fab_verbs_domain_t *dom = op->dom;
    fab_rma_t *rma = op->rma;
    int status = op->status;

    if (NULL != op->reg) {
        fab_verbs_reg_ops->put(dom->regs, op->reg);
    }
    free(op);
    if (!dom->is_closed) {
        rma->complete(rma, status);
    }
}

void fab_verbs_op_landed(fab_verbs_op_t *op, uint32_t len, int status)
{
    op->in_flight--;
    if (OPAL_SUCCESS != status) {
        op->status = status;
    } else {
        op->rma->done += len;
        fab_counters.verbs_rma_bytes += len;
    }
    if (0 == op->in_flight && !op->is_queued) {
        op_end(op);
    }
}

static const enum ibv_wr_opcode fab_verbs_opcodes[] = {
    [FAB_GET] = IBV_WR_RDMA_READ,
    [FAB_PUT] = IBV_WR_RDMA_WRITE,
};

/* Post the next step. OPAL_ERR_RESOURCE_BUSY, OPAL_ERR_UNREACH: as fab_verbs_conn_post(). */
static int op_step(fab_verbs_conn_t *conn, fab_verbs_op_t *op)
{
    fab_rma_t *rma = op->rma;
    size_t left = rma->len - op->posted;
    uint32_t len = left < conn->dom->step ? (uint32_t) left : conn->dom->step;
    struct ibv_sge sge = {(uintptr_t) rma->local + op->posted, len,
                          fab_verbs_reg_ops->mr(op->reg)->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .opcode = fab_verbs_opcodes[rma->kind]};
    int rc;

    wr.wr.rdma.remote_addr = rma->remote + op->posted;
    wr.wr.rdma.rkey = key_of(&rma->rkey).rkey;
    rc = fab_verbs_conn_post(conn, &wr, NULL, op);
    if (OPAL_SUCCESS == rc) {
        op->posted += len;
        op->in_flight++;
        conn->in_flight++;
    }
    return rc;
}

/* ---- an endpoint's operations ------------------------------------------- */

static void op_append(fab_verbs_ep_t *ep, fab_verbs_op_t *op)
{
    op->is_queued = true;
    STAILQ_INSERT_TAIL(&ep->ops, op, link);
}

static fab_verbs_op_t *op_take(fab_verbs_ep_t *ep)
{
    fab_verbs_op_t *op = STAILQ_FIRST(&ep->ops);

    STAILQ_REMOVE_HEAD(&ep->ops, link);
    op->is_queued = false;
    return op;
}

static bool can_post(const fab_verbs_ep_t *ep)
{
    const fab_verbs_conn_t *conn = ep->conn;

    return !STAILQ_EMPTY(&ep->ops) && NULL != conn && conn->is_ready &&
           conn->in_flight < conn->max_in_flight &&
           fab_verbs_sq_room(conn) > FAB_VERBS_SQ_RESERVED &&
           ep->dom->sq_used < ep->dom->sq_used_max;
}

/*
 * Post steps while there is room, each of the operation whose turn it is. Nothing completes here.
 */
static int ep_post(fab_verbs_ep_t *ep)
{
    int events = 0;

    while (can_post(ep) && STAILQ_FIRST(&ep->ops)->rma->len > 0) {
        fab_verbs_op_t *op = STAILQ_FIRST(&ep->ops);
        if (OPAL_SUCCESS != op_step(ep->conn, op)) {
            break;
        }
        (void) op_take(ep);
        if (op->posted < op->rma->len) {
            op_append(ep, op);
        }
        events++;
    }
    return events;
}

static void ep_list(fab_verbs_ep_t *ep)
{
    if (!ep->is_in_rma) {
        ep->is_in_rma = true;
        TAILQ_INSERT_TAIL(&ep->dom->rma, ep, rma_link);
        ep->dom->num_rma++;
    }
}

static void ep_unlist(fab_verbs_ep_t *ep)
{
    if (ep->is_in_rma) {
        ep->is_in_rma = false;
        TAILQ_REMOVE(&ep->dom->rma, ep, rma_link);
        ep->dom->num_rma--;
    }
}

int fab_verbs_rma_progress(fab_verbs_domain_t *dom)
{
    int events = 0;

    for (uint32_t n = dom->num_rma; n > 0 && !TAILQ_EMPTY(&dom->rma); n--) {
        fab_verbs_ep_t *ep = TAILQ_FIRST(&dom->rma);
        ep_unlist(ep);
        events += ep_post(ep);
        if (STAILQ_EMPTY(&ep->ops)) {
            continue;
        }
        ep_list(ep);
        if (FAB_VERBS_IDLE == ep->state) {
            fab_verbs_connect(ep);
        }
        if (0 == STAILQ_FIRST(&ep->ops)->rma->len) {
            /* may close the peer: ep is not used any more */
            op_end(op_take(ep));
            events++;
        }
    }
    return events;
}

/*
 * How the device accesses the memory of this side. iWARP: what answers a READ is written as if by a
 * peer.
 */
static int local_access(const fab_verbs_domain_t *dom, const fab_rma_t *rma)
{
    if (FAB_PUT == rma->kind) {
        return 0;
    }
    return IBV_ACCESS_LOCAL_WRITE | (dom->cm_ops->is_iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
}

/* ---- the table's functions ---------------------------------------------- */

int fab_verbs_rma(fab_rma_t *rma)
{
    fab_verbs_ep_t *ep = rma->peer->ep;
    fab_verbs_op_t *op;
    fab_verbs_reg_t *reg = NULL;

    if (ep->has_left) {
        fab_peer_fail(rma->peer, OPAL_ERR_UNREACH, "It has left: its memory cannot be reached.");
        return OPAL_ERR_UNREACH;
    }
    if (rma->len > 0) {
        reg = verbs_register(ep->dom, rma->local, rma->len, local_access(ep->dom, rma));
        if (NULL == reg) {
            return OPAL_ERR_NOT_SUPPORTED;
        }
    }
    op = malloc(sizeof(*op));
    if (NULL == op) {
        if (NULL != reg) {
            fab_verbs_reg_ops->put(ep->dom->regs, reg);
        }
        return OPAL_ERR_NOT_SUPPORTED;
    }
    *op = (fab_verbs_op_t){.dom = ep->dom, .rma = rma, .reg = reg};
    op_append(ep, op);
    ep_post(ep);
    if (!STAILQ_EMPTY(&ep->ops)) {
        ep_list(ep);
    }
    return OPAL_SUCCESS;
}

/* As fab_verbs_hold(); false: it cannot be. */
static bool expose(fab_verbs_domain_t *dom, fab_verbs_exposed_list_t *list, const void *buf,
                   size_t len, unsigned access, fab_rkey_t *rkey)
{
    fab_verbs_exposed_t *exposed = fab_verbs_hold(dom, list, buf, len, access);
    fab_verbs_rkey_t key = {.exposed = (uintptr_t) exposed};

    if (NULL == exposed) {
        return false;
    }
    key.rkey = len > 0 ? fab_verbs_reg_ops->mr(exposed->reg)->rkey : 0;
    memcpy(rkey->bytes, &key, sizeof(key));
    return true;
}

int fab_verbs_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                     fab_rkey_t *rkey)
{
    fab_verbs_ep_t *ep = peer->ep;

    *rkey = (fab_rkey_t){{0}};
    return expose(ep->dom, &ep->exposed, buf, len, access, rkey) ? OPAL_SUCCESS
                                                                 : OPAL_ERR_NOT_SUPPORTED;
}

void fab_verbs_unexpose(fab_peer_t *peer, fab_rkey_t *rkey)
{
    fab_verbs_ep_t *ep = peer->ep;

    fab_verbs_let_go(ep->dom, exposed_of(rkey));
}

bool fab_verbs_expose_any(fab_domain_t *domain, const void *buf, size_t len, unsigned access,
                          fab_rkey_t *rkey)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;

    /* before it is started nobody of the job needs it */
    return dom->is_started && expose(dom, &dom->exposed, buf, len, access, rkey);
}

void fab_verbs_unexpose_any(fab_domain_t *domain, const fab_rkey_t *rkey)
{
    fab_verbs_let_go((fab_verbs_domain_t *) domain, exposed_of(rkey));
}

fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv)
{
    return (fab_verbs_rvh_t){.addr = htobe64(rndv->addr),
                             .rkey = htobe32(key_of(&rndv->rkey).rkey),
                             .len = htobe32((uint32_t) rndv->len)};
}

fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh)
{
    fab_verbs_rkey_t key = {.rkey = be32toh(rvh->rkey)};
    fab_rndv_t rndv = {.addr = be64toh(rvh->addr), .len = be32toh(rvh->len)};

    memcpy(rndv.rkey.bytes, &key, sizeof(key));
    return rndv;
}

void fab_verbs_rma_drop(fab_verbs_ep_t *ep)
{
    ep_unlist(ep);
    while (!LIST_EMPTY(&ep->exposed)) {
        fab_verbs_let_go(ep->dom, LIST_FIRST(&ep->exposed));
    }
    while (!STAILQ_EMPTY(&ep->ops)) {
        fab_verbs_op_t *op = op_take(ep);
        op->status = FAB_PEER_UP == ep->peer->state ? OPAL_ERR_NOT_SUPPORTED : OPAL_ERR_UNREACH;
        if (0 == op->in_flight) {
            op_end(op);
        }
    }
}
