/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks: recognised in Open MPI's description of a datatype, packed and unpacked.
 *
 * A committed datatype has an optimised description (opt_desc): elements, each a number of equal
 * blocks of a basic type at equal distances, and loops around them.  A vector is one element, or
 * one loop around one element.  A list is several elements, or one loop around all of them.
 *
 * The length that follows from a short description must be that of the datatype.  A long list is
 * not looked through: the datatype says whether it has other loops.
 */
#include "pml_tm/request/pml_tm_blocks.h"

#include "pml_tm/base/pml_tm.h"

#include "fabric/fab_copy.h"
#include "opal/datatype/opal_datatype_internal.h"

typedef mca_pml_tm_row_t row_t;

static inline row_t row_of(const dt_elem_desc_t *desc)
{
    const ddt_elem_desc_t *elem = &desc->elem;

    return (row_t){.disp = elem->disp,
                   .block = elem->blocklen * opal_datatype_local_sizes[elem->common.type],
                   .n = elem->count,
                   .stride = elem->extent};
}

/* ---- recognising -------------------------------------------------------- */

enum { LOOK_MAX = 8 }; /* rows, of a list that is looked through */

/* One dimension: n steps of this many bytes. */
typedef struct steps {
    size_t n;
    ptrdiff_t stride;
} steps_t;

/* Elements of a description, and the loop around them. */
typedef struct rows {
    const dt_elem_desc_t *list;
    size_t n;
    steps_t loop;
} rows_t;

/* False: the description is empty, or has elements outside its first loop. */
static bool find_rows(const opal_datatype_t *type, rows_t *rows)
{
    const dt_elem_desc_t *desc = type->opt_desc.desc;
    size_t n = type->opt_desc.used;

    if (0 == (type->flags & OPAL_DATATYPE_FLAG_COMMITTED) || NULL == desc || 0 == n) {
        return false;
    }
    if (OPAL_DATATYPE_LOOP != desc[0].loop.common.type) {
        *rows = (rows_t){.list = desc, .n = n, .loop = {.n = 1}};
        return true;
    }
    *rows = (rows_t){.list = desc + 1,
                     .n = n - 2,
                     .loop = {.n = desc[0].loop.loops, .stride = desc[0].loop.extent}};
    return n > 2 && 0 != rows->loop.n && desc[0].loop.items == n - 1; /* its end is the last */
}

/* Are all rows data, and do they have so many bytes together? */
static bool is_data(const rows_t *rows, size_t bytes)
{
    for (size_t i = 0; i < rows->n; i++) {
        const ddt_elem_desc_t *elem = &rows->list[i].elem;
        size_t len;
        row_t row;
        if (0 == (elem->common.flags & OPAL_DATATYPE_FLAG_DATA) ||
            elem->common.type >= OPAL_DATATYPE_MAX_PREDEFINED) {
            return false;
        }
        row = row_of(&rows->list[i]);
        if (__builtin_mul_overflow(row.n, row.block, &len) || 0 == len || len > bytes) {
            return false;
        }
        bytes -= len;
    }
    return 0 == bytes;
}

/*
 * The same for a list that is too long to look through: the datatype says that it has no other
 * loops.  The 32 bits that an element has for the number of its blocks are enough below 4 GiB.
 */
static bool is_long_data(const opal_datatype_t *type, const rows_t *rows)
{
    return mca_pml_tm_has_no_other_loops(type, rows->list != type->opt_desc.desc) &&
           type->size <= UINT32_MAX;
}

/* Make one dimension of both if all steps are equal. */
static void join(steps_t *inner, steps_t *outer)
{
    if (1 == inner->n) {
        *inner = *outer;
        *outer = (steps_t){.n = 1};
    } else if (1 == outer->n || outer->stride == (ptrdiff_t) inner->n * inner->stride) {
        inner->n *= outer->n;
        *outer = (steps_t){.n = 1};
    }
}

static void join_row(row_t *row, steps_t *outer)
{
    steps_t inner = {.n = row->n, .stride = row->stride};

    join(&inner, outer);
    row->n = inner.n;
    row->stride = inner.stride;
}

bool mca_pml_tm_blocks_of(const void *buf, size_t count, const opal_datatype_t *type,
                          mca_pml_tm_blocks_t *blocks)
{
    steps_t elements;
    size_t size;
    rows_t rows;
    row_t row;

    if (0 == (mca_pml_tm.fast & PML_TM_FAST_BLOCKS) || 0 == count || !find_rows(type, &rows)) {
        return false;
    }
    size = 1 == rows.loop.n ? type->size : type->size / rows.loop.n;
    if (size * rows.loop.n != type->size ||
        !(rows.n <= LOOK_MAX ? is_data(&rows, size) : is_long_data(type, &rows))) {
        return false;
    }
    row = row_of(rows.list);
    elements = (steps_t){.n = count, .stride = type->ub - type->lb};
    if (1 == rows.n) {
        join_row(&row, &rows.loop);
        join(&rows.loop, &elements);
        join_row(&row, &rows.loop);
        size = row.n * row.block;
    } else {
        join(&rows.loop, &elements);
    }
    if (1 != elements.n) {
        return false;
    }
    *blocks = (mca_pml_tm_blocks_t){.at = (char *) buf,
                                    .list = 1 == rows.n ? NULL : rows.list,
                                    .num_rows = rows.n,
                                    .row = row,
                                    .stride = rows.loop.stride,
                                    .size = size,
                                    .len = count * type->size};
    return true;
}

/* ---- copying ------------------------------------------------------------ */

#define INLINE inline __attribute__((always_inline))

/* Where the blocks are. */
typedef enum { PACK, UNPACK } way_t;

/* Lengths of blocks, in bytes, for which the compiler makes code of their own. */
#define KNOWN_LENGTHS(DO) DO(4) DO(8) DO(12) DO(16) DO(24) DO(32) DO(64)

/* n blocks of least to most bytes: of a known length, short ones without a call, or others. */
static INLINE void copy_blocks(way_t way, char *restrict strided, ptrdiff_t stride,
                               char *restrict packed, size_t n, size_t block, size_t least,
                               size_t most)
{
    for (size_t i = 0; i < n; i++) {
        char *to = PACK == way ? packed : strided;
        const char *from = PACK == way ? strided : packed;
        if (least == most) {
            memcpy(to, from, least);
        } else if (most <= FAB_COPY_SHORT_MAX) {
            fab_copy_short(to, from, block);
        } else {
            fab_copy(to, from, block);
        }
        strided += stride;
        packed += block;
    }
}

static INLINE void copy_part(way_t way, char *strided, char *packed, size_t len)
{
    fab_copy(PACK == way ? packed : strided, PACK == way ? strided : packed, len);
}

/* ---- vectors ------------------------------------------------------------ */

/* n blocks of a row. */
static INLINE void copy_in_row(way_t way, char *strided, const row_t *row, char *packed, size_t n)
{
#define COPY_IN_ROW(LENGTH)                                                                        \
    case LENGTH:                                                                                   \
        copy_blocks(way, strided, row->stride, packed, n, LENGTH, LENGTH, LENGTH);                 \
        break;

    switch (row->block) {
        KNOWN_LENGTHS(COPY_IN_ROW)
    default:
        if (row->block <= FAB_COPY_SHORT_MAX) {
            copy_blocks(way, strided, row->stride, packed, n, row->block, 1, FAB_COPY_SHORT_MAX);
        } else {
            copy_blocks(way, strided, row->stride, packed, n, row->block, 1, SIZE_MAX);
        }
        break;
    }
}

/* Copy len bytes from the position offset on: parts of blocks at both ends, rows in between. */
static INLINE void copy_vector(way_t way, const mca_pml_tm_blocks_t *blocks, size_t offset,
                               char *packed, size_t len)
{
    const row_t *row = &blocks->row;
    const size_t block = row->block;
    size_t i = offset / block; /* of all blocks, then of its row */
    size_t skip = offset - i * block;
    char *at = blocks->at + row->disp;

    if (i >= row->n) {
        size_t round = i / row->n;
        at += (ptrdiff_t) round * blocks->stride;
        i -= round * row->n;
    }
    while (len > 0) {
        char *strided = at + (ptrdiff_t) i * row->stride + skip;
        size_t part;
        if (0 == skip && len >= block) {
            size_t n = row->n - i;
            n = n * block <= len ? n : len / block;
            copy_in_row(way, strided, row, packed, n);
            part = n * block;
            i += n;
        } else {
            part = len < block - skip ? len : block - skip;
            copy_part(way, strided, packed, part);
            skip = 0;
            i++;
        }
        packed += part;
        len -= part;
        if (i == row->n) {
            i = 0;
            at += blocks->stride;
        }
    }
}

/* ---- lists -------------------------------------------------------------- */

/* A position in a list and in the packed form. */
typedef struct cursor {
    const mca_pml_tm_blocks_t *blocks;
    char *at;                 /* what displacements count from in this round */
    mca_pml_tm_place_t place; /* of the row */
    row_t row;
    size_t first; /* its next block */
    size_t skip;  /* bytes of that block that are done */
    char *packed;
    size_t left; /* bytes to be copied */
} cursor_t;

static INLINE char *next_block(const cursor_t *cur)
{
    return cur->at + cur->row.disp + (ptrdiff_t) cur->first * cur->row.stride;
}

/* Go on to the next row, which may be of the next round. */
static INLINE void next_row(cursor_t *cur)
{
    cur->place.before += cur->row.n * cur->row.block;
    cur->first = 0;
    if (++cur->place.row == cur->blocks->num_rows) {
        cur->place = (mca_pml_tm_place_t){.row = 0};
        cur->at += cur->blocks->stride;
    }
    cur->row = row_of(&cur->blocks->list[cur->place.row]);
}

/* So many blocks of the row, or a part of one, are copied. */
static INLINE void advance(cursor_t *cur, size_t n, size_t bytes)
{
    cur->packed += bytes;
    cur->left -= bytes;
    cur->first += n;
    if (cur->first == cur->row.n) {
        next_row(cur);
    }
}

/* Whole blocks, row after row, as long as these have least to most bytes. */
static INLINE void copy_rows_of(way_t way, cursor_t *cur, size_t least, size_t most)
{
    do {
        size_t block = least == most ? least : cur->row.block;
        size_t n = cur->row.n - cur->first;
        n = n * block <= cur->left ? n : cur->left / block;
        copy_blocks(way, next_block(cur), cur->row.stride, cur->packed, n, block, least, most);
        advance(cur, n, n * block);
    } while (least <= cur->row.block && cur->row.block <= most && cur->row.block <= cur->left);
}

static INLINE void copy_rows(way_t way, cursor_t *cur)
{
#define COPY_ROWS(LENGTH)                                                                          \
    case LENGTH:                                                                                   \
        copy_rows_of(way, cur, LENGTH, LENGTH);                                                    \
        break;

    switch (cur->row.block) {
        KNOWN_LENGTHS(COPY_ROWS)
    default:
        if (cur->row.block <= FAB_COPY_SHORT_MAX) {
            copy_rows_of(way, cur, 1, FAB_COPY_SHORT_MAX);
        } else {
            copy_rows_of(way, cur, FAB_COPY_SHORT_MAX + 1, SIZE_MAX);
        }
        break;
    }
}

/* Go to a position. */
static INLINE void seek(cursor_t *cur, size_t offset)
{
    if (offset >= cur->blocks->size) {
        size_t round = offset / cur->blocks->size;
        cur->at += (ptrdiff_t) round * cur->blocks->stride;
        offset -= round * cur->blocks->size;
    }
    if (offset < cur->place.before) {
        cur->place = (mca_pml_tm_place_t){.row = 0};
    }
    cur->row = row_of(&cur->blocks->list[cur->place.row]);
    while (offset - cur->place.before >= cur->row.n * cur->row.block) {
        next_row(cur);
    }
    cur->skip = offset - cur->place.before;
    if (0 != cur->skip) {
        cur->first = cur->skip / cur->row.block;
        cur->skip -= cur->first * cur->row.block;
    }
}

/* As copy_vector(). */
static INLINE void copy_list(way_t way, const mca_pml_tm_blocks_t *blocks,
                             mca_pml_tm_place_t *place, size_t offset, char *packed, size_t len)
{
    cursor_t cur = {.blocks = blocks, .at = blocks->at, .packed = packed, .left = len};

    if (0 != offset) {
        cur.place = *place;
    }
    seek(&cur, offset);
    while (cur.left > 0) {
        if (0 == cur.skip && cur.row.block <= cur.left) {
            copy_rows(way, &cur);
        } else {
            size_t rest = cur.row.block - cur.skip;
            size_t part = rest < cur.left ? rest : cur.left;
            copy_part(way, next_block(&cur) + cur.skip, cur.packed, part);
            cur.skip = 0;
            advance(&cur, part == rest ? 1 : 0, part);
        }
    }
    *place = cur.place;
}

/* ---- both --------------------------------------------------------------- */

size_t mca_pml_tm_blocks_pack(const mca_pml_tm_blocks_t *blocks, mca_pml_tm_place_t *place,
                              size_t offset, void *to, size_t max)
{
    size_t len = blocks->len - offset < max ? blocks->len - offset : max;

    if (NULL == blocks->list) {
        copy_vector(PACK, blocks, offset, to, len);
    } else {
        copy_list(PACK, blocks, place, offset, to, len);
    }
    return len;
}

void mca_pml_tm_blocks_unpack(const mca_pml_tm_blocks_t *blocks, mca_pml_tm_place_t *place,
                              size_t offset, const void *from, size_t len)
{
    if (NULL == blocks->list) {
        copy_vector(UNPACK, blocks, offset, (char *) from, len);
    } else {
        copy_list(UNPACK, blocks, place, offset, (char *) from, len);
    }
}
