/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random bytes from the kernel, for keys and nonces.
 */
#ifndef FAB_RANDOM_H
#define FAB_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric/fab_export.h"

/* Fill len bytes, at most 256.  False, and errno: there are none. */
FAB_EXPORT bool fab_random(void *bytes, size_t len);

#endif /* FAB_RANDOM_H */
