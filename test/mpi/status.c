/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Status: MPI_Get_count, MPI_Get_elements and MPI_Get_elements_x of whole, partial and empty
 * elements, from every call that fills a status; MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE in every
 * call that takes them; statuses made by the program.
 */
/* TEST: np=1,2,3 timeout=60 quick=yes */
#include "tm_test.h"

enum { PARTS = 5 };

/* Who fills the status. */
enum {
    RECV,
    IRECV_WAIT,
    TEST,
    GET_STATUS,
    WAITALL,
    WAITSOME,
    PROBE,
    IPROBE,
    MPROBE,
    IMPROBE,
    MRECV,
    IMRECV,
    SENDRECV,
    NHOWS
};

static MPI_Comm comm;

/*
 * A record of char, double[2], int, short; prefix[k] is the first k basic elements of it, somewhere
 * else.
 */
static MPI_Datatype record, prefix[PARTS + 1];
static size_t prefix_size[PARTS + 1];
static size_t record_size;

static void make_types(void)
{
    static const int block[PARTS] = {1, 1, 1, 1, 1};
    static const MPI_Aint disp[PARTS] = {0, 8, 16, 24, 28}, other_disp[PARTS] = {40, 0, 8, 16, 24};
    MPI_Datatype basic[PARTS] = {MPI_CHAR, MPI_DOUBLE, MPI_DOUBLE, MPI_INT, MPI_SHORT}, tmp;

    TM_MPI(MPI_Type_create_struct(PARTS, block, disp, basic, &tmp));
    TM_MPI(MPI_Type_create_resized(tmp, 0, 32, &record));
    TM_MPI(MPI_Type_free(&tmp));
    TM_MPI(MPI_Type_commit(&record));
    for (int k = 0; k <= PARTS; k++) {
        int size;

        TM_MPI(MPI_Type_create_struct(k, block, other_disp, basic, &prefix[k]));
        TM_MPI(MPI_Type_commit(&prefix[k]));
        TM_MPI(MPI_Type_size(prefix[k], &size));
        prefix_size[k] = (size_t) size;
    }
    record_size = prefix_size[PARTS];
}

/* whole records and k basic elements more have come. */
static void check_counts(const MPI_Status *st, int whole, int k, const char *how)
{
    int count = -1, elements = -1, want = 0 == k ? whole : MPI_UNDEFINED;
    MPI_Count elements_x = -1;

    TM_MPI(MPI_Get_count(st, record, &count));
    TM_MPI(MPI_Get_elements(st, record, &elements));
    TM_MPI(MPI_Get_elements_x(st, record, &elements_x));
    TM_CHECK(count == want, "%s: MPI_Get_count of %d records and %d elements is %d, expected %d",
             how, whole, k, count, want);
    TM_CHECK(elements == PARTS * whole + k, "%s: MPI_Get_elements is %d, expected %d", how,
             elements, PARTS * whole + k);
    TM_CHECK(elements_x == PARTS * whole + k, "%s: MPI_Get_elements_x is %lld, expected %d", how,
             (long long) elements_x, PARTS * whole + k);
}

/* What is sent: the records, then k elements of the next one, as one type. */
static MPI_Datatype whole_and_part(int whole, int k)
{
    int block[2] = {whole, 1};
    MPI_Aint disp[2] = {0, 32 * (MPI_Aint) whole};
    MPI_Datatype parts[2] = {record, prefix[k]}, type;

    TM_MPI(MPI_Type_create_struct(2, block, disp, parts, &type));
    TM_MPI(MPI_Type_commit(&type));
    return type;
}

/* Look at the message until it is there. */
static void probe(int how, int tag, MPI_Message *msg, MPI_Status *st)
{
    switch (how) {
    case PROBE:
        TM_MPI(MPI_Probe(tm_src, tag, comm, st));
        break;
    case IPROBE:
        tm_iprobe(MPI_ANY_SOURCE, tag, comm, st);
        break;
    case IMPROBE:
        tm_improbe(tm_src, tag, comm, msg, st);
        break;
    default:
        TM_MPI(MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, msg, st));
        break;
    }
}

/* Receive into room for more; st is filled by the call that how names, the rest ignores theirs. */
static void receive(int how, void *buf, int room, int tag, MPI_Status *st)
{
    MPI_Status *recv_st = MPI_STATUS_IGNORE, some;
    MPI_Message msg = MPI_MESSAGE_NULL;
    MPI_Request req;
    int flag = 0, index, n;

    switch (how) {
    case RECV:
        TM_MPI(MPI_Recv(buf, room, record, tm_src, tag, comm, st));
        break;
    case PROBE:
    case IPROBE:
        probe(how, tag, NULL, st);
        TM_MPI(MPI_Recv(buf, room, record, tm_src, tag, comm, recv_st));
        break;
    case MPROBE:
    case IMPROBE:
        probe(how, tag, &msg, st);
        TM_MPI(MPI_Mrecv(buf, room, record, &msg, recv_st));
        break;
    case MRECV:
        probe(MPROBE, tag, &msg, recv_st);
        TM_MPI(MPI_Mrecv(buf, room, record, &msg, st));
        break;
    case IMRECV:
        probe(IMPROBE, tag, &msg, recv_st);
        TM_MPI(MPI_Imrecv(buf, room, record, &msg, &req));
        TM_MPI(MPI_Wait(&req, st));
        break;
    default:
        TM_MPI(MPI_Irecv(buf, room, record, tm_src, tag, comm, &req));
        if (TEST == how) {
            tm_test(&req, st);
        } else if (GET_STATUS == how) {
            while (!flag) {
                TM_MPI(MPI_Request_get_status(req, &flag, st));
            }
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        } else if (WAITALL == how) {
            TM_MPI(MPI_Waitall(1, &req, st));
            st->MPI_ERROR = TM_NO_ERROR; /* may be set by calls that return several */
        } else if (WAITSOME == how) {
            TM_MPI(MPI_Waitsome(1, &req, &n, &index, &some));
            *st = some;
            st->MPI_ERROR = TM_NO_ERROR;
        } else {
            TM_MPI(MPI_Wait(&req, st));
        }
        break;
    }
}

static void partial(int how, int whole, int k)
{
    static const char *const names[NHOWS] = {
        "MPI_Recv",    "MPI_Wait",     "MPI_Test",  "MPI_Request_get_status",
        "MPI_Waitall", "MPI_Waitsome", "MPI_Probe", "MPI_Iprobe",
        "MPI_Mprobe",  "MPI_Improbe",  "MPI_Mrecv", "MPI_Imrecv",
        "MPI_Sendrecv"};
    MPI_Datatype type = whole_and_part(whole, k);
    size_t bytes = record_size * (size_t) whole + prefix_size[k];
    unsigned char *out = tm_calloc((size_t) whole + 2, 32), *in = tm_calloc((size_t) whole + 2, 32);
    int tag = how * 100 + k;
    MPI_Request sreq;
    MPI_Status st;

    tm_status_reset(&st);
    if (SENDRECV == how) {
        TM_MPI(
            MPI_Sendrecv(out, 1, type, tm_dst, tag, in, whole + 1, record, tm_src, tag, comm, &st));
    } else {
        TM_MPI(MPI_Isend(out, 1, type, tm_dst, tag, comm, &sreq));
        receive(how, in, whole + 1, tag, &st);
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    }
    tm_expect_single(&st, tm_src, tag, bytes);
    check_counts(&st, whole, k, names[how]);
    TM_MPI(MPI_Type_free(&type));
    free(out);
    free(in);
}

/* A type without data: 0 bytes are 0 elements of it (MPI 4.0, 3.2.5 and 5.1.11). */
static void nothing(void)
{
    MPI_Datatype empty;
    MPI_Status st;
    int count = -1, elements = -1;

    TM_MPI(MPI_Type_contiguous(0, MPI_INT, &empty));
    TM_MPI(MPI_Type_commit(&empty));
    tm_status_reset(&st);
    TM_MPI(MPI_Sendrecv(NULL, 7, empty, tm_dst, 1, NULL, 3, empty, tm_src, 1, comm, &st));
    tm_expect_single(&st, tm_src, 1, 0);
    TM_MPI(MPI_Get_count(&st, empty, &count));
    TM_MPI(MPI_Get_elements(&st, MPI_DOUBLE, &elements));
    TM_CHECK(0 == count && 0 == elements, "nothing: MPI_Get_count %d, MPI_Get_elements %d", count,
             elements);
    TM_MPI(MPI_Get_count(&st, record, &count));
    TM_CHECK(0 == count, "nothing: MPI_Get_count of records is %d", count);
    TM_MPI(MPI_Type_free(&empty));
}

/* One message of n bytes with this tag. */
static void send_one(const void *buf, size_t n, int tag, MPI_Request *req)
{
    TM_MPI(MPI_Isend(buf, tm_int(n), MPI_BYTE, tm_dst, tag, comm, req));
}

/* The probes, receives and single completions. */
static void ignore_one(size_t n)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    enum { COUNT = 9 };
    MPI_Request sreq[COUNT], req;
    MPI_Message msg;
    int flag = 0, which;

    tm_fill(out, n, tm_key(tm_rank, tm_dst, 5, 0));
    for (int i = 0; i < COUNT; i++) {
        send_one(out, n, 5, &sreq[i]);
    }
    TM_MPI(MPI_Probe(tm_src, 5, comm, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Iprobe(tm_src, 5, comm, &flag, MPI_STATUS_IGNORE));
    TM_CHECK(flag, "MPI_Iprobe does not see what MPI_Probe saw");
    for (int i = 0; i < COUNT; i++) {
        memset(in, 0xee, n);
        req = MPI_REQUEST_NULL;
        if (0 == i) {
            TM_MPI(MPI_Recv(in, tm_int(n), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                            MPI_STATUS_IGNORE));
        } else if (1 == i) {
            TM_MPI(MPI_Mprobe(tm_src, MPI_ANY_TAG, comm, &msg, MPI_STATUS_IGNORE));
            TM_MPI(MPI_Mrecv(in, tm_int(n), MPI_BYTE, &msg, MPI_STATUS_IGNORE));
        } else if (2 == i) {
            tm_improbe(tm_src, 5, comm, &msg, MPI_STATUS_IGNORE);
            TM_MPI(MPI_Imrecv(in, tm_int(n), MPI_BYTE, &msg, &req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        } else {
            TM_MPI(MPI_Irecv(in, tm_int(n), MPI_BYTE, 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, 5, comm,
                             &req));
            for (flag = 0; !flag;) {
                if (3 == i) {
                    TM_MPI(MPI_Test(&req, &flag, MPI_STATUS_IGNORE));
                } else if (4 == i) {
                    TM_MPI(MPI_Waitany(1, &req, &which, MPI_STATUS_IGNORE));
                    flag = 1;
                } else if (5 == i) {
                    TM_MPI(MPI_Testany(1, &req, &which, &flag, MPI_STATUS_IGNORE));
                } else if (6 == i) {
                    TM_MPI(MPI_Request_get_status(req, &flag, MPI_STATUS_IGNORE));
                } else {
                    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
                    flag = 1;
                }
            }
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        }
        tm_expect_data(in, n, tm_key(tm_src, tm_rank, 5, 0), "received without a status");
    }
    TM_MPI(MPI_Waitall(COUNT, sreq, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Sendrecv(out, tm_int(n), MPI_BYTE, tm_dst, 6, in, tm_int(n), MPI_BYTE, tm_src, 6,
                        comm, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Sendrecv_replace(out, tm_int(n), MPI_BYTE, tm_dst, 6, tm_src, 6, comm,
                                MPI_STATUS_IGNORE));
    tm_expect_data(out, n, tm_key(tm_src, tm_rank, 5, 0), "MPI_Sendrecv_replace without a status");
    TM_MPI(MPI_Recv(in, 1, MPI_BYTE, MPI_PROC_NULL, 6, comm, MPI_STATUS_IGNORE));
    tm_free(out);
    tm_free(in);
}

/* MPI_STATUSES_IGNORE, with sends, receives and null requests. */
static void ignore_all(int how)
{
    enum { COUNT = 12 };
    int in[COUNT], out[COUNT], left = 2 * COUNT, index[3 * COUNT], n, flag = 0;
    MPI_Request req[3 * COUNT];

    for (int i = 0; i < COUNT; i++) {
        out[i] = 100 * tm_rank + i;
        in[i] = -1;
        TM_MPI(MPI_Irecv(&in[i], 1, MPI_INT, tm_src, i, comm, &req[i]));
        TM_MPI(MPI_Isend(&out[i], 1, MPI_INT, tm_dst, i, comm, &req[COUNT + i]));
        req[2 * COUNT + i] = MPI_REQUEST_NULL;
    }
    if (0 == how) {
        TM_MPI(MPI_Waitall(3 * COUNT, req, MPI_STATUSES_IGNORE));
    }
    while (1 == how && !flag) {
        TM_MPI(MPI_Testall(3 * COUNT, req, &flag, MPI_STATUSES_IGNORE));
    }
    while (how > 1 && left > 0) {
        TM_MPI((2 == how ? MPI_Waitsome : MPI_Testsome)(3 * COUNT, req, &n, index,
                                                        MPI_STATUSES_IGNORE));
        left -= n;
    }
    for (int i = 0; i < COUNT; i++) {
        TM_CHECK(in[i] == 100 * tm_src + i, "MPI_STATUSES_IGNORE, way %d: got %d, expected %d", how,
                 in[i], 100 * tm_src + i);
        TM_CHECK(MPI_REQUEST_NULL == req[i] && MPI_REQUEST_NULL == req[COUNT + i],
                 "request %d is not null in the end", i);
    }
}

/* The status of a send says that it was not cancelled, and nothing wrong about an error. */
static void of_sends(size_t n)
{
    unsigned char *out = tm_calloc(n, 1), *in = tm_calloc(n, 1);
    MPI_Request req[2];
    MPI_Status st[2];
    int cancelled = -1;

    TM_MPI(MPI_Irecv(in, tm_int(n), MPI_BYTE, tm_src, 8, comm, &req[0]));
    TM_MPI(MPI_Issend(out, tm_int(n), MPI_BYTE, tm_dst, 8, comm, &req[1]));
    tm_status_reset(&st[1]);
    TM_MPI(MPI_Wait(&req[1], &st[1]));
    TM_MPI(MPI_Test_cancelled(&st[1], &cancelled));
    TM_CHECK(0 == cancelled && TM_NO_ERROR == st[1].MPI_ERROR,
             "MPI_Wait of a send: cancelled %d, MPI_ERROR %d", cancelled, st[1].MPI_ERROR);
    TM_MPI(MPI_Wait(&req[0], MPI_STATUS_IGNORE));
    free(out);
    free(in);
}

/* What the program writes into a status is what it reads from it. */
static void own(void)
{
    MPI_Status st;
    MPI_Count many;
    MPI_Fint fortran[sizeof(MPI_Status) / sizeof(MPI_Fint) + 8];
    int n = -1, flag = -1;

    memset(&st, 0, sizeof(st));
    TM_MPI(MPI_Status_set_elements(&st, MPI_INT, 7));
    TM_MPI(MPI_Status_set_cancelled(&st, 1));
    TM_MPI(MPI_Get_count(&st, MPI_INT, &n));
    TM_MPI(MPI_Test_cancelled(&st, &flag));
    TM_CHECK(7 == n && 1 == flag, "own status: count %d cancelled %d", n, flag);
    TM_MPI(MPI_Status_set_elements_x(&st, MPI_BYTE, (MPI_Count) 5 << 32));
    TM_MPI(MPI_Get_elements_x(&st, MPI_BYTE, &many));
    TM_MPI(MPI_Get_count(&st, MPI_BYTE, &n));
    TM_CHECK(many == (MPI_Count) 5 << 32 && MPI_UNDEFINED == n,
             "own status: %lld elements, count %d", (long long) many, n);
    st.MPI_SOURCE = 3;
    st.MPI_TAG = 4;
    TM_MPI(MPI_Status_c2f(&st, fortran));
    memset(&st, 0, sizeof(st));
    TM_MPI(MPI_Status_f2c(fortran, &st));
    TM_CHECK(3 == st.MPI_SOURCE && 4 == st.MPI_TAG, "MPI_Status_f2c gave source %d tag %d",
             st.MPI_SOURCE, st.MPI_TAG);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "status");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    make_types();
    for (int how = 0; how < NHOWS; how++) {
        for (int k = 0; k < PARTS; k++) {
            partial(how, 0, k);
            partial(how, 3, k);
            partial(how, 4000, k);
        }
    }
    nothing();
    for (size_t n = 1; n < 1000000; n *= 37) {
        ignore_one(n);
        of_sends(n);
    }
    for (int how = 0; how < 4; how++) {
        ignore_all(how);
    }
    own();
    for (int k = 0; k <= PARTS; k++) {
        TM_MPI(MPI_Type_free(&prefix[k]));
    }
    TM_MPI(MPI_Type_free(&record));
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
