/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI 4.0 adds to point-to-point communication and Open MPI 5.0 has: MPI_Isendrecv and
 * MPI_Isendrecv_replace, partitioned messages, persistent collectives, and communicators made from
 * sessions. Skipped with Open MPI 4.1.
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

static void partitioned(int parts, size_t n)
{
    size_t all = (size_t) parts * n;
    unsigned char *out = tm_alloc(all), *in = tm_alloc(all);
    MPI_Request sreq, rreq;
    int flag = 0;

    TM_MPI(
        MPI_Psend_init(out, parts, (MPI_Count) n, MPI_BYTE, tm_dst, 5, comm, MPI_INFO_NULL, &sreq));
    TM_MPI(
        MPI_Precv_init(in, parts, (MPI_Count) n, MPI_BYTE, tm_src, 5, comm, MPI_INFO_NULL, &rreq));
    for (int round = 0; round < 5; round++) {
        memset(in, 0xee, all);
        TM_MPI(MPI_Start(&rreq));
        TM_MPI(MPI_Start(&sreq));
        tm_fill(out, all, tm_key(tm_rank, tm_dst, 5, round));
        for (int i = 0; i < parts; i++) {
            TM_MPI(MPI_Pready((i * 7 + round) % parts, sreq));
        }
        for (int i = 0; i < parts; i++) {
            for (flag = 0; !flag;) {
                TM_MPI(MPI_Parrived(rreq, i, &flag));
            }
        }
        TM_MPI(MPI_Wait(&rreq, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        tm_expect_data(in, all, tm_key(tm_src, tm_rank, 5, round), "partitioned message");
        TM_MPI(MPI_Barrier(comm));
    }
    TM_MPI(MPI_Request_free(&sreq));
    TM_MPI(MPI_Request_free(&rreq));
    tm_free(out);
    tm_free(in);
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

/* Communicators whose ids differ from process to process. A PML may refuse them. */
static void sessions(void)
{
    MPI_Session session;
    MPI_Group world;
    MPI_Comm made, copy;
    int rc;

    TM_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    TM_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    rc = MPI_Comm_create_from_group(world, "pml_tm.mpi4", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    if (MPI_SUCCESS != rc) {
        TM_CHECK(MPI_ERR_UNSUPPORTED_OPERATION == tm_class(rc),
                 "MPI_Comm_create_from_group: class %d", tm_class(rc));
        if (0 == tm_rank) {
            printf("mpi4: this PML supports no communicators of sessions\n");
        }
    } else {
        for (int i = 0; i < 20; i++) {
            int out = 100 * tm_rank + i, in = -1;
            MPI_Status st;

            TM_MPI(MPI_Comm_dup(made, &copy));
            tm_status_reset(&st);
            TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, tm_dst, i, &in, 1, MPI_INT,
                                0 == i % 2 ? MPI_ANY_SOURCE : tm_src, i, made, &st));
            tm_expect_single(&st, tm_src, i, sizeof(int));
            TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, tm_dst, i, &in, 1, MPI_INT, tm_src, MPI_ANY_TAG,
                                copy, &st));
            TM_CHECK(in == 100 * tm_src + i, "session: got %d, expected %d", in, 100 * tm_src + i);
            TM_MPI(MPI_Comm_free(&copy));
        }
        TM_MPI(MPI_Comm_free(&made));
    }
    TM_MPI(MPI_Group_free(&world));
    TM_MPI(MPI_Session_finalize(&session));
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "mpi4");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (size_t n = 1; n < 500000; n *= 61) {
        isendrecv(n);
        partitioned(8, n);
    }
    persistent_collectives(10);
    persistent_collectives(20000);
    sessions();
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
