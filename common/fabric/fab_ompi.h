/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both components need of Open MPI and what differs between its series: 4.1, 5.0 and 6.0.  The
 * rest is in pml_tm_compat.h and btl_fabric_compat.h.
 */
#ifndef FAB_OMPI_H
#define FAB_OMPI_H

#include "opal_config.h"

#if !(4 == OPAL_MAJOR_VERSION && 1 == OPAL_MINOR_VERSION) &&                                       \
    !(5 == OPAL_MAJOR_VERSION && 0 == OPAL_MINOR_VERSION) &&                                       \
    !(6 == OPAL_MAJOR_VERSION && 0 == OPAL_MINOR_VERSION)
#error "pml_tm and btl_fabric need Open MPI 4.1, 5.0 or 6.0"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "opal/constants.h"

/* Version of both; processes with different ones do not find each other's addresses. */
#define FAB_MAJOR_VERSION   0
#define FAB_MINOR_VERSION   1
#define FAB_RELEASE_VERSION 0

#if OPAL_MAJOR_VERSION >= 5

#include "opal/mca/accelerator/base/base.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/util/proc.h"

/* Scope of an address in the modex. */
#define FAB_MODEX_SCOPE PMIX_GLOBAL

/* The job's ranks on this host. */
#define FAB_LOCAL_RANKS      PMIX_LOCAL_PEERS
#define FAB_LOCAL_RANKS_TYPE PMIX_STRING

/*
 * Open MPI's record of this process and its job; the members that are used have the same names in
 * all versions.
 */
#define fab_process opal_process_info

/* May a program pass memory of a device to MPI? */
static inline bool fab_has_device_memory(void)
{
    const char *name = opal_accelerator_base_selected_component.base_version.mca_component_name;

    return 0 != strcmp("null", name);
}

/* Is the address in such memory?  To be asked only where there may be some. */
static inline bool fab_is_device_address(const void *addr)
{
    uint64_t flags = 0;
    int device = MCA_ACCELERATOR_NO_DEVICE_ID;

    return opal_accelerator.check_addr(addr, &device, &flags) > 0;
}

/* Copy to or from such memory; an error of OPAL. */
static inline int fab_device_copy(void *to, const void *from, size_t len)
{
    return opal_accelerator.mem_copy(MCA_ACCELERATOR_NO_DEVICE_ID, MCA_ACCELERATOR_NO_DEVICE_ID, to,
                                     from, len, MCA_ACCELERATOR_TRANSFER_UNSPEC);
}

#else

#include "opal/mca/pmix/pmix.h"
#include "orte/util/proc_info.h"

#define FAB_MODEX_SCOPE      OPAL_PMIX_GLOBAL
#define FAB_LOCAL_RANKS      OPAL_PMIX_LOCAL_PEERS
#define FAB_LOCAL_RANKS_TYPE OPAL_STRING
#define fab_process          orte_process_info

#if OPAL_CUDA_SUPPORT

#include "opal/datatype/opal_convertor.h" /* the next one needs it */
#include "opal/datatype/opal_datatype_cuda.h"
#include "opal/runtime/opal_params.h"

/* False on a host without CUDA's library, and with --mca mpi_cuda_support 0. */
static inline bool fab_has_device_memory(void)
{
    return opal_cuda_support;
}

static inline bool fab_is_device_address(const void *addr)
{
    return opal_cuda_check_one_buf((char *) (uintptr_t) addr, NULL);
}

static inline int fab_device_copy(void *to, const void *from, size_t len)
{
    (void) opal_cuda_memcpy_sync(to, from, len); /* ends the process on an error */
    return OPAL_SUCCESS;
}

#else

static inline bool fab_has_device_memory(void)
{
    return false;
}

static inline bool fab_is_device_address(const void *addr)
{
    (void) addr;
    return false;
}

static inline int fab_device_copy(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
    return OPAL_SUCCESS;
}

#endif
#endif

#endif /* FAB_OMPI_H */
