/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying a few bytes without a call.
 */
#ifndef FAB_COPY_H
#define FAB_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

#endif /* FAB_COPY_H */
