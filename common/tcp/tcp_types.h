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

#include <errno.h>
#include <sys/uio.h>

#include "fabric/fab_provider.h"
#include "sock/sock.h"
#include "tcp/tcp_wire.h"

enum {
    FAB_TCP_BUF = 131072, /* bytes of a buffer */
    FAB_TCP_QUEUE = 4,    /* buffers of queued messages, per connection */
    FAB_TCP_PARTS = 64,   /* connections that may keep such a buffer with part of a message */
    FAB_TCP_OUTS = 2,     /* queued sends from memory, per connection */
    FAB_TCP_PIECES = 8,   /* pieces sent by a link and not confirmed, at most */
    FAB_TCP_IOVS = 16,    /* pieces of memory in one write */
    /* within the host, bytes: a send of up to WHOLE goes as one fragment, a longer one in LONG */
    FAB_TCP_WHOLE = 4194304,
    FAB_TCP_LONG = 1048576,
    /* bytes of a payload still to come: from so many on, they are read to its destination */
    FAB_TCP_PLACE_MIN = 8192,
    FAB_TCP_AHEAD = 4096,  /* bytes read behind such a payload by the same call, or before it */
    FAB_TCP_FREE_BUFS = 8, /* free buffers that are kept */
    /* buffers that the domain has from the start, for when there is no more memory */
    FAB_TCP_FOR_READING = 1,
    FAB_TCP_FOR_WRITING = 2, /* of a send from memory: its header, its padding */
    FAB_TCP_RESERVE = FAB_TCP_FOR_READING + FAB_TCP_FOR_WRITING,
    FAB_TCP_HOSTS = 1024, /* buckets for known hosts, a power of two */
    FAB_TCP_EVENTS = 64,  /* of one epoll_wait() */
    FAB_TCP_READS = 4,    /* reads in a row from one connection */
    /*
     * bytes: the longest read, and what may be read from all connections, or from the hot one,
     * before another read begins: the lock is held meanwhile
     */
    FAB_TCP_READ_MAX = 1048576,
    FAB_TCP_COPY = 1024,      /* bytes: messages up to this are copied behind their header */
    FAB_TCP_TOGETHER = 4096,  /* bytes: longer messages do not wait for others */
    FAB_TCP_WINDOW = 1048576, /* bytes of messages sent for which no credit came, at most */
    FAB_TCP_CREDIT = 262144,  /* bytes read before the sender gets credit for them */
    FAB_TCP_EPOLL_PERIOD = 8, /* polls of the hot connection per poll of all */
    FAB_TCP_CHECKS = 8,       /* of a peer that does not answer, in the time that it has */
    FAB_TCP_MUTE_READS = 32,  /* reads of a hot connection after which epoll leaves it out */
    /* striped messages in a row that waited for the same link, which is not used after that */
    FAB_TCP_SLOW_MAX = 16,
    FAB_TCP_IDLE_POLLS = 64,    /* empty polls after which polls become rarer by one call */
    FAB_TCP_IDLE_PERIOD = 32,   /* progress calls per poll, at most */
    FAB_TCP_ALONE_PERIOD = 128, /* the same without any connection */
    FAB_TCP_LATE_CALLS = 4,     /* progress calls per look at the clock */
    FAB_TCP_LATE_US = 50,       /* time between two polls, after which the next call polls */
    /* polls without an event of another provider, after which every progress call polls */
    FAB_TCP_ALONE_POLLS = 1024,
};

typedef struct fab_tcp_domain fab_tcp_domain_t;
typedef struct fab_tcp_ep fab_tcp_ep_t;
typedef struct fab_tcp_links fab_tcp_links_t;
typedef struct fab_tcp_buf fab_tcp_buf_t;
typedef struct fab_tcp_host fab_tcp_host_t;   /* tcp_known.c */
typedef struct fab_tcp_known fab_tcp_known_t; /* likewise */
typedef struct fab_tcp_slab fab_tcp_slab_t;   /* likewise */

/* Bytes that wait to be written: those from start to end. */
typedef struct fab_tcp_node fab_tcp_node_t;
struct fab_tcp_node {
    fab_tcp_node_t *next;
    char *bytes;
    uint32_t start;
    uint32_t end;
    fab_out_t *out; /* the send whose memory they are in; NULL: a buffer's, or a notice's */
};

_Static_assert(sizeof(fab_tcp_node_t) <= sizeof(((fab_out_t *) 0)->provider), "it fits there");

struct fab_tcp_buf {
    fab_tcp_node_t node; /* first */
    uint64_t size;       /* bytes of data: FAB_TCP_BUF, or what the message in it takes */
    uint64_t data[FAB_TCP_BUF / 8];
};

/* A message of the provider itself, and memory to queue it, whatever memory is left. */
typedef struct fab_tcp_notice {
    fab_tcp_node_t node; /* first; start < end: it is queued */
    fab_tcp_hdr_t hdr;
} fab_tcp_notice_t;

/* A message whose payload is read straight to its destination. */
typedef struct fab_tcp_placing {
    char *at;    /* where the rest goes; NULL: no such message is being read */
    size_t left; /* bytes */
    fab_hdr_t hdr;
    size_t len;
} fab_tcp_placing_t;

typedef enum fab_tcp_state {
    FAB_TCP_IDLE,   /* no connection */
    FAB_TCP_ASKING, /* sock connects to the peer */
    FAB_TCP_UP,     /* fd */
} fab_tcp_state_t;

/* Bytes of a send from memory that go by a link. */
typedef struct fab_tcp_piece {
    fab_out_t *out;
    size_t at; /* in its memory */
    size_t len;
} fab_tcp_piece_t;

/*
 * The pieces of a link on which this process sends, which are counted from 0 on.  They are kept
 * until the peer has them, in whichever connection carries the link.
 */
typedef struct fab_tcp_pieces {
    fab_tcp_piece_t piece[FAB_TCP_PIECES]; /* number n is at n % FAB_TCP_PIECES */
    uint64_t first;                        /* the first that the peer did not confirm */
    uint64_t written;                      /* the next to be written, or queued to be */
    uint64_t next;                         /* the next to be added */
} fab_tcp_pieces_t;

/*
 * The links of an endpoint, by their numbers from 1 on, and the striped message that is arriving.
 * It exists from the first link on, while the connection is up.
 */
struct fab_tcp_links {
    fab_tcp_ep_t *out[FAB_TCP_LINKS]; /* on which this process sends; NULL: not in use */
    fab_tcp_ep_t *in[FAB_TCP_LINKS];  /* on which the peer sends; NULL: none, or it was lost */
    fab_tcp_pieces_t sent[FAB_TCP_LINKS];
    uint64_t got[FAB_TCP_LINKS];  /* pieces of the peer that are complete */
    uint32_t slow[FAB_TCP_LINKS]; /* messages in a row that waited for the link, of the peer's */
    uint32_t made;                /* bit n: the peer has made link n */

    size_t total;       /* bytes of the message; 0: none is arriving */
    size_t ahead;       /* bytes of it that come by links */
    size_t left;        /* bytes of these that did not begin to come */
    char *at;           /* its destination; NULL: its header did not come yet */
    uint64_t since;     /* us: its header came */
    uint64_t main_took; /* us until the connection's part was there */
    uint32_t main_alls; /* fab_tcp_domain_t.alls at that time */
    fab_hdr_t hdr;
    uint32_t waits; /* bit n: the part that comes by link n is not complete; 0: the connection */
};

/* The endpoint of a peer that was sent to, or that connected; or a link. */
struct fab_tcp_ep {
    fab_peer_t *peer; /* first */
    fab_tcp_domain_t *dom;

    /* the connection */
    fab_tcp_state_t state;
    int fd;               /* -1 unless UP */
    int error;            /* errno of a write that failed; nothing more is written */
    bool is_blocked;      /* the kernel takes no more now: epoll tells when it does */
    bool is_batch;        /* between the calls of batch(): all is written at its end */
    bool is_used;         /* a message was sent or came on this connection */
    bool is_end_sent;     /* CLOSE, LEAVE or REFUSE is queued or written: nothing follows */
    bool is_shut;         /* nothing more can be written, and the kernel was told */
    bool is_end_come;     /* CLOSE, LEAVE or REFUSE of the peer came */
    bool is_eof;          /* nothing more can be read */
    bool is_local;        /* the peer is on this host, perhaps in another container */
    bool is_bulk;         /* more of a long message is likely to come next */
    bool has_left;        /* LEAVE or REFUSE came: the peer can be sent nothing any more */
    bool is_muted;        /* hot, and epoll does not tell what comes by it */
    bool is_paused;       /* not read until what comes before by other links is there */
    bool has_asked;       /* it asked for links, if there are addresses for them */
    bool is_unused;       /* a link that gets no further pieces: it is slow, or replaces another */
    uint8_t link;         /* its number; 0: it is no link */
    uint8_t num_out;      /* buffers in out */
    uint8_t num_outs;     /* sends from memory in out */
    uint8_t silences;     /* checks in a row that found the peer's kernel silent */
    uint8_t skip;         /* bytes of padding to come, after what was placed */
    uint32_t window_used; /* bytes sent for which the peer has given no credit */
    uint32_t credit_due;  /* bytes read for which the peer has got none */
    uint32_t alone_pass;  /* pass in which a short message was written by itself */
    fab_tcp_node_t *out;  /* to be written, oldest first */
    fab_tcp_node_t *out_last;
    /* CREDIT; of a link: CONFIRM, or the data of the piece that is being written */
    fab_tcp_notice_t credit;
    fab_tcp_notice_t end; /* CLOSE, LEAVE or REFUSE; of a link: the header of that piece */
    fab_tcp_buf_t *in;    /* while a part of a message is here; a link of the peer keeps it */
    fab_tcp_placing_t placing;
    fab_tcp_links_t *links; /* of an endpoint, and of its links; NULL: there are none */
    fab_tcp_ep_t *main;     /* of a link: its endpoint; NULL: this is an endpoint */
    char to[56];            /* the other end, for messages */

    /* its set-up (tcp_connect.c) */
    fab_sock_t *sock;    /* of this process's attempt to connect */
    fab_sock_t *parked;  /* the peer's HELLO, which waits for its turn */
    uint64_t serial;     /* of the last HELLO sent to the peer */
    uint64_t peer_void;  /* the peer's HELLOs up to this serial are void */
    fab_tcp_addr_t addr; /* of the peer */

    fab_tcp_ep_t *next; /* of the domain's list; of a closed link: of the closed ones */
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
    uint64_t poll_by;     /* us: the time of the next poll, if it comes before that pass */
    uint32_t empty_polls; /* in a row */
    uint32_t events;      /* of this provider */
    uint32_t others;      /* events of other providers, at the last poll */
    uint32_t alone_polls; /* polls since that changed */
    uint32_t polls;       /* since the last one of all connections */
    uint32_t period;      /* polls of the hot connection per poll of all */
    uint32_t num_up;      /* connections */
    uint32_t alls;        /* polls of all */
    uint64_t next_check;  /* us: of the peers */
    int64_t budget;       /* bytes that may still be read in this poll */
    int num_blocked;      /* connections whose is_blocked is set */
    fab_tcp_ep_t *hot;    /* the connection that is polled by itself; NULL: none */
    uint32_t hot_reads;   /* reads of it, as long as no other one became hot */

    fab_tcp_node_t *done; /* sends from memory to be completed, the last first */

    fab_tcp_node_t *free_bufs;
    uint32_t num_free;
    uint32_t num_parts; /* connections that have a buffer in which they read */
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
 * A buffer.  keep: if there is no more memory, so many of the free ones are left to others.  NULL:
 * there is none.
 */
fab_tcp_buf_t *fab_tcp_buf_get(fab_tcp_domain_t *dom, uint32_t keep);
void fab_tcp_buf_put(fab_tcp_domain_t *dom, fab_tcp_buf_t *buf);

/* A buffer of the bytes that wait in this one, with room for size bytes.  NULL: no memory. */
fab_tcp_buf_t *fab_tcp_buf_fit(const fab_tcp_buf_t *buf, size_t size);

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

/* ---- tcp_known.c: processes without an endpoint ------------------------ */

extern const fab_ops_t fab_tcp_known_ops;

/*
 * For fab_peer_t.ep of a process with this address.  NULL: no memory, or the address has several
 * ports.
 */
fab_tcp_known_t *fab_tcp_know(fab_tcp_domain_t *dom, const fab_tcp_addr_t *addr);

/* Is the peer's ep a fab_tcp_known_t? */
bool fab_tcp_is_known(const fab_peer_t *peer);

/* Release it; ep is NULL then. */
void fab_tcp_forget(fab_peer_t *peer);
void fab_tcp_forget_all(fab_tcp_domain_t *dom);

/* The peer's endpoint, made if there is none yet.  NULL: no memory. */
fab_tcp_ep_t *fab_tcp_ep_of(fab_peer_t *peer);

/* This process closed the peer, and the connection has ended: free both. */
void fab_tcp_ep_finish(fab_tcp_ep_t *ep);

/* ---- tcp_stream.c: a connection ----------------------------------------- */

/* The connection is up: take fd over, and write left_len bytes of left first. */
void fab_tcp_stream_open(fab_tcp_ep_t *ep, int fd, const void *left, size_t left_len);

/* Close the socket and drop queued data. */
void fab_tcp_stream_close(fab_tcp_ep_t *ep);

/* Tell epoll what the connection waits for. */
void fab_tcp_stream_watch(fab_tcp_ep_t *ep);

/* Shall epoll leave out what comes?  Then it is read by polls of the hot connection. */
void fab_tcp_stream_mute(fab_tcp_ep_t *ep, bool is_muted);

/*
 * Does the peer's host still answer?  Called FAB_TCP_CHECKS times in each tcp_timeout.  If it does
 * not answer for so long, the peer fails.
 */
void fab_tcp_stream_check(fab_tcp_ep_t *ep);

/* Nothing comes any more: error is errno, or 0 at the end of the stream. */
void fab_tcp_stream_eof(fab_tcp_ep_t *ep, int error);

/* If both directions have ended, close it; ep may be gone then. */
void fab_tcp_stream_end_if_done(fab_tcp_ep_t *ep);

/* The connection has failed while it was paused. */
void fab_tcp_stream_broken(fab_tcp_ep_t *ep);

/* Read nothing any more: the peer has failed. */
void fab_tcp_stream_stop(fab_tcp_ep_t *ep);

/* Errors of a call after which it may be tried again later. */
static inline bool fab_tcp_may_go_on(int error)
{
    return EAGAIN == error || EINTR == error || ENOBUFS == error || ENOMEM == error;
}

/* Bytes of the window that a message of len bytes takes. */
static inline uint32_t fab_tcp_counted(size_t len)
{
    return len <= FAB_TCP_EAGER_MAX ? (uint32_t) (sizeof(fab_tcp_hdr_t) + fab_tcp_padded(len)) : 0;
}

/* ---- tcp_stream_write.c: what it writes --------------------------------- */

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
 * Send from the caller's memory, without a copy.  The first ahead bytes are left out: each link of
 * the bit mask gets a piece of them.
 */
int fab_tcp_stream_send_from(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t ahead,
                             uint32_t links);

/* Queue a piece on a link, whose queue is empty. */
void fab_tcp_stream_put_piece(fab_tcp_ep_t *link, const fab_tcp_piece_t *piece);

/* One part of the send is done; with the last, the send is. */
void fab_tcp_stream_part_done(fab_tcp_domain_t *dom, fab_out_t *out, int status);

/* Queue one of the provider's own messages, after which nothing is sent on this connection. */
void fab_tcp_stream_end(fab_tcp_ep_t *ep, uint8_t id);

/*
 * Tell the peer how much was read, or which pieces came by this link; if that cannot be now, once
 * the queue is empty.
 */
void fab_tcp_stream_give_credit(fab_tcp_ep_t *ep);

/*
 * Queue the pieces of memory, without their first skip bytes, at the head of an empty queue.  They
 * need not be a multiple of 8.  Takes buf, which is empty.
 */
void fab_tcp_stream_put_first(fab_tcp_ep_t *ep, fab_tcp_buf_t *buf, const struct iovec *iov,
                              int num, size_t skip);

/* Write what is queued, as far as the kernel takes it. */
void fab_tcp_stream_flush(fab_tcp_ep_t *ep);

/* The kernel takes more again. */
void fab_tcp_stream_unblock(fab_tcp_ep_t *ep);

/* Give up what is queued. */
void fab_tcp_stream_discard(fab_tcp_ep_t *ep);

/* Call complete() of the sends from memory that are done.  Returns how many. */
int fab_tcp_complete(fab_tcp_domain_t *dom);

/* ---- tcp_stream_read.c: what it reads ----------------------------------- */

/* Read what came, and deliver it.  Returns the number of messages and other events. */
int fab_tcp_stream_read(fab_tcp_ep_t *ep);

/* Give the buffer back, with what it holds. */
void fab_tcp_stream_put_in(fab_tcp_ep_t *ep);

/* Read nothing until it is resumed. */
void fab_tcp_stream_pause(fab_tcp_ep_t *ep);
void fab_tcp_stream_resume(fab_tcp_ep_t *ep);

/* The peer sent something illegal: it fails. */
void fab_tcp_bad_message(fab_tcp_ep_t *ep, unsigned id, size_t len);

/* ---- tcp_link.c: further connections to a peer, and messages striped over them ---- */

/*
 * As fab_tcp_stream_send_from(), striped over all links that are ready.  Then out->len is set to
 * what goes at once of all bytes.
 */
int fab_tcp_stripe_send(fab_tcp_ep_t *ep, fab_hdr_t hdr, fab_out_t *out, size_t all);

/* STRIPE came. */
void fab_tcp_stripe_announced(fab_tcp_ep_t *ep, fab_hdr_t hdr);

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

/* A part of len bytes begins: its destination.  NULL: it has to wait, or is illegal. */
char *fab_tcp_stripe_place(fab_tcp_ep_t *ep, fab_hdr_t hdr, size_t len);

/* The part is at its destination. */
void fab_tcp_stripe_done(fab_tcp_ep_t *ep);

/* Does the striped message that is arriving wait for a link that was lost? */
bool fab_tcp_stripe_is_lost(const fab_tcp_ep_t *ep);

/* The peer asks for this link, once more if it has lost it.  NULL: no. */
fab_tcp_ep_t *fab_tcp_link_accept(fab_tcp_ep_t *ep, uint32_t number);

/* The link is up. */
void fab_tcp_link_open(fab_tcp_ep_t *link, int fd, const void *left, size_t left_len);

/* The peer has so many pieces of this link: they are done, and the others are written. */
void fab_tcp_link_go_on(fab_tcp_ep_t *link, uint64_t got);

/* CONFIRM came. */
void fab_tcp_link_confirmed(fab_tcp_ep_t *link, fab_hdr_t hdr, size_t len);

/* Queue the next piece on a link, whose queue is empty.  False: there is none. */
bool fab_tcp_link_next(fab_tcp_ep_t *link);

/* The link could not be made. */
void fab_tcp_link_refused(fab_tcp_ep_t *link);

/* The link has ended, by error (errno, or 0). */
void fab_tcp_link_ended(fab_tcp_ep_t *link, int error);

/* Is some piece not confirmed yet? */
bool fab_tcp_links_are_busy(const fab_tcp_ep_t *ep);

/* fab_tcp_stream_check() of those on which this process sends. */
void fab_tcp_links_check(const fab_tcp_ep_t *ep);

/* The process leaves: write what links have to write, and read what the peer confirms. */
void fab_tcp_links_leave(const fab_tcp_ep_t *ep);

/* Close all links of an endpoint. */
void fab_tcp_links_close(fab_tcp_ep_t *ep);

/* Free closed links: no event of epoll refers to them any more. */
void fab_tcp_links_reap(fab_tcp_domain_t *dom);

/* ---- tcp_connect.c: connection set-up ----------------------------------- */

/* Connect to the peer. */
void fab_tcp_connect(fab_tcp_ep_t *ep);

/* Give up the attempt, and the peer's that is parked here. */
void fab_tcp_connect_cancel(fab_tcp_ep_t *ep);

/* The connection has ended: answer the parked HELLO, if there is one. */
void fab_tcp_connect_again(fab_tcp_ep_t *ep);

/* Upcalls of the sockets. */
void fab_tcp_on_proven(fab_sock_t *sock, void *frame);
bool fab_tcp_is_alive(const fab_sock_t *sock);
void fab_tcp_on_frame(fab_sock_t *sock, const void *frame);
void fab_tcp_on_broken(fab_sock_t *sock, const char *why);

/* ---- tcp_progress.c ----------------------------------------------------- */

int fab_tcp_progress(fab_domain_t *dom);

/* Something was sent, or is expected: poll often. */
static inline void fab_tcp_expect(fab_tcp_domain_t *dom)
{
    dom->empty_polls = 0;
    dom->next_poll = dom->pass;
}

#endif /* FAB_TCP_TYPES_H */
