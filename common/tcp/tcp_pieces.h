/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The links of an endpoint: which connections they are, and the pieces that go by them.
 */
#ifndef FAB_TCP_PIECES_H
#define FAB_TCP_PIECES_H

#include "tcp/tcp_types.h"

/* Of an endpoint with links: is its next message a part of a striped one? */
static inline bool fab_tcp_is_part(const fab_tcp_ep_t *ep)
{
    return NULL != ep->main || 0 != ep->links->total;
}

/* Is it a link on which this process sends? */
static inline bool fab_tcp_is_link_out(const fab_tcp_ep_t *ep)
{
    return NULL != ep->main && ep == ep->links->out[ep->link];
}

/* Is it a link that the peer made, on which this process only receives? */
static inline bool fab_tcp_is_link_in(const fab_tcp_ep_t *ep)
{
    return NULL != ep->main && ep == ep->links->in[ep->link];
}

/* Is there a piece of this link that the peer did not confirm? */
static inline bool fab_tcp_pieces_are_busy(const fab_tcp_ep_t *link)
{
    const fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    return sent->first != sent->next;
}

/* Is some piece of the endpoint's links not confirmed yet? */
static inline bool fab_tcp_links_are_busy(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i] && fab_tcp_pieces_are_busy(ep->links->out[i])) {
            return true;
        }
    }
    return false;
}

#endif /* FAB_TCP_PIECES_H */
