/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: what is handed to libfabric at once, and what waits for room, in order.
 */
#ifndef FAB_OFI_SEND_H
#define FAB_OFI_SEND_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

/*
 * A message of the fabric's, len <= eager_max bytes.  OPAL_ERR_RESOURCE_BUSY: no room now, or the
 * peer is about to fail.
 */
int fab_ofi_send_msg(fab_ofi_ep_t *ep, fab_hdr_t hdr, const void *data, size_t len);
/* The same with the payload in place; it goes now or later. */
void fab_ofi_send_buf(fab_ofi_ep_t *ep, fab_hdr_t hdr, fab_ofi_sbuf_t *buf, size_t len);
/*
 * May a message of len bytes be sent alone now?  Where several may leave together, a short one only
 * as the first after a poll, or in a batch.
 */
static inline bool fab_ofi_is_its_turn(fab_ofi_ep_t *ep, size_t len)
{
    const fab_ofi_domain_t *dom = ep->dom;
    const bool is_first = ep->alone_poll != dom->polls;

    if (!dom->is_packing || ep->is_batch || len > FAB_OFI_PART_MAX) {
        return true;
    }
    ep->alone_poll = dom->polls;
    return is_first;
}
/* What is packed goes now or later, ahead of what is sent next. */
void fab_ofi_send_pack(fab_ofi_ep_t *ep);
/* fab_ops_t.batch */
void fab_ofi_batch(fab_peer_t *peer, bool is_begin);

/*
 * One of the provider's own messages (FAB_OFI_ID_*), now or when there is room.  False: there is no
 * memory, and the peer is about to fail.
 */
bool fab_ofi_send_own(fab_ofi_ep_t *ep, uint8_t id, uint32_t app_ctx, const void *data, size_t len);
/* Ask whether the peer is there, unless it is being asked. */
void fab_ofi_send_probe(fab_ofi_ep_t *ep);

/* Hand over what waits. */
int fab_ofi_send_waiting(fab_ofi_domain_t *dom);
/* Forget what waits for room to this peer. */
void fab_ofi_send_drop(fab_ofi_ep_t *ep);
/* Return credits that are due. */
void fab_ofi_send_credits(fab_ofi_domain_t *dom);
void fab_ofi_schedule_credits(fab_ofi_ep_t *ep);
void fab_ofi_unschedule_credits(fab_ofi_ep_t *ep);

static inline bool fab_ofi_has_credit(const fab_ofi_ep_t *ep)
{
    return (uint16_t) (ep->sent - ep->taken) < ep->window;
}

static inline bool fab_ofi_can_send(const fab_ofi_ep_t *ep)
{
    return FAB_OFI_UP == ep->state && fab_ofi_has_credit(ep) && NULL == ep->to_send &&
           NULL == ep->failure;
}

#endif /* FAB_OFI_SEND_H */
