/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors: recognised in Open MPI's description of a datatype, packed and unpacked.
 *
 * A committed datatype has an optimised description (opt_desc): elements, each a number of equal
 * blocks of a basic type at equal distances, and loops around them.  A vector is one element, or
 * one loop around one element.  The length and the bounds that follow from the description must be
 * those of the datatype; a description that means something else is left to the convertor.
 */
#include "pml_tm_blocks.h"

#include "opal/datatype/opal_datatype_internal.h"

/* ---- recognising -------------------------------------------------------- */

/* One dimension: n steps of this many bytes. */
typedef struct steps {
    size_t n;
    ptrdiff_t stride;
} steps_t;

/* Does the datatype reach from its first block just as far as the description says? */
static bool has_bounds(const opal_datatype_t *type, const ddt_elem_desc_t *elem, steps_t row,
                       steps_t rows, size_t block)
{
    ptrdiff_t in_row = (ptrdiff_t) (row.n - 1) * row.stride;
    ptrdiff_t over_rows = (ptrdiff_t) (rows.n - 1) * rows.stride;
    ptrdiff_t low = (in_row < 0 ? in_row : 0) + (over_rows < 0 ? over_rows : 0);
    ptrdiff_t high = (in_row > 0 ? in_row : 0) + (over_rows > 0 ? over_rows : 0);

    return elem->disp + low == type->true_lb &&
           elem->disp + high + (ptrdiff_t) block == type->true_ub;
}

/* The element of a datatype that is a vector, and the loop around it.  NULL: it is none. */
static const ddt_elem_desc_t *find_element(const opal_datatype_t *type, steps_t *rows)
{
    const dt_elem_desc_t *desc = type->opt_desc.desc;
    const ddt_elem_desc_t *elem;

    if (0 == (type->flags & OPAL_DATATYPE_FLAG_COMMITTED) || NULL == desc) {
        return NULL;
    }
    *rows = (steps_t){.n = 1};
    if (1 == type->opt_desc.used) {
        elem = &desc[0].elem;
    } else if (3 == type->opt_desc.used && OPAL_DATATYPE_LOOP == desc[0].loop.common.type &&
               OPAL_DATATYPE_END_LOOP == desc[2].end_loop.common.type) {
        *rows = (steps_t){.n = desc[0].loop.loops, .stride = desc[0].loop.extent};
        elem = &desc[1].elem;
    } else {
        return NULL;
    }
    return 0 != (elem->common.flags & OPAL_DATATYPE_FLAG_DATA) &&
                   elem->common.type < OPAL_DATATYPE_MAX_PREDEFINED
               ? elem
               : NULL;
}

/* Make one row of both dimensions if the steps of all are equal. */
static void join(steps_t *row, steps_t *rows)
{
    if (1 == row->n) {
        *row = *rows;
        *rows = (steps_t){.n = 1};
    } else if (1 == rows->n || rows->stride == (ptrdiff_t) row->n * row->stride) {
        row->n *= rows->n;
        *rows = (steps_t){.n = 1};
    }
}

bool mca_pml_tm_blocks_of(const void *buf, size_t count, const ompi_datatype_t *datatype,
                          mca_pml_tm_blocks_t *vector)
{
    const opal_datatype_t *type = &datatype->super;
    const ddt_elem_desc_t *elem;
    steps_t row, rows;
    size_t block;

    if (0 == (mca_pml_tm.fast & PML_TM_FAST_BLOCKS) || 0 == count) {
        return false;
    }
    elem = find_element(type, &rows);
    if (NULL == elem) {
        return false;
    }
    block = elem->blocklen * opal_datatype_basicDatatypes[elem->common.type]->size;
    row = (steps_t){.n = elem->count, .stride = elem->extent};
    if (0 == block || 0 == row.n || 0 == rows.n || block * row.n * rows.n != type->size ||
        !has_bounds(type, elem, row, rows, block)) {
        return false;
    }
    join(&row, &rows);
    if (1 == rows.n) {
        rows = (steps_t){.n = count, .stride = type->ub - type->lb};
        join(&row, &rows);
    } else if (1 != count) {
        return false;
    }
    *vector = (mca_pml_tm_blocks_t){.at = (char *) buf + elem->disp,
                                    .block = block,
                                    .n = row.n,
                                    .stride = row.stride,
                                    .row_stride = rows.stride,
                                    .len = count * type->size};
    return true;
}

/* ---- copying ------------------------------------------------------------ */

/* Where the strided side is. */
typedef enum { PACK, UNPACK } way_t;

/* n blocks of a length that the compiler knows. */
static inline __attribute__((always_inline)) void copy_known(way_t way, char *restrict strided,
                                                             ptrdiff_t stride,
                                                             char *restrict packed, size_t n,
                                                             size_t block)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(PACK == way ? packed : strided, PACK == way ? strided : packed, block);
        strided += stride;
        packed += block;
    }
}

static inline __attribute__((always_inline)) void copy_blocks(way_t way, char *restrict strided,
                                                              ptrdiff_t stride,
                                                              char *restrict packed, size_t n,
                                                              size_t block)
{
    switch (block) {
    case 4:
        copy_known(way, strided, stride, packed, n, 4);
        break;
    case 8:
        copy_known(way, strided, stride, packed, n, 8);
        break;
    case 16:
        copy_known(way, strided, stride, packed, n, 16);
        break;
    case 24:
        copy_known(way, strided, stride, packed, n, 24);
        break;
    case 32:
        copy_known(way, strided, stride, packed, n, 32);
        break;
    case 64:
        copy_known(way, strided, stride, packed, n, 64);
        break;
    default:
        copy_known(way, strided, stride, packed, n, block);
        break;
    }
}

/* Copy len bytes from the position offset on: parts of blocks at both ends, rows in between. */
static inline __attribute__((always_inline)) void copy(way_t way, const mca_pml_tm_blocks_t *vector,
                                                       size_t offset, char *packed, size_t len)
{
    const size_t block = vector->block;
    size_t i = offset / block; /* of all blocks, then of its row */
    size_t skip = offset - i * block;
    char *row = vector->at;

    if (i >= vector->n) {
        size_t rows = i / vector->n;
        row += (ptrdiff_t) rows * vector->row_stride;
        i -= rows * vector->n;
    }
    while (len > 0) {
        char *strided = row + (ptrdiff_t) i * vector->stride + skip;
        size_t part;
        if (0 == skip && len >= block) {
            size_t n = vector->n - i;
            n = n * block <= len ? n : len / block;
            copy_blocks(way, strided, vector->stride, packed, n, block);
            part = n * block;
            i += n;
        } else {
            part = len < block - skip ? len : block - skip;
            memcpy(PACK == way ? packed : strided, PACK == way ? strided : packed, part);
            skip = 0;
            i++;
        }
        packed += part;
        len -= part;
        if (i == vector->n) {
            i = 0;
            row += vector->row_stride;
        }
    }
}

size_t mca_pml_tm_blocks_pack(const mca_pml_tm_blocks_t *vector, size_t offset, void *to,
                              size_t max)
{
    size_t len = vector->len - offset < max ? vector->len - offset : max;

    copy(PACK, vector, offset, to, len);
    return len;
}

void mca_pml_tm_blocks_unpack(const mca_pml_tm_blocks_t *vector, size_t offset, const void *from,
                              size_t len)
{
    copy(UNPACK, vector, offset, (char *) from, len);
}
