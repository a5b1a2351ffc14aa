/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: further connections to a peer over other networks, for messages that are striped over them
 * (tcp_stripe.c).
 *
 *      first long message ──> addresses in further common networks? ──> ASKING ──WELCOME──> UP
 *                                                   no answer, or REFUSE: not used ──> closed
 *
 * A peer on this host gets no links: all of them would be copies by the same processors.
 *
 * Only the side that asked for a link sends pieces on it, so no two requests can cross, and an end
 * without data under way means nothing.  A link that could not be made is not asked for again as
 * long as the connection is up; links end with the connection.
 *
 * If a link is lost with pieces under way, it is made again where the connection is, and goes on
 * with the first piece that the peer does not have; it gets no new ones.
 */
#include "tcp/tcp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/fab_params.h"

/* NULL: no memory. */
static fab_tcp_ep_t *link_new(fab_tcp_ep_t *ep, uint8_t number, bool is_out)
{
    fab_tcp_ep_t *link = malloc(sizeof(*link));

    ep->links = NULL != ep->links ? ep->links : calloc(1, sizeof(*ep->links));
    if (NULL == link || NULL == ep->links) {
        free(link);
        return NULL;
    }
    *link = (fab_tcp_ep_t){.peer = ep->peer,
                           .dom = ep->dom,
                           .fd = -1,
                           .addr = ep->addr,
                           .links = ep->links,
                           .main = ep,
                           .link = number,
                           .is_out = is_out};
    return link;
}

/* What has come of a piece in part comes once more, if the peer makes the link again. */
static void link_close(fab_tcp_ep_t *link)
{
    fab_tcp_links_t *links = link->links;

    fab_tcp_stream_cancel(link);
    if (!link->is_out) {
        links->in[link->link] = NULL;
        links->left += NULL != link->placing.at ? link->placing.len : 0;
    } else {
        links->out[link->link] = NULL;
        fab_tcp_stripe_release(link, links->sent[link->link].next, OPAL_ERR_UNREACH);
    }
    if (fab_tcp_is_up(link)) {
        fab_tcp_stream_close(link);
    }
    LIST_INSERT_HEAD(&link->dom->dead, link, entry);
}

void fab_tcp_links_close(fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i]) {
            link_close(ep->links->out[i]);
        }
        if (NULL != ep->links->in[i]) {
            link_close(ep->links->in[i]);
        }
    }
    free(ep->links);
    ep->links = NULL;
}

void fab_tcp_links_reap(fab_tcp_domain_t *dom)
{
    while (!LIST_EMPTY(&dom->dead)) {
        fab_tcp_ep_t *link = LIST_FIRST(&dom->dead);
        LIST_REMOVE(link, entry);
        free(link);
    }
}

void fab_tcp_links_check(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i] && fab_tcp_is_up(ep->links->out[i])) {
            fab_tcp_stream_check(ep->links->out[i]);
        }
    }
}

void fab_tcp_links_leave(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        fab_tcp_ep_t *link = ep->links->out[i];
        if (NULL != link && fab_tcp_is_up(link) && fab_tcp_link_is_busy(link)) {
            fab_tcp_stream_unblock(link);
        }
        if (NULL != link && fab_tcp_is_up(link) && fab_tcp_link_is_busy(link)) {
            (void) fab_tcp_stream_read(link);
        }
    }
}

static void link_connect(fab_tcp_ep_t *link, const fab_sock_ip_t *ip)
{
    const fab_tcp_frame_t hello = {.msg = {.kind = FAB_SES_HELLO, .serial = link->main->ses.asked},
                                   .link = link->link,
                                   .addr = link->dom->addr};

    link->sock = fab_sock_connect(link->dom->socks, link, link->peer->name, link->addr.key, ip, 1,
                                  &hello);
    if (NULL == link->sock) {
        fab_tcp_link_refused(link);
    }
}

static void link_ask(fab_tcp_ep_t *ep, uint8_t number, const fab_sock_ip_t *ip)
{
    fab_tcp_ep_t *link = link_new(ep, number, true);

    if (NULL == link) {
        fab_counters.tcp_links_failed++;
        return;
    }
    ep->links->out[number] = link;
    link_connect(link, ip);
}

/* The address that the connection leads to.  False: it is none of the peer's, as behind a NAT. */
static bool main_ip(const fab_tcp_ep_t *ep, fab_sock_ip_t *out)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    uint8_t ip[16];

    if (0 != getpeername(ep->fd, (struct sockaddr *) &sa, &len) ||
        !fab_sock_ip_of((struct sockaddr *) &sa, ip)) {
        return false;
    }
    for (int i = 0; i < ep->addr.num_ips; i++) {
        if (0 == memcmp(ep->addr.ips[i].ip, ip, sizeof(ip))) {
            *out = ep->addr.ips[i];
            return true;
        }
    }
    return false;
}

void fab_tcp_links_ask(fab_tcp_ep_t *ep)
{
    const fab_tcp_addr_t *own = &ep->dom->addr;
    fab_sock_ip_t first, ips[FAB_TCP_LINKS];
    int num = 0;

    if (ep->has_asked) {
        return;
    }
    ep->has_asked = true;
    if (!ep->is_local && main_ip(ep, &first)) {
        num = fab_sock_other_nets(own->ips, own->num_ips, ep->addr.ips, ep->addr.num_ips, first.ip,
                                  ips, (int) fab_limits.tcp_links - 1);
    }
    for (int i = 0; i < num; i++) {
        link_ask(ep, (uint8_t) (1 + i), &ips[i]);
    }
}

/*
 * The link was lost: make it again in the network of the connection, and send again what the peer
 * did not get.  No further pieces go by it.
 */
static void link_again(fab_tcp_ep_t *link)
{
    fab_sock_ip_t ip;

    if (fab_tcp_is_up(link)) {
        fab_tcp_stream_close(link);
    }
    link->is_unused = true;
    if (main_ip(link->main, &ip)) {
        link_connect(link, &ip);
    } else {
        fab_tcp_link_refused(link);
    }
}

fab_tcp_ep_t *fab_tcp_link_accept(fab_tcp_ep_t *ep, uint32_t number)
{
    fab_tcp_ep_t *link;
    bool is_again = NULL != ep->links && number < FAB_TCP_LINKS && (ep->links->made >> number & 1);

    if (0 == number || number >= fab_limits.tcp_links ||
        (FAB_SES_BYE_NONE != ep->ses.peer_bye && !is_again)) {
        return NULL;
    }
    if (is_again && NULL != ep->links->in[number]) {
        link_close(ep->links->in[number]);
    }
    link = link_new(ep, (uint8_t) number, false);
    if (NULL == link) {
        return NULL;
    }
    link->in = fab_tcp_buf_get(ep->dom, FAB_TCP_RESERVE);
    if (NULL == link->in) {
        free(link);
        return NULL;
    }
    ep->dom->num_parts++;
    ep->links->in[number] = link;
    ep->links->made |= 1u << number;
    return link;
}

void fab_tcp_link_refused(fab_tcp_ep_t *link)
{
    fab_counters.tcp_links_failed++;
    if (fab_tcp_link_is_busy(link)) {
        fab_tcp_stream_cancel(link);
        fab_counters.connections_lost++;
        fab_peer_fail(link->peer, OPAL_ERR_UNREACH,
                      "One of several TCP connections to it was lost, with data, and could not be "
                      "made again.");
        return;
    }
    link_close(link);
}

void fab_tcp_link_ended(fab_tcp_ep_t *link, int error)
{
    const fab_tcp_ep_t *ep = link->main;

    (void) error;
    if (FAB_PEER_FAILED == link->peer->state) {
        fab_tcp_stream_discard(link);
        link->is_eof = true;
        fab_tcp_watch(link);
        return;
    }
    fab_counters.tcp_links_lost += FAB_SES_UP == ep->ses.state;
    if (link->is_out && fab_tcp_link_is_busy(link) && FAB_SES_BYE_LEAVE != ep->ses.peer_bye &&
        !ep->is_eof) {
        link_again(link);
    } else {
        link_close(link);
    }
}
