/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that is in MPI for moments only when its first message comes: rank 0 looks whether there
 * is a message, then computes for so many milliseconds, and so on; the others wait in MPI for their
 * message to be taken.
 *
 * args: [milliseconds]
 */
/* TEST: np=2,4 args="20" timeout=60 */
#include "tm_test.h"

enum { LEN = 100 };

static void compute(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* Returns after one message. */
static int take_one(long ms)
{
    unsigned char buf[LEN];
    MPI_Status status;
    int is_there = 0;

    for (;;) {
        TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &is_there, &status));
        if (is_there) {
            break;
        }
        compute(ms);
    }
    TM_MPI(MPI_Recv(buf, LEN, MPI_BYTE, status.MPI_SOURCE, 0, MPI_COMM_WORLD, &status));
    TM_CHECK(buf[0] == status.MPI_SOURCE && buf[LEN - 1] == status.MPI_SOURCE,
             "byte %d from rank %d", buf[0], status.MPI_SOURCE);
    return status.MPI_SOURCE;
}

int main(int argc, char **argv)
{
    long ms;

    tm_init(&argc, &argv, "moments");
    ms = argc > 1 ? atol(argv[1]) : 20;
    if (0 == tm_rank) {
        for (int n = 1; n < tm_size; n++) {
            int from = take_one(ms);
            TM_MPI(MPI_Send(&from, 1, MPI_INT, from, 1, MPI_COMM_WORLD));
        }
    } else {
        unsigned char buf[LEN];
        int answer = -1;
        memset(buf, tm_rank, LEN);
        TM_MPI(MPI_Send(buf, LEN, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
        TM_MPI(MPI_Recv(&answer, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_CHECK(answer == tm_rank, "answer %d", answer);
    }
    return tm_finish();
}
