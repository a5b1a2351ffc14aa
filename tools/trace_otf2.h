/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace as an OTF2 archive, for Vampir, Cube's tools and others that read these.
 */
#ifndef TRACE_OTF2_H
#define TRACE_OTF2_H

#include "trace_load.h"

/*
 * Write the events from `first` on to DIRECTORY/trace.otf2 and what belongs to it: the waits of
 * each process, and each message of which both ends are known.  False: it cannot be written.
 */
bool trace_write_otf2(const trace_t *trace, size_t first, const char *directory);

#endif /* TRACE_OTF2_H */
