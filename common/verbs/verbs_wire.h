/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbs provider: every byte that leaves the process.
 *
 * Messages.  A SEND on the RC connection of the pair: a TM header (TMH, big endian as matching
 * hardware reads it), then the payload.  Ids 0 to 3 are TMH opcodes and go as they are.  Hardware
 * knows no others, so active messages and the provider's own messages go under opcode NO_TAG, their
 * id in a byte that hardware ignores:
 *
 *       0 opcode  1 id  2 credits (16 bits)  4 app_ctx  8 tag  16 payload ...
 *
 * credits counts, modulo 2^16, the messages that the sender of this header has taken from its
 * receiver so far: a count, not a difference.
 *
 * Matching hardware consumes headers.  So messages RNDV and EAGER to a process that has it carry
 * immediate data, with the credits and the kind of message; both use the opcode EAGER (their id is
 * in the byte that hardware ignores).  The opcode RNDV is reserved for a rendezvous that the
 * receiver's device may do by itself, if both devices can: then the payload is an RVH, there is no
 * immediate data, and the device reads the data and answers with a copy of the request with opcode
 * FIN.  Such a pair of processes has two connections.  Each process sends on a queue pair that is
 * connected to the other's queue pair without send queue (a device does rendezvous only on such),
 * and receives on it the other device's FINs, which do not count against the credits.
 *
 * Sessions (session_wire.h).  HELLO, WELCOME and REFUSE are frames, all of the same size, over a
 * connection as sock_wire.h describes; CREDIT, BYE and TRY are messages on the QP.
 *
 *      asking side                                       asked side
 *      HELLO {address, qpn, psn, window}    ->           makes its QP(s) ready to receive and send
 *                                           <- WELCOME   {the same of its own}, or REFUSE
 *      QP ready to receive and to send
 *      TRY and a READ of probe_addr, as long as a packet may be, are acknowledged
 *      CREDIT, on the QP                    ->           may send now, closes the stream
 *
 * A path that takes no packets, or no long ones, is found by these two, before a message of a user
 * is on it: the stream is closed, and the peer is reached in another way.  iWARP, whose connections
 * are made by packets, has no TRY.
 *
 * A connection for shares of long data, by further ports of both (verbs_rails.c), is a session of
 * its own, whose HELLO has is_rail.  No messages but TRY and CREDIT go over it.
 *
 * Address and frames are in the byte order of the host, which the fabric's address has checked.
 */
#ifndef FAB_VERBS_WIRE_H
#define FAB_VERBS_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fabric/fab.h"
#include "session/session_wire.h"
#include "sock/sock_ip.h"
#include "sock/sock_wire.h"

#define FAB_VERBS_MAGIC   0x53425256u /* "VRBS", little endian */
#define FAB_VERBS_VERSION 20

enum {
    FAB_VERBS_IPS = 8,                                   /* IP addresses in a process's address */
    FAB_VERBS_PORTS = 4,                                 /* ports in it */
    FAB_VERBS_PAIRS = FAB_VERBS_PORTS * FAB_VERBS_PORTS, /* of ports of two processes */
    FAB_VERBS_EAGER_MIN = 304,     /* bytes: 256 of fab_post() and sizeof(fab_rndv_t) */
    FAB_VERBS_EAGER_MAX = 1 << 20, /* bytes */
    FAB_VERBS_WINDOW_MAX = 16384,  /* messages: well below half of the credits' 2^16 */
};

enum { FAB_VERBS_WINDOW_MASK = 0xffff, FAB_VERBS_BACK_AT = 16 };

/* Ids of the provider's own messages; those below FAB_AM_MAX are the fabric's. */
enum {
    /*
     * the credits in the header; app_ctx: by how many messages the sender widens the receiver's
     * window, in the low half, and how many of its own window it gives back (FAB_VERBS_BACK_AT)
     */
    FAB_VERBS_ID_CREDIT = 128,
    FAB_VERBS_ID_BYE = 129, /* app_ctx: fab_ses_bye_t */
    FAB_VERBS_ID_TRY = 130, /* the first: does a packet pass?  The payload means nothing */
};

typedef struct fab_verbs_tmh {
    uint8_t opcode; /* enum ibv_tmh_op */
    uint8_t id;     /* if opcode is NO_TAG */
    uint16_t credits;
    uint32_t app_ctx;
    uint64_t tag;
} fab_verbs_tmh_t;

_Static_assert(16 == sizeof(fab_verbs_tmh_t), "fab_verbs_tmh_t is struct ibv_tmh");
_Static_assert(4 == offsetof(fab_verbs_tmh_t, app_ctx) && 8 == offsetof(fab_verbs_tmh_t, tag),
               "as in struct ibv_tmh");

/* struct ibv_rvh, big endian: the payload of opcode RNDV on a connection with two QPs. */
typedef struct fab_verbs_rvh {
    uint64_t addr;
    uint32_t rkey;
    uint32_t len;
} fab_verbs_rvh_t;

_Static_assert(16 == sizeof(fab_verbs_rvh_t), "fab_verbs_rvh_t is struct ibv_rvh");

/* In an address. */
enum {
    FAB_VERBS_ADDR_TM = 1,      /* matching hardware receives the messages of the first port */
    FAB_VERBS_ADDR_TM_RNDV = 2, /* and does rendezvous by itself */
    FAB_VERBS_ADDR_CM = 4,      /* the port is iWARP, which rdma_cm connects (verbs_cm.h) */
};

/* Of a port. */
enum {
    FAB_VERBS_PORT_GRH = 1,   /* InfiniBand: its packets need a GRH */
    FAB_VERBS_PORT_SHARE = 2, /* it may have a share of long data; not the first */
};

/*
 * Immediate data: credits, as in the header; a bit for id RNDV and, with it, the check of the
 * announcement, since the program may write to the memory where the device stores that.
 */
enum { FAB_VERBS_IMM_RNDV = 1 << 16, FAB_VERBS_IMM_CREDITS = 0xffff, FAB_VERBS_IMM_CHECK_AT = 17 };

/* The 15 bits of the check of len bytes; an announcement has a multiple of 8. */
static inline uint32_t fab_verbs_imm_check(const void *payload, size_t len)
{
    uint64_t sum = len, word;

    for (size_t at = 0; at + sizeof(word) <= len; at += sizeof(word)) {
        memcpy(&word, (const char *) payload + at, sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return (uint32_t) (sum >> 49);
}

enum { FAB_VERBS_PKEY_FULL = 0x8000, FAB_VERBS_PKEY_PART = 0x7fff };

typedef struct fab_verbs_port_addr {
    uint8_t gid[16];  /* iWARP: IP address where rdma_cm listens, IPv4 as ::ffff:a.b.c.d */
    uint16_t lid;     /* InfiniBand */
    uint16_t pkey;    /* InfiniBand: its partition, with FAB_VERBS_PKEY_FULL */
    uint8_t mtu;      /* enum ibv_mtu */
    uint8_t gid_type; /* enum ibv_gid_type; RoCE v1 and v2 do not understand each other */
    uint8_t flags;    /* FAB_VERBS_PORT_* */
    /* its place among the ports of the host that could be used: equal ones may share a switch */
    uint8_t rail;
    uint16_t speed; /* in 100 Mbit/s; 0: not known */
} fab_verbs_port_addr_t;

_Static_assert(26 == sizeof(fab_verbs_port_addr_t), "fab_verbs_port_addr_t is a wire format");

/* Section of a process's address. */
typedef struct fab_verbs_addr {
    uint16_t version;
    uint8_t link_layer; /* IBV_LINK_LAYER_*, of all its ports */
    uint8_t num_ips;    /* of ips that are used */
    uint32_t eager_max; /* longest payload that it takes, bytes */
    uint32_t pid;
    uint16_t flags;   /* FAB_VERBS_ADDR_* */
    uint16_t cm_port; /* iWARP: rdma_cm's */
    uint64_t host;    /* fab_host_identity(): pid means something only there */
    uint64_t start_time;
    uint8_t key[FAB_SOCK_KEY]; /* of connection set-up */
    /* its device reads 2^max_read bytes at most by itself; TM_RNDV */
    uint8_t max_read;
    uint8_t num_ports;                            /* of ports that are used, 1 at least */
    fab_verbs_port_addr_t ports[FAB_VERBS_PORTS]; /* the best first */
    uint8_t reserved[6];
    fab_sock_ip_t ips[FAB_VERBS_IPS]; /* where it listens, the best first */
} fab_verbs_addr_t;

_Static_assert(352 == sizeof(fab_verbs_addr_t), "fab_verbs_addr_t is a wire format");

/* Bytes of an address up to the last of its ips that is used: the rest need not be there. */
static inline size_t fab_verbs_addr_len(const fab_verbs_addr_t *addr)
{
    return offsetof(fab_verbs_addr_t, ips) + addr->num_ips * sizeof(addr->ips[0]);
}

/* What is in fab_rkey_t. */
typedef struct fab_verbs_key {
    uint32_t rkey;    /* the device's */
    uint16_t port;    /* of the exposing process: the first, 0, or another */
    uint16_t rails;   /* bit n: rail_rkeys has one for its port n */
    uint64_t exposed; /* for the exposing process: fab_verbs_exposed_t */
    uint32_t rail_rkeys[FAB_VERBS_PORTS];
} fab_verbs_key_t;

/* Bytes of the key of memory for any peer, which has none for rails; the rest is fab_shm_rkey_t. */
enum { FAB_VERBS_KEY_ANY = 16 };

_Static_assert(FAB_VERBS_KEY_ANY == offsetof(fab_verbs_key_t, rail_rkeys) &&
                   sizeof(fab_rkey_t) == sizeof(fab_verbs_key_t),
               "it fits");

static inline fab_verbs_key_t fab_verbs_key(const fab_rkey_t *rkey)
{
    fab_verbs_key_t key;

    memcpy(&key, rkey->bytes, sizeof(key));
    return key;
}

typedef struct fab_verbs_frame {
    fab_ses_msg_t msg;
    uint32_t qpn;
    uint32_t psn; /* of the sender's first packet; iWARP: a random number */
    /* of the QP without send queue, to which messages go; 0: there is none, qpn takes them */
    uint32_t tm_qpn;
    uint32_t tm_psn;
    uint8_t reads;   /* READs that the sender's QP serves at a time */
    uint8_t pair;    /* of which ports (verbs_ports.c) */
    uint8_t is_rail; /* for shares of long data alone */
    uint8_t reserved;
    uint32_t probe_rkey; /* WELCOME: of memory that the asking side reads once */
    uint64_t probe_addr;
    fab_verbs_addr_t addr; /* of the sender */
} fab_verbs_frame_t;

_Static_assert(408 == sizeof(fab_verbs_frame_t), "fab_verbs_frame_t is a wire format");
_Static_assert(0 == offsetof(fab_verbs_frame_t, msg), "sock.h and ses_accept() find it there");
_Static_assert(sizeof(fab_verbs_frame_t) <= FAB_SOCK_FRAME_MAX, "it fits");

/*
 * iWARP: private data of the active side's rdma_connect(), by which the passive side identifies the
 * connection.
 */
typedef struct fab_verbs_cm_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t reserved;
    uint8_t proof[FAB_SOCK_KEY]; /* HMAC of all with zeros here, by the passive side's key */
    uint64_t name;               /* of the sender */
    /* of the sender's QP: another one than HELLO named, if that failed to connect */
    uint32_t qpn;
    uint32_t psn;        /* of HELLO */
    uint32_t target_psn; /* of WELCOME */
    uint32_t reserved2;
} fab_verbs_cm_hello_t;

_Static_assert(48 == sizeof(fab_verbs_cm_hello_t),
               "fab_verbs_cm_hello_t is a wire format, of 56 bytes at most");

#endif /* FAB_VERBS_WIRE_H */
