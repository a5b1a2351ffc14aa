/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking sends of 64 KiB, each with its receive posted: the receiver tries whether it is faster
 * if they are streamed or if it reads them, so some come in each way.  This is for pml tm only.
 *
 * args: least and most of ROUNDS that are announced; [strided]: the sender's data cannot be read.
 */
/* TEST: np=2 args="4 40" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_wait=spin" quick=yes */
/* TEST: np=2 args="0 0" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
/* TEST: np=2 args="0 0 strided" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_wait=spin" */
/* TEST: np=2 args="4 40" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_wait=spin OMPI_MCA_pml_tm_shm_single_copy=none" */
#include "tm_counter.h"

enum { ROUNDS = 60, LENGTH = 65536, TAG = 1, READY = 2 };

/* All data, or every other word of twice as much. */
static void send_one(int round, bool is_strided)
{
    static char data[LENGTH], wide[2 * LENGTH];
    MPI_Datatype type;

    tm_fill(data, LENGTH, tm_key(0, 1, TAG, round));
    TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (!is_strided) {
        TM_MPI(MPI_Send(data, LENGTH, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < LENGTH / 4; i++) {
        memcpy(wide + (size_t) 8 * i, data + (size_t) 4 * i, 4);
    }
    TM_MPI(MPI_Type_vector(LENGTH / 4, 4, 8, MPI_BYTE, &type));
    TM_MPI(MPI_Type_commit(&type));
    TM_MPI(MPI_Send(wide, 1, type, 1, TAG, MPI_COMM_WORLD));
    TM_MPI(MPI_Type_free(&type));
}

static void receive_one(int round)
{
    static char data[LENGTH];
    MPI_Request req;

    TM_MPI(MPI_Irecv(data, LENGTH, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &req));
    TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, READY, MPI_COMM_WORLD));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    tm_expect_data(data, LENGTH, tm_key(0, 1, TAG, round), "a long message");
}

int main(int argc, char **argv)
{
    unsigned long long number;
    tm_counter_t announced;

    tm_init(&argc, &argv, "choice");
    if (!tm_is_pml_tm()) {
        return tm_skip("only pml tm counts announcements");
    }
    announced = tm_counter_open("pml_tm_rndv_sent");
    for (int round = 0; round < ROUNDS; round++) {
        if (0 == tm_rank) {
            send_one(round, argc > 3);
        } else {
            receive_one(round);
        }
    }
    number = tm_counter_read(&announced);
    TM_CHECK(0 != tm_rank ||
                 (number >= strtoull(argv[1], NULL, 10) && number <= strtoull(argv[2], NULL, 10)),
             "%llu messages were announced, not %s to %s", number, argv[1], argv[2]);
    tm_counter_close(&announced);
    return tm_finish();
}
