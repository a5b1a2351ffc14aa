/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_cm, for iWARP (verbs_cm.h): one event channel and one listener for the domain, an id for
 * each connection.
 *
 * Ids know QPs by number: the QP is the domain's, in the domain's context, not rdma_cm's.  An id
 * that is done with is destroyed, and with it the events that are still to come; so the connection
 * in id->context is there whenever an event is read.
 *
 * The kernel gives the answering side some seconds to accept (five in Soft-iWARP), and its program
 * may be computing.  So the asking side tries again, as long as its TCP connection to that process
 * stands: a request is always waiting there. A QP whose attempt failed cannot be used again: the
 * connection gets another one.
 *
 * rdma_connect() may wait for the network: Soft-iWARP makes its TCP connection in it.  So it is
 * called in a thread (verbs_resolve.c), and an id that is in it is not destroyed.  An id whose peer
 * was asked is not destroyed either until there is an answer, as the kernel would wait for it then
 * (destroy_cm_id()).  All else is under the fabric's lock.
 */
#include "verbs/verbs_cm.h"

#ifdef FAB_HAVE_RDMACM

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "verbs/verbs.h"

enum {
    FAB_VERBS_CM_IPS = 64,       /* addresses of this host that are looked at */
    FAB_VERBS_CM_BACKLOG = 1024, /* requests that the kernel keeps while this process computes */
    /* ports to try: rdma_cm does not know which ones other TCP sockets use */
    FAB_VERBS_CM_BINDS = 16,
    FAB_VERBS_CM_RESOLVE_MS = 5000, /* for the kernel to find the peer's host */
    FAB_VERBS_CM_PAUSE_US = 100000, /* before the next attempt */
    FAB_VERBS_CM_PORTS = 16,        /* attempts that found their own port in use */
};

struct fab_verbs_cm {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    uint64_t again_at; /* us: when to try again what failed; 0: nothing did */
    /*
     * What came of rdma_connect() before that had returned in its thread, which takes moments only;
     * other events wait meanwhile.  id NULL: nothing did.
     */
    struct rdma_cm_event early;
};

static socklen_t cm_sockaddr(const uint8_t *gid, uint16_t port, struct sockaddr_storage *out)
{
    fab_sock_ip_t ip = {.port = port};

    memcpy(ip.ip, gid, sizeof(ip.ip));
    return fab_sock_ip_sockaddr(&ip, out);
}

/* ---- finding the interface ---------------------------------------------- */

/* Does rdma_cm use this port for that IP address? */
static bool cm_binds(struct rdma_event_channel *channel, const char *device, uint8_t port,
                     struct sockaddr *sa)
{
    struct rdma_cm_id *id;
    bool is_it;

    if (0 != rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
        return false;
    }
    is_it = 0 == rdma_bind_addr(id, sa) && NULL != id->verbs && port == id->port_num &&
            0 == strcmp(device, ibv_get_device_name(id->verbs->device));
    (void) rdma_destroy_id(id);
    return is_it;
}

static const char *cm_find_ip(struct ibv_context *ctx, uint8_t port, uint8_t *ip)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    fab_sock_ip_t ips[FAB_VERBS_CM_IPS];
    bool is_found = false;

    if (NULL == channel) {
        return "iWARP needs rdma_cm, which the kernel does not offer here "
               "(/dev/infiniband/rdma_cm, module rdma_ucm)";
    }
    int num = fab_sock_own_ips(fab_params.verbs_networks, NULL, ips, FAB_VERBS_CM_IPS);
    for (int i = 0; i < num && !is_found; i++) {
        struct sockaddr_storage sa;
        (void) cm_sockaddr(ips[i].ip, 0, &sa);
        if (cm_binds(channel, ibv_get_device_name(ctx->device), port, (struct sockaddr *) &sa)) {
            memcpy(ip, ips[i].ip, sizeof(ips[i].ip));
            is_found = true;
        }
    }
    rdma_destroy_event_channel(channel);
    return is_found ? NULL
                    : "its network interface has no IP address (in verbs_networks), which iWARP "
                      "needs";
}

/* ---- one attempt -------------------------------------------------------- */

/* WELCOME came: this side connects.  NULL: it lingers. */
static bool is_asking(const fab_verbs_ep_t *ep)
{
    return NULL != ep && FAB_SES_TRYING == ep->ses.state && NULL == ep->failure;
}

/* WELCOME was sent: the other side connects. */
static bool is_asked(const fab_verbs_ep_t *ep)
{
    return NULL != ep && FAB_SES_ASKED == ep->ses.state;
}

static struct rdma_conn_param cm_param(const fab_verbs_conn_t *conn)
{
    return (struct rdma_conn_param){
        .responder_resources = fab_verbs_reads_served(conn->dom),
        .initiator_depth = conn->reads,
        .srq = 1,
        .qp_num = conn->qp->qp_num,
    };
}

static void cm_forget(fab_verbs_conn_t *conn)
{
    if (NULL != conn->cm_id) {
        if (conn->cm_id == conn->dom->cm->early.id) {
            conn->dom->cm->early.id = NULL;
        }
        (void) rdma_destroy_id(conn->cm_id);
        conn->cm_id = NULL;
    }
    conn->is_cm_asked = false;
    conn->is_cm_up = false;
}

static __attribute__((format(printf, 2, 3))) void cm_give_up(fab_verbs_ep_t *ep, const char *format,
                                                             ...)
{
    char what[192], text[INET6_ADDRSTRLEN] = "its address";
    struct sockaddr_storage to;
    bool is_v4 = sizeof(struct sockaddr_in) ==
                 cm_sockaddr(ep->addr.ports[0].gid, ep->addr.cm_port, &to);
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    (void) inet_ntop(to.ss_family, ep->addr.ports[0].gid + (is_v4 ? 12 : 0), text, sizeof(text));
    fab_verbs_broke(ep, OPAL_ERR_UNREACH, "%s cannot connect to it by rdma_cm (%s, port %u): %s.",
                    ep->dom->name, text, ep->addr.cm_port, what);
}

static void cm_wait(fab_verbs_conn_t *conn)
{
    fab_verbs_cm_t *cm = conn->dom->cm;

    conn->is_cm_waiting = true;
    if (0 == cm->again_at) {
        cm->again_at = fab_now_us() + FAB_VERBS_CM_PAUSE_US;
    }
}

static void cm_try_later(fab_verbs_ep_t *ep, const char *what, int error)
{
    fab_verbs_domain_t *dom = ep->dom;

    cm_forget(ep->conn);
    cm_wait(ep->conn);
    fab_log(dom->fab, 1, "%s: %s (%s); trying again", dom->name, what, strerror(error));
}

/*
 * An attempt failed within the call. An earlier connection to the same peer may still have the port
 * that the kernel chose for this one; the next attempt gets another port.
 */
static void cm_call_failed(fab_verbs_ep_t *ep, int error)
{
    bool is_port = EADDRNOTAVAIL == error || EADDRINUSE == error;

    if (is_port && ep->conn->num_cm_ports < FAB_VERBS_CM_PORTS) {
        ep->conn->num_cm_ports++;
        cm_try_later(ep, "the port of a connection is in use", error);
    } else {
        cm_give_up(ep, "%s", strerror(error));
    }
}

static void cm_connect(fab_verbs_ep_t *ep)
{
    fab_verbs_conn_t *conn = ep->conn;
    struct sockaddr_storage from, to;

    conn->is_cm_begun = true;
    (void) cm_sockaddr(ep->dom->port_addr.gid, 0, &from);
    (void) cm_sockaddr(ep->addr.ports[0].gid, ep->addr.cm_port, &to);
    if (0 != rdma_create_id(ep->dom->cm->channel, &conn->cm_id, conn, RDMA_PS_TCP)) {
        conn->cm_id = NULL;
        cm_give_up(ep, "no id: %s", strerror(errno));
    } else if (0 != rdma_resolve_addr(conn->cm_id, (struct sockaddr *) &from,
                                      (struct sockaddr *) &to, FAB_VERBS_CM_RESOLVE_MS)) {
        cm_call_failed(ep, errno);
    }
}

static void cm_addr_resolved(fab_verbs_ep_t *ep)
{
    if (0 != rdma_resolve_route(ep->conn->cm_id, FAB_VERBS_CM_RESOLVE_MS)) {
        cm_give_up(ep, "no route: %s", strerror(errno));
    }
}

/* The proof shows knowledge of the answering process's key, and is bound to this attempt. */
static void cm_prove(const uint8_t *key, fab_verbs_cm_hello_t *hello)
{
    uint8_t proof[FAB_SHA256_LEN];

    memset(hello->proof, 0, sizeof(hello->proof));
    fab_hmac(key, FAB_SOCK_KEY, hello, sizeof(*hello), proof);
    memcpy(hello->proof, proof, sizeof(hello->proof));
}

static bool cm_is_proved(const uint8_t *key, const fab_verbs_cm_hello_t *hello)
{
    fab_verbs_cm_hello_t proved = *hello;

    cm_prove(key, &proved);
    return fab_bytes_are_equal(proved.proof, hello->proof, sizeof(hello->proof));
}

/* The step that may wait, for minutes even. */
static int cm_ask(const fab_verbs_job_t *job)
{
    struct rdma_conn_param param = cm_param(job->conn);

    param.private_data = &job->hello;
    param.private_data_len = sizeof(job->hello);
    return 0 == rdma_connect(job->conn->cm_id, &param) ? 0 : errno;
}

static void cm_asked(const fab_verbs_job_t *job)
{
    fab_verbs_ep_t *ep = job->conn->ep;

    job->conn->is_cm_asked = 0 == job->error;
    if (0 != job->error && is_asking(ep)) {
        cm_call_failed(ep, job->error);
    }
}

static void cm_route_resolved(fab_verbs_ep_t *ep)
{
    fab_verbs_conn_t *conn = ep->conn;
    fab_verbs_job_t job = {
        .conn = conn,
        .hello =
            {
                .magic = FAB_VERBS_MAGIC,
                .version = FAB_VERBS_VERSION,
                .name = ep->dom->fab->config.name,
                .qpn = conn->qp->qp_num,
                .psn = conn->psn,
                .target_psn = conn->peer_psn,
            },
    };

    cm_prove(ep->addr.key, &job.hello);
    if (!fab_verbs_resolve_submit(&job)) {
        job.error = cm_ask(&job);
        cm_asked(&job);
    }
}

/* ---- answering ---------------------------------------------------------- */

/* The connection that the request is for.  NULL: there is none, or no longer. */
static fab_verbs_conn_t *cm_meant(const fab_verbs_domain_t *dom, const fab_verbs_cm_hello_t *hello)
{
    fab_verbs_ep_t *ep = LIST_FIRST(&dom->eps);

    if (FAB_VERBS_MAGIC != hello->magic || FAB_VERBS_VERSION != hello->version ||
        !cm_is_proved(dom->addr.key, hello)) {
        return NULL;
    }
    while (NULL != ep && ep->peer->name != hello->name) {
        ep = LIST_NEXT(ep, link);
    }
    if (!is_asked(ep) || ep->conn->is_cm_up || ep->conn->psn != hello->target_psn ||
        ep->conn->peer_psn != hello->psn) {
        return NULL;
    }
    return ep->conn;
}

/* The peer's attempt failed: be ready for its next one.  False: that cannot be. */
static bool cm_start_over(fab_verbs_conn_t *conn)
{
    if (OPAL_SUCCESS == fab_verbs_conn_renew(conn)) {
        return true;
    }
    fab_verbs_broke(conn->ep, OPAL_ERR_UNREACH,
                    "%s cannot make a queue pair for another attempt: %s.", conn->dom->name,
                    strerror(errno));
    return false;
}

static void cm_requested(fab_verbs_domain_t *dom, struct rdma_cm_id *id,
                         const fab_verbs_cm_hello_t *hello)
{
    fab_verbs_conn_t *conn = cm_meant(dom, hello);
    struct rdma_conn_param param;

    if (NULL == conn || (NULL != conn->cm_id && !cm_start_over(conn))) {
        (void) rdma_reject(id, NULL, 0);
        (void) rdma_destroy_id(id);
        return;
    }
    id->context = conn;
    conn->cm_id = id;
    conn->peer_qpn = hello->qpn;
    param = cm_param(conn);
    if (0 != rdma_accept(id, &param)) { /* too late: the peer has given up this attempt */
        (void) cm_start_over(conn);
    }
}

/* ---- events ------------------------------------------------------------- */

static void cm_established(fab_verbs_conn_t *conn)
{
    conn->is_cm_up = true;
    if (is_asking(conn->ep)) {
        fab_ses_path_works(&conn->ep->ses); /* the peer's QP may send when something came */
    }
}

static void cm_failed(fab_verbs_conn_t *conn, const struct rdma_cm_event *event)
{
    int error = event->status < 0 ? -event->status : ECONNREFUSED;
    fab_verbs_ep_t *ep = conn->ep;

    if (is_asked(ep)) {
        (void) cm_start_over(conn);
    } else if (is_asking(ep)) {
        bool is_late = ETIMEDOUT == error || ECONNRESET == error ||
                       RDMA_CM_EVENT_REJECTED == event->event;
        if (is_late && RDMA_CM_EVENT_ADDR_ERROR != event->event &&
            RDMA_CM_EVENT_ROUTE_ERROR != event->event) {
            /* the peer computes, or its queue of requests is full */
            cm_try_later(ep, "a peer did not accept a connection in time", error);
        } else {
            cm_give_up(ep, "%s: %s", rdma_event_str(event->event), strerror(error));
        }
    }
}

static void cm_lost(fab_verbs_conn_t *conn)
{
    if (NULL != conn->ep) {
        fab_verbs_broke(conn->ep, OPAL_ERR_PROC_ABORTED,
                        "It ended the connection (%s): its process has ended, or failed.",
                        conn->dom->name);
    }
}

/* All that came by it was taken. */
static void cm_ended(fab_verbs_conn_t *conn)
{
    if (is_asked(conn->ep)) {
        /* no word has come: it was accepted when the peer had just given up the attempt */
        (void) cm_start_over(conn);
    } else {
        conn->is_broken = true;
        cm_lost(conn);
    }
}

static void cm_disconnected(fab_verbs_conn_t *conn)
{
    if (is_asked(conn->ep)) {
        cm_wait(conn); /* the first word may be here, and not be polled yet */
    } else {
        cm_ended(conn);
    }
}

static void cm_try_again(fab_verbs_domain_t *dom)
{
    fab_verbs_ep_t *next;

    dom->cm->again_at = 0;
    for (fab_verbs_ep_t *ep = LIST_FIRST(&dom->eps); NULL != ep; ep = next) {
        next = LIST_NEXT(ep, link);
        if (NULL == ep->conn || !ep->conn->is_cm_waiting || NULL != ep->failure) {
            continue;
        }
        ep->conn->is_cm_waiting = false;
        if (!is_asking(ep)) {
            cm_ended(ep->conn);
        } else if (OPAL_SUCCESS == fab_verbs_conn_renew(ep->conn)) {
            cm_connect(ep);
        } else {
            cm_give_up(ep, "no queue pair for another attempt: %s", strerror(errno));
        }
    }
}

static void cm_event(fab_verbs_conn_t *conn, const struct rdma_cm_event *event)
{
    conn->is_cm_asked = false; /* whatever it is, it comes after the answer, or before all */
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (is_asking(conn->ep)) {
            cm_addr_resolved(conn->ep);
        }
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (is_asking(conn->ep)) {
            cm_route_resolved(conn->ep);
        }
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        cm_established(conn);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        cm_failed(conn, event);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        cm_disconnected(conn);
        break;
    default: /* of no importance; the removal of a device is an event in verbs_alive.c */
        break;
    }
}

/* False: there is none.  hello: of a request. */
static bool cm_next(fab_verbs_cm_t *cm, struct rdma_cm_event *event, fab_verbs_cm_hello_t *hello)
{
    struct rdma_cm_event *next;

    if (NULL != cm->early.id) {
        *event = cm->early;
        cm->early.id = NULL;
        return true;
    }
    if (0 != rdma_get_cm_event(cm->channel, &next)) {
        return false;
    }
    *event = *next;
    memset(hello, 0, sizeof(*hello));
    if (RDMA_CM_EVENT_CONNECT_REQUEST == event->event &&
        event->param.conn.private_data_len >= sizeof(*hello)) {
        memcpy(hello, event->param.conn.private_data, sizeof(*hello));
    }
    (void) rdma_ack_cm_event(next); /* first: destroying the id waits for it */
    return true;
}

static int cm_poll(fab_verbs_domain_t *dom)
{
    struct rdma_cm_event event;
    fab_verbs_cm_hello_t hello;
    int events = 0;

    while (cm_next(dom->cm, &event, &hello)) {
        fab_verbs_conn_t *conn = event.id->context;
        if (RDMA_CM_EVENT_CONNECT_REQUEST == event.event) {
            cm_requested(dom, event.id, &hello);
        } else if (NULL != conn && NULL != conn->job) {
            dom->cm->early = event;
            break;
        } else if (NULL != conn) { /* not the listener's */
            cm_event(conn, &event);
        }
        events++;
    }
    if (0 != dom->cm->again_at && fab_now_us() >= dom->cm->again_at) {
        cm_try_again(dom);
    }
    return events;
}

/* ---- open and close ----------------------------------------------------- */

/* 0, or -1: errno. */
static int cm_listen(fab_verbs_domain_t *dom)
{
    struct sockaddr_storage at;
    int error = 0;

    (void) cm_sockaddr(dom->port_addr.gid, 0, &at);
    for (int i = 0; i < FAB_VERBS_CM_BINDS && (0 == i || EADDRINUSE == error); i++) {
        struct rdma_cm_id *id;
        if (0 != rdma_create_id(dom->cm->channel, &id, NULL, RDMA_PS_TCP)) {
            return -1;
        }
        if (0 == rdma_bind_addr(id, (struct sockaddr *) &at) &&
            0 == rdma_listen(id, FAB_VERBS_CM_BACKLOG)) {
            dom->cm->listener = id;
            dom->addr.cm_port = ntohs(rdma_get_src_port(id));
            return 0;
        }
        error = errno;
        (void) rdma_destroy_id(id);
    }
    errno = error;
    return -1;
}

static void cm_close(fab_verbs_domain_t *dom)
{
    if (NULL == dom->cm) {
        return;
    }
    if (NULL != dom->cm->listener) {
        (void) rdma_destroy_id(dom->cm->listener);
    }
    if (NULL != dom->cm->channel) {
        rdma_destroy_event_channel(dom->cm->channel);
    }
    free(dom->cm);
    dom->cm = NULL;
}

static const char *cm_open(fab_verbs_domain_t *dom)
{
    dom->cm = calloc(1, sizeof(*dom->cm));
    if (NULL == dom->cm) {
        return "There is not enough memory.";
    }
    dom->cm->channel = rdma_create_event_channel();
    if (NULL == dom->cm->channel || 0 != fcntl(dom->cm->channel->fd, F_SETFL, O_NONBLOCK) ||
        0 != cm_listen(dom)) {
        return fab_sentence(dom->fab,
                            "%s: rdma_cm, which iWARP needs, cannot listen for connections: %s.",
                            dom->name, strerror(errno));
    }
    return NULL;
}

/* ---- the table ---------------------------------------------------------- */

static const fab_verbs_cm_ops_t cm_ops = {
    .find_ip = cm_find_ip,
    .open = cm_open,
    .close = cm_close,
    .poll = cm_poll,
    .connect = cm_connect,
    .ask = cm_ask,
    .asked = cm_asked,
    .forget = cm_forget,
    .lost = cm_lost,
};

const fab_verbs_cm_ops_t *const fab_verbs_cm_rdma = &cm_ops;

#endif
