/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmark programs share: clock, medians, options, result lines.
 *
 * A result line is
 *
 *      R <metric> <variant> <x> <median> <best>
 *
 * without blanks inside a field; the script compare collects these lines, anything else that a
 * program prints is for people. <x> is the message size in bytes, the depth or the number of ranks,
 * as the metric has it. <best> is the smallest batch of a time, the largest of a rate.
 *
 * Each program measures in batches, of as many iterations as fill the time given with -t, and takes
 * the median over the batches of -b.  The smoke test gives 1 ms and one batch.
 */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BENCH_MAX_BATCHES = 101,
    BENCH_MAX_LIST = 64,
};

/* A list of sizes or depths, given as -l 0,8,1024. */
typedef struct bench_list {
    int count;
    long value[BENCH_MAX_LIST];
} bench_list_t;

typedef struct bench_options {
    int batches;          /* -b */
    double batch_seconds; /* -t, given in milliseconds */
    bench_list_t list;    /* -l */
    bool is_full;         /* -f: every variant, not the usual few */
} bench_options_t;

static inline double bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static inline void bench_fail(const char *why)
{
    fprintf(stderr, "benchmark failed: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline void *bench_alloc(size_t size)
{
    void *memory = NULL;

    if (0 != posix_memalign(&memory, 4096, size > 0 ? size : 1)) {
        bench_fail("out of memory");
    }
    memset(memory, 0, size);
    return memory;
}

static inline bench_list_t bench_list_parse(const char *text)
{
    bench_list_t list = {0};
    char *end;

    while (list.count < BENCH_MAX_LIST) {
        list.value[list.count++] = strtol(text, &end, 10);
        if (',' != *end) {
            break;
        }
        text = end + 1;
    }
    return list;
}

static inline bench_options_t bench_options(int argc, char **argv, const char *list)
{
    bench_options_t opt = {.batches = 7, .batch_seconds = 10e-3, .list = bench_list_parse(list)};
    int c;

    while (-1 != (c = getopt(argc, argv, "b:t:l:f"))) {
        switch (c) {
        case 'b':
            opt.batches = atoi(optarg);
            break;
        case 't':
            opt.batch_seconds = 1e-3 * atof(optarg);
            break;
        case 'l':
            opt.list = bench_list_parse(optarg);
            break;
        case 'f':
            opt.is_full = true;
            break;
        default:
            bench_fail("usage: [-b batches] [-t milliseconds per batch] [-l list] [-f]");
        }
    }
    if (opt.batches < 1 || opt.batches > BENCH_MAX_BATCHES) {
        bench_fail("-b out of range");
    }
    return opt;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/* Sorts value. */
static inline double bench_median(double *value, int count)
{
    qsort(value, (size_t) count, sizeof(*value), bench_compare);
    return 0.5 * (value[(count - 1) / 2] + value[count / 2]);
}

static inline void bench_result(const char *metric, const char *variant, long x, double median,
                                double best)
{
    printf("R %s %s %ld %.6g %.6g\n", metric, variant, x, median, best);
    fflush(stdout);
}

/* Sorts value, of which smaller is better. */
static inline void bench_result_times(const char *metric, const char *variant, long x,
                                      double *value, int count)
{
    double median = bench_median(value, count);

    bench_result(metric, variant, x, median, value[0]);
}

/* Sorts value, of which larger is better. */
static inline void bench_result_rates(const char *metric, const char *variant, long x,
                                      double *value, int count)
{
    double median = bench_median(value, count);

    bench_result(metric, variant, x, median, value[count - 1]);
}

/* Iterations that fill one batch, the same on every rank of comm; rank 0's measure decides. */
static inline int bench_iterations(MPI_Comm comm, double batch_seconds, double iteration_seconds,
                                   int at_most)
{
    double wanted = batch_seconds / (iteration_seconds > 1e-9 ? iteration_seconds : 1e-9);
    int iterations = wanted < 1 ? 1 : wanted > at_most ? at_most : (int) wanted;

    MPI_Bcast(&iterations, 1, MPI_INT, 0, comm);
    return iterations;
}

#endif /* BENCH_H */
