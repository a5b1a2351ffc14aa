/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators.  Open MPI's own table cannot be used to find a communicator by context id: while
 * members agree on an id, its slot holds a placeholder.  So the module keeps its own table, filled
 * in add_comm.
 *
 * A message may arrive before its communicator exists here: a peer that finished creating it
 * earlier may send at once.  Such messages wait in mca_pml_tm.early and join the domain, in order,
 * in add_comm.
 */
#include "pml_tm_comm.h"

#include "pml_tm_cancel.h"
#include "pml_tm_excid.h"
#include "pml_tm_msg.h"
#include "pml_tm_peer.h"

fab_peer_t *mca_pml_tm_comm_peer_by_name(ompi_group_t *group, int32_t source)
{
    opal_process_name_t name = ompi_group_get_proc_name(group, source);

    return fab_peer_find(mca_pml_tm.fab, mca_pml_tm_peer_name(&name));
}

/* Make room for the context id in the table. */
static int comms_reserve(uint32_t context)
{
    uint32_t size = 0 == mca_pml_tm.num_comms ? 64 : mca_pml_tm.num_comms;
    mca_pml_tm_comm_t **comms;

    while (size <= context) {
        size *= 2;
    }
    if (size == mca_pml_tm.num_comms) {
        return OMPI_SUCCESS;
    }
    comms = realloc(mca_pml_tm.comms, size * sizeof(*comms));
    if (NULL == comms) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memset(comms + mca_pml_tm.num_comms, 0, (size - mca_pml_tm.num_comms) * sizeof(*comms));
    mca_pml_tm.comms = comms;
    mca_pml_tm.num_comms = size;
    return OMPI_SUCCESS;
}

/* Ids and ranks that do not fit the fabric tag are refused, never wrapped. */
static int check_limits(const ompi_communicator_t *comm)
{
    uint32_t context = mca_pml_tm_comm_index(comm);
    int max_size = ompi_comm_size((ompi_communicator_t *) comm);

    if (OMPI_COMM_IS_INTER(comm) &&
        ompi_comm_remote_size((ompi_communicator_t *) comm) > max_size) {
        max_size = ompi_comm_remote_size((ompi_communicator_t *) comm);
    }
    if (context < mca_pml_tm.max_context && (uint32_t) max_size <= 1u << mca_pml_tm.source_bits) {
        return OMPI_SUCCESS;
    }
    mca_pml_tm_show_help("tag-fields", mca_pml_tm_process.nodename, (unsigned) context,
                         (unsigned) mca_pml_tm.max_context, max_size, 1u << mca_pml_tm.source_bits,
                         mca_pml_tm.source_bits);
    return OMPI_ERR_OUT_OF_RESOURCE;
}

bool mca_pml_tm_comm_find_sender(mca_pml_tm_comm_t *tmc, const fab_peer_t *peer, int32_t rank)
{
    opal_process_name_t name;

    if (rank >= tmc->num_sources) {
        return false;
    }
    name = ompi_group_get_proc_name(tmc->comm->c_remote_group, rank);
    if (mca_pml_tm_peer_name(&name) != peer->name) {
        return false;
    }
    tmc->sender_name = peer->name;
    tmc->sender_rank = rank;
    return true;
}

static int add_comm(ompi_communicator_t *comm)
{
    mca_pml_tm_comm_t *tmc;
    int rc = check_limits(comm);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    tmc = calloc(1, sizeof(*tmc));
    if (NULL == tmc) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    fab_match_init(&tmc->match);
    tmc->comm = comm;
    tmc->num_sources = OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm)
                                                : ompi_comm_size(comm);
    tmc->my_rank = (uint32_t) comm->c_my_rank;
    tmc->sender_rank = -1;
    tmc->context = mca_pml_tm_comm_index(comm);

    fab_lock(mca_pml_tm.fab);
    rc = comms_reserve(tmc->context);
    if (OMPI_SUCCESS == rc) {
        rc = mca_pml_tm_excid_add(tmc);
    }
    if (OMPI_SUCCESS == rc) {
        /*
         * Untagged messages bypass the device, so a communicator that has them is matched in
         * software.  So is a communicator for whose scope there is no memory.
         */
        (void) fab_offload_scope_init(&tmc->scope, NULL == tmc->excid ? mca_pml_tm.engine : NULL,
                                      &tmc->match);
        tmc->tag_base = mca_pml_tm_tag(tmc->context, tmc->my_rank, 0, mca_pml_tm.source_bits);
        tmc->fast = mca_pml_tm.fast & ~(NULL != tmc->excid ? PML_TM_FAST_SEND : 0u) &
                    ~(NULL != tmc->scope.engine
                          ? PML_TM_FAST_RECV | PML_TM_FAST_TAKE | PML_TM_FAST_LOOK
                          : 0u);
        comm->c_pml_comm = (struct mca_pml_comm_t *) tmc;
        mca_pml_tm.comms[tmc->context] = tmc;
        mca_pml_tm_msg_join(tmc);
    } else {
        free(tmc);
    }
    fab_unlock(mca_pml_tm.fab);
    return rc;
}

/* MPI_Init of Open MPI 4.1 ignores errors for its own communicators, so the job ends here. */
int mca_pml_tm_add_comm(ompi_communicator_t *comm)
{
    int rc = add_comm(comm);

    if (OMPI_ERR_OUT_OF_RESOURCE == rc &&
        (comm == &ompi_mpi_comm_world.comm || comm == &ompi_mpi_comm_self.comm)) {
        mca_pml_tm_show_help("no-communicator", mca_pml_tm_process.nodename);
        ompi_rte_abort(rc, NULL);
    }
    return rc;
}

/*
 * Messages that were not received are dropped with their communicator.  A program that leaves such
 * messages is erroneous, unless their sender cancels them.
 */
static void drop_messages(mca_pml_tm_comm_t *tmc, bool is_told)
{
    fab_match_msg_t *msg;

    while (NULL != (msg = fab_match_first_msg(&tmc->match))) {
        fab_match_remove_msg(&tmc->match, msg);
        if (is_told) {
            mca_pml_tm_cancel_answer(mca_pml_tm_msg_of(msg));
        }
        mca_pml_tm_msg_release(mca_pml_tm_msg_of(msg));
    }
}

static void comm_free(mca_pml_tm_comm_t *tmc)
{
    fab_offload_scope_fini(&tmc->scope);
    fab_match_fini(&tmc->match);
    mca_pml_tm_excid_remove(tmc);
    mca_pml_tm.comms[tmc->context] = NULL;
    free(tmc);
}

int mca_pml_tm_del_comm(ompi_communicator_t *comm)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);

    if (NULL != tmc) {
        if (0 != tmc->num_waiting) {
            /* MPI_Finalize frees it although freed requests still hold it */
            mca_pml_tm_peer_flush();
        }
        fab_lock(mca_pml_tm.fab);
        comm->c_pml_comm = NULL;
        drop_messages(tmc, true);
        comm_free(tmc);
        fab_unlock(mca_pml_tm.fab);
    }
    return OMPI_SUCCESS;
}

void mca_pml_tm_comm_fini(void)
{
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        if (NULL != mca_pml_tm.comms[i]) {
            mca_pml_tm.comms[i]->comm->c_pml_comm = NULL;
            drop_messages(mca_pml_tm.comms[i], false);
            comm_free(mca_pml_tm.comms[i]);
        }
    }
    free(mca_pml_tm.comms);
    mca_pml_tm.comms = NULL;
    mca_pml_tm.num_comms = 0;
}

int mca_pml_tm_dump(ompi_communicator_t *comm, int verbose)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);

    (void) verbose;
    if (NULL != tmc) {
        opal_output(0,
                    "pml tm: communicator %s [context %u, rank %u]: %u receives posted (at most "
                    "%u), %u messages unexpected (at most %u)",
                    comm->c_name, tmc->context, tmc->my_rank, (unsigned) tmc->match.posted_count,
                    (unsigned) tmc->match.posted_max, (unsigned) tmc->match.unexp_count,
                    (unsigned) tmc->match.unexp_max);
    }
    return OMPI_SUCCESS;
}
