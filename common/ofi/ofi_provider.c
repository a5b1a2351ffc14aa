/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: opening and closing it in this process, its address, its description, its table.
 */
#include "ofi/ofi.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"

enum {
    FAB_OFI_SHARES = 16,       /* of the receive buffers, for the peers of a large job */
    FAB_OFI_CQ_SIZE = 16384,   /* entries at least: cxi loses the endpoint if it overruns */
    FAB_OFI_CXI_EAGER = 16352, /* bytes: with the header below cxi's rendezvous threshold */
    FAB_OFI_LEAVE_US = 300000, /* for what was sent to be delivered when the process leaves */
};

/* ---- open ---------------------------------------------------------------- */

static const char *cannot(const fab_ofi_domain_t *dom, const char *what, int rc)
{
    return fab_sentence(dom->fab, "%s cannot %s: %s.", dom->name, what, fi_strerror(-rc));
}

static const char *fabric_open(fab_ofi_domain_t *dom)
{
    int rc = fi_fabric(dom->info->fabric_attr, &dom->fabric, NULL);

    if (0 != rc) {
        return cannot(dom, "open its fabric", rc);
    }
    rc = fi_domain(dom->fabric, dom->info, &dom->domain, NULL);
    return 0 == rc ? NULL : cannot(dom, "open its domain", rc);
}

/*
 * efa reports failures of the endpoint by an event queue, and ends the process if there is none;
 * psm2, psm3 and opx take none.
 */
static void events_open(fab_ofi_domain_t *dom)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};

    if (0 != fi_eq_open(dom->fabric, &attr, &dom->eq, NULL)) {
        dom->eq = NULL;
    } else if (0 != fi_ep_bind(dom->rdm, &dom->eq->fid, 0)) {
        (void) fi_close(&dom->eq->fid);
        dom->eq = NULL;
    }
}

static const char *queues_open(fab_ofi_domain_t *dom)
{
    const size_t need = dom->info->tx_attr->size + dom->info->rx_attr->size;
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    int rc = fab_ofi_sleep_open_queue(dom, need > FAB_OFI_CQ_SIZE ? need : FAB_OFI_CQ_SIZE);

    if (0 != rc) {
        return cannot(dom, "make a completion queue", rc);
    }
    rc = fi_av_open(dom->domain, &av, &dom->av, NULL);
    return 0 == rc ? NULL : cannot(dom, "make an address vector", rc);
}

/*
 * With less room than the longest message has, a buffer must be released: providers truncate the
 * next one otherwise.
 */
static int set_min_free(fab_ofi_domain_t *dom)
{
    size_t min = dom->recv.min_free;

    return fi_setopt(&dom->rdm->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min));
}

/*
 * Receives report each message; sends only what asks for it.  libfabric 2.1's tcp loses entries of
 * multiple receives if they are selective, too.
 */
static const char *endpoint_open(fab_ofi_domain_t *dom)
{
    int rc = fi_endpoint(dom->domain, dom->info, &dom->rdm, NULL);

    if (0 != rc) {
        return cannot(dom, "make an endpoint", rc);
    }
    events_open(dom);
    rc = fi_ep_bind(dom->rdm, &dom->av->fid, 0);
    rc = 0 == rc ? fi_ep_bind(dom->rdm, &dom->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION) : rc;
    rc = 0 == rc ? fi_ep_bind(dom->rdm, &dom->cq->fid, FI_RECV) : rc;
    rc = 0 == rc ? set_min_free(dom) : rc;
    rc = 0 == rc ? fi_enable(dom->rdm) : rc;
    return 0 == rc ? NULL : cannot(dom, "enable its endpoint", rc);
}

static const char *fill_address(fab_ofi_domain_t *dom)
{
    fab_ofi_addr_t *addr = &dom->addr;
    size_t len = sizeof(addr->name);
    int rc = fi_getname(&dom->rdm->fid, addr->name, &len);

    if (0 != rc || len > sizeof(addr->name)) {
        return 0 == rc ? "Its address is too long." : cannot(dom, "tell its address", rc);
    }
    addr->version = FAB_OFI_VERSION;
    addr->addr_format = dom->info->addr_format;
    addr->name_len = (uint16_t) len;
    addr->eager_max = (uint32_t) dom->eager_limit;
    addr->flags = (dom->has_rma ? FAB_OFI_ADDR_RMA : 0) | (dom->is_virt ? FAB_OFI_ADDR_VIRT : 0);
    addr->protocol = dom->info->ep_attr->protocol;
    addr->protocol_version = dom->info->ep_attr->protocol_version;
    addr->pid = (uint32_t) getpid();
    addr->host = fab_host_identity();
    addr->start_time = fab_proc_start_time(addr->pid);
    snprintf(addr->provider, sizeof(addr->provider), "%s", dom->info->fabric_attr->prov_name);
    return fab_random(addr->key, sizeof(addr->key)) &&
                   fab_random(&dom->ses.serial, sizeof(dom->ses.serial)) &&
                   fab_random(&dom->next_nonce, sizeof(dom->next_nonce))
               ? NULL
               : fab_sentence(dom->fab, "There are no random bytes: %s.", strerror(errno));
}

/*
 * Messages of one peer, within the limits: all that have a session share the receive buffers.  As
 * many are expected as the job has processes, up to FAB_OFI_SHARES; what more of them send at once
 * waits in libfabric, which makes them slower, and no window is too small for ever.
 */
static uint32_t window(const fab_ofi_domain_t *dom)
{
    const uint64_t num = (uint64_t) dom->recv.size * dom->recv.num / dom->recv.min_free;
    const uint32_t expected = fab_ofi_min(dom->fab->config.num_procs, FAB_OFI_SHARES);
    const uint64_t share = num / (expected > 0 ? expected : 1);

    if (share >= fab_limits.ofi_window) {
        return fab_limits.ofi_window;
    }
    fab_counters.small_windows++;
    return share > FAB_OFI_WINDOW_MIN ? (uint32_t) share : FAB_OFI_WINDOW_MIN;
}

/* Numbers that no process had which had this address before. */
static void sessions_open(fab_ofi_domain_t *dom)
{
    dom->ses = (fab_ses_domain_t){.ops = &fab_ofi_ses_ops,
                                  .name = dom->fab->config.name,
                                  .serial = dom->ses.serial >> 2,
                                  .window = window(dom)};
}

static bool sends_by_system_calls(const struct fi_info *info)
{
    return fab_ofi_is_provider(info, "tcp") || fab_ofi_is_provider(info, "net") ||
           fab_ofi_is_provider(info, "sockets") || fab_ofi_is_provider(info, "udp");
}

/* What of the offer matters later. */
static void read_info(fab_ofi_domain_t *dom)
{
    const struct fi_info *info = dom->info;
    size_t limit = fab_params_eager(fab_limits.ofi_eager, FAB_OFI_EAGER_MAX);
    const size_t max = info->ep_attr->max_msg_size - sizeof(fab_ofi_hdr_t) - FAB_OFI_ALIGN;

    snprintf(dom->name, sizeof(dom->name), "%s (%s)", info->fabric_attr->prov_name,
             info->domain_attr->name);
    if (fab_ofi_is_provider(info, "cxi") && limit > FAB_OFI_CXI_EAGER) {
        limit = FAB_OFI_CXI_EAGER;
    }
    dom->eager_limit = limit < max ? limit : max;
    dom->inject_max = info->tx_attr->inject_size < FAB_OFI_STACK ? info->tx_attr->inject_size
                                                                 : FAB_OFI_STACK;
    dom->has_rma = 0 != (info->caps & FI_RMA);
    dom->is_virt = 0 != (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
    dom->is_packing = sends_by_system_calls(info);
    dom->is_lazy = fab_ofi_is_provider(info, "sockets");
    dom->has_delivery = true;
    dom->is_honest = !fab_ofi_is_provider(info, "ofi_rxm");
}

static const char *open_steps(fab_ofi_domain_t *dom)
{
    const char *why = NULL;

    dom->info = fab_ofi_choose(dom->fab, &why);
    if (NULL == dom->info) {
        return why;
    }
    read_info(dom);
    if (dom->eager_limit < FAB_OFI_EAGER_MIN) {
        return fab_sentence(dom->fab, "%s sends too short messages only.", dom->name);
    }
    dom->send_pool.size = sizeof(fab_ofi_hdr_t) + dom->eager_limit + (size_t) FAB_OFI_ALIGN;
    dom->regs = fab_reg_ops->open(&fab_ofi_reg_how, dom);
    if (NULL == dom->regs) {
        return "The cache of registered memory cannot be opened.";
    }
    fab_ofi_hooks_open();
    why = fab_ofi_recv_open(dom);
    why = NULL == why ? fabric_open(dom) : why;
    why = NULL == why ? queues_open(dom) : why;
    why = NULL == why ? endpoint_open(dom) : why;
    why = NULL == why ? fill_address(dom) : why;
    if (NULL != why) {
        return why;
    }
    sessions_open(dom);
    return fab_ofi_recv_post_all(dom);
}

/* Every object of libfabric's begins with its struct fid. */
static void fid_close(void *fid)
{
    if (NULL != fid) {
        (void) fi_close(fid);
    }
}

/* In the reverse order; what was not made is NULL. */
static void domain_free(fab_ofi_domain_t *dom)
{
    fab_ofi_unexpose_all(dom, &dom->exposed);
    if (NULL != dom->regs) {
        fab_reg_ops->close(dom->regs);
    }
    fid_close(dom->rdm);
    fid_close(dom->eq);
    fid_close(dom->av);
    fid_close(dom->cq);
    fid_close(dom->domain);
    fab_ofi_hooks_close();
    fid_close(dom->fabric);
    if (NULL != dom->info) {
        fi_freeinfo(dom->info);
    }
    fab_ofi_recv_close(dom);
    fab_ofi_rma_close(dom);
    fab_ofi_pool_fini(&dom->send_pool);
    fab_idmap_fini(&dom->sessions);
    free(dom);
}

static int ofi_open(fab_t *fab, fab_domain_t **out, const char **why)
{
    fab_ofi_domain_t *dom = calloc(1, sizeof(*dom));

    if (NULL == dom) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    dom->fab = fab;
    dom->provider = &fab_ofi_provider;
    fab_idmap_init(&dom->sessions);
    TAILQ_INIT(&dom->sending);
    TAILQ_INIT(&dom->due);
    TAILQ_INIT(&dom->broken);
    TAILQ_INIT(&dom->rma);
    STAILQ_INIT(&dom->again);
    *why = open_steps(dom);
    if (NULL != *why) {
        domain_free(dom);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    *out = (fab_domain_t *) dom;
    return OPAL_SUCCESS;
}

/* ---- close --------------------------------------------------------------- */

/* Say BYE where it was not said.  Is a word of a peer awaited? */
static bool leave(fab_ofi_domain_t *dom)
{
    bool is_awaiting = false;
    fab_ofi_ep_t *ep, *next;

    for (ep = LIST_FIRST(&dom->eps); NULL != ep; ep = next) {
        next = LIST_NEXT(ep, link);
        if (FAB_PEER_FAILED != ep->peer->state && fab_ses_leave(&ep->ses)) {
            is_awaiting = true;
        }
    }
    return is_awaiting;
}

/*
 * Tell all peers that this process leaves, and wait, FAB_OFI_LEAVE_US at most, until they have
 * heard: closed earlier, some providers lose what they have taken.
 */
static void announce_leave(fab_ofi_domain_t *dom)
{
    const uint64_t until = fab_now_us() + FAB_OFI_LEAVE_US;

    while (!dom->is_dead && (leave(dom) || dom->num_sends > 0 || !TAILQ_EMPTY(&dom->sending)) &&
           fab_now_us() < until) {
        dom->fab->must_return = false;
        (void) fab_ofi_poll(dom);
        (void) sched_yield();
    }
}

static void ofi_close(fab_domain_t *domain)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;

    if ((uint32_t) getpid() != dom->addr.pid) {
        return; /* a child made by fork(): all is its parent's */
    }
    dom->is_closed = true;
    announce_leave(dom);
    while (!LIST_EMPTY(&dom->eps)) {
        fab_ofi_ep_t *ep = LIST_FIRST(&dom->eps);
        fab_ofi_send_drop(ep);
        fab_ofi_ep_release(ep);
    }
    while (!STAILQ_EMPTY(&dom->again)) {
        fab_ofi_via_t *via = STAILQ_FIRST(&dom->again);
        STAILQ_REMOVE_HEAD(&dom->again, link);
        free(via);
    }
    while (!LIST_EMPTY(&dom->lingering)) {
        fab_ofi_ep_free(LIST_FIRST(&dom->lingering));
    }
    domain_free(dom);
}

/* ---- the rest ------------------------------------------------------------ */

static const void *ofi_address(const fab_domain_t *domain)
{
    return &((const fab_ofi_domain_t *) domain)->addr;
}

static bool ofi_is_idle(const fab_domain_t *domain)
{
    return 0 == ((const fab_ofi_domain_t *) domain)->sessions.used;
}

static bool ofi_is_holding(const fab_domain_t *domain)
{
    const fab_ofi_domain_t *dom = (const fab_ofi_domain_t *) domain;

    return !dom->is_dead && (dom->num_sends > 0 || !TAILQ_EMPTY(&dom->sending));
}

static int ofi_describe(fab_domain_t *domain, char *buf, size_t size)
{
    const fab_ofi_domain_t *dom = (const fab_ofi_domain_t *) domain;

    return snprintf(buf, size,
                    "any host       ofi    0 to %-10zu  eager, by %s of libfabric %u.%u, window of "
                    "%u messages: "
                    "two copies\n"
                    "                      longer           rendezvous, %s\n",
                    dom->eager_limit, dom->name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
                    fab_limits.ofi_window,
                    dom->has_rma ? "read by the receiver (fi_read)" : "in fragments: two copies");
}

const fab_provider_t fab_ofi_provider = {
    .name = "ofi",
    .id = FAB_WIRE_OFI,
    .reaches_hosts = true,
    .ops = &fab_ofi_ops,
    .open = ofi_open,
    .close = ofi_close,
    .address_len = sizeof(fab_ofi_addr_t),
    .address = ofi_address,
    .attach = fab_ofi_attach,
    .detach = fab_ofi_detach,
    .drop = fab_ofi_drop,
    .spare = fab_ofi_spare,
    .asked_by_later = fab_ofi_asked_by_later,
    .ask_owed = fab_ofi_ask_owed,
    .progress = fab_ofi_progress,
    .poll = fab_ofi_poll,
    .expose = fab_ofi_expose,
    .unexpose = fab_ofi_unexpose,
    .is_idle = ofi_is_idle,
    .wake_fd = fab_ofi_sleep_fd,
    .is_awake = fab_ofi_is_awake,
    .is_holding = ofi_is_holding,
    .describe = ofi_describe,
};
