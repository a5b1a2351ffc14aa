/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that do not fit 31 or 32 bits: datatypes whose pieces lie gigabytes apart, before and
 * behind the buffer, and whose extent is gigabytes; messages of one byte less than 2 GiB, of
 * exactly 2 and 4 GiB, and of one byte more, and their counts; one of more, of no round length, to
 * a posted receive, and with gaps at both ends. Skipped where too little memory is free.
 *
 * args: extents|totals|strided
 */
/* TEST: np=1,2 args="extents" timeout=60 */
/* TEST: np=2 args="extents" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=2 args="totals" ompi=4.1 timeout=600 short=turns */
/* TEST: np=2 args="strided" timeout=300 short=turns */
#include <sys/mman.h>

#include "tm_test.h"

static const size_t gib = (size_t) 1 << 30;

static MPI_Comm comm;

/* Address space; only what is written takes memory. */
static unsigned char *reserve(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0);

    if (MAP_FAILED == p) {
        TM_FATAL("no %zu bytes of address space", n);
    }
    return p;
}

/* ---- extents --------------------------------------------------------------------------------- */

enum { PIECES = 4, ELEMENTS = 2 };

/*
 * Where the pieces of an element lie, relative to the buffer; the next element follows 5 GiB and a
 * little later.
 */
static const MPI_Aint piece_at[PIECES] = {((MPI_Aint) 3 << 30) + 7, -((MPI_Aint) 5 << 30) / 2, 0,
                                          ((MPI_Aint) 9 << 29) + 100};
static const MPI_Aint element_extent = ((MPI_Aint) 5 << 30) + 300000;

/* n bytes in four pieces. */
static void make_blocks(size_t n, int *block)
{
    block[0] = tm_int(n / 5);
    block[1] = tm_int(n / 3);
    block[2] = 1;
    block[3] = tm_int(n) - block[0] - block[1] - 1;
}

static MPI_Datatype wide_type(size_t n)
{
    MPI_Datatype type, wide;
    int block[PIECES];

    make_blocks(n, block);
    TM_MPI(MPI_Type_create_hindexed(PIECES, block, piece_at, MPI_BYTE, &type));
    TM_MPI(MPI_Type_create_resized(type, 0, element_extent, &wide));
    TM_MPI(MPI_Type_free(&type));
    TM_MPI(MPI_Type_commit(&wide));
    return wide;
}

/* Fill the pieces, or compare them. */
static void wide_data(unsigned char *at, size_t n, uint64_t key, bool is_check)
{
    size_t done = 0;
    int block[PIECES];

    make_blocks(n, block);
    for (int e = 0; e < ELEMENTS; e++) {
        for (int i = 0; i < PIECES; i++) {
            unsigned char *p = at + e * element_extent + piece_at[i];
            size_t len = (size_t) block[i];

            if (!is_check) {
                tm_fill_at(p, done, len, key);
            } else if (!TM_CHECK(tm_match_at(p, done, len, key) == len,
                                 "element %d, piece %d of %zu bytes is wrong", e, i, len)) {
                return;
            }
            done += len;
        }
    }
}

static void extents(void)
{
    static const size_t sizes[] = {8, 30, 5000, 16384, 300000};
    unsigned char *out = reserve(16 * gib), *in = reserve(16 * gib);

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s], bytes = ELEMENTS * n;
        MPI_Datatype wide = wide_type(n);

        /* Bit 0: wide at the sender, bit 1: at the receiver. */
        for (int how = 1; how < 4; how++) {
            unsigned char *a = out + 4 * gib, *b = in + 4 * gib;
            uint64_t mine = tm_key(tm_rank, tm_dst, how, (long) s),
                     theirs = tm_key(tm_src, tm_rank, how, (long) s);
            MPI_Request req;
            MPI_Status st;

            if (0 != (how & 1)) {
                wide_data(a, n, mine, false);
                TM_MPI(MPI_Isend(a, ELEMENTS, wide, tm_dst, how, comm, &req));
            } else {
                tm_fill(a, bytes, mine);
                TM_MPI(MPI_Isend(a, tm_int(bytes), MPI_BYTE, tm_dst, how, comm, &req));
            }
            tm_status_reset(&st);
            if (0 != (how & 2)) {
                TM_MPI(MPI_Recv(b, ELEMENTS, wide, tm_src, how, comm, &st));
                wide_data(b, n, theirs, true);
            } else {
                TM_MPI(MPI_Recv(b, tm_int(bytes), MPI_BYTE, tm_src, how, comm, &st));
                tm_expect_data(b, bytes, theirs, "from a wide type");
            }
            tm_expect_single(&st, tm_src, how, bytes);
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            memset(b, 0, bytes);
        }
        TM_MPI(MPI_Type_free(&wide));
    }
    munmap(out, 16 * gib);
    munmap(in, 16 * gib);
}

/* ---- totals ---------------------------------------------------------------------------------- */

static const size_t unit = (size_t) 1 << 20;

/*
 * n bytes: a unit again and again, stride bytes apart; of a sender it may be less than a unit, or
 * 0: the same memory is sent many times.
 */
static MPI_Datatype total_type(size_t n, MPI_Aint stride)
{
    int whole = tm_int(n / unit), block[2] = {1, tm_int(n % unit)};
    MPI_Aint disp[2] = {0, whole * stride};
    MPI_Datatype parts[2] = {MPI_DATATYPE_NULL, MPI_BYTE}, piece, type;

    TM_MPI(MPI_Type_contiguous(tm_int(unit), MPI_BYTE, &piece));
    TM_MPI(MPI_Type_create_hvector(whole, 1, stride, piece, &parts[0]));
    TM_MPI(MPI_Type_create_struct(2, block, disp, parts, &type));
    TM_MPI(MPI_Type_free(&piece));
    TM_MPI(MPI_Type_free(&parts[0]));
    TM_MPI(MPI_Type_commit(&type));
    return type;
}

static void check_total(const MPI_Status *st, size_t n)
{
    MPI_Count elements = -1;
    int count = 0, want = n <= 0x7fffffff ? (int) n : MPI_UNDEFINED;

    TM_MPI(MPI_Get_elements_x(st, MPI_BYTE, &elements));
    TM_MPI(MPI_Get_count(st, MPI_BYTE, &count));
    TM_CHECK(elements == (MPI_Count) n, "%zu bytes: MPI_Get_elements_x gave %lld", n,
             (long long) elements);
    TM_CHECK(count == want, "%zu bytes: MPI_Get_count gave %d, expected %d", n, count, want);
    TM_MPI(MPI_Get_elements(st, MPI_BYTE, &count));
    TM_CHECK(count == want, "%zu bytes: MPI_Get_elements gave %d, expected %d", n, count, want);
}

/* From rank 0, which has little memory, to rank 1, which has it all. */
static void total(size_t n, size_t out_stride, size_t in_stride, bool is_posted)
{
    size_t whole = n / unit, span = whole * in_stride + n % unit,
           pattern_len = whole * out_stride + unit;
    unsigned char *pattern = tm_alloc(pattern_len);
    MPI_Datatype type = total_type(n, (MPI_Aint) (0 == tm_rank ? out_stride : in_stride));
    MPI_Request req;
    MPI_Status st;

    tm_fill(pattern, pattern_len, n);
    if (0 == tm_rank) {
        TM_MPI(MPI_Send(pattern, 1, type, 1, 1, comm));
        TM_MPI(MPI_Ssend(&n, 1, MPI_UNSIGNED_LONG, 1, 1, comm));
    } else {
        unsigned char *buf = reserve(span + 1);
        unsigned long behind = 0;

        buf[span] = TM_GUARD_BYTE;
        tm_status_reset(&st);
        if (is_posted) {
            TM_MPI(MPI_Irecv(buf, 1, type, MPI_ANY_SOURCE, 1, comm, &req));
            TM_MPI(MPI_Wait(&req, &st));
        } else {
            TM_MPI(MPI_Probe(0, 1, comm, &st));
            check_total(&st, n);
            if (n <= 0x7fffffff) {
                TM_MPI(MPI_Recv(buf, tm_int(n), MPI_BYTE, 0, 1, comm, &st));
            } else {
                TM_MPI(MPI_Recv(buf, 1, type, 0, 1, comm, &st));
            }
        }
        check_total(&st, n);
        TM_MPI(MPI_Recv(&behind, 1, MPI_UNSIGNED_LONG, 0, 1, comm, MPI_STATUS_IGNORE));
        TM_CHECK(behind == n, "the message behind is %lu, expected %zu", behind, n);
        for (size_t i = 0; i <= whole; i++) {
            size_t len = i < whole ? unit : n % unit;
            unsigned char *at = buf + i * in_stride;

            if (!TM_CHECK(0 == memcmp(at, pattern + i * out_stride, len),
                          "%zu bytes: piece %zu is wrong", n, i) ||
                (i < whole && !tm_expect_fill(at + unit, in_stride - unit, 0, "gap"))) {
                break;
            }
        }
        TM_CHECK(TM_GUARD_BYTE == buf[span], "%zu bytes: written behind the buffer", n);
        munmap(buf, span + 1);
    }
    TM_MPI(MPI_Type_free(&type));
    tm_free(pattern);
    TM_MPI(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "huge");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (argc < 2 || 0 == strcmp(argv[1], "extents")) {
        extents();
    } else {
        static const size_t sizes[] = {(size_t) -1 >> 33,      (size_t) 1 << 31,
                                       ((size_t) 1 << 31) + 1, ((size_t) 1 << 32) - 1,
                                       (size_t) 1 << 32,       ((size_t) 1 << 32) + 1};

        if (tm_free_memory(comm) < 5 * gib || 2 != tm_size) {
            return tm_skip("this needs two ranks and 5 GiB of free memory");
        }
        if (0 == strcmp(argv[1], "strided")) {
            total(((size_t) 1 << 32) + 37 * unit + 12345, 0, unit, true);
            total(((size_t) 1 << 32) + 37 * unit + 12345, 4096, unit + 4160, false);
        } else {
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                total(sizes[i], 0, unit, false);
            }
        }
    }
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
