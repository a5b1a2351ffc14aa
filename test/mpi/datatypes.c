/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Derived datatypes: every pair of a collection of types and random nested types as sender and
 * receiver, with sizes of all protocols, checked byte by byte against the types' own layouts, with
 * the gaps; partial receives and their counts; MPI_BOTTOM; mixed basic types; MPI_PACKED.
 *
 * args: [largest size] [random type pairs]
 */
/* TEST: np=1,2 args="1100000 300" timeout=90 */
/* TEST: np=4 args="300000 200" timeout=90 */
/* TEST: np=2 args="1100000 300" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=90 */
/* TEST: np=2 args="1100000 300" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=90 */
/* TEST: np=2 args="70000 300" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=90 */
/* TEST: np=2,3 pml=ob1 env="OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
#include "tm_counter.h"
#include "tm_test.h"
#include "tm_types.h"

static MPI_Comm comm;
static int next_tag;

/* What a status says after bytes have been received into a type. */
static void check_counts(const MPI_Status *st, const tm_type_t *type, size_t bytes)
{
    int count = -1, elements = -1,
        want = 0 == type->size ? (0 == bytes ? 0 : MPI_UNDEFINED) : MPI_UNDEFINED;

    if (type->size > 0 && 0 == bytes % type->size) {
        want = (int) (bytes / type->size);
    }
    MPI_Get_count(st, type->mpi, &count);
    MPI_Get_elements(st, type->mpi, &elements);
    TM_CHECK(count == want, "MPI_Get_count in type %s is %d, expected %d (%zu bytes)", type->name,
             count, want, bytes);
    TM_CHECK(0 == type->size || type->is_aligned || elements == (int) bytes,
             "MPI_Get_elements in type %s is %d, expected %zu", type->name, elements, bytes);
}

/* About size bytes from one type into another, which has room for extra elements more. */
static void transfer(const tm_type_t *from, const tm_type_t *to, size_t size, size_t extra)
{
    int tag = next_tag++ % 30000, how = tag % 5;
    size_t nfrom = from->size > 0 ? (size + from->size - 1) / from->size : 3,
           bytes = nfrom * from->size;
    size_t nto = (to->size > 0 ? (bytes + to->size - 1) / to->size : 2) + extra;
    tm_layout_t out = tm_layout_alloc(from, nfrom), in = tm_layout_alloc(to, nto);
    MPI_Request sreq = MPI_REQUEST_NULL, rreq = MPI_REQUEST_NULL;
    MPI_Message msg;
    MPI_Status st;

    if (nto * to->size < bytes) {
        goto done; /* nothing fits into a type of size 0 */
    }
    tm_layout_write(&out, bytes, tm_key(tm_rank, tm_dst, tag, 0), 0x11);
    tm_layout_write(&in, 0, 0, 0xee);
    tm_status_reset(&st);
    if (0 == how) {
        TM_MPI(MPI_Irecv(tm_layout_buf(&in), (int) nto, to->mpi, tm_src, tag, comm, &rreq));
        tm_handshake(tm_src, tm_dst, 31000, comm);
    }
    TM_MPI((1 == how ? MPI_Issend : MPI_Isend)(tm_layout_buf(&out), (int) nfrom, from->mpi, tm_dst,
                                               tag, comm, &sreq));
    if (0 == how) {
        TM_MPI(MPI_Wait(&rreq, &st));
    } else if (1 == how) {
        TM_MPI(MPI_Mprobe(tm_src, tag, comm, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Mrecv(tm_layout_buf(&in), (int) nto, to->mpi, &msg, &st));
    } else if (2 == how) {
        TM_MPI(MPI_Probe(MPI_ANY_SOURCE, tag, comm, &st));
        tm_expect_single(&st, tm_src, tag, bytes);
        check_counts(&st, to, bytes);
        TM_MPI(MPI_Recv(tm_layout_buf(&in), (int) nto, to->mpi, tm_src, tag, comm, &st));
    } else {
        TM_MPI(MPI_Recv(tm_layout_buf(&in), (int) nto, to->mpi, tm_src, tag, comm, &st));
    }
    tm_expect_single(&st, tm_src, tag, bytes);
    check_counts(&st, to, bytes);
    tm_expect_layout(&in, bytes, tm_key(tm_src, tm_rank, tag, 0), 0xee, from->name);
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    tm_expect_layout(&out, bytes, tm_key(tm_rank, tm_dst, tag, 0), 0x11, "send buffer");
done:
    tm_layout_free(&out);
    tm_layout_free(&in);
}

static void all_pairs(size_t max)
{
    static const size_t sizes[] = {0,    1,    35,    64,    250,   1500,
                                   4000, 4097, 16384, 17000, 65536, 1048577};
    tm_type_t *types[TM_NTYPES];

    tm_type_collection(types);
    for (int i = 0; i < TM_NTYPES; i++) {
        for (int j = 0; j < TM_NTYPES; j++) {
            for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
                if (sizes[k] <= max && (sizes[k] <= 20000 || 0 == (i + j) % 7)) {
                    transfer(types[i], types[j], sizes[k], (size_t) (i + j) % 3);
                }
            }
        }
    }
    tm_types_free(types, TM_NTYPES);
    TM_MPI(MPI_Barrier(comm));
}

/*
 * Types made of this one. Both sides must choose the same: the random numbers do not depend on the
 * rank.
 */
static void random_pairs(tm_type_t *(*leaf)(void), int pairs, size_t max)
{
    for (int i = 0; i < pairs; i++) {
        tm_rng_t rng = tm_rng((uint64_t) i, 1234);
        char name[64];

        snprintf(name, sizeof(name), "random %d", i);
        tm_type_t *a = tm_type_random_of(leaf, &rng, 1 + (int) tm_below(&rng, 4), name);
        tm_type_t *b = tm_type_random_of(leaf, &rng, 1 + (int) tm_below(&rng, 4), name);
        for (int k = 0; k < 4; k++) {
            size_t size = tm_rand_size(&rng, max);

            if (size > 100000 && 0 != tm_below(&rng, 4)) {
                size %= 100000;
            }
            transfer(a, b, size, tm_below(&rng, 3));
        }
        tm_type_free(a);
        tm_type_free(b);
    }
    TM_MPI(MPI_Barrier(comm));
}

/*
 * Does Open MPI copy the padding of long double, too?  5.0 does not where the data is not
 * contiguous, and here it is any bytes.
 */
static bool copies_padding(void)
{
    enum { LEN = 2 * sizeof(long double _Complex) };
    unsigned char from[2 * LEN], to[LEN];
    MPI_Datatype type;
    int at = 0;

    memset(from, 0x11, sizeof(from));
    memset(to, 0xee, sizeof(to));
    type = tm_vector(2, 1, 2, MPI_C_LONG_DOUBLE_COMPLEX);
    TM_MPI(MPI_Pack(from, 1, type, to, LEN, &at, comm));
    TM_MPI(MPI_Type_free(&type));
    return 0 == memcmp(from, to, LEN);
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

typedef struct record {
    char c;
    double d[2];
    int i;
    short s;
} record_t;

/* Structs of several basic types: partial elements, and another layout on the other side. */
static void records(int n)
{
    static const int block[] = {1, 2, 1, 1};
    static const MPI_Aint disp[] = {offsetof(record_t, c), offsetof(record_t, d),
                                    offsetof(record_t, i), offsetof(record_t, s)};
    /* the same signature, elsewhere: unaligned, and backwards */
    static const MPI_Aint packed_disp[] = {22, 6, 2, 0};
    MPI_Datatype basic[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_SHORT}, tmp, type, packed;
    record_t *out = tm_alloc((size_t) n * sizeof(*out)), *in = tm_alloc((size_t) n * sizeof(*in));
    unsigned char *bytes = tm_alloc((size_t) n * 24);
    MPI_Request req;
    MPI_Status st;
    int count, elements;

    TM_MPI(MPI_Type_create_struct(4, block, disp, basic, &tmp));
    TM_MPI(MPI_Type_create_resized(tmp, 0, sizeof(record_t), &type));
    TM_MPI(MPI_Type_free(&tmp));
    TM_MPI(MPI_Type_create_struct(4, block, packed_disp, basic, &tmp));
    TM_MPI(MPI_Type_create_resized(tmp, 0, 24, &packed));
    TM_MPI(MPI_Type_free(&tmp));
    TM_MPI(MPI_Type_commit(&type));
    TM_MPI(MPI_Type_commit(&packed));
    memset(bytes, 0xee, (size_t) n * 24);
    for (int i = 0; i < n; i++) {
        out[i] = (record_t){
            .c = (char) i, .d = {i + 0.5, tm_rank}, .i = i * 7, .s = (short) (i + 3)};
    }
    /* To the packed layout and back, one hop each. */
    TM_MPI(MPI_Irecv(bytes, n, packed, tm_src, 9, comm, &req));
    TM_MPI(MPI_Send(out, n, type, tm_dst, 9, comm));
    tm_status_reset(&st);
    TM_MPI(MPI_Wait(&req, &st));
    tm_expect_single(&st, tm_src, 9, (size_t) n * 23);
    MPI_Get_elements(&st, packed, &elements);
    MPI_Get_count(&st, packed, &count);
    TM_CHECK(count == n && elements == 5 * n, "records: count %d elements %d, expected %d %d",
             count, elements, n, 5 * n);
    for (int i = 0; i < n; i++) {
        double d[2];
        int v;
        short s;

        memcpy(&s, bytes + 24 * i, 2);
        memcpy(&v, bytes + 24 * i + 2, 4);
        memcpy(d, bytes + 24 * i + 6, 16);
        if (!TM_CHECK(s == (short) (i + 3) && v == i * 7 && d[0] == i + 0.5 && d[1] == tm_src &&
                          (char) bytes[24 * i + 22] == (char) i && 0xee == bytes[24 * i + 23],
                      "record %d of %d is wrong: %d %d %g %g %d", i, n, s, v, d[0], d[1],
                      bytes[24 * i + 22])) {
            break;
        }
    }
    memset(in, 0xee, (size_t) n * sizeof(*in));
    TM_MPI(MPI_Irecv(in, n, type, tm_dst, 10, comm, &req));
    TM_MPI(MPI_Send(bytes, n, packed, tm_src, 10, comm));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++) {
        if (!TM_CHECK(in[i].c == out[i].c && in[i].d[0] == out[i].d[0] &&
                          in[i].d[1] == out[i].d[1] && in[i].i == out[i].i && in[i].s == out[i].s,
                      "record %d of %d came back wrong", i, n)) {
            break;
        }
    }
    /* A message that ends inside an element: after the char and one double of the last. */
    MPI_Datatype part;
    TM_MPI(MPI_Type_create_struct(2, (const int[]){1, 1}, disp, basic, &tmp));
    TM_MPI(MPI_Type_create_struct(2, (const int[]){n - 1, 1},
                                  (const MPI_Aint[]){0, (n - 1) * (MPI_Aint) sizeof(record_t)},
                                  (MPI_Datatype[]){type, tmp}, &part));
    TM_MPI(MPI_Type_commit(&part));
    memset(in, 0xee, (size_t) n * sizeof(*in));
    TM_MPI(MPI_Irecv(in, n, type, tm_src, 11, comm, &req));
    TM_MPI(MPI_Send(out, 1, part, tm_dst, 11, comm));
    tm_status_reset(&st);
    TM_MPI(MPI_Wait(&req, &st));
    tm_expect_single(&st, tm_src, 11, (size_t) (n - 1) * 23 + 9);
    MPI_Get_elements(&st, type, &elements);
    MPI_Get_count(&st, type, &count);
    TM_CHECK(MPI_UNDEFINED == count && elements == 5 * (n - 1) + 2,
             "partial record: count %d elements %d, expected %d %d", count, elements, MPI_UNDEFINED,
             5 * (n - 1) + 2);
    TM_CHECK(in[n - 1].c == (char) (n - 1) && in[n - 1].d[0] == n - 1 + 0.5,
             "the last record is %d %g", in[n - 1].c, in[n - 1].d[0]);
    tm_expect_fill(&in[n - 1].d[1], 8, 0xee, "behind a partial record");
    TM_MPI(MPI_Type_free(&part));
    TM_MPI(MPI_Type_free(&tmp));
    TM_MPI(MPI_Type_free(&type));
    TM_MPI(MPI_Type_free(&packed));
    tm_free(out);
    tm_free(in);
    tm_free(bytes);
}

/* MPI_Pack at one end, the type at the other, both ways. */
static void packed(size_t size)
{
    tm_type_t *types[TM_NTYPES];

    tm_type_collection(types);
    for (int t = 0; t < TM_NTYPES; t++) {
        size_t count = types[t]->size > 0 ? size / types[t]->size + 1 : 1,
               bytes = count * types[t]->size;
        tm_layout_t out = tm_layout_alloc(types[t], count), in = tm_layout_alloc(types[t], count);
        unsigned char *flat = tm_alloc(bytes);
        int pos = 0;
        MPI_Request req;
        MPI_Status st;

        tm_layout_write(&out, bytes, tm_key(tm_rank, tm_dst, t, 1), 0x11);
        TM_MPI(MPI_Pack(tm_layout_buf(&out), (int) count, types[t]->mpi, flat, (int) bytes, &pos,
                        comm));
        TM_CHECK(pos == (int) bytes, "MPI_Pack of type %s made %d bytes, expected %zu",
                 types[t]->name, pos, bytes);
        tm_layout_write(&in, 0, 0, 0xee);
        TM_MPI(MPI_Irecv(tm_layout_buf(&in), (int) count, types[t]->mpi, tm_src, t, comm, &req));
        TM_MPI(MPI_Send(flat, pos, MPI_PACKED, tm_dst, t, comm));
        tm_status_reset(&st);
        TM_MPI(MPI_Wait(&req, &st));
        tm_expect_single(&st, tm_src, t, bytes);
        tm_expect_layout(&in, bytes, tm_key(tm_src, tm_rank, t, 1), 0xee, "packed to typed");
        memset(flat, 0, bytes);
        TM_MPI(MPI_Irecv(flat, (int) bytes, MPI_PACKED, tm_src, t, comm, &req));
        TM_MPI(MPI_Send(tm_layout_buf(&out), (int) count, types[t]->mpi, tm_dst, t, comm));
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        tm_expect_data(flat, bytes, tm_key(tm_src, tm_rank, t, 1), "typed to packed");
        tm_layout_free(&out);
        tm_layout_free(&in);
        tm_free(flat);
    }
    tm_types_free(types, TM_NTYPES);
}

int main(int argc, char **argv)
{
    size_t max;
    int size;

    tm_init(&argc, &argv, "datatypes");
    max = (size_t) tm_arg(argc, argv, 1, 1100000);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    all_pairs(max);
    random_pairs(tm_type_byte, (int) tm_arg(argc, argv, 2, 600), max);
    if (tm_is_pml_tm() && copies_padding()) { /* another PML overwrites its stack */
        random_pairs(tm_type_longest, (int) tm_arg(argc, argv, 2, 600) / 8, max);
        TM_MPI(MPI_Type_size(MPI_COMPLEX32, &size));
        if (32 == size) {
            random_pairs(tm_type_complex32, (int) tm_arg(argc, argv, 2, 600) / 8, max);
        }
        random_pairs(tm_type_mixed, (int) tm_arg(argc, argv, 2, 600) / 8, max);
    }
    for (size_t n = 1; n < 1000000; n *= 11) {
        bottom(n);
    }
    records(1);
    records(3);
    records(100);
    records(5000);
    records(50000);
    packed(10);
    packed(3000);
    packed(200000);
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
