/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel for connection set-up: fixed-size frames over short-lived TCP connections, out of
 * band (sock.h); beside them the events of the device, one epoll set for both.
 */
#include "verbs/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"
#include "verbs/verbs_cm.h"

enum {
    FAB_VERBS_TIMEOUT_S = 60, /* until a host that does not answer over TCP is given up */
    FAB_VERBS_OWN_IPS = 64,   /* that are looked at */
};

/* what: a domain, whose device reports something; the channel or resolver of one; NULL: sockets. */
static void on_event(fab_verbs_domain_t *first, const void *what)
{
    for (fab_verbs_domain_t *dom = first; NULL != dom; dom = dom->next) {
        if (dom == what) {
            fab_verbs_async(dom);
        } else if (&dom->channel == what) {
            fab_verbs_sleep_disarm(dom);
        } else if (&dom->resolver == what) {
            fab_verbs_resolve_is_awake(dom);
        }
    }
}

int fab_verbs_oob_poll(fab_verbs_domain_t *dom)
{
    struct epoll_event events[3];
    int n = epoll_wait(dom->epoll, events, 3, 0);

    for (int i = 0; i < n; i++) {
        on_event(dom, events[i].data.ptr);
    }
    n = n > 0 ? n : 0;
    if (n > 0 || fab_sock_set_is_busy(dom->socks)) {
        n += fab_sock_set_poll(dom->socks);
    }
    return fab_verbs_is_iwarp(dom) ? n + dom->cm_ops->poll(dom) : n;
}

/* ---- open and close ----------------------------------------------------- */

/* Where this process can be reached, the best first, of as many networks as can be. */
static void oob_own_ips(fab_verbs_domain_t *dom)
{
    fab_verbs_addr_t *addr = &dom->addr;
    fab_sock_ip_t all[FAB_VERBS_OWN_IPS];
    int num = fab_sock_own_ips(fab_params.tcp_if_include, fab_params.tcp_if_exclude, all,
                               FAB_VERBS_OWN_IPS);

    fab_sock_nets_first(all, num);
    addr->num_ips = (uint8_t) (num < FAB_VERBS_IPS ? num : FAB_VERBS_IPS);
    memcpy(addr->ips, all, addr->num_ips * sizeof(all[0]));
    for (int i = 0; i < addr->num_ips; i++) {
        addr->ips[i].port = fab_sock_set_port(dom->socks);
    }
}

static int oob_watch(fab_verbs_domain_t *dom, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    return epoll_ctl(dom->epoll, EPOLL_CTL_ADD, fd, &event);
}

const char *fab_verbs_oob_open(fab_verbs_domain_t *dom)
{
    fab_sock_user_t user = {
        .fab = dom->fab,
        .dom = dom,
        .protocol = FAB_WIRE_VERBS,
        .frame_len = sizeof(fab_verbs_frame_t),
        .key = dom->addr.key,
        .timeout_s = FAB_VERBS_TIMEOUT_S,
        .on_proven = fab_verbs_on_proven,
        .on_frame = fab_verbs_on_frame,
        .on_broken = fab_verbs_on_broken,
        .strangers = &fab_counters.verbs_bad_frames,
    };
    const char *why;

    (void) fab_params_ports(fab_params.tcp_ports, &user.port_min, &user.port_max);
    if (OPAL_SUCCESS != fab_sock_set_open(&user, &dom->socks, &why)) {
        return why;
    }
    dom->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (dom->epoll < 0 || 0 != oob_watch(dom, fab_sock_set_fd(dom->socks), NULL) ||
        0 != oob_watch(dom, dom->ctx->async_fd, dom)) {
        return fab_sentence(dom->fab, "epoll cannot be used: %s.", strerror(errno));
    }
    fab_verbs_sleep_watch(dom);
    oob_own_ips(dom);
    return dom->addr.num_ips > 0
               ? NULL
               : fab_sentence(dom->fab,
                              "This host has no IP address over which connections could be set "
                              "up, or pml_tm_tcp_if_include and pml_tm_tcp_if_exclude leave "
                              "none.");
}

void fab_verbs_oob_close(fab_verbs_domain_t *dom)
{
    if (dom->epoll >= 0) {
        close(dom->epoll);
    }
    if (NULL != dom->socks) {
        fab_sock_set_close(dom->socks);
        dom->socks = NULL;
    }
}
