/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names for pending operations that may travel: 32-bit ids which a peer sends back.
 *
 * An id is {generation:8, index:24}; the generation changes each time an index is reused, so that
 * an id which comes twice, late or forged is told from a live one.  0 is never an id.  Not thread
 * safe: under the fabric's lock.
 */
#ifndef PML_TM_IDMAP_H
#define PML_TM_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#define PML_TM_ID_INDEX_BITS 24
#define PML_TM_ID_MAX        (1u << PML_TM_ID_INDEX_BITS) /* operations pending at once */

typedef struct mca_pml_tm_id_slot {
    void *object;  /* NULL: free */
    uint32_t id;   /* the present one, or the last */
    uint32_t next; /* free list: next free index */
} mca_pml_tm_id_slot_t;

typedef struct mca_pml_tm_idmap {
    mca_pml_tm_id_slot_t *slots;
    uint32_t size; /* slots allocated */
    uint32_t free; /* first free index, size: none */
} mca_pml_tm_idmap_t;

void mca_pml_tm_idmap_init(mca_pml_tm_idmap_t *map);
void mca_pml_tm_idmap_fini(mca_pml_tm_idmap_t *map);

/* A new id for the object; 0: no memory, or PML_TM_ID_MAX are in use. */
uint32_t mca_pml_tm_idmap_add(mca_pml_tm_idmap_t *map, void *object);

/* The object behind an id, or NULL if the id is not alive. */
static inline void *mca_pml_tm_idmap_find(const mca_pml_tm_idmap_t *map, uint32_t id)
{
    uint32_t index = id & (PML_TM_ID_MAX - 1);
    return index < map->size && map->slots[index].id == id ? map->slots[index].object : NULL;
}

/* The id must be alive. */
void mca_pml_tm_idmap_remove(mca_pml_tm_idmap_t *map, uint32_t id);

#endif /* PML_TM_IDMAP_H */
