/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the numbers of a job say: how they are added up, and what could be done (the report at the
 * job's end, pml_tm_report.c).  No state, no Open MPI.
 */
#ifndef PML_TM_ADVICE_H
#define PML_TM_ADVICE_H

#include "pml_tm_wire.h"

enum { PML_TM_ADVICE_SIZE = 320 }; /* bytes of a sentence */

/* A number of up to 40 bits with a rank. */
static inline uint64_t mca_pml_tm_ranked(uint64_t number, uint32_t rank)
{
    const uint64_t most = (UINT64_C(1) << 40) - 1;

    return (number < most ? number : most) << 24 | (rank & 0xffffffu);
}

static inline uint64_t mca_pml_tm_ranked_number(uint64_t ranked)
{
    return ranked >> 24;
}

static inline uint32_t mca_pml_tm_ranked_rank(uint64_t ranked)
{
    return (uint32_t) ranked & 0xffffffu;
}

/*
 * Votes for ranks, with a number each (Boyer and Moore): if one rank has more than half of all, it
 * is the one that is left, and it was voted for by what is left, or more.
 */
uint64_t mca_pml_tm_vote(uint64_t a, uint64_t b);

/* Add a value of other ranks to the PML_TM_REPORT_VALUES of this one. */
void mca_pml_tm_report_add(uint64_t *values, unsigned which, uint64_t value);

/*
 * What could be done, the worst first: at most max sentences, each with the counter behind it in
 * brackets.  Returns how many.
 */
int mca_pml_tm_advise(const uint64_t *values, int max, char advice[][PML_TM_ADVICE_SIZE]);

/* Percent; 0 of nothing. */
double mca_pml_tm_share(uint64_t part, uint64_t whole);

uint64_t mca_pml_tm_report_sent(const uint64_t *values); /* messages */

#endif /* PML_TM_ADVICE_H */
