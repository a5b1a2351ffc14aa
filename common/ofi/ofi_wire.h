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
 * cookie.  credits counts, modulo 2^16, the messages of this session that the sender of the header
 * has taken from its receiver.  seq numbers the messages of the session in this direction, modulo
 * 2^16: providers place messages in order (FI_ORDER_SAS), but some report a message of several
 * packets after a short one that follows it.  pad is how many bytes at the end, 0 to 7, are not
 * payload: all messages have a multiple of 8 bytes, because providers put them into a buffer one
 * after the other and the payload is to be aligned.
 *
 * Set-up of a session:
 *
 *      asking side                                     answering side
 *      HELLO {address, index, cookie, window} ->       knows how to answer
 *                                             <-       CHALLENGE {nonce}
 *      HELLO {the same, nonce}                ->
 *                                             <-       WELCOME {index, cookie, window}, or REFUSE
 *      may send now
 *      READY                                  ->       may send now
 *
 * HELLO has a proof made with the answering process's key, CHALLENGE and WELCOME one made with the
 * asking process's; only the job's processes know the keys, from the addresses.  A nonce is good
 * for one session, so a HELLO that somebody recorded and sends again begins none.  A process that
 * has sent HELLO ignores the other's HELLO if its own name is the smaller one; that may come after
 * the other's WELCOME, which has the same index and cookie.
 *
 * Short messages that leave together are parts of one, PACK, whose app_ctx and tag mean nothing:
 *
 *       0 id (8), 0 (8), len (16)   4 app_ctx   8 tag   16 payload, to a multiple of 8 ...
 *
 * A part counts for credits as a message of its own; PACK itself does not.
 *
 * The end: CLOSE is answered by CLOSED (or by CLOSE, if both close), LEAVE by LEFT (or by LEAVE).
 * Each is the sender's last message of the session.
 */
#ifndef FAB_OFI_WIRE_H
#define FAB_OFI_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define FAB_OFI_MAGIC   0x5349464fu /* "OFIS", little endian */
#define FAB_OFI_VERSION 4

enum {
    FAB_OFI_NAME_MAX = 64,        /* bytes of an endpoint's address: the longest is 32 */
    FAB_OFI_PROVIDER_MAX = 16,    /* bytes of a provider's name, with 0 */
    FAB_OFI_KEY = 16,             /* bytes */
    FAB_OFI_PROOF = 32,           /* bytes: HMAC with SHA-256 */
    FAB_OFI_EAGER_MIN = 512,      /* bytes: HELLO fits, as does fab_rndv_t */
    FAB_OFI_EAGER_MAX = 65536,    /* bytes */
    FAB_OFI_WINDOW_MIN = 4,       /* messages */
    FAB_OFI_WINDOW_MAX = 16384,   /* messages: well below half of the credits' 2^16 */
    FAB_OFI_RECV_BYTES = 1 << 20, /* of one receive buffer, which many messages share */
    FAB_OFI_ALIGN = 8,
    FAB_OFI_PART_MAX = 1024, /* bytes of a part of PACK: longer messages go alone */
};

#define FAB_OFI_NO_INDEX 0x1fffffu /* HELLO, CHALLENGE: they are of no session */

/* Ids of the provider's own messages; those below FAB_AM_MAX are the fabric's. */
enum {
    FAB_OFI_ID_CREDIT = 128, /* nothing but the credits in the header */
    FAB_OFI_ID_HELLO = 129,
    FAB_OFI_ID_WELCOME = 130,
    FAB_OFI_ID_REFUSE = 131, /* it failed before, or is reached by another provider */
    FAB_OFI_ID_READY = 132,
    FAB_OFI_ID_CLOSE = 133,  /* the sender sends no more and asks for the session's end */
    FAB_OFI_ID_CLOSED = 134, /* agreed */
    FAB_OFI_ID_LEAVE = 135,  /* the sender takes no more messages */
    FAB_OFI_ID_LEFT = 136,   /* heard */
    FAB_OFI_ID_CHALLENGE = 137,
    FAB_OFI_ID_PACK = 138,
};

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
    uint16_t name_len;    /* bytes of name; of text (FI_ADDR_STR): all, with zeros behind it */
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

/* Payload of HELLO. */
typedef struct fab_ofi_hello {
    uint32_t magic;
    uint32_t version;
    uint64_t name;   /* of the sender */
    uint64_t target; /* of the receiver */
    uint32_t index;  /* for the answer */
    uint32_t cookie;
    uint32_t window; /* messages that the receiver may have under way to the sender */
    uint32_t reserved;
    uint64_t nonce;               /* from CHALLENGE; 0: none yet */
    fab_ofi_addr_t addr;          /* of the sender */
    uint8_t proof[FAB_OFI_PROOF]; /* HMAC of all with zeros here, by the receiver's key */
} fab_ofi_hello_t;

_Static_assert(224 == sizeof(fab_ofi_hello_t), "fab_ofi_hello_t is a wire format");

/* Payload of CHALLENGE. */
typedef struct fab_ofi_challenge {
    uint32_t magic;
    uint32_t version;
    uint64_t name; /* of the sender */
    uint32_t index;
    uint32_t cookie; /* those of the HELLO that it answers */
    uint64_t nonce;
    uint8_t proof[FAB_OFI_PROOF]; /* HMAC of all with zeros here, by the receiver's key */
} fab_ofi_challenge_t;

_Static_assert(64 == sizeof(fab_ofi_challenge_t), "fab_ofi_challenge_t is a wire format");

/* Payload of WELCOME; its header has index and cookie of HELLO. */
typedef struct fab_ofi_welcome {
    uint64_t name; /* of the sender */
    uint32_t index;
    uint32_t cookie;
    uint32_t window;
    uint32_t hello_cookie;        /* that of the HELLO that it answers */
    uint8_t proof[FAB_OFI_PROOF]; /* HMAC of all with zeros here, by the receiver's key */
} fab_ofi_welcome_t;

_Static_assert(56 == sizeof(fab_ofi_welcome_t), "fab_ofi_welcome_t is a wire format");

/* Start of fab_rkey_t. */
typedef struct fab_ofi_rkey {
    uint64_t key;  /* fi_mr_key() */
    uint64_t base; /* address of the first byte, 0 with FAB_OFI_ADDR_VIRT: subtract it */
} fab_ofi_rkey_t;

_Static_assert(16 == sizeof(fab_ofi_rkey_t), "the rest is shm's: fab_shm_rkey_t");

#endif /* FAB_OFI_WIRE_H */
