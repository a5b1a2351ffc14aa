/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 32-bit ids of pending operations.  A message to a peer carries an id, and the peer's answer
 * carries it back.
 *
 * An id is {generation:8, index:24}.  The generation changes each time an index is reused, so that
 * an id that arrives twice, late or forged is not taken for a live one.  0 is never an id.  Not
 * thread safe: callers hold the fabric's lock.
 */
#ifndef FAB_IDMAP_H
#define FAB_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#define FAB_ID_INDEX_BITS 24
#define FAB_ID_MAX        (1u << FAB_ID_INDEX_BITS) /* operations pending at once */

typedef struct fab_id_slot {
    void *object;  /* NULL: free */
    uint32_t id;   /* the current id, or the previous one if the slot is free */
    uint32_t next; /* free slot: index of the next free one */
} fab_id_slot_t;

typedef struct fab_idmap {
    fab_id_slot_t *slots;
    uint32_t size; /* slots allocated */
    uint32_t free; /* first free index; equal to size: none is free */
    uint32_t used; /* number of live ids */
} fab_idmap_t;

void fab_idmap_init(fab_idmap_t *map);
void fab_idmap_fini(fab_idmap_t *map);

/* A new id for the object; 0: no memory, or FAB_ID_MAX ids are live. */
uint32_t fab_idmap_add(fab_idmap_t *map, void *object);

/* The object that a live id names; NULL: the id is not live. */
static inline void *fab_idmap_find(const fab_idmap_t *map, uint32_t id)
{
    uint32_t index = id & (FAB_ID_MAX - 1);
    return index < map->size && map->slots[index].id == id ? map->slots[index].object : NULL;
}

/*
 * To visit all objects: start with *index 0, and call this until it returns NULL.  Returns the next
 * object at or after *index, and advances *index.
 */
void *fab_idmap_next(const fab_idmap_t *map, uint32_t *index);

/* End the id, which must be live. */
void fab_idmap_remove(fab_idmap_t *map, uint32_t id);

#endif /* FAB_IDMAP_H */
