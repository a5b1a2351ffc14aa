/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The further ports of this process.  They are known, and in its address, from the start; one is
 * opened when a peer is to be reached by it.  Each is a domain with queues, buffers and a cache of
 * registrations of its own; sockets and address are the first port's.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- domains ------------------------------------------------------------ */

fab_verbs_domain_t *fab_verbs_domain_alloc(fab_t *fab, fab_verbs_domain_t *first)
{
    fab_verbs_domain_t *dom = calloc(1, sizeof(*dom));

    if (NULL == dom) {
        return NULL;
    }
    dom->fab = fab;
    dom->first = NULL != first ? first : dom;
    dom->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    dom->epoll = -1;
    TAILQ_INIT(&dom->conns);
    TAILQ_INIT(&dom->rma);
    TAILQ_INIT(&dom->failing);
    TAILQ_INIT(&dom->waiting);
    TAILQ_INIT(&dom->probing);
    return dom;
}

/*
 * All calls on queues are made with the fabric's lock held, so the driver needs no locks of its
 * own.  Some drivers can do without, and then have doorbells that they share with no other queue.
 */
static void open_thread_domain(fab_verbs_domain_t *dom)
{
    struct ibv_td_init_attr attr = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = dom->pd};

    dom->queue_pd = dom->pd;
    parent.td = ibv_alloc_td(dom->ctx, &attr);
    if (NULL == parent.td) {
        return;
    }
    dom->queue_pd = ibv_alloc_parent_domain(dom->ctx, &parent);
    if (NULL == dom->queue_pd) {
        (void) ibv_dealloc_td(parent.td);
        dom->queue_pd = dom->pd;
        return;
    }
    dom->td = parent.td;
    fab_log(dom->fab, 10, "%s: the driver takes no locks", dom->name);
}

static void close_thread_domain(fab_verbs_domain_t *dom)
{
    if (NULL != dom->td) {
        (void) ibv_dealloc_pd(dom->queue_pd);
        (void) ibv_dealloc_td(dom->td);
    }
}

const char *fab_verbs_domain_prepare(fab_verbs_domain_t *dom)
{
    (void) fcntl(dom->ctx->async_fd, F_SETFL, fcntl(dom->ctx->async_fd, F_GETFL) | O_NONBLOCK);
    dom->pd = ibv_alloc_pd(dom->ctx);
    if (NULL == dom->pd) {
        return fab_sentence(dom->fab, "%s cannot allocate a protection domain: %s.", dom->name,
                            strerror(errno));
    }
    open_thread_domain(dom);
    dom->regs = fab_reg_ops->open(&fab_verbs_reg_how, dom->pd);
    return NULL != dom->regs ? NULL : "The cache of registered memory cannot be opened.";
}

void fab_verbs_domain_free(fab_verbs_domain_t *dom)
{
    fab_verbs_stop(dom);
    if (NULL != dom->regs) {
        fab_reg_ops->close(dom->regs);
    }
    close_thread_domain(dom);
    if (NULL != dom->pd) {
        (void) ibv_dealloc_pd(dom->pd);
    }
    if (NULL != dom->ctx) {
        (void) ibv_close_device(dom->ctx);
    }
    free(dom);
}

/* ---- further ports ------------------------------------------------------ */

/* Others were told the port's address at the start. */
static bool has_told_address(const fab_verbs_domain_t *dom)
{
    fab_verbs_addr_t told = fab_verbs_addr_at(&dom->first->addr, dom->index);

    return 0 == memcmp(told.gid, dom->addr.gid, sizeof(told.gid)) && told.lid == dom->addr.lid &&
           told.pkey == dom->addr.pkey;
}

static const char *use_named(fab_verbs_domain_t *dom, const fab_verbs_port_name_t *name)
{
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    const char *why = NULL;
    int i = 0;

    while (i < num && 0 != strcmp(ibv_get_device_name(devices[i]), name->device)) {
        i++;
    }
    why = i < num ? fab_verbs_port_use(dom, devices[i], name->num)
                  : fab_sentence(dom->fab, "%s is not there any more.", name->device);
    if (NULL != devices) {
        ibv_free_device_list(devices);
    }
    return why;
}

static const char *port_open(fab_verbs_domain_t *dom)
{
    const fab_verbs_port_name_t *name = &dom->first->other_names[dom->index - 1];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = dom};
    const char *why;

    dom->provider = dom->first->provider;
    dom->cm_ops = dom->first->cm_ops;
    dom->is_standby = true; /* no receives are listed on it */
    dom->socks = dom->first->socks;
    dom->epoll = dom->first->epoll;
    dom->addr = fab_verbs_addr_at(&dom->first->addr, dom->index);
    why = use_named(dom, name);
    if (NULL == why && !has_told_address(dom)) {
        why = fab_sentence(dom->fab, "%s has another address than when the job began.", dom->name);
    }
    why = NULL == why ? fab_verbs_domain_prepare(dom) : why;
    if (NULL == why && 0 != epoll_ctl(dom->epoll, EPOLL_CTL_ADD, dom->ctx->async_fd, &event)) {
        why = fab_sentence(dom->fab, "epoll cannot be used: %s.", strerror(errno));
    }
    return why;
}

fab_verbs_domain_t *fab_verbs_port_domain(fab_verbs_domain_t *first, uint8_t index,
                                          const char **why)
{
    fab_verbs_domain_t *dom = 0 == index ? first : first->others[index - 1];

    if (NULL != dom) {
        return dom;
    }
    dom = fab_verbs_domain_alloc(first->fab, first);
    if (NULL == dom) {
        *why = "there is not enough memory";
        return NULL;
    }
    dom->index = index;
    *why = port_open(dom);
    if (NULL != *why) {
        fab_log(first->fab, 1, "another port cannot be used: %s", *why);
        fab_verbs_domain_free(dom);
        return NULL;
    }
    first->others[index - 1] = dom;
    first->num_open++;
    return dom;
}

fab_verbs_domain_t *fab_verbs_ports_choose(fab_verbs_domain_t *first, uint64_t name,
                                           const fab_verbs_addr_t *addr, uint32_t *pair,
                                           uint8_t *remote, const char **why)
{
    fab_verbs_domain_t *dom = NULL;
    uint8_t own;

    while (NULL == dom) {
        const char *flaw = fab_verbs_pair_find(first, name, addr, pair, &own, remote);
        if (NULL != flaw) {
            *why = flaw;
            return NULL;
        }
        dom = fab_verbs_port_domain(first, own, why);
        *pair += NULL == dom;
    }
    return dom;
}
