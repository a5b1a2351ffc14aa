/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a get or put.
 */
#ifndef FAB_VERBS_OP_H
#define FAB_VERBS_OP_H

#include "verbs/verbs_types.h"

/* To the operations of this endpoint that have more to post: they are posted in progress. */
void fab_verbs_op_append(fab_verbs_ep_t *ep, fab_verbs_op_t *op);
/* The first of these, taken from them. */
fab_verbs_op_t *fab_verbs_op_take(fab_verbs_ep_t *ep);
/* The endpoint enters its domain's list of those with operations to post, and leaves it. */
void fab_verbs_ops_list(fab_verbs_ep_t *ep);
void fab_verbs_ops_unlist(fab_verbs_ep_t *ep);

/* A READ or WRITE of len bytes ended, on a connection of this endpoint; NULL: it lingers. */
void fab_verbs_op_landed(fab_verbs_op_t *op, fab_verbs_ep_t *ep, uint32_t len, int status);
/*
 * No more of it will be posted, and nothing is in flight: its owner hears of it once its shares
 * have ended, too.
 */
void fab_verbs_op_end(fab_verbs_op_t *op);
/* A share that a rail has not read: the endpoint that it helps reads it. */
void fab_verbs_op_give_back(fab_verbs_op_t *share, fab_verbs_ep_t *main);

#endif /* FAB_VERBS_OP_H */
