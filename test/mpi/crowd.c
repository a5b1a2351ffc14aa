/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More ranks than processors: several communicators duplicated at once, barriers that do not block,
 * and a wait that takes long, on one processor (crowd.sh).  All is done by waiting for others.
 *
 * args: name of a counter that must have grown on each rank...
 */
#include "tm_counter.h"

#include <unistd.h>

enum { ROUNDS = 20, COMMS = 4, NAP_US = 300000, MAX_COUNTERS = 8 };

static void duplicate_at_once(void)
{
    MPI_Comm comm[COMMS];
    MPI_Request req[COMMS];

    for (int i = 0; i < COMMS; i++) {
        TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm[i], &req[i]));
    }
    TM_MPI(MPI_Waitall(COMMS, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COMMS; i++) {
        TM_MPI(MPI_Ibarrier(comm[i], &req[i]));
    }
    TM_MPI(MPI_Waitall(COMMS, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COMMS; i++) {
        TM_MPI(MPI_Comm_free(&comm[i]));
    }
}

/* Rank 0 is late; the others wait for it in a blocking receive. */
static void wait_long(void)
{
    int token = 0;

    if (0 == tm_rank) {
        usleep(NAP_US);
        for (int to = 1; to < tm_size; to++) {
            TM_MPI(MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
        }
    } else {
        TM_MPI(MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    tm_counter_t counter[MAX_COUNTERS];

    tm_init(&argc, &argv, "crowd");
    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        counter[i] = tm_counter_open(argv[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        duplicate_at_once();
    }
    wait_long();
    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        TM_CHECK(tm_counter_read(&counter[i]) > 0 || 0 == tm_rank, "%s is 0", argv[i]);
        tm_counter_close(&counter[i]);
    }
    return tm_finish();
}
