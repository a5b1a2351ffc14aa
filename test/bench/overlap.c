/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Overlap: how much of a large transfer goes on while one side computes.
 *
 * Results, in percent of the transfer time, by size:
 *      overlap_pct send <bytes>  the sender computes between MPI_Isend and MPI_Wait; the receiver
 *                                waits in MPI_Recv
 *      overlap_pct recv <bytes>  the receiver computes between MPI_Irecv and MPI_Wait; the sender
 *                                waits in MPI_Send
 *
 * The time T of the transfer is measured first, then with 2 T of computation in it, which takes C:
 * 100 % is C = 2 T, 0 % is C = 3 T.  The computation is a loop on the clock without a call of MPI.
 * The measuring side ends the transfer at its own wait.
 */
#include "bench.h"

enum {
    TAG = 1,
    MAX_ROUNDS = 1000,
};

typedef struct side {
    bool is_computing;
    bool is_sender;
    int peer;
    int size;
    char *buffer;
} side_t;

static void compute(double seconds)
{
    double end = bench_now() + seconds;

    while (bench_now() < end) {
    }
}

static void transfer(const side_t *side, double computation)
{
    MPI_Request req;

    if (!side->is_computing) {
        if (side->is_sender) {
            MPI_Send(side->buffer, side->size, MPI_BYTE, side->peer, TAG, MPI_COMM_WORLD);
        } else {
            MPI_Recv(side->buffer, side->size, MPI_BYTE, side->peer, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
        return;
    }
    if (side->is_sender) {
        MPI_Isend(side->buffer, side->size, MPI_BYTE, side->peer, TAG, MPI_COMM_WORLD, &req);
    } else {
        MPI_Irecv(side->buffer, side->size, MPI_BYTE, side->peer, TAG, MPI_COMM_WORLD, &req);
    }
    compute(computation);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* Median seconds of one transfer on the computing side, on all ranks. */
static double transfer_seconds(const side_t *side, double computation, int rounds)
{
    static double seconds[MAX_ROUNDS];
    double median, both[2];

    for (int i = 0; i < rounds; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        seconds[i] = bench_now();
        transfer(side, computation);
        seconds[i] = bench_now() - seconds[i];
    }
    median = bench_median(seconds, rounds);
    MPI_Allgather(&median, 1, MPI_DOUBLE, both, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    return both[side->is_computing == side->is_sender ? 0 : 1]; /* rank 0 is the sender */
}

static void measure(side_t *side, const char *variant, int rank, const bench_options_t *opt)
{
    double percent[BENCH_MAX_BATCHES];

    for (int b = -1; b < opt->batches; b++) {
        double alone = transfer_seconds(side, 0, 5), busy;
        int rounds = bench_iterations(MPI_COMM_WORLD, opt->batch_seconds, 4 * alone, MAX_ROUNDS);

        alone = transfer_seconds(side, 0, rounds);
        busy = transfer_seconds(side, 2 * alone, rounds);
        percent[b < 0 ? 0 : b] = 100 * (3 * alone - busy) / alone;
    }
    if (0 == rank) {
        bench_result_rates("overlap_pct", variant, side->size, percent, opt->batches);
    }
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    side_t side = {0};
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (2 != ranks) {
        bench_fail("two ranks are needed");
    }
    opt = bench_options(argc, argv, "16384,65536,262144,1048576,4194304");
    side.is_sender = 0 == rank;
    side.peer = 1 - rank;
    for (int i = 0; i < opt.list.count; i++) {
        side.size = (int) opt.list.value[i];
        side.buffer = bench_alloc((size_t) side.size);
        side.is_computing = 0 == rank;
        measure(&side, "send", rank, &opt);
        side.is_computing = 1 == rank;
        measure(&side, "recv", rank, &opt);
        free(side.buffer);
    }
    MPI_Finalize();
    return 0;
}
