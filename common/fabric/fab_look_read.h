/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows of itself (fab_look_wire.h): the reader's side.  The process may be stopped,
 * stuck or dead, and may write at the same time; a core dump may hold anything.  So it is read,
 * never mapped, and only what was checked is handed out: texts end and can be printed, kinds are
 * known.
 */
#ifndef FAB_LOOK_READ_H
#define FAB_LOOK_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fab_export.h"
#include "fabric/fab_look_wire.h"

/* Where it is: in a file, from a byte on. */
typedef struct fab_look_place {
    int fd;
    uint64_t base;
} fab_look_place_t;

/* Read the head. False: there is none that can be used. */
FAB_EXPORT bool fab_look_read(fab_look_place_t place, fab_look_t *head);

/* Read the events, oldest first.  Returns how many there are; *lost: how many were before these. */
FAB_EXPORT size_t fab_look_read_events(fab_look_place_t place, fab_event_t events[FAB_LOOK_EVENTS],
                                       uint64_t *lost);

/* What a process of this host shows.  Returns a descriptor of it, or -1: nothing, or not to us. */
FAB_EXPORT int fab_look_open_process(uint32_t pid, fab_look_t *head);

/*
 * Call fn for each process of this host that shows something to us, until it returns false.  fn
 * must not close fd.
 */
typedef bool (*fab_look_fn_t)(void *ctx, uint32_t pid, int fd, const fab_look_t *head);
FAB_EXPORT void fab_look_visit(fab_look_fn_t fn, void *ctx);

/* Make what another process wrote a text that ends and can be printed. */
FAB_EXPORT void fab_look_clean(char *text, size_t size);

/* Is it a record that can be used?  Its text then ends and can be printed. */
FAB_EXPORT bool fab_look_is_wait(fab_wait_t *wait);

/* State of a process as in /proc/PID/stat: 'R', 'S', 'T', ...; 0: it is gone, or hidden. */
FAB_EXPORT char fab_look_process_state(uint32_t pid);

/* What a process in that state does, if it does not wait in MPI: "computes". */
FAB_EXPORT const char *fab_look_what_it_does(char state);

#endif /* FAB_LOOK_READ_H */
