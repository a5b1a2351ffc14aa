/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last user closes the fabric while a device may have to answer a peer: verbs waits for that,
 * and polls all ports.  What comes meanwhile, by whichever of them, reaches no user any more.
 *
 * TEST: sources=@fabric,@verbs variants=asan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev env=TMDEV_DEVICES=2 timeout=120
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

static _Atomic bool is_closing;

static void arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    world_t *world = ctx;

    (void) peer, (void) hdr, (void) data, (void) len;
    CHECK(!is_closing);
}

static world_t *the_world;

static void complete(fab_rma_t *op, int status)
{
    const world_t *world = the_world;

    (void) op, (void) status;
    CHECK(!is_closing);
}

/* Its device has answered rank 1, which does not say that it has all: rank 0 waits, for 2 s. */
static void close_and_wait(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1);

    ep_of(peer)->conn->has_answered = true;
    fab_peer_close(peer, FAB_USER_PML);
    is_closing = true;
    fab_close(world->fab, FAB_USER_PML);
    world_barrier_idle(world);
    exit(0);
}

/* A message is there that was not polled before. */
static void message_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, arrived, world);
    world_barrier(world);
    connect_to(world, peer);
    world_barrier(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    world_barrier_idle(world);
    if (0 == world->rank) {
        close_and_wait(world);
    }
    world_barrier_idle(world);
}

/* A get by another port than that of rank 1 has completed, which was not polled before. */
static void get_body(world_t *world)
{
    static _Atomic unsigned char memory[2];
    world_shared_t *shared = world->shared;
    fab_rma_t op = {.local = (void *) (uintptr_t) &memory[1], .len = 1, .complete = complete};
    fab_rkey_t rkey;

    fab_set_handler(world->fab, AM_DATA, arrived, world);
    the_world = world;
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, world_peer(world, 1));
        fab_verbs_cannot(&ep_of(world_peer(world, 2))->ses, OPAL_ERR_UNREACH, "This is a test.");
        WORLD_UNTIL(1 == ep_of(world_peer(world, 2))->pair);
        connect_to(world, world_peer(world, 2));
        CHECK(1 == ep_of(world_peer(world, 2))->dom->index);
    }
    world_barrier(world);
    if (2 == world->rank) {
        memory[0] = 7;
        CHECK(OPAL_SUCCESS == fab_expose(world_peer(world, 0), (void *) (uintptr_t) memory, 1,
                                         FAB_ACCESS_READ, &rkey));
        memcpy(shared->address[2], &rkey, sizeof(rkey));
        shared->scratch[0] = (uintptr_t) memory;
    }
    world_barrier(world);
    if (0 == world->rank) {
        op.peer = world_peer(world, 2);
        op.remote = shared->scratch[0];
        memcpy(&op.rkey, shared->address[2], sizeof(op.rkey));
        CHECK(OPAL_SUCCESS == fab_get(&op));
        while (7 != memory[1]) {
            sched_yield();
        }
        close_and_wait(world);
    }
    world_barrier_idle(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_message", message_body),
        WORLD_JOB("test_get", get_body, .ranks = 3),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    fab_params.verbs_tm = (char *) (uintptr_t) "none";
    world_use_providers("verbs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
