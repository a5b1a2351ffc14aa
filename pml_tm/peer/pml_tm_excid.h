/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators whose context id differs between their members.
 *
 * MPI_Comm_create_from_group and MPI_Intercomm_create_from_groups (MPI sessions, Open MPI 5.0) do
 * not agree on an index: such a communicator has a 128-bit extended id, the same everywhere, and a
 * different index in each process. A tag must have the receiver's index. Until a sender knows it,
 * it sends untagged messages (FAB_AM_NO_TAG, which matching hardware leaves to software) with the
 * extended id and its own index in front of the payload. The receiver notes that index and answers
 * once, with its own.
 *
 *   rank 0                                                      rank 1
 *   NO_TAG {excid, EAGER or RNDV, my index is 5}, payload   ->  notes 0: 5; delivers as a tagged message to its index 7
 *                                                           <-  CONTEXT {excid, rank 1, index 7}
 *   EAGER with context 7 in its tag                         ->
 *
 * Lock: the fabric's.
 */
#ifndef PML_TM_EXCID_H
#define PML_TM_EXCID_H

#include "pml_tm/peer/pml_tm_comm.h"

#define PML_TM_CONTEXT_UNKNOWN UINT32_MAX

/* Extra state of a communicator with an extended id. */
struct mca_pml_tm_excid {
    mca_pml_tm_comm_t *next; /* all such communicators */
    uint64_t id[2];
    uint32_t contexts[]; /* by rank: its index for this communicator, or PML_TM_CONTEXT_UNKNOWN */
};

/*
 * Allocate this state if the communicator has an extended id. OMPI_SUCCESS,
 * OMPI_ERR_OUT_OF_RESOURCE.
 */
int mca_pml_tm_excid_add(mca_pml_tm_comm_t *tmc);

/* The communicator is about to be freed. */
void mca_pml_tm_excid_remove(mca_pml_tm_comm_t *tmc);

/* The communicator with this extended id, or NULL if it is not (or no longer) here. */
mca_pml_tm_comm_t *mca_pml_tm_excid_comm(const uint64_t id[2]);

/*
 * The fabric tag of a message with this MPI tag to this rank, in *out. False: the message must go
 * untagged, and *out lacks the context id.
 */
static inline bool mca_pml_tm_excid_tag(const mca_pml_tm_comm_t *tmc, int rank, int32_t tag,
                                        uint64_t *out)
{
    uint32_t context = OPAL_LIKELY(NULL == tmc->excid) ? tmc->context : tmc->excid->contexts[rank];
    bool is_known = PML_TM_CONTEXT_UNKNOWN != context;

    *out = mca_pml_tm_tag(is_known ? context : 0, tmc->my_rank, tag, mca_pml_tm.source_bits);
    return is_known;
}

/*
 * The prefix of an untagged message's payload; id is the message id that it would have with a tag.
 */
static inline mca_pml_tm_untagged_t mca_pml_tm_excid_prefix(const mca_pml_tm_comm_t *tmc,
                                                            uint8_t id)
{
    return (mca_pml_tm_untagged_t){
        .excid = {tmc->excid->id[0], tmc->excid->id[1]},
        .context = tmc->context,
        .id = id,
    };
}

/* Read the prefix from the data of a message with this fabric tag. False: it is malformed. */
bool mca_pml_tm_excid_read(uint64_t tag, const void *data, size_t len,
                           mca_pml_tm_untagged_t *prefix);

#endif /* PML_TM_EXCID_H */
