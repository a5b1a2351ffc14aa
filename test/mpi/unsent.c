/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of no_memory.sh: rank 1 has filled its ring to rank 0, which calls nothing of MPI, when it
 * answers messages of rank 0: the answers wait for room.  Rank 0 goes on when all are given.
 */
#include "tm_test.h"

#include <signal.h>

enum { SYNCHRONOUS = 5, MANY = 1000, BYTES = 100000 };

enum { NUMBER = 1, LONG, ANSWERED };

static void sender(const sigset_t *answered)
{
    char *buf = tm_calloc(BYTES, 1);
    int pid = (int) getpid(), got, signal;
    MPI_Request req[SYNCHRONOUS + 1];

    for (int i = 0; i < SYNCHRONOUS; i++) {
        TM_MPI(MPI_Issend(&pid, 1, MPI_INT, 1, ANSWERED, MPI_COMM_WORLD, &req[i]));
    }
    TM_MPI(MPI_Isend(buf, BYTES, MPI_BYTE, 1, LONG, MPI_COMM_WORLD, &req[SYNCHRONOUS]));
    TM_MPI(MPI_Send(&pid, 1, MPI_INT, 1, NUMBER, MPI_COMM_WORLD));
    sigwait(answered, &signal);
    for (int i = 0; i < MANY; i++) {
        TM_MPI(MPI_Recv(&got, 1, MPI_INT, 1, NUMBER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_CHECK(i == got, "number %d instead of %d", got, i);
    }
    TM_MPI(MPI_Waitall(SYNCHRONOUS + 1, req, MPI_STATUSES_IGNORE));
    free(buf);
}

static void receiver(void)
{
    char *buf = tm_calloc(BYTES, 1);
    int pid, got, number[MANY];
    MPI_Request req[MANY];

    TM_MPI(MPI_Recv(&pid, 1, MPI_INT, 0, NUMBER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) {
        number[i] = i;
        TM_MPI(MPI_Isend(&number[i], 1, MPI_INT, 0, NUMBER, MPI_COMM_WORLD, &req[i]));
    }
    for (int i = 0; i < SYNCHRONOUS; i++) {
        TM_MPI(MPI_Recv(&got, 1, MPI_INT, 0, ANSWERED, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Recv(buf, BYTES, MPI_BYTE, 0, LONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    kill(pid, SIGUSR1);
    TM_MPI(MPI_Waitall(MANY, req, MPI_STATUSES_IGNORE));
    free(buf);
}

int main(int argc, char **argv)
{
    sigset_t answered;

    sigemptyset(&answered);
    sigaddset(&answered, SIGUSR1);
    sigprocmask(SIG_BLOCK, &answered, NULL); /* in all threads that MPI makes, too */
    tm_init(&argc, &argv, "unsent");
    if (0 == tm_rank) {
        sender(&answered);
    } else {
        receiver();
    }
    return tm_finish();
}
