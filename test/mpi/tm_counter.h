/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of this process: performance variables of MPI_T, by their names.
 *
 * Close a counter before MPI_Finalize: Open MPI 4.1.4 crashes if MPI_T_finalize comes after it. A
 * counter may also stay open.
 */
#ifndef TM_COUNTER_H
#define TM_COUNTER_H

#include "tm_test.h"

typedef struct tm_counter {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
} tm_counter_t;

static inline unsigned long long tm_counter_read(const tm_counter_t *counter)
{
    unsigned long long value = 0;

    TM_MPI(MPI_T_pvar_read(counter->session, counter->handle, &value));
    return value;
}

static inline void tm_counter_close(tm_counter_t *counter)
{
    TM_MPI(MPI_T_pvar_handle_free(counter->session, &counter->handle));
    TM_MPI(MPI_T_pvar_session_free(&counter->session));
    TM_MPI(MPI_T_finalize());
}

/*
 * Open a variable of any class (MPI_T_PVAR_CLASS_...). One of class COUNTER counts from here on;
 * the first value of another may be any. False: there is none of that name and class.
 */
static inline bool tm_counter_find(const char *name, int var_class, tm_counter_t *counter)
{
    int provided, index, count;

    TM_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    TM_MPI(MPI_T_pvar_session_create(&counter->session));
    if (MPI_SUCCESS == MPI_T_pvar_get_index(name, var_class, &index) &&
        MPI_SUCCESS ==
            MPI_T_pvar_handle_alloc(counter->session, index, NULL, &counter->handle, &count)) {
        return true;
    }
    TM_MPI(MPI_T_pvar_session_free(&counter->session));
    TM_MPI(MPI_T_finalize());
    return false;
}

/* Open a counter that must be there. It counts from here on. */
static inline tm_counter_t tm_counter_open(const char *name)
{
    tm_counter_t counter;

    if (!tm_counter_find(name, MPI_T_PVAR_CLASS_COUNTER, &counter)) {
        TM_FATAL("there is no performance variable %s", name);
    }
    return counter;
}

#endif /* TM_COUNTER_H */
