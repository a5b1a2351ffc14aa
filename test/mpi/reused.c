/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message for a communicator that its receiver has freed waits for it there, and finds the next
 * communicator with the same context id: its sender is no member, or another rank there.  Neither
 * side fails, and the sender can cancel it.  (Ranks 0 and 1 make the first communicator, 1 and 2
 * the next.)
 */
/* TEST: np=3 */
/* TEST: np=3 env="OMPI_MCA_pml_tm_providers=tcp,self" */
#include "tm_test.h"

enum { FIRST = 5, TAG = 7, BYTES = 300000 };

static MPI_Comm make(int first)
{
    const int ranks[2] = {first, first + 1};
    MPI_Group world, two;
    MPI_Comm comm;

    TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    TM_MPI(MPI_Group_incl(world, 2, ranks, &two));
    TM_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, two, first, &comm));
    TM_MPI(MPI_Group_free(&world));
    TM_MPI(MPI_Group_free(&two));
    return comm;
}

static void tell(int to)
{
    TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, to, TAG, MPI_COMM_WORLD));
}

static void wait_for(int from)
{
    TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* len is short or long; both are cancelled. */
static void send_late(MPI_Comm comm, char *buf, int len)
{
    MPI_Request req;
    MPI_Status st;

    TM_MPI(MPI_Issend(buf, len, MPI_BYTE, 1, FIRST, comm, &req));
    tell(1);
    wait_for(1);
    TM_MPI(MPI_Cancel(&req));
    TM_CHECK(tm_wait_cancelled(&req, &st), "a message of %d bytes was received", len);
}

int main(int argc, char **argv)
{
    char *buf = tm_calloc(1, BYTES);
    MPI_Comm comm;

    tm_init(&argc, &argv, "reused");
    if (!tm_is_pml_tm()) {
        return tm_skip("other PMLs complete such a send only when it is received");
    }
    for (int len = 1; len <= BYTES; len += BYTES - 1) {
        if (0 == tm_rank) {
            comm = make(0);
            wait_for(1);
            send_late(comm, buf, len);
            TM_MPI(MPI_Comm_free(&comm));
        } else if (1 == tm_rank) {
            comm = make(0);
            TM_MPI(MPI_Comm_free(&comm));
            tell(0);
            wait_for(0); /* the message is here */
            comm = make(1);
            TM_MPI(MPI_Barrier(comm));
            tell(0);
            TM_MPI(MPI_Comm_free(&comm));
        } else if (2 == tm_rank) {
            comm = make(1);
            TM_MPI(MPI_Barrier(comm));
            TM_MPI(MPI_Comm_free(&comm));
        }
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(buf);
    return tm_finish();
}
