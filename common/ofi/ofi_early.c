/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that were reported before one that goes before them: copies, until that has come.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

/*
 * A peer's own messages that may come behind one that is late, besides its window: credits, and
 * questions whether this process is there.
 */
enum { FAB_OFI_OWN_MSGS = 512 };

/* How far behind the next one to be delivered. */
static uint16_t distance(const fab_ofi_ep_t *ep, uint16_t seq)
{
    return (uint16_t) (seq - ep->next_recv);
}

bool fab_ofi_early_keep(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len)
{
    fab_ofi_early_t **at = &ep->early, *early;

    if (distance(ep, hdr->seq) > 2 * ep->dom->ses.window + FAB_OFI_OWN_MSGS) {
        return false;
    }
    while (NULL != *at && distance(ep, (*at)->hdr.seq) < distance(ep, hdr->seq)) {
        at = &(*at)->next;
    }
    if (NULL != *at && (*at)->hdr.seq == hdr->seq) {
        return false;
    }
    early = malloc(sizeof(*early) + len);
    if (NULL == early) {
        return false;
    }
    *early = (fab_ofi_early_t){.next = *at, .hdr = *hdr, .len = len};
    if (len > 0) {
        memcpy(early->data, data, len);
    }
    *at = early;
    ep->dom->num_early++;
    fab_counters.ofi_early++;
    return true;
}

fab_ofi_early_t *fab_ofi_early_take(fab_ofi_ep_t *ep)
{
    fab_ofi_early_t *early = ep->early;

    if (NULL == early || early->hdr.seq != ep->next_recv) {
        return NULL;
    }
    ep->early = early->next;
    ep->dom->num_early--;
    return early;
}

void fab_ofi_early_drop(fab_ofi_ep_t *ep)
{
    while (NULL != ep->early) {
        fab_ofi_early_t *early = ep->early;
        ep->early = early->next;
        ep->dom->num_early--;
        free(early);
    }
}
