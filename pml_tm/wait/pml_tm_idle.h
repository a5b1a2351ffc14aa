/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call waits for, and what it does after a poll that found nothing.
 */
#ifndef PML_TM_IDLE_H
#define PML_TM_IDLE_H

#include "pml_tm/request/pml_tm_request.h"

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

/*
 * What the calling thread waits for: a blocking call says so each time that it polls all of Open
 * MPI, and only for that long, so messages that come soon cost nothing.  Open MPI's own waits
 * (MPI_Waitany, MPI_Test) say nothing.  Now and then such a poll calls mca_pml_tm.tick
 * (pml_tm_hang.c).
 */
typedef struct mca_pml_tm_waiting {
    mca_pml_tm_core_t *core;   /* of a request; NULL: a probe, or nothing */
    ompi_communicator_t *comm; /* of a probe; NULL: no probe */
    int source;                /* of the probe */
    int tag;
    bool may_return; /* a probe that returns if there is no message: MPI_Iprobe, MPI_Improbe */
} mca_pml_tm_waiting_t;

/* Empty polls of all of Open MPI from one tick to the next. */
enum { PML_TM_POLLS_PER_TICK = 16 };

/* The thread's. */
mca_pml_tm_waiting_t *mca_pml_tm_waiting(void);

/* A poll of all of Open MPI found nothing: call the tick if it is due. Lock not held. */
void mca_pml_tm_count_tick(void);

/* Call the tick soon. */
void mca_pml_tm_hurry_tick(void);

#endif /* PML_TM_IDLE_H */
