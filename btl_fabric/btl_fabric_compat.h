/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only header that depends on the version of Open MPI: 4.1 (BTL 3.1), 5.0 or 6.0 (BTL 3.3).
 * Every file of btl_fabric includes it first.
 */
#ifndef BTL_FABRIC_COMPAT_H
#define BTL_FABRIC_COMPAT_H

#include "opal_config.h"

#if !(4 == OPAL_MAJOR_VERSION && 1 == OPAL_MINOR_VERSION) &&                                       \
    !(5 == OPAL_MAJOR_VERSION && 0 == OPAL_MINOR_VERSION) &&                                       \
    !(6 == OPAL_MAJOR_VERSION && 0 == OPAL_MINOR_VERSION)
#error "btl_fabric needs Open MPI 4.1, 5.0 or 6.0"
#endif

#include "opal/class/opal_bitmap.h"
#include "opal/class/opal_free_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"

/* Version of btl_fabric; processes with different ones do not find each other's addresses. */
#define BTL_FABRIC_MAJOR_VERSION   0
#define BTL_FABRIC_MINOR_VERSION   1
#define BTL_FABRIC_RELEASE_VERSION 0

#if OPAL_MAJOR_VERSION >= 5

#include "opal/mca/accelerator/base/base.h"
#include "opal/mca/pmix/pmix-internal.h"

/* Version of the BTL framework's component structure. */
#define BTL_FABRIC_BASE_VERSION MCA_BTL_BASE_VERSION_3_3_0

/* Scope of the address in the modex. */
#define BTL_FABRIC_MODEX_SCOPE PMIX_GLOBAL

/*
 * Open MPI's record of this process and its job; the members that btl_fabric uses have the same
 * names in both versions.
 */
#define mca_btl_fabric_process opal_process_info

/* A put that has completed is visible at its target. */
#define BTL_FABRIC_FLAGS_EXTRA MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

/* Is the data not one piece of memory that the CPU can read? */
static inline bool mca_btl_fabric_needs_packing(const opal_convertor_t *convertor)
{
    return opal_convertor_need_buffers(convertor) || opal_convertor_on_device(convertor);
}

/* May a program pass memory of a device to MPI? */
static inline bool mca_btl_fabric_has_device_memory(void)
{
    const char *name = opal_accelerator_base_selected_component.base_version.mca_component_name;

    return 0 != strcmp("null", name);
}

/* Is the address in such memory?  To be asked only where there may be some. */
static inline bool mca_btl_fabric_is_device_address(const void *addr)
{
    uint64_t flags = 0;
    int device = MCA_ACCELERATOR_NO_DEVICE_ID;

    return opal_accelerator.check_addr(addr, &device, &flags) > 0;
}

/* Copy to or from such memory; an error of OPAL. */
static inline int mca_btl_fabric_device_copy(void *to, const void *from, size_t len)
{
    return opal_accelerator.mem_copy(MCA_ACCELERATOR_NO_DEVICE_ID, MCA_ACCELERATOR_NO_DEVICE_ID, to,
                                     from, len, MCA_ACCELERATOR_TRANSFER_UNSPEC);
}

/* Give a message to whoever registered for its tag. False: nobody has. */
static inline bool mca_btl_fabric_hand_up(struct mca_btl_base_module_t *btl,
                                          struct mca_btl_base_endpoint_t *ep,
                                          mca_btl_base_tag_t tag, void *data, size_t len)
{
    const mca_btl_active_message_callback_t *up = &mca_btl_base_active_message_trigger[tag];
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};
    mca_btl_base_receive_descriptor_t message = {.endpoint = ep,
                                                 .des_segments = &segment,
                                                 .des_segment_count = 1,
                                                 .tag = tag,
                                                 .cbdata = up->cbdata};

    if (NULL == up->cbfunc) {
        return false;
    }
    up->cbfunc(btl, &message);
    return true;
}

#else

#include "opal/mca/pmix/pmix.h"
#include "orte/util/proc_info.h"

#if OPAL_CUDA_SUPPORT
#include "opal/datatype/opal_datatype_cuda.h"
#include "opal/runtime/opal_params.h"
#endif

#define BTL_FABRIC_BASE_VERSION MCA_BTL_BASE_VERSION_3_1_0
#define BTL_FABRIC_MODEX_SCOPE  OPAL_PMIX_GLOBAL
#define mca_btl_fabric_process  orte_process_info
#define BTL_FABRIC_FLAGS_EXTRA  0

static inline bool mca_btl_fabric_needs_packing(const opal_convertor_t *convertor)
{
    return opal_convertor_need_buffers(convertor); /* true of data on a device, too */
}

#if OPAL_CUDA_SUPPORT

static inline bool mca_btl_fabric_has_device_memory(void)
{
    return opal_cuda_support;
}

static inline bool mca_btl_fabric_is_device_address(const void *addr)
{
    return opal_cuda_check_one_buf((char *) (uintptr_t) addr, NULL);
}

static inline int mca_btl_fabric_device_copy(void *to, const void *from, size_t len)
{
    (void) opal_cuda_memcpy_sync(to, from, len); /* ends the process on an error */
    return OPAL_SUCCESS;
}

#else

static inline bool mca_btl_fabric_has_device_memory(void)
{
    return false;
}

static inline bool mca_btl_fabric_is_device_address(const void *addr)
{
    (void) addr;
    return false;
}

static inline int mca_btl_fabric_device_copy(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
    return OPAL_SUCCESS;
}

#endif

static inline bool mca_btl_fabric_hand_up(struct mca_btl_base_module_t *btl,
                                          struct mca_btl_base_endpoint_t *ep,
                                          mca_btl_base_tag_t tag, void *data, size_t len)
{
    const mca_btl_active_message_callback_t *up = &mca_btl_base_active_message_trigger[tag];
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};
    mca_btl_base_descriptor_t message = {.des_segments = &segment, .des_segment_count = 1};

    (void) ep;
    if (NULL == up->cbfunc) {
        return false;
    }
    up->cbfunc(btl, tag, &message, up->cbdata);
    return true;
}

#endif

#if OPAL_ENABLE_FT_MPI

#include "ompi/mca/bml/bml.h"
#include "ompi/proc/proc.h"
#include "ompi/runtime/params.h"

/*
 * Has ob1 given up what it began, an operation or message to proc with this context?  In a job that
 * survives failures it completes the requests of a failed process without waiting for those, and
 * their memory may be another request's by then (seen with 5.0.7): it must not be called back.
 */
static inline bool mca_btl_fabric_is_given_up(opal_proc_t *proc, const void *context)
{
    ompi_proc_t *ompi_proc = (ompi_proc_t *) proc;
    const mca_bml_base_endpoint_t *ends;
    bool is_ob1s = false;

    if (OPAL_LIKELY(!ompi_ftmpi_enabled) || NULL == proc || ompi_proc_is_active(ompi_proc)) {
        return false;
    }
    ends = ompi_proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_BML];
    if (NULL != ends) {
        const mca_bml_base_btl_array_t *arrays[] = {&ends->btl_eager, &ends->btl_send,
                                                    &ends->btl_rdma};
        for (int i = 0; i < 3; i++) {
            for (size_t n = 0; n < arrays[i]->arr_reserve; n++) {
                is_ob1s |= context == &arrays[i]->bml_btls[n];
            }
        }
    }
    return is_ob1s;
}

#else

static inline bool mca_btl_fabric_is_given_up(opal_proc_t *proc, const void *context)
{
    (void) proc, (void) context;
    return false;
}

#endif

#endif /* BTL_FABRIC_COMPAT_H */
