/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAB_CLOCK_H
#define FAB_CLOCK_H

#include <stdint.h>
#include <time.h>

/*
 * A clock that only moves forward, for times between two calls on this host: nanoseconds,
 * microseconds.
 */
static inline uint64_t fab_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

static inline uint64_t fab_now_us(void)
{
    return fab_now_ns() / 1000;
}

#endif /* FAB_CLOCK_H */
