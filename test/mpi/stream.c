/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of 16 KiB, up to the eager limit: rank 0 sends ROUNDS of them, and counts those that it
 * streams: all of them; or five, after which the receiver tries to read (two, before it can judge),
 * unless the user has set the eager limit (shm_ways.h).  This is for pml tm only.
 *
 * args: how many are streamed, [nonblocking]: all are sent at once, by MPI_Isend, else each by
 * MPI_Send when the one before was received.
 */
/* TEST: np=2 args="7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536 OMPI_MCA_pml_tm_shm_cooperative=always" quick=yes */
/* TEST: np=2 args="7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536 OMPI_MCA_pml_tm_eager_limit=16384" */
/* TEST: np=2 args="5" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
/* TEST: np=2 args="0 nonblocking" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=8192" */
#include "tm_counter.h"

enum { ROUNDS = 7, LENGTH = 16384 };

static void send_all(char *buf, bool is_window)
{
    MPI_Request req[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        tm_fill(buf + (size_t) i * LENGTH, LENGTH, tm_key(0, 1, 1, i));
    }
    for (int i = 0; i < ROUNDS; i++) {
        char *at = buf + (size_t) i * LENGTH;
        if (is_window) {
            TM_MPI(MPI_Isend(at, LENGTH, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &req[i]));
        } else {
            TM_MPI(MPI_Send(at, LENGTH, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
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
        send_all(buf, argc > 2);
    } else {
        receive_all(buf, req, argc > 2);
    }
    number = tm_counter_read(&counter);
    TM_CHECK(0 != tm_rank || number == strtoull(argv[1], NULL, 10),
             "%llu messages were streamed, not %s", number, argv[1]);
    free(buf);
    tm_counter_close(&counter);
    return tm_finish();
}
