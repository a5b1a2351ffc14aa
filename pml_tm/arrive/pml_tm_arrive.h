/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from the wire.
 */
#ifndef PML_TM_ARRIVE_H
#define PML_TM_ARRIVE_H

#include "pml_tm/base/pml_tm.h"

/* Handlers of FAB_AM_NO_TAG, PML_TM_AM_CONTEXT, FAB_AM_EAGER, FAB_AM_RNDV and PML_TM_AM_DATA. */
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_excid_untagged);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_excid_context);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_eager);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_rndv);
FAB_FUNCTION(fab_am_fn_t, mca_pml_tm_msg_data);

/* Move the early messages of a new communicator into its domain. Lock held. */
void mca_pml_tm_msg_join(mca_pml_tm_comm_t *tmc);

#endif /* PML_TM_ARRIVE_H */
