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

/*
 * A counter of the processor that runs at a constant rate, of 10^7 to 10^10 in a second: it tells
 * whether something was long ago, for a few instructions, but is no time.
 */
static inline uint64_t fab_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return fab_now_ns();
#endif
}

/* Polls with so many fab_ticks() between them are far apart: 10 to 50 us on x86-64. */
enum { FAB_FAR_TICKS = 50000 };

#endif /* FAB_CLOCK_H */
