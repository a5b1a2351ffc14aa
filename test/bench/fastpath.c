/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path, laid out for counting instructions under callgrind (instructions): 8-byte messages, none of them waited
 * for in a polling loop, so that a count does not depend on timing.
 *
 * Sections, each dumped by rank twice, after n and after 2 n messages (the difference is free of constant costs), under the
 * name <section>:<messages>:
 *
 *      self-expected     a process to itself: MPI_Irecv, MPI_Send, MPI_Wait
 *      self-unexpected   a process to itself: MPI_Isend, MPI_Recv, MPI_Wait
 *      pair-sync         rank 0 to rank 1 in batches, without messages: what the batches' semaphores cost
 *      pair-expected     receives of a batch posted, then all of it sent (MPI_Send); rank 1 is told, and calls MPI_Waitall
 *      pair-unexpected   a batch sent, rank 1 told; then it receives, the last message first: the others are unexpected
 *
 * The ranks tell each other by semaphores in shared memory, which sleep.  Usage: fastpath [messages]
 */
#include <semaphore.h>
#include <valgrind/callgrind.h>

#include "bench.h"

enum {
    BATCH = 16,
    TAG = 1,
};

typedef struct shared {
    sem_t receiver_ready;
    sem_t sender_done;
} shared_t;

static shared_t *shared;
static int rank;

static void self_expected(int messages)
{
    int64_t in = 0, out = 1;
    MPI_Request req;

    for (int i = 0; i < messages; i++) {
        MPI_Irecv(&in, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD, &req);
        MPI_Send(&out, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
    }
}

static void self_unexpected(int messages)
{
    int64_t in = 0, out = 1;
    MPI_Request req;

    for (int i = 0; i < messages; i++) {
        MPI_Isend(&out, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD, &req);
        MPI_Recv(&in, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
    }
}

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0) {
    }
}

static void send_batch(int messages)
{
    int64_t out = 1;

    wait_for(&shared->receiver_ready);
    for (int i = 0; i < messages; i++) {
        MPI_Send(&out, 1, MPI_INT64_T, 1, TAG + i, MPI_COMM_WORLD);
    }
    sem_post(&shared->sender_done);
}

static void pair_sync(int messages)
{
    for (int i = 0; i < messages; i += BATCH) {
        if (rank == 0) {
            send_batch(0);
        } else {
            sem_post(&shared->receiver_ready);
            wait_for(&shared->sender_done);
        }
    }
}

static void pair_expected(int messages)
{
    static int64_t in[BATCH];
    MPI_Request req[BATCH];

    for (int i = 0; i < messages; i += BATCH) {
        if (rank == 0) {
            send_batch(BATCH);
            continue;
        }
        for (int k = 0; k < BATCH; k++) {
            MPI_Irecv(&in[k], 1, MPI_INT64_T, 0, TAG + k, MPI_COMM_WORLD, &req[k]);
        }
        sem_post(&shared->receiver_ready);
        wait_for(&shared->sender_done);
        MPI_Waitall(BATCH, req, MPI_STATUSES_IGNORE);
    }
}

static void pair_unexpected(int messages)
{
    int64_t in;

    for (int i = 0; i < messages; i += BATCH) {
        if (rank == 0) {
            send_batch(BATCH);
            continue;
        }
        sem_post(&shared->receiver_ready);
        wait_for(&shared->sender_done);
        for (int k = BATCH - 1; k >= 0; k--) {
            MPI_Recv(&in, 1, MPI_INT64_T, 0, TAG + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

/* CALLGRIND_ZERO_STATS leaves some of the cost from before; what is dumped is gone, so the barrier ends with a dump, too.
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

    MPI_Win_allocate_shared(rank == 0 ? sizeof(shared_t) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, win);
    MPI_Win_shared_query(*win, 0, &size, &unit, &shared);
    if (rank == 0) {
        sem_init(&shared->receiver_ready, 1, 0);
        sem_init(&shared->sender_done, 1, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int messages = argc > 1 ? atoi(argv[1]) : 1024;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    share(&win);
    section("self-expected", self_expected, messages);
    section("self-unexpected", self_unexpected, messages);
    section("pair-sync", pair_sync, messages);
    section("pair-expected", pair_expected, messages);
    section("pair-unexpected", pair_unexpected, messages);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
