/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error handlers: a truncated message calls the handler of its communicator, whatever call
 * completes it, and no other; handlers are inherited, outlive MPI_Errhandler_free and may be
 * changed; wrong arguments return their error class, leave nothing behind, and the communicator
 * goes on working.
 */
/* TEST: np=2,3 timeout=60 quick=yes */
/* TEST: np=2 env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
#include "tm_test.h"

enum {
    RECV,
    WAIT,
    TEST,
    WAITANY,
    TESTANY,
    WAITSOME,
    WAITALL,
    MRECV,
    IMRECV,
    SENDRECV,
    SENDRECV_REPLACE,
    PERSISTENT,
    NCALLS
};

static const char *const call_name[NCALLS] = {"MPI_Recv",
                                              "MPI_Wait",
                                              "MPI_Test",
                                              "MPI_Waitany",
                                              "MPI_Testany",
                                              "MPI_Waitsome",
                                              "MPI_Waitall",
                                              "MPI_Mrecv",
                                              "MPI_Wait (Imrecv)",
                                              "MPI_Sendrecv",
                                              "MPI_Sendrecv_replace",
                                              "MPI_Wait (persistent)"};

/* The calls of a handler, and the arguments of the last. */
typedef struct handler_call {
    int times, class;
    MPI_Comm comm;
} handler_call_t;

static handler_call_t called[2];
static MPI_Comm ctl;

static void note(handler_call_t *t, const MPI_Comm *comm, const int *code)
{
    t->times++;
    t->class = tm_class(*code);
    t->comm = *comm;
}

static void handler_0(MPI_Comm *comm, int *code, ...)
{
    note(&called[0], comm, code);
}

static void handler_1(MPI_Comm *comm, int *code, ...)
{
    note(&called[1], comm, code);
}

/* Receive n bytes with tag into room for less, by this call. */
static int receive(int call, MPI_Comm comm, void *buf, int room, int tag, const void *out, size_t n)
{
    MPI_Request req = MPI_REQUEST_NULL;
    MPI_Message msg;
    MPI_Status st;
    int flag = 0, index, some, rc = MPI_SUCCESS;

    switch (call) {
    case RECV:
        return MPI_Recv(buf, room, MPI_BYTE, tm_src, tag, comm, &st);
    case SENDRECV:
        return MPI_Sendrecv(out, tm_int(n), MPI_BYTE, tm_dst, tag, buf, room, MPI_BYTE, tm_src, tag,
                            comm, &st);
    case SENDRECV_REPLACE:
        return MPI_Sendrecv_replace(buf, room, MPI_BYTE, tm_dst, tag + 1, tm_src, tag, comm, &st);
    case MRECV:
        TM_MPI(MPI_Mprobe(tm_src, tag, comm, &msg, &st));
        return MPI_Mrecv(buf, room, MPI_BYTE, &msg, &st);
    case IMRECV:
        TM_MPI(MPI_Mprobe(tm_src, tag, comm, &msg, &st));
        rc = MPI_Imrecv(buf, room, MPI_BYTE, &msg, &req);
        return MPI_SUCCESS != rc ? rc : MPI_Wait(&req, &st);
    case PERSISTENT:
        TM_MPI(MPI_Recv_init(buf, room, MPI_BYTE, tm_src, tag, comm, &req));
        TM_MPI(MPI_Start(&req));
        rc = MPI_Wait(&req, &st);
        if (MPI_REQUEST_NULL != req) {
            TM_MPI(MPI_Request_free(&req));
        }
        return rc;
    default:
        TM_MPI(MPI_Irecv(buf, room, MPI_BYTE, tm_src, tag, comm, &req));
        break;
    }
    switch (call) {
    case TEST:
        while (MPI_SUCCESS == rc && !flag) {
            rc = MPI_Test(&req, &flag, &st);
        }
        return rc;
    case WAITANY:
        return MPI_Waitany(1, &req, &index, &st);
    case TESTANY:
        while (MPI_SUCCESS == rc && !flag) {
            rc = MPI_Testany(1, &req, &index, &flag, &st);
        }
        return rc;
    case WAITSOME:
    case WAITALL:
        rc = WAITSOME == call ? MPI_Waitsome(1, &req, &some, &index, &st)
                              : MPI_Waitall(1, &req, &st);
        TM_CHECK(MPI_ERR_IN_STATUS == tm_class(rc) && MPI_ERR_TRUNCATE == tm_class(st.MPI_ERROR),
                 "%s: class %d, of the status %d, expected MPI_ERR_IN_STATUS and MPI_ERR_TRUNCATE",
                 call_name[call], tm_class(rc), tm_class(st.MPI_ERROR));
        return rc;
    default:
        return MPI_Wait(&req, &st);
    }
}

/*
 * A message of n bytes for a receive of fewer: handler `which` must be called, once, with comm; -1:
 * none.
 */
static void truncated(int call, MPI_Comm comm, int which, size_t n)
{
    int tag = 10 + 10 * call, room = tm_int(n / 2), rc;
    unsigned char *out = tm_calloc(n, 1), *in = tm_calloc(n, 1);
    MPI_Request sreq = MPI_REQUEST_NULL, back = MPI_REQUEST_NULL;
    int want = WAITSOME == call || WAITALL == call ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE;

    memset(called, 0, sizeof(called));
    if (SENDRECV_REPLACE == call) {
        TM_MPI(MPI_Irecv(out, room, MPI_BYTE, tm_src, tag + 1, comm, &back));
    }
    if (SENDRECV != call) {
        TM_MPI(MPI_Isend(out, tm_int(n), MPI_BYTE, tm_dst, tag, comm, &sreq));
    }
    rc = receive(call, comm, in, room, tag, out, n);
    TM_CHECK(tm_class(rc) == want, "%s: class %d of a truncated message, expected %d",
             call_name[call], tm_class(rc), want);
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Wait(&back, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; i++) {
        TM_CHECK(called[i].times == (i == which), "%s: handler %d was called %d times",
                 call_name[call], i, called[i].times);
    }
    if (which >= 0) {
        /*
         * For MPI_Waitall and MPI_Waitsome Open MPI passes the error of the first failed request.
         */
        TM_CHECK((called[which].class == want || MPI_ERR_TRUNCATE == called[which].class) &&
                     called[which].comm == comm,
                 "%s: the handler was called with class %d%s", call_name[call], called[which].class,
                 called[which].comm == comm ? "" : " of another communicator");
    }
    free(out);
    free(in);
    TM_MPI(MPI_Barrier(ctl));
}

/* A message in order on comm, to see that it works. */
static void still_works(MPI_Comm comm)
{
    int out = 77 + tm_rank, in = -1;

    TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, tm_dst, 1, &in, 1, MPI_INT, tm_src, 1, comm,
                        MPI_STATUS_IGNORE));
    TM_CHECK(in == 77 + tm_src, "after an error: got %d, expected %d", in, 77 + tm_src);
}

static void handlers(size_t n)
{
    MPI_Comm comm[2], copy;
    MPI_Errhandler eh[2];

    TM_MPI(MPI_Comm_create_errhandler(handler_0, &eh[0]));
    TM_MPI(MPI_Comm_create_errhandler(handler_1, &eh[1]));
    for (int i = 0; i < 2; i++) {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]));
        TM_MPI(MPI_Comm_set_errhandler(comm[i], eh[i]));
        TM_MPI(MPI_Errhandler_free(&eh[i]));
    }
    TM_MPI(MPI_Comm_dup(comm[1], &copy));
    for (int call = 0; call < NCALLS; call++) {
        for (int i = 0; i < 2; i++) {
            truncated(call, comm[i], i, n);
        }
        truncated(call, copy, 1, n);
    }
    still_works(comm[0]);
    TM_MPI(MPI_Comm_set_errhandler(comm[0], MPI_ERRORS_RETURN));
    for (int call = 0; call < NCALLS; call++) {
        truncated(call, comm[0], -1, n);
    }
    memset(called, 0, sizeof(called));
    TM_MPI(MPI_Comm_call_errhandler(comm[1], MPI_ERR_OTHER));
    TM_CHECK(1 == called[1].times && MPI_ERR_OTHER == called[1].class && 0 == called[0].times,
             "MPI_Comm_call_errhandler");
    for (int i = 0; i < 2; i++) {
        still_works(comm[i]);
        TM_MPI(MPI_Comm_free(&comm[i]));
    }
    still_works(copy);
    TM_MPI(MPI_Comm_free(&copy));
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
    handlers(30);
    handlers(3000);
    /* pml/ob1 of 4.1.4 writes behind the buffer when a rendezvous message is truncated */
    if (tm_is_strict()) {
        handlers(300000);
    }
    wrong_arguments(comm);
    tag_range(comm);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
