/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers, at the sender; see ofi_offers.h. */
#include "ofi/ofi_offers.h"

#include <string.h>

static bool fits(const fab_ofi_offer_t *offer, uint64_t tag)
{
    return (tag & offer->mask) == offer->tag;
}

bool fab_ofi_offers_add(fab_ofi_offers_t *offers, const fab_ofi_offer_t *offer, uint16_t count,
                        uint16_t sent)
{
    fab_ofi_offer_t *added = &offers->offer[offers->num];

    if (FAB_OFI_OFFERS_MAX == offers->num || 0 == offer->id || 0 != (offer->tag & ~offer->mask) ||
        (uint16_t) (sent - count) > offers->window) {
        return false;
    }
    *added = *offer;
    added->is_usable = true;
    for (uint16_t number = count; number != sent; number++) {
        const fab_ofi_sent_t *msg = &offers->sent[number & (offers->window - 1)];

        added->is_usable = added->is_usable && !(msg->is_tagged && fits(added, msg->tag));
    }
    offers->num++;
    return true;
}

uint32_t fab_ofi_offers_find(const fab_ofi_offers_t *offers, uint64_t tag, uint64_t len)
{
    const fab_ofi_offer_t *offer = offers->offer, *end = offer + offers->num;

    while (offer < end && !fits(offer, tag)) {
        offer++;
    }
    return offer < end && offer->is_usable && len <= offer->len ? offer->id : 0;
}

void fab_ofi_offers_note(fab_ofi_offers_t *offers, uint16_t number, bool is_tagged, uint64_t tag)
{
    offers->sent[number & (offers->window - 1)] = (fab_ofi_sent_t){tag, is_tagged};
    for (uint32_t at = 0; is_tagged && at < offers->num; at++) {
        offers->offer[at].is_usable &= !fits(&offers->offer[at], tag);
    }
}

void fab_ofi_offers_remove(fab_ofi_offers_t *offers, uint32_t id)
{
    uint32_t at = 0;

    while (at < offers->num && id != offers->offer[at].id) {
        at++;
    }
    if (at < offers->num) {
        offers->num--;
        memmove(&offers->offer[at], &offers->offer[at + 1],
                (offers->num - at) * sizeof(offers->offer[0]));
    }
}
