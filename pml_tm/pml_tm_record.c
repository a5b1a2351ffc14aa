/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the recorder is told of messages.
 */
#include "pml_tm_record.h"

#include <stdlib.h>

#include "fabric/fab_clock.h"

/* ---- numbers of messages ------------------------------------------------ */

/* Messages to and from a process, so far. */
typedef struct numbers {
    uint64_t name;
    uint32_t sent;
    uint32_t arrived;
    bool is_used;
} numbers_t;

/* Open addressing, at most half full. */
static struct {
    numbers_t *all;
    uint32_t size; /* a power of two, or 0 */
    uint32_t used;
} table;

/* Its place, used or not. */
static numbers_t *find(numbers_t *all, uint32_t size, uint64_t name)
{
    uint32_t at = (uint32_t) (name * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (size - 1);

    while (all[at].is_used && all[at].name != name) {
        at = (at + 1) & (size - 1);
    }
    return &all[at];
}

static bool grow(void)
{
    const uint32_t size = 0 == table.size ? 64 : 2 * table.size;
    numbers_t *all = calloc(size, sizeof(*all));

    if (NULL == all) {
        return false;
    }
    for (uint32_t i = 0; i < table.size; ++i) {
        if (table.all[i].is_used) {
            *find(all, size, table.all[i].name) = table.all[i];
        }
    }
    free(table.all);
    table.all = all;
    table.size = size;
    return true;
}

/* NULL: no memory. */
static numbers_t *numbers_of(uint64_t name)
{
    numbers_t *numbers;

    if (2 * table.used >= table.size && !grow()) {
        return NULL;
    }
    numbers = find(table.all, table.size, name);
    table.used += !numbers->is_used;
    numbers->is_used = true;
    numbers->name = name;
    return numbers;
}

void mca_pml_tm_record_fini(void)
{
    free(table.all);
    table.all = NULL;
    table.size = table.used = 0;
}

/* ---- events ------------------------------------------------------------- */

static fab_event_t event_of(fab_event_kind_t kind, const fab_peer_t *peer, uint64_t tag,
                            uint32_t id, size_t bytes)
{
    fab_event_t event = fab_event_of(mca_pml_tm.fab, kind, peer->name);

    event.id = id;
    event.tag = mca_pml_tm_tag_tag(tag);
    event.bytes_context = fab_event_size(bytes,
                                         mca_pml_tm_tag_context(tag, mca_pml_tm.source_bits));
    return event;
}

void mca_pml_tm_record(fab_event_kind_t kind, const fab_peer_t *peer, uint64_t tag, uint32_t id,
                       size_t bytes)
{
    if (fab_records(mca_pml_tm.fab, 1)) {
        fab_look_event(mca_pml_tm.fab, event_of(kind, peer, tag, id, bytes));
    }
}

mca_pml_tm_record_out_t mca_pml_tm_record_out(const fab_peer_t *peer, uint64_t tag, size_t bytes)
{
    return (mca_pml_tm_record_out_t){.ns = fab_records(mca_pml_tm.fab, 1) ? fab_now_ns() : 0,
                                     .peer = peer,
                                     .tag = tag,
                                     .bytes = bytes};
}

static void record_out(fab_event_kind_t kind, const mca_pml_tm_record_out_t *out, uint32_t id)
{
    if (fab_records(mca_pml_tm.fab, 1)) {
        fab_event_t event = event_of(kind, out->peer, out->tag, id, out->bytes);

        event.ns = out->ns;
        fab_look_event(mca_pml_tm.fab, event);
    }
}

void mca_pml_tm_record_announced(const mca_pml_tm_record_out_t *out, uint32_t id)
{
    record_out(FAB_EVENT_ANNOUNCE, out, id);
}

void mca_pml_tm_record_sent(const mca_pml_tm_record_out_t *out)
{
    numbers_t *numbers = numbers_of(out->peer->name);

    if (NULL != numbers) {
        record_out(FAB_EVENT_SENT, out, numbers->sent++);
    }
}

void mca_pml_tm_record_peer(fab_event_kind_t kind, const fab_peer_t *peer)
{
    if (fab_records(mca_pml_tm.fab, 1)) {
        fab_look_event(mca_pml_tm.fab, fab_event_of(mca_pml_tm.fab, kind, peer->name));
    }
}

void mca_pml_tm_record_comm(fab_event_kind_t kind, uint32_t context, int32_t size)
{
    fab_event_t event = fab_event_of(mca_pml_tm.fab, kind, FAB_LOOK_ANY);

    event.bytes_context = fab_event_size((uint64_t) size, context);
    fab_look_event(mca_pml_tm.fab, event);
}

/* ---- arrivals ----------------------------------------------------------- */

static fab_am_fn_t behind[FAB_AM_MAX]; /* the handlers behind those below */

/* Hand the message on; the event says when it came, and if it was unexpected. */
static void hand_on(fab_event_t event, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                    size_t len)
{
    const unsigned long long before = mca_pml_tm.counters.unexpected;

    event.ns = fab_now_ns();
    behind[hdr.id](NULL, peer, hdr, data, len);
    event.flags |= before != mca_pml_tm.counters.unexpected ? FAB_EVENT_UNEXPECTED : 0;
    fab_look_event(mca_pml_tm.fab, event);
}

/* The next message of the peer with its data. */
static void hand_on_numbered(fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len,
                             size_t bytes)
{
    numbers_t *numbers = mca_pml_tm_records_all() ? numbers_of(peer->name) : NULL;

    if (NULL == numbers) {
        behind[hdr.id](NULL, peer, hdr, data, len);
    } else {
        hand_on(event_of(FAB_EVENT_ARRIVED, peer, hdr.tag, numbers->arrived++, bytes), peer, hdr,
                data, len);
    }
}

static void eager(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx;
    hand_on_numbered(peer, hdr, data, len, len);
}

/* Bytes of the message; the handler behind checks if there are so many. */
static size_t bytes_of_rndv(const void *data, size_t len)
{
    fab_rndv_t rndv = {0};

    if (len >= sizeof(rndv)) {
        memcpy(&rndv, data, sizeof(rndv));
    }
    return rndv.len;
}

/* Without an id it is the beginning of one that is streamed. */
static void rndv(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    const size_t bytes = bytes_of_rndv(data, len);

    (void) ctx;
    if (0 == hdr.app_ctx) {
        hand_on_numbered(peer, hdr, data, len, bytes);
    } else {
        hand_on(event_of(FAB_EVENT_ANNOUNCED, peer, hdr.tag, hdr.app_ctx, bytes), peer, hdr, data,
                len);
    }
}

static void untagged(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_untagged_t prefix;

    if (len < sizeof(prefix)) {
        behind[hdr.id](ctx, peer, hdr, data, len); /* reports it */
        return;
    }
    memcpy(&prefix, data, sizeof(prefix));
    if (FAB_AM_RNDV != prefix.id) {
        hand_on_numbered(peer, hdr, data, len, len - sizeof(prefix));
    } else {
        hand_on(event_of(FAB_EVENT_ANNOUNCED, peer, hdr.tag, hdr.app_ctx,
                         bytes_of_rndv((const char *) data + sizeof(prefix), len - sizeof(prefix))),
                peer, hdr, data, len);
    }
}

static void flow(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    mca_pml_tm_record_peer(
        PML_TM_FLOW_HOLD == hdr.app_ctx ? FAB_EVENT_TOLD_HOLD : FAB_EVENT_TOLD_GO_ON, peer);
    behind[hdr.id](ctx, peer, hdr, data, len);
}

fab_am_fn_t mca_pml_tm_record_handler(uint8_t id, fab_am_fn_t fn)
{
    behind[id] = fn;
    if (!fab_records(mca_pml_tm.fab, 1)) {
        return fn;
    }
    switch (id) {
    case FAB_AM_RNDV:
        return rndv;
    case FAB_AM_NO_TAG:
        return untagged;
    case FAB_AM_EAGER:
        return mca_pml_tm_records_all() ? eager : fn;
    case PML_TM_AM_FLOW:
        return flow;
    default:
        return fn;
    }
}
