/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors: some requests of many that fail in one call; error handlers that are called by hand and
 * changed; wrong arguments return their error class, leave nothing behind, and the communicator
 * goes on working. (One message that is truncated, with the calls of the handler: basic.c.)
 */
/* TEST: np=2,3 timeout=60 quick=yes */
/* TEST: np=2 env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
#include "tm_test.h"

static MPI_Comm ctl;

/* A message in order on comm, to see that it works. */
static void still_works(MPI_Comm comm)
{
    int out = 77 + tm_rank, in = -1;

    TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, tm_dst, 1, &in, 1, MPI_INT, tm_src, 1, comm,
                        MPI_STATUS_IGNORE));
    TM_CHECK(in == 77 + tm_src, "after an error: got %d, expected %d", in, 77 + tm_src);
}

static int num_called;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    num_called += MPI_ERR_OTHER == tm_class(*code);
}

/* What rows of basic.c do not see: a handler that is called by hand, and replaced. */
static void handlers(void)
{
    MPI_Errhandler eh;
    MPI_Comm comm;

    TM_MPI(MPI_Comm_create_errhandler(handler, &eh));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_set_errhandler(comm, eh));
    TM_MPI(MPI_Errhandler_free(&eh));
    TM_MPI(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
    TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    TM_CHECK(1 == num_called, "the error handler was called %d times", num_called);
    still_works(comm);
    TM_MPI(MPI_Comm_free(&comm));
}

/*
 * Some truncated, some not, in one MPI_Waitall, MPI_Testall or MPI_Waitsome. Only one in the last:
 * when several have ended with an error Open MPI frees them all in the first call, and those that
 * it did not report are lost.
 */
static bool is_short(int how, int i)
{
    return 2 == how ? 1 == i : 1 == i % 3;
}

static void many(MPI_Comm comm, size_t n, int how)
{
    enum { COUNT = 12 };
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request sreq[COUNT], rreq[COUNT];
    MPI_Status st[COUNT], some[COUNT];
    int index[COUNT], done = 0, rc = MPI_SUCCESS, flag = 0;

    for (int i = 0; i < COUNT; i++) {
        size_t room = is_short(how, i) ? n - 1 : n;

        out[i] = tm_alloc(n);
        in[i] = tm_alloc(room);
        tm_fill(out[i], n, tm_key(tm_rank, tm_dst, i, 3));
        memset(in[i], 0xee, room);
        tm_status_reset(&st[i]);
        TM_MPI(MPI_Irecv(in[i], (int) room, MPI_BYTE, tm_src, i, comm, &rreq[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        TM_MPI(MPI_Isend(out[i], (int) n, MPI_BYTE, tm_dst, i, comm, &sreq[i]));
    }
    if (0 == how) {
        rc = MPI_Waitall(COUNT, rreq, st);
        TM_CHECK(MPI_ERR_IN_STATUS == tm_class(rc),
                 "MPI_Waitall gave error class %d, expected MPI_ERR_IN_STATUS", tm_class(rc));
    } else if (1 == how) {
        while (!flag) {
            rc = MPI_Testall(COUNT, rreq, &flag, st);
        }
        TM_CHECK(MPI_ERR_IN_STATUS == tm_class(rc),
                 "MPI_Testall gave error class %d, expected MPI_ERR_IN_STATUS", tm_class(rc));
    } else {
        while (done < COUNT) {
            int got = 0;
            bool has_error = false;

            rc = MPI_Waitsome(COUNT, rreq, &got, index, some);
            if (!TM_CHECK(got > 0, "MPI_Waitsome completed %d with %d still to come", got,
                          COUNT - done)) {
                break;
            }
            for (int i = 0; i < got; i++) {
                st[index[i]] = some[i];
                has_error |= is_short(how, index[i]);
                if (MPI_SUCCESS == rc) {
                    st[index[i]].MPI_ERROR = MPI_SUCCESS; /* not set then */
                }
            }
            TM_CHECK(tm_class(rc) == (has_error ? MPI_ERR_IN_STATUS : MPI_SUCCESS),
                     "MPI_Waitsome gave error class %d", tm_class(rc));
            done += got;
        }
    }
    /* After an error MPI_Waitall may leave requests pending. */
    for (int i = 0; i < COUNT; i++) {
        if (MPI_ERR_PENDING == tm_class(st[i].MPI_ERROR)) {
            tm_status_reset(&st[i]);
            rc = MPI_Wait(&rreq[i], &st[i]);
            st[i].MPI_ERROR = rc;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        size_t room = is_short(how, i) ? n - 1 : n;
        int want = is_short(how, i) ? MPI_ERR_TRUNCATE : MPI_SUCCESS;

        TM_CHECK(tm_class(st[i].MPI_ERROR) == want,
                 "receive %d: MPI_ERROR has class %d, expected %d", i, tm_class(st[i].MPI_ERROR),
                 want);
        if (MPI_SUCCESS == want) {
            tm_expect_status(&st[i], tm_src, i, n);
        } else {
            TM_CHECK(st[i].MPI_SOURCE == tm_src && st[i].MPI_TAG == i,
                     "status source %d tag %d, expected %d %d", st[i].MPI_SOURCE, st[i].MPI_TAG,
                     tm_src, i);
        }
        tm_expect_data(in[i], room, tm_key(tm_src, tm_rank, i, 3), "among truncated messages");
        tm_free(in[i]);
    }
    TM_MPI(MPI_Waitall(COUNT, sreq, MPI_STATUSES_IGNORE));
    tm_free_all(out, COUNT);
    TM_MPI(MPI_Barrier(ctl));
}

#define EXPECT(want, call)                                                                         \
    do {                                                                                           \
        int class_ = tm_class(call);                                                               \
        TM_CHECK(class_ == (want), #call ": class %d, expected " #want, class_);                   \
    } while (0)

static void wrong_arguments(MPI_Comm comm)
{
    MPI_Datatype loose;
    MPI_Request req = MPI_REQUEST_NULL;
    MPI_Message msg = MPI_MESSAGE_NULL;
    int x = 0, *tag_ub, flag, too_high;

    TM_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag));
    TM_CHECK(flag && *tag_ub >= 32767, "MPI_TAG_UB is %d, expected at least 32767",
             flag ? *tag_ub : -1);
    EXPECT(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, tm_size, 1, comm));
    EXPECT(MPI_ERR_RANK, MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm));
    EXPECT(MPI_ERR_RANK, MPI_Isend(&x, 1, MPI_INT, -77, 1, comm, &req));
    EXPECT(MPI_ERR_RANK, MPI_Recv(&x, 1, MPI_INT, tm_size, 1, comm, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_RANK, MPI_Iprobe(tm_size, 1, comm, &flag, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_RANK, MPI_Improbe(-99, 1, comm, &flag, &msg, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_RANK, MPI_Recv_init(&x, 1, MPI_INT, tm_size, 1, comm, &req));
    EXPECT(MPI_ERR_TAG, MPI_Send(&x, 1, MPI_INT, tm_dst, -5, comm));
    EXPECT(MPI_ERR_TAG, MPI_Send(&x, 1, MPI_INT, tm_dst, MPI_ANY_TAG, comm));
    EXPECT(MPI_ERR_TAG, MPI_Irecv(&x, 1, MPI_INT, tm_src, -5, comm, &req));
    too_high = *tag_ub;
    if (too_high < 0x7fffffff) {
        EXPECT(MPI_ERR_TAG, MPI_Ssend(&x, 1, MPI_INT, tm_dst, too_high + 1, comm));
    }
    EXPECT(MPI_ERR_COUNT, MPI_Send(&x, -1, MPI_INT, tm_dst, 1, comm));
    EXPECT(MPI_ERR_COUNT, MPI_Irecv(&x, -1, MPI_INT, tm_src, 1, comm, &req));
    EXPECT(MPI_ERR_TYPE, MPI_Send(&x, 1, MPI_DATATYPE_NULL, tm_dst, 1, comm));
    TM_MPI(MPI_Type_vector(2, 1, 2, MPI_BYTE, &loose));
    EXPECT(MPI_ERR_TYPE, MPI_Isend(&x, 1, loose, tm_dst, 1, comm, &req));
    EXPECT(MPI_ERR_TYPE, MPI_Recv(&x, 1, loose, tm_src, 1, comm, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Type_free(&loose));
    EXPECT(MPI_ERR_COMM, MPI_Send(&x, 1, MPI_INT, tm_dst, 1, MPI_COMM_NULL));
    req = MPI_REQUEST_NULL;
    EXPECT(MPI_ERR_REQUEST, MPI_Start(&req));
    EXPECT(MPI_ERR_REQUEST, MPI_Cancel(&req));
    EXPECT(MPI_ERR_REQUEST, MPI_Request_free(&req));
    still_works(comm);
}

/* The highest tag there is, and the lowest. */
static void tag_range(MPI_Comm comm)
{
    int *tag_ub, flag, out = tm_rank, in;
    MPI_Status st;

    TM_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag));
    for (int i = 0; i < 4; i++) {
        int tag = i < 2 ? *tag_ub - i : i - 2;

        tm_status_reset(&st);
        TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, tm_dst, tag, &in, 1, MPI_INT, tm_src,
                            0 == i % 2 ? tag : MPI_ANY_TAG, comm, &st));
        tm_expect_single(&st, tm_src, tag, sizeof(int));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm;

    tm_init(&argc, &argv, "errors");
    TM_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    handlers();
    for (int how = 0; how < 3; how++) {
        many(comm, 20, how);
        /* pml/ob1 of 4.1.4 writes behind the buffer when a rendezvous message is truncated */
        if (tm_is_strict()) {
            many(comm, 5000, how);
            many(comm, 300000, how);
        }
    }
    wrong_arguments(comm);
    tag_range(comm);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
