/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which long messages are streamed, and how the rest of them comes: rank 0 sends ROUNDS of them and
 * counts those that it streams, rank 1 counts those whose rest it reads from rank 0's memory.
 *
 * args: least and most that are streamed, least and most that are read, [window]: all are sent at
 * once, else each when the one before was received, so that the ring is empty. Of a window, how
 * many are streamed depends on how far the receiver is; the limits leave room for that. By default
 * none of the first 16 is read. This is for pml tm only.
 */
/* TEST: np=2 args="8 8 0 0" env="OMPI_MCA_pml_tm_providers=shm" quick=yes */
/* TEST: np=2 args="8 8 8 8" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_get=1" */
#include "tm_counter.h"

enum { ROUNDS = 8, LENGTH = 65536 };

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
    counter = tm_counter_open(0 == tm_rank ? "pml_tm_streamed" : "pml_tm_stream_got");
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tm_rank) {
        send_all(buf, argc > 5);
    } else {
        receive_all(buf, req, argc > 5);
    }
    number = tm_counter_read(&counter);
    TM_CHECK(number >= strtoull(argv[1 + 2 * tm_rank], NULL, 10) &&
                 number <= strtoull(argv[2 + 2 * tm_rank], NULL, 10),
             "%llu messages were %s, not %s to %s", number,
             0 == tm_rank ? "streamed" : "read from memory", argv[1 + 2 * tm_rank],
             argv[2 + 2 * tm_rank]);
    free(buf);
    tm_counter_close(&counter);
    return tm_finish();
}
