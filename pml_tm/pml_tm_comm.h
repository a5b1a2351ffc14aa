/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: from the context id of a message to its matching domain.
 */
#ifndef PML_TM_COMM_H
#define PML_TM_COMM_H

#include "pml_tm.h"

#include "match/match.h"

struct mca_pml_tm_comm {
    fab_match_dom_t match;
    fab_offload_scope_t scope; /* of match */
    ompi_communicator_t *comm;
    int32_t num_sources; /* ranks a message can come from: the remote group's size */
    uint32_t my_rank;    /* this process's source rank in its messages */
    uint32_t context;
    unsigned fast;     /* PML_TM_FAST_* that may be used in it */
    uint64_t tag_base; /* base of the fabric tags of this process's messages; see pml_tm_wire.h */
    /* Ranks 0 to num_behind_device - 1 are known to send through the device that matches tags. */
    int32_t num_behind_device;
    uint32_t num_moved; /* fab_t.num_moved when that was found */
    /*
     * Cache: the rank that was looked up last, and its process's name. (A record could belong to
     * another process by now.) -1: none yet.
     */
    int32_t sender_rank;
    uint64_t sender_name;
    unsigned num_waiting; /* sends that wait for room */
    /*
     * receive requests that are counted (mca_pml_tm_core_t): while there are any, they retain the
     * communicator once
     */
    unsigned num_recvs;
    bool is_coll_revoked;      /* messages of collectives are refused */
    bool is_revoked;           /* all are */
    mca_pml_tm_excid_t *excid; /* NULL: the context id is the same in all processes */
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

/*
 * As mca_pml_tm_comm_peer(), but looks the process up by name. For processes without ompi_proc_t:
 * creating one may call into the runtime. Lock held.
 */
fab_peer_t *mca_pml_tm_comm_peer_by_name(ompi_group_t *group, int32_t source);

/* The peer of a source rank of the communicator; NULL: not known yet. Lock held. */
static inline fab_peer_t *mca_pml_tm_comm_peer(const mca_pml_tm_comm_t *tmc, int32_t source)
{
    ompi_group_t *group = tmc->comm->c_remote_group;
    const ompi_proc_t *proc = ompi_group_peer_lookup_existing(group, source);
    fab_peer_t *peer = OPAL_LIKELY(NULL != proc) ? proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML]
                                                 : NULL;

    return OPAL_LIKELY(NULL != peer) ? peer : mca_pml_tm_comm_peer_by_name(group, source);
}

/* As mca_pml_tm_comm_is_sender(), when the rank is not the cached one. */
bool mca_pml_tm_comm_find_sender(mca_pml_tm_comm_t *tmc, const fab_peer_t *peer, int32_t rank);

/* Was the last message that was checked from this peer, with this source rank? Lock held. */
static inline bool mca_pml_tm_comm_is_last_sender(const mca_pml_tm_comm_t *tmc,
                                                  const fab_peer_t *peer, int32_t rank)
{
    return OPAL_LIKELY(peer->name == tmc->sender_name && rank == tmc->sender_rank);
}

/* Is the peer the process with this source rank? Lock held. */
static inline bool mca_pml_tm_comm_is_sender(mca_pml_tm_comm_t *tmc, const fab_peer_t *peer,
                                             int32_t rank)
{
    return mca_pml_tm_comm_is_last_sender(tmc, peer, rank) ||
           mca_pml_tm_comm_find_sender(tmc, peer, rank);
}

#endif /* PML_TM_COMM_H */
