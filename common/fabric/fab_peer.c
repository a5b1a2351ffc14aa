/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer records: their memory, the table from name to record, and how a record comes and goes.
 *
 *      fab_peer_open, fab_peer_from_wire ──> UP ──fab_peer_fail──> FAILED ─┐
 *                                             └──────fab_peer_close────────┴──> CLOSED ──> released
 *
 * A record is released when it is CLOSED, its provider holds nothing for it (ep == NULL), no item
 * is queued and no failure is to be reported.
 */
#include "fabric/fab_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_wire.h"

/* ---- records ------------------------------------------------------------ */

static int core_add_chunk(fab_core_t *core)
{
    fab_peer_t *chunk;
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

static uint32_t core_alloc_record(fab_core_t *core)
{
    uint32_t number;

    if (FAB_NO_RECORD == core->free_record && OPAL_SUCCESS != core_add_chunk(core)) {
        return FAB_NO_RECORD;
    }
    number = core->free_record;
    core->free_record = (uint32_t) fab_core_record(core, number)->name;
    return number;
}

static void core_release_record(fab_core_t *core, uint32_t number)
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

static int table_grow(fab_core_t *core)
{
    uint32_t *old = core->table;
    size_t old_size = NULL != old ? (size_t) table_mask(core) + 1 : 0;
    size_t size = old_size > 0 ? 2 * old_size : 64;
    uint32_t *table = calloc(size, sizeof(*table));

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

static int table_reserve(fab_core_t *core)
{
    if (NULL != core->table &&
        (uint64_t) core->num_peers + 1 <= ((uint64_t) table_mask(core) + 1) / 4 * 3) {
        return OPAL_SUCCESS;
    }
    return table_grow(core);
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

/* ---- a peer comes ------------------------------------------------------- */

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

/* Let provider i take the peer. */
static int peer_attach(fab_core_t *core, fab_peer_t *peer, int i, const void *address, size_t len,
                       const char **why)
{
    const fab_provider_t *provider = fab_providers[i];

    *why = "no reason given";
    peer->ops = provider->ops;
    peer->provider = (uint8_t) i;
    if (len != provider->address_len) {
        *why = fab_sentence(&core->fab, "its address for %s has %zu bytes, expected %zu",
                            provider->name, len, provider->address_len);
        return OPAL_ERR_UNREACH;
    }
    return provider->attach(core->slots[i].dom, peer, address, why);
}

const void *fab_core_section(const void *address, uint16_t provider, size_t *section_len)
{
    const unsigned char *bytes = address;
    fab_wire_head_t head;
    fab_wire_section_t section;
    size_t at = sizeof(head);

    memcpy(&head, address, sizeof(head));
    for (uint16_t i = 0; i < head.sections; i++) {
        memcpy(&section, bytes + at, sizeof(section));
        if (section.provider == provider) {
            *section_len = section.len;
            return bytes + at + sizeof(section);
        }
        at += sizeof(section) + ((section.len + 7u) & ~7u);
    }
    return NULL;
}

/* Is it an address, and of the process with this name?  Afterwards every section lies within it. */
static int address_check(fab_core_t *core, uint64_t name, const void *address, size_t len,
                         const char **why)
{
    const unsigned char *bytes = address;
    fab_wire_head_t head;
    fab_wire_section_t section;
    size_t at = sizeof(head);
    uint16_t left;

    if (len < sizeof(head) || len > FAB_ADDRESS_MAX) {
        *why = fab_sentence(&core->fab, "Its address has %zu bytes; it must have %zu to %d.", len,
                            sizeof(head), FAB_ADDRESS_MAX);
        return OPAL_ERR_BAD_PARAM;
    }
    memcpy(&head, address, sizeof(head));
    if (__builtin_bswap32(FAB_WIRE_MAGIC) == head.magic) {
        *why = "Its machine has another byte order: run all processes on one kind of machine.";
        return OPAL_ERR_BAD_PARAM;
    }
    if (FAB_WIRE_MAGIC != head.magic || FAB_WIRE_VERSION != head.version) {
        *why = fab_sentence(&core->fab,
                            "Its address has magic 0x%x, version %u; this process knows 0x%x, %u: "
                            "install the same release on all hosts.",
                            head.magic, head.version, FAB_WIRE_MAGIC, FAB_WIRE_VERSION);
        return OPAL_ERR_BAD_PARAM;
    }
    for (left = head.sections; left > 0 && at + sizeof(section) <= len; left--) {
        memcpy(&section, bytes + at, sizeof(section));
        at += sizeof(section) + ((section.len + 7u) & ~7u);
    }
    if (left > 0 || at != len || head.len != len || head.name != name) {
        *why = fab_sentence(&core->fab,
                            "Its address is damaged: %zu bytes, of which the head says %u and the "
                            "sections fill %zu; "
                            "name 0x%llx, expected 0x%llx.",
                            len, head.len, at, (unsigned long long) head.name,
                            (unsigned long long) name);
        return OPAL_ERR_BAD_PARAM;
    }
    return OPAL_SUCCESS;
}

int fab_core_choose(fab_core_t *core, fab_peer_t *peer, const void *address, int first, char *why,
                    size_t size)
{
    size_t used = 0;

    why[0] = '\0';
    for (int i = first; i < FAB_NUM_PROVIDERS; i++) {
        const char *answer = core->slots[i].why_not;
        size_t len = 0;
        const void *section = fab_core_section(address, fab_providers[i]->id, &len);
        if (NULL != core->slots[i].dom) {
            answer = "the other process does not use it";
            if (NULL != section &&
                OPAL_SUCCESS == peer_attach(core, peer, i, section, len, &answer)) {
                return OPAL_SUCCESS;
            }
        }
        if (used < size) {
            used += (size_t) snprintf(why + used, size - used, "%s%s: %s", used > 0 ? "; " : "",
                                      fab_providers[i]->name, answer);
        }
    }
    return OPAL_ERR_UNREACH;
}

/* A record with the name, not in the table yet. */
static uint32_t core_new_record(fab_core_t *core, uint64_t name)
{
    uint32_t number = FAB_NO_RECORD;

    if (OPAL_SUCCESS == table_reserve(core)) {
        number = core_alloc_record(core);
    }
    if (FAB_NO_RECORD != number) {
        *fab_core_record(core, number) = (fab_peer_t){.name = name, .fab = &core->fab};
    }
    return number;
}

static fab_peer_t *core_enter(fab_core_t *core, uint32_t number)
{
    fab_peer_t *peer = fab_core_record(core, number);

    core->table[table_find(core, peer->name)] = number + 1;
    core->num_peers++;
    fab_counters.peers_opened++;
    return peer;
}

/* A record for a name that is not known. */
static int peer_make(fab_core_t *core, uint64_t name, const void *address, fab_peer_t **peer,
                     const char **why)
{
    uint32_t number;
    int rc;

    number = core_new_record(core, name);
    if (FAB_NO_RECORD == number) {
        *why = fab_sentence(&core->fab, "There is no memory for another peer; %u are known.",
                            core->num_peers);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = fab_core_choose(core, fab_core_record(core, number), address, 0, core->open_sentence,
                         sizeof(core->open_sentence));
    if (OPAL_SUCCESS != rc) {
        core_release_record(core, number);
        *why = core->open_sentence;
        return rc;
    }
    *peer = core_enter(core, number);
    return OPAL_SUCCESS;
}

int fab_peer_open(fab_t *fab, fab_user_t user, uint64_t name, const void *address, size_t len,
                  fab_peer_t **peer, const char **why)
{
    fab_core_t *core = fab_core(fab);
    fab_peer_t *known = fab_peer_find(fab, name);

    if (NULL == known || FAB_PEER_CLOSED == known->state) {
        int rc = address_check(core, name, address, len, why);
        if (OPAL_SUCCESS == rc && NULL != known) {
            *why = fab_sentence(fab, "This process closed it and it has not left yet.");
            rc = OPAL_ERR_UNREACH;
        }
        if (OPAL_SUCCESS == rc) {
            rc = peer_make(core, name, address, &known, why);
        }
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
        fab_core_keep_spare(core, known, address);
    } else if (OPAL_SUCCESS == address_check(core, name, address, len, why)) {
        fab_core_keep_spare(core, known, address); /* it was known from what it sent */
    }
    known->users |= fab_peer_open_bit(user);
    known->users &= (uint8_t) ~fab_peer_closed_bit(user);
    *peer = known;
    return OPAL_SUCCESS;
}

fab_peer_t *fab_peer_from_wire(fab_t *fab, const fab_provider_t *provider, uint64_t name,
                               const void *address, size_t len)
{
    fab_core_t *core = fab_core(fab);
    fab_peer_t *known = fab_peer_find(fab, name);
    uint32_t number;
    const char *why;
    int i = 0;

    while (fab_providers[i] != provider) {
        i++;
    }
    if (NULL != known) {
        fab_core_asked_by(core, known, i, address, len);
        return known;
    }
    number = core_new_record(core, name);
    if (FAB_NO_RECORD == number) {
        return NULL;
    }
    if (OPAL_SUCCESS != peer_attach(core, fab_core_record(core, number), i, address, len, &why)) {
        fab_log(fab, 1, "a process that calls itself 0x%llx was refused by provider %s: %s",
                (unsigned long long) name, provider->name, why);
        core_release_record(core, number);
        return NULL;
    }
    return core_enter(core, number);
}

const fab_provider_t *fab_peer_provider(const fab_peer_t *peer)
{
    return fab_providers[peer->provider];
}

/* ---- a peer goes -------------------------------------------------------- */

void fab_core_try_release(fab_peer_t *peer)
{
    fab_core_t *core = fab_core(peer->fab);
    uint32_t at;

    if (FAB_PEER_CLOSED != peer->state || NULL != peer->ep || NULL != peer->pending ||
        core->running == peer || fab_core_has_failure(core, peer) ||
        fab_core_has_move(core, peer) || fab_core_has_kept(core, peer)) {
        return;
    }
    at = table_find(core, peer->name);
    uint32_t number = core->table[at] - 1;
    table_remove(core, at);
    core->num_peers--;
    core_release_record(core, number);
}

void fab_peer_left(fab_peer_t *peer)
{
    fab_core_try_release(peer);
}

/* No user has it open any more. */
static void peer_end(fab_peer_t *peer)
{
    fab_core_t *core = fab_core(peer->fab);
    int was = peer->state;

    peer->state = FAB_PEER_CLOSED;
    peer->ops = &fab_failed_ops;
    peer->caps = 0;
    if (FAB_PEER_UP == was && NULL != peer->ep) {
        fab_providers[peer->provider]->detach(core->slots[peer->provider].dom, peer);
    }
    fab_core_try_release(peer);
}

void fab_peer_close(fab_peer_t *peer, fab_user_t user)
{
    uint8_t is_open = peer->users & fab_peer_open_bit(user);

    peer->users &= (uint8_t) ~fab_peer_open_bit(user);
    peer->users |= fab_peer_closed_bit(user);
    peer->user[user] = NULL;
    if (0 != is_open && 0 == peer->users % 16 && FAB_PEER_CLOSED != peer->state) {
        peer_end(peer);
    }
}

void fab_core_close_peers(fab_core_t *core, fab_user_t user)
{
    for (uint32_t i = 0; i < core->num_chunks * FAB_CHUNK_PEERS; i++) {
        fab_peer_t *peer = fab_core_record(core, i);
        if (NULL != peer->fab) {
            fab_peer_close(peer, user);
        }
    }
}

void fab_core_free_peers(fab_core_t *core)
{
    for (uint32_t i = 0; i < core->num_chunks; i++) {
        free(core->chunks[i]);
    }
    free(core->chunks);
    free(core->table);
}
