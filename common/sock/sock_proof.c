/* SPDX-License-Identifier: BSD-3-Clause */
#include "sock/sock_proof.h"

#include <string.h>

/*
 * What is hashed for one purpose: all of fixed size, so that no two purposes have the same bytes.
 */
typedef struct fab_sock_hashed {
    char purpose[8];
    uint32_t side;
    uint32_t number;
    uint32_t index;
    uint32_t reserved;
    uint8_t frame[FAB_SOCK_FRAME_MAX];
} fab_sock_hashed_t;

void fab_sock_session(const uint8_t *key, const fab_sock_greeting_t *greeting, const uint8_t *nonce,
                      fab_sock_session_t *session)
{
    struct {
        char purpose[8];
        fab_sock_greeting_t greeting;
        uint8_t nonce[FAB_SOCK_NONCE];
    } hashed = {.purpose = "session", .greeting = *greeting};

    memcpy(hashed.nonce, nonce, sizeof(hashed.nonce));
    fab_hmac(key, FAB_SOCK_KEY, &hashed, sizeof(hashed), session->key);
}

void fab_sock_proof(const fab_sock_session_t *session, uint8_t proof[FAB_SHA256_LEN])
{
    fab_hmac(session->key, sizeof(session->key), "answer", sizeof("answer"), proof);
}

/* to = from exclusive-or the mask; they may be the same. */
static void mask(const fab_sock_session_t *session, fab_sock_side_t side, uint32_t number,
                 const uint8_t *from, size_t len, uint8_t *to)
{
    fab_sock_hashed_t hashed = {.purpose = "mask", .side = side, .number = number};
    uint8_t bytes[FAB_SHA256_LEN];

    for (size_t i = 0; i < len; i++) {
        if (0 == i % sizeof(bytes)) {
            fab_hmac(session->key, sizeof(session->key), &hashed,
                     offsetof(fab_sock_hashed_t, frame), bytes);
            hashed.index++;
        }
        to[i] = from[i] ^ bytes[i % sizeof(bytes)];
    }
}

/* The seal of a masked frame. */
static void seal_of(const fab_sock_session_t *session, fab_sock_side_t side, uint32_t number,
                    const uint8_t *masked, size_t len, uint8_t seal[FAB_SHA256_LEN])
{
    fab_sock_hashed_t hashed = {.purpose = "seal", .side = side, .number = number};

    memcpy(hashed.frame, masked, len);
    fab_hmac(session->key, sizeof(session->key), &hashed, offsetof(fab_sock_hashed_t, frame) + len,
             seal);
}

void fab_sock_seal(const fab_sock_session_t *session, fab_sock_side_t side, uint32_t number,
                   const void *frame, size_t len, fab_sock_sealed_t *sealed)
{
    mask(session, side, number, frame, len, sealed->frame);
    seal_of(session, side, number, sealed->frame, len, sealed->seal);
}

bool fab_sock_unseal(const fab_sock_session_t *session, fab_sock_side_t side, uint32_t number,
                     const fab_sock_sealed_t *sealed, size_t len, void *frame)
{
    uint8_t seal[FAB_SHA256_LEN];

    seal_of(session, side, number, sealed->frame, len, seal);
    if (!fab_bytes_are_equal(seal, sealed->seal, sizeof(seal))) {
        return false;
    }
    mask(session, side, number, sealed->frame, len, frame);
    return true;
}
