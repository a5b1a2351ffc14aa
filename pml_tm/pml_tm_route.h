/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The route of messages longer than the eager limit, up to params.stream_whole, to a process of
 * this host: streamed whole through the ring (pml_tm_stream.h), or announced, and read from the
 * sender's memory: up to 64 KiB at once, by one system call, and more by a get of which the sender
 * may copy a part.
 *
 *   sender                                               receiver
 *   RNDV {rndv, now: 0, sent_at}, app_ctx: id        ->  reads all of it
 *                                                    <-  FIN
 *   or a stream of the whole message {now, sent_at}  ->
 *                                   if sent_at is set:
 *                                                    <-  TOOK, app_ctx: the route, tag: bytes, ns
 *
 * Which is faster depends on how far apart the processors are and on the length, and no side alone
 * sees it: the sender may write fast what the receiver reads slowly.  So the sender tries both, for
 * each receiver and each of four classes of lengths (fab_trial.h).  A message that is a try says
 * when it was sent, and a receiver that had posted the receive answers how long that is ago when
 * all data is there.  If the message was sent behind others, or the receiver was late, since it
 * computed or sent itself, it says how long its own part took.  To that of a stream the sender adds
 * the time that it needed to write it, if messages go both ways, so that each process has to do
 * both; else the longer one of the two counts.  (If two processes' clocks differ, as those of two
 * time namespaces do, the receiver always seems late.)
 *
 * Where two processes send each other such messages at the same time, the two routes may be equally
 * good, but one each way is not: then one process writes, and reads the other's messages as well,
 * while the other one has nothing to do.  So where neither route is clearly faster, the process
 * with the lower name uses the route that the other one uses.
 *
 * No message is a try before all of the ring's memory was used, since a first access may take
 * longer than all else.  Without times messages are streamed.
 */
#ifndef PML_TM_ROUTE_H
#define PML_TM_ROUTE_H

#include "fabric/fab_trial.h"

#include "pml_tm_request.h"

enum {
    PML_TM_ROUTE_STREAM = 0,
    PML_TM_ROUTE_READ = 1,
    PML_TM_ROUTE_CLASSES = 4, /* of lengths */
};

/* Which route messages of a class take to a peer; all zero: nothing is known. */
typedef struct mca_pml_tm_route {
    fab_trial_t trial;
    uint64_t tried_at; /* ns; when the last try was sent */
    uint32_t wrote;    /* ns that the last try that was streamed took to write */
    bool is_try;       /* the next message is */
    bool has_theirs;   /* the peer has sent such messages here, too, */
    uint8_t theirs;    /* the last one by this route */
} mca_pml_tm_route_t;

/* What is known of a peer. Lock: the fabric's. */
typedef struct mca_pml_tm_routes {
    mca_pml_tm_route_t by_class[PML_TM_ROUTE_CLASSES];
    unsigned sent;     /* messages that took a route, lately */
    unsigned received; /* ... that came for a posted receive */
} mca_pml_tm_routes_t;

/*
 * Is reading the faster route for a message of this length to the peer, or is that to be tried?
 * The peer has FAB_CAP_RING and FAB_CAP_GET.  Nothing changes until mca_pml_tm_route_take().  Lock
 * held.
 */
bool mca_pml_tm_route_is_read(fab_peer_t *peer, size_t len);

/*
 * A message takes the route that mca_pml_tm_route_is_read() named last for its length.  Returns
 * what is to be sent as sent_at, 0: it is not a try.  Lock held.
 */
uint32_t mca_pml_tm_route_take(fab_peer_t *peer, size_t len);

/* A message with this sent_at, not 0, that is streamed has been written. */
void mca_pml_tm_route_wrote(fab_peer_t *peer, size_t len, uint32_t sent_at);

/* A message with this sent_at, or 0, has come by the route, for a receive that is posted. */
mca_pml_tm_asked_time_t mca_pml_tm_route_seen(fab_peer_t *peer, unsigned route, size_t len,
                                              uint32_t sent_at);

/* It is complete, and asked.since is not 0: tell its sender.  Lock held. */
void mca_pml_tm_route_answer(fab_peer_t *peer, unsigned route, size_t len,
                             mca_pml_tm_asked_time_t asked);

/* PML_TM_AM_TOOK */
void mca_pml_tm_route_took(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                           size_t len);

#endif /* PML_TM_ROUTE_H */
