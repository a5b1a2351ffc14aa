/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clocks of several hosts, brought together by the messages between them.
 */
#ifndef TRACE_CLOCK_H
#define TRACE_CLOCK_H

#include "trace_load.h"

/*
 * Find what each host's clock is ahead of the first one's, from pairs of departures and arrivals in
 * both directions, and take it off the events' times, which are then not in order.  *is_changed:
 * some were changed.  False: no memory.
 */
bool trace_correct_clocks(trace_t *trace, bool *is_changed);

#endif /* TRACE_CLOCK_H */
