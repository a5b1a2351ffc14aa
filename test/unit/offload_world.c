/* SPDX-License-Identifier: BSD-3-Clause */
/* The offload engine between a matcher and a device, beside the MPI rules; see offload_world.h. */
#include "offload_world.h"

#include <stdlib.h>
#include <string.h>

#define ANY               FAB_MATCH_ANY
#define OWNER(p, type, m) ((type *) ((char *) (p) -offsetof(type, m)))

static void world_expect(world_t *w, bool ok, const char *text)
{
    if (!ok && NULL == w->error) {
        w->error = text;
    }
}

/* ---- the MPI rules ------------------------------------------------------ */

static bool fits(const ref_recv_t *r, const ref_msg_t *m)
{
    return r->scope == m->scope && (ANY == r->source || r->source == m->source) &&
           (ANY == r->tag ? m->tag >= 0 : r->tag == m->tag);
}

static bool overlap(const ref_recv_t *a, const ref_recv_t *b)
{
    const bool tags = a->tag == b->tag || (ANY == a->tag && b->tag >= 0) ||
                      (ANY == b->tag && a->tag >= 0);

    return a->scope == b->scope && tags &&
           (ANY == a->source || ANY == b->source || a->source == b->source);
}

/* A receive is passed over: a message that fits it goes to a younger one. */
static void ref_skip(world_t *w, unsigned i)
{
    ref_recv_t *r = &w->rrecv[i];
    const fab_offload_scope_t *scope = &w->scope[r->scope];
    int8_t allowed = -1;

    if (FAB_OFFLOAD_UNLISTING == w->recv[i].state && scope->parked.next != &scope->parked) {
        allowed = (int8_t) (OWNER(scope->parked.next, fab_match_msg_t, order) - w->msg);
    } else {
        world_expect(w, FAB_OFFLOAD_CANCELLING == w->recv[i].state,
                     "I4: an older receive that fits was passed over");
    }
    world_expect(w, !r->is_skipped || r->allowed == allowed,
                 "I4: an older receive that fits was passed over, twice");
    r->is_skipped = true;
    r->allowed = allowed;
}

static void ref_match(world_t *w, unsigned ri, unsigned mi)
{
    ref_recv_t *r = &w->rrecv[ri];
    ref_msg_t *m = &w->rmsg[mi];

    world_expect(w, fits(r, m), "I1: the message does not fit the receive");
    world_expect(w, REF_WAITING == r->state, "I2: the receive was used before");
    world_expect(w, REF_WAITING == m->state, "I2: the message was used before");
    world_expect(w, !r->is_skipped || r->allowed == (int8_t) mi,
                 "I4: a receive that was passed over took another message");
    for (unsigned i = 0; i < WORLD_MSGS; i++) {
        const ref_msg_t *other = &w->rmsg[i];

        world_expect(w,
                     i == mi || REF_WAITING != other->state || other->source != m->source ||
                         other->order > m->order || !fits(r, other),
                     "I3: an older message of that source was overtaken");
    }
    for (unsigned i = 0; i < WORLD_RECVS; i++) {
        const ref_recv_t *other = &w->rrecv[i];

        if (i != ri && REF_WAITING == other->state && other->order < r->order && fits(other, m)) {
            ref_skip(w, i);
        }
    }
    r->state = REF_MATCHED;
    r->msg = (int8_t) mi;
    m->state = REF_MATCHED;
}

/* ---- what the engine says ----------------------------------------------- */

static bool is_on_list(const fab_match_list_t *head, const fab_match_list_t *item)
{
    for (const fab_match_list_t *at = head->next; at != head; at = at->next) {
        if (at == item) {
            return true;
        }
    }
    return false;
}

static bool is_in_matcher(const world_t *w, unsigned i)
{
    const fab_match_dom_t *dom = &w->dom[w->rmsg[i].scope];

    return is_on_list(&dom->unexp_user, &w->msg[i].order) ||
           is_on_list(&dom->unexp_internal, &w->msg[i].order);
}

static unsigned recv_place(const world_t *w, const fab_offload_recv_t *recv)
{
    return (unsigned) (recv - w->recv);
}

/* The receive is the program's again; the message is gone. */
static void give_back(world_t *w, unsigned i)
{
    ref_recv_t *r = &w->rrecv[i];

    world_expect(w, !r->is_mine, "I6: a receive was completed twice");
    world_expect(w, FAB_OFFLOAD_OUT == w->recv[i].state,
                 "a receive that was given back is not OUT");
    r->is_mine = true;
    if (REF_MATCHED == r->state) {
        w->rmsg[r->msg].state = REF_FREE;
    }
    if (NULL == w->error) {
        memset(&w->recv[i], 0x5a, sizeof(w->recv[i]));
        memset(r, 0, sizeof(*r));
    }
}

static void deliver(world_t *w, fab_offload_recv_t *recv, const fab_match_msg_t *msg)
{
    const unsigned i = recv_place(w, recv);

    ref_match(w, i, (unsigned) (msg - w->msg));
    give_back(w, i);
}

static void withdrawn(world_t *w, const fab_match_msg_t *msg, bool is_by_event)
{
    ref_msg_t *m = &w->rmsg[msg - w->msg];

    world_expect(w, REF_WAITING == m->state, "a message was given back that a receive has");
    world_expect(w, m->is_asked_back, "a message was given back, and nobody asked for it");
    m->state = REF_FREE;
    ++w->withdrawn[is_by_event];
}

static void unexpected(world_t *w, unsigned i)
{
    ref_msg_t *m = &w->rmsg[i];

    world_expect(w, m->is_parked, "unexpected by an event, and it was not parked");
    world_expect(w, REF_WAITING == m->state && is_in_matcher(w, i),
                 "unexpected by an event, and it is not in the matcher");
    m->is_parked = false;
}

static void handle_event(world_t *w, const fab_offload_event_t *event)
{
    const unsigned i = NULL != event->recv ? recv_place(w, event->recv) : 0;
    const ref_recv_t *r = &w->rrecv[i];

    switch (event->result) {
    case FAB_OFFLOAD_NOTHING:
        break;
    case FAB_OFFLOAD_COMPLETE:
        world_expect(w, REF_MATCHED == r->state, "completed, and the device did not match it");
        give_back(w, i);
        break;
    case FAB_OFFLOAD_CANCELLED:
        world_expect(w, REF_WAITING == r->state && r->is_cancelled,
                     "I6: cancelled, and it was matched, or not to be cancelled");
        give_back(w, i);
        break;
    case FAB_OFFLOAD_DELIVER:
        deliver(w, event->recv, event->msg);
        break;
    case FAB_OFFLOAD_WITHDRAWN:
        withdrawn(w, event->msg, true);
        break;
    case FAB_OFFLOAD_UNEXPECTED:
        unexpected(w, (unsigned) (event->msg - w->msg));
        break;
    case FAB_OFFLOAD_LOST:
        world_expect(w, REF_MATCHED == r->state && w->engine.is_failed, "lost without reason");
        give_back(w, i);
        break;
    case FAB_OFFLOAD_BROKEN:
        world_expect(w, false, "the engine takes the device for broken");
        break;
    }
}

/* The device is gone, and with it what it had not yet told: messages, and that it had matched. */
static void forget_device(world_t *w)
{
    w->dev.ncq = 0;
    w->dev.ncmd = 0;
    for (unsigned i = 0; i < WORLD_RECVS; i++) {
        ref_recv_t *r = &w->rrecv[i];

        if (REF_MATCHED == r->state && FAB_OFFLOAD_MATCHED != w->recv[i].state &&
            !w->recv[i].has_matched) {
            r->state = REF_WAITING;
            w->rmsg[r->msg].state = REF_FREE;
        }
        r->is_skipped = false;
    }
    for (unsigned i = 0; i < WORLD_MSGS; i++) {
        if (w->rmsg[i].by_device && REF_WAITING == w->rmsg[i].state && !is_in_matcher(w, i)) {
            w->rmsg[i].state = REF_FREE;
        }
    }
    for (unsigned i = 0; i < HW_SLOTS; i++) {
        w->dev.slot[i] = (hw_slot_t){0};
    }
}

static void handle_events(world_t *w)
{
    fab_offload_event_t event;

    if (w->engine.is_failed && !w->is_forgotten) {
        w->is_forgotten = true;
        forget_device(w);
    }
    while (NULL == w->error && fab_offload_next(&w->engine, &event)) {
        handle_event(w, &event);
    }
}

/* ---- invariants --------------------------------------------------------- */

static bool is_unlisted(uint8_t state)
{
    return FAB_OFFLOAD_PLAIN == state || FAB_OFFLOAD_WAITING == state;
}

/*
 * Pairs of receives: the younger is not on the list before the older, if a message through the
 * device could fit both.
 */
static void check_pairs(world_t *w)
{
    for (unsigned a = 0; a < WORLD_RECVS; a++) {
        for (unsigned b = 0; b < WORLD_RECVS; b++) {
            const ref_recv_t *older = &w->rrecv[a];
            const ref_recv_t *younger = &w->rrecv[b];

            if (REF_WAITING == older->state && REF_WAITING == younger->state &&
                older->order < younger->order && is_unlisted(w->recv[a].state) &&
                (FAB_OFFLOAD_QUEUED == w->recv[b].state ||
                 FAB_OFFLOAD_LISTED == w->recv[b].state)) {
                world_expect(w, !overlap(older, younger),
                             "a receive is listed, and an older one that overlaps is not");
            }
        }
    }
}

static void check_recv(world_t *w, unsigned i, fab_offload_filter_t sum[WORLD_SCOPES][2])
{
    const fab_offload_recv_t *recv = &w->recv[i];
    const ref_recv_t *r = &w->rrecv[i];
    const fab_offload_scope_t *scope = &w->scope[r->scope];

    switch ((fab_offload_state_t) recv->state) {
    case FAB_OFFLOAD_OUT:
        break;
    case FAB_OFFLOAD_PLAIN:
        sum[r->scope][0].total[recv->match.tag < ANY]++;
        break;
    case FAB_OFFLOAD_WAITING:
        sum[r->scope][1].total[recv->match.tag < ANY]++;
        world_expect(w, is_on_list(&scope->waiting, &recv->link),
                     "a waiting receive is not in line");
        break;
    default:
        sum[0][0].bucket[0]++;
        world_expect(w, is_on_list(&w->engine.listed_recvs, &recv->link),
                     "a listed receive is not in listed_recvs");
        break;
    }
}

static void check_engine(world_t *w)
{
    fab_offload_filter_t sum[WORLD_SCOPES][2] = {0};
    uint32_t removing[WORLD_SCOPES] = {0}, unfiled[WORLD_SCOPES] = {0};

    for (unsigned i = 0; i < WORLD_RECVS; i++) {
        if (REF_FREE != w->rrecv[i].state) {
            check_recv(w, i, sum);
            removing[w->rrecv[i].scope] += FAB_OFFLOAD_CANCELLING == w->recv[i].state ||
                                           FAB_OFFLOAD_UNLISTING == w->recv[i].state;
            unfiled[w->rrecv[i].scope] += FAB_OFFLOAD_LISTED == w->recv[i].state &&
                                          FAB_MATCH_IDLE == w->recv[i].match.where;
        }
    }
    world_expect(w, sum[0][0].bucket[0] == w->engine.listed,
                 "the number of listed receives is wrong");
    for (unsigned s = 0; s < WORLD_SCOPES; s++) {
        const fab_offload_scope_t *scope = &w->scope[s];

        world_expect(w, removing[s] == scope->removing, "the number of DELs under way is wrong");
        world_expect(w, unfiled[s] == scope->num_unfiled,
                     "the number of unfiled receives is wrong");
        world_expect(w, scope->parked.next == &scope->parked || 0 != scope->removing,
                     "a message is parked for nothing");
        world_expect(w,
                     0 == memcmp(sum[s][0].total, scope->plain->total, sizeof(sum[s][0].total)) &&
                         0 == memcmp(sum[s][1].total, scope->late->total, sizeof(sum[s][1].total)),
                     "a filter counts wrong");
    }
}

/* I5: in the matcher nothing waits for what is there. */
static void check_unmatched(world_t *w)
{
    for (unsigned s = 0; s < WORLD_SCOPES; s++) {
        for (const fab_match_list_t *at = w->dom[s].unexp_user.next; at != &w->dom[s].unexp_user;
             at = at->next) {
            const ref_msg_t *m = &w->rmsg[OWNER(at, fab_match_msg_t, order) - w->msg];

            world_expect(w, REF_WAITING == m->state, "a message is in the matcher and was matched");
            world_expect(w, !m->is_parked, "a parked message became unexpected without an event");
            for (unsigned i = 0; i < WORLD_RECVS; i++) {
                world_expect(w,
                             REF_WAITING != w->rrecv[i].state ||
                                 w->recv[i].state > FAB_OFFLOAD_LISTED || !fits(&w->rrecv[i], m),
                             "I5: a message and a receive that fit each other wait");
            }
        }
    }
}

void world_check(world_t *w)
{
    world_expect(w, NULL == w->dev.error, w->dev.error);
    if (NULL == w->error && !w->is_black_box) {
        check_engine(w);
        check_pairs(w);
    }
    if (NULL == w->error) {
        check_unmatched(w);
    }
}

/* ---- steps -------------------------------------------------------------- */

/*
 * Between the beginning and the end of polling nothing may be posted: the device's driver holds its
 * locks.
 */
static int post(void *device, const fab_tm_cmd_t *cmd)
{
    world_t *w = OWNER(device, world_t, dev);
    const bool may_refuse = w->dev.refusals > 0 || w->dev.slots < w->engine.config.max_tags;
    const int rc = hw_post(device, cmd);

    w->syncs += FAB_TM_SYNC == cmd->op && FAB_TM_POSTED == rc;
    world_expect(w, !w->engine.is_polling, "a command was posted while polling");
    world_expect(w, FAB_TM_BUSY != rc || may_refuse, "a command was posted without room for it");
    return rc;
}

static const fab_tm_ops_t ops = {.post = post};

void world_init(world_t *w, const world_config_t *c)
{
    const fab_offload_config_t config = {
        .ops = &ops,
        .device = &w->dev,
        .max_tags = c->max_tags,
        .max_ops = c->max_ops,
        .report_every = c->report_every,
        .first_count = c->first_count,
    };

    memset(w, 0, sizeof(*w));
    w->is_black_box = c->is_black_box;
    hw_init(&w->dev, c->slots, c->max_ops, (uint16_t) (4 * c->report_every), c->bufs,
            c->first_count);
    world_expect(w, fab_offload_init(&w->engine, &config), "fab_offload_init failed");
    world_expect(w, w->engine.ring_mask < WORLD_RING, "WORLD_RING is too small");
    free(w->engine.ring);
    w->engine.ring = w->ring;
    for (unsigned s = 0; s < WORLD_SCOPES; s++) {
        fab_match_init(&w->dom[s]);
        w->dom[s].posted_short = &w->posted_short[s];
        w->dom[s].posted_max = w->dom[s].short_max = FAB_MATCH_SHORT_LEN;
        world_expect(w, fab_offload_scope_init(&w->scope[s], &w->engine, &w->dom[s]),
                     "fab_offload_scope_init failed");
        free(w->scope[s].plain);
        w->scope[s].plain = &w->filter[s][0];
        w->scope[s].late = &w->filter[s][1];
    }
}

void world_fini(world_t *w)
{
    for (unsigned s = 0; s < WORLD_SCOPES; s++) {
        w->dom[s].posted_short = NULL; /* the world's */
        fab_match_fini(&w->dom[s]);
    }
}

static uint64_t wire_tag(unsigned scope, int32_t source, int32_t tag)
{
    return (uint64_t) scope << 48 | (uint64_t) (uint16_t) source << 32 | (uint32_t) tag;
}

static uint64_t wire_mask(int32_t source, int32_t tag)
{
    return 0xffffull << 48 | (ANY == source ? 0 : 0xffffull << 32) |
           (ANY == tag ? 0x80000000u : 0xffffffffu);
}

void world_post(world_t *w, unsigned i, unsigned scope, int32_t source, int32_t tag,
                fab_offload_reason_t reason)
{
    fab_offload_recv_t *recv = &w->recv[i];
    fab_match_msg_t *msg;

    memset(recv, 0, sizeof(*recv));
    w->rrecv[i] = (ref_recv_t){.state = REF_WAITING,
                               .scope = (uint8_t) scope,
                               .reason = (uint8_t) reason,
                               .source = source,
                               .tag = tag,
                               .order = w->order++};
    recv->tm.mask = wire_mask(source, tag);
    recv->tm.tag = wire_tag(scope, source, ANY == tag ? 0 : tag) & recv->tm.mask;
    msg = fab_match_take(&w->dom[scope], source, tag);
    if (NULL != msg) {
        deliver(w, recv, msg);
    } else {
        w->posted++;
        fab_offload_post(&w->scope[scope], recv, source, tag, reason);
    }
    handle_events(w);
    world_check(w);
}

void world_cancel(world_t *w, unsigned i)
{
    ref_recv_t *r = &w->rrecv[i];

    switch (fab_offload_cancel(&w->scope[r->scope], &w->recv[i])) {
    case FAB_OFFLOAD_NOT_POSTED:
        world_expect(w,
                     REF_MATCHED == r->state || r->is_cancelled ||
                         FAB_OFFLOAD_UNLISTING == w->recv[i].state,
                     "I6: cancel did not find a posted receive");
        break;
    case FAB_OFFLOAD_DONE:
        r->is_cancelled = true;
        handle_event(w,
                     &(fab_offload_event_t){.result = FAB_OFFLOAD_CANCELLED, .recv = &w->recv[i]});
        break;
    case FAB_OFFLOAD_LATER:
        r->is_cancelled = true;
        break;
    }
    handle_events(w);
    world_check(w);
}

static bool is_same(const fab_match_msg_t *msg, const void *ctx)
{
    return msg == ctx;
}

void world_withdraw(world_t *w, unsigned i)
{
    ref_msg_t *m = &w->rmsg[i];
    const fab_match_msg_t *msg;

    m->is_asked_back = true;
    msg = fab_offload_withdraw(&w->scope[m->scope], m->source, m->tag, is_same, &w->msg[i]);
    if (NULL != msg) {
        world_expect(w, msg == &w->msg[i], "another message was given back");
        withdrawn(w, msg, false);
    }
    handle_events(w);
    world_check(w);
}

/* Software sees a message. */
static void arrive(world_t *w, unsigned i)
{
    ref_msg_t *m = &w->rmsg[i];
    fab_offload_scope_t *scope = &w->scope[m->scope];
    fab_offload_recv_t *recv = fab_offload_arrive(scope, m->source, m->tag, m->by_device);

    if (NULL != recv) {
        deliver(w, recv, &w->msg[i]);
    } else {
        fab_offload_keep(scope, &w->msg[i], m->source, m->tag, m->by_device);
        m->is_parked = !is_in_matcher(w, i);
    }
}

static void new_msg(world_t *w, unsigned i, unsigned scope, int32_t source, int32_t tag,
                    bool by_device)
{
    w->rmsg[i] = (ref_msg_t){.state = REF_WAITING,
                             .scope = (uint8_t) scope,
                             .by_device = by_device,
                             .source = source,
                             .tag = tag,
                             .order = w->order++};
}

void world_other_path(world_t *w, unsigned i, unsigned scope, int32_t tag)
{
    new_msg(w, i, scope, WORLD_SELF, tag, false);
    arrive(w, i);
    handle_events(w);
    world_check(w);
}

bool world_message(world_t *w, unsigned i, unsigned scope, int32_t source, int32_t tag,
                   bool is_split)
{
    const uint64_t wire = wire_tag(scope, source, tag);
    const fab_offload_recv_t *recv = hw_find(&w->dev, wire);

    if (!hw_message(&w->dev, wire, (uint16_t) i, is_split)) {
        return false;
    }
    new_msg(w, i, scope, source, tag, true);
    if (NULL != recv) {
        ref_match(w, recv_place(w, recv), i);
    }
    world_check(w);
    return true;
}

void world_execute(world_t *w)
{
    hw_execute(&w->dev);
    world_check(w);
}

void world_finish(world_t *w, uint32_t slot)
{
    hw_finish(&w->dev, slot);
    world_check(w);
}

static void handle_match(world_t *w, const hw_completion_t *c)
{
    const bool has_data = HW_DATA == c->kind || c->has_data;
    const unsigned i = recv_place(w, c->recv);
    fab_offload_event_t event = {.recv = c->recv};

    world_expect(w, REF_MATCHED == w->rrecv[i].state && w->rrecv[i].msg == (int8_t) c->msg,
                 "a completion names a receive that the device did not match");
    w->matched += HW_MATCHED == c->kind;
    if (NULL == w->error) {
        event.result = fab_offload_matched(c->recv, has_data);
        handle_event(w, &event);
    }
}

static void handle_completion(world_t *w, const hw_completion_t *c)
{
    fab_offload_event_t event;

    switch ((hw_kind_t) c->kind) {
    case HW_UNEXPECTED:
        arrive(w, c->msg);
        fab_offload_handled(&w->engine);
        w->held_bufs++;
        break;
    case HW_MATCHED:
    case HW_DATA:
        handle_match(w, c);
        break;
    case HW_OP:
        event = fab_offload_done(&w->engine, c->wr_id, c->is_success);
        handle_event(w, &event);
        break;
    }
    handle_events(w);
}

void world_poll(world_t *w, unsigned n)
{
    hw_completion_t completion;
    const bool is_idle = 0 == w->dev.ncq;
    bool is_quiet;

    fab_offload_poll_begin(&w->engine);
    while (n > 0 && NULL == w->error && hw_poll(&w->dev, &completion)) {
        handle_completion(w, &completion);
        n--;
    }
    is_quiet = is_idle && fab_offload_poll_end_quiet(&w->engine);
    if (!is_quiet) {
        fab_offload_poll_end(&w->engine);
    }
    if (is_idle && !is_quiet) {
        fab_offload_idle(&w->engine);
    }
    if (!fab_offload_must_hold(&w->engine)) {
        w->dev.bufs += w->held_bufs;
        w->held_bufs = 0;
    }
    if (!is_quiet) {
        handle_events(w);
    }
    if (w->engine.is_polling && NULL == w->error) {
        w->error = "polling has not ended";
    }
    world_check(w);
}

void world_fail(world_t *w)
{
    w->dev.is_dead = true;
    fab_offload_fail(&w->engine);
    handle_events(w);
    world_check(w);
}

/* ---- the end ------------------------------------------------------------ */

/*
 * Is there a receive that this one may be waiting for?  A wildcard waits for any of its tag class,
 * and keys may share a bucket.
 */
static bool has_plain(const world_t *w, const fab_offload_recv_t *recv)
{
    for (unsigned i = 0; i < WORLD_RECVS; i++) {
        if (REF_FREE != w->rrecv[i].state && FAB_OFFLOAD_PLAIN == w->recv[i].state &&
            w->recv[i].scope == recv->scope &&
            (w->recv[i].match.tag < ANY) == (recv->match.tag < ANY)) {
            return true;
        }
    }
    return false;
}

static void check_scope_settled(world_t *w, const fab_offload_scope_t *scope)
{
    const fab_offload_recv_t *first = OWNER(scope->waiting.next, fab_offload_recv_t, link);

    world_expect(w, 0 == scope->removing, "a DEL has no outcome");
    world_expect(w, scope->parked.next == &scope->parked, "a message is parked for good");
    if (scope->waiting.next != &scope->waiting && !w->engine.is_refused &&
        w->engine.listed < w->engine.config.max_tags) {
        world_expect(w, has_plain(w, first), "a receive waits for nothing");
    }
}

static void check_settled(world_t *w)
{
    for (unsigned i = 0; i < w->dev.slots; i++) {
        world_expect(w, !w->dev.slot[i].is_listed || w->dev.slot[i].is_enabled,
                     "a listed receive is not in use");
    }
    world_expect(w, (uint16_t) w->engine.handled == w->dev.hw,
                 "unexpected messages are counted wrong");
    world_expect(w, 0 == w->held_bufs, "buffers are held back for good");
    world_expect(w, w->engine.ring_head == w->engine.ring_tail, "a command is not handed over");
    for (unsigned i = 0; i < WORLD_RECVS; i++) {
        world_expect(w, REF_MATCHED != w->rrecv[i].state,
                     "a receive was matched and is not completed");
    }
    for (unsigned s = 0; s < WORLD_SCOPES; s++) {
        check_scope_settled(w, &w->scope[s]);
    }
    for (unsigned i = 0; i < WORLD_MSGS; i++) {
        world_expect(w, REF_WAITING != w->rmsg[i].state || is_in_matcher(w, i),
                     "I5: a message is lost");
    }
}

void world_settle(world_t *w)
{
    unsigned quiet = 0;

    while (quiet < 3 && NULL == w->error) {
        quiet = 0 == w->dev.ncmd && 0 == w->dev.ncq ? quiet + 1 : 0;
        for (uint32_t i = 0; i < w->dev.slots; i++) {
            if (w->dev.slot[i].owes_data) {
                world_finish(w, i);
            }
        }
        if (w->dev.ncmd > 0) {
            world_execute(w);
        }
        world_poll(w, 1);
    }
    if (NULL == w->error && !w->engine.is_failed) {
        check_settled(w);
    }
}
