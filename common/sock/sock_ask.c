/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that ask: their attempts to connect, the race of these, and its end.
 */
#include "sock/sock_types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_provider.h"
#include "fabric/fab_host.h"

enum { FAB_SOCK_PROBE_US = 1000000 }; /* until the kernel of a host that lives has answered */

/* ---- attempts ------------------------------------------------------------- */

/* Give up its attempts. */
static void kill_attempts(fab_sock_t *sock)
{
    for (int i = 0; i < FAB_SOCK_IPS; i++) {
        if (NULL != sock->attempts[i]) {
            fab_sock_kill(sock->attempts[i]);
            sock->attempts[i] = NULL;
        }
    }
    fab_sock_close_probe(sock);
}

void fab_sock_kill_all(fab_sock_t *sock)
{
    kill_attempts(sock);
    fab_sock_kill(sock);
}

/* As socket(), for a connection that this process wants. */
static int sock_open(fab_sock_set_t *set, int family, int type)
{
    int fd;

    do {
        fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    } while (fd < 0 && EMFILE == errno && fab_sock_make_room_for_file(set, true));
    return fd;
}

/* Connect to the attempt's address. 0, or errno. */
static int attempt_connect(fab_sock_t *attempt)
{
    struct sockaddr_storage to;
    socklen_t len = fab_sock_ip_sockaddr(&attempt->ask->ips[attempt->ip_at], &to);

    attempt->fd = sock_open(attempt->set, to.ss_family, SOCK_STREAM);
    if (attempt->fd < 0) {
        return errno;
    }
    fab_sock_set_options(attempt->fd, attempt->set->user.timeout_s);
    if (0 != connect(attempt->fd, (struct sockaddr *) &to, len) && EINPROGRESS != errno) {
        return errno;
    }
    return fab_sock_watch(attempt, EPOLL_CTL_ADD);
}

void fab_sock_attempt_failed(fab_sock_t *sock, int at, int error, bool may_try_again)
{
    fab_sock_t *attempt = sock->attempts[at];

    sock->attempts[at] = NULL;
    sock->error = error;
    sock->ip_at = (uint8_t) at;
    fab_sock_race_failed(&sock->race, at, may_try_again);
    if (NULL != attempt) {
        fab_sock_kill(attempt);
    }
}

/* Try this address. */
static void attempt_begin(fab_sock_t *sock, int at)
{
    fab_sock_t *attempt = fab_sock_new(sock->set);
    int error = ENOMEM;

    sock->attempts[at] = attempt;
    if (NULL != attempt) {
        attempt->ask = sock;
        attempt->state = FAB_SOCK_CONNECTING;
        attempt->ip_at = (uint8_t) at;
        attempt->greeting = sock->greeting;
        error = fab_random(attempt->greeting.nonce, sizeof(attempt->greeting.nonce))
                    ? attempt_connect(attempt)
                    : errno;
    }
    if (0 != error) {
        fab_sock_attempt_failed(sock, at, error, ECONNREFUSED != error);
    }
}

/* Try what is to be tried now. */
static void sock_race_on(fab_sock_t *sock, uint64_t now)
{
    int at;

    while ((at = fab_sock_race_next(&sock->race, now)) >= 0) {
        attempt_begin(sock, at);
    }
}

/*
 * TCP did not answer from this address.  If its process computes, its queue of connections may be
 * full; then its kernel answers a datagram for an unused port.
 */
static void probe_begin(fab_sock_t *sock, int at, uint64_t now)
{
    struct sockaddr_storage to;
    socklen_t len = fab_sock_ip_sockaddr(&sock->ips[at], &to);

    fab_sock_close_probe(sock);
    sock->probe = sock_open(sock->set, to.ss_family, SOCK_DGRAM);
    sock->deadline = now + FAB_SOCK_PROBE_US;
    if (sock->probe >= 0 && (0 != connect(sock->probe, (struct sockaddr *) &to, len) ||
                             0 != send(sock->probe, "", 0, 0))) {
        fab_sock_close_probe(sock);
    }
}

static bool is_probe_answered(const fab_sock_t *sock)
{
    char byte;

    return sock->probe >= 0 && recv(sock->probe, &byte, sizeof(byte), MSG_DONTWAIT) < 0 &&
           ECONNREFUSED == errno;
}

/* The host of this address lives: the time begins again. */
static void host_lives(fab_sock_t *sock, uint64_t now)
{
    char text[64];

    fab_sock_race_extend(&sock->race, now);
    if (!sock->has_complained && now - sock->begun >= sock->race.timeout) {
        sock->has_complained = true;
        fab_log(sock->set->user.fab, 0,
                "A process does not take the connection (%s) for %u s, but its host lives, so this "
                "process waits: it may be computing, with its queue of connections full "
                "(net.core.somaxconn), or a firewall drops connections to it.",
                fab_sock_ip_text(&sock->ips[sock->ip_at], text, sizeof(text)),
                sock->set->user.timeout_s);
    }
}

/* ---- the race ------------------------------------------------------------- */

static const char *hint_of(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return ": has its process ended, or does a firewall refuse connections to it?";
    case ETIMEDOUT:
        return ": is a firewall between, or did its process compute for all that time, with its "
               "queue of connections full (net.core.somaxconn)?";
    case EMFILE:
        return ": see ulimit -n.";
    default:
        return ".";
    }
}

void fab_sock_broken(fab_sock_t *sock)
{
    char why[384], text[64];

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
                 hint_of(sock->error));
    }
    sock->set->user.on_broken(sock, why);
}

/* Of pauses: it differs between processes. */
static unsigned jitter_of(const fab_sock_t *sock, uint64_t now)
{
    return (unsigned) ((now ^ sock->greeting.name * 7) % 8);
}

void fab_sock_winner_lost(fab_sock_t *sock, bool may_try_again)
{
    uint64_t now = fab_now_us();

    if (!may_try_again || now >= sock->race.give_up) {
        fab_sock_broken(sock);
        return;
    }
    fab_sock_close(sock);
    fab_sock_set_state(sock, FAB_SOCK_RACING);
    fab_sock_race_again(&sock->race, now, jitter_of(sock, now));
}

void fab_sock_look_after_race(fab_sock_t *sock, uint64_t now)
{
    int late;

    if (is_probe_answered(sock)) {
        fab_sock_close_probe(sock);
        host_lives(sock, now);
    }
    while ((late = fab_sock_race_late(&sock->race, now)) >= 0) {
        fab_sock_attempt_failed(sock, late, ETIMEDOUT, true);
        probe_begin(sock, late, now);
    }
    if (fab_sock_race_go_on(&sock->race, now, jitter_of(sock, now))) {
        sock_race_on(sock, now);
    } else if (sock->probe < 0 || now > sock->deadline) {
        fab_sock_broken(sock);
    }
}

/* Addresses that lost to this one are tried last by others: they led nowhere. */
static void remember(fab_sock_t *sock, const fab_sock_t *won)
{
    uint64_t until = fab_now_us() + sock->race.timeout;
    char next;

    for (int i = 0; i < sock->num_ips; i++) {
        const fab_sock_t *lost = sock->attempts[i];
        if (lost == won) {
            fab_sock_lame_clear(&sock->set->lame, sock->ips[i].ip);
        } else if (FAB_SOCK_RUN_WAITING != sock->race.runners[i] &&
                   (NULL == lost || recv(lost->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)) {
            fab_sock_lame_set(&sock->set->lame, sock->ips[i].ip, until);
        }
    }
}

void fab_sock_attempt_won(fab_sock_t *attempt)
{
    fab_sock_t *sock = attempt->ask;

    remember(sock, attempt);
    sock->fd = attempt->fd;
    attempt->fd = -1;
    sock->session = attempt->session;
    sock->ip_at = attempt->ip_at;
    sock->num_in = sock->num_out = 0;
    sock->in_len = 0;
    kill_attempts(sock);
    fab_sock_set_state(sock, FAB_SOCK_OPEN);
    if (NULL != sock->set->user.on_proven) {
        sock->set->user.on_proven(sock, sock->frame);
    }
}

fab_sock_t *fab_sock_connect(fab_sock_set_t *set, void *owner, uint64_t name, const uint8_t *key,
                             const fab_sock_ip_t *ips, int num, const void *frame)
{
    fab_sock_t *sock = fab_sock_new(set);

    if (NULL == sock) {
        return NULL;
    }
    sock->owner = owner;
    sock->is_asking = true;
    sock->state = FAB_SOCK_RACING;
    sock->greeting = (fab_sock_greeting_t){.magic = FAB_SOCK_MAGIC,
                                           .version = FAB_SOCK_VERSION,
                                           .protocol = set->user.protocol,
                                           .name = set->user.fab->config.name,
                                           .target = name};
    sock->begun = fab_now_us();
    memcpy(sock->key, key, sizeof(sock->key));
    memcpy(sock->frame, frame, set->user.frame_len);
    sock->num_ips = (uint8_t) num;
    memcpy(sock->ips, ips, (size_t) num * sizeof(*ips));
    fab_sock_lame_sort(&set->lame, sock->begun, sock->ips, num);
    fab_sock_race_begin(&sock->race, num, sock->begun, (uint64_t) set->user.timeout_s * 1000000);
    sock_race_on(sock, sock->begun); /* if all fail, the next poll says so, outside of the caller */
    return sock;
}
