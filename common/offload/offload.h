/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hardware tag matching: decides which posted receives are on a device's list, and ensures that
 * software and device never match two messages to one receive, or messages out of order.
 *
 * One fab_offload_t per device (TM-SRQ), one fab_offload_scope_t per communicator beside its
 * matching domain, one fab_offload_recv_t in every receive request.  A state machine without input
 * or output: it knows no MPI object, no verbs, no memory registration.  The matcher holds every
 * posted receive; the engine also lists some of them.
 *
 * Two sides call it:
 *  - the user (pml_tm): fab_offload_post(), _arrive(), _keep(), _cancel(), and _next() for events;
 *  - the driver of the device (verbs): _poll_begin(), _handled(), _matched(), _done(), _poll_end(),
 *    _idle(), _fail(), and ops->post, through which commands leave.
 *
 * Rules for the caller, each explained in doc/offload.md:
 *  - completions are reported in the order in which the device gave them;
 *  - an unexpected message is matched, with fab_offload_arrive() and if need be fab_offload_keep(),
 *    before fab_offload_handled();
 *  - a receive is listable only if every message that can match it comes through this device, with
 *    its tag (messages from a source of another path excepted);
 *  - after completions and after fab_offload_fail(), call fab_offload_next() until it returns
 *    false.
 *
 * Costs: every call is O(1), except fab_offload_fail() and the hand-over of commands by a flush.
 * Only the two inits allocate memory.
 *
 * Threads: none inside.  The caller serialises all calls on one engine and its scopes, including
 * calls of the matcher.
 */
#ifndef FAB_OFFLOAD_H
#define FAB_OFFLOAD_H

#include "match/match.h"
#include "offload_types.h"

/*
 * Initialise an engine in the caller's memory; it must not move.  False: no memory, or unusable
 * limits (max_tags 0, max_ops below 4, report_every not 1 to 2^14): then use no engine.
 */
bool fab_offload_init(fab_offload_t *engine, const fab_offload_config_t *config);

/*
 * No receive may be listed: all are complete, or fab_offload_fail() was called and all events were
 * fetched.
 */
void fab_offload_fini(fab_offload_t *engine);

/* Initialise the scope of a domain.  False: no memory. */
bool fab_offload_scope_init(fab_offload_scope_t *scope, fab_offload_t *engine,
                            fab_match_dom_t *dom);

/*
 * None of the scope's receives may be QUEUED or below; nothing may be parked.  WAITING and PLAIN
 * receives are dropped.
 */
void fab_offload_scope_fini(fab_offload_scope_t *scope);

/*
 * Post a receive for which there is no unexpected message: fab_match_take(scope->dom, ...) returned
 * NULL.
 * reason: FAB_OFFLOAD_LISTABLE, or why it must not be listed; OTHER_PATH means that its source is
 * not reached through the device.
 */
void fab_offload_post(fab_offload_scope_t *scope, fab_offload_recv_t *recv, int32_t source,
                      int32_t tag, fab_offload_reason_t reason);

/*
 * A receive that the device has need not be in the matcher until somebody looks there.  Before any
 * call on scope->dom that is about posted receives: file all.
 */
void fab_offload_file(fab_offload_scope_t *scope);

/*
 * Match a message. by_device: it came unexpected through the scope's device, with its tag;
 * otherwise it came by another path, or untagged.  Returns its receive, or NULL: then call
 * fab_offload_keep().
 */
fab_offload_recv_t *fab_offload_arrive(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                       bool by_device);

/*
 * Keep a message for which fab_offload_arrive() returned NULL, without another call on the scope in
 * between.  The message becomes unexpected, and probes find it.  If a receive is being removed from
 * the list, the message is parked instead: it is invisible until an event delivers it or it becomes
 * unexpected.
 */
void fab_offload_keep(fab_offload_scope_t *scope, fab_match_msg_t *msg, int32_t source, int32_t tag,
                      bool by_device);

/*
 * As fab_match_withdraw(), of parked messages, too.  NULL may also mean that a DEL is under way on
 * the message's behalf: an event will deliver or withdraw it.
 */
fab_match_msg_t *fab_offload_withdraw(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                      fab_match_is_fn_t is_it, const void *ctx);

/* Receives that the device has matched, whose data is still to come. */
unsigned fab_offload_num_matched(const fab_offload_t *engine);

/* MPI_Cancel of any receive, posted or not. */
fab_offload_cancel_t fab_offload_cancel(fab_offload_scope_t *scope, fab_offload_recv_t *recv);

/* ---- completions -------------------------------------------------------- */

/* Begin and end polling: in between no command is handed to the device. poll_end flushes. */
static inline void fab_offload_poll_begin(fab_offload_t *engine)
{
    engine->is_polling = true;
}

void fab_offload_poll_end(fab_offload_t *engine);

/*
 * fab_offload_poll_end(), _next() and _idle() in one, for a poll that found nothing; earlier events
 * were fetched.  False: there is something to do, call these.
 */
bool fab_offload_poll_end_quiet(fab_offload_t *engine);

/*
 * An unexpected message that the device counts (tag, eager or rendezvous) is visible to matching:
 * matched, or kept.
 */
static inline void fab_offload_handled(fab_offload_t *engine)
{
    engine->handled++;
}

/*
 * While true, post no receive buffers to the device: a command under way may be so old that its
 * 16-bit count would become ambiguous.  Correct if the device has fewer than 2^15 buffers (twice
 * report_every).
 */
static inline bool fab_offload_must_hold(const fab_offload_t *engine)
{
    return engine->handled - engine->acked >= 2 * engine->config.report_every;
}

/*
 * The device matched recv (the recv_wr_id). has_data: this is the last completion for it, with
 * data, an incomplete rendezvous or an error; false: the first of two completions.  Returns NOTHING
 * (the receive is not the caller's yet, though its status is known), COMPLETE, or BROKEN.
 */
fab_offload_result_t fab_offload_matched(fab_offload_recv_t *recv, bool has_data);

/* A signaled command completed: its wr_id, and whether it succeeded. */
fab_offload_event_t fab_offload_done(fab_offload_t *engine, uint64_t wr_id, bool is_success);

/* Get the next event; false: none. */
bool fab_offload_next(fab_offload_t *engine, fab_offload_event_t *event);

/* A poll found nothing: report any unexpected messages, so that the list is in use again. */
void fab_offload_idle(fab_offload_t *engine);

/*
 * The device has failed: no more messages or matches come from it.  Listed receives return to
 * software; fab_offload_next() reports those that were under way.  No more commands are handed
 * over.
 */
void fab_offload_fail(fab_offload_t *engine);

#endif /* FAB_OFFLOAD_H */
