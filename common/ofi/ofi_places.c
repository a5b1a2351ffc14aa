/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers, at the receiver; see ofi_places.h. */
#include "ofi/ofi_places.h"

#include "ofi/ofi_offers.h"

/* ---- a place ------------------------------------------------------------- */

void fab_ofi_places_init(fab_ofi_places_t *places)
{
    TAILQ_INIT(&places->free);
    TAILQ_INIT(&places->unoffered);
    for (uint32_t i = 0; i < places->num; i++) {
        places->place[i].index = i;
        TAILQ_INSERT_TAIL(&places->free, &places->place[i], link);
    }
    places->next_id = places->num;
}

void fab_ofi_source_init(fab_ofi_source_t *source)
{
    *source = (fab_ofi_source_t){0};
    TAILQ_INIT(&source->places);
}

static fab_ofi_place_t *place_get(fab_ofi_places_t *places, fab_ofi_source_t *source,
                                  fab_tm_recv_t *recv)
{
    fab_ofi_place_t *place = TAILQ_FIRST(&places->free);

    if (NULL != place) {
        TAILQ_REMOVE(&places->free, place, link);
        *place = (fab_ofi_place_t){.index = place->index,
                                   .source = source,
                                   .recv = recv,
                                   .is_used = true,
                                   .is_listed = true};
        TAILQ_INSERT_TAIL(&source->places, place, link);
    }
    return place;
}

/* Free it, if nobody has anything to do with it any more. */
static void place_put(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    if (!place->is_used || place->is_listed || NULL != place->recv || place->is_offered ||
        place->is_gone || place->is_junk || place->is_deleting || FAB_OFI_IO_WANTED == place->io ||
        FAB_OFI_IO_POSTED == place->io || FAB_OFI_IO_CANCELLING == place->io) {
        return;
    }
    if (NULL != place->source) {
        TAILQ_REMOVE(&place->source->places, place, link);
    }
    place->is_used = false;
    TAILQ_INSERT_HEAD(&places->free, place, link);
}

static fab_ofi_place_t *place_find(const fab_ofi_places_t *places, const fab_ofi_source_t *source,
                                   uint32_t id)
{
    fab_ofi_place_t *place = &places->place[id & (places->num - 1)];

    return place->is_used && id == place->id && source == place->source ? place : NULL;
}

/* ---- libfabric ------------------------------------------------------------ */

static void set_wanted(fab_ofi_places_t *places, fab_ofi_place_t *place, bool is_wanted)
{
    places->num_wanted += is_wanted;
    places->num_wanted -= FAB_OFI_IO_WANTED == place->io;
    place->io = is_wanted ? FAB_OFI_IO_WANTED : FAB_OFI_IO_NONE;
}

/* Get the data that its sender has sent, or is about to. */
static void fetch(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    bool is_posted = places->ops->post(places->ctx, place,
                                       place->is_junk ? NULL : place->recv->data, place->len);

    set_wanted(places, place, !is_posted);
    if (is_posted) {
        place->io = FAB_OFI_IO_POSTED;
    }
}

static void take_back(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    if (FAB_OFI_IO_POSTED == place->io) {
        place->io = FAB_OFI_IO_CANCELLING;
        if (NULL != place->source) {
            place->source->num_cancelling++;
        }
        places->ops->cancel(places->ctx, place);
    }
}

static void settled(fab_ofi_place_t *place, fab_ofi_io_t io)
{
    if (FAB_OFI_IO_CANCELLING == place->io && NULL != place->source) {
        place->source->num_cancelling--;
    }
    place->io = (uint8_t) io;
}

static void junk_ended(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    place->is_junk = false;
    place->io = FAB_OFI_IO_NONE;
    place_put(places, place);
}

/* ---- offers --------------------------------------------------------------- */

static void set_unoffered(fab_ofi_places_t *places, fab_ofi_place_t *place, bool is_unoffered)
{
    fab_ofi_source_t *source = place->source;

    if (is_unoffered == place->is_unoffered) {
        return;
    }
    place->is_unoffered = is_unoffered;
    if (is_unoffered && 1 == ++source->num_unoffered) {
        TAILQ_INSERT_TAIL(&places->unoffered, source, link);
    } else if (!is_unoffered && 0 == --source->num_unoffered) {
        TAILQ_REMOVE(&places->unoffered, source, link);
    }
}

static void set_offered(fab_ofi_place_t *place, bool is_offered)
{
    if (is_offered != place->is_offered) {
        place->is_offered = is_offered;
        place->source->num_offered += is_offered ? 1 : UINT32_MAX;
    }
}

static void set_gone(fab_ofi_place_t *place, bool is_gone)
{
    if (is_gone != place->is_gone) {
        place->is_gone = is_gone;
        place->source->num_gone += is_gone ? 1 : UINT32_MAX;
    }
}

/* While an answer is awaited, messages that named a withdrawn offer may come. */
static bool may_offer(const fab_ofi_places_t *places, const fab_ofi_source_t *source)
{
    return 0 == source->num_gone && 0 == source->num_cancelling &&
           source->num_offered < FAB_OFI_OFFERS_MAX && places->ops->can_tell(places->ctx, source);
}

/* False: not now. */
static bool offer(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    if (!may_offer(places, place->source) || FAB_OFI_IO_NONE != place->io) {
        return false;
    }
    place->id = places->next_id | place->index;
    if (!places->ops->post(places->ctx, place, place->recv->data, place->recv->len)) {
        return false;
    }
    places->next_id += places->num;
    places->next_id = 0 == places->next_id ? places->num : places->next_id;
    place->io = FAB_OFI_IO_POSTED;
    place->len = place->recv->len;
    set_offered(place, true);
    places->ops->tell(places->ctx, place, FAB_OFI_OFFER);
    return true;
}

static void withdraw(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    if (place->is_offered && !place->is_gone) {
        set_gone(place, true);
        places->ops->tell(places->ctx, place, FAB_OFI_WITHDRAW);
    }
}

/*
 * Offer what was not, in order.  A message that came may have passed over a receive whose DEL is
 * not handed over yet, but is ahead of a command that has the message's count.
 */
static int offer_more(fab_ofi_places_t *places, fab_ofi_source_t *source)
{
    fab_ofi_place_t *place, *next;
    int num = 0;

    if (places->handled != places->reported || !may_offer(places, source)) {
        return 0;
    }
    for (place = TAILQ_FIRST(&source->places); NULL != place && source->num_unoffered > 0;
         place = next) {
        next = TAILQ_NEXT(place, link);
        if (!place->is_unoffered || NULL == place->recv || place->is_deleting) {
            continue;
        }
        if (!offer(places, place)) {
            break;
        }
        set_unoffered(places, place, false);
        num++;
    }
    return num;
}

/* ---- commands ------------------------------------------------------------- */

static int post_add(fab_ofi_places_t *places, fab_tm_recv_t *recv, fab_ofi_source_t *source)
{
    fab_ofi_place_t *place = place_get(places, source, recv);

    if (NULL == place) {
        return FAB_TM_BUSY;
    }
    recv->place = place;
    recv->handle = place->index;
    if (0 != source->num_unoffered || !offer(places, place)) {
        set_unoffered(places, place, true);
    }
    return FAB_TM_POSTED;
}

static void end_listing(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    place->is_listed = false;
    if (NULL != place->source) {
        set_unoffered(places, place, false);
    }
}

/* A signaled DEL succeeds: from here on nothing matches the receive. */
static void cut(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    place->is_cut = true;
    end_listing(places, place);
    withdraw(places, place);
}

/*
 * All memory of the source is back but that where data has come, which belongs to messages to come.
 * The other offers are withdrawn: those of receives that stay on the list are made anew later.
 */
static void decide(fab_ofi_places_t *places, fab_ofi_source_t *source)
{
    fab_ofi_place_t *place;

    if (NULL == source || 0 != source->num_cancelling) {
        return;
    }
    TAILQ_FOREACH(place, &source->places, link) {
        if (place->is_matched || FAB_OFI_IO_NONE != place->io) {
            continue;
        }
        if (place->is_deleting && !place->is_cut) {
            cut(places, place);
        } else if (place->is_offered && place->is_listed) {
            withdraw(places, place);
            set_unoffered(places, place, true);
        }
    }
}

static void post_del(fab_ofi_places_t *places, fab_ofi_place_t *place, bool is_signaled)
{
    fab_ofi_place_t *other;

    if (!is_signaled) {
        end_listing(places, place);
        take_back(places, place);
        withdraw(places, place);
        place_put(places, place);
        return;
    }
    place->is_deleting = true;
    if (!place->is_offered || NULL == place->source) {
        take_back(places, place);
        return;
    }
    TAILQ_FOREACH_REVERSE(other, &place->source->places, fab_ofi_place_queue, link) {
        if (!other->is_matched && !other->is_junk) {
            take_back(places, other);
        }
    }
    decide(places, place->source);
}

int fab_ofi_places_post(fab_ofi_places_t *places, const fab_tm_cmd_t *cmd, fab_ofi_source_t *source)
{
    fab_ofi_place_t *place = FAB_TM_DEL == cmd->op ? &places->place[cmd->handle] : NULL;

    if (cmd->is_signaled) {
        if (places->signals_tail - places->signals_head == places->max_signals) {
            return FAB_TM_BUSY;
        }
        places->signals[places->signals_tail++ & (places->max_signals - 1)] = (fab_ofi_signal_t){
            .wr_id = cmd->wr_id, .place = place};
    }
    places->reported = cmd->count;
    if (NULL != place) {
        post_del(places, place, cmd->is_signaled);
    }
    return FAB_TM_ADD == cmd->op ? post_add(places, cmd->recv, source) : FAB_TM_POSTED;
}

void fab_ofi_places_release(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    place->recv = NULL;
    place_put(places, place);
}

void fab_ofi_places_clear(fab_ofi_places_t *places)
{
    places->signals_head = places->signals_tail;
    for (uint32_t i = 0; i < places->num; i++) {
        fab_ofi_place_t *place = &places->place[i];

        if (place->is_used) {
            place->is_deleting = false;
            place->recv = NULL;
            place->is_matched = false;
            if (FAB_OFI_IO_WANTED == place->io && !place->is_junk) {
                set_wanted(places, place, false);
            }
            post_del(places, place, false);
        }
    }
}

/* Is the outcome of a signaled DEL known? */
static bool is_decided(const fab_ofi_place_t *place)
{
    return place->is_matched || place->is_cut ||
           ((NULL == place->source || !place->is_offered) && FAB_OFI_IO_POSTED != place->io &&
            FAB_OFI_IO_CANCELLING != place->io);
}

static int complete_signals(fab_ofi_places_t *places)
{
    int num = 0;

    while (places->signals_head != places->signals_tail) {
        const fab_ofi_signal_t signal =
            places->signals[places->signals_head & (places->max_signals - 1)];
        fab_ofi_place_t *place = signal.place;
        bool is_success = true;

        if (NULL != place) {
            if (!is_decided(place)) {
                break;
            }
            is_success = !place->is_matched;
            place->is_deleting = false;
            if (is_success && !place->is_cut) {
                cut(places, place);
            }
        }
        places->signals_head++;
        num++;
        (void) places->ops->done(places->ctx, signal.wr_id, is_success);
        if (NULL != place) {
            place_put(places, place);
        }
    }
    return num;
}

/* ---- matches --------------------------------------------------------------- */

/* All that comes for a matched receive has come. False: it is not what the sender had said. */
static bool finish(fab_ofi_places_t *places, fab_ofi_place_t *place, bool is_first, bool is_lost)
{
    const bool is_right = is_lost || place->landed == place->len;
    const fab_tm_match_t match = {
        .is_first = is_first,
        .is_last = true,
        .kind = is_lost || !is_right ? FAB_TM_LOST : FAB_TM_READ,
        .len = place->len,
        .hdr = place->hdr,
    };

    if (FAB_TM_READ == match.kind) {
        places->ops->tell(places->ctx, place, FAB_OFI_PLACED);
    }
    (void) places->ops->matched(places->ctx, place, &match); /* releases it */
    return is_right;
}

fab_ofi_named_t fab_ofi_places_named(fab_ofi_places_t *places, fab_ofi_source_t *source,
                                     uint32_t id, fab_hdr_t hdr, size_t len)
{
    fab_ofi_place_t *place = place_find(places, source, id);
    const fab_tm_match_t match = {.is_first = true, .hdr = hdr};

    if (NULL == place || !place->is_offered || 0 == len || len > place->len ||
        (NULL != place->recv && (hdr.tag & place->recv->mask) != place->recv->tag)) {
        return FAB_OFI_NAMED_BAD;
    }
    set_offered(place, false);
    place->hdr = hdr;
    place->len = len;
    if (place->is_gone || NULL == place->recv) {
        place->is_junk = FAB_OFI_IO_LANDED != place->io;
        if (FAB_OFI_IO_NONE == place->io) {
            fetch(places, place);
        }
        return FAB_OFI_NAMED_NONE;
    }
    place->is_matched = true;
    place->is_listed = false;
    if (FAB_OFI_IO_LANDED == place->io) {
        return finish(places, place, true, false) ? FAB_OFI_NAMED_MATCH : FAB_OFI_NAMED_BAD;
    }
    if (FAB_OFI_IO_NONE == place->io) {
        fetch(places, place);
    }
    (void) places->ops->matched(places->ctx, place, &match);
    return FAB_OFI_NAMED_MATCH;
}

bool fab_ofi_places_landed(fab_ofi_places_t *places, fab_ofi_place_t *place, size_t len)
{
    fab_ofi_source_t *source = place->source;
    bool is_right = true;

    settled(place, FAB_OFI_IO_LANDED);
    place->landed = len;
    if (place->is_junk) {
        junk_ended(places, place);
    } else if (place->is_matched) {
        is_right = finish(places, place, false, false);
    } else {
        place->io = place->is_offered ? FAB_OFI_IO_LANDED : FAB_OFI_IO_NONE;
        place_put(places, place);
    }
    decide(places, source);
    return is_right;
}

void fab_ofi_places_cancelled(fab_ofi_places_t *places, fab_ofi_place_t *place, bool is_broken)
{
    fab_ofi_source_t *source = place->source;
    const bool is_over = is_broken || place->is_lost || NULL == source;

    settled(place, FAB_OFI_IO_NONE);
    if (!is_over && (place->is_junk || place->is_matched)) {
        fetch(places, place);
    } else if (place->is_junk) {
        junk_ended(places, place);
    } else if (place->is_matched) {
        (void) finish(places, place, false, true);
    } else {
        place_put(places, place);
    }
    decide(places, source);
}

bool fab_ofi_places_gone(fab_ofi_places_t *places, fab_ofi_source_t *source, uint32_t id)
{
    fab_ofi_place_t *place = place_find(places, source, id);

    if (NULL == place || !place->is_gone) {
        return false;
    }
    set_gone(place, false);
    set_offered(place, false);
    place_put(places, place);
    return true;
}

/* ---- the end of a session --------------------------------------------------- */

static void place_drop(fab_ofi_places_t *places, fab_ofi_place_t *place)
{
    set_offered(place, false);
    set_gone(place, false);
    place->is_lost = place->is_matched || place->is_junk;
    if (FAB_OFI_IO_LANDED == place->io && !place->is_matched) {
        place->io = FAB_OFI_IO_NONE;
    }
    if (FAB_OFI_IO_WANTED == place->io) {
        set_wanted(places, place, false);
        fab_ofi_places_cancelled(places, place, true);
        return;
    }
    take_back(places, place);
    if (place->is_listed) {
        set_unoffered(places, place, true);
    }
    place_put(places, place);
}

void fab_ofi_places_drop(fab_ofi_places_t *places, fab_ofi_source_t *source)
{
    fab_ofi_place_t *place, *next;

    for (place = TAILQ_FIRST(&source->places); NULL != place; place = next) {
        next = TAILQ_NEXT(place, link);
        place_drop(places, place);
    }
}

void fab_ofi_places_forget(fab_ofi_places_t *places, fab_ofi_source_t *source)
{
    fab_ofi_place_t *place;

    while (NULL != (place = TAILQ_FIRST(&source->places))) {
        set_unoffered(places, place, false);
        TAILQ_REMOVE(&source->places, place, link);
        place->source = NULL;
        place_put(places, place);
    }
}

bool fab_ofi_places_is_busy(const fab_ofi_source_t *source)
{
    const fab_ofi_place_t *place;

    TAILQ_FOREACH(place, &source->places, link) {
        if (FAB_OFI_IO_POSTED == place->io || FAB_OFI_IO_CANCELLING == place->io) {
            return true;
        }
    }
    return false;
}

/* ---- now and then ----------------------------------------------------------- */

int fab_ofi_places_step(fab_ofi_places_t *places)
{
    int num = complete_signals(places);
    fab_ofi_source_t *source, *next;

    for (uint32_t i = 0; places->num_wanted > 0 && i < places->num; i++) {
        if (FAB_OFI_IO_WANTED == places->place[i].io) {
            fetch(places, &places->place[i]);
        }
    }
    for (source = TAILQ_FIRST(&places->unoffered); NULL != source; source = next) {
        next = TAILQ_NEXT(source, link);
        num += offer_more(places, source);
    }
    return num;
}
