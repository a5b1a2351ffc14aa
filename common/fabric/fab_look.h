/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process shows of itself (fab_look_wire.h): its owner's side.
 *
 * The fabric opens it with the parameter recorder.  Where it cannot be opened, or is not wanted,
 * nothing is shown, and all functions do nothing.
 *
 * Lock: the fabric's, for all but the first two.
 */
#ifndef FAB_LOOK_H
#define FAB_LOOK_H

#include "fabric/fab.h"
#include "fabric/fab_look_wire.h"

/* Open it for a fabric that is being opened; close it. */
void fab_look_open(fab_t *fab);
void fab_look_close(fab_t *fab);

/* Something that a process waits for. */
typedef struct fab_look_state {
    fab_look_wait_t what;
    uint64_t since_ns;
    uint64_t peer; /* name, or FAB_LOOK_ANY */
    uint64_t bytes;
    int32_t tag;
    uint32_t context;
    const char *comm; /* the communicator's name; NULL: none */
} fab_look_state_t;

/* This process waits for this now. */
FAB_EXPORT void fab_look_show(fab_t *fab, uint64_t now_ns, const fab_look_state_t *state);

/* The fabric's user has counters: `count` of 64 bits, with these names in one text. */
FAB_EXPORT void fab_look_counters(fab_t *fab, int which, const void *counters, size_t count,
                                  const char *names);

/* Is what this level wants recorded? */
static inline bool fab_records(const fab_t *fab, unsigned level)
{
    return fab->record_level >= level;
}

/* Record an event. ns 0: it is now. */
FAB_EXPORT void fab_look_event(fab_t *fab, fab_event_t event);

/* The members of an event that name a process; its name, or FAB_LOOK_ANY. */
static inline fab_event_t fab_event_of(const fab_t *fab, fab_event_kind_t kind, uint64_t name)
{
    const bool is_other_job = name >> 32 != fab->config.name >> 32;

    return (fab_event_t){
        .kind = (uint8_t) kind,
        .rank = (uint32_t) name,
        .flags = (uint8_t) (FAB_LOOK_ANY == name ? FAB_EVENT_ANY_RANK
                            : is_other_job       ? FAB_EVENT_OTHER_JOB
                                                 : 0),
    };
}

static inline uint64_t fab_event_size(uint64_t bytes, uint32_t context)
{
    return (bytes < FAB_EVENT_BYTES_MAX ? bytes : FAB_EVENT_BYTES_MAX) | (uint64_t) context << 40;
}

#endif /* FAB_LOOK_H */
