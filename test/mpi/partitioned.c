/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitioned communication (MPI_Psend_init, MPI_Precv_init), which Open MPI makes of the PML's
 * persistent requests: partitions marked ready in any order, different numbers of them on both
 * sides, started again, the arrival of each tested. Not with different numbers: MPI_Parrived of
 * Open MPI 5.0.7 then says yes too early, or never, over every PML.
 */
/* TEST: np=2,4 ompi=5.0,6.0 timeout=60 stderr="Unable to find reachable pairing" */
#include "tm_test.h"

static int value_of(int from, int round, int i)
{
    return from * 1000000 + round * 10000 + i;
}

/*
 * One transfer round the ring: partitions of the send, of the receive, each of so many ints in all.
 */
static void transfer(int send_parts, int recv_parts, int total, int rounds)
{
    int *out = calloc((size_t) total, sizeof(int)), *in = calloc((size_t) total, sizeof(int));
    MPI_Request send, recv;

    TM_MPI(MPI_Psend_init(out, send_parts, total / send_parts, MPI_INT, tm_dst, 5, MPI_COMM_WORLD,
                          MPI_INFO_NULL, &send));
    TM_MPI(MPI_Precv_init(in, recv_parts, total / recv_parts, MPI_INT, tm_src, 5, MPI_COMM_WORLD,
                          MPI_INFO_NULL, &recv));
    for (int round = 0; round < rounds; round++) {
        memset(in, 0xff, (size_t) total * sizeof(int));
        TM_MPI(MPI_Start(&recv));
        TM_MPI(MPI_Start(&send));
        for (int i = 0; i < send_parts; i++) {
            int part = (i * 7 + round) % send_parts; /* send_parts is no multiple of 7 */
            for (int j = part * (total / send_parts); j < (part + 1) * (total / send_parts); j++) {
                out[j] = value_of(tm_rank, round, j);
            }
            TM_MPI(MPI_Pready(part, send));
        }
        if (send_parts != recv_parts) {
            TM_MPI(MPI_Wait(&recv, MPI_STATUS_IGNORE));
        }
        for (int i = 0; i < recv_parts; i++) {
            int flag = send_parts != recv_parts, part = (i * 5 + round) % recv_parts;
            while (!flag) {
                TM_MPI(MPI_Parrived(recv, part, &flag));
            }
            for (int j = part * (total / recv_parts); j < (part + 1) * (total / recv_parts); j++) {
                TM_CHECK(in[j] == value_of(tm_src, round, j), "%d/%d partitions, int %d is %d",
                         send_parts, recv_parts, j, in[j]);
            }
        }
        if (send_parts == recv_parts) {
            TM_MPI(MPI_Wait(&recv, MPI_STATUS_IGNORE));
        }
        TM_MPI(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "partitioned");
    transfer(1, 1, 1, 3);
    transfer(4, 4, 4096, 5);
    transfer(8, 4, 65536, 5);
    transfer(4, 8, 65536, 5);
    return tm_finish();
}
