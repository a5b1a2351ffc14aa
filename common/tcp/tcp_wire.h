/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp provider: every byte that leaves the process.
 *
 * Connection set-up.  As sock_wire.h describes, with these frames:
 *
 *      connecting side                              accepting side
 *      HELLO {address}                      ->
 *                                           <-      WELCOME {address}, or REFUSE
 *      messages                             <->     messages
 *
 * Frames, CREDIT and BYE are those of a session (session_wire.h); its window counts bytes.
 *
 * Links.  The side that sends long messages may ask for further connections over other networks, of
 * which HELLO says the number.  Its serial is then that of the HELLO by which the connection was
 * made.  Only PIECE is sent on a link by the side that has asked for it, and only
 * CONFIRM by the other.  If a link is lost, it may be made once more, by any network.  `other`
 * of WELCOME for a link is the number of its pieces that have come; those after them are sent
 * again.
 *
 * Messages.  A header, then the payload, then zeros up to a multiple of 8 bytes:
 *
 *       0 id  1 payload bytes (24 bits)  4 app_ctx  8 tag  16 payload ...
 *
 * A striped message has an announcement before it. Its own payload is only the end of all, and each
 * link named has one piece of the rest:
 *
 *      connection   STRIPE {app_ctx: bit n for link n, tag: bytes of all}   message {..., end}
 *      link n       PIECE {tag: offset, payload: a multiple of 8 bytes}
 *                   <- CONFIRM {tag: pieces that have come by link n, app_ctx: how slow it is}
 *
 * All arrive in order, so a piece is of the first STRIPE that names its link and has none by it
 * yet.
 *
 * A sender has a window, which bounds what waits in the kernels for a process that reads nothing.
 * It gets credit (CREDIT) for what was read.  Messages of more than FAB_TCP_EAGER_MAX bytes, for
 * which a receive waits, and the provider's own take nothing from the window.
 *
 * All integers are in the byte order of the host, which the fabric's address has checked.
 */
#ifndef FAB_TCP_WIRE_H
#define FAB_TCP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "session/session_wire.h"
#include "sock/sock_ip.h"
#include "sock/sock_wire.h"

#define FAB_TCP_VERSION 7

enum {
    FAB_TCP_EAGER_MIN = 304,    /* bytes: 256 of fab_post() and sizeof(fab_rndv_t) */
    FAB_TCP_EAGER_MAX = 122880, /* bytes: a receive buffer holds one such message */
    FAB_TCP_LINKS = 8, /* connections to send to a peer, with the first: one for each address */
    /*
     * bytes of a striped message that each of them carries at most: the next one of a send waits
     * until all are confirmed, a round trip
     */
    FAB_TCP_SHARE_MAX = 524288,
    FAB_TCP_STRIPE_MAX = FAB_TCP_LINKS * FAB_TCP_SHARE_MAX,
};

/*
 * Ids of the provider's own messages, without payload but PIECE; those below FAB_AM_MAX are the
 * fabric's.
 */
enum {
    FAB_TCP_ID_CREDIT = 128, /* tag: bytes that the sender has read since the session began */
    FAB_TCP_ID_BYE = 129,    /* app_ctx: fab_ses_bye_t */
    /*
     * the next message is striped: tag: bytes of it, more than FAB_TCP_EAGER_MAX; app_ctx: its
     * links
     */
    FAB_TCP_ID_STRIPE = 144,
    FAB_TCP_ID_PIECE = 145, /* on links only: payload, of which tag is the offset */
    /*
     * on links only, the other way: tag: pieces that have come by it so far; app_ctx: messages in a
     * row that had to wait for it
     */
    FAB_TCP_ID_CONFIRM = 146,
};

typedef struct fab_tcp_hdr {
    uint32_t id_len; /* id | payload bytes << 8 */
    uint32_t app_ctx;
    uint64_t tag;
} fab_tcp_hdr_t;

_Static_assert(16 == sizeof(fab_tcp_hdr_t), "fab_tcp_hdr_t is a wire format");

/* Bytes that a payload of len bytes takes. */
static inline size_t fab_tcp_padded(size_t len)
{
    return (len + 7) & ~(size_t) 7;
}

/* Section of a process's address. */
typedef struct fab_tcp_addr {
    uint16_t version;
    uint8_t num_ips;      /* of ips that are used */
    uint8_t num_left_out; /* further addresses, for which there was no room */
    uint32_t eager_max;   /* longest payload that it takes, bytes */
    uint64_t host;        /* fab_host_identity() */
    uint8_t key[FAB_SOCK_KEY];
    fab_sock_ip_t ips[FAB_SOCK_IPS]; /* where it listens, the best first */
} fab_tcp_addr_t;

_Static_assert(416 == sizeof(fab_tcp_addr_t), "fab_tcp_addr_t is a wire format");

typedef struct fab_tcp_frame {
    fab_ses_msg_t msg;
    uint32_t link; /* of HELLO: 0 for the connection, below FAB_TCP_LINKS for a link */
    uint32_t reserved;
    fab_tcp_addr_t addr; /* of the sender */
} fab_tcp_frame_t;

_Static_assert(448 == sizeof(fab_tcp_frame_t), "fab_tcp_frame_t is a wire format");
_Static_assert(0 == offsetof(fab_tcp_frame_t, msg), "sock.h finds it there");
_Static_assert(sizeof(fab_tcp_frame_t) <= FAB_SOCK_FRAME_MAX, "it fits");

#endif /* FAB_TCP_WIRE_H */
