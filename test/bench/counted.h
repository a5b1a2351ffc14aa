/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs that are laid out for counting instructions under callgrind: two ranks that tell
 * each other by semaphores in shared memory, which sleep, and sections, each dumped by rank after n
 * and after 2 n messages (the difference is free of constant costs), under the name
 * <section>:<messages>.
 */
#ifndef COUNTED_H
#define COUNTED_H

#include <semaphore.h>
#include <valgrind/callgrind.h>

#include "bench.h"

typedef struct shared {
    sem_t receiver_ready;
    sem_t sender_done;
} shared_t;

static shared_t *shared;
static int rank;

static void wait_for(sem_t *sem)
{
    while (0 != sem_wait(sem)) {
    }
}

/*
 * CALLGRIND_ZERO_STATS leaves some of the cost from before; what is dumped is gone, so the barrier
 * ends with a dump, too.
 */
static void counted(const char *name, void (*run)(int messages), int messages)
{
    char label[64];

    snprintf(label, sizeof(label), "%s:%d", name, messages);
    MPI_Barrier(MPI_COMM_WORLD);
    CALLGRIND_DUMP_STATS_AT("barrier");
    run(messages);
    CALLGRIND_DUMP_STATS_AT(label);
}

static void section(const char *name, void (*run)(int messages), int messages)
{
    run(messages);
    counted(name, run, messages);
    counted(name, run, 2 * messages);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void share(MPI_Win *win)
{
    MPI_Aint size;
    int unit;

    MPI_Win_allocate_shared(0 == rank ? sizeof(shared_t) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &shared, win);
    MPI_Win_shared_query(*win, 0, &size, &unit, &shared);
    if (0 == rank) {
        sem_init(&shared->receiver_ready, 1, 0);
        sem_init(&shared->sender_done, 1, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CALLGRIND_START_INSTRUMENTATION; /* with --instr-atstart=no MPI_Init is run faster */
}

#endif /* COUNTED_H */
