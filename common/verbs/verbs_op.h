/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a get or put.
 */
#ifndef FAB_VERBS_OP_H
#define FAB_VERBS_OP_H

#include "verbs/verbs_types.h"

/* A READ or WRITE of len bytes ended. */
void fab_verbs_op_landed(fab_verbs_op_t *op, uint32_t len, int status);
/* All of it has ended, or was never posted: its owner hears of it. */
void fab_verbs_op_end(fab_verbs_op_t *op);

#endif /* FAB_VERBS_OP_H */
