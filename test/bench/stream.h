/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A one-way stream, as bandwidth.c and rate.c measure it: the lower half of the ranks sends windows
 * of non-blocking messages to the upper half, rank i to rank i + n/2.  The receiver posts a whole
 * window and waits for it.  It answers with an empty message after each window (as OSU's osu_bw and
 * osu_mbw_mr do), or only after the last one of a batch, which ends the clock; then the sender is
 * free to run ahead and messages can arrive before their receives are posted.
 */
#ifndef STREAM_H
#define STREAM_H

#include "bench.h"

enum {
    STREAM_WINDOW = 64,
    STREAM_TAG = 1,
    STREAM_ANSWER_TAG = 2,
};

typedef struct stream {
    int rank;
    int pairs;
    int peer;
    bool is_sender;
    bool has_answers; /* after each window */
    char *buffer;     /* one message long: all messages of a window share it */
} stream_t;

static inline void stream_init(stream_t *stream, size_t max_size)
{
    int ranks;

    stream->has_answers = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &stream->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (0 != ranks % 2) {
        bench_fail("an even number of ranks is needed");
    }
    stream->pairs = ranks / 2;
    stream->is_sender = stream->rank < stream->pairs;
    stream->peer = stream->is_sender ? stream->rank + stream->pairs : stream->rank - stream->pairs;
    stream->buffer = bench_alloc(max_size);
}

static inline void stream_window(const stream_t *stream, int size)
{
    MPI_Request req[STREAM_WINDOW];

    for (int i = 0; i < STREAM_WINDOW; i++) {
        if (stream->is_sender) {
            MPI_Isend(stream->buffer, size, MPI_BYTE, stream->peer, STREAM_TAG, MPI_COMM_WORLD,
                      &req[i]);
        } else {
            MPI_Irecv(stream->buffer, size, MPI_BYTE, stream->peer, STREAM_TAG, MPI_COMM_WORLD,
                      &req[i]);
        }
    }
    MPI_Waitall(STREAM_WINDOW, req, MPI_STATUSES_IGNORE);
}

static inline void stream_answer(const stream_t *stream)
{
    if (stream->is_sender) {
        MPI_Recv(NULL, 0, MPI_BYTE, stream->peer, STREAM_ANSWER_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, stream->peer, STREAM_ANSWER_TAG, MPI_COMM_WORLD);
    }
}

/* Seconds for windows windows, of the slowest pair; the value counts on rank 0 only. */
static inline double stream_seconds(const stream_t *stream, int size, int windows)
{
    double start, mine, slowest = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    for (int i = 0; i < windows; i++) {
        stream_window(stream, size);
        if (stream->has_answers || i == windows - 1) {
            stream_answer(stream);
        }
    }
    mine = bench_now() - start;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

/* Messages per second of all pairs together, one value per batch; it counts on rank 0 only. */
static inline void stream_measure(const stream_t *stream, int size, const bench_options_t *opt,
                                  double *rate)
{
    enum { PROBE_WINDOWS = 4, MAX_WINDOWS = 5000 };
    double probe;
    int windows;

    stream_seconds(stream, size, PROBE_WINDOWS);
    probe = stream_seconds(stream, size, PROBE_WINDOWS) / PROBE_WINDOWS;
    windows = bench_iterations(MPI_COMM_WORLD, opt->batch_seconds, probe, MAX_WINDOWS);
    stream_seconds(stream, size, windows);
    for (int b = 0; b < opt->batches; b++) {
        rate[b] = (double) stream->pairs * STREAM_WINDOW * windows /
                  stream_seconds(stream, size, windows);
    }
}

#endif /* STREAM_H */
