/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More ranks than processors: what waiting costs.  Every rank takes part, nothing is computed.
 *
 * Results, with the number of ranks as x:
 *      crowded_ms OPERATION  the first ones of a job: 300, 200 and 20 of those below
 *      crowded_us barrier    MPI_Barrier
 *      crowded_us ring       a message of 1 KiB from each rank to the next, by MPI_Sendrecv
 *      crowded_us alltoall   MPI_Alltoall of 30000 bytes to each rank
 *      crowded_switches OPERATION  changes from one process to another in each round
 */
#include "bench.h"

#include <sys/resource.h>

enum {
    RING_BYTES = 1024,
    ALLTOALL_BYTES = 30000,
    GUESS_ROUNDS = 5, /* that tell how many fill a batch */
};

typedef struct crowd {
    int rank, size;
    char *from, *to;
} crowd_t;

typedef void round_fn_t(const crowd_t *crowd);

static void barrier(const crowd_t *crowd)
{
    (void) crowd;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void ring(const crowd_t *crowd)
{
    MPI_Sendrecv(crowd->from, RING_BYTES, MPI_BYTE, (crowd->rank + 1) % crowd->size, 1, crowd->to,
                 RING_BYTES, MPI_BYTE, (crowd->rank + crowd->size - 1) % crowd->size, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void alltoall(const crowd_t *crowd)
{
    MPI_Alltoall(crowd->from, ALLTOALL_BYTES, MPI_BYTE, crowd->to, ALLTOALL_BYTES, MPI_BYTE,
                 MPI_COMM_WORLD);
}

/* Seconds of so many rounds. */
static double time_of(round_fn_t *round, const crowd_t *crowd, int rounds)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    for (int i = 0; i < rounds; i++) {
        round(crowd);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return bench_now() - start;
}

/* So far, of all ranks. */
static double switches(void)
{
    struct rusage usage;
    double mine, all;

    getrusage(RUSAGE_SELF, &usage);
    mine = (double) (usage.ru_nvcsw + usage.ru_nivcsw);
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void measure_first(const char *variant, round_fn_t *round, int rounds, const crowd_t *crowd)
{
    double value = 1e3 * time_of(round, crowd, rounds);

    if (0 == crowd->rank) {
        bench_result("crowded_ms", variant, crowd->size, value, value);
    }
}

static void measure(const char *variant, round_fn_t *round, const crowd_t *crowd,
                    const bench_options_t *opt)
{
    double value[BENCH_MAX_BATCHES], changes;
    int rounds = bench_iterations(MPI_COMM_WORLD, opt->batch_seconds,
                                  time_of(round, crowd, GUESS_ROUNDS) / GUESS_ROUNDS, 1000000);

    changes = switches();
    for (int b = 0; b < opt->batches; b++) {
        value[b] = 1e6 * time_of(round, crowd, rounds) / rounds;
    }
    changes = (switches() - changes) / rounds / opt->batches;
    if (0 == crowd->rank) {
        bench_result("crowded_switches", variant, crowd->size, changes, changes);
        bench_result_times("crowded_us", variant, crowd->size, value, opt->batches);
    }
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    crowd_t crowd;

    MPI_Init(&argc, &argv);
    opt = bench_options(argc, argv, "0");
    MPI_Comm_rank(MPI_COMM_WORLD, &crowd.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &crowd.size);
    crowd.from = bench_alloc((size_t) crowd.size * ALLTOALL_BYTES);
    crowd.to = bench_alloc((size_t) crowd.size * ALLTOALL_BYTES);

    measure_first("barrier", barrier, 300, &crowd);
    measure_first("ring", ring, 200, &crowd);
    measure_first("alltoall", alltoall, 20, &crowd);
    measure("barrier", barrier, &crowd, &opt);
    measure("ring", ring, &crowd, &opt);
    measure("alltoall", alltoall, &crowd, &opt);

    free(crowd.from);
    free(crowd.to);
    MPI_Finalize();
    return 0;
}
