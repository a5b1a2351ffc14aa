/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets for connection set-up: listening, connecting, whole frames in and out.
 *
 * A socket that is done with is marked dead and freed at the end of the poll: events for it may be
 * in the same batch.
 */
#include "verbs/verbs_oob.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/verbs_cm.h"

enum {
    FAB_VERBS_EVENTS = 64, /* of one epoll_wait() */
    /* connections that the kernel keeps while this process computes */
    FAB_VERBS_BACKLOG = 1024,
    FAB_VERBS_ATTEMPT_US = 5000000,       /* for one IP address, if there are others */
    FAB_VERBS_LAST_ATTEMPT_US = 60000000, /* for the last */
    /* until a host that went down is noticed: this, and three probes of 10 s */
    FAB_VERBS_KEEPALIVE_S = 30,
};

struct fab_verbs_oob {
    int epoll;
    int listener;
    fab_verbs_sock_t *socks;
    bool has_dead;
};

/* ---- sockets ------------------------------------------------------------ */

static fab_verbs_sock_t *fab_verbs_sock_new(fab_verbs_domain_t *dom)
{
    fab_verbs_sock_t *sock = calloc(1, sizeof(*sock));

    if (NULL == sock) {
        return NULL;
    }
    sock->dom = dom;
    sock->fd = -1;
    sock->next = dom->oob->socks;
    sock->prev = &dom->oob->socks;
    if (NULL != sock->next) {
        sock->next->prev = &sock->next;
    }
    dom->oob->socks = sock;
    dom->num_sockets++;
    return sock;
}

static void fab_verbs_sock_free(fab_verbs_sock_t *sock)
{
    *sock->prev = sock->next;
    if (NULL != sock->next) {
        sock->next->prev = sock->prev;
    }
    if (sock->fd >= 0) {
        close(sock->fd); /* and out of the epoll set */
    }
    sock->dom->num_sockets--;
    free(sock);
}

static void fab_verbs_sock_kill(fab_verbs_sock_t *sock)
{
    sock->is_dead = true;
    sock->dom->oob->has_dead = true;
}

static void fab_verbs_sock_watch(fab_verbs_sock_t *sock, int op)
{
    bool wants_out = sock->is_connecting || sock->out_done < sock->out_len;
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = sock};

    (void) epoll_ctl(sock->dom->oob->epoll, op, sock->fd, &event);
}

/* A host that goes down is noticed; small frames go at once. */
static void fab_verbs_sock_options(int fd)
{
    int one = 1, idle = FAB_VERBS_KEEPALIVE_S, interval = 10, probes = 3;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* ---- connecting --------------------------------------------------------- */

static const uint8_t fab_verbs_v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool fab_verbs_ip_is_v4(const uint8_t *ip)
{
    return 0 == memcmp(ip, fab_verbs_v4_prefix, sizeof(fab_verbs_v4_prefix));
}

socklen_t fab_verbs_sockaddr(const uint8_t *ip, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *) out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) out;

    memset(out, 0, sizeof(*out));
    if (fab_verbs_ip_is_v4(ip)) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, ip + 12, 4);
        return sizeof(*v4);
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, ip, 16);
    return sizeof(*v6);
}

/* Try the socket's current IP address. 0, or errno. */
static int fab_verbs_sock_attempt(fab_verbs_sock_t *sock)
{
    struct sockaddr_storage to;
    const uint8_t *ip = sock->ips[sock->ip_at];
    socklen_t len = fab_verbs_sockaddr(ip, sock->port, &to);
    bool is_last = sock->ip_at + 1 == sock->num_ips;

    sock->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sock->fd < 0) {
        return errno;
    }
    fab_verbs_sock_options(sock->fd);
    sock->is_connecting = true;
    sock->out_done = 0;
    sock->in_len = 0;
    sock->deadline = fab_verbs_now_us() +
                     (is_last ? FAB_VERBS_LAST_ATTEMPT_US : FAB_VERBS_ATTEMPT_US);
    if (0 != connect(sock->fd, (struct sockaddr *) &to, len) && EINPROGRESS != errno) {
        int error = errno;
        close(sock->fd);
        sock->fd = -1;
        return error;
    }
    fab_verbs_sock_watch(sock, EPOLL_CTL_ADD);
    return 0;
}

static void fab_verbs_sock_broken(fab_verbs_sock_t *sock)
{
    char why[256], text[INET6_ADDRSTRLEN] = "its address";
    const uint8_t *ip = sock->ips[sock->ip_at < sock->num_ips ? sock->ip_at : 0];
    bool is_v4 = fab_verbs_ip_is_v4(ip);

    if (0 == sock->num_ips) {
        snprintf(why, sizeof(why), "It ended while the connection was being made.");
    } else {
        (void) inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip + 12 : ip, text, sizeof(text));
        snprintf(
            why, sizeof(why),
            "No connection to it could be made over TCP (%s, port %u: %s): has its process ended?",
            text, sock->port,
            0 != sock->error ? strerror(sock->error) : "closed without an answer");
    }
    fab_verbs_on_broken(sock, why);
}

void fab_verbs_oob_try_next(fab_verbs_sock_t *sock)
{
    if (sock->fd >= 0) {
        close(sock->fd);
        sock->fd = -1;
    }
    while (sock->is_asking && sock->ip_at + 1 < sock->num_ips) {
        sock->ip_at++;
        int error = fab_verbs_sock_attempt(sock);
        if (0 == error) {
            return;
        }
        sock->error = error;
    }
    fab_verbs_sock_broken(sock);
}

/*
 * The same host is reached through its loopback device first: no other address is more certain to
 * work.
 */
static void fab_verbs_sock_addresses(fab_verbs_sock_t *sock, const fab_verbs_ep_t *ep)
{
    static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};

    sock->port = ep->addr.port;
    if (ep->is_local) {
        memcpy(sock->ips[sock->num_ips++], loopback, sizeof(loopback));
    }
    for (int i = 0; i < ep->addr.num_ips; i++) {
        memcpy(sock->ips[sock->num_ips++], ep->addr.ips[i], 16);
    }
}

fab_verbs_sock_t *fab_verbs_oob_connect(fab_verbs_ep_t *ep, const fab_verbs_frame_t *frame)
{
    fab_verbs_sock_t *sock = fab_verbs_sock_new(ep->dom);
    int error;

    if (NULL == sock) {
        return NULL;
    }
    sock->ep = ep;
    sock->is_asking = true;
    sock->out = *frame;
    sock->out_len = sizeof(*frame);
    fab_verbs_sock_addresses(sock, ep);
    error = fab_verbs_sock_attempt(sock);
    if (EMFILE == error || ENFILE == error || ENOBUFS == error || ENOMEM == error) {
        fab_verbs_sock_free(sock);
        return NULL;
    }
    if (0 != error) {
        sock->error = error;
        sock->deadline = 0; /* at the next poll, outside of the caller */
    }
    return sock;
}

/* ---- frames ------------------------------------------------------------- */

static void fab_verbs_sock_failed(fab_verbs_sock_t *sock, int error)
{
    sock->error = error;
    if (sock->is_closing) {
        fab_verbs_sock_kill(sock);
    } else {
        fab_verbs_oob_try_next(sock);
    }
}

static void fab_verbs_sock_write(fab_verbs_sock_t *sock)
{
    while (sock->out_done < sock->out_len) {
        ssize_t n = send(sock->fd, (char *) &sock->out + sock->out_done,
                         sock->out_len - sock->out_done, MSG_NOSIGNAL);
        if (n < 0 && EINTR == errno) {
            continue;
        }
        if (n < 0 && EAGAIN == errno) {
            break;
        }
        if (n < 0) {
            fab_verbs_sock_failed(sock, errno);
            return;
        }
        sock->out_done += (size_t) n;
    }
    if (sock->is_closing && sock->out_done == sock->out_len) {
        fab_verbs_sock_kill(sock);
        return;
    }
    fab_verbs_sock_watch(sock, EPOLL_CTL_MOD);
}

static void fab_verbs_sock_connected(fab_verbs_sock_t *sock)
{
    int error = 0;
    socklen_t len = sizeof(error);

    (void) getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (0 != error) {
        fab_verbs_sock_failed(sock, error);
        return;
    }
    sock->is_connecting = false;
    fab_verbs_sock_write(sock);
}

/* A whole frame is there. */
static void fab_verbs_sock_deliver(fab_verbs_sock_t *sock)
{
    fab_verbs_frame_t frame = sock->in;

    sock->is_deferred = false;
    sock->in_len = 0;
    fab_verbs_on_frame(sock, &frame);
}

static void fab_verbs_sock_read(fab_verbs_sock_t *sock)
{
    while (!sock->is_dead && !sock->is_closing && !sock->is_deferred && !sock->is_connecting &&
           sock->fd >= 0) {
        ssize_t n = recv(sock->fd, (char *) &sock->in + sock->in_len,
                         sizeof(sock->in) - sock->in_len, 0);
        if (n < 0 && EINTR == errno) {
            continue;
        }
        if (n < 0 && EAGAIN == errno) {
            return;
        }
        if (n <= 0) {
            fab_verbs_sock_failed(sock, n < 0 ? errno : 0);
            return;
        }
        sock->in_len += (size_t) n;
        if (sizeof(sock->in) == sock->in_len) {
            fab_verbs_sock_deliver(sock);
        }
    }
}

void fab_verbs_oob_send(fab_verbs_sock_t *sock, const fab_verbs_frame_t *frame)
{
    ssize_t n;

    sock->out = *frame;
    sock->out_len = sizeof(*frame);
    n = send(sock->fd, &sock->out, sock->out_len, MSG_NOSIGNAL);
    sock->out_done = n > 0 ? (size_t) n : 0;
    fab_verbs_sock_watch(sock, EPOLL_CTL_MOD); /* which tells of errors, too: no upcall from here */
}

bool fab_verbs_oob_is_open(const fab_verbs_sock_t *sock)
{
    char next;
    ssize_t n = recv(sock->fd, &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT);

    return n > 0 || (n < 0 && (EAGAIN == errno || EINTR == errno));
}

void fab_verbs_oob_release(fab_verbs_sock_t *sock)
{
    sock->ep = NULL;
    sock->is_closing = true;
    if (sock->is_connecting || sock->fd < 0 || sock->out_done == sock->out_len) {
        fab_verbs_sock_kill(sock);
    }
}

/* ---- polling ------------------------------------------------------------ */

static void fab_verbs_oob_accept(fab_verbs_domain_t *dom)
{
    for (;;) {
        int fd = accept4(dom->oob->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        fab_verbs_sock_t *sock;
        if (fd < 0) {
            return; /* none, or no file descriptor now: it stays in the backlog */
        }
        sock = fab_verbs_sock_new(dom);
        if (NULL == sock) {
            close(fd);
            return;
        }
        fab_verbs_sock_options(fd);
        sock->fd = fd;
        fab_verbs_sock_watch(sock, EPOLL_CTL_ADD);
    }
}

static void fab_verbs_sock_event(fab_verbs_sock_t *sock, uint32_t events)
{
    if (sock->is_dead || sock->fd < 0) {
        return;
    }
    if (sock->is_connecting) {
        if (0 != (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
            fab_verbs_sock_connected(sock);
        }
        return;
    }
    if (sock->out_done < sock->out_len) {
        fab_verbs_sock_write(sock);
    }
    fab_verbs_sock_read(sock);
}

/* Attempts that take too long, and frames that could not be dealt with before. */
static void fab_verbs_oob_look_after(fab_verbs_domain_t *dom)
{
    uint64_t now = fab_verbs_now_us();

    for (fab_verbs_sock_t *sock = dom->oob->socks; NULL != sock; sock = sock->next) {
        if (sock->is_dead) {
            continue;
        }
        if (sock->is_deferred) {
            fab_verbs_sock_deliver(sock);
        } else if ((sock->is_connecting || sock->fd < 0) && now > sock->deadline) {
            sock->error = 0 != sock->error ? sock->error : ETIMEDOUT;
            fab_verbs_oob_try_next(sock);
        }
    }
}

static void fab_verbs_oob_bury(fab_verbs_domain_t *dom)
{
    fab_verbs_sock_t *next;

    dom->oob->has_dead = false;
    for (fab_verbs_sock_t *sock = dom->oob->socks; NULL != sock; sock = next) {
        next = sock->next;
        if (sock->is_dead) {
            fab_verbs_sock_free(sock);
        }
    }
}

int fab_verbs_oob_poll(fab_verbs_domain_t *dom)
{
    struct epoll_event events[FAB_VERBS_EVENTS];
    int n = epoll_wait(dom->oob->epoll, events, FAB_VERBS_EVENTS, 0);

    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == dom->oob) {
            fab_verbs_oob_accept(dom);
        } else if (events[i].data.ptr == dom) {
            fab_verbs_async(dom);
        } else {
            fab_verbs_sock_event(events[i].data.ptr, events[i].events);
        }
    }
    if (NULL != dom->cm) {
        n = (n > 0 ? n : 0) + fab_verbs_cm_poll(dom);
    }
    if (dom->num_sockets > 0) {
        fab_verbs_oob_look_after(dom);
    }
    if (dom->oob->has_dead) {
        fab_verbs_oob_bury(dom);
    }
    return n > 0 ? n : 0;
}

/* ---- open and close ----------------------------------------------------- */

static bool fab_verbs_addr_has(const fab_verbs_addr_t *addr, const uint8_t *ip)
{
    for (int i = 0; i < addr->num_ips; i++) {
        if (0 == memcmp(addr->ips[i], ip, 16)) {
            return true;
        }
    }
    return false;
}

static void fab_verbs_addr_add(fab_verbs_addr_t *addr, const uint8_t *ip)
{
    if (addr->num_ips < FAB_VERBS_IPS && !fab_verbs_addr_has(addr, ip)) {
        memcpy(addr->ips[addr->num_ips++], ip, 16);
    }
}

bool fab_verbs_ip_of(const struct sockaddr *sa, uint8_t *ip)
{
    if (NULL != sa && AF_INET == sa->sa_family) {
        memcpy(ip, fab_verbs_v4_prefix, sizeof(fab_verbs_v4_prefix));
        memcpy(ip + 12, &((const struct sockaddr_in *) sa)->sin_addr, 4);
        return true;
    }
    if (NULL != sa && AF_INET6 == sa->sa_family) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *) sa)->sin6_addr;
        memcpy(ip, in6, 16);
        return !IN6_IS_ADDR_LINKLOCAL(in6);
    }
    return false;
}

/*
 * Bridges of containers and virtual machines have the same addresses on all hosts: only if there is
 * nothing else.
 */
static bool fab_verbs_is_bridge(const char *name)
{
    return 0 == strncmp(name, "docker", 6) || 0 == strncmp(name, "virbr", 5) ||
           0 == strncmp(name, "br-", 3) || 0 == strncmp(name, "veth", 4) ||
           0 == strncmp(name, "cni", 3);
}

/*
 * Where this process can be reached, the best first: the GID of a RoCE port, if it is an IP
 * address; the addresses of interfaces, IPv4 first; bridges; loopback.
 */
static void fab_verbs_oob_own_ips(fab_verbs_domain_t *dom)
{
    struct ifaddrs *all = NULL;
    uint8_t ip[16];

    dom->addr.num_ips = 0;
    if (IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer && fab_verbs_ip_is_v4(dom->addr.gid)) {
        fab_verbs_addr_add(&dom->addr, dom->addr.gid);
    }
    (void) getifaddrs(&all);
    for (int pass = 0; pass < 6; pass++) {
        bool wants_v4 = 0 == pass % 2;
        for (struct ifaddrs *at = all; NULL != at; at = at->ifa_next) {
            int class = 0 != (at->ifa_flags & IFF_LOOPBACK) ? 2
                        : fab_verbs_is_bridge(at->ifa_name) ? 1
                                                            : 0;
            if (0 != (at->ifa_flags & IFF_UP) && class == pass / 2 &&
                fab_verbs_ip_of(at->ifa_addr, ip) && fab_verbs_ip_is_v4(ip) == wants_v4) {
                fab_verbs_addr_add(&dom->addr, ip);
            }
        }
    }
    freeifaddrs(all);
}

/* A socket that listens to IPv6 and IPv4, or to IPv4 where there is no IPv6. -1: errno. */
static int fab_verbs_listen(uint16_t *port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    int zero = 0;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
        if (0 != bind(fd, (struct sockaddr *) &v6, sizeof(v6))) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd >= 0 && 0 != bind(fd, (struct sockaddr *) &v4, sizeof(v4))) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0 && (0 != listen(fd, FAB_VERBS_BACKLOG) ||
                    0 != getsockname(fd, (struct sockaddr *) &bound, &len))) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        *port = ntohs(AF_INET6 == bound.ss_family ? ((struct sockaddr_in6 *) &bound)->sin6_port
                                                  : ((struct sockaddr_in *) &bound)->sin_port);
    }
    return fd;
}

static int fab_verbs_oob_watch(fab_verbs_domain_t *dom, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    return epoll_ctl(dom->oob->epoll, EPOLL_CTL_ADD, fd, &event);
}

int fab_verbs_oob_open(fab_verbs_domain_t *dom, const char **why)
{
    fab_verbs_oob_t *oob = calloc(1, sizeof(*oob));

    if (NULL == oob) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    dom->oob = oob;
    oob->epoll = epoll_create1(EPOLL_CLOEXEC);
    oob->listener = fab_verbs_listen(&dom->addr.port);
    if (oob->epoll < 0 || oob->listener < 0 || 0 != fab_verbs_oob_watch(dom, oob->listener, oob) ||
        0 != fab_verbs_oob_watch(dom, dom->ctx->async_fd, dom)) {
        *why = fab_sentence(dom->fab, "No TCP socket can be opened to set connections up: %s.",
                            strerror(errno));
        fab_verbs_oob_close(dom);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    fab_verbs_oob_own_ips(dom);
    if (0 == dom->addr.num_ips) {
        *why = "This host has no IP address, over which connections could be set up.";
        fab_verbs_oob_close(dom);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    return OPAL_SUCCESS;
}

void fab_verbs_oob_close(fab_verbs_domain_t *dom)
{
    fab_verbs_oob_t *oob = dom->oob;

    if (NULL == oob) {
        return;
    }
    while (NULL != oob->socks) {
        fab_verbs_sock_free(oob->socks);
    }
    if (oob->listener >= 0) {
        close(oob->listener);
    }
    if (oob->epoll >= 0) {
        close(oob->epoll);
    }
    free(oob);
    dom->oob = NULL;
}
