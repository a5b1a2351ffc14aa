/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: descriptors, sending, receiving.
 *
 * A message that is no longer than the provider's longest is sent as one, at once if there is room.
 * A longer one is sent in parts, with no other message to that peer between them.  What finds no
 * room waits in the fabric's queue.
 *
 * A message that arrives is given to the layer above after the handler has returned: the layer
 * above may send, wait and call progress from its callback, which a handler of the fabric must not
 * do.  Without threads, a message in shared memory stays where it is, and the progress function
 * gives it at once.  Otherwise, and if the layer above is in such a callback already or other
 * upcalls are due first, it is copied and an upcall added.
 */
#include "btl_fabric_entry.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/fab_copy.h"

#include "btl_fabric_up.h"

/* A message that arrived. */
struct mca_btl_fabric_msg {
    mca_btl_fabric_up_t up;
    mca_btl_fabric_ep_t *ep;
    mca_btl_base_tag_t tag;
    uint32_t len; /* bytes */
    uint32_t got; /* bytes that have arrived */
    uint64_t data[];
};

/* A descriptor: its first segment is in its own memory, the second, if any, is the user's. */
typedef struct mca_btl_fabric_frag {
    mca_btl_base_descriptor_t super;
    mca_btl_base_segment_t segments[2];
    opal_free_list_t *list; /* the list that it is returned to */
    mca_btl_fabric_up_t up;
    fab_item_t item; /* while it waits for room */
    mca_btl_fabric_ep_t *ep;
    size_t sent; /* bytes */
    int status;
    mca_btl_base_tag_t tag;
} mca_btl_fabric_frag_t;

OBJ_CLASS_DECLARATION(mca_btl_fabric_frag_t);

OBJ_CLASS_INSTANCE(mca_btl_fabric_frag_t, mca_btl_base_descriptor_t, NULL, NULL);

/* ---- descriptors -------------------------------------------------------- */

/* Descriptors of each size that are allocated at start, and at once when they run out. */
enum { FRAGS_FIRST = 8, FRAGS_MORE = 32 };

static int init_list(opal_free_list_t *list, size_t size)
{
    OBJ_CONSTRUCT(list, opal_free_list_t);
    return opal_free_list_init(list, sizeof(mca_btl_fabric_frag_t), opal_cache_line_size,
                               OBJ_CLASS(mca_btl_fabric_frag_t), size, opal_cache_line_size,
                               FRAGS_FIRST, -1, FRAGS_MORE, NULL, 0, NULL, NULL, NULL);
}

int mca_btl_fabric_frags_init(void)
{
    int rc = init_list(&mca_btl_fabric.frags_eager, mca_btl_fabric.super.btl_eager_limit);
    int rc_max = init_list(&mca_btl_fabric.frags_max, mca_btl_fabric.super.btl_max_send_size);

    return OPAL_SUCCESS == rc ? rc_max : rc;
}

void mca_btl_fabric_frags_fini(void)
{
    OBJ_DESTRUCT(&mca_btl_fabric.frags_eager);
    OBJ_DESTRUCT(&mca_btl_fabric.frags_max);
    fab_spares_fini(&mca_btl_fabric.spares);
}

/* A descriptor with room for size bytes; NULL: none is that large, or all are in use. */
static mca_btl_fabric_frag_t *alloc_frag(size_t size, uint32_t flags)
{
    opal_free_list_t *list = &mca_btl_fabric.frags_eager;
    mca_btl_fabric_frag_t *frag;

    if (size > mca_btl_fabric.super.btl_eager_limit) {
        list = &mca_btl_fabric.frags_max;
    }
    if (size > mca_btl_fabric.super.btl_max_send_size) {
        return NULL;
    }
    frag = (mca_btl_fabric_frag_t *) opal_free_list_get(list);
    if (NULL != frag) {
        frag->list = list;
        frag->segments[0].seg_addr.pval = frag->super.super.ptr;
        frag->segments[0].seg_len = size;
        frag->super.des_segments = frag->segments;
        frag->super.des_segment_count = 1;
        frag->super.des_flags = flags;
        frag->super.order = MCA_BTL_NO_ORDER;
        frag->super.des_cbfunc = NULL;
    }
    return frag;
}

mca_btl_base_descriptor_t *mca_btl_fabric_alloc(struct mca_btl_base_module_t *btl,
                                                mca_btl_fabric_ep_t *ep, uint8_t order, size_t size,
                                                uint32_t flags)
{
    (void) btl, (void) ep, (void) order;
    return (mca_btl_base_descriptor_t *) alloc_frag(size, flags);
}

int mca_btl_fabric_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des)
{
    (void) btl;
    opal_free_list_return(((mca_btl_fabric_frag_t *) des)->list, &des->super);
    return OPAL_SUCCESS;
}

mca_btl_base_descriptor_t *mca_btl_fabric_prepare_src(struct mca_btl_base_module_t *btl,
                                                      mca_btl_fabric_ep_t *ep,
                                                      opal_convertor_t *convertor, uint8_t order,
                                                      size_t reserve, size_t *size, uint32_t flags)
{
    size_t max = mca_btl_fabric.super.btl_max_send_size;
    bool is_in_place = !mca_btl_fabric_needs_packing(convertor);
    struct iovec iov = {.iov_base = NULL};
    mca_btl_fabric_frag_t *frag;
    uint32_t count = 1;

    (void) ep, (void) order;
    *size = *size < max - reserve ? *size : max - reserve;
    frag = alloc_frag(is_in_place ? reserve : reserve + *size, flags);
    if (NULL == frag) {
        return NULL;
    }
    if (!is_in_place) {
        iov.iov_base = (char *) frag->segments[0].seg_addr.pval + reserve;
    }
    iov.iov_len = *size;
    if (*size > 0 && (opal_convertor_pack(convertor, &iov, &count, size) < 0 || 0 == *size)) {
        (void) mca_btl_fabric_free(btl, &frag->super);
        return NULL;
    }
    frag->segments[0].seg_len = is_in_place ? reserve : reserve + *size;
    if (is_in_place && *size > 0) {
        frag->segments[1].seg_addr.pval = iov.iov_base;
        frag->segments[1].seg_len = *size;
        frag->super.des_segment_count = 2;
    }
    return &frag->super;
}

/* ---- sending ------------------------------------------------------------ */

/* Copy len bytes of the message, from offset `at` on. */
static void copy_out(const mca_btl_fabric_frag_t *frag, size_t at, char *to, size_t len)
{
    for (size_t i = 0; len > 0 && i < frag->super.des_segment_count; ++i) {
        const mca_btl_base_segment_t *segment = &frag->segments[i];
        if (at < segment->seg_len) {
            size_t n = segment->seg_len - at < len ? segment->seg_len - at : len;
            fab_copy_to(frag->ep->peer, to, (const char *) segment->seg_addr.pval + at, n);
            to += n;
            len -= n;
            at = 0;
        } else {
            at -= segment->seg_len;
        }
    }
}

/* Send the rest of the message. OPAL_ERR_RESOURCE_BUSY: no room for all of it; OPAL_ERR_UNREACH. */
static int send_frag(mca_btl_fabric_frag_t *frag)
{
    fab_peer_t *peer = frag->ep->peer;
    size_t total = frag->segments[0].seg_len +
                   (frag->super.des_segment_count > 1 ? frag->segments[1].seg_len : 0);
    bool is_whole = total <= peer->eager_max;

    do {
        size_t left = total - frag->sent;
        size_t len = left < peer->eager_max ? left : peer->eager_max;
        void *room = fab_item_reserve(peer, len);
        if (NULL == room) {
            return FAB_PEER_UP == peer->state ? OPAL_ERR_RESOURCE_BUSY : OPAL_ERR_UNREACH;
        }
        copy_out(frag, frag->sent, room, len);
        fab_commit(
            peer,
            is_whole ? fab_hdr(BTL_FABRIC_AM_SEND, 0, frag->tag)
                     : fab_hdr(BTL_FABRIC_AM_PART, (uint64_t) frag->sent << 32 | total, frag->tag),
            len);
        frag->sent += len;
    } while (frag->sent < total);
    return OPAL_SUCCESS;
}

static void frag_done(mca_btl_fabric_up_t *up)
{
    mca_btl_fabric_frag_t *frag = FAB_CONTAINER_OF(up, mca_btl_fabric_frag_t, up);
    bool is_ours = 0 != (frag->super.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);

    if (NULL != frag->super.des_cbfunc &&
        !mca_btl_fabric_is_given_up(frag->ep->proc, frag->super.des_context)) {
        frag->super.des_cbfunc(&mca_btl_fabric.super, frag->ep, &frag->super, frag->status);
    }
    if (is_ours) {
        (void) mca_btl_fabric_free(&mca_btl_fabric.super, &frag->super);
    }
}

/* without drop: the free list owns the memory */
static const mca_btl_fabric_up_ops_t frag_ops = {.run = frag_done};

static int run_frag(fab_item_t *item, fab_peer_t *peer)
{
    mca_btl_fabric_frag_t *frag = FAB_CONTAINER_OF(item, mca_btl_fabric_frag_t, item);
    int rc = send_frag(frag);

    (void) peer;
    if (OPAL_ERR_RESOURCE_BUSY == rc) {
        return rc;
    }
    frag->status = rc;
    mca_btl_fabric_up(&frag->up, &frag_ops);
    return OPAL_SUCCESS;
}

/*
 * Send it now, or as soon as there is room.  A message to a failed peer is queued, too, so that its
 * error reaches the layer above after the failure of the peer does.  Returns what btl_send returns.
 * Lock retained.
 */
static int send_or_queue(mca_btl_fabric_frag_t *frag)
{
    fab_peer_t *peer = frag->ep->peer;

    if (NULL != peer->pending || OPAL_SUCCESS != send_frag(frag)) {
        mca_btl_fabric.counters.queued_sends++;
        frag->item = (fab_item_t){.fn = run_frag, .user = FAB_USER_BTL};
        fab_queue(peer, &frag->item);
        return 0;
    }
    mca_btl_fabric.counters.sends++;
    if (0 != (frag->super.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK)) {
        frag->status = OPAL_SUCCESS;
        mca_btl_fabric_up(&frag->up, &frag_ops);
        return 0;
    }
    return 1;
}

int mca_btl_fabric_send(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                        mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag)
{
    mca_btl_fabric_frag_t *frag = (mca_btl_fabric_frag_t *) des;
    int rc;

    frag->ep = ep;
    frag->tag = tag;
    frag->sent = 0;
    fab_lock(mca_btl_fabric.fab);
    rc = send_or_queue(frag);
    fab_unlock(mca_btl_fabric.fab);
    if (1 == rc && 0 != (des->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)) {
        (void) mca_btl_fabric_free(btl, des);
    }
    return rc;
}

/*
 * Does opal_convertor_pack() pack these len bytes in one call?  If they end before the data does,
 * it packs less where an element of the datatype lies across that end.
 */
static bool packs_whole(const opal_convertor_t *convertor, size_t len)
{
    return 0 == len || convertor->bConverted + len == convertor->local_size;
}

static inline void copy(fab_peer_t *peer, void *to, const void *from, size_t len)
{
    if (OPAL_LIKELY(len <= FAB_COPY_SHORT_MAX)) {
        fab_copy_short(to, from, len);
    } else {
        fab_copy_to(peer, to, from, len);
    }
}

/* Write the payload of a message that mca_btl_fabric_sendi() sends. */
static inline void pack(fab_peer_t *peer, opal_convertor_t *convertor, void *to, size_t len)
{
    struct iovec iov = {.iov_base = to, .iov_len = len};
    uint32_t count = 1;
    void *from;

    if (OPAL_LIKELY(!mca_btl_fabric_needs_packing(convertor))) {
        opal_convertor_get_current_pointer(convertor, &from);
        copy(peer, to, from, len);
    } else {
        (void) opal_convertor_pack(convertor, &iov, &count, &len);
    }
}

static inline void write_message(fab_peer_t *peer, char *room, const void *header,
                                 size_t header_size, opal_convertor_t *convertor,
                                 size_t payload_size)
{
    copy(peer, room, header, header_size);
    if (payload_size > 0) {
        pack(peer, convertor, room + header_size, payload_size);
    }
}

/* Send a message that shm_inl.h did not. Not inline, as it is seldom, or not in shared memory. */
static __attribute__((noinline)) bool send_now(fab_peer_t *peer, fab_hdr_t hdr, const void *header,
                                               size_t header_size, opal_convertor_t *convertor,
                                               size_t payload_size)
{
    size_t len = header_size + payload_size;
    char *room = len <= peer->eager_max ? fab_reserve(peer, len) : NULL;

    if (NULL == room) {
        return false;
    }
    write_message(peer, room, header, header_size, convertor, payload_size);
    fab_commit(peer, hdr, len);
    return true;
}

int mca_btl_fabric_sendi(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                         opal_convertor_t *convertor, void *header, size_t header_size,
                         size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                         mca_btl_base_descriptor_t **des)
{
    fab_hdr_t hdr = fab_hdr(BTL_FABRIC_AM_SEND, 0, tag);
    size_t len = header_size + payload_size;
    fab_peer_t *peer = ep->peer;
    bool is_sent = false;

    fab_lock(mca_btl_fabric.fab);
    if (len <= mca_btl_fabric.super.btl_eager_limit && packs_whole(convertor, payload_size)) {
        bool is_short = len <= FAB_SHORT_MAX;
        char *room = is_short ? fab_reserve_short(peer) : fab_reserve_any(peer, len);
        if (OPAL_LIKELY(NULL != room)) {
            write_message(peer, room, header, header_size, convertor, payload_size);
            if (OPAL_LIKELY(is_short)) {
                fab_commit_short(peer, hdr, len);
            } else {
                fab_commit_any(peer, hdr, len);
            }
            is_sent = true;
        } else {
            is_sent = send_now(peer, hdr, header, header_size, convertor, payload_size);
        }
        mca_btl_fabric.counters.sends += is_sent;
    }
    fab_unlock(mca_btl_fabric.fab);
    if (OPAL_LIKELY(is_sent)) {
        return OPAL_SUCCESS;
    }
    if (NULL != des) {
        *des = mca_btl_fabric_alloc(btl, ep, order, len, flags);
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

/* ---- receiving ---------------------------------------------------------- */

void mca_btl_fabric_msg_free(mca_btl_fabric_msg_t *msg)
{
    fab_spares_free(&mca_btl_fabric.spares, msg, msg->len);
}

/* A record for a message; NULL: no memory, and the peer has failed. */
static mca_btl_fabric_msg_t *new_msg(fab_peer_t *peer, fab_hdr_t hdr, uint32_t len)
{
    mca_btl_fabric_ep_t *ep = mca_btl_fabric_ep_of(peer);
    mca_btl_fabric_msg_t *msg = NULL;
    bool is_reused;

    if (NULL != ep) {
        msg = fab_spares_alloc(&mca_btl_fabric.spares, sizeof(*msg), len, &is_reused);
        mca_btl_fabric.counters.reused += is_reused;
    }
    if (NULL == msg) {
        mca_btl_fabric_no_memory(peer);
        return NULL;
    }
    msg->ep = ep;
    msg->tag = (mca_btl_base_tag_t) hdr.app_ctx;
    msg->len = len;
    msg->got = 0;
    return msg;
}

static void give_msg(mca_btl_fabric_up_t *up);

static void drop_msg(mca_btl_fabric_up_t *up)
{
    mca_btl_fabric_msg_free((mca_btl_fabric_msg_t *) up);
}

static const mca_btl_fabric_up_ops_t msg_ops = {.run = give_msg, .drop = drop_msg};

static void give_msg(mca_btl_fabric_up_t *up)
{
    mca_btl_fabric_msg_t *msg = (mca_btl_fabric_msg_t *) up;
    bool is_taken = mca_btl_fabric_hand_up(&mca_btl_fabric.super, msg->ep, msg->tag, msg->data,
                                           msg->len);

    fab_lock(mca_btl_fabric.fab);
    if (is_taken) {
        mca_btl_fabric_msg_free(msg);
    } else {
        mca_btl_fabric_up(up, &msg_ops); /* again: no layer has registered for its tag yet */
    }
    fab_unlock(mca_btl_fabric.fab);
}

/* Does it have the form of a message? */
static bool hdr_is_sound(fab_hdr_t hdr)
{
    return hdr.app_ctx < MCA_BTL_TAG_MAX && 0 == hdr.tag;
}

/* Is no upcall due before a message that has come now? */
static bool is_next(void)
{
    return NULL == atomic_load_explicit(&mca_btl_fabric.up, memory_order_relaxed);
}

/* For the handler: if the message can be given next, leave it in the ring and stop the poll. */
static bool retain(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_btl_fabric_ep_t *ep = peer->user[FAB_USER_BTL];

    if (!mca_btl_fabric.wants_retained || 0 == (peer->caps & FAB_CAP_RING) || NULL == ep ||
        !is_next() || NULL == mca_btl_base_active_message_trigger[hdr.app_ctx].cbfunc) {
        return false;
    }
    mca_btl_fabric.wants_retained = false;
    mca_btl_fabric.retained = (mca_btl_fabric_retained_t){.msg = fab_retain(peer),
                                                          .ep = ep,
                                                          .data = data,
                                                          .len = len,
                                                          .tag = (mca_btl_base_tag_t) hdr.app_ctx};
    mca_btl_fabric.fab->must_return = true;
    return true;
}

/* Give this message to the layer above; false: it is not taken. Without threads. */
static inline bool give(mca_btl_fabric_ep_t *ep, mca_btl_base_tag_t tag, const void *data,
                        size_t len)
{
    bool is_taken;

    mca_btl_fabric.is_giving = true;
    /* its receiver does not write to it */
    is_taken = mca_btl_fabric_hand_up(&mca_btl_fabric.super, ep, tag, (void *) (uintptr_t) data,
                                      len);
    mca_btl_fabric.is_giving = false;
    mca_btl_fabric.counters.in_place += is_taken;
    return is_taken;
}

void mca_btl_fabric_give_retained(void)
{
    mca_btl_fabric_retained_t retained = mca_btl_fabric.retained;

    mca_btl_fabric.retained.msg = NULL;
    /* an endpoint without process may outlive its peer */
    mca_btl_fabric.latest = NULL != retained.ep->proc ? retained.ep : NULL;
    (void) give(retained.ep, retained.tag, retained.data, retained.len);
    fab_release(retained.msg);
}

int mca_btl_fabric_give_more(int max)
{
    mca_btl_fabric_ep_t *ep;
    fab_shm_msg_t msg;
    fab_retained_t *retained;
    int n = 0;

    while (n < max && NULL != (ep = mca_btl_fabric.latest) && is_next() &&
           NULL != (retained = fab_take(ep->peer, BTL_FABRIC_AM_SEND, &msg))) {
        if (OPAL_UNLIKELY(!hdr_is_sound(msg.hdr) ||
                          !give(ep, (mca_btl_base_tag_t) msg.hdr.app_ctx, msg.data, msg.len))) {
            mca_btl_fabric_on_send(NULL, ep->peer, msg.hdr, msg.data, msg.len);
        }
        fab_release(retained);
        n++;
    }
    return n;
}

void mca_btl_fabric_on_send(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    mca_btl_fabric_msg_t *msg;

    (void) ctx;
    if (!hdr_is_sound(hdr)) {
        mca_btl_fabric_bad_message(peer, "an invalid tag");
        return;
    }
    if (retain(peer, hdr, data, len)) {
        return;
    }
    msg = new_msg(peer, hdr, (uint32_t) len);
    if (NULL != msg) {
        memcpy(msg->data, data, len);
        mca_btl_fabric_up(&msg->up, &msg_ops);
    }
}

/* Is this the next part of msg; if msg is NULL, the first part of a message? */
static bool is_next_part(const mca_btl_fabric_msg_t *msg, fab_hdr_t hdr, size_t len)
{
    uint32_t at = (uint32_t) (hdr.tag >> 32);
    uint32_t total = (uint32_t) hdr.tag;

    if (hdr.app_ctx >= MCA_BTL_TAG_MAX || 0 == len || total > BTL_FABRIC_SEND_MAX) {
        return false;
    }
    if (NULL == msg) {
        return 0 == at && len < total;
    }
    return msg->tag == hdr.app_ctx && msg->len == total && msg->got == at && len <= total - at;
}

void mca_btl_fabric_on_part(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    mca_btl_fabric_ep_t *ep = mca_btl_fabric_ep_of(peer);
    mca_btl_fabric_msg_t *msg;

    (void) ctx;
    if (NULL == ep) {
        mca_btl_fabric_no_memory(peer);
        return;
    }
    if (!is_next_part(ep->part, hdr, len)) {
        mca_btl_fabric_bad_message(peer, "a part of a message out of order");
        return;
    }
    msg = NULL != ep->part ? ep->part : new_msg(peer, hdr, (uint32_t) hdr.tag);
    ep->part = msg;
    if (NULL == msg) {
        return;
    }
    memcpy((char *) msg->data + msg->got, data, len);
    msg->got += (uint32_t) len;
    if (msg->got == msg->len) {
        ep->part = NULL;
        mca_btl_fabric_up(&msg->up, &msg_ops);
    }
}
