/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends.  A short standard send that finds room goes out without a request; all others get one.
 *
 *   eager        at most the peer's eager limit, or tcp's (PML_TM_WHOLE): the data goes with the message; done when the fabric has accepted it
 *   eager sync   MPI_Ssend of such: carries an id, done when the receiver's ACK names it
 *   rendezvous   longer: pml_tm_rndv.c
 *   buffered     packed into the attached buffer; an internal request sends it from there; done at once for the user
 */
#include "pml_tm/calls/pml_tm_calls.h"

#include "fabric/fab_look.h"
#include "shm/shm_inl.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/arrive/pml_tm_stream.h"
#include "pml_tm/base/pml_tm_sizes.h"
#include "pml_tm/data/pml_tm_rndv.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_blocks.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_progress.h"

_Static_assert(FAB_SHORT_MAX < PML_TM_SHORT_LENGTHS, "short messages are counted by length");

/* What is not the commonest, out of line, so that it does not cost that saved registers. */
#define NOINLINE __attribute__((noinline))

/* Poll after this many sends, so that a sender that floods its receiver notices throttling. */
#define SENDS_PER_PROGRESS 64

static inline void count_into(mca_pml_tm_sent_t *sent, unsigned size_class, size_t len, int by)
{
    sent->messages[size_class] += (unsigned long long) by;
    sent->bytes += (unsigned long long) by * len;
}

/* A message to this peer, with len bytes of the user's, is about to go out. by -1: it did not. */
static inline void count_sent(const fab_peer_t *peer, mca_pml_tm_protocol_t protocol, size_t len,
                              int by)
{
    /* nothing counts as a byte */
    count_into(&mca_pml_tm.sent[protocol][peer->provider], mca_pml_tm_size_class(len | 1), len, by);
}

/* What a message has: len bytes, when they are packed. */
typedef struct content {
    const void *buf;
    size_t count;
    ompi_datatype_t *datatype;
    char *data; /* the first byte; NULL: there are gaps, or the memory is a device's */
    size_t len;
} content_t;

static inline content_t content_of(const void *buf, size_t count, ompi_datatype_t *datatype)
{
    content_t content = {.buf = buf, .count = count, .datatype = datatype};

    if (!mca_pml_tm_is_contiguous(buf, count, datatype, &content.data, &content.len)) {
        content.data = NULL;
    }
    return content;
}

/* Pack the whole of a message that is not contiguous into dst. */
static void pack_all(const content_t *content, void *dst)
{
    const opal_datatype_t *datatype = &content->datatype->super;
    size_t len = content->len;
    struct iovec iov = {.iov_base = dst, .iov_len = len};
    uint32_t iov_count = 1;
    opal_convertor_t convertor;
    mca_pml_tm_place_t place;
    mca_pml_tm_blocks_t blocks;

    if (mca_pml_tm_blocks_of(content->buf, content->count, datatype, &blocks)) {
        (void) mca_pml_tm_blocks_pack(&blocks, &place, 0, dst, len);
        return;
    }
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, datatype, content->count,
                                             content->buf, 0, &convertor);
    opal_convertor_pack(&convertor, &iov, &iov_count, &len);
    OBJ_DESTRUCT(&convertor);
}

/*
 * Send the message with its data, now. is_awaited: the caller waits until it has gone. Lock held;
 * nothing is queued for the peer.
 */
static inline __attribute__((always_inline)) int
put_eager(fab_peer_t *peer, fab_hdr_t hdr, const content_t *content, bool is_awaited)
{
    const size_t len = content->len;
    void *room;

    if (OPAL_LIKELY(NULL != content->data || 0 == len)) {
        return is_awaited ? fab_item_send_now(peer, hdr, content->data, len)
                          : fab_item_send(peer, hdr, content->data, len);
    }
    room = fab_item_reserve(peer, len);
    if (NULL == room) {
        return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
    }
    pack_all(content, room);
    fab_commit(peer, hdr, len);
    return OMPI_SUCCESS;
}

/*
 * Send the message of a request with its data; if its receiver's context id is not known, with the
 * extended id before them.
 */
static int request_put_eager(mca_pml_tm_send_request_t *req)
{
    const size_t len = req->req_send.req_bytes_packed;
    fab_hdr_t hdr = fab_hdr(FAB_AM_EAGER, req->tag, req->core.id);
    fab_peer_t *peer = req->core.peer;
    mca_pml_tm_untagged_t prefix;
    size_t prefix_len = 0;

    if (req->is_streamed) {
        return mca_pml_tm_stream_send(req);
    }
    if (OPAL_UNLIKELY(req->is_untagged)) {
        prefix = mca_pml_tm_excid_prefix(mca_pml_tm_comm(req->req_send.req_base.req_comm), hdr.id);
        prefix_len = sizeof(prefix);
        hdr.id = FAB_AM_NO_TAG;
    } else if (OPAL_LIKELY(NULL != req->data || 0 == len)) {
        return fab_item_send(peer, hdr, req->data, len);
    }
    return mca_pml_tm_send_copy(req, hdr, &prefix, prefix_len, len, peer->eager_max);
}

/* Choose protocol, tag and id of a request. False: no id is free. */
static bool send_choose(mca_pml_tm_send_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_send.req_base;
    size_t len = req->req_send.req_bytes_packed;
    bool is_long, is_announced;

    req->is_untagged = !mca_pml_tm_excid_tag(mca_pml_tm_comm(base->req_comm), base->req_peer,
                                             base->req_tag, &req->tag);
    is_long = len > mca_pml_tm_peer_eager_limit(req->core.peer);
    is_announced = is_long && !mca_pml_tm_peer_takes_whole(req->core.peer, len);
    req->is_streamed = mca_pml_tm_stream_takes(req, is_long, &is_announced);
    req->is_rndv = (is_announced && !req->is_streamed) ||
                   (req->is_untagged &&
                    len + sizeof(mca_pml_tm_untagged_t) > req->core.peer->eager_max);
    if (0 == req->core.id &&
        (req->is_rndv || MCA_PML_BASE_SEND_SYNCHRONOUS == req->req_send.req_send_mode)) {
        req->core.id = fab_idmap_add(&mca_pml_tm.ids, &req->core);
        return 0 != req->core.id;
    }
    return true;
}

/* Count a request by its protocol; it is about to go out. */
static void send_count(const mca_pml_tm_send_request_t *req, int by)
{
    const size_t len = req->req_send.req_bytes_packed;
    const mca_pml_tm_protocol_t protocol = req->is_rndv        ? PML_TM_SENT_RNDV
                                           : 0 != req->core.id ? PML_TM_SENT_EAGER_SYNC
                                                               : PML_TM_SENT_EAGER;

    count_sent(req->core.peer, protocol, len, by);
}

/*
 * Try to send the request's first message. OPAL_ERR_RESOURCE_BUSY: try again later; otherwise
 * nothing is left to do here.
 */
static int send_first(mca_pml_tm_send_request_t *req)
{
    bool is_complete = !req->is_rndv && 0 == req->core.id; /* when its first message is out */
    int rc;

    /* set before the message leaves: on the self provider the answer comes within the call */
    req->core.phase = req->is_rndv ? PML_TM_WAIT_FIN : PML_TM_WAIT_ACK;
    send_count(req, 1);
    if (req->is_rndv) {
        rc = mca_pml_tm_send_rts(req);
    } else {
        rc = request_put_eager(req);
    }
    if (OPAL_LIKELY(OMPI_SUCCESS == rc)) {
        if (is_complete) {
            mca_pml_tm_send_finish(req, MPI_SUCCESS);
        }
        return OMPI_SUCCESS;
    }
    if (OPAL_ERR_RESOURCE_BUSY == rc) {
        req->core.phase = PML_TM_WAIT_ROOM;
        send_count(req, -1);
        return rc;
    }
    return OMPI_SUCCESS; /* the peer failed: the request stays open, see pml_tm_failure.h */
}

/*
 * The protocol is chosen again, unless a part of the message is out: while the request waited its
 * receiver may have asked for announcements.
 */
int mca_pml_tm_send_item(fab_item_t *item, fab_peer_t *peer)
{
    mca_pml_tm_send_request_t *req = mca_pml_tm_send_of_item(item);

    (void) peer;
    if (!mca_pml_tm_is_exposed(req) && 0 == req->offset && !send_choose(req)) {
        mca_pml_tm_send_finish(req, MPI_ERR_NO_MEM);
        return OMPI_SUCCESS;
    }
    return send_first(req);
}

void mca_pml_tm_send_start(mca_pml_tm_send_request_t *req)
{
    fab_peer_t *peer = req->core.peer;
    bool is_chosen;

    req->req_send.req_base.req_ompi.req_status._cancelled = 0;
    req->offset = 0;
    req->core.id = 0;
    req->is_exposed = false;
    req->is_out = req->is_over = false;
    req->cancel = PML_TM_CANCEL_NONE;
    is_chosen = send_choose(req);
    mca_pml_tm_request_activate(&req->core);
    if (!is_chosen) {
        mca_pml_tm_send_finish(req, MPI_ERR_NO_MEM);
        return;
    }
    if (OPAL_UNLIKELY(NULL != peer->user[FAB_USER_PML]) && mca_pml_tm_flow_hold(req)) {
        return;
    }
    if (NULL != peer->pending || OMPI_SUCCESS != send_first(req)) {
        ++mca_pml_tm.counters.queued_sends;
        if (NULL == peer->pending) {
            fab_look_event(mca_pml_tm.fab, (fab_event_t){.kind = FAB_EVENT_QUEUED,
                                                         .peer = peer->name,
                                                         .tag = req->req_send.req_base.req_tag,
                                                         .bytes = req->req_send.req_bytes_packed});
        }
        req->core.phase = PML_TM_WAIT_ROOM;
        req->item = (fab_item_t){.fn = mca_pml_tm_send_item, .user = FAB_USER_PML};
        fab_queue(peer, &req->item);
    }
}

/* A request, initialised, inactive; NULL: no memory. */
static mca_pml_tm_send_request_t *send_alloc(const content_t *content, int dst, int tag,
                                             mca_pml_base_send_mode_t mode,
                                             ompi_communicator_t *comm, fab_peer_t *peer,
                                             bool is_persistent)
{
    mca_pml_tm_send_request_t *req = (mca_pml_tm_send_request_t *) opal_free_list_get(
        &mca_pml_base_send_requests);
    mca_pml_base_request_t *base;

    if (OPAL_UNLIKELY(NULL == req)) {
        return NULL;
    }
    base = &req->req_send.req_base;
    OBJ_RETAIN(comm);
    if (0 != content->count) {
        OMPI_DATATYPE_RETAIN(content->datatype);
    }
    OMPI_REQUEST_INIT(&base->req_ompi, is_persistent);
    base->req_ompi.req_mpi_object.comm = comm;
    base->req_addr = (void *) content->buf;
    base->req_count = content->count;
    base->req_datatype = content->datatype;
    base->req_peer = dst;
    base->req_tag = tag;
    base->req_comm = comm;
    base->req_pml_complete = false;
    base->req_free_called = false;
    req->data = content->data;
    req->req_send.req_addr = content->buf;
    req->req_send.req_send_mode = mode;
    req->req_send.req_bytes_packed = content->len;
    /*
     * MPI leaves a send's source and tag undefined, but callbacks of osc/pt2pt read them, as ob1
     * sets them
     */
    base->req_ompi.req_status = (ompi_status_public_t){.MPI_SOURCE = comm->c_my_rank,
                                                       .MPI_TAG = tag,
                                                       .MPI_ERROR = MPI_SUCCESS,
                                                       ._ucount = content->len};
    req->core.peer = peer;
    req->core.id = 0;
    req->core.is_private = false;
    req->buffer = NULL;
    return req;
}

/*
 * Buffered send: copy the data to the attached buffer and start an internal request that sends it
 * from there. Lock not held.
 */
static int bsend(const content_t *content, int dst, int tag, ompi_communicator_t *comm,
                 fab_peer_t *peer)
{
    const size_t len = content->len;
    mca_pml_tm_send_request_t *req;
    content_t copy = {.count = len, .datatype = &ompi_mpi_byte.dt, .len = len};
    void *buffer = NULL;

    if (0 != len) {
        buffer = mca_pml_tm_bsend_alloc(comm, len);
        if (NULL == buffer) {
            return OMPI_ERR_BUFFER;
        }
        if (NULL != content->data) {
            memcpy(buffer, content->data, len);
        } else {
            pack_all(content, buffer);
        }
        copy.buf = copy.data = buffer;
    }
    req = send_alloc(&copy, dst, tag, MCA_PML_BASE_SEND_BUFFERED, comm, peer, false);
    if (NULL == req) {
        if (NULL != buffer) {
            mca_pml_tm_bsend_free(comm, buffer);
        }
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    req->buffer = buffer;
    req->req_send.req_base.req_free_called = true;
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_send_start(req);
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    return OMPI_SUCCESS;
}

void mca_pml_tm_bsend_start(mca_pml_tm_send_request_t *req)
{
    mca_pml_base_request_t *base = &req->req_send.req_base;
    const content_t content = content_of(base->req_addr, base->req_count, base->req_datatype);
    int rc;

    mca_pml_tm_request_activate(&req->core);
    req->core.id = 0;
    req->is_exposed = false;
    rc = bsend(&content, base->req_peer, base->req_tag, base->req_comm, req->core.peer);
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_send_finish(req, OMPI_SUCCESS == rc ? MPI_SUCCESS : MPI_ERR_BUFFER);
    fab_unlock(mca_pml_tm.fab);
}

/* Poll now and then, for processes that only send. Lock held. */
static inline void send_progress(void)
{
    if (OPAL_UNLIKELY(++mca_pml_tm.sends_since_progress >= SENDS_PER_PROGRESS)) {
        mca_pml_tm.sends_since_progress = 0;
        fab_progress(mca_pml_tm.fab);
    }
}

/* Is the message to go with all its data at once?  Not if one is held back; or it is announced. */
static inline bool may_send_inline(const fab_peer_t *peer, size_t len, bool is_awaited)
{
    const mca_pml_tm_peer_t *record = (const mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];

    return len <= mca_pml_tm.eager_limit && len <= peer->eager_max &&
           !(mca_pml_tm_peer_streams(peer, len) &&
             (is_awaited || (len > mca_pml_tm.whole_limit && fab_is_pulled(peer, len)))) &&
           (OPAL_LIKELY(NULL == record) || !mca_pml_tm_flow_is_slow(record));
}

/*
 * Send without a request: standard or ready mode, up to the eager limit, room in the peer's ring.
 * is_awaited: by MPI_Send, not MPI_Isend.  OPAL_ERR_RESOURCE_BUSY: the send needs a request.
 */
static inline int send_inline(const content_t *content, int dst, int tag,
                              mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                              fab_peer_t *peer, bool is_awaited)
{
    const size_t len = content->len;
    uint64_t fab_tag;
    int rc = OPAL_ERR_RESOURCE_BUSY;

    if (OPAL_UNLIKELY(MCA_PML_BASE_SEND_STANDARD != mode && MCA_PML_BASE_SEND_READY != mode)) {
        return rc;
    }
    fab_lock(mca_pml_tm.fab);
    if (OPAL_LIKELY(NULL == peer->pending && may_send_inline(peer, len, is_awaited) &&
                    mca_pml_tm_excid_tag(mca_pml_tm_comm(comm), dst, tag, &fab_tag))) {
        rc = put_eager(peer, fab_hdr(FAB_AM_EAGER, fab_tag, 0), content, is_awaited);
        if (OPAL_LIKELY(OMPI_SUCCESS == rc)) {
            count_sent(peer, PML_TM_SENT_EAGER, len, 1);
        }
        send_progress();
    }
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        rc = OPAL_ERR_RESOURCE_BUSY; /* a request is needed, also if the peer failed */
    }
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    return rc;
}

/*
 * The process with this rank, if a message may be put into its ring now.  NULL: the general path
 * finds out what is in the way.
 */
static inline __attribute__((always_inline)) fab_peer_t *ring_peer(const mca_pml_tm_comm_t *tmc,
                                                                   int dst)
{
    fab_peer_t *peer = mca_pml_tm_comm_met(tmc, dst);
    const mca_pml_tm_peer_t *record;

    if (OPAL_UNLIKELY(NULL == peer || mca_pml_tm.sends_since_progress >= SENDS_PER_PROGRESS - 1)) {
        return NULL;
    }
    record = (const mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];
    return OPAL_LIKELY(NULL == record) || !mca_pml_tm_flow_is_slow(record) ? peer : NULL;
}

/* More than fab_send_short() takes: if it goes with its data and is not streamed. */
static NOINLINE bool put_longer(const mca_pml_tm_comm_t *tmc, fab_peer_t *peer, fab_hdr_t hdr,
                                const char *data, size_t len)
{
    if (len > mca_pml_tm.eager_limit || len > PML_TM_STREAM_MIN ||
        0 == (tmc->fast & PML_TM_FAST_LONGER) || !fab_send_any(peer, hdr, data, len)) {
        return false;
    }
    count_into(&mca_pml_tm.ring_sent, mca_pml_tm_size_class(len), len, 1);
    return true;
}

static inline __attribute__((always_inline)) bool put_short(fab_peer_t *peer, fab_hdr_t hdr,
                                                            const char *data, size_t len)
{
    if (OPAL_UNLIKELY(!fab_send_short(peer, hdr, data, len))) {
        return false;
    }
    ++mca_pml_tm.short_sent[len];
    return true;
}

/*
 * The common case of send_inline(), straight into the peer's ring: data without gaps.  False:
 * nothing was done.
 */
static inline __attribute__((always_inline)) bool put_ring(const void *buf, size_t count,
                                                           const ompi_datatype_t *datatype, int dst,
                                                           int tag, mca_pml_base_send_mode_t mode,
                                                           const ompi_communicator_t *comm)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);
    const fab_hdr_t hdr = fab_hdr(FAB_AM_EAGER, tmc->tag_base | (uint32_t) tag, 0);
    const char *data = (const char *) buf + datatype->super.true_lb;
    const size_t len = count * datatype->super.size;
    bool is_put = false;
    fab_peer_t *peer;

    if (OPAL_UNLIKELY(
            MCA_PML_BASE_SEND_STANDARD != mode ||
            (!mca_pml_tm_is_plain(datatype) && !mca_pml_tm_has_no_gaps(count, datatype)))) {
        return false;
    }
    fab_lock(mca_pml_tm.fab);
    peer = OPAL_LIKELY(0 != (tmc->fast & PML_TM_FAST_SEND)) ? ring_peer(tmc, dst) : NULL;
    if (OPAL_LIKELY(NULL != peer)) {
        is_put = OPAL_LIKELY(len <= mca_pml_tm.short_max) ? put_short(peer, hdr, data, len)
                                                          : put_longer(tmc, peer, hdr, data, len);
        mca_pml_tm.sends_since_progress += is_put;
    }
    fab_unlock(mca_pml_tm.fab);
    return is_put;
}

int mca_pml_tm_isend_init(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                          int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                          ompi_request_t **request)
{
    const content_t content = content_of(buf, count, datatype);
    mca_pml_tm_send_request_t *req;
    int rc = OMPI_SUCCESS;
    fab_peer_t *peer = mca_pml_tm_comm_connect(comm, dst, &rc);

    if (NULL == peer) {
        return rc;
    }
    req = send_alloc(&content, dst, tag, mode, comm, peer, true);
    if (NULL == req) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *request = &req->req_send.req_base.req_ompi;
    return OMPI_SUCCESS;
}

/* Any send, begun; *req is NULL: it is done.  is_blocking: the caller waits for the request. */
static inline __attribute__((always_inline)) int
begin_any(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
          mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, bool is_blocking,
          mca_pml_tm_send_request_t **req)
{
    const content_t content = content_of(buf, count, datatype);
    int rc = OMPI_SUCCESS;
    fab_peer_t *peer = mca_pml_tm_comm_connect(comm, dst, &rc);

    *req = NULL;
    if (OPAL_UNLIKELY(NULL == peer)) {
        return rc;
    }
    if (MCA_PML_BASE_SEND_BUFFERED == mode) {
        return bsend(&content, dst, tag, comm, peer);
    }
    rc = send_inline(&content, dst, tag, mode, comm, peer, is_blocking);
    if (OPAL_LIKELY(OMPI_SUCCESS == rc)) {
        return rc;
    }
    *req = send_alloc(&content, dst, tag, mode, comm, peer, false);
    if (NULL == *req) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    (*req)->core.is_private = is_blocking && mca_pml_tm_may_be_private();
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_send_start(*req);
    send_progress();
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_complete_done();
    return OMPI_SUCCESS;
}

static NOINLINE int isend_any(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                              int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                              ompi_request_t **request)
{
    mca_pml_tm_send_request_t *req;
    int rc = begin_any(buf, count, datatype, dst, tag, mode, comm, false, &req);

    *request = NULL == req ? &ompi_request_empty : &req->req_send.req_base.req_ompi;
    return rc;
}

int mca_pml_tm_isend(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                     mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                     ompi_request_t **request)
{
    if (OPAL_UNLIKELY(!put_ring(buf, count, datatype, dst, tag, mode, comm))) {
        return isend_any(buf, count, datatype, dst, tag, mode, comm, request);
    }
    *request = &ompi_request_empty;
    return OMPI_SUCCESS;
}

static NOINLINE int send_any(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                             int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    mca_pml_tm_send_request_t *req;
    int rc = begin_any(buf, count, datatype, dst, tag, mode, comm, true, &req);

    if (NULL == req) {
        return rc;
    }
    mca_pml_tm_wait(&req->req_send.req_base.req_ompi);
    rc = req->req_send.req_base.req_ompi.req_status.MPI_ERROR;
    mca_pml_tm_request_release(&req->req_send.req_base);
    return rc;
}

/* A short message to a peer without a ring, by its provider. */
static NOINLINE int send_short(const void *buf, size_t count, ompi_datatype_t *datatype, int dst,
                               int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);
    const size_t len = count * datatype->super.size;
    fab_peer_t *peer;

    if (0 == (tmc->fast & PML_TM_FAST_SEND) || !mca_pml_tm_is_plain(datatype) ||
        MCA_PML_BASE_SEND_STANDARD != mode || NULL == (peer = ring_peer(tmc, dst)) ||
        NULL == peer->ops->send_now || NULL != peer->pending ||
        OMPI_SUCCESS !=
            peer->ops->send_now(peer, fab_hdr(FAB_AM_EAGER, tmc->tag_base | (uint32_t) tag, 0),
                                (const char *) buf + datatype->super.true_lb, len)) {
        return send_any(buf, count, datatype, dst, tag, mode, comm);
    }
    ++mca_pml_tm.sends_since_progress;
    count_sent(peer, PML_TM_SENT_EAGER, len, 1);
    return OMPI_SUCCESS;
}

int mca_pml_tm_send(const void *buf, size_t count, ompi_datatype_t *datatype, int dst, int tag,
                    mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    if (OPAL_LIKELY(put_ring(buf, count, datatype, dst, tag, mode, comm))) {
        return OMPI_SUCCESS;
    }
    return !opal_using_threads() && count * datatype->super.size <= mca_pml_tm.short_max
               ? send_short(buf, count, datatype, dst, tag, mode, comm)
               : send_any(buf, count, datatype, dst, tag, mode, comm);
}
