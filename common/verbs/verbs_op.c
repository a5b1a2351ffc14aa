/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a get or put: its last READ or WRITE has ended. */
#include "verbs/verbs_op.h"

#include <stdlib.h>
#include <string.h>

void fab_verbs_op_end(fab_verbs_op_t *op)
{
    fab_verbs_domain_t *dom = op->dom;
    fab_rma_t *rma = op->rma;
    int status = op->status;

    if (NULL != op->reg) {
        fab_reg_ops->put(dom->regs, op->reg);
    }
    if (NULL != op->buf) {
        memcpy(&((fab_atomic_t *) rma->local)->old, op->buf->data, sizeof(uint64_t));
        fab_verbs_pool_put(&dom->send_pool, op->buf);
    }
    free(op);
    if (!dom->is_closed) {
        rma->complete(rma, status);
    }
}

void fab_verbs_op_landed(fab_verbs_op_t *op, uint32_t len, int status)
{
    op->in_flight--;
    if (OPAL_SUCCESS != status) {
        op->status = status;
    } else {
        op->rma->done += len;
        fab_counters.verbs_rma_bytes += len;
    }
    if (0 == op->in_flight && !op->is_queued) {
        fab_verbs_op_end(op);
    }
}
