/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits in this process, as text: posted receives, unexpected messages, receives whose data
 * is on the way, sends that are not complete, flow control.  Nothing is recorded for it: the queues
 * and requests that exist are read when it is asked for.
 */
#ifndef PML_TM_DUMP_H
#define PML_TM_DUMP_H

#include "pml_tm_comm.h"
#include "pml_tm_text.h"

/*
 * pml_dump of the module, for debuggers: print the communicator's counts; with verbose > 0 its
 * lists, at most 100 lines; with verbose > 1 those of all communicators.
 */
int mca_pml_tm_dump(ompi_communicator_t *comm, int verbose);

/* Add the lists of a communicator to the text. Lock held. */
void mca_pml_tm_dump_comm(mca_pml_tm_text_t *text, mca_pml_tm_comm_t *tmc);

#endif /* PML_TM_DUMP_H */
