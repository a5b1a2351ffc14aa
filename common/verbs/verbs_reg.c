/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration without a cache: each get registers, each put deregisters.
 */
#include "verbs/verbs_reg.h"

#include <errno.h>
#include <infiniband/verbs.h>

const fab_verbs_reg_ops_t *fab_verbs_reg_ops = &fab_verbs_reg_plain;

struct ibv_mr *fab_verbs_reg_mr(struct ibv_pd *pd, void *buf, size_t len, int access,
                                bool *is_writable)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, buf, len,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | access);

    *is_writable = NULL != mr;
    if (NULL == mr && 0 == access && ENOMEM != errno && EAGAIN != errno) {
        mr = ibv_reg_mr(pd, buf, len, IBV_ACCESS_REMOTE_READ);
    }
    return mr;
}

/* The cache is the PD, a registration the MR itself. */
static fab_verbs_regs_t *plain_open(struct ibv_pd *pd)
{
    return (fab_verbs_regs_t *) pd;
}

static void plain_close(fab_verbs_regs_t *regs)
{
    (void) regs;
}

static fab_verbs_reg_t *plain_get(fab_verbs_regs_t *regs, void *buf, size_t len, int access)
{
    bool is_writable;

    return (fab_verbs_reg_t *) fab_verbs_reg_mr((struct ibv_pd *) regs, buf, len, access,
                                                &is_writable);
}

static void plain_put(fab_verbs_regs_t *regs, fab_verbs_reg_t *reg)
{
    (void) regs;
    (void) ibv_dereg_mr((struct ibv_mr *) reg);
}

static struct ibv_mr *plain_mr(const fab_verbs_reg_t *reg)
{
    return (struct ibv_mr *) (uintptr_t) reg;
}

const fab_verbs_reg_ops_t fab_verbs_reg_plain = {
    .open = plain_open,
    .close = plain_close,
    .get = plain_get,
    .put = plain_put,
    .mr = plain_mr,
};
