/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine.  Interface: offload.h; structures and states: offload_types.h; the rules and
 * why they are safe: doc/offload.md.
 *
 * From below: filters of unlisted receives, the ring of commands, listing, taking off the list,
 * messages, completions, failure.
 *
 * Invariants (outside of calls):
 *  - a receive is in the matcher in the states PLAIN to LISTED, and OUT while posted; not in
 *    MATCHED and below. But LISTED receives of scope->unfiled are not there yet: they are younger
 *    than all that are, and filed as soon as anybody looks;
 *  - if two receives overlap, the later one is QUEUED or LISTED only if the earlier one is no
 *    longer PLAIN or WAITING;
 *  - counts in the ring never decrease from head to tail, and none is below `reported` or above
 *    `handled`;
 *  - the ring has room for a DEL of each receive in listed_recvs;
 *  - scope->removing is the number of its receives that are CANCELLING or UNLISTING; messages are
 *    parked only while it is not zero, or while the scope is in engine->unpark.
 *
 * Memory is allocated in the two inits only.
 */
#include "offload.h"
#include "match/match_inl.h"
#include "match/match_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ANY FAB_MATCH_ANY

/* Scopes are on a list or point to themselves. */
static inline void scope_link(fab_match_list_t *list, fab_match_list_t *item)
{
    if (list_is_empty(item)) {
        list_insert(list, item);
    }
}

static inline void scope_unlink(fab_match_list_t *item)
{
    list_unlink(item);
    list_init(item);
}

/* Lists receives that may now be listed, hands over commands, reports the count if it is time. */
static void flush(fab_offload_t *engine, bool is_idle);

/* ---- filing in the matcher ----------------------------------------------- */

void fab_offload_file(fab_offload_scope_t *scope)
{
    while (!list_is_empty(&scope->unfiled)) {
        fab_match_recv_t *match = container_of(scope->unfiled.next, fab_match_recv_t, order);

        list_unlink(&match->order);
        fab_match_post(scope->dom, match, match->source, match->tag);
    }
    scope->num_unfiled = 0;
}

/*
 * May a receive that the device has stay out of the matcher?  Its depth is counted there, so not if
 * there have never been so many.
 */
static inline bool may_stay_unfiled(const fab_offload_scope_t *scope)
{
    return scope->dom->posted_count + scope->num_unfiled < scope->dom->posted_max;
}

static inline void unfile(fab_offload_scope_t *scope, fab_match_recv_t *match)
{
    if (FAB_MATCH_IDLE == match->where) {
        list_unlink(&match->order);
        scope->num_unfiled--;
    } else {
        fab_match_cancel(scope->dom, match);
    }
}

/* ---- filters ------------------------------------------------------------ */

static inline unsigned recv_pattern(const fab_match_recv_t *match)
{
    return (unsigned) (ANY == match->source) << 1 | (unsigned) (ANY == match->tag);
}

/* Negative tags are internal; a wildcard matches only the others. */
static inline bool is_internal(const fab_match_recv_t *match)
{
    return match->tag < 0 && ANY != match->tag;
}

static inline unsigned key_bucket(int32_t source, int32_t tag)
{
    const uint64_t key = (uint64_t) (uint32_t) source << 32 | (uint32_t) tag;

    return (unsigned) ((key * 0x9e3779b97f4a7c15ull) >> 56);
}

_Static_assert(256 == FAB_OFFLOAD_BUCKETS, "key_bucket() gives 8 bits");

static inline void filter_add(fab_offload_filter_t *filter, const fab_match_recv_t *match)
{
    filter->total[is_internal(match)]++;
    filter->pattern[recv_pattern(match)]++;
    filter->bucket[key_bucket(match->source, match->tag)]++;
}

static inline void filter_remove(fab_offload_filter_t *filter, const fab_match_recv_t *match)
{
    filter->total[is_internal(match)]--;
    filter->pattern[recv_pattern(match)]--;
    filter->bucket[key_bucket(match->source, match->tag)]--;
}

/*
 * Can a message match both this receive and one that the filter counts?  For a wildcard, every
 * receive of its tag class counts.
 */
static inline bool filter_overlaps(const fab_offload_filter_t *filter,
                                   const fab_match_recv_t *match)
{
    const int32_t source = match->source;
    const int32_t tag = match->tag;

    if (0 == filter->total[is_internal(match)]) {
        return false;
    }
    if (ANY == source || ANY == tag || (0 != filter->pattern[3] && tag >= 0)) {
        return true;
    }
    return 0 != filter->bucket[key_bucket(source, tag)] ||
           (0 != filter->pattern[1] && tag >= 0 && 0 != filter->bucket[key_bucket(source, ANY)]) ||
           (0 != filter->pattern[2] && 0 != filter->bucket[key_bucket(ANY, tag)]);
}

/* All receives are on the list, or have nothing to do with it. */
static inline bool filters_are_empty(const fab_offload_scope_t *scope)
{
    const fab_offload_filter_t *plain = scope->plain, *late = scope->late;

    return 0 == (plain->total[0] | plain->total[1] | late->total[0] | late->total[1]);
}

/* ---- the ring of commands ----------------------------------------------- */

static inline uint32_t ring_room(const fab_offload_t *engine)
{
    return engine->ring_mask + 1 - (engine->ring_tail - engine->ring_head);
}

/*
 * Build a command.  Its count is the number of messages that the matcher has seen so far, so an
 * unsignaled DEL must be built before the message that causes it is counted.
 */
static inline fab_tm_cmd_t *ring_push(fab_offload_t *engine, fab_tm_op_t op)
{
    fab_tm_cmd_t *cmd = &engine->ring[engine->ring_tail++ & engine->ring_mask];

    cmd->op = (uint8_t) op;
    cmd->is_signaled = false;
    cmd->count = (uint16_t) engine->handled;
    return cmd;
}

static void push_del(fab_offload_t *engine, fab_offload_recv_t *recv, bool is_signaled)
{
    fab_tm_cmd_t *cmd = ring_push(engine, FAB_TM_DEL);

    cmd->is_signaled = is_signaled;
    cmd->handle = recv->tm.handle;
    cmd->wr_id = (uintptr_t) recv;
    cmd->recv = &recv->tm;
    if (is_signaled) {
        recv->at = engine->ring_tail - 1;
        recv->is_del_queued = true;
    }
}

/* ---- listing ------------------------------------------------------------ */

/* Returns LISTABLE, or the reason why no further receive fits the list. */
static inline fab_offload_reason_t room(const fab_offload_t *engine)
{
    if (engine->is_failed) {
        return FAB_OFFLOAD_FAILED;
    }
    if (engine->listed >= engine->config.max_tags || engine->is_refused) {
        return FAB_OFFLOAD_LIST_FULL;
    }
    /* room for its ADD, and for the DELs of all listed receives */
    return ring_room(engine) >= engine->listed + 2 ? FAB_OFFLOAD_LISTABLE : FAB_OFFLOAD_LIST_FULL;
}

static inline void link_recv(fab_offload_t *engine, fab_offload_recv_t *recv,
                             fab_offload_state_t state)
{
    recv->state = (uint8_t) state;
    recv->has_matched = false;
    recv->has_data = false;
    recv->is_del_queued = false;
    list_insert(&engine->listed_recvs, &recv->link);
    engine->listed++;
}

static void list_recv(fab_offload_t *engine, fab_offload_recv_t *recv)
{
    recv->at = engine->ring_tail;
    ring_push(engine, FAB_TM_ADD)->recv = &recv->tm;
    link_recv(engine, recv, FAB_OFFLOAD_QUEUED);
}

/* The receive's slot is free, or will be free before the next ADD reaches the device. */
static void unlist_recv(fab_offload_t *engine, fab_offload_recv_t *recv)
{
    recv->state = FAB_OFFLOAD_OUT;
    list_unlink(&recv->link);
    engine->listed--;
    engine->is_refused = false;
}

static void wait_recv(fab_offload_scope_t *scope, fab_offload_recv_t *recv,
                      fab_match_list_t *before)
{
    recv->state = FAB_OFFLOAD_WAITING;
    list_insert(before, &recv->link);
    filter_add(scope->late, &recv->match);
}

/* The first of waiting has changed, or a receive that may block it is gone. */
static inline void scope_retry(fab_offload_scope_t *scope)
{
    if (!list_is_empty(&scope->waiting)) {
        scope_link(&scope->engine->ready, &scope->ready);
    }
}

static void unwait_recv(fab_offload_scope_t *scope, fab_offload_recv_t *recv)
{
    recv->state = FAB_OFFLOAD_OUT;
    list_unlink(&recv->link);
    filter_remove(scope->late, &recv->match);
    scope_retry(scope);
}

static void unplain_recv(fab_offload_scope_t *scope, fab_offload_recv_t *recv)
{
    recv->state = FAB_OFFLOAD_OUT;
    filter_remove(scope->plain, &recv->match);
    scope_retry(scope);
}

/*
 * List waiting receives.  No older waiting receive precedes the first of a scope, so only PLAIN
 * receives can block it.  The filter also counts younger ones, which may delay it but does no harm.
 */
static void list_waiting(fab_offload_t *engine)
{
    while (!list_is_empty(&engine->ready) && FAB_OFFLOAD_LISTABLE == room(engine)) {
        fab_offload_scope_t *scope = container_of(engine->ready.next, fab_offload_scope_t, ready);
        fab_offload_recv_t *recv = container_of(scope->waiting.next, fab_offload_recv_t, link);

        if (list_is_empty(&scope->waiting) || filter_overlaps(scope->plain, &recv->match)) {
            scope_unlink(&scope->ready);
            continue;
        }
        unwait_recv(scope, recv);
        list_recv(engine, recv);
        engine->counters.listed_late++;
    }
}

/* Returns LISTABLE, or the reason why a listable receive cannot be listed now. */
static inline fab_offload_reason_t obstacle(const fab_offload_scope_t *scope,
                                            const fab_offload_recv_t *recv)
{
    if (__builtin_expect(filters_are_empty(scope), 1)) {
        return room(scope->engine);
    }
    if (filter_overlaps(scope->plain, &recv->match) || filter_overlaps(scope->late, &recv->match)) {
        return FAB_OFFLOAD_BLOCKED;
    }
    return room(scope->engine);
}

/* The usual case, without the ring. True: the receive is on the list. */
static inline bool list_at_once(fab_offload_t *engine, fab_offload_recv_t *recv)
{
    const fab_tm_cmd_t cmd = {
        .op = FAB_TM_ADD, .count = (uint16_t) engine->handled, .recv = &recv->tm};

    if (engine->is_polling || engine->ring_head != engine->ring_tail ||
        engine->run >= engine->run_max ||
        engine->posted - engine->completed >= engine->config.max_ops ||
        FAB_TM_POSTED != engine->config.ops->post(engine->config.device, &cmd)) {
        return false;
    }
    engine->posted++;
    engine->run++;
    engine->reported = engine->handled;
    link_recv(engine, recv, FAB_OFFLOAD_LISTED);
    return true;
}

/* The receive must not be listed, or not yet. */
static void post_unlisted(fab_offload_scope_t *scope, fab_offload_recv_t *recv,
                          fab_offload_reason_t reason, bool is_listable)
{
    if (scope->engine->is_failed || FAB_OFFLOAD_OTHER_PATH == reason) {
        return;
    }
    if (!is_listable) {
        recv->state = FAB_OFFLOAD_PLAIN;
        filter_add(scope->plain, &recv->match);
        return;
    }
    wait_recv(scope, recv, &scope->waiting);
    if (FAB_OFFLOAD_BLOCKED != reason) {
        scope_retry(scope);
    }
}

void fab_offload_post(fab_offload_scope_t *scope, fab_offload_recv_t *recv, int32_t source,
                      int32_t tag, fab_offload_reason_t reason)
{
    fab_offload_t *engine = scope->engine;
    const bool is_listable = FAB_OFFLOAD_LISTABLE == reason;
    bool is_listed;

    recv->match.link.key = fab_match_key(source, tag);
    recv->scope = scope;
    recv->state = FAB_OFFLOAD_OUT;
    if (is_listable) {
        reason = obstacle(scope, recv);
    }
    engine->counters.reason[reason]++;
    is_listed = FAB_OFFLOAD_LISTABLE == reason && list_at_once(engine, recv);
    if (is_listed && may_stay_unfiled(scope)) {
        list_insert(&scope->unfiled, &recv->match.order);
        scope->num_unfiled++;
        return;
    }
    fab_offload_file(scope);
    fab_match_post(scope->dom, &recv->match, source, tag);
    if (FAB_OFFLOAD_LISTABLE != reason) {
        post_unlisted(scope, recv, reason, is_listable);
    } else if (!is_listed) {
        list_recv(engine, recv);
        flush(engine, false);
    }
}

/* ---- taking off the list ------------------------------------------------ */

/*
 * Software wants the receive, which has just left the matcher.  True: software has it, and the
 * receive is OUT.  False: the device may have matched it; it is in `state` until a signaled DEL
 * completes.
 *
 * is_stale: an unexpected message through the device fits the receive.  So the device did not match
 * it when that message came, and cannot before a command carries a count that includes the message;
 * the DEL is ahead of any such command.
 */
static bool reclaim(fab_offload_scope_t *scope, fab_offload_recv_t *recv, bool is_stale,
                    fab_offload_state_t state)
{
    fab_offload_t *engine = scope->engine;

    switch ((fab_offload_state_t) recv->state) {
    case FAB_OFFLOAD_PLAIN:
        unplain_recv(scope, recv);
        return true;
    case FAB_OFFLOAD_WAITING:
        unwait_recv(scope, recv);
        return true;
    case FAB_OFFLOAD_QUEUED:
        engine->ring[recv->at & engine->ring_mask].op = FAB_TM_NOP;
        unlist_recv(engine, recv);
        return true;
    case FAB_OFFLOAD_LISTED:
        push_del(engine, recv, !is_stale);
        if (is_stale) {
            engine->counters.taken++;
            unlist_recv(engine, recv);
            return true;
        }
        recv->state = (uint8_t) state;
        scope->removing++;
        return false;
    default:
        return true;
    }
}

fab_offload_cancel_t fab_offload_cancel(fab_offload_scope_t *scope, fab_offload_recv_t *recv)
{
    bool is_done;

    fab_offload_file(scope);
    if (!fab_match_cancel(scope->dom, &recv->match)) {
        return FAB_OFFLOAD_NOT_POSTED;
    }
    is_done = reclaim(scope, recv, false, FAB_OFFLOAD_CANCELLING);
    flush(scope->engine, false);
    return is_done ? FAB_OFFLOAD_DONE : FAB_OFFLOAD_LATER;
}

/* ---- messages ----------------------------------------------------------- */

/*
 * While a DEL is under way, no message by another path is matched: it must not overtake a parked
 * message of its source, nor pass a receive that may turn out to be unmatched, or to be matched
 * later.
 */
static inline bool must_park(const fab_offload_scope_t *scope)
{
    return 0 != scope->removing || !list_is_empty(&scope->parked);
}

/*
 * The receive for a message, removed from the list; or NULL: there is none, or its DEL is under way
 * (scope->unlisting).
 */
static fab_offload_recv_t *match_msg(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                     bool by_device)
{
    fab_match_recv_t *match;
    fab_offload_recv_t *recv;

    fab_offload_file(scope);
    match = fab_match_arrive(scope->dom, source, tag);
    if (NULL == match) {
        return NULL;
    }
    recv = container_of(match, fab_offload_recv_t, match);
    if (reclaim(scope, recv, by_device, FAB_OFFLOAD_UNLISTING)) {
        return recv;
    }
    scope->unlisting = recv;
    return NULL;
}

fab_offload_recv_t *fab_offload_arrive(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                       bool by_device)
{
    fab_offload_recv_t *recv;

    if (!by_device && must_park(scope)) {
        return NULL;
    }
    recv = match_msg(scope, source, tag, by_device);
    /*
     * A DEL on behalf of a message through the device stays in the ring at least until that message
     * is counted.
     */
    if (!by_device) {
        flush(scope->engine, false);
    }
    return recv;
}

void fab_offload_keep(fab_offload_scope_t *scope, fab_match_msg_t *msg, int32_t source, int32_t tag,
                      bool by_device)
{
    if (by_device || !must_park(scope)) {
        fab_match_add_msg(scope->dom, msg, source, tag);
        return;
    }
    msg->source = source;
    msg->tag = tag;
    list_insert(&scope->parked, &msg->order);
    scope->engine->counters.parked++;
}

static fab_match_msg_t *first_parked(const fab_offload_scope_t *scope)
{
    return container_of(scope->parked.next, fab_match_msg_t, order);
}

/* Remove a message from the parked ones; if a DEL is under way for it, it stays for now. */
static fab_match_msg_t *withdraw_parked(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                        fab_match_is_fn_t is_it, const void *ctx)
{
    for (fab_match_list_t *item = scope->parked.next; item != &scope->parked; item = item->next) {
        fab_match_msg_t *msg = container_of(item, fab_match_msg_t, order);

        if (source != msg->source || tag != msg->tag || !is_it(msg, ctx)) {
            continue;
        }
        if (NULL != scope->unlisting && first_parked(scope) == msg) {
            scope->withdrawn = msg;
            return NULL;
        }
        if (scope->withdrawn == msg) { /* it was asked for before, while a DEL was under way */
            scope->withdrawn = NULL;
        }
        list_unlink(item);
        return msg;
    }
    return NULL;
}

fab_match_msg_t *fab_offload_withdraw(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                      fab_match_is_fn_t is_it, const void *ctx)
{
    fab_match_msg_t *msg = fab_match_withdraw(scope->dom, source, tag, is_it, ctx);

    return NULL != msg ? msg : withdraw_parked(scope, source, tag, is_it, ctx);
}

/*
 * Match the first parked message.  True: it is the event's, with its receive, or withdrawn, or
 * unexpected from now on.
 */
static bool match_parked(fab_offload_scope_t *scope, fab_offload_event_t *event)
{
    fab_match_msg_t *msg = first_parked(scope);
    fab_offload_recv_t *recv;

    if (msg == scope->withdrawn) {
        scope->withdrawn = NULL;
        list_unlink(&msg->order);
        *event = (fab_offload_event_t){.result = FAB_OFFLOAD_WITHDRAWN, .msg = msg};
        return true;
    }
    recv = match_msg(scope, msg->source, msg->tag, false);
    if (NULL == recv && NULL != scope->unlisting) {
        return false;
    }
    list_unlink(&msg->order);
    if (NULL == recv) {
        fab_match_add_msg(scope->dom, msg, msg->source, msg->tag);
        *event = (fab_offload_event_t){.result = FAB_OFFLOAD_UNEXPECTED, .msg = msg};
        return true;
    }
    *event = (fab_offload_event_t){.result = FAB_OFFLOAD_DELIVER, .recv = recv, .msg = msg};
    return true;
}

static bool next_parked(fab_offload_t *engine, fab_offload_event_t *event)
{
    while (!list_is_empty(&engine->unpark)) {
        fab_offload_scope_t *scope = container_of(engine->unpark.next, fab_offload_scope_t, unpark);

        if (0 != scope->removing || list_is_empty(&scope->parked)) {
            scope_unlink(&scope->unpark);
        } else if (match_parked(scope, event)) {
            return true;
        }
    }
    return false;
}

unsigned fab_offload_num_matched(const fab_offload_t *engine)
{
    unsigned count = 0;

    for (const fab_match_list_t *item = engine->listed_recvs.next; item != &engine->listed_recvs;
         item = item->next) {
        const fab_offload_recv_t *recv = container_of(item, fab_offload_recv_t, link);

        count += FAB_OFFLOAD_MATCHED == recv->state || recv->has_matched;
    }
    return count;
}

/* ---- completions -------------------------------------------------------- */

/* The DEL of a receive has an outcome: the receive is no longer CANCELLING or UNLISTING. */
static fab_offload_event_t settle(fab_offload_t *engine, fab_offload_recv_t *recv)
{
    fab_offload_scope_t *scope = recv->scope;
    fab_offload_event_t event = {.recv = recv};
    const bool is_unlisting = FAB_OFFLOAD_UNLISTING == recv->state;

    scope->removing--;
    scope_link(&engine->unpark, &scope->unpark);
    if (is_unlisting) {
        scope->unlisting = NULL;
    }
    if (recv->has_matched) {
        recv->state = FAB_OFFLOAD_MATCHED;
        if (recv->has_data) {
            unlist_recv(engine, recv);
            event.result = FAB_OFFLOAD_COMPLETE;
        }
        return event;
    }
    unlist_recv(engine, recv);
    event.result = FAB_OFFLOAD_CANCELLED;
    if (is_unlisting) {
        event.result = FAB_OFFLOAD_DELIVER;
        event.msg = first_parked(scope);
        list_unlink(&event.msg->order);
        scope->withdrawn = NULL; /* the message has a receive: too late */
    }
    return event;
}

/*
 * The device matched the receive before the DEL reached it.  A DEL that was not handed over yet is
 * taken back: from now on its handle may be another receive's.
 */
static fab_offload_result_t matched_ahead(fab_offload_recv_t *recv, bool has_data)
{
    fab_offload_t *engine = recv->scope->engine;

    if (recv->has_data || (recv->has_matched && !has_data)) {
        return FAB_OFFLOAD_BROKEN;
    }
    engine->counters.matched += !recv->has_matched;
    recv->has_matched = true;
    recv->has_data = has_data;
    if (!recv->is_del_queued) {
        return FAB_OFFLOAD_NOTHING;
    }
    recv->is_del_queued = false;
    engine->ring[recv->at & engine->ring_mask].op = FAB_TM_NOP;
    engine->counters.lost_races++;
    return settle(engine, recv).result;
}

fab_offload_result_t fab_offload_matched(fab_offload_recv_t *recv, bool has_data)
{
    fab_offload_scope_t *scope = recv->scope;
    fab_offload_t *engine = scope->engine;

    switch ((fab_offload_state_t) recv->state) {
    case FAB_OFFLOAD_LISTED:
        engine->counters.matched++;
        unfile(scope, &recv->match);
        recv->state = FAB_OFFLOAD_MATCHED;
        break;
    case FAB_OFFLOAD_MATCHED:
        if (!has_data) {
            return FAB_OFFLOAD_BROKEN;
        }
        break;
    case FAB_OFFLOAD_CANCELLING:
    case FAB_OFFLOAD_UNLISTING:
        return matched_ahead(recv, has_data);
    default:
        return FAB_OFFLOAD_BROKEN;
    }
    if (!has_data) {
        return FAB_OFFLOAD_NOTHING;
    }
    unlist_recv(engine, recv);
    return FAB_OFFLOAD_COMPLETE;
}

/* A signaled command is done, and so are all before it. */
static void ops_done(fab_offload_t *engine, uint32_t number)
{
    engine->completed = number + 1;
    engine->signaled--;
    engine->is_refused = false;
    if (engine->is_tracking && (int32_t) (number - engine->tracked) >= 0) {
        engine->acked = engine->tracked_count;
        engine->is_tracking = false;
    }
}

fab_offload_event_t fab_offload_done(fab_offload_t *engine, uint64_t wr_id, bool is_success)
{
    fab_offload_recv_t *recv = (fab_offload_recv_t *) (uintptr_t) wr_id;
    fab_offload_event_t broken = {.result = FAB_OFFLOAD_BROKEN};

    if (0 != (wr_id & 1)) { /* a SYNC: its number */
        ops_done(engine, (uint32_t) (wr_id >> 1));
        return is_success ? (fab_offload_event_t){.result = FAB_OFFLOAD_NOTHING} : broken;
    }
    if ((FAB_OFFLOAD_CANCELLING != recv->state && FAB_OFFLOAD_UNLISTING != recv->state) ||
        is_success == recv->has_matched) {
        return broken;
    }
    ops_done(engine, recv->at);
    engine->counters.lost_races += !is_success;
    return settle(engine, recv);
}

void fab_offload_poll_end(fab_offload_t *engine)
{
    engine->is_polling = false;
    flush(engine, false);
}

/* ---- commands ----------------------------------------------------------- */

/*
 * An ADD was refused.  Put its receive, and those of all ADDs behind it, back to where they waited,
 * in order: a later one must not be listed without it.  They are tried again when a slot or a
 * completion comes back; if there is nothing that could, the device has no list.
 */
static void take_back(fab_offload_t *engine)
{
    for (uint32_t at = engine->ring_tail; at != engine->ring_head; at--) {
        fab_tm_cmd_t *cmd = &engine->ring[(at - 1) & engine->ring_mask];

        if (FAB_TM_ADD == cmd->op) {
            fab_offload_recv_t *recv = fab_offload_recv_of(cmd->recv);
            fab_offload_scope_t *scope = recv->scope;

            cmd->op = FAB_TM_NOP;
            unlist_recv(engine, recv);
            wait_recv(scope, recv, scope->waiting.next);
            scope_retry(scope);
        }
    }
    engine->counters.refused++;
    engine->is_refused = true;
    if (0 == engine->listed && engine->posted == engine->completed) {
        engine->config.max_tags = 0;
    }
}

/* Note what was handed over. */
static void account(fab_offload_t *engine, const fab_tm_cmd_t *cmd)
{
    const uint32_t number = engine->posted++;

    engine->reported += (uint16_t) (cmd->count - engine->reported);
    if (!cmd->is_signaled) {
        engine->run++;
        return;
    }
    engine->run = 0;
    engine->signaled++;
    if (!engine->is_tracking) {
        engine->is_tracking = true;
        engine->tracked = number;
        engine->tracked_count = engine->reported;
    }
}

static int submit(fab_offload_t *engine, const fab_tm_cmd_t *cmd)
{
    const int rc = engine->config.ops->post(engine->config.device, cmd);

    if (FAB_TM_POSTED == rc) {
        account(engine, cmd);
    }
    return rc;
}

static int submit_sync(fab_offload_t *engine, uint32_t count, bool is_signaled)
{
    const fab_tm_cmd_t cmd = {
        .op = FAB_TM_SYNC,
        .is_signaled = is_signaled,
        .count = (uint16_t) count,
        .wr_id = (uint64_t) engine->posted << 1 | 1,
    };

    return submit(engine, &cmd);
}

/*
 * Hand over the first command of the ring. If a signaled one is due, a SYNC goes ahead of it, for
 * its completion alone.
 */
static int submit_first(fab_offload_t *engine, fab_tm_cmd_t *cmd)
{
    fab_offload_recv_t *recv = fab_offload_recv_of(cmd->recv);
    int rc;

    if (FAB_TM_NOP == cmd->op) {
        return FAB_TM_POSTED;
    }
    if (engine->posted - engine->completed >= engine->config.max_ops) {
        return FAB_TM_BUSY;
    }
    if (engine->run >= engine->run_max && !cmd->is_signaled) {
        rc = submit_sync(engine, engine->reported, true);
        if (FAB_TM_POSTED != rc || engine->posted - engine->completed >= engine->config.max_ops) {
            return FAB_TM_POSTED == rc ? FAB_TM_BUSY : rc;
        }
    }
    rc = submit(engine, cmd);
    if (FAB_TM_POSTED == rc && FAB_TM_ADD == cmd->op) {
        recv->state = FAB_OFFLOAD_LISTED;
    } else if (FAB_TM_POSTED == rc && cmd->is_signaled) {
        recv->at = engine->posted - 1;
        recv->is_del_queued = false;
    } else if (FAB_TM_BUSY == rc && FAB_TM_ADD == cmd->op) {
        take_back(engine);
    }
    return rc;
}

/* False: the device has failed. */
static bool drain_ring(fab_offload_t *engine)
{
    int rc = FAB_TM_POSTED;

    while (engine->ring_head != engine->ring_tail && FAB_TM_POSTED == rc) {
        rc = submit_first(engine, &engine->ring[engine->ring_head & engine->ring_mask]);
        engine->ring_head += FAB_TM_POSTED == rc;
    }
    return FAB_TM_DEAD != rc;
}

/*
 * Send a SYNC where no command carries the count.  That is due if too many messages are unreported,
 * or if there is time and listed receives cannot be used until the device knows the count.  It is
 * signaled if too many are unacknowledged, or if nothing but its completion can tell that a refused
 * ADD may be tried again.
 */
static bool report(fab_offload_t *engine, bool is_idle)
{
    const uint32_t unreported = engine->handled - engine->reported;
    const uint32_t every = engine->config.report_every;
    const bool wants_ack = (engine->handled - engine->acked >= every && !engine->is_tracking) ||
                           (engine->is_refused && 0 == engine->listed && 0 == engine->signaled &&
                            0 != engine->config.max_tags);

    if (!wants_ack && unreported < every && (0 == unreported || !is_idle || 0 == engine->listed)) {
        return true;
    }
    if (engine->posted - engine->completed >= engine->config.max_ops) {
        return true;
    }
    return FAB_TM_DEAD !=
           submit_sync(engine, engine->handled, wants_ack || engine->run >= engine->run_max);
}

/* There is nothing to list, hand over or report, as after most polls. */
static inline bool is_quiet(const fab_offload_t *engine)
{
    return engine->handled == engine->reported && engine->ring_head == engine->ring_tail &&
           list_is_empty(&engine->ready) && !engine->is_refused &&
           engine->handled - engine->acked < engine->config.report_every;
}

static void flush(fab_offload_t *engine, bool is_idle)
{
    if (engine->is_polling || engine->is_failed || is_quiet(engine)) {
        return;
    }
    list_waiting(engine);
    if (!drain_ring(engine) ||
        (engine->ring_head == engine->ring_tail && !report(engine, is_idle))) {
        fab_offload_fail(engine);
    }
}

void fab_offload_idle(fab_offload_t *engine)
{
    flush(engine, true);
}

bool fab_offload_poll_end_quiet(fab_offload_t *engine)
{
    if (!is_quiet(engine)) {
        return false;
    }
    engine->is_polling = false;
    return true;
}

/* ---- failure ------------------------------------------------------------ */

void fab_offload_fail(fab_offload_t *engine)
{
    fab_match_list_t *next;

    engine->is_failed = true;
    engine->ring_head = engine->ring_tail;
    for (fab_match_list_t *item = engine->listed_recvs.next; item != &engine->listed_recvs;
         item = next) {
        fab_offload_recv_t *recv = container_of(item, fab_offload_recv_t, link);

        next = item->next;
        if (FAB_OFFLOAD_QUEUED == recv->state || FAB_OFFLOAD_LISTED == recv->state) {
            fab_offload_file(recv->scope);
            unlist_recv(engine, recv);
        }
    }
}

/* The next of the receives that were under way when the device failed. */
static bool next_orphan(fab_offload_t *engine, fab_offload_event_t *event)
{
    fab_offload_recv_t *recv;

    if (!engine->is_failed || list_is_empty(&engine->listed_recvs)) {
        return false;
    }
    recv = container_of(engine->listed_recvs.next, fab_offload_recv_t, link);
    *event = (fab_offload_event_t){.recv = recv};
    if (FAB_OFFLOAD_MATCHED != recv->state) {
        *event = settle(engine, recv);
    }
    if (FAB_OFFLOAD_NOTHING == event->result) {
        event->result = FAB_OFFLOAD_LOST;
        unlist_recv(engine, recv);
    }
    return true;
}

bool fab_offload_next(fab_offload_t *engine, fab_offload_event_t *event)
{
    if (next_orphan(engine, event) || next_parked(engine, event)) {
        return true;
    }
    flush(engine, false);
    return false;
}

/* ---- init --------------------------------------------------------------- */

bool fab_offload_init(fab_offload_t *engine, const fab_offload_config_t *config)
{
    uint32_t room = 8;

    memset(engine, 0, sizeof(*engine));
    if (0 == config->max_tags || config->max_tags > 1u << 24 || config->max_ops < 4 ||
        0 == config->report_every || config->report_every > 1u << 14) {
        return false;
    }
    while (room < 2 * config->max_tags + 2) {
        room *= 2;
    }
    engine->ring = calloc(room, sizeof(*engine->ring));
    if (NULL == engine->ring) {
        return false;
    }
    engine->ring_mask = room - 1;
    engine->config = *config;
    engine->handled = config->first_count;
    engine->reported = config->first_count;
    engine->acked = config->first_count;
    engine->run_max = config->max_ops / 4;
    list_init(&engine->listed_recvs);
    list_init(&engine->ready);
    list_init(&engine->unpark);
    return true;
}

void fab_offload_fini(fab_offload_t *engine)
{
    assert(0 == engine->listed);
    free(engine->ring);
    engine->ring = NULL;
}

bool fab_offload_scope_init(fab_offload_scope_t *scope, fab_offload_t *engine, fab_match_dom_t *dom)
{
    memset(scope, 0, sizeof(*scope));
    scope->plain = calloc(2, sizeof(*scope->plain));
    if (NULL == scope->plain) {
        return false;
    }
    scope->late = scope->plain + 1;
    scope->dom = dom;
    scope->engine = engine;
    list_init(&scope->unfiled);
    list_init(&scope->waiting);
    list_init(&scope->parked);
    list_init(&scope->ready);
    list_init(&scope->unpark);
    return true;
}

void fab_offload_scope_fini(fab_offload_scope_t *scope)
{
    assert(0 == scope->removing && list_is_empty(&scope->parked));
    list_unlink(&scope->ready);
    list_unlink(&scope->unpark);
    free(scope->plain);
    memset(scope, 0, sizeof(*scope));
}
