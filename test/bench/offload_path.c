/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expected messages from rank 0 to rank 1, laid out for counting instructions under callgrind
 * (offload_instructions): batches of receives are posted, then all are sent, then both sides wait
 * for them.
 *
 * Sections as in fastpath.c: each is dumped after n and after 2 n, under the name <section>:<n>:
 *
 *      poll          rank 1 polls n times for a receive that is posted and gets no message
 *      eager         n messages of 2 KiB
 *      longer        n messages of 8 KiB
 *      rendezvous    n messages of 1 MiB
 *
 * The ranks tell each other by semaphores in shared memory, which sleep, and sleep between polls:
 * the device works then, and few polls are for nothing.  Usage: offload_path [messages]
 */
#include "counted.h"

enum {
    BATCH = 16,
    EAGER = 2048,
    LONGER = 8192,
    RENDEZVOUS = 1 << 20,
    MOMENT = 20000, /* us */
};

static char *buffer;

static void wait_asleep(MPI_Request *req)
{
    int is_done = 0;

    while (!is_done) {
        usleep(MOMENT);
        MPI_Testall(BATCH, req, &is_done, MPI_STATUSES_IGNORE);
    }
}

static void poll_for_nothing(int polls)
{
    MPI_Request req;
    int flag;

    if (0 == rank) {
        return;
    }
    MPI_Irecv(buffer, EAGER, MPI_BYTE, 0, BATCH, MPI_COMM_WORLD, &req);
    for (int i = 0; i < polls; i++) {
        MPI_Test(&req, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Cancel(&req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
}

static void batch_send(int len)
{
    MPI_Request req[BATCH];

    wait_for(&shared->receiver_ready);
    for (int k = 0; k < BATCH; k++) {
        MPI_Isend(buffer + (size_t) k * RENDEZVOUS, len, MPI_BYTE, 1, k, MPI_COMM_WORLD, &req[k]);
    }
    sem_post(&shared->sender_done);
    wait_asleep(req);
}

static void batch_receive(int len)
{
    MPI_Request req[BATCH];

    for (int k = 0; k < BATCH; k++) {
        MPI_Irecv(buffer + (size_t) k * RENDEZVOUS, len, MPI_BYTE, 0, k, MPI_COMM_WORLD, &req[k]);
    }
    sem_post(&shared->receiver_ready);
    wait_for(&shared->sender_done);
    wait_asleep(req);
}

static void expected(int messages, int len)
{
    for (int i = 0; i < messages; i += BATCH) {
        if (0 == rank) {
            batch_send(len);
        } else {
            batch_receive(len);
        }
    }
}

static void eager(int messages)
{
    expected(messages, EAGER);
}

static void longer(int messages)
{
    expected(messages, LONGER);
}

static void rendezvous(int messages)
{
    expected(messages, RENDEZVOUS);
}

int main(int argc, char **argv)
{
    int messages = argc > 1 ? atoi(argv[1]) : 64;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    share(&win);
    buffer = bench_alloc((size_t) BATCH * RENDEZVOUS);
    section("poll", poll_for_nothing, messages);
    section("eager", eager, messages);
    section("longer", longer, messages);
    section("rendezvous", rendezvous, messages);
    free(buffer);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
