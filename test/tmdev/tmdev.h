/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tmdev: a verbs device in software. Objects and functions that the files of the library share.
 *
 * Locks, in the order in which they may be taken:
 *   node->lock       all objects of the process except what the following guard; held for the time
 *                    of one verb or one batch of frames
 *   the locks of the events of channels and contexts
 *   cq->ring_lock    the entries of a completion queue: the device thread appends, a poller removes
 *   srq->tag_lock    the handles of a tag matching SRQ, which change when completions are polled
 *
 * Taken before any of these: node->progress_lock, by the device thread and by those who do its work
 * (node.c); and cq->poll_lock, which a client holds from ibv_start_poll to ibv_end_poll and which
 * nothing else in the library takes.
 */
#ifndef TMDEV_H
#define TMDEV_H

#include <infiniband/verbs.h>
#include <infiniband/tm_types.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "tmdev_wire.h"

/* Functions that are part of libibverbs' ABI; everything else is hidden. */
#define TMDEV_PUBLIC __attribute__((visibility("default")))

enum {
    TMDEV_NODES = 4096, /* processes: the upper 12 bits of a queue pair number */
    TMDEV_QPS = 4096,   /* queue pairs per process: the lower 12 bits; 0 is not used */
    TMDEV_MAX_SGE = 16,
    TMDEV_MAX_WR = 32768, /* per queue */
    TMDEV_MAX_CQE = 4194303,
    TMDEV_MAX_RD_ATOMIC = 16,
    TMDEV_XRQ_MIN_WQES = 33, /* a TM-SRQ does not run before that many receives were posted */
    TMDEV_RNDV_HDR_MAX = 64, /* longest rendezvous request, TMH included, bytes */
    TMDEV_GIDS = 4,          /* of an Ethernet port, at least */
    TMDEV_MAX_GIDS = 4096,
    TMDEV_PKEYS = 8,
    TMDEV_DEVICES = 8, /* at most, and ports of each */
    TMDEV_PORTS = 4,
    TMDEV_PLANE_LIDS = 256 /* LIDs from 1 on that can be in a plane */
};

typedef struct tmdev_node tmdev_node_t;
typedef struct tmdev_ctx tmdev_ctx_t;
typedef struct tmdev_pd tmdev_pd_t;
typedef struct tmdev_mr tmdev_mr_t;
typedef struct tmdev_cq tmdev_cq_t;
typedef struct tmdev_qp tmdev_qp_t;
typedef struct tmdev_srq tmdev_srq_t;
typedef struct tmdev_conn tmdev_conn_t;

/* ---- settings (settings.c): read from the environment once per process, see README.md */

typedef enum {
    TMDEV_FAIL_PD,
    TMDEV_FAIL_MR,
    TMDEV_FAIL_CQ,
    TMDEV_FAIL_CQ_EX,
    TMDEV_FAIL_QP,
    TMDEV_FAIL_SRQ,
    TMDEV_FAIL_SRQ_TM,
    TMDEV_FAIL_CHANNEL,
    TMDEV_FAIL_TD,
    TMDEV_FAIL_KINDS
} tmdev_fail_t;

/* What is wrong with its tag matching. */
enum {
    TMDEV_BROKEN_EAGER = 1,       /* a message of one packet has a wrong byte */
    TMDEV_BROKEN_SEGMENTS = 2,    /* one of several has */
    TMDEV_BROKEN_TAG = 4,         /* completions do not tell app_ctx */
    TMDEV_BROKEN_IMM = 8,         /* nor immediate data */
    TMDEV_BROKEN_DEL = 16,        /* a removal leaves the entry in the list */
    TMDEV_BROKEN_SYNC = 32,       /* counts of unexpected messages are ignored */
    TMDEV_BROKEN_RNDV = 64,       /* a rendezvous completes without its data */
    TMDEV_BROKEN_FIN = 128,       /* the sender is not told */
    TMDEV_BROKEN_INCOMPLETE = 256 /* one that is too long ends like one that is not */
};

enum { TMDEV_LACKS_QP = 1, TMDEV_LACKS_SRQ = 2, TMDEV_LACKS_ACCESS = 4 };

typedef struct tmdev_settings {
    uint64_t seed;
    bool is_ethernet[TMDEV_DEVICES];
    uint32_t speed[TMDEV_DEVICES];  /* Gbit/s */
    uint32_t lacks[TMDEV_DEVICES];  /* TMDEV_LACKS_*: what it has none of */
    uint32_t tm_broken;             /* TMDEV_BROKEN_* */
    bool needs_grh;                 /* on InfiniBand */
    uint32_t subnet[TMDEV_DEVICES]; /* of the prefix; 0: the default one */
    uint16_t pkeys[TMDEV_PKEYS];
    uint32_t num_pkeys;
    uint32_t traffic_class, sl; /* of which packets must be; UINT32_MAX: any */
    uint32_t gids;              /* of an Ethernet port */
    uint32_t foreign_gids;      /* 1, 2: those of the interface are of another name space */
    bool is_quiet;              /* no diagnostics */
    uint32_t mtu;               /* of the port, bytes */
    bool has_small_frames;      /* frames of MTU size, each delayed for itself */
    uint32_t hole;              /* bytes: longer packets are lost; 0: none is */
    uint32_t tm_tags, tm_ops;
    bool has_tm_rndv;
    bool is_tm_silent; /* of receives that break off */
    bool holds_reads;  /* READs of more than a packet are never answered */
    /* the first of two completions of a match names another queue pair */
    bool has_wrong_qpn;
    bool is_rnr_misuse; /* a message that finds no receive is reported */
    uint32_t tm_left;   /* completions of a rendezvous that is left to software: 1 or 2 */
    uint32_t tm_blocks; /* places in the operations queue that each one takes */
    uint32_t general_error, command_error;        /* after so many messages to a TM-SRQ; 0: never */
    uint32_t start_error, next_error, poll_error; /* at so many successful polls; 0: never */
    uint64_t max_msg;                             /* bytes */
    uint32_t max_inline;                          /* bytes */
    bool has_qp_ops;                              /* send_ops_flags */
    uint32_t max_sq;                              /* bytes of a send queue */
    bool has_poll_progress;
    uint32_t delay_us; /* longest delay of a frame */
    uint32_t rtr_ms;   /* that making a queue pair of an Ethernet port ready to receive takes */
    uint32_t fin_us;   /* delay of the answers to rendezvous */
    uint32_t hold_us;  /* longest delay of a list operation */
    uint32_t rnr_permille;
    uint32_t qp_error_after; /* messages; 0: never */
    uint32_t qp_error_which; /* the n-th queue pair of the process; 0: all */
    struct {
        uint32_t first, last;
    } fail[TMDEV_FAIL_KINDS]; /* calls that fail, counted from 1; first 0: none */
    uint32_t devices, ports;  /* ports of each device */
    bool has_port_down, has_device_fatal;
    uint64_t port_down_us, device_fatal_us; /* after the first queue pair can send */
    uint64_t port_up_us;                    /* 0: never */
    uint8_t planes[TMDEV_PLANE_LIDS];       /* by LID: its network; 0: all of them */
    const _Atomic uint8_t *cut;             /* by LID: not 0: packets from and to it are lost now */
    const char *dir, *fabric, *report;
} tmdev_settings_t;

const tmdev_settings_t *tmdev_settings(void);
/* Does this call fail by TMDEV_FAIL? Counts the call and sets errno. */
bool tmdev_fails(tmdev_fail_t what);
/* The device failed: from now on all these calls do. */
void tmdev_fail_all(void);
uint64_t tmdev_random(uint64_t *state);
/* true in about permille of 1000 calls */
bool tmdev_chance(uint64_t *state, uint32_t permille);
uint64_t tmdev_seed_of(uint32_t object);

/* One line about misuse on standard error. Returns error, for the caller to return. */
/* Note for TMDEV_REPORT how many messages a TM-SRQ has matched. */
void tmdev_report(uint64_t matched);
int tmdev_misuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t tmdev_now_us(void);
enum ibv_mtu tmdev_mtu_enum(uint32_t bytes);
void *tmdev_alloc(size_t size);

/* ---- the node (node.c): this process as a participant of the fabric, and its device thread */

typedef struct tmdev_timer {
    TAILQ_ENTRY(tmdev_timer) link;
    uint64_t due_us;
    bool is_armed;
    void (*fire)(void *object); /* under node->lock, on the device thread */
    void *object;
} tmdev_timer_t;

struct tmdev_node {
    pthread_mutex_t lock;
    pthread_t thread;
    uint32_t id;
    int epoll_fd, wake_fd, timer_fd, listen_fd;
    atomic_bool is_stopping;
    /* for whoever handles what epoll reports: reading, accepting and closing connections */
    pthread_mutex_t progress_lock;
    atomic_ulong polls; /* by clients */
    atomic_uint armed;  /* completion queues that will send an event */
    tmdev_qp_t *qps[TMDEV_QPS];
    uint32_t next_qp, qps_made;
    tmdev_conn_t *peers[TMDEV_NODES];             /* connections that this node opened, by peer */
    TAILQ_HEAD(, tmdev_conn) conns;               /* all */
    TAILQ_HEAD(tmdev_timers, tmdev_timer) timers; /* by due_us */
    /* have something to transmit, and no need to wait */
    TAILQ_HEAD(tmdev_qps, tmdev_qp) ready;
    TAILQ_HEAD(, tmdev_qp) acks; /* owe an acknowledgement */
    TAILQ_HEAD(, tmdev_srq) tm_srqs;
    TAILQ_HEAD(, tmdev_ctx) contexts;
    tmdev_timer_t down_timer, up_timer, fatal_timer; /* fault.c */
    bool has_faults;                                 /* the timers have been armed */
    bool is_cut;                                     /* nothing comes in or goes out */
    tmdev_mr_t **mrs;
    uint32_t mr_slots, next_mr, num_mrs;
    uint8_t mr_generation;
};

/* Join the fabric, or count one more user of this process' node. NULL with errno. */
tmdev_node_t *tmdev_node_get(void);
void tmdev_node_put(tmdev_node_t *node);
void tmdev_node_lock(tmdev_node_t *node);
void tmdev_node_unlock(tmdev_node_t *node);
void tmdev_node_wake(tmdev_node_t *node);
/* A client polled a completion queue, and found it empty or not. */
void tmdev_node_polled(tmdev_node_t *node, bool is_empty);
/* Under the lock: */
void tmdev_timer_init(tmdev_timer_t *timer, void (*fire)(void *), void *object);
void tmdev_timer_arm(tmdev_node_t *node, tmdev_timer_t *timer, uint64_t delay_us);
void tmdev_timer_cancel(tmdev_node_t *node, tmdev_timer_t *timer);

/* ---- connections (conn.c), under node->lock unless said otherwise -------- */

struct tmdev_conn {
    TAILQ_ENTRY(tmdev_conn) link;
    tmdev_node_t *node;
    int fd;
    uint32_t peer;    /* node id; 0 before the other side's HELLO */
    bool is_outgoing; /* this node's requests and their answers, or the other's */
    bool is_broken;   /* the device thread will close it */
    uint8_t *out;     /* written by nobody yet, out_length bytes at out + out_offset */
    size_t out_offset, out_length, out_size;
    uint8_t *in; /* under progress_lock */
    size_t in_length;
    TAILQ_HEAD(, tmdev_qp) waiting; /* for out to be empty: to transmit requests */
    TAILQ_HEAD(, tmdev_qp) readers; /* ... to answer READs */
};

int tmdev_listen(tmdev_node_t *node);
void tmdev_unlisten(tmdev_node_t *node);
/*
 * The connection for requests to a node, opened if need be; NULL if nobody answers there (errno
 * EAGAIN: not now).
 */
tmdev_conn_t *tmdev_conn_to(tmdev_node_t *node, uint32_t peer);
void tmdev_conn_accept(tmdev_node_t *node);
bool tmdev_conn_is_free(const tmdev_conn_t *conn);
/*
 * Send a frame with the payload of the iovecs, whose sum is frame->length. May mark the connection
 * as broken.
 */
void tmdev_conn_send(tmdev_conn_t *conn, tmdev_frame_t *frame, const struct iovec *payload,
                     int count);
/* node->is_cut has changed. */
void tmdev_conns_watch(tmdev_node_t *node);
/* Under progress_lock: */
void tmdev_conn_flush(tmdev_conn_t *conn);
void tmdev_conn_read(tmdev_conn_t *conn); /* takes the lock */
void tmdev_conn_close(tmdev_conn_t *conn);

/* ---- faults of the whole device (fault.c) ----------------------------- */

void tmdev_faults_init(tmdev_node_t *node);
/*
 * A queue pair can send: count the time until the faults that the settings ask for from the first
 * of them on. Under node->lock.
 */
void tmdev_faults_start(tmdev_node_t *node);

/* ---- contexts and asynchronous events (context.c) --------------------- */

typedef struct tmdev_event {
    STAILQ_ENTRY(tmdev_event) link;
    struct ibv_async_event event;
} tmdev_event_t;

struct tmdev_ctx {
    struct verbs_context v;
    tmdev_node_t *node;
    TAILQ_ENTRY(tmdev_ctx) link; /* in node->contexts, under node->lock */
    pthread_mutex_t event_lock;
    STAILQ_HEAD(, tmdev_event) events; /* not yet fetched */
    atomic_uint objects;               /* that hang on this context */
};

tmdev_ctx_t *tmdev_ctx(struct ibv_context *context);
void tmdev_ctx_set_ops(struct verbs_context *v);
void tmdev_event_raise(struct ibv_context *context, enum ibv_event_type type, void *object);
void tmdev_event_raise_port(struct ibv_context *context, enum ibv_event_type type, int port);
/* Before an object goes: forget events about it, and wait until those fetched are acknowledged. */
void tmdev_event_forget(struct ibv_context *context, void *object);
void tmdev_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
                      const atomic_uint *fetched, const char *what);
int tmdev_token_fd(void);
void tmdev_token_put(int fd);
void tmdev_token_drop(int fd);
int tmdev_token_get(int fd);

int tmdev_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                     size_t size);
int tmdev_query_device_ex(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t size);
/* Of the device that it is of: is its link Ethernet?  What has it none of? */
bool tmdev_is_ethernet(const struct ibv_context *context);
bool tmdev_lacks(const struct ibv_context *context, uint32_t what);
uint32_t tmdev_gid_count(const struct ibv_context *context);
/* What identifies the port that a queue pair's address vector leads to. 0: leads nowhere. */
uint32_t tmdev_route(const struct ibv_context *context, const struct ibv_ah_attr *ah);
uint32_t tmdev_own_route(const tmdev_qp_t *qp);
/* Are its two ports in different networks, so that no packet passes? */
bool tmdev_is_apart(const tmdev_qp_t *qp);

/* ---- protection domains and memory regions (mr.c) --------------------- */

/* The thread that is in a call on what is said to have one at a time; 0: none. */
typedef atomic_ulong tmdev_alone_t;

typedef struct tmdev_td {
    struct ibv_td td;
    atomic_uint users;
    tmdev_alone_t thread;
} tmdev_td_t;

struct tmdev_pd {
    struct ibv_pd pd;
    atomic_uint objects;
    struct ibv_pd *base; /* of a parent domain: whose regions it has; else NULL */
    tmdev_td_t *td;      /* of a parent domain, or NULL */
};

struct tmdev_mr {
    struct ibv_mr mr;
    uint64_t iova;
    unsigned int access;
};

static inline tmdev_pd_t *tmdev_pd(struct ibv_pd *pd)
{
    return (tmdev_pd_t *) pd;
}

/* Calls on queue pairs and SRQs of a thread domain come one at a time: is that so? NULL: none. */
void tmdev_alone_begin(tmdev_alone_t *thread, const char *function);
void tmdev_alone_end(tmdev_alone_t *thread);
tmdev_alone_t *tmdev_alone_of(struct ibv_pd *pd);

struct ibv_td *tmdev_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int tmdev_dealloc_td(struct ibv_td *td);
struct ibv_pd *tmdev_alloc_parent_domain(struct ibv_context *context,
                                         struct ibv_parent_domain_init_attr *attr);

/*
 * Under node->lock: where the bytes of a key are, or NULL if the key, the bounds or the access (all
 * bits needed) are wrong.
 */
void *tmdev_mr_find(tmdev_node_t *node, const struct ibv_pd *pd, uint32_t key, uint64_t addr,
                    uint64_t length, unsigned int access);
/* Are all of these right? */
bool tmdev_sges_valid(tmdev_node_t *node, const struct ibv_pd *pd, const struct ibv_sge *sges,
                      int count, unsigned int access);
uint64_t tmdev_sges_length(const struct ibv_sge *sges, int count);
/* Copy to what the list describes, from offset on. false: a key went wrong. */
bool tmdev_sges_scatter(tmdev_node_t *node, const struct ibv_pd *pd, const struct ibv_sge *sges,
                        int count, uint64_t offset, const void *data, uint64_t length);
/*
 * The iovecs (at most TMDEV_MAX_SGE) of length bytes from offset on; their number, or -1 if a key
 * is wrong.
 */
int tmdev_sges_gather(tmdev_node_t *node, const struct ibv_pd *pd, const struct ibv_sge *sges,
                      int count, uint64_t offset, uint64_t length, struct iovec *iov);

/* ---- completion queues (cq.c) and channels (channel.c) ---------------- */

/* What the client gets back by polling a completion. */
typedef enum {
    TMDEV_RETURNS_NOTHING,
    TMDEV_RETURNS_SQ,  /* slots of qp's send queue, up to number */
    TMDEV_RETURNS_RQ,  /* one slot of qp's receive queue */
    TMDEV_RETURNS_SRQ, /* one slot of srq */
    TMDEV_RETURNS_TAG, /* the consumption of tag handle number of srq; wr_id is taken from there */
    TMDEV_PEEKS_TAG,   /* the same without the return: its data are still to come */
    TMDEV_RETURNS_OP   /* slots of srq's operations queue, up to number; tag handle */
} tmdev_returns_t;

typedef struct tmdev_cqe {
    struct ibv_wc wc;
    struct ibv_wc_tm_info tm;
    uint64_t time_ns;
    bool is_solicited;
    tmdev_returns_t returns;
    tmdev_qp_t *qp;
    tmdev_srq_t *srq;
    uint32_t number;
    int handle;         /* RETURNS_OP: tag, or -1 */
    bool del_done;      /* RETURNS_OP: a removal that succeeded */
    uint16_t phase;     /* the device's counter of unexpected messages */
    bool is_unexpected; /* counts */
    bool is_repeated;   /* wr_id is that of the completion before it */
} tmdev_cqe_t;

struct tmdev_cq {
    struct ibv_cq_ex cq;   /* must be first: both kinds of CQ are this */
    uint64_t reserved[32]; /* a client's newer header may know more fields */
    bool is_extended;
    bool is_single; /* its client has promised to poll it in one thread at a time */
    bool is_dead;   /* overrun */
    atomic_uint users;
    atomic_uint tm_users; /* TM-SRQs */
    pthread_mutex_t poll_lock;
    atomic_ulong poller;  /* thread between start_poll and end_poll; 0: none */
    tmdev_alone_t thread; /* is_single */
    pthread_mutex_t ring_lock;
    tmdev_cqe_t *ring;
    uint32_t size, head;
    atomic_uint count;
    tmdev_cqe_t current;
    enum { TMDEV_UNARMED, TMDEV_ARMED_SOLICITED, TMDEV_ARMED } armed; /* unarmed without channel */
    atomic_uint events_fetched, async_fetched;
};

static inline tmdev_cq_t *tmdev_cq(struct ibv_cq *cq)
{
    return (tmdev_cq_t *) cq;
}

/* Under node->lock. */
void tmdev_cq_push(tmdev_cq_t *cq, const tmdev_cqe_t *cqe);
/* Remove the completions of an object that goes: of qp, or, if that is NULL, of srq. */
void tmdev_cq_clean(tmdev_cq_t *cq, const tmdev_qp_t *qp, const tmdev_srq_t *srq);
struct ibv_cq_ex *tmdev_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int tmdev_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int tmdev_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void tmdev_channel_notify(struct ibv_comp_channel *channel, tmdev_cq_t *cq);
void tmdev_channel_forget(struct ibv_comp_channel *channel, tmdev_cq_t *cq);

/* ---- shared receive queues (srq.c, tm.c) ------------------------------ */

typedef struct tmdev_recv {
    uint64_t wr_id;
    int count;
    struct ibv_sge sges[TMDEV_MAX_SGE];
} tmdev_recv_t;

/* Receives, in the order of posting. */
typedef struct tmdev_rq {
    tmdev_recv_t *ring;
    uint32_t size, head, count;
    uint32_t max_sge;
    atomic_uint slots; /* posted and not yet polled: at most size */
} tmdev_rq_t;

/* A tag handle, and the entry of the device's list that it stands for. */
typedef struct tmdev_tag {
    TAILQ_ENTRY(tmdev_tag) link; /* in the list, while is_listed */
    bool is_listed, is_enabled;
    uint64_t tag, mask;
    struct ibv_sge sge;
    /* under tag_lock: the client's side */
    uint32_t expected; /* completions; 0: the handle is free */
    bool has_del;
    uint64_t recv_wr_id;
    uint32_t phase;
} tmdev_tag_t;

typedef struct tmdev_op {
    STAILQ_ENTRY(tmdev_op) link;
    enum ibv_ops_wr_opcode opcode;
    bool is_signaled, has_count;
    uint16_t count;
    uint64_t wr_id;
    uint32_t number; /* among all operations of the SRQ */
    int handle;
    uint64_t tag, mask;
    struct ibv_sge sge;
    uint64_t due_us;
} tmdev_op_t;

struct tmdev_srq {
    struct ibv_srq srq;
    TAILQ_ENTRY(tmdev_srq) link; /* of TM-SRQs */
    bool is_tm;
    uint32_t number;
    tmdev_rq_t rq;
    uint32_t limit; /* 0: no event is wanted */
    uint64_t posted;
    uint32_t arrived; /* messages to a TM-SRQ, for TMDEV_TM_ERROR */
    atomic_uint users;
    atomic_uint events_fetched;
    /* tag matching */
    tmdev_cq_t *cq;
    uint32_t max_tags, max_ops;
    tmdev_tag_t *tags;
    TAILQ_HEAD(, tmdev_tag) list;
    uint16_t hw_count, sw_count; /* unexpected messages: delivered; reported as handled */
    STAILQ_HEAD(, tmdev_op) ops; /* not yet executed */
    tmdev_timer_t ops_timer;
    uint64_t ops_until_us; /* time of the last */
    uint64_t random;
    uint32_t ops_head; /* number of the next operation */
    pthread_mutex_t tag_lock;
    uint32_t ops_tail; /* under tag_lock from here on: oldest operation whose slot is taken */
    uint32_t *free_tags, free_head, free_count;
    uint64_t matched;             /* messages that found a listed tag */
    uint32_t unexp_in, unexp_out; /* as the client's library counts */
};

static inline tmdev_srq_t *tmdev_srq(struct ibv_srq *srq)
{
    return (tmdev_srq_t *) srq;
}

int tmdev_rq_init(tmdev_rq_t *rq, uint32_t max_wr, uint32_t max_sge);
void tmdev_rq_fini(tmdev_rq_t *rq);
int tmdev_rq_post(tmdev_rq_t *rq, const struct ibv_recv_wr *wr, const char *what);
bool tmdev_rq_take(tmdev_rq_t *rq, tmdev_recv_t *recv);
bool tmdev_srq_take(tmdev_srq_t *srq, tmdev_recv_t *recv);
struct ibv_srq *tmdev_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int tmdev_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

int tmdev_tm_init(tmdev_srq_t *srq, tmdev_cq_t *cq, const struct ibv_tm_cap *cap);
void tmdev_tm_fini(tmdev_srq_t *srq);
int tmdev_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad);
/*
 * A client polls this completion, under cq->ring_lock: give back what it returns, set what is only
 * known now.
 */
void tmdev_tm_polled(tmdev_cqe_t *cqe);

/* ---- queue pairs (qp.c), requester (send.c), responder (recv.c, tm.c) - */

typedef enum {
    TMDEV_WQE_CLIENT,
    TMDEV_WQE_RNDV_READ, /* the device reads the data of a rendezvous */
    TMDEV_WQE_FIN        /* and tells the sender */
} tmdev_wqe_kind_t;

typedef struct tmdev_wqe {
    TAILQ_ENTRY(tmdev_wqe) link;
    tmdev_wqe_kind_t kind;
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    bool is_signaled, is_fenced, is_solicited;
    uint32_t imm, rkey;
    uint64_t va, operand[2];
    uint64_t total;  /* bytes */
    uint32_t number; /* among the client's requests */
    uint32_t msn;
    bool has_msn;
    uint64_t sent;     /* bytes */
    bool is_sent;      /* all of it */
    uint64_t received; /* bytes of answers */
    bool is_done;
    enum ibv_wc_status status;
    int handle;            /* RNDV_READ: the tag */
    uint8_t tm_header[32]; /* of the request that matched: TMH and RVH */
    int count;
    struct ibv_sge sges[TMDEV_MAX_SGE];
    uint8_t *inline_data; /* instead of sges; behind the struct */
} tmdev_wqe_t;

/* A READ to answer. */
typedef struct tmdev_read {
    STAILQ_ENTRY(tmdev_read) link;
    uint32_t msn, rkey;
    uint64_t va, total, offset;
} tmdev_read_t;

/* A frame held back by TMDEV_DELAY_US. */
typedef struct tmdev_held {
    STAILQ_ENTRY(tmdev_held) link;
    uint64_t due_us;
    tmdev_conn_t *conn;
    tmdev_frame_t frame;
    uint8_t payload[];
} tmdev_held_t;

/* What the message that is being received goes to. */
typedef enum {
    TMDEV_IN_NONE,
    TMDEV_IN_RECV,  /* a receive; recv is it */
    TMDEV_IN_EAGER, /* a listed tag; recv has its buffer, and the first bytes are the TMH */
    TMDEV_IN_WRITE  /* remote memory */
} tmdev_in_kind_t;

typedef struct tmdev_in {
    tmdev_in_kind_t kind;
    tmdev_recv_t recv;
    uint64_t received;
    enum ibv_wc_opcode opcode;
    tmdev_returns_t returns;
    int handle;
    bool is_matched;    /* MATCH was reported */
    struct ibv_tmh tmh; /* of a matched message, until then */
    bool is_unexpected;
    uint16_t phase;
} tmdev_in_t;

struct tmdev_qp {
    struct ibv_qp_ex qp;   /* must be first */
    uint64_t reserved[32]; /* a client's newer header may know more fields */
    tmdev_node_t *node;
    struct ibv_qp_init_attr init;
    bool has_ops; /* it was made with send_ops_flags: */
    uint64_t ops;
    struct ibv_qp_attr attr; /* as set by ibv_modify_qp */
    enum ibv_qp_state state;
    uint32_t index;
    uint32_t made; /* the how many-th queue pair of this process */
    atomic_uint events_fetched;
    uint64_t random;

    /* requester */
    TAILQ_HEAD(, tmdev_wqe) sq;
    tmdev_wqe_t *next_tx; /* first not sent completely */
    uint32_t sq_head;     /* the client's requests posted */
    atomic_uint sq_tail;  /* ... and given back by polling */
    uint32_t next_msn, acked_msn;
    uint32_t reads_out; /* READs and atomics without answer */
    uint64_t bytes_out; /* without acknowledgement */
    uint16_t attempt;
    uint32_t retries, rnr_retries; /* left */
    bool is_backing_off;           /* the timer ends it */
    tmdev_timer_t retry_timer;
    bool is_ready, is_waiting; /* in node->ready; in wait_conn->waiting */
    tmdev_conn_t *wait_conn;
    TAILQ_ENTRY(tmdev_qp) ready_link, wait_link, ack_link, reader_link;

    /* responder */
    tmdev_rq_t rq;
    tmdev_srq_t *srq;
    uint32_t expected_msn;
    tmdev_in_t in;
    STAILQ_HEAD(, tmdev_read) reads;
    uint32_t reads_in;
    bool owes_ack;
    bool has_nakked; /* what comes of this attempt of the peer is not for us */
    uint16_t nakked_attempt;
    tmdev_conn_t *reply_conn;  /* where the peer's requests come from */
    tmdev_conn_t *reader_conn; /* in reader_conn->readers */
    uint32_t messages;         /* received or sent, for TMDEV_QP_ERROR */
    bool has_complained;

    STAILQ_HEAD(, tmdev_held) held;
    tmdev_timer_t held_timer;
    uint64_t held_until_us;
    TAILQ_HEAD(, tmdev_wqe) fins; /* answers to rendezvous that are held back (tm.c) */
    tmdev_timer_t fin_timer;
};

static inline tmdev_qp_t *tmdev_qp(struct ibv_qp *qp)
{
    return (tmdev_qp_t *) qp;
}

static inline struct ibv_pd *tmdev_qp_pd(const tmdev_qp_t *qp)
{
    return qp->qp.qp_base.pd;
}

struct ibv_qp *tmdev_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int tmdev_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int tmdev_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* All under node->lock. */
void tmdev_qp_error(tmdev_qp_t *qp); /* to state ERR: flush */
/* the same by the device's decision, with an event */
void tmdev_qp_fatal(tmdev_qp_t *qp, enum ibv_event_type type);
void tmdev_qp_ready(tmdev_qp_t *qp);
void tmdev_qp_unready(tmdev_qp_t *qp);
bool tmdev_qp_counts_message(tmdev_qp_t *qp); /* false: TMDEV_QP_ERROR struck */
tmdev_cqe_t tmdev_qp_cqe(const tmdev_qp_t *qp);

void tmdev_send_reset(tmdev_qp_t *qp);
void tmdev_send_flush(tmdev_qp_t *qp);
void tmdev_tm_send_fins(void *qp); /* those that are held back */
void tmdev_send_append(tmdev_qp_t *qp, tmdev_wqe_t *wqe);
tmdev_wqe_t *tmdev_wqe_alloc(size_t inline_length);
void tmdev_send_progress(tmdev_qp_t *qp);
void tmdev_send_answer(tmdev_qp_t *qp, const tmdev_frame_t *frame, const uint8_t *payload);
void tmdev_send_acked(tmdev_qp_t *qp, uint32_t ack);
void tmdev_send_conn_lost(tmdev_qp_t *qp);
void tmdev_send_retry(void *qp);

void tmdev_recv_reset(tmdev_qp_t *qp);
void tmdev_recv_flush(tmdev_qp_t *qp);
void tmdev_recv_progress(tmdev_qp_t *qp); /* answers to READs */
void tmdev_recv_ack(tmdev_qp_t *qp);
void tmdev_recv_held(void *qp);
void tmdev_recv_conn_lost(tmdev_qp_t *qp);
/* A frame came in. */
void tmdev_deliver(tmdev_conn_t *conn, const tmdev_frame_t *frame, const uint8_t *payload);
/* The message is executed. */
void tmdev_recv_done(tmdev_qp_t *qp);
void tmdev_recv_nak(tmdev_qp_t *qp, const tmdev_frame_t *frame, tmdev_nak_t code);
/*
 * The message in qp->in, or the receive that it would have had, failed: report that, tell the peer,
 * and end the queue pair.
 */
void tmdev_recv_fail(tmdev_qp_t *qp, const tmdev_frame_t *frame, enum ibv_wc_status status,
                     tmdev_nak_t code);

typedef enum {
    TMDEV_TM_GO_ON,  /* qp->in is set */
    TMDEV_TM_DONE,   /* all of the message was handled */
    TMDEV_TM_NO_RECV /* no receive, or the queue does not run: not ready */
} tmdev_tm_verdict_t;
/* The first frame of a SEND to a TM-SRQ. */
tmdev_tm_verdict_t tmdev_tm_arrive(tmdev_qp_t *qp, const tmdev_frame_t *frame,
                                   const uint8_t *payload);
/* All of a message to a listed tag is there. */
void tmdev_tm_complete(tmdev_qp_t *qp, const tmdev_frame_t *frame);
/* A matched message or rendezvous will never be complete. */
void tmdev_tm_cancelled(tmdev_qp_t *qp, int handle);
void tmdev_tm_read_done(tmdev_qp_t *qp, tmdev_wqe_t *wqe);

#endif
