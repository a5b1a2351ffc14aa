/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: what ends a sleep, what keeps others from sleeping, windows, and
 * messages of who polls no more.
 *
 * TEST: sources=@fabric,@ofi variants=asan,tsan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=300 env="FI_OFI_RXM_BUFFER_SIZE=1024 TSAN_OPTIONS=halt_on_error=1:report_thread_leaks=0"
 */
#include "conform_ofi.h"
#include "test_fab_jobs.h"

#include "ofi/ofi.h"

enum { SLEEPS = 20, SLEEP_US = 20000000, WAKES_MAX = 200 /* for all of them */ };
enum { READS_MAX = 200000, HEARD = 10, UNPOLLED = 50 };

static int num_sleeps;

static int completed, complete_status;

static void rma_complete(fab_rma_t *op, int status)
{
    (void) op;
    completed++;
    complete_status = status;
}

/* Poll until nothing comes, as who is about to sleep does. */
static void poll_in_vain(world_t *world)
{
    for (int empty = 0; empty < 64;) {
        empty = 0 == world_progress(world) ? empty + 1 : 0;
    }
}

/* Something ends it: its time limit is longer than the test's.  And it does not end for nothing. */
static void sleep_once(world_t *world)
{
    CHECK(fab_sleep(world->fab, SLEEP_US));
    CHECK(++num_sleeps < WAKES_MAX);
    poll_in_vain(world);
}

/* Rank 0 sleeps, and rank 1 sends then: each message ends a sleep, and so does what is read. */
static void sleep_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    static char memory[4096], read[4096];
    fab_rkey_t key;

    CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &key));
    memcpy((void *) &world->shared->scratch[64 + 8 * world->rank], &key, sizeof(key));
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    CHECK(((const fab_ofi_ep_t *) peer->ep)->dom->wake_fd >= 0);
    for (uint64_t n = 0; n < SLEEPS; n++) {
        if (0 == world->rank) {
            poll_in_vain(world);
            atomic_store(&world->shared->scratch[0], n + 1);
            while (n + 2 > world->got) {
                sleep_once(world);
            }
        } else {
            WORLD_UNTIL(n + 1 == atomic_load(&world->shared->scratch[0]));
            usleep(2000);
            post(world, peer);
        }
    }
    if (0 == world->rank) {
        fab_rma_t op = {.peer = peer,
                        .local = read,
                        .remote = (uintptr_t) memory,
                        .len = sizeof(read),
                        .complete = rma_complete};
        memcpy(&op.rkey, (void *) &world->shared->scratch[64 + 8], sizeof(op.rkey));
        CHECK(OPAL_SUCCESS == fab_get(&op));
        while (0 == completed) {
            sleep_once(world);
        }
        CHECK(OPAL_SUCCESS == complete_status);
    }
    world_barrier(world);
    fab_unexpose(peer, &key);
    CHECK(0 == world->failures);
}

static void test_sleep(void **state)
{
    (void) state;
    world_may_sleep = true;
    int wrong = world_run(2, false, sleep_body) + world_run(2, true, sleep_body);
    world_may_sleep = false;
    assert_int_equal(wrong, 0);
}

/* Who never sleeps has no descriptor, which costs providers something. */
static void awake_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    CHECK(((const fab_ofi_ep_t *) peer->ep)->dom->wake_fd < 0);
    CHECK(!fab_sleep(world->fab, 1));
    world_barrier(world);
}

/* Read that memory, again and again, until rank 0 has heard of it. */
static void read_on(world_t *world, fab_peer_t *peer, uintptr_t remote)
{
    static char read[64];
    fab_rma_t op = {.peer = peer,
                    .local = read,
                    .remote = remote,
                    .len = sizeof(read),
                    .complete = rma_complete};

    memcpy(&op.rkey, (void *) &world->shared->scratch[64], sizeof(op.rkey));
    for (int n = 1; n <= READS_MAX && 0 == atomic_load(&world->shared->scratch[0]); n++) {
        CHECK(OPAL_SUCCESS == fab_get(&op));
        WORLD_UNTIL(n == completed);
    }
    atomic_store(&world->shared->scratch[1], 1);
}

/* libfabric reads memory of rank 0 without a word: messages tell it that it is not idle. */
static void read_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    static char memory[64]; /* at the same address in both */
    fab_rkey_t key;
    int events = 0;

    CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &key));
    if (0 == world->rank) {
        memcpy((void *) &world->shared->scratch[64], &key, sizeof(key));
    }
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    if (1 == world->rank) {
        read_on(world, peer, (uintptr_t) memory);
    } else {
        while (events < HEARD && 0 == atomic_load(&world->shared->scratch[1])) {
            events += world_progress(world);
        }
        CHECK(events >= HEARD);
        atomic_store(&world->shared->scratch[0], 1);
    }
    world_barrier(world);
    fab_unexpose(peer, &key);
    CHECK(0 == world->failures);
}

/* Peers may have as much under way as the receive buffers take. */
static void window_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const fab_ofi_ep_t *ep;
    uint64_t bytes;

    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    ep = peer->ep;
    bytes = ep->dom->ses.window * ep->dom->recv.min_free;
    CHECK(ep->dom->ses.window == ep->ses.peer_window);
    CHECK(2 != world_num_procs || fab_limits.ofi_window == ep->dom->ses.window);
    CHECK(2 == world_num_procs || 16 * bytes <= ep->dom->recv.num * ep->dom->recv.size);
    CHECK(2 == world_num_procs || 32 * bytes > ep->dom->recv.num * ep->dom->recv.size);
    world_barrier(world);
}

static void test_window(void **state)
{
    int wrong = 0;

    (void) state;
    for (world_num_procs = 2; world_num_procs <= 2000; world_num_procs *= 1000) {
        wrong += world_run(2, false, window_body);
    }
    world_num_procs = 0;
    assert_int_equal(wrong, 0);
}

/* What rank 1 has sent arrives, though it does not poll then: it may wait elsewhere. */
static void unpolled_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    for (uint64_t n = 1; n <= UNPOLLED; n++) {
        if (0 == world->rank) {
            WORLD_UNTIL(n + 1 == world->got);
            atomic_store(&world->shared->scratch[0], n);
            continue;
        }
        post(world, peer);
        WORLD_UNTIL(NULL == peer->pending);
        for (int ms = 0; n != atomic_load(&world->shared->scratch[0]); ms++) {
            CHECK(ms < 20000);
            usleep(1000);
        }
    }
    world_barrier(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sleep),
        WORLD_JOB("test_awake", awake_body),
        WORLD_JOB("test_read", read_body),
        cmocka_unit_test(test_window),
        WORLD_JOB("test_unpolled", unpolled_body,
                  .text = {&fab_params.ofi_provider, "sockets,tcp,net"}),
        WORLD_JOB("test_unpolled usual provider", unpolled_body),
    };

    fab_params.ofi_provider = (char *) (uintptr_t) (argc > 2 ? argv[2] : "tcp,tcp;ofi_rxm");
    world_use_providers("ofi");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
