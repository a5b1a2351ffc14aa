/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * OPAL in a program without MPI_Init.
 */
#ifndef TEST_LIB_OPAL_H
#define TEST_LIB_OPAL_H

#include "opal_config.h"

#include "opal/constants.h"
#include "opal/runtime/opal.h"
#if OPAL_MAJOR_VERSION >= 5
#include "opal/mca/accelerator/base/base.h"
#endif

/* Parameters, classes, datatypes and convertors can be used. OPAL_SUCCESS, or OPAL's error. */
static inline int test_opal_init(void)
{
    int argc = 0, rc = opal_init_util(&argc, NULL);

#if OPAL_MAJOR_VERSION >= 5
    /* A convertor asks it whether a buffer is on a device; otherwise only opal_init() opens it. */
    if (OPAL_SUCCESS == rc) {
        rc = mca_base_framework_open(&opal_accelerator_base_framework, 0);
    }
    if (OPAL_SUCCESS == rc) {
        rc = opal_accelerator_base_select();
    }
#endif
    return rc;
}

#endif
