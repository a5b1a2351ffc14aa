/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two processes reach each other by a provider: one asks, the other answers, at the two ends of
 * a stream socket.  Each opens the fabric with that provider alone; no MPI is needed.
 *
 * A process opens the fabric once here, so each of these calls is made in a child of its own.
 */
#ifndef TM_INFO_PAIR_H
#define TM_INFO_PAIR_H

#include <stdbool.h>
#include <stddef.h>

enum { TM_PAIR_WHY_MAX = 600, TM_PAIR_WAIT_S = 10 /* for an answer */ };

/* The providers that two processes of one host may use, and from TM_PAIR_HOSTS on, of two. */
enum { TM_PAIR_PROVIDERS = 4, TM_PAIR_HOSTS = 1 };
extern const char *const tm_pair_providers[TM_PAIR_PROVIDERS];

typedef struct tm_pair_result {
    char why_not[TM_PAIR_WHY_MAX]; /* empty: it was measured */
    double latency_us;             /* one way, of 8 bytes */
    double rate;                   /* of messages of 8 bytes, 1/s */
    double copied;                 /* by messages with their data, bytes/s */
    size_t copied_len;             /* bytes of each of them */
    double read;                   /* from memory of the process that answers, bytes/s; 0: never */
    char by[256];                  /* IP addresses of that process, if it has sockets to them */
} tm_pair_result_t;

/* Ask the process at the other end to use this provider, and measure. */
void tm_pair_ask(int fd, const char *provider, tm_pair_result_t *result);

/* Answer one such question, until the other is done.  False: it cannot be answered. */
bool tm_pair_answer(int fd);

#endif /* TM_INFO_PAIR_H */
