/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports that fail while they are used: messages go on by others, and none is lost, doubled or
 * overtaken.  Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_verbs_cut.h"

/* ---- ports fail while all send to all -------------------------------------- */

enum { CUT_MESSAGES = 3000, CUT_MEMORY = 200000 };

static uint64_t cut_every; /* messages */
static int cut_lids[2];    /* ports that fail, one after the other; 0: none; DOWN: rank 0's first */
static unsigned char cut_memory[CUT_MEMORY];

static int reads; /* under way */

static void on_read(fab_rma_t *rma, int status)
{
    (void) rma;
    num_wrong += OPAL_SUCCESS != status && OPAL_ERR_NOT_SUPPORTED != status;
    reads--;
}

/* Of all others, who have exposed theirs; by another port than the key is for it is refused. */
static void read_all(world_t *world)
{
    static unsigned char copy[4][CUT_MEMORY];
    static fab_rma_t ops[4];

    WORLD_UNTIL(0 == reads);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            ops[i] = (fab_rma_t){.peer = world_peer(world, i),
                                 .local = copy[i],
                                 .remote = (uintptr_t) cut_memory,
                                 .len = CUT_MEMORY,
                                 .complete = on_read};
            memcpy(&ops[i].rkey, (void *) &world->shared->scratch[64 + 64 * i + 8 * world->rank],
                   sizeof(ops[i].rkey));
            reads++;
            reads -= OPAL_SUCCESS != fab_get(&ops[i]);
        }
    }
}

static void send_all(world_t *world, uint64_t number)
{
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            send_long(world, world_peer(world, i), number);
        }
    }
}

/* All send to all, and read memory of all, while ports fail: each message comes once, in order. */
static void cut_body(world_t *world)
{
    fab_rkey_t keys[4];

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            CHECK(OPAL_SUCCESS == fab_expose(world_peer(world, i), cut_memory, CUT_MEMORY,
                                             FAB_ACCESS_READ, &keys[i]));
            memcpy((void *) &world->shared->scratch[64 + 64 * world->rank + 8 * i], &keys[i],
                   sizeof(keys[i]));
        }
    }
    world_barrier(world);
    for (uint64_t number = 0; number < CUT_MESSAGES; number++) {
        send_all(world, number);
        if (0 == number % 500) {
            read_all(world);
        }
        if (0 == number % 50) {
            world_progress(world);
        }
        if (0 == world->rank && number > 0 && number <= 2 * cut_every && 0 == number % cut_every) {
            cut(world, cut_lids[number / cut_every - 1]);
        }
    }
    for (int i = 0; i < world->size; i++) {
        WORLD_UNTIL(i == world->rank || CUT_MESSAGES == num_got[i]);
    }
    WORLD_UNTIL(0 == reads);
    atomic_fetch_add(&world->shared->scratch[0], fab_counters.verbs_sent_again);
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures);
    CHECK(cut_every < CUT_MESSAGES / 3 || atomic_load(&world->shared->scratch[0]) > 0);
    for (int i = 0; i < world->size; i++) {
        CHECK(i == world->rank || is_by(world_peer(world, i), "verbs"));
        if (i != world->rank) {
            fab_unexpose(world_peer(world, i), &keys[i]);
        }
    }
    world_barrier(world);
}

/* ---- two that fail, one right after the other ------------------------------ */

/*
 * The next one breaks when it has sent the first SENT_AGAIN again: these come before the others by
 * the third.
 */
static void break_twice(world_t *world, fab_verbs_ep_t *ep)
{
    const uint32_t sq_used_max = break_first(world, ep);
    const fab_verbs_domain_t *second = ep->dom;

    cut(world, second->addr.lid);
    WORLD_UNTIL(second != ep->dom);
    CHECK(SENT_AGAIN == fab_counters.verbs_sent_again);
    while (NULL != ep->keep) {
        ep->dom->sq_used_max = sq_used_max;
        world_progress(world);
    }
    CHECK(SENT_AGAIN + KEPT == fab_counters.verbs_sent_again);
}

static void cut_twice_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
        break_twice(world, ep_of(peer));
    }
    WORLD_UNTIL(0 == world->rank || 1 + KEPT == num_got[0]);
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures && is_by(peer, "verbs"));
}

static void test_cut_twice(void **state)
{
    (void) state;
    setenv("TMDEV_LINK", "ib", 1);
    assert_int_equal(world_run_cut(2, cut_twice_body), 0);
    unsetenv("TMDEV_LINK");
}

/* A process that is to end waits for what is to be sent again. */
static void holds_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
        cut(world, ep_of(peer)->dom->addr.lid);
        send_kept(world, peer);
        WORLD_UNTIL(NULL != ep_of(peer)->keep);
        WORLD_UNTIL(!fab_has_queued(world->fab));
        CHECK(NULL == ep_of(peer)->keep && KEPT == fab_counters.verbs_sent_again);
        return;
    }
    WORLD_UNTIL(1 + KEPT == num_got[0]);
    CHECK(0 == num_wrong && 0 == world->failures);
}

static void test_holds(void **state)
{
    (void) state;
    assert_int_equal(world_run_cut(2, holds_body), 0);
}

/* Rank 0 dies while the two connect by other ports: rank 1 notices, though it sends nothing. */
static void dies_then_body(world_t *world)
{
    _Atomic uint64_t *is_noticed = &world->shared->scratch[0];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == got);
    world_barrier(world);
    if (0 == world->rank) {
        cut(world, ep_of(peer)->dom->addr.lid);
        CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 1, 0), NULL, 0));
        WORLD_UNTIL(FAB_VERBS_PROBING == ep_of(peer)->state);
        fab_sock_release(ep_of(peer)->sock);
        while (0 == atomic_load(is_noticed)) {
            sched_yield();
        }
        kill(getpid(), SIGKILL);
    }
    WORLD_UNTIL(FAB_VERBS_ANSWERED == ep_of(peer)->state);
    WORLD_UNTIL(FAB_VERBS_ANSWERED != ep_of(peer)->state);
    atomic_store(is_noticed, 1);
    WORLD_UNTIL(1 == world->failures);
    CHECK(1 == got);
}

static void test_dies_then(void **state)
{
    (void) state;
    world_begin_cuts();
    assert_int_equal(world_run_some_die(2, false, dies_then_body, 1), 0);
    world_end_cuts();
}

/*
 * Before they are sent again rank 1 asks anew, as if it knew nothing of them: rank 0 says that they
 * are lost.
 */
static void anew_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_verbs_ep_t *ep = ep_of(peer);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
        (void) break_first(world, ep);
        ep->dom->sq_used_max = 0;
        atomic_store(&world->shared->scratch[0], 1);
        WORLD_UNTIL(1 == world->failures || is_by(peer, "tcp"));
        CHECK(1 == world->failures);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]) && FAB_VERBS_UP == ep->state);
        fab_verbs_conn_linger(ep->conn);
        fab_verbs_connect_cancel(ep);
        ep->is_bound = false;
        fab_verbs_connect(ep);
    }
    world_barrier(world);
}

static void test_anew(void **state)
{
    (void) state;
    assert_int_equal(world_run_cut(2, anew_body), 0);
}

/*
 * The next one ends for another reason, with some of them on the way: nobody knows which of these
 * have come, so the peer fails.
 */
static void fails_then_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
        (void) break_first(world, ep_of(peer));
        WORLD_UNTIL(SENT_AGAIN == fab_counters.verbs_sent_again);
        unsigned long long moves = fab_counters.verbs_other_ports;
        fab_verbs_ep_defer_failure(ep_of(peer), OPAL_ERR_COMM_FAILURE, "This is a test.");
        WORLD_UNTIL(1 == world->failures || moves < fab_counters.verbs_other_ports);
        CHECK(1 == world->failures && 0 == strcmp("This is a test.", world->failed_why));
    }
    world_barrier(world);
    CHECK(0 == num_wrong);
}

static void test_fails_then(void **state)
{
    (void) state;
    assert_int_equal(world_run_cut(2, fails_then_body), 0);
}

/* Where messages cannot be sent again the peer fails, on both sides, with the reason. */
static void cut_for_good_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == got);
    world_barrier_idle(world);
    if (0 == world->rank) {
        cut(world, ep_of(peer)->dom->addr.lid);
    }
    world_barrier_idle(world);
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 1, 0), NULL, 0));
    WORLD_UNTIL(1 == world->failures || 0 != fab_counters.verbs_other_ports);
    CHECK(0 == fab_counters.verbs_other_ports && 1 == got);
    CHECK(NULL != strstr(world->failed_why, "It does not answer any more (tmdev"));
    world_barrier_idle(world);
}

static void test_cut_for_good(void **state)
{
    (void) state;
    fab_params.verbs_tm = (char *) (uintptr_t) "always";
    assert_int_equal(world_run_cut(2, cut_for_good_body), 0);
}

static void test_cut(void **state)
{
    static const int lids[][2] = {{1, 0},    {2, 0}, {1, 3},    {3, 2},
                                  {DOWN, 1}, {1, 2}, {DOWN, 2}, {DOWN, 0}};

    (void) state;
    for (size_t i = 0; i < sizeof(lids) / sizeof(lids[0]); i++) {
        memcpy(cut_lids, lids[i], sizeof(cut_lids));
        cut_every = i < 5 ? CUT_MESSAGES / 3 : 1 + 7 * i;
        setenv("TMDEV_LINK", 0 == i % 2 ? "ib" : "eth", 1);
        assert_int_equal(world_run_cut(2 + (int) i % 2, cut_body), 0);
    }
    unsetenv("TMDEV_LINK");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        THREE_PORTS(test_cut),       THREE_PORTS(test_cut_twice), THREE_PORTS(test_cut_for_good),
        THREE_PORTS(test_dies_then), THREE_PORTS(test_holds),     THREE_PORTS(test_fails_then),
        THREE_PORTS(test_anew),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
