/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages striped over the connection to a peer and its links.
 *
 * Sending.  A send from memory is cut into one piece for each link that has nothing to write, all
 * of the same length; the connection carries the end of it, and what announces it.  The peer
 * confirms each piece on its link.
 *
 * Receiving.  One striped message arrives at a time: the connection waits until it is complete, a
 * link until the message of its next piece is announced.  The sender has queued all pieces of a
 * message before those of a later one, so the oldest message never waits for anything but its own
 * bytes.  The message is complete when each announced piece is, and its places are checked against
 * what was announced: nothing is written outside of them, or after the message was delivered.
 */
#include "tcp/tcp.h"

#include "fabric/fab_clock.h"

enum {
    FAB_TCP_SHARE_UNIT = 64, /* bytes: a cache line */
    FAB_TCP_SLOW_US = 50,    /* a message that waits less for a link does not count */
    FAB_TCP_SLOW_POLLS = 2   /* nor one that was waited for in fewer polls */
};

/* ---- sending ------------------------------------------------------------ */

void fab_tcp_stripe_release(fab_tcp_ep_t *link, uint64_t until, int status)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    for (; sent->first != until; sent->first++) {
        fab_tcp_stream_part_done(link->dom, sent->piece[sent->first % FAB_TCP_PIECES].out, status);
    }
}

void fab_tcp_link_go_on(fab_tcp_ep_t *link, uint64_t got)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    if (got < sent->first || got > sent->next) {
        fab_tcp_bad_message(link, FAB_TCP_ID_CONFIRM, 0);
        return;
    }
    fab_tcp_stripe_release(link, got, OPAL_SUCCESS);
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
    fab_tcp_stripe_release(link, hdr.tag, OPAL_SUCCESS);
    fab_tcp_stream_flush(link->main); /* its end may have waited for this */
}

/* The connection, and the links that would write a piece now.  Returns how many. */
static int find_ready(fab_tcp_ep_t *ep, fab_tcp_ep_t **ready)
{
    int num = 1;

    ready[0] = ep;
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        fab_tcp_ep_t *link = ep->links->out[i];
        if (NULL != link && fab_tcp_is_up(link) && NULL == link->out && !link->is_blocked &&
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
        fab_tcp_bad_message(ep, hdr.id, len); /* no request here asked for so much */
        return NULL;
    }
    links->hdr = hdr;
    links->since = fab_now_us();
    links->main_took = 0;
    links->ahead = links->left = links->total - len;
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
        ep->is_paused = true; /* it is of a later message */
        fab_tcp_watch(ep);
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

bool fab_tcp_stripe_done(fab_tcp_ep_t *part)
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
        fab_tcp_stream_give_credit(part);
    }
    if (0 != links->waits) {
        if (part == ep) {
            ep->is_paused = true;
            fab_tcp_watch(ep);
        }
        return false;
    }
    if (0 != links->left) {
        fab_tcp_bad_message(ep, FAB_TCP_ID_PIECE, links->left); /* it is missing */
        return false;
    }
    links->total = 0;
    fab_counters.tcp_placed++;
    fab_deliver(ep->dom->fab, ep->peer, links->hdr, links->at, total);
    return true;
}
