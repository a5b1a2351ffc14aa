/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams or reads; see pml_tm_route.h.
 */
#include "pml_tm_route.h"

#include "fabric/fab_clock.h"
#include "fabric/fab_inl.h"

#include "pml_tm_peer.h"

/* The longest message of each class but the last, bytes. */
static const size_t class_max[] = {32768, 65536, 131072};

enum {
    CLASSES = sizeof(class_max) / sizeof(class_max[0]) + 1,
    LATELY = 512,     /* messages sent and received; then either number is halved */
    PROMPT_NS = 5000, /* a message that is seen that long after it was sent waited for nothing */
};

static unsigned class_of(size_t len)
{
    unsigned kind = 0;

    while (kind < CLASSES - 1 && len > class_max[kind]) {
        kind++;
    }
    return kind;
}

/* The record for messages of this class of lengths to the peer. */
static mca_pml_tm_route_t *route_at(const fab_peer_t *peer, unsigned kind)
{
    return &mca_pml_tm.routes[((uintptr_t) peer / sizeof(*peer) * CLASSES + kind) % PML_TM_ROUTES];
}

static mca_pml_tm_route_t *route_of(const fab_peer_t *peer, size_t len)
{
    return route_at(peer, class_of(len));
}

/* Messages of a class begin with the route that shorter ones have found. */
static void route_begin(mca_pml_tm_route_t *route, const fab_peer_t *peer, unsigned kind)
{
    const mca_pml_tm_route_t *shorter = kind > 0 ? route_at(peer, kind - 1) : NULL;

    *route = (mca_pml_tm_route_t){
        .peer = peer,
        .trial = NULL != shorter && peer == shorter->peer
                     ? fab_trial_after(&shorter->trial, PML_TM_ROUTE_READ, true)
                     : fab_trial_begin(FAB_TRIAL_FIRST, true)};
}

/* Count a message, in one of these. */
static void count(unsigned *messages)
{
    ++*messages;
    if (OPAL_UNLIKELY(mca_pml_tm.long_sent + mca_pml_tm.long_received > LATELY)) {
        mca_pml_tm.long_sent /= 2;
        mca_pml_tm.long_received /= 2;
    }
}

/* Does this process receive about as many such messages as it sends? */
static bool is_both_ways(void)
{
    return 4 * mca_pml_tm.long_received >= mca_pml_tm.long_sent &&
           4 * mca_pml_tm.long_sent >= mca_pml_tm.long_received;
}

/* The route of messages that are no tries. */
static unsigned route_best(const mca_pml_tm_route_t *route, const fab_peer_t *peer)
{
    if (route->has_theirs && !fab_trial_is_clear(&route->trial) && is_both_ways() &&
        mca_pml_tm.fab->config.name < peer->name) {
        return route->theirs;
    }
    return fab_trial_best(&route->trial);
}

bool mca_pml_tm_route_is_read(fab_peer_t *peer, size_t len)
{
    mca_pml_tm_route_t *route = route_of(peer, len);
    int choice = mca_pml_tm.params.stream_get;

    if (choice >= 0) {
        return PML_TM_ROUTE_READ == choice;
    }
    if (OPAL_UNLIKELY(route->peer != peer)) {
        route_begin(route, peer, class_of(len));
    }
    route->is_try = fab_trial_is_due(&route->trial) && fab_ring_is_lapped(peer);
    return PML_TM_ROUTE_READ ==
           (route->is_try ? fab_trial_due(&route->trial) : route_best(route, peer));
}

uint32_t mca_pml_tm_route_take(fab_peer_t *peer, size_t len)
{
    mca_pml_tm_route_t *route = route_of(peer, len);
    bool is_try;
    uint32_t now;

    count(&mca_pml_tm.long_sent);
    if (route->peer != peer || (fab_trial_is_due(&route->trial) && !route->is_try)) {
        return 0;
    }
    (void) fab_trial_next(&route->trial, &is_try);
    if (OPAL_LIKELY(!is_try)) {
        return 0;
    }
    route->is_try = false;
    ++mca_pml_tm.counters.route_tries;
    now = (uint32_t) fab_now_ns() & ~(uint32_t) PML_TM_SENT_BEHIND;
    if (mca_pml_tm.ids.used > 1 || !fab_ring_is_taken(peer)) {
        return now | PML_TM_SENT_BEHIND;
    }
    return 0 != now ? now : PML_TM_SENT_BEHIND << 1;
}

void mca_pml_tm_route_wrote(const fab_peer_t *peer, size_t len, uint32_t sent_at)
{
    mca_pml_tm_route_t *route = route_of(peer, len);

    if (route->peer == peer) {
        route->wrote = (uint32_t) fab_now_ns() - sent_at;
    }
}

mca_pml_tm_asked_time_t mca_pml_tm_route_seen(const fab_peer_t *peer, unsigned route, size_t len,
                                              uint32_t sent_at)
{
    mca_pml_tm_asked_time_t asked = {.since = sent_at};
    mca_pml_tm_route_t *back = route_of(peer, len);
    uint32_t now;

    if (len > mca_pml_tm.eager_limit) { /* shorter ones are always streamed */
        count(&mca_pml_tm.long_received);
        if (back->peer == peer) {
            back->has_theirs = true;
            back->theirs = (uint8_t) route;
        }
    }
    if (0 != sent_at) {
        now = (uint32_t) fab_now_ns();
        asked.is_late = 0 != (sent_at & PML_TM_SENT_BEHIND) || now - sent_at > PROMPT_NS;
        asked.since = asked.is_late ? now | 1 : sent_at;
    }
    return asked;
}

void mca_pml_tm_route_answer(fab_peer_t *peer, unsigned route, size_t len,
                             mca_pml_tm_asked_time_t asked)
{
    const uint32_t ns = (uint32_t) fab_now_ns() - asked.since;

    (void) fab_post(peer,
                    fab_hdr(PML_TM_AM_TOOK, (uint64_t) len << 32 | ns,
                            route | (asked.is_late ? PML_TM_TOOK_LATE : 0)),
                    NULL, 0);
}

/*
 * What a stream in a window takes, of which the receiver's part took so long.  While messages go
 * one way, the two work side by side, and the slower one counts; if they go both ways, each process
 * has to do both parts.
 */
static uint64_t time_of_late_stream(uint64_t wrote, uint64_t read)
{
    return is_both_ways() ? wrote + read : wrote > read ? wrote : read;
}

void mca_pml_tm_route_took(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    const size_t bytes = hdr.tag >> 32;
    const unsigned way = hdr.app_ctx & ~(uint32_t) PML_TM_TOOK_LATE;
    mca_pml_tm_route_t *route = route_of(peer, bytes);
    uint64_t ns = (uint32_t) hdr.tag;

    (void) ctx;
    (void) data;
    if (0 != len || 0 == bytes || bytes > PML_TM_STREAM_WHOLE_MAX || way > PML_TM_ROUTE_READ) {
        mca_pml_tm_bad_message(peer, "time that a message took: no such route or length");
        return;
    }
    if (route->peer == peer) {
        if (hdr.app_ctx == (PML_TM_ROUTE_STREAM | PML_TM_TOOK_LATE)) {
            ns = time_of_late_stream(route->wrote, ns);
        }
        fab_trial_note(&route->trial, way, bytes, ns);
    }
}
