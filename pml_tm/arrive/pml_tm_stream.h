/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: messages of more than 8 KiB between processes of a host, up to the eager limit, in
 * blocking sends up to 128 KiB, which go through the ring in fragments, so that the receiver copies
 * one out while the sender copies the next one in; or, where they share a processor, later.
 *
 *   sender                                               receiver
 *   RNDV {rndv, bytes}, app_ctx: 0                   ->  matched, or gathered
 *   DATA {bytes}, app_ctx: 0, tag: offset            ->  into the user's buffer, or gathered
 *   ... until all bytes are out
 *
 * Up to the eager limit all fragments are sent in one go, when there is room for all of them.  A
 * blocking send, which polls until all is out, sends them as there is room, and is first in the
 * peer's queue meanwhile.  So nothing of the same sender comes in between, a receiver has at most
 * one stream open for each sender, and a fragment need not name it.
 *
 * Where processes share a processor, messages of up to half of the ring are streamed, of
 * nonblocking sends those for all of which there is room (goes_streamed()).
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
 * Is a message of this length, which is sent with its data, to be streamed, if there is room?  One
 * that is not longer than a fragment has nothing to overlap.
 */
static inline bool mca_pml_tm_stream_is_for(const fab_peer_t *peer, size_t len)
{
    return OPAL_UNLIKELY(len > PML_TM_STREAM_MIN) && mca_pml_tm_peer_has_streams(peer) &&
           len <= mca_pml_tm.stream_limit;
}

/*
 * The whole of a message without an id. False: there is no room for it now, nothing was done. data
 * NULL: it is packed. Lock held, nothing queued before it.
 */
bool mca_pml_tm_stream_send(fab_peer_t *peer, uint64_t tag, const char *data, size_t len,
                            const void *buf, size_t count, ompi_datatype_t *datatype);

/* Is there room for the whole message of a request now?  Lock held. */
bool mca_pml_tm_stream_fits(mca_pml_tm_send_request_t *req);

/*
 * The message of a request, from its offset on, while there is room; from the first fragment to
 * the last its item is the first in the peer's queue, so that nothing comes in between.
 * OPAL_ERR_RESOURCE_BUSY: more is left.  Lock held.
 */
int mca_pml_tm_stream_request(mca_pml_tm_send_request_t *req);

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
