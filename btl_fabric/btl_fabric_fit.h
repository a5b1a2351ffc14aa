/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Was btl fabric built for the Open MPI that runs?
 */
#ifndef BTL_FABRIC_FIT_H
#define BTL_FABRIC_FIT_H

#include "fabric/fab_fit.h"

/*
 * To be given to fab_fit_check() before anything of Open MPI is read by an offset in a structure.
 */
extern const fab_fit_t mca_btl_fabric_fit;

#endif /* BTL_FABRIC_FIT_H */
