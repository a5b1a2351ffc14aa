/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/fab_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric/fab_cpus.h"

/* Looks at the lock before sleeping; with the pauses between, about a microsecond. */
enum { SPINS = 40 };

static long futex(fab_mutex_t *mutex, int op, uint32_t value)
{
    return syscall(SYS_futex, &mutex->state, op, value, NULL, NULL, 0);
}

static bool spin(fab_mutex_t *mutex)
{
    for (int i = 0; i < SPINS; i++) {
        if (FAB_MUTEX_FREE == atomic_load_explicit(&mutex->state, memory_order_relaxed) &&
            fab_mutex_trylock(mutex)) {
            return true;
        }
        fab_cpu_pause();
    }
    return false;
}

void fab_mutex_lock_slow(fab_mutex_t *mutex)
{
    atomic_fetch_add_explicit(&mutex->waiting, 1, memory_order_relaxed);
    if (!spin(mutex)) {
        /*
         * It stays SLEPT_ON in this thread's hands, as others may sleep, too: at worst the unlock
         * wakes no thread. acquire: pairs with the release in fab_mutex_unlock().
         */
        while (FAB_MUTEX_FREE !=
               atomic_exchange_explicit(&mutex->state, FAB_MUTEX_SLEPT_ON, memory_order_acquire)) {
            (void) futex(mutex, FUTEX_WAIT_PRIVATE, FAB_MUTEX_SLEPT_ON);
        }
        atomic_store_explicit(&mutex->owner, fab_mutex_self(), memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&mutex->waiting, 1, memory_order_relaxed);
}

void fab_mutex_wake(fab_mutex_t *mutex)
{
    (void) futex(mutex, FUTEX_WAKE_PRIVATE, 1);
}
