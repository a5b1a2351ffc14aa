/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message, in every way: each mode of sending, blocking, not, and persistent, against each kind
 * of receive, completed by each call, by all patterns, between all pairs of ranks and to self; with
 * datatypes of all kinds on either side; of every size where a protocol changes; into room for
 * more, for just that, and for less. A sweep is a loop over rows; whatever the row, everything is
 * checked: status and counts, of the probe, too; each byte of the data, between and beside it; the
 * send buffer; the handles; the error class; the calls of the error handler, of the right
 * communicator; and the message behind a truncated one.
 *
 * args: [sweeps, separated by commas; none named: modes] [largest size in bytes]
 */
/* TEST: np=1,2,4 args="4194305" timeout=60 quick=yes */
/* TEST: np=8 args="65537" timeout=60 quick=yes */
/* TEST: np=2 args="1048577" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=60 */
/* TEST: np=2 args="4194305" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 quick=yes */
/* TEST: np=2,4 args="65537" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
/* TEST: np=2,3 args="1048577" pml=ob1 env="OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
/* TEST: np=2 args="cut 4194305" timeout=60 quick=yes */
/* TEST: np=2 args="cut 4194305" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 quick=yes */
/* TEST: np=2 args="cut 65537" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
/* TEST: np=1,4 args="cut 1048577" timeout=60 */
/* TEST: np=8 args="cut 65537" timeout=60 */
/* TEST: np=1,2 args="types,blocks 1100000" timeout=90 quick=yes */
/* TEST: np=4 args="types,blocks 300000" timeout=90 */
/* TEST: np=2 args="types,blocks 1100000" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=90 */
/* TEST: np=2 args="types,blocks 1100000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=90 */
/* TEST: np=2 args="types,blocks 70000" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=90 */
/* TEST: np=2 args="types,blocks 400000" env="OMPI_MCA_pml_tm_providers=self,tcp" timeout=60 */
/* TEST: np=2,3 args="types,blocks 70000" pml=ob1 env="OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
/* TEST: np=1,2 args="limits 1048577" timeout=120 */
/* TEST: np=2 args="limits 300000" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=120 */
/* TEST: np=2 args="limits 300000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=120 */
/* TEST: np=2 args="limits 70000" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=120 */
#include "tm_row.h"

/* ---- sweeps ---- ----------------------------------------------------------------------------- */

/* The part of a row that is taken in turns; each sweep has its own numbers. */
static row_t turn(int i)
{
    static const send_t sends[] = {ISEND, ISSEND,     SEND,   ISEND,      SEND_INIT, IBSEND,
                                   SSEND, BSEND_INIT, IRSEND, SSEND_INIT, RSEND};
    row_t row = {.send = sends[i % 11],
                 .recv = (recv_t) (i / 2 % NRECVS),
                 .complete = i % NCOMPLETIONS,
                 .is_any_source = 0 != (i / 3 & 1),
                 .is_any_tag = 0 != (i / 5 & 1),
                 .distance = 1 % tm_size};

    if (!is_valid(&row)) {
        row.send = 0 == i % 3 ? ISSEND : ISEND;
        row.send = SENDRECV == row.recv ? ISEND : row.send;
    }
    return row;
}

static tm_type_t *byte, *packed;

/* Every mode to every receive, of each size a part of them, another one than of the next. */
static void modes(size_t max)
{
    size_t sizes[TM_MAX_SIZES];
    int n = tm_sizes(max, sizes), i = 0;

    for (int distance = 0; distance < tm_size; distance++) {
        set_distance(distance);
        for (int s = 0; s < n; s++) {
            int share = (sizes[s] < 5000 ? 2 : sizes[s] < 60000 ? 4 : 27) * (distance > 1 ? 3 : 1);

            for (int k = 0; k < NSENDS * NRECVS; k++, i++) {
                row_t row = turn(i);

                row.send = (send_t) (k % NSENDS);
                row.recv = (recv_t) (k / NSENDS);
                row.distance = distance;
                row.from = row.to = byte;
                row.nfrom = sizes[s];
                row.nto = sizes[s] + (0 == i % 3 && sizes[s] < 100000 ? 7 : 0);
                if (0 == (k + s + distance) % share) {
                    transfer(&row);
                }
            }
        }
    }
    set_distance(1 % tm_size);
}

static void cut(row_t row, const tm_type_t *from, size_t nfrom, const tm_type_t *to, size_t nto)
{
    row.from = from;
    row.nfrom = nfrom;
    row.to = to;
    row.nto = nto;
    if (nto * to->size < nfrom * from->size) {
        transfer(&row);
    }
}

/*
 * Elements of a type with gaps between them, cut off after every byte of one: the first, one in the
 * middle, and the last.
 */
static void cut_elements(const tm_type_t *part, size_t bytes, const tm_type_t *to, int i)
{
    tm_type_t *vector = tm_type_vector(3, 1, 2, part, part->name);
    size_t count = bytes / vector->size, n = count * vector->size;

    for (size_t rest = 1; rest <= part->size; rest++) {
        cut(turn(i + (int) rest), vector, count, to, rest);
        cut(turn(i + (int) rest + 5), vector, count, to, n / 2 + rest);
        cut(turn(i + (int) rest + 9), vector, count, to, n - rest);
    }
    tm_type_free(vector);
}

static void cuts(size_t max)
{
    size_t sizes[TM_MAX_SIZES];
    tm_type_t *types[TM_NTYPES],
        *part[] = {tm_type_basic(MPI_INT, sizeof(int), "int"),
                   tm_type_basic(MPI_DOUBLE, sizeof(double), "double"),
                   /* not long double: Open MPI 5.0 need not copy its padding */
                   tm_type_basic(MPI_C_DOUBLE_COMPLEX, 2 * sizeof(double), "double complex")};
    int nsizes = tm_sizes(max, sizes), i = 0;

    tm_type_collection(types);
    for (int s = 1; s < nsizes; s++) {
        size_t n = sizes[s], room[] = {n - 1, 0, n / 2, n > 4096 ? 4096 : 1};

        for (int k = 0; k < 4 * NRECVS; k++, i++) {
            row_t row = turn(i);

            row.recv = (recv_t) (k % NRECVS);
            if (!is_valid(&row)) {
                row.send = ISEND;
            }
            if (n > 60000 && 0 != (k + s) % 5) {
                continue; /* another fifth than of the next size */
            }
            cut(row, byte, n, byte, room[k / NRECVS]);
        }
    }
    for (int t = 1; t < TM_NTYPES; t++) {
        for (size_t n = 50; n < max; n *= 12) {
            size_t count = types[t]->size > 0 ? (n - 1) / types[t]->size : 3;

            for (int k = 0; k < 3; k++, i++) {
                cut(turn(i), byte, n, types[t], count / (1 + (size_t) k));
            }
        }
    }
    for (int t = 0; t < 3; t++) {
        for (size_t bytes = 96; bytes < 100000; bytes *= 16, i += 7) {
            cut_elements(part[t], bytes, packed, i);
            cut_elements(part[t], bytes, types[8], i);
        }
        tm_type_free(part[t]);
    }
    tm_types_free(types, TM_NTYPES);
}

/* About size bytes from one type into another, which has room for extra elements more. */
static void between(int i, const tm_type_t *from, const tm_type_t *to, size_t size, size_t extra)
{
    row_t row = turn(i);

    row.from = from;
    row.nfrom = from->size > 0 ? (size + from->size - 1) / from->size : 3;
    row.to = to;
    size = row.nfrom * from->size;
    row.nto = (to->size > 0 ? (size + to->size - 1) / to->size : 2) + extra;
    if (row.nto * to->size >= size) { /* nothing fits into a type of size 0 */
        transfer(&row);
    }
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
            between(4 * i + k, a, b, size, tm_below(&rng, 3));
        }
        tm_type_free(a);
        tm_type_free(b);
    }
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
    TM_MPI(MPI_Pack(from, 1, type, to, LEN, &at, ctl));
    TM_MPI(MPI_Type_free(&type));
    return 0 == memcmp(from, to, LEN);
}

/* Every pair of the collection, and of random nested types. */
static void types(size_t max)
{
    enum { PAIRS = 300, NTYPES = TM_NTYPES + 1 };
    static const size_t sizes[] = {0,    1,    35,    64,    250,   1500,
                                   4000, 4097, 16384, 17000, 65536, 1048577};
    tm_type_t *type[NTYPES];
    int size, turns = 0;

    tm_type_collection(type);
    type[TM_NTYPES] = packed;
    for (int i = 0; i < NTYPES; i++) {
        for (int j = 0; j < NTYPES; j++) {
            for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
                if (sizes[k] <= max && (sizes[k] <= 20000 || 0 == (i + j) % 7)) {
                    between(turns++, type[i], type[j], sizes[k], (size_t) (i + j) % 3);
                }
            }
        }
    }
    tm_types_free(type, TM_NTYPES);
    random_pairs(tm_type_byte, PAIRS, max);
    if (tm_is_pml_tm() && copies_padding()) { /* another PML overwrites its stack */
        random_pairs(tm_type_longest, PAIRS / 8, max);
        TM_MPI(MPI_Type_size(MPI_COMPLEX32, &size));
        if (32 == size) {
            random_pairs(tm_type_complex32, PAIRS / 8, max);
        }
        random_pairs(tm_type_mixed, PAIRS / 8, max);
    }
}

/* ---- blocks ---- ----------------------------------------------------------------------------- */

/*
 * What pml_tm packs by loops of its own, and descriptions that only look alike: `n` blocks, `rows`
 * of them, `planes` of rows, and an element that is resized, if extent is not 0.
 */
typedef struct block_kind {
    const char *name;
    int n, block;
    ptrdiff_t stride;
    int rows;
    ptrdiff_t row_stride;
    int planes;
    ptrdiff_t plane_stride, lb, extent;
    int irregular; /* 1: at distances that differ; 2: of lengths that differ, too */
} block_kind_t;

static const block_kind_t block_kinds[] = {
    {"irregular, long", 3000, 8, 20, .irregular = 1},
    {"irregular, mixed", 1000, 70, 75, .irregular = 2},
    {"irregular, backwards", 1000, 70, -75, .irregular = 2},
    {"irregular with a gap", 100, 16, 20, .lb = -100, .extent = 2200, .irregular = 1},
    {"irregular, several", 100, 16, 20, 5, 3000, .irregular = 1},
    {"irregular, going on", 100, 16, 20, 5, 3000, .extent = 15000, .irregular = 1},
    {"irregular beside", 100, 16, 20, 3, 3000, 2, 20000, .irregular = 1},
    {"row backwards", 10, 8, -24, .irregular = 0},
    {"rows", 7, 8, 24, 5, 300, .irregular = 0},
    {"rows that are one", 7, 8, 24, 5, 7 * 24, .irregular = 0},
    {"rows backwards", 7, 16, 24, 5, -300, .irregular = 0},
    {"rows, each backwards", 7, 4, -24, 3, 300, .irregular = 0},
    {"rows of one block", 1, 8, 8, 6, 40, .irregular = 0},
    {"rows between each other", 7, 8, 24, 3, 8, .irregular = 0},
    {"three dimensions", 5, 8, 24, 4, 200, 3, 1000, .irregular = 0},
    {"element with a gap", 1, 8, 8, .extent = 40},
    {"element before its start", 1, 8, 8, .lb = -16, .extent = 40},
    {"row with a gap", 5, 8, 24, .extent = 300},
    {"row, the next goes on", 5, 8, 24, .extent = 120},
    {"rows with a gap", 7, 8, 24, 5, 300, .extent = 2000},
    {"elements backwards", 5, 8, 24, .extent = -400},
    {"face, C", 5, 8, 64, 4, 448, .extent = 2688},
    {"face, Fortran", 5, 32, 48, .extent = 2688},
};

enum { NBLOCKS = 14, NUM_BLOCK_KINDS = sizeof(block_kinds) / sizeof(block_kinds[0]) };

/* t becomes what is made of it. */
static void nest(tm_type_t **t, tm_type_t *outer)
{
    tm_type_free(*t);
    *t = outer;
}

static tm_type_t *blocks_type(const block_kind_t *kind)
{
    int *lens = tm_calloc((size_t) kind->n, sizeof(*lens));
    MPI_Aint *at = tm_calloc((size_t) kind->n, sizeof(*at));
    tm_type_t *t;

    for (int i = 0; i < kind->n; i++) {
        lens[i] = 2 == kind->irregular ? 1 + i * 7 % kind->block : kind->block;
        at[i] = i * kind->stride + i * i % 5;
    }
    t = 0 != kind->irregular
            ? tm_type_hindexed(kind->n, lens, at, byte, kind->name)
            : tm_type_hvector(kind->n, kind->block, kind->stride, byte, kind->name);
    if (0 != kind->rows) {
        nest(&t, tm_type_hvector(kind->rows, 1, kind->row_stride, t, kind->name));
    }
    if (0 != kind->planes) {
        nest(&t, tm_type_hvector(kind->planes, 1, kind->plane_stride, t, kind->name));
    }
    if (0 != kind->extent) {
        nest(&t, tm_type_resized(t, kind->lb, kind->extent, kind->name));
    } else if (tm_type_extent(t) < t->true_ub - t->true_lb) {
        nest(&t, tm_type_resized(t, t->true_lb, t->true_ub - t->true_lb, kind->name));
    }
    free(lens);
    free(at);
    return t;
}

/* Each to bytes, from bytes, and to the same. */
static void check_blocks(const tm_type_t *t, int i, size_t max)
{
    static const size_t sizes[] = {1, 3000, 20000, 70000, 400000};

    for (size_t k = 0; k <= sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t bytes = 0 == k ? 2 * t->size : sizes[k - 1];

        if (bytes <= max) {
            between(3 * i + (int) k, t, byte, bytes, 0);
            between(3 * i + (int) k + 1, byte, t, (bytes + t->size - 1) / t->size * t->size, 0);
            between(3 * i + (int) k + 2, t, t, bytes, 0);
        }
    }
}

/* A structure whose members, or all but the last of them, are sent. */
static tm_type_t *members(bool has_chars)
{
    tm_type_t *part[] = {tm_type_basic(MPI_DOUBLE, 8, "double"), tm_type_basic(MPI_INT, 4, "int"),
                         tm_type_basic(MPI_CHAR, 1, "char")},
              *t;

    part[0]->is_aligned = true;
    t = has_chars
            ? tm_type_struct(3, (const int[]){1, 1, 3}, (const MPI_Aint[]){0, 16, 24}, part,
                             "members")
            : tm_type_struct(2, (const int[]){1, 2}, (const MPI_Aint[]){0, 8}, part, "structure");
    nest(&t, tm_type_resized(t, 0, has_chars ? 40 : 32, t->name));
    tm_types_free(part, 3);
    return t;
}

/* Long contiguous data that ends after any byte of a block, into room for more, and for fewer. */
static void remainders(int block, size_t base, int step, size_t max)
{
    tm_type_t *t = tm_type_hvector(8, block, block + 40, byte, "8 blocks");
    int i = 0;

    nest(&t, tm_type_resized(t, 0, 8 * (block + 40), t->name));
    for (int rest = 0; rest <= block; rest += step) {
        size_t n = base - base % (size_t) block + (size_t) rest, whole = n / t->size;
        const size_t room[] = {whole + 1, whole, whole + 3, whole / 2};

        for (int k = 0; k < 4 && n <= max; k++, i++) {
            row_t row = turn(i);

            row.from = byte;
            row.nfrom = n;
            row.to = t;
            row.nto = room[k];
            transfer(&row);
        }
    }
    tm_type_free(t);
}

static void blocks(size_t max)
{
    static const int lens[NBLOCKS] = {1, 2, 3, 4, 8, 12, 16, 24, 32, 40, 64, 100, 500, 5000};
    tm_type_t *t;

    for (int i = 0; i < 2 * NBLOCKS + NUM_BLOCK_KINDS; i++) {
        const int len = lens[i / 2 % NBLOCKS];
        const block_kind_t plain = 0 == i % 2
                                       ? (block_kind_t){"row", 10, len, len + 7, .irregular = 0}
                                       : (block_kind_t){"irregular", 20, len, len + 9,
                                                        .irregular = 1};

        t = blocks_type(i < 2 * NBLOCKS ? &plain : &block_kinds[i - 2 * NBLOCKS]);
        check_blocks(t, i, max);
        tm_type_free(t);
    }
    for (int i = 0; i < 2; i++) {
        t = members(0 != i);
        check_blocks(t, i, max);
        tm_type_free(t);
    }
    remainders(256, 70000, 3, max);
    remainders(256, 400000, 37, max);
    remainders(300, 70001, 7, max);
    remainders(4096, 140000, 119, max);
    remainders(64, 70000, 5, max);
}

/* ---- limits ---- ----------------------------------------------------------------------------- */

enum { CONTIGUOUS, SMALL_BLOCKS, LARGE_BLOCKS, BACKWARDS, SCATTERED, NKINDS, MAX_LIMITS = 40 };

/* Blocks of memory with gaps, and what is left of n bytes behind them, in one type. */
static tm_type_t *with_tail(size_t n, size_t block, ptrdiff_t stride, const char *name)
{
    int whole = tm_int(n / block);
    MPI_Aint disp[2] = {0, stride > 0 ? whole * stride + 5 : 2 * (MPI_Aint) block + 5};
    tm_type_t *part[2] = {tm_type_hvector(whole, tm_int(block), stride, byte, "body"),
                          tm_type_contiguous(tm_int(n % block), byte, "tail")},
              *t = tm_type_struct(2, (const int[]){1, 1}, disp, part, name);

    tm_types_free(part, 2);
    return t;
}

/* Pieces of all lengths, not in the order of memory. */
static tm_type_t *scattered(size_t n)
{
    enum { PIECES = 9 };
    int block[PIECES], sum = 0;
    MPI_Aint disp[PIECES], at = -1000;

    for (int i = 0; i < PIECES; i++) {
        block[i] = i < PIECES - 1 ? tm_int(n / 10) + (n > 100 ? i : 0) : tm_int(n) - sum;
        sum += block[i];
    }
    for (int i = 0; i < PIECES; i++) {
        int k = (4 * i + 3) % PIECES;

        disp[k] = at;
        at += block[k] + 1 + i;
    }
    return tm_type_hindexed(PIECES, block, disp, byte, "scattered");
}

/* A type of exactly n bytes. */
static tm_type_t *limit_type(int kind, size_t n)
{
    switch (kind) {
    case SMALL_BLOCKS:
        return with_tail(n, n > 100000 ? 120 : 3, n > 100000 ? 133 : 7, "small blocks");
    case LARGE_BLOCKS:
        return with_tail(n, 5000, 5010, "large blocks");
    case BACKWARDS:
        return with_tail(n, 700, -900, "backwards");
    case SCATTERED:
        return scattered(n);
    default:
        return tm_type_contiguous(tm_int(n), byte, "contiguous");
    }
}

/*
 * The sizes around all thresholds up to max, and around the values of the parameters of the PML:
 * those of rank 0, for on another host some are other.
 */
static int limit_sizes(size_t max, size_t *out)
{
    static const char *const names[] = {"pml_tm_eager_limit",      "pml_tm_stream_limit",
                                        "pml_tm_shm_copy_step",    "pml_tm_shm_ring_size",
                                        "btl_vader_eager_limit",   "btl_sm_eager_limit",
                                        "btl_vader_max_send_size", "btl_self_eager_limit"};
    size_t at[MAX_LIMITS];
    int n = 0, count = 0;

    for (size_t i = 0; i < TM_NTHRESHOLDS; i++) {
        at[n++] = tm_thresholds[i];
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t value = tm_cvar_number(names[i]);

        for (int k = 0; k < n; k++) {
            value = value == at[k] ? 0 : value;
        }
        if (value > 1) {
            at[n++] = value;
        }
    }
    TM_MPI(MPI_Bcast(&n, 1, MPI_INT, 0, ctl));
    TM_MPI(MPI_Bcast(at, n, MPI_UNSIGNED_LONG, 0, ctl));
    for (int i = 0; i < n; i++) {
        for (int d = -1; d <= 1; d++) {
            if (at[i] + 1 <= max) {
                out[count++] = at[i] + (size_t) d;
            }
        }
    }
    return count;
}

/* All pairs of types, in four ways; of the large sizes in one, which differs from pair to pair. */
static void limits(size_t max)
{
    size_t sizes[3 * MAX_LIMITS];
    int nsizes = limit_sizes(max, sizes), i = 0;

    for (int s = 0; s < nsizes; s++) {
        tm_type_t *type[NKINDS];

        for (int k = 0; k < NKINDS; k++) {
            type[k] = limit_type(k, sizes[s]);
        }
        for (int k = 0; k < NKINDS * NKINDS; k++) {
            for (int how = 0; how < (sizes[s] < 100000 ? 4 : 1); how++) {
                row_t row = turn(i++);

                row.from = type[k / NKINDS];
                row.to = type[k % NKINDS];
                row.nfrom = row.nto = 1;
                transfer(&row);
            }
        }
        tm_types_free(type, NKINDS);
    }
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(size_t max);
    } sweeps[] = {
        {"modes", modes}, {"cut", cuts}, {"types", types}, {"blocks", blocks}, {"limits", limits}};
    int first = argc > 1 && (argv[1][0] < '0' || argv[1][0] > '9');
    const char *wanted = first ? argv[1] : "modes";
    size_t max;

    tm_init(&argc, &argv, "basic");
    max = (size_t) tm_arg(argc, argv, 1 + first, 4194305);
    rows_open();
    byte = tm_type_byte();
    packed = tm_type_basic(MPI_PACKED, 1, "packed");
    set_distance(1 % tm_size);
    for (size_t k = 0; k < sizeof(sweeps) / sizeof(sweeps[0]); k++) {
        if (NULL != strstr(wanted, sweeps[k].name)) {
            double start = tm_now();

            sweeps[k].run(max);
            if (0 == tm_rank) {
                printf("basic: %-6s %.1f s\n", sweeps[k].name, tm_now() - start);
            }
        }
    }
    tm_type_free(byte);
    tm_type_free(packed);
    rows_close();
    return tm_finish();
}
