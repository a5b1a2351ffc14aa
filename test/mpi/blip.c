/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network is down for a while, less than tcp_timeout; then both ranks compute for longer than
 * that, as what was sent fills the receiver's socket.  Nothing is lost.  Files say what the script
 * has to do, and what it has done.  A helper of hosts/trouble.
 */
#include "tm_test.h"

enum { MANY = 60, LONG = 16000, DOWN_MS = 1500, COMPUTE_S = 5 };

static void say(const char *file)
{
    FILE *out = fopen(file, "w");

    TM_CHECK(NULL != out && 0 == fclose(out), "%s cannot be written", file);
}

static void await(const char *file)
{
    while (0 != access(file, F_OK)) {
        usleep(10000);
    }
}

static void sender(unsigned char *buf)
{
    MPI_Request requests[MANY];
    int is_done;

    say("cut");
    await("is_cut");
    for (int i = 0; i < MANY; i++) {
        tm_fill(buf + i * LONG, LONG, tm_key(0, 1, i, 0));
        TM_MPI(MPI_Isend(buf + i * LONG, LONG, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]));
    }
    for (double until = MPI_Wtime() + DOWN_MS / 1e3; MPI_Wtime() < until;) {
        TM_MPI(MPI_Testall(MANY, requests, &is_done, MPI_STATUSES_IGNORE));
    }
    say("mend");
    await("is_mended");
    sleep(COMPUTE_S);
    TM_MPI(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
}

static void receiver(unsigned char *buf)
{
    await("is_mended");
    sleep(COMPUTE_S);
    for (int i = 0; i < MANY; i++) {
        TM_MPI(MPI_Recv(buf, LONG, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        tm_expect_data(buf, LONG, tm_key(0, 1, i, 0), "message");
    }
}

int main(int argc, char **argv)
{
    unsigned char *buf = tm_calloc(MANY, LONG);

    tm_init(&argc, &argv, "blip");
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD)); /* they are connected */
    (0 == tm_rank ? sender : receiver)(buf);
    free(buf);
    return tm_finish();
}
