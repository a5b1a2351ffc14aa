/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a get or put: its last READ or WRITE has ended. */
#include "verbs/verbs.h"

#include <stdlib.h>

/* ---- those with more to post -------------------------------------------- */

void fab_verbs_op_append(fab_verbs_ep_t *ep, fab_verbs_op_t *op)
{
    op->is_queued = true;
    STAILQ_INSERT_TAIL(&ep->ops, op, link);
}

fab_verbs_op_t *fab_verbs_op_take(fab_verbs_ep_t *ep)
{
    fab_verbs_op_t *op = STAILQ_FIRST(&ep->ops);

    STAILQ_REMOVE_HEAD(&ep->ops, link);
    op->is_queued = false;
    return op;
}

void fab_verbs_ops_list(fab_verbs_ep_t *ep)
{
    if (!ep->is_in_rma) {
        ep->is_in_rma = true;
        TAILQ_INSERT_TAIL(&ep->dom->rma, ep, rma_link);
        ep->dom->num_rma++;
    }
}

void fab_verbs_ops_unlist(fab_verbs_ep_t *ep)
{
    if (ep->is_in_rma) {
        ep->is_in_rma = false;
        TAILQ_REMOVE(&ep->dom->rma, ep, rma_link);
        ep->dom->num_rma--;
    }
}

/* ---- the end ------------------------------------------------------------ */

/* A share has ended: what it is a part of may have, too. */
static void share_ended(fab_verbs_op_t *whole, size_t len, int status)
{
    whole->num_shares--;
    if (OPAL_SUCCESS == status) {
        whole->rma->done += len;
    } else if (OPAL_SUCCESS == whole->status) {
        whole->status = status;
    }
    if (0 == whole->in_flight && !whole->is_queued) {
        fab_verbs_op_end(whole);
    }
}

void fab_verbs_op_end(fab_verbs_op_t *op)
{
    const fab_verbs_op_t ended = *op;
    fab_verbs_domain_t *dom = op->dom;
    fab_rma_t *rma = op->rma;

    if (op->num_shares > 0) {
        return;
    }
    if (NULL != op->reg) {
        fab_reg_ops->put(dom->regs, op->reg);
    }
    free(op);
    if (NULL != ended.whole) {
        share_ended(ended.whole, ended.end - ended.from, ended.status);
    } else if (!dom->first->is_closed) {
        rma->complete(rma, ended.status);
    }
}

void fab_verbs_op_give_back(fab_verbs_op_t *share, fab_verbs_ep_t *main)
{
    const fab_verbs_op_t *whole = share->whole;

    fab_reg_ops->put(share->dom->regs, share->reg);
    share->reg = NULL;
    share->dom = whole->dom;
    share->rkey = whole->rkey;
    share->posted = share->from; /* from its start: the device does not say how much arrived */
    share->status = OPAL_SUCCESS;
    fab_counters.verbs_rail_returned++;
    fab_verbs_op_append(main, share);
    fab_verbs_ops_list(main);
}

void fab_verbs_op_landed(fab_verbs_op_t *op, fab_verbs_ep_t *ep, uint32_t len, int status)
{
    op->in_flight--;
    if (OPAL_SUCCESS != status) {
        op->status = status;
    } else {
        op->rma->done += NULL == op->whole ? len : 0;
        fab_counters.rma_bytes += len;
        fab_counters.verbs_rail_bytes += NULL != op->whole && NULL != op->reg ? len : 0;
    }
    if (0 != op->in_flight || op->is_queued) {
        return;
    }
    if (OPAL_SUCCESS != op->status && NULL != ep && NULL != ep->main) {
        fab_verbs_op_give_back(op, ep->main);
    } else {
        fab_verbs_op_end(op);
    }
}
