/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library that plays a device (device_play.c, device_cuda.c) gives to programs, by
 * dlsym().
 */
#ifndef DEVICE_PLAY_H
#define DEVICE_PLAY_H

#include <stddef.h>

typedef struct tm_play {
    void *(*alloc)(size_t len); /* memory of the device; never NULL */
    void (*free)(void *ptr);
    /* As memcpy(); either side may be in memory of the device. */
    void (*copy)(void *dst, const void *src, size_t len);
} tm_play_t;

#define TM_PLAY "tm_play" /* the symbol of a const tm_play_t */

#endif /* DEVICE_PLAY_H */
