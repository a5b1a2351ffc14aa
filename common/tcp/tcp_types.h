/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp provider's structures, for the files of common/tcp/ and its tests.
 *
 * Ownership. The domain owns the listening sockets, the buffers and all endpoints. An endpoint
 * belongs to one peer record (fab_peer_t.ep) and owns its connection; it has buffers only while a
 * message is waiting to be written, or has come in part. A link, a further connection for pieces of
 * long messages, is a structure of the same kind that belongs to an endpoint (tcp_link.c).
 *
 * All under the fabric's lock.
 */
#ifndef FAB_TCP_TYPES_H
#define FAB_TCP_TYPES_H

#include "fabric/fab_provider.h"
#include "sock/sock.h"
#include "tcp/tcp_wire.h"

enum {
    FAB_TCP_BUF = 131072, /* bytes of a buffer */
    FAB_TCP_QUEUE = 4,    /* buffers of messages that wait to be written, of one peer */
    FAB_TCP_OUTS = 2,     /* sends from memory that wait likewise */
    FAB_TCP_IOVS = 16,    /* of one write */
    FAB_TCP_PLACE_MIN =
        8192,              /* bytes of payload that are still to come, to be read to their place */
    FAB_TCP_AHEAD = 4096,  /* bytes read beyond them by the same call, or to find out what comes */
    FAB_TCP_FREE_BUFS = 8, /* that are kept */
    /* buffers that the domain has from the start, for when there is no more memory */
    FAB_TCP_FOR_READING = 1,
    FAB_TCP_FOR_WRITING = 2, /* of a send from memory: its header, its padding */
    FAB_TCP_RESERVE = FAB_TCP_FOR_READING + FAB_TCP_FOR_WRITING,
    FAB_TCP_HOSTS = 1024,       /* buckets for known hosts, a power of two */
    FAB_TCP_EVENTS = 64,        /* of one epoll_wait() */
    FAB_TCP_READS = 4,          /* from one peer in a row, each of a buffer */
    FAB_TCP_COPY = 1024,        /* bytes of a message that is copied behind its header */
    FAB_TCP_TOGETHER = 4096,    /* bytes: longer messages do not wait for others */
    FAB_TCP_WINDOW = 1048576,   /* bytes of messages that a peer has not read yet, at most */
    FAB_TCP_CREDIT = 262144,    /* bytes read, after which the sender gets credit for them */
    FAB_TCP_EPOLL_PERIOD = 8,   /* polls of the hot connection for one of all */
    FAB_TCP_IDLE_POLLS = 64,    /* empty polls, after which polls become rarer by one pass */
    FAB_TCP_IDLE_PERIOD = 32,   /* progress calls for one poll, at the rarest */
    FAB_TCP_ALONE_PERIOD = 128, /* the same without any connection */
    /* looks in which nothing came by other providers: then every progress call has one */
    FAB_TCP_ALONE_POLLS = 1024,
};

typedef struct fab_tcp_domain fab_tcp_domain_t;
typedef struct fab_tcp_ep fab_tcp_ep_t;
typedef struct fab_tcp_links fab_tcp_links_t;
typedef struct fab_tcp_buf fab_tcp_buf_t;
typedef struct fab_tcp_host fab_tcp_host_t;   /* tcp_known.c */
typedef struct fab_tcp_known fab_tcp_known_t; /* likewise */
typedef struct fab_tcp_slab fab_tcp_slab_t;   /* likewise */

/* Bytes that wait to be written: start to end of them. */
typedef struct fab_tcp_node fab_tcp_node_t;
struct fab_tcp_node {
    fab_tcp_node_t *next;
    char *bytes;
    uint32_t start;
    uint32_t end;
    fab_out_t *out; /* they are the caller's, of this send; NULL: of a buffer */
};

_Static_assert(sizeof(fab_tcp_node_t) <= sizeof(((fab_out_t *) 0)->provider), "it lies there");

struct fab_tcp_buf {
    fab_tcp_node_t node; /* first */
    uint64_t data[FAB_TCP_BUF / 8];
};

/* A message of the provider itself, with memory for it: it can be queued whatever memory is left. */
typedef struct fab_tcp_notice {
    fab_tcp_node_t node; /* first; start < end: it is queued */
    fab_tcp_hdr_t hdr;
} fab_tcp_notice_t;

/* A message whose payload is read straight to its destination. */
typedef struct fab_tcp_placing {
    char *at;    /* where the rest goes; NULL: there is none such */
    size_t left; /* bytes */
    fab_hdr_t hdr;
    size_t len;
} fab_tcp_placing_t;

typedef enum fab_tcp_state {
    FAB_TCP_IDLE,   /* no connection */
    FAB_TCP_ASKING, /* sock connects to the peer */
    FAB_TCP_UP,     /* fd */
} fab_tcp_state_t;

/*
 * The links of an endpoint, by their numbers from 1 on, and the striped message that arrives. It is
 * there only while the connection is up, and some link was made.
 */
struct fab_tcp_links {
    fab_tcp_ep_t *out[FAB_TCP_LINKS];     /* this process sends on them; NULL: not in use */
    fab_tcp_ep_t *in[FAB_TCP_LINKS];      /* the peer does */
    fab_tcp_node_t pieces[FAB_TCP_LINKS]; /* that wait to be written to out */

    size_t total; /* bytes of the message; 0: none arrives */
    size_t ahead; /* of these by links */
    size_t left;  /* of these not begun */
    char *at;     /* where it goes; NULL: its header did not come yet */
    fab_hdr_t hdr;
    uint32_t waits; /* bit n: what comes by link n is not complete; bit 0: by the connection */
};

/* What the provider has for a peer that was sent to, or asked; or a link. */
struct fab_tcp_ep {
    fab_peer_t *peer; /* first */
    fab_tcp_domain_t *dom;

    /* the connection */
    fab_tcp_state_t state;
    int fd;               /* -1 unless UP */
    int error;            /* errno of a write that failed; nothing more is written */
    bool is_blocked;      /* the kernel takes no more now: epoll tells when */
    bool is_batch;        /* between the calls of batch(): all is written at its end */
    bool is_used;         /* a message was sent or came on this connection */
    bool is_end_sent;     /* CLOSE, LEAVE or REFUSE is queued or written: nothing follows */
    bool is_shut;         /* nothing more can be written, and the kernel was told */
    bool is_end_come;     /* CLOSE, LEAVE or REFUSE of the peer came */
    bool is_eof;          /* nothing more can be read */
    bool is_local;        /* it is on this host, perhaps in another container */
    bool is_bulk;         /* more of a long message is likely to come next */
    bool has_left;        /* LEAVE or REFUSE came: the peer can be sent nothing any more */
    bool is_paused;       /* nothing is read until others have what comes before */
    bool has_asked;       /* for links, where there are addresses for them */
    uint8_t link;         /* its number; 0: it is no link */
    uint8_t num_out;      /* buffers in out */
    uint8_t num_outs;     /* sends from memory in out */
    uint8_t skip;         /* bytes of padding to come, after what was placed */
    uint32_t window_used; /* bytes sent for which the peer has given no credit */
    uint32_t credit_due;  /* bytes read for which the peer has got none */
    uint32_t alone_pass;  /* progress call after which a short message was written by itself */
    fab_tcp_node_t *out;  /* to be written, oldest first */
    fab_tcp_node_t *out_last;
    fab_tcp_notice_t credit; /* CREDIT */
    fab_tcp_notice_t end;    /* CLOSE, LEAVE or REFUSE */
    fab_tcp_buf_t *in;       /* a part of a message came; a link that the peer made has it always */
    fab_tcp_placing_t placing;
    fab_tcp_links_t *links; /* of an endpoint and its links; NULL: it has none */
    fab_tcp_ep_t *main;     /* of a link: the endpoint; NULL: it is none */
    char to[56];            /* the other end, for messages */

    /* its set-up (tcp_connect.c) */
    fab_sock_t *sock;    /* of this process's attempt to connect */
    fab_sock_t *parked;  /* the peer's HELLO, which waits for its turn */
    uint64_t serial;     /* of the last HELLO to the peer */
    uint64_t peer_void;  /* the peer's HELLOs up to this serial are void */
    fab_tcp_addr_t addr; /* of the peer */

    fab_tcp_ep_t *next; /* of all in the domain; of a closed link: of such */
    fab_tcp_ep_t **prev;
};

struct fab_tcp_domain {
    fab_t *fab;
    fab_sock_set_t *socks;
    int epoll;
    uint32_t pid;
    fab_tcp_addr_t addr; /* of this process, as peers get it */
    uint64_t serial;     /* of this process's last HELLO */

    /* polling */
    uint32_t pass;        /* progress calls */
    uint32_t next_poll;   /* pass of the next poll */
    uint32_t empty_polls; /* in a row */
    uint32_t events;      /* that progress has found */
    uint32_t others;      /* that of other providers had, at the last look */
    uint32_t alone_polls; /* looks since that changed */
    uint32_t polls;       /* since all connections were looked at */
    uint32_t period;      /* of looking at all, in polls */
    uint32_t num_up;      /* connections */
    int num_blocked;      /* of these, that epoll is to tell of when more can be written */
    fab_tcp_ep_t *hot;    /* the connection that is polled by itself; NULL: none */

    fab_tcp_node_t *done; /* sends from memory that are to be completed, the last first */

    fab_tcp_node_t *free_bufs;
    uint32_t num_free;
    fab_tcp_ep_t *eps;  /* all */
    fab_tcp_ep_t *dead; /* links that were closed: an event may still name them */

    /* processes that are known only (tcp_known.c) */
    fab_tcp_slab_t *slabs;
    fab_tcp_known_t *free_known;
    fab_tcp_host_t *hosts[FAB_TCP_HOSTS];
};

/* ---- tcp_domain.c ------------------------------------------------------- */

extern const fab_provider_t fab_tcp_provider;

/*
 * A buffer.  NULL: no memory, and no more than keep buffers of the reserve are left: so many are for
 * those who need them more.
 */
fab_tcp_buf_t *fab_tcp_buf_get(fab_tcp_domain_t *dom, uint32_t keep);
void fab_tcp_buf_put(fab_tcp_domain_t *dom, fab_tcp_buf_t *buf);

/* ---- tcp_ep.c: endpoints ------------------------------------------------ */

extern const fab_ops_t fab_tcp_ops;

int fab_tcp_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_tcp_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_tcp_drop(fab_domain_t *dom, fab_peer_t *peer);
/* NULL: no memory. */
fab_tcp_ep_t *fab_tcp_ep_new(fab_tcp_domain_t *dom, fab_peer_t *peer, const fab_tcp_addr_t *addr);
void fab_tcp_ep_free(fab_tcp_ep_t *ep);

int fab_tcp_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                   fab_rkey_t *rkey);
void fab_tcp_unexpose(fab_peer_t *peer, fab_rkey_t *rkey);
int fab_tcp_rma(fab_rma_t *op);

/* ---- tcp_known.c: processes that were not sent to ----------------------- */

extern const fab_ops_t fab_tcp_known_ops;

/*
 * For fab_peer_t.ep of a process with this address.  NULL: no memory, or the address has several
 * ports.
 */
fab_tcp_known_t *fab_tcp_know(fab_tcp_domain_t *dom, const fab_tcp_addr_t *addr);

/* Is the peer's ep such? */
bool fab_tcp_is_known(const fab_peer_t *peer);

/* Release it; ep is NULL then. */
void fab_tcp_forget(fab_peer_t *peer);
void fab_tcp_forget_all(fab_tcp_domain_t *dom);

/* The peer's endpoint, made if there is none yet.  NULL: no memory. */
fab_tcp_ep_t *fab_tcp_ep_of(fab_peer_t *peer);

/* The peer was closed by this process, and its connection has ended: the record goes. */
void fab_tcp_ep_finish(fab_tcp_ep_t *ep);

/* ---- tcp_stream.c: bytes of a connection -------------------------------- */

/* The connection is up: fd is the endpoint's; left_len bytes of left are to be written first. */
void fab_tcp_stream_open(fab_tcp_ep_t *ep, int fd, const void *left, size_t left_len);

/* Close the socket and drop queued data. */
void fab_tcp_stream_close(fab_tcp_ep_t *ep);

/*
 * May a message of len bytes be sent now?  A short one only in a batch, or as the first after a
 * progress call; others wait, to be written together.
 */
bool fab_tcp_stream_is_ready(fab_tcp_ep_t *ep, size_t len);

/*
 * Room for a message of len bytes, behind what is queued; the header comes before.  NULL: none now.
 */
void *fab_tcp_stream_reserve(fab_tcp_ep_t *ep, size_t len);

/* Queue the message whose payload was written there. */
void fab_tcp_stream_commit(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len);

/* The same, without a copy where it can be written at once.  OPAL codes as fab_send(). */
int fab_tcp_stream_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, const void *buf, size_t len);

/*
 * The same, from the caller's memory, but for the first bytes of it, of which each link has a
 * piece.
 */
int fab_tcp_stream_send_from(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t ahead,
                             uint32_t links);

/* Such a piece, len bytes from at on; buf is for its header. */
void fab_tcp_stream_send_piece(fab_tcp_ep_t *link, fab_tcp_buf_t *buf, fab_out_t *out, size_t at,
                               size_t len);

/* Complete the sends from memory that are done.  Returns how many. */
int fab_tcp_complete(fab_tcp_domain_t *dom);

/* Write what is queued, as far as the kernel takes it. */
void fab_tcp_stream_flush(fab_tcp_ep_t *ep);

/* The kernel takes more again. */
void fab_tcp_stream_unblock(fab_tcp_ep_t *ep);

/* Both directions have ended: close, and ep may be gone. */
void fab_tcp_stream_end_if_done(fab_tcp_ep_t *ep);

/* Queue one of the provider's own messages, after which nothing is sent on this connection. */
void fab_tcp_stream_end(fab_tcp_ep_t *ep, uint8_t id);

/* Take what came.  Returns the number of messages, and of other events. */
int fab_tcp_stream_read(fab_tcp_ep_t *ep);

/* Read nothing until it is resumed. */
void fab_tcp_stream_pause(fab_tcp_ep_t *ep);
void fab_tcp_stream_resume(fab_tcp_ep_t *ep);

/* The connection is broken, and is not read. */
void fab_tcp_stream_broken(fab_tcp_ep_t *ep);

/* Nothing comes any more that could be used, and nothing is to be told of it. */
void fab_tcp_stream_stop(fab_tcp_ep_t *ep);

/* The peer sent what it must not. */
void fab_tcp_bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len);

/* ---- tcp_link.c: further connections to a peer, and messages striped over them ---- */

/* Shares of len bytes for connections with these rates; the first one gets what is left. */
void fab_tcp_shares(const uint64_t *rates, int num, size_t len, size_t *shares);

/* As fab_tcp_stream_send_from(), over all links that can take something now. */
int fab_tcp_stripe_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out);

/* STRIPE came. */
void fab_tcp_stripe_announced(fab_tcp_ep_t *ep, fab_hdr_t hdr);

/* Is a message that begins here, of an endpoint with links, a part of a striped one? */
static inline bool fab_tcp_is_part(const fab_tcp_ep_t *ep)
{
    return NULL != ep->main || 0 != ep->links->total;
}

/* Is it a link that the peer made, on which this process only receives? */
static inline bool fab_tcp_is_link_in(const fab_tcp_ep_t *ep)
{
    return NULL != ep->main && ep == ep->links->in[ep->link];
}

/* A part of len bytes begins: its place.  NULL: it has to wait, or is bad. */
char *fab_tcp_stripe_place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len);

/* It is at its place. */
void fab_tcp_stripe_done(fab_tcp_ep_t *ep);

/* The peer asks for this link.  NULL: no. */
fab_tcp_ep_t *fab_tcp_link_accept(fab_tcp_ep_t *ep, uint32_t number);

/* It is up. */
void fab_tcp_link_open(fab_tcp_ep_t *link, int fd, const void *left, size_t left_len);

/* It could not be made. */
void fab_tcp_link_refused(fab_tcp_ep_t *link);

/* It has ended, by error (errno, or 0). */
void fab_tcp_link_ended(fab_tcp_ep_t *link, int error);

/* Some piece is not written yet. */
bool fab_tcp_links_are_busy(const fab_tcp_ep_t *ep);

/* Close all of an endpoint. */
void fab_tcp_links_close(fab_tcp_ep_t *ep);

/* Free those that were closed: no event names them any more. */
void fab_tcp_links_reap(fab_tcp_domain_t *dom);

/* ---- tcp_connect.c: connection set-up ----------------------------------- */

/* Connect to the peer. */
void fab_tcp_connect(fab_tcp_ep_t *ep);

/* Give up the attempt, and what the peer has parked here. */
void fab_tcp_connect_cancel(fab_tcp_ep_t *ep);

/* The connection has ended: answer the parked HELLO, if there is one. */
void fab_tcp_connect_again(fab_tcp_ep_t *ep);

/* Upcalls of the sockets. */
void fab_tcp_on_frame(fab_sock_t *sock, const void *frame);
void fab_tcp_on_broken(fab_sock_t *sock, const char *why);

/* ---- tcp_progress.c ----------------------------------------------------- */

int fab_tcp_progress(fab_domain_t *dom);

/* Something was sent or requested: poll often. */
static inline void fab_tcp_expect(fab_tcp_domain_t *dom)
{
    dom->empty_polls = 0;
    dom->next_poll = dom->pass;
}

#endif /* FAB_TCP_TYPES_H */
