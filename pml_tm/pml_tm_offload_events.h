/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing the device that matches tags; its events.  All functions run with the lock
 * held.
 */
#ifndef PML_TM_OFFLOAD_EVENTS_H
#define PML_TM_OFFLOAD_EVENTS_H

#include "pml_tm.h"

/* Acquire the fabric's matching device, if there is one. */
void mca_pml_tm_offload_open(void);

/* End matching by the device; listed receives stay posted. */
void mca_pml_tm_offload_close(void);

/* Called when all communicators are gone. */
void mca_pml_tm_offload_free(void);

#endif /* PML_TM_OFFLOAD_EVENTS_H */
