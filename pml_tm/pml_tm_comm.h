/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: from the context id of a message to its matching domain.
 */
#ifndef PML_TM_COMM_H
#define PML_TM_COMM_H

#include "pml_tm.h"

struct mca_pml_tm_comm {
    fab_match_dom_t match;
    ompi_communicator_t *comm;
    int32_t num_sources; /* ranks a message can come from: the remote group's size */
    uint32_t my_rank;    /* as source of what this process sends */
    uint32_t context;
};

static inline mca_pml_tm_comm_t *mca_pml_tm_comm(const ompi_communicator_t *comm)
{
    return (mca_pml_tm_comm_t *) comm->c_pml_comm;
}

/* The communicator with this context id, or NULL if it is not (or no longer) here. Lock held. */
static inline mca_pml_tm_comm_t *mca_pml_tm_comm_find(uint32_t context)
{
    return context < mca_pml_tm.num_comms ? mca_pml_tm.comms[context] : NULL;
}

/* The fabric tag of a message with this MPI tag sent by this process. */
static inline uint64_t mca_pml_tm_comm_tag(const mca_pml_tm_comm_t *tmc, int32_t tag)
{
    return mca_pml_tm_tag(tmc->context, tmc->my_rank, tag, mca_pml_tm.source_bits);
}

/* Free what is left when the component closes. */
void mca_pml_tm_comm_fini(void);

#endif /* PML_TM_COMM_H */
