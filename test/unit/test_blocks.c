/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks (pml_tm_blocks.h) against Open MPI's convertor: random datatypes, packed and unpacked in
 * pieces that begin and end anywhere.  Each buffer is as long as its data, so that the address
 * sanitizer sees what is read or written beside it.  The seed is TM_TEST_RANDOM.
 *
 * TEST: sources=pml_tm/request/pml_tm_blocks.c,common/fabric/fab_copy.c variants=asan timeout=120 quick=yes
 */
#include "pml_tm/base/pml_tm.h"

#include "opal/datatype/opal_datatype_internal.h"
#include "pml_tm/request/pml_tm_blocks.h"
#include "test/lib/opal.h"
#include "test_cmocka.h"

enum {
    ROUNDS = 10000,   /* random datatypes */
    MAX_BYTES = 5000, /* of one element of a random datatype, about */
    MAX_COUNT = 5,
    GAP = 40, /* bytes between blocks, at most */
    REST = 0xee,
};

mca_pml_tm_t mca_pml_tm = {.fast = PML_TM_FAST_BLOCKS}; /* all of the component that is here */

static opal_convertor_t *master;
static uint64_t random_state;

static size_t below(size_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t) (random_state >> 33) % n;
}

/* ---- datatypes ---------------------------------------------------------- */

/*
 * Open MPI 5.0.7's convertor copies wrongly where the distance of blocks is no multiple of the
 * length of their basic type (opal_datatype_pack_unpack_predefined.h), and of a long double only
 * the bytes that have a value.
 */
static const opal_datatype_t *const basic[] = {
    &opal_datatype_uint1,
#if OPAL_MAJOR_VERSION < 5
    &opal_datatype_int2,  &opal_datatype_int4, &opal_datatype_float8, &opal_datatype_float16,
#endif
};

/* opal_datatype_commit() wants room for one entry more than there are. */
static opal_datatype_t *new_type(void)
{
    return opal_datatype_create(2 * MAX_BYTES);
}

static opal_datatype_t *commit(opal_datatype_t *type)
{
    assert_int_equal(opal_datatype_commit(type), OPAL_SUCCESS);
    return type;
}

/* n elements of a datatype at one distance, which the result takes over. */
static opal_datatype_t *repeat(opal_datatype_t *inner, size_t n, ptrdiff_t extent)
{
    opal_datatype_t *type = new_type();

    assert_int_equal(opal_datatype_add(type, inner, n, 0, extent), OPAL_SUCCESS);
    OBJ_RELEASE(inner);
    return type;
}

static void resize(opal_datatype_t *type, ptrdiff_t low, ptrdiff_t extent)
{
    assert_int_equal(opal_datatype_resize(type, low, extent), OPAL_SUCCESS);
}

typedef enum {
    ONE_LENGTH = 1 << 0,  /* all blocks are of one length */
    ONE_BASIC = 1 << 1,   /* ... and of one basic type */
    BACKWARDS = 1 << 2,   /* each before the one before it */
    REPEATED = 1 << 3,    /* some come twice, or overlap: to pack from only */
    EQUAL_GAPS = 1 << 4,  /* runs of equal distances */
    IN_ORDER = 1 << 5,    /* ... and all of them equal, as a vector */
    SHAPES = (1 << 6) - 1 /* all of these */
} shape_t;

/* Blocks beside each other from a random place on; their distances and lengths by shape. */
static opal_datatype_t *random_list(unsigned shape, size_t num)
{
    const opal_datatype_t *part = basic[below(sizeof(basic) / sizeof(*basic))];
    size_t len = 1 + below(0 == below(4) ? 300 : 9);
    ptrdiff_t at = (ptrdiff_t) below(200) - 100, last = at;
    opal_datatype_t *type = new_type();
    size_t gap = below(GAP);

    while (num-- > 0 && type->size < MAX_BYTES) {
        ptrdiff_t bytes;
        if (0 == (shape & ONE_BASIC)) {
            part = basic[below(sizeof(basic) / sizeof(*basic))];
        }
        if (0 == (shape & ONE_LENGTH)) {
            len = 1 + below(0 == below(8) ? 300 : 9);
        }
        if (0 == (shape & IN_ORDER) && (0 == (shape & EQUAL_GAPS) || 0 == below(5))) {
            gap = below(GAP);
        }
        bytes = (ptrdiff_t) (len * part->size);
        at -= 0 != (shape & BACKWARDS) ? bytes + (ptrdiff_t) gap : 0;
        opal_datatype_add(type, part, len, 0 != (shape & REPEATED) && 0 == below(3) ? last : at,
                          (ptrdiff_t) part->size);
        last = at;
        at += 0 != (shape & BACKWARDS) ? 0 : bytes + (ptrdiff_t) gap;
    }
    return type;
}

/* A list, or several of one, or with gaps around it. */
static opal_datatype_t *random_type(unsigned shape)
{
    opal_datatype_t *type = random_list(shape, 1 + below(0 == below(2) ? 12 : 300));
    ptrdiff_t reach = type->true_ub - type->true_lb;

    if (0 == below(3)) {
        size_t n = 1 + below(4);
        type = repeat(commit(type), n, reach + (ptrdiff_t) below(GAP));
        reach = type->true_ub - type->true_lb;
    }
    if (0 == below(3)) {
        ptrdiff_t extent = reach + (ptrdiff_t) below(GAP);
        resize(type, type->true_lb - (ptrdiff_t) below(GAP), 0 == below(4) ? -extent : extent);
    }
    return commit(type);
}

/* ---- data --------------------------------------------------------------- */

/* Memory of so many elements. */
typedef struct memory {
    char *all, *buf; /* buf: what a program would give to MPI */
    size_t size;
} memory_t;

static memory_t memory_of(const opal_datatype_t *type, size_t count, int value)
{
    ptrdiff_t last = (ptrdiff_t) (count - 1) * (type->ub - type->lb);
    ptrdiff_t low = type->true_lb + (last < 0 ? last : 0);
    memory_t m = {.size = (size_t) (type->true_ub + (last > 0 ? last : 0) - low)};

    m.all = malloc(m.size);
    assert_non_null(m.all);
    memset(m.all, value, m.size);
    m.buf = (char *) ((uintptr_t) m.all - (uintptr_t) low);
    return m;
}

static void fill(char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char) below(256);
    }
}

/* As the convertor has it: all of it into packed, or the first len bytes out of it. */
static void convert(bool is_pack, const opal_datatype_t *type, size_t count, char *buf,
                    char *packed, size_t len)
{
    struct iovec iov = {.iov_base = packed, .iov_len = len};
    opal_convertor_t convertor;
    uint32_t iov_count = 1;
    size_t max = len;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (is_pack) {
        opal_convertor_copy_and_prepare_for_send(master, type, count, buf, 0, &convertor);
        opal_convertor_pack(&convertor, &iov, &iov_count, &max);
    } else {
        opal_convertor_copy_and_prepare_for_recv(master, type, count, buf, 0, &convertor);
        opal_convertor_unpack(&convertor, &iov, &iov_count, &max);
    }
    assert_int_equal(max, len);
    OBJ_DESTRUCT(&convertor);
}

/* The next piece of what is left. */
static size_t piece(size_t left)
{
    size_t n = 1 + below(0 == below(3) ? 20 : 0 == below(2) ? 300 : 9000);

    return n < left ? n : left;
}

/* A place before the first call. */
static const mca_pml_tm_place_t anywhere = {.row = SIZE_MAX};

static void check_pack(const opal_datatype_t *type, size_t count)
{
    memory_t m = memory_of(type, count, 0);
    size_t len = count * type->size, done = 0;
    char *want = malloc(len), *got = malloc(len);
    mca_pml_tm_place_t place = anywhere;
    mca_pml_tm_blocks_t blocks;

    fill(m.all, m.size);
    convert(true, type, count, m.buf, want, len);
    assert_true(mca_pml_tm_blocks_of(m.buf, count, type, &blocks));
    assert_int_equal(blocks.len, len);
    while (done < len) {
        size_t n = piece(len - done);
        assert_int_equal(mca_pml_tm_blocks_pack(&blocks, &place, done, got + done, n), n);
        done += n;
    }
    assert_memory_equal(got, want, len);

    /* from anywhere, also back, and beyond the end */
    for (int i = 0; i < 5; i++) {
        size_t at = below(len), n = piece(len - at);
        memset(got, REST, len);
        n = mca_pml_tm_blocks_pack(&blocks, &place, at, got, at + n == len ? n + 100 : n);
        assert_memory_equal(got, want + at, n);
        assert_true(n == len || (char) REST == got[n]);
    }
    free(m.all);
    free(want);
    free(got);
}

/* A message of only len bytes. */
static void check_unpack(const opal_datatype_t *type, size_t count, size_t len)
{
    memory_t want = memory_of(type, count, REST), got = memory_of(type, count, REST);
    mca_pml_tm_place_t place = anywhere;
    mca_pml_tm_blocks_t blocks;
    char *packed = malloc(len);
    size_t done = 0;

    fill(packed, len);
    convert(false, type, count, want.buf, packed, len);
    assert_true(mca_pml_tm_blocks_of(got.buf, count, type, &blocks));
    while (done < len) {
        size_t n = piece(len - done);
        mca_pml_tm_blocks_unpack(&blocks, &place, done, packed + done, n);
        done += n;
    }
    assert_memory_equal(got.all, want.all, got.size);
    free(packed);
    free(want.all);
    free(got.all);
}

/* ---- tests -------------------------------------------------------------- */

static bool is_blocks(const opal_datatype_t *type, size_t count)
{
    mca_pml_tm_blocks_t blocks;
    char byte;

    return mca_pml_tm_blocks_of(&byte, count, type, &blocks);
}

static void test_random(void **state)
{
    unsigned lists = 0, vectors = 0, others = 0;

    (void) state;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned shape = (unsigned) below(SHAPES + 1);
        opal_datatype_t *type = random_type(shape);
        size_t count = 1 + below(MAX_COUNT);
        if (is_blocks(type, count)) {
            ++*(1 == type->opt_desc.used ? &vectors : &lists);
            check_pack(type, count);
            if (0 == (shape & REPEATED)) {
                check_unpack(type, count, count * type->size);
                check_unpack(type, count, 1 + below(count * type->size));
            }
        } else {
            ++others;
        }
        OBJ_RELEASE(type);
    }
    printf("%u lists, %u vectors, %u others\n", lists, vectors, others);
    assert_true(lists > ROUNDS / 2 && vectors > ROUNDS / 50 && others < ROUNDS / 5);
}

/* A list of one length in all ways that this is copied, and one that begins and ends otherwise. */
static void test_lengths(void **state)
{
    (void) state;
    for (size_t len = 1; len < 140; len++) {
        opal_datatype_t *type = new_type();
        for (size_t i = 0; i < 30; i++) {
            opal_datatype_add(type, &opal_datatype_uint1, 0 == i || 29 == i ? 5 : len,
                              (ptrdiff_t) (i * 200 + i * i % 7), 1);
        }
        commit(type);
        assert_true(is_blocks(type, 1));
        check_pack(type, 2);
        check_unpack(type, 3, 3 * type->size);
        OBJ_RELEASE(type);
    }
}

static opal_datatype_t *irregular(size_t num)
{
    opal_datatype_t *type = new_type();

    for (size_t i = 0; i < num; i++) {
        opal_datatype_add(type, &opal_datatype_float8, 1 + i % 2, (ptrdiff_t) (100 * i + i % 3), 8);
    }
    return type;
}

/* The place tells the next call where it is in the list. */
static void test_place(void **state)
{
    opal_datatype_t *type = commit(irregular(500));
    mca_pml_tm_place_t place = anywhere;
    memory_t m = memory_of(type, 1, 0);
    mca_pml_tm_blocks_t blocks;
    char *packed = malloc(type->size);

    (void) state;
    assert_true(mca_pml_tm_blocks_of(m.buf, 1, type, &blocks));
    mca_pml_tm_blocks_pack(&blocks, &place, 0, packed, type->size - 1);
    assert_int_equal(place.row, type->opt_desc.used - 1);
    mca_pml_tm_blocks_unpack(&blocks, &place, 0, packed, 1);
    assert_int_equal(place.row, 0);
    free(packed);
    free(m.all);
    OBJ_RELEASE(type);
}

/* What is a list, and what is not, with a description of any length. */
static void test_recognised(void **state)
{
    (void) state;
    for (size_t num = 3; num < 40; num++) {
        opal_datatype_t *type = commit(irregular(num)), *twice;

        assert_true(is_blocks(type, 1) && is_blocks(type, 7));
        type = commit(repeat(type, 4, 5000)); /* one loop around all */
        assert_true(is_blocks(type, 1));
        assert_false(is_blocks(type, 2));
        resize(type, 0, 20000); /* the next element goes on where the loop ends */
        assert_true(is_blocks(type, 2));
        check_pack(type, 2);
        twice = new_type(); /* a loop beside others */
        opal_datatype_add(twice, type, 1, 0, 20000);
        opal_datatype_add(twice, &opal_datatype_int4, 1, 30000, 4);
        assert_false(is_blocks(commit(twice), 1));
        OBJ_RELEASE(twice);
        type = commit(repeat(type, 3, 25000)); /* a loop around the loop */
        assert_false(is_blocks(type, 1));
        OBJ_RELEASE(type);
    }
}

static void test_others(void **state)
{
    opal_datatype_t *type = irregular(20);

    (void) state;
    assert_false(is_blocks(type, 1)); /* not committed */
    commit(type);
    assert_false(is_blocks(type, 0));
    mca_pml_tm.fast = 0;
    assert_false(is_blocks(type, 1));
    mca_pml_tm.fast = PML_TM_FAST_BLOCKS;
    assert_true(is_blocks(type, 1));
    OBJ_RELEASE(type);
    type = new_type();
    assert_false(is_blocks(commit(type), 1)); /* nothing */
    OBJ_RELEASE(type);
}

int main(void)
{
    const char *seed = getenv("TM_TEST_RANDOM");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_place),  cmocka_unit_test(test_recognised),
        cmocka_unit_test(test_others),
    };

    if (OPAL_SUCCESS != test_opal_init()) {
        return 1;
    }
    random_state = NULL != seed ? strtoull(seed, NULL, 10) : 1;
    master = opal_convertor_create(opal_local_arch, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
