/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters of btl fabric, besides those of the fabric (fab_params.h) and those that Open MPI
 * registers for every BTL.
 */
#ifndef BTL_FABRIC_PARAMS_H
#define BTL_FABRIC_PARAMS_H

#include "fabric/fab_param.h"

#define BTL_FABRIC_OFFER_MAX 16384 /* bytes, of params.offer_max */

typedef struct mca_btl_fabric_params {
    int verbose;
    int free_list_num; /* descriptors of each size */
    int free_list_max;
    int free_list_inc;
    size_t offer_max; /* bytes */
} mca_btl_fabric_params_t;

extern const fab_param_table_t mca_btl_fabric_param_table;

/*
 * Check the values against their ranges and against each other.  Parameters and result are those of
 * fab_params_check(), which checks the fabric's own parameters and is not called here.
 */
int mca_btl_fabric_params_check(const mca_btl_fabric_params_t *params, char *buf, size_t size);

#endif /* BTL_FABRIC_PARAMS_H */
