/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer records: their memory, and the table from name to record.
 *
 * A record is released when it is CLOSED, its provider holds nothing for it (ep == NULL), no item
 * is queued and nothing else is noted of it: a failure that is to be reported, a move, a message
 * that is kept.
 */
#include "fabric/fab_core.h"
#include "fabric/fab_look.h"

#include <stdlib.h>

/* ---- records ------------------------------------------------------------ */

static int core_add_chunk(fab_core_t *core)
{
    fab_peer_t *chunk, **busy;
    uint32_t first = core->num_chunks * FAB_CHUNK_PEERS;

    if (core->num_chunks == core->max_chunks) {
        uint32_t max = core->max_chunks > 0 ? 2 * core->max_chunks : 4;
        fab_peer_t **chunks = realloc(core->chunks, max * sizeof(*chunks));
        if (NULL == chunks) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
        core->chunks = chunks;
        core->max_chunks = max;
    }
    busy = realloc(core->busy, (core->num_chunks + 1) * FAB_CHUNK_PEERS * sizeof(fab_peer_t *));
    if (NULL == busy) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    core->busy = busy;
    chunk = aligned_alloc(64, FAB_CHUNK_PEERS * sizeof(*chunk));
    if (NULL == chunk) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (uint32_t i = 0; i < FAB_CHUNK_PEERS; i++) {
        chunk[i] = (fab_peer_t){.name = i + 1 < FAB_CHUNK_PEERS ? first + i + 1
                                                                : core->free_record};
    }
    core->chunks[core->num_chunks++] = chunk;
    core->free_record = first;
    return OPAL_SUCCESS;
}

void fab_record_release(fab_core_t *core, uint32_t number)
{
    *fab_core_record(core, number) = (fab_peer_t){.name = core->free_record};
    core->free_record = number;
}

/* ---- the table: open addressing, linear probing, no tombstones ---------- */

static uint32_t table_mask(const fab_core_t *core)
{
    return (uint32_t) ((UINT64_C(1) << (64 - core->table_shift)) - 1);
}

/*
 * Where a name would be if nothing were in its way. Multiplicative hashing: names differ in few
 * bits.
 */
static uint32_t table_home(const fab_core_t *core, uint64_t name)
{
    return (uint32_t) ((name * UINT64_C(0x9e3779b97f4a7c15)) >> core->table_shift);
}

/* The position that holds the name, or the empty one where it belongs. */
static uint32_t table_find(const fab_core_t *core, uint64_t name)
{
    uint32_t mask = table_mask(core);
    uint32_t at = table_home(core, name);

    while (0 != core->table[at] && fab_core_record(core, core->table[at] - 1)->name != name) {
        at = (at + 1) & mask;
    }
    return at;
}

/* Room for one more: it grows when it is 3/4 full. */
static int table_reserve(fab_core_t *core)
{
    uint32_t *old = core->table, *table;
    size_t old_size = NULL != old ? (size_t) table_mask(core) + 1 : 0;

    if (core->num_peers + (size_t) 1 <= old_size / 4 * 3) {
        return OPAL_SUCCESS;
    }
    table = calloc(old_size > 0 ? 2 * old_size : 64, sizeof(*table));
    if (NULL == table) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    core->table = table;
    core->table_shift = old_size > 0 ? core->table_shift - 1 : 64 - 6;
    for (size_t i = 0; i < old_size; i++) {
        if (0 != old[i]) {
            table[table_find(core, fab_core_record(core, old[i] - 1)->name)] = old[i];
        }
    }
    free(old);
    return OPAL_SUCCESS;
}

/* Empty a position and move up those behind it that would not be found any more. */
static void table_remove(fab_core_t *core, uint32_t at)
{
    uint32_t mask = table_mask(core);
    uint32_t hole = at;

    core->table[hole] = 0;
    for (uint32_t i = (hole + 1) & mask; 0 != core->table[i]; i = (i + 1) & mask) {
        uint32_t home = table_home(core, fab_core_record(core, core->table[i] - 1)->name);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            core->table[hole] = core->table[i];
            core->table[i] = 0;
            hole = i;
        }
    }
}

fab_peer_t *fab_peer_find(fab_t *fab, uint64_t name)
{
    fab_core_t *core = fab_core(fab);
    uint32_t at;

    if (NULL == core->table) {
        return NULL;
    }
    at = table_find(core, name);
    return 0 != core->table[at] ? fab_core_record(core, core->table[at] - 1) : NULL;
}

/* ---- a record comes and goes -------------------------------------------- */

uint32_t fab_record_new(fab_core_t *core, uint64_t name)
{
    uint32_t number;

    if (OPAL_SUCCESS != table_reserve(core) ||
        (FAB_NO_RECORD == core->free_record && OPAL_SUCCESS != core_add_chunk(core))) {
        return FAB_NO_RECORD;
    }
    number = core->free_record;
    core->free_record = (uint32_t) fab_core_record(core, number)->name;
    *fab_core_record(core, number) = (fab_peer_t){.name = name, .fab = &core->fab};
    return number;
}

fab_peer_t *fab_record_enter(fab_core_t *core, uint32_t number)
{
    fab_peer_t *peer = fab_core_record(core, number);

    core->table[table_find(core, peer->name)] = number + 1;
    core->num_peers++;
    fab_counters.peers_opened++;
    fab_look_event(&core->fab, (fab_event_t){.kind = FAB_EVENT_PEER_OPENED, .peer = peer->name});
    return peer;
}

static bool has_kept(const fab_core_t *core, const fab_peer_t *peer)
{
    const fab_kept_t *kept;

    for (int user = 0; user < FAB_NUM_USERS; user++) {
        STAILQ_FOREACH(kept, &core->users[user].kept, link) {
            if (kept->peer == peer) {
                return true;
            }
        }
    }
    return false;
}

void fab_record_try_release(fab_peer_t *peer)
{
    fab_core_t *core = fab_core(peer->fab);
    uint32_t at;

    if (FAB_PEER_CLOSED != peer->state || NULL != peer->ep || NULL != peer->pending ||
        core->running == peer || NULL != fab_drop_of(core, peer) || has_kept(core, peer)) {
        return;
    }
    at = table_find(core, peer->name);
    uint32_t number = core->table[at] - 1;
    table_remove(core, at);
    core->num_peers--;
    fab_record_release(core, number);
}

void fab_peer_left(fab_peer_t *peer)
{
    fab_record_try_release(peer);
}

void fab_record_free(fab_core_t *core)
{
    for (uint32_t i = 0; i < core->num_chunks; i++) {
        free(core->chunks[i]);
    }
    free(core->chunks);
    free(core->table);
}
