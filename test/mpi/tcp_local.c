/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages by TCP within a host: their data goes in as few fragments as the provider takes.
 *
 * args: fragments of a message of 4 MiB at most
 */
/* TEST: np=2 args="2" env="OMPI_MCA_pml_tm_providers=tcp" quick=yes */
/* TEST: np=2 args="1" pml=ob1 env="OMPI_MCA_btl=fabric,self OMPI_MCA_pml_tm_providers=tcp" */
#include "tm_counter.h"

enum { LONG = 4 << 20, MESSAGES = 10 };

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "tcp_local");
    const unsigned most = (unsigned) atoi(argv[1]);
    tm_counter_t out = tm_counter_open("pml_tm_tcp_sends_from_memory");
    char *buf = tm_calloc(1, LONG);

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++) {
        if (0 == tm_rank) {
            tm_fill(buf, LONG, tm_key(0, 1, i, 0));
            MPI_Send(buf, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(buf, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            TM_CHECK(tm_is(buf, LONG, tm_key(0, 1, i, 0)), "message %d is wrong", i);
        }
    }
    if (0 == tm_rank) {
        TM_CHECK(tm_counter_read(&out) >= MESSAGES && tm_counter_read(&out) <= MESSAGES * most,
                 "%llu fragments of %d messages", tm_counter_read(&out), MESSAGES);
    }
    free(buf);
    return tm_finish();
}
