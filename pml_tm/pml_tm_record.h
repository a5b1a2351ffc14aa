/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the recorder (fab_look.h) is told of messages.
 *
 * Level 1: messages that were announced, and sends that had to wait; short ones cost nothing.
 * Level 2: each message, when it is sent and when it has arrived, with its number among those from
 * one process to the other: they arrive in the order in which they were sent, so both count alike.
 *
 * Arrivals are seen by handlers in front of those of pml_tm_arrive.c and others.  At level 2 no
 * message may go another way: the fast paths around the handlers, and the device that matches tags,
 * are not used.
 *
 * Lock: the fabric's.
 */
#ifndef PML_TM_RECORD_H
#define PML_TM_RECORD_H

#include "fabric/fab_look.h"

#include "pml_tm.h"

/* The handler in front of this one for messages with this id, or this one itself. */
fab_am_fn_t mca_pml_tm_record_handler(uint8_t id, fab_am_fn_t fn);

/* Is each message recorded? */
static inline bool mca_pml_tm_records_all(void)
{
    return OPAL_UNLIKELY(fab_records(mca_pml_tm.fab, 2));
}

/*
 * A message on its way out.  Its time is taken before it is sent, since it may arrive before this
 * call has returned.
 */
typedef struct mca_pml_tm_record_out {
    uint64_t ns;
    const fab_peer_t *peer;
    uint64_t tag;
    size_t bytes;
} mca_pml_tm_record_out_t;

/* It is sent now. */
mca_pml_tm_record_out_t mca_pml_tm_record_out(const fab_peer_t *peer, uint64_t tag, size_t bytes);

/* It was announced, with this id; it was sent with its data. */
void mca_pml_tm_record_announced(const mca_pml_tm_record_out_t *out, uint32_t id);
void mca_pml_tm_record_sent(const mca_pml_tm_record_out_t *out);

/* Something happened to a message, with this fabric tag, to or from the peer; id: its sender's. */
void mca_pml_tm_record(fab_event_kind_t kind, const fab_peer_t *peer, uint64_t tag, uint32_t id,
                       size_t bytes);

/* Something happened that is of no message. */
void mca_pml_tm_record_peer(fab_event_kind_t kind, const fab_peer_t *peer);
void mca_pml_tm_record_comm(fab_event_kind_t kind, uint32_t context, int32_t size);

/* Free what is left when the component closes. */
void mca_pml_tm_record_fini(void);

#endif /* PML_TM_RECORD_H */
