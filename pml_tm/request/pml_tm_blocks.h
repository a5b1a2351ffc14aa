/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data in blocks that is packed and unpacked here.  Open MPI's convertor can do it, too, but takes
 * two to six times as long for blocks of 8 bytes, and has to be prepared for each message.
 *
 * A row is blocks of one length at one distance.  The data is rounds: each has the same rows, so
 * many bytes further on.
 *
 *      disp       stride
 *      ├─────────┤├─────────┤
 *      at         ┌─────┐    ┌─────┐    ┌─────┐   ┌──┐  ┌──┐    ┌───────┐
 *                 │block│    │     │    │     │   │  │  │  │    │       │      a round of three rows
 *                 └─────┘    └─────┘    └─────┘   └──┘  └──┘    └───────┘
 *
 *      vector   One row a round, as columns of a matrix, faces of a grid, and one member of an array
 *               of structures have.
 *      list     The rows are elements of Open MPI's description of the datatype, and are read from
 *               there: irregular blocks (MPI_Type_indexed), several members of a structure.
 *
 * The packed form is that of the convertor, so each side may use either.  Positions are in bytes of
 * the packed form; unlike a convertor, blocks can begin and end anywhere.
 */
#ifndef PML_TM_BLOCKS_H
#define PML_TM_BLOCKS_H

#include "pml_tm/base/pml_tm_compat.h"

typedef struct mca_pml_tm_row {
    ptrdiff_t disp; /* of the first block */
    size_t block;   /* bytes of a block */
    size_t n;       /* blocks */
    ptrdiff_t stride;
} mca_pml_tm_row_t;

typedef struct mca_pml_tm_blocks {
    char *at;                       /* what the displacements of the first round count from */
    const union dt_elem_desc *list; /* the rows of a round, in the datatype; NULL: only row */
    size_t num_rows;
    mca_pml_tm_row_t row;
    ptrdiff_t stride; /* from a round to the next */
    size_t size;      /* bytes of a round */
    size_t len;       /* bytes of all */
} mca_pml_tm_blocks_t;

/*
 * Where the last call for a message has ended, so that the next one need not look through the list
 * for its position.  A call at the position 0 begins again.
 */
typedef struct mca_pml_tm_place {
    size_t row;    /* in the list */
    size_t before; /* bytes of the rows before it */
} mca_pml_tm_place_t;

/*
 * Describe so many elements of a datatype as blocks.  Takes the same short time for a list of any
 * length.  False: they are none, or may be in a device's memory, which this process cannot copy by
 * itself.
 */
bool mca_pml_tm_blocks_of(const void *buf, size_t count, const opal_datatype_t *type,
                          mca_pml_tm_blocks_t *blocks);

/*
 * Pack up to max bytes, from the position offset < blocks->len on.  Returns their number.
 */
size_t mca_pml_tm_blocks_pack(const mca_pml_tm_blocks_t *blocks, mca_pml_tm_place_t *place,
                              size_t offset, void *to, size_t max);

/* Unpack len <= blocks->len - offset bytes, to the position offset. */
void mca_pml_tm_blocks_unpack(const mca_pml_tm_blocks_t *blocks, mca_pml_tm_place_t *place,
                              size_t offset, const void *from, size_t len);

#endif /* PML_TM_BLOCKS_H */
