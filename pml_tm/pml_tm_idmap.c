/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of pending operations: a growing array of slots with a free list through it.
 */
#include "pml_tm_idmap.h"

#include <stdlib.h>

#define ID_INITIAL_SIZE 64u

void mca_pml_tm_idmap_init(mca_pml_tm_idmap_t *map)
{
    map->slots = NULL;
    map->size = 0;
    map->free = 0;
}

void mca_pml_tm_idmap_fini(mca_pml_tm_idmap_t *map)
{
    free(map->slots);
    mca_pml_tm_idmap_init(map);
}

static int idmap_grow(mca_pml_tm_idmap_t *map)
{
    uint32_t size = 0 == map->size ? ID_INITIAL_SIZE : 2 * map->size;
    mca_pml_tm_id_slot_t *slots;

    if (size > PML_TM_ID_MAX) {
        return -1;
    }
    slots = realloc(map->slots, size * sizeof(*slots));
    if (NULL == slots) {
        return -1;
    }
    for (uint32_t i = map->size; i < size; ++i) {
        /* the first id of a slot is generation 1: 0 is no id */
        slots[i] = (mca_pml_tm_id_slot_t){.object = NULL, .id = i, .next = i + 1};
    }
    map->slots = slots;
    map->free = map->size;
    map->size = size;
    return 0;
}

uint32_t mca_pml_tm_idmap_add(mca_pml_tm_idmap_t *map, void *object)
{
    mca_pml_tm_id_slot_t *slot;

    if (map->free == map->size && 0 != idmap_grow(map)) {
        return 0;
    }
    slot = &map->slots[map->free];
    map->free = slot->next;
    slot->object = object;
    slot->id += PML_TM_ID_MAX;
    if (0 == slot->id) {
        slot->id = PML_TM_ID_MAX; /* slot 0, generation wrapped: 0 is no id */
    }
    return slot->id;
}

void mca_pml_tm_idmap_remove(mca_pml_tm_idmap_t *map, uint32_t id)
{
    uint32_t index = id & (PML_TM_ID_MAX - 1);

    map->slots[index].object = NULL;
    map->slots[index].next = map->free;
    map->free = index;
}
