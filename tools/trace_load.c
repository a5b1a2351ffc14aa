/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of a job: see trace.h.
 *
 * Clocks.  Events have CLOCK_MONOTONIC, which the processes of a host share; its distance to
 * CLOCK_REALTIME, as one process of the host took it, brings hosts together as well as their clocks
 * agree.  What then remains follows from the messages between them (trace_clock.c).
 *
 * Messages.  Both sides number those that go with their data.  An announced message has its
 * sender's id, which no other has as long as it is under way: so all events with its id and sender
 * belong to it, from one announcement until the next with that id.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "trace.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "look_source.h"

/* ---- loading ------------------------------------------------------------ */

/* What makes the times of a process those of CLOCK_REALTIME: the same for all of a host. */
static uint64_t offset_of(const trace_t *trace, const fab_look_t *head)
{
    for (size_t i = 0; i < trace->num_processes; i++) {
        const fab_look_t *other = &trace->processes[i].head;

        if (0 == strcmp(other->host, head->host)) {
            return other->opened_at_ns - other->opened_ns;
        }
    }
    return head->opened_at_ns - head->opened_ns;
}

/* Make room for more elements of an array. False: no memory. */
static bool reserve(void **array, size_t count, size_t more, size_t size)
{
    void *larger = realloc(*array, (count + more) * size);

    if (NULL == larger) {
        return false;
    }
    *array = larger;
    return true;
}

/* The host with this name, its number in *at. False: no memory. */
static bool find_host(trace_t *trace, const char *name, uint32_t *at)
{
    for (*at = 0; *at < trace->num_hosts; ++*at) {
        if (0 == strncmp(trace->hosts[*at].name, name, FAB_LOOK_HOST)) {
            return true;
        }
    }
    if (!reserve((void **) &trace->hosts, trace->num_hosts, 1, sizeof(*trace->hosts))) {
        return false;
    }
    trace->hosts[trace->num_hosts] = (trace_host_t){.name = ""};
    snprintf(trace->hosts[trace->num_hosts++].name, FAB_LOOK_HOST, "%s", name);
    return true;
}

static const char *add_events(trace_t *trace, const look_source_t *source)
{
    fab_event_t *events = malloc(source->head.num_events * sizeof(*events));
    const uint64_t offset = offset_of(trace, &source->head);
    trace_process_t *process;
    size_t count;

    if (NULL == events ||
        !reserve((void **) &trace->processes, trace->num_processes, 1, sizeof(*process))) {
        free(events);
        return "no memory";
    }
    process = &trace->processes[trace->num_processes];
    process->head = source->head;
    if (!find_host(trace, source->head.host, &process->host)) {
        free(events);
        return "no memory";
    }
    count = fab_look_read_events(source->place, &source->head, events, &process->lost);
    if (trace->num_events + count >= TRACE_NONE ||
        !reserve((void **) &trace->events, trace->num_events, count + 1, sizeof(trace_event_t))) {
        free(events);
        return "too many events";
    }
    for (size_t i = 0; i < count; i++) {
        trace->events[trace->num_events++] = (trace_event_t){
            .ns = events[i].ns + offset,
            .process = (uint32_t) trace->num_processes,
            .partner = TRACE_NONE,
            .event = events[i],
        };
    }
    trace->num_processes++;
    trace->lost += process->lost;
    free(events);
    return NULL;
}

static bool cannot(const char *name, const char *why)
{
    fprintf(stderr, "tm_trace: %s: %s\n", name, why);
    return false;
}

static bool add_one(trace_t *trace, const char *name)
{
    look_source_t source;
    const char *why = look_source_open(&source, name);

    if (NULL == why) {
        why = add_events(trace, &source);
        look_source_close(&source);
    }
    return NULL == why || cannot(name, why);
}

static int is_file_of_ours(const struct dirent *entry)
{
    const size_t len = strlen(entry->d_name), end = sizeof(FAB_LOOK_FILE) - 1;

    return len > end && 0 == strcmp(entry->d_name + len - end, FAB_LOOK_FILE);
}

/* In the order of their ranks, of which the names are made. */
static bool add_directory(trace_t *trace, struct dirent **entries, int count, const char *name)
{
    bool is_good = 0 != count ||
                   cannot(name, "there is no file of pml_tm_recorder_dir in this directory");
    char *path;

    for (int i = 0; i < count; i++) {
        if (asprintf(&path, "%s/%s", name, entries[i]->d_name) < 0) {
            is_good = cannot(name, "no memory");
        } else {
            is_good = add_one(trace, path) && is_good;
            free(path);
        }
        free(entries[i]);
    }
    free(entries);
    return is_good;
}

bool trace_add(trace_t *trace, const char *name)
{
    struct dirent **entries;
    const int count = scandir(name, &entries, is_file_of_ours, versionsort);

    return count < 0 ? add_one(trace, name) : add_directory(trace, entries, count, name);
}

void trace_free(trace_t *trace)
{
    free(trace->processes);
    free(trace->hosts);
    free(trace->events);
    *trace = (trace_t){0};
}

/* ---- messages ----------------------------------------------------------- */

/* Which message an event is of. */
typedef struct key {
    uint64_t job; /* with the sender's rank: its name */
    uint32_t receiver;
    uint32_t id;
    uint32_t at;       /* the event */
    bool is_announced; /* id is the sender's own, no number */
} trace_key_t;

typedef enum { NO_MESSAGE, BY_SENDER, BY_RECEIVER } side_t;

static side_t side_of(const fab_event_t *event)
{
    if (0 != (event->flags & (FAB_EVENT_OTHER_JOB | FAB_EVENT_ANY_RANK))) {
        return NO_MESSAGE;
    }
    switch (event->kind) {
    case FAB_EVENT_SENT:
    case FAB_EVENT_ANNOUNCE:
    case FAB_EVENT_FINISHED:
        return BY_SENDER;
    case FAB_EVENT_ARRIVED:
    case FAB_EVENT_ANNOUNCED:
    case FAB_EVENT_FETCH:
    case FAB_EVENT_PIECES:
    case FAB_EVENT_RECEIVED:
        return BY_RECEIVER;
    default:
        return NO_MESSAGE;
    }
}

static bool is_departure(const fab_event_t *event)
{
    return FAB_EVENT_SENT == event->kind || FAB_EVENT_ANNOUNCE == event->kind;
}

static bool is_arrival(const fab_event_t *event)
{
    return FAB_EVENT_ARRIVED == event->kind || FAB_EVENT_ANNOUNCED == event->kind;
}

static trace_key_t key_of(const trace_t *trace, uint32_t at)
{
    const trace_event_t *event = &trace->events[at];
    const uint64_t own = trace->processes[event->process].head.name;
    const bool is_sender = BY_SENDER == side_of(&event->event);
    const uint64_t other = (own >> 32 << 32) | event->event.rank;

    return (trace_key_t){
        .job = is_sender ? own : other,
        .receiver = (uint32_t) (is_sender ? other : own),
        .id = event->event.id,
        .at = at,
        .is_announced = FAB_EVENT_SENT != event->event.kind &&
                        FAB_EVENT_ARRIVED != event->event.kind,
    };
}

/* By message; in it by time. */
static int compare_keys(const void *a, const void *b)
{
    const trace_key_t *x = a, *y = b;

#define COMPARE(member)                                                                            \
    if (x->member != y->member) {                                                                  \
        return x->member < y->member ? -1 : 1;                                                     \
    }
    COMPARE(job)
    COMPARE(receiver)
    COMPARE(is_announced)
    COMPARE(id)
    COMPARE(at)
#undef COMPARE
    return 0;
}

static bool is_same(const trace_key_t *a, const trace_key_t *b)
{
    return a->job == b->job && a->receiver == b->receiver && a->is_announced == b->is_announced &&
           a->id == b->id;
}

/* The departure among these; TRACE_NONE: it was overwritten. */
static uint32_t departure_of(const trace_t *trace, const trace_key_t *keys, size_t first,
                             size_t end)
{
    while (first < end && !is_departure(&trace->events[keys[first].at].event)) {
        first++;
    }
    return first < end ? keys[first].at : TRACE_NONE;
}

/*
 * The events from `first` to before `end`, by time, are of messages with one key.  A number is that
 * of one message, which may arrive before it leaves, by the clocks of two hosts.
 */
static void join(trace_t *trace, const trace_key_t *keys, size_t first, size_t end)
{
    uint32_t departure = keys[first].is_announced ? TRACE_NONE
                                                  : departure_of(trace, keys, first, end);

    for (size_t i = first; i < end; i++) {
        trace_event_t *event = &trace->events[keys[i].at];

        if (is_departure(&event->event)) {
            departure = keys[i].at;
            continue;
        }
        if (TRACE_NONE == departure) {
            continue; /* its beginning was overwritten */
        }
        event->message = departure;
        if (is_arrival(&event->event) && TRACE_NONE == trace->events[departure].partner) {
            event->partner = departure;
            trace->events[departure].partner = keys[i].at;
            trace->pairs++;
        }
    }
}

static void count_unpaired(trace_t *trace)
{
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];

        trace->unpaired += TRACE_NONE == event->partner && NO_MESSAGE != side_of(&event->event) &&
                           (is_departure(&event->event) || is_arrival(&event->event));
    }
}

static bool find_messages(trace_t *trace)
{
    trace_key_t *keys = malloc((trace->num_events + 1) * sizeof(*keys));
    size_t count = 0;

    if (NULL == keys) {
        return false;
    }
    for (size_t i = 0; i < trace->num_events; i++) {
        trace->events[i].message = (uint32_t) i;
        if (NO_MESSAGE != side_of(&trace->events[i].event)) {
            keys[count++] = key_of(trace, (uint32_t) i);
        }
    }
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && is_same(&keys[first], &keys[end]); end++) {
        }
        join(trace, keys, first, end);
    }
    free(keys);
    count_unpaired(trace);
    return true;
}

/* Departures go before arrivals of the same time. */
static int compare_events(const void *a, const void *b)
{
    const trace_event_t *x = a, *y = b;

    if (x->ns != y->ns) {
        return x->ns < y->ns ? -1 : 1;
    }
    return (int) is_arrival(&x->event) - (int) is_arrival(&y->event);
}

/* By time, from 0 on, and with their messages. */
static bool put_in_order(trace_t *trace)
{
    qsort(trace->events, trace->num_events, sizeof(*trace->events), compare_events);
    for (size_t i = trace->num_events; i-- > 0;) {
        trace->events[i].ns -= trace->events[0].ns;
        trace->events[i].partner = TRACE_NONE;
    }
    trace->pairs = trace->unpaired = 0;
    return find_messages(trace);
}

bool trace_finish(trace_t *trace)
{
    bool is_changed;

    if (0 == trace->num_events) {
        return true;
    }
    return put_in_order(trace) && trace_correct_clocks(trace, &is_changed) &&
           (!is_changed || put_in_order(trace));
}
