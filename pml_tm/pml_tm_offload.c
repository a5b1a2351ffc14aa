/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives on a device that matches tags.  See pml_tm_offload.h; the rules are the engine's
 * (doc/offload.md).
 */
#include "pml_tm_offload.h"

#include "pml_tm_comm.h"

#define CLASS_BIT (UINT64_C(1) << 31) /* of the tag: pml_tm_wire.h */
#define TAG_FIELD UINT64_C(0xffffffff)

/* ---- listing ------------------------------------------------------------ */

/*
 * Do the messages of all other ranks of the communicator come through the device?  Ranks that are
 * known to use it are not checked again.
 */
static bool is_all_behind_device(mca_pml_tm_comm_t *tmc)
{
    bool is_intra = !OMPI_COMM_IS_INTER(tmc->comm);

    if (OPAL_UNLIKELY(tmc->num_moved != mca_pml_tm.fab->num_moved)) {
        tmc->num_moved = mca_pml_tm.fab->num_moved;
        tmc->num_behind_device = 0;
    }
    while (tmc->num_behind_device < tmc->num_sources) {
        int32_t source = tmc->num_behind_device;
        const fab_peer_t *peer = mca_pml_tm_comm_peer(tmc, source);
        bool is_self = is_intra && (uint32_t) source == tmc->my_rank;
        if (!is_self && (NULL == peer || 0 == (peer->caps & FAB_CAP_TM))) {
            return false;
        }
        ++tmc->num_behind_device;
    }
    return true;
}

static fab_offload_reason_t find_reason(mca_pml_tm_comm_t *tmc, int32_t source)
{
    const fab_peer_t *peer;

    if (OMPI_ANY_SOURCE == source) {
        return is_all_behind_device(tmc) ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_ANY_SOURCE;
    }
    peer = mca_pml_tm_comm_peer(tmc, source);
    if (NULL == peer) {
        return FAB_OFFLOAD_UNKNOWN;
    }
    return 0 != (peer->caps & FAB_CAP_TM) ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_OTHER_PATH;
}

/*
 * Tag and mask for the device.  A wildcard is zero in both; the class bit keeps a wildcard tag from
 * matching internal messages.
 */
static void set_tag(const mca_pml_tm_comm_t *tmc, fab_tm_recv_t *recv, int32_t source, int32_t tag)
{
    uint64_t sources = ((UINT64_C(1) << mca_pml_tm.source_bits) - 1) << PML_TM_TAG_BITS;
    bool is_any_source = OMPI_ANY_SOURCE == source;
    bool is_any_tag = OMPI_ANY_TAG == tag;

    recv->mask = ~UINT64_C(0);
    if (OPAL_LIKELY(!is_any_source && !is_any_tag)) {
        recv->tag = mca_pml_tm_tag(tmc->context, (uint32_t) source, tag, mca_pml_tm.source_bits);
        return;
    }
    recv->mask &= is_any_source ? ~sources : recv->mask;
    recv->mask &= is_any_tag ? ~(TAG_FIELD & ~CLASS_BIT) : recv->mask;
    recv->tag = mca_pml_tm_tag(tmc->context, is_any_source ? 0 : (uint32_t) source,
                               is_any_tag ? 0 : tag, mca_pml_tm.source_bits);
}

void mca_pml_tm_offload_enter(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm_recv_request_t **bucket;

    req->is_memory_shared = false;
    if (NULL == req->data || req->capacity < mca_pml_tm.device.own_len) {
        return;
    }
    /* buffers are often a power of two apart */
    bucket = &mca_pml_tm.memory[(uintptr_t) req->data * UINT64_C(0x9e3779b97f4a7c15) >>
                                (64 - PML_TM_MEMORY_BITS)];
    for (const mca_pml_tm_recv_request_t *other = *bucket; NULL != other;
         other = other->memory_next) {
        req->is_memory_shared |= other->data == req->data;
    }
    req->memory_next = *bucket;
    req->memory_prev = bucket;
    if (NULL != *bucket) {
        (*bucket)->memory_prev = &req->memory_next;
    }
    *bucket = req;
}

void mca_pml_tm_offload_leave(mca_pml_tm_recv_request_t *req)
{
    *req->memory_prev = req->memory_next;
    if (NULL != req->memory_next) {
        req->memory_next->memory_prev = req->memory_prev;
    }
    req->memory_prev = NULL;
}

void mca_pml_tm_offload_post(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    fab_offload_recv_t *recv = &req->offload;
    fab_offload_reason_t reason = find_reason(tmc, base->req_peer);

    if (FAB_OFFLOAD_LISTABLE == reason && req->capacity < mca_pml_tm.device.min_len) {
        reason = FAB_OFFLOAD_SHORT;
    }
    if (FAB_OFFLOAD_LISTABLE == reason) {
        recv->tm.data = req->is_memory_shared ? NULL : req->data;
        recv->tm.len = req->capacity;
        set_tag(tmc, &recv->tm, base->req_peer, base->req_tag);
        req->tm_match.is_first = false;
    }
    fab_offload_post(&tmc->scope, recv, base->req_peer, base->req_tag, reason);
}

void mca_pml_tm_offload_release_slow(mca_pml_tm_recv_request_t *req)
{
    mca_pml_tm.device.release(mca_pml_tm.device.device, req->offload.tm.place);
    req->offload.tm.place = NULL;
}

/* ---- what the device matched -------------------------------------------- */

fab_peer_t *mca_pml_tm_offload_sender_rank(const mca_pml_tm_recv_request_t *req, int32_t source)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(req->req_recv.req_base.req_comm);

    return 0 <= source && source < tmc->num_sources ? mca_pml_tm_comm_peer(tmc, source) : NULL;
}

fab_peer_t *mca_pml_tm_offload_sender(const mca_pml_tm_recv_request_t *req,
                                      const fab_tm_match_t *match)
{
    /* if the transfer broke off at once, no header was seen */
    return mca_pml_tm_offload_sender_rank(
        req, match->is_first ? mca_pml_tm_tag_source(match->hdr.tag, mca_pml_tm.source_bits)
                             : req->req_recv.req_base.req_peer);
}
