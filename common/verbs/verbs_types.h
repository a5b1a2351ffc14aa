/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider's objects.  Functions are in the headers of the files that have them; files
 * use those below them alone (test/build/sources.sh).
 *
 * Ownership. The domain is one port of one device: context, PD, two CQs, the SRQ, the buffers. It
 * owns all endpoints and connections that use it; further ports have domains of their own, which
 * the first port's owns (verbs_ports.c). An endpoint belongs to one peer record (fab_peer_t.ep) and
 * has at most one connection, an RC QP (two, if the devices of both sides match tags and do
 * rendezvous); when the pair is done with it, the connection is taken from the endpoint and lingers
 * until what was sent on it has been delivered.  For long data it may have rails, which are
 * endpoints of the same peer by other ports (verbs_rails.c).
 *
 *      fab_peer_t ── ep ── conn ── QP ──┬── send CQ     one for all connections
 *                     │                 └── receive CQ ── SRQ ── receive buffers, one pool
 *                     ├── ses       the session, whose path the connection is (session.h)
 *                     ├── sock      its HELLO's, while that is needed (verbs_oob.c)
 *                     ├── ops       get and put, in the order in which they were asked for
 *                     └── exposed   memory that the peer may reach
 *
 * Completion queues never overrun: the receive CQ has room for all receive buffers, the send CQ for
 * twice as many work requests as sq_used may reach.
 *
 * All under the fabric's lock.
 */
#ifndef FAB_VERBS_TYPES_H
#define FAB_VERBS_TYPES_H

#include <sys/queue.h>
#include <infiniband/verbs.h>

#include "fabric/fab_provider.h"
#include "session/session.h"
#include "sock/sock.h"
#include "verbs/verbs_pool.h"
#include "verbs/verbs_reg.h"
#include "verbs/verbs_wire.h"

typedef struct fab_verbs_domain fab_verbs_domain_t;
typedef struct fab_verbs_ep fab_verbs_ep_t;
typedef struct fab_verbs_conn fab_verbs_conn_t;
typedef struct fab_verbs_op fab_verbs_op_t;
typedef struct fab_verbs_exposed fab_verbs_exposed_t;
typedef struct fab_verbs_tm fab_verbs_tm_t;
typedef struct fab_verbs_job fab_verbs_job_t;
typedef struct fab_verbs_resolver fab_verbs_resolver_t; /* verbs_resolve.c */
typedef struct fab_verbs_cm fab_verbs_cm_t;
typedef struct fab_verbs_cm_ops fab_verbs_cm_ops_t; /* verbs_cm.h */

typedef LIST_HEAD(fab_verbs_conn_list, fab_verbs_conn) fab_verbs_conn_list_t;
typedef TAILQ_HEAD(fab_verbs_conn_queue, fab_verbs_conn) fab_verbs_conn_queue_t;
typedef LIST_HEAD(fab_verbs_exposed_list, fab_verbs_exposed) fab_verbs_exposed_list_t;
typedef STAILQ_HEAD(fab_verbs_op_queue, fab_verbs_op) fab_verbs_op_queue_t;
typedef LIST_HEAD(fab_verbs_ep_list, fab_verbs_ep) fab_verbs_ep_list_t;
typedef TAILQ_HEAD(fab_verbs_ep_queue, fab_verbs_ep) fab_verbs_ep_queue_t;

enum {
    FAB_VERBS_PACKET = 4096, /* bytes of the longest packet of a device */
    FAB_VERBS_BATCH = 32,    /* completions per poll: one call, and other work waits for no more */
    /* bytes from which on data is divided over rails (verbs_rails.c): 0.1 ms at 100 Gbit/s */
    FAB_VERBS_RAIL_MIN = 1 << 20,
    /* receive buffers for what devices answer to requests (FIN), which no window limits */
    FAB_VERBS_FIN_BUFS = 128,
};

/* ---- operations and exposed memory -------------------------------------- */

struct fab_verbs_op {
    STAILQ_ENTRY(fab_verbs_op) link; /* in ep->ops */
    fab_verbs_domain_t *dom;
    fab_rma_t *rma;
    fab_verbs_op_t *whole; /* this is a share of it (verbs_rails.c); NULL: it is none */
    fab_reg_t *reg;        /* of the local memory; NULL: whole's */
    size_t from, end;      /* bytes of rma that it is to move, */
    size_t posted;         /* and up to which they are asked for */
    uint32_t rkey;         /* of the peer's memory, for the port that is used */
    uint32_t in_flight;    /* work requests under way */
    uint32_t num_shares;   /* of this one that have not ended */
    int status;
    bool is_queued; /* in ep->ops: there is more to post */
};

/* Memory that a peer, or the device for a listed receive, may reach. */
struct fab_verbs_exposed {
    LIST_ENTRY(fab_verbs_exposed) link;
    fab_verbs_domain_t *dom; /* whose device reg is for */
    fab_reg_t *reg;
    fab_reg_t *rail_regs[FAB_VERBS_PORTS]; /* the same memory, by further ports */
    bool is_requested;                     /* in a request that the receiver's device may answer */
};

/* ---- connections -------------------------------------------------------- */

enum {
    /* work requests on one QP, a power of two: fewer in large jobs (verbs_qp.c) */
    FAB_VERBS_SQ_DEPTH = 128,
    FAB_VERBS_SQ_RESERVED = 8, /* of these, for the provider's own messages alone */
    /* work requests handed over with one doorbell, at most: the first waits for the last */
    FAB_VERBS_CHAIN = 16,
    /* bytes that are handed over at once: the network has work while the next are packed */
    FAB_VERBS_CHAIN_BYTES = 4096,
    FAB_VERBS_SIGNAL_BUFS = 4, /* unsignaled send buffers: what an idle connection may keep */
    FAB_VERBS_INLINE = 220,    /* bytes asked for; the device may give less */
    FAB_VERBS_RAIL_WINDOW = 1, /* messages: a rail carries none, but a window has one at least */
    FAB_VERBS_READS = 16,      /* READs that a QP serves at a time, if the device can */
    /* time for a connection that is no longer used to deliver what was sent */
    FAB_VERBS_LINGER_US = 2000000,
    /* time for a device to complete what it has begun to receive */
    FAB_VERBS_DRAIN_US = 1000000,
    /* time for a device's answers to come after its process has closed the connection */
    FAB_VERBS_ANSWER_US = 5000000,
};

/* One work request on the send queue. */
typedef struct fab_verbs_wqe {
    fab_verbs_buf_t *buf; /* NULL: inline, or a READ or WRITE */
    fab_verbs_op_t *op;   /* NULL: a message */
    uint32_t len;         /* bytes; a message's with its TMH */
    bool is_signaled;
} fab_verbs_wqe_t;

/*
 * Work requests that are held back, to be handed over with one doorbell; what is inline lies here.
 */
typedef struct fab_verbs_chain {
    uint32_t num;
    uint32_t bytes;
    struct {
        struct ibv_send_wr wr;
        struct ibv_sge sge;
        unsigned char data[FAB_VERBS_INLINE];
    } links[FAB_VERBS_CHAIN];
} fab_verbs_chain_t;

/* Entry of the table from QP number to connection. */
typedef struct fab_verbs_qpn {
    LIST_ENTRY(fab_verbs_qpn) link;
    fab_verbs_conn_t *conn;
    uint32_t qpn;
} fab_verbs_qpn_t;

typedef LIST_HEAD(fab_verbs_qpn_list, fab_verbs_qpn) fab_verbs_qpn_list_t;

struct fab_verbs_conn {
    struct ibv_qp *qp; /* sends, and receives unless there is a tm_qp */
    /* no send queue: receives, and the device does rendezvous on it; NULL: not both devices can */
    struct ibv_qp *tm_qp;
    fab_verbs_ep_t *ep; /* NULL: lingers */
    fab_verbs_domain_t *dom;
    fab_verbs_qpn_t qpns[2];                   /* of qp and tm_qp */
    TAILQ_ENTRY(fab_verbs_conn) link;          /* in dom->conns */
    LIST_ENTRY(fab_verbs_conn) due_link;       /* in dom->due */
    LIST_ENTRY(fab_verbs_conn) lingering_link; /* in dom->lingering */
    uint32_t id;                               /* of its queue pair: upper half of wr_id */
    uint32_t psn;
    uint32_t tm_psn;
    uint32_t peer_qpn; /* once connected */
    uint32_t peer_psn;
    fab_verbs_job_t *job;  /* connects its QPs (verbs_resolve.c); NULL: none does */
    uint64_t linger_until; /* us; UINT64_MAX: the peer waits for all that is under way */
    uint64_t drain_until;  /* us; 0: not draining */
    uint32_t drained_at;   /* dom->empty_polls when the last QP had ended */

    /* send queue: work requests tail..head-1 are posted and not known to be complete */
    uint32_t head;
    uint32_t tail;
    uint32_t sq_depth;
    uint32_t sq_mask; /* sq_depth - 1 */
    uint32_t unsignaled;
    uint32_t max_unsignaled; /* in a row: a quarter of sq_depth is freed at a time */
    uint32_t unsignaled_bufs;
    uint32_t max_inline;
    uint64_t last_counts; /* what verbs_evict.c saw when it looked last */

    uint64_t probe_addr; /* of the peer, which a READ proves the path with */
    uint32_t probe_rkey;
    uint16_t probe_len; /* bytes that a packet has at most on this path */
    uint16_t credits;   /* lingers: those of the session that was */

    /* windows, in messages (verbs_srq.c) */
    uint16_t granted;   /* to the peer */
    uint16_t base;      /* of these, by HELLO or WELCOME: they stay */
    uint16_t more;      /* of the session's window, by CREDIT: they are given back */
    uint16_t to_grant;  /* of granted, and the peer does not know it */
    uint16_t to_return; /* what was given back, and the peer does not know it */
    uint8_t num_quiet;  /* ticks in a row without a message to the peer */
    uint32_t seen_sent; /* the session's counts at the last tick */
    uint32_t seen_consumed;

    uint8_t remote;        /* the peer's port */
    uint8_t reads;         /* READs that the peer serves at a time */
    uint8_t max_in_flight; /* READs and WRITEs */
    uint8_t in_flight;
    uint8_t num_ended; /* QPs that take no more receives: LAST_WQE_REACHED */
    bool is_to_tm;     /* the peer's device matches tags */
    bool is_broken;    /* a work request failed */
    uint8_t broken_by; /* enum ibv_wc_status of that */
    bool has_answered; /* the device has done a rendezvous: it answers the sender */
    bool is_due;       /* in dom->due */
    uint8_t to_send;   /* bits 1 << fab_verbs_word_t: what found no room */

    /* iWARP (verbs_cm_rdma.c) */
    struct rdma_cm_id *cm_id; /* NULL: no attempt to connect is under way, and none succeeded */
    bool is_cm_begun;         /* this side has tried to connect the QP */
    bool is_cm_asked;         /* the peer was asked, and the kernel waits for its answer */
    bool is_cm_waiting;       /* that failed, and will be looked at again */
    bool is_cm_up;            /* it is connected */
    uint8_t num_cm_ports;     /* attempts of this side that found their own port in use */

    fab_verbs_wqe_t sq[]; /* sq_depth */
};

/* The provider's own messages that may wait for room: bit n of conn->to_send. */
typedef enum fab_verbs_word {
    FAB_VERBS_WORD_TRY = FAB_SES_BYE_NONE, /* the others of fab_ses_bye_t: BYE of this kind */
    FAB_VERBS_WORD_CREDIT = FAB_SES_BYES,  /* the asking side's first word */
} fab_verbs_word_t;

/* ---- endpoints ---------------------------------------------------------- */

/* How far the making of a session's path, its connection, is: beside the session's state. */
typedef enum fab_verbs_path {
    FAB_VERBS_NO_PATH = 0,
    FAB_VERBS_WAITING = 1, /* ASKING: in dom->waiting, will say HELLO when its turn comes */
    FAB_VERBS_ASKING = 2,  /* ASKING: HELLO is on its way */
    /* TRYING, ASKED: the kernel connects the QPs, which may take long (conn->job, or rdma_cm) */
    FAB_VERBS_OPENING = 3,
    FAB_VERBS_PROBING = 4, /* TRYING: does a packet pass?  In dom->probing */
    FAB_VERBS_OPEN = 5,
} fab_verbs_path_t;

struct fab_verbs_ep {
    fab_peer_t *peer;
    fab_verbs_domain_t *dom;
    /* a rail (verbs_rails.c): the endpoint that it helps; NULL: it is none, and peer->ep */
    fab_verbs_ep_t *main;
    fab_verbs_ep_t *rails;     /* the first of those that it has; NULL: none */
    fab_verbs_ep_t *next_rail; /* of the same; NULL: none */
    fab_ses_t ses;
    fab_verbs_conn_t *conn;    /* the session's path; from FAB_VERBS_ASKING on */
    fab_sock_t *sock;          /* of HELLO, own or answered, until the asked side is up */
    fab_verbs_buf_t *reserved; /* by fab_reserve(); NULL: none */
    fab_verbs_op_queue_t ops;  /* not yet posted in full */
    fab_verbs_exposed_list_t exposed;
    TAILQ_ENTRY(fab_verbs_ep) waiting_link; /* in dom->waiting or dom->probing */
    TAILQ_ENTRY(fab_verbs_ep) rma_link;     /* in dom->rma */
    TAILQ_ENTRY(fab_verbs_ep) failing_link; /* in dom->failing */
    LIST_ENTRY(fab_verbs_ep) link;          /* in dom->eps */
    fab_verbs_path_t path;
    void *spare;     /* the fabric's: fab_provider_t.spare */
    bool is_in_rma;  /* stands in dom->rma */
    bool has_rails;  /* those that there can be were made */
    bool has_failed; /* a rail: it is not used any more */
    bool is_refused; /* this process: other ports are not tried */
    /* the peer's BYE, which waits until its device has answered; 0: none */
    uint8_t late_bye;
    uint64_t end_by; /* us: no longer; 0: none */
    /* what is to be done when all that came before is taken: in dom->failing; NULL: nothing */
    struct fab_verbs_failure *failure;
    bool is_local;         /* on this host: its pid means something */
    uint8_t pair;          /* of ports, that is used or will be (verbs_ports.c) */
    uint8_t remote;        /* the peer's of these; dom is this process's */
    fab_verbs_addr_t addr; /* at the end: fab_verbs_addr_len() bytes of it are there */
};

/* ---- the domain: one port of one device, with all that is open on it ---- */

enum {
    FAB_VERBS_SQ_USED_MAX = 8192, /* work requests on all QPs, if the send CQ can be that large */
    FAB_VERBS_HASH = 4096,        /* buckets of the table from QP number to connection */
};

typedef struct fab_verbs_port_name {
    char device[64];
    uint8_t num;
} fab_verbs_port_name_t;

struct fab_verbs_domain {
    fab_t *fab;
    const fab_provider_t *provider;

    /* the process's first port, which has the address that others know, and the sockets */
    fab_verbs_domain_t *first;
    fab_verbs_domain_t *next; /* further ports, opened when a peer needs them (verbs_ports.c) */
    uint8_t index;            /* among the process's ports, 0: the first */
    fab_verbs_port_name_t names[FAB_VERBS_PORTS]; /* the first's: of all that addr has */

    /* polling */
    struct ibv_cq *recv_cq;
    struct ibv_cq *send_cq;
    struct ibv_comp_channel *channel; /* of both; NULL: there is none (verbs_domain.c) */
    bool is_armed;
    uint32_t num_conns;    /* those with a QP, lingering ones too */
    uint32_t num_signaled; /* work requests that will complete */
    uint32_t sq_used;      /* work requests posted and not known to be complete */
    uint32_t sq_used_max;
    uint32_t pass;                /* progress calls */
    fab_verbs_conn_t *last_conn;  /* on which the last message came */
    fab_verbs_conn_t *chained;    /* whose work requests go to chain first; NULL: none's */
    fab_verbs_conn_queue_t conns; /* all; the first is looked at next (verbs_alive.c) */
    uint32_t next_id;             /* of the next queue pair */
    fab_verbs_qpn_list_t by_qpn[FAB_VERBS_HASH];
    fab_verbs_conn_list_t due;
    fab_verbs_conn_list_t lingering;
    fab_verbs_ep_queue_t rma; /* with operations to post */
    uint32_t num_rma;
    fab_verbs_ep_queue_t failing; /* when all that came is taken */

    /* device */
    struct ibv_context *ctx;
    struct ibv_pd *pd;       /* of memory */
    struct ibv_td *td;       /* NULL: the driver has none */
    struct ibv_pd *queue_pd; /* of queue pairs and the SRQ: with td, or pd itself */
    struct ibv_srq *srq;
    fab_verbs_tm_t *tm;     /* NULL: srq is a plain one */
    uint32_t num_requested; /* requests that peers' devices may still answer */
    uint32_t max_requested; /* receive buffers for the answers */
    uint32_t empty_polls;   /* of recv_cq, modulo 2^32 */
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    uint32_t step; /* bytes of one READ or WRITE at most */
    int access;    /* IBV_ACCESS_*: what the QPs allow peers */
    uint8_t port_num;
    uint8_t gid_index;
    uint8_t traffic_class;
    uint16_t pkey_index;
    char name[64 + 8]; /* "mlx5_0:1" */
    bool is_dead;      /* the device failed */
    bool is_closed;    /* of the first: by fab_close(): operations end without completion */
    /* other providers reach all of the job: started when a process joins that they do not reach */
    bool is_standby;
    bool is_started;          /* queues and buffers are made */
    uint64_t port_down_since; /* us; 0: it is up */

    /* memory */
    fab_verbs_pool_t send_pool;
    fab_verbs_pool_t recv_pool;
    fab_verbs_buf_t *to_post; /* receive buffers to be posted again */
    uint32_t max_recv_bufs;
    uint32_t granted; /* messages, to all peers together */
    /*
     * FAB_VERBS_PACKET bytes that peers read once, and nothing writes, and as many that the peers'
     * are read into; NULL: none
     */
    char *page;
    struct ibv_mr *page_mr;
    fab_regs_t *regs;
    fab_verbs_exposed_list_t exposed; /* memory that any peer may reach */
    bool is_memlock_logged;

    /* connecting */
    fab_ses_domain_t ses;             /* the first's */
    fab_sock_set_t *socks;            /* for connection set-up */
    int epoll;                        /* of socks, and of the device's events; -1: none */
    fab_verbs_resolver_t *resolver;   /* NULL: it was not needed */
    const fab_verbs_cm_ops_t *cm_ops; /* iWARP; else NULL */
    fab_verbs_cm_t *cm;               /* of rdma_cm */
    uint32_t num_asking;
    uint32_t num_ending; /* endpoints with a late_bye */
    fab_verbs_ep_queue_t waiting;
    fab_verbs_ep_queue_t probing;
    uint64_t next_oob;  /* us */
    uint64_t next_tick; /* us */

    fab_verbs_ep_list_t eps; /* all */
    fab_verbs_addr_t addr;   /* the first's: of this process */
    fab_verbs_port_addr_t port_addr;
    fab_verbs_chain_t chain;
};

static inline fab_verbs_ep_t *fab_verbs_ep_of(fab_ses_t *ses)
{
    return (fab_verbs_ep_t *) (void *) ((char *) ses - offsetof(fab_verbs_ep_t, ses));
}

/*
 * Then there is no RNR: a message that finds no buffer ends the connection; the response to a READ
 * counts as a remote write; and rdma_cm ends the QPs.
 */
static inline bool fab_verbs_is_iwarp(const fab_verbs_domain_t *dom)
{
    return NULL != dom->cm_ops;
}

/* RoCE, and perhaps iWARP. */
static inline bool fab_verbs_is_ethernet(const fab_verbs_domain_t *dom)
{
    return IBV_LINK_LAYER_ETHERNET == dom->port.link_layer;
}

/* Of the peer, if its first port is used or will be: FAB_VERBS_ADDR_*. */
static inline uint16_t fab_verbs_peer_flags(const fab_verbs_ep_t *ep)
{
    return 0 == ep->remote ? ep->addr.flags : 0;
}

/* Messages, READs and WRITEs may go. */
static inline bool fab_verbs_is_up(const fab_verbs_ep_t *ep)
{
    return FAB_SES_UP == ep->ses.state && NULL == ep->failure && 0 == ep->late_bye;
}

/* The kernel is still connecting its QPs: to destroy them waits for that. */
static inline bool fab_verbs_conn_is_asking(const fab_verbs_conn_t *conn)
{
    return NULL != conn->job || (conn->is_cm_asked && !conn->dom->is_dead);
}

static inline uint32_t fab_verbs_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif /* FAB_VERBS_TYPES_H */
