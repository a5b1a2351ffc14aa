/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, both sides; the protocol: pml_tm_stream.h.
 */
#include "pml_tm/arrive/pml_tm_stream.h"

#include "fabric/fab_copy.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_match.h"
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
    bool is_choice;        /* the sender could have announced it */
};

/* ---- sender ------------------------------------------------------------- */

/*
 * Bytes that a fragment may have beyond those that are left, or may leave empty at its end: a
 * convertor packs whole elements.
 */
static uint32_t slack(const mca_pml_tm_source_t *source)
{
    return NULL != source->data ? 0 : PML_TM_ELEMENT_MAX;
}

/* Is there room for all fragments of a message?  If so the ring keeps it free for them. */
static bool keep_room(fab_peer_t *peer, const mca_pml_tm_source_t *source, size_t len)
{
    const uint32_t fragment = mca_pml_tm_peer_fragment(peer), least = fragment - slack(source);
    const size_t bytes = sizeof(fab_rndv_t) + len;

    return fragment > 2 * sizeof(fab_rndv_t) &&
           fab_has_room(peer, (uint32_t) ((bytes + least - 1) / least), fragment);
}

/* Send the next fragment of a message of len bytes.  Returns how many are in it; 0: no room. */
static size_t send_fragment(fab_peer_t *peer, uint64_t tag, const mca_pml_tm_source_t *source,
                            size_t len, size_t offset)
{
    const fab_rndv_t rndv = {.len = len};
    const size_t front = 0 == offset ? sizeof(rndv) : 0;
    const size_t left = len - offset + slack(source);
    size_t max = mca_pml_tm_peer_fragment(peer) - front;
    char *room;

    max = left < max ? left : max;
    room = fab_item_reserve(peer, front + max);
    if (NULL == room) {
        return 0;
    }
    if (0 != front) {
        memcpy(room, &rndv, sizeof(rndv));
    }
    max = mca_pml_tm_source_take(source, peer, offset, room + front, max);
    fab_commit(peer, 0 != front ? fab_hdr(FAB_AM_RNDV, tag, 0) : fab_hdr(PML_TM_AM_DATA, offset, 0),
               front + max);
    return max;
}

bool mca_pml_tm_stream_send(fab_peer_t *peer, uint64_t tag, const char *data, size_t len,
                            const void *buf, size_t count, ompi_datatype_t *datatype)
{
    opal_convertor_t convertor;
    mca_pml_tm_place_t place;
    const mca_pml_tm_source_t source = {.data = data,
                                        .buf = buf,
                                        .count = count,
                                        .type = &datatype->super,
                                        .convertor = &convertor,
                                        .place = &place};

    if (!keep_room(peer, &source, len)) {
        return false;
    }
    if (OPAL_UNLIKELY(NULL == data)) {
        OBJ_CONSTRUCT(&convertor, opal_convertor_t);
        mca_pml_tm_source_open(&source);
    }
    for (size_t offset = 0; offset < len;) {
        offset += send_fragment(peer, tag, &source, len, offset);
    }
    if (OPAL_UNLIKELY(NULL == data)) {
        OBJ_DESTRUCT(&convertor);
    }
    ++mca_pml_tm.counters.streamed;
    return true;
}

bool mca_pml_tm_stream_fits(mca_pml_tm_send_request_t *req)
{
    const mca_pml_tm_source_t source = mca_pml_tm_source_of(req);

    return keep_room(req->core.peer, &source, req->req_send.req_bytes_packed);
}

int mca_pml_tm_stream_request(mca_pml_tm_send_request_t *req)
{
    const mca_pml_tm_source_t source = mca_pml_tm_source_of(req);
    const size_t len = req->req_send.req_bytes_packed;
    fab_peer_t *peer = req->core.peer;

    if (0 == req->offset) {
        mca_pml_tm_source_open(&source);
        (void) keep_room(peer, &source, len); /* if there is, all of it goes now */
    }
    while (req->offset < len) {
        const size_t sent = send_fragment(peer, req->tag, &source, len, req->offset);
        if (0 == sent) {
            return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
        }
        req->offset += sent;
    }
    ++mca_pml_tm.counters.streamed;
    return OPAL_SUCCESS;
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

/* Records are kept for reuse: there are never more than there were concurrent streams. */
static mca_pml_tm_stream_t *stream_open(fab_peer_t *peer)
{
    mca_pml_tm_stream_t *stream = mca_pml_tm.free_streams;

    if (OPAL_LIKELY(NULL != stream)) {
        mca_pml_tm.free_streams = stream->next;
    } else {
        stream = malloc(sizeof(*stream));
        if (NULL == stream) {
            mca_pml_tm_msg_no_memory(sizeof(*stream));
        }
    }
    *stream = (mca_pml_tm_stream_t){.next = mca_pml_tm.streams, .peer = peer};
    mca_pml_tm.streams = stream;
    return stream;
}

static void stream_close(mca_pml_tm_stream_t **link)
{
    mca_pml_tm_stream_t *stream = *link;

    *link = stream->next;
    stream->next = mca_pml_tm.free_streams;
    mca_pml_tm.free_streams = stream;
}

/* All of it has arrived. */
static void stream_end(mca_pml_tm_stream_t **link)
{
    const mca_pml_tm_stream_t *stream = *link;
    mca_pml_tm_recv_request_t *req = stream->req;
    mca_pml_tm_msg_t *msg = stream->msg;

    if (stream->is_choice) {
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
    stream->is_choice = rndv.len > mca_pml_tm.eager_limit && (NULL == req || NULL != req->data);
    if (stream->is_choice) {
        fab_shm_stream_begin(peer);
    }
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
    mca_pml_tm_stream_t *stream;

    while (NULL != mca_pml_tm.streams) {
        free(mca_pml_tm.streams->msg);
        stream_close(&mca_pml_tm.streams);
    }
    while (NULL != (stream = mca_pml_tm.free_streams)) {
        mca_pml_tm.free_streams = stream->next;
        free(stream);
    }
}
