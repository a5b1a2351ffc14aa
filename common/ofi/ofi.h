/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the provider ofi have for each other, from the floor up.
 */
#ifndef FAB_OFI_H
#define FAB_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <stdbool.h>

#include "fabric/fab.h"
#include "fabric/fab_provider.h"
#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"
#include "ofi/ofi_types.h"
#include "session/session.h"

/* ---- ofi_fail.c: paths that break ---- */

/*
 * fab_ses_ops_t.is_drained: the queue was empty twice since the path broke.  The first time may be
 * that of the poll in which it did.
 */
bool fab_ofi_is_drained(const fab_ses_t *ses);
/* The session may have found that its path is broken.  The endpoint may have been released. */
void fab_ofi_ep_list_if_broken(fab_ofi_ep_t *ep, const fab_peer_t *peer);
/*
 * Nothing can be sent to the peer by libfabric any more: rc, why as fab_peer_fail().  Not from
 * within fab_ofi_ses_ops.  The endpoint may be released.
 */
void fab_ofi_ep_broke(fab_ofi_ep_t *ep, int rc, const char *why);
/* Time has passed in which a last word is awaited.  The endpoint may be released. */
void fab_ofi_ep_tick(fab_ofi_ep_t *ep);
/* There is no memory for one of the provider's own messages: the same, at the next poll. */
void fab_ofi_ep_is_speechless(fab_ofi_ep_t *ep);
/* The completion queue was empty: have the broken paths been drained? */
int fab_ofi_look_at_broken(fab_ofi_domain_t *dom);

/* ---- ofi_send.c ---- */

enum {
    FAB_OFI_ALONE = 4,   /* short messages to a peer that are sent alone after a poll */
    FAB_OFI_STACK = 256, /* bytes of a message that is made on the stack */
};

/*
 * A message of the fabric's, len <= eager_max bytes.  OPAL_ERR_RESOURCE_BUSY: no room now, or the
 * peer is about to fail.
 */
int fab_ofi_send_msg(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data, size_t len);
/* The same with the payload in place; it goes now or later. */
void fab_ofi_send_buf(fab_ofi_ep_t *ep, fab_hdr_t hdr, fab_ofi_sbuf_t *buf, size_t len);
/*
 * May a message of len bytes be sent alone now?  Where several may leave together, a short one only
 * as one of the first after a poll, which may be followed by none for long, or in a batch.
 */
static inline bool fab_ofi_is_its_turn(fab_ofi_ep_t *ep, size_t len)
{
    const fab_ofi_domain_t *dom = ep->dom;

    if (!dom->is_packing || ep->is_batch || len > FAB_OFI_PART_MAX) {
        return true;
    }
    if (ep->alone_poll != dom->polls) {
        ep->alone_poll = dom->polls;
        ep->num_alone = 0;
    }
    return ep->num_alone++ < FAB_OFI_ALONE;
}
/* What is packed goes now or later, ahead of what is sent next. */
void fab_ofi_send_pack(fab_ofi_ep_t *ep);
/* fab_ops_t.batch */
void fab_ofi_batch(fab_peer_t *peer, bool is_begin);

/*
 * One of the provider's own messages of the session (FAB_OFI_ID_*), now or when there is room.
 * Without memory for it the path of the session is as broken, at the next poll.
 */
void fab_ofi_send_own(fab_ofi_ep_t *ep, uint8_t id, uint32_t app_ctx);
/* The same of no session: a frame, or NULL, and zeros behind it up to len bytes. */
void fab_ofi_send_frame(fab_ofi_ep_t *ep, uint8_t id, const fab_ofi_frame_t *frame, size_t len);
/* Note what came: an answer, perhaps. */
static inline void fab_ofi_hear(fab_ofi_ep_t *ep)
{
    if (ep->has_heard) {
        ep->has_heard = ep->is_asking = false;
        ep->silences = 0;
    }
}
/* Ask whether the peer is there, unless libfabric has something for it that it will report on. */
void fab_ofi_send_probe(fab_ofi_ep_t *ep);

/* Hand over what waits. */
int fab_ofi_send_waiting(fab_ofi_domain_t *dom);
/* Forget what waits for room to this peer. */
void fab_ofi_send_drop(fab_ofi_ep_t *ep);
/* Return credits that are due. */
void fab_ofi_send_credits(fab_ofi_domain_t *dom);

static inline bool fab_ofi_can_send(const fab_ofi_ep_t *ep)
{
    return fab_ses_may_send(&ep->ses) && NULL == ep->to_send;
}

/* ---- ofi_early.c ---- */

typedef struct fab_ofi_early {
    struct fab_ofi_early *next; /* in the order of their numbers */
    fab_ofi_hdr_t hdr;
    size_t len;
    uint64_t data[]; /* payload, aligned */
} fab_ofi_early_t;

/* Keep it.  False: no memory, or no sender that keeps to the rules sends it now. */
bool fab_ofi_early_keep(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len);
/* The next message, if it is there: the caller's to free. NULL: it has not come. */
fab_ofi_early_t *fab_ofi_early_take(fab_ofi_ep_t *ep);
void fab_ofi_early_drop(fab_ofi_ep_t *ep);

/* ---- ofi_connect.c: sessions (session.h): the table of them, and their set-up ---- */

extern const fab_ses_ops_t fab_ofi_ses_ops;

/* HELLOs for peers that were moving. */
void fab_ofi_look_again(fab_ofi_domain_t *dom);
/* Its endpoint, if this is a CHALLENGE, which may be of no session.  NULL: it is none. */
fab_ofi_ep_t *fab_ofi_challenger(const fab_ofi_domain_t *dom, const fab_ofi_sbuf_t *buf);
/* KNOCK, CHALLENGE, HELLO or WELCOME came, len bytes. */
void fab_ofi_on_frame(fab_ofi_domain_t *dom, uint8_t id, const void *data, size_t len);
/* REFUSE came, of what this session was made by. */
void fab_ofi_on_refuse(fab_ofi_ep_t *ep, uint32_t reason);

/* The peer whose session this is. NULL: none. */
static inline fab_ofi_ep_t *fab_ofi_session(const fab_ofi_domain_t *dom, uint32_t index,
                                            uint32_t cookie)
{
    fab_ofi_ep_t *ep = index < dom->sessions.size ? dom->sessions.slots[index].object : NULL;

    return NULL != ep && cookie == ep->cookie ? ep : NULL;
}

/* ---- ofi_expose.c: memory that peers may reach: registered, by the cache (fab_reg.h) ---- */

struct fab_ofi_exposed {
    LIST_ENTRY(fab_ofi_exposed) link;     /* in ep->exposed or dom->exposed */
    LIST_ENTRY(fab_ofi_exposed) key_link; /* in dom->by_key */
    const fab_ofi_exposed_list_t *list;   /* that it is in: several may have one registration */
    fab_reg_t *reg;
    uint64_t key;
};

extern const fab_reg_how_t fab_ofi_reg_how;

bool fab_ofi_expose(fab_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len,
                    unsigned access, fab_rkey_t *rkey);
void fab_ofi_unexpose(fab_domain_t *dom, fab_peer_t *peer, const fab_rkey_t *rkey);
/* Release all that is in ep->exposed or dom->exposed. */
void fab_ofi_unexpose_all(fab_ofi_domain_t *dom, fab_ofi_exposed_list_t *list);
/* The provider's part of a key. */
fab_ofi_rkey_t fab_ofi_rkey(const fab_rkey_t *rkey);

/* ---- ofi_rma.c: get and put: fi_read() and fi_write() in steps ---- */

enum {
    FAB_OFI_STEP = 1 << 20,      /* bytes of one transfer at most */
    FAB_OFI_UNDER_WAY = 4 << 20, /* bytes under way with one peer before no more are asked for */
    FAB_OFI_XFERS = 64,          /* and transfers */
    FAB_OFI_PERIOD_US = 2000,    /* see keep_awake() */
};

struct fab_ofi_op {
    TAILQ_ENTRY(fab_ofi_op) link; /* in ep->ops or ep->posted */
    fab_ofi_ep_t *ep;             /* NULL: dropped */
    fab_ofi_domain_t *dom;
    fab_rma_t *rma;
    size_t posted;      /* bytes asked for so far */
    uint32_t in_flight; /* transfers under way */
    int status;
    bool is_posted;  /* it is in ep->posted */
    bool is_flushed; /* a read after the last write has been asked for, or is not needed */
};

/* A transfer. */
struct fab_ofi_xfer {
    fab_ofi_ctx_t ctx;
    LIST_ENTRY(fab_ofi_xfer) link; /* in dom->xfers */
    fab_ofi_op_t *op;
    size_t len; /* bytes */
};

int fab_ofi_rma(fab_rma_t *op);
int fab_ofi_rma_progress(fab_ofi_domain_t *dom);
/* A transfer ended; it is freed. */
void fab_ofi_xfer_end(fab_ofi_xfer_t *xfer, int status);
/*
 * End all operations of which nothing is under way, and release what the peer may reach; the others
 * end when libfabric has done with them.
 */
void fab_ofi_rma_drop(fab_ofi_ep_t *ep);
/* After the endpoint has been closed: those end, without completion. */
void fab_ofi_rma_close(fab_ofi_domain_t *dom);

/* ---- ofi_alive.c ---- */

enum { FAB_OFI_TICK_US = 250000 }; /* between calls of fab_ofi_alive_tick() */

/* Time has passed: look at those with a session. */
void fab_ofi_alive_tick(fab_ofi_domain_t *dom);

/* ---- ofi_peer.c: how endpoints come and go, and what the fabric calls for one peer ---- */

extern const fab_ops_t fab_ofi_ops;

int fab_ofi_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_ofi_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_ofi_drop(fab_domain_t *dom, fab_peer_t *peer);
void **fab_ofi_spare(const fab_peer_t *peer);
fab_moves_t fab_ofi_asked_by_later(fab_peer_t *peer);
void fab_ofi_ask_owed(fab_peer_t *peer);
/* peer NULL: of none, to send a word alone.  NULL: no memory. */
fab_ofi_ep_t *fab_ofi_ep_new(fab_ofi_domain_t *dom, fab_peer_t *peer, const fab_ofi_addr_t *addr);
/* It is done with its peer. */
void fab_ofi_ep_release(fab_ofi_ep_t *ep);
/* Free it and all that it owns, sent or not, delivered or not. */
void fab_ofi_ep_free(fab_ofi_ep_t *ep);
/* Free those without a peer that have sent what was left, or cannot. */
void fab_ofi_ep_end_lingering(fab_ofi_domain_t *dom, uint64_t now);

/* ---- ofi_recv.c ---- */

/* NULL, or why not. */
const char *fab_ofi_recv_open(fab_ofi_domain_t *dom);
const char *fab_ofi_recv_post_all(fab_ofi_domain_t *dom);
void fab_ofi_recv_close(fab_ofi_domain_t *dom);

/*
 * An entry for this buffer: the message in it, of entry->len bytes, aligned, valid until the next
 * call.  NULL: there is none.
 */
const void *fab_ofi_recv_take_any(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf,
                                  const struct fi_cq_tagged_entry *entry);

/* The same, inline for an aligned message behind the others that does not release the buffer. */
static inline const void *fab_ofi_recv_take(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf,
                                            const struct fi_cq_tagged_entry *entry)
{
    const fab_ofi_rbufs_t *recv = &dom->recv;
    const size_t len = entry->len, offset = (uintptr_t) entry->buf - (uintptr_t) buf->data;

    if (__builtin_expect(FI_RECV != (entry->flags & (FI_RECV | FI_MULTI_RECV)) ||
                             len - 1 >= recv->min_free || offset > recv->size - len ||
                             offset != buf->high || 0 != offset % FAB_OFI_ALIGN,
                         0)) {
        return fab_ofi_recv_take_any(dom, buf, entry);
    }
    buf->high += len;
    buf->filled += len;
    return entry->buf;
}

/* The entry was an error: the buffer takes no more, if flags say so. */
void fab_ofi_recv_error(fab_ofi_domain_t *dom, fab_ofi_rbuf_t *buf, uint64_t flags);
/*
 * After a poll: post what is free again.  NULL, or why there will be no buffers any more, and in
 * *rc libfabric's error.
 */
const char *fab_ofi_recv_again(fab_ofi_domain_t *dom, int *rc);

/* ---- ofi_device.c: which of libfabric's offers (fi_info) this process uses ---- */

/*
 * The offer, which the caller frees (fi_freeinfo()).  NULL: *why, a sentence.  Of the providers
 * that the user names, or of those with hardware, the first; of its devices those that are near,
 * which the processes of the host take in turn.
 */
struct fi_info *fab_ofi_choose(fab_t *fab, const char **why);

/* Does the offer have this provider, alone or below a utility provider ("tcp" of "tcp;ofi_rxm")? */
bool fab_ofi_is_provider(const struct fi_info *info, const char *name);

/* ---- ofi_hooks.c ---- */

/*
 * Before the first domain is opened, and after the cache of fab_reg.h, which begins the hooks: hand
 * them over.  Not if the user has chosen otherwise (FI_MR_CACHE_MONITOR), if there are none, or if
 * another component has done so.
 */
void fab_ofi_hooks_open(void);
/* After the domain is closed. */
void fab_ofi_hooks_close(void);

/* ---- ofi_progress.c ---- */

int fab_ofi_progress(fab_domain_t *dom);
/* A sleep has ended, by something that came. */
void fab_ofi_is_awake(fab_domain_t *dom);
/* Without what may wait for some calls. */
int fab_ofi_poll(void *dom);

/* ---- ofi_sleep.c: completions that end a sleep: see fab_sleep() ---- */

/*
 * Make the completion queue of this size, with a descriptor to wait for, if somebody may sleep and
 * the provider has that.  Returns an error of libfabric's, or 0.
 */
int fab_ofi_sleep_open_queue(fab_ofi_domain_t *dom, size_t size);
/* The next completion makes the descriptor readable; FAB_AWAKE: there is something already. */
int fab_ofi_sleep_fd(fab_domain_t *dom);

/* ---- ofi_provider.c: the provider's table ---- */

extern const fab_provider_t fab_ofi_provider;

#endif /* FAB_OFI_H */
