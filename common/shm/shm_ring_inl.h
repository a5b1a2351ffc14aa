/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring: one sender, one receiver, 64-byte slots in the receiver's segment (layout: shm_wire.h).
 * This is the whole fast path of the shm provider; ownership, claiming and polling of rings are
 * elsewhere.
 *
 * A message of up to 40 bytes costs two cache-line transfers, the minimum for any mailbox.  The
 * sender writes one line, the word last, by a plain store (release); the receiver's poll reads it.
 * No locked instruction, no fence.
 *
 *      slots     ┌────┬────┬────┬────┬────┬────┬────┬────┐
 *      lap 7     │ m  │ m' │ A  │ B  │ B+ │ B+ │    │    │     m, m': lap 7, consumed      A, B: lap 7, to come
 *                └────┴────┴────┴────┴────┴────┴────┴────┘     B+: payload of B            blank: lap 6, consumed
 *                          ^ receiver            ^ sender
 *
 * When a word is a message.  The receiver waits at a slot for a word with its own lap number. Until
 * then the slot contains a word of an older lap or, if it held payload (B+), arbitrary bytes, which
 * may look like a word of this lap.  So the sender remembers for each slot whether it contains
 * something else than the word of the last lap (it is stale: it held payload, or was skipped at a
 * wrap). *Before the sender publishes a message* it clears the word behind the message if that is
 * stale.  The receiver reaches that slot only through the message before it, so it sees the cleared
 * word.  If the ring is full, the slot behind is that of the oldest unconsumed message: it has a
 * word of the last lap, so it is not stale, and the sender does not touch it.  Slot 0 on lap 1 is
 * cleared memory.
 *
 * Wrap.  A message that does not fit the rest of the ring goes to its start; a PAD word bridges the
 * rest.
 *
 * Early wrap.  A sender whose messages are answered one by one has one in the ring at a time, and
 * goes through all of the ring with it.  A line that it comes back to after a lap has left the
 * caches near to the two sides: a message of 1 KiB takes a third longer than in a ring of 8 KiB.
 * So after a message of 2 to 33 slots that crosses a multiple of 8 KiB the sender wraps, if the
 * peer has sent about as many messages as it since the last such multiple, and between that one and
 * the one before, and has consumed all but this message.  Until the receiver polls again, there is
 * room for at least 80 slots more.  While messages are sent in windows the sender goes through all
 * of the ring, since it fills lines faster that are no longer in the receiver's cache.
 *
 * Growth.  A ring that is longer than the first-level cache is filled faster on some processors,
 * but costs time and memory before its first message.  So the two sides begin with the first part
 * of it, as if there were no more.  When much has been sent, and not one by one, the sender gets
 * memory for the rest, and a PAD word with GROW leads both to the start of the ring at a lap of all
 * of it.  That is done after a message of more than 5 slots, since shorter ones gain nothing, and
 * where the slots that are not consumed lie before that word, in the first part's lap that begins a
 * lap of all of the ring: then positions modulo the longer length are those places, too.
 *
 * Flow.  The receiver publishes its tail when it comes to or past a multiple of a quarter of the
 * ring, or of 128 slots if that is less, and when it stops polling the ring; after messages of 2 to
 * 33 slots as soon as 16 slots are consumed, for the early wrap.
 * The sender reads the tail only if the value that it knows leaves no room.  Fewer than N/4 slots
 * are consumed and not published, and a message with its padding takes at most 2 (N/4 + 1) - 1
 * slots, so with N >= 8 a message always fits a ring that the receiver has emptied.  While the
 * receiver retains a message, to use it in place after later ones were read, the tail stays there.
 *
 * Ahead.  Between processors that share no cache a line takes 100 to 250 ns to come, and a process
 * that does much between two messages waits for each.  So a sender that sends several messages
 * without one from the peer in between asks for the lines of the third message from now, to write
 * them.  One that is answered each time does not: the peer polls, and would get the line back
 * before it is written.  A receiver of messages of a few lines asks for the lines of the next one,
 * which may have as many: when it has taken a message, so that it does not wait for each of a
 * window; and when it finds none, so that header and payload come together, not one after the
 * other.  btl_fabric does all of this, a blocking receive of pml_tm the last.
 *
 * Idle.  When a ring has been empty for long, the receiver makes idle odd and stops polling the
 * ring (it is cold).  A sender that finds idle odd after it has published a message rings the
 * doorbell, once per idle period.  The sender has no fence between storing its word and reading
 * idle, so the two sides may miss each other: the receiver's last check may come before the word,
 * and the sender's read of idle before the receiver's store to it.  Nothing is lost: the receiver
 * also checks its cold rings now and then (sweep), so it only sees the message later.
 *
 * Trust.  The other side may write anything at any time.  Each shared field is read once; a word is
 * checked before use; a tail must lie within the ring's length behind the head.
 *
 * Threads.  The sender's functions are called under the sender's lock, the receiver's under the
 * receiver's lock.
 *
 * FAB_SHM_STEP(what) precedes each access to shared memory that the other side may see or undo:
 * word, tail, idle, or data (header and payload).  A test uses it to switch between the two sides.
 */
#ifndef FAB_SHM_RING_INL_H
#define FAB_SHM_RING_INL_H

#include "fabric/fab.h"

#include <stdbool.h>
#include <string.h>

#include "fabric/fab_copy.h"
#include "shm/shm_copy.h"
#include "shm/shm_wire.h"

#ifndef FAB_SHM_STEP
#define FAB_SHM_STEP(what) ((void) 0)
#endif

/*
 * Slots: between the places of early wraps, a power of two; of a message after which there may be
 * one, at most; that are consumed and not published after such a message, at most, and less than a
 * quarter of the shortest ring.  A test has shorter rings.
 */
#ifndef FAB_SHM_WRAP_EVERY
#define FAB_SHM_WRAP_EVERY 128
#define FAB_SHM_WRAP_MAX   33
#define FAB_SHM_WRAP_LAG   15
#endif

_Static_assert(FAB_SHM_WRAP_LAG < FAB_SHM_RING_MIN / FAB_SHM_LINE / 4, "see \"Flow\" above");

/* Slots that are consumed and not published, at most, 2^n - 1. */
#ifndef FAB_SHM_LAG
#define FAB_SHM_LAG 127
#endif

/* Slots: that have been sent before a ring grows, 1 MiB; of a message that it grows for. */
#ifndef FAB_SHM_GROW_AT
#define FAB_SHM_GROW_AT  16384
#define FAB_SHM_GROW_FOR 6
#endif

enum {
    FAB_SHM_AHEAD_TX = 32, /* slots of a message whose sender fetches lines ahead, at most */
    FAB_SHM_AHEAD_RX = 5,  /* ... whose receiver does, at most; of longer ones the processor does */
};

/* Slots of a message with len bytes of payload. */
static inline uint32_t fab_shm_num_slots(size_t len)
{
    return (uint32_t) ((len + offsetof(fab_shm_slot_t, payload) + FAB_SHM_LINE - 1) / FAB_SHM_LINE);
}

/* The lap after `lap`. */
static inline uint16_t fab_shm_next_lap(uint16_t lap)
{
    return 0xffff == lap ? 1 : (uint16_t) (lap + 1);
}

/* ---- sender ------------------------------------------------------------- */

typedef struct fab_shm_tx {
    fab_shm_slot_t *slots;
    uint64_t head; /* slots used since the ring was claimed */
    /* head may grow up to this: fab_shm_tx_refresh(). 0: no ring yet. */
    uint64_t limit;
    uint32_t mask; /* slots in use - 1 */
    uint32_t rung; /* value of idle for which the doorbell was rung */
    uint16_t lap;
    uint8_t doorbell_bit;
    uint64_t *stale; /* one bit per slot: its content may look like any word */
    fab_shm_ctl_t *ctl;
    _Atomic uint64_t *doorbell;
    /* for wraps */
    uint64_t promised;       /* no early wrap before head is here */
    uint64_t tail;           /* as last read */
    uint32_t from_pos;       /* slots that had come from the peer when one was last considered */
    uint32_t end;            /* slots from here on that this lap has not used are stale, or zero */
    fab_shm_copies_t copies; /* which way is faster (shm_copy.c) */
    bool is_ping_pong;       /* when one was last considered, the peer had answered each message */
    uint16_t from_last;      /* as from_pos, at the last message that might have fetched ahead */
    uint32_t full;           /* mask, when the ring has grown: see "Growth" above */
} fab_shm_tx_t;

_Static_assert(64 == offsetof(fab_shm_tx_t, promised), "a line of the sender's own memory");
_Static_assert(128 > sizeof(fab_shm_tx_t), "what follows it is in its second line");

/*
 * slots and ctl are those of a fresh ring, all zero.  stale has a bit for each slot, all zero.
 * num_slots, of the ring at first, and num_full, of all of it, are powers of two, at least 8.
 */
static inline void fab_shm_tx_init(fab_shm_tx_t *tx, fab_shm_slot_t *slots, uint32_t num_slots,
                                   uint32_t num_full, uint64_t *stale, fab_shm_ctl_t *ctl,
                                   _Atomic uint64_t *doorbell, uint32_t index)
{
    *tx = (fab_shm_tx_t){
        .slots = slots,
        .limit = num_slots,
        .mask = num_slots - 1,
        .full = num_full - 1,
        .lap = 1,
        .doorbell_bit = (uint8_t) (index % 64),
        .stale = stale,
        .ctl = ctl,
        .doorbell = doorbell,
        .copies = fab_shm_copies_begin(),
    };
}

/* Does the sender know of room for n slots? See fab_shm_tx_refresh(). */
static inline bool fab_shm_tx_has_room(const fab_shm_tx_t *tx, uint32_t n)
{
    return tx->head + n <= tx->limit;
}

/* Slots of which the sender does not know that they are consumed. */
static inline uint64_t fab_shm_tx_used(const fab_shm_tx_t *tx)
{
    return tx->head - tx->tail;
}

/* Read the receiver's tail. False: it is invalid. */
static inline bool fab_shm_tx_refresh(fab_shm_tx_t *tx)
{
    FAB_SHM_STEP(tail);
    /*
     * acquire: pairs with the release in fab_shm_rx_publish(): the receiver has finished with the
     * slots that it gives back
     */
    uint64_t tail = atomic_load_explicit(&tx->ctl->tail, memory_order_acquire);

    if (tx->head - tail > (uint64_t) tx->mask + 1) {
        return false;
    }
    tx->tail = tail;
    tx->limit = tail + tx->mask + 1;
    return true;
}

static inline fab_shm_slot_t *fab_shm_tx_slot(const fab_shm_tx_t *tx)
{
    return &tx->slots[tx->head & tx->mask];
}

/*
 * Mark slots at..at+n-1 as stale: they will contain something else than a word. n > 0; the slots
 * end within the ring.
 */
static inline void fab_shm_tx_mark_stale(fab_shm_tx_t *tx, uint32_t at, uint32_t n)
{
    while (__builtin_expect(n > 64 - at % 64, 0)) {
        tx->stale[at / 64] |= UINT64_MAX << at % 64;
        n -= 64 - at % 64;
        at += 64 - at % 64;
    }
    tx->stale[at / 64] |= (UINT64_MAX >> (64 - n)) << at % 64;
}

static inline void fab_shm_tx_clear(fab_shm_tx_t *tx, uint32_t at)
{
    FAB_SHM_STEP(word);
    /* relaxed: the release of the message in front of it orders it before that message's word */
    atomic_store_explicit(&tx->slots[at].word, 0, memory_order_relaxed);
    tx->stale[at / 64] &= ~(UINT64_C(1) << at % 64);
}

/* Publish the message in n slots from head on, by storing the word of its first slot. */
static inline void fab_shm_tx_publish(fab_shm_tx_t *tx, fab_shm_slot_t *slot, uint64_t word,
                                      uint32_t n)
{
    uint64_t head = tx->head + n;
    uint32_t next = (uint32_t) head & tx->mask;

    if (__builtin_expect(tx->stale[next / 64] >> next % 64 & 1, 0)) {
        fab_shm_tx_clear(tx, next);
    }
    FAB_SHM_STEP(word);
    /*
     * release: pairs with the acquire in fab_shm_rx_word(): header, payload and the cleared word
     * behind are visible before the word
     */
    atomic_store_explicit(&slot->word, word, memory_order_release);
    tx->head = head;
    if (__builtin_expect(0 == next, 0)) {
        tx->lap = fab_shm_next_lap(tx->lap);
        tx->end = tx->mask + 1;
    }
}

/* Skip n slots, at least one, of which the last one is the last of a lap.  There is room for it. */
static inline void fab_shm_tx_skip(fab_shm_tx_t *tx, uint8_t flags, uint32_t n)
{
    const uint32_t at = (uint32_t) tx->head & tx->mask;

    /* what the last lap did not use, either, is stale already */
    if (at + 1 < tx->end) {
        fab_shm_tx_mark_stale(tx, at + 1, tx->end - at - 1);
    }
    fab_shm_tx_publish(tx, &tx->slots[at], fab_shm_word(0, 0, flags, tx->lap), n);
    tx->end = at + 1;
}

/* Skip the rest of the ring, at least one slot.  There is room for it. */
static inline void fab_shm_tx_wrap(fab_shm_tx_t *tx)
{
    fab_shm_tx_skip(tx, FAB_SHM_FLAG_PAD, tx->mask + 1 - ((uint32_t) tx->head & tx->mask));
}

/* Ring the doorbell if the receiver does not poll the ring. */
static inline void fab_shm_tx_kick(fab_shm_tx_t *tx)
{
    FAB_SHM_STEP(idle);
    /* relaxed: see "Idle" above */
    uint32_t idle = atomic_load_explicit(&tx->ctl->idle, memory_order_relaxed);

    if (__builtin_expect(idle & 1, 0) && idle != tx->rung) {
        tx->rung = idle;
        FAB_SHM_STEP(idle);
        /*
         * release: pairs with the exchange in answer_doorbell(): the word is visible before the bit
         */
        atomic_fetch_or_explicit(tx->doorbell, UINT64_C(1) << tx->doorbell_bit,
                                 memory_order_acq_rel);
    }
}

/*
 * Contiguous room for a message of n slots; skips the end of the ring if necessary.  NULL: there is
 * no room that the sender knows of.  n <= N/4 + 1.  The caller must publish the message.
 */
static inline fab_shm_slot_t *fab_shm_tx_reserve(fab_shm_tx_t *tx, uint32_t n)
{
    uint32_t at = (uint32_t) tx->head & tx->mask;
    uint32_t rest = tx->mask + 1 - at;

    if (__builtin_expect(n > rest, 0)) {
        if (!fab_shm_tx_has_room(tx, rest + n)) {
            return NULL;
        }
        fab_shm_tx_wrap(tx);
        at = 0;
    } else if (!fab_shm_tx_has_room(tx, n)) {
        return NULL;
    }
    if (n > 1) {
        fab_shm_tx_mark_stale(tx, at + 1, n - 1);
    }
    return &tx->slots[at];
}

static inline void fab_shm_tx_commit(fab_shm_tx_t *tx, fab_shm_slot_t *slot, fab_hdr_t hdr,
                                     size_t len, uint32_t n)
{
    slot->tag = hdr.tag;
    slot->app_ctx = hdr.app_ctx;
    fab_shm_tx_publish(tx, slot, fab_shm_word((uint32_t) len, hdr.id, 0, tx->lap), n);
    fab_shm_tx_kick(tx);
}

/* Copy to where a message is, or a part of it. */
static inline void fab_shm_tx_copy(fab_shm_tx_t *tx, void *to, const void *from, size_t len)
{
    if (len < FAB_SHM_PAST_MIN) {
        memcpy(to, from, len);
    } else {
        fab_shm_copy_in(&tx->copies, to, from, len);
    }
}

/* Longest payload of a message of one slot, bytes. */
#define FAB_SHM_SHORT_MAX sizeof(((fab_shm_slot_t *) 0)->payload)

_Static_assert(FAB_SHM_SHORT_MAX <= FAB_COPY_SHORT_MAX, "fab_copy_short() copies it");

/* Send a message of one slot, if there is room. */
static inline __attribute__((always_inline)) bool
fab_shm_tx_send_short(fab_shm_tx_t *tx, fab_hdr_t hdr, const void *buf, size_t len)
{
    uint64_t word = fab_shm_word((uint32_t) len, hdr.id, 0, tx->lap);
    fab_shm_slot_t *slot;

    if (__builtin_expect(!fab_shm_tx_has_room(tx, 1), 0)) {
        return false;
    }
    slot = fab_shm_tx_slot(tx);
    FAB_SHM_STEP(data);
    slot->tag = hdr.tag;
    slot->app_ctx = hdr.app_ctx;
    fab_copy_short(fab_shm_payload(slot), buf, len);
    fab_shm_tx_publish(tx, slot, word, 1);
    fab_shm_tx_kick(tx);
    return true;
}

/* Send a message of any length up to what the receiver accepts, if there is room. */
static inline bool fab_shm_tx_send_any(fab_shm_tx_t *tx, fab_hdr_t hdr, const void *buf, size_t len)
{
    const uint32_t n = fab_shm_num_slots(len);
    fab_shm_slot_t *slot = fab_shm_tx_reserve(tx, n);

    if (__builtin_expect(NULL == slot, 0)) {
        return false;
    }
    FAB_SHM_STEP(data);
    if (len > 0) {
        fab_shm_tx_copy(tx, fab_shm_payload(slot), buf, len);
    }
    fab_shm_tx_commit(tx, slot, hdr, len, n);
    return true;
}

/* ---- receiver ----------------------------------------------------------- */

typedef struct fab_shm_rx {
    fab_shm_slot_t *slot; /* where the next message will be */
    uint64_t pos;         /* number of that slot, counted since the ring was claimed */
    uint64_t published;   /* the tail that the sender can see */
    uint64_t retained;    /* position of the message that is retained; UINT64_MAX: none */
    uint32_t mask;        /* slots in use - 1 */
    uint32_t lag;         /* slots that are consumed and not published, at most; 2^n - 1 */
    uint32_t eager_max;   /* longest payload that a sender may send, bytes */
    uint32_t ahead;       /* slots of the next message that are to be fetched ahead */
    fab_shm_ctl_t *ctl;
    uint32_t idle; /* as in ctl */
    uint16_t lap;
    uint8_t growth; /* the ring may still grow to 2^growth times its slots; 0: it may not */
} fab_shm_rx_t;

_Static_assert(64 == sizeof(fab_shm_rx_t), "a line of the receiver's own memory");

typedef struct fab_shm_msg {
    fab_hdr_t hdr;
    const void *data;
    uint32_t len;
    uint32_t slots;
} fab_shm_msg_t;

typedef enum fab_shm_look {
    FAB_SHM_EMPTY,   /* nothing there */
    FAB_SHM_MESSAGE, /* a message, described */
    FAB_SHM_BAD,     /* a malformed message */
} fab_shm_look_t;

static inline void fab_shm_rx_init(fab_shm_rx_t *rx, fab_shm_slot_t *slots, uint32_t num_slots,
                                   uint32_t num_full, uint32_t eager_max, fab_shm_ctl_t *ctl)
{
    const uint32_t quarter = num_slots / 4;

    *rx = (fab_shm_rx_t){.slot = slots,
                         .retained = UINT64_MAX,
                         .mask = num_slots - 1,
                         .lag = (quarter <= FAB_SHM_LAG ? quarter : FAB_SHM_LAG + 1) - 1,
                         .eager_max = eager_max,
                         .ctl = ctl,
                         .growth = (uint8_t) __builtin_ctz(num_full / num_slots),
                         .lap = 1};
}

/* The word in the slot; a message only if it has the expected lap. */
static inline uint64_t fab_shm_rx_word(const fab_shm_rx_t *rx)
{
    FAB_SHM_STEP(word);
    /* acquire: pairs with the release in fab_shm_tx_publish() */
    return atomic_load_explicit(&rx->slot->word, memory_order_acquire);
}

static inline bool fab_shm_rx_is_ready(const fab_shm_rx_t *rx)
{
    return fab_shm_rx_word(rx) >> 48 == rx->lap;
}

/* There is no message, or one was taken: see "Ahead" above. */
static inline void fab_shm_rx_fetch_ahead(const fab_shm_rx_t *rx)
{
    for (uint32_t i = 0; i < rx->ahead; i++) {
        __builtin_prefetch(rx->slot + i); /* past the ring's end it does no harm */
    }
    /* else gcc 12 drops the calls: the function seems to do nothing */
    __asm__ volatile("");
}

/* A message of n slots was taken; the next one is expected to have as many. */
static inline void fab_shm_rx_expect(fab_shm_rx_t *rx, uint32_t n)
{
    rx->ahead = n > 1 && n <= FAB_SHM_AHEAD_RX ? n : 0;
}

static inline void fab_shm_rx_publish(fab_shm_rx_t *rx)
{
    FAB_SHM_STEP(tail);
    rx->published = rx->pos < rx->retained ? rx->pos : rx->retained;
    /* release: pairs with the acquire in fab_shm_tx_refresh() */
    atomic_store_explicit(&rx->ctl->tail, rx->published, memory_order_release);
}

/*
 * n slots are done with, and either a multiple of lag + 1 was reached or passed, or more than
 * FAB_SHM_WRAP_LAG slots are not published: see "Flow" above.
 */
static inline __attribute__((cold)) void fab_shm_rx_pass(fab_shm_rx_t *rx, uint32_t n)
{
    if (0 == ((uint32_t) rx->pos & rx->mask)) {
        rx->slot -= rx->mask + 1;
        rx->lap = fab_shm_next_lap(rx->lap);
    }
    if (n <= FAB_SHM_WRAP_MAX || ((uint32_t) rx->pos & rx->lag) < n) {
        fab_shm_rx_publish(rx);
    }
}

/* Done with n slots, which end within the ring. */
static inline void fab_shm_rx_advance(fab_shm_rx_t *rx, uint32_t n)
{
    const uint32_t past = (uint32_t) (rx->pos += n) & rx->lag;

    rx->slot += n;
    if (1 == n) { /* mostly a constant */
        if (__builtin_expect(0 == past, 0)) {
            fab_shm_rx_pass(rx, 1);
        }
    } else if (past < n || rx->pos - rx->published > FAB_SHM_WRAP_LAG) {
        fab_shm_rx_pass(rx, n);
    }
}

/* Describe the message with this word in *msg. False: such a message cannot be in this slot. */
static inline bool fab_shm_rx_describe(const fab_shm_rx_t *rx, uint64_t word, fab_shm_msg_t *msg)
{
    uint32_t len = (uint32_t) word;
    uint8_t id = (uint8_t) (word >> 32);
    uint8_t flags = (uint8_t) (word >> 40);
    uint32_t at = (uint32_t) rx->pos & rx->mask;

    if (__builtin_expect(0 != flags || id >= FAB_AM_MAX || len > rx->eager_max, 0)) {
        return false;
    }
    msg->hdr = fab_hdr_of(id | (uint64_t) rx->slot->app_ctx << 32, rx->slot->tag);
    msg->data = fab_shm_payload(rx->slot);
    msg->len = len;
    msg->slots = fab_shm_num_slots(len);
    return at + msg->slots <= rx->mask + 1;
}

/*
 * Is this the word of a one-slot message of this lap?  Then it is valid: it has no flags, a legal
 * id, and a payload that ends within the slot.
 */
static inline bool fab_shm_rx_is_short(const fab_shm_rx_t *rx, uint64_t word)
{
    return (uint64_t) rx->lap << 48 == (word & ~((uint64_t) (FAB_AM_MAX - 1) << 32 | UINT32_MAX)) &&
           (uint32_t) word <= FAB_SHM_SHORT_MAX;
}

_Static_assert(0 == (FAB_AM_MAX & (FAB_AM_MAX - 1)), "the mask above covers exactly the legal ids");

/*
 * Take the next message out, if it has one slot, this id, no app_ctx, at most *len bytes, and a tag
 * whose bits under mask equal want.  Copies its payload to buf, and sets *len to its length and
 * *tag to its tag.  False: nothing was done.
 */
static inline __attribute__((always_inline)) bool fab_shm_rx_take_short(fab_shm_rx_t *rx,
                                                                        uint8_t id, uint64_t want,
                                                                        uint64_t mask, void *buf,
                                                                        size_t *len, uint64_t *tag)
{
    const fab_shm_slot_t *slot = rx->slot;
    const uint64_t word = fab_shm_rx_word(rx);
    const size_t bytes = (uint32_t) word;
    uint64_t found;

    if (fab_shm_word(0, id, 0, rx->lap) != (word & ~(uint64_t) UINT32_MAX) ||
        bytes > FAB_SHM_SHORT_MAX || bytes > *len) {
        return false;
    }
    FAB_SHM_STEP(data);
    found = slot->tag;
    if (want != (found & mask) || 0 != slot->app_ctx) {
        return false;
    }
    fab_copy_short(buf, slot->payload, bytes);
    fab_shm_rx_advance(rx, 1);
    rx->ahead = 0;
    *len = bytes;
    *tag = found;
    return true;
}

/* Use all of the ring from its next start on. False: it cannot be here that it grows. */
static inline bool fab_shm_rx_grow(fab_shm_rx_t *rx, uint32_t at)
{
    const uint32_t full = ((rx->mask + 1) << rx->growth) - 1;

    if (0 == rx->growth || at != ((uint32_t) rx->pos & full)) {
        return false;
    }
    rx->pos += full - rx->mask; /* as if the parts behind the first one had been passed, too */
    fab_shm_rx_advance(rx, rx->mask + 1 - at);
    rx->mask = full;
    rx->growth = 0;
    return true;
}

/* Skip the rest of the ring. A PAD in slot 0 would skip the whole ring; no sender writes that. */
static inline bool fab_shm_rx_skip(fab_shm_rx_t *rx, uint64_t word)
{
    uint32_t at = (uint32_t) rx->pos & rx->mask;

    if (0 != at && fab_shm_word(0, 0, FAB_SHM_FLAG_PAD | FAB_SHM_FLAG_GROW, rx->lap) == word) {
        return fab_shm_rx_grow(rx, at);
    }
    if (0 == at || fab_shm_word(0, 0, FAB_SHM_FLAG_PAD, rx->lap) != word) {
        return false;
    }
    fab_shm_rx_advance(rx, rx->mask + 1 - at);
    return true;
}

/* Look at the next message; it stays until fab_shm_rx_advance(msg->slots). */
static inline fab_shm_look_t fab_shm_rx_peek(fab_shm_rx_t *rx, fab_shm_msg_t *msg)
{
    uint64_t word = fab_shm_rx_word(rx);

    if (word >> 48 != rx->lap) {
        return FAB_SHM_EMPTY;
    }
    if (__builtin_expect(0 != (word >> 40 & 0xff), 0)) {
        if (!fab_shm_rx_skip(rx, word)) {
            return FAB_SHM_BAD;
        }
        word = fab_shm_rx_word(rx);
        if (word >> 48 != rx->lap) {
            return FAB_SHM_EMPTY;
        }
    }
    return fab_shm_rx_describe(rx, word, msg) ? FAB_SHM_MESSAGE : FAB_SHM_BAD;
}

/*
 * As fab_shm_rx_take_short(), for a message of any length.  A malformed one is left to the poll.
 * False: nothing was taken; the end of the ring may have been skipped.
 */
static inline __attribute__((always_inline)) bool fab_shm_rx_take_any(fab_shm_rx_t *rx, uint8_t id,
                                                                      uint64_t want, uint64_t mask,
                                                                      void *buf, size_t *len,
                                                                      uint64_t *tag)
{
    fab_shm_msg_t msg;

    if (FAB_SHM_MESSAGE != fab_shm_rx_peek(rx, &msg) || id != msg.hdr.id || 0 != msg.hdr.app_ctx ||
        msg.len > *len || want != (msg.hdr.tag & mask)) {
        return false;
    }
    FAB_SHM_STEP(data);
    if (msg.len > 0) {
        fab_copy(buf, msg.data, msg.len);
    }
    fab_shm_rx_advance(rx, msg.slots);
    fab_shm_rx_expect(rx, msg.slots);
    *len = msg.len;
    *tag = msg.hdr.tag;
    return true;
}

/* Stop polling: make idle odd, then check once more. False: a message has come. */
static inline bool fab_shm_rx_sleep(fab_shm_rx_t *rx)
{
    fab_shm_rx_publish(rx);
    FAB_SHM_STEP(idle);
    /*
     * exchange: a full barrier, so that idle is visible before the last check, and the two sides
     * rarely miss each other
     */
    (void) atomic_exchange_explicit(&rx->ctl->idle, ++rx->idle, memory_order_seq_cst);
    return !fab_shm_rx_is_ready(rx);
}

static inline void fab_shm_rx_wake(fab_shm_rx_t *rx)
{
    FAB_SHM_STEP(idle);
    /* relaxed: it does no harm if the sender sees this late */
    atomic_store_explicit(&rx->ctl->idle, ++rx->idle, memory_order_relaxed);
}

/* ---- retaining a message ------------------------------------------------ */

/* Keep the message that comes next where it is also after fab_shm_rx_advance(). None is now. */
static inline void fab_shm_rx_retain(fab_shm_rx_t *rx)
{
    rx->retained = rx->pos;
}

static inline bool fab_shm_rx_has_retained(const fab_shm_rx_t *rx)
{
    return UINT64_MAX != rx->retained;
}

/* Give back the message that is retained. */
static inline void fab_shm_rx_release(fab_shm_rx_t *rx)
{
    rx->retained = UINT64_MAX;
    /* an idle ring has no unpublished slots */
    if (rx->pos - rx->published > FAB_SHM_WRAP_LAG || 0 != (rx->idle & 1)) {
        fab_shm_rx_publish(rx);
    }
}

/* ---- both --------------------------------------------------------------- */

/* The start of fab_shm_ep_t: all that shm_inl.h needs of an endpoint. */
typedef struct fab_shm_pair {
    fab_shm_tx_t tx;  /* to the peer */
    fab_shm_rx_t *rx; /* from the peer, while it is polled; else NULL */
} fab_shm_pair_t;

/* A hash of the sizes of what users of the fabric read and write inline (fab_abi.h). */
#define FAB_SHM_ABI                                                                                \
    ((uint64_t) FAB_SHM_VERSION << 32 |                                                            \
     (3 * sizeof(fab_shm_tx_t) + 5 * sizeof(fab_shm_rx_t) + 7 * sizeof(fab_shm_pair_t) +           \
      11 * sizeof(fab_shm_ctl_t) + 13 * sizeof(fab_shm_slot_t) + 17 * sizeof(fab_shm_msg_t)))

/* Get the line, to write it, without waiting for it. */
static inline void fab_shm_fetch_to_write(const void *line)
{
#if defined(__x86_64__)
    /* what __builtin_prefetch() does only for certain processors; others take it for a nop */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *) line));
#else
    __builtin_prefetch(line, 1);
    __asm__ volatile("");
#endif
}

/* A message of n slots was sent: are lines to be fetched ahead?  from: NULL if it is not polled. */
static inline bool fab_shm_tx_is_ahead(fab_shm_tx_t *tx, const fab_shm_rx_t *from, uint32_t n)
{
    const uint16_t from_pos = NULL != from ? (uint16_t) from->pos : 0;
    const bool is_answer = from_pos != tx->from_last;

    tx->from_last = from_pos;
    return !is_answer && n <= FAB_SHM_AHEAD_TX && tx->head + 3 * n <= tx->limit;
}

/* To be called after a message of n slots: see "Ahead" above. */
static inline void fab_shm_tx_fetch_ahead(fab_shm_tx_t *tx, const fab_shm_rx_t *from, uint32_t n)
{
    if (fab_shm_tx_is_ahead(tx, from, n)) {
        const uint32_t at = (uint32_t) tx->head + 2 * n;
        for (uint32_t i = 0; i < n; i++) {
            fab_shm_fetch_to_write(&tx->slots[(at + i) & tx->mask]);
        }
    }
}

/* A message of n slots was sent that crossed a place of early wraps: see "Early wrap" above. */
static inline __attribute__((cold)) void
fab_shm_tx_consider_wrap(fab_shm_tx_t *tx, const fab_shm_rx_t *from, uint32_t n)
{
    const uint32_t at = (uint32_t) tx->head & tx->mask;
    const uint32_t answers = (uint32_t) from->pos - tx->from_pos;
    const bool was_ping_pong = tx->is_ping_pong;

    /*
     * half of the messages since the last such place, if all had n slots, and their answers one;
     * after a longer one not, since these are faster in all of the ring
     */
    tx->is_ping_pong = n <= FAB_SHM_WRAP_MAX && answers * n >= FAB_SHM_WRAP_EVERY / 2;
    tx->from_pos = (uint32_t) from->pos;
    if (was_ping_pong && tx->is_ping_pong && tx->head >= tx->promised && 0 != at &&
        fab_shm_tx_refresh(tx) && fab_shm_tx_used(tx) <= n + FAB_SHM_WRAP_LAG &&
        fab_shm_tx_used(tx) <= at) {
        fab_shm_tx_wrap(tx);
    }
}

/*
 * Get memory for all of the ring.  False: there is none, or it cannot be known; tx->full is the
 * same as tx->mask then.
 */
FAB_EXPORT bool fab_shm_tx_back(fab_shm_tx_t *tx);

/* Use all of the ring, if it is time, and this is a place to begin with it: see "Growth" above. */
static inline __attribute__((cold)) void fab_shm_tx_consider_growth(fab_shm_tx_t *tx, uint32_t n)
{
    const uint32_t at = (uint32_t) tx->head & tx->mask;

    if (n < FAB_SHM_GROW_FOR || tx->head < FAB_SHM_GROW_AT || tx->is_ping_pong ||
        tx->head < tx->promised || 0 == at || at != ((uint32_t) tx->head & tx->full) ||
        !fab_shm_tx_refresh(tx) || fab_shm_tx_used(tx) > at || !fab_shm_tx_back(tx)) {
        return;
    }
    fab_shm_tx_skip(tx, FAB_SHM_FLAG_PAD | FAB_SHM_FLAG_GROW, tx->full + 1 - at);
    tx->mask = tx->full;
}

/* To be called after a message of n slots.  from: NULL if it is not polled. */
static inline void fab_shm_tx_wrap_early(fab_shm_tx_t *tx, const fab_shm_rx_t *from, uint32_t n)
{
    const uint64_t crossed = (tx->head ^ (tx->head - n)) & ~(uint64_t) (FAB_SHM_WRAP_EVERY - 1);

    if (__builtin_expect(0 != crossed, 0)) {
        if (NULL != from) {
            fab_shm_tx_consider_wrap(tx, from, n);
        }
        if (tx->mask != tx->full) {
            fab_shm_tx_consider_growth(tx, n);
        }
    }
}

#endif /* FAB_SHM_RING_INL_H */
