/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes that btl_fabric sends: its address in the modex, and its active messages.
 *
 *   id      tag                       app_ctx      payload
 *   SEND    0                         BTL tag      the message
 *   PART    offset << 32 | length     BTL tag      a part of a message longer than the peer's
 *                                                  eager_max, in order
 *   PUT     remote address            id or 0      claim word, then data; the last part has the
 *                                                  id and is answered by DONE, or is counted
 *   GET     remote address            id           btl_fabric_get_t; answered by DATA
 *   DATA    offset                    id           data; as many messages as the get needs, each
 *                                                  no longer than FAB_FRAGMENT_LOCAL_MAX where the
 *                                                  get's origin has set a destination, else
 *                                                  eager_max
 *   ATOMIC  remote address            id or 0      btl_fabric_atomic_t; answered by DONE; if the
 *                                                  id is 0, counted
 *   DONE    old value of an atomic    id           none
 *   COUNT   0                         number       none; so many counted messages have been done,
 *                                                  the oldest ones that no COUNT was for
 *
 * Counted messages are those whose answer says nothing but that they were done.  Where messages
 * cost system calls, one answer is for all that have come together.
 *
 * The claim word of a put or get is that of fab_claim.h; its number is the key of the registered
 * memory.  In shared memory it may be an offer, of one part: the target takes that on before it
 * begins.  Until then the origin may withdraw the offer: it closes the word.  A withdrawn message
 * has no effect.  What is taken on is answered, since the origin may write other messages there and
 * cannot look at the word any more.
 *
 * An id names a pending operation of the process that sent it; the answer carries it back.  A key
 * names registered memory of the receiving process, which checks each address against that memory.
 */
#ifndef BTL_FABRIC_WIRE_H
#define BTL_FABRIC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fab.h"

enum {
    BTL_FABRIC_AM_SEND = FAB_AM_BTL,
    BTL_FABRIC_AM_PART,
    BTL_FABRIC_AM_PUT,
    BTL_FABRIC_AM_GET,
    BTL_FABRIC_AM_DATA,
    BTL_FABRIC_AM_ATOMIC,
    BTL_FABRIC_AM_DONE,
    BTL_FABRIC_AM_COUNT,
};

#define BTL_FABRIC_ADDRESS_MAGIC 0x42464242u /* "BBFB", little endian */
#define BTL_FABRIC_WIRE_VERSION  7

/* Start of this process's entry in the modex; the address from fab_address() follows. */
typedef struct btl_fabric_address {
    uint32_t magic;
    uint32_t version;
} btl_fabric_address_t;

/* Lower half of the claim word of what is no offer. */
enum {
    BTL_FABRIC_ORDERED = 2, /* the target does it */
    BTL_FABRIC_COUNTED = 3, /* and counts it: of a put, its last part */
};

/* The claim word is the first thing in either; the data of a put follows. */
typedef struct btl_fabric_put {
    uint64_t claim;
} btl_fabric_put_t;

typedef struct btl_fabric_get {
    uint64_t claim;
    uint64_t len; /* bytes */
} btl_fabric_get_t;

typedef struct btl_fabric_atomic {
    uint32_t key;
    uint16_t op;  /* mca_btl_base_atomic_op_t, or BTL_FABRIC_CSWAP */
    uint16_t len; /* bytes: 4 or 8 */
    uint64_t operand;
    uint64_t compare; /* for BTL_FABRIC_CSWAP: operand is stored if the memory has this value */
} btl_fabric_atomic_t;

#define BTL_FABRIC_CSWAP 0x100

/* Range of the limits on a message, bytes. The least one holds any of the headers above. */
#define BTL_FABRIC_EAGER_MIN 256
#define BTL_FABRIC_SEND_MAX  (16u << 20)

_Static_assert(8 == sizeof(btl_fabric_address_t), "btl_fabric_address_t is a wire format");
_Static_assert(8 == sizeof(btl_fabric_put_t), "btl_fabric_put_t is a wire format");
_Static_assert(16 == sizeof(btl_fabric_get_t), "btl_fabric_get_t is a wire format");
_Static_assert(24 == sizeof(btl_fabric_atomic_t), "btl_fabric_atomic_t is a wire format");

#endif /* BTL_FABRIC_WIRE_H */
