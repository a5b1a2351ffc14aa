/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: messages of more than 8 KiB, up to 128 KiB, of blocking sends between processes of a
 * host, which go through the ring in fragments, so that the receiver copies one out while the
 * sender copies the next one in; or, where they share a processor, later.
 *
 *   sender                                               receiver
 *   RNDV {rndv, bytes}, app_ctx: 0                   ->  matched, or gathered
 *   DATA {bytes}, app_ctx: 0, tag: offset            ->  into the user's buffer, or gathered
 *   ... until all bytes are out
 *
 * A blocking send, which polls until all is out, sends fragments as there is room, and is first in
 * the peer's queue meanwhile.  A nonblocking one, where processes share a processor, sends all of
 * them at once, if there is room.  So nothing of the same sender comes in between, a receiver has
 * at most one stream open for each sender, and a fragment need not name it.
 *
 * A message whose receive is not posted when its first fragment comes is gathered in memory, and
 * arrives when all of it is there: then it is matched as any other.
 */
#ifndef PML_TM_STREAM_H
#define PML_TM_STREAM_H

#include "pml_tm/base/pml_tm_sizes.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_request.h"

/*
 * Is the message of a request streamed?  In a blocking send, which polls until all of it is out:
 * then the copies of both sides are under way at the same time.  Above the eager limit (is_long) a
 * nonblocking send announces it, since the receiver can then read it while the sender computes.  If
 * the receiver has found that to be faster, a blocking send announces it, too, and either one a
 * message that is not long, but above mca_pml_tm.whole_limit.
 *
 * Where processes share a processor, an answer costs a change from one to the other and back, which
 * takes longer than a copy: what the ring easily takes goes with its data, by a nonblocking send if
 * there is room for all of it.
 *
 * A request that has an id was to be announced, or is synchronous, before it was held back.
 *
 * If there is room for all fragments now, the ring keeps it free for them: it does not wrap early.
 * *is_announced is set if the message is not streamed since it is to be announced.  Lock held.
 */
bool mca_pml_tm_stream_takes(const mca_pml_tm_send_request_t *req, bool is_long,
                             bool *is_announced);

/*
 * Send the message of a request, from its offset on, while there is room; from the first fragment
 * to the last its item is the first in the peer's queue, so that nothing comes in between.
 * OPAL_ERR_RESOURCE_BUSY: more is left.  Lock held.
 */
int mca_pml_tm_stream_send(mca_pml_tm_send_request_t *req);

/* A message of id FAB_AM_RNDV with more than a fab_rndv_t in it.  Lock held. */
void mca_pml_tm_stream_begin(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

/* A message of id PML_TM_AM_DATA that names no receive.  Lock held. */
void mca_pml_tm_stream_data(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len);

/* The peer failed: nothing more comes of it.  Lock held. */
void mca_pml_tm_stream_drop(const fab_peer_t *peer);

/* Receives whose message is arriving.  Lock held. */
unsigned mca_pml_tm_stream_count(void);

/* Free what is left when the component closes. */
void mca_pml_tm_stream_fini(void);

#endif /* PML_TM_STREAM_H */
