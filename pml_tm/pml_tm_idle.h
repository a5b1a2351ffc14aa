/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call does after a poll that found nothing: poll on, yield, or sleep.
 */
#ifndef PML_TM_IDLE_H
#define PML_TM_IDLE_H

#include "pml_tm.h"

/* Set mca_pml_tm.idle, by params.wait, and what follows from it. */
void mca_pml_tm_choose_idle(void);

/* Do processes poll that share their processors? */
bool mca_pml_tm_is_crowd_polling(void);

/*
 * Called after a poll that found nothing, if idle is not SPIN. pause: yield or sleep in a blocking
 * call. yield: for the progress function, which will be called again.
 */
void mca_pml_tm_pause(void);
void mca_pml_tm_yield(void);

/* mca_pml_tm_pause() with threads, each of which counts its own empty polls in a row. */
void mca_pml_tm_pause_thread(unsigned *polls);

#endif /* PML_TM_IDLE_H */
