/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hardware tag matching: which posted receives are on a device's list, and how software and device
 * never give one receive two messages, or messages out of order.
 *
 * One fab_offload_t per device (TM-SRQ), one fab_offload_scope_t per communicator beside its
 * matching domain, one fab_offload_recv_t in every receive request.  A state machine that does no
 * input or output: it knows no MPI object, no verbs, no memory registration.  The matcher holds every
 * posted receive; the engine lists some of them besides.
 *
 * Three sides call it:
 *  - whoever matches (pml_tm): fab_offload_post(), _arrive(), _keep(), _cancel(), and what _next()
 *    hands out;
 *  - the driver of the device (verbs): _poll_begin(), _handled(), _matched(), _done(), _poll_end(),
 *    _idle(), _fail(), and ops->post, by which commands leave;
 *  - both: _flush() after anything, which is where commands leave.
 *
 * Rules for the caller, each explained in doc/offload.md:
 *  - completions are passed on in the order in which the device gave them;
 *  - an unexpected message is matched, with fab_offload_arrive() and if need be fab_offload_keep(),
 *    before fab_offload_handled();
 *  - a receive is listable only if every message that can match it, and is not from a source of
 *    another path, comes through this device with its tag;
 *  - after completions and after fab_offload_fail(), call fab_offload_next() until it returns
 *    false.
 *
 * Costs: every call is O(1), but for fab_offload_fail() and what a flush hands over.  No call
 * allocates, but for the two inits.
 *
 * Threads: none inside.  The caller serialises all calls on one engine and its scopes, the
 * matcher's included.
 */
#ifndef FAB_OFFLOAD_H
#define FAB_OFFLOAD_H

#include "match/match.h"
#include "offload_types.h"

/*
 * Prepare an engine in the caller's memory, where it stays.  False: no memory, or limits of no use
 * (max_tags 0, max_ops below 4, report_every not 1 to 2^14): then use no engine.
 */
bool fab_offload_init(fab_offload_t *engine, const fab_offload_config_t *config);

/*
 * Nothing may be listed: all receives are done, or fab_offload_fail() was called and all events
 * fetched.
 */
void fab_offload_fini(fab_offload_t *engine);

/*
 * Prepare the scope of a domain.  engine NULL: nothing is ever listed, at the price of a pointer.
 * False: no memory; the scope is then one without engine.
 */
bool fab_offload_scope_init(fab_offload_scope_t *scope, fab_offload_t *engine,
                            fab_match_dom_t *dom);

/*
 * None of the scope's receives may be QUEUED or below; nothing may be parked.  WAITING and PLAIN
 * ones are forgotten.
 */
void fab_offload_scope_fini(fab_offload_scope_t *scope);

/*
 * The receive was posted: fab_match_post(scope->dom, &recv->match, ...) returned NULL just now.
 * reason: FAB_OFFLOAD_LISTABLE, or why it must not be listed; OTHER_PATH is for a receive from a
 * source that is not behind the device. The scope has an engine.
 */
void fab_offload_post(fab_offload_scope_t *scope, fab_offload_recv_t *recv,
                      fab_offload_reason_t reason);

/* fab_offload_arrive() and fab_offload_keep() for a scope with an engine. */
fab_offload_recv_t *fab_offload_arrive_engine(fab_offload_scope_t *scope, int32_t source,
                                              int32_t tag, bool by_device);
void fab_offload_keep_engine(fab_offload_scope_t *scope, fab_match_msg_t *msg, int32_t source,
                             int32_t tag, bool by_device);

/*
 * A message is to be matched.  by_device: it came unexpected through the scope's device, with its
 * tag; otherwise by another path, or untagged.  Returns the receive that takes it, or NULL: then
 * fab_offload_keep() it.
 */
static inline fab_offload_recv_t *fab_offload_arrive(fab_offload_scope_t *scope, int32_t source,
                                                     int32_t tag, bool by_device)
{
    if (__builtin_expect(NULL != scope->engine, 0)) {
        return fab_offload_arrive_engine(scope, source, tag, by_device);
    }
    return (fab_offload_recv_t *) fab_match_arrive(scope->dom, source, tag);
}

/*
 * Keep a message for which fab_offload_arrive() returned NULL, with nothing done in the scope in
 * between.  It is unexpected, and probes find it; or, if a receive is being taken off the list, it
 * is parked: invisible until an event delivers it or it becomes unexpected.
 */
static inline void fab_offload_keep(fab_offload_scope_t *scope, fab_match_msg_t *msg,
                                    int32_t source, int32_t tag, bool by_device)
{
    if (__builtin_expect(NULL != scope->engine, 0)) {
        fab_offload_keep_engine(scope, msg, source, tag, by_device);
    } else {
        fab_match_add_msg(scope->dom, msg, source, tag);
    }
}

/*
 * A sender wants a message back that no receive has: the oldest with this source and tag for which
 * is_it() says so.  Returns it, out of the domain; or NULL: it is not there, or the device is asked
 * for a receive on its behalf, and an event will deliver it or give it back.
 */
typedef bool (*fab_offload_is_fn_t)(const fab_match_msg_t *msg, const void *ctx);
fab_match_msg_t *fab_offload_withdraw(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                      fab_offload_is_fn_t is_it, const void *ctx);

/* MPI_Cancel.  Of any receive, posted or not. */
fab_offload_cancel_t fab_offload_cancel(fab_offload_scope_t *scope, fab_offload_recv_t *recv);

/* ---- completions -------------------------------------------------------- */

/* Polling begins and ends: in between nothing is handed to the device.  poll_end flushes. */
static inline void fab_offload_poll_begin(fab_offload_t *engine)
{
    engine->is_polling = true;
}

void fab_offload_poll_end(fab_offload_t *engine);

/*
 * An unexpected message that the device counts (tag, eager or rendezvous) is visible to matching:
 * matched, or kept.
 */
static inline void fab_offload_handled(fab_offload_t *engine)
{
    engine->handled++;
}

/*
 * Return no more buffers for unexpected messages to the device until this is false: a command that
 * is under way may be so old that its count is about to have a second meaning.  Sound if the device
 * has fewer than 2^15 buffers (twice report_every).
 */
static inline bool fab_offload_must_hold(const fab_offload_t *engine)
{
    return engine->handled - engine->acked >= 2 * engine->config.report_every;
}

/*
 * The device matched recv (the recv_wr_id).  has_data: nothing more is to come for it, be it data,
 * an incomplete rendezvous or an error; false: the first of two completions. NOTHING: not yet the
 * caller's, though its status is known; COMPLETE; BROKEN.
 */
fab_offload_result_t fab_offload_matched(fab_offload_recv_t *recv, bool has_data);

/* A signaled command completed: its wr_id, and whether it succeeded. */
fab_offload_event_t fab_offload_done(fab_offload_t *engine, uint64_t wr_id, bool is_success);

/* The next event that is due; false: none. */
bool fab_offload_next(fab_offload_t *engine, fab_offload_event_t *event);

/* ---- commands ----------------------------------------------------------- */

/* List what may now be listed, hand commands to the device, report if it is time to. */
void fab_offload_flush(fab_offload_t *engine);

/*
 * The same when a poll found nothing: reports any unexpected messages, so that the list is in use
 * again.
 */
void fab_offload_idle(fab_offload_t *engine);

/*
 * The device is gone: nothing more arrives through it, nothing more is matched by it.  Listed
 * receives become software's; fab_offload_next() tells about those that were under way.  No command
 * is handed over any more.
 */
void fab_offload_fail(fab_offload_t *engine);

/* A sentence for a counter of fab_offload_counters_t.reason. */
const char *fab_offload_reason_text(fab_offload_reason_t reason);

#endif /* FAB_OFFLOAD_H */
