/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks 0 and 1 as programs send them: each side writes all that it sends, from
 * what it has received, before each message; and beside it as most benchmarks send them, the same
 * bytes again and again, which may come from the receiver's own cache.
 *
 * Results: written_us PATTERN <bytes>, the time of an iteration with the writing and reading, which
 * costs what the messages left in the caches:
 *      pingpong        half a round trip by MPI_Send and MPI_Recv
 *      exchange        MPI_Irecv, MPI_Isend, MPI_Waitall by both
 *      pingpong-same, exchange-same    nothing is written or read
 */
#include "bench.h"

enum {
    TAG = 1,
    PROBE_ITERATIONS = 10,
    MAX_ITERATIONS = 100000,
};

#define SIZES "8192,16384,32768,65536,131072,262144,524288,1048576,4194304,16777216"

typedef struct buffers {
    double *to;
    double *from;
    int count;       /* of each */
    bool is_written; /* what is sent is new */
} buffers_t;

static void compute(const buffers_t *b)
{
    for (int i = 0; b->is_written && i < b->count; i++) {
        b->to[i] = 0.5 * b->to[i] + b->from[i];
    }
}

static void send(const buffers_t *b, int peer)
{
    compute(b);
    MPI_Send(b->to, b->count, MPI_DOUBLE, peer, TAG, MPI_COMM_WORLD);
}

static void pingpong(int rank, const buffers_t *b)
{
    if (0 == rank) {
        send(b, 1);
    }
    MPI_Recv(b->from, b->count, MPI_DOUBLE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (1 == rank) {
        send(b, 0);
    }
}

static void exchange(int rank, const buffers_t *b)
{
    MPI_Request req[2];

    compute(b);
    MPI_Irecv(b->from, b->count, MPI_DOUBLE, 1 - rank, TAG, MPI_COMM_WORLD, &req[0]);
    MPI_Isend(b->to, b->count, MPI_DOUBLE, 1 - rank, TAG, MPI_COMM_WORLD, &req[1]);
    MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
}

typedef void pattern_fn_t(int rank, const buffers_t *b);

/* Seconds of one iteration. */
static double seconds(pattern_fn_t *pattern, int rank, const buffers_t *b, int iterations)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    for (int i = 0; i < iterations; i++) {
        pattern(rank, b);
    }
    return (bench_now() - start) / iterations;
}

static void measure(const bench_options_t *opt, pattern_fn_t *pattern, bool is_written, int rank,
                    int size)
{
    static const char *const names[2][2] = {{"exchange-same", "exchange"},
                                            {"pingpong-same", "pingpong"}};
    const int messages = pingpong == pattern ? 2 : 1;
    buffers_t b = {.to = bench_alloc((size_t) size),
                   .from = bench_alloc((size_t) size),
                   .count = size / (int) sizeof(double),
                   .is_written = is_written};
    double us[BENCH_MAX_BATCHES];
    int iterations;

    (void) seconds(pattern, rank, &b, PROBE_ITERATIONS);
    iterations = bench_iterations(MPI_COMM_WORLD, opt->batch_seconds,
                                  seconds(pattern, rank, &b, PROBE_ITERATIONS), MAX_ITERATIONS);
    for (int i = 0; i < opt->batches; i++) {
        us[i] = 1e6 * seconds(pattern, rank, &b, iterations) / messages;
    }
    if (0 == rank) {
        bench_result_times("written_us", names[pingpong == pattern][is_written], size, us,
                           opt->batches);
    }
    free(b.to);
    free(b.from);
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, SIZES);
    for (int i = 0; i < opt.list.count && rank < 2; i++) {
        for (int is_written = 1; is_written >= 0; is_written--) {
            measure(&opt, pingpong, is_written, rank, (int) opt.list.value[i]);
            measure(&opt, exchange, is_written, rank, (int) opt.list.value[i]);
        }
    }
    MPI_Finalize();
    return 0;
}
