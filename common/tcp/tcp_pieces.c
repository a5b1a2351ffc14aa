/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pieces that go by the links of an endpoint.
 */
#include "tcp/tcp_pieces.h"

bool fab_tcp_links_are_busy(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i] && fab_tcp_pieces_are_busy(ep->links->out[i])) {
            return true;
        }
    }
    return false;
}

const fab_tcp_piece_t *fab_tcp_pieces_next(const fab_tcp_ep_t *link)
{
    fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    if (!fab_tcp_is_link_out(link) || sent->written == sent->next) {
        return NULL;
    }
    return &sent->piece[sent->written++ % FAB_TCP_PIECES];
}
