/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers at the listener of rank 0: connections that do not come from the job. Rank 0 puts its
 * port into scratch[STRANGER_PORT] before they call.
 */
#ifndef TEST_STRANGERS_H
#define TEST_STRANGERS_H

#include "test_fab_faults.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "sock/sock.h"

enum { STRANGER_PORT = 1 };

/* A connection to rank 0's listener, from this address of the loopback network. */
static inline int stranger_call_from(world_t *world, uint32_t ip)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(ip)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t) atomic_load(&world->shared->scratch[STRANGER_PORT]));
    CHECK(fd >= 0 && 0 == bind(fd, (struct sockaddr *) &from, sizeof(from)) &&
          0 == connect(fd, (struct sockaddr *) &to, sizeof(to)));
    return fd;
}

static inline int stranger_call(world_t *world)
{
    return stranger_call_from(world, INADDR_LOOPBACK);
}

/* Wait until the other side closes, then close. Returns the bytes that came. */
static inline size_t stranger_end(int fd)
{
    unsigned char buf[4096];
    size_t sum = 0;
    ssize_t n;

    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
        sum += (size_t) n;
    }
    close(fd);
    return sum;
}

/* Random bytes, of random length: rank 0 answers nothing. */
static inline void stranger_says_garbage(world_t *world)
{
    unsigned char garbage[600];
    size_t len = 1 + (size_t) random() % sizeof(garbage); /* who says nothing is not counted */
    int fd = stranger_call(world);

    for (size_t i = 0; i < len; i++) {
        garbage[i] = (unsigned char) random();
    }
    (void) send(fd, garbage, len, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    CHECK(0 == stranger_end(fd));
}

/* What rank 1 would say first. */
static inline fab_sock_greeting_t stranger_greeting(uint16_t protocol)
{
    return (fab_sock_greeting_t){.magic = FAB_SOCK_MAGIC,
                                 .version = FAB_SOCK_VERSION,
                                 .protocol = protocol,
                                 .name = world_name(1),
                                 .target = world_name(0)};
}

/*
 * Call as rank 1, prove it with this key, and ask with this frame. Returns the bytes of the answer.
 */
static inline size_t stranger_asks(world_t *world, uint16_t protocol, const uint8_t *key,
                                   const void *frame, size_t len)
{
    fab_sock_greeting_t greeting = stranger_greeting(protocol);
    fab_sock_challenge_t challenge;
    fab_sock_session_t session;
    fab_sock_sealed_t sealed;
    int fd = stranger_call(world);

    CHECK((ssize_t) sizeof(greeting) == send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL));
    CHECK((ssize_t) sizeof(challenge) == recv(fd, &challenge, sizeof(challenge), MSG_WAITALL));
    fab_sock_session(key, &greeting, challenge.nonce, &session);
    fab_sock_seal(&session, FAB_SOCK_ASKING, 0, frame, len, &sealed);
    (void) send(fd, &sealed, offsetof(fab_sock_sealed_t, frame) + len, MSG_NOSIGNAL);
    return stranger_end(fd);
}

/*
 * Two ranks: rank 1 connects to rank 0's port and sends what strangers send, by call(); when rank 0
 * has closed all of these connections, check() checks its counters. Then the two exchange messages
 * as usual.
 */
static inline void stranger_world(world_t *world, fab_sock_set_t *socks,
                                  void (*call)(world_t *world), void (*check)(world_t *world))
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    if (0 == world->rank) {
        atomic_store(&world->shared->scratch[STRANGER_PORT], fab_sock_set_port(socks));
    }
    world_barrier(world);
    if (1 == world->rank) {
        srandom(1);
        call(world);
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        WORLD_UNTIL(!fab_sock_set_is_busy(socks));
        check(world);
        CHECK(0 == world->failures);
    }
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
}

/*
 * Of 2 ranks: *key, what rank 0 has of rank 1's key, is wrong.  It finds nobody that is meant, and
 * says so; check() looks at rank 1.
 */
static inline void stranger_has_wrong_key(world_t *world, uint8_t *key,
                                          void (*check)(world_t *world))
{
    world_barrier(world);
    if (0 == world->rank) {
        key[3] ^= 1;
        post(world, world_peer(world, 1));
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "not the process meant"));
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        CHECK(0 == world->failures);
        check(world);
    }
    world_barrier(world);
}

#endif /* TEST_STRANGERS_H */
