/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A matching device (fab_tm.h) over libfabric's tagged messages: offers of ofi_offers.h and
 * ofi_places.h, and their messages (ofi_wire.h).  Only with pml_tm_ofi_tagged.
 */
#ifndef FAB_OFI_TM_H
#define FAB_OFI_TM_H

#include <rdma/fi_eq.h>

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

/* False: no memory. */
bool fab_ofi_tm_open(fab_ofi_domain_t *dom);
/* After the endpoint has been closed. */
void fab_ofi_tm_close(fab_ofi_domain_t *dom);
bool fab_ofi_tm_use(fab_domain_t *dom, const fab_tm_user_t *user, void *ctx,
                    fab_tm_device_t *device);

/* ---- polling -------------------------------------------------------------- */

/* Around all that a poll does. */
void fab_ofi_tm_poll_begin(fab_ofi_domain_t *dom);
void fab_ofi_tm_poll_end(fab_ofi_domain_t *dom, int events);
/* Is there something to do that no message asks for? */
bool fab_ofi_tm_is_waiting(const fab_ofi_domain_t *dom);
/* A message of this id was delivered that named no offer. */
void fab_ofi_tm_handled(fab_ofi_domain_t *dom, uint8_t id);
/* One of the messages for offers came.  NULL, or what is wrong with it. */
const char *fab_ofi_tm_on_msg(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data,
                              size_t len);

/* Operations ended, with an error or 0. */
void fab_ofi_tm_sent(fab_ofi_domain_t *dom, fab_ofi_ctx_t *ctx, int error);
void fab_ofi_tm_received(fab_ofi_domain_t *dom, fab_ofi_ctx_t *ctx, size_t len, int error);

/* ---- peers ---------------------------------------------------------------- */

/* A session begins to be used; ends; the peer is done with.  False: no memory. */
bool fab_ofi_tm_ep_begin(fab_ofi_ep_t *ep);
void fab_ofi_tm_ep_end(fab_ofi_ep_t *ep);
void fab_ofi_tm_ep_free(fab_ofi_ep_t *ep);
/* Has libfabric memory of the user's for this peer? */
bool fab_ofi_tm_ep_is_busy(const fab_ofi_ep_t *ep);

/* ---- sending -------------------------------------------------------------- */

/* fab_ops_t.send_offered */
int fab_ofi_tm_send_offered(fab_peer_t *peer, fab_hdr_t hdr, fab_out_t *out);

#endif /* FAB_OFI_TM_H */
