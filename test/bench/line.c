/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time that a cache line takes from the processor of rank 0 to that of rank 1.
 *
 * Result: line_ns half 2, ns: half a round trip of one line of shared memory that both write.
 */
#include "bench.h"

#include <stdatomic.h>

enum { ROUNDS = 2000, LINE = 64 };

/* Write next to the line; wait until the other rank has written the one after it. */
static double round_trips(_Atomic unsigned *line, int rank)
{
    const double start = bench_now();

    for (unsigned i = 1; i <= 2 * ROUNDS; i += 2) {
        if (0 == rank) {
            atomic_store_explicit(line, i, memory_order_release);
        }
        while (atomic_load_explicit(line, memory_order_acquire) != i + (0 == rank)) {
        }
        if (0 != rank) {
            atomic_store_explicit(line, i + 1, memory_order_release);
        }
    }
    return (bench_now() - start) / ROUNDS;
}

int main(int argc, char **argv)
{
    double ns[BENCH_MAX_BATCHES];
    bench_options_t opt;
    MPI_Aint size;
    MPI_Win window;
    void *base;
    int rank, unit;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, "");
    MPI_Win_allocate_shared(0 == rank ? LINE : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_shared_query(window, 0, &size, &unit, &base);
    for (int i = 0; i < opt.batches; i++) {
        _Atomic unsigned *line = base;
        atomic_store(line, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        ns[i] = 5e8 * round_trips(line, rank);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (0 == rank) {
        bench_result_times("line_ns", "half", 2, ns, opt.batches);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
