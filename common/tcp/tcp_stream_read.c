/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection reads.
 *
 * A call reads all available data into a buffer, in which messages are parsed in place; the
 * connection has the buffer only while it contains part of a message.  All messages are multiples
 * of 8 bytes, so payload is aligned.  The rest of a long message that has begun is read straight to
 * its destination, if it has one; the same call reads a little more, so that the next header is
 * there.  After the announcement or a fragment of a long message only a little is read at first, so
 * that the next fragment can go straight to its destination, even if all of it is there already.
 *
 * Parts.  A striped message comes in part by links (tcp_stripe.c).  Its parts are read to their
 * places by any connection.  After its own part, the connection pauses until the message is
 * complete, so nothing is delivered out of order; a link pauses before a piece that was not
 * announced yet.
 */
#include "tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* ---- messages ----------------------------------------------------------- */

/* A message of the provider itself.  Here sessions do not pause. */
static void own_message(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    bool is_right = 0 == len;

    if (FAB_TCP_ID_CREDIT == hdr.id) {
        is_right = is_right && fab_ses_on_credit(&ep->ses, (uint32_t) hdr.tag);
    } else if (FAB_TCP_ID_BYE == hdr.id) {
        is_right = is_right && FAB_SES_BYE_PAUSE != hdr.app_ctx &&
                   fab_ses_on_bye(&ep->ses, hdr.app_ctx);
    } else if (FAB_TCP_ID_STRIPE == hdr.id && is_right) {
        fab_tcp_stripe_announced(ep, hdr);
    } else {
        is_right = false;
    }
    if (!is_right) {
        fab_tcp_bad_message(ep, hdr.id, len);
    }
}

/* Does a buffer hold a message of so many bytes? */
static bool fits(size_t len)
{
    return sizeof(fab_tcp_hdr_t) + fab_tcp_padded(len) <= FAB_TCP_BUF;
}

/* May messages with this id have a destination of their own? */
static bool has_places(const fab_tcp_domain_t *dom, uint8_t id)
{
    return id < FAB_AM_MAX && NULL != dom->fab->placers[id].fn;
}

/*
 * A part of a message is here: ask for the destination, and copy the part there.  False: there is
 * none, or little is still to come.
 */
static bool place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_node_t *in = &ep->in->node;
    size_t have = in->end - in->start - sizeof(fab_tcp_hdr_t);
    char *at;

    if ((len < have + FAB_TCP_PLACE_MIN && fits(len)) || FAB_TCP_BUF != ep->in->size) {
        return false;
    }
    at = fab_place(ep->dom->fab, ep->peer, hdr, len);
    if (NULL == at) {
        return false;
    }
    memcpy(at, in->bytes + in->start + sizeof(fab_tcp_hdr_t), have);
    in->start = in->end = 0;
    ep->placing = (fab_tcp_placing_t){.at = at + have, .left = len - have, .hdr = hdr, .len = len};
    return true;
}

/* The message of which the links' parts wait has begun. */
static void resume_links(const fab_tcp_links_t *links)
{
    for (int i = 1; i < FAB_TCP_LINKS; i++) {
        if (0 != (links->waits >> i & 1) && NULL != links->in[i]) {
            fab_tcp_stream_resume(links->in[i]);
        }
    }
}

/* A part of a striped message is at its destination. */
static void part_done(fab_tcp_ep_t *part)
{
    fab_tcp_ep_t *ep = NULL != part->main ? part->main : part;

    if (fab_tcp_stripe_done(part)) {
        fab_tcp_stream_resume(ep);
    }
}

/* The next message is part of a striped one: copy what is here.  False: it is not complete. */
static bool take_part(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len)
{
    fab_tcp_node_t *in = &ep->in->node;
    size_t have = in->end - in->start - sizeof(fab_tcp_hdr_t);
    size_t now = have < len ? have : len;
    char *at;

    if (have >= len && have < fab_tcp_padded(len)) {
        return false; /* only padding is missing */
    }
    at = fab_tcp_stripe_place(ep, hdr, len);
    if (NULL == at) {
        return false;
    }
    if (NULL == ep->main) {
        resume_links(ep->links);
    }
    memcpy(at, in->bytes + in->start + sizeof(fab_tcp_hdr_t), now);
    if (now < len) {
        in->start = in->end = 0;
        ep->placing = (fab_tcp_placing_t){
            .at = at + now, .left = len - now, .hdr = hdr, .len = len};
        return false;
    }
    in->start += (uint32_t) (sizeof(fab_tcp_hdr_t) + fab_tcp_padded(len));
    ep->is_bulk = true;
    part_done(ep);
    return true;
}

/* Deliver the first message in ep->in if it is complete.  False: it is not, or it is illegal. */
static bool deliver_one(fab_tcp_ep_t *ep)
{
    fab_tcp_domain_t *dom = ep->dom;
    fab_tcp_node_t *in = &ep->in->node;
    fab_tcp_hdr_t wire;

    memcpy(&wire, in->bytes + in->start, sizeof(wire));
    uint8_t id = wire.id_len & 0xff;
    size_t len = wire.id_len >> 8;
    fab_hdr_t hdr = fab_hdr(id, wire.tag, wire.app_ctx);
    if (__builtin_expect(NULL != ep->links, 0) && fab_tcp_is_part(ep)) {
        if (!ep->is_out) {
            return take_part(ep, hdr, len);
        }
        in->start += sizeof(fab_tcp_hdr_t);
        fab_tcp_link_confirmed(ep, hdr, len);
        return true;
    }
    if (len > (has_places(dom, id) ? FAB_FRAGMENT_LOCAL_MAX : dom->addr.eager_max) ||
        FAB_SES_BYE_NONE != ep->ses.peer_bye) {
        fab_tcp_bad_message(ep, id, len);
        return false;
    }
    if (in->end - in->start < sizeof(wire) + fab_tcp_padded(len)) {
        if (!(has_places(dom, id) && place(ep, hdr, len)) && !fits(len)) {
            fab_tcp_bad_message(ep, id, len); /* no request here asked for so much */
        }
        return false;
    }
    char *data = in->bytes + in->start + sizeof(wire);
    in->start += (uint32_t) (sizeof(wire) + fab_tcp_padded(len));
    if (id < FAB_AM_MAX) {
        ep->is_bulk = FAB_AM_RNDV == id || has_places(dom, id);
        if (FAB_AM_RNDV == id || FAB_AM_EAGER == id) {
            ep->peer->caps |= FAB_CAP_ANSWERED;
        }
        fab_ses_take(&ep->ses, fab_tcp_counted(len));
        fab_deliver(dom->fab, ep->peer, hdr, data, len);
    } else {
        own_message(ep, hdr, len);
    }
    return true;
}

/* Deliver the complete messages in ep->in. Returns how many. */
static int deliver(fab_tcp_ep_t *ep)
{
    fab_tcp_node_t *in = &ep->in->node;
    int events = 0;

    while (in->end - in->start >= sizeof(fab_tcp_hdr_t) && !ep->is_paused &&
           FAB_PEER_FAILED != ep->peer->state && deliver_one(ep)) {
        events++;
    }
    return events;
}

/* n bytes came; those for ep->placing are at their destination. */
static int placed(fab_tcp_ep_t *ep, size_t n)
{
    fab_tcp_placing_t *placing = &ep->placing;
    size_t mine = n < placing->left ? n : placing->left;
    char *data = placing->at - (placing->len - placing->left);

    placing->at += mine;
    placing->left -= mine;
    ep->in->node.end += (uint32_t) (n - mine);
    if (0 != placing->left) {
        return 0;
    }
    placing->at = NULL;
    ep->is_bulk = true;
    ep->skip = (uint8_t) (fab_tcp_padded(placing->len) - placing->len);
    if (NULL != ep->links && fab_tcp_is_part(ep)) {
        part_done(ep);
        return 1;
    }
    fab_counters.tcp_placed++;
    fab_ses_take(&ep->ses, fab_tcp_counted(placing->len));
    fab_deliver(ep->dom->fab, ep->peer, placing->hdr, data, placing->len);
    return 1;
}

/* ---- system calls ------------------------------------------------------- */

/* Make room behind the beginning of a message. */
static void move_to_front(fab_tcp_node_t *in)
{
    if (0 != in->start) {
        memmove(in->bytes, in->bytes + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
}

/* One system call, as recv().  *room: the bytes for which there was room. */
static ssize_t read_some(fab_tcp_ep_t *ep, size_t *room)
{
    fab_tcp_node_t *in = &ep->in->node;
    fab_tcp_placing_t *placing = &ep->placing;
    struct iovec iov[2];

    if (NULL == placing->at) {
        *room = ep->is_bulk && in->start == in->end ? FAB_TCP_AHEAD : ep->in->size - in->end;
        return recv(ep->fd, in->bytes + in->end, *room, MSG_DONTWAIT);
    }
    /* the padding comes first, and the header after it is to be aligned */
    in->start = in->end = (uint32_t) ((8 - (fab_tcp_padded(placing->len) - placing->len)) % 8);
    if (placing->left > FAB_TCP_READ_MAX) {
        *room = FAB_TCP_READ_MAX;
        return recv(ep->fd, placing->at, *room, MSG_DONTWAIT);
    }
    iov[0] = (struct iovec){.iov_base = placing->at, .iov_len = placing->left};
    iov[1] = (struct iovec){.iov_base = in->bytes + in->end, .iov_len = FAB_TCP_AHEAD};
    *room = placing->left + FAB_TCP_AHEAD;
    return readv(ep->fd, iov, 2);
}

/* n bytes came. Returns the number of messages. */
static int take(fab_tcp_ep_t *ep, size_t n)
{
    fab_tcp_node_t *in = &ep->in->node;
    int events = 0;

    ep->ses.is_used = true;
    ep->dom->budget -= (int64_t) n;
    fab_counters.tcp_reads++;
    if (NULL != ep->placing.at) {
        events = placed(ep, n);
    } else {
        in->end += (uint32_t) n;
    }
    while (ep->skip > 0 && in->start < in->end) {
        in->start++;
        ep->skip--;
    }
    return NULL == ep->placing.at ? events + deliver(ep) : events;
}

/*
 * Part of a message waits: if many connections have one, keep no more memory than it takes.  Such a
 * buffer holds this one message, until that is complete.
 */
static void fit_in(fab_tcp_ep_t *ep)
{
    const fab_tcp_node_t *in = &ep->in->node;
    fab_tcp_buf_t *fit = NULL;
    fab_tcp_hdr_t wire;

    if (ep->dom->num_parts > FAB_TCP_PARTS && FAB_TCP_BUF == ep->in->size && NULL == ep->links &&
        in->end - in->start >= sizeof(wire)) {
        memcpy(&wire, in->bytes + in->start, sizeof(wire));
        size_t size = sizeof(wire) + fab_tcp_padded(wire.id_len >> 8);
        fit = in->end - in->start < size && size < FAB_TCP_BUF ? fab_tcp_buf_fit(ep->in, size)
                                                               : NULL;
    }
    if (NULL != fit) {
        fab_tcp_buf_put(ep->dom, ep->in);
        ep->in = fit;
    } else {
        move_to_front(&ep->in->node);
    }
}

/*
 * Keep the buffer only if it holds something.  A link that the peer made keeps it: the connection
 * may hold all others, and wait for what comes by the link.
 */
static void tidy(fab_tcp_ep_t *ep)
{
    fab_tcp_node_t *in = &ep->in->node;

    if (in->start != in->end) {
        fit_in(ep);
    } else if (NULL != ep->main && !ep->is_out) {
        in->start = in->end = 0;
    } else if (0 == ep->skip) {
        fab_tcp_in_put(ep);
    }
}

/* May another read begin in this poll, after so many from this connection? */
static bool may_read(const fab_tcp_ep_t *ep, int reads)
{
    return FAB_PEER_FAILED != ep->peer->state && !ep->is_eof && !ep->is_paused &&
           (0 == reads ||
            (reads < FAB_TCP_READS && ep->dom->budget > 0 && !ep->dom->fab->must_return));
}

int fab_tcp_stream_read(fab_tcp_ep_t *ep)
{
    int events = 0;

    for (int reads = 0; may_read(ep, reads); reads++) {
        size_t room;
        if (!fab_tcp_in_get(ep)) {
            return events; /* no memory; it stays in the kernel */
        }
        ssize_t n = read_some(ep, &room);
        int error = n < 0 ? errno : 0;
        events += n > 0 ? take(ep, (size_t) n) : 0;
        tidy(ep);
        if (0 == n || (n < 0 && !fab_tcp_may_go_on(error))) {
            fab_tcp_stream_eof(ep, error);
            return events + 1;
        }
        if (n < (ssize_t) room) {
            break;
        }
    }
    return events;
}

void fab_tcp_stream_resume(fab_tcp_ep_t *ep)
{
    if (!ep->is_paused) {
        return;
    }
    ep->is_paused = false;
    fab_tcp_watch(ep);
    if (NULL != ep->in) {
        (void) deliver(ep);
        tidy(ep);
    }
}
