/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations in OPAL's cache "grdma".
 *
 * The cache registers whole pages and keeps registrations that are not used; it drops the oldest
 * when the device or the limit on locked memory refuses another. OPAL's memory hooks report memory
 * that is unmapped, which the cache deregisters at the next get.
 */
#include "fabric/fab_reg.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/fab_counters.h"

#include "opal_config.h"
#include "opal/constants.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

struct fab_regs {
    const fab_reg_how_t *how;
    void *arg;
    mca_rcache_base_module_t *rcache;
};

typedef struct fab_rcache_reg {
    mca_rcache_base_registration_t super;
    fab_reg_t reg;
} fab_rcache_reg_t;

/*
 * Called by the cache, never from within a memory hook. OUT_OF_RESOURCE: drop something and call
 * again.  That it can be written is noted also where it was not asked for: the cache gives it then
 * to a caller that asks for that.
 */
static int register_memory(void *data, void *base, size_t size,
                           mca_rcache_base_registration_t *super)
{
    const fab_regs_t *regs = data;
    fab_reg_t *reg = &((fab_rcache_reg_t *) super)->reg;
    const int32_t flags = super->access_flags;
    unsigned access = (0 != (flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) ? FAB_REG_LOCAL_WRITE : 0) |
                      (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) ? FAB_REG_REMOTE_WRITE : 0);

    reg->base = (uintptr_t) base;
    reg->handle = regs->how->add(regs->arg, base, size, &access);
    if (NULL == reg->handle) {
        return ENOMEM == errno || EAGAIN == errno ? OPAL_ERR_OUT_OF_RESOURCE
                                                  : OPAL_ERR_NOT_SUPPORTED;
    }
    super->access_flags |= 0 != (access & FAB_REG_LOCAL_WRITE) ? MCA_RCACHE_ACCESS_LOCAL_WRITE : 0;
    fab_counters.registrations++;
    return OPAL_SUCCESS;
}

static int deregister_memory(void *data, mca_rcache_base_registration_t *super)
{
    const fab_regs_t *regs = data;

    return 0 == regs->how->remove(regs->arg, ((fab_rcache_reg_t *) super)->reg.handle)
               ? OPAL_SUCCESS
               : OPAL_ERROR;
}

static fab_regs_t *rcache_open(const fab_reg_how_t *how, void *arg)
{
    fab_regs_t *regs = malloc(sizeof(*regs));
    char name[32];
    mca_rcache_base_resources_t resources = {
        .cache_name = name,
        .reg_data = regs,
        .sizeof_reg = sizeof(fab_rcache_reg_t),
        .register_mem = register_memory,
        .deregister_mem = deregister_memory,
    };

    if (NULL == regs) {
        return NULL;
    }
    snprintf(name, sizeof(name), "pml_tm_%s", how->name);
    *regs = (fab_regs_t){.how = how, .arg = arg};
    regs->rcache = mca_rcache_base_module_create("grdma", NULL, &resources);
    if (NULL == regs->rcache) {
        free(regs);
        return NULL;
    }
    return regs;
}

static void rcache_close(fab_regs_t *regs)
{
    (void) mca_rcache_base_module_destroy(regs->rcache);
    free(regs);
}

/* Peers may read all of it, so memory that is both sent and received is registered once. */
static fab_reg_t *rcache_get(fab_regs_t *regs, void *buf, size_t len, unsigned access)
{
    mca_rcache_base_registration_t *super = NULL;
    const bool is_remote = 0 != (access & FAB_REG_REMOTE_WRITE);
    const int flags = MCA_RCACHE_ACCESS_REMOTE_READ |
                      (0 != access ? MCA_RCACHE_ACCESS_LOCAL_WRITE : 0) |
                      (is_remote ? MCA_RCACHE_ACCESS_REMOTE_WRITE : 0);
    const int rc = regs->rcache->rcache_register(regs->rcache, buf, len, 0, flags, &super);

    if (OPAL_SUCCESS != rc) {
        errno = OPAL_ERR_OUT_OF_RESOURCE == rc ? ENOMEM : EFAULT;
        return NULL;
    }
    return &((fab_rcache_reg_t *) super)->reg;
}

static void rcache_put(fab_regs_t *regs, fab_reg_t *reg)
{
    fab_rcache_reg_t *cached = (fab_rcache_reg_t *) ((char *) reg -
                                                     offsetof(fab_rcache_reg_t, reg));

    (void) regs->rcache->rcache_deregister(regs->rcache, &cached->super);
}

static const fab_reg_ops_t rcache_ops = {
    .open = rcache_open,
    .close = rcache_close,
    .get = rcache_get,
    .put = rcache_put,
};

void fab_reg_use_rcache(void)
{
    fab_reg_ops = &rcache_ops;
}
