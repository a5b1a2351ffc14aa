/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits in this process, as text, for debuggers.
 */
#include "pml_tm/report/pml_tm_reports.h"

#include "pml_tm/report/pml_tm_state.h"
#include "pml_tm/report/pml_tm_text.h"

enum { DUMP_WAITS = 99, DUMP_LINES = 200 };

static void line_of_comm(mca_pml_tm_text_t *text, const mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_text_line(text,
                         "pml tm: communicator %s [context %u, rank %u]: %u receives posted (at "
                         "most %u), %u messages unexpected (at most %u)",
                         tmc->comm->c_name, tmc->context, tmc->my_rank, tmc->match.posted_count,
                         tmc->match.posted_max, tmc->match.unexp_count, tmc->match.unexp_max);
}

int mca_pml_tm_dump(ompi_communicator_t *comm, int verbose)
{
    const mca_pml_tm_comm_t *only = verbose > 1 ? NULL : mca_pml_tm_comm(comm);
    mca_pml_tm_text_t *text = mca_pml_tm_text_new(DUMP_LINES);
    fab_wait_t waits[DUMP_WAITS];
    mca_pml_tm_waits_t list = {.wait = waits, .room = verbose > 0 ? DUMP_WAITS : 0};
    char line[PML_TM_WAIT_SIZE];

    if (NULL == text) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_state_all(&list, only);
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        if (NULL != mca_pml_tm.comms[i] && (NULL == only || only == mca_pml_tm.comms[i])) {
            line_of_comm(text, mca_pml_tm.comms[i]);
        }
    }
    fab_unlock(mca_pml_tm.fab);
    for (unsigned i = 0; i < list.count; ++i) {
        mca_pml_tm_text_line(text, "  %s", mca_pml_tm_wait_text(line, &waits[i], NULL));
    }
    if (list.has_more && verbose > 0) {
        mca_pml_tm_text_line(text, "  ... and more");
    }
    mca_pml_tm_text_print(text);
    return OMPI_SUCCESS;
}
