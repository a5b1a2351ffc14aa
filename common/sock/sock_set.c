/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets for connection set-up: connecting, proof of the job's secret, frames.
 *
 *      asking      RACING ─────────────────proof of an attempt──> OPEN
 *      attempt     CONNECTING ──> GREETED ──proof──> gone: the one that asks has its connection
 *      answering   ACCEPTED ──greeting──> CHALLENGED ──first frame──> OPEN
 *
 * A socket that asks has an attempt, a structure of the same kind, for each address that it tries
 * at the time (sock_race.h says which).
 *
 * A dead socket is closed at once, and freed at the end of the poll: the same batch may have more
 * events for it.
 */
#include "sock/sock_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "fabric/fab_provider.h"
#include "fabric/fab_host.h"

enum {
    FAB_SOCK_EVENTS = 64,  /* of one epoll_wait() */
    FAB_SOCK_ACCEPTS = 64, /* connections accepted in one poll */
    FAB_SOCK_DROPS = 16,   /* connections closed before the first answer, after which time counts */
};

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

/* The attempt failed; may_try_again: it might succeed later. */
static void sock_ended(fab_sock_t *sock, int error, bool may_try_again)
{
    sock->error = error;
    if (sock->is_closing) {
        fab_sock_kill_all(sock);
    } else if (fab_sock_is_stranger(sock)) {
        fab_sock_drop_stranger(sock);
    } else if (NULL != sock->ask) {
        fab_sock_attempt_failed(sock->ask, sock->ip_at, error, may_try_again);
    } else if (sock->is_asking && !sock->has_answer) {
        fab_sock_winner_lost(sock, may_try_again);
    } else {
        fab_sock_broken(sock);
    }
}

/* The data is not a valid proof, or not of this protocol: another process listens there. */
static void sock_foreign(fab_sock_t *sock)
{
    sock_ended(sock, 0, false);
}

/*
 * errno of the connection, or 0 if the other side closed it.  The listener may have dropped this
 * process as a stranger: the time begins again, but not for ever.
 */
static void sock_failed(fab_sock_t *sock, int error)
{
    fab_sock_t *asking = NULL != sock->ask ? sock->ask : sock;
    bool is_drop = asking->is_asking && !asking->has_answer && FAB_SOCK_CONNECTING != sock->state;

    if (is_drop && asking->num_drops < FAB_SOCK_DROPS) {
        asking->num_drops++;
        fab_sock_race_extend(&asking->race, fab_now_us());
    }
    if (FAB_SOCK_CHALLENGED == sock->state ||
        (FAB_SOCK_ACCEPTED == sock->state && 0 == sock->in_len)) {
        /* it has no question any more: both asked at once, or another of the addresses won */
        fab_sock_kill(sock);
        return;
    }
    sock_ended(sock, error, ECONNREFUSED != error);
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
        fab_sock_kill_all(sock);
        return;
    }
    (void) fab_sock_watch(sock, EPOLL_CTL_MOD);
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
    fab_sock_set_state(sock, FAB_SOCK_GREETED);
    fab_sock_race_greeted(&sock->ask->race, sock->ip_at, fab_now_us());
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
    (void) fab_sock_watch(sock, EPOLL_CTL_MOD); /* which reports errors, too: no upcall from here */
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
        !fab_random(challenge.nonce, sizeof(challenge.nonce))) {
        sock_foreign(sock);
        return;
    }
    fab_sock_session(user->key, &sock->greeting, challenge.nonce, &sock->session);
    fab_sock_proof(&sock->session, challenge.proof);
    fab_sock_set_state(sock, FAB_SOCK_CHALLENGED);
    sock->out.challenge = challenge;
    put(sock, sizeof(challenge));
    sock_write(sock);
}

static void on_challenge(fab_sock_t *attempt)
{
    const fab_sock_challenge_t *challenge = &attempt->in.challenge;
    uint8_t proof[FAB_SHA256_LEN];

    fab_sock_session(attempt->ask->key, &attempt->greeting, challenge->nonce, &attempt->session);
    fab_sock_proof(&attempt->session, proof);
    if (FAB_SOCK_MAGIC != challenge->magic || FAB_SOCK_VERSION != challenge->version ||
        attempt->set->user.protocol != challenge->protocol ||
        !fab_bytes_are_equal(proof, challenge->proof, sizeof(proof))) {
        sock_foreign(attempt);
        return;
    }
    fab_sock_t *sock = attempt->ask;
    fab_sock_attempt_won(attempt);
    put_frame(sock, sock->frame);
    sock_write(sock); /* and epoll tells this one from now on */
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
    fab_sock_set_state(sock, FAB_SOCK_OPEN);
    if (sock->set->spare < 0) { /* one of the job may have the last descriptor */
        (void) fab_sock_raise_max_files();
        (void) fab_sock_has_spare(sock->set);
    }
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

bool fab_sock_via_is_open(const void *via)
{
    const fab_sock_t *sock = via;
    char next;
    ssize_t n = recv(sock->fd, &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT);

    return n > 0 || (n < 0 && (EAGAIN == errno || EINTR == errno));
}

const fab_ses_msg_t *fab_sock_via_hello(const void *via)
{
    return (const fab_ses_msg_t *) (const void *) ((const fab_sock_t *) via)->frame;
}

void fab_sock_via_free(void *via)
{
    fab_counters.crossed++;
    fab_sock_release(via);
}

void fab_sock_via_again(void *via)
{
    fab_sock_t *sock = via;

    sock->owner = NULL;
    sock->is_deferred = true;
}

void fab_sock_release(fab_sock_t *sock)
{
    sock->owner = NULL;
    sock->is_closing = true;
    sock->is_deferred = false;
    if (FAB_SOCK_OPEN != sock->state || sock->fd < 0 || sock->out_done == sock->out_len) {
        fab_sock_kill_all(sock);
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
    fab_sock_kill_all(sock);
    return fd;
}

uint16_t fab_sock_set_port(const fab_sock_set_t *set)
{
    return set->listeners.port;
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

/* A connection came. */
static void accepted(fab_sock_set_t *set, int fd, const uint8_t *from)
{
    fab_sock_t *sock = fab_sock_make_place(set, from) ? fab_sock_new(set) : NULL;

    if (NULL == sock) {
        fab_sock_count_stranger(set, fd);
        close(fd);
        return;
    }
    sock->fd = fd;
    memcpy(sock->from, from, sizeof(sock->from));
    fab_sock_set_state(sock, FAB_SOCK_ACCEPTED);
    if (0 != fab_sock_watch(sock, EPOLL_CTL_ADD)) {
        sock_foreign(sock); /* no memory: it will connect again */
        return;
    }
    sock_read(sock); /* the greeting is often there */
}

/* Each listener has its share, so that none keeps another waiting.  Returns how many came. */
static int set_accept(fab_sock_set_t *set)
{
    uint8_t from[16];
    int sum = 0, fd;

    for (int i = 0; i < set->listeners.num; i++) {
        int left = FAB_SOCK_ACCEPTS / set->listeners.num;
        while (left-- > 0 && (fd = fab_sock_accept_next(set, set->listeners.fds[i], from)) >= 0) {
            accepted(set, fd, from);
            sum++;
        }
    }
    return sum;
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

/* Time limits of races and strangers, and frames that were deferred. */
static void look_after(fab_sock_t *sock, uint64_t now)
{
    if (sock->is_deferred) {
        sock->is_deferred = false;
        sock->set->user.on_frame(sock, sock->frame);
    } else if (fab_sock_is_stranger(sock)) {
        fab_sock_set_silent(sock, now > sock->deadline);
    } else if (FAB_SOCK_RACING == sock->state) {
        fab_sock_look_after_race(sock, now);
    }
}

static void set_reap(fab_sock_set_t *set)
{
    fab_sock_t *sock, *next;

    set->has_dead = false;
    for (sock = LIST_FIRST(&set->socks); NULL != sock; sock = next) {
        next = LIST_NEXT(sock, link);
        if (sock->is_dead) {
            fab_sock_free(sock);
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
        fab_sock_t *sock;
        LIST_FOREACH(sock, &set->socks, link) {
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

static int set_cannot_open(fab_sock_set_t *set, int error, const char **why)
{
    const fab_sock_user_t *user = &set->user;

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
    int error;

    if (NULL == set) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    set->user = *user;
    set->user.ips = NULL; /* the caller's */
    set->spare = -1;
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    error = set->epoll < 0 ? errno : fab_sock_listen(user, &set->listeners);
    for (int i = 0; 0 == error && i < set->listeners.num; i++) {
        error = 0 == epoll_ctl(set->epoll, EPOLL_CTL_ADD, set->listeners.fds[i], &event) ? 0
                                                                                         : errno;
    }
    if (0 != error) {
        return set_cannot_open(set, error, why);
    }
    (void) fab_sock_has_spare(set);
    *out = set;
    return OPAL_SUCCESS;
}

void fab_sock_set_close(fab_sock_set_t *set)
{
    while (!LIST_EMPTY(&set->socks)) {
        fab_sock_free(LIST_FIRST(&set->socks));
    }
    fab_sock_listen_close(&set->listeners);
    if (set->spare >= 0) {
        close(set->spare);
    }
    if (set->epoll >= 0) {
        close(set->epoll);
    }
    free(set);
}
