/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of a connection, and the seals of its frames (sock_wire.h has the formulas). No state.
 */
#ifndef FAB_SOCK_PROOF_H
#define FAB_SOCK_PROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "sock/sock_wire.h"

typedef struct fab_sock_session {
    uint8_t key[FAB_SHA256_LEN];
} fab_sock_session_t;

/* The sender of a frame. */
typedef enum fab_sock_side {
    FAB_SOCK_ANSWERING = 0,
    FAB_SOCK_ASKING = 1,
} fab_sock_side_t;

/* key: FAB_SOCK_KEY bytes, nonce: FAB_SOCK_NONCE bytes; both of the passive process. */
void fab_sock_session(const uint8_t *key, const fab_sock_greeting_t *greeting, const uint8_t *nonce,
                      fab_sock_session_t *session);

void fab_sock_proof(const fab_sock_session_t *session, uint8_t proof[FAB_SHA256_LEN]);

/* Seal frame number `number` of this side, len <= FAB_SOCK_FRAME_MAX bytes. */
void fab_sock_seal(const fab_sock_session_t *session, fab_sock_side_t side, uint32_t number,
                   const void *frame, size_t len, fab_sock_sealed_t *sealed);

/* Open a sealed frame. False: the seal was not made with the key, and frame is not written. */
bool fab_sock_unseal(const fab_sock_session_t *session, fab_sock_side_t side, uint32_t number,
                     const fab_sock_sealed_t *sealed, size_t len, void *frame);

#endif /* FAB_SOCK_PROOF_H */
