/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads: message rate of pairs of threads under MPI_THREAD_MULTIPLE, each thread of rank 0 with
 * its partner of rank 1 and a communicator of their own. The sender sends windows of 64 messages of
 * 8 bytes, the receiver answers each window.
 *
 * -l: numbers of threads per rank. BENCH_VARIANT in the environment names the variant, that is, how
 * the ranks are bound.
 *
 * Result: threads_mmps <variant> <threads>, 10^6 messages per second of all pairs together.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WINDOW = 64,
    MAX_THREADS = 64,
    TAG = 1,
    ANSWER_TAG = 2,
    STOP_TAG = 3,
};

typedef struct pair {
    MPI_Comm comm;
    pthread_t thread;
    int rank;
    long windows; /* exchanged so far; the sender counts */
} pair_t;

static pair_t pairs[MAX_THREADS];
static atomic_bool is_over;
static pthread_barrier_t start;

/* The content of the message ahead of each window. */
enum { STOP, GO };

static void send_windows(pair_t *pair)
{
    char buffer[WINDOW][8] = {{0}};
    MPI_Request req[WINDOW];
    int word = GO;

    while (GO == word) {
        word = atomic_load(&is_over) ? STOP : GO;
        MPI_Send(&word, 1, MPI_INT, 1, STOP_TAG, pair->comm);
        if (GO == word) {
            for (int i = 0; i < WINDOW; i++) {
                MPI_Isend(buffer[i], 8, MPI_BYTE, 1, TAG, pair->comm, &req[i]);
            }
            MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_BYTE, 1, ANSWER_TAG, pair->comm, MPI_STATUS_IGNORE);
            pair->windows++;
        }
    }
}

static void receive_windows(const pair_t *pair)
{
    char buffer[WINDOW][8];
    MPI_Request req[WINDOW];
    int word;

    for (;;) {
        for (int i = 0; i < WINDOW; i++) {
            MPI_Irecv(buffer[i], 8, MPI_BYTE, 0, TAG, pair->comm, &req[i]);
        }
        MPI_Recv(&word, 1, MPI_INT, 0, STOP_TAG, pair->comm, MPI_STATUS_IGNORE);
        if (STOP == word) {
            break;
        }
        MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER_TAG, pair->comm);
    }
    for (int i = 0; i < WINDOW; i++) {
        MPI_Cancel(&req[i]);
    }
    MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
}

static void *pair_main(void *arg)
{
    pair_t *pair = arg;

    pthread_barrier_wait(&start);
    if (0 == pair->rank) {
        send_windows(pair);
    } else {
        receive_windows(pair);
    }
    return NULL;
}

/* Messages per second of so many pairs over seconds; it counts on rank 0 only. */
static double run_pairs(int rank, int threads, double seconds)
{
    double begin = 0;
    long windows = 0;

    atomic_store(&is_over, false);
    pthread_barrier_init(&start, NULL, (unsigned) threads + 1);
    for (int i = 0; i < threads; i++) {
        pairs[i].rank = rank;
        pairs[i].windows = 0;
        if (0 != pthread_create(&pairs[i].thread, NULL, pair_main, &pairs[i])) {
            bench_fail("no thread");
        }
    }
    pthread_barrier_wait(&start);
    begin = bench_now();
    if (0 == rank) {
        usleep((useconds_t) (1e6 * seconds));
        atomic_store(&is_over, true);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(pairs[i].thread, NULL);
        windows += pairs[i].windows;
    }
    pthread_barrier_destroy(&start);
    return (double) windows * WINDOW / (bench_now() - begin);
}

static void measure(int rank, int threads, const char *variant, const bench_options_t *opt)
{
    double batch[BENCH_MAX_BATCHES];

    MPI_Barrier(MPI_COMM_WORLD);
    run_pairs(rank, threads, opt->batch_seconds);
    for (int b = 0; b < opt->batches; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        batch[b] = 1e-6 * run_pairs(rank, threads, opt->batch_seconds);
    }
    if (0 == rank) {
        bench_result_rates("threads_mmps", variant, threads, batch, opt->batches);
    }
}

int main(int argc, char **argv)
{
    const char *variant = getenv("BENCH_VARIANT");
    bench_options_t opt;
    int rank, provided, max = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (MPI_THREAD_MULTIPLE != provided) {
        bench_fail("this MPI has no MPI_THREAD_MULTIPLE");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, "1,2,4,8");
    for (int i = 0; i < opt.list.count; i++) {
        max = opt.list.value[i] > max ? (int) opt.list.value[i] : max;
    }
    if (max > MAX_THREADS || max < 1) {
        bench_fail("number of threads out of range");
    }
    for (int i = 0; i < max; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &pairs[i].comm);
    }
    for (int i = 0; i < opt.list.count && rank < 2; i++) {
        measure(rank, (int) opt.list.value[i], NULL != variant ? variant : "unbound", &opt);
    }
    for (int i = 0; i < max; i++) {
        MPI_Comm_free(&pairs[i].comm);
    }
    MPI_Finalize();
    return 0;
}
