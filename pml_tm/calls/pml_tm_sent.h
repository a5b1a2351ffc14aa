/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many messages this process has sent, by provider, protocol and length.  A short message that
 * goes straight into a ring is counted by its length alone, which costs one instruction more than a
 * plain counter.
 *
 * Lock: the fabric's.  Read without it, by MPI_T, a sum may lack the last messages.
 */
#ifndef PML_TM_SENT_H
#define PML_TM_SENT_H

#include "pml_tm/base/pml_tm.h"

/* All messages by this protocol. */
unsigned long long mca_pml_tm_sent_by(mca_pml_tm_protocol_t protocol);

/* All messages by this provider; adds to *sent, and returns how many are in it. */
unsigned long long mca_pml_tm_sent_through(unsigned provider, mca_pml_tm_sent_t *sent);

#endif /* PML_TM_SENT_H */
