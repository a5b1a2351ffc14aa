/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI 4.0 adds to point-to-point communication and Open MPI 5.0 has: MPI_Isendrecv and
 * MPI_Isendrecv_replace, and persistent collectives (partitioned.c, sessions.c have more). Skipped
 * with Open MPI 4.1.
 */
/* TEST: np=2,3,4 timeout=60 */
#include "tm_test.h"

#if OMPI_MAJOR_VERSION >= 5

static MPI_Comm comm;

static void isendrecv(size_t n)
{
    enum { COUNT = 10 };
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request req[COUNT];
    MPI_Status st[COUNT];

    for (int i = 0; i < COUNT; i++) {
        out[i] = tm_alloc(n);
        in[i] = tm_alloc(n);
        tm_fill(out[i], n, tm_key(tm_rank, tm_dst, i, 1));
        if (0 == i % 2) {
            TM_MPI(MPI_Isendrecv(out[i], tm_int(n), MPI_BYTE, tm_dst, i, in[i], tm_int(n), MPI_BYTE,
                                 0 == i % 4 ? MPI_ANY_SOURCE : tm_src, i, comm, &req[i]));
        } else {
            memcpy(in[i], out[i], n);
            TM_MPI(MPI_Isendrecv_replace(in[i], tm_int(n), MPI_BYTE, tm_dst, i, tm_src, i, comm,
                                         &req[i]));
        }
    }
    TM_MPI(MPI_Waitall(COUNT, req, st));
    for (int i = 0; i < COUNT; i++) {
        tm_expect_data(in[i], n, tm_key(tm_src, tm_rank, i, 1),
                       0 == i % 2 ? "MPI_Isendrecv" : "MPI_Isendrecv_replace");
        tm_free(out[i]);
        tm_free(in[i]);
    }
    TM_MPI(MPI_Isendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0,
                         comm, &req[0]));
    TM_MPI(MPI_Wait(&req[0], MPI_STATUS_IGNORE));
}

static void persistent_collectives(int n)
{
    int *out = tm_calloc((size_t) n, sizeof(int)), *in = tm_calloc((size_t) n, sizeof(int));
    MPI_Request req[2];

    TM_MPI(MPI_Allreduce_init(out, in, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &req[0]));
    TM_MPI(MPI_Barrier_init(comm, MPI_INFO_NULL, &req[1]));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < n; i++) {
            out[i] = tm_rank + i + round;
        }
        TM_MPI(MPI_Startall(2, req));
        TM_MPI(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
        for (int i = 0; i < n; i++) {
            int want = tm_size * (tm_size - 1) / 2 + tm_size * (i + round);

            if (!TM_CHECK(in[i] == want, "MPI_Allreduce_init: element %d is %d, expected %d", i,
                          in[i], want)) {
                break;
            }
        }
    }
    TM_MPI(MPI_Request_free(&req[0]));
    TM_MPI(MPI_Request_free(&req[1]));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "mpi4");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (size_t n = 1; n < 500000; n *= 61) {
        isendrecv(n);
    }
    persistent_collectives(10);
    persistent_collectives(20000);
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}

#else

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "mpi4");
    return tm_skip("this is for Open MPI 5.0");
}

#endif
