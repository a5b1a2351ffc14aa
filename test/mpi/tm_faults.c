/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of tm_faults.sh: receives are on the list of a device that matches tags when something
 * fails.
 *
 * args: what
 *   cancel   the last rank dies; the others, who all wait for messages of it, cancel them, and then
 *            wait for the end
 *   traffic  endless messages, short and long, to receives that are posted before
 */
#include "tm_counter.h"

#include <signal.h>

enum { FROM_LAST = 3, PAIRS = 8, SHORT = 3000, LONG = 100000, WAIT = 300000 /* us */ };

static tm_counter_t listed;

/* All meet all: receives from whom a rank has not met are not listed. */
static void meet(void)
{
    int *in = tm_calloc((size_t) tm_size, sizeof(int)),
        *out = tm_calloc((size_t) tm_size, sizeof(int));

    TM_MPI(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
    free(in);
    free(out);
}

static void say(const char *what)
{
    printf("tm_faults: rank %d: %s, %d errors\n", tm_rank, what, tm_errors);
    fflush(stdout);
}

static void cancel_all(void)
{
    MPI_Request req[FROM_LAST];
    MPI_Status status;
    char *in = tm_calloc(FROM_LAST, SHORT);
    int last = tm_size - 1, flag;

    for (int i = 0; i < FROM_LAST && tm_rank != last; i++) {
        TM_MPI(MPI_Irecv(in + i * SHORT, SHORT, MPI_BYTE, i < FROM_LAST - 1 ? last : MPI_ANY_SOURCE,
                         i, MPI_COMM_WORLD, &req[i]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank == last) {
        raise(SIGKILL);
    }
    TM_CHECK(tm_counter_read(&listed) >= FROM_LAST,
             "receives are not listed (%llu): this shows nothing", tm_counter_read(&listed));
    usleep(WAIT);
    for (int i = 0; i < FROM_LAST; i++) {
        TM_MPI(MPI_Cancel(&req[i]));
        TM_CHECK(tm_wait_cancelled(&req[i], &status), "receive %d is complete and not cancelled",
                 i);
    }
    say("cancelled");
    for (;;) {
        TM_MPI(MPI_Iprobe(last, 0, MPI_COMM_WORLD, &flag, &status));
    }
}

static void traffic(void)
{
    MPI_Request *req = tm_calloc((size_t) (2 * PAIRS * tm_size), sizeof(*req));
    char *in = tm_calloc((size_t) (PAIRS * tm_size), LONG), *out = tm_calloc(1, LONG);

    for (long round = 0;; round++) {
        int n = 0;
        for (int i = 0; i < PAIRS; i++) {
            TM_MPI(MPI_Irecv(in + (size_t) i * LONG, LONG, MPI_BYTE, tm_src, i, MPI_COMM_WORLD,
                             &req[n++]));
        }
        for (int i = 0; i < PAIRS; i++) {
            TM_MPI(MPI_Isend(out, i % 4 < 3 ? SHORT : LONG, MPI_BYTE, tm_dst, i, MPI_COMM_WORLD,
                             &req[n++]));
        }
        TM_MPI(MPI_Waitall(n, req, MPI_STATUSES_IGNORE));
        if (5 == round) {
            TM_CHECK(tm_counter_read(&listed) > 0, "receives are not listed: this shows nothing");
            say("running");
        }
    }
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "tm_faults");
    listed = tm_counter_open("pml_tm_listed");
    meet();
    if (argc > 1 && 0 == strcmp(argv[1], "cancel")) {
        cancel_all();
    }
    traffic();
}
