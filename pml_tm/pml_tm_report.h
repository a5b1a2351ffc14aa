/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One page for the job at its end (params.report): how its messages went, how long it waited, what
 * was refused, and what could be done about it.
 *
 * Each process of MPI_COMM_WORLD sends the sum of its own numbers and those of its children to its
 * parent in a binomial tree, by active messages: a collective operation may be what hangs.  Who
 * does not send within some seconds is left out, and counted.
 */
#ifndef PML_TM_REPORT_H
#define PML_TM_REPORT_H

#include "pml_tm.h"

/* MPI_COMM_WORLD is about to go. Lock not held. */
void mca_pml_tm_report_end(ompi_communicator_t *world);

/* The component is open: its time begins. */
void mca_pml_tm_report_open(void);

/* Handler of PML_TM_AM_REPORT. */
void mca_pml_tm_report_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);

#endif /* PML_TM_REPORT_H */
