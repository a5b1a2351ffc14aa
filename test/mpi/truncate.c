/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are longer than the receive: MPI_ERR_TRUNCATE from every kind of receive, for all
 * protocols, posted before and after the arrival, contiguous and not, cut off between elements and
 * within them. The memory beside the buffer stays as it is, the sender sees no error, and the
 * messages behind it arrive whole.
 *
 * args: [largest size]
 */
/* TEST: np=2 args="4194305" timeout=60 quick=yes */
/* TEST: np=8 args="65537" timeout=60 */
/* TEST: np=2 args="4194305" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 quick=yes */
/* TEST: np=2 args="65537" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
/* TEST: np=1,4 args="1048577" timeout=60 */
#include "tm_test.h"
#include "tm_types.h"

enum { RECV, IRECV_LATE, IRECV_FIRST, MRECV, IMRECV, SENDRECV, PERSISTENT, NKINDS };

static const char *const kind_name[NKINDS] = {"MPI_Recv",  "MPI_Irecv, late", "MPI_Irecv, posted",
                                              "MPI_Mrecv", "MPI_Imrecv",      "MPI_Sendrecv",
                                              "MPI_Start"};

static MPI_Comm comm, ctl;
static int next_tag;

static void start_send(const void *buf, size_t n, int tag, MPI_Request *req)
{
    TM_MPI((0 == tag % 2 ? MPI_Isend : MPI_Issend)(buf, (int) n, MPI_BYTE, tm_dst, tag, comm, req));
}

/*
 * pml/ob1 of 4.1.4 writes behind the buffer when a rendezvous message is truncated, and does not
 * report a truncated message from this process for which the receive was posted.
 */
static bool can_test(size_t n, bool is_posted)
{
    return tm_is_strict() || (n <= 2000 && (!is_posted || tm_size > 1));
}

/* A message of n bytes for a receive of count elements of a type. */
static void truncate_one(int kind, size_t n, const tm_type_t *type, size_t count)
{
    int tag = next_tag++ % 30000, rc = MPI_SUCCESS;
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    tm_layout_t l = tm_layout_alloc(type, count);
    void *buf = tm_layout_buf(&l);
    size_t room = count * type->size;
    MPI_Request sreq[2], rreq = MPI_REQUEST_NULL;
    MPI_Message msg;
    MPI_Status st;

    if (!can_test(n, IRECV_FIRST == kind || SENDRECV == kind || PERSISTENT == kind)) {
        goto done;
    }
    tm_fill(out, n, tm_key(tm_rank, tm_dst, tag, 0));
    tm_layout_write(&l, 0, 0, 0xee);
    if (PERSISTENT == kind) {
        TM_MPI(MPI_Recv_init(buf, (int) count, type->mpi, MPI_ANY_SOURCE, tag, comm, &rreq));
        TM_MPI(MPI_Start(&rreq));
    } else if (IRECV_FIRST == kind) {
        TM_MPI(MPI_Irecv(buf, (int) count, type->mpi, tm_src, tag, comm, &rreq));
        TM_MPI(MPI_Barrier(ctl));
    }
    if (SENDRECV != kind) {
        start_send(out, n, tag, &sreq[0]);
        start_send(out, n, tag, &sreq[1]);
    }
    tm_status_reset(&st);
    switch (kind) {
    case RECV:
        rc = MPI_Recv(buf, (int) count, type->mpi, tm_src, tag, comm, &st);
        break;
    case IRECV_LATE:
        TM_MPI(MPI_Probe(tm_src, tag, comm, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Irecv(buf, (int) count, type->mpi, tm_src, tag, comm, &rreq));
        rc = MPI_Wait(&rreq, &st);
        break;
    case IRECV_FIRST:
    case PERSISTENT:
        rc = MPI_Wait(&rreq, &st);
        break;
    case MRECV:
        TM_MPI(MPI_Mprobe(tm_src, tag, comm, &msg, MPI_STATUS_IGNORE));
        rc = MPI_Mrecv(buf, (int) count, type->mpi, &msg, &st);
        break;
    case IMRECV:
        TM_MPI(MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Imrecv(buf, (int) count, type->mpi, &msg, &rreq));
        rc = MPI_Wait(&rreq, &st);
        break;
    default:
        rc = MPI_Sendrecv(out, (int) n, MPI_BYTE, tm_dst, tag, buf, (int) count, type->mpi, tm_src,
                          tag, comm, &st);
        start_send(out, n, tag, &sreq[1]);
        break;
    }
    TM_CHECK(MPI_ERR_TRUNCATE == tm_class(rc),
             "%s of %zu bytes into %zu of type %s: error class %d, expected MPI_ERR_TRUNCATE",
             kind_name[kind], n, room, type->name, tm_class(rc));
    TM_CHECK(st.MPI_SOURCE == tm_src && st.MPI_TAG == tag,
             "%s: status source %d tag %d, expected %d %d", kind_name[kind], st.MPI_SOURCE,
             st.MPI_TAG, tm_src, tag);
    /* What fits is there, what is between and beside it is as before. */
    tm_expect_layout(&l, room, tm_key(tm_src, tm_rank, tag, 0), 0xee, kind_name[kind]);
    if (MPI_REQUEST_NULL != rreq) {
        /* Open MPI has freed it already when the error handler returns */
        TM_MPI(MPI_Request_free(&rreq));
    }
    /* The next message. */
    tm_recv(in, n, tm_src, tag, comm, tm_key(tm_src, tm_rank, tag, 0),
            "message after a truncated one");
    if (SENDRECV != kind) {
        TM_MPI(MPI_Wait(&sreq[0], MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Wait(&sreq[1], MPI_STATUS_IGNORE));
done:
    tm_layout_free(&l);
    tm_free(out);
    tm_free(in);
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

static void many(size_t n, int how)
{
    enum { COUNT = 12 };
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request sreq[COUNT], rreq[COUNT];
    MPI_Status st[COUNT], some[COUNT];
    int index[COUNT], done = 0, rc = MPI_SUCCESS, flag = 0;

    if (!can_test(n, true)) {
        return;
    }
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

/*
 * count elements of a type with gaps between them, received as room bytes in one piece, or one by
 * one: the message may end within an element.
 */
static void truncate_elements(const tm_type_t *spread, size_t count, const tm_type_t *type,
                              size_t room)
{
    int tag = next_tag++ % 30000, rc;
    tm_layout_t out = tm_layout_alloc(spread, count), in = tm_layout_alloc(type, room);
    MPI_Request req;
    MPI_Status st;

    tm_layout_write(&out, count * spread->size, tm_key(tm_rank, tm_dst, tag, 0), 0);
    tm_layout_write(&in, 0, 0, 0xee);
    TM_MPI(MPI_Isend(tm_layout_buf(&out), (int) count, spread->mpi, tm_dst, tag, comm, &req));
    rc = MPI_Recv(tm_layout_buf(&in), (int) room, MPI_BYTE == type->mpi ? MPI_PACKED : type->mpi,
                  tm_src, tag, comm, &st);
    TM_CHECK(MPI_ERR_TRUNCATE == tm_class(rc),
             "%zu of type %s into %zu bytes: error class %d, expected MPI_ERR_TRUNCATE", count,
             spread->name, room, tm_class(rc));
    tm_expect_layout(&in, room, tm_key(tm_src, tm_rank, tag, 0), 0xee, spread->name);
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    tm_layout_free(&out);
    tm_layout_free(&in);
}

/* Cut off at every byte of an element: the first, one in the middle, and the last. */
static void every_remainder(const tm_type_t *part, size_t bytes, const tm_type_t *type)
{
    tm_type_t *vector = tm_type_vector(3, 1, 2, part, part->name);
    size_t count = bytes / vector->size, n = count * vector->size;

    for (size_t i = 1; can_test(n, false) && i <= part->size; i++) {
        truncate_elements(vector, count, type, i);
        truncate_elements(vector, count, type, n / 2 + i);
        truncate_elements(vector, count, type, n - i);
    }
    tm_type_free(vector);
}

static void elements(const tm_type_t *byte, const tm_type_t *byte_with_gaps)
{
    tm_type_t *part[] = {tm_type_basic(MPI_INT, sizeof(int), "int"),
                         tm_type_basic(MPI_DOUBLE, sizeof(double), "double"),
                         /* not long double: Open MPI 5.0 need not copy its padding */
                         tm_type_basic(MPI_C_DOUBLE_COMPLEX, 2 * sizeof(double), "double complex")};

    for (int i = 0; i < 3; i++) {
        for (size_t bytes = 96; bytes < 100000; bytes *= 16) {
            every_remainder(part[i], bytes, byte);
            every_remainder(part[i], bytes, byte_with_gaps);
        }
        tm_type_free(part[i]);
    }
}

int main(int argc, char **argv)
{
    size_t sizes[TM_MAX_SIZES], max;
    tm_type_t *types[TM_NTYPES];
    int nsizes;

    tm_init(&argc, &argv, "truncate");
    max = (size_t) tm_arg(argc, argv, 1, 4194305);
    nsizes = tm_sizes(max, sizes);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    tm_type_collection(types);
    for (int i = 0; i < nsizes; i++) {
        size_t n = sizes[i], room[] = {n - 1, 0, n / 2, n > 4096 ? 4096 : 1};

        for (int kind = 0; kind < NKINDS && n > 0; kind++) {
            for (int k = 0; k < 4; k++) {
                if (room[k] < n) {
                    truncate_one(kind, n, types[0], room[k]);
                }
            }
        }
    }
    for (int t = 1; t < TM_NTYPES; t++) {
        for (size_t n = 50; n < 1000000; n *= 12) {
            size_t count = types[t]->size > 0 ? (n - 1) / types[t]->size : 3;

            if (count > 0 && count * types[t]->size < n) {
                truncate_one(t % NKINDS, n, types[t], count);
                truncate_one((t + 3) % NKINDS, n, types[t], (count + 1) / 2);
            }
        }
    }
    elements(types[0], types[8]);
    for (int how = 0; how < 3; how++) {
        many(20, how);
        many(5000, how);
        many(300000, how);
    }
    tm_types_free(types, TM_NTYPES);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
