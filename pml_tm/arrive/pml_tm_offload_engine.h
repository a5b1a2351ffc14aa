/* SPDX-License-Identifier: BSD-3-Clause */
/* What sets mca_pml_tm.offload (pml_tm_offload.h), and what the device's matching has cost. */
#ifndef PML_TM_OFFLOAD_ENGINE_H
#define PML_TM_OFFLOAD_ENGINE_H

#include "offload/offload_types.h"

/* The device's counters (PML_TM_OFFLOAD_COUNTERS); zero if there is none. */
extern fab_offload_counters_t *const mca_pml_tm_offload_counters;

/* Acquire the fabric's device, if there is one: sets mca_pml_tm.offload. */
void mca_pml_tm_offload_open(void);

#endif /* PML_TM_OFFLOAD_ENGINE_H */
