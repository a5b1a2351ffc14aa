/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying: a few bytes without a call, many in parts.
 */
#ifndef FAB_COPY_H
#define FAB_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fabric/fab_export.h"

#define FAB_COPY_SHORT_MAX 48 /* bytes */

/* Copy up to FAB_COPY_SHORT_MAX bytes; the two do not overlap. */
static inline void fab_copy_short(void *dst, const void *src, size_t len)
{
    uint8_t *to = dst;
    const uint8_t *from = src;

    /* a word or two first, straight on: the commonest */
    if (__builtin_expect(len - 8 <= 8, 1)) {
        memcpy(to, from, 8);
        memcpy(to + len - 8, from + len - 8, 8);
    } else if (len > 16) {
        memcpy(to, from, 16);
        if (len > 32) {
            memcpy(to + 16, from + 16, 16);
        }
        memcpy(to + len - 16, from + len - 16, 16);
    } else if (len >= 4) {
        memcpy(to, from, 4);
        memcpy(to + len - 4, from + len - 4, 4);
    } else if (len > 0) {
        to[0] = from[0];
        to[len / 2] = from[len / 2];
        to[len - 1] = from[len - 1];
    }
}

enum { FAB_COPY_PART = 2048 }; /* bytes */

/* Out of line, so that a shorter copy need not save registers. */
static __attribute__((noinline, unused)) void fab_copy_parts(uint8_t *to, const uint8_t *from,
                                                             size_t len)
{
    while (len > 0) {
        /* a part ends with a line, so that no line is written twice */
        size_t part = FAB_COPY_PART - (uintptr_t) to % 64;
        part = len < part ? len : part;
        /* a length that the compiler knows it copies by "rep movs" itself */
        __asm__("" : "+r"(part));
        memcpy(to, from, part);
        to += part;
        from += part;
        len -= part;
    }
}

/*
 * Has a copy the same speed wherever its source and destination are?  False until fab_copy_probe(),
 * which fab_open() calls.
 */
FAB_EXPORT extern bool fab_copy_is_whole;

/* Find that out, in less than 0.1 ms. */
void fab_copy_probe(void);

/*
 * Copy into a ring or out of it.  From 2112 bytes on the C library copies by "rep movsb" where the
 * processor says that this is fast.  Between processors that share no cache this is the fastest
 * way: it writes a line without getting its old content from the other processor first.  But on
 * some AMD processors it takes 2 to 26 times as long if the destination, modulo a page, is 1 to 300
 * bytes behind the source (4 KiB: 43 ns, else 100 to 1140).  A ring's payload, 24 bytes behind the
 * start of a line, comes to be there time and again.  There the copy is made in parts, for which
 * the C library uses vector registers.
 */
static inline void fab_copy(void *dst, const void *src, size_t len)
{
    if (len <= FAB_COPY_PART || fab_copy_is_whole) {
        memcpy(dst, src, len);
    } else {
        fab_copy_parts(dst, src, len);
    }
}

#endif /* FAB_COPY_H */
