/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offers (ofi_places.h, ofi_offers.h) between the offload engine with its matcher, some senders,
 * and libfabric, beside the MPI rules.  The tests take steps, in whatever order.
 *
 * Checked at every match, be it by an offer or by software (numbers as in doc/offload.md):
 *  I1 the message fits the receive;
 *  I2 neither was used before;
 *  I3 no older message of that source that fits the receive is waiting, wherever it is;
 *  I4 no older receive that the message fits is waiting, unless it turns out cancelled;
 * and besides:
 *  I5 at the end no message waits in the matcher that a waiting receive fits;
 *  I6 a cancelled receive is cancelled or completed, once;
 *  I9 data comes to the memory of the receive that its message is for, and nowhere else, and not
 *  after that has been given back;
 *  I10 at the end no data is left in libfabric, and no place is in use for nothing.
 *
 * The structure holds everything, without allocated memory, so that a test may copy it away and
 * back.
 */
#ifndef TM_OFFERS_WORLD_H
#define TM_OFFERS_WORLD_H

#include "ofi/ofi_offers.h"
#include "ofi/ofi_places.h"
#include "offload/offload.h"

#ifndef OFFERS_RECVS
#define OFFERS_RECVS 4
#endif
#ifndef OFFERS_MSGS
#define OFFERS_MSGS 4
#endif
#ifndef OFFERS_SOURCES
#define OFFERS_SOURCES 1
#endif
#ifndef OFFERS_PLACES
#define OFFERS_PLACES 16
#endif
#define OFFERS_WINDOW 4 /* messages */
#ifndef OFFERS_QUEUE
#define OFFERS_QUEUE 64
#endif
#define OFFERS_RING 32
#define LONG_LEN    1000 /* bytes of a long message, and of memory for it */
#define SMALL_LEN   500  /* bytes of memory that is too small */

typedef enum state { FREE = 0, WAITING, MATCHED, CANCELLED } state_t;

typedef struct wrecv {
    uint8_t state;
    bool is_cancelled; /* MPI_Cancel was called, the answer is open */
    bool is_skipped;   /* passed over: it must turn out cancelled */
    int8_t msg;        /* MATCHED */
    int8_t landed;     /* message whose data is in its memory; -1: none */
    uint8_t use;       /* of the memory */
    int32_t source;
    int32_t tag;
    uint32_t order;
} wrecv_t;

typedef struct wmsg {
    uint8_t state;
    bool is_long;
    bool is_named;
    bool is_unexpected; /* in the matcher */
    int8_t recv;        /* MATCHED */
    int32_t source;
    int32_t tag;
    uint32_t order;
} wmsg_t;

/* What a sender sends in order, and what it is told. */
typedef enum kind { K_MSG, K_NAMED, K_GONE, K_OFFER, K_WITHDRAW, K_CREDIT } kind_t;

typedef struct item {
    uint8_t kind;
    int8_t msg;
    uint16_t count;
    uint32_t id;
    uint64_t tag, mask, len;
} item_t;

typedef struct queue {
    uint32_t num;
    item_t item[OFFERS_QUEUE];
} queue_t;

typedef struct source {
    fab_ofi_source_t source;
    fab_ofi_offers_t offers;
    fab_ofi_sent_t sent_tags[OFFERS_WINDOW];
    uint16_t sent, taken;
    uint16_t consumed;
    queue_t out, in; /* to the receiver, from it */
    queue_t data;    /* tagged messages on their way, in order */
} source_t;

/* A tagged receive that libfabric has. */
typedef struct trecv {
    bool is_used;
    bool is_ended; /* its entry is in the completion queue */
    fab_ofi_place_t *place;
    int8_t recv; /* whose memory; -1: nobody's */
    uint8_t use;
    uint32_t id;
    uint32_t order;
} trecv_t;

typedef struct completion {
    uint8_t trecv;
    bool is_cancelled;
    int8_t msg;
} completion_t;

typedef struct offers_world {
    fab_offload_t engine;
    fab_offload_scope_t scope;
    fab_match_dom_t dom;
    fab_match_short_t posted_short;
    fab_ofi_places_t places;
    fab_ofi_place_t place[OFFERS_PLACES];
    fab_ofi_signal_t signal[16];
    source_t source[OFFERS_SOURCES];
    fab_offload_recv_t recv[OFFERS_RECVS];
    fab_match_msg_t msg[OFFERS_MSGS];
    char memory[OFFERS_RECVS]; /* only its address is used */
    wrecv_t wrecv[OFFERS_RECVS];
    wmsg_t wmsg[OFFERS_MSGS];
    /* libfabric */
    trecv_t trecv[OFFERS_PLACES];
    uint32_t num_cancels;
    uint32_t cancels[OFFERS_QUEUE]; /* of tagged receives, by order; to be executed, in order */
    uint32_t num_unclaimed;
    item_t unclaimed[OFFERS_QUEUE]; /* tagged messages that no receive was there for */
    uint32_t num_completions;
    completion_t completion[OFFERS_QUEUE];
    uint32_t refusals; /* tagged receives to refuse */
    bool is_silent;    /* no sender can be told anything */
    uint32_t order;
    unsigned long named, in_vain, landed_first; /* what has happened */
    const char *error;
    fab_tm_cmd_t ring[OFFERS_RING];
    fab_offload_filter_t filter[2];
} offers_world_t;

void offers_init(offers_world_t *w);
void offers_fini(offers_world_t *w);

/* Post receive i, which is free, for this source or FAB_MATCH_ANY. */
void offers_post(offers_world_t *w, unsigned i, int32_t source, int32_t tag, size_t len);
void offers_cancel(offers_world_t *w, unsigned i);
/* Message i, which is free, is sent. False: the window is used up. */
bool offers_send(offers_world_t *w, unsigned i, int32_t source, int32_t tag, bool is_long);

/* One thing happens; false: there is none. */
bool offers_tell_sender(offers_world_t *w, unsigned source); /* it hears what it is told next */
bool offers_credit(offers_world_t *w, unsigned source); /* it is to hear what was taken of it */
bool offers_data(offers_world_t *w, unsigned source);   /* its next tagged message comes */
bool offers_execute_cancel(offers_world_t *w);
/* Poll: the message that is next from the source, and this completion, if there are such. */
bool offers_poll(offers_world_t *w, unsigned source, unsigned msgs, unsigned completion,
                 unsigned completions);

/* All comes to its end; then nothing may be left open. */
void offers_settle(offers_world_t *w);

#endif /* TM_OFFERS_WORLD_H */
