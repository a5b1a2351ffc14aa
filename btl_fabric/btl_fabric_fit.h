/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Was btl fabric built for the Open MPI that runs?
 */
#ifndef BTL_FABRIC_FIT_H
#define BTL_FABRIC_FIT_H

#include <stdbool.h>

/*
 * If not, the user is told, and nothing of Open MPI may be read by an offset in a structure.  To be
 * called before anything is.
 */
bool mca_btl_fabric_fits(void);

#endif /* BTL_FABRIC_FIT_H */
