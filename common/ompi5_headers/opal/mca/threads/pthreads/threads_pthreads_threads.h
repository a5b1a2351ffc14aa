/* SPDX-License-Identifier: BSD-3-Clause */
/* Missing in an installed Open MPI 5.0: see threads_pthreads_mutex.h. */
#ifndef PML_TM_THREADS_PTHREADS_THREADS_H
#define PML_TM_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif /* PML_TM_THREADS_PTHREADS_THREADS_H */
