/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A number of round trips between ranks 0 and 1, for counting system calls and copies: exchange
 * SIZE ROUNDS. It does nothing else that depends on ROUNDS, so the difference between two runs is
 * theirs.
 */
#include "bench.h"

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 8, rounds = argc > 2 ? atoi(argv[2]) : 100;
    char *buffer;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    buffer = bench_alloc((size_t) size);
    for (int i = 0; i < rounds && rank < 2; i++) {
        if (0 == rank) {
            MPI_Send(buffer, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        }
        MPI_Recv(buffer, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (1 == rank) {
            MPI_Send(buffer, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
