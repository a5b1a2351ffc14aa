/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider verbs: opening and closing it in this process, its address, its description, its table.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"
#include "verbs/verbs_cm.h"

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

static const char *fill_address(fab_verbs_domain_t *dom)
{
    fab_verbs_addr_t *addr = &dom->addr;

    addr->version = FAB_VERBS_VERSION;
    addr->eager_max = fab_verbs_eager();
    addr->pid = (uint32_t) getpid();
    addr->host = fab_host_identity();
    addr->start_time = fab_proc_start_time(addr->pid);
    if (!fab_random(addr->key, sizeof(addr->key))) {
        return fab_sentence(
            dom->fab,
            "There are no random bytes: getrandom() failed, and reading /dev/urandom: %s.",
            strerror(errno));
    }
    return NULL;
}

static const char *open_steps(fab_verbs_domain_t *dom)
{
    const char *why = fab_verbs_device_open(dom);

    if (NULL != why) {
        return why;
    }
    survive_fork(dom);
    why = fab_verbs_domain_prepare(dom);
    if (NULL != why) {
        return why;
    }
    why = dom->is_standby ? NULL : fab_verbs_start(dom);
    why = NULL == why ? fill_address(dom) : why;
    why = NULL == why && fab_verbs_is_iwarp(dom) ? dom->cm_ops->open(dom) : why;
    return NULL == why ? fab_verbs_oob_open(dom) : why;
}

/* In the reverse order; what was not made is NULL. */
static void domain_free(fab_verbs_domain_t *first)
{
    fab_verbs_oob_close(first);
    if (fab_verbs_is_iwarp(first)) {
        first->cm_ops->close(first);
    }
    while (!LIST_EMPTY(&first->exposed)) {
        fab_verbs_let_go(LIST_FIRST(&first->exposed));
    }
    while (NULL != first->next) {
        fab_verbs_domain_t *dom = first->next;
        first->next = dom->next;
        fab_verbs_domain_free(dom);
    }
    fab_verbs_domain_free(first);
}

static int verbs_open(fab_t *fab, fab_domain_t **out, const char **why)
{
    fab_verbs_domain_t *dom = fab_verbs_domain_alloc(fab, NULL);

    if (NULL == dom) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    dom->provider = &fab_verbs_provider;
    dom->ses = (fab_ses_domain_t){
        .ops = &fab_verbs_ses_ops, .name = fab->config.name, .window = FAB_VERBS_WINDOW_MAX};
    dom->is_standby = fab->is_covered;
    *why = open_steps(dom);
    if (NULL != *why) {
        domain_free(dom);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    *out = (fab_domain_t *) dom;
    return OPAL_SUCCESS;
}

/* ---- close -------------------------------------------------------------- */

static bool is_drained(const fab_verbs_domain_t *dom)
{
    const fab_verbs_conn_t *conn;

    TAILQ_FOREACH(conn, &dom->conns, link) {
        if (!conn->is_broken && (conn->head != conn->tail || 0 != conn->to_send)) {
            return false;
        }
    }
    return true;
}

/* May the device still have to answer a peer?  The peer says by its BYE that it has all. */
static bool is_answering(const fab_verbs_domain_t *dom)
{
    const fab_verbs_ep_t *ep;

    LIST_FOREACH(ep, &dom->eps, link) {
        if (ep->ses.is_closed && NULL != ep->conn && ep->conn->has_answered &&
            !ep->conn->is_broken) {
            return true;
        }
    }
    return false;
}

/*
 * Wait, FAB_VERBS_LINGER_US at most, until the device has answered all rendezvous. Then say BYE to
 * all peers and wait, FAB_VERBS_LEAVE_US at most, until what was sent is delivered: unlike
 * shared memory, a queue pair that is destroyed loses what it has not sent yet.
 */
static void announce_leave(fab_verbs_domain_t *dom)
{
    uint64_t until = fab_now_us() + FAB_VERBS_LINGER_US;
    fab_verbs_ep_t *ep;

    while (!dom->is_dead && is_answering(dom) && fab_now_us() < until) {
        (void) fab_verbs_progress((fab_domain_t *) dom->first);
    }
    until = fab_now_us() + FAB_VERBS_LEAVE_US;
    LIST_FOREACH(ep, &dom->eps, link) {
        (void) fab_ses_leave(&ep->ses);
    }
    while (!dom->is_dead && !is_drained(dom) && fab_now_us() < until) {
        (void) fab_verbs_poll_send(dom);
        fab_verbs_conn_send_due(dom);
    }
}

/*
 * What was sent before BYE is done when that is, which the device reports; what is to be sent
 * again by other ports is not.
 */
static bool verbs_is_holding(const fab_domain_t *domain)
{
    const fab_verbs_domain_t *dom = (const fab_verbs_domain_t *) domain;

    for (; NULL != dom; dom = dom->next) {
        if (!dom->is_dead && dom->num_signaled > 0) {
            return true;
        }
    }
    return false;
}

static void end_all(fab_verbs_domain_t *dom)
{
    fab_verbs_resolve_stop(dom);
    while (!TAILQ_EMPTY(&dom->conns)) {
        fab_verbs_conn_destroy(TAILQ_FIRST(&dom->conns), OPAL_ERR_UNREACH);
    }
    while (!LIST_EMPTY(&dom->eps)) {
        fab_verbs_ep_t *ep = LIST_FIRST(&dom->eps);
        ep->peer->ep = NULL;
        fab_verbs_ep_free(ep);
    }
}

static void verbs_close(fab_domain_t *domain)
{
    fab_verbs_domain_t *first = (fab_verbs_domain_t *) domain;
    fab_verbs_ep_t *ep;

    if ((uint32_t) getpid() != first->addr.pid) {
        return; /* a child made by fork(): all is its parent's */
    }
    LIST_FOREACH(ep, &first->eps, link) {
        fab_verbs_rails_end(ep); /* first: no BYE goes over them */
    }
    first->is_closed = true;
    for (fab_verbs_domain_t *dom = first; NULL != dom; dom = dom->next) {
        announce_leave(dom);
        end_all(dom);
    }
    domain_free(first);
}

/* ---- the rest ----------------------------------------------------------- */

static const void *verbs_address(const fab_domain_t *domain)
{
    return &((const fab_verbs_domain_t *) domain)->addr;
}

static int verbs_wake_fd(fab_domain_t *domain)
{
    return ((fab_verbs_domain_t *) domain)->epoll;
}

static int verbs_describe(fab_domain_t *domain, char *buf, size_t size)
{
    const fab_verbs_domain_t *dom = (const fab_verbs_domain_t *) domain;

    return snprintf(
        buf, size,
        "any host       verbs  0 to %-10u  eager, by SEND on %s (%s%s%s), window up to %u "
        "messages: "
        "two copies\n"
        "                      longer           rendezvous, read by the receiver: no copy (READ, "
        "steps of %u bytes)\n"
        "                      derived types    rendezvous, fragments by SEND: two copies\n",
        fab_verbs_eager(), dom->name,
        !fab_verbs_is_ethernet(dom)                       ? "InfiniBand"
        : fab_verbs_is_iwarp(dom)                         ? "iWARP"
        : IBV_GID_TYPE_ROCE_V2 == dom->port_addr.gid_type ? "RoCE v2"
                                                          : "RoCE v1",
        NULL != dom->tm ? ", matches tags" : "", dom->is_started ? "" : ", not in use",
        fab_limits.verbs_window, dom->step);
}

const fab_provider_t fab_verbs_provider = {
    .name = "verbs",
    .id = FAB_WIRE_VERBS,
    .reaches_hosts = true,
    .ops = &fab_verbs_ops,
    .open = verbs_open,
    .close = verbs_close,
    .address_len = sizeof(fab_verbs_addr_t),
    .address = verbs_address,
    .attach = fab_verbs_attach,
    .detach = fab_verbs_detach,
    .drop = fab_verbs_drop,
    .spare = fab_verbs_spare,
    .asked_by_later = fab_verbs_asked_by_later,
    .ask_owed = fab_verbs_ask_owed,
    .progress = fab_verbs_progress,
    .expose = fab_verbs_expose,
    .unexpose = fab_verbs_unexpose,
    .wake_fd = verbs_wake_fd,
    .is_awake = fab_verbs_is_awake,
    .is_holding = verbs_is_holding,
    .tm_use = fab_verbs_tm_use,
    .describe = verbs_describe,
};
