/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency of one-sided operations of rank 0 on the memory of rank 1, which waits in MPI_Barrier:
 * each operation is followed by MPI_Win_flush.
 *
 * Results, in microseconds, WINDOW being create (the memory is the program's) or allocate:
 *      put_us, get_us             <WINDOW> <bytes>
 *      fetch_add_us, swap_us      <WINDOW> 8: MPI_Fetch_and_op, MPI_Compare_and_swap
 *      accumulate_us              <WINDOW> 8
 *
 * -f: allocated windows as well
 */
#include "bench.h"

enum {
    PROBE_ITERATIONS = 20,
    WARM_UP = 20000, /* messages: rings are new memory until they were written once */
    MAX_ITERATIONS = 100000,
};

typedef void (*operation_t)(MPI_Win win, int64_t *local, int size);

static void put(MPI_Win win, int64_t *local, int size)
{
    MPI_Put(local, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
}

static void get(MPI_Win win, int64_t *local, int size)
{
    MPI_Get(local, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
}

static void fetch_add(MPI_Win win, int64_t *local, int size)
{
    (void) size;
    MPI_Fetch_and_op(&local[0], &local[1], MPI_INT64_T, 1, 0, MPI_SUM, win);
}

static void swap(MPI_Win win, int64_t *local, int size)
{
    (void) size;
    MPI_Compare_and_swap(&local[0], &local[1], &local[2], MPI_INT64_T, 1, 0, win);
}

static void accumulate(MPI_Win win, int64_t *local, int size)
{
    (void) size;
    MPI_Accumulate(local, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, win);
}

static double seconds(operation_t operation, MPI_Win win, int64_t *local, int size, int iterations)
{
    double start = bench_now();

    for (int i = 0; i < iterations; i++) {
        operation(win, local, size);
        MPI_Win_flush(1, win);
    }
    return (bench_now() - start) / iterations;
}

static void measure(const char *metric, operation_t operation, const char *variant, MPI_Win win,
                    int64_t *local, int size, const bench_options_t *opt)
{
    double batch[BENCH_MAX_BATCHES], wanted;
    int iterations;

    seconds(operation, win, local, size, PROBE_ITERATIONS);
    wanted = opt->batch_seconds / seconds(operation, win, local, size, PROBE_ITERATIONS);
    iterations = wanted < 1 ? 1 : wanted > MAX_ITERATIONS ? MAX_ITERATIONS : (int) wanted;
    for (int b = 0; b < opt->batches; b++) {
        batch[b] = 1e6 * seconds(operation, win, local, size, iterations);
    }
    bench_result_times(metric, variant, size, batch, opt->batches);
}

static void measure_all(const char *variant, MPI_Win win, int64_t *local,
                        const bench_options_t *opt)
{
    for (int i = 0; i < opt->list.count; i++) {
        int size = (int) opt->list.value[i];
        measure("put_us", put, variant, win, local, size, opt);
        measure("get_us", get, variant, win, local, size, opt);
    }
    seconds(fetch_add, win, local, sizeof(int64_t), WARM_UP);
    measure("fetch_add_us", fetch_add, variant, win, local, sizeof(int64_t), opt);
    measure("swap_us", swap, variant, win, local, sizeof(int64_t), opt);
    measure("accumulate_us", accumulate, variant, win, local, sizeof(int64_t), opt);
}

static void with_window(bool is_allocated, int rank, size_t size, const bench_options_t *opt)
{
    void *memory = NULL, *local = bench_alloc(size);
    MPI_Win win;

    if (is_allocated) {
        MPI_Win_allocate((MPI_Aint) size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    } else {
        memory = bench_alloc(size);
        MPI_Win_create(memory, (MPI_Aint) size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    if (0 == rank) {
        measure_all(is_allocated ? "allocate" : "create", win, local, opt);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    if (!is_allocated) {
        free(memory);
    }
    free(local);
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    int rank;
    size_t max = 3 * sizeof(int64_t);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, "8,4096,65536");
    for (int i = 0; i < opt.list.count; i++) {
        max = opt.list.value[i] > (long) max ? (size_t) opt.list.value[i] : max;
    }
    with_window(false, rank, max, &opt);
    if (opt.is_full) {
        with_window(true, rank, max, &opt);
    }
    MPI_Finalize();
    return 0;
}
