/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers between the offload engine and the senders; see offers_world.h. */
#include "offers_world.h"

#include <stdlib.h>
#include <string.h>

#define ANY               FAB_MATCH_ANY
#define OWNER(p, type, m) ((type *) ((char *) (p) -offsetof(type, m)))

static void expect(offers_world_t *w, bool ok, const char *text)
{
    if (!ok && NULL == w->error) {
        w->error = text;
    }
}

/*
 * What goes either way is in order.  What the sender is told has with it how many of its messages
 * were taken.
 */
static void push(offers_world_t *w, queue_t *queue, item_t item)
{
    expect(w, queue->num < OFFERS_QUEUE, "a queue of the test is full");
    if (queue->num < OFFERS_QUEUE) {
        queue->item[queue->num++] = item;
    }
}

static item_t pop(queue_t *queue)
{
    const item_t item = queue->item[0];

    queue->num--;
    memmove(queue->item, queue->item + 1, queue->num * sizeof(item));
    return item;
}

/* ---- the MPI rules --------------------------------------------------------- */

static bool fits(const wrecv_t *r, const wmsg_t *m)
{
    return (ANY == r->source || r->source == m->source) &&
           (ANY == r->tag ? m->tag >= 0 : r->tag == m->tag);
}

static void ref_match(offers_world_t *w, unsigned ri, unsigned mi)
{
    wrecv_t *r = &w->wrecv[ri];
    wmsg_t *m = &w->wmsg[mi];

    expect(w, fits(r, m), "I1: the message does not fit the receive");
    expect(w, WAITING == r->state, "I2: the receive was used before");
    expect(w, WAITING == m->state, "I2: the message was used before");
    expect(w, !r->is_skipped, "I4: a receive that was passed over took another message");
    for (unsigned i = 0; i < OFFERS_MSGS; i++) {
        const wmsg_t *other = &w->wmsg[i];

        expect(w,
               i == mi || WAITING != other->state || other->source != m->source ||
                   other->order > m->order || !fits(r, other),
               "I3: an older message of that source was overtaken");
    }
    for (unsigned i = 0; i < OFFERS_RECVS; i++) {
        wrecv_t *other = &w->wrecv[i];

        if (i != ri && WAITING == other->state && other->order < r->order && fits(other, m)) {
            expect(w, FAB_OFFLOAD_CANCELLING == w->recv[i].state,
                   "I4: an older receive that fits was passed over");
            other->is_skipped = true;
        }
    }
    r->state = MATCHED;
    r->msg = (int8_t) mi;
    m->state = MATCHED;
    m->recv = (int8_t) ri;
}

/* ---- the user --------------------------------------------------------------- */

static unsigned index_of(const offers_world_t *w, const fab_offload_recv_t *recv)
{
    return (unsigned) (recv - w->recv);
}

static void release(offers_world_t *w, fab_offload_recv_t *recv)
{
    if (NULL != recv->tm.place) {
        fab_ofi_places_release(&w->places, recv->tm.place);
        recv->tm.place = NULL;
    }
}

/* The receive is the program's again. */
static void give_back(offers_world_t *w, unsigned i)
{
    wrecv_t *r = &w->wrecv[i];
    const uint8_t use = (uint8_t) (r->use + 1);

    expect(w, FAB_OFFLOAD_OUT == w->recv[i].state, "a receive that was given back is not OUT");
    if (MATCHED == r->state) {
        w->wmsg[r->msg].state = FREE;
    }
    if (NULL == w->error) {
        memset(&w->recv[i], 0, sizeof(w->recv[i]));
        *r = (wrecv_t){.use = use};
    }
}

/* Software copies or reads the message to its place. */
static void deliver(offers_world_t *w, fab_offload_recv_t *recv, unsigned msg)
{
    const unsigned i = index_of(w, recv);

    release(w, recv);
    ref_match(w, i, msg);
    w->wmsg[msg].is_unexpected = false;
    expect(w, -1 == w->wrecv[i].landed, "I9: data of another message is in the receive's memory");
    give_back(w, i);
}

static void handle_event(offers_world_t *w, const fab_offload_event_t *event)
{
    const unsigned i = NULL != event->recv ? index_of(w, event->recv) : 0;
    const wrecv_t *r = &w->wrecv[i];

    switch (event->result) {
    case FAB_OFFLOAD_NOTHING:
        break;
    case FAB_OFFLOAD_COMPLETE:
        expect(w, MATCHED == r->state, "completed, and no message named it");
        expect(w, r->landed == r->msg, "I9: completed without its data");
        release(w, event->recv);
        give_back(w, i);
        break;
    case FAB_OFFLOAD_CANCELLED:
        expect(w, WAITING == r->state && r->is_cancelled,
               "I6: cancelled, and it was matched, or not to be cancelled");
        expect(w, -1 == r->landed, "I9: cancelled, and there is data in its memory");
        release(w, event->recv);
        give_back(w, i);
        break;
    default:
        expect(w, false, "an event that cannot be");
        break;
    }
}

static void handle_events(offers_world_t *w)
{
    fab_offload_event_t event;

    while (NULL == w->error && fab_offload_next(&w->engine, &event)) {
        handle_event(w, &event);
    }
}

static void arrive(offers_world_t *w, unsigned i)
{
    const wmsg_t *m = &w->wmsg[i];
    fab_offload_recv_t *recv = fab_offload_arrive(&w->scope, m->source, m->tag, true);

    if (NULL != recv) {
        deliver(w, recv, i);
    } else {
        fab_offload_keep(&w->scope, &w->msg[i], m->source, m->tag, true);
        w->wmsg[i].is_unexpected = true;
    }
    fab_offload_handled(&w->engine);
    fab_ofi_places_handled(&w->places);
}

/* ---- what the places ask for ------------------------------------------------- */

static source_t *source_of(const fab_ofi_source_t *source)
{
    return OWNER((uintptr_t) source, source_t, source);
}

static bool can_tell(void *ctx, const fab_ofi_source_t *source)
{
    (void) source;
    return !((offers_world_t *) ctx)->is_silent;
}

static void tell(void *ctx, fab_ofi_place_t *place, fab_ofi_word_t word)
{
    source_t *s = source_of(place->source);

    if (FAB_OFI_OFFER == word) {
        push(ctx, &s->in,
             (item_t){.kind = K_OFFER,
                      .id = place->id,
                      .tag = place->recv->tag,
                      .mask = place->recv->mask,
                      .len = place->recv->len,
                      .count = s->consumed});
    } else if (FAB_OFI_WITHDRAW == word) {
        push(ctx, &s->in, (item_t){.kind = K_WITHDRAW, .id = place->id, .count = s->consumed});
    }
}

static void complete(offers_world_t *w, completion_t completion)
{
    w->trecv[completion.trecv].is_ended = true;
    expect(w, w->num_completions < OFFERS_QUEUE, "the completion queue is full");
    if (w->num_completions < OFFERS_QUEUE) {
        w->completion[w->num_completions++] = completion;
    }
}

/* The tagged receive gets the message. */
static void land(offers_world_t *w, trecv_t *t, int8_t msg)
{
    wrecv_t *r = t->recv >= 0 ? &w->wrecv[t->recv] : NULL;

    if (NULL != r) {
        expect(w, r->use == t->use && FREE != r->state,
               "I9: data came to memory that was given back");
        expect(w, MATCHED != r->state || r->msg == msg,
               "I9: data came to a receive that has another message");
        expect(w, -1 == r->landed, "I9: data came twice");
        r->landed = msg;
    }
    complete(w, (completion_t){.trecv = (uint8_t) (t - w->trecv), .msg = msg});
}

static bool post(void *ctx, fab_ofi_place_t *place, void *buf, size_t len)
{
    offers_world_t *w = ctx;
    trecv_t *t = &w->trecv[place->index];
    const int8_t recv = NULL != buf ? (int8_t) ((char *) buf - w->memory) : -1;

    (void) len;
    expect(w, !t->is_used, "a tagged receive is posted twice");
    if (w->refusals > 0) {
        w->refusals--;
        return false;
    }
    *t = (trecv_t){.is_used = true,
                   .place = place,
                   .recv = recv,
                   .use = recv >= 0 ? w->wrecv[recv].use : 0,
                   .id = place->id,
                   .order = w->order++};
    for (uint32_t i = 0; i < w->num_unclaimed; i++) {
        if (t->id == w->unclaimed[i].id) {
            const int8_t msg = w->unclaimed[i].msg;

            w->num_unclaimed--;
            memmove(&w->unclaimed[i], &w->unclaimed[i + 1],
                    (w->num_unclaimed - i) * sizeof(w->unclaimed[0]));
            land(w, t, msg);
            break;
        }
    }
    return true;
}

static void cancel(void *ctx, fab_ofi_place_t *place)
{
    offers_world_t *w = ctx;

    expect(w, w->trecv[place->index].is_used, "a tagged receive is cancelled that is not posted");
    w->cancels[w->num_cancels++] = w->trecv[place->index].order;
}

static bool matched(void *ctx, fab_ofi_place_t *place, const fab_tm_match_t *match)
{
    offers_world_t *w = ctx;
    fab_offload_recv_t *recv = fab_offload_recv_of(place->recv);
    fab_offload_event_t event = {.recv = recv};

    expect(w, FAB_TM_LOST != match->kind, "lost without reason");
    if (match->is_first) {
        ref_match(w, index_of(w, recv), match->hdr.app_ctx);
        w->named++;
        w->landed_first += match->is_last;
    }
    if (NULL == w->error) {
        event.result = fab_offload_matched(recv, match->is_last);
        handle_event(w, &event);
    }
    return true;
}

static bool done(void *ctx, uint64_t wr_id, bool is_success)
{
    offers_world_t *w = ctx;
    const fab_offload_event_t event = fab_offload_done(&w->engine, wr_id, is_success);

    handle_event(w, &event);
    return true;
}

static const fab_ofi_places_ops_t places_ops = {
    .can_tell = can_tell,
    .tell = tell,
    .post = post,
    .cancel = cancel,
    .matched = matched,
    .done = done,
};

static int tm_post(void *device, const fab_tm_cmd_t *cmd)
{
    offers_world_t *w = device;
    fab_ofi_source_t *source = NULL;

    expect(w, !w->engine.is_polling, "a command was posted while polling");
    if (FAB_TM_ADD == cmd->op) {
        source = &w->source[cmd->recv->tag >> 32 & 0xffff].source;
    }
    return fab_ofi_places_post(&w->places, cmd, source);
}

static const fab_tm_ops_t tm_ops = {.post = tm_post};

/* ---- init -------------------------------------------------------------------- */

void offers_init(offers_world_t *w)
{
    const fab_offload_config_t config = {
        .ops = &tm_ops, .device = w, .max_tags = 8, .max_ops = 16, .report_every = 1 << 14};

    memset(w, 0, sizeof(*w));
    expect(w, fab_offload_init(&w->engine, &config), "fab_offload_init failed");
    expect(w, w->engine.ring_mask < OFFERS_RING, "OFFERS_RING is too small");
    free(w->engine.ring);
    w->engine.ring = w->ring;
    fab_match_init(&w->dom);
    w->dom.posted_short = &w->posted_short;
    w->dom.posted_max = w->dom.short_max = FAB_MATCH_SHORT_LEN;
    expect(w, fab_offload_scope_init(&w->scope, &w->engine, &w->dom), "scope_init failed");
    free(w->scope.plain);
    w->scope.plain = &w->filter[0];
    w->scope.late = &w->filter[1];
    w->places = (fab_ofi_places_t){.ops = &places_ops,
                                   .ctx = w,
                                   .place = w->place,
                                   .num = OFFERS_PLACES,
                                   .signals = w->signal,
                                   .max_signals = 16};
    fab_ofi_places_init(&w->places);
    for (unsigned s = 0; s < OFFERS_SOURCES; s++) {
        fab_ofi_source_init(&w->source[s].source);
        w->source[s].offers.window = OFFERS_WINDOW;
        w->source[s].offers.sent = w->source[s].sent_tags;
    }
}

void offers_fini(offers_world_t *w)
{
    w->dom.posted_short = NULL;
    fab_match_fini(&w->dom);
}

/* ---- steps ------------------------------------------------------------------- */

static uint64_t wire_tag(int32_t source, int32_t tag)
{
    return (uint64_t) (uint16_t) source << 32 | (uint32_t) tag;
}

void offers_post(offers_world_t *w, unsigned i, int32_t source, int32_t tag, size_t len)
{
    fab_offload_recv_t *recv = &w->recv[i];
    const fab_match_msg_t *msg;

    memset(recv, 0, sizeof(*recv));
    w->wrecv[i] = (wrecv_t){.state = WAITING,
                            .source = source,
                            .tag = tag,
                            .order = w->order++,
                            .landed = -1,
                            .use = w->wrecv[i].use};
    recv->tm.mask = 0xffffull << 32 | (ANY == tag ? 0x80000000u : 0xffffffffu);
    recv->tm.tag = wire_tag(ANY == source ? 0 : source, ANY == tag ? 0 : tag) & recv->tm.mask;
    recv->tm.data = &w->memory[i];
    recv->tm.len = len;
    msg = fab_match_take(&w->dom, source, tag);
    if (NULL != msg) {
        deliver(w, recv, (unsigned) (msg - w->msg));
    } else {
        fab_offload_post(&w->scope, recv, source, tag,
                         ANY == source ? FAB_OFFLOAD_ANY_SOURCE : FAB_OFFLOAD_LISTABLE);
    }
    handle_events(w);
}

void offers_cancel(offers_world_t *w, unsigned i)
{
    wrecv_t *r = &w->wrecv[i];

    switch (fab_offload_cancel(&w->scope, &w->recv[i])) {
    case FAB_OFFLOAD_NOT_POSTED:
        expect(w, MATCHED == r->state || r->is_cancelled, "I6: cancel did not find a receive");
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
}

bool offers_send(offers_world_t *w, unsigned i, int32_t source, int32_t tag, bool is_long)
{
    source_t *s = &w->source[source];
    const uint64_t wire = wire_tag(source, tag);
    const uint32_t id = is_long ? fab_ofi_offers_find(&s->offers, wire, LONG_LEN) : 0;

    if ((uint16_t) (s->sent - s->taken) >= OFFERS_WINDOW) {
        return false;
    }
    w->wmsg[i] = (wmsg_t){.state = WAITING,
                          .is_long = is_long,
                          .is_named = 0 != id,
                          .source = source,
                          .tag = tag,
                          .order = w->order++};
    if (0 != id) {
        fab_ofi_offers_remove(&s->offers, id);
        push(w, &s->data, (item_t){.msg = (int8_t) i, .id = id});
        push(w, &s->out, (item_t){.kind = K_NAMED, .msg = (int8_t) i, .id = id, .tag = wire});
    } else {
        fab_ofi_offers_note(&s->offers, s->sent++, true, wire);
        push(w, &s->out, (item_t){.kind = K_MSG, .msg = (int8_t) i});
    }
    return true;
}

bool offers_tell_sender(offers_world_t *w, unsigned source)
{
    source_t *s = &w->source[source];
    item_t item;

    if (0 == s->in.num) {
        return false;
    }
    item = pop(&s->in);
    s->taken = item.count;
    if (K_WITHDRAW == item.kind) {
        fab_ofi_offers_remove(&s->offers, item.id);
        push(w, &s->out, (item_t){.kind = K_GONE, .id = item.id});
    } else if (K_OFFER == item.kind) {
        const fab_ofi_offer_t offer = {
            .id = item.id, .tag = item.tag, .mask = item.mask, .len = item.len};

        expect(w, fab_ofi_offers_add(&s->offers, &offer, item.count, s->sent),
               "an offer is impossible");
    }
    return true;
}

bool offers_credit(offers_world_t *w, unsigned source)
{
    source_t *s = &w->source[source];
    const uint16_t last = s->in.num > 0 ? s->in.item[s->in.num - 1].count : s->taken;

    if (last == s->consumed) {
        return false;
    }
    push(w, &s->in, (item_t){.kind = K_CREDIT, .count = s->consumed});
    return true;
}

bool offers_data(offers_world_t *w, unsigned source)
{
    source_t *s = &w->source[source];
    trecv_t *first = NULL;
    item_t item;

    if (0 == s->data.num) {
        return false;
    }
    item = pop(&s->data);
    for (unsigned i = 0; i < OFFERS_PLACES; i++) {
        trecv_t *t = &w->trecv[i];

        if (t->is_used && !t->is_ended && item.id == t->id) {
            first = t;
        }
    }
    if (NULL != first) {
        land(w, first, item.msg);
    } else {
        w->unclaimed[w->num_unclaimed++] = item;
    }
    return true;
}

bool offers_execute_cancel(offers_world_t *w)
{
    uint32_t order;

    if (0 == w->num_cancels) {
        return false;
    }
    order = w->cancels[0];
    w->num_cancels--;
    memmove(w->cancels, w->cancels + 1, w->num_cancels * sizeof(order));
    for (unsigned i = 0; i < OFFERS_PLACES; i++) {
        if (w->trecv[i].is_used && !w->trecv[i].is_ended && order == w->trecv[i].order) {
            complete(w, (completion_t){.trecv = (uint8_t) i, .is_cancelled = true});
        }
    }
    return true;
}

static void poll_completion(offers_world_t *w, unsigned at)
{
    const completion_t c = w->completion[at];
    fab_ofi_place_t *place = w->trecv[c.trecv].place;

    w->num_completions--;
    memmove(&w->completion[at], &w->completion[at + 1],
            (w->num_completions - at) * sizeof(w->completion[0]));
    w->trecv[c.trecv].is_used = false;
    if (c.is_cancelled) {
        fab_ofi_places_cancelled(&w->places, place, false);
    } else {
        expect(w, fab_ofi_places_landed(&w->places, place, LONG_LEN), "data of another length");
    }
}

static void poll_message(offers_world_t *w, source_t *s)
{
    const item_t item = pop(&s->out);

    if (K_GONE == item.kind) {
        expect(w, fab_ofi_places_gone(&w->places, &s->source, item.id),
               "GONE for what was not withdrawn");
        return;
    }
    if (K_NAMED == item.kind) {
        switch (fab_ofi_places_named(&w->places, &s->source, item.id,
                                     fab_hdr(FAB_AM_RNDV, item.tag, (uint32_t) item.msg),
                                     LONG_LEN)) {
        case FAB_OFI_NAMED_MATCH:
            return;
        case FAB_OFI_NAMED_NONE:
            w->in_vain++;
            break;
        case FAB_OFI_NAMED_BAD:
            expect(w, false, "a message names an offer that there is not");
            return;
        }
    } else {
        s->consumed++;
    }
    if (NULL == w->error) {
        arrive(w, (unsigned) item.msg);
    }
}

bool offers_poll(offers_world_t *w, unsigned source, unsigned msgs, unsigned completion,
                 unsigned completions)
{
    source_t *s = &w->source[source];
    int events = 0;

    fab_offload_poll_begin(&w->engine);
    while (NULL == w->error && (msgs > 0 || completions > 0)) {
        if (msgs > 0 && s->out.num > 0) {
            poll_message(w, s);
            events++;
        }
        if (NULL == w->error && completions > 0 && completion < w->num_completions) {
            poll_completion(w, completion);
            events++;
        }
        msgs -= msgs > 0;
        completions -= completions > 0;
        handle_events(w);
    }
    if (NULL == w->error) {
        events += fab_ofi_places_step(&w->places);
        fab_offload_poll_end(&w->engine);
        handle_events(w);
        if (0 == events) {
            fab_offload_idle(&w->engine);
        }
    }
    return events > 0;
}

/* ---- the end ----------------------------------------------------------------- */

static void check_settled(offers_world_t *w)
{
    uint32_t used = 0;

    for (unsigned i = 0; i < OFFERS_PLACES; i++) {
        const fab_ofi_place_t *place = &w->place[i];

        used += place->is_used;
        expect(w, !place->is_used || (place->is_listed && !place->is_gone && !place->is_matched),
               "I10: a place is in use for nothing");
    }
    expect(w, used == w->engine.listed, "I10: more places than receives on the list");
    expect(w, 0 == w->num_unclaimed, "I10: libfabric has data that nobody fetches");
    expect(w, 0 == w->scope.removing, "a DEL has no outcome");
    expect(w, w->engine.ring_head == w->engine.ring_tail, "a command is not handed over");
    for (unsigned i = 0; i < OFFERS_RECVS; i++) {
        expect(w, MATCHED != w->wrecv[i].state, "a receive was matched and is not completed");
        for (unsigned m = 0; m < OFFERS_MSGS; m++) {
            expect(w,
                   WAITING != w->wrecv[i].state || WAITING != w->wmsg[m].state ||
                       !fits(&w->wrecv[i], &w->wmsg[m]),
                   "I5: a message and a receive that fit each other wait");
        }
    }
    for (unsigned m = 0; m < OFFERS_MSGS; m++) {
        expect(w, WAITING != w->wmsg[m].state || w->wmsg[m].is_unexpected, "I5: a message is lost");
    }
    for (unsigned s = 0; s < OFFERS_SOURCES; s++) {
        const fab_ofi_source_t *source = &w->source[s].source;

        expect(w, 0 == source->num_gone && 0 == source->num_cancelling, "I10: a number is wrong");
        expect(w, w->is_silent || 0 == source->num_unoffered, "a receive is not offered");
        expect(w, source->num_offered == w->source[s].offers.num || w->is_silent,
               "sender and receiver have different offers");
    }
}

void offers_settle(offers_world_t *w)
{
    unsigned quiet = 0;

    w->refusals = 0;
    while (quiet < 4 && NULL == w->error) {
        bool is_busy = offers_execute_cancel(w);

        for (unsigned s = 0; s < OFFERS_SOURCES && NULL == w->error; s++) {
            is_busy |= offers_tell_sender(w, s);
            is_busy |= offers_credit(w, s);
            is_busy |= offers_data(w, s);
            is_busy |= NULL == w->error && offers_poll(w, s, 1, 0, 1);
        }
        quiet = is_busy ? 0 : quiet + 1;
    }
    if (NULL == w->error) {
        check_settled(w);
    }
}
