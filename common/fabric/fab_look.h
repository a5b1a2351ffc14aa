/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process shows of itself (fab_look_wire.h): its owner's side.
 *
 * The fabric opens it for all but tools.  Where it cannot be opened nothing is shown, and all
 * functions do nothing.
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

/*
 * Write what waits: between these two calls the caller may write status.since_ns, `wait`, and, with
 * what belongs to them in status, `waits`.  NULL: nothing is shown, there is no second call.
 */
FAB_EXPORT fab_look_t *fab_look_begin(fab_t *fab, uint64_t now_ns);
FAB_EXPORT void fab_look_end(fab_look_t *look);

/* The fabric's user has counters: `count` of 64 bits, with these names in one text. */
FAB_EXPORT void fab_look_counters(fab_t *fab, int which, const void *counters, size_t count,
                                  const char *names);

/* Record an event. ns 0: it is now. */
FAB_EXPORT void fab_look_event(fab_t *fab, fab_event_t event);

#endif /* FAB_LOOK_H */
