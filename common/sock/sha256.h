/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHA-256 (FIPS 180-4) and HMAC (RFC 2104) with it, for the proof that a connection belongs to the
 * job.  It stands here because a library would bring its own version into every MPI program, and
 * the kernel's (AF_ALG) is often forbidden in containers.  Not for bulk data.
 */
#ifndef FAB_SHA256_H
#define FAB_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_export.h"

enum { FAB_SHA256_LEN = 32 };

typedef struct fab_sha256 {
    uint32_t state[8];
    uint64_t len; /* bytes so far */
    uint8_t block[64];
} fab_sha256_t;

void fab_sha256_init(fab_sha256_t *sha);
void fab_sha256_add(fab_sha256_t *sha, const void *data, size_t len);
void fab_sha256_end(fab_sha256_t *sha, uint8_t out[FAB_SHA256_LEN]);

/* key_len is 64 at most: no key here is longer than a block. */
FAB_EXPORT void fab_hmac(const uint8_t *key, size_t key_len, const void *data, size_t len,
                         uint8_t out[FAB_SHA256_LEN]);

/* In a time that does not depend on where they differ. */
FAB_EXPORT bool fab_bytes_are_equal(const uint8_t *a, const uint8_t *b, size_t len);

#endif /* FAB_SHA256_H */
