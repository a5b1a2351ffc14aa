/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI's memory hooks for libfabric.
 *
 * Providers for hardware have a cache of registrations of their own, which must hear of memory that
 * is unmapped.  libfabric would intercept the same functions as Open MPI does, and one of the two
 * would hear nothing: it is told what Open MPI's hooks report instead.
 */
#ifndef FAB_OFI_HOOKS_H
#define FAB_OFI_HOOKS_H

/*
 * Before the first domain is opened, and after the cache of fab_reg.h, which begins the hooks: hand
 * them over.  Not if the user has chosen otherwise (FI_MR_CACHE_MONITOR), if there are none, or if
 * another component has done so.
 */
void fab_ofi_hooks_open(void);
/* After the domain is closed. */
void fab_ofi_hooks_close(void);

#endif /* FAB_OFI_HOOKS_H */
