/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The classes of Open MPI whose objects pml tm reads (fab_fit.h).
 */
#include "pml_tm/base/pml_tm_compat.h"

#include "pml_tm/base/pml_tm_shared.h"

#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/runtime/opal.h"

static const fab_fit_class_t classes[] = {
    FAB_FIT_CLASS(ompi_communicator_t),
    FAB_FIT_CLASS(ompi_group_t),
    FAB_FIT_CLASS(ompi_datatype_t),
    FAB_FIT_CLASS(ompi_message_t),
    FAB_FIT_CLASS(ompi_request_t),
    FAB_FIT_CLASS(mca_pml_base_request_t),
    FAB_FIT_CLASS(mca_pml_base_send_request_t),
    FAB_FIT_CLASS(mca_pml_base_recv_request_t),
    FAB_FIT_OPAL_CLASSES,
};

const fab_fit_t mca_pml_tm_fit = {.component = "PML \"tm\"",
                                  .built = OPAL_IDENT_STRING,
                                  .runs = opal_version_string,
                                  .classes = classes,
                                  .num = sizeof(classes) / sizeof(classes[0])};
