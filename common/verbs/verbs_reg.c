/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/verbs_reg.h"

#include <errno.h>

/*
 * For local writing, too, if that can be.  Memory that is only read need not be writable: constants
 * of the program, or what is mapped read only.  Data may be written in any order, since a
 * completion comes after all of it; but a program may poll for what its peers write.
 */
static void *verbs_add(void *pd, void *buf, size_t len, unsigned *access)
{
    const int remote = 0 != (*access & FAB_REG_REMOTE_WRITE) ? IBV_ACCESS_REMOTE_WRITE : 0;
    const int order = 0 == remote ? IBV_ACCESS_RELAXED_ORDERING : 0;
    struct ibv_mr *mr = ibv_reg_mr(
        pd, buf, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | remote | order);

    if (NULL == mr && 0 == *access && ENOMEM != errno && EAGAIN != errno) {
        return ibv_reg_mr(pd, buf, len, IBV_ACCESS_REMOTE_READ);
    }
    *access |= FAB_REG_LOCAL_WRITE;
    return mr;
}

static int verbs_remove(void *pd, void *mr)
{
    (void) pd;
    return ibv_dereg_mr(mr);
}

const fab_reg_how_t fab_verbs_reg_how = {
    .name = "verbs",
    .add = verbs_add,
    .remove = verbs_remove,
};
