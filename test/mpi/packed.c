/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packed data and unusual types in messages: MPI_PACKED at either side or both, packed piecewise;
 * records, and parts of them, with their counts; MPI_BOTTOM; external32; distributed arrays,
 * subarrays in Fortran order and indexed blocks, against the data that MPI_Pack gives; types whose
 * pieces overlap, which may be sent; types of nothing.
 */
/* TEST: np=1,2,3 timeout=60 quick=yes */
#include "tm_test.h"

static MPI_Comm comm;

typedef struct record {
    int i;
    double d;
    short s;
} record_t;

static record_t record_of(int rank, int i)
{
    return (record_t){.i = 1000000 * rank + i, .d = rank + 0.25 * i, .s = (short) (i * 3 + rank)};
}

static MPI_Datatype record_type(void)
{
    int block[] = {1, 1, 1};
    MPI_Aint disp[] = {offsetof(record_t, i), offsetof(record_t, d), offsetof(record_t, s)};
    MPI_Datatype basic[] = {MPI_INT, MPI_DOUBLE, MPI_SHORT}, tmp, type;

    TM_MPI(MPI_Type_create_struct(3, block, disp, basic, &tmp));
    TM_MPI(MPI_Type_create_resized(tmp, 0, sizeof(record_t), &type));
    TM_MPI(MPI_Type_free(&tmp));
    TM_MPI(MPI_Type_commit(&type));
    return type;
}

static void check_records(const record_t *r, int n, int from, const char *what)
{
    for (int i = 0; i < n; i++) {
        record_t want = record_of(from, i);

        if (!TM_CHECK(r[i].i == want.i && r[i].d == want.d && r[i].s == want.s,
                      "%s: record %d of %d is %d %g %d, expected %d %g %d", what, i, n, r[i].i,
                      r[i].d, r[i].s, want.i, want.d, want.s)) {
            break;
        }
    }
}

/* Bit 0: packed by the sender, bit 1: unpacked by the receiver. */
static void packed(int n, int how)
{
    MPI_Datatype type = record_type();
    record_t *out = tm_calloc((size_t) n, sizeof(*out)), *in = tm_calloc((size_t) n, sizeof(*in));
    int room, at = 0, got;
    unsigned char *obuf, *ibuf;
    MPI_Request req;
    MPI_Status st;

    for (int i = 0; i < n; i++) {
        out[i] = record_of(tm_rank, i);
    }
    TM_MPI(MPI_Pack_size(n, type, comm, &room));
    obuf = tm_alloc((size_t) room);
    ibuf = tm_alloc((size_t) room);
    if (0 != (how & 1)) {
        for (int i = 0; i < n; i++) { /* one by one, the fields of some by themselves */
            if (0 == i % 3) {
                TM_MPI(MPI_Pack(&out[i].i, 1, MPI_INT, obuf, room, &at, comm));
                TM_MPI(MPI_Pack(&out[i].d, 1, MPI_DOUBLE, obuf, room, &at, comm));
                TM_MPI(MPI_Pack(&out[i].s, 1, MPI_SHORT, obuf, room, &at, comm));
            } else {
                TM_MPI(MPI_Pack(&out[i], 1, type, obuf, room, &at, comm));
            }
        }
        TM_MPI(MPI_Isend(obuf, at, MPI_PACKED, tm_dst, how, comm, &req));
    } else {
        TM_MPI(MPI_Isend(out, n, type, tm_dst, how, comm, &req));
    }
    if (0 != (how & 2)) {
        TM_MPI(MPI_Probe(tm_src, how, comm, &st));
        TM_MPI(MPI_Get_count(&st, MPI_PACKED, &got));
        TM_MPI(MPI_Recv(ibuf, got, MPI_PACKED, tm_src, how, comm, &st));
        for (int i = 0, pos = 0; i < n; i++) {
            if (0 == i % 2) {
                TM_MPI(MPI_Unpack(ibuf, got, &pos, &in[i].i, 1, MPI_INT, comm));
                TM_MPI(MPI_Unpack(ibuf, got, &pos, &in[i].d, 1, MPI_DOUBLE, comm));
                TM_MPI(MPI_Unpack(ibuf, got, &pos, &in[i].s, 1, MPI_SHORT, comm));
            } else {
                TM_MPI(MPI_Unpack(ibuf, got, &pos, &in[i], 1, type, comm));
            }
        }
    } else {
        TM_MPI(MPI_Recv(in, n, type, tm_src, how, comm, &st));
        TM_MPI(MPI_Get_count(&st, type, &got));
        TM_CHECK(got == n, "MPI_Get_count of packed records gave %d, expected %d", got, n);
    }
    check_records(in, n, tm_src,
                  1 == how   ? "packed"
                  : 2 == how ? "unpacked"
                             : "packed and unpacked");
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Type_free(&type));
    free(out);
    free(in);
    tm_free(obuf);
    tm_free(ibuf);
}

/*
 * n records, and of one more the first k fields, into memory for records whose fields lie backwards
 * and unaligned: what comes, and the counts of it.
 */
static void partial(int n, int k)
{
    enum { APART = 17, I = 11, D = 3, S = 0 };
    static const int block[] = {1, 1, 1};
    static const MPI_Aint disp[] = {offsetof(record_t, i), offsetof(record_t, d),
                                    offsetof(record_t, s)},
                          other[] = {I, D, S};
    MPI_Datatype basic[] = {MPI_INT, MPI_DOUBLE, MPI_SHORT}, type[2] = {record_type()}, whole, tmp,
                 apart;
    record_t *out = tm_calloc((size_t) n + 1, sizeof(*out)), got;
    unsigned char *in = tm_alloc(APART * ((size_t) n + 1));
    int count, elements, want = 0 == k ? n : MPI_UNDEFINED;
    MPI_Count elements_x;
    MPI_Request req;
    MPI_Status st;

    for (int i = 0; i <= n; i++) {
        out[i] = record_of(tm_rank, i);
    }
    TM_MPI(MPI_Type_create_struct(k, block, disp, basic, &type[1]));
    TM_MPI(MPI_Type_create_struct(2, (const int[]){n, 1},
                                  (const MPI_Aint[]){0, n * (MPI_Aint) sizeof(record_t)}, type,
                                  &whole));
    TM_MPI(MPI_Type_create_struct(3, block, other, basic, &tmp));
    TM_MPI(MPI_Type_create_resized(tmp, 0, APART, &apart));
    TM_MPI(MPI_Type_commit(&whole));
    TM_MPI(MPI_Type_commit(&apart));
    memset(in, 0xee, APART * ((size_t) n + 1));
    TM_MPI(MPI_Isend(out, 1, whole, tm_dst, 8, comm, &req));
    tm_status_reset(&st);
    TM_MPI(MPI_Recv(in, n + 1, apart, tm_src, 8, comm, &st));
    tm_expect_single(&st, tm_src, 8, 14 * (size_t) n + (0 == k ? 0 : 1 == k ? 4 : 12));
    TM_MPI(MPI_Get_count(&st, apart, &count));
    TM_MPI(MPI_Get_elements(&st, apart, &elements));
    TM_MPI(MPI_Get_elements_x(&st, apart, &elements_x));
    TM_CHECK(count == want && elements == 3 * n + k && elements_x == 3 * n + k,
             "%d records and %d fields: count %d, elements %d, %lld", n, k, count, elements,
             (long long) elements_x);
    for (int i = 0; i < n + (k > 0); i++) {
        const unsigned char *p = in + APART * i;

        got = record_of(tm_src, i);
        memcpy(&got.i, p + I, sizeof(got.i));
        if (i < n || k > 1) {
            memcpy(&got.d, p + D, sizeof(got.d));
        }
        if (i < n) {
            memcpy(&got.s, p + S, sizeof(got.s));
        }
        record_t expected = record_of(tm_src, i);
        if (!TM_CHECK(got.i == expected.i && got.d == expected.d && got.s == expected.s &&
                          0xee == p[D - 1] && 0xee == p[APART - 1],
                      "record %d of %d is %d %g %d", i, n, got.i, got.d, got.s)) {
            break;
        }
    }
    tm_expect_fill(in + APART * n + (0 == k ? 0 : S),
                   0 == k   ? APART
                   : 1 == k ? I
                            : D,
                   0xee, "behind a partial record");
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; i++) {
        TM_MPI(MPI_Type_free(&type[i]));
    }
    TM_MPI(MPI_Type_free(&whole));
    TM_MPI(MPI_Type_free(&tmp));
    TM_MPI(MPI_Type_free(&apart));
    free(out);
    tm_free(in);
}

/* Big endian, whatever the machine; sent as bytes. */
static void external32(int n)
{
    MPI_Datatype type = record_type();
    record_t *out = tm_calloc((size_t) n, sizeof(*out)), *in = tm_calloc((size_t) n, sizeof(*in));
    MPI_Aint room, at = 0, pos = 0;
    unsigned char *obuf, *ibuf;
    MPI_Request req;
    MPI_Status st;

    for (int i = 0; i < n; i++) {
        out[i] = record_of(tm_rank, i);
    }
    TM_MPI(MPI_Pack_external_size("external32", n, type, &room));
    TM_CHECK(room == 14 * n, "MPI_Pack_external_size gave %ld, expected %d", (long) room, 14 * n);
    obuf = tm_alloc((size_t) room);
    ibuf = tm_alloc((size_t) room);
    TM_MPI(MPI_Pack_external("external32", out, n, type, obuf, room, &at));
    TM_CHECK(at == room, "MPI_Pack_external wrote %ld of %ld bytes", (long) at, (long) room);
    TM_MPI(MPI_Isend(obuf, tm_int((size_t) at), MPI_BYTE, tm_dst, 7, comm, &req));
    TM_MPI(MPI_Recv(ibuf, tm_int((size_t) room), MPI_BYTE, tm_src, 7, comm, &st));
    tm_expect_status(&st, tm_src, 7, (size_t) room);
    for (int i = 0; i < n; i += 1 + n / 7) {
        const unsigned char *p = ibuf + 14 * i;
        int value = (int) ((unsigned) p[0] << 24 | (unsigned) p[1] << 16 | (unsigned) p[2] << 8 |
                           p[3]);

        TM_CHECK(value == record_of(tm_src, i).i,
                 "external32: record %d begins with %d, expected %d", i, value,
                 record_of(tm_src, i).i);
    }
    TM_MPI(MPI_Unpack_external("external32", ibuf, room, &pos, in, n, type));
    check_records(in, n, tm_src, "external32");
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Type_free(&type));
    free(out);
    free(in);
    tm_free(obuf);
    tm_free(ibuf);
}

/*
 * Send one element of a type of ints and receive it as that type; the contiguous form must be what
 * MPI_Pack makes of it.
 */
static void as_packed(MPI_Datatype type, int nints, const char *name)
{
    int *out = tm_calloc((size_t) nints, sizeof(int)), *in = tm_calloc((size_t) nints, sizeof(int)),
        size, at = 0;
    unsigned char *want, *got, *again;
    MPI_Request req[2];

    for (int i = 0; i < nints; i++) {
        out[i] = i; /* the same on all ranks, so that one's own packing tells what comes */
        in[i] = -1;
    }
    TM_MPI(MPI_Type_commit(&type));
    TM_MPI(MPI_Type_size(type, &size));
    want = tm_alloc((size_t) size);
    got = tm_alloc((size_t) size);
    again = tm_alloc((size_t) size);
    TM_MPI(MPI_Pack(out, 1, type, want, size, &at, comm));
    TM_CHECK(at == size, "%s: MPI_Pack wrote %d of %d bytes", name, at, size);
    for (int i = 0; i < 2; i++) {
        TM_MPI(MPI_Isend(out, 1, type, tm_dst, 20 + i, comm, &req[i]));
    }
    TM_MPI(MPI_Recv(got, size / 4, MPI_INT, tm_src, 20, comm, MPI_STATUS_IGNORE));
    TM_CHECK(0 == memcmp(got, want, (size_t) size),
             "%s: received as ints it is not what MPI_Pack makes", name);
    TM_MPI(MPI_Recv(in, 1, type, tm_src, 21, comm, MPI_STATUS_IGNORE));
    at = 0;
    TM_MPI(MPI_Pack(in, 1, type, again, size, &at, comm));
    TM_CHECK(0 == memcmp(again, want, (size_t) size), "%s: received as the type it differs", name);
    TM_MPI(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Type_free(&type));
    tm_free(want);
    tm_free(got);
    tm_free(again);
    free(out);
    free(in);
}

static void arrays(int n)
{
    int sizes[3] = {n, 8, 6}, sub[3] = {n - n / 3, 3, 5}, start[3] = {n / 4, 2, 1},
        disp[5] = {9 * n, 0, 4 * n, 20 * n, 13 * n};
    int dist[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
        dargs[2] = {3, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 3};
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_subarray(3, sizes, sub, start, MPI_ORDER_FORTRAN, MPI_INT, &type));
    as_packed(type, 48 * n, "subarray in Fortran order");
    TM_MPI(MPI_Type_create_subarray(3, sizes, sub, start, MPI_ORDER_C, MPI_INT, &type));
    as_packed(type, 48 * n, "subarray");
    sizes[1] = 48;
    for (int order = 0; order < 2; order++) {
        TM_MPI(MPI_Type_create_darray(6, 4, 2, sizes, dist, dargs, grid,
                                      0 == order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT,
                                      &type));
        as_packed(type, 48 * n, "distributed array");
    }
    TM_MPI(MPI_Type_create_indexed_block(5, 2 * n, disp, MPI_INT, &type));
    as_packed(type, 48 * n, "indexed blocks");
}

/* The same memory more than once in one message. */
static void overlapping(int n)
{
    int *out = tm_calloc((size_t) n + 20, sizeof(int)),
        *in = tm_calloc(20 * (size_t) n, sizeof(int));
    MPI_Datatype type;
    MPI_Request req;
    MPI_Status st;

    for (int i = 0; i < n + 20; i++) {
        out[i] = 1000 * tm_rank + i;
    }
    type = tm_vector(20, n, 1, MPI_INT);
    TM_MPI(MPI_Isend(out, 1, type, tm_dst, 30, comm, &req));
    TM_MPI(MPI_Recv(in, 20 * n, MPI_INT, tm_src, 30, comm, &st));
    tm_expect_status(&st, tm_src, 30, 20 * (size_t) n * sizeof(int));
    for (int i = 0; i < 20 * n; i++) {
        int want = 1000 * tm_src + i % n + i / n;

        if (!TM_CHECK(in[i] == want, "overlapping pieces: element %d is %d, expected %d", i, in[i],
                      want)) {
            break;
        }
    }
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Type_free(&type));
    free(out);
    free(in);
}

/* Types of size 0, with and without extent, to each other. */
static void nothing(void)
{
    MPI_Datatype type[3];
    MPI_Status st;
    int zero = 0, x = 5, count = -1;
    MPI_Aint at = 100;

    TM_MPI(MPI_Type_contiguous(0, MPI_DOUBLE, &type[0]));
    TM_MPI(MPI_Type_create_hindexed(1, &zero, &at, MPI_INT, &type[1]));
    TM_MPI(MPI_Type_create_resized(type[0], -50, 1000, &type[2]));
    for (int i = 0; i < 3; i++) {
        TM_MPI(MPI_Type_commit(&type[i]));
    }
    for (int i = 0; i < 9; i++) {
        tm_status_reset(&st);
        TM_MPI(MPI_Sendrecv(&x, 1000, type[i % 3], tm_dst, 40, &x, 77, type[i / 3], tm_src, 40,
                            comm, &st));
        tm_expect_single(&st, tm_src, 40, 0);
        TM_MPI(MPI_Get_count(&st, type[i % 3], &count));
        TM_CHECK(5 == x && 0 == count, "a message of nothing: %d in the buffer, count %d", x,
                 count);
    }
    for (int i = 0; i < 3; i++) {
        TM_MPI(MPI_Type_free(&type[i]));
    }
}

/* Absolute addresses: several blocks of memory in one message with MPI_BOTTOM. */
static void bottom(size_t n)
{
    enum { COUNT = 4 };
    unsigned char *out[COUNT], *in[COUNT];
    int block[COUNT];
    MPI_Aint to[COUNT], from[COUNT];
    MPI_Datatype stype, rtype;
    MPI_Request req;
    MPI_Status st;

    for (int i = 0; i < COUNT; i++) {
        block[i] = tm_int(n + (size_t) i);
        out[i] = tm_alloc_data((size_t) block[i], tm_key(tm_rank, tm_dst, i, 7));
        in[i] = tm_alloc((size_t) block[i]);
        memset(in[i], 0xee, (size_t) block[i]);
        TM_MPI(MPI_Get_address(out[i], &from[i]));
        TM_MPI(MPI_Get_address(in[i], &to[i]));
    }
    TM_MPI(MPI_Type_create_hindexed(COUNT, block, from, MPI_BYTE, &stype));
    TM_MPI(MPI_Type_create_hindexed(COUNT, block, to, MPI_BYTE, &rtype));
    TM_MPI(MPI_Type_commit(&stype));
    TM_MPI(MPI_Type_commit(&rtype));
    for (int mode = 0; mode < 2; mode++) {
        TM_MPI(MPI_Irecv(MPI_BOTTOM, 1, rtype, tm_src, 8, comm, &req));
        TM_MPI((0 == mode ? MPI_Send : MPI_Ssend)(MPI_BOTTOM, 1, stype, tm_dst, 8, comm));
        tm_status_reset(&st);
        TM_MPI(MPI_Wait(&req, &st));
        tm_expect_single(&st, tm_src, 8, COUNT * n + COUNT * (COUNT - 1) / 2);
        for (int i = 0; i < COUNT; i++) {
            tm_expect_data(in[i], (size_t) block[i], tm_key(tm_src, tm_rank, i, 7), "MPI_BOTTOM");
            tm_expect_guard(in[i]);
            memset(in[i], 0xee, (size_t) block[i]);
        }
    }
    TM_MPI(MPI_Type_free(&stype));
    TM_MPI(MPI_Type_free(&rtype));
    tm_free_all(out, COUNT);
    tm_free_all(in, COUNT);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "packed");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int n = 1; n < 100000; n *= 9) {
        for (int how = 1; how < 4; how++) {
            packed(n, how);
        }
        for (int i = 0; i < 3; i++) {
            partial(n, i);
        }
        external32(n);
        overlapping(n);
    }
    for (int n = 6; n < 5000; n *= 7) {
        arrays(n);
    }
    for (size_t n = 1; n < 1000000; n *= 11) {
        bottom(n);
    }
    nothing();
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
