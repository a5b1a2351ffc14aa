/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only header that depends on the version of Open MPI: 4.1 (BTL 3.1) or 5.0 (BTL 3.3).  Every
 * file of btl_fabric includes it first.
 */
#ifndef BTL_FABRIC_COMPAT_H
#define BTL_FABRIC_COMPAT_H

#include "opal_config.h"

#if !(4 == OPAL_MAJOR_VERSION && 1 == OPAL_MINOR_VERSION) &&                                       \
    !(5 == OPAL_MAJOR_VERSION && 0 == OPAL_MINOR_VERSION)
#error "btl_fabric needs Open MPI 4.1 or 5.0"
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

#define BTL_FABRIC_BASE_VERSION MCA_BTL_BASE_VERSION_3_1_0
#define BTL_FABRIC_MODEX_SCOPE  OPAL_PMIX_GLOBAL
#define mca_btl_fabric_process  orte_process_info
#define BTL_FABRIC_FLAGS_EXTRA  0

static inline bool mca_btl_fabric_needs_packing(const opal_convertor_t *convertor)
{
    return opal_convertor_need_buffers(convertor); /* true of data on a device, too */
}

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

#endif /* BTL_FABRIC_COMPAT_H */
