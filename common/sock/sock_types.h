/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of sock/: its set, and what its files offer each other.  Each uses those before it:
 * sock_listen.c, sock_base.c, sock_stranger.c, sock_ask.c, sock_set.c.
 */
#ifndef FAB_SOCK_TYPES_H
#define FAB_SOCK_TYPES_H

#include "sock/sock.h"

/* ---- sock_listen.c: sockets that listen, all on the same port ------------ */

/* connections that the kernel keeps while this process computes; it takes less if it must */
enum { FAB_SOCK_BACKLOG = 4096 };

typedef struct fab_sock_listeners {
    int fds[FAB_SOCK_IPS];
    int num;
    uint16_t port;
} fab_sock_listeners_t;

/* 0, or errno. */
int fab_sock_listen(const fab_sock_user_t *user, fab_sock_listeners_t *out);
void fab_sock_listen_close(fab_sock_listeners_t *listeners);

/* ---- the set ------------------------------------------------------------- */

struct fab_sock_set {
    fab_sock_user_t user;
    int epoll;
    fab_sock_listeners_t listeners;
    int spare; /* a descriptor in reserve, for a connection that is to prove itself; -1: none */
    LIST_HEAD(, fab_sock) socks; /* the latest first */
    unsigned num_socks;
    unsigned num_strangers;
    unsigned num_silent; /* of them */
    bool has_dead;
    bool has_complained; /* that connections wait for a file descriptor */
    fab_sock_lame_t lame;
};

/* ---- sock_base.c: one socket --------------------------------------------- */

/* NULL: no memory. */
fab_sock_t *fab_sock_new(fab_sock_set_t *set);
void fab_sock_free(fab_sock_t *sock);
void fab_sock_close(fab_sock_t *sock);
void fab_sock_close_probe(fab_sock_t *sock);

/* It is closed at once, and freed at the end of the poll. */
void fab_sock_kill(fab_sock_t *sock);

void fab_sock_set_state(fab_sock_t *sock, fab_sock_state_t state);
void fab_sock_set_silent(fab_sock_t *sock, bool is_silent);

static inline bool fab_sock_is_stranger(const fab_sock_t *sock)
{
    return FAB_SOCK_ACCEPTED == sock->state || FAB_SOCK_CHALLENGED == sock->state;
}

/* 0, or errno: only EPOLL_CTL_ADD can fail. */
int fab_sock_watch(fab_sock_t *sock, int op);

/*
 * A host that goes down is noticed after timeout_s; small frames go at once.  What a listening
 * socket accepts has the same options.
 */
void fab_sock_set_options(int fd, uint32_t timeout_s);

/* As many files as the administrator allows.  False: they are allowed already. */
bool fab_sock_raise_max_files(void);

/* ---- sock_stranger.c: connections that did not prove themselves ----------- */

/* A connection without proof is dropped.  Only the first is logged: somebody may scan all ports. */
void fab_sock_count_stranger(const fab_sock_set_t *set, int fd);
void fab_sock_drop_stranger(fab_sock_t *sock);

/*
 * No file descriptor is left for a connection.  True: there is one now.  may_raise: the process may
 * get more for it.
 */
bool fab_sock_make_room_for_file(fab_sock_set_t *set, bool may_raise);

/* Is there a descriptor in reserve? */
bool fab_sock_has_spare(fab_sock_set_t *set);

/* The next connection that waits, and its source.  -1: none, or no descriptor. */
int fab_sock_accept_next(fab_sock_set_t *set, int listener, uint8_t *from);

/*
 * Room for a stranger from this address.  If there is none, one of an address that has more of them
 * has to go, or one that was silent for long.  False: the new one has to.
 */
bool fab_sock_make_place(fab_sock_set_t *set, const uint8_t *from);

/* ---- sock_ask.c: attempts to connect --------------------------------------- */

/* Time limits of a race, and its next attempts. */
void fab_sock_look_after_race(fab_sock_t *sock, uint64_t now);

/* may_try_again: it might succeed later. */
void fab_sock_attempt_failed(fab_sock_t *sock, int at, int error, bool may_try_again);

/* The attempt has found the process: its connection is that of the socket which asks. */
void fab_sock_attempt_won(fab_sock_t *attempt);

/* That connection was lost without an answer.  may_try_again: not for good. */
void fab_sock_winner_lost(fab_sock_t *sock, bool may_try_again);

/* Kill it with its attempts. */
void fab_sock_kill_all(fab_sock_t *sock);

#endif /* FAB_SOCK_TYPES_H */
