/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of kill.sh: endless traffic of one kind, in which one rank is killed (SIGKILL) after so
 * many microseconds.
 *
 * args: init|finalize|eager|rndv|bulk|coll|flood|onesided  rank to kill (-1: none)  microseconds
 */
#include "tm_test.h"

#include <signal.h>

enum { WINDOW = 64, EAGER = 1000, LARGE = 300000 };

static int victim;
static long delay;

/* The kernel sends the signal, whatever this process does then. */
static void arm(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {
        .it_value = {.tv_sec = delay / 1000000, .tv_nsec = delay % 1000000 * 1000 + 1}};
    timer_t timer;

    if (0 != timer_create(CLOCK_MONOTONIC, &event, &timer) ||
        0 != timer_settime(timer, 0, &when, NULL)) {
        perror("kill: timer");
        exit(3);
    }
}

/* From the environment that mpirun sets, for use before MPI_Init. */
static int rank_of_environment(void)
{
    const char *env = getenv("OMPI_COMM_WORLD_RANK");

    return NULL != env ? atoi(env) : 0;
}

/* A window of messages from every rank to every rank. */
static void storm(size_t n)
{
    MPI_Request *req = tm_calloc((size_t) (2 * WINDOW * tm_size), sizeof(*req));
    unsigned char *out = tm_calloc(1, n), *in = tm_calloc((size_t) tm_size, n);

    for (;;) {
        int k = 0;

        for (int i = 0; i < WINDOW; i++) {
            for (int peer = 0; peer < tm_size; peer++) {
                TM_MPI(MPI_Irecv(in + (size_t) peer * n, tm_int(n), MPI_BYTE, peer, i,
                                 MPI_COMM_WORLD, &req[k++]));
                TM_MPI(MPI_Isend(out, tm_int(n), MPI_BYTE, peer, i, MPI_COMM_WORLD, &req[k++]));
            }
        }
        TM_MPI(MPI_Waitall(k, req, MPI_STATUSES_IGNORE));
    }
}

static void rndv(void)
{
    unsigned char *out = tm_calloc(1, LARGE), *in = tm_calloc(1, LARGE);
    int next = (tm_rank + 1) % tm_size, prev = (tm_rank + tm_size - 1) % tm_size;

    for (;;) {
        TM_MPI(MPI_Sendrecv(out, LARGE, MPI_BYTE, next, 0, in, LARGE, MPI_BYTE, prev, 0,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void coll(void)
{
    int *out = tm_calloc((size_t) (tm_size * 10000), sizeof(int)),
        *in = tm_calloc((size_t) (tm_size * 10000), sizeof(int));

    for (int n = 1;; n = n < 10000 ? 2 * n : 1) {
        n = n < 10000 ? n : 10000;
        TM_MPI(MPI_Allreduce(out, in, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        TM_MPI(MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD));
        TM_MPI(MPI_Bcast(in, n, MPI_INT, n % tm_size, MPI_COMM_WORLD));
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* All send to rank 0, which takes nothing. */
static void flood(void)
{
    char *out = tm_calloc(1, EAGER);
    int flag;

    for (;;) {
        if (0 == tm_rank) {
            TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        } else {
            TM_MPI(MPI_Send(out, EAGER, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
        }
    }
}

/* Each operation of one-sided MPI, short and long, from every rank to every rank. */
static void onesided(void)
{
    char *window = tm_calloc(1, LARGE), *in = tm_calloc((size_t) tm_size, LARGE);
    char *out = tm_calloc(1, LARGE);
    int64_t one = 1, *old = tm_calloc((size_t) tm_size, sizeof(*old));
    MPI_Win win;

    TM_MPI(MPI_Win_create(window, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    TM_MPI(MPI_Win_lock_all(0, win));
    for (int n = 8;; n = LARGE - n) {
        for (int peer = 0; peer < tm_size; peer++) {
            TM_MPI(MPI_Put(out, n, MPI_BYTE, peer, 0, n, MPI_BYTE, win));
            TM_MPI(MPI_Get(in + (size_t) peer * LARGE, n, MPI_BYTE, peer, 0, n, MPI_BYTE, win));
            TM_MPI(MPI_Accumulate(out, 8, MPI_INT64_T, peer, 0, 8, MPI_INT64_T, MPI_SUM, win));
            TM_MPI(MPI_Fetch_and_op(&one, &old[peer], MPI_INT64_T, peer, 8, MPI_SUM, win));
        }
        TM_MPI(MPI_Win_flush_all(win));
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "eager";
    bool is_victim;

    victim = (int) tm_arg(argc, argv, 2, -1);
    delay = tm_arg(argc, argv, 3, 0);
    is_victim = victim == rank_of_environment();
    if (is_victim && 0 == strcmp(kind, "init")) {
        arm();
    }
    tm_init(&argc, &argv, "kill");
    if (is_victim && 0 != strcmp(kind, "init")) {
        arm();
    }
    if (0 == tm_rank) {
        printf("kill: running\n");
        fflush(stdout);
    }
    if (0 == strcmp(kind, "finalize")) {
        MPI_Finalize();
        while (is_victim) {
            pause();
        }
        return 0;
    }
    if (0 == strcmp(kind, "flood")) {
        flood();
    } else if (0 == strcmp(kind, "rndv")) {
        rndv();
    } else if (0 == strcmp(kind, "bulk")) {
        storm(LARGE);
    } else if (0 == strcmp(kind, "coll")) {
        coll();
    } else if (0 == strcmp(kind, "onesided")) {
        onesided();
    }
    storm(EAGER); /* eager, init */
}
