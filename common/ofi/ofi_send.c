/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: what is handed to libfabric at once, and what waits for room, in order.
 *
 * Short messages are injected: libfabric has copied them when the call returns, and reports nothing
 * of them but, perhaps, an error.  Others are sent from a buffer, which its completion gives back.
 */
#include "ofi/ofi.h"

#include <string.h>
#include <sys/uio.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_copy.h"

enum {
    FAB_OFI_EPS_PER_PASS = 64 /* peers whose waiting messages one call considers */
};

/* ---- messages ------------------------------------------------------------ */

/* Write the header, and zeros behind the payload. Returns the message's length. */
static inline size_t finish(const fab_ofi_ep_t *ep, fab_hdr_t hdr, unsigned char *msg, size_t len)
{
    const size_t all = sizeof(fab_ofi_hdr_t) + fab_ofi_padded(len);
    const fab_ofi_hdr_t head = {
        .id_index = fab_ofi_id_index(hdr.id, (uint32_t) (fab_ofi_padded(len) - len),
                                     ep->peer_index),
        .app_ctx = hdr.app_ctx,
        .tag = hdr.tag,
        .cookie = ep->peer_cookie,
        .credits = (uint16_t) ep->ses.consumed,
        .seq = ep->next_seq,
    };

    memcpy(msg, &head, sizeof(head));
    if (fab_ofi_padded(len) != len) {
        memset(msg + sizeof(head) + len, 0, fab_ofi_padded(len) - len);
    }
    return all;
}

/* A message of the fabric's goes, or is packed. */
static void count_sent(fab_ofi_ep_t *ep)
{
    ep->ses.sent++;
    ep->ses.is_used = true;
    fab_counters.ofi_msgs_sent++;
}

static void sent(fab_ofi_ep_t *ep)
{
    count_sent(ep);
    ep->next_seq++;
    fab_ses_told(&ep->ses);
}

/* ---- to libfabric -------------------------------------------------------- */

/* OPAL_ERR_RESOURCE_BUSY: there is no room now; OPAL_ERR_UNREACH: and there will be none. */
static __attribute__((noinline)) int not_sent(fab_ofi_domain_t *dom, ssize_t rc)
{
    if (-FI_EAGAIN == rc) {
        fab_counters.ofi_again++;
        return OPAL_ERR_RESOURCE_BUSY;
    }
    fab_counters.ofi_errors++;
    dom->send_error = (int) -rc;
    return OPAL_ERR_UNREACH;
}

static __attribute__((noinline)) void broke(fab_ofi_ep_t *ep)
{
    const fab_ofi_domain_t *dom = ep->dom;

    fab_ofi_ep_broke(ep, OPAL_ERR_UNREACH,
                     fab_sentence(dom->fab, "%s refused to send to it: %s.", dom->name,
                                  fi_strerror(dom->send_error)));
}

/*
 * Let libfabric send what it has taken: its sockets does not before the next poll, and this process
 * may wait elsewhere first, as MPI_Comm_accept() of Open MPI 5.0 does in PMIx.
 */
static inline void push(const fab_ofi_domain_t *dom)
{
    if (__builtin_expect(dom->is_lazy, 0)) {
        (void) fi_cq_read(dom->cq, NULL, 0);
    }
}

static inline int inject(fab_ofi_ep_t *ep, const void *msg, size_t len)
{
    ssize_t rc = fi_inject(ep->dom->rdm, msg, len, ep->to);

    if (__builtin_expect(0 != rc, 0)) {
        return not_sent(ep->dom, rc);
    }
    push(ep->dom);
    return OPAL_SUCCESS;
}

static int send_buf(fab_ofi_ep_t *ep, fab_ofi_sbuf_t *buf)
{
    struct iovec iov = {.iov_base = buf->data, .iov_len = buf->len};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = ep->to, .context = &buf->ctx};
    ssize_t rc = fi_sendmsg(ep->dom->rdm, &msg, FI_COMPLETION);

    if (__builtin_expect(0 != rc, 0)) {
        return not_sent(ep->dom, rc);
    }
    ep->dom->num_sends++;
    push(ep->dom);
    return OPAL_SUCCESS;
}

/* ---- what waits ---------------------------------------------------------- */

static void append(fab_ofi_ep_t *ep, fab_ofi_sbuf_t *buf)
{
    buf->next = NULL;
    if (NULL == ep->to_send) {
        ep->to_send = buf;
    } else {
        ep->last_send->next = buf;
    }
    ep->last_send = buf;
    fab_ofi_enqueue(&ep->dom->sending, &ep->sending, ep);
}

/*
 * Hand it over, unless others wait: then, or if there is no room, it waits.  So it does if
 * libfabric refuses it: the next poll says so, since the session may be calling.
 */
static void send_or_wait(fab_ofi_ep_t *ep, fab_ofi_sbuf_t *buf)
{
    fab_ofi_domain_t *dom = ep->dom;
    bool is_short = buf->len <= dom->inject_max && !buf->is_tracked;
    int rc = OPAL_ERR_RESOURCE_BUSY;

    buf->index = ep->index;
    buf->cookie = ep->cookie;
    if (NULL == ep->to_send) {
        rc = is_short ? inject(ep, buf->data, buf->len) : send_buf(ep, buf);
    }
    if (OPAL_SUCCESS != rc) {
        append(ep, buf);
    } else if (is_short) {
        fab_ofi_pool_put(&dom->send_pool, buf);
    }
}

/*
 * Hand over what waits for this peer, while there is room, and count it.  True: some still
 * waits.  If libfabric refuses, the endpoint may be released.
 */
static bool ep_send_waiting(fab_ofi_ep_t *ep, int *events)
{
    int rc = OPAL_SUCCESS;

    while (NULL != ep->to_send && OPAL_SUCCESS == (rc = send_buf(ep, ep->to_send))) {
        ep->to_send = ep->to_send->next;
        ++*events;
    }
    if (OPAL_ERR_UNREACH == rc) {
        fab_ofi_send_drop(ep);
        broke(ep);
        return false;
    }
    return NULL != ep->to_send;
}

int fab_ofi_send_waiting(fab_ofi_domain_t *dom)
{
    int events = 0, left = FAB_OFI_EPS_PER_PASS;
    fab_ofi_ep_t *first = NULL, *ep;

    while (left-- > 0 && NULL != (ep = fab_ofi_queue_first(&dom->sending)) && ep != first) {
        fab_ofi_dequeue(&dom->sending, &ep->sending);
        if (ep_send_waiting(ep, &events)) {
            first = NULL != first ? first : ep;
            fab_ofi_enqueue(&dom->sending, &ep->sending, ep);
        }
    }
    return events;
}

void fab_ofi_send_drop(fab_ofi_ep_t *ep)
{
    while (NULL != ep->to_send) {
        fab_ofi_sbuf_t *buf = ep->to_send;
        ep->to_send = buf->next;
        fab_ofi_pool_put(&ep->dom->send_pool, buf);
    }
    fab_ofi_dequeue(&ep->dom->sending, &ep->sending);
}

/* ---- several in one ------------------------------------------------------- */

static __attribute__((noinline)) void send_pack(fab_ofi_ep_t *ep)
{
    fab_ofi_sbuf_t *buf = ep->pack;

    ep->pack = NULL;
    buf->len = (uint32_t) finish(ep, fab_hdr(FAB_OFI_ID_PACK, 0, 0), buf->data, buf->len);
    ep->next_seq++;
    fab_ses_told(&ep->ses);
    send_or_wait(ep, buf);
}

void fab_ofi_send_pack(fab_ofi_ep_t *ep)
{
    if (__builtin_expect(NULL != ep->pack, 0)) {
        send_pack(ep);
    }
}

static size_t part_size(size_t len)
{
    return sizeof(fab_ofi_part_t) + fab_ofi_padded(len);
}

/* Is there a pack with room for size bytes more? */
static bool has_pack(fab_ofi_ep_t *ep, size_t size)
{
    fab_ofi_pool_t *pool = &ep->dom->send_pool;

    if (NULL != ep->pack && ep->pack->len + size > ep->peer->eager_max) {
        send_pack(ep);
    }
    if (NULL == ep->pack && NULL == ep->to_send) {
        ep->pack = fab_ofi_pool_has_room(pool) ? fab_ofi_pool_get(pool) : NULL;
        if (NULL != ep->pack) {
            ep->pack->len = 0;
        }
    }
    return NULL != ep->pack;
}

/* Add a short message to what leaves together. */
static int pack(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data, size_t len)
{
    const fab_ofi_part_t part = {
        .id = hdr.id, .len = (uint16_t) len, .app_ctx = hdr.app_ctx, .tag = hdr.tag};
    unsigned char *at;

    if (!has_pack(ep, part_size(len))) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    at = ep->pack->data + sizeof(fab_ofi_hdr_t) + ep->pack->len;
    memcpy(at, &part, sizeof(part));
    if (len > 0) {
        memcpy(at + sizeof(part), data, len);
    }
    memset(at + sizeof(part) + len, 0, fab_ofi_padded(len) - len);
    ep->pack->len += (uint32_t) part_size(len);
    count_sent(ep);
    return OPAL_SUCCESS;
}

void fab_ofi_batch(fab_peer_t *peer, bool is_begin)
{
    fab_ofi_ep_t *ep = peer->ep;

    ep->is_batch = is_begin && ep->dom->is_packing;
    fab_ofi_send_pack(ep);
}

/* ---- the fabric's messages ----------------------------------------------- */

/* It waits in the fabric's queue: until there is room, or the peer has failed. */
static int user_not_sent(fab_ofi_ep_t *ep, int rc)
{
    if (OPAL_ERR_UNREACH == rc) {
        broke(ep);
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

static __attribute__((noinline)) int send_long(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data,
                                               size_t len)
{
    fab_ofi_pool_t *pool = &ep->dom->send_pool;
    fab_ofi_sbuf_t *buf = fab_ofi_pool_has_room(pool) ? fab_ofi_pool_get(pool) : NULL;
    int rc;

    if (NULL == buf) {
        return OPAL_ERR_RESOURCE_BUSY;
    }
    if (len > 0) {
        memcpy(buf->data + sizeof(fab_ofi_hdr_t), data, len);
    }
    buf->len = (uint32_t) finish(ep, hdr, buf->data, len);
    buf->index = ep->index;
    buf->cookie = ep->cookie;
    rc = send_buf(ep, buf);
    if (OPAL_SUCCESS == rc) {
        sent(ep);
        return OPAL_SUCCESS;
    }
    fab_ofi_pool_put(pool, buf);
    return user_not_sent(ep, rc);
}

static __attribute__((noinline)) int send_short(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data,
                                                size_t len)
{
    unsigned char msg[FAB_OFI_STACK] __attribute__((aligned(FAB_OFI_ALIGN)));
    int rc;

    if (len <= FAB_COPY_SHORT_MAX) {
        fab_copy_short(msg + sizeof(fab_ofi_hdr_t), data, len);
    } else {
        memcpy(msg + sizeof(fab_ofi_hdr_t), data, len);
    }
    rc = inject(ep, msg, finish(ep, hdr, msg, len));
    if (__builtin_expect(OPAL_SUCCESS != rc, 0)) {
        return user_not_sent(ep, rc);
    }
    sent(ep);
    return OPAL_SUCCESS;
}

/* Two functions, so that neither has to save what only the other needs. */
static inline int send_alone(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data, size_t len)
{
    return sizeof(fab_ofi_hdr_t) + fab_ofi_padded(len) <= ep->dom->inject_max
               ? send_short(ep, hdr, data, len)
               : send_long(ep, hdr, data, len);
}

static __attribute__((noinline)) int send_in_batch(fab_ofi_ep_t *ep, fab_hdr_t hdr,
                                                   const void *data, size_t len)
{
    if (part_size(len) <= fab_ofi_min(FAB_OFI_PART_MAX, ep->peer->eager_max)) {
        return pack(ep, hdr, data, len);
    }
    fab_ofi_send_pack(ep);
    return NULL == ep->to_send ? send_alone(ep, hdr, data, len) : OPAL_ERR_RESOURCE_BUSY;
}

int fab_ofi_send_msg(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data, size_t len)
{
    return __builtin_expect(ep->is_batch, 0) ? send_in_batch(ep, hdr, data, len)
                                             : send_alone(ep, hdr, data, len);
}

void fab_ofi_send_buf(fab_ofi_ep_t *ep, fab_hdr_t hdr, fab_ofi_sbuf_t *buf, size_t len)
{
    buf->len = (uint32_t) finish(ep, hdr, buf->data, len);
    send_or_wait(ep, buf);
    sent(ep);
}

/* ---- the provider's own -------------------------------------------------- */

/* What becomes of it is reported, but of a message that only returns credits. */
static void send_own(fab_ofi_ep_t *ep, fab_hdr_t hdr, const fab_ofi_frame_t *frame, size_t len)
{
    fab_ofi_sbuf_t *buf = fab_ofi_pool_get(&ep->dom->send_pool);

    if (NULL == buf) {
        fab_ofi_ep_is_speechless(ep);
        return;
    }
    if (NULL != frame) {
        memcpy(buf->data + sizeof(fab_ofi_hdr_t), frame, sizeof(*frame));
        memset(buf->data + sizeof(fab_ofi_hdr_t) + sizeof(*frame), 0, len - sizeof(*frame));
    }
    buf->is_tracked = FAB_OFI_ID_CREDIT != hdr.id || FAB_OFI_ASK == hdr.app_ctx;
    buf->len = (uint32_t) finish(ep, hdr, buf->data, len);
    ep->own_under_way += buf->is_tracked;
    send_or_wait(ep, buf);
}

void fab_ofi_send_own(fab_ofi_ep_t *ep, uint8_t id, uint32_t app_ctx)
{
    fab_ofi_send_pack(ep);
    send_own(ep, fab_hdr(id, 0, app_ctx), NULL, 0);
    ep->next_seq++;
    fab_ses_told(&ep->ses);
}

void fab_ofi_send_frame(fab_ofi_ep_t *ep, uint8_t id, const fab_ofi_frame_t *frame, size_t len)
{
    const uint32_t index = ep->peer_index, cookie = ep->peer_cookie;

    ep->peer_index = FAB_OFI_NO_INDEX;
    ep->peer_cookie = 0;
    send_own(ep, fab_hdr(id, 0, FAB_OFI_ASK), frame, len);
    ep->peer_index = index;
    ep->peer_cookie = cookie;
}

void fab_ofi_send_probe(fab_ofi_ep_t *ep)
{
    if (ep->own_under_way > 0 || FAB_OFI_NO_INDEX == ep->index) {
        return;
    }
    if (FAB_SES_UP == ep->ses.state) {
        ep->is_asking = true; /* fab_ofi_hear() */
        fab_ofi_send_own(ep, FAB_OFI_ID_CREDIT, FAB_OFI_ASK);
    } else { /* behind BYE, or before the first word */
        fab_ofi_send_frame(ep, FAB_OFI_ID_CREDIT, NULL, 0);
    }
}

/* Most went with a message meanwhile. */
void fab_ofi_send_credits(fab_ofi_domain_t *dom)
{
    fab_ofi_ep_t *ep;

    while (NULL != (ep = fab_ofi_queue_first(&dom->due))) {
        fab_ofi_dequeue(&dom->due, &ep->due);
        if (FAB_SES_UP == ep->ses.state && !ep->ses.is_broken &&
            (ep->is_answer_due || ep->ses.consumed - ep->ses.told >= dom->ses.window / 4)) {
            fab_ofi_send_own(ep, FAB_OFI_ID_CREDIT, 0);
        }
        ep->is_answer_due = false;
    }
}
