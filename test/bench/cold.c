/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first messages between ranks 0 and 1: cold [-l BYTES[,BYTES...]] [pingpong|exchange|regret].
 *
 *   pingpong, exchange  the first messages of the process, of one size: the time until 1, 10, 100
 *                       and 1000 round trips, or exchanges by MPI_Sendrecv, are done
 *   regret              200 round trips and 200 exchanges of each size, one size after the other:
 *                       the sum of all times, so that what a library tries, or sets up, counts
 *
 * Results: cold_us PATTERN-BYTES <messages>, regret_us sizes <number of sizes>.  Memory is written
 * before.  Rank 0 starts late, when rank 1 waits in MPI: no message comes before the first that
 * counts.
 */
#include "bench.h"

enum {
    TAG = 1,
    LAST = 1000,
    REGRET = 200,
    LATE_US = 200000,
};

#define SIZES "0,8,64,512,1024,4096,8192,16384,32768,65536,131072,262144,1048576,4194304"

static void pingpong(int rank, char *to, char *from, int size)
{
    if (0 == rank) {
        MPI_Send(to, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(from, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(from, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(to, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

static void exchange(int rank, char *to, char *from, int size)
{
    MPI_Sendrecv(to, size, MPI_BYTE, 1 - rank, TAG, from, size, MPI_BYTE, 1 - rank, TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

typedef void pattern_fn_t(int rank, char *to, char *from, int size);

static void first_messages(int rank, pattern_fn_t *pattern, const char *name, int size)
{
    char *to = bench_alloc((size_t) size), *from = bench_alloc((size_t) size), variant[64];
    double at[LAST + 1], start;

    snprintf(variant, sizeof(variant), "%s-%d", name, size);
    usleep(0 == rank ? LATE_US : 0);
    start = bench_now();
    for (int i = 1; i <= LAST; i++) {
        pattern(rank, to, from, size);
        at[i] = 1e6 * (bench_now() - start);
    }
    for (int n = 1; 0 == rank && n <= LAST; n *= 10) {
        bench_result("cold_us", variant, n, at[n], at[n]);
    }
    free(to);
    free(from);
}

static void all_sizes(int rank, const bench_list_t *list)
{
    int max = 0;
    char *to, *from;
    double start, us;

    for (int i = 0; i < list->count; i++) {
        max = list->value[i] > max ? (int) list->value[i] : max;
    }
    to = bench_alloc((size_t) max);
    from = bench_alloc((size_t) max);
    usleep(0 == rank ? LATE_US : 0);
    start = bench_now();
    for (int i = 0; i < list->count; i++) {
        for (int k = 0; k < REGRET; k++) {
            pingpong(rank, to, from, (int) list->value[i]);
        }
        for (int k = 0; k < REGRET; k++) {
            exchange(rank, to, from, (int) list->value[i]);
        }
    }
    us = 1e6 * (bench_now() - start);
    if (0 == rank) {
        bench_result("regret_us", "sizes", list->count, us, us);
    }
    free(to);
    free(from);
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    const char *what;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, SIZES);
    what = optind < argc ? argv[optind] : "regret";
    if (rank > 1) {
        /* only two ranks talk */
    } else if (0 == strcmp(what, "regret")) {
        all_sizes(rank, &opt.list);
    } else {
        first_messages(rank, 0 == strcmp(what, "exchange") ? exchange : pingpong, what,
                       (int) opt.list.value[0]);
    }
    MPI_Finalize();
    return 0;
}
