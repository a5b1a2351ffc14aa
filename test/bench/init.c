/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and end: the time of MPI_Init (slowest rank) and of MPI_Finalize (rank 0).
 *
 * Results: init_ms init <ranks>, init_ms finalize <ranks>.  One value per run; the script
 * compare takes the median over several runs.
 */
#include "bench.h"

int main(int argc, char **argv)
{
    double start = bench_now(), mine, slowest = 0;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    mine = 1e3 * (bench_now() - start);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    start = bench_now();
    MPI_Finalize();
    mine = 1e3 * (bench_now() - start);
    if (0 == rank) {
        bench_result("init_ms", "init", ranks, slowest, slowest);
        bench_result("init_ms", "finalize", ranks, mine, mine);
    }
    return 0;
}
