/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams or reads; see pml_tm_route.h.
 */
#include "pml_tm_route.h"

#include "fabric/fab_clock.h"
#include "fabric/fab_inl.h"

#include "pml_tm_peer.h"

/* The longest message of each class but the last, bytes. */
static const size_t class_max[PML_TM_ROUTE_CLASSES - 1] = {32768, 65536, 131072};

enum {
    LATELY = 512,      /* messages sent and received; then either number is halved */
    PROMPT_NS = 5000,  /* a message that is seen that long after it was sent waited for nothing */
    TOOK_NS = 1 << 30, /* a time that was sent so long ago may have wrapped */
};

static unsigned class_of(size_t len)
{
    unsigned kind = 0;

    while (kind < PML_TM_ROUTE_CLASSES - 1 && len > class_max[kind]) {
        kind++;
    }
    return kind;
}

/* What is known of the peer; NULL: there is no memory for it. */
static mca_pml_tm_routes_t *routes_of(fab_peer_t *peer)
{
    mca_pml_tm_peer_t *record = mca_pml_tm_peer_record(peer);

    return NULL != record ? &record->routes : NULL;
}

/* Messages of a class begin with the route that shorter ones have found. */
static void route_begin(mca_pml_tm_routes_t *routes, unsigned kind)
{
    const mca_pml_tm_route_t *shorter = kind > 0 ? &routes->by_class[kind - 1] : NULL;

    routes->by_class[kind].trial = NULL != shorter && 0 != shorter->trial.round
                                       ? fab_trial_after(&shorter->trial, PML_TM_ROUTE_READ, true)
                                       : fab_trial_begin(FAB_TRIAL_FIRST, true);
}

/* Count a message, in one of these. */
static void count(mca_pml_tm_routes_t *routes, unsigned *messages)
{
    ++*messages;
    if (OPAL_UNLIKELY(routes->sent + routes->received > LATELY)) {
        routes->sent /= 2;
        routes->received /= 2;
    }
}

/* Do about as many such messages come from the peer as go to it? */
static bool is_both_ways(const mca_pml_tm_routes_t *routes)
{
    return 4 * routes->received >= routes->sent && 4 * routes->sent >= routes->received;
}

/* The route of messages that are no tries. */
static unsigned route_best(const mca_pml_tm_routes_t *routes, const mca_pml_tm_route_t *route,
                           const fab_peer_t *peer)
{
    if (route->has_theirs && !fab_trial_is_clear(&route->trial) && is_both_ways(routes) &&
        mca_pml_tm.fab->config.name < peer->name) {
        return route->theirs;
    }
    return fab_trial_best(&route->trial);
}

bool mca_pml_tm_route_is_read(fab_peer_t *peer, size_t len)
{
    const int choice = mca_pml_tm.params.stream_get;
    const unsigned kind = class_of(len);
    mca_pml_tm_routes_t *routes;
    mca_pml_tm_route_t *route;

    if (choice >= 0 || NULL == (routes = routes_of(peer))) {
        return PML_TM_ROUTE_READ == choice;
    }
    route = &routes->by_class[kind];
    if (OPAL_UNLIKELY(0 == route->trial.round)) {
        route_begin(routes, kind);
    }
    route->is_try = fab_trial_is_due(&route->trial) && fab_ring_is_lapped(peer);
    return PML_TM_ROUTE_READ ==
           (route->is_try ? fab_trial_due(&route->trial) : route_best(routes, route, peer));
}

uint32_t mca_pml_tm_route_take(fab_peer_t *peer, size_t len)
{
    mca_pml_tm_routes_t *routes = routes_of(peer);
    mca_pml_tm_route_t *route;
    bool is_try;
    uint32_t now;

    if (NULL == routes) {
        return 0;
    }
    count(routes, &routes->sent);
    route = &routes->by_class[class_of(len)];
    if (0 == route->trial.round || (fab_trial_is_due(&route->trial) && !route->is_try)) {
        return 0;
    }
    (void) fab_trial_next(&route->trial, &is_try);
    if (OPAL_LIKELY(!is_try)) {
        return 0;
    }
    route->is_try = false;
    ++mca_pml_tm.counters.route_tries;
    route->tried_at = fab_now_ns();
    now = (uint32_t) route->tried_at & ~(uint32_t) PML_TM_SENT_BEHIND;
    if (mca_pml_tm.ids.used > 1 || !fab_ring_is_taken(peer)) {
        return now | PML_TM_SENT_BEHIND;
    }
    return 0 != now ? now : PML_TM_SENT_BEHIND << 1;
}

void mca_pml_tm_route_wrote(fab_peer_t *peer, size_t len, uint32_t sent_at)
{
    mca_pml_tm_routes_t *routes = routes_of(peer);

    if (NULL != routes) {
        routes->by_class[class_of(len)].wrote = (uint32_t) fab_now_ns() - sent_at;
    }
}

mca_pml_tm_asked_time_t mca_pml_tm_route_seen(fab_peer_t *peer, unsigned route, size_t len,
                                              uint32_t sent_at)
{
    mca_pml_tm_asked_time_t asked = {.since = sent_at};
    mca_pml_tm_routes_t *routes = NULL;
    uint32_t now;

    if (len > mca_pml_tm.eager_limit) { /* shorter ones are always streamed */
        routes = routes_of(peer);
    }
    if (NULL != routes) {
        mca_pml_tm_route_t *back = &routes->by_class[class_of(len)];
        count(routes, &routes->received);
        back->has_theirs = true;
        back->theirs = (uint8_t) route;
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
static uint64_t time_of_late_stream(const mca_pml_tm_routes_t *routes, uint64_t wrote,
                                    uint64_t read)
{
    return is_both_ways(routes) ? wrote + read : wrote > read ? wrote : read;
}

void mca_pml_tm_route_took(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    const size_t bytes = hdr.tag >> 32;
    const unsigned way = hdr.app_ctx & ~(uint32_t) PML_TM_TOOK_LATE;
    mca_pml_tm_routes_t *routes;
    mca_pml_tm_route_t *route;
    uint64_t ns = (uint32_t) hdr.tag;

    (void) ctx;
    (void) data;
    if (0 != len || 0 == bytes || bytes > PML_TM_STREAM_WHOLE_MAX || way > PML_TM_ROUTE_READ) {
        mca_pml_tm_bad_message(peer, "time that a message took: no such route or length");
        return;
    }
    if (NULL == (routes = routes_of(peer))) {
        return;
    }
    route = &routes->by_class[class_of(bytes)];
    if (0 != route->trial.round && fab_now_ns() - route->tried_at < TOOK_NS) {
        if (hdr.app_ctx == (PML_TM_ROUTE_STREAM | PML_TM_TOOK_LATE)) {
            ns = time_of_late_stream(routes, route->wrote, ns);
        }
        fab_trial_note(&route->trial, way, bytes, ns);
    }
}
