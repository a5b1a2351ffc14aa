/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection ends in order.  Each side sees what the other sent in the order of sending.
 *
 *      CLOSE   the sender is done with the peer.  Answer: CLOSED
 *      EVICT   the sender gives up the connection, for another one (verbs_evict.c).  Answer: EVICTED,
 *              or STAY if the connection is busy
 *
 * Who has asked sends no messages until the answer comes, and takes those that come before it: so
 * whichever side ends the connection has all that the other sent.  Two EVICT that cross answer
 * each other, as do two CLOSE.  A side that has sent EVICT may send CLOSE after it, and one that
 * has sent CLOSE declines EVICT: its CLOSE ends the connection.
 *
 * This is all that decides it; test/unit/test_verbs_end.c tries all interleavings of two sides.
 */
#ifndef FAB_VERBS_END_H
#define FAB_VERBS_END_H

#include "verbs/verbs_wire.h"

/* The state of this side, as flags. */
enum {
    FAB_VERBS_SIDE_EVICTING = 1, /* has sent EVICT, which is not answered */
    FAB_VERBS_SIDE_CLOSING = 2,  /* has sent CLOSE */
    FAB_VERBS_SIDE_BUSY = 4,     /* uses the connection in another way than for messages */
};

typedef enum fab_verbs_end {
    FAB_VERBS_END_AGREE,   /* send EVICTED; the connection has ended */
    FAB_VERBS_END_DECLINE, /* send STAY */
    FAB_VERBS_END_OVER,    /* the connection has ended */
    FAB_VERBS_END_GO_ON,   /* EVICT was declined: send messages again */
    FAB_VERBS_END_CLOSED,  /* send CLOSED, as soon as that can be; the connection has ended then */
    FAB_VERBS_END_WRONG,   /* the other side violates this protocol */
} fab_verbs_end_t;

/* id came: EVICT, EVICTED, STAY, CLOSE or CLOSED. */
fab_verbs_end_t fab_verbs_on_end(unsigned side, uint8_t id);

#endif /* FAB_VERBS_END_H */
