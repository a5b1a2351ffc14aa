/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rails: long data that this process reads from a peer is divided over several pairs of ports.
 *
 * Messages go over the peer's one connection, in order; so does all that is not said here.  The
 * first long get from the peer, of FAB_VERBS_RAIL_MIN bytes, makes connections by further ports,
 * too: an endpoint for each, in the list ep->rails of the one that is the peer's.  Both sides find
 * the same pairs of ports for them:
 *
 *      rail 1, 2, ...   in the order of verbs_pair.h, those of two further ports that may have a
 *                       share (FAB_VERBS_ADDR_SHARE), neither of which an earlier rail has
 *
 * and either side may ask for the connection (RAIL), which then serves both.  A process that has
 * it adds to the key of long memory that the peer may read one key for each port of a rail.  So
 * who reads that has the first connection and the rails for which there is a key: each reads a
 * share, by the speeds of their ports.
 *
 * A READ can be done again.  What a rail has not read when it fails, its share or what is left of
 * it in the queue, the first connection reads; the rail is not used again.
 *
 *      no rails   where the first connection is not by the first ports of both: the peer has moved
 *                 to others as those failed; with verbs_max_connections; iWARP
 */
#ifndef FAB_VERBS_RAILS_H
#define FAB_VERBS_RAILS_H

#include "verbs/verbs_types.h"

/* Give each rail of the endpoint, if it can be used, a share of this get, which is not queued. */
void fab_verbs_rails_share(fab_verbs_ep_t *ep, fab_verbs_op_t *op);
/* The rail that the peer asks for.  NULL: there is no such one, or no more. */
fab_verbs_ep_t *fab_verbs_rail_asked(fab_verbs_ep_t *ep, uint32_t pair);
/*
 * A rail's failure was noted: end it, and tell the peer, whose device may wait for ever.  False:
 * not possible yet, call it again.
 */
bool fab_verbs_rail_fail(fab_verbs_ep_t *rail, uint64_t now);
/* The peer says that a rail has failed. */
void fab_verbs_rail_failed_there(fab_verbs_ep_t *ep, uint32_t pair);
/*
 * The peer's connection ends, or moves: its rails are not used any more.  What they have not begun
 * is given back, what is under way goes on.
 */
void fab_verbs_rails_end(fab_verbs_ep_t *ep);
/* The same, and nothing goes on.  False: it has not ended yet, call it again. */
bool fab_verbs_rails_drain(fab_verbs_ep_t *ep, uint64_t now);

#endif /* FAB_VERBS_RAILS_H */
