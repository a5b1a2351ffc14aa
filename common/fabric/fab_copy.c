/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects processors on which memcpy() is slow when the destination is just behind the source,
 * modulo a page.
 */
#include "fabric/fab_copy.h"

#include "fabric/fab_clock.h"

enum {
    LEN = 4096, /* bytes */
    BEHIND = 8, /* bytes that a destination is behind its source, modulo a page */
    REPEAT = 8, /* copies that are timed together */
    TIMES = 5,  /* of which the least counts */
    SLOW = 3,   /* times as long */
    PAGE = 4096,
};

bool fab_copy_is_whole;

/* Least time of REPEAT copies, ns. */
static uint64_t time_of(uint8_t *to, const uint8_t *from)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < TIMES; i++) {
        const uint64_t start = fab_now_ns();
        uint64_t ns;
        for (int k = 0; k < REPEAT; k++) {
            size_t len = LEN;
            /* a length that the compiler knows it copies by other instructions */
            __asm__ volatile("" : "+r"(len) : : "memory");
            memcpy(to, from, len);
        }
        ns = fab_now_ns() - start;
        least = ns < least ? ns : least;
    }
    return least;
}

void fab_copy_probe(void)
{
    static uint8_t room[2 * (LEN + PAGE)] __attribute__((aligned(PAGE)));
    uint8_t *to = room;
    const uint8_t *from = room + LEN + PAGE;

    fab_copy_is_whole = time_of(to, from + BEHIND) <= SLOW * time_of(to, from);
}
