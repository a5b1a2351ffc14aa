/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, both sides; the protocol: pml_tm_stream.h.
 */
#include "pml_tm/arrive/pml_tm_stream.h"

#include "fabric/fab_copy.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_request.h"

/* A message that is arriving. One of req and msg is set, unless req has ended. */
struct mca_pml_tm_stream {
    mca_pml_tm_stream_t *next;
    fab_peer_t *peer; /* the sender */
    mca_pml_tm_recv_request_t *req;
    mca_pml_tm_msg_t *msg; /* set if the message is gathered in memory */
    char *to;              /* where the next byte goes in msg */
    size_t offset;         /* bytes that have come */
    size_t len;            /* bytes of the message */
    bool is_timed;         /* the sender could have announced it, and fab_shm_stream_begin() */
};

/* ---- sender ------------------------------------------------------------- */

bool mca_pml_tm_stream_takes(const mca_pml_tm_send_request_t *req, bool is_long, bool *is_announced)
{
    fab_peer_t *peer = req->core.peer;
    const size_t len = req->req_send.req_bytes_packed;

    if (OPAL_LIKELY(!mca_pml_tm_peer_streams(peer, len))) {
        return false;
    }
    const mca_pml_tm_peer_t *record = (const mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];
    const uint32_t fragment = mca_pml_tm_peer_fragment(peer);
    /* a convertor packs whole elements, so it may leave room */
    const uint32_t least = fragment - (NULL != req->data ? 0 : PML_TM_ELEMENT_MAX);
    const bool is_shared = PML_TM_SPIN != mca_pml_tm.idle;

    if (req->is_untagged || 0 != req->core.id ||
        MCA_PML_BASE_SEND_SYNCHRONOUS == req->req_send.req_send_mode ||
        (NULL != record && record->must_hold)) {
        return false;
    }
    if (is_shared ? is_long && len > fab_ring_size(peer) / 2
                  : NULL != req->data && (is_long || len > mca_pml_tm.whole_limit) &&
                        fab_is_pulled(peer, len)) {
        *is_announced = true;
        return false;
    }
    if (!req->core.is_private && !(is_long && is_shared)) {
        return false;
    }
    return (fragment > 2 * sizeof(fab_rndv_t) &&
            fab_has_room(peer, (uint32_t) ((sizeof(fab_rndv_t) + len + least - 1) / least),
                         fragment)) ||
           req->core.is_private;
}

int mca_pml_tm_stream_send(mca_pml_tm_send_request_t *req)
{
    const fab_rndv_t rndv = {.len = req->req_send.req_bytes_packed};
    const size_t fragment = mca_pml_tm_peer_fragment(req->core.peer);
    int rc;

    do {
        const bool is_first = 0 == req->offset;
        const fab_hdr_t hdr = is_first ? fab_hdr(FAB_AM_RNDV, req->tag, 0)
                                       : fab_hdr(PML_TM_AM_DATA, req->offset, 0);

        rc = mca_pml_tm_send_copy(req, hdr, &rndv, is_first ? sizeof(rndv) : 0, rndv.len, fragment);
    } while (OMPI_SUCCESS == rc && req->offset < rndv.len);
    mca_pml_tm.counters.streamed += OMPI_SUCCESS == rc;
    return rc;
}

/* ---- receiver ----------------------------------------------------------- */

/* The link to a sender's stream; NULL: it has none. */
static mca_pml_tm_stream_t **stream_find(const fab_peer_t *peer)
{
    mca_pml_tm_stream_t **link = &mca_pml_tm.streams;

    while (NULL != *link && peer != (*link)->peer) {
        link = &(*link)->next;
    }
    return NULL != *link ? link : NULL;
}

static mca_pml_tm_stream_t *stream_open(fab_peer_t *peer)
{
    mca_pml_tm_stream_t *stream = malloc(sizeof(*stream));

    if (NULL == stream) {
        mca_pml_tm_msg_no_memory(sizeof(*stream));
    }
    *stream = (mca_pml_tm_stream_t){.next = mca_pml_tm.streams, .peer = peer};
    mca_pml_tm.streams = stream;
    return stream;
}

static void stream_close(mca_pml_tm_stream_t **link)
{
    mca_pml_tm_stream_t *stream = *link;

    *link = stream->next;
    free(stream);
}

/* All of it has arrived. */
static void stream_end(mca_pml_tm_stream_t **link)
{
    const mca_pml_tm_stream_t *stream = *link;
    mca_pml_tm_recv_request_t *req = stream->req;
    mca_pml_tm_msg_t *msg = stream->msg;

    if (stream->is_timed) {
        fab_shm_stream_end(stream->peer, stream->len);
    }
    stream_close(link);
    if (NULL != msg) {
        mca_pml_tm_msg_arrive(msg);
    } else if (NULL != req) {
        mca_pml_tm_recv_done(req);
    }
}

/* Store the next len bytes. */
static void stream_put(mca_pml_tm_stream_t **link, const void *data, size_t len)
{
    mca_pml_tm_stream_t *stream = *link;
    mca_pml_tm_recv_request_t *req = stream->req;

    stream->offset += len;
    if (OPAL_LIKELY(NULL != req)) {
        size_t left = req->wanted - req->received;
        if (0 != left) {
            mca_pml_tm_recv_put(req, data, len < left ? len : left);
        }
    } else if (NULL != stream->msg) {
        fab_copy(stream->to, data, len);
        stream->to += len;
    }
    if (stream->offset == stream->len) {
        stream_end(link);
    }
}

void mca_pml_tm_stream_begin(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_recv_request_t *req;
    mca_pml_tm_stream_t *stream;
    fab_rndv_t rndv;

    if (len <= sizeof(rndv)) {
        mca_pml_tm_bad_message(peer, "rendezvous: length of the request");
        return;
    }
    memcpy(&rndv, data, sizeof(rndv));
    len -= sizeof(rndv);
    if (len > rndv.len || rndv.len > PML_TM_STREAM_MAX || 0 != hdr.app_ctx ||
        NULL != stream_find(peer)) {
        mca_pml_tm_bad_message(peer, "stream: wrong lengths, or it begins inside another");
        return;
    }
    if (!mca_pml_tm_msg_find(peer, hdr, &req)) {
        return;
    }
    stream = stream_open(peer);
    stream->len = rndv.len;
    stream->req = req;
    stream->is_timed = rndv.len > mca_pml_tm.whole_limit && (NULL == req || NULL != req->data) &&
                       fab_shm_stream_begin(peer, rndv.len);
    if (NULL != req) {
        mca_pml_tm_recv_matched(req, peer, hdr, rndv.len);
        req->core.phase = PML_TM_STREAMED;
    } else {
        hdr.id = FAB_AM_EAGER;
        stream->msg = mca_pml_tm_msg_keep(peer, hdr, NULL, 0, rndv.len, rndv.len);
        stream->to = stream->msg->data;
    }
    stream_put(&mca_pml_tm.streams, (const char *) data + sizeof(rndv), len);
}

void mca_pml_tm_stream_data(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_stream_t **link = stream_find(peer);

    if (NULL == link || (*link)->offset != hdr.tag || 0 == len ||
        len > (*link)->len - (*link)->offset) {
        mca_pml_tm_bad_message(peer, "data of an unknown stream, or out of order");
        return;
    }
    stream_put(link, data, len);
}

unsigned mca_pml_tm_stream_count(void)
{
    unsigned count = 0;

    for (const mca_pml_tm_stream_t *stream = mca_pml_tm.streams; NULL != stream;
         stream = stream->next) {
        count += NULL != stream->req;
    }
    return count;
}

void mca_pml_tm_stream_drop(const fab_peer_t *peer)
{
    mca_pml_tm_stream_t **link = stream_find(peer);

    if (NULL != link) {
        if (NULL != (*link)->msg) {
            mca_pml_tm_msg_release((*link)->msg);
        }
        stream_close(link);
    }
}

void mca_pml_tm_stream_fini(void)
{
    while (NULL != mca_pml_tm.streams) {
        free(mca_pml_tm.streams->msg);
        stream_close(&mca_pml_tm.streams);
    }
}
