/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes between the processes that use tmdev, and nothing else.
 *
 * Each process ("node") listens on one unix stream socket. A node that has requests for another
 * opens a connection to it; all its requests to that node go out on it in order, and their answers
 * come back on it. Requests in the other direction have a connection of their own, so there is no
 * simultaneous connect to resolve. The stream never loses anything; what is sent again is what the
 * receiver refused (receiver not ready, queue pair not ready), and then everything behind it, too,
 * as on InfiniBand.
 *
 * A queue pair numbers its requests ("messages") from 0 when it reaches RTS, and the responder
 * takes them in that order only. Both ends are of one host and one byte order.
 */
#ifndef TMDEV_WIRE_H
#define TMDEV_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define TMDEV_WIRE_VERSION 1u
#define TMDEV_WIRE_MAGIC   0x54444d56u

/* Longest payload of a frame, bytes. Messages that are longer take several frames. */
#define TMDEV_FRAME_MAX 65536u

typedef enum {
    TMDEV_FRAME_HELLO = 1,  /* first on a connection: src_qpn is the node, psn the version */
    TMDEV_FRAME_SEND,       /* SEND and SEND_WITH_IMM */
    TMDEV_FRAME_WRITE,      /* RDMA WRITE, and with TMDEV_FLAG_IMM RDMA WRITE WITH IMM */
    TMDEV_FRAME_READ,       /* RDMA READ: va, rkey, total */
    TMDEV_FRAME_CAS,        /* the payload holds compare and swap, 8 bytes each */
    TMDEV_FRAME_FADD,       /* the payload holds the addend and 8 unused bytes */
    TMDEV_FRAME_ACK,        /* all messages before ack have been executed; msn and offset unused */
    TMDEV_FRAME_NAK,        /* message msn was refused: code */
    TMDEV_FRAME_READ_DATA,  /* data of READ msn at offset */
    TMDEV_FRAME_ATOMIC_DATA /* the payload is the old value */
} tmdev_frame_type_t;

enum {
    TMDEV_FLAG_IMM = 1,       /* imm is valid */
    TMDEV_FLAG_SOLICITED = 2, /* the sender asked for a solicited event */
    TMDEV_FLAG_ABANDONED = 4  /* NAK of a READ that was accepted before, whatever the attempt */
};

typedef enum {
    TMDEV_NAK_RNR = 1, /* no receive buffer: again after offset microseconds */
    /* no such queue pair, or not ready to receive from this one: as if lost on the wire */
    TMDEV_NAK_NOT_READY,
    TMDEV_NAK_INVALID,  /* invalid request: too long for the receive, too many reads */
    TMDEV_NAK_ACCESS,   /* remote access error */
    TMDEV_NAK_OPERATION /* the responder failed for a reason of its own */
} tmdev_nak_t;

typedef struct tmdev_frame {
    uint32_t magic;
    uint32_t length; /* of the payload that follows, bytes */
    uint8_t type;    /* tmdev_frame_type_t */
    uint8_t flags;
    /* counts the requester's retransmissions; a NAK repeats that of its request */
    uint16_t attempt;
    uint32_t dst_qpn;
    uint32_t src_qpn;
    uint32_t msn; /* number of the message among the requests of this direction */
    uint32_t ack; /* messages of the other direction executed so far */
    uint32_t psn; /* the requester's first packet sequence number */
    uint32_t imm; /* network byte order */
    uint32_t rkey;
    uint64_t total;  /* length of the message, bytes */
    uint64_t offset; /* of the payload in it */
    uint64_t va;
    uint32_t route; /* port that the requester sends to, see tmdev_route() */
    uint32_t code;  /* tmdev_nak_t; of a request: partition key */
} tmdev_frame_t;

_Static_assert(72 == sizeof(tmdev_frame_t), "the frame header has no padding");

#endif
