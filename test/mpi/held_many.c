/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of held_many.sh: rank 0 has many sends to rank 1 that are held back in one communicator,
 * exchanges messages with it in another, and cancels the sends, the last one first.  Then as many
 * synchronous sends wait for room, while rank 1 makes no progress, and are cancelled likewise.
 */
#include "tm_counter.h"

#include <signal.h>

enum { MANY = 10000, EXCHANGES = 100, BYTES = 32, TAG = 1 };

static char buf[BYTES];
static MPI_Request req[MANY];

static void cancel_all(void)
{
    for (int i = MANY; i-- > 0;) {
        if (MPI_REQUEST_NULL != req[i]) {
            TM_MPI(MPI_Cancel(&req[i]));
        }
    }
}

static void held(MPI_Comm comm, MPI_Comm other)
{
    tm_counter_t held = tm_counter_open("pml_tm_held_sends");

    for (int i = 0; i < MANY && 0 == tm_rank; i++) {
        TM_MPI(MPI_Isend(buf, BYTES, MPI_BYTE, 1, i, comm, &req[i]));
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < EXCHANGES; i++) {
        if (0 == tm_rank) {
            TM_MPI(MPI_Send(buf, BYTES, MPI_BYTE, 1, TAG, other));
            TM_MPI(MPI_Recv(buf, BYTES, MPI_BYTE, 1, TAG, other, MPI_STATUS_IGNORE));
        } else {
            TM_MPI(MPI_Recv(buf, BYTES, MPI_BYTE, 0, TAG, other, MPI_STATUS_IGNORE));
            TM_MPI(MPI_Send(buf, BYTES, MPI_BYTE, 0, TAG, other));
        }
    }
    if (0 == tm_rank) {
        cancel_all();
        TM_MPI(MPI_Waitall(MANY, req, MPI_STATUSES_IGNORE));
        TM_CHECK(tm_counter_read(&held) > MANY / 2, "%llu sends were held back",
                 tm_counter_read(&held));
    }
    tm_counter_close(&held);
}

static void queued(MPI_Comm comm, const sigset_t *cancelled)
{
    tm_counter_t queued = tm_counter_open("pml_tm_queued_sends");
    int pid = (int) getpid(), signal;

    if (1 == tm_rank) {
        TM_MPI(MPI_Send(&pid, 1, MPI_INT, 0, TAG, comm));
        sigwait(cancelled, &signal);
    } else {
        TM_MPI(MPI_Recv(&pid, 1, MPI_INT, 1, TAG, comm, MPI_STATUS_IGNORE));
        for (int i = 0; i < MANY; i++) {
            TM_MPI(MPI_Issend(buf, BYTES, MPI_BYTE, 1, i, comm, &req[i]));
        }
        cancel_all();
        kill(pid, SIGUSR1);
        TM_MPI(MPI_Waitall(MANY, req, MPI_STATUSES_IGNORE));
        TM_CHECK(tm_counter_read(&queued) > MANY / 2, "%llu sends waited for room",
                 tm_counter_read(&queued));
    }
    tm_counter_close(&queued);
}

int main(int argc, char **argv)
{
    sigset_t cancelled;
    MPI_Comm comms[3];

    sigemptyset(&cancelled);
    sigaddset(&cancelled, SIGUSR1);
    sigprocmask(SIG_BLOCK, &cancelled, NULL); /* in all threads that MPI makes, too */
    tm_init(&argc, &argv, "held_many");
    for (int i = 0; i < 3; i++) {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    queued(comms[2], &cancelled);
    held(comms[0], comms[1]);
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) {
        TM_MPI(MPI_Comm_free(&comms[i]));
    }
    return tm_finish();
}
