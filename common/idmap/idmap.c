/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of pending operations: an array of slots that grows, and a free list through it.
 */
#include "idmap/idmap.h"

#include <stdlib.h>

#define ID_INITIAL_SIZE 64u

void fab_idmap_init(fab_idmap_t *map)
{
    map->slots = NULL;
    map->size = 0;
    map->free = 0;
    map->used = 0;
}

void fab_idmap_fini(fab_idmap_t *map)
{
    free(map->slots);
    fab_idmap_init(map);
}

static int idmap_grow(fab_idmap_t *map)
{
    uint32_t size = 0 == map->size ? ID_INITIAL_SIZE : 2 * map->size;
    fab_id_slot_t *slots;

    if (size > FAB_ID_MAX) {
        return -1;
    }
    slots = realloc(map->slots, size * sizeof(*slots));
    if (NULL == slots) {
        return -1;
    }
    for (uint32_t i = map->size; i < size; ++i) {
        /* the first id of a slot has generation 1, because 0 is no id */
        slots[i] = (fab_id_slot_t){.object = NULL, .id = i, .next = i + 1};
    }
    map->slots = slots;
    map->free = map->size;
    map->size = size;
    return 0;
}

uint32_t fab_idmap_add(fab_idmap_t *map, void *object)
{
    fab_id_slot_t *slot;

    if (map->free == map->size && 0 != idmap_grow(map)) {
        return 0;
    }
    slot = &map->slots[map->free];
    map->free = slot->next;
    map->used++;
    slot->object = object;
    slot->id += FAB_ID_MAX;
    if (0 == slot->id) {
        slot->id = FAB_ID_MAX; /* index 0 and generation 0 would be id 0, which is none */
    }
    return slot->id;
}

void *fab_idmap_next(const fab_idmap_t *map, uint32_t *index)
{
    void *object = NULL;

    while (NULL == object && *index < map->size) {
        object = map->slots[(*index)++].object;
    }
    return object;
}

void fab_idmap_remove(fab_idmap_t *map, uint32_t id)
{
    uint32_t index = id & (FAB_ID_MAX - 1);

    map->slots[index].object = NULL;
    map->used--;
    map->slots[index].next = map->free;
    map->free = index;
}
