/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of a peer's addresses to try, and when.  No sockets, no clock of its own.
 *
 *      WAITING ──> CONNECTING ──TCP connects──> GREETED ──proof──> it has won: the race is over
 *         ^             └───────────fails──────────┴──> FAILED
 *         └──────────────── next round ────────────────────┘
 *
 * Two addresses connect at a time, the second FAB_SOCK_HEAD_US after the first, so that an address
 * that leads nowhere costs little.  After the limit of an attempt it fails, and makes way for
 * others.
 *
 * An address that connected may be silent because its process computes, or because something else
 * listens there.  It stays in the race for ever, but after the limit of an attempt others are tried
 * beside it.
 *
 * When all have failed, the next round begins, until the time is up.  If all refused, round after
 * round, for FAB_SOCK_REFUSED_US, none listens: the race is lost.  Not at once: a firewall may
 * refuse in one direction what it lets pass in the other, and the peer may be about to ask.  The
 * race is never lost while an address is GREETED.
 */
#ifndef FAB_SOCK_RACE_H
#define FAB_SOCK_RACE_H

#include "sock/sock_ip.h"

enum {
    FAB_SOCK_HEAD_US = 250000,      /* start of the first address before the second */
    FAB_SOCK_ATTEMPT_US = 5000000,  /* limit of an attempt, or a quarter of all the time */
    FAB_SOCK_PAUSE_US = 20000,      /* between rounds: this to eight times as much */
    FAB_SOCK_REFUSED_US = 10000000, /* until refusals alone mean that the process has ended */
    FAB_SOCK_AT_A_TIME = 2,         /* addresses that connect */
    FAB_SOCK_LAME = 256,            /* addresses that are remembered, a power of two */
};

typedef enum fab_sock_runner {
    FAB_SOCK_RUN_WAITING,
    FAB_SOCK_RUN_CONNECTING,
    FAB_SOCK_RUN_GREETED,
    FAB_SOCK_RUN_FAILED,
} fab_sock_runner_t;

typedef struct fab_sock_race {
    uint8_t num;
    uint8_t runners[FAB_SOCK_IPS]; /* fab_sock_runner_t */
    bool may_try_again;            /* in this round not all refused */
    uint64_t since[FAB_SOCK_IPS];  /* us: when it began to be what it is */
    uint64_t next_round;           /* us: nothing starts before */
    uint64_t timeout;              /* us: all the time */
    uint64_t give_up;              /* us: no round begins after */
    uint64_t refused_until;        /* us: the same, as long as all refuse; 0: not all do */
} fab_sock_race_t;

void fab_sock_race_begin(fab_sock_race_t *race, int num, uint64_t now, uint64_t timeout_us);

/* An address to connect to now, which counts as CONNECTING then.  -1: none now. */
int fab_sock_race_next(fab_sock_race_t *race, uint64_t now);

/* A CONNECTING address whose time is up.  -1: none. */
int fab_sock_race_late(const fab_sock_race_t *race, uint64_t now);

void fab_sock_race_greeted(fab_sock_race_t *race, int at, uint64_t now);
/* may_try_again: it might succeed later. */
void fab_sock_race_failed(fab_sock_race_t *race, int at, bool may_try_again);

/* The time begins again: something says that the peer's host lives. */
void fab_sock_race_extend(fab_sock_race_t *race, uint64_t now);

/* The winner was lost: the next round begins after a pause. */
void fab_sock_race_again(fab_sock_race_t *race, uint64_t now, unsigned jitter);

/*
 * Begin the next round, if this one is over.  jitter: 0 to 7, differs between processes.  False:
 * the race is lost.
 */
bool fab_sock_race_go_on(fab_sock_race_t *race, uint64_t now, unsigned jitter);

/* ---- addresses that led nowhere ------------------------------------------ */

/* What one race found out is remembered for others.  Such an address is tried last, not never. */
typedef struct fab_sock_lame {
    struct {
        uint8_t ip[16];
        uint64_t until; /* us */
    } slots[FAB_SOCK_LAME];
} fab_sock_lame_t;

void fab_sock_lame_set(fab_sock_lame_t *lame, const uint8_t *ip, uint64_t until);
void fab_sock_lame_clear(fab_sock_lame_t *lame, const uint8_t *ip);

/* Put those that led nowhere behind the others. */
void fab_sock_lame_sort(const fab_sock_lame_t *lame, uint64_t now, fab_sock_ip_t *ips, int num);

#endif /* FAB_SOCK_RACE_H */
