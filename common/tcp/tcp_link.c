/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: further connections to a peer over other networks, and long messages striped over them.
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
 * Sending.  A send from memory is cut into one piece for each link that has nothing to write, all
 * of the same length; the connection carries the end of it, and what announces it.  The peer
 * confirms each piece on its link.  If a link is lost, it is made again where the connection is,
 * and goes on with the first piece that the peer does not have; it gets no new ones.
 *
 * Receiving.  One striped message arrives at a time: the connection waits until it is complete, a
 * link until the message of its next piece is announced.  The sender has queued all pieces of a
 * message before those of a later one, so the oldest message never waits for anything but its own
 * bytes.  The message is complete when each announced piece is, and its places are checked against
 * what was announced: nothing is written outside of them, or after the message was delivered.
 */
#include "tcp/tcp_types.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"

enum {
    FAB_TCP_SHARE_UNIT = 64, /* bytes: a cache line */
    FAB_TCP_SLOW_US = 50,    /* a message that waits less for a link does not count */
    FAB_TCP_SLOW_POLLS = 2   /* nor one that was waited for in fewer polls */
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

/* The peer has the pieces before this one, or they are given up. */
static void release_pieces(fab_tcp_ep_t *link, uint64_t until, int status)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    for (; sent->first != until; sent->first++) {
        fab_tcp_stream_part_done(link->dom, sent->piece[sent->first % FAB_TCP_PIECES].out, status);
    }
}

/* Is there a piece that the peer did not confirm? */
static bool is_busy(const fab_tcp_ep_t *link)
{
    const fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    return sent->first != sent->next;
}

/* What has come of a piece in part comes once more, if the peer makes the link again. */
static void link_close(fab_tcp_ep_t *link)
{
    fab_tcp_links_t *links = link->links;

    fab_tcp_connect_cancel(link);
    if (fab_tcp_is_link_in(link)) {
        links->in[link->link] = NULL;
        links->left += NULL != link->placing.at ? link->placing.len : 0;
    } else {
        links->out[link->link] = NULL;
        release_pieces(link, links->sent[link->link].next, OPAL_ERR_UNREACH);
    }
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
        if (NULL != ep->links->out[i] && is_busy(ep->links->out[i])) {
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

void fab_tcp_links_leave(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        fab_tcp_ep_t *link = ep->links->out[i];
        if (NULL != link && FAB_TCP_UP == link->state && is_busy(link)) {
            fab_tcp_stream_unblock(link);
        }
        if (NULL != link && FAB_TCP_UP == link->state && is_busy(link)) {
            (void) fab_tcp_stream_read(link);
        }
    }
}

static void link_connect(fab_tcp_ep_t *link, const fab_sock_ip_t *ip)
{
    const fab_tcp_frame_t hello = {.kind = FAB_TCP_HELLO,
                                   .link = link->link,
                                   .serial = link->main->serial,
                                   .addr = link->dom->addr};

    link->sock = fab_sock_connect(link->dom->socks, link, link->peer->name, link->addr.key, ip, 1,
                                  &hello);
    link->state = FAB_TCP_ASKING;
    if (NULL == link->sock) {
        fab_tcp_link_refused(link);
    }
}

static void link_ask(fab_tcp_ep_t *ep, uint8_t number, const fab_sock_ip_t *ip)
{
    fab_tcp_ep_t *link = link_new(ep, number);

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

/* Ask for links to the other addresses, in a network of this host, of a peer on another host. */
static void ask_for_links(fab_tcp_ep_t *ep)
{
    const fab_tcp_addr_t *own = &ep->dom->addr;
    fab_sock_ip_t first, ips[FAB_TCP_LINKS];
    int num = 0;

    ep->has_asked = true;
    if (!ep->is_local && main_ip(ep, &first)) {
        num = fab_sock_other_nets(own->ips, own->num_ips, ep->addr.ips, ep->addr.num_ips, first.ip,
                                  ips, (int) fab_params.tcp_links - 1);
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

    if (FAB_TCP_UP == link->state) {
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

    if (0 == number || number >= fab_params.tcp_links || (ep->is_end_come && !is_again)) {
        return NULL;
    }
    if (is_again && NULL != ep->links->in[number]) {
        link_close(ep->links->in[number]);
    }
    link = link_new(ep, (uint8_t) number);
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

void fab_tcp_link_open(fab_tcp_ep_t *link, int fd, const void *left, size_t left_len)
{
    fab_counters.tcp_links_made++;
    link->is_bulk = true; /* a header is read first, and then to its place */
    fab_tcp_stream_open(link, fd, left, left_len);
}

void fab_tcp_link_refused(fab_tcp_ep_t *link)
{
    fab_counters.tcp_links_failed++;
    if (is_busy(link)) {
        fab_tcp_connect_cancel(link);
        fab_counters.tcp_peers_lost++;
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
        fab_tcp_stream_stop(link);
        return;
    }
    fab_counters.tcp_links_lost += !ep->is_end_come && !ep->is_end_sent;
    if (fab_tcp_is_link_out(link) && is_busy(link) && !ep->has_left && !ep->is_eof) {
        link_again(link);
    } else {
        link_close(link);
    }
}

/* ---- sending ------------------------------------------------------------ */

bool fab_tcp_link_next(fab_tcp_ep_t *link)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    if (!fab_tcp_is_link_out(link) || sent->written == sent->next) {
        return false;
    }
    fab_tcp_stream_put_piece(link, &sent->piece[sent->written++ % FAB_TCP_PIECES]);
    return true;
}

void fab_tcp_link_go_on(fab_tcp_ep_t *link, uint64_t got)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    if (got < sent->first || got > sent->next) {
        fab_tcp_bad_message(link, FAB_TCP_ID_CONFIRM, 0);
        return;
    }
    release_pieces(link, got, OPAL_SUCCESS);
    sent->written = got;
    fab_tcp_stream_flush(link);
    fab_tcp_stream_flush(link->main); /* its end may have waited for this */
}

void fab_tcp_link_confirmed(fab_tcp_ep_t *link, fab_hdr_t hdr, size_t len)
{
    const fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    if (FAB_TCP_ID_CONFIRM != hdr.id || 0 != len || hdr.tag < sent->first ||
        hdr.tag > sent->written - (NULL != link->out)) {
        fab_tcp_bad_message(link, hdr.id, len);
        return;
    }
    if (hdr.app_ctx >= FAB_TCP_SLOW_MAX && !link->is_unused) {
        link->is_unused = true;
        fab_counters.tcp_links_slow++;
    }
    release_pieces(link, hdr.tag, OPAL_SUCCESS);
    fab_tcp_stream_flush(link->main); /* its end may have waited for this */
}

/* The connection, and the links that would write a piece now.  Returns how many. */
static int find_ready(fab_tcp_ep_t *ep, fab_tcp_ep_t **ready)
{
    int num = 1;

    ready[0] = ep;
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        fab_tcp_ep_t *link = ep->links->out[i];
        if (NULL != link && FAB_TCP_UP == link->state && NULL == link->out && !link->is_blocked &&
            !link->is_unused &&
            ep->links->sent[i].next - ep->links->sent[i].first < FAB_TCP_PIECES) {
            ready[num++] = link;
        }
    }
    return num;
}

int fab_tcp_stripe_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t all)
{
    fab_tcp_ep_t *ready[FAB_TCP_LINKS];
    uint32_t links = 0;
    int num = 1, rc;

    if (!ep->has_asked) {
        ask_for_links(ep);
    }
    if (NULL != ep->links && 0 == out->head_len) {
        num = find_ready(ep, ready);
    }
    if (num > 1) {
        const size_t max = (size_t) num * FAB_TCP_SHARE_MAX;
        out->len = all < max ? all : max;
    }
    const size_t share = out->len / (size_t) num & ~(size_t) (FAB_TCP_SHARE_UNIT - 1);
    for (int i = 1; i < num; i++) {
        links |= 1u << ready[i]->link;
    }
    rc = fab_tcp_stream_send_from(ep, hdr, out, (size_t) (num - 1) * share, links);
    if (OPAL_SUCCESS != rc || 1 == num) {
        return rc;
    }
    fab_counters.tcp_striped++;
    fab_counters.tcp_striped_bytes += (size_t) (num - 1) * share;
    for (int i = 1; i < num; i++) {
        fab_tcp_pieces_t *sent = &ep->links->sent[ready[i]->link];
        sent->piece[sent->next++ % FAB_TCP_PIECES] = (fab_tcp_piece_t){
            .out = out, .at = (size_t) (i - 1) * share, .len = share};
    }
    for (int i = 1; i < num; i++) {
        fab_tcp_stream_flush(ready[i]);
    }
    return OPAL_SUCCESS;
}

/* ---- receiving ---------------------------------------------------------- */

void fab_tcp_stripe_announced(fab_tcp_ep_t *ep, fab_hdr_t hdr)
{
    fab_tcp_links_t *links = ep->links;
    uint32_t named = hdr.app_ctx;

    if (NULL == links || hdr.tag <= FAB_TCP_EAGER_MAX || hdr.tag > FAB_TCP_STRIPE_MAX ||
        0 == named || 0 != (named & ~links->made)) {
        fab_tcp_bad_message(ep, FAB_TCP_ID_STRIPE, 0);
        return;
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
    links->since = fab_now_us();
    links->main_took = 0;
    links->ahead = links->left = links->total - len;
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        if (0 != (links->waits >> i & 1) && NULL != links->in[i]) {
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
    if (FAB_TCP_ID_PIECE != hdr.id || 0 == len || 0 != len % 8) {
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

/*
 * The last part came, by this link or the connection.  With equal shares it would have been no
 * later without the link if that takes twice as long as the connection.  Less than FAB_TCP_SLOW_US,
 * and links that were only not looked at, do not count.  A message that did not wait for a link
 * halves its count: on a busy host such messages come between.
 */
static void count_slow(const fab_tcp_ep_t *part)
{
    fab_tcp_links_t *links = part->links;
    bool is_slow = fab_now_us() - links->since > 2 * links->main_took + FAB_TCP_SLOW_US &&
                   part->dom->alls - links->main_alls > FAB_TCP_SLOW_POLLS;

    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        if (NULL != part->main && i == part->link && is_slow) {
            links->slow[i]++;
        } else {
            links->slow[i] /= 2;
        }
    }
}

bool fab_tcp_stripe_is_lost(const fab_tcp_ep_t *ep)
{
    const fab_tcp_links_t *links = ep->links;
    int i = 1;

    if (NULL != ep->main || NULL == links) {
        return false;
    }
    while (i < FAB_TCP_LINKS && (0 == (links->waits >> i & 1) || NULL != links->in[i])) {
        i++;
    }
    return i < FAB_TCP_LINKS;
}

void fab_tcp_stripe_done(fab_tcp_ep_t *part)
{
    fab_tcp_ep_t *ep = NULL != part->main ? part->main : part;
    fab_tcp_links_t *links = part->links;
    size_t total = links->total;

    links->waits &= ~(1u << part->link);
    if (part == ep) {
        links->main_took = fab_now_us() - links->since;
        links->main_alls = ep->dom->alls;
    }
    if (0 == links->waits) {
        count_slow(part);
    }
    if (part != ep) {
        links->got[part->link]++;
        part->credit_due = FAB_TCP_CREDIT;
        fab_tcp_stream_give_credit(part);
    }
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
