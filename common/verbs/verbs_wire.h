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
 * Connection set-up. Three frames over a connection as sock_wire.h describes, all of the same size:
 *
 *      active side                                       passive side
 *      HELLO {name, address, qpn, psn, window} ->        makes its QP(s) ready to receive and send
 *                                              <- REPLY  {the same of its own}, or REFUSE {status}
 *      QP ready to receive and to send
 *      PROBE, a message on the QP, is acknowledged
 *      READY                                   ->        may send now; the stream is closed
 *
 * A path that takes no packets is found by the probe, before a message of a user is on it: the
 * stream is closed instead of READY, and the peer is reached in another way.  iWARP, whose
 * connections are made by packets, has no probe.
 *
 * A connection for shares of long data, by further ports of both (verbs_rails.c), is made in the
 * same way, with RAIL in place of HELLO.  No messages but PROBE go over it.
 *
 * Address and frames are in the byte order of the host, which the fabric's address has checked.
 */
#ifndef FAB_VERBS_WIRE_H
#define FAB_VERBS_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sock/sock_ip.h"
#include "sock/sock_wire.h"

#define FAB_VERBS_MAGIC   0x53425256u /* "VRBS", little endian */
#define FAB_VERBS_VERSION 17

enum {
    FAB_VERBS_IPS = 8,                                   /* IP addresses in a process's address */
    FAB_VERBS_PORTS = 4,                                 /* ports in it */
    FAB_VERBS_PAIRS = FAB_VERBS_PORTS * FAB_VERBS_PORTS, /* of ports of two processes */
    FAB_VERBS_EAGER_MIN = 304,     /* bytes: 256 of fab_post() and sizeof(fab_rndv_t) */
    FAB_VERBS_EAGER_MAX = 1 << 20, /* bytes */
    FAB_VERBS_WINDOW_MAX = 16384,  /* messages: well below half of the credits' 2^16 */
};

/* Ids of the provider's own messages; those below FAB_AM_MAX are the fabric's. */
enum {
    FAB_VERBS_ID_CREDIT = 128, /* nothing but the credits in the header */
    FAB_VERBS_ID_CLOSE = 129,  /* the sender sends no more here and asks for the connection's end */
    FAB_VERBS_ID_CLOSED = 130, /* agreed: the last message on this connection */
    /* the sender takes no more messages: its process leaves, or refused this one */
    FAB_VERBS_ID_LEAVE = 131,
    FAB_VERBS_ID_PROBE = 132, /* the first: does a packet pass? */
    /* verbs_end.h */
    FAB_VERBS_ID_EVICT = 133,   /* the sender wants to give up the connection, which is idle */
    FAB_VERBS_ID_EVICTED = 134, /* agreed: the last message on this connection */
    FAB_VERBS_ID_STAY = 135,    /* not agreed */
    /* and the number of its pair of ports: the sender does not use this rail any more */
    FAB_VERBS_ID_RAIL = 136,
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
    FAB_VERBS_ADDR_TM = 1,      /* matching hardware receives the messages, see above */
    FAB_VERBS_ADDR_TM_RNDV = 2, /* and does rendezvous by itself */
    FAB_VERBS_ADDR_GRH = 4,     /* InfiniBand: its packets need a GRH */
    FAB_VERBS_ADDR_CM = 8,      /* the port is iWARP, which rdma_cm connects (verbs_cm.h) */
    FAB_VERBS_ADDR_SHARE = 16,  /* of a further port: it may have a share of long data */
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

/* A port beside the first: as the fields of fab_verbs_addr_t. */
typedef struct fab_verbs_port_addr {
    uint8_t gid[16];
    uint16_t lid;
    uint16_t pkey;
    uint8_t mtu;
    uint8_t gid_type;
    uint8_t flags; /* FAB_VERBS_ADDR_GRH, _SHARE */
    uint8_t rail;
    uint16_t speed;
} fab_verbs_port_addr_t;

_Static_assert(26 == sizeof(fab_verbs_port_addr_t), "fab_verbs_port_addr_t is a wire format");

/* Section of a process's address. */
typedef struct fab_verbs_addr {
    uint16_t version;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    uint8_t gid_type;   /* enum ibv_gid_type; RoCE v1 and v2 do not understand each other */
    uint8_t gid[16];    /* iWARP: IP address where rdma_cm listens, IPv4 as ::ffff:a.b.c.d */
    uint16_t lid;       /* InfiniBand */
    uint8_t mtu;        /* enum ibv_mtu */
    uint8_t num_ips;    /* of ips that are used */
    uint32_t eager_max; /* longest payload that it takes, bytes */
    uint32_t pid;
    uint64_t host; /* fab_host_identity(): pid means something only there */
    uint64_t start_time;
    uint8_t key[FAB_SOCK_KEY];        /* of connection set-up */
    fab_sock_ip_t ips[FAB_VERBS_IPS]; /* where it listens, the best first */
    uint16_t flags;                   /* FAB_VERBS_ADDR_* */
    uint16_t cm_port;                 /* iWARP: rdma_cm's */
    /* its device reads 2^max_read bytes at most by itself; TM_RNDV */
    uint8_t max_read;
    uint8_t num_others; /* of others that are used */
    uint16_t pkey;      /* InfiniBand: its partition, with FAB_VERBS_PKEY_FULL */
    /* its place among the ports of the host that could be used: equal ones may share a switch */
    uint8_t rail;
    uint8_t reserved;
    uint16_t speed; /* of the port, in 100 Mbit/s; 0: not known */
    uint8_t reserved2[4];
    fab_verbs_port_addr_t others[FAB_VERBS_PORTS - 1]; /* the best first */
    uint8_t reserved3[2];
} fab_verbs_addr_t;

_Static_assert(352 == sizeof(fab_verbs_addr_t), "fab_verbs_addr_t is a wire format");

typedef enum fab_verbs_kind {
    FAB_VERBS_HELLO = 1,
    FAB_VERBS_REPLY = 2,
    FAB_VERBS_REFUSE = 3, /* qpn is an fab_verbs_refusal_t, the rest zero */
    FAB_VERBS_READY = 4,
    FAB_VERBS_RAIL = 5, /* HELLO, for one more connection: verbs_rails.c */
} fab_verbs_kind_t;

typedef enum fab_verbs_refusal {
    /* the active process is not accepted: it failed before, or is reached by another provider */
    FAB_VERBS_REFUSED_PEER = 1,
    FAB_VERBS_REFUSED_RESOURCES = 2, /* no queue pair could be made */
    FAB_VERBS_REFUSED_PORT = 3,      /* these ports are not tried any more: ask for the next */
} fab_verbs_refusal_t;

typedef struct fab_verbs_frame {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;   /* fab_verbs_kind_t */
    uint64_t name;   /* of the sender */
    uint64_t target; /* of the receiver */
    uint32_t qpn;
    uint32_t psn;    /* of the sender's first packet; iWARP: a random number */
    uint32_t window; /* messages that the receiver may have under way to the sender */
    uint32_t reads;  /* READs that the sender's QP serves at a time */
    /* of the QP without send queue, to which messages go; 0: there is none, qpn takes them */
    uint32_t tm_qpn;
    uint32_t tm_psn;
    uint32_t pair; /* HELLO, RAIL: of which ports (verbs_pair.c) */
    uint32_t reserved;
    fab_verbs_addr_t addr;
} fab_verbs_frame_t;

_Static_assert(408 == sizeof(fab_verbs_frame_t), "fab_verbs_frame_t is a wire format");
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
    uint32_t target_psn; /* of REPLY */
    uint32_t reserved2;
} fab_verbs_cm_hello_t;

_Static_assert(48 == sizeof(fab_verbs_cm_hello_t),
               "fab_verbs_cm_hello_t is a wire format, of 56 bytes at most");

#endif /* FAB_VERBS_WIRE_H */
