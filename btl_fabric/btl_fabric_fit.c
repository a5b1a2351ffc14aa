/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The classes of Open MPI whose objects btl fabric reads (fab_fit.h).
 */
#include "btl_fabric_compat.h"

#include "btl_fabric_fit.h"

#include "opal/mca/rcache/rcache.h"
#include "opal/runtime/opal.h"

static const fab_fit_class_t classes[] = {FAB_FIT_OPAL_CLASSES};

const fab_fit_t mca_btl_fabric_fit = {.component = "BTL \"fabric\"",
                                      .built = OPAL_IDENT_STRING,
                                      .runs = opal_version_string,
                                      .classes = classes,
                                      .num = sizeof(classes) / sizeof(classes[0])};
