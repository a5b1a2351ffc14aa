/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages up to the eager limit are streamed, if there is room for all of their fragments: rank 0
 * sends ROUNDS of them, and counts those that it streams.  This is for pml tm only.
 *
 * args: least and most that are streamed, [window]: all are sent at once, else each when the one
 * before was received, so that the ring is empty.  Of a window, how many are streamed depends on
 * how far the receiver is; the limits leave room for that.
 */
/* TEST: np=2 args="8 8" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" quick=yes */
/* TEST: np=2 args="1 8 window" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
/* TEST: np=2 args="0 0" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=8192" */
#include "tm_counter.h"

enum { ROUNDS = 8, LENGTH = 16384 };

static void send_all(char *buf, bool is_window)
{
    MPI_Request req[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        tm_fill(buf + (size_t) i * LENGTH, LENGTH, tm_key(0, 1, 1, i));
    }
    for (int i = 0; i < ROUNDS; i++) {
        TM_MPI(
            MPI_Isend(buf + (size_t) i * LENGTH, LENGTH, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &req[i]));
        if (!is_window) {
            TM_MPI(MPI_Wait(&req[i], MPI_STATUS_IGNORE));
            TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    if (is_window) {
        TM_MPI(MPI_Waitall(ROUNDS, req, MPI_STATUSES_IGNORE));
    }
}

/* The receives are posted before the barrier. */
static void receive_all(char *buf, MPI_Request *req, bool is_window)
{
    for (int i = 0; i < ROUNDS && !is_window; i++) {
        TM_MPI(MPI_Wait(&req[i], MPI_STATUS_IGNORE));
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
    }
    TM_MPI(MPI_Waitall(ROUNDS, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < ROUNDS; i++) {
        tm_expect_data(buf + (size_t) i * LENGTH, LENGTH, tm_key(0, 1, 1, i), "a long message");
    }
}

int main(int argc, char **argv)
{
    MPI_Request req[ROUNDS];
    unsigned long long number;
    tm_counter_t counter;
    char *buf;

    tm_init(&argc, &argv, "stream");
    if (!tm_is_pml_tm()) {
        return tm_skip("only pml tm counts streams");
    }
    buf = tm_calloc(ROUNDS, LENGTH);
    for (int i = 0; i < ROUNDS && 1 == tm_rank; i++) {
        TM_MPI(
            MPI_Irecv(buf + (size_t) i * LENGTH, LENGTH, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &req[i]));
    }
    counter = tm_counter_open("pml_tm_streamed");
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tm_rank) {
        send_all(buf, argc > 3);
    } else {
        receive_all(buf, req, argc > 3);
    }
    number = tm_counter_read(&counter);
    TM_CHECK(0 != tm_rank ||
                 (number >= strtoull(argv[1], NULL, 10) && number <= strtoull(argv[2], NULL, 10)),
             "%llu messages were streamed, not %s to %s", number, argv[1], argv[2]);
    free(buf);
    tm_counter_close(&counter);
    return tm_finish();
}
