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

/* The class of a length, not 0: its highest bit. */
static inline unsigned mca_pml_tm_size_class(size_t len)
{
    return 63u - (unsigned) __builtin_clzll(len);
}

static inline void mca_pml_tm_count_into(mca_pml_tm_sent_t *sent, unsigned size_class, size_t len,
                                         int by)
{
    sent->messages[size_class] += (unsigned long long) by;
    sent->bytes += (unsigned long long) by * len;
}

/* A message to this peer, with len bytes of the user's, is about to go out. by -1: it did not. */
static inline void mca_pml_tm_count_sent(const fab_peer_t *peer, mca_pml_tm_protocol_t protocol,
                                         size_t len, int by)
{
    /* nothing counts as a byte */
    mca_pml_tm_count_into(&mca_pml_tm.sent[protocol][peer->provider],
                          mca_pml_tm_size_class(len | 1), len, by);
}

/* All messages by this protocol. */
unsigned long long mca_pml_tm_sent_by(mca_pml_tm_protocol_t protocol);

/* All messages by this provider; adds to *sent, and returns how many are in it. */
unsigned long long mca_pml_tm_sent_through(unsigned provider, mca_pml_tm_sent_t *sent);

#endif /* PML_TM_SENT_H */
