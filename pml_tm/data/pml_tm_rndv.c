/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous, both sides, and the answers that name a send's id.
 *
 *   sender                                   receiver
 *   RNDV {addr, len, rkey}, app_ctx: id  ->  matched (pml_tm_msg.c)
 *     and, from the user's memory, as much
 *     data as an eager message may have:
 *     the rest can follow when CTS comes
 *                                            get: reads the sender's memory, contiguous on both sides
 *                                        <-  FIN, app_ctx: the send's id
 *                                            or, where it cannot be read or is not contiguous:
 *                                        <-  CTS, app_ctx: the send's id, tag: bytes wanted, {the receive's id}
 *   DATA ..., app_ctx: the receive's id  ->  one message per fragment, in order, tag: offset
 *                                            or, when the announcement was overwritten (FAB_TM_AGAIN):
 *                                        <-  CTS of 0 bytes
 *   DATA {addr, len, rkey}               ->  as after RNDV
 *                                            or, when reading failed half way:
 *                                        <-  NACK, tag: error
 *
 * Each message that names an id is checked: the id must be alive, of the right kind, belong to this
 * peer, and be in a phase that waits for the message.
 */
#include "shm/shm_inl.h"

#include "pml_tm/data/pml_tm_rndv.h"

#include "pml_tm/base/pml_tm_sizes.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_blocks.h"
#include "pml_tm/request/pml_tm_request.h"

/* ---- sender ------------------------------------------------------------- */

static int data_item(fab_item_t *item, fab_peer_t *peer);

/* Send the announcement to a receiver whose context id is not known. */
static int send_rts_untagged(mca_pml_tm_send_request_t *req, const fab_rndv_t *rndv)
{
    struct {
        mca_pml_tm_untagged_t prefix;
        fab_rndv_t rndv;
    } message = {
        .prefix = mca_pml_tm_excid_prefix(mca_pml_tm_comm(req->req_send.req_base.req_comm),
                                          FAB_AM_RNDV),
        .rndv = *rndv,
    };

    return fab_item_send(req->core.peer, fab_hdr(FAB_AM_NO_TAG, req->tag, req->core.id), &message,
                         sizeof(message));
}

void mca_pml_tm_send_answered(mca_pml_tm_send_request_t *req, int error)
{
    if (req->is_out) {
        req->is_over = true;
        req->result = error;
    } else {
        mca_pml_tm_send_finish(req, error);
    }
}

/* A part of the data has left. */
static void out_complete(fab_out_t *out, int status)
{
    mca_pml_tm_send_request_t *req = FAB_CONTAINER_OF(out, mca_pml_tm_send_request_t, out);

    req->is_out = false;
    if (OPAL_SUCCESS != status) {
        return; /* the peer is gone: the request stays open, see pml_tm_failure.h */
    }
    if (req->is_over) {
        mca_pml_tm_send_finish(req, req->result);
    } else if (PML_TM_SEND_DATA != req->core.phase) {
        return; /* it was the announcement: wait for the receiver's answer */
    } else if (req->offset == req->wanted) {
        mca_pml_tm_send_finish(req, MPI_SUCCESS);
    } else {
        fab_queue(req->core.peer, &req->item);
    }
}

/* Send head and then up to len bytes of the data, without copying. As fab_item_send_from(). */
static int send_part(mca_pml_tm_send_request_t *req, fab_hdr_t hdr, const void *head,
                     size_t head_len, size_t len)
{
    int rc;

    req->out.head = head;
    req->out.head_len = head_len;
    req->out.buf = req->data + req->offset;
    req->out.len = len;
    req->out.complete = out_complete;
    rc = fab_item_send_from(req->core.peer, hdr, &req->out);
    if (OPAL_SUCCESS == rc) {
        req->is_out = true;
        req->offset += req->out.len;
    }
    return rc;
}

/* Bytes of the data that go with the announcement: whole cache lines. */
static size_t first_part(const mca_pml_tm_send_request_t *req)
{
    size_t limit = mca_pml_tm_peer_eager_limit(req->core.peer);
    size_t len = req->req_send.req_bytes_packed;
    size_t part;

    if (NULL == req->data || req->is_exposed || !fab_peer_has_places(req->core.peer) ||
        limit <= sizeof(fab_rndv_t) || len < PML_TM_FIRST_PART_MIN) {
        return 0;
    }
    part = (limit - sizeof(fab_rndv_t)) & ~(size_t) 63;
    return part < len ? part : len;
}

static fab_rndv_t make_rndv(const mca_pml_tm_send_request_t *req)
{
    fab_rndv_t rndv = {.addr = 0, .len = req->req_send.req_bytes_packed};

    if (req->is_exposed) {
        rndv.addr = (uintptr_t) req->data;
        rndv.rkey = req->rkey;
    }
    return rndv;
}

int mca_pml_tm_send_rts(mca_pml_tm_send_request_t *req)
{
    fab_peer_t *peer = req->core.peer;
    fab_rndv_t rndv;
    size_t part;
    int rc;

    /* the receiver finds out whether it can be read */
    req->is_exposed = mca_pml_tm_is_exposed(req);
    if (NULL != req->data && !req->is_exposed) {
        req->exposed_by = peer->provider;
        req->is_exposed = OMPI_SUCCESS == fab_expose(peer, req->data,
                                                     req->req_send.req_bytes_packed,
                                                     FAB_ACCESS_READ, &req->rkey);
    }
    rndv = make_rndv(req);
    if (OPAL_UNLIKELY(req->is_untagged)) {
        return send_rts_untagged(req, &rndv);
    }
    part = first_part(req);
    if (part > 0) {
        rc = send_part(req, fab_hdr(FAB_AM_RNDV, req->tag, req->core.id), &rndv, sizeof(rndv),
                       part);
        mca_pml_tm.counters.rndv_with_data += OPAL_SUCCESS == rc;
        return rc;
    }
    return fab_item_send(peer, fab_hdr(FAB_AM_RNDV, req->tag, req->core.id), &rndv, sizeof(rndv));
}

/*
 * The request that a peer names; NULL, and the peer failed, if it does not wait for such a message
 * from it.
 */
static mca_pml_tm_core_t *find_core(fab_peer_t *peer, uint32_t id, mca_pml_tm_phase_t phase,
                                    const char *what)
{
    mca_pml_tm_core_t *core = (mca_pml_tm_core_t *) fab_idmap_find(&mca_pml_tm.ids, id);

    if (OPAL_LIKELY(NULL != core && peer == core->peer && PML_TM_ACTIVE == core->state &&
                    phase == core->phase)) {
        return core;
    }
    mca_pml_tm_bad_message(peer, what);
    return NULL;
}

void mca_pml_tm_rndv_fin(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_core_t *core = FAB_AM_FIN == hdr.id
                                  ? find_core(peer, hdr.app_ctx, PML_TM_WAIT_FIN,
                                              "FIN for an unknown send")
                                  : find_core(peer, hdr.app_ctx, PML_TM_WAIT_ACK,
                                              "ACK for an unknown synchronous send");

    (void) ctx;
    (void) data;
    (void) len;
    if (NULL != core) {
        mca_pml_tm_send_answered((mca_pml_tm_send_request_t *) core->base, MPI_SUCCESS);
    }
}

mca_pml_tm_send_request_t *mca_pml_tm_send_find_unanswered(fab_peer_t *peer, uint32_t id,
                                                           const char *what)
{
    mca_pml_tm_core_t *core = (mca_pml_tm_core_t *) fab_idmap_find(&mca_pml_tm.ids, id);
    mca_pml_tm_phase_t phase = NULL != core && PML_TM_WAIT_ACK == core->phase ? PML_TM_WAIT_ACK
                                                                              : PML_TM_WAIT_FIN;

    core = find_core(peer, id, phase, what);
    return NULL != core ? (mca_pml_tm_send_request_t *) core->base : NULL;
}

void mca_pml_tm_rndv_nack(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_send_request_t *req = mca_pml_tm_send_find_unanswered(peer, hdr.app_ctx,
                                                                     "NACK for an unknown send");

    (void) ctx;
    (void) data;
    (void) len;
    if (NULL != req) {
        mca_pml_tm_send_answered(req, PML_TM_ERR_REVOKED == hdr.tag ? PML_TM_ERR_REVOKED
                                                                    : MPI_ERR_OTHER);
    }
}

/* Write up to max bytes of the data, from req->offset on, to room.  Returns their number. */
static size_t take(mca_pml_tm_send_request_t *req, char *room, size_t max)
{
    mca_pml_base_request_t *base = &req->req_send.req_base;
    const opal_datatype_t *datatype = &base->req_datatype->super;
    struct iovec iov = {.iov_base = room, .iov_len = max};
    uint32_t iov_count = 1;
    mca_pml_tm_blocks_t blocks;

    if (OPAL_LIKELY(NULL != req->data)) {
        fab_copy_to(req->core.peer, room, req->data + req->offset, max);
        return max;
    }
    if (mca_pml_tm_blocks_of(base->req_addr, base->req_count, datatype, &blocks)) {
        return mca_pml_tm_blocks_pack(&blocks, &req->place, req->offset, room, max);
    }
    if (0 == req->offset) {
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, datatype,
                                                 base->req_count, base->req_addr, 0,
                                                 &base->req_convertor);
    }
    opal_convertor_pack(&base->req_convertor, &iov, &iov_count, &max);
    return max;
}

int mca_pml_tm_send_copy(mca_pml_tm_send_request_t *req, fab_hdr_t hdr, const void *front,
                         size_t front_len, size_t end, size_t max)
{
    fab_peer_t *peer = req->core.peer;
    const size_t left = end - req->offset, more = NULL != req->data ? 0 : PML_TM_ELEMENT_MAX;
    char *room;

    max = left + more < max - front_len ? left + more : max - front_len;
    room = fab_item_reserve(peer, front_len + max);
    if (NULL == room) {
        return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
    }
    if (0 != front_len) {
        memcpy(room, front, front_len);
    }
    if (0 != left) {
        max = take(req, room + front_len, max);
    }
    max = max < left ? max : left; /* a receive may end within an element */
    fab_commit(peer, hdr, front_len + max);
    req->offset += max;
    return OMPI_SUCCESS;
}

/* Send one fragment from the user's memory; the item is queued again when the fragment has left. */
static int data_from_item(fab_item_t *item, fab_peer_t *peer)
{
    mca_pml_tm_send_request_t *req = mca_pml_tm_send_of_item(item);
    size_t len = req->wanted - req->offset;
    int rc;

    (void) peer;
    rc = send_part(req, fab_hdr(PML_TM_AM_DATA, req->offset, req->core.remote_id), NULL, 0,
                   len < req->fragment ? len : req->fragment);
    return OPAL_ERR_RESOURCE_BUSY == rc ? rc : OMPI_SUCCESS;
}

/* Send one fragment; the item is run again until all is sent. */
static int data_item(fab_item_t *item, fab_peer_t *peer)
{
    mca_pml_tm_send_request_t *req = mca_pml_tm_send_of_item(item);
    int rc = mca_pml_tm_send_copy(req, fab_hdr(PML_TM_AM_DATA, req->offset, req->core.remote_id),
                                  NULL, 0, req->wanted, mca_pml_tm_peer_fragment(peer));

    if (OMPI_SUCCESS != rc) {
        /* if the peer failed, the request stays open: see pml_tm_failure.h */
        return OPAL_ERR_RESOURCE_BUSY == rc ? rc : OMPI_SUCCESS;
    }
    if (req->offset < req->wanted) {
        return OPAL_ERR_IN_PROCESS;
    }
    mca_pml_tm_send_finish(req, MPI_SUCCESS);
    return OMPI_SUCCESS;
}

void mca_pml_tm_rndv_cts(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_core_t *core = find_core(peer, hdr.app_ctx, PML_TM_WAIT_FIN,
                                        "CTS for an unknown rendezvous");
    mca_pml_tm_send_request_t *req;
    mca_pml_tm_cts_t cts;

    (void) ctx;
    if (NULL == core) {
        return;
    }
    req = (mca_pml_tm_send_request_t *) core->base;
    bool is_again = 0 == hdr.tag && 0 == req->offset;
    if (sizeof(cts) != len || (!is_again && hdr.tag <= req->offset) ||
        hdr.tag > req->req_send.req_bytes_packed) {
        mca_pml_tm_bad_message(peer, "CTS for data that it has, or for more than the message has");
        return;
    }
    memcpy(&cts, data, sizeof(cts));
    if (is_again) {
        fab_rndv_t rndv = make_rndv(req);
        (void) fab_post(peer, fab_hdr(PML_TM_AM_DATA, 0, cts.recv_id), &rndv, sizeof(rndv));
        return;
    }
    core->remote_id = cts.recv_id;
    core->phase = PML_TM_SEND_DATA;
    req->wanted = hdr.tag;
    req->fragment = cts.fragment < FAB_FRAGMENT_LOCAL_MAX ? cts.fragment : FAB_FRAGMENT_LOCAL_MAX;
    bool is_from_memory = 0 != req->fragment && NULL != req->data && fab_peer_has_places(peer);
    req->item = (fab_item_t){.fn = is_from_memory ? data_from_item : data_item,
                             .user = FAB_USER_PML};
    if (!req->is_out) {
        fab_queue(peer, &req->item);
    }
}

/* ---- receiver ----------------------------------------------------------- */

/* A failed peer needs no answer, so the error of fab_post() can be ignored. */
static void answer(const mca_pml_tm_recv_request_t *req, uint8_t id, uint64_t arg)
{
    (void) fab_post(req->core.peer, fab_hdr(id, arg, req->core.remote_id), NULL, 0);
}

/* The receive cannot be completed, which its sender is told. */
static void refuse(mca_pml_tm_recv_request_t *req, int error)
{
    answer(req, PML_TM_AM_NACK, (uint64_t) error);
    mca_pml_tm_recv_finish(req, error);
}

/* Ask the sender for what a receive in this phase waits for: so many bytes, in such fragments. */
static void send_cts(mca_pml_tm_recv_request_t *req, mca_pml_tm_phase_t phase, size_t bytes,
                     uint32_t fragment)
{
    mca_pml_tm_cts_t cts = {.fragment = fragment};

    req->core.id = fab_idmap_add(&mca_pml_tm.ids, &req->core);
    if (0 == req->core.id) {
        refuse(req, MPI_ERR_NO_MEM);
        return;
    }
    req->core.phase = phase;
    cts.recv_id = req->core.id;
    (void) fab_post(req->core.peer, fab_hdr(PML_TM_AM_CTS, bytes, req->core.remote_id), &cts,
                    sizeof(cts));
}

/* The missing data is to come as messages. */
static void pipeline(mca_pml_tm_recv_request_t *req)
{
    const bool is_placed = NULL != req->data && fab_peer_has_places(req->core.peer);

    mca_pml_tm.counters.rndv_pipeline_bytes += req->wanted;
    send_cts(req, PML_TM_WAIT_DATA, req->wanted, is_placed ? FAB_FRAGMENT_LOCAL_MAX : 0);
}

/* All data that the receive takes of an announced message has arrived. */
static void fetched(mca_pml_tm_recv_request_t *req)
{
    answer(req, FAB_AM_FIN, 0);
    mca_pml_tm_recv_finish(req, MPI_SUCCESS);
}

static void get_complete(fab_rma_t *rma, int status)
{
    mca_pml_tm_recv_request_t *req = FAB_CONTAINER_OF(rma, mca_pml_tm_recv_request_t, rma);

    --mca_pml_tm.num_gets;
    if (OMPI_SUCCESS == status) {
        fetched(req);
    } else if (OPAL_ERR_NOT_SUPPORTED == status) {
        ++mca_pml_tm.counters.pipeline_no_get;
        pipeline(req); /* restart: bytes already fetched are sent again */
    } else if (OPAL_ERR_UNREACH != status) {
        refuse(req, MPI_ERR_OTHER);
    } /* otherwise the peer is gone, and the request stays open: see pml_tm_failure.h */
}

/* Read the missing data from the sender's memory.  False: this is impossible, and counted. */
static bool get(mca_pml_tm_recv_request_t *req, const fab_rndv_t *rndv)
{
    const bool is_contiguous = 0 != rndv->addr && NULL != req->data;

    if (is_contiguous) {
        req->core.phase = PML_TM_FETCH;
        req->rma.peer = req->core.peer;
        req->rma.local = req->data + req->received;
        req->rma.remote = rndv->addr + req->received;
        req->rma.len = req->wanted - req->received;
        req->rma.rkey = rndv->rkey;
        req->rma.complete = get_complete;
        if (mca_pml_tm.fab->config.name == req->core.peer->name && fab_get_now(&req->rma)) {
            mca_pml_tm.counters.rndv_get_bytes += req->wanted;
            fetched(req); /* a message of this process to itself: no poll is needed */
            return true;
        }
        if (OMPI_SUCCESS == fab_get(&req->rma)) {
            ++mca_pml_tm.num_gets;
            mca_pml_tm.counters.rndv_get_bytes += req->wanted;
            return true;
        }
    }
    if (is_contiguous || 0 == (req->core.peer->caps & FAB_CAP_GET)) {
        ++mca_pml_tm.counters.pipeline_no_get;
    } else {
        ++mca_pml_tm.counters.pipeline_not_contiguous;
    }
    return false;
}

void mca_pml_tm_recv_rndv(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                          const fab_rndv_t *rndv, const void *part, size_t len)
{
    mca_pml_tm_recv_matched(req, peer, hdr, rndv->len);
    req->core.remote_id = hdr.app_ctx;
    if (len > 0 && req->wanted > 0) {
        mca_pml_tm_recv_put(req, part, len < req->wanted ? len : req->wanted);
    }
    if (req->received == req->wanted) {
        fetched(req);
    } else if (!get(req, rndv)) {
        pipeline(req);
    }
}

void mca_pml_tm_recv_again(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr)
{
    req->core.peer = peer;
    req->core.remote_id = hdr.app_ctx;
    send_cts(req, PML_TM_WAIT_AGAIN, 0, 0);
}

/* The message is announced again. */
static void again(fab_peer_t *peer, mca_pml_tm_recv_request_t *req, const void *data, size_t len)
{
    fab_rndv_t rndv;

    if (sizeof(rndv) != len) {
        mca_pml_tm_bad_message(peer, "second announcement with another length");
        return;
    }
    memcpy(&rndv, data, sizeof(rndv));
    fab_idmap_remove(&mca_pml_tm.ids, req->core.id);
    req->core.id = 0;
    mca_pml_tm_recv_rndv(req, peer, req->listed.match.hdr, &rndv, NULL, 0);
}

void *mca_pml_tm_rndv_place(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    mca_pml_tm_core_t *core = (mca_pml_tm_core_t *) fab_idmap_find(&mca_pml_tm.ids, hdr.app_ctx);
    mca_pml_tm_recv_request_t *req;

    (void) ctx;
    if (NULL == core || peer != core->peer || PML_TM_ACTIVE != core->state ||
        PML_TM_WAIT_DATA != core->phase) {
        return NULL; /* mca_pml_tm_rndv_data() reports the fault */
    }
    req = (mca_pml_tm_recv_request_t *) core->base;
    if (NULL == req->data || hdr.tag != req->received || len > req->wanted - req->received) {
        return NULL;
    }
    return req->data + req->received;
}

void mca_pml_tm_rndv_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_core_t *core = (mca_pml_tm_core_t *) fab_idmap_find(&mca_pml_tm.ids, hdr.app_ctx);
    bool is_again = NULL != core && PML_TM_WAIT_AGAIN == core->phase;
    mca_pml_tm_recv_request_t *req;

    (void) ctx;
    core = find_core(peer, hdr.app_ctx, is_again ? PML_TM_WAIT_AGAIN : PML_TM_WAIT_DATA,
                     "data for an unknown receive");
    if (NULL == core) {
        return;
    }
    req = (mca_pml_tm_recv_request_t *) core->base;
    if (is_again) {
        again(peer, req, data, len);
        return;
    }
    if (hdr.tag != req->received || 0 == len || len > req->wanted - req->received) {
        mca_pml_tm_bad_message(peer, "data out of order, or more than requested");
        return;
    }
    if (NULL != req->data && (const char *) data == req->data + req->received) {
        req->received += len; /* the data was read to its destination */
    } else {
        mca_pml_tm_recv_put(req, data, len);
    }
    if (req->received == req->wanted) {
        mca_pml_tm_recv_finish(req, MPI_SUCCESS);
    }
}
