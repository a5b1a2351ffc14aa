/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of long messages in both directions: rank 0 counts the messages of WINDOWS windows that
 * it reads from rank 1's memory; the others come through the ring.  By default the ring is used for
 * the first batches, then both ways are tried.
 *
 * args: least and most that are read, [one]: in one direction only.  How many messages a batch has
 * depends on how far the sender is when the receiver takes one; the limits leave room for that.
 */
/* TEST: np=2 args="2 92" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_ring_size=2097152" quick=yes */
#include "tm_counter.h"

enum { WINDOWS = 24, MESSAGES = 4, LENGTH = 1400000 }; /* two messages fill the ring */

static void window(char *out, char *in, bool sends, bool receives, int round)
{
    MPI_Request req[2 * MESSAGES];
    int other = 1 - tm_rank, n = 0;

    for (int i = 0; i < MESSAGES && sends; i++) {
        tm_fill(out + (size_t) i * LENGTH, LENGTH, tm_key(tm_rank, other, round, i));
    }
    for (int i = 0; i < MESSAGES && receives; i++) {
        TM_MPI(MPI_Irecv(in + (size_t) i * LENGTH, LENGTH, MPI_BYTE, other, i, MPI_COMM_WORLD,
                         &req[n++]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES && sends; i++) {
        TM_MPI(MPI_Isend(out + (size_t) i * LENGTH, LENGTH, MPI_BYTE, other, i, MPI_COMM_WORLD,
                         &req[n++]));
    }
    TM_MPI(MPI_Waitall(n, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES && receives; i++) {
        tm_expect_data(in + (size_t) i * LENGTH, LENGTH, tm_key(other, tm_rank, round, i),
                       "a message of a window");
    }
}

int main(int argc, char **argv)
{
    unsigned long long number;
    tm_counter_t counter;
    bool is_one_way;
    char *out, *in;

    tm_init(&argc, &argv, "bulk");
    if (!tm_is_pml_tm()) {
        return tm_skip("only pml tm chooses");
    }
    is_one_way = argc > 3;
    out = tm_calloc(MESSAGES, LENGTH);
    in = tm_calloc(MESSAGES, LENGTH);
    counter = tm_counter_open("pml_tm_rndv_get");
    for (int round = 0; round < WINDOWS; round++) {
        window(out, in, !is_one_way || 1 == tm_rank, !is_one_way || 0 == tm_rank, round);
    }
    number = tm_counter_read(&counter);
    TM_CHECK(0 != tm_rank ||
                 (number >= strtoull(argv[1], NULL, 10) && number <= strtoull(argv[2], NULL, 10)),
             "%llu messages of %d were read from memory, not %s to %s", number, WINDOWS * MESSAGES,
             argv[1], argv[2]);
    free(out);
    free(in);
    tm_counter_close(&counter);
    return tm_finish();
}
