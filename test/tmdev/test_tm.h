/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of tag matching of tmdev: rank 0 has the TM-SRQ, rank 1 sends. */
#ifndef TEST_TM_H
#define TEST_TM_H

#include "test_tmdev.h"

/* Memory of rank 0: receives of the SRQ at SRQ_AT, SLOT bytes each; tagged buffers at 0. */
enum { SLOT = 8192, SRQ_AT = 8 << 20, SRQ_SIZE = 64, TMH = sizeof(struct ibv_tmh), FULL_MASK = -1 };

typedef struct side {
    world_t w;
    struct ibv_qp *qp;
    far_end_t far;
    uint32_t handle; /* of the last tm_add() */
    uint16_t count;  /* unexpected messages handled */
} side_t;

void tm_open(side_t *t, uint32_t tags, uint32_t ops);
void tm_close(side_t *t);
/* Another operation on the list; returns ibv_post_srq_ops()'s result. */
int tm_op(side_t *t, enum ibv_ops_wr_opcode opcode, int flags, uint64_t wr_id);
/*
 * List a receive of length bytes at offset, which is also its wr_id. Returns ibv_post_srq_ops()'s
 * result.
 */
int tm_add(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length, int flags);
void tm_add_ok(side_t *t, uint64_t tag, uint64_t mask, size_t offset, size_t length);
void tm_send(side_t *t, int opcode, uint64_t tag, size_t payload, bool has_imm);
void tm_send_ok(side_t *t, int opcode, uint64_t tag, size_t payload);
/* A rendezvous request for length bytes at offset, 4 bytes of meta-data behind it. */
void tm_send_rts(side_t *t, uint64_t tag, size_t offset, size_t length, uint32_t rkey);
completion_t tm_get_match(side_t *t, uint64_t wr_id, unsigned int flags);
/* An unexpected message, in the SRQ's next receive. */
void tm_get_unexpected(side_t *t, int opcode, uint64_t wr_id, uint64_t tag, size_t payload);

#endif
