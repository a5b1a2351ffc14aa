/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How memory is registered with a device; its PD is the argument, the MR is what it is known by.
 */
#ifndef FAB_VERBS_REG_H
#define FAB_VERBS_REG_H

#include <infiniband/verbs.h>

#include "fabric/fab_reg.h"

extern const fab_reg_how_t fab_verbs_reg_how;

static inline const struct ibv_mr *fab_verbs_mr(const fab_reg_t *reg)
{
    return reg->handle;
}

#endif /* FAB_VERBS_REG_H */
