/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What pml_tm puts on the fabric: nothing else leaves the process.  See doc/wire.md.
 *
 * The 64-bit tag of tagged messages (FAB_AM_EAGER, FAB_AM_RNDV):
 *
 *      63            32+s  32+s-1       32  31                             0
 *     ┌──────────────────┬─────────────────┬─┬───────────────────────────────┐
 *     │ context id       │ source rank     │C│ MPI tag                       │
 *     │ 32-s bits        │ s bits          │ │ 31 bits                       │
 *     └──────────────────┴─────────────────┴─┴───────────────────────────────┘
 *
 * C and the MPI tag together are the signed 32-bit tag: C, its sign, is the class bit that keeps
 * internal tags (collectives, negative) away from MPI_ANY_TAG.  The context id is that of the
 * receiver, the source the sender's rank in the communicator. s (parameter tag_source_bits) is the
 * same in all processes that meet; it travels in their addresses and is compared.
 */
#ifndef PML_TM_WIRE_H
#define PML_TM_WIRE_H

#include <stdint.h>

#include "fabric/fab.h"
#include "fabric/fab_look_wire.h"

/* Active messages beside FAB_AM_EAGER, FAB_AM_RNDV and FAB_AM_FIN. */
enum {
    /* a synchronous eager message was matched. app_ctx: the send's id */
    PML_TM_AM_ACK = FAB_AM_PML,
    /*
     * send the data as messages. app_ctx: the send's id, tag: bytes wanted, payload: cts.  0 bytes:
     * announce it once more, by a DATA message with the fab_rndv_t
     */
    PML_TM_AM_CTS = FAB_AM_PML + 1,
    /*
     * some of the data. app_ctx: the receive's id, or 0: of the message that the sender began last
     * (pml_tm_stream.h); tag: offset in bytes.
     */
    PML_TM_AM_DATA = FAB_AM_PML + 2,
    /* the data will not be fetched. app_ctx: the send's id, tag: MPI error class */
    PML_TM_AM_NACK = FAB_AM_PML + 3,
    /* flow control. app_ctx: mca_pml_tm_flow_t; tag: a context id, where it is about one */
    PML_TM_AM_FLOW = FAB_AM_PML + 4,
    /* answer to an untagged message. payload: mca_pml_tm_context_t */
    PML_TM_AM_CONTEXT = FAB_AM_PML + 5,
    /*
     * the sender wants a message back. app_ctx: the send's id, tag: the message's; payload: none,
     * or mca_pml_tm_untagged_t as in front of the message
     */
    PML_TM_AM_CANCEL = FAB_AM_PML + 6,
    /* a message was taken out unmatched. app_ctx: the send's id */
    PML_TM_AM_WITHDRAWN = FAB_AM_PML + 7,
    /* what do you wait for? app_ctx: number of the question */
    PML_TM_AM_ASK = FAB_AM_PML + 8,
    /* the answer. app_ctx: number of the question; payload: mca_pml_tm_answer_t */
    PML_TM_AM_STATE = FAB_AM_PML + 9,
    /* numbers for the report at the job's end. tag: index of the first; payload: words */
    PML_TM_AM_REPORT = FAB_AM_PML + 10,
};

/* What a receiver short of memory tells a sender of user messages (pml_tm_flow.h). */
typedef enum {
    PML_TM_FLOW_ALL = 0, /* send all again */
    PML_TM_FLOW_HOLD,    /* start no more */
    PML_TM_FLOW_OPEN,    /* but in this communicator, of which the receiver wants some */
    PML_TM_FLOW_CLOSE,   /* no more in this one either */
} mca_pml_tm_flow_t;

enum { PML_TM_FLOW_CONTEXTS = 16 }; /* communicators that are open at once, at most */

/* Payload of PML_TM_AM_CTS. */
typedef struct mca_pml_tm_cts {
    uint32_t recv_id;
    uint32_t fragment; /* longest that the receiver takes, bytes; 0: as an eager message */
} mca_pml_tm_cts_t;

_Static_assert(8 == sizeof(mca_pml_tm_cts_t), "wire format");

/*
 * The longest message, in bytes, whose fab_rndv_t is followed by its first bytes, in shared memory;
 * the others come as PML_TM_AM_DATA (pml_tm_stream.h).
 */
#define PML_TM_STREAM_MAX (4 << 20)

/*
 * In front of the payload of FAB_AM_NO_TAG: a message of a communicator whose index at the receiver
 * is not known yet. The context id in the tag is 0.
 */
typedef struct mca_pml_tm_untagged {
    uint64_t excid[2];   /* extended id of the communicator */
    uint32_t context;    /* the sender's context id for it */
    uint8_t id;          /* FAB_AM_EAGER or FAB_AM_RNDV: what follows */
    uint8_t reserved[3]; /* 0 */
} mca_pml_tm_untagged_t;

_Static_assert(24 == sizeof(mca_pml_tm_untagged_t), "wire format");

/* Payload of PML_TM_AM_CONTEXT. */
typedef struct mca_pml_tm_context {
    uint64_t excid[2];
    uint32_t context; /* the sender's context id for it */
    uint32_t rank;    /* the sender's rank in it */
} mca_pml_tm_context_t;

_Static_assert(24 == sizeof(mca_pml_tm_context_t), "wire format");

enum {
    PML_TM_STATE_WAITS = 1 << 0,   /* in a call that ends only when one of `waits` has come */
    PML_TM_STATE_MOVES = 1 << 1,   /* data is on the way in this process, or messages are queued */
    PML_TM_STATE_THREADS = 1 << 2, /* other threads may call MPI */
    PML_TM_STATE_MORE = 1 << 3,    /* it waits for more than what is in `waits` */
    PML_TM_STATE_ALL = (1 << 4) - 1,
};

enum { PML_TM_STATE_MAX_WAITS = 3 };

/* Payload of PML_TM_AM_STATE. Texts end with a 0. */
typedef struct mca_pml_tm_state {
    uint32_t
        wait; /* number of the wait: if two answers have the same, it has not ended meanwhile */
    uint32_t waited_ms;
    uint32_t pid;
    uint8_t flags; /* PML_TM_STATE_* */
    uint8_t num_waits;
    uint8_t num_near; /* messages behind these in `waits` that nearly fit */
    uint8_t reserved;
    char call[24]; /* the MPI function; "": not known */
    char host[24];
    fab_wait_t waits[PML_TM_STATE_MAX_WAITS];
} mca_pml_tm_answer_t;

_Static_assert(232 == sizeof(mca_pml_tm_answer_t), "wire format");

/* Payload of PML_TM_AM_REPORT: so many words, or the rest; the tag is the index of the first. */
enum { PML_TM_REPORT_WORDS = 32 };

/* In front of the fabric's address in the modex. */
typedef struct mca_pml_tm_address {
    uint32_t magic;      /* PML_TM_ADDRESS_MAGIC */
    uint16_t version;    /* PML_TM_WIRE_VERSION: both sides must have the same */
    uint8_t source_bits; /* both sides must have the same */
    uint8_t reserved;    /* 0 */
} mca_pml_tm_address_t;

_Static_assert(8 == sizeof(mca_pml_tm_address_t), "wire format");

#define PML_TM_ADDRESS_MAGIC 0x6d747470u /* "ptm" and the byte order */
#define PML_TM_WIRE_VERSION  12

#define PML_TM_TAG_BITS        32
#define PML_TM_SOURCE_BITS_MIN 8
#define PML_TM_SOURCE_BITS_MAX 24

static inline uint64_t mca_pml_tm_tag(uint32_t context, uint32_t source, int32_t tag,
                                      unsigned source_bits)
{
    return (uint64_t) context << (PML_TM_TAG_BITS + source_bits) |
           (uint64_t) source << PML_TM_TAG_BITS | (uint32_t) tag;
}

static inline uint32_t mca_pml_tm_tag_context(uint64_t tag, unsigned source_bits)
{
    return (uint32_t) (tag >> (PML_TM_TAG_BITS + source_bits));
}

static inline int32_t mca_pml_tm_tag_source(uint64_t tag, unsigned source_bits)
{
    return (int32_t) ((uint32_t) (tag >> PML_TM_TAG_BITS) & ((1u << source_bits) - 1));
}

static inline int32_t mca_pml_tm_tag_tag(uint64_t tag)
{
    return (int32_t) (uint32_t) tag;
}

#endif /* PML_TM_WIRE_H */
