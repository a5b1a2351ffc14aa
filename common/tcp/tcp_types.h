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
#include <sys/queue.h>
#include <sys/uio.h>

#include "fabric/fab_provider.h"
#include "session/session.h"
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
    FAB_TCP_EVENTS = 64, /* of one epoll_wait() */
    FAB_TCP_READS = 4,   /* reads in a row from one connection */
    /*
     * bytes: the longest read, and what may be read from all connections, or from the hot one,
     * before another read begins: the lock is held meanwhile
     */
    FAB_TCP_READ_MAX = 1048576,
    FAB_TCP_COPY = 1024,         /* bytes: messages up to this are copied behind their header */
    FAB_TCP_TOGETHER = 4096,     /* bytes: longer messages do not wait for others */
    FAB_TCP_STRIPE_MIN = 131072, /* bytes: shortest fragment that is spread over several links */
    FAB_TCP_ALONE = 4,           /* shorter ones to a peer that leave by themselves after a poll */
    FAB_TCP_WINDOW = 1048576,    /* bytes of messages sent for which no credit came, at most */
    FAB_TCP_EPOLL_PERIOD = 8,    /* polls of the hot connection per poll of all */
    FAB_TCP_CHECK_PEERS = 8,     /* that one poll looks at */
    FAB_TCP_MUTE_READS = 32,     /* reads of a hot connection after which epoll leaves it out */
    /* striped messages in a row that waited for the same link, which is not used after that */
    FAB_TCP_SLOW_MAX = 16,
    FAB_TCP_IDLE_POLLS = 64,    /* empty polls after which polls become rarer by one call */
    FAB_TCP_IDLE_PERIOD = 32,   /* progress calls per poll, at most */
    FAB_TCP_ALONE_PERIOD = 128, /* the same without any connection */
    FAB_TCP_LATE_CALLS = 4,     /* progress calls per look at the clock */
    FAB_TCP_LATE_US = 50,       /* time between two polls, after which the next call polls */
    FAB_TCP_STANDBY_US = 1000,  /* time between two polls on standby */
    /* polls without an event of another provider, after which every progress call polls */
    FAB_TCP_ALONE_POLLS = 1024,
};

typedef struct fab_tcp_domain fab_tcp_domain_t;
typedef struct fab_tcp_ep fab_tcp_ep_t;
typedef struct fab_tcp_links fab_tcp_links_t;
typedef struct fab_tcp_buf fab_tcp_buf_t;

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

/* The endpoint of a peer, or a link. */
struct fab_tcp_ep {
    fab_peer_t *peer;
    fab_tcp_domain_t *dom;

    /* the connection */
    int fd;              /* -1: there is none */
    int error;           /* errno of a write that failed; nothing more is written */
    bool is_blocked;     /* the kernel takes no more now: epoll tells when it does */
    bool is_batch;       /* between the calls of batch(): all is written at its end */
    bool is_shut;        /* nothing more can be written, and the kernel was told */
    bool is_eof;         /* nothing more can be read */
    bool is_local;       /* the peer is on this host, perhaps in another container */
    bool is_bulk;        /* more of a long message is likely to come next */
    bool is_muted;       /* hot, and epoll does not tell what comes by it */
    bool is_paused;      /* not read until what comes before by other links is there */
    bool has_asked;      /* it asked for links, if there are addresses for them */
    bool is_out;         /* a link on which this process sends */
    bool is_unused;      /* a link that gets no further pieces: it is slow, or replaces another */
    uint8_t link;        /* its number; 0: it is no link */
    uint8_t num_out;     /* buffers in out */
    uint8_t num_outs;    /* sends from memory in out */
    uint8_t silences;    /* checks in a row that found the peer's kernel silent */
    uint8_t skip;        /* bytes of padding to come, after what was placed */
    uint32_t alone_pass; /* pass in which short messages were written by themselves, ... */
    uint32_t num_alone;  /* ... and how many */
    fab_tcp_node_t *out; /* to be written, oldest first */
    fab_tcp_node_t *out_last;
    /* CREDIT; of a link: CONFIRM, or the data of the piece that is being written */
    fab_tcp_notice_t credit;
    fab_tcp_notice_t end; /* BYE; of a link: the header of that piece */
    fab_tcp_buf_t *in;    /* while a part of a message is here; a link of the peer keeps it */
    fab_tcp_placing_t placing;
    fab_tcp_links_t *links; /* of an endpoint, and of its links; NULL: there are none */
    fab_tcp_ep_t *main;     /* of a link: its endpoint; NULL: this is an endpoint */
    char to[56];            /* the other end, for messages */

    fab_ses_t ses;       /* of an endpoint (tcp_connect.c); of a link only is_credit_due */
    fab_sock_t *sock;    /* of this process's attempt to connect; NULL: none */
    fab_tcp_addr_t addr; /* of the peer */

    LIST_ENTRY(fab_tcp_ep) entry; /* in dom->eps; of a closed link: in dom->dead */
};

struct fab_tcp_domain {
    fab_t *fab;
    const fab_provider_t *provider;
    /*
     * Nothing comes any more by this connection, or a write of it failed: error is errno, or 0 at
     * the end of the stream.
     */
    void (*on_ended)(fab_tcp_ep_t *ep, int error);
    fab_sock_set_t *socks;
    int epoll;
    uint32_t pid;
    fab_tcp_addr_t addr; /* of this process, as peers get it */
    fab_ses_domain_t ses;

    /* polling */
    uint32_t pass;          /* progress calls */
    bool is_standby;        /* other providers reach all of the job: processes may join it later */
    uint32_t next_poll;     /* pass of the next poll */
    uint64_t poll_by;       /* us: the time of the next poll, if it comes before that pass */
    uint32_t empty_polls;   /* in a row */
    uint32_t events;        /* of this provider */
    uint32_t others;        /* events of other providers, at the last poll */
    uint32_t alone_polls;   /* polls since that changed */
    uint32_t polls;         /* since the last one of all connections */
    uint32_t period;        /* polls of the hot connection per poll of all */
    uint32_t num_up;        /* connections */
    uint32_t alls;          /* polls of all */
    uint64_t next_check;    /* us: of the peers */
    fab_tcp_ep_t *to_check; /* the next of them; NULL: all were looked at */
    int64_t budget;         /* bytes that may still be read in this poll */
    int num_blocked;        /* connections whose is_blocked is set */
    fab_tcp_ep_t *hot;      /* the connection that is polled by itself; NULL: none */
    uint32_t hot_reads;     /* reads of it, as long as no other one became hot */

    fab_tcp_node_t *done; /* sends from memory to be completed, the last first */

    fab_tcp_node_t *free_bufs;
    uint32_t num_free;
    uint32_t num_parts;           /* connections that have a buffer in which they read */
    LIST_HEAD(, fab_tcp_ep) eps;  /* all */
    LIST_HEAD(, fab_tcp_ep) dead; /* links that were closed: an event may still name them */
};

/* Has it a connection? */
static inline bool fab_tcp_is_up(const fab_tcp_ep_t *ep)
{
    return ep->fd >= 0;
}

/* Is there a piece of this link that the peer did not confirm? */
static inline bool fab_tcp_link_is_busy(const fab_tcp_ep_t *link)
{
    const fab_tcp_pieces_t *sent = &link->links->sent[link->link];

    return sent->first != sent->next;
}

/* Is there such a piece of some link of the endpoint? */
static inline bool fab_tcp_links_are_busy(const fab_tcp_ep_t *ep)
{
    for (int i = 1; NULL != ep->links && i < FAB_TCP_LINKS; i++) {
        if (NULL != ep->links->out[i] && fab_tcp_link_is_busy(ep->links->out[i])) {
            return true;
        }
    }
    return false;
}

/* Of an endpoint with links: is its next message a part of a striped one? */
static inline bool fab_tcp_is_part(const fab_tcp_ep_t *ep)
{
    return NULL != ep->main || 0 != ep->links->total;
}

/* Something was sent, or is expected: poll often. */
static inline void fab_tcp_expect(fab_tcp_domain_t *dom)
{
    dom->empty_polls = 0;
    dom->next_poll = dom->pass;
}

#endif /* FAB_TCP_TYPES_H */
