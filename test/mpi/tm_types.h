/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Derived datatypes that know their own layout: each constructor calls MPI's and computes beside
 * it, by the rules of MPI 3.1, 4.1, the list of pieces of memory in the order of the type map. What
 * a send or receive has to do with a buffer follows from that list alone. The
 * collection's types are all made of bytes, so that any two of the same total size may meet in a
 * message.
 *
 * Elements of these types that follow each other never overlap, so that they can be received into.
 */
#ifndef TM_TYPES_H
#define TM_TYPES_H

#include "tm_test.h"

typedef struct tm_piece {
    ptrdiff_t disp;
    size_t len;
} tm_piece_t;

typedef struct tm_type {
    MPI_Datatype mpi;
    tm_piece_t *piece; /* one element, in type map order; neighbours are merged */
    size_t npieces;
    size_t size;                /* bytes of data in an element */
    ptrdiff_t lb, ub;           /* extent: ub - lb */
    ptrdiff_t true_lb, true_ub; /* where the data begins and ends */
    /* by MPI_Type_create_resized, which then decides for all types made of this one */
    bool is_lb_set, is_ub_set;
    bool is_basic;   /* one of MPI's own */
    bool is_aligned; /* MPI would round up its upper bound */
    char name[96];
} tm_type_t;

static inline ptrdiff_t tm_type_extent(const tm_type_t *t)
{
    return t->ub - t->lb;
}

static inline void tm_type_add_piece(tm_type_t *t, ptrdiff_t disp, size_t len)
{
    if (0 == len) {
        return;
    }
    t->size += len;
    if (t->npieces > 0 &&
        t->piece[t->npieces - 1].disp + (ptrdiff_t) t->piece[t->npieces - 1].len == disp) {
        t->piece[t->npieces - 1].len += len;
        return;
    }
    if (0 == (t->npieces & (t->npieces + 1))) {
        t->piece = realloc(t->piece, 2 * (t->npieces + 1) * sizeof(*t->piece));
        if (NULL == t->piece) {
            TM_FATAL("out of memory");
        }
    }
    t->piece[t->npieces++] = (tm_piece_t){disp, len};
}

/* Put n elements of part at disp. The bounds follow the rule for lb and ub markers. */
static inline void tm_type_add_block(tm_type_t *t, bool *has_bounds, ptrdiff_t disp, int n,
                                     const tm_type_t *part)
{
    ptrdiff_t extent = tm_type_extent(part), lb, ub;

    if (0 == n) {
        return;
    }
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < part->npieces; k++) {
            tm_type_add_piece(t, disp + i * extent + part->piece[k].disp, part->piece[k].len);
        }
    }
    lb = disp + part->lb + (extent < 0 ? (n - 1) * extent : 0);
    ub = disp + part->ub + (extent > 0 ? (n - 1) * extent : 0);
    if (!*has_bounds || (part->is_lb_set && !t->is_lb_set) ||
        (part->is_lb_set == t->is_lb_set && lb < t->lb)) {
        t->lb = lb;
    }
    if (!*has_bounds || (part->is_ub_set && !t->is_ub_set) ||
        (part->is_ub_set == t->is_ub_set && ub > t->ub)) {
        t->ub = ub;
    }
    t->is_lb_set |= part->is_lb_set;
    t->is_ub_set |= part->is_ub_set;
    t->is_aligned |= part->is_aligned;
    *has_bounds = true;
}

/* The type is whole: commit it and compare what MPI says about it. */
static inline tm_type_t *tm_type_done(tm_type_t *t, const char *name)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    int size;

    for (size_t i = 0; i < t->npieces; i++) {
        ptrdiff_t end = t->piece[i].disp + (ptrdiff_t) t->piece[i].len;

        t->true_lb = 0 == i || t->piece[i].disp < t->true_lb ? t->piece[i].disp : t->true_lb;
        t->true_ub = 0 == i || end > t->true_ub ? end : t->true_ub;
    }
    snprintf(t->name, sizeof(t->name), "%s", name);
    if (t->is_aligned) {
        MPI_Datatype padded = t->mpi;
        TM_MPI(MPI_Type_create_resized(padded, t->lb, tm_type_extent(t), &t->mpi));
        TM_MPI(MPI_Type_free(&padded));
        t->is_lb_set = t->is_ub_set = true;
    }
    TM_MPI(MPI_Type_commit(&t->mpi));
    TM_MPI(MPI_Type_size(t->mpi, &size));
    TM_MPI(MPI_Type_get_extent(t->mpi, &lb, &extent));
    TM_MPI(MPI_Type_get_true_extent(t->mpi, &true_lb, &true_extent));
    TM_CHECK((size_t) size == t->size, "type %s: size %d, expected %zu", t->name, size, t->size);
    TM_CHECK(0 == t->npieces || (lb == t->lb && extent == tm_type_extent(t)),
             "type %s: bounds %ld %ld, expected %ld %ld", t->name, (long) lb, (long) (lb + extent),
             (long) t->lb, (long) t->ub);
    TM_CHECK(0 == t->npieces || (true_lb == t->true_lb && true_extent == t->true_ub - t->true_lb),
             "type %s: true bounds %ld %ld, expected %ld %ld", t->name, (long) true_lb,
             (long) (true_lb + true_extent), (long) t->true_lb, (long) t->true_ub);
    return t;
}

static inline void tm_type_free(tm_type_t *t)
{
    if (!t->is_basic) {
        TM_MPI(MPI_Type_free(&t->mpi));
    }
    free(t->piece);
    free(t);
}

static inline void tm_types_free(tm_type_t *const *types, int n)
{
    for (int i = 0; i < n; i++) {
        tm_type_free(types[i]);
    }
}

/* ---- constructors ---- ----------------------------------------------------------------------- */

/* A basic type of so many bytes. */
static inline tm_type_t *tm_type_basic(MPI_Datatype mpi, size_t size, const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));

    t->mpi = mpi;
    tm_type_add_piece(t, 0, size);
    t->ub = t->true_ub = (ptrdiff_t) size;
    t->is_basic = true;
    snprintf(t->name, sizeof(t->name), "%s", name);
    return t;
}

static inline tm_type_t *tm_type_byte(void)
{
    return tm_type_basic(MPI_BYTE, 1, "byte");
}

/* The longest basic types. */
static inline tm_type_t *tm_type_longest(void)
{
    tm_type_t *t = tm_type_basic(MPI_C_LONG_DOUBLE_COMPLEX, sizeof(long double _Complex),
                                 "longest");

    t->is_aligned = true;
    return t;
}

/* Fortran's COMPLEX*32, if Open MPI has it: its size is 0 otherwise. */
static inline tm_type_t *tm_type_complex32(void)
{
    tm_type_t *t = tm_type_basic(MPI_COMPLEX32, 32, "complex*32");

    t->is_aligned = true;
    return t;
}

static inline tm_type_t *tm_type_contiguous(int n, const tm_type_t *part, const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    bool has_bounds = false;

    tm_type_add_block(t, &has_bounds, 0, n, part);
    TM_MPI(MPI_Type_contiguous(n, part->mpi, &t->mpi));
    return tm_type_done(t, name);
}

/* stride in bytes. */
static inline tm_type_t *tm_type_hvector(int n, int block, ptrdiff_t stride, const tm_type_t *part,
                                         const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    bool has_bounds = false;

    for (int i = 0; i < n; i++) {
        tm_type_add_block(t, &has_bounds, i * stride, block, part);
    }
    TM_MPI(MPI_Type_create_hvector(n, block, stride, part->mpi, &t->mpi));
    return tm_type_done(t, name);
}

/* stride in elements. */
static inline tm_type_t *tm_type_vector(int n, int block, int stride, const tm_type_t *part,
                                        const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    bool has_bounds = false;

    for (int i = 0; i < n; i++) {
        tm_type_add_block(t, &has_bounds, (ptrdiff_t) i * stride * tm_type_extent(part), block,
                          part);
    }
    TM_MPI(MPI_Type_vector(n, block, stride, part->mpi, &t->mpi));
    return tm_type_done(t, name);
}

static inline tm_type_t *tm_type_hindexed(int n, const int *block, const MPI_Aint *disp,
                                          const tm_type_t *part, const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    bool has_bounds = false;

    for (int i = 0; i < n; i++) {
        tm_type_add_block(t, &has_bounds, disp[i], block[i], part);
    }
    TM_MPI(MPI_Type_create_hindexed(n, block, disp, part->mpi, &t->mpi));
    return tm_type_done(t, name);
}

/* disp in elements. */
static inline tm_type_t *tm_type_indexed(int n, const int *block, const int *disp,
                                         const tm_type_t *part, const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    bool has_bounds = false;

    for (int i = 0; i < n; i++) {
        tm_type_add_block(t, &has_bounds, disp[i] * tm_type_extent(part), block[i], part);
    }
    TM_MPI(MPI_Type_indexed(n, block, disp, part->mpi, &t->mpi));
    return tm_type_done(t, name);
}

static inline tm_type_t *tm_type_struct(int n, const int *block, const MPI_Aint *disp,
                                        tm_type_t *const *part, const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    MPI_Datatype *mpi = tm_calloc((size_t) n, sizeof(*mpi));
    bool has_bounds = false;

    for (int i = 0; i < n; i++) {
        tm_type_add_block(t, &has_bounds, disp[i], block[i], part[i]);
        mpi[i] = part[i]->mpi;
    }
    TM_MPI(MPI_Type_create_struct(n, block, disp, mpi, &t->mpi));
    free(mpi);
    return tm_type_done(t, name);
}

static inline tm_type_t *tm_type_resized(const tm_type_t *part, ptrdiff_t lb, ptrdiff_t extent,
                                         const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));

    for (size_t k = 0; k < part->npieces; k++) {
        tm_type_add_piece(t, part->piece[k].disp, part->piece[k].len);
    }
    t->lb = lb;
    t->ub = lb + extent;
    t->is_lb_set = t->is_ub_set = true;
    t->is_aligned = part->is_aligned;
    TM_MPI(MPI_Type_create_resized(part->mpi, lb, extent, &t->mpi));
    return tm_type_done(t, name);
}

/* A byte and the longest basic type behind it, without a gap. */
static inline tm_type_t *tm_type_mixed(void)
{
    tm_type_t *part[] = {tm_type_byte(), tm_type_longest()}, *t;

    t = tm_type_struct(2, (const int[]){1, 1}, (const MPI_Aint[]){0, 1}, part, "mixed");
    tm_type_free(part[0]);
    tm_type_free(part[1]);
    return t;
}

/* The box [first, first + n) of a rows by cols array of bytes. */
static inline tm_type_t *tm_type_subarray(int rows, int cols, int row, int nrows, int col,
                                          int ncols, const char *name)
{
    tm_type_t *t = tm_calloc(1, sizeof(*t));
    int sizes[2] = {rows, cols}, sub[2] = {nrows, ncols}, start[2] = {row, col};

    for (int i = 0; i < nrows; i++) {
        tm_type_add_piece(t, (ptrdiff_t) (row + i) * cols + col, (size_t) ncols);
    }
    t->ub = (ptrdiff_t) rows * cols;
    t->is_lb_set = t->is_ub_set = true;
    TM_MPI(MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, MPI_BYTE, &t->mpi));
    return tm_type_done(t, name);
}

/* A random nested type, made of this one, of less than 1000 pieces. */
static inline tm_type_t *tm_type_random_of(tm_type_t *(*leaf)(void), tm_rng_t *rng, int depth,
                                           const char *name)
{
    tm_type_t *part = depth <= 1 ? leaf() : tm_type_random_of(leaf, rng, depth - 1, name);
    int block[8], n = 1 + (int) tm_below(rng, 8);
    MPI_Aint disp[8], at = -(MPI_Aint) tm_below(rng, 100);
    tm_type_t *t;

    switch (tm_below(rng, 5)) {
    case 0:
        t = tm_type_contiguous(1 + (int) tm_below(rng, 6), part, name);
        break;
    case 1: {
        int b = 1 + (int) tm_below(rng, 4);
        ptrdiff_t stride = b * tm_type_extent(part) + (ptrdiff_t) tm_below(rng, 30);

        /* Open MPI takes a stride of -1 byte for none given. */
        t = tm_type_hvector(n, b, 0 == tm_below(rng, 3) && 1 != stride ? -stride : stride, part,
                            name);
        break;
    }
    case 2:
    case 3:
        for (int i = 0; i < n; i++) {
            block[i] = (int) tm_below(rng, 4);
            disp[i] = at;
            at += block[i] * tm_type_extent(part) +
                  (MPI_Aint) (tm_below(rng, 2) * tm_below(rng, 40));
        }
        for (int i = n - 1; i > 0 && 0 == tm_below(rng, 3); i--) {
            int j = (int) tm_below(rng, (uint64_t) i + 1), b = block[i];
            MPI_Aint d = disp[i];

            block[i] = block[j];
            disp[i] = disp[j];
            block[j] = b;
            disp[j] = d;
        }
        t = tm_type_hindexed(n, block, disp, part, name);
        break;
    default:
        t = tm_type_resized(part, part->true_lb - 50 + (ptrdiff_t) tm_below(rng, 100),
                            part->true_ub - part->true_lb + (ptrdiff_t) tm_below(rng, 20), name);
        break;
    }
    tm_type_free(part);
    return t;
}

static inline tm_type_t *tm_type_random(tm_rng_t *rng, int depth, const char *name)
{
    return tm_type_random_of(tm_type_byte, rng, depth, name);
}

/* ---- data in them ---- ----------------------------------------------------------------------- */

/* Buffers for messages of a type. */
typedef struct tm_layout {
    const tm_type_t *type;
    size_t count; /* elements */
    /* bytes that belong to the elements, relative to the buffer argument of MPI */
    ptrdiff_t lo, hi;
    unsigned char *mem; /* guarded, hi - lo bytes */
} tm_layout_t;

/* What MPI gets as the buffer. */
static inline void *tm_layout_buf(const tm_layout_t *l)
{
    return l->mem - l->lo;
}

/* Memory for count elements. */
static inline tm_layout_t tm_layout_alloc(const tm_type_t *t, size_t count)
{
    ptrdiff_t extent = tm_type_extent(t), last = count > 0 ? (ptrdiff_t) (count - 1) * extent : 0;
    tm_layout_t l = {.type = t, .count = count};

    if (t->npieces > 0 && count > 0) {
        l.lo = t->true_lb + (last < 0 ? last : 0);
        l.hi = t->true_ub + (last > 0 ? last : 0);
        if (count > 1 && labs(extent) < t->true_ub - t->true_lb) {
            TM_FATAL("elements of type %s overlap", t->name);
        }
    }
    l.mem = tm_alloc((size_t) (l.hi - l.lo));
    return l;
}

static inline void tm_layout_free(tm_layout_t *l)
{
    tm_free(l->mem);
}

/* Write the first bytes of the data of key where the elements have theirs, in type map order. */
static inline void tm_layout_fill(const tm_layout_t *l, unsigned char *mem, size_t bytes,
                                  uint64_t key)
{
    const tm_type_t *t = l->type;
    ptrdiff_t extent = tm_type_extent(t);
    size_t done = 0;

    if (1 == t->npieces && (ptrdiff_t) t->size == extent && l->count > 0) { /* all in one piece */
        tm_fill_at(mem + t->piece[0].disp - l->lo, 0,
                   bytes < l->count * t->size ? bytes : l->count * t->size, key);
        return;
    }
    for (size_t i = 0; i < l->count && done < bytes; i++) {
        for (size_t k = 0; k < t->npieces && done < bytes; k++) {
            size_t n = t->piece[k].len < bytes - done ? t->piece[k].len : bytes - done;

            tm_fill_at(mem + (ptrdiff_t) i * extent + t->piece[k].disp - l->lo, done, n, key);
            done += n;
        }
    }
}

/* The elements get the first bytes of the data of key, everything between and behind byte rest. */
static inline void tm_layout_write(const tm_layout_t *l, size_t bytes, uint64_t key, int rest)
{
    memset(l->mem, rest, (size_t) (l->hi - l->lo));
    tm_layout_fill(l, l->mem, bytes, key);
}

/* ... and this is still so. */
#define tm_expect_layout(l, bytes, key, rest, what)                                                \
    tm_expect_layout_at(__FILE__, __LINE__, l, bytes, key, rest, what)

static inline bool tm_expect_layout_at(const char *file, int line, const tm_layout_t *l,
                                       size_t bytes, uint64_t key, int rest, const char *what)
{
    size_t n = (size_t) (l->hi - l->lo);
    unsigned char *want = malloc(n + 1);
    bool ok = true;

    if (NULL == want) {
        TM_FATAL("out of memory");
    }
    memset(want, rest, n);
    tm_layout_fill(l, want, bytes, key);
    if (n > 0 && 0 != memcmp(want, l->mem, n)) {
        size_t i = 0;

        while (want[i] == l->mem[i]) {
            i++;
        }
        ok = tm_error(file, line,
                      "%s: type %s x %zu, %zu bytes: byte at %ld is 0x%02x, expected 0x%02x%s",
                      what, l->type->name, l->count, bytes, (long) i + l->lo, l->mem[i], want[i],
                      want[i] == rest ? " (not touched?)" : "");
    }
    free(want);
    return tm_expect_guard_at(file, line, l->mem) && ok;
}

/* ---- a collection ---- ----------------------------------------------------------------------- */

enum { TM_NTYPES = 18 };

/* Types of all kinds, to be freed with tm_type_free. */
static inline void tm_type_collection(tm_type_t **out)
{
    static const int block[] = {3, 0, 7, 1, 100, 2}, disp[] = {90, 0, 40, 20, 200, 5};
    static const MPI_Aint hdisp[] = {-300, -100, 10, -77, 100, 333};
    tm_type_t *byte = tm_type_byte(), *part[3];
    int n = 0;

    out[n++] = byte;
    out[n++] = tm_type_contiguous(13, byte, "contiguous 13");
    out[n++] = tm_type_vector(5, 1, 2, byte, "vector of single bytes");
    out[n++] = tm_type_vector(16, 64, 80, byte, "vector of 64 byte blocks");
    out[n++] = tm_type_hvector(4, 4096, 5000, byte, "vector of 4 KiB blocks");
    out[n++] = tm_type_indexed(6, block, disp, byte, "indexed, not in order");
    out[n++] = tm_type_hindexed(6, block, hdisp, byte, "indexed with negative displacements");
    out[n++] = tm_type_hvector(9, 3, -10, byte, "vector with a negative stride");
    out[n++] = tm_type_resized(byte, 0, 3, "byte with gaps");
    out[n++] = tm_type_resized(out[1], -7, 20, "resized with negative lower bound");
    out[n++] = tm_type_resized(out[2], 100, 30, "resized with bounds away from the data");
    out[n++] = tm_type_vector(3, 2, 3, out[6], "vector of indexed");
    out[n++] = tm_type_subarray(20, 30, 3, 10, 5, 12, "subarray");
    out[n++] = tm_type_contiguous(0, byte, "nothing");
    part[0] = byte;
    part[1] = out[2];
    part[2] = out[9];
    tm_type_t *narrow = tm_type_struct(3, (const int[]){4, 2, 3}, (const MPI_Aint[]){0, 8, 60},
                                       part, "narrow struct");
    out[n++] = tm_type_resized(narrow, -3, 120, "struct");
    tm_type_free(narrow);
    part[0] = out[14];
    part[1] = out[13];
    part[2] = out[12];
    narrow = tm_type_struct(3, (const int[]){2, 5, 1}, (const MPI_Aint[]){700, -4, 1000}, part,
                            "narrow struct of structs");
    out[n++] = tm_type_resized(narrow, 0, narrow->true_ub - narrow->true_lb + 10,
                               "struct of structs");
    tm_type_free(narrow);
    out[n++] = tm_type_hvector(2, 3, 4000, out[15], "vector of structs of structs");
    out[n++] = tm_type_contiguous(1000, out[8], "a thousand bytes with gaps");
    if (TM_NTYPES != n) {
        TM_FATAL("%d types in the collection", n);
    }
}

#endif /* TM_TYPES_H */
