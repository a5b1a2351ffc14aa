/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of all processes of a job, in one order, and which of them belong to one message; what
 * tm_trace does with them, a file each.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_look_wire.h"

typedef struct trace_event {
    uint64_t ns; /* since the first event of all */
    uint32_t process;
    uint32_t message; /* the first event of its message; its own number: it is the first, or none */
    uint32_t partner; /* of a message's departure its arrival, and the reverse; TRACE_NONE: none */
    fab_event_t event;
} trace_event_t;

#define TRACE_NONE UINT32_MAX

typedef struct trace_host {
    char name[FAB_LOOK_HOST];
    bool is_known;     /* its clock was compared with the first one's, or it is the first */
    int64_t ahead_ns;  /* what was taken off its times */
    uint64_t error_ns; /* of that, at most */
} trace_host_t;

typedef struct trace_process {
    fab_look_t head;
    uint32_t host;
    uint64_t lost; /* events that were overwritten */
} trace_process_t;

typedef struct trace {
    trace_process_t *processes;
    size_t num_processes;
    trace_host_t *hosts;
    size_t num_hosts;
    trace_event_t *events; /* by time */
    size_t num_events;
    uint64_t lost;
    size_t pairs;
    size_t unpaired; /* departures and arrivals without the other one */
} trace_t;

/* ---- trace_load.c --------------------------------------------------------- */

/*
 * Add what a pid, a file, or each file of a directory has.  False: of something it was said, to
 * standard error, why it cannot be read; the rest was added.
 */
bool trace_add(trace_t *trace, const char *name);

/*
 * All are added: bring the clocks of the hosts together, sort events by time, and find what belongs
 * together.  False: no memory.
 */
bool trace_finish(trace_t *trace);

void trace_free(trace_t *trace);

/* ---- trace_clock.c -------------------------------------------------------- */

/*
 * Find what each host's clock is ahead of the first one's, from pairs of departures and arrivals in
 * both directions, and take it off the events' times, which are then not in order.  *is_changed:
 * some were changed.  False: no memory.
 */
bool trace_correct_clocks(trace_t *trace, bool *is_changed);

/* ---- trace_otf2.c --------------------------------------------------------- */

/*
 * Write the events from `first` on to DIRECTORY/trace.otf2 and what belongs to it, for Vampir,
 * Cube's tools and others: the waits of each process, and each message of which both ends are
 * known.  False: it cannot be written.
 */
bool trace_write_otf2(const trace_t *trace, size_t first, const char *directory);

#endif /* TRACE_H */
