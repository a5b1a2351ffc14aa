/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For dump.sh: rank 0 has posted receives and has messages that no receive fits, rank 1 has sends
 * that are not complete.  Each prints them with pml_dump, as a debugger would; then it waits while
 * the other runs the command of the arguments, in which each %d (at most three) is the process id
 * of the one that waits.
 *
 * args: the command
 */
#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/pml/pml.h"

#include "tm_test.h"

enum { LONG = 1 << 20, TAG_LONG = 9, TAG_SHORT = 5, TAG_SYNC = 6, TAG_RECV = 7 };

static void show(MPI_Comm comm, const char *command)
{
    int mine = (int) getpid(), pids[2];
    char text[4096];

    TM_MPI(MPI_Allgather(&mine, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    for (int rank = 0; rank < tm_size; rank++) {
        if (rank == tm_rank) {
            TM_CHECK(OMPI_SUCCESS == mca_pml.pml_dump((ompi_communicator_t *) comm, 1), "pml_dump");
        } else {
            snprintf(text, sizeof(text), command, pids[rank], pids[rank], pids[rank]);
            TM_CHECK(0 == system(text), "the debugger failed");
        }
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
}

static void receiver(MPI_Comm comm, char *buf, const char *command)
{
    double numbers[100];
    MPI_Request req[2];

    TM_MPI(MPI_Irecv(numbers, 100, MPI_DOUBLE, 1, TAG_RECV, comm, &req[0]));
    TM_MPI(MPI_Irecv(buf, 3, MPI_BYTE, MPI_ANY_SOURCE, TAG_RECV + 1, comm, &req[1]));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    show(comm, command);
    TM_MPI(MPI_Recv(buf, LONG, MPI_BYTE, 1, TAG_LONG, comm, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Recv(buf, LONG, MPI_BYTE, 1, TAG_SYNC, comm, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Recv(buf, LONG, MPI_BYTE, 1, TAG_SHORT, comm, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
}

static void sender(MPI_Comm comm, char *buf, const char *command)
{
    MPI_Request req[2];

    TM_MPI(MPI_Send(buf, 11, MPI_BYTE, 0, TAG_SHORT, comm));
    TM_MPI(MPI_Issend(buf, 12, MPI_BYTE, 0, TAG_SYNC, comm, &req[0]));
    TM_MPI(MPI_Isend(buf, LONG, MPI_BYTE, 0, TAG_LONG, comm, &req[1]));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    show(comm, command);
    TM_MPI(MPI_Send(buf, 8, MPI_BYTE, 0, TAG_RECV, comm));
    TM_MPI(MPI_Send(buf, 1, MPI_BYTE, 0, TAG_RECV + 1, comm));
    TM_MPI(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    char *buf;
    MPI_Comm comm;

    tm_init(&argc, &argv, "dump");
    if (argc < 2 || 2 != tm_size) {
        TM_FATAL("usage: dump COMMAND, 2 ranks");
    }
    buf = tm_calloc(LONG, 1);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_set_name(comm, "pairs"));
    (0 == tm_rank ? receiver : sender)(comm, buf, argv[1]);
    TM_MPI(MPI_Comm_free(&comm));
    free(buf);
    return tm_finish();
}
