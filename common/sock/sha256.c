/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 as FIPS 180-4 defines it (the names are the standard's), and HMAC.  No state. */
#include "sock/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* The message schedule of a block. */
static void schedule(const uint8_t *block, uint32_t w[64])
{
    for (int t = 0; t < 16; t++) {
        w[t] = (uint32_t) block[4 * t] << 24 | (uint32_t) block[4 * t + 1] << 16 |
               (uint32_t) block[4 * t + 2] << 8 | block[4 * t + 3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

static void compress(fab_sha256_t *sha)
{
    uint32_t *state = sha->state, w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    schedule(sha->block, w);
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + k[t] + w[t];
        uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

void fab_sha256_init(fab_sha256_t *sha)
{
    *sha = (fab_sha256_t){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                    0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void fab_sha256_add(fab_sha256_t *sha, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    while (len > 0) {
        const size_t at = sha->len % 64, n = len < 64 - at ? len : 64 - at;

        memcpy(sha->block + at, bytes, n);
        sha->len += n;
        bytes += n;
        len -= n;
        if (64 == at + n) {
            compress(sha);
        }
    }
}

void fab_sha256_end(fab_sha256_t *sha, uint8_t out[FAB_SHA256_LEN])
{
    const uint64_t bits = sha->len * 8;
    const size_t zeros = (119 - sha->len % 64) % 64; /* the length ends the block */
    uint8_t end[1 + 63 + 8] = {0x80};

    for (size_t i = 0; i < 8; i++) {
        end[1 + zeros + i] = (uint8_t) (bits >> (56 - 8 * i));
    }
    fab_sha256_add(sha, end, 1 + zeros + 8);
    for (int i = 0; i < FAB_SHA256_LEN; i++) {
        out[i] = (uint8_t) (sha->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void fab_hmac(const uint8_t *key, size_t key_len, const void *data, size_t len,
              uint8_t out[FAB_SHA256_LEN])
{
    uint8_t inner[64], outer[64];
    fab_sha256_t sha;

    memset(inner, 0x36, sizeof(inner));
    memset(outer, 0x5c, sizeof(outer));
    for (size_t i = 0; i < key_len; i++) {
        inner[i] ^= key[i];
        outer[i] ^= key[i];
    }
    fab_sha256_init(&sha);
    fab_sha256_add(&sha, inner, sizeof(inner));
    fab_sha256_add(&sha, data, len);
    fab_sha256_end(&sha, out);
    fab_sha256_init(&sha);
    fab_sha256_add(&sha, outer, sizeof(outer));
    fab_sha256_add(&sha, out, FAB_SHA256_LEN);
    fab_sha256_end(&sha, out);
}

bool fab_bytes_are_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint8_t difference = 0;

    for (size_t i = 0; i < len; i++) {
        difference |= a[i] ^ b[i];
    }
    return 0 == difference;
}
