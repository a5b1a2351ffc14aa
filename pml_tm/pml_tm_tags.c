/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags in words.
 */
#include "ompi_config.h"

#include "pml_tm_shared.h"

#include <stdio.h>

#include "ompi/mca/coll/base/coll_tags.h"

/* The operation that a tag belongs to; NULL: none, it is the program's. */
static const char *name_of(int tag)
{
    static const struct {
        int tag;
        const char *name;
    } names[] = {
        {MCA_COLL_BASE_TAG_ALLGATHER, "MPI_Allgather"},
        {MCA_COLL_BASE_TAG_ALLGATHERV, "MPI_Allgatherv"},
        {MCA_COLL_BASE_TAG_ALLREDUCE, "MPI_Allreduce"},
        {MCA_COLL_BASE_TAG_ALLTOALL, "MPI_Alltoall"},
        {MCA_COLL_BASE_TAG_ALLTOALLV, "MPI_Alltoallv"},
        {MCA_COLL_BASE_TAG_ALLTOALLW, "MPI_Alltoallw"},
        {MCA_COLL_BASE_TAG_BARRIER, "MPI_Barrier"},
        {MCA_COLL_BASE_TAG_BCAST, "MPI_Bcast"},
        {MCA_COLL_BASE_TAG_EXSCAN, "MPI_Exscan"},
        {MCA_COLL_BASE_TAG_GATHER, "MPI_Gather"},
        {MCA_COLL_BASE_TAG_GATHERV, "MPI_Gatherv"},
        {MCA_COLL_BASE_TAG_REDUCE, "MPI_Reduce"},
        {MCA_COLL_BASE_TAG_REDUCE_SCATTER, "MPI_Reduce_scatter"},
        {MCA_COLL_BASE_TAG_REDUCE_SCATTER_BLOCK, "MPI_Reduce_scatter_block"},
        {MCA_COLL_BASE_TAG_SCAN, "MPI_Scan"},
        {MCA_COLL_BASE_TAG_SCATTER, "MPI_Scatter"},
        {MCA_COLL_BASE_TAG_SCATTERV, "MPI_Scatterv"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (tag == names[i].tag) {
            return names[i].name;
        }
    }
    return tag <= MCA_COLL_BASE_TAG_NONBLOCKING_BASE && tag >= MCA_COLL_BASE_TAG_NONBLOCKING_END
               ? "a non-blocking collective"
               : NULL;
}

const char *mca_pml_tm_tag_text(char buf[PML_TM_TAG_SIZE], int tag)
{
    const char *name = name_of(tag);

    if (-1 == tag) { /* MPI_ANY_TAG */
        return "any";
    }
    if (NULL == name) {
        snprintf(buf, PML_TM_TAG_SIZE, "%d", tag);
    } else {
        snprintf(buf, PML_TM_TAG_SIZE, "%d (%s)", tag, name);
    }
    return buf;
}
