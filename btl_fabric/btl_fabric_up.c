/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of upcalls.  With threads one of them at a time runs upcalls.
 */
#include "btl_fabric_up.h"

#include <pthread.h>

void mca_btl_fabric_up(mca_btl_fabric_up_t *up, const mca_btl_fabric_up_ops_t *ops)
{
    up->ops = ops;
    up->next = NULL;
    if (NULL == mca_btl_fabric.up_tail) {
        /* release: pairs with the acquire in btl_fabric_progress.c, which looks without the lock */
        atomic_store_explicit(&mca_btl_fabric.up, up, memory_order_release);
    } else {
        *mca_btl_fabric.up_tail = up;
    }
    mca_btl_fabric.up_tail = &up->next;
    fab_wake_others(mca_btl_fabric.fab, FAB_USER_BTL);
}

static mca_btl_fabric_up_t *take_up(void)
{
    mca_btl_fabric_up_t *up;

    fab_lock(mca_btl_fabric.fab);
    up = atomic_load_explicit(&mca_btl_fabric.up, memory_order_relaxed);
    if (NULL != up) {
        atomic_store_explicit(&mca_btl_fabric.up, up->next, memory_order_relaxed);
        if (NULL == up->next) {
            mca_btl_fabric.up_tail = NULL;
        }
    }
    fab_unlock(mca_btl_fabric.fab);
    return up;
}

/*
 * With threads, held by the one that runs upcalls.  There is only one at a time: two could deliver
 * messages to the layer above in the wrong order.
 */
static pthread_mutex_t upcalls_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic pthread_t upcalls_thread; /* that thread; 0: none */

/* Relaxed: only this thread stores and clears its own id. */
static bool runs_upcalls(void)
{
    return pthread_self() == atomic_load_explicit(&upcalls_thread, memory_order_relaxed);
}

static bool enter_upcalls(void)
{
    if (runs_upcalls() || 0 != pthread_mutex_trylock(&upcalls_lock)) {
        return false;
    }
    atomic_store_explicit(&upcalls_thread, pthread_self(), memory_order_relaxed);
    return true;
}

int mca_btl_fabric_ups_run(void)
{
    bool is_alone = !fab_is_threaded(mca_btl_fabric.fab);
    bool has_entered = !is_alone && enter_upcalls();
    const int max = is_alone || runs_upcalls() ? BTL_FABRIC_UPCALLS_MAX : 0;
    mca_btl_fabric_up_t *up;
    int events = 0;

    while (events < max && NULL != (up = take_up())) {
        up->ops->run(up);
        events++;
    }
    if (has_entered) {
        atomic_store_explicit(&upcalls_thread, 0, memory_order_relaxed);
        pthread_mutex_unlock(&upcalls_lock);
    }
    return events;
}

void mca_btl_fabric_ups_fini(void)
{
    mca_btl_fabric_up_t *up;

    while (NULL != (up = take_up())) {
        if (NULL != up->ops->drop) {
            up->ops->drop(up);
        }
    }
}
