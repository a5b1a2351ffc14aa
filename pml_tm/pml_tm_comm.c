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

#include "pml_tm_peer.h"

fab_peer_t *mca_pml_tm_comm_peer_by_name(ompi_group_t *group, int32_t source)
{
    opal_process_name_t name = ompi_group_get_proc_name(group, source);

    return fab_peer_find(mca_pml_tm.fab, mca_pml_tm_peer_name(&name));
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
