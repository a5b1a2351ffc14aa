/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 32-bit ids of pending operations: they go to a peer, which sends them back.
 *
 * An id is {generation:8, index:24}.  The generation changes each time an index is reused, so an id
 * that comes twice, late or forged is not taken for a live one.  0 is never an id.  Not thread safe:
 * under the fabric's lock.
 */
#ifndef FAB_IDMAP_H
#define FAB_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#define FAB_ID_INDEX_BITS 24
#define FAB_ID_MAX        (1u << FAB_ID_INDEX_BITS) /* operations pending at once */

typedef struct fab_id_slot {
    void *object;  /* NULL: free */
    uint32_t id;   /* the present one, or the last */
    uint32_t next; /* free list: next free index */
} fab_id_slot_t;

typedef struct fab_idmap {
    fab_id_slot_t *slots;
    uint32_t size; /* slots allocated */
    uint32_t free; /* first free index, size: none */
    uint32_t used; /* ids that are alive */
} fab_idmap_t;

void fab_idmap_init(fab_idmap_t *map);
void fab_idmap_fini(fab_idmap_t *map);

/* A new id for the object; 0: no memory, or FAB_ID_MAX are in use. */
uint32_t fab_idmap_add(fab_idmap_t *map, void *object);

/* The object behind an id, or NULL if the id is not alive. */
static inline void *fab_idmap_find(const fab_idmap_t *map, uint32_t id)
{
    uint32_t index = id & (FAB_ID_MAX - 1);
    return index < map->size && map->slots[index].id == id ? map->slots[index].object : NULL;
}

/*
 * The next object at or after *index, which is set behind it; NULL: there are no more.  Begin with 0.
 */
void *fab_idmap_next(const fab_idmap_t *map, uint32_t *index);

/* The id must be alive. */
void fab_idmap_remove(fab_idmap_t *map, uint32_t id);

#endif /* FAB_IDMAP_H */
