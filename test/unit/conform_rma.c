/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conformance of a provider: get, put and atomic operations. See conform.h.
 */
#include "conform.h"

/* ---- get and put -------------------------------------------------------- */

enum { RMA_MAX = 20 << 20, RMA_OPS = 24 };

typedef struct remote {
    uint64_t at;
    fab_rkey_t rkey;
} remote_t;

typedef struct rma {
    remote_t remote;
    bool has_remote;
    int completed;
    int status;
    bool is_done;
} rma_t;

static rma_t *rma_test; /* complete() has no context of its own */

static void rma_address_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                size_t len)
{
    rma_t *rma = ctx;

    (void) peer;
    if (AM_DONE == hdr.id) {
        rma->is_done = true;
    } else if (sizeof(rma->remote) == len) {
        memcpy(&rma->remote, data, len);
        rma->has_remote = true;
    }
}

static void rma_complete(fab_rma_t *op, int status)
{
    (void) op;
    rma_test->completed++;
    rma_test->status = status;
}

static const size_t rma_sizes[] = {
    1, 0,     3,     40,     4095, 4096, 4097, 65537, 1 << 20, RMA_MAX - 64, 524289, 1048577,
    2, 12345, 99999, 262144, 5,    6,    7,    8,     9,       10,           11,     1000000};

_Static_assert(RMA_OPS == sizeof(rma_sizes) / sizeof(rma_sizes[0]), "one size per operation");

/* Move one size at a time, unaligned on both sides; nothing beyond it is touched. */
static void rma_one_by_one(world_t *world, rma_t *rma, unsigned char *local, bool is_put)
{
    for (int i = 0; i < RMA_OPS; i++) {
        size_t len = rma_sizes[i];
        fab_rma_t op = {.peer = conform_partner(world),
                        .local = local + i % 7,
                        .remote = rma->remote.at + (uint64_t) (i % 5),
                        .len = len,
                        .rkey = rma->remote.rkey,
                        .complete = rma_complete};
        int before = rma->completed;
        memset(local, 0xee, len + 64);
        if (is_put) {
            world_fill(local + i % 7, (uint64_t) i, len);
        }
        fab_lock(world->fab);
        int rc = is_put ? fab_put(&op) : fab_get(&op);
        fab_unlock(world->fab);
        CHECK(OPAL_SUCCESS == rc);
        CHECK(before == rma->completed); /* not from within fab_get() */
        WORLD_UNTIL(before + 1 == rma->completed);
        CHECK(OPAL_SUCCESS == rma->status && op.done == len);
        if (!is_put) {
            CHECK(world_is_part(local + i % 7, 77, (size_t) (i % 5), len));
            CHECK(0xee == local[i % 7 + len] && (0 == i % 7 || 0xee == local[i % 7 - 1]));
        }
    }
}

/* Short ones at once: where the process copies the bytes itself all of them, elsewhere none. */
static void rma_now(world_t *world, rma_t *rma, unsigned char *local, bool is_put)
{
    const char *provider = fab_peer_provider_name(conform_partner(world));
    const size_t max = fab_is_threaded(world->fab) ? FAB_RMA_NOW_LOCKED : FAB_RMA_NOW_MAX;
    bool is_copied = 0 == strcmp(provider, "shm") || 0 == strcmp(provider, "self");
    /* without a key the peer gives nothing, and where the process copies none is needed */
    const fab_rkey_t rkey = is_copied ? (fab_rkey_t){{0}} : rma->remote.rkey;

    for (int i = 0; i < RMA_OPS; i++) {
        size_t len = rma_sizes[i];
        fab_rma_t op = {.peer = conform_partner(world),
                        .local = local + i % 7,
                        .remote = rma->remote.at + (uint64_t) (i % 5),
                        .len = len,
                        .rkey = rkey};
        if (len > 2 * FAB_RMA_NOW_MAX) {
            continue;
        }
        memset(local, 0xee, len + 64);
        if (is_put) {
            world_fill(local + i % 7, (uint64_t) i, len);
        }
        fab_lock(world->fab);
        bool is_done = is_put ? fab_put_now(&op) : fab_get_now(&op);
        fab_unlock(world->fab);
        CHECK(is_done == (is_copied && len <= max));
        if (!is_put && is_done) {
            CHECK(world_is_part(local + i % 7, 77, (size_t) (i % 5), len));
        }
        for (size_t k = 0; !is_put && !is_done && k < len; k++) {
            CHECK(0xee == local[i % 7 + k]);
        }
        CHECK(0xee == local[i % 7 + len] && (0 == i % 7 || 0xee == local[i % 7 - 1]));
    }
    /* what was put last is there */
    const int last = RMA_OPS - (rma_sizes[RMA_OPS - 1] <= max ? 1 : 2);
    fab_rma_t op = {.peer = conform_partner(world),
                    .local = local,
                    .remote = rma->remote.at + (uint64_t) (last % 5),
                    .len = rma_sizes[last],
                    .rkey = rkey};
    fab_lock(world->fab);
    CHECK(is_copied == fab_get_now(&op));
    fab_unlock(world->fab);
    CHECK(!is_put || !is_copied || world_is_filled(local, (uint64_t) last, rma_sizes[last]));
}

/* All at once, into disjoint places. */
static void rma_together(world_t *world, rma_t *rma, unsigned char *local)
{
    static fab_rma_t ops[RMA_OPS];
    size_t at = 0;
    int before = rma->completed;

    fab_lock(world->fab);
    for (int i = 0; i < RMA_OPS; i++) {
        size_t len = rma_sizes[i] % 500000;
        ops[i] = (fab_rma_t){.peer = conform_partner(world),
                             .local = local + at,
                             .remote = rma->remote.at + at,
                             .len = len,
                             .rkey = rma->remote.rkey,
                             .complete = rma_complete};
        CHECK(OPAL_SUCCESS == fab_get(&ops[i]));
        at += len;
    }
    fab_unlock(world->fab);
    WORLD_UNTIL(before + RMA_OPS == rma->completed);
    CHECK(world_is_filled(local, 77, at));
}

/* Where memory cannot be reached, that is said at once. */
static void rma_is_refused(world_t *world)
{
    fab_rkey_t rkey;
    fab_rma_t op = {
        .peer = conform_partner(world), .local = world, .len = 1, .complete = rma_complete};

    CHECK(OPAL_ERR_NOT_SUPPORTED ==
          fab_expose(conform_partner(world), world, 1, FAB_ACCESS_READ, &rkey));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op) && OPAL_ERR_NOT_SUPPORTED == fab_put(&op));
}

void conform_rma(world_t *world)
{
    rma_t rma = {.status = 0};
    unsigned char *exposed = malloc(RMA_MAX);
    unsigned char *local = malloc(RMA_MAX + 64);
    remote_t mine = {.at = (uint64_t) (uintptr_t) exposed};

    if (0 == (conform_partner(world)->caps & FAB_CAP_GET)) {
        const char *provider = fab_peer_provider_name(conform_partner(world));
        CHECK(0 == strcmp(provider, "tcp") || 0 == strcmp(provider, "ofi"));
        rma_is_refused(world);
        free(exposed);
        free(local);
        return;
    }
    rma_test = &rma;
    fab_set_handler(world->fab, AM_ADDR, rma_address_arrived, &rma);
    fab_set_handler(world->fab, AM_DONE, rma_address_arrived, &rma);
    world_fill(exposed, 77, RMA_MAX);
    world_barrier(world);
    (void) conform_partner(world);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_expose(conform_partner(world), exposed, RMA_MAX,
                                     FAB_ACCESS_READ | FAB_ACCESS_WRITE, &mine.rkey));
    CHECK(OPAL_SUCCESS ==
          fab_post(conform_partner(world), fab_hdr(AM_ADDR, 0, 0), &mine, sizeof(mine)));
    fab_unlock(world->fab);
    WORLD_UNTIL(rma.has_remote);
    rma_one_by_one(world, &rma, local, false);
    rma_together(world, &rma, local);
    rma_now(world, &rma, local, false);
    world_barrier(world);
    rma_now(world, &rma, local, true);
    rma_one_by_one(world, &rma, local, true);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_post(conform_partner(world), fab_hdr(AM_DONE, 0, 0), NULL, 0));
    fab_unlock(world->fab);
    WORLD_UNTIL(rma.is_done);
    CHECK(world_is_filled(exposed + 23 % 5, 23, rma_sizes[23])); /* what the peer's last put left */
    world_barrier(world);
    fab_unexpose(conform_partner(world), &mine.rkey);
    free(exposed);
    free(local);
}

/* ---- memory that is exposed for any peer ------------------------------- */

/* A region exposed for any peer is read and written through its one key. */
void conform_region(world_t *world)
{
    rma_t rma = {.status = 0};
    enum { LEN = 1 << 20 };
    unsigned char *exposed = malloc(LEN), *local = malloc(LEN);
    struct {
        uint64_t at;
        fab_region_t region;
    } mine = {.at = (uint64_t) (uintptr_t) exposed}, theirs;

    rma_test = &rma;
    world_fill(exposed, 5, LEN);
    fab_lock(world->fab);
    fab_expose_any(world->fab, NULL, exposed, LEN, FAB_ACCESS_READ | FAB_ACCESS_WRITE,
                   &mine.region);
    fab_unlock(world->fab);
    memcpy((void *) (uintptr_t) &world->shared->scratch[64 * world->rank], &mine, sizeof(mine));
    world_barrier(world);
    memcpy(
        &theirs,
        (void *) (uintptr_t) &world->shared->scratch[64 * (world->size > 1 ? world->rank ^ 1 : 0)],
        sizeof(theirs));
    CHECK(fab_region_is_reachable(&theirs.region, conform_partner(world)) ==
          (0 != (conform_partner(world)->caps & FAB_CAP_GET)));
    if (0 == (conform_partner(world)->caps & FAB_CAP_GET)) {
        free(exposed);
        free(local);
        return;
    }
    fab_rma_t op = {.peer = conform_partner(world),
                    .local = local,
                    .remote = theirs.at,
                    .len = LEN,
                    .rkey = theirs.region.rkey,
                    .complete = rma_complete};
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    fab_unlock(world->fab);
    WORLD_UNTIL(1 == rma.completed);
    CHECK(OPAL_SUCCESS == rma.status && world_is_filled(local, 5, LEN));
    world_barrier(world);
    world_fill(local, 9, LEN);
    fab_lock(world->fab);
    CHECK(OPAL_SUCCESS == fab_put(&op));
    fab_unlock(world->fab);
    WORLD_UNTIL(2 == rma.completed);
    world_barrier(world);
    world_progress(world); /* takes the device's lock: TSan knows that the data is older */
    CHECK(world_is_filled(exposed, 9, LEN)); /* what has completed there is here */
    fab_lock(world->fab);
    fab_unexpose_any(world->fab, &mine.region);
    fab_unlock(world->fab);
    CHECK(!fab_region_is_reachable(&mine.region, conform_partner(world)));
    free(exposed);
    free(local);
}
