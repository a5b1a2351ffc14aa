/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: from the context id of a message to its matching domain, and from a rank to its
 * peer.
 *
 * A communicator keeps the peers that it has met, by source rank, in blocks that exist once a peer
 * in them was met: a rank without messages costs an eighth of a byte.  Open MPI has a slot for
 * this in its own record of a process, but only if it was built with a PML that reserves it.
 *
 * Blocks and peers are entered under the lock, and read without it.  They are never changed, but
 * removed: a peer when it is closed, a block with its communicator.  MPI allows no communication
 * with either then.
 */
#ifndef PML_TM_COMM_H
#define PML_TM_COMM_H

#include "pml_tm/base/pml_tm.h"

enum {
    PML_TM_PEERS_SHIFT = 6,
    PML_TM_PEERS = 1 << PML_TM_PEERS_SHIFT, /* ranks of a block, which are eight cache lines */
};

/*
 * Release when entered: pairs with the address dependency in mca_pml_tm_comm_met(), for which a
 * relaxed load is enough.
 */
typedef struct mca_pml_tm_peers {
    _Atomic(fab_peer_t *) peer[PML_TM_PEERS]; /* NULL: not met yet */
} mca_pml_tm_peers_t;

struct mca_pml_tm_comm {
    fab_match_dom_t match;
    struct fab_offload_scope *scope; /* a device matches here, too; NULL: none (pml_tm_offload.h) */
    ompi_communicator_t *comm;
    int32_t num_sources; /* ranks a message can come from: the remote group's size */
    uint32_t my_rank;    /* this process's source rank in its messages */
    uint32_t context;
    unsigned fast;     /* PML_TM_FAST_* that may be used in it */
    uint64_t tag_base; /* base of the fabric tags of this process's messages; see pml_tm_wire.h */
    /*
     * Cache: the rank that was looked up last, and its process's name. (A record could belong to
     * another process by now.) -1: none yet.
     */
    int32_t sender_rank;
    uint64_t sender_name;
    mca_pml_tm_comm_t *next; /* in mca_pml_tm.left_comms */
    /*
     * receive requests that are counted (mca_pml_tm_core_t): while there are any, they retain the
     * communicator once
     */
    unsigned num_recvs;
    bool is_coll_revoked;                  /* messages of collectives are refused */
    bool is_revoked;                       /* all are */
    mca_pml_tm_excid_t *excid;             /* NULL: the context id is the same in all processes */
    _Atomic(mca_pml_tm_peers_t *) peers[]; /* one for each PML_TM_PEERS of the num_sources */
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

/* For a communicator; NULL: no memory.  Only what mca_pml_tm_comm_met() needs is set. */
mca_pml_tm_comm_t *mca_pml_tm_comm_alloc(ompi_communicator_t *comm);

/* Free it and its domain; its queue depths stay in mca_pml_tm_comm_depths().  Lock held. */
void mca_pml_tm_comm_release(mca_pml_tm_comm_t *tmc);

/* The most receives posted, and messages unexpected, at once in any one communicator. Lock held. */
void mca_pml_tm_comm_depths(uint32_t *posted_max, uint32_t *unexp_max);

/* The peer of a source rank, if the communicator has met it; or NULL. */
static inline fab_peer_t *mca_pml_tm_comm_met(const mca_pml_tm_comm_t *tmc, int32_t rank)
{
    const mca_pml_tm_peers_t *block = atomic_load_explicit(
        &tmc->peers[(uint32_t) rank >> PML_TM_PEERS_SHIFT], memory_order_relaxed);

    return atomic_load_explicit(&block->peer[(uint32_t) rank % PML_TM_PEERS], memory_order_relaxed);
}

/*
 * As mca_pml_tm_comm_met(), of a rank that the communicator has not met.  Lock not held; may block
 * on the modex.  On failure returns NULL, with the reason in *rc; the user has been told.
 */
fab_peer_t *mca_pml_tm_comm_meet(ompi_communicator_t *comm, int rank, int *rc);

/* The peer behind a rank of the communicator (of its remote group), opened at its first use. */
static inline fab_peer_t *mca_pml_tm_comm_connect(ompi_communicator_t *comm, int rank, int *rc)
{
    fab_peer_t *peer = mca_pml_tm_comm_met(mca_pml_tm_comm(comm), rank);

    return OPAL_LIKELY(NULL != peer) ? peer : mca_pml_tm_comm_meet(comm, rank, rc);
}

#ifdef PML_TM_HAS_TRANSPORTS
/* pml_get_transports, for --mca ompi_display_comm; the caller frees both parts.  NULL: unknown. */
mca_pml_transports_t *mca_pml_tm_get_transports(ompi_communicator_t *comm, int rank);
#endif

/* Remove peers that were closed from all communicators.  Lock held. */
void mca_pml_tm_comm_forget_closed(void);

/* The name, in the fabric, of the process with this source rank. */
static inline uint64_t mca_pml_tm_comm_name(const mca_pml_tm_comm_t *tmc, int32_t rank)
{
    const opal_process_name_t name = ompi_group_get_proc_name(tmc->comm->c_remote_group, rank);

    return fab_name(name.jobid, name.vpid);
}

/*
 * The peer of a source rank of the communicator, also if it was not opened; NULL: not known yet.
 * Lock held.
 */
static inline fab_peer_t *mca_pml_tm_comm_peer(const mca_pml_tm_comm_t *tmc, int32_t source)
{
    fab_peer_t *peer = mca_pml_tm_comm_met(tmc, source);

    return OPAL_LIKELY(NULL != peer)
               ? peer
               : fab_peer_find(mca_pml_tm.fab, mca_pml_tm_comm_name(tmc, source));
}

/* As mca_pml_tm_comm_is_sender(), when the rank is not the cached one. */
bool mca_pml_tm_comm_find_sender(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, int32_t rank);

/* Was the last message that was checked from this peer, with this source rank? Lock held. */
static inline bool mca_pml_tm_comm_is_last_sender(const mca_pml_tm_comm_t *tmc,
                                                  const fab_peer_t *peer, int32_t rank)
{
    return OPAL_LIKELY(peer->name == tmc->sender_name && rank == tmc->sender_rank);
}

/* Is the peer the process with this source rank? Lock held. */
static inline bool mca_pml_tm_comm_is_sender(mca_pml_tm_comm_t *tmc, fab_peer_t *peer, int32_t rank)
{
    return mca_pml_tm_comm_is_last_sender(tmc, peer, rank) ||
           mca_pml_tm_comm_find_sender(tmc, peer, rank);
}

#endif /* PML_TM_COMM_H */
