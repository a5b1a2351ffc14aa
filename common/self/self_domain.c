/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider self: a process as its own peer.
 *
 * fab_send() and fab_commit() call the message's handler themselves, with the payload in place.
 * The handler may send to this process again, so deliveries nest, and reservations with them: each
 * has its own buffer, from fab_reserve() until its handler has returned.
 *
 * RMA is memmove(), one step of bounded length per fab_progress().
 */
#include "fabric/fab_provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_wire.h"

enum {
    /* bytes; for longer messages one copy by RMA is faster than the two of an unexpected message */
    FAB_SELF_EAGER_MAX = 16384,
    FAB_SELF_COPY_STEP = 1 << 20, /* bytes copied per progress call: about 0.1 ms */
};

/* Room for one message. */
typedef struct fab_self_buf {
    struct fab_self_buf *next;
    uint64_t data[FAB_SELF_EAGER_MAX / 8]; /* messages are 8-byte aligned */
} fab_self_buf_t;

typedef struct fab_self_domain {
    fab_t *fab;
    fab_self_buf_t *free_bufs;
    fab_self_buf_t *reserved; /* reserved and not committed yet; NULL: none */
    fab_rma_queue_t rma;      /* operations under way, oldest first */
} fab_self_domain_t;

/* ---- messages ----------------------------------------------------------- */

static void *self_reserve(fab_peer_t *peer, size_t max_len)
{
    fab_self_domain_t *self = peer->ep;

    (void) max_len;
    self->reserved = self->free_bufs;
    if (NULL != self->reserved) {
        self->free_bufs = self->reserved->next;
    } else {
        self->reserved = malloc(sizeof(*self->reserved));
    }
    return NULL != self->reserved ? self->reserved->data : NULL;
}

static void self_commit(fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    fab_self_domain_t *self = peer->ep;
    fab_self_buf_t *buf = self->reserved;

    self->reserved = NULL;
    fab_deliver(self->fab, peer, hdr, buf->data, len);
    buf->next = self->free_bufs;
    self->free_bufs = buf;
}

static int self_send(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    fab_self_domain_t *self = peer->ep;

    if (0 == ((uintptr_t) buf & 7)) {
        fab_deliver(self->fab, peer, hdr, buf, len);
        return OPAL_SUCCESS;
    }
    void *room = self_reserve(peer, len);
    if (NULL == room) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    memcpy(room, buf, len);
    self_commit(peer, hdr, len);
    return OPAL_SUCCESS;
}

/* ---- memory ------------------------------------------------------------- */

static int self_rma(fab_rma_t *op)
{
    fab_self_domain_t *self = op->peer->ep;

    STAILQ_INSERT_TAIL(&self->rma, op, link);
    return OPAL_SUCCESS;
}

static void rma_copy(fab_rma_t *op, size_t len)
{
    char *local = (char *) op->local + op->done;
    char *remote = (char *) (uintptr_t) op->remote + op->done;

    if (len > 0) {
        memmove(FAB_PUT == op->kind ? remote : local, FAB_PUT == op->kind ? local : remote, len);
    }
    op->done += len;
}

static bool self_rma_now(fab_rma_t *op)
{
    rma_copy(op, op->len);
    return true;
}

static int self_progress(fab_domain_t *dom)
{
    fab_self_domain_t *self = (fab_self_domain_t *) dom;
    fab_rma_t *op = STAILQ_FIRST(&self->rma);
    size_t left;

    if (__builtin_expect(NULL == op, 1)) {
        return 0;
    }
    STAILQ_REMOVE_HEAD(&self->rma, link);
    left = op->len - op->done;
    rma_copy(op, left < FAB_SELF_COPY_STEP ? left : FAB_SELF_COPY_STEP);
    if (op->done == op->len) {
        op->complete(op, OPAL_SUCCESS);
    } else {
        STAILQ_INSERT_TAIL(&self->rma, op, link);
    }
    return 1;
}

/* ---- control ------------------------------------------------------------ */

static int self_open(fab_t *fab, fab_domain_t **dom, const char **why)
{
    fab_self_domain_t *self = calloc(1, sizeof(*self));

    if (NULL == self) {
        *why = fab_sentence(fab, "There is not enough memory.");
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    self->fab = fab;
    STAILQ_INIT(&self->rma);
    *dom = (fab_domain_t *) self;
    return OPAL_SUCCESS;
}

static void self_close(fab_domain_t *dom)
{
    fab_self_domain_t *self = (fab_self_domain_t *) dom;

    while (NULL != self->free_bufs) {
        fab_self_buf_t *buf = self->free_bufs;
        self->free_bufs = buf->next;
        free(buf);
    }
    free(self);
}

static int self_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why)
{
    fab_self_domain_t *self = (fab_self_domain_t *) dom;

    (void) address;
    if (peer->name != self->fab->config.name) {
        *why = "it is another process";
        return OPAL_ERR_UNREACH;
    }
    peer->eager_max = FAB_SELF_EAGER_MAX;
    peer->caps = FAB_CAP_GET | FAB_CAP_PUT;
    peer->ep = self;
    return OPAL_SUCCESS;
}

static void self_detach(fab_domain_t *dom, fab_peer_t *peer)
{
    (void) dom;
    peer->ep = NULL;
}

/* There is only one peer, so all RMA is with it. */
static bool self_drop(fab_domain_t *dom, fab_peer_t *peer)
{
    fab_self_domain_t *self = (fab_self_domain_t *) dom;
    fab_rma_t *op;

    peer->ep = NULL;
    while (NULL != (op = STAILQ_FIRST(&self->rma))) {
        STAILQ_REMOVE_HEAD(&self->rma, link);
        op->complete(op, OPAL_ERR_UNREACH);
    }
    return true;
}

static int self_describe(fab_domain_t *dom, char *buf, size_t size)
{
    (void) dom;
    return snprintf(buf, size,
                    "this process   self   0 to %-10d  eager, handed over in place\n"
                    "                      longer           rendezvous: one copy\n",
                    FAB_SELF_EAGER_MAX);
}

static const fab_ops_t fab_self_ops = {
    .send = self_send,
    .reserve = self_reserve,
    .commit = self_commit,
    .rma = self_rma,
    .rma_now = self_rma_now,
};

const fab_provider_t fab_self_provider = {
    .name = "self",
    .id = FAB_WIRE_SELF,
    .ops = &fab_self_ops,
    .open = self_open,
    .close = self_close,
    .address_len = 0, /* the name suffices */
    .attach = self_attach,
    .detach = self_detach,
    .drop = self_drop,
    .progress = self_progress,
    .describe = self_describe,
};
