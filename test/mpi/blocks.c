/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data in blocks: one row of them, several rows, rows that run backwards, elements with gaps,
 * irregular blocks, blocks of all lengths that are copied in a way of their own, and descriptions
 * that only look alike.  Each is sent to bytes, received from bytes, and sent to the same; MPI_Pack
 * and MPI_Unpack say what is expected.
 */
/* TEST: np=1,2 timeout=60 quick=yes */
/* TEST: np=2 env="OMPI_MCA_pml_tm_providers=self,tcp" timeout=60 */
#include "tm_test.h"

enum { MAX_KINDS = 64, TAG = 1 };

typedef struct kind {
    const char *name;
    MPI_Datatype type;
    int block; /* bytes */
} kind_t;

static kind_t kinds[MAX_KINDS];
static int num_kinds;

static void add(const char *name, MPI_Datatype type, int block)
{
    TM_MPI(MPI_Type_commit(&type));
    kinds[num_kinds++] = (kind_t){.name = name, .type = type, .block = block};
}

static MPI_Datatype row(int n, int block, MPI_Aint stride)
{
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_hvector(n, block, stride, MPI_BYTE, &type));
    return type;
}

/* What it is made from is not needed any more. */
static MPI_Datatype nest(int n, MPI_Aint stride, MPI_Datatype inner)
{
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_hvector(n, 1, stride, inner, &type));
    TM_MPI(MPI_Type_free(&inner));
    return type;
}

static MPI_Datatype resize(MPI_Aint low, MPI_Aint extent, MPI_Datatype inner)
{
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_resized(inner, low, extent, &type));
    TM_MPI(MPI_Type_free(&inner));
    return type;
}

static MPI_Datatype face(int order)
{
    const int sizes[] = {6, 7, 8}, parts[] = {4, 5, 1}, starts[] = {1, 1, 3};
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_DOUBLE, &type));
    return type;
}

/* Two blocks, the second longer: no vector. */
static MPI_Datatype uneven(void)
{
    const int lens[] = {8, 12};
    const MPI_Aint at[] = {0, 24};
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_hindexed(2, lens, at, MPI_BYTE, &type));
    return type;
}

static MPI_Datatype indexed(void)
{
    const int at[] = {5, 0, 9, 2};
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_indexed_block(4, 1, at, MPI_INT, &type));
    return type;
}

/* So many blocks at distances that differ, or lengths, too; step < 0: each before the last. */
static MPI_Datatype irregular(int n, int block, bool is_mixed, MPI_Aint step)
{
    MPI_Aint *at = tm_calloc((size_t) n, sizeof(*at));
    int *lens = tm_calloc((size_t) n, sizeof(*lens));
    MPI_Datatype type;

    for (int i = 0; i < n; i++) {
        lens[i] = is_mixed ? 1 + i * 7 % block : block;
        at[i] = i * step + i * i % 5;
    }
    TM_MPI(MPI_Type_create_hindexed(n, lens, at, MPI_BYTE, &type));
    free(at);
    free(lens);
    return type;
}

/* Some members of a structure. */
static MPI_Datatype members(void)
{
    const int lens[] = {1, 1, 3};
    const MPI_Aint at[] = {0, 16, 24};
    const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_struct(3, lens, at, types, &type));
    return resize(0, 40, type);
}

/* A structure of mixed basic types, of which all but the last are sent. */
static MPI_Datatype structure(void)
{
    const int lens[] = {1, 2};
    const MPI_Aint at[] = {0, 8};
    const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT};
    MPI_Datatype type;

    TM_MPI(MPI_Type_create_struct(2, lens, at, types, &type));
    return resize(0, 32, type);
}

static void make_kinds(void)
{
    static const int blocks[] = {1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64, 100, 500, 5000};

    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
        add("row", row(10, blocks[i], blocks[i] + 7), blocks[i]);
        add("irregular", irregular(20, blocks[i], false, blocks[i] + 9), blocks[i]);
    }
    add("irregular, long", irregular(3000, 8, false, 20), 8);
    add("irregular, mixed", irregular(1000, 70, true, 75), 70);
    add("irregular, backwards", irregular(1000, 70, true, -75), 70);
    add("irregular with a gap", resize(-100, 2000, irregular(100, 16, false, 20)), 16);
    add("irregular, several", nest(5, 3000, irregular(100, 16, false, 20)), 16);
    add("irregular, going on", resize(0, 15000, nest(5, 3000, irregular(100, 16, false, 20))), 16);
    add("irregular beside", nest(2, 20000, nest(3, 3000, irregular(100, 16, false, 20))), 16);
    add("members", members(), 3);
    add("row backwards", row(10, 8, -24), 8);
    add("rows", nest(5, 300, row(7, 8, 24)), 8);
    add("rows that are one", nest(5, 7 * 24, row(7, 8, 24)), 8);
    add("rows backwards", nest(5, -300, row(7, 16, 24)), 16);
    add("rows, each backwards", nest(3, 300, row(7, 4, -24)), 4);
    add("rows of one block", nest(6, 40, row(1, 8, 8)), 8);
    add("rows between each other", nest(3, 8, row(7, 8, 24)), 8);
    add("three dimensions", nest(3, 1000, nest(4, 200, row(5, 8, 24))), 8);
    add("element with a gap", resize(0, 40, row(1, 8, 8)), 8);
    add("element before its start", resize(-16, 40, row(1, 8, 8)), 8);
    add("row with a gap", resize(0, 300, row(5, 8, 24)), 8);
    add("row, the next goes on", resize(0, 120, row(5, 8, 24)), 8);
    add("rows with a gap", resize(0, 2000, nest(5, 300, row(7, 8, 24))), 8);
    add("elements backwards", resize(0, -400, row(5, 8, 24)), 8);
    add("face, C", face(MPI_ORDER_C), 8);
    add("face, Fortran", face(MPI_ORDER_FORTRAN), 32);
    add("uneven", uneven(), 4);
    add("indexed", indexed(), 4);
    add("structure", structure(), 8);
}

/* Memory for so many elements, with room on both sides. */
typedef struct memory {
    unsigned char *all, *buf;
    size_t size;
} memory_t;

static memory_t memory_for(const kind_t *kind, int count, int value)
{
    MPI_Aint low, extent, true_low, true_extent;
    memory_t m;
    MPI_Aint span;

    MPI_Type_get_extent(kind->type, &low, &extent);
    MPI_Type_get_true_extent(kind->type, &true_low, &true_extent);
    span = (extent < 0 ? -extent : extent) * count + true_extent +
           (true_low < 0 ? -true_low : true_low) + 64;
    m.size = 2 * (size_t) span;
    m.all = tm_alloc(m.size);
    m.buf = m.all + span;
    memset(m.all, value, m.size);
    return m;
}

/* Send from one memory, receive to the other. */
static void transfer(const void *out, int num_out, MPI_Datatype out_type, void *in, int num_in,
                     MPI_Datatype in_type)
{
    int peer = tm_size > 1 ? tm_rank ^ 1 : tm_rank;
    MPI_Request req[2];

    TM_MPI(MPI_Irecv(in, num_in, in_type, peer, TAG, MPI_COMM_WORLD, &req[0]));
    TM_MPI(MPI_Isend(out, num_out, out_type, peer, TAG, MPI_COMM_WORLD, &req[1]));
    TM_MPI(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
}

/* All ranks have the same data. */
static void check(const kind_t *kind, int count)
{
    memory_t out = memory_for(kind, count, 0), in = memory_for(kind, count, 0xee);
    memory_t want = memory_for(kind, count, 0xee);
    unsigned char *packed, *bytes;
    int len, at = 0;

    MPI_Type_size(kind->type, &len);
    len *= count;
    tm_fill(out.all, out.size, 7);
    packed = tm_alloc((size_t) len);
    bytes = tm_alloc((size_t) len);
    TM_MPI(MPI_Pack(out.buf, count, kind->type, packed, len, &at, MPI_COMM_WORLD));
    at = 0;
    TM_MPI(MPI_Unpack(packed, len, &at, want.buf, count, kind->type, MPI_COMM_WORLD));

    transfer(out.buf, count, kind->type, bytes, len, MPI_BYTE);
    TM_CHECK(0 == memcmp(bytes, packed, (size_t) len), "%d of %s (%d) to bytes", count, kind->name,
             kind->block);
    transfer(packed, len, MPI_BYTE, in.buf, count, kind->type);
    TM_CHECK(0 == memcmp(in.all, want.all, in.size), "bytes to %d of %s (%d)", count, kind->name,
             kind->block);
    memset(in.all, 0xee, in.size);
    transfer(out.buf, count, kind->type, in.buf, count, kind->type);
    TM_CHECK(0 == memcmp(in.all, want.all, in.size), "%d of %s (%d) to the same", count, kind->name,
             kind->block);
    tm_free(out.all);
    tm_free(in.all);
    tm_free(want.all);
    tm_free(packed);
    tm_free(bytes);
}

int main(int argc, char **argv)
{
    static const int bytes[] = {1, 3000, 20000, 70000, 400000};

    tm_init(&argc, &argv, "blocks");
    make_kinds();
    for (int k = 0; k < num_kinds; k++) {
        int size;
        MPI_Type_size(kinds[k].type, &size);
        check(&kinds[k], 2);
        for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
            check(&kinds[k], (bytes[i] + size - 1) / size);
        }
    }
    for (int k = 0; k < num_kinds; k++) {
        TM_MPI(MPI_Type_free(&kinds[k].type));
    }
    return tm_finish();
}
