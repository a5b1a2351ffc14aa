/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the MPI test programs.
 */
#ifndef TM_THREADS_H
#define TM_THREADS_H

#include <pthread.h>

#include "tm_test.h"

static inline pthread_t tm_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    if (0 != pthread_create(&thread, NULL, fn, arg)) {
        TM_FATAL("pthread_create failed");
    }
    return thread;
}

/*
 * Call fn for each of the n elements of an array, each of so many bytes, in a thread of its own,
 * for the last in this thread. Returns when all have returned.
 */
static inline void tm_in_threads(void *(*fn)(void *), void *array, int n, size_t size)
{
    pthread_t *thread = tm_calloc((size_t) n, sizeof(*thread));

    for (int i = 0; i < n - 1; i++) {
        thread[i] = tm_thread(fn, (char *) array + (size_t) i * size);
    }
    fn((char *) array + (size_t) (n - 1) * size);
    for (int i = 0; i < n - 1; i++) {
        pthread_join(thread[i], NULL);
    }
    free(thread);
}

#endif /* TM_THREADS_H */
