/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: the queue pairs of a pair of processes, what is under way on them, and credits.
 */
#ifndef FAB_VERBS_CONN_H
#define FAB_VERBS_CONN_H

#include "verbs/verbs_pool.h"
#include "verbs/verbs_types.h"
#include "verbs/verbs_wire.h"

enum {
    FAB_VERBS_SQ_DEPTH = 128,  /* work requests on one QP, a power of two */
    FAB_VERBS_SQ_RESERVED = 8, /* of these, for the provider's own messages alone */
    /* work requests handed over with one doorbell, at most: the first waits for the last */
    FAB_VERBS_CHAIN = 16,
    /* bytes that are handed over at once: the network has work while the next are packed */
    FAB_VERBS_CHAIN_BYTES = 4096,
    /* unsignaled work requests in a row on one QP: a quarter of its depth */
    FAB_VERBS_SIGNAL_WQES = 32,
    FAB_VERBS_SIGNAL_BUFS = 4, /* unsignaled send buffers: what an idle connection may keep */
    FAB_VERBS_INLINE = 220,    /* bytes asked for; the device may give less */
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
    uint16_t taken;      /* of these, how many the peer has received, by its last credits */
    uint16_t window;     /* that the peer grants */
    uint16_t consumed;   /* messages from the peer */
    uint16_t advertised; /* of these, how many the credits sent so far cover */
    uint16_t granted;    /* to the peer */

    uint8_t reads;         /* READs that the peer serves at a time */
    uint8_t max_in_flight; /* READs and WRITEs */
    uint8_t in_flight;
    uint8_t num_ended; /* QPs that take no more receives: LAST_WQE_REACHED */
    bool is_to_tm;     /* the peer's device matches tags */
    bool is_ready;     /* the peer's QP receives */
    bool is_broken;    /* a work request failed */
    bool has_answered; /* the device has done a rendezvous: it answers the sender */
    bool is_due;       /* in dom->due */
    uint8_t to_send;   /* FAB_VERBS_ID_* other than CREDIT that found no room; 0: none */

    /* iWARP (verbs_cm_rdma.c) */
    struct rdma_cm_id *cm_id; /* NULL: no attempt to connect is under way, and none succeeded */
    bool is_cm_begun;         /* this side has tried to connect the QP */
    bool is_cm_waiting;       /* that failed, and will be tried again */
    bool is_cm_up;            /* it is connected */
    uint8_t num_cm_ports;     /* attempts of this side that found their own port in use */

    fab_verbs_wqe_t sq[FAB_VERBS_SQ_DEPTH];
};

/* Make the QPs, in state INIT: their numbers go to the peer. NULL: *why. */
fab_verbs_conn_t *fab_verbs_conn_open(fab_verbs_ep_t *ep, const char **why);
/* Connect to the peer's QP: ready to receive and to send. NULL, or why that cannot be. */
const char *fab_verbs_conn_connect(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame);
/* iWARP: another QP in place of one that failed to connect.  Else errno. */
int fab_verbs_conn_renew(fab_verbs_conn_t *conn);
uint8_t fab_verbs_reads_served(const fab_verbs_domain_t *dom);
/*
 * Drain the connection: the device may have begun to receive a message, or received one that was
 * not polled. Stops the QPs and waits until all their completions have been seen; destroying a QP
 * earlier would discard its completions, and the receive buffers with them. Called repeatedly;
 * true: the connection can be destroyed.
 */
bool fab_verbs_conn_drain(fab_verbs_conn_t *conn, uint64_t now);
/* A QP takes no more receives: LAST_WQE_REACHED came. */
void fab_verbs_conn_ended(fab_verbs_conn_t *conn);
/* Destroy it at once. Its operations end with this status. */
void fab_verbs_conn_destroy(fab_verbs_conn_t *conn, int status);
/* Detach it from its endpoint; it ends when all messages on it are delivered. */
void fab_verbs_conn_linger(fab_verbs_conn_t *conn);
void fab_verbs_conn_end_lingering(fab_verbs_domain_t *dom, uint64_t now);

/*
 * Peers may do this (IBV_ACCESS_REMOTE_*) from now on, with memory that is registered for it.
 * False: the device does not allow it.
 */
bool fab_verbs_conns_allow(fab_verbs_domain_t *dom, int access);

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
/* A send buffer; NULL: none now. */
fab_verbs_buf_t *fab_verbs_send_buf(fab_verbs_domain_t *dom);
/*
 * Post a message: tmh, then len bytes of data.  buf: a send buffer of the caller's, which is given
 * back; it has the payload, behind room for tmh, if data is NULL.  NULL: data is copied.
 */
int fab_verbs_conn_send(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, const fab_verbs_tmh_t *tmh,
                        const void *data, size_t len, fab_verbs_buf_t *buf);
/* Begin a chain: work requests may be held back until its end. */
void fab_verbs_chain_begin(fab_verbs_conn_t *conn);
void fab_verbs_chain_end(fab_verbs_domain_t *dom);

/* Send a message of the provider's own (FAB_VERBS_ID_*), now or when there is room. */
void fab_verbs_conn_send_control(fab_verbs_conn_t *conn, uint8_t id);
void fab_verbs_conn_send_due(fab_verbs_domain_t *dom);
void fab_verbs_conn_schedule_credits(fab_verbs_conn_t *conn);

/* A work request on its QP number is complete, and with it all before it. */
void fab_verbs_conn_complete(fab_verbs_conn_t *conn, const struct ibv_wc *wc);

static inline bool fab_verbs_has_credit(const fab_verbs_conn_t *conn)
{
    return (uint16_t) (conn->sent - conn->taken) < conn->window;
}

#endif /* FAB_VERBS_CONN_H */
