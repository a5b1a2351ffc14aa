/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider's structures, for the files of common/verbs/ and its tests.
 *
 * Ownership.  The domain is one port of one device: context, PD, two CQs, the SRQ, the buffers.  It
 * owns all endpoints and connections.  An endpoint belongs to one peer record (fab_peer_t.ep) and
 * has at most one connection, an RC QP (two, if the devices of both sides match tags and do
 * rendezvous); when the pair is done with it, the connection is taken from the endpoint and lingers
 * until what was sent on it has been delivered.
 *
 *      fab_peer_t ── ep ── conn ── QP ──┬── send CQ     one for all connections
 *                     │                 └── receive CQ ── SRQ ── receive buffers, one pool
 *                     ├── sock      connection set-up, while it lasts (verbs_oob.h)
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

#include <infiniband/verbs.h>

#include "fabric/fab_provider.h"
#include "fabric/fab_tm.h"
#include "sock/sock.h"
#include "verbs/verbs_reg.h"
#include "verbs/verbs_wire.h"

enum {
    /* completions per poll: one call, and other work waits for no more */
    FAB_VERBS_BATCH = 32,
    FAB_VERBS_SQ_DEPTH = 128, /* work requests on one QP, a power of two */
    FAB_VERBS_SQ_SPARE = 8,   /* of these only for the provider's own messages */
    /* work requests handed over with one doorbell at most: the first waits for the last */
    FAB_VERBS_CHAIN = 16,
    /* with so many bytes the line has something to do, while the next are packed */
    FAB_VERBS_CHAIN_BYTES = 4096,
    /* unsignaled work requests in a row on one QP: a quarter of its depth */
    FAB_VERBS_SIGNAL_WQES = 32,
    FAB_VERBS_SIGNAL_BUFS = 4,    /* unsignaled send buffers: what an idle connection may keep */
    FAB_VERBS_SQ_USED_MAX = 8192, /* work requests on all QPs, if the send CQ can be that large */
    FAB_VERBS_INLINE = 220,       /* bytes asked for; the device may give less */
    FAB_VERBS_CHUNK_BUFS = 64,    /* send buffers made at a time */
    /* receive buffers beyond the windows: credits, and what waits to be posted again */
    FAB_VERBS_SLACK_BUFS = 64,
    /* ... and for what devices answer to requests (FIN), which no window limits */
    FAB_VERBS_FIN_BUFS = 128,
    /* bytes of one READ or WRITE: others on the same QP wait that long, 0.1 ms at 100 Gbit/s */
    FAB_VERBS_STEP = 1 << 20,
    /* READs or WRITEs under way on one QP, if the devices can: enough to fill the line */
    FAB_VERBS_STEPS = 4,
    FAB_VERBS_READS = 16,        /* READs that a QP serves at a time, if the device can */
    FAB_VERBS_HASH = 4096,       /* buckets of the table from QP number to connection */
    FAB_VERBS_HOUSE_PASSES = 16, /* progress calls between looks at the clock (25 ns) */
    /* time between looks at the sockets (0.5 us) when nothing is expected */
    FAB_VERBS_OOB_US = 1000,
    FAB_VERBS_TICK_US = 250000, /* time between looks whether peers live */
    /* ticks in which every connected peer of this host is looked at once: 2 s */
    FAB_VERBS_TICKS_PER_ROUND = 8,
    /* time for a connection that is done with to deliver what was sent */
    FAB_VERBS_LINGER_US = 2000000,
    FAB_VERBS_LEAVE_US = 300000, /* the same when the process leaves */
    /* time for a device to complete what it has begun to receive */
    FAB_VERBS_DRAIN_US = 1000000,
    FAB_VERBS_PORT_GRACE_US = 10000000, /* time for a port to come back */
    /* connections being asked for at a time: file descriptors */
    FAB_VERBS_MAX_ASKING = 64,
};

typedef struct fab_verbs_domain fab_verbs_domain_t;
typedef struct fab_verbs_ep fab_verbs_ep_t;
typedef struct fab_verbs_conn fab_verbs_conn_t;
typedef struct fab_verbs_oob fab_verbs_oob_t;
typedef struct fab_verbs_tm fab_verbs_tm_t;
typedef struct fab_verbs_cm fab_verbs_cm_t;

/* ---- verbs_pool.c: registered buffers of one size ----------------------- */

typedef struct fab_verbs_buf {
    struct fab_verbs_buf *next;
    unsigned char *data; /* TMH, then payload; 64-byte aligned */
    uint32_t lkey;
    bool is_posted; /* the device has it, to receive into */
} fab_verbs_buf_t;

typedef struct fab_verbs_pool {
    struct ibv_pd *pd;
    struct fab_verbs_chunk *chunks;
    fab_verbs_buf_t *free;
    size_t buf_size;
    uint32_t num;  /* buffers, free or not */
    uint32_t used; /* those that are not free */
} fab_verbs_pool_t;

void fab_verbs_pool_init(fab_verbs_pool_t *pool, struct ibv_pd *pd, size_t payload);
/* Add num buffers. OPAL_ERR_OUT_OF_RESOURCE: no memory, or it cannot be locked (errno). */
int fab_verbs_pool_grow(fab_verbs_pool_t *pool, uint32_t num);
void fab_verbs_pool_fini(fab_verbs_pool_t *pool);
/* The buffer that lies at this address; NULL: none does. Slow: for what cannot be trusted. */
fab_verbs_buf_t *fab_verbs_pool_find(const fab_verbs_pool_t *pool, uint64_t address);

static inline void fab_verbs_pool_put(fab_verbs_pool_t *pool, fab_verbs_buf_t *buf)
{
    buf->next = pool->free;
    pool->free = buf;
    pool->used--;
}

/* NULL: there is none. */
static inline fab_verbs_buf_t *fab_verbs_pool_get(fab_verbs_pool_t *pool)
{
    fab_verbs_buf_t *buf = pool->free;

    if (NULL != buf) {
        pool->free = buf->next;
        pool->used++;
    }
    return buf;
}

/* ---- get and put (verbs_rma.c) ------------------------------------------ */

typedef struct fab_verbs_op {
    struct fab_verbs_op *next; /* in ep->ops, or free */
    fab_verbs_domain_t *dom;
    fab_rma_t *rma;
    fab_verbs_reg_t *reg; /* of the local memory */
    size_t posted;        /* bytes asked for so far */
    uint32_t in_flight;   /* work requests under way */
    int status;
    bool is_queued; /* in ep->ops: there is more to post */
} fab_verbs_op_t;

/* Memory that a peer, or the device for a listed receive, may reach. */
typedef struct fab_verbs_exposed {
    struct fab_verbs_exposed *next;
    struct fab_verbs_exposed **prev;
    fab_verbs_reg_t *reg;
    bool is_requested; /* in a request that the receiver's device may answer */
} fab_verbs_exposed_t;

/* ---- connections (verbs_conn.c) ----------------------------------------- */

/* One work request on the send queue. */
typedef struct fab_verbs_wqe {
    fab_verbs_buf_t *buf; /* NULL: inline, or a READ or WRITE */
    fab_verbs_op_t *op;   /* NULL: a message */
    uint32_t len;         /* of a READ or WRITE */
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
    struct fab_verbs_qpn *next;
    fab_verbs_conn_t *conn;
    uint32_t qpn;
} fab_verbs_qpn_t;

struct fab_verbs_conn {
    struct ibv_qp *qp; /* sends, and receives unless there is a tm_qp */
    struct ibv_qp
        /*
         * no send queue: receives, and the device reads and answers rendezvous; NULL: not both
         * devices can
         */
        *tm_qp;
    fab_verbs_ep_t *ep; /* NULL: lingers */
    fab_verbs_domain_t *dom;
    fab_verbs_qpn_t qpns[2];          /* of qp and tm_qp */
    fab_verbs_conn_t *owing_next;     /* in dom->owing */
    fab_verbs_conn_t *lingering_next; /* in dom->lingering */
    uint32_t id;                      /* upper half of wr_id; see fab_verbs_conn_of() */
    uint32_t psn;
    uint32_t tm_psn;
    uint32_t peer_qpn; /* once connected */
    uint32_t peer_psn;
    uint64_t linger_until; /* us */
    uint64_t drain_until;  /* us; 0: not draining */
    uint32_t drained_at;   /* dom->empty_polls when the last QP had ended */

    /* send queue: work requests tail..head-1 are posted and not known to be complete */
    uint32_t head;
    uint32_t tail;
    uint32_t unsignaled;
    uint32_t unsignaled_bufs;
    uint32_t max_inline;

    /* flow control, all counts modulo 2^16 */
    uint16_t sent;       /* messages */
    uint16_t taken;      /* of these, what the peer says it took */
    uint16_t window;     /* that the peer grants */
    uint16_t consumed;   /* messages from the peer */
    uint16_t advertised; /* of these, what the peer was told */
    uint16_t granted;    /* to the peer */

    uint8_t reads;         /* READs that the peer serves at a time */
    uint8_t max_in_flight; /* READs and WRITEs */
    uint8_t in_flight;
    uint8_t num_ended; /* QPs that take no more receives: LAST_WQE_REACHED */
    bool is_to_tm;     /* the peer's device matches tags */
    bool is_ready;     /* the peer's QP receives */
    bool is_broken;    /* a work request failed */
    bool is_owing;     /* in dom->owing */
    uint8_t to_send;   /* FAB_VERBS_ID_* other than CREDIT that found no room; 0: none */

    /* iWARP (verbs_cm.c) */
    struct rdma_cm_id *cm_id; /* NULL: no attempt to connect is under way, and none succeeded */
    bool is_cm_begun;         /* this side has tried to connect the QP */
    bool is_cm_waiting;       /* that failed, and will be tried again */
    bool is_cm_up;            /* it is connected */

    fab_verbs_wqe_t sq[FAB_VERBS_SQ_DEPTH];
};

/* ---- endpoints (verbs_ep.c, verbs_connect.c) ---------------------------- */

typedef enum fab_verbs_state {
    FAB_VERBS_IDLE = 0,     /* no connection */
    FAB_VERBS_WAITING = 1,  /* in dom->waiting: will ask when its turn comes */
    FAB_VERBS_ASKING = 2,   /* HELLO sent or about to be; conn has a QP */
    FAB_VERBS_ANSWERED = 3, /* REPLY sent; may not send before READY */
    FAB_VERBS_UP = 4,       /* may send */
} fab_verbs_state_t;

struct fab_verbs_ep {
    fab_peer_t *peer;
    fab_verbs_domain_t *dom;
    fab_verbs_conn_t *conn;    /* from ASKING or ANSWERED on */
    fab_sock_t *sock;          /* ASKING, ANSWERED */
    fab_sock_t *parked;        /* the peer asked while this process asks and has precedence */
    fab_verbs_buf_t *reserved; /* by fab_reserve(); NULL: none */
    fab_verbs_op_t *ops;       /* not yet posted in full */
    fab_verbs_op_t **ops_tail;
    fab_verbs_exposed_t *exposed;
    fab_verbs_ep_t *waiting_next; /* in dom->waiting */
    fab_verbs_ep_t *rma_next;     /* in dom->rma */
    fab_verbs_ep_t *next;         /* of all in the domain */
    fab_verbs_ep_t **prev;
    fab_verbs_state_t state;
    bool is_in_rma;  /* stands in dom->rma */
    bool is_closing; /* this process closed the peer */
    bool has_left;   /* the peer takes nothing any more */
    bool is_failing; /* will fail when all that it sent is delivered */
    bool is_local;   /* on this host: its pid means something */
    fab_verbs_addr_t addr;
};

/* A peer about to fail: first, what it sent is delivered. */
typedef struct fab_verbs_deferred {
    struct fab_verbs_deferred *next;
    fab_peer_t *peer;
    int rc;
    char why[384];
} fab_verbs_deferred_t;

struct fab_verbs_domain {
    fab_t *fab;

    /* polling */
    struct ibv_cq *recv_cq;
    struct ibv_cq *send_cq;
    uint32_t num_conns;    /* those with a QP, lingering ones too */
    uint32_t num_signaled; /* work requests that will complete */
    uint32_t sq_used;      /* work requests posted and not known to be complete */
    uint32_t sq_used_max;
    uint32_t pass;               /* progress calls */
    fab_verbs_conn_t *last_conn; /* the last message came on */
    fab_verbs_conn_t *chained;   /* its work requests go to chain first; NULL: none's */
    fab_verbs_conn_t **conns;    /* by index */
    uint32_t max_conns;
    uint32_t free_conn; /* where to look for a free index */
    uint8_t generation; /* of the next connection */
    fab_verbs_qpn_t *by_qpn[FAB_VERBS_HASH];
    fab_verbs_conn_t *owing;
    fab_verbs_conn_t *lingering;
    fab_verbs_ep_t *rma; /* with operations to post */
    fab_verbs_ep_t **rma_tail;
    uint32_t num_rma;
    fab_verbs_deferred_t *deferred;

    /* device */
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_srq *srq;
    fab_verbs_tm_t *tm;     /* NULL: srq is a plain one */
    uint32_t num_requested; /* requests that devices may answer, and have not */
    uint32_t max_requested; /* receive buffers for the answers */
    uint32_t empty_polls;   /* of recv_cq, modulo 2^32 */
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    uint32_t step; /* bytes of one READ or WRITE at most */
    uint8_t port_num;
    uint8_t gid_index;
    char name[64 + 8]; /* "mlx5_0:1" */
    bool is_dead;      /* the device failed */
    bool is_closed;    /* by fab_close(): operations end without completion */
    /* all of the job is reached in other ways: started when a process joins that is not */
    bool is_standby;
    bool is_started;          /* queues and buffers are made */
    uint64_t port_down_since; /* us; 0: it is up */

    /* memory */
    fab_verbs_pool_t send_pool;
    fab_verbs_pool_t recv_pool;
    fab_verbs_buf_t *to_post; /* receive buffers to be posted again */
    uint32_t max_recv_bufs;
    uint32_t max_send_bufs;
    fab_verbs_regs_t *regs;
    fab_verbs_op_t *free_ops;
    fab_verbs_exposed_t *exposed; /* memory that any peer may reach */
    fab_verbs_exposed_t *free_exposed;
    bool is_memlock_logged;

    /* connecting */
    fab_verbs_oob_t *oob;
    fab_sock_set_t *socks; /* for connection set-up */
    fab_verbs_cm_t *cm;    /* NULL: the port is not iWARP */
    uint32_t num_asking;
    fab_verbs_ep_t *waiting;
    fab_verbs_ep_t **waiting_tail;
    uint64_t next_oob;  /* us */
    uint64_t next_tick; /* us */

    fab_verbs_ep_t *eps;   /* all */
    uint32_t alive_at;     /* index in conns: looked at last */
    fab_verbs_addr_t addr; /* of this process */
    fab_verbs_chain_t chain;
};

uint64_t fab_verbs_now_us(void);

/* ---- verbs_device.c ----------------------------------------------------- */

/*
 * Choose device, port and GID; opens the device. Fills ctx, device, port, port_num, gid_index,
 * name, and addr as far as the port tells.
 */
int fab_verbs_device_open(fab_verbs_domain_t *dom, const char **why);

/*
 * How near the device is to this process, larger is nearer (verbs_near.h), and of how many parts
 * that the machine is divided into one holds both; asked only if there is a choice.  NULL, as at
 * first: all are equally near.
 */
extern int (*fab_verbs_near)(const char *device, uint32_t *parts);

/* ---- verbs_domain.c ----------------------------------------------------- */

/* Queues and buffers are needed: make them, if that was not done. */
int fab_verbs_start(fab_verbs_domain_t *dom, const char **why);

/* ---- verbs_srq.c -------------------------------------------------------- */

int fab_verbs_srq_open(fab_verbs_domain_t *dom, const char **why);
/*
 * There is one more connection: more receive buffers, up to the limit. Returns the window for its
 * peer; 0: none is left, which only iWARP has to know.
 */
uint16_t fab_verbs_srq_grant(fab_verbs_domain_t *dom);
/* Give the collected buffers back to the SRQ, if it may have them now. */
void fab_verbs_srq_repost(fab_verbs_domain_t *dom);

/* ---- verbs_conn.c ------------------------------------------------------- */

/* A QP that can be told to its peer. NULL: *why. */
fab_verbs_conn_t *fab_verbs_conn_open(fab_verbs_ep_t *ep, const char **why);
/* To the peer's QP, up to ready to receive and to send. */
int fab_verbs_conn_connect(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame,
                           const char **why);
/* iWARP: another QP in place of one that failed to connect.  Else errno. */
int fab_verbs_conn_renew(fab_verbs_conn_t *conn);
uint8_t fab_verbs_reads_served(const fab_verbs_domain_t *dom);
/*
 * The device may have begun to receive a message, or have received one that was not polled: stop the
 * QPs, and wait until all that they complete has been seen. Destroying a QP would take its
 * completions away, and the receive buffers with them. Called again and again; true: it can be
 * destroyed.
 */
bool fab_verbs_conn_drain(fab_verbs_conn_t *conn, uint64_t now);
/* A QP has ended. */
void fab_verbs_conn_ended(fab_verbs_conn_t *conn);
/* At once: what is under way is lost, its operations end with the status. */
void fab_verbs_conn_destroy(fab_verbs_conn_t *conn, int status);
/* Take it from its endpoint; it ends when what was sent on it is delivered. */
void fab_verbs_conn_linger(fab_verbs_conn_t *conn);
void fab_verbs_conn_end_lingering(fab_verbs_domain_t *dom, uint64_t now);

fab_verbs_conn_t *fab_verbs_conn_of(fab_verbs_domain_t *dom, uint64_t wr_id);
fab_verbs_conn_t *fab_verbs_conn_by_qpn(fab_verbs_domain_t *dom, uint32_t qpn);

/* The number of the QP that the peer's messages come to. */
static inline uint32_t fab_verbs_conn_recv_qpn(const fab_verbs_conn_t *conn)
{
    return conn->qpns[NULL != conn->tm_qp].qpn;
}

static inline uint32_t fab_verbs_sq_room(const fab_verbs_conn_t *conn)
{
    return FAB_VERBS_SQ_DEPTH - (conn->head - conn->tail);
}

/*
 * Post wr, whose sg_list and opcode are set.  buf: given back when it is complete.  op: gets the
 * completion. OPAL_ERR_RESOURCE_BUSY: the device has no room now. OPAL_ERR_UNREACH: the peer is
 * about to fail.
 */
int fab_verbs_conn_post(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, fab_verbs_buf_t *buf,
                        fab_verbs_op_t *op);
/* What is posted from now on may be held back, until the end. */
void fab_verbs_chain_begin(fab_verbs_conn_t *conn);
void fab_verbs_chain_end(fab_verbs_domain_t *dom);

/* Send one of the provider's own messages, now or when there is room. */
void fab_verbs_conn_tell(fab_verbs_conn_t *conn, uint8_t id);
void fab_verbs_conn_tell_owing(fab_verbs_domain_t *dom);
void fab_verbs_conn_schedule_credits(fab_verbs_conn_t *conn);

/* A work request is complete, and with it all before it. */
void fab_verbs_conn_complete(fab_verbs_conn_t *conn, const struct ibv_wc *wc);

static inline bool fab_verbs_has_credit(const fab_verbs_conn_t *conn)
{
    return (uint16_t) (conn->sent - conn->taken) < conn->window;
}

/* ---- verbs_ep.c --------------------------------------------------------- */

extern const fab_ops_t fab_verbs_ops;

int fab_verbs_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, size_t len,
                     const char **why);
void fab_verbs_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_verbs_drop(fab_domain_t *dom, fab_peer_t *peer);
/* Free it and all that it owns but its connection, which is gone already. */
void fab_verbs_ep_free(fab_verbs_ep_t *ep);
/*
 * The peer will not come back, or this process is done with it: free the endpoint and, if it was
 * closed, the record.
 */
void fab_verbs_ep_finish(fab_verbs_ep_t *ep);
/* It fails as soon as what it sent before is delivered. */
void fab_verbs_ep_defer_failure(fab_verbs_ep_t *ep, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int fab_verbs_ep_fail_deferred(fab_verbs_domain_t *dom);
/* One of the provider's own messages came. */
void fab_verbs_ep_on_control(fab_verbs_ep_t *ep, uint8_t id);

/* ---- verbs_connect.c ---------------------------------------------------- */

/* Ask for a connection, when its turn comes; nothing if one is being made. */
void fab_verbs_connect(fab_verbs_ep_t *ep);
void fab_verbs_connect_waiting(fab_verbs_domain_t *dom);
/* Forget what is under way: sockets, place in the queue. */
void fab_verbs_connect_cancel(fab_verbs_ep_t *ep);
/* The peer's QP receives: send. */
void fab_verbs_connect_done(fab_verbs_ep_t *ep);
/* iWARP: the QP for which this process asked is connected, or cannot be: why is a sentence. */
void fab_verbs_connected(fab_verbs_ep_t *ep);
void fab_verbs_connect_failed(fab_verbs_ep_t *ep, const char *why);

/* ---- verbs_rma.c -------------------------------------------------------- */

int fab_verbs_rma(fab_rma_t *op);
int fab_verbs_rma_progress(fab_verbs_domain_t *dom);
int fab_verbs_expose(fab_peer_t *peer, const void *buf, size_t len, fab_rkey_t *rkey);
void fab_verbs_unexpose(fab_peer_t *peer, fab_rkey_t *rkey);
bool fab_verbs_expose_any(fab_domain_t *dom, const void *buf, size_t len, fab_rkey_t *rkey);
void fab_verbs_unexpose_any(fab_domain_t *dom, const fab_rkey_t *rkey);
/* How a peer reaches what this process exposed, as matching hardware reads and writes it. */
fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv);
fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh);
/* Register memory until it is put back; *list: where to keep it. NULL: it cannot be. */
fab_verbs_exposed_t *fab_verbs_hold(fab_verbs_domain_t *dom, fab_verbs_exposed_t **list,
                                    const void *buf, size_t len);
void fab_verbs_let_go(fab_verbs_domain_t *dom, fab_verbs_exposed_t *exposed);
/* The receiver's device may answer this request, at most once, until the memory is let go. */
void fab_verbs_requested(fab_verbs_domain_t *dom, const fab_rndv_t *rndv);
/* A READ or WRITE of len bytes ended. */
void fab_verbs_op_landed(fab_verbs_op_t *op, uint32_t len, int status);
/* End all operations that are not posted, and release what the peer may reach. */
void fab_verbs_rma_drop(fab_verbs_ep_t *ep);

/* ---- verbs_alive.c: events of the device, and whether peers live -------- */

void fab_verbs_async(fab_verbs_domain_t *dom);
void fab_verbs_tick(fab_verbs_domain_t *dom, uint64_t now);
/* All peers fail; what: "here ..." says why. */
void fab_verbs_fail_all(fab_verbs_domain_t *dom, const char *what);
/*
 * The device cannot be trusted any more: messages may be lost in it.  It is not used again and all
 * peers fail; what: as above; why: for the log.
 */
void fab_verbs_give_up(fab_verbs_domain_t *dom, const char *what, const char *why);

/* ---- verbs_tm.c: matching hardware -------------------------------------- */

/*
 * Make the TM-SRQ and its completion queue, if the device has such and the user wants it.  False:
 * use plain ones.
 */
bool fab_verbs_tm_open(fab_verbs_domain_t *dom);
/* Free the rest, when the queues are gone. */
void fab_verbs_tm_close(fab_verbs_domain_t *dom);
bool fab_verbs_tm_use(fab_domain_t *dom, const fab_tm_user_t *user, void *ctx,
                      fab_tm_device_t *device);
/* May no buffers be given to the device now? */
bool fab_verbs_tm_must_hold(const fab_verbs_domain_t *dom);
/*
 * The QPs of the connection are gone: what the device began to receive on them and did not complete
 * is lost.
 */
void fab_verbs_tm_conn_gone(fab_verbs_conn_t *conn);
/* Poll and handle completions; at most a batch. */
int fab_verbs_tm_poll(fab_verbs_domain_t *dom);

/* ---- verbs_progress.c --------------------------------------------------- */

int fab_verbs_progress(fab_domain_t *dom);
/* A message came into a receive buffer: deliver it, collect the buffer. */
void fab_verbs_take(fab_verbs_domain_t *dom, const struct ibv_wc *wc);
/* The device is done with a receive buffer, to be posted again. False: it did not have it. */
static inline bool fab_verbs_collect(fab_verbs_domain_t *dom, fab_verbs_buf_t *buf)
{
    if (__builtin_expect(!buf->is_posted, 0)) {
        return false;
    }
    buf->is_posted = false;
    buf->next = dom->to_post;
    dom->to_post = buf;
    return true;
}
/* The device matched a message of this connection: at the first completion of one or two. */
void fab_verbs_took_matched(fab_verbs_conn_t *conn);
/* A count of credits came outside of a header. */
void fab_verbs_take_credits(fab_verbs_conn_t *conn, uint16_t taken);
int fab_verbs_poll_send(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_TYPES_H */
