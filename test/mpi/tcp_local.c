/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages by TCP within a host: their data goes in as few fragments as the provider takes.
 *
 * args: what the names of the counters begin with, fragments of a message of 4 MiB at most
 */
/* TEST: np=2 args="pml_tm 2" env="OMPI_MCA_pml_tm_providers=tcp" quick=yes */
/* TEST: np=2 args="btl_fabric 1" pml=ob1 env="OMPI_MCA_btl=fabric,self OMPI_MCA_btl_fabric_providers=tcp" */
#include "tm_counter.h"

enum { LONG = 4 << 20, MESSAGES = 10 };

static tm_counter_t open_counter(const char *prefix, const char *name)
{
    char full[128];

    snprintf(full, sizeof(full), "%s_%s", prefix, name);
    return tm_counter_open(full);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "tcp_local");
    const unsigned most = (unsigned) atoi(argv[2]);
    tm_counter_t out = open_counter(argv[1], "tcp_sends_from_memory");
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
