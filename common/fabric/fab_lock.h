/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock for short critical sections: a thread that finds it taken spins for about a microsecond,
 * then sleeps.
 *
 * A pthread mutex sleeps at once, and sleeping and waking costs more than ten critical sections of
 * the fabric's lock, which a thread with its own processor leaves within a fraction of a
 * microsecond.
 *
 * Waiting threads are counted, so that a holder that only polls can let them in
 * (fab_mutex_is_wanted()). The lock is neither fair nor recursive.
 *
 * fab_mutex_unlock() by a thread that does not hold it has no effect: MPI may become threaded
 * between the two (see fab_lock()).
 */
#ifndef FAB_LOCK_H
#define FAB_LOCK_H

#include "opal_config.h" /* first: it defines _GNU_SOURCE */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fab_export.h"

typedef struct fab_mutex {
    _Atomic uint32_t state; /* FAB_MUTEX_*; the futex */
    /* threads in fab_mutex_lock() that found it taken, spinning or asleep */
    _Atomic uint32_t waiting;
    /* fab_mutex_self() of the holder, which alone writes it; 0: free */
    _Atomic uintptr_t owner;
} fab_mutex_t;

enum {
    FAB_MUTEX_FREE = 0,
    FAB_MUTEX_TAKEN = 1,
    FAB_MUTEX_SLEPT_ON = 2, /* taken, and others may sleep: unlock wakes one */
};

/*
 * What tells the calling thread from others; never 0. Where the compiler knows it, without a call.
 */
static inline uintptr_t fab_mutex_self(void)
{
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 11
    return (uintptr_t) __builtin_thread_pointer();
#else
    return (uintptr_t) pthread_self();
#endif
}

/* Slow paths of fab_mutex_lock() and fab_mutex_unlock(), when a thread waits. */
FAB_EXPORT void fab_mutex_lock_slow(fab_mutex_t *mutex);
FAB_EXPORT void fab_mutex_wake(fab_mutex_t *mutex);

static inline void fab_mutex_init(fab_mutex_t *mutex)
{
    atomic_init(&mutex->state, FAB_MUTEX_FREE);
    atomic_init(&mutex->waiting, 0);
    atomic_init(&mutex->owner, 0);
}

/* True: taken. */
static inline bool fab_mutex_trylock(fab_mutex_t *mutex)
{
    uint32_t state = FAB_MUTEX_FREE;

    /* acquire: pairs with the release in fab_mutex_unlock() */
    if (!atomic_compare_exchange_strong_explicit(&mutex->state, &state, FAB_MUTEX_TAKEN,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&mutex->owner, fab_mutex_self(), memory_order_relaxed);
    return true;
}

static inline void fab_mutex_lock(fab_mutex_t *mutex)
{
    if (__builtin_expect(!fab_mutex_trylock(mutex), 0)) {
        fab_mutex_lock_slow(mutex);
    }
}

static inline void fab_mutex_unlock(fab_mutex_t *mutex)
{
    /* relaxed: only this thread writes its own id there */
    if (__builtin_expect(
            fab_mutex_self() != atomic_load_explicit(&mutex->owner, memory_order_relaxed), 0)) {
        return;
    }
    atomic_store_explicit(&mutex->owner, 0, memory_order_relaxed);
    /* release: pairs with the acquire of the next holder */
    if (__builtin_expect(FAB_MUTEX_SLEPT_ON == atomic_exchange_explicit(&mutex->state,
                                                                        FAB_MUTEX_FREE,
                                                                        memory_order_release),
                         0)) {
        fab_mutex_wake(mutex);
    }
}

/* Does another thread wait for it?  A thread that only polls then releases it.  A hint: relaxed. */
static inline bool fab_mutex_is_wanted(const fab_mutex_t *mutex)
{
    return 0 != atomic_load_explicit(&mutex->waiting, memory_order_relaxed);
}

#endif /* FAB_LOCK_H */
