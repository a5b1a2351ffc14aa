/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations in OPAL's cache "grdma"; with verbs_near.c the only file of the provider that needs
 * libopen-pal.
 *
 * The cache registers whole pages and keeps registrations that nobody uses; it drops the oldest
 * when the device or the limit on locked memory refuses another. OPAL's memory hooks report memory
 * that is unmapped, which the cache deregisters at the next get.
 */
#include "verbs/verbs_reg.h"

#include <errno.h>
#include <infiniband/verbs.h>

#include "opal_config.h"
#include "opal/constants.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"

typedef struct fab_verbs_rcache_reg {
    mca_rcache_base_registration_t super;
    struct ibv_mr *mr;
} fab_verbs_rcache_reg_t;

/*
 * Called by the cache, never from within a memory hook. OUT_OF_RESOURCE: drop something and call
 * again.  That it can be written is noted also where it was not asked for: the cache gives it then
 * to who asks for that.
 */
static int rcache_register_memory(void *data, void *base, size_t size,
                                  mca_rcache_base_registration_t *reg)
{
    const int32_t flags = reg->access_flags;
    const int access = (0 != (flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) ? IBV_ACCESS_LOCAL_WRITE : 0) |
                       (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) ? IBV_ACCESS_REMOTE_WRITE
                                                                      : 0);
    bool is_writable;
    struct ibv_mr *mr = fab_verbs_reg_mr(data, base, size, access, &is_writable);

    ((fab_verbs_rcache_reg_t *) reg)->mr = mr;
    if (NULL != mr) {
        reg->access_flags |= is_writable ? MCA_RCACHE_ACCESS_LOCAL_WRITE : 0;
        return OPAL_SUCCESS;
    }
    return ENOMEM == errno || EAGAIN == errno ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERR_NOT_SUPPORTED;
}

static int rcache_deregister_memory(void *data, mca_rcache_base_registration_t *reg)
{
    (void) data;
    return 0 == ibv_dereg_mr(((fab_verbs_rcache_reg_t *) reg)->mr) ? OPAL_SUCCESS : OPAL_ERROR;
}

/* The cache is OPAL's module. */
static mca_rcache_base_module_t *rcache_of(fab_verbs_regs_t *regs)
{
    return (mca_rcache_base_module_t *) regs;
}

static fab_verbs_regs_t *rcache_open(struct ibv_pd *pd)
{
    mca_rcache_base_resources_t resources = {
        .cache_name = "pml_tm_verbs",
        .reg_data = pd,
        .sizeof_reg = sizeof(fab_verbs_rcache_reg_t),
        .register_mem = rcache_register_memory,
        .deregister_mem = rcache_deregister_memory,
    };

    return (fab_verbs_regs_t *) mca_rcache_base_module_create("grdma", NULL, &resources);
}

static void rcache_close(fab_verbs_regs_t *regs)
{
    (void) mca_rcache_base_module_destroy(rcache_of(regs));
}

/* Peers may read all of it, so memory that is both sent and received is registered once. */
static fab_verbs_reg_t *rcache_get(fab_verbs_regs_t *regs, void *buf, size_t len, int access)
{
    mca_rcache_base_registration_t *reg = NULL;
    bool is_write = 0 != (access & IBV_ACCESS_REMOTE_WRITE);
    int flags = MCA_RCACHE_ACCESS_REMOTE_READ | (0 != access ? MCA_RCACHE_ACCESS_LOCAL_WRITE : 0) |
                (is_write ? MCA_RCACHE_ACCESS_REMOTE_WRITE : 0);
    int rc = rcache_of(regs)->rcache_register(rcache_of(regs), buf, len, 0, flags, &reg);

    if (OPAL_SUCCESS != rc) {
        errno = OPAL_ERR_OUT_OF_RESOURCE == rc ? ENOMEM : EFAULT;
        return NULL;
    }
    return (fab_verbs_reg_t *) reg;
}

static void rcache_put(fab_verbs_regs_t *regs, fab_verbs_reg_t *reg)
{
    (void) rcache_of(regs)->rcache_deregister(rcache_of(regs),
                                              (mca_rcache_base_registration_t *) reg);
}

static struct ibv_mr *rcache_mr(const fab_verbs_reg_t *reg)
{
    return ((const fab_verbs_rcache_reg_t *) reg)->mr;
}

static const fab_verbs_reg_ops_t fab_verbs_reg_rcache = {
    .open = rcache_open,
    .close = rcache_close,
    .get = rcache_get,
    .put = rcache_put,
    .mr = rcache_mr,
};

void fab_verbs_reg_use_rcache(void)
{
    fab_verbs_reg_ops = &fab_verbs_reg_rcache;
}
