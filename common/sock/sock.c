/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets for connection set-up: listening, connecting, proof of the job's secret, frames.
 *
 *      asking      CONNECTING ──> GREETED ──challenge──> OPEN
 *      answering   ACCEPTED ──greeting──> CHALLENGED ──first frame──> OPEN
 *
 * A released socket is marked dead and freed at the end of the poll: the same batch may have more
 * events for it.
 */
#include "sock/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_provider.h"

enum {
    FAB_SOCK_EVENTS = 64, /* of one epoll_wait() */
    /* connections that the kernel keeps while this process computes; it takes less if it must */
    FAB_SOCK_BACKLOG = 4096,
    FAB_SOCK_ATTEMPT_US = 5000000, /* for one IP address, if there are others */
    FAB_SOCK_PAUSE_US = 20000,     /* between rounds of attempts: this to eight times as much */
    /* until a host that went down is noticed: this, and three probes of 10 s */
    FAB_SOCK_KEEPALIVE_S = 30,
    FAB_SOCK_DROPS = 16, /* connections closed before the first answer, after which time counts */
};

struct fab_sock_set {
    fab_sock_user_t user;
    int epoll;
    int listener;
    uint16_t port;
    fab_sock_t *socks;
    unsigned num_socks;
    unsigned num_strangers;
    unsigned num_silent; /* of them */
    bool has_dead;
    bool has_complained; /* that connections wait for a file descriptor */
};

/* ---- sockets ------------------------------------------------------------ */

static fab_sock_t *sock_new(fab_sock_set_t *set)
{
    fab_sock_t *sock = calloc(1, sizeof(*sock));

    if (NULL == sock) {
        return NULL;
    }
    sock->set = set;
    sock->fd = -1;
    sock->next = set->socks;
    sock->prev = &set->socks;
    if (NULL != sock->next) {
        sock->next->prev = &sock->next;
    }
    set->socks = sock;
    set->num_socks++;
    return sock;
}

static bool is_stranger(const fab_sock_t *sock)
{
    return FAB_SOCK_ACCEPTED == sock->state || FAB_SOCK_CHALLENGED == sock->state;
}

static void sock_free(fab_sock_t *sock)
{
    *sock->prev = sock->next;
    if (NULL != sock->next) {
        sock->next->prev = sock->prev;
    }
    if (sock->fd >= 0) {
        close(sock->fd); /* and out of the epoll set */
    }
    sock->set->num_socks--;
    free(sock);
}

static void sock_set_silent(fab_sock_t *sock, bool is_silent)
{
    sock->set->num_silent -= sock->is_silent;
    sock->is_silent = is_silent;
    sock->set->num_silent += is_silent;
}

static void sock_set_state(fab_sock_t *sock, fab_sock_state_t state)
{
    sock_set_silent(sock, false);
    sock->set->num_strangers -= is_stranger(sock);
    sock->state = state;
    sock->set->num_strangers += is_stranger(sock);
    if (is_stranger(sock)) {
        sock->deadline = fab_now_us() + FAB_SOCK_STRANGER_US;
    }
}

static void sock_kill(fab_sock_t *sock)
{
    if (!sock->is_dead) {
        sock_set_silent(sock, false);
        sock->set->num_strangers -= is_stranger(sock);
        sock->is_dead = true;
        sock->set->has_dead = true;
    }
}

/* 0, or errno: only EPOLL_CTL_ADD can fail. */
static int sock_watch(fab_sock_t *sock, int op)
{
    bool wants_out = FAB_SOCK_CONNECTING == sock->state || sock->out_done < sock->out_len;
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = sock};

    return 0 == epoll_ctl(sock->set->epoll, op, sock->fd, &event) ? 0 : errno;
}

unsigned long fab_sock_max_files(void)
{
    struct rlimit files;

    return 0 == getrlimit(RLIMIT_NOFILE, &files) ? files.rlim_cur : 0;
}

/* As many files as the administrator allows.  False: they are allowed already. */
static bool raise_max_files(void)
{
    struct rlimit files;

    if (0 != getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == files.rlim_max) {
        return false;
    }
    files.rlim_cur = files.rlim_max;
    return 0 == setrlimit(RLIMIT_NOFILE, &files);
}

/* As socket(). */
static int sock_open(int family)
{
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd = socket(family, type, 0);

    return fd < 0 && EMFILE == errno && raise_max_files() ? socket(family, type, 0) : fd;
}

/* A host that goes down is noticed; small frames go at once. */
static void sock_options(int fd)
{
    int one = 1, idle = FAB_SOCK_KEEPALIVE_S, interval = 10, probes = 3;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void put(fab_sock_t *sock, size_t len)
{
    sock->out_len = len;
    sock->out_done = 0;
}

static void put_frame(fab_sock_t *sock, const void *frame)
{
    size_t len = sock->set->user.frame_len;

    fab_sock_seal(&sock->session, sock->is_asking ? FAB_SOCK_ASKING : FAB_SOCK_ANSWERING,
                  sock->num_out++, frame, len, &sock->out.sealed);
    put(sock, offsetof(fab_sock_sealed_t, frame) + len);
}

/* ---- connecting --------------------------------------------------------- */

/* Try the socket's current IP address. 0, or errno. */
static int sock_attempt(fab_sock_t *sock)
{
    struct sockaddr_storage to;
    socklen_t len = fab_sock_ip_sockaddr(&sock->ips[sock->ip_at], &to);
    uint64_t now = fab_now_us();
    int error = 0;

    sock->fd = sock_open(to.ss_family);
    if (sock->fd < 0) {
        return errno;
    }
    sock_options(sock->fd);
    sock_set_state(sock, FAB_SOCK_CONNECTING);
    sock->in_len = 0;
    sock->num_in = sock->num_out = 0;
    sock->deadline = sock->num_ips > 1 ? now + FAB_SOCK_ATTEMPT_US : sock->give_up;
    if (0 != connect(sock->fd, (struct sockaddr *) &to, len) && EINPROGRESS != errno) {
        error = errno;
    }
    error = 0 == error ? sock_watch(sock, EPOLL_CTL_ADD) : error;
    if (0 != error) {
        close(sock->fd);
        sock->fd = -1;
    }
    return error;
}

static void sock_broken(fab_sock_t *sock)
{
    char why[256], text[64];

    if (!sock->is_asking || sock->has_answer) {
        snprintf(why, sizeof(why), "It ended while the connection was being made.");
    } else if (0 == sock->num_ips) {
        snprintf(why, sizeof(why), "None of its IP addresses can be reached from this host.");
    } else {
        snprintf(why, sizeof(why),
                 "No connection to it could be made over TCP (last tried: %s: %s)%s",
                 fab_sock_ip_text(&sock->ips[sock->ip_at], text, sizeof(text)),
                 0 != sock->error ? strerror(sock->error)
                                  : "closed by what listens there, or not the process meant",
                 ECONNREFUSED == sock->error ? ": has its process ended?" : ".");
    }
    sock->set->user.on_broken(sock, why);
}

/*
 * Start again with the first address, after a pause that differs between processes; or give up. If
 * nobody listens, the failure is final: a process listens before others learn its address.
 */
static void sock_next_round(fab_sock_t *sock)
{
    uint64_t now = fab_now_us();

    if (!sock->may_try_again || now >= sock->give_up) {
        sock->ip_at = sock->num_ips > 0 ? (uint8_t) (sock->num_ips - 1) : 0;
        sock_broken(sock);
        return;
    }
    sock->may_try_again = false;
    sock->ip_at = UINT8_MAX; /* sock_try_next() goes on with 0 */
    sock->deadline = now + FAB_SOCK_PAUSE_US * (1 + (now ^ sock->greeting.name * 7) % 8);
}

/* The current address failed. */
static void sock_try_next(fab_sock_t *sock)
{
    if (sock->fd >= 0) {
        close(sock->fd);
        sock->fd = -1;
    }
    while (sock->is_asking && !sock->has_answer && (uint8_t) (sock->ip_at + 1) < sock->num_ips) {
        sock->ip_at++;
        int error = sock_attempt(sock);
        if (0 == error) {
            return;
        }
        sock->error = error;
        sock->may_try_again = sock->may_try_again || ECONNREFUSED != error;
    }
    if (sock->is_asking && !sock->has_answer) {
        sock_next_round(sock);
    } else {
        sock_broken(sock);
    }
}

/* A connection without proof is dropped.  Only the first is logged: somebody may scan all ports. */
static void count_stranger(const fab_sock_set_t *set, int fd)
{
    char from[64];

    if (0 == (*set->user.strangers)++) {
        fab_log(set->user.fab, 1,
                "A connection was dropped (%s): it did not prove that it belongs to this job, or "
                "came to an address that is not used. Others like it are only counted.",
                fab_sock_peer_text(fd, from, sizeof(from)));
    }
}

/* The attempt failed; may_try_again: it might succeed later. */
static void sock_ended(fab_sock_t *sock, int error, bool may_try_again)
{
    sock->error = error;
    sock->may_try_again = sock->may_try_again || may_try_again;
    if (sock->is_closing) {
        sock_kill(sock);
    } else if (is_stranger(sock)) {
        count_stranger(sock->set, sock->fd);
        sock_kill(sock);
    } else {
        sock_try_next(sock);
    }
}

/* The data is not a valid proof, or not of this protocol: another process listens there. */
static void sock_foreign(fab_sock_t *sock)
{
    sock_ended(sock, 0, false);
}

/*
 * errno of the connection, or 0 if the other side closed it.  Whoever listens may have dropped this
 * process as a silent stranger: the time begins anew, but not for ever.
 */
static void sock_failed(fab_sock_t *sock, int error)
{
    bool is_drop = sock->is_asking && !sock->has_answer && FAB_SOCK_CONNECTING != sock->state;

    if (is_drop && sock->num_drops < FAB_SOCK_DROPS) {
        sock->num_drops++;
        sock->give_up = fab_now_us() + (uint64_t) sock->set->user.timeout_s * 1000000;
    }
    sock_ended(sock, error, ECONNREFUSED != error);
}

fab_sock_t *fab_sock_connect(fab_sock_set_t *set, void *owner, uint64_t name, const uint8_t *key,
                             const fab_sock_ip_t *ips, int num, const void *frame)
{
    fab_sock_t *sock = sock_new(set);
    int error = 0;

    if (NULL == sock) {
        return NULL;
    }
    sock->owner = owner;
    sock->is_asking = true;
    sock->greeting = (fab_sock_greeting_t){.magic = FAB_SOCK_MAGIC,
                                           .version = FAB_SOCK_VERSION,
                                           .protocol = set->user.protocol,
                                           .name = set->user.fab->config.name,
                                           .target = name};
    sock->give_up = fab_now_us() + (uint64_t) set->user.timeout_s * 1000000;
    memcpy(sock->key, key, sizeof(sock->key));
    memcpy(sock->frame, frame, set->user.frame_len);
    sock->num_ips = (uint8_t) num;
    memcpy(sock->ips, ips, (size_t) num * sizeof(*ips));
    if (0 == num ||
        sizeof(sock->greeting.nonce) !=
            (size_t) getrandom(sock->greeting.nonce, sizeof(sock->greeting.nonce), 0) ||
        0 != (error = sock_attempt(sock))) {
        sock->error = error;
        sock->may_try_again = 0 != error && ECONNREFUSED != error;
        sock->deadline = 0; /* at the next poll, outside of the caller */
    }
    if (EMFILE == error || ENFILE == error || ENOBUFS == error || ENOMEM == error) {
        sock_free(sock);
        return NULL;
    }
    return sock;
}

/* ---- writing ------------------------------------------------------------ */

static void sock_write(fab_sock_t *sock)
{
    while (sock->out_done < sock->out_len) {
        ssize_t n = send(sock->fd, (char *) &sock->out + sock->out_done,
                         sock->out_len - sock->out_done, MSG_NOSIGNAL);
        if (n < 0 && EINTR == errno) {
            continue;
        }
        if (n < 0 && (EAGAIN == errno || ENOBUFS == errno || ENOMEM == errno)) {
            break;
        }
        if (n < 0) {
            sock_failed(sock, errno);
            return;
        }
        sock->out_done += (size_t) n;
    }
    if (sock->is_closing && sock->out_done == sock->out_len) {
        sock_kill(sock);
        return;
    }
    (void) sock_watch(sock, EPOLL_CTL_MOD);
}

static void sock_connected(fab_sock_t *sock)
{
    int error = 0;
    socklen_t len = sizeof(error);

    (void) getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (0 != error) {
        sock_failed(sock, error);
        return;
    }
    sock_set_state(sock, FAB_SOCK_GREETED);
    sock->out.greeting = sock->greeting;
    put(sock, sizeof(sock->greeting));
    sock_write(sock);
}

void fab_sock_send(fab_sock_t *sock, const void *frame)
{
    ssize_t n;

    put_frame(sock, frame);
    n = send(sock->fd, &sock->out, sock->out_len, MSG_NOSIGNAL);
    sock->out_done = n > 0 ? (size_t) n : 0;
    (void) sock_watch(sock, EPOLL_CTL_MOD); /* which reports errors, too: no upcall from here */
}

/* ---- what came ---------------------------------------------------------- */

static void on_greeting(fab_sock_t *sock)
{
    const fab_sock_user_t *user = &sock->set->user;
    fab_sock_challenge_t challenge = {
        .magic = FAB_SOCK_MAGIC, .version = FAB_SOCK_VERSION, .protocol = user->protocol};

    sock->greeting = sock->in.greeting;
    if (FAB_SOCK_MAGIC != sock->greeting.magic || FAB_SOCK_VERSION != sock->greeting.version ||
        user->protocol != sock->greeting.protocol ||
        user->fab->config.name != sock->greeting.target ||
        sizeof(challenge.nonce) !=
            (size_t) getrandom(challenge.nonce, sizeof(challenge.nonce), 0)) {
        sock_foreign(sock);
        return;
    }
    fab_sock_session(user->key, &sock->greeting, challenge.nonce, &sock->session);
    fab_sock_proof(&sock->session, challenge.proof);
    sock_set_state(sock, FAB_SOCK_CHALLENGED);
    sock->out.challenge = challenge;
    put(sock, sizeof(challenge));
    sock_write(sock);
}

static void on_challenge(fab_sock_t *sock)
{
    const fab_sock_challenge_t *challenge = &sock->in.challenge;
    uint8_t proof[FAB_SHA256_LEN];

    fab_sock_session(sock->key, &sock->greeting, challenge->nonce, &sock->session);
    fab_sock_proof(&sock->session, proof);
    if (FAB_SOCK_MAGIC != challenge->magic || FAB_SOCK_VERSION != challenge->version ||
        sock->set->user.protocol != challenge->protocol ||
        !fab_bytes_are_equal(proof, challenge->proof, sizeof(proof))) {
        sock_foreign(sock);
        return;
    }
    sock_set_state(sock, FAB_SOCK_OPEN);
    put_frame(sock, sock->frame);
    sock_write(sock);
}

static void on_sealed(fab_sock_t *sock)
{
    const fab_sock_user_t *user = &sock->set->user;
    fab_sock_side_t side = sock->is_asking ? FAB_SOCK_ANSWERING : FAB_SOCK_ASKING;

    if (!fab_sock_unseal(&sock->session, side, sock->num_in, &sock->in.sealed, user->frame_len,
                         sock->frame)) {
        sock_foreign(sock);
        return;
    }
    sock->num_in++;
    sock->has_answer = true;
    sock->deadline = 0;
    sock_set_state(sock, FAB_SOCK_OPEN);
    user->on_frame(sock, sock->frame);
}

static size_t wanted(const fab_sock_t *sock)
{
    switch (sock->state) {
    case FAB_SOCK_ACCEPTED:
        return sizeof(fab_sock_greeting_t);
    case FAB_SOCK_GREETED:
        return sizeof(fab_sock_challenge_t);
    default:
        return offsetof(fab_sock_sealed_t, frame) + sock->set->user.frame_len;
    }
}

static void sock_deliver(fab_sock_t *sock)
{
    sock->in_len = 0;
    switch (sock->state) {
    case FAB_SOCK_ACCEPTED:
        on_greeting(sock);
        break;
    case FAB_SOCK_GREETED:
        on_challenge(sock);
        break;
    default:
        on_sealed(sock);
        break;
    }
}

/* Read not a byte more than needed: the following data may be the provider's. */
static void sock_read(fab_sock_t *sock)
{
    while (!sock->is_dead && !sock->is_closing && !sock->is_deferred &&
           FAB_SOCK_CONNECTING != sock->state && sock->fd >= 0) {
        ssize_t n = recv(sock->fd, (char *) &sock->in + sock->in_len, wanted(sock) - sock->in_len,
                         0);
        if (n < 0 && EINTR == errno) {
            continue;
        }
        if (n < 0 && EAGAIN == errno) {
            return;
        }
        if (n <= 0) {
            sock_failed(sock, n < 0 ? errno : 0);
            return;
        }
        sock->in_len += (size_t) n;
        if (wanted(sock) == sock->in_len) {
            sock_deliver(sock);
        }
    }
}

/* ---- for the provider --------------------------------------------------- */

bool fab_sock_is_open(const fab_sock_t *sock)
{
    char next;
    ssize_t n = recv(sock->fd, &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT);

    return n > 0 || (n < 0 && (EAGAIN == errno || EINTR == errno));
}

void fab_sock_defer(fab_sock_t *sock)
{
    sock->is_deferred = true;
}

void fab_sock_reject(fab_sock_t *sock)
{
    sock_broken(sock);
}

void fab_sock_release(fab_sock_t *sock)
{
    sock->owner = NULL;
    sock->is_closing = true;
    sock->is_deferred = false;
    if (FAB_SOCK_OPEN != sock->state || sock->fd < 0 || sock->out_done == sock->out_len) {
        sock_kill(sock);
    }
}

int fab_sock_take(fab_sock_t *sock, void *left, size_t *left_len)
{
    int fd = sock->fd;

    *left_len = sock->out_len - sock->out_done;
    memcpy(left, (char *) &sock->out + sock->out_done, *left_len);
    (void) epoll_ctl(sock->set->epoll, EPOLL_CTL_DEL, fd, NULL);
    sock->fd = -1;
    sock->owner = NULL;
    sock_kill(sock);
    return fd;
}

uint16_t fab_sock_set_port(const fab_sock_set_t *set)
{
    return set->port;
}

void *fab_sock_set_dom(const fab_sock_set_t *set)
{
    return set->user.dom;
}

int fab_sock_set_fd(const fab_sock_set_t *set)
{
    return set->epoll;
}

bool fab_sock_set_is_busy(const fab_sock_set_t *set)
{
    return set->num_socks > set->num_silent;
}

/* ---- polling ------------------------------------------------------------ */

/* Make room for one more stranger; the list has the latest first. */
static void drop_silent_stranger(fab_sock_set_t *set)
{
    fab_sock_t *oldest = NULL;

    for (fab_sock_t *sock = set->socks; NULL != sock; sock = sock->next) {
        oldest = sock->is_silent ? sock : oldest;
    }
    if (NULL != oldest) {
        sock_foreign(oldest);
        close(oldest->fd);
        oldest->fd = -1;
    }
}

/* Did the connection come to an address that this process uses? */
static bool is_allowed(const fab_sock_set_t *set, int fd)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);
    uint8_t ip[16];

    return NULL == set->user.is_allowed ||
           (0 == getsockname(fd, (struct sockaddr *) &local, &len) &&
            fab_sock_ip_of((struct sockaddr *) &local, ip) &&
            set->user.is_allowed(set->user.dom, ip));
}

/* No file descriptor for a connection that waits.  True: there may be one now. */
static bool make_room_for_file(fab_sock_set_t *set)
{
    if (raise_max_files()) {
        return true;
    }
    if (set->num_silent > 0) {
        drop_silent_stranger(set);
        return true;
    }
    if (!set->has_complained) {
        set->has_complained = true;
        fab_log(set->user.fab, 0,
                "Connections of other processes wait until this one closes a file: it may have "
                "%lu files open (ulimit -n).",
                fab_sock_max_files());
    }
    return false;
}

/* The next connection that waits, as accept(). */
static int accept_next(fab_sock_set_t *set)
{
    int fd;

    do {
        fd = accept4(set->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (EINTR == errno || ECONNABORTED == errno ||
                        (EMFILE == errno && make_room_for_file(set))));
    return fd;
}

/* A connection came. */
static void accepted(fab_sock_set_t *set, int fd)
{
    fab_sock_t *sock = is_allowed(set, fd) ? sock_new(set) : NULL;

    if (NULL == sock) {
        count_stranger(set, fd);
        close(fd);
        return;
    }
    sock_options(fd);
    sock->fd = fd;
    sock_set_state(sock, FAB_SOCK_ACCEPTED);
    if (0 != sock_watch(sock, EPOLL_CTL_ADD)) {
        sock_foreign(sock); /* no memory: it will connect again */
        return;
    }
    sock_read(sock); /* the greeting is often there */
}

/* Returns how many came. */
static int set_accept(fab_sock_set_t *set)
{
    int num = 0, fd;

    while ((set->num_strangers < FAB_SOCK_STRANGERS || set->num_silent > 0) &&
           (fd = accept_next(set)) >= 0) {
        if (FAB_SOCK_STRANGERS == set->num_strangers) {
            drop_silent_stranger(set);
        }
        accepted(set, fd);
        num++;
    }
    return num;
}

static void sock_event(fab_sock_t *sock, uint32_t events)
{
    if (sock->is_dead || sock->fd < 0) {
        return;
    }
    if (FAB_SOCK_CONNECTING == sock->state) {
        if (0 != (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
            sock_connected(sock);
        }
        return;
    }
    if (sock->out_done < sock->out_len) {
        sock_write(sock);
    }
    sock_read(sock);
}

/* Time limits of attempts and strangers, and frames that were deferred. */
static void look_after(fab_sock_t *sock, uint64_t now)
{
    if (sock->is_deferred) {
        sock->is_deferred = false;
        sock->set->user.on_frame(sock, sock->frame);
    } else if (is_stranger(sock)) {
        sock_set_silent(sock, now > sock->deadline);
    } else if (sock->is_asking && !sock->is_closing && now > sock->deadline &&
               (sock->fd < 0 || FAB_SOCK_CONNECTING == sock->state)) {
        if (sock->fd >= 0) {
            sock->error = ETIMEDOUT;
            sock->may_try_again = true;
        }
        sock_try_next(sock);
    }
}

static void set_reap(fab_sock_set_t *set)
{
    fab_sock_t *next;

    set->has_dead = false;
    for (fab_sock_t *sock = set->socks; NULL != sock; sock = next) {
        next = sock->next;
        if (sock->is_dead) {
            sock_free(sock);
        }
    }
}

/*
 * All that came is read before silent strangers are looked for, and that is done before one more is
 * accepted: this process may have been computing for longer than any limit.
 */
int fab_sock_set_poll(fab_sock_set_t *set)
{
    struct epoll_event events[FAB_SOCK_EVENTS];
    unsigned rounds = set->num_socks / FAB_SOCK_EVENTS + 1;
    bool has_caller = false;
    int n, sum = 0;

    do {
        n = epoll_wait(set->epoll, events, FAB_SOCK_EVENTS, 0);
        for (int i = 0; i < n; i++) {
            if (NULL == events[i].data.ptr) {
                has_caller = true;
            } else {
                sock_event(events[i].data.ptr, events[i].events);
                sum++;
            }
        }
    } while (FAB_SOCK_EVENTS == n && --rounds > 0);
    if (set->num_socks > 0) {
        uint64_t now = fab_now_us();
        for (fab_sock_t *sock = set->socks; NULL != sock; sock = sock->next) {
            if (!sock->is_dead) {
                look_after(sock, now);
            }
        }
    }
    if (has_caller) {
        sum += set_accept(set);
    }
    if (set->has_dead) {
        set_reap(set);
    }
    return sum;
}

/* ---- open and close ----------------------------------------------------- */

/* A socket that listens to all addresses, on this port. -1: errno. */
static int listen_on(int family, uint16_t port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    bool is_v6 = AF_INET6 == family;
    int zero = 0, one = 1, error;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    if (is_v6) {
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if (0 != port) { /* ports of connections that just ended may be used again */
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (0 != bind(fd, is_v6 ? (struct sockaddr *) &v6 : (struct sockaddr *) &v4,
                  is_v6 ? sizeof(v6) : sizeof(v4)) ||
        0 != listen(fd, FAB_SOCK_BACKLOG)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* The same on a port of the user's range. */
static int listen_in_range(const fab_sock_user_t *user, int family)
{
    unsigned count = (unsigned) user->port_max - user->port_min + 1u;
    unsigned first = user->fab->config.local_rank % count;
    int fd = -1;

    for (unsigned i = 0; i < count && fd < 0; i++) {
        fd = listen_on(family, (uint16_t) (user->port_min + (first + i) % count));
        if (fd < 0 && EADDRINUSE != errno) {
            break;
        }
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);

    if (0 != getsockname(fd, (struct sockaddr *) &bound, &len)) {
        return 0;
    }
    return ntohs(AF_INET6 == bound.ss_family ? ((struct sockaddr_in6 *) &bound)->sin6_port
                                             : ((struct sockaddr_in *) &bound)->sin_port);
}

static int set_cannot_open(fab_sock_set_t *set, const char **why)
{
    const fab_sock_user_t *user = &set->user;
    int error = errno;

    if (0 != user->port_min) {
        *why = fab_sentence(user->fab,
                            "No TCP socket can listen on a port from %u to %u: %s. The range must "
                            "have a port for each process of the host.",
                            user->port_min, user->port_max, strerror(error));
    } else {
        *why = fab_sentence(user->fab, "No TCP socket can be opened to listen: %s.",
                            strerror(error));
    }
    fab_sock_set_close(set);
    return OPAL_ERR_NOT_AVAILABLE;
}

int fab_sock_set_open(const fab_sock_user_t *user, fab_sock_set_t **out, const char **why)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    fab_sock_set_t *set = calloc(1, sizeof(*set));

    if (NULL == set) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    set->user = *user;
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    set->listener = listen_in_range(user, AF_INET6);
    if (set->listener < 0) {
        set->listener = listen_in_range(user, AF_INET); /* there is no IPv6 */
    }
    if (set->epoll < 0 || set->listener < 0 ||
        0 != epoll_ctl(set->epoll, EPOLL_CTL_ADD, set->listener, &event)) {
        return set_cannot_open(set, why);
    }
    set->port = port_of(set->listener);
    *out = set;
    return OPAL_SUCCESS;
}

void fab_sock_set_close(fab_sock_set_t *set)
{
    while (NULL != set->socks) {
        sock_free(set->socks);
    }
    if (set->listener >= 0) {
        close(set->listener);
    }
    if (set->epoll >= 0) {
        close(set->epoll);
    }
    free(set);
}
