/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration without a cache: each get registers, each put deregisters.
 */
#include "fabric/fab_reg.h"

#include <errno.h>
#include <stdlib.h>

#include "fabric/fab_counters.h"

struct fab_regs {
    const fab_reg_how_t *how;
    void *arg;
};

static fab_regs_t *plain_open(const fab_reg_how_t *how, void *arg)
{
    fab_regs_t *regs = malloc(sizeof(*regs));

    if (NULL != regs) {
        *regs = (fab_regs_t){.how = how, .arg = arg};
    }
    return regs;
}

static void plain_close(fab_regs_t *regs)
{
    free(regs);
}

static fab_reg_t *plain_get(fab_regs_t *regs, void *buf, size_t len, unsigned access)
{
    fab_reg_t *reg = malloc(sizeof(*reg));
    int error;

    if (NULL == reg) {
        errno = ENOMEM;
        return NULL;
    }
    reg->base = (uintptr_t) buf;
    reg->handle = regs->how->add(regs->arg, buf, len, &access);
    if (NULL == reg->handle) {
        error = errno;
        free(reg);
        errno = error;
        return NULL;
    }
    fab_counters.registrations++;
    return reg;
}

static void plain_put(fab_regs_t *regs, fab_reg_t *reg)
{
    (void) regs->how->remove(regs->arg, reg->handle);
    free(reg);
}

static const fab_reg_ops_t plain_ops = {
    .open = plain_open,
    .close = plain_close,
    .get = plain_get,
    .put = plain_put,
};

const fab_reg_ops_t *fab_reg_ops = &plain_ops;
