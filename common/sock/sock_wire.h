/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a TCP connection between two processes begins, for every provider that makes one.
 *
 *      active side                              passive side, which listens
 *      GREETING {name, target, nonce}   ->      is it for this process?
 *                                       <-      CHALLENGE {nonce, proof}
 *      sealed frame                     ->      the seal proves the active side
 *                                       <-      sealed frames of the provider, both ways
 *
 * The secret is the key in the passive process's address: 128 random bits, known only to processes
 * that got the address from the job by PMIx, including processes that were spawned or connected
 * later.  Both sides derive a session key from it:
 *
 *      session = HMAC(key, "session", greeting, nonce of the answering side)
 *      proof   = HMAC(session, "answer")
 *      mask    = HMAC(session, "mask", direction, number of the frame, index of the 32 bytes)
 *      seal    = HMAC(session, "seal", direction, number of the frame, masked frame)
 *
 * On the wire a frame is its seal, followed by the frame exclusive-or its mask: a frame contains
 * its sender's address with the sender's key, which must not be readable on the network.  Nothing
 * in a frame is used before its seal was verified.  Data that a provider sends after its frames is
 * not protected.
 *
 * HMAC is that of SHA-256; byte order is the host's.
 */
#ifndef FAB_SOCK_WIRE_H
#define FAB_SOCK_WIRE_H

#include <stdint.h>

#include "sock/sha256.h"

#define FAB_SOCK_MAGIC   0x4b434f53u /* "SOCK", little endian */
#define FAB_SOCK_VERSION 1

enum {
    FAB_SOCK_KEY = 16,        /* bytes */
    FAB_SOCK_NONCE = 16,      /* bytes */
    FAB_SOCK_FRAME_MAX = 448, /* bytes of a provider's frame */
};

typedef struct fab_sock_greeting {
    uint32_t magic;
    uint16_t version;
    uint16_t protocol; /* FAB_WIRE_* of the provider */
    uint64_t name;     /* of the asking process */
    uint64_t target;   /* of the process that is meant */
    uint8_t nonce[FAB_SOCK_NONCE];
} fab_sock_greeting_t;

typedef struct fab_sock_challenge {
    uint32_t magic;
    uint16_t version;
    uint16_t protocol;
    uint8_t nonce[FAB_SOCK_NONCE];
    uint8_t proof[FAB_SHA256_LEN];
} fab_sock_challenge_t;

typedef struct fab_sock_sealed {
    uint8_t seal[FAB_SHA256_LEN];
    uint8_t frame[FAB_SOCK_FRAME_MAX]; /* as many as the provider's frames have */
} fab_sock_sealed_t;

_Static_assert(40 == sizeof(fab_sock_greeting_t), "fab_sock_greeting_t is a wire format");
_Static_assert(56 == sizeof(fab_sock_challenge_t), "fab_sock_challenge_t is a wire format");

#endif /* FAB_SOCK_WIRE_H */
