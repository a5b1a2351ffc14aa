/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider tcp: opening and closing it in this process, its address, its description, its table.
 */

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_host.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"

#include "tcp/tcp.h"

enum { FAB_TCP_OWN_IPS = 64 };      /* that are looked at */
enum { FAB_TCP_CLOSE_US = 300000 }; /* at the end, until what was sent has been written */

/* ---- open --------------------------------------------------------------- */

static bool is_set(const char *list)
{
    return NULL != list && '\0' != *list;
}

/* The best addresses, of as many networks as can be; the others are not published. */
static void fill_ips(fab_tcp_domain_t *dom)
{
    fab_sock_ip_t all[FAB_TCP_OWN_IPS];
    int num = fab_sock_own_ips(fab_params.tcp_if_include, fab_params.tcp_if_exclude, all,
                               FAB_TCP_OWN_IPS);
    char text[64], unknown[256];

    if (fab_sock_list_unknown(fab_params.tcp_if_include, unknown, sizeof(unknown))) {
        fab_warn(dom->fab, "pml_tm_tcp_if_include names %s.", unknown);
    }
    fab_sock_nets_first(all, num);
    for (int i = FAB_SOCK_IPS; i < num; i++) {
        fab_log(
            dom->fab, 1,
            "tcp publishes %d addresses at most, not %s; pml_tm_tcp_if_include can choose others.",
            FAB_SOCK_IPS, fab_sock_ip_text(&all[i], text, sizeof(text)));
    }
    dom->addr.num_left_out = (uint8_t) (num > FAB_SOCK_IPS ? num - FAB_SOCK_IPS : 0);
    num -= dom->addr.num_left_out;
    dom->addr.num_ips = (uint8_t) num;
    memcpy(dom->addr.ips, all, (size_t) num * sizeof(all[0]));
}

static int fill_address(fab_tcp_domain_t *dom, const char **why)
{
    fab_tcp_addr_t *addr = &dom->addr;
    const fab_params_t *p = &fab_params;

    addr->version = FAB_TCP_VERSION;
    addr->eager_max = fab_params_eager(fab_limits.tcp_eager, FAB_TCP_EAGER_MAX);
    addr->host = fab_host_identity();
    fill_ips(dom);
    if (!fab_random(addr->key, sizeof(addr->key))) {
        *why = fab_sentence(dom->fab, "There are no random numbers: %s.", strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    if (0 == addr->num_ips) {
        *why = is_set(p->tcp_if_include) || is_set(p->tcp_if_exclude)
                   ? fab_sentence(dom->fab,
                                  "No IP address of this host is left by pml_tm_tcp_if_include and "
                                  "pml_tm_tcp_if_exclude, of an interface that is up.")
                   : "This host has no IP address of an interface that is up.";
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

static int open_sockets(fab_tcp_domain_t *dom, const char **why)
{
    const fab_params_t *p = &fab_params;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    fab_sock_user_t user = {
        .fab = dom->fab,
        .dom = dom,
        .protocol = FAB_WIRE_TCP,
        .frame_len = sizeof(fab_tcp_frame_t),
        .key = dom->addr.key,
        .timeout_s = p->tcp_timeout,
        .ips = dom->addr.ips,
        .num_ips = is_set(p->tcp_if_include) || is_set(p->tcp_if_exclude) ? dom->addr.num_ips : 0,
        .on_proven = fab_tcp_on_proven,
        .on_frame = fab_tcp_on_frame,
        .on_broken = fab_tcp_on_broken,
        .strangers = &fab_counters.tcp_strangers,
    };

    (void) fab_params_ports(p->tcp_ports, &user.port_min, &user.port_max);
    int rc = fab_sock_set_open(&user, &dom->socks, why);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    dom->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (dom->epoll < 0 ||
        0 != epoll_ctl(dom->epoll, EPOLL_CTL_ADD, fab_sock_set_fd(dom->socks), &event)) {
        *why = fab_sentence(dom->fab, "epoll cannot be used: %s.", strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    for (int i = 0; i < dom->addr.num_ips; i++) {
        dom->addr.ips[i].port = fab_sock_set_port(dom->socks);
    }
    return OPAL_SUCCESS;
}

static void domain_free(fab_tcp_domain_t *dom)
{
    if (NULL != dom->socks) {
        fab_sock_set_close(dom->socks);
    }
    if (dom->epoll >= 0) {
        close(dom->epoll);
    }
    fab_tcp_bufs_fini(dom);
    fab_tcp_links_reap(dom);
    free(dom);
}

static int tcp_open(fab_t *fab, fab_domain_t **out, const char **why)
{
    fab_tcp_domain_t *dom;
    int rc;

    dom = calloc(1, sizeof(*dom));
    if (NULL == dom) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    dom->fab = fab;
    dom->is_standby = fab->is_covered;
    dom->provider = &fab_tcp_provider;
    dom->on_ended = fab_tcp_on_ended;
    dom->ses = (fab_ses_domain_t){
        .ops = &fab_tcp_ses_ops, .name = fab->config.name, .window = FAB_TCP_WINDOW};
    dom->epoll = -1;
    dom->pid = (uint32_t) getpid();
    dom->period = FAB_TCP_EPOLL_PERIOD;
    *why = "There is not enough memory.";
    rc = fab_tcp_bufs_init(dom) ? fill_address(dom, why) : OPAL_ERR_OUT_OF_RESOURCE;
    if (OPAL_SUCCESS == rc) {
        rc = open_sockets(dom, why);
    }
    if (OPAL_SUCCESS != rc) {
        domain_free(dom);
        return rc;
    }
    *out = (fab_domain_t *) dom;
    return OPAL_SUCCESS;
}

/* ---- close -------------------------------------------------------------- */

/*
 * Would messages to the peer be lost with this process?  Those that wait here; and those that the
 * peer's kernel has not acknowledged: if the peer sends something to a socket that is closed, this
 * host's kernel resets the connection, and drops them.  The last message is the last acknowledged.
 */
static bool is_holding(const fab_tcp_ep_t *ep)
{
    int num = 0; /* bytes */

    return fab_tcp_is_up(ep) && FAB_PEER_FAILED != ep->peer->state && 0 == ep->error &&
           FAB_SES_BYE_LEAVE != ep->ses.peer_bye &&
           (NULL != ep->out || fab_tcp_links_are_busy(ep) ||
            (FAB_SES_BYE_NONE != ep->ses.bye && 0 == ioctl(ep->fd, SIOCOUTQ, &num) && num > 0));
}

static bool tcp_is_holding(const fab_domain_t *domain)
{
    const fab_tcp_domain_t *dom = (const fab_tcp_domain_t *) domain;
    const fab_tcp_ep_t *ep;

    LIST_FOREACH(ep, &dom->eps, entry) {
        if (is_holding(ep)) {
            return true;
        }
    }
    return false;
}

/* Write what is queued, and discard what comes: unread data would make the kernel send a reset. */
static bool leave(fab_tcp_ep_t *ep)
{
    char away[65536];

    (void) fab_ses_leave(&ep->ses);
    fab_tcp_links_leave(ep);
    fab_tcp_stream_unblock(ep);
    ssize_t n = recv(ep->fd, away, sizeof(away), MSG_DONTWAIT);
    return 0 == n || (n < 0 && EAGAIN != errno && EINTR != errno);
}

/* Tell all peers that this process leaves, and wait a moment until they have heard. */
static void say_goodbye(fab_tcp_domain_t *dom)
{
    uint64_t end = fab_now_us() + FAB_TCP_CLOSE_US;
    bool is_waiting = true;
    fab_tcp_ep_t *ep;

    while (is_waiting && fab_now_us() < end) {
        is_waiting = false;
        LIST_FOREACH(ep, &dom->eps, entry) {
            if (fab_tcp_is_up(ep) && leave(ep)) {
                fab_tcp_ep_close(ep);
            }
            is_waiting = is_waiting || fab_tcp_is_up(ep);
        }
        if (is_waiting) {
            (void) poll(NULL, 0, 1);
        }
    }
}

static void tcp_close(fab_domain_t *domain)
{
    fab_tcp_domain_t *dom = (fab_tcp_domain_t *) domain;

    if ((uint32_t) getpid() != dom->pid) {
        return; /* a child made by fork(): the connections are its parent's */
    }
    say_goodbye(dom);
    while (!LIST_EMPTY(&dom->eps)) {
        fab_tcp_ep_t *ep = LIST_FIRST(&dom->eps);
        ep->peer->ep = NULL;
        fab_tcp_ep_free(ep);
    }
    domain_free(dom);
}

/* ---- the rest ----------------------------------------------------------- */

static const void *tcp_address(const fab_domain_t *domain)
{
    return &((const fab_tcp_domain_t *) domain)->addr;
}

static int tcp_describe(fab_domain_t *domain, char *buf, size_t size)
{
    const fab_tcp_domain_t *dom = (const fab_tcp_domain_t *) domain;
    char text[64];
    int len = snprintf(buf, size,
                       "any host       tcp    0 to %-10u  eager\n"
                       "                      longer           rendezvous, in fragments\n"
                       "                                       listens at",
                       dom->addr.eager_max);

    for (int i = 0; i < dom->addr.num_ips && len < (int) size; i++) {
        len += snprintf(buf + len, size - (size_t) len, " %s",
                        fab_sock_ip_text(&dom->addr.ips[i], text, sizeof(text)));
    }
    return len < (int) size ? len + snprintf(buf + len, size - (size_t) len, "\n") : len;
}

static bool tcp_is_idle(const fab_domain_t *domain)
{
    return 0 == ((const fab_tcp_domain_t *) domain)->num_up;
}

static int tcp_wake_fd(fab_domain_t *domain)
{
    return ((fab_tcp_domain_t *) domain)->epoll;
}

static void tcp_is_awake(fab_domain_t *domain)
{
    fab_tcp_domain_t *dom = (fab_tcp_domain_t *) domain;

    fab_tcp_expect(dom);
    dom->polls = 2 * dom->period; /* poll all */
}

const fab_provider_t fab_tcp_provider = {
    .name = "tcp",
    .id = FAB_WIRE_TCP,
    .reaches_hosts = true,
    .ops = &fab_tcp_ops,
    .open = tcp_open,
    .close = tcp_close,
    .address_len = sizeof(fab_tcp_addr_t),
    .address = tcp_address,
    .attach = fab_tcp_attach,
    .detach = fab_tcp_detach,
    .drop = fab_tcp_drop,
    .ask_owed = fab_tcp_ask_owed,
    .progress = fab_tcp_progress,
    .is_idle = tcp_is_idle,
    .wake_fd = tcp_wake_fd,
    .is_holding = tcp_is_holding,
    .is_awake = tcp_is_awake,
    .describe = tcp_describe,
};
