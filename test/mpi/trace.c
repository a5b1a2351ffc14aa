/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For trace.sh: messages of all protocols from each rank to the next, as many as it says.
 *
 * args: threads: with MPI_THREAD_MULTIPLE
 */
#include "tm_test.h"

enum { LONGEST = 300000, TIMES = 20 };

static const int lengths[] = {0, 1, 40, 41, 1000, 9000, 16384, 16385, 60000, LONGEST};

enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static char out[LONGEST], in[LENGTHS][LONGEST];

/* To the right, and from the left: all at once. */
static void window(int right, int left)
{
    MPI_Request requests[2 * LENGTHS];

    for (int i = 0; i < LENGTHS; i++) {
        TM_MPI(MPI_Irecv(in[i], LONGEST, MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = 0; i < LENGTHS; i++) {
        TM_MPI(
            MPI_Isend(out, lengths[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[LENGTHS + i]));
    }
    TM_MPI(MPI_Waitall(2 * LENGTHS, requests, MPI_STATUSES_IGNORE));
}

/* The same, unexpected, in turn. */
static void late(int right, int left)
{
    MPI_Request request;

    for (int i = 0; i < LENGTHS; i++) {
        TM_MPI(MPI_Issend(out, lengths[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &request));
        TM_MPI(MPI_Recv(in[i], LONGEST, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

/* Blocking: even ranks send first. */
static void blocking(int right, int left)
{
    for (int i = 0; i < LENGTHS; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (turn == tm_rank % 2) {
                TM_MPI(MPI_Send(out, lengths[i], MPI_BYTE, right, i, MPI_COMM_WORLD));
            } else {
                TM_MPI(
                    MPI_Recv(in[i], LONGEST, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
        }
    }
}

int main(int argc, char **argv)
{
    int right, left;

    tm_init_thread(&argc, &argv, "trace", argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    right = (tm_rank + 1) % tm_size;
    left = (tm_rank + tm_size - 1) % tm_size;
    for (int i = 0; i < TIMES; i++) {
        window(right, left);
        late(right, left);
        blocking(right, left);
    }
    if (0 == tm_rank) {
        printf("messages: %d\n", 3 * TIMES * LENGTHS * tm_size);
    }
    return tm_finish();
}
