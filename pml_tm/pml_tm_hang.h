/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report of a wait that takes long (params.report_after), or by a signal (report_signal).
 *
 * It is made by the waiting thread, between two polls of all of Open MPI, step by step:
 *
 *   ASK     the processes that it waits for are asked what they wait for, then those that these
 *           wait for, and so on
 *   PAUSE   everybody whose way leads into a circle is asked again, 100 ms later: what is stuck has
 *           the same waits as before.  Otherwise the picture was put together from different
 *           moments, and all begins anew.
 *   AGAIN   until these have answered, too
 *
 * Who is stuck?  A process in a call that can only end when one of the processes that it waits for
 * goes on, and all of those are stuck.  So nobody is who does not answer (he computes), who has
 * data on the way, who has other threads, or who waits for somebody of whom nothing is known: a
 * program that moves is never called stuck.  If everybody follows the first of those, each stuck
 * process leads into one circle.  In the others, one process is at the end of each way.
 *
 * Who prints?  Of a circle the lowest rank; of the processes that wait for the same one directly,
 * the lowest; and who has a message that nearly fits.  By a signal everybody.  A report never ends
 * the job.
 */
#ifndef PML_TM_HANG_H
#define PML_TM_HANG_H

#include "pml_tm.h"

/* Begin to watch, if the parameters ask for it. */
void mca_pml_tm_hang_open(void);
void mca_pml_tm_hang_close(void);

/* How long calls of this process have waited, without the first microseconds of each. Lock held. */
uint64_t mca_pml_tm_hang_waited_ns(void);

/* At least how much of that, and for which rank: the one with more than half, if there is one. */
uint64_t mca_pml_tm_hang_waited_for(uint32_t *rank);

#endif /* PML_TM_HANG_H */
