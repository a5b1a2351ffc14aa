/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI's memory hooks for libfabric.
 *
 * Providers for hardware have a cache of registrations of their own, which must hear of memory that
 * is unmapped.  libfabric would intercept the same functions as Open MPI does, and one of the two
 * would hear nothing: it is told what Open MPI's hooks report instead.
 */
#include "ofi/ofi.h"

#include <stdbool.h>
#include <stdlib.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "opal_config.h"
#include "opal/constants.h"
#include "opal/memoryhooks/memory.h"

/* What libfabric calls, and what it is told: one for the process, as its caches are. */
static struct fid_mem_monitor monitor;
static struct fid *caches; /* NULL: the hooks were not handed over */
static bool is_used;       /* by a cache of a domain */

static void released(void *buf, size_t len, void *ctx, bool from_alloc)
{
    (void) ctx, (void) from_alloc;
    monitor.import_ops->notify(&monitor, buf, len);
}

static int start(struct fid_mem_monitor *self)
{
    (void) self;
    is_used = OPAL_SUCCESS == opal_mem_hooks_register_release(released, NULL);
    return is_used ? 0 : -FI_ENOSYS;
}

static void stop(struct fid_mem_monitor *self)
{
    (void) self;
    is_used = false;
    (void) opal_mem_hooks_unregister_release(released);
}

/* All memory is watched. */
static int subscribe(struct fid_mem_monitor *self, const void *buf, size_t len)
{
    (void) self, (void) buf, (void) len;
    return 0;
}

static void unsubscribe(struct fid_mem_monitor *self, const void *buf, size_t len)
{
    (void) self, (void) buf, (void) len;
}

static bool is_valid(struct fid_mem_monitor *self, const void *buf, size_t len)
{
    (void) self, (void) buf, (void) len;
    return true;
}

static struct fi_ops_mem_monitor monitor_ops = {
    .size = sizeof(monitor_ops),
    .start = start,
    .stop = stop,
    .subscribe = subscribe,
    .unsubscribe = unsubscribe,
    .valid = is_valid,
};

static bool has_hooks(void)
{
    const int needed = OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;

    return needed == (needed & opal_mem_hooks_support_level());
}

void fab_ofi_hooks_open(void)
{
    if (NULL != caches || NULL != getenv("FI_MR_CACHE_MONITOR") || !has_hooks() ||
        0 != fi_open(FI_VERSION(1, 13), "mr_cache", NULL, 0, 0, &caches, NULL)) {
        return;
    }
    monitor = (struct fid_mem_monitor){.fid.fclass = FI_CLASS_MEM_MONITOR,
                                       .export_ops = &monitor_ops};
    if (0 != fi_import_fid(caches, &monitor.fid, 0)) {
        (void) fi_close(caches);
        caches = NULL;
    }
}

void fab_ofi_hooks_close(void)
{
    if (NULL != caches && !is_used) {
        (void) fi_close(&monitor.fid);
        (void) fi_close(caches);
        caches = NULL;
    }
}
