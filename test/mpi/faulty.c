/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of faults.sh: of each kind of message between two ranks some, in little time.
 */
#include "tm_test.h"

enum { LONG = 300000, ROUNDS = 3 };

static const int lengths[] = {0, 8, 1000, 10000, 60000, LONG};

/* One way, and back, with a receive that is posted before, and one that is not. */
static void exchange(unsigned char *out, unsigned char *in, int len, int tag)
{
    const int peer = 1 - tm_rank;
    MPI_Request req;

    memset(out, tag, LONG);
    memset(in, 0, LONG);
    TM_MPI(MPI_Irecv(in, LONG, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &req));
    TM_MPI(MPI_Send(out, len, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_CHECK(0 == memcmp(in, out, (size_t) len), "%d bytes", len);
    memset(in, 0, LONG);
    TM_MPI(MPI_Isend(out, len, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &req));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_Recv(in, LONG, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_CHECK(0 == memcmp(in, out, (size_t) len), "%d bytes, unexpected", len);
}

/* Every second byte. */
static void with_gaps(unsigned char *out, unsigned char *in)
{
    MPI_Datatype type = tm_vector(LONG / 4, 1, 2, MPI_BYTE);

    memset(out, 5, LONG);
    memset(in, 0, LONG);
    TM_MPI(MPI_Sendrecv(out, 1, type, 1 - tm_rank, 7, in, 1, type, 1 - tm_rank, 7, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    TM_CHECK(5 == in[0] && 0 == in[1] && 5 == in[LONG / 2 - 2], "a vector");
    TM_MPI(MPI_Type_free(&type));
}

static void other_comm(void)
{
    MPI_Comm comm;
    int sum = 0;

    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, comm));
    TM_CHECK(2 == sum, "the sum is %d", sum);
    TM_MPI(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    unsigned char *out = tm_calloc(1, LONG), *in = tm_calloc(1, LONG);

    tm_init(&argc, &argv, "faulty");
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            exchange(out, in, lengths[k], i + 1);
        }
        with_gaps(out, in);
        other_comm();
    }
    free(out);
    free(in);
    return tm_finish();
}
