/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion: every wait and test call over many requests that complete in random order,
 * MPI_Request_get_status, null and inactive requests among them, MPI_PROC_NULL everywhere.
 */
/* TEST: np=1,2,4,8 timeout=60 quick=yes */
/* TEST: np=2,3 env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
#include "tm_complete.h"

static MPI_Comm comm;

/*
 * Receives, sends and, if has_others, null and MPI_PROC_NULL requests mixed; messages are sent in
 * random order.
 */
static void many(int call, int count, size_t max, bool has_others)
{
    int each = has_others ? 4 : 2, n = each * count;
    MPI_Request *req = tm_calloc((size_t) n, sizeof(*req));
    MPI_Status *st = tm_calloc((size_t) n, sizeof(*st));
    unsigned char **in = tm_calloc((size_t) count, sizeof(*in)),
                  **out = tm_calloc((size_t) count, sizeof(*out));
    int *order = tm_calloc((size_t) count, sizeof(int));
    tm_rng_t rng = tm_rng((uint64_t) call, (uint64_t) tm_rank);

    for (int i = 0; i < count; i++) {
        in[i] = tm_alloc(max);
        TM_MPI(MPI_Irecv(in[i], (int) max, MPI_BYTE, 0 == i % 3 ? MPI_ANY_SOURCE : tm_src, i, comm,
                         &req[each * i]));
        if (has_others && 0 == i % 2) {
            TM_MPI(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, i, comm, &req[each * i + 2]));
        } else if (has_others) {
            TM_MPI(MPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, i, comm, &req[each * i + 2]));
        }
        if (has_others) {
            req[each * i + 3] = MPI_REQUEST_NULL;
        }
    }
    tm_shuffle(&rng, count, order);
    for (int k = 0; k < count; k++) {
        int i = order[k];
        size_t size = (size_t) i * 7919 % (max + 1);

        out[i] = tm_alloc_data(size, tm_key(tm_rank, tm_dst, i, call));
        TM_MPI((0 == i % 5 ? MPI_Issend : MPI_Isend)(out[i], (int) size, MPI_BYTE, tm_dst, i, comm,
                                                     &req[each * i + 1]));
    }
    tm_complete(call, n, req, st, false);
    for (int i = 0; i < count; i++) {
        size_t size = (size_t) i * 7919 % (max + 1);

        tm_expect_status(&st[each * i], tm_src, i, size);
        tm_expect_data(in[i], size, tm_key(tm_src, tm_rank, i, call), "one of many");
        if (has_others && 0 == i % 2) {
            tm_expect_proc_null(&st[each * i + 2]);
        }
        if (has_others &&
            (TM_WAIT == call || TM_WAITALL == call || TM_TESTALL == call || TM_TEST == call)) {
            tm_expect_empty(&st[each * i + 3]);
        }
        tm_free(in[i]);
        tm_free(out[i]);
    }
    free(req);
    free(st);
    free(in);
    free(out);
    free(order);
    TM_MPI(MPI_Barrier(comm));
}

/* Nothing completes before its message is sent. */
static void not_yet(void)
{
    enum { COUNT = 5 };
    unsigned char in[COUNT];
    MPI_Request req[COUNT], sreq[COUNT];
    MPI_Status st[COUNT];
    int flag, which, some, index[COUNT];

    for (int i = 0; i < COUNT; i++) {
        TM_MPI(
            MPI_Irecv(&in[i], 1, MPI_BYTE, 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, i, comm, &req[i]));
    }
    for (int k = 0; k < 50; k++) {
        TM_MPI(MPI_Test(&req[k % COUNT], &flag, &st[0]));
        TM_CHECK(!flag, "MPI_Test: a receive is complete without a message");
        TM_MPI(MPI_Testall(COUNT, req, &flag, st));
        TM_CHECK(!flag, "MPI_Testall: receives are complete without a message");
        TM_MPI(MPI_Testany(COUNT, req, &which, &flag, &st[0]));
        TM_CHECK(!flag && MPI_UNDEFINED == which,
                 "MPI_Testany: a receive is complete without a message");
        TM_MPI(MPI_Testsome(COUNT, req, &some, index, st));
        TM_CHECK(0 == some, "MPI_Testsome: a receive is complete without a message");
        TM_MPI(MPI_Request_get_status(req[0], &flag, &st[0]));
        TM_CHECK(!flag, "MPI_Request_get_status: a receive is complete without a message");
    }
    TM_MPI(MPI_Barrier(comm));
    /* Only the last is sent: MPI_Testall stays false, MPI_Waitany finds it. */
    TM_MPI(MPI_Isend(&in[0], 0, MPI_BYTE, tm_dst, COUNT - 1, comm, &sreq[0]));
    TM_MPI(MPI_Waitany(COUNT, req, &which, &st[0]));
    TM_CHECK(which == COUNT - 1, "MPI_Waitany gave %d, expected %d", which, COUNT - 1);
    tm_expect_status(&st[0], tm_src, COUNT - 1, 0);
    TM_MPI(MPI_Testall(COUNT, req, &flag, st));
    TM_CHECK(!flag, "MPI_Testall: receives are complete without a message");
    TM_MPI(MPI_Wait(&sreq[0], MPI_STATUS_IGNORE));
    TM_MPI(MPI_Barrier(comm));
    for (int i = 0; i < COUNT - 1; i++) {
        TM_MPI(MPI_Isend(NULL, 0, MPI_BYTE, tm_dst, i, comm, &sreq[i]));
    }
    TM_MPI(MPI_Waitall(COUNT - 1, req, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Waitall(COUNT - 1, sreq, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Barrier(comm));
}

static void proc_null(void)
{
    MPI_Request req[4];
    MPI_Status st;
    int x = 17;

    tm_status_reset(&st);
    TM_MPI(MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    TM_MPI(MPI_Ssend(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    TM_MPI(MPI_Rsend(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm));
    TM_MPI(MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &st));
    tm_expect_proc_null(&st);
    tm_status_reset(&st);
    TM_MPI(MPI_Sendrecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, &x, 1, MPI_INT, MPI_PROC_NULL,
                        MPI_ANY_TAG, comm, &st));
    tm_expect_proc_null(&st);
    TM_CHECK(17 == x, "a receive from MPI_PROC_NULL wrote to the buffer");
    tm_status_reset(&st);
    TM_MPI(MPI_Sendrecv_replace(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, comm, &st));
    tm_expect_proc_null(&st);
    TM_MPI(MPI_Send_init(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &req[0]));
    TM_MPI(MPI_Recv_init(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &req[1]));
    TM_MPI(MPI_Ssend_init(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &req[2]));
    TM_MPI(MPI_Recv_init(&x, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, &req[3]));
    for (int i = 0; i < 3; i++) {
        MPI_Status all[4];

        TM_MPI(MPI_Startall(4, req));
        TM_MPI(MPI_Waitall(4, req, all));
        tm_expect_proc_null(&all[1]);
        tm_expect_proc_null(&all[3]);
    }
    for (int i = 0; i < 4; i++) {
        TM_MPI(MPI_Request_free(&req[i]));
    }
    TM_MPI(MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &req[0]));
    TM_MPI(MPI_Cancel(&req[0]));
    TM_MPI(MPI_Wait(&req[0], MPI_STATUS_IGNORE));
    TM_MPI(MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &req[0]));
    TM_MPI(MPI_Request_free(&req[0]));
}

/* From each rank to the one below, by one call of which the other side is MPI_PROC_NULL. */
static void one_sided(size_t n)
{
    unsigned char *out = tm_alloc_data(n, tm_key(tm_rank, tm_rank - 1, 1, 1)), *in = tm_alloc(n);
    MPI_Status st;

    TM_MPI(MPI_Sendrecv(out, (int) n, MPI_BYTE, 0 == tm_rank ? MPI_PROC_NULL : tm_rank - 1, 1, NULL,
                        0, MPI_BYTE, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE));
    if (tm_rank < tm_size - 1) {
        tm_status_reset(&st);
        TM_MPI(MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 1, in, (int) n, MPI_BYTE, tm_rank + 1,
                            1, comm, &st));
        tm_expect_message(&st, in, tm_rank + 1, 1, n, tm_key(tm_rank + 1, tm_rank, 1, 1),
                          "MPI_Sendrecv");
    }
    tm_free(out);
    tm_free(in);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "waits");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int call = 0; call < TM_NCALLS; call++) {
        many(call, 1, 10, true);
        many(call, 300, 60, true);
        many(call, 100, 5000, true);
        many(call, 30, 200000, true);
        many(call, 20, 100, false);
        many(call, 20, 30000, false);
    }
    not_yet();
    proc_null();
    one_sided(10);
    one_sided(300000);
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
