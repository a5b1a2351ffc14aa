/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency: half the round trip of a message between ranks 0 and 1, blocking sends and receives, by
 * size.
 *
 * Result: latency_us half <bytes>.  One buffer for all messages, so that large ones move from cache
 * where they fit.  The data of each size is checked once, outside the timing.
 */
#include "bench.h"

enum {
    TAG = 1,
    PROBE_ITERATIONS = 20,
    MAX_ITERATIONS = 100000,
};

#define SIZES                                                                                      \
    "0,1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,"   \
    "1048576,2097152,4194304"

static void exchange(int rank, char *buffer, int size, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        if (0 == rank) {
            MPI_Send(buffer, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(buffer, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
}

static double exchange_seconds(int rank, char *buffer, int size, int iterations)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    exchange(rank, buffer, size, iterations);
    return (bench_now() - start) / (2.0 * iterations);
}

/* Sends a pattern there and back. */
static void check_data(int rank, char *buffer, int size)
{
    for (int i = 0; i < size; i++) {
        buffer[i] = 0 == rank ? (char) (i * 7 + (i >> 12)) : 0;
    }
    exchange(rank, buffer, size, 1);
    for (int i = 0; i < size; i++) {
        if (buffer[i] != (char) (i * 7 + (i >> 12))) {
            bench_fail("wrong data");
        }
    }
}

static void measure(int rank, char *buffer, int size, const bench_options_t *opt)
{
    double batch[BENCH_MAX_BATCHES], probe;
    int iterations;

    check_data(rank, buffer, size);
    exchange_seconds(rank, buffer, size, PROBE_ITERATIONS);
    probe = exchange_seconds(rank, buffer, size, PROBE_ITERATIONS);
    iterations = bench_iterations(MPI_COMM_WORLD, opt->batch_seconds, 2 * probe, MAX_ITERATIONS);
    exchange_seconds(rank, buffer, size, iterations);
    for (int b = 0; b < opt->batches; b++) {
        batch[b] = 1e6 * exchange_seconds(rank, buffer, size, iterations);
    }
    if (0 == rank) {
        bench_result_times("latency_us", "half", size, batch, opt->batches);
    }
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    char *buffer;
    int rank, max = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, SIZES);
    for (int i = 0; i < opt.list.count; i++) {
        max = opt.list.value[i] > max ? (int) opt.list.value[i] : max;
    }
    buffer = bench_alloc((size_t) max);
    for (int i = 0; i < opt.list.count && rank < 2; i++) {
        measure(rank, buffer, (int) opt.list.value[i], &opt);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
