/* SPDX-License-Identifier: BSD-3-Clause */
#include "pml_tm_choice.h"

#include "fabric/fab_clock.h"
#include "shm/shm_inl.h"

#include "pml_tm_request.h"
#include "pml_tm_sizes.h"

/* Messages that could also come in the other way. */
static bool is_chosen(const fab_peer_t *peer, size_t len)
{
    return mca_pml_tm.params.stream_limit < 0 && 0 != (peer->caps & FAB_CAP_RING) &&
           len > PML_TM_READ_MIN && len > mca_pml_tm.eager_limit && len <= mca_pml_tm.stream_limit;
}

/*
 * Does this process wait for a message that could come in either way, too?  MPI_Sendrecv and the
 * collectives post their receive just before they send.
 */
static bool is_exchange(const mca_pml_tm_comm_t *tmc)
{
    const fab_match_recv_t *last = fab_match_last_recv(&tmc->match);

    return NULL != last &&
           mca_pml_tm_recv_of((fab_offload_recv_t *) last)->capacity > PML_TM_READ_MIN;
}

bool mca_pml_tm_choice_announces(const fab_peer_t *peer, size_t len)
{
    return is_chosen(peer, len) && fab_is_asked_to_announce(peer);
}

void mca_pml_tm_choice_sends(const fab_peer_t *peer, const mca_pml_tm_comm_t *tmc, size_t len)
{
    if (is_chosen(peer, len)) {
        fab_sends_by_ring(peer, is_exchange(tmc));
    }
}

uint64_t mca_pml_tm_choice_begin(const fab_peer_t *peer, unsigned way, size_t len)
{
    return is_chosen(peer, len) && fab_is_timed(peer, way) ? fab_now_ns() : 0;
}

void mca_pml_tm_choice_end(const fab_peer_t *peer, unsigned way, size_t len, size_t bytes,
                           uint64_t since)
{
    if (is_chosen(peer, len) && 0 != bytes) {
        fab_came_by(peer, way, bytes, 0 != since ? fab_now_ns() - since : 0);
    }
}

void mca_pml_tm_choice_failed(const fab_peer_t *peer, size_t len, uint64_t since)
{
    if (is_chosen(peer, len)) {
        fab_came_by(peer, FAB_BY_READING, len, 0 != since ? UINT64_MAX : 0);
    }
}
