/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, both sides; the protocol: pml_tm_stream.h.
 */
#include "pml_tm_stream.h"

#include "fabric/fab_copy.h"
#include "fabric/fab_host.h"
#include "shm/shm_inl.h"

#include "pml_tm_blocks.h"
#include "pml_tm_deliver.h"
#include "pml_tm_match.h"
#include "pml_tm_msg.h"
#include "pml_tm_peer.h"
#include "pml_tm_request.h"
#include "pml_tm_rndv.h"

/* In front of the user's bytes in the first fragment. */
typedef struct first {
    fab_rndv_t rndv;
    mca_pml_tm_stream_head_t head;
} first_t;

/* A message that is arriving. One of req and msg is set, unless req has ended. */
struct mca_pml_tm_stream {
    mca_pml_tm_stream_t *next;
    const fab_peer_t *peer; /* the sender */
    mca_pml_tm_recv_request_t *req;
    mca_pml_tm_msg_t *msg; /* set if the message is gathered in memory */
    char *to;              /* where the next byte goes in msg */
    size_t offset;         /* bytes that have come */
    size_t now;            /* bytes of the message */
};

/* ---- sender ------------------------------------------------------------- */

/* Where the bytes come from: contiguous memory, blocks, or the convertor. */
typedef struct source {
    const char *data; /* NULL: not contiguous */
    bool is_blocks;
    mca_pml_tm_blocks_t blocks;
    mca_pml_tm_place_t place;
    opal_convertor_t convertor; /* if neither */
} source_t;

/* Prepare to pack a message that is not contiguous. */
static void source_open(source_t *source, const void *buf, size_t count, ompi_datatype_t *datatype)
{
    source->is_blocks = mca_pml_tm_blocks_of(buf, count, &datatype->super, &source->blocks);
    if (!source->is_blocks) {
        OBJ_CONSTRUCT(&source->convertor, opal_convertor_t);
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &datatype->super, count,
                                                 buf, 0, &source->convertor);
    }
}

static void source_close(source_t *source)
{
    if (!source->is_blocks) {
        OBJ_DESTRUCT(&source->convertor);
    }
}

static size_t source_take(source_t *source, fab_peer_t *peer, size_t offset, void *room, size_t max)
{
    struct iovec iov = {.iov_base = room, .iov_len = max};
    uint32_t iov_count = 1;

    if (OPAL_LIKELY(NULL != source->data)) {
        fab_copy_to(peer, room, source->data + offset, max);
    } else if (source->is_blocks) {
        max = mca_pml_tm_blocks_pack(&source->blocks, &source->place, offset, room, max);
    } else {
        opal_convertor_pack(&source->convertor, &iov, &iov_count, &max);
    }
    return max;
}

/*
 * The fragments of so many bytes, at most.  A convertor packs whole elements and may leave the end
 * of each fragment empty.
 */
static uint32_t num_fragments(const fab_peer_t *peer, bool is_data, size_t bytes)
{
    const uint32_t least = mca_pml_tm_peer_fragment(peer) - (is_data ? 0 : PML_TM_ELEMENT_MAX);

    return (uint32_t) ((bytes + least - 1) / least);
}

/* Is there room for all fragments? */
static bool has_room(fab_peer_t *peer, const source_t *source, size_t bytes)
{
    const uint32_t fragment = mca_pml_tm_peer_fragment(peer);

    return fragment > 2 * sizeof(first_t) &&
           fab_has_room(peer, num_fragments(peer, NULL != source->data, bytes), fragment);
}

void mca_pml_tm_stream_choose_limit(void)
{
    const int limit = mca_pml_tm.params.stream_limit;
    const uint32_t automatic = PML_TM_SPIN == mca_pml_tm.idle ? PML_TM_STREAM_LIMIT : 0;

    mca_pml_tm.stream_limit = limit >= 0 ? (uint32_t) limit : automatic;
}

/* Send all fragments; there is room for them. */
static void send_all(fab_peer_t *peer, fab_hdr_t hdr, const first_t *first, source_t *source)
{
    size_t fragment = mca_pml_tm_peer_fragment(peer);
    size_t more = NULL != source->data ? 0 : PML_TM_ELEMENT_MAX;
    size_t now = first->head.now;
    size_t offset = 0;
    size_t front = sizeof(*first);

    while (offset < now) {
        size_t max = now - offset + more < fragment - front ? now - offset + more
                                                            : fragment - front;
        char *room = fab_item_reserve(peer, front + max);
        size_t len;
        if (0 == offset) {
            memcpy(room, first, sizeof(*first));
        }
        len = source_take(source, peer, offset, room + front, max);
        fab_commit(peer, hdr, front + len);
        offset += len;
        hdr = fab_hdr(PML_TM_AM_DATA, offset, 0);
        front = 0;
    }
    ++mca_pml_tm.counters.streamed;
}

bool mca_pml_tm_stream_send(fab_peer_t *peer, uint64_t tag, const char *data, size_t len,
                            const void *buf, size_t count, ompi_datatype_t *datatype)
{
    first_t first = {.rndv = {.len = len}, .head = {.now = (uint32_t) len}};
    source_t source;

    source.data = data;
    source.is_blocks = false;
    if (!has_room(peer, &source, sizeof(first) + len)) {
        return false;
    }
    if (OPAL_UNLIKELY(NULL == data)) {
        source_open(&source, buf, count, datatype);
    }
    send_all(peer, fab_hdr(FAB_AM_RNDV, tag, 0), &first, &source);
    if (OPAL_UNLIKELY(NULL == data)) {
        source_close(&source);
    }
    return true;
}

/* Send the next fragment of a request. As fab_item_send(). */
static int send_fragment(mca_pml_tm_send_request_t *req)
{
    const first_t first = {.rndv = {.len = req->wanted}, .head = {.now = (uint32_t) req->wanted}};
    const size_t front = 0 == req->offset ? sizeof(first) : 0;
    const size_t left = req->wanted - req->offset + (NULL != req->data ? 0 : PML_TM_ELEMENT_MAX);
    fab_peer_t *peer = req->core.peer;
    size_t max = mca_pml_tm_peer_fragment(peer) - front;
    char *room;

    max = left < max ? left : max;
    room = fab_item_reserve(peer, front + max);
    if (NULL == room) {
        return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
    }
    if (0 != front) {
        memcpy(room, &first, sizeof(first));
    }
    max = mca_pml_tm_send_take(req, room + front, max);
    fab_commit(peer,
               0 != front ? fab_hdr(FAB_AM_RNDV, req->tag, 0)
                          : fab_hdr(PML_TM_AM_DATA, req->offset, 0),
               front + max);
    req->offset += max;
    return OPAL_SUCCESS;
}

int mca_pml_tm_stream_request(mca_pml_tm_send_request_t *req)
{
    int rc = OPAL_SUCCESS;

    if (0 == req->offset) {
        req->wanted = req->req_send.req_bytes_packed;
        mca_pml_tm_send_prepare(req);
    }
    while (OPAL_SUCCESS == rc && req->offset < req->wanted) {
        rc = send_fragment(req);
    }
    mca_pml_tm.counters.streamed += OPAL_SUCCESS == rc;
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

/* Records are kept for reuse: there are never more than there were concurrent streams. */
static mca_pml_tm_stream_t *stream_open(const fab_peer_t *peer)
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
    if (stream->offset == stream->now) {
        stream_end(link);
    }
}

/* The message is for a receive that is posted. */
static void stream_match(mca_pml_tm_stream_t *stream, mca_pml_tm_recv_request_t *req,
                         fab_peer_t *peer, fab_hdr_t hdr)
{
    mca_pml_tm_recv_matched(req, peer, hdr, stream->now);
    stream->req = req;
    req->core.phase = PML_TM_STREAMED;
}

/* No receive is posted for the message. */
static void stream_gather(mca_pml_tm_stream_t *stream, fab_peer_t *peer, fab_hdr_t hdr)
{
    hdr.id = FAB_AM_EAGER;
    stream->msg = mca_pml_tm_msg_keep(peer, hdr, NULL, 0, stream->now, stream->now);
    stream->to = stream->msg->data;
}

static bool is_sound(fab_hdr_t hdr, const first_t *first, size_t bytes)
{
    return 0 != bytes && bytes <= first->head.now && first->head.now == first->rndv.len &&
           first->head.now <= PML_TM_STREAM_NOW_MAX && 0 == hdr.app_ctx;
}

void mca_pml_tm_stream_begin(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_recv_request_t *req;
    mca_pml_tm_stream_t *stream;
    first_t first;

    if (len <= sizeof(first)) {
        mca_pml_tm_bad_message(peer, "rendezvous: length of the request");
        return;
    }
    memcpy(&first, data, sizeof(first));
    len -= sizeof(first);
    if (!is_sound(hdr, &first, len) || NULL != stream_find(peer)) {
        mca_pml_tm_bad_message(peer, "stream: wrong lengths, or it begins inside another");
        return;
    }
    if (!mca_pml_tm_msg_find(peer, hdr, &req)) {
        return;
    }
    stream = stream_open(peer);
    stream->now = first.head.now;
    if (NULL != req) {
        stream_match(stream, req, peer, hdr);
    } else {
        stream_gather(stream, peer, hdr);
    }
    stream_put(&mca_pml_tm.streams, (const char *) data + sizeof(first), len);
}

void mca_pml_tm_stream_data(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_stream_t **link = stream_find(peer);

    if (NULL == link || (*link)->offset != hdr.tag || 0 == len ||
        len > (*link)->now - (*link)->offset) {
        mca_pml_tm_bad_message(peer, "data of an unknown stream, or out of order");
        return;
    }
    stream_put(link, data, len);
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
