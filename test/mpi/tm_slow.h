/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that is slow: a timer signal stops it for 1.5 ms at a time, so that others are done with a
 * step of the library, and go on, before this one is.
 */
#ifndef TM_SLOW_H
#define TM_SLOW_H

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t tm_slow_usec;

static inline void tm_slow_arm(void)
{
    struct itimerval timer = {.it_value = {.tv_usec = tm_slow_usec}};

    setitimer(ITIMER_REAL, &timer, NULL);
}

/*
 * The timer starts again after the pause, not before: else one signal would follow another, and the
 * program would hardly get on, or not at all.
 */
static inline void tm_slow_pause(int sig)
{
    struct timespec pause = {0, 1500000};
    int error = errno;

    (void) sig;
    nanosleep(&pause, NULL);
    tm_slow_arm();
    errno = error;
}

/* Stop this rank whenever it has gone on for usec (less than a second); 0: no more. */
static inline void tm_slow(long usec)
{
    struct sigaction action = {.sa_handler = tm_slow_pause, .sa_flags = SA_RESTART};

    sigaction(SIGALRM, &action, NULL);
    tm_slow_usec = (sig_atomic_t) usec;
    tm_slow_arm();
}

#endif /* TM_SLOW_H */
