/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI message matching: posted receives on one side, unexpected messages on the other.
 *
 * One fab_match_dom_t is one matching domain (one communicator).  The matcher knows no transport,
 * no MPI object and no allocator.  Posted receives and unexpected messages are nodes embedded in
 * the caller's structures; the caller always owns them, and the domain only links them.
 *
 * Semantics (MPI 4.0, 3.5 and 3.8):
 *  - a message (source, tag) fits a receive whose source is equal or FAB_MATCH_ANY and whose tag is
 *    equal or FAB_MATCH_ANY;
 *  - FAB_MATCH_ANY as a tag fits only tags >= 0: negative tags are internal (collectives) and must
 *    be named exactly;
 *  - an arriving message takes the oldest posted receive that it fits;
 *  - a posted receive, a probe or a matched probe takes the oldest unexpected message that fits it,
 *    in order of arrival.
 *
 * Costs: every call is O(1), whatever the number of posted receives and unexpected messages,
 * wildcards included.  The one exception occurs at most twice in a domain's life: the first search
 * for (source, ANY), and the first for (ANY, tag), that finds more than FAB_MATCH_UNFILED_MAX
 * messages waiting files them all under that pattern in one walk.  No call fails: without memory
 * for a larger index the present one is kept, at the price of longer chains.
 *
 * Threads: none inside.  The caller serialises all calls on one domain.
 */
#ifndef FAB_MATCH_H
#define FAB_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "match_types.h"

/* MPI_ANY_SOURCE and MPI_ANY_TAG as Open MPI defines them; never the source or tag of a message. */
#define FAB_MATCH_ANY (-1)

/*
 * Initialise an empty domain in the caller's memory.  It points to itself and must not move.
 * Allocates nothing.
 */
void fab_match_init(fab_match_dom_t *dom);

/*
 * Release the domain's indexes.  Nodes that are still linked are not freed: if they must be
 * released, drain them first.
 */
void fab_match_fini(fab_match_dom_t *dom);

/* A receive begins: the oldest unexpected message that fits, unlinked, or NULL: then post it. */
fab_match_msg_t *fab_match_take(fab_match_dom_t *dom, int32_t source, int32_t tag);

/*
 * Post a receive for which there is no message: recv is linked until fab_match_arrive() returns it
 * or fab_match_cancel() removes it.  recv must not be posted already; its content does not matter.
 */
void fab_match_post(fab_match_dom_t *dom, fab_match_recv_t *recv, int32_t source, int32_t tag);

/*
 * A message arrived.  Returns the oldest posted receive that fits, unlinked, or NULL: then
 * fab_match_add_msg() it.
 */
fab_match_recv_t *fab_match_arrive(fab_match_dom_t *dom, int32_t source, int32_t tag);

/* Queue a message for which fab_match_arrive() found no receive, with no post in between. */
void fab_match_add_msg(fab_match_dom_t *dom, fab_match_msg_t *msg, int32_t source, int32_t tag);

/* The oldest unexpected message that fits (source, tag), or NULL. It stays in the domain. */
fab_match_msg_t *fab_match_probe(fab_match_dom_t *dom, int32_t source, int32_t tag);

/* Remove from the domain an unexpected message that fab_match_probe() found (matched probe). */
void fab_match_remove_msg(fab_match_dom_t *dom, fab_match_msg_t *msg);

/*
 * Withdraw a message for its sender: the oldest unexpected one with this source and tag for which
 * is_it() is true, removed from the domain; or NULL: there is none.
 */
typedef bool (*fab_match_is_fn_t)(const fab_match_msg_t *msg, const void *ctx);
fab_match_msg_t *fab_match_withdraw(fab_match_dom_t *dom, int32_t source, int32_t tag,
                                    fab_match_is_fn_t is_it, const void *ctx);

/*
 * Remove a posted receive.  True: it was posted and is now unlinked.  False: it is not posted: it
 * was matched or cancelled before, or is zeroed memory.
 */
bool fab_match_cancel(fab_match_dom_t *dom, fab_match_recv_t *recv);

/*
 * List the sources of posted receives that can match user tags, in the order of posting, without
 * repeating the same source in a row; returns their number.  O(1): if not all receives are in the
 * short list, the result is the one entry FAB_MATCH_ANY.
 */
unsigned fab_match_wanted(const fab_match_dom_t *dom, int32_t sources[FAB_MATCH_SHORT_LEN]);

/*
 * Call fn for each posted receive, or each unexpected message, oldest first, until it returns
 * false.  fn must not change the domain.
 */
void fab_match_visit_recvs(const fab_match_dom_t *dom,
                           bool (*fn)(void *ctx, const fab_match_recv_t *recv), void *ctx);
void fab_match_visit_msgs(const fab_match_dom_t *dom,
                          bool (*fn)(void *ctx, const fab_match_msg_t *msg), void *ctx);

/* The oldest unexpected message, or NULL.  For draining a domain. */
fab_match_msg_t *fab_match_first_msg(const fab_match_dom_t *dom);

#endif /* FAB_MATCH_H */
