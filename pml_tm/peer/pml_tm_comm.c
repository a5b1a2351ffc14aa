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
#include "pml_tm/peer/pml_tm_comm.h"

#include <stdlib.h>

#include "pml_tm/peer/pml_tm_peer.h"

/* ---- peers by rank ------------------------------------------------------ */

/* The block of those ranks of which none was met.  Never written. */
static mca_pml_tm_peers_t no_peers;

static uint32_t num_blocks(int32_t num_sources)
{
    return ((uint32_t) num_sources + PML_TM_PEERS - 1) >> PML_TM_PEERS_SHIFT;
}

mca_pml_tm_comm_t *mca_pml_tm_comm_alloc(ompi_communicator_t *comm)
{
    int32_t num_sources = OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm)
                                                   : ompi_comm_size(comm);
    uint32_t num = num_blocks(num_sources);
    mca_pml_tm_comm_t *tmc = calloc(1, sizeof(*tmc) + num * sizeof(tmc->peers[0]));

    if (NULL == tmc) {
        return NULL;
    }
    tmc->comm = comm;
    tmc->num_sources = num_sources;
    for (uint32_t i = 0; i < num; ++i) {
        atomic_init(&tmc->peers[i], &no_peers);
    }
    return tmc;
}

static void add_depths(const fab_match_dom_t *match, uint32_t *posted_max, uint32_t *unexp_max)
{
    *posted_max = match->posted_max > *posted_max ? match->posted_max : *posted_max;
    *unexp_max = match->unexp_max > *unexp_max ? match->unexp_max : *unexp_max;
}

void mca_pml_tm_comm_depths(uint32_t *posted_max, uint32_t *unexp_max)
{
    *posted_max = mca_pml_tm.posted_max;
    *unexp_max = mca_pml_tm.unexp_max;
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        if (NULL != mca_pml_tm.comms[i]) {
            add_depths(&mca_pml_tm.comms[i]->match, posted_max, unexp_max);
        }
    }
}

void mca_pml_tm_comm_release(mca_pml_tm_comm_t *tmc)
{
    add_depths(&tmc->match, &mca_pml_tm.posted_max, &mca_pml_tm.unexp_max);
    fab_match_fini(&tmc->match);
    for (uint32_t i = 0; i < num_blocks(tmc->num_sources); ++i) {
        mca_pml_tm_peers_t *block = atomic_load_explicit(&tmc->peers[i], memory_order_relaxed);
        if (&no_peers != block) {
            free(block);
        }
    }
    free(tmc);
}

/*
 * Enter the peer, which is open, in the table.  Without memory for it, the peer is looked up by
 * name again.  Lock held.
 */
static void enter_peer(mca_pml_tm_comm_t *tmc, int32_t rank, fab_peer_t *peer)
{
    _Atomic(mca_pml_tm_peers_t *) *slot = &tmc->peers[(uint32_t) rank >> PML_TM_PEERS_SHIFT];
    mca_pml_tm_peers_t *block = atomic_load_explicit(slot, memory_order_relaxed);

    if (&no_peers == block) {
        block = calloc(1, sizeof(*block));
        if (NULL == block) {
            return;
        }
        atomic_store_explicit(slot, block, memory_order_release);
    }
    atomic_store_explicit(&block->peer[(uint32_t) rank % PML_TM_PEERS], peer, memory_order_release);
}

static void forget_closed(mca_pml_tm_peers_t *block)
{
    for (int i = 0; i < PML_TM_PEERS; ++i) {
        const fab_peer_t *peer = atomic_load_explicit(&block->peer[i], memory_order_relaxed);
        if (NULL != peer && !fab_peer_is_open(peer, FAB_USER_PML)) {
            atomic_store_explicit(&block->peer[i], NULL, memory_order_relaxed);
        }
    }
}

void mca_pml_tm_comm_forget_closed(void)
{
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        mca_pml_tm_comm_t *tmc = mca_pml_tm.comms[i];
        uint32_t num = NULL != tmc ? num_blocks(tmc->num_sources) : 0;
        for (uint32_t j = 0; j < num; ++j) {
            mca_pml_tm_peers_t *block = atomic_load_explicit(&tmc->peers[j], memory_order_relaxed);
            if (&no_peers != block) {
                forget_closed(block);
            }
        }
    }
}

fab_peer_t *mca_pml_tm_comm_meet(ompi_communicator_t *comm, int rank, int *rc)
{
    fab_peer_t *peer;

    fab_lock(mca_pml_tm.fab);
    peer = mca_pml_tm_peer_find(mca_pml_tm_comm_name(mca_pml_tm_comm(comm), rank));
    fab_unlock(mca_pml_tm.fab);
    if (NULL == peer) {
        peer = mca_pml_tm_peer_connect(ompi_comm_peer_lookup(comm, rank), rc);
    }
    if (NULL != peer) {
        fab_lock(mca_pml_tm.fab);
        enter_peer(mca_pml_tm_comm(comm), rank, peer);
        fab_unlock(mca_pml_tm.fab);
    }
    return peer;
}

#ifdef PML_TM_HAS_TRANSPORTS
mca_pml_transports_t *mca_pml_tm_get_transports(ompi_communicator_t *comm, int rank)
{
    int rc = OMPI_SUCCESS;
    const fab_peer_t *peer = mca_pml_tm_comm_connect(comm, rank, &rc);
    mca_pml_transports_t *transports = NULL != peer ? calloc(1, sizeof(*transports)) : NULL;

    if (NULL == transports) {
        return NULL;
    }
    transports->entries = calloc(1, sizeof(transports->entries[0]));
    if (NULL != transports->entries) {
        transports->count = 1;
        transports->entries[0] = (mca_pml_transport_entry_t){
            .transport_name = fab_peer_provider_name(peer), .device_name = "tm"};
    }
    return transports;
}
#endif

/* ---- senders ------------------------------------------------------------ */

bool mca_pml_tm_comm_find_sender(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, int32_t rank)
{
    if (rank >= tmc->num_sources || mca_pml_tm_comm_name(tmc, rank) != peer->name) {
        return false;
    }
    if (fab_peer_is_open(peer, FAB_USER_PML) && NULL == mca_pml_tm_comm_met(tmc, rank)) {
        enter_peer(tmc, rank, peer); /* receives look for its messages in its ring */
    }
    tmc->sender_name = peer->name;
    tmc->sender_rank = rank;
    return true;
}
