/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of tm_mlx5.sh: so many messages are read by the receiver's device that its answers are
 * more than the receive buffers of a sender that computes meanwhile.
 */
#include "tm_test.h"

#include <unistd.h>

enum { MESSAGES = 1000, LENGTH = 10000, WAIT = 200000 /* us */ };

int main(int argc, char **argv)
{
    MPI_Request *req;
    char *data;

    tm_init(&argc, &argv, "answers");
    req = tm_calloc(MESSAGES, sizeof(*req));
    data = tm_calloc(MESSAGES, LENGTH);
    for (int i = 0; i < MESSAGES && 1 == tm_rank; i++) {
        TM_MPI(
            MPI_Irecv(data + (size_t) i * LENGTH, LENGTH, MPI_BYTE, 0, i, MPI_COMM_WORLD, &req[i]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES && 0 == tm_rank; i++) {
        memset(data + (size_t) i * LENGTH, i % 100, LENGTH);
        TM_MPI(
            MPI_Isend(data + (size_t) i * LENGTH, LENGTH, MPI_BYTE, 1, i, MPI_COMM_WORLD, &req[i]));
        if (99 == i % 100) {
            usleep(WAIT); /* no progress: the other's device answers */
        }
    }
    TM_MPI(MPI_Waitall(MESSAGES, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES && 1 == tm_rank; i++) {
        TM_CHECK(i % 100 == data[(size_t) i * LENGTH] &&
                     i % 100 == data[(size_t) (i + 1) * LENGTH - 1],
                 "message %d is damaged", i);
    }
    free(req);
    free(data);
    return tm_finish();
}
