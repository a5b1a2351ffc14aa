/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended context ids: exchange of indexes, and untagged messages until then.  The protocol:
 * pml_tm_excid.h.
 */
#include "pml_tm/peer/pml_tm_excid.h"

int mca_pml_tm_excid_add(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_excid_t *excid;
    uint64_t id[2];

    tmc->excid = NULL;
    if (!mca_pml_tm_comm_extended_id(tmc->comm, id)) {
        return OMPI_SUCCESS;
    }
    excid = malloc(sizeof(*excid) + (size_t) tmc->num_sources * sizeof(excid->contexts[0]));
    if (NULL == excid) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memcpy(excid->id, id, sizeof(excid->id));
    for (int32_t rank = 0; rank < tmc->num_sources; ++rank) {
        excid->contexts[rank] = PML_TM_CONTEXT_UNKNOWN;
    }
    excid->next = mca_pml_tm.excid_comms;
    mca_pml_tm.excid_comms = tmc;
    tmc->excid = excid;
    return OMPI_SUCCESS;
}

void mca_pml_tm_excid_remove(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_comm_t **link = &mca_pml_tm.excid_comms;

    if (NULL == tmc->excid) {
        return;
    }
    while (tmc != *link) {
        link = &(*link)->excid->next;
    }
    *link = tmc->excid->next;
    free(tmc->excid);
    tmc->excid = NULL;
}

mca_pml_tm_comm_t *mca_pml_tm_excid_comm(const uint64_t id[2])
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm.excid_comms;

    while (NULL != tmc && (tmc->excid->id[0] != id[0] || tmc->excid->id[1] != id[1])) {
        tmc = tmc->excid->next;
    }
    return tmc;
}

bool mca_pml_tm_excid_read(uint64_t tag, const void *data, size_t len,
                           mca_pml_tm_untagged_t *prefix)
{
    if (len < sizeof(*prefix)) {
        return false;
    }
    memcpy(prefix, data, sizeof(*prefix));
    return (FAB_AM_EAGER == prefix->id || FAB_AM_RNDV == prefix->id) &&
           prefix->context < mca_pml_tm.max_context &&
           0 == (prefix->reserved[0] | prefix->reserved[1] | prefix->reserved[2]) &&
           0 == mca_pml_tm_tag_context(tag, mca_pml_tm.source_bits);
}
