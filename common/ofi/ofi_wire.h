/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: every byte that leaves the process.
 *
 * Everything is a message of libfabric's (FI_MSG) between the endpoints of two processes.  It
 * begins with a header, in the byte order of the host, which the fabric's address has checked:
 *
 *       0 id (8), pad (3), index (21)   4 app_ctx   8 tag   16 cookie   20 credits   22 seq
 *      24 payload ...
 *
 * index and cookie name the session at the receiver, which has told them to the sender: no look-up
 * of addresses is needed, and a message for a process that had this address before is known by its
 * cookie, the low half of the receiver's serial number (session_wire.h).  credits counts, modulo
 * 2^16, the messages of this session that the sender of the header has taken from its receiver.
 * seq numbers the messages of the session in this direction, modulo 2^16: providers place messages
 * in order (FI_ORDER_SAS), but some report a message of several packets after a short one that
 * follows it.  pad is how many bytes at the end, 0 to 7, are not payload: all messages have a
 * multiple of 8 bytes, because providers put them into a buffer one after the other and the payload
 * is to be aligned.
 *
 * Set-up of a session (session.h: it has neither a via nor a stream):
 *
 *      asking side                                     answering side
 *      KNOCK {address, index, number}         ->       changes nothing there
 *                                             <-       CHALLENGE {index, number, nonce}
 *      HELLO {address, index, serial, nonce}  ->
 *                                             <-       WELCOME {address, index, serial}, or REFUSE
 *      CREDIT: its first word                 ->       may send now
 *
 * The four are frames: messages of no session (FAB_OFI_NO_INDEX), with a proof made with the
 * receiver's key; only the job's processes know the keys, from the addresses.  A nonce is good for
 * one HELLO, so one that somebody recorded and sends again begins nothing.  HELLO and WELCOME are
 * as long as the longest message of a user: what passes them passes those.  REFUSE has no payload:
 * it goes to the index and the serial of the HELLO, or the WELCOME, that is meant.
 *
 * Short messages that leave together are parts of one, PACK, whose app_ctx and tag mean nothing:
 *
 *       0 id (8), 0 (8), len (16)   4 app_ctx   8 tag   16 payload, to a multiple of 8 ...
 *
 * A part counts for credits as a message of its own; PACK itself does not.
 *
 * CREDIT with FAB_OFI_ASK is answered by CREDIT.  One of no session means nothing: it shows its
 * sender whether libfabric delivers it.  BYE is the last message of its sender in the session, but
 * for STAY.
 */
#ifndef FAB_OFI_WIRE_H
#define FAB_OFI_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "session/session_wire.h"

#define FAB_OFI_MAGIC   0x5349464fu /* "OFIS", little endian */
#define FAB_OFI_VERSION 5

enum {
    FAB_OFI_NAME_MAX = 64,        /* bytes of an endpoint's address: the longest is 32 */
    FAB_OFI_PROVIDER_MAX = 16,    /* bytes of a provider's name, with 0 */
    FAB_OFI_KEY = 16,             /* bytes */
    FAB_OFI_PROOF = 32,           /* bytes: HMAC with SHA-256 */
    FAB_OFI_EAGER_MIN = 512,      /* bytes: a frame fits, as does fab_rndv_t */
    FAB_OFI_EAGER_MAX = 65536,    /* bytes */
    FAB_OFI_WINDOW_MIN = 4,       /* messages */
    FAB_OFI_WINDOW_MAX = 16384,   /* messages: well below half of the credits' 2^16 */
    FAB_OFI_RECV_BYTES = 1 << 20, /* of one receive buffer, which many messages share */
    FAB_OFI_ALIGN = 8,
    FAB_OFI_PART_MAX = 1024, /* bytes of a part of PACK: longer messages go alone */
};

#define FAB_OFI_NO_INDEX 0x1fffffu /* a frame: it is of no session */

/* Ids of the provider's own messages; those below FAB_AM_MAX are the fabric's. */
enum {
    FAB_OFI_ID_CREDIT = 128, /* nothing but the credits in the header; app_ctx: FAB_OFI_ASK, or 0 */
    FAB_OFI_ID_BYE = 129,    /* app_ctx: fab_ses_bye_t */
    FAB_OFI_ID_KNOCK = 130,  /* a frame, as the next three */
    FAB_OFI_ID_CHALLENGE = 131,
    FAB_OFI_ID_HELLO = 132,
    FAB_OFI_ID_WELCOME = 133,
    FAB_OFI_ID_REFUSE = 134, /* app_ctx: fab_ses_reason_t */
    FAB_OFI_ID_PACK = 144,
};

enum { FAB_OFI_ASK = 1 }; /* CREDIT: the sender has not heard of the receiver for a while */

typedef struct fab_ofi_hdr {
    uint32_t id_index; /* id | pad << 8 | index << 11 */
    uint32_t app_ctx;
    uint64_t tag;
    uint32_t cookie;
    uint16_t credits;
    uint16_t seq;
} fab_ofi_hdr_t;

_Static_assert(24 == sizeof(fab_ofi_hdr_t), "fab_ofi_hdr_t is a wire format");

static inline uint32_t fab_ofi_id_index(uint8_t id, uint32_t pad, uint32_t index)
{
    return id | pad << 8 | index << 11;
}

static inline uint8_t fab_ofi_hdr_id(const fab_ofi_hdr_t *hdr)
{
    return (uint8_t) hdr->id_index;
}

static inline uint32_t fab_ofi_hdr_pad(const fab_ofi_hdr_t *hdr)
{
    return hdr->id_index >> 8 & 7;
}

static inline uint32_t fab_ofi_hdr_index(const fab_ofi_hdr_t *hdr)
{
    return hdr->id_index >> 11;
}

/* What a part of PACK begins with. */
typedef struct fab_ofi_part {
    uint8_t id; /* below FAB_AM_MAX */
    uint8_t reserved;
    uint16_t len; /* bytes of payload */
    uint32_t app_ctx;
    uint64_t tag;
} fab_ofi_part_t;

_Static_assert(16 == sizeof(fab_ofi_part_t), "fab_ofi_part_t is a wire format");

/* Bytes that a payload of len bytes takes. */
static inline size_t fab_ofi_padded(size_t len)
{
    return (len + FAB_OFI_ALIGN - 1) & ~(size_t) (FAB_OFI_ALIGN - 1);
}

/* In an address. */
enum {
    FAB_OFI_ADDR_RMA = 1,  /* its memory can be read and written */
    FAB_OFI_ADDR_VIRT = 2, /* addresses of RMA are those of the process, not offsets */
};

/* Section of a process's address. */
typedef struct fab_ofi_addr {
    uint16_t version;
    uint16_t name_len;    /* bytes of name, the same in all processes; it is no text */
    uint32_t addr_format; /* FI_ADDR_*, FI_SOCKADDR_* */
    uint32_t eager_max;   /* longest payload that it takes, bytes */
    uint32_t flags;       /* FAB_OFI_ADDR_* */
    uint32_t protocol;    /* FI_PROTO_*: processes of one protocol understand each other */
    uint32_t protocol_version;
    uint32_t pid;
    uint32_t reserved;
    uint64_t host; /* fab_host_identity(): pid means something only there */
    uint64_t start_time;
    uint8_t key[FAB_OFI_KEY];            /* of proofs for this process */
    char provider[FAB_OFI_PROVIDER_MAX]; /* libfabric's name of it */
    uint8_t name[FAB_OFI_NAME_MAX];      /* what fi_getname() gave */
} fab_ofi_addr_t;

_Static_assert(144 == sizeof(fab_ofi_addr_t), "fab_ofi_addr_t is a wire format");

/* Payload of KNOCK, CHALLENGE, HELLO and WELCOME; zeros follow it in the last two. */
typedef struct fab_ofi_frame {
    uint32_t magic;
    uint32_t version;
    uint64_t name;     /* of the sender */
    uint64_t target;   /* of the receiver */
    fab_ses_msg_t msg; /* of KNOCK and CHALLENGE serial alone counts: KNOCK's number */
    uint64_t nonce;    /* of CHALLENGE, and of HELLO, which has the former's; else 0 */
    uint32_t index;    /* at the sender; of CHALLENGE: at the receiver */
    uint32_t reserved;
    fab_ofi_addr_t addr;          /* of the sender */
    uint8_t proof[FAB_OFI_PROOF]; /* HMAC of all with zeros here, by the receiver's key */
} fab_ofi_frame_t;

_Static_assert(240 == sizeof(fab_ofi_frame_t), "fab_ofi_frame_t is a wire format");

/* Start of fab_rkey_t. */
typedef struct fab_ofi_rkey {
    uint64_t key;  /* fi_mr_key() */
    uint64_t base; /* address of the first byte, 0 with FAB_OFI_ADDR_VIRT: subtract it */
} fab_ofi_rkey_t;

_Static_assert(16 == sizeof(fab_ofi_rkey_t), "the rest is shm's: fab_shm_rkey_t");

#endif /* FAB_OFI_WIRE_H */
