/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency beside a large transfer: half the round trip of 8 bytes between ranks 0 and 1, while rank
 * 0 sends rank 1 messages of the size given, two at a time and without a break.
 *
 * Results: beside_us half, of the median round trip, beside_us half-99%, of that which one in a
 * hundred exceeds, beside_us half-max, and beside_MB/s of the large messages; x is their size. The
 * second number is that of the best batch. Size 0: there are none.
 */
#include "bench.h"

enum {
    TAG_SHORT = 1,
    TAG_LARGE = 2,
    DEPTH = 2, /* large messages under way */
    MAX_TRIPS = 200000,
};

/* The large messages, as one of the ranks sees them. */
typedef struct stream {
    char *buffer[DEPTH];
    MPI_Request request[DEPTH];
    int rank;
    int size;
    long num; /* begun */
} stream_t;

static double trips[MAX_TRIPS];

static void begin_one(stream_t *stream, int i)
{
    if (0 == stream->rank) {
        MPI_Isend(stream->buffer[i], stream->size, MPI_BYTE, 1, TAG_LARGE, MPI_COMM_WORLD,
                  &stream->request[i]);
    } else {
        MPI_Irecv(stream->buffer[i], stream->size, MPI_BYTE, 0, TAG_LARGE, MPI_COMM_WORLD,
                  &stream->request[i]);
    }
    stream->num++;
}

/* Begin another one for each that is complete: they are so in order. */
static void go_on(stream_t *stream)
{
    int is_done = stream->size > 0;

    while (is_done) {
        int i = (int) (stream->num % DEPTH); /* the oldest */
        MPI_Test(&stream->request[i], &is_done, MPI_STATUS_IGNORE);
        if (is_done) {
            begin_one(stream, i);
        }
    }
}

/* Both ranks have begun the same number; end them all. */
static void end_all(stream_t *stream)
{
    long nums[2], mine = stream->num;

    MPI_Allgather(&mine, 1, MPI_LONG, nums, 1, MPI_LONG, MPI_COMM_WORLD);
    while (stream->num < nums[0] || stream->num < nums[1]) {
        int i = (int) (stream->num % DEPTH);
        MPI_Wait(&stream->request[i], MPI_STATUS_IGNORE);
        begin_one(stream, i);
    }
    MPI_Waitall(DEPTH, stream->request, MPI_STATUSES_IGNORE);
}

/* Round trips for so long; returns how many, with their times in trips. */
static int exchange(stream_t *stream, double seconds)
{
    const double end = bench_now() + seconds;
    long is_last = 0;
    int num = 0;

    while (!is_last) {
        go_on(stream);
        if (0 == stream->rank) {
            double start = bench_now();
            is_last = start >= end || num == MAX_TRIPS - 1;
            MPI_Send(&is_last, 1, MPI_LONG, 1, TAG_SHORT, MPI_COMM_WORLD);
            MPI_Recv(&is_last, 1, MPI_LONG, 1, TAG_SHORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            trips[num++] = 0.5e6 * (bench_now() - start);
        } else {
            MPI_Recv(&is_last, 1, MPI_LONG, 0, TAG_SHORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&is_last, 1, MPI_LONG, 0, TAG_SHORT, MPI_COMM_WORLD);
        }
    }
    return num;
}

static void measure(int rank, int size, const bench_options_t *opt)
{
    double median[BENCH_MAX_BATCHES], late[BENCH_MAX_BATCHES], max[BENCH_MAX_BATCHES],
        rate[BENCH_MAX_BATCHES];
    stream_t stream = {.rank = rank, .size = size};

    for (int i = 0; i < DEPTH; i++) {
        stream.request[i] = MPI_REQUEST_NULL;
        stream.buffer[i] = bench_alloc((size_t) size);
    }
    for (int b = -1; b < opt->batches; b++) { /* the first one is for warming up */
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_now();
        stream.num = 0;
        for (int i = 0; i < DEPTH && size > 0; i++) {
            begin_one(&stream, i);
        }
        int num = exchange(&stream, opt->batch_seconds);
        end_all(&stream);
        if (0 == rank && b >= 0) {
            rate[b] = 1e-6 * (double) size * (double) stream.num / (bench_now() - start);
            median[b] = bench_median(trips, num);
            late[b] = trips[num - 1 - num / 100];
            max[b] = trips[num - 1];
        }
    }
    if (0 == rank) {
        bench_result_times("beside_us", "half", size, median, opt->batches);
        bench_result_times("beside_us", "half-99%", size, late, opt->batches);
        bench_result_times("beside_us", "half-max", size, max, opt->batches);
        bench_result_rates("beside_MB/s", "large", size, rate, opt->batches);
    }
    for (int i = 0; i < DEPTH; i++) {
        free(stream.buffer[i]);
    }
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, "0,1048576,67108864");
    for (int i = 0; i < opt.list.count && rank < 2; i++) {
        measure(rank, (int) opt.list.value[i], &opt);
    }
    MPI_Finalize();
    return 0;
}
