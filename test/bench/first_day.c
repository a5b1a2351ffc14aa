/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What test/first_day runs, with two ranks: are messages right, how long do they take, what was
 * counted.  Prints lines "messages ...", "latency BYTES MICROSECONDS", "bandwidth BYTES MB/S", and,
 * of each rank, "counter RANK NAME VALUE" for those counters of pml_tm that are not zero.
 *
 *   first_day ROUNDS
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 << 20, WINDOW = 16, NAME = 256, COUNTERS = 512 };

static const int sizes[] = {0, 8, 200, 1024, 8192, 8193, 65536, 1 << 20, MOST};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static int rank;
static unsigned char *buffers[WINDOW];

static void fill(unsigned char *data, int seed, int len)
{
    for (int i = 0; i < len; i += 1 + len / 997) {
        data[i] = (unsigned char) (seed * 31 + i % 251);
    }
}

static int is_filled(const unsigned char *data, int seed, int len)
{
    for (int i = 0; i < len; i += 1 + len / 997) {
        if (data[i] != (unsigned char) (seed * 31 + i % 251)) {
            return 0;
        }
    }
    return 1;
}

/* Both send a window to each other, receives posted before, or after, or in part. */
static int exchange(int len, int round)
{
    MPI_Request requests[2 * WINDOW];
    static unsigned char *out;
    int wrong = 0, n = 0, before = round % 3 * WINDOW / 2;

    out = NULL == out ? malloc((size_t) MOST) : out;
    for (int i = 0; i < WINDOW; i++) {
        memset(buffers[i], 0, (size_t) len);
    }
    fill(out, 1 - rank, len);
    for (int i = 0; i < before; i++) {
        MPI_Irecv(buffers[i], len, MPI_BYTE, i % 4 ? 1 - rank : MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                  &requests[n++]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < WINDOW; i++) {
        MPI_Isend(out, len, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &requests[n++]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = before; i < WINDOW; i++) {
        MPI_Irecv(buffers[i], len, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &requests[n++]);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW; i++) {
        wrong += !is_filled(buffers[i], rank, len);
    }
    return wrong;
}

static void latency(int len, int rounds)
{
    double begin = 0;

    for (int i = -rounds / 10 - 1; i < rounds; i++) {
        begin = 0 == i ? MPI_Wtime() : begin;
        for (int turn = 0; turn < 2; turn++) {
            if (rank == turn) {
                MPI_Send(buffers[0], len, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
            } else {
                MPI_Recv(buffers[0], len, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
    }
    if (0 == rank) {
        printf("latency %d %.2f\n", len, (MPI_Wtime() - begin) / rounds / 2 * 1e6);
    }
}

static void bandwidth(int len, int rounds)
{
    MPI_Request requests[WINDOW];
    double begin = 0;

    for (int i = -1; i < rounds; i++) {
        begin = 0 == i ? MPI_Wtime() : begin;
        for (int k = 0; k < WINDOW; k++) {
            if (0 == rank) {
                MPI_Isend(buffers[k], len, MPI_BYTE, 1, k, MPI_COMM_WORLD, &requests[k]);
            } else {
                MPI_Irecv(buffers[k], len, MPI_BYTE, 0, k, MPI_COMM_WORLD, &requests[k]);
            }
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (0 == rank) {
        printf("bandwidth %d %.0f\n", len,
               (double) len * WINDOW * rounds / (MPI_Wtime() - begin) / 1e6);
    }
}

/* MPI_T's variables pml_tm_..., which count from when their handle is made. */
static struct {
    char name[NAME];
    MPI_T_pvar_handle handle;
} counters[COUNTERS];
static int num_counters;
static MPI_T_pvar_session session;

static void counters_begin(void)
{
    int num, provided, count;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num && num_counters < COUNTERS; i++) {
        int len = NAME, verbosity, class, bind, readonly, continuous, atomic;
        char *name = counters[num_counters].name;
        MPI_Datatype type;
        MPI_T_enum values;
        if (MPI_SUCCESS == MPI_T_pvar_get_info(i, name, &len, &verbosity, &class, &type, &values,
                                               NULL, NULL, &bind, &readonly, &continuous,
                                               &atomic) &&
            0 == strncmp(name, "pml_tm_", 7) && MPI_UNSIGNED_LONG_LONG == type &&
            MPI_SUCCESS ==
                MPI_T_pvar_handle_alloc(session, i, NULL, &counters[num_counters].handle, &count)) {
            num_counters += 1 == count;
        }
    }
}

/* Those that have counted something. */
static void counters_end(void)
{
    for (int i = 0; i < num_counters; i++) {
        unsigned long long value = 0;
        if (MPI_SUCCESS == MPI_T_pvar_read(session, counters[i].handle, &value) && value > 0) {
            printf("counter %d %s %llu\n", rank, counters[i].name, value);
        }
        MPI_T_pvar_handle_free(session, &counters[i].handle);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, wrong = 0, all = 0, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    counters_begin();
    for (int i = 0; i < WINDOW; i++) {
        buffers[i] = calloc(1, (size_t) MOST);
        if (2 != size || NULL == buffers[i]) {
            fprintf(stderr, "first_day: two ranks, and memory, are wanted\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    for (int i = 0; i < SIZES; i++) {
        for (int round = 0; round < 3; round++) {
            wrong += exchange(sizes[i], round);
        }
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("messages %d of %d wrong\n", all, 2 * 3 * SIZES * WINDOW);
    }
    for (int i = 0; i < SIZES; i++) {
        int weight = 1 + sizes[i] / 8192;
        latency(sizes[i], 1 + rounds / weight);
        if (sizes[i] > 0) {
            bandwidth(sizes[i], 1 + rounds / 10 / weight);
        }
    }
    fflush(stdout);
    counters_end();
    MPI_Finalize();
    return 0 != all;
}
