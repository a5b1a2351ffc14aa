/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port fails while it is used.  Its peers fail, on both sides, although both have other ports: no
 * device knows which of the unacknowledged messages have arrived.  A peer that has left in order
 * before has not failed.  Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include "fabric/fab_host.h"

/* Both have a connection, by the first port of each, which rank 0 cuts. */
static fab_peer_t *cut_first(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier_idle(world);
    if (0 == world->rank) {
        atomic_store(&world_cuts[1], 1); /* the LID of its first device */
    }
    world_barrier_idle(world);
    return peer;
}

/* Each sends, and is told. */
static void both_fail_body(world_t *world)
{
    fab_peer_t *peer = cut_first(world);

    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 1, 0), NULL, 0));
    WORLD_UNTIL(1 == world->failures || 0 != fab_counters.verbs_other_ports);
    CHECK(0 == fab_counters.verbs_other_ports && 1 == world->got);
    CHECK(NULL != strstr(world->failed_why, "It does not answer any more (tmdev"));
    world_barrier_idle(world);
}

/* The port of rank 0 is down for good: rank 0 says so, and refuses rank 1, which hears that. */
static void port_down_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier_idle(world);
    if (0 == world->rank) {
        fab_verbs_fail_all(verbs_domain(world), "is down"); /* as it says after ten seconds */
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "here is down"));
    } else {
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "It refused this process"));
    }
    CHECK(0 == fab_counters.verbs_other_ports);
    world_barrier(world);
}

/* Rank 0 has closed rank 1, which does not answer any more: rank 0 does not wait for it. */
static void closed_body(world_t *world)
{
    fab_peer_t *peer = cut_first(world);

    if (0 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 1, 0), NULL, 0));
        fab_peer_close(peer, FAB_USER_PML);
        world->peers[1] = NULL;
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
    }
    world_barrier_idle(world);
    CHECK(1 == world->got && 0 == fab_counters.verbs_other_ports);
}

/* Rank 1 has left when rank 0 finds that its port is down, and learns it after that. */
static void left_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const fab_verbs_addr_t *addr = &ep_of(peer)->addr;

    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier_idle(world);
    if (0 == world->rank) {
        while (!fab_proc_is_gone(addr->pid, addr->start_time)) {
            sched_yield();
        }
        fab_verbs_fail_all(verbs_domain(world), "is down");
        WORLD_UNTIL(FAB_SES_GONE == ep_of(peer)->ses.state && NULL == ep_of(peer)->failure);
        CHECK(0 == world->failures && 0 == fab_counters.verbs_other_ports);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_both_fail", both_fail_body, .run = world_run_cut,
                  .env = {"TMDEV_LINK", "ib"}),
        WORLD_JOB("test_both_fail eth", both_fail_body, .run = world_run_cut,
                  .env = {"TMDEV_LINK", "eth"}),
        WORLD_JOB("test_both_fail matching", both_fail_body, .run = world_run_cut,
                  .text = {&fab_params.verbs_tm, "always"}, .env = {"TMDEV_LINK", "ib"}),
        WORLD_JOB("test_port_down", port_down_body),
        WORLD_JOB("test_closed", closed_body, .run = world_run_cut),
        WORLD_JOB("test_left", left_body),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    setenv("TMDEV_DEVICES", "3", 1);
    fab_params.verbs_timeout = 8; /* 8 ms until the device gives up */
    fab_params.verbs_tm = (char *) (uintptr_t) "none";
    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
