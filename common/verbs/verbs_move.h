/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer to which no connection can be made moves to another pair of ports (verbs_pair.h), and
 * after the last one to the next provider.  Only while it is not bound: nothing is on its way.  Or
 * if a connection broke whose messages are kept (verbs_keep.h), but to other ports alone.
 *
 *      this process   its attempt has failed or was refused: the next pair
 *      the other      HELLO names a later pair than its own: that one; an earlier one: REFUSE, and
 *                     the asking process takes its next
 *
 * Neither goes back to an earlier pair, so both meet.
 */
#ifndef FAB_VERBS_MOVE_H
#define FAB_VERBS_MOVE_H

#include "verbs/verbs_types.h"

/* The peer asks for a connection by this pair.  False: it cannot be. */
bool fab_verbs_move_to(fab_verbs_ep_t *ep, uint32_t pair);
/* Peers whose failure was noted fail, or move.  Returns their number. */
int fab_verbs_move_or_fail(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_MOVE_H */
