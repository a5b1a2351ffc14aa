/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the calling thread waits for.
 */
#include "pml_tm_waiting.h"

static _Thread_local mca_pml_tm_waiting_t mine;

mca_pml_tm_waiting_t *mca_pml_tm_waiting(void)
{
    return &mine;
}

void mca_pml_tm_count_tick(void)
{
    /* relaxed load and store: with threads the count need not be exact */
    unsigned polls = atomic_load_explicit(&mca_pml_tm.tick_polls, memory_order_relaxed) + 1;
    const bool is_due = polls >= PML_TM_POLLS_PER_TICK;

    atomic_store_explicit(&mca_pml_tm.tick_polls, is_due ? 0 : polls, memory_order_relaxed);
    if (is_due) {
        mca_pml_tm.tick();
    }
}

void mca_pml_tm_hurry_tick(void)
{
    atomic_store_explicit(&mca_pml_tm.tick_polls, PML_TM_POLLS_PER_TICK, memory_order_relaxed);
}
