/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: further connections to a peer over other networks, and long messages striped over them.
 *
 *      first long message ──> addresses in further common networks? ──> ASKING ──WELCOME──> UP
 *                                                   no answer, or REFUSE: not used ──> closed
 *
 * A peer on this host gets no links: all of them would be copies by the same processors.
 *
 * Only the side that asked for a link sends on it, so no two requests can cross, and an end without
 * data under way means nothing. A link that could not be made is not asked for again as long as the
 * connection is up; links end with the connection.
 *
 * Sending. A send from memory is cut into one piece for each link that has nothing to write, by the
 * rates that the kernel has measured; the connection carries the end of it, and what announces it.
 *
 * Receiving. One striped message arrives at a time: the connection waits until it is complete, a
 * link until the message of its next piece is announced. The sender has queued all pieces of a
 * message before those of a later one, so the oldest message never waits for anything but its own
 * bytes. The message is complete when each announced piece is, and its places are checked against
 * what was announced: nothing is written outside of them, or after the message was delivered.
 */
#include "tcp/tcp_types.h"

#include <errno.h>
#include <linux/tcp.h> /* the kernel's: that of libc has no tcpi_delivery_rate */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/fab_params.h"

enum {
    FAB_TCP_SLOWEST = 64,   /* a link counts as slower than the fastest by this factor at most */
    FAB_TCP_SHARE_UNIT = 64 /* bytes: a cache line */
};

/* ---- open and close ----------------------------------------------------- */

/* NULL: no memory. */
static fab_tcp_ep_t *link_new(fab_tcp_ep_t *ep, uint8_t number)
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
                           .link = number};
    return link;
}

static void link_close(fab_tcp_ep_t *link)
{
    fab_tcp_ep_t **all = fab_tcp_is_link_in(link) ? link->links->in : link->links->out;

    all[link->link] = NULL;
    fab_tcp_connect_cancel(link);
    if (FAB_TCP_UP == link->state) {
        fab_tcp_stream_close(link);
    }
    link->next = link->dom->dead;
    link->dom->dead = link;
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
    while (NULL != dom->dead) {
        fab_tcp_ep_t *link = dom->dead;
        dom->dead = link->next;
        free(link);
    }
}

bool fab_tcp_links_are_busy(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i] && NULL != ep->links->out[i]->out) {
            return true;
        }
    }
    return false;
}

void fab_tcp_links_check(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i] && FAB_TCP_UP == ep->links->out[i]->state) {
            fab_tcp_stream_check(ep->links->out[i]);
        }
    }
}

static void link_ask(fab_tcp_ep_t *ep, uint8_t number, const fab_sock_ip_t *ip)
{
    const fab_tcp_frame_t hello = {
        .kind = FAB_TCP_HELLO, .link = number, .serial = ep->serial, .addr = ep->dom->addr};
    fab_tcp_ep_t *link = link_new(ep, number);

    if (NULL == link) {
        fab_counters.tcp_links_failed++;
        return;
    }
    ep->links->out[number] = link;
    link->sock = fab_sock_connect(ep->dom->socks, link, ep->peer->name, ep->addr.key, ip, 1,
                                  &hello);
    link->state = FAB_TCP_ASKING;
    if (NULL == link->sock) {
        fab_tcp_link_refused(link);
    }
}

/* Ask for links to the other addresses, in a network of this host, of a peer on another host. */
static void ask_for_links(fab_tcp_ep_t *ep)
{
    const fab_tcp_addr_t *own = &ep->dom->addr;
    fab_sock_ip_t ips[FAB_TCP_LINKS];
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    uint8_t first[16];
    int num = 0;

    ep->has_asked = true;
    if (!ep->is_local && 0 == getpeername(ep->fd, (struct sockaddr *) &sa, &len) &&
        fab_sock_ip_of((struct sockaddr *) &sa, first)) {
        num = fab_sock_other_nets(own->ips, own->num_ips, ep->addr.ips, ep->addr.num_ips, first,
                                  ips, (int) fab_params.tcp_links - 1);
    }
    for (int i = 0; i < num; i++) {
        link_ask(ep, (uint8_t) (1 + i), &ips[i]);
    }
}

fab_tcp_ep_t *fab_tcp_link_accept(fab_tcp_ep_t *ep, uint32_t number)
{
    fab_tcp_ep_t *link;

    if (0 == number || number >= fab_params.tcp_links || ep->is_end_come ||
        (NULL != ep->links && NULL != ep->links->in[number])) {
        return NULL;
    }
    link = link_new(ep, (uint8_t) number);
    if (NULL == link) {
        return NULL;
    }
    link->in = fab_tcp_buf_get(ep->dom, FAB_TCP_RESERVE);
    ep->dom->num_parts += NULL != link->in;
    if (NULL == link->in) {
        free(link);
        return NULL;
    }
    ep->links->in[number] = link;
    return link;
}

void fab_tcp_link_open(fab_tcp_ep_t *link, int fd, const void *left, size_t left_len)
{
    fab_counters.tcp_links_made++;
    link->is_bulk = true; /* a header is read first, and then to its place */
    fab_tcp_stream_open(link, fd, left, left_len);
}

void fab_tcp_link_refused(fab_tcp_ep_t *link)
{
    fab_counters.tcp_links_failed++;
    link_close(link);
}

void fab_tcp_link_ended(fab_tcp_ep_t *link, int error)
{
    const fab_tcp_ep_t *ep = link->main;
    bool has_part = (NULL != link->in && link->in->node.start < link->in->node.end) ||
                    NULL != link->placing.at || 0 != (link->links->waits >> link->link & 1);
    char why[256];

    if (FAB_PEER_FAILED == link->peer->state) {
        fab_tcp_stream_stop(link);
        return;
    }
    if (fab_tcp_is_link_in(link) ? has_part : NULL != link->out) {
        fab_counters.tcp_peers_lost++;
        snprintf(why, sizeof(why),
                 "One of several TCP connections to it (%s) was lost, with data: %s.", link->to,
                 0 != error ? strerror(error) : "closed by its host");
        fab_peer_fail(link->peer, OPAL_ERR_UNREACH, why);
        fab_tcp_stream_stop(link);
        return;
    }
    fab_counters.tcp_links_lost += !ep->is_end_come && !ep->is_end_sent;
    link_close(link);
}

/* ---- sending ------------------------------------------------------------ */

/* Bytes per second that the kernel saw arrive, limited to what sums can hold; 0: none yet. */
static uint64_t rate_of(const fab_tcp_ep_t *ep)
{
    struct tcp_info info = {.tcpi_delivery_rate = 0};
    socklen_t len = sizeof(info);

    if (0 != getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &len)) {
        return 0;
    }
    return info.tcpi_delivery_rate < UINT64_C(1) << 40 ? info.tcpi_delivery_rate
                                                       : UINT64_C(1) << 40;
}

/*
 * A new link has no rate: it counts as fast. The kernel's rate is too low where little was sent, so
 * each link gets a share from which it can rise.
 */
void fab_tcp_shares(const uint64_t *rates, int num, size_t len, size_t *shares)
{
    uint64_t top = FAB_TCP_SLOWEST, sum = 0, used[FAB_TCP_LINKS];

    for (int i = 0; i < num; i++) {
        top = rates[i] > top ? rates[i] : top;
    }
    for (int i = 0; i < num; i++) {
        used[i] = 0 == rates[i]                      ? top
                  : rates[i] < top / FAB_TCP_SLOWEST ? top / FAB_TCP_SLOWEST
                                                     : rates[i];
        sum += used[i];
    }
    shares[0] = len;
    for (int i = 1; i < num; i++) {
        shares[i] = len * used[i] / sum & ~(size_t) (FAB_TCP_SHARE_UNIT - 1);
        shares[0] -= shares[i];
    }
}

/* The connection, and the links that would write a piece now.  Returns how many. */
static int find_ready(fab_tcp_ep_t *ep, fab_tcp_ep_t **ready)
{
    int num = 1;

    ready[0] = ep;
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        fab_tcp_ep_t *link = ep->links->out[i];
        if (NULL != link && FAB_TCP_UP == link->state && NULL == link->out && !link->is_blocked) {
            ready[num++] = link;
        }
    }
    return num;
}

int fab_tcp_stripe_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out)
{
    fab_tcp_ep_t *ready[FAB_TCP_LINKS];
    fab_tcp_buf_t *bufs[FAB_TCP_LINKS];
    uint64_t rates[FAB_TCP_LINKS];
    size_t shares[FAB_TCP_LINKS], ahead = 0;
    uint32_t links = 0;
    int num = 1, rc;

    if (!ep->has_asked) {
        ask_for_links(ep);
    }
    if (NULL != ep->links && 0 == out->head_len) {
        num = find_ready(ep, ready);
    }
    for (int i = 0; i < num && num > 1; i++) {
        rates[i] = rate_of(ready[i]);
        bufs[i] = 0 == i ? NULL : fab_tcp_buf_get(ep->dom, FAB_TCP_RESERVE);
        num = 0 == i || NULL != bufs[i] ? num : i;
    }
    if (num > 1) {
        fab_tcp_shares(rates, num, out->len, shares);
    }
    for (int i = 1; i < num; i++) {
        ahead += shares[i];
        links |= 1u << ready[i]->link;
    }
    rc = fab_tcp_stream_send_from(ep, hdr, out, ahead, links);
    for (int i = 1; i < num && OPAL_SUCCESS != rc; i++) {
        fab_tcp_buf_put(ep->dom, bufs[i]);
    }
    if (OPAL_SUCCESS != rc || 1 == num) {
        return rc;
    }
    fab_counters.tcp_striped++;
    fab_counters.tcp_striped_bytes += ahead;
    ahead = 0;
    for (int i = 1; i < num; i++) {
        fab_tcp_stream_send_piece(ready[i], bufs[i], out, ahead, shares[i]);
        ahead += shares[i];
    }
    return OPAL_SUCCESS;
}

/* ---- receiving ---------------------------------------------------------- */

void fab_tcp_stripe_announced(fab_tcp_ep_t *ep, fab_hdr_t hdr)
{
    fab_tcp_links_t *links = ep->links;
    uint32_t named = hdr.app_ctx;

    if (NULL == links || hdr.tag <= FAB_TCP_EAGER_MAX || hdr.tag > FAB_FRAGMENT_MAX || 0 == named ||
        0 != (named & 1) || 0 != named >> FAB_TCP_LINKS) {
        fab_tcp_bad_message(ep, FAB_TCP_ID_STRIPE, 0);
        return;
    }
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        if (0 != (named >> i & 1) && NULL == links->in[i]) {
            fab_counters.tcp_peers_lost++;
            fab_peer_fail(ep->peer, OPAL_ERR_UNREACH,
                          "One of several TCP connections to it was lost, with data.");
            return;
        }
    }
    links->total = hdr.tag;
    links->at = NULL;
    links->waits = named | 1;
}

/* The message itself, with its last len bytes: the rest may be read from now on. */
static char *begin_message(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_links_t *links = ep->links;
    bool is_sound = hdr.id < FAB_AM_MAX && 0 < len && len < links->total;

    links->at = is_sound ? fab_place(ep->dom->fab, ep->peer, hdr, links->total) : NULL;
    if (NULL == links->at) {
        fab_tcp_bad_message(ep, hdr.id, len); /* nobody here has asked for so much */
        return NULL;
    }
    links->hdr = hdr;
    links->ahead = links->left = links->total - len;
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        if (0 != (links->waits >> i & 1)) {
            fab_tcp_stream_resume(links->in[i]);
        }
    }
    return links->at + links->ahead;
}

char *fab_tcp_stripe_place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_links_t *links = ep->links;

    if (NULL == ep->main) {
        return begin_message(ep, hdr, len);
    }
    if (!fab_tcp_is_link_in(ep) || FAB_TCP_ID_PIECE != hdr.id || 0 == len || 0 != len % 8) {
        fab_tcp_bad_message(ep, hdr.id, len);
        return NULL;
    }
    if (0 == (links->waits >> ep->link & 1) || NULL == links->at) {
        fab_tcp_stream_pause(ep); /* it is of a later message */
        return NULL;
    }
    if (len > links->left || hdr.tag > links->ahead - len) {
        fab_tcp_bad_message(ep, hdr.id, len);
        return NULL;
    }
    links->left -= len;
    return links->at + hdr.tag;
}

void fab_tcp_stripe_done(fab_tcp_ep_t *part)
{
    fab_tcp_ep_t *ep = NULL != part->main ? part->main : part;
    fab_tcp_links_t *links = part->links;
    size_t total = links->total;

    links->waits &= ~(1u << part->link);
    if (0 != links->waits) {
        if (part == ep) {
            fab_tcp_stream_pause(ep);
        }
        return;
    }
    if (0 != links->left) {
        fab_tcp_bad_message(ep, FAB_TCP_ID_PIECE, links->left); /* it is missing */
        return;
    }
    links->total = 0;
    fab_counters.tcp_msgs_received++;
    fab_counters.tcp_placed++;
    fab_deliver(ep->dom->fab, ep->peer, links->hdr, links->at, total);
    fab_tcp_stream_resume(ep);
}
