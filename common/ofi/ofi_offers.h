/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers, at the sender: which of its messages goes to which receive that the receiver has offered
 * memory for.  doc/ofi.md says why this is safe.
 *
 * The receiver offers receives of one source, in the order in which they were posted.  A message
 * that leaves is for the first offer that it fits.  If that is usable, and has room, the message
 * names it: its data goes there at once, and the offer is used up.  Otherwise the message names
 * none, and no offer that it fits is usable any more: the receiver's software matches the message,
 * and may take the receive behind any of them.  So it is with messages that the receiver had not
 * taken when it made an offer: the offer has the number of messages taken until then, and those
 * sent since are remembered here.
 *
 * A state machine without input or output.  No memory of its own.
 */
#ifndef FAB_OFI_OFFERS_H
#define FAB_OFI_OFFERS_H

#include <stdbool.h>
#include <stdint.h>

enum { FAB_OFI_OFFERS_MAX = 64 }; /* that a receiver has open with one sender */

typedef struct fab_ofi_offer {
    uint64_t tag;  /* it fits messages with (tag & mask) == tag */
    uint64_t mask; /* tag has no bit outside it */
    uint64_t len;  /* bytes there is room for */
    uint32_t id;   /* not 0 */
    bool is_usable;
} fab_ofi_offer_t;

/* A message that named no offer. */
typedef struct fab_ofi_sent {
    uint64_t tag;
    bool is_tagged; /* false: no receive is for it */
} fab_ofi_sent_t;

typedef struct fab_ofi_offers {
    uint32_t num;
    uint32_t window;      /* messages that may be under way, a power of two */
    fab_ofi_sent_t *sent; /* the last ones, by number modulo window */
    fab_ofi_offer_t offer[FAB_OFI_OFFERS_MAX];
} fab_ofi_offers_t;

/*
 * An offer came.  count: messages that the receiver had taken; sent: those that were sent; both
 * modulo 2^16.  False: that is impossible.
 */
bool fab_ofi_offers_add(fab_ofi_offers_t *offers, const fab_ofi_offer_t *offer, uint16_t count,
                        uint16_t sent);

/* The offer that a message of len bytes is to name, and to remove; 0: none. */
uint32_t fab_ofi_offers_find(const fab_ofi_offers_t *offers, uint64_t tag, uint64_t len);

/* Message `number`, which names no offer, leaves. */
void fab_ofi_offers_note(fab_ofi_offers_t *offers, uint16_t number, bool is_tagged, uint64_t tag);

/* It is named, or the receiver takes it back: then it may have been named before. */
void fab_ofi_offers_remove(fab_ofi_offers_t *offers, uint32_t id);

#endif /* FAB_OFI_OFFERS_H */
