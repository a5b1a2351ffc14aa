/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors: data in equal blocks at equal distances, in one row or in several, as columns of a
 * matrix, faces of a grid, and one member of an array of structures are.  They are packed and
 * unpacked here.  Open MPI's convertor can do it, too, but takes three to six times as long for
 * blocks of 8 bytes, and has to be prepared for each message.
 *
 *      at     stride                    row_stride
 *      ├─────────┤                      │
 *      ┌─────┐   ┌─────┐   ┌─────┐      ┌─────┐   ┌─────┐   ┌─────┐
 *      │block│   │     │   │     │      │     │   │     │   │     │       n 3, two rows
 *      └─────┘   └─────┘   └─────┘      └─────┘   └─────┘   └─────┘
 *
 * The packed form is that of the convertor, so each side may use either.  Positions are in bytes of
 * the packed form; unlike a convertor, a vector can begin and end anywhere.
 */
#ifndef PML_TM_BLOCKS_H
#define PML_TM_BLOCKS_H

#include "pml_tm.h"

typedef struct mca_pml_tm_blocks {
    char *at;     /* the first block */
    size_t block; /* bytes of a block */
    size_t n;     /* blocks in a row */
    ptrdiff_t stride;
    ptrdiff_t row_stride;
    size_t len; /* bytes of all blocks */
} mca_pml_tm_blocks_t;

/*
 * Describe so many elements of a datatype as a vector.  False: they are none, or may be in a
 * device's memory, which this process cannot copy by itself.
 */
bool mca_pml_tm_blocks_of(const void *buf, size_t count, const ompi_datatype_t *datatype,
                          mca_pml_tm_blocks_t *vector);

/* Pack up to max bytes, from the position offset < vector->len on.  Returns their number. */
size_t mca_pml_tm_blocks_pack(const mca_pml_tm_blocks_t *vector, size_t offset, void *to,
                              size_t max);

/* Unpack len <= vector->len - offset bytes, to the position offset. */
void mca_pml_tm_blocks_unpack(const mca_pml_tm_blocks_t *vector, size_t offset, const void *from,
                              size_t len);

#endif /* PML_TM_BLOCKS_H */
