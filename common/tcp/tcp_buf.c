/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers: of messages that wait to be written, and of those that have come in part.
 *
 * The domain has some from the start, for when there is no more memory, and keeps some
 * free ones.
 */
#include "tcp/tcp.h"

#include <stdlib.h>
#include <string.h>

fab_tcp_buf_t *fab_tcp_buf_get(fab_tcp_domain_t *dom, uint32_t keep)
{
    fab_tcp_buf_t *buf = (fab_tcp_buf_t *) dom->free_bufs;

    if (dom->num_free > keep) {
        dom->free_bufs = buf->node.next;
        dom->num_free--;
    } else {
        buf = malloc(sizeof(*buf));
    }
    if (NULL != buf) {
        buf->node = (fab_tcp_node_t){.bytes = (char *) buf->data};
        buf->size = FAB_TCP_BUF;
    }
    return buf;
}

void fab_tcp_buf_put(fab_tcp_domain_t *dom, fab_tcp_buf_t *buf)
{
    if (dom->num_free >= FAB_TCP_FREE_BUFS || FAB_TCP_BUF != buf->size) {
        free(buf);
        return;
    }
    buf->node.next = dom->free_bufs;
    dom->free_bufs = &buf->node;
    dom->num_free++;
}

fab_tcp_buf_t *fab_tcp_buf_fit(const fab_tcp_buf_t *buf, size_t size)
{
    const fab_tcp_node_t *node = &buf->node;
    fab_tcp_buf_t *fit = malloc(offsetof(fab_tcp_buf_t, data) + size);

    if (NULL != fit) {
        fit->node = (fab_tcp_node_t){.bytes = (char *) fit->data, .end = node->end - node->start};
        fit->size = size;
        memcpy(fit->data, node->bytes + node->start, fit->node.end);
    }
    return fit;
}

bool fab_tcp_bufs_init(fab_tcp_domain_t *dom)
{
    while (dom->num_free < FAB_TCP_RESERVE) {
        fab_tcp_buf_t *buf = fab_tcp_buf_get(dom, dom->num_free); /* a new one */
        if (NULL == buf) {
            return false;
        }
        fab_tcp_buf_put(dom, buf);
    }
    return true;
}

void fab_tcp_bufs_fini(fab_tcp_domain_t *dom)
{
    while (NULL != dom->free_bufs) {
        fab_tcp_node_t *node = dom->free_bufs;
        dom->free_bufs = node->next;
        free(node); /* it is the first of a buffer */
    }
}

bool fab_tcp_in_get(fab_tcp_ep_t *ep)
{
    if (NULL == ep->in) {
        ep->in = fab_tcp_buf_get(ep->dom, 0);
        ep->dom->num_parts += NULL != ep->in;
    }
    return NULL != ep->in;
}

void fab_tcp_in_put(fab_tcp_ep_t *ep)
{
    if (NULL != ep->in) {
        fab_tcp_buf_put(ep->dom, ep->in);
        ep->in = NULL;
        ep->dom->num_parts--;
    }
}
