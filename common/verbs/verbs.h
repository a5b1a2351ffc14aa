/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the provider verbs have for each other, from the floor up.
 */
#ifndef FAB_VERBS_H
#define FAB_VERBS_H

#include "fabric/fab_params.h"
#include "fabric/fab_provider.h"
#include "fabric/fab_tm.h"
#include "verbs/verbs_types.h"

/* ---- verbs_fail.c: what breaks ---- */

typedef enum fab_verbs_failure_kind {
    FAB_VERBS_BROKE,    /* the path: nothing goes by it any more */
    FAB_VERBS_VIA_LOST, /* the asking side gave up, unless its first word is here */
    FAB_VERBS_CANNOT,   /* there is no session by these ports */
} fab_verbs_failure_kind_t;

typedef struct fab_verbs_failure {
    fab_verbs_failure_kind_t kind;
    int rc;
    uint32_t pass; /* of the domain when it was noted */
    char why[384];
} fab_verbs_failure_t;

/* Nothing goes to the peer any more: its session hears of it when what came before is taken. */
void fab_verbs_broke(fab_verbs_ep_t *ep, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The socket of the HELLO that was answered is closed: the session hears of it then, too. */
void fab_verbs_via_lost(fab_verbs_ep_t *ep);
/* fab_ses_ops_t.cannot */
void fab_verbs_cannot(fab_ses_t *ses, int rc, const char *why);
/* Take what was noted, to free it; NULL: nothing was. */
fab_verbs_failure_t *fab_verbs_take_failure(fab_verbs_ep_t *ep);
void fab_verbs_forget_failure(fab_verbs_ep_t *ep);
/* All connections break; what completes the sentence "mlx5_0:1 here ...". */
void fab_verbs_fail_all(fab_verbs_domain_t *dom, const char *what);
/*
 * The device cannot be trusted any more: messages may be lost in it.  It is not used again and all
 * peers fail; what: as above; why: for the log.
 */
void fab_verbs_give_up(fab_verbs_domain_t *dom, const char *what, const char *why);

/* ---- verbs_post.c ---- */

/*
 * Post wr, whose sg_list and opcode are set.  buf: given back when it is complete.  op: gets the
 * completion. OPAL_ERR_RESOURCE_BUSY: the device has no room now. OPAL_ERR_UNREACH: the peer is
 * about to fail.
 */
int fab_verbs_conn_post(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, fab_verbs_buf_t *buf,
                        fab_verbs_op_t *op);
/*
 * Post a message: tmh, then len bytes of data.  buf: a send buffer of the caller's, which is given
 * back; it has the payload, behind room for tmh, if data is NULL.  NULL: data is copied.
 */
int fab_verbs_conn_send(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, const fab_verbs_tmh_t *tmh,
                        const void *data, size_t len, fab_verbs_buf_t *buf);
/* The end of a chain (dom->chained): hand over the work requests that were held back. */
void fab_verbs_chain_end(fab_verbs_domain_t *dom);

/* The longest payload of a message, and the size of a buffer, bytes. */
static inline uint32_t fab_verbs_eager(void)
{
    return fab_params_eager(fab_limits.verbs_eager, FAB_VERBS_EAGER_MAX);
}

/* Connections that there may be; 0: not known. */
static inline uint32_t fab_verbs_num_expected(const fab_verbs_domain_t *dom)
{
    const uint32_t num = dom->fab->config.num_procs, max = fab_params.verbs_max_connections;

    return max > 0 && max < num ? max : num;
}

/* Send a message of the provider's own (FAB_VERBS_ID_*).  OPAL_ERR_RESOURCE_BUSY: no room. */
int fab_verbs_conn_send_id(fab_verbs_conn_t *conn, uint8_t id, uint32_t app_ctx);
/* Send this word, now or when there is room. */
void fab_verbs_conn_send_control(fab_verbs_conn_t *conn, fab_verbs_word_t word);
void fab_verbs_conn_send_due(fab_verbs_domain_t *dom);
void fab_verbs_conn_schedule_credits(fab_verbs_conn_t *conn);
void fab_verbs_conn_unschedule_credits(fab_verbs_conn_t *conn);

static inline uint32_t fab_verbs_sq_room(const fab_verbs_conn_t *conn)
{
    return conn->sq_depth - (conn->head - conn->tail);
}

/* Half of what the peer may send was taken, and no message has said so. */
static inline bool fab_verbs_owes_credit(const fab_verbs_conn_t *conn)
{
    const fab_ses_t *ses = &conn->ep->ses;

    return ses->consumed - ses->told >= (uint32_t) (conn->granted + 1) / 2;
}

/* ---- verbs_path.c ---- */

/* READs that a queue pair serves at a time. */
uint8_t fab_verbs_reads_served(const fab_verbs_domain_t *dom);
/* All return an errno.  To INIT: */
int fab_verbs_qp_init(fab_verbs_domain_t *dom, struct ibv_qp *qp);
/* To ready to receive, from the queue pair peer_qpn at this port. */
int fab_verbs_qp_to_receive(const fab_verbs_domain_t *dom, struct ibv_qp *qp,
                            const fab_verbs_port_addr_t *to, uint32_t peer_qpn, uint32_t peer_psn);
/* To ready to send; reads: READs that the peer serves at a time. */
int fab_verbs_qp_to_send(const fab_verbs_domain_t *dom, struct ibv_qp *qp, uint32_t psn,
                         uint8_t reads);
/* The peer's queue pairs are known: those of the connection are made ready to receive. */
int fab_verbs_conn_to_receive(const fab_verbs_job_t *job);

/* ---- verbs_resolve.c ---- */

struct fab_verbs_job {
    STAILQ_ENTRY(fab_verbs_job) link;
    fab_verbs_conn_t *conn;
    fab_verbs_frame_t frame;    /* of the peer; not with iWARP */
    fab_verbs_cm_hello_t hello; /* iWARP: of this side */
    int error;                  /* errno */
};

/* Do the step of a copy of this job.  False: there is no thread for it, do it now. */
bool fab_verbs_resolve_submit(const fab_verbs_job_t *job);
/* A job that has ended, which the caller frees; NULL: none has. */
fab_verbs_job_t *fab_verbs_resolve_poll(fab_verbs_domain_t *dom);
/* Something has ended: the descriptor was readable. */
void fab_verbs_resolve_is_awake(fab_verbs_domain_t *dom);
/*
 * Wait for what the thread is doing, or end that where the step allows it, and end the thread.
 * Jobs are dropped.
 */
void fab_verbs_resolve_stop(fab_verbs_domain_t *dom);

/* ---- verbs_qp.c: the queue pairs of a connection: making, connecting and finding them ---- */

/* Make the QPs, in state INIT. NULL, or what went wrong; fab_verbs_conn_destroy_qps() then. */
const char *fab_verbs_conn_make_qps(fab_verbs_conn_t *conn);
/* Work requests that a connection may have on its QP: a power of two. */
uint32_t fab_verbs_sq_depth(const fab_verbs_domain_t *dom);
/* Destroy whichever of its QPs exist. */
void fab_verbs_conn_destroy_qps(const fab_verbs_conn_t *conn);
/* Enter the connection, with its QPs, into the domain's tables; and take it from them. */
void fab_verbs_conn_enter(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn);
void fab_verbs_conn_leave(fab_verbs_domain_t *dom, fab_verbs_conn_t *conn);
fab_verbs_conn_t *fab_verbs_conn_by_qpn(fab_verbs_domain_t *dom, uint32_t qpn);

/*
 * Connect to the peer's QP: ready to receive and to send. NULL, or why that cannot be.  If there is
 * a conn->job, that goes on, and fab_verbs_conn_connected() with its errno is the end.
 */
const char *fab_verbs_conn_connect(fab_verbs_conn_t *conn, const fab_verbs_frame_t *frame);
const char *fab_verbs_conn_connected(fab_verbs_conn_t *conn, int error);
/* iWARP: another QP in place of one that failed to connect.  Else errno. */
int fab_verbs_conn_renew(fab_verbs_conn_t *conn);

/*
 * Peers may do this (IBV_ACCESS_REMOTE_*) from now on, with memory that is registered for it.
 * False: the device does not allow it.
 */
bool fab_verbs_conns_allow(fab_verbs_domain_t *dom, int access);

/* The number of the QP that the peer's messages come to. */
static inline uint32_t fab_verbs_conn_recv_qpn(const fab_verbs_conn_t *conn)
{
    return conn->qpns[NULL != conn->tm_qp].qpn;
}

/* ---- verbs_expose.c ---- */

bool fab_verbs_expose(fab_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len,
                      unsigned access, fab_rkey_t *rkey);
void fab_verbs_unexpose(fab_domain_t *dom, fab_peer_t *peer, const fab_rkey_t *rkey);
/* How a peer reaches what this process exposed, as matching hardware reads and writes it. */
fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv);
fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh);
void fab_verbs_let_go(fab_verbs_exposed_t *exposed);
/*
 * May the peer's device still answer a request of this process?  It does so on another QP, so its
 * answer may come after the peer's last message.
 */
bool fab_verbs_is_answer_due(const fab_verbs_ep_t *ep);
/* The receiver's device may answer this request, at most once, until the memory is let go. */
void fab_verbs_requested(fab_verbs_domain_t *dom, const fab_rndv_t *rndv);

/*
 * Memory of this process for a READ or WRITE.  access: FAB_REG_*.  NULL: it cannot be registered,
 * which is counted.
 */
fab_reg_t *fab_verbs_register(fab_verbs_domain_t *dom, const void *buf, size_t len,
                              unsigned access);

/* ---- verbs_tm_test.c: the self-test of matching hardware ---- */

/*
 * Has the device's tag matching done what it should, with messages of this process to itself?
 * NULL, or what went wrong: it is not to be used.  no_rndv, if not NULL: rendezvous are tried, too;
 * *no_rndv: what went wrong with them alone.  Takes some milliseconds; a second at most if the
 * device does not answer.  max_tags, max_ops: limits of the device.
 */
const char *fab_verbs_tm_test(fab_verbs_domain_t *dom, uint32_t max_tags, uint32_t max_ops,
                              const char **no_rndv);

/* ---- verbs_gid.c: GIDs of RoCE ports ---- */

/*
 * Choose among the port's GIDs, or take the user's; fills gid_index and, of port_addr, gid and
 * gid_type.  NULL, or why there is none.
 */
const char *fab_verbs_gid_choose(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t port);

/* ---- verbs_tm.c: matching hardware ---- */

enum {
    /* places beyond the list's length: for receives that are off the list and not yet delivered */
    FAB_VERBS_TM_SPARE = FAB_VERBS_BATCH,
    FAB_VERBS_LISTED = 2, /* in a wr_id: a listed receive, not a buffer */
};

struct fab_verbs_tm {
    struct ibv_cq_ex *cq;
    uint32_t max_tags;
    uint32_t max_ops;
    fab_verbs_pool_t pool;          /* buffers of listed receives */
    struct fab_verbs_place *places; /* all */
    struct fab_verbs_place *free_places;
    const fab_tm_user_t *user; /* NULL: no receives are listed */
    void *ctx;
    bool is_failure_reported;
    bool has_rndv; /* the device reads and answers by itself */
};

/* Where the device puts the message for a listed receive. */
typedef struct fab_verbs_place {
    struct fab_verbs_place *next; /* free */
    fab_tm_recv_t *recv;          /* matched, its data is to come */
    /* from there; NULL: it is not matched, all is there, or the sender is not known */
    fab_verbs_conn_t *conn;
    fab_reg_t *reg; /* of the user's memory; NULL: buf */
    fab_verbs_buf_t *buf;
    void *data;
    uint32_t len;
    uint32_t lkey;
    bool is_left; /* the device matched a rendezvous and left it to software */
    /* the user's bytes that an announcement overwrites: it may be longer than its message */
    unsigned char covered[sizeof(fab_rndv_t)];
} fab_verbs_place_t;

/*
 * Make the TM-SRQ and its completion queue, if the device has such and the user wants it.  False:
 * use plain ones.
 */
bool fab_verbs_tm_open(fab_verbs_domain_t *dom);
/* Free the rest, after the queues have been destroyed. */
void fab_verbs_tm_close(fab_verbs_domain_t *dom);
bool fab_verbs_tm_use(fab_domain_t *dom, const fab_tm_user_t *user, void *ctx,
                      fab_tm_device_t *device);
/* May no buffers be given to the device now? */
bool fab_verbs_tm_must_hold(const fab_verbs_domain_t *dom);
/* Has the device begun to receive on this connection what it has not completed? */
bool fab_verbs_tm_is_receiving(const fab_verbs_conn_t *conn);
/*
 * The QPs of the connection are destroyed: what the device began to receive on them and did not
 * complete is lost.
 */
void fab_verbs_tm_conn_gone(fab_verbs_conn_t *conn);
/* Messages may be lost in it: the device is not used any more. */
void fab_verbs_tm_broke(fab_verbs_domain_t *dom, const char *why);

/* ---- verbs_port.c ---- */

/*
 * What this port's address is; fills gid_index, pkey_index and port_addr.  NULL, or why the port
 * cannot be used.
 */
const char *fab_verbs_port_look_at(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                                   const struct ibv_port_attr *port);

/* Use this port: opens the device; fills all that the port tells.  NULL, or why it cannot be. */
const char *fab_verbs_port_use(fab_verbs_domain_t *dom, struct ibv_device *device, uint8_t num);

/* ---- verbs_srq.c: the shared receive queue ---- */

/* NULL, or why there is none. */
const char *fab_verbs_srq_open(fab_verbs_domain_t *dom);
/* A new connection: the window for its peer.  False: no buffers are left, and it is iWARP. */
bool fab_verbs_srq_grant(fab_verbs_conn_t *conn);
/* If its peer is busy: a larger window, if there are buffers, which the next CREDIT tells. */
void fab_verbs_srq_follow(fab_verbs_conn_t *conn);
/* Give the collected buffers back to the SRQ, if it may have them now. */
void fab_verbs_srq_repost(fab_verbs_domain_t *dom);

/* Buffers of so many bytes could not be made (errno): the reason. */
const char *fab_verbs_no_bufs(const fab_verbs_domain_t *dom, size_t size);

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

/* ---- verbs_alive.c: events of the device, and whether peers live ---- */

void fab_verbs_async(fab_verbs_domain_t *dom);
void fab_verbs_tick(fab_verbs_domain_t *dom, uint64_t now);

/* ---- verbs_op.c: the end of a get or put ---- */

/* To the operations of this endpoint that have more to post: they are posted in progress. */
void fab_verbs_op_append(fab_verbs_ep_t *ep, fab_verbs_op_t *op);
/* The first of these, taken from them. */
fab_verbs_op_t *fab_verbs_op_take(fab_verbs_ep_t *ep);
/* The endpoint enters its domain's list of those with operations to post, and leaves it. */
void fab_verbs_ops_list(fab_verbs_ep_t *ep);
void fab_verbs_ops_unlist(fab_verbs_ep_t *ep);

/* A READ or WRITE of len bytes ended, on a connection of this endpoint; NULL: it lingers. */
void fab_verbs_op_landed(fab_verbs_op_t *op, fab_verbs_ep_t *ep, uint32_t len, int status);
/*
 * No more of it will be posted, and nothing is in flight: its owner hears of it once its shares
 * have ended, too.
 */
void fab_verbs_op_end(fab_verbs_op_t *op);
/* A share that a rail has not read: the endpoint that it helps reads it. */
void fab_verbs_op_give_back(fab_verbs_op_t *share, fab_verbs_ep_t *main);

/* ---- verbs_domain.c ---- */

/* A new domain, of the first port if first is NULL; NULL: no memory. */
fab_verbs_domain_t *fab_verbs_domain_alloc(fab_t *fab, fab_verbs_domain_t *first);
/* Of its device, once that is known: protection domain, cache. NULL, or why not. */
const char *fab_verbs_domain_prepare(fab_verbs_domain_t *dom);
/* Queues and buffers are needed: make them, if that was not done. NULL, or why that cannot be. */
const char *fab_verbs_start(fab_verbs_domain_t *dom);
/* Free a domain without connections and endpoints. */
void fab_verbs_domain_free(fab_verbs_domain_t *dom);

/* Completions end a sleep, see fab_sleep(): watched with the sockets, as soon as both exist. */
void fab_verbs_sleep_watch(fab_verbs_domain_t *dom);
/*
 * The next completion is an event.  What came before is not: poll once more.  False: there is
 * nothing to arm.
 */
bool fab_verbs_sleep_arm(fab_verbs_domain_t *dom);
/* Take the events. */
void fab_verbs_sleep_disarm(fab_verbs_domain_t *dom);

/* ---- verbs_conn.c ---- */

/* Make the QPs, in state INIT: their numbers go to the peer. NULL: *why. */
fab_verbs_conn_t *fab_verbs_conn_open(fab_verbs_ep_t *ep, const char **why);
void fab_verbs_set_path(fab_verbs_ep_t *ep, fab_verbs_path_t path);
/* A work request on its QP number is complete, and with it all before it. */
void fab_verbs_conn_complete(fab_verbs_conn_t *conn, const struct ibv_wc *wc);
/*
 * Drain the connection: the device may have begun to receive a message, or received one that was
 * not polled. Stops the QPs and waits until all their completions have been seen; destroying a QP
 * earlier would discard its completions, and the receive buffers with them. Called repeatedly;
 * true: the connection can be destroyed.
 */
bool fab_verbs_conn_drain(fab_verbs_conn_t *conn, uint64_t now);
/* Destroy it at once. Its operations end with this status. */
void fab_verbs_conn_destroy(fab_verbs_conn_t *conn, int status);
/* The endpoint is done with its connection: one that was used lingers, else it is destroyed. */
void fab_verbs_conn_release(fab_verbs_ep_t *ep);
/* Detach it from its endpoint; it ends when all messages on it are delivered. */
void fab_verbs_conn_linger(fab_verbs_conn_t *conn);
void fab_verbs_conn_end_lingering(fab_verbs_domain_t *dom, uint64_t now);

/* ---- verbs_ports.c ---- */

/* An endpoint with this address, which is sound; in dom->eps.  NULL: there is no memory. */
fab_verbs_ep_t *fab_verbs_ep_new(fab_verbs_domain_t *dom, fab_peer_t *peer,
                                 const fab_verbs_addr_t *addr, uint32_t pair, uint8_t remote);
/* The first pair from this one on without a flaw, and its ports.  NULL, or the last one's flaw. */
const char *fab_verbs_pair_find(const fab_verbs_domain_t *first, uint64_t name,
                                const fab_verbs_addr_t *addr, uint32_t *pair, uint8_t *own,
                                uint8_t *remote);
/* This process's port with this index, which is opened if it is not yet.  NULL: *why. */
fab_verbs_domain_t *fab_verbs_port_domain(fab_verbs_domain_t *first, uint8_t index,
                                          const char **why);
/*
 * The first pair of ports from this one on that has no flaw, and whose port here can be opened:
 * the domain of that.  NULL: there is none, and *why.
 */
fab_verbs_domain_t *fab_verbs_ports_choose(fab_verbs_domain_t *first, uint64_t name,
                                           const fab_verbs_addr_t *addr, uint32_t *pair,
                                           uint8_t *remote, const char **why);

/* ---- verbs_evict.c ---- */

/* Is nothing under way on it but messages, which will be delivered? */
bool fab_verbs_is_idle(const fab_verbs_conn_t *conn);
/* So many connections more are to be made: of what is too many then, give up idle ones. */
void fab_verbs_make_room(fab_verbs_domain_t *first, uint32_t more);

/* ---- verbs_connect.c: the making of a session's path ---- */

enum {
    /* limit for connection requests under way at a time: each takes a file descriptor */
    FAB_VERBS_MAX_ASKING = 64,
};

/* Ask for connections, as many at a time as may be. */
void fab_verbs_connect_waiting(fab_verbs_domain_t *dom);
/* Leave the queue of those that wait, or are probed. */
void fab_verbs_stop_waiting(fab_verbs_ep_t *ep);
void fab_verbs_release_sock(fab_verbs_ep_t *ep);
/* Drop all that is under way: socket, place in the queue, what was noted. */
void fab_verbs_connect_cancel(fab_verbs_ep_t *ep);
/* HELLO is about to be sent, perhaps again. */
void fab_verbs_on_proven(fab_sock_t *sock, void *frame);
/* It has a connection that is not used, if need be a new one.  NULL, or why not. */
const char *fab_verbs_conn_prepare(fab_verbs_ep_t *ep);
/* The QPs of the asked side are ready: say so. */
void fab_verbs_welcome(fab_verbs_ep_t *ep);

/* ---- verbs_rails.c ---- */

/* Give each rail of the endpoint, if it can be used, a share of this get, which is not queued. */
void fab_verbs_rails_share(fab_verbs_ep_t *ep, fab_verbs_op_t *op);
/* The rail that the peer asks for.  NULL: there is no such one, or no more. */
fab_verbs_ep_t *fab_verbs_rail_asked(fab_verbs_ep_t *ep, uint32_t pair);
/* End its connection.  False: what is in flight has not ended yet, call it again. */
bool fab_verbs_rail_stop(fab_verbs_ep_t *rail, uint64_t now);
/* It is not used any more. */
void fab_verbs_rail_failed(fab_verbs_ep_t *rail, const char *why);
/*
 * The peer's connection ends, or moves: its rails are not used any more.  What they have not begun
 * is given back, what is under way goes on.
 */
void fab_verbs_rails_end(fab_verbs_ep_t *ep);
/* The same, and nothing goes on.  False: it has not ended yet, call it again. */
bool fab_verbs_rails_drain(fab_verbs_ep_t *ep, uint64_t now);

/* ---- verbs_rma.c: get and put: READs and WRITEs in steps ---- */

int fab_verbs_rma(fab_rma_t *op);
int fab_verbs_rma_progress(fab_verbs_domain_t *dom);
/* End all operations, of which none is posted, so that their callers send messages instead. */
void fab_verbs_rma_refuse(fab_verbs_ep_t *ep);
/* End all operations that are not posted, and release what the peer may reach. */
void fab_verbs_rma_drop(fab_verbs_ep_t *ep);

/* ---- verbs_ep.c: endpoints: what the provider does for one peer ---- */

extern const fab_ops_t fab_verbs_ops;

int fab_verbs_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_verbs_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_verbs_drop(fab_domain_t *dom, fab_peer_t *peer);
void **fab_verbs_spare(const fab_peer_t *peer);
fab_moves_t fab_verbs_asked_by_later(fab_peer_t *peer);
void fab_verbs_ask_owed(fab_peer_t *peer);
/* Free it and all that it owns but its connection, which is gone already. */
void fab_verbs_ep_free(fab_verbs_ep_t *ep);
/* This process is done with the peer: free the endpoint and the record. */
void fab_verbs_ep_finish(fab_verbs_ep_t *ep);
/* BYEs that wait are taken if all answers of the peers' devices have arrived. */
void fab_verbs_ep_end_ending(fab_verbs_domain_t *dom, uint64_t now);
/* One of the provider's own messages came. */
void fab_verbs_ep_on_control(fab_verbs_ep_t *ep, uint8_t id, uint32_t app_ctx);
/* The session takes the BYE that waits. */
void fab_verbs_ep_take_bye(fab_verbs_ep_t *ep);

static inline void fab_verbs_forget_late_bye(fab_verbs_ep_t *ep)
{
    ep->dom->num_ending -= 0 != ep->late_bye;
    ep->late_bye = FAB_SES_BYE_NONE;
}

/* ---- verbs_move.c ---- */

/* The peer asks by another pair of ports than the present one.  Takes the socket. */
void fab_verbs_move_asked_by(fab_verbs_ep_t *ep, fab_sock_t *sock, const fab_verbs_frame_t *hello);
/* Do what is due of what was noted (verbs_fail.c).  Returns the number of endpoints. */
int fab_verbs_settle(fab_verbs_domain_t *dom);

/* ---- verbs_answer.c: sessions, and what they hear ---- */

extern const fab_ses_ops_t fab_verbs_ses_ops;

/* Go on with those whose step in a thread has ended. */
void fab_verbs_connect_resolved(fab_verbs_domain_t *dom);
/* Of those that are being probed: see whose packet has passed, or will not. */
void fab_verbs_connect_probed(fab_verbs_domain_t *dom);

/* What the sockets (verbs_oob.c) report. */
void fab_verbs_on_frame(fab_sock_t *sock, const void *frame);
void fab_verbs_on_broken(fab_sock_t *sock, const char *why);

/* ---- verbs_recv.c: what is done with messages that came ---- */

/* A message came into a receive buffer: deliver it, collect the buffer. */
void fab_verbs_on_recv(fab_verbs_domain_t *dom, const struct ibv_wc *wc);
/* The device matched a message of this connection: at the first completion of one or two. */
void fab_verbs_on_matched(fab_verbs_conn_t *conn);
/* A count of credits came outside of a header. */
void fab_verbs_take_credits(fab_verbs_conn_t *conn, uint16_t taken);

/* ---- verbs_oob.c ---- */

/*
 * Listen; fills ips and num_ips of dom->addr. Also watches the device's events. NULL, or why that
 * cannot be.
 */
const char *fab_verbs_oob_open(fab_verbs_domain_t *dom);
void fab_verbs_oob_close(fab_verbs_domain_t *dom);

int fab_verbs_oob_poll(fab_verbs_domain_t *dom);

/* ---- verbs_tm_poll.c: completions of matching hardware ---- */

/* Poll and handle completions; at most a batch. */
int fab_verbs_tm_poll(fab_verbs_domain_t *dom);

/* ---- verbs_device.c: which port of which device is used ---- */

/*
 * Choose device, port and GID; opens the device. Fills ctx, device, port, port_num, gid_index,
 * name, and what the port tells of addr. NULL, or why there is none.
 */
const char *fab_verbs_device_open(fab_verbs_domain_t *dom);

/*
 * How near the device is to this process, larger is nearer (verbs_near.h), and of how many parts
 * that the machine is divided into one holds both; asked only if there is a choice.  NULL, as at
 * first: all are equally near.
 */
extern int (*fab_verbs_near)(const char *device, uint32_t *parts);

/* ---- verbs_progress.c: one progress call ---- */

int fab_verbs_progress(fab_domain_t *dom);
/* A sleep has ended, by something that came. */
void fab_verbs_is_awake(fab_domain_t *dom);
int fab_verbs_poll_send(fab_verbs_domain_t *dom);

/* ---- verbs_provider.c: the provider's table ---- */

extern const fab_provider_t fab_verbs_provider;

#endif /* FAB_VERBS_H */
