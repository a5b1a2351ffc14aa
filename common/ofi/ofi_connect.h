/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: the table of them, and their set-up (ofi_wire.h).
 */
#ifndef FAB_OFI_CONNECT_H
#define FAB_OFI_CONNECT_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

/* Ask for a session, unless there is one, or it is asked for. */
void fab_ofi_connect(fab_ofi_ep_t *ep);
/* The peer has sent something in the session, or has welcomed this process. */
void fab_ofi_connect_done(fab_ofi_ep_t *ep);
/* The session ends: messages of it that come later are strays. */
void fab_ofi_session_end(fab_ofi_ep_t *ep);
/* HELLO came, len bytes. */
void fab_ofi_on_hello(fab_ofi_domain_t *dom, const void *data, size_t len);
/* CHALLENGE came, len bytes. */
void fab_ofi_on_challenge(fab_ofi_domain_t *dom, const void *data, size_t len);
/* WELCOME or REFUSE came. */
void fab_ofi_on_answer(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len);
/* Give up those who did not answer in time. */
void fab_ofi_connect_late(fab_ofi_domain_t *dom, uint64_t now);

/* Whose session this is. NULL: nobody's. */
static inline fab_ofi_ep_t *fab_ofi_session(const fab_ofi_domain_t *dom, uint32_t index,
                                            uint32_t cookie)
{
    return index < dom->num_slots && cookie == dom->slots[index].cookie ? dom->slots[index].ep
                                                                        : NULL;
}

#endif /* FAB_OFI_CONNECT_H */
