/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks: see trace.h.
 *
 * A message that leaves host a at time t by a's clock arrives at t + delay + (b's clock - a's
 * clock) by b's.  Of all messages from a to b the least difference is `there`, of those from b to a
 * `back`.  If the fastest message takes as long in both directions, b's clock is ahead by
 * (there - back) / 2; it cannot be wrong by more than (there + back) / 2, half a round trip.  Hosts
 * are joined in the order of that error, as in a minimum spanning tree.
 *
 * One number for each host: clocks that drift apart in the course of the trace stay apart.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "trace.h"

#include <stdlib.h>

enum { NOTHING = -1 };

/* From a host to another one. */
typedef struct way {
    int64_t least_ns;
    uint64_t messages;
} way_t;

static way_t *way_of(way_t *ways, const trace_t *trace, size_t from, size_t to)
{
    return &ways[from * trace->num_hosts + to];
}

static void measure(way_t *ways, const trace_t *trace)
{
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *left = &trace->events[i], *came;
        uint32_t from, to;
        way_t *way;
        int64_t ns;

        if (TRACE_NONE == left->partner || left->message != i) {
            continue; /* no departure */
        }
        came = &trace->events[left->partner];
        from = trace->processes[left->process].host;
        to = trace->processes[came->process].host;
        ns = (int64_t) (came->ns - left->ns);
        way = way_of(ways, trace, from, to);
        if (0 == way->messages++ || ns < way->least_ns) {
            way->least_ns = ns;
        }
    }
}

/* What one host's clock says of another one's; error_ns NOTHING: too few messages. */
typedef struct link {
    int64_t ahead_ns;
    int64_t error_ns;
} link_t;

static link_t link_of(way_t *ways, const trace_t *trace, size_t a, size_t b)
{
    const way_t *there = way_of(ways, trace, a, b), *back = way_of(ways, trace, b, a);
    link_t link = {.error_ns = NOTHING};

    if (0 != there->messages && 0 != back->messages) {
        link.ahead_ns = (there->least_ns - back->least_ns) / 2;
        link.error_ns = (there->least_ns + back->least_ns) / 2;
        link.error_ns = link.error_ns < 0 ? 0 : link.error_ns; /* clocks that drift */
    }
    return link;
}

/* The host that has no clock yet and the best link to one that has; false: there is none. */
static bool join_next(trace_t *trace, way_t *ways)
{
    trace_host_t *best = NULL;
    link_t at = {0};
    const trace_host_t *from = NULL;

    for (size_t a = 0; a < trace->num_hosts; a++) {
        for (size_t b = 0; trace->hosts[a].is_known && b < trace->num_hosts; b++) {
            const link_t link = link_of(ways, trace, a, b);
            if (!trace->hosts[b].is_known && NOTHING != link.error_ns &&
                (NULL == best || link.error_ns < at.error_ns)) {
                best = &trace->hosts[b];
                from = &trace->hosts[a];
                at = link;
            }
        }
    }
    if (NULL != best) {
        best->is_known = true;
        best->ahead_ns = from->ahead_ns + at.ahead_ns;
        best->error_ns = from->error_ns + (uint64_t) at.error_ns;
    }
    return NULL != best;
}

bool trace_correct_clocks(trace_t *trace, bool *is_changed)
{
    way_t *ways;
    int64_t most = 0;

    *is_changed = false;
    if (trace->num_hosts < 2) {
        return true;
    }
    ways = calloc(trace->num_hosts * trace->num_hosts, sizeof(*ways));
    if (NULL == ways) {
        return false;
    }
    measure(ways, trace);
    trace->hosts[0].is_known = true;
    while (join_next(trace, ways)) {
    }
    free(ways);
    for (size_t i = 0; i < trace->num_hosts; i++) {
        most = trace->hosts[i].ahead_ns > most ? trace->hosts[i].ahead_ns : most;
        *is_changed = *is_changed || 0 != trace->hosts[i].ahead_ns;
    }
    for (size_t i = 0; *is_changed && i < trace->num_events; i++) {
        trace_event_t *event = &trace->events[i];
        const trace_host_t *host = &trace->hosts[trace->processes[event->process].host];
        event->ns += (uint64_t) (most - host->ahead_ns); /* no time is before 0 */
    }
    return true;
}
