/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With fab_ompi.h the only header that depends on the version of Open MPI: 4.1 (BTL 3.1), 5.0 or
 * 6.0 (BTL 3.3).  Every file of btl_fabric includes it first.
 */
#ifndef BTL_FABRIC_COMPAT_H
#define BTL_FABRIC_COMPAT_H

#include "fabric/fab_ompi.h"

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

#if OPAL_MAJOR_VERSION >= 5

/* Version of the BTL framework's component structure. */
#define BTL_FABRIC_BASE_VERSION MCA_BTL_BASE_VERSION_3_3_0

/* A put that has completed is visible at its target. */
#define BTL_FABRIC_FLAGS_EXTRA MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

/* Is the data not one piece of memory that the CPU can read? */
static inline bool mca_btl_fabric_needs_packing(const opal_convertor_t *convertor)
{
    return opal_convertor_need_buffers(convertor) || opal_convertor_on_device(convertor);
}

/* Give a message to the layer that registered for its tag. False: none has. */
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

#define BTL_FABRIC_BASE_VERSION MCA_BTL_BASE_VERSION_3_1_0
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
