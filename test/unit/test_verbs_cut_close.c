/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports that fail while a process closes the other or leaves: what was sent before comes, once, and
 * who has left in order has not failed.  Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_verbs_cut.h"

#include "fabric/fab_host.h"

/* Rank 0 closes rank 1 when it has begun to send them again: all come before the end. */
static void end_kept_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_verbs_domain_t *second;
    uint32_t sq_used_max;

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
        sq_used_max = break_first(world, ep_of(peer));
        second = ep_of(peer)->dom;
        WORLD_UNTIL(SENT_AGAIN == fab_counters.verbs_sent_again);
        fab_peer_close(peer, FAB_USER_PML);
        world->peers[1] = NULL;
        second->sq_used_max = sq_used_max;
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        CHECK(KEPT == fab_counters.verbs_sent_again);
    } else {
        WORLD_UNTIL(1 + KEPT == num_got[0]);
    }
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures);
}

static void test_end_kept(void **state)
{
    (void) state;
    assert_int_equal(world_run_cut(2, end_kept_body), 0);
}

static bool do_both; /* what rank 0 does rank 1 does, too */

/* Rank 0 closes rank 1, and the connection breaks with what was sent under way: all of it comes. */
static void close_cut_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == num_got[1 - world->rank]);
    world_barrier(world);
    if (0 == world->rank) {
        cut(world, ep_of(peer)->dom->addr.lid);
    }
    world_barrier_idle(world);
    if (0 == world->rank || do_both) {
        send_kept(world, peer);
        fab_peer_close(peer, FAB_USER_PML);
        world->peers[1 - world->rank] = NULL;
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, peer->name));
    }
    WORLD_UNTIL((0 == world->rank && !do_both) || 1 + KEPT == num_got[1 - world->rank]);
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures && fab_counters.verbs_other_ports > 0);
}

static void test_close_cut(void **state)
{
    (void) state;
    for (int i = 0; i < 2; i++) {
        do_both = 1 == i;
        assert_int_equal(world_run_cut(2, close_cut_body), 0);
    }
}

/* The device has delivered all that was sent, CLOSE too, and does not come to say so. */
static void lose_acks(world_t *world, const fab_verbs_conn_t *conn)
{
    struct ibv_wc wc = {.wr_id = 0};

    while ((uint32_t) wc.wr_id + 1 != conn->head) {
        CHECK(ibv_poll_cq(conn->dom->send_cq, 1, &wc) >= 0);
    }
}

/* Rank 0 closes rank 1, for which the connection breaks before it sees that: all is sent again. */
static void close_came_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == num_got[1 - world->rank]);
    world_barrier(world);
    if (0 == world->rank) {
        const fab_verbs_conn_t *conn = ep_of(peer)->conn;
        fab_peer_close(peer, FAB_USER_PML);
        world->peers[1] = NULL;
        lose_acks(world, conn);
        cut(world, conn->dom->addr.lid);
        world_barrier_idle(world);
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        CHECK(1 + KEPT == num_got[1]);
    } else {
        world_barrier_idle(world);
        send_kept(world, peer);
        fab_verbs_port_lost(verbs_domain(world));
        WORLD_UNTIL(KEPT == fab_counters.verbs_sent_again && FAB_VERBS_IDLE == ep_of(peer)->state);
    }
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures);
}

static void test_close_came(void **state)
{
    (void) state;
    assert_int_equal(world_run_cut(2, close_came_body), 0);
}

/* Send, and close it; the other side gets all that after the barrier, and this one no answer. */
static void close_unheard(world_t *world, fab_peer_t *peer)
{
    const fab_verbs_conn_t *conn = ep_of(peer)->conn;

    send_kept(world, peer);
    fab_peer_close(peer, FAB_USER_PML);
    world->peers[1 - world->rank] = NULL;
    lose_acks(world, conn);
    cut(world, conn->dom->addr.lid);
    world_barrier_idle(world);
    cut(world, DOWN);
}

static enum { STAYS, CLOSES, SENDS } then; /* what rank 1 does when it has that */

/*
 * Rank 0 closes rank 1, which has all and agrees; then the connection breaks, and rank 0 knows of
 * neither.  Nothing comes twice, and rank 1 does not fail.
 */
static void close_over_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (0 == world->rank) {
        connect_to(world, peer);
    }
    WORLD_UNTIL(0 == world->rank || 1 == num_got[0]);
    world_barrier(world);
    if (0 == world->rank) {
        close_unheard(world, peer);
        WORLD_UNTIL(SENDS == then ? 1 == num_got[1]
                                  : NULL == fab_peer_find(world->fab, world_name(1)));
    } else {
        world_barrier_idle(world);
        if (CLOSES == then) {
            fab_peer_close(peer, FAB_USER_PML);
            world->peers[0] = NULL;
            WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(0)));
        } else {
            WORLD_UNTIL(FAB_VERBS_IDLE == ep_of(peer)->state);
        }
        CHECK(1 + KEPT == num_got[0]);
        if (SENDS == then) {
            send_long(world, peer, 0);
        }
    }
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures && (0 == world->rank || 1 + KEPT == num_got[0]));
    CHECK(0 == world->rank || CLOSES == then || is_by(peer, "verbs"));
    CHECK(CLOSES != then || NULL == fab_peer_find(world->fab, world_name(1 - world->rank)));
}

/* The same; rank 1 closes rank 0, which asks for another connection first. */
static void close_asked_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (1 == world->rank) {
        connect_to(world, peer);
    }
    WORLD_UNTIL(1 == world->rank || 1 == num_got[1]);
    world_barrier(world);
    if (1 == world->rank) {
        fab_verbs_ep_t *ep = ep_of(peer);
        close_unheard(world, peer);
        WORLD_UNTIL(NULL != ep->keep && verbs_domain(world) != ep->dom);
        fab_verbs_connect_cancel(ep); /* as if it waited for its turn */
        atomic_store(&world->shared->scratch[0], 1);
        WORLD_UNTIL(1 == num_got[0] && NULL == fab_peer_find(world->fab, world_name(0)));
    } else {
        world_barrier_idle(world);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        CHECK(1 + KEPT == num_got[1] && FAB_VERBS_IDLE == ep_of(peer)->state);
        send_long(world, peer, 0);
    }
    world_barrier(world);
    CHECK(0 == num_wrong && 0 == world->failures && (1 == world->rank || 1 + KEPT == num_got[1]));
    CHECK(1 == world->rank || is_by(peer, "verbs"));
}

static void test_close_over(void **state)
{
    (void) state;
    for (then = STAYS; then <= SENDS; then++) {
        assert_int_equal(world_run_cut(2, close_over_body), 0);
    }
    assert_int_equal(world_run_cut(2, close_asked_body), 0);
}

/* Rank 1 has left when rank 0 finds that its port is down, and learns it after that. */
static void left_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const fab_verbs_addr_t *addr = &ep_of(peer)->addr;
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == got);
    world_barrier_idle(world);
    if (0 == world->rank) {
        while (!fab_proc_is_gone(addr->pid, addr->start_time)) {
            sched_yield();
        }
        cut(world, DOWN);
        WORLD_UNTIL(ep_of(peer)->has_left && NULL == ep_of(peer)->failure);
        CHECK(0 == world->failures && 0 == fab_counters.verbs_other_ports);
    }
}

static void test_left(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, left_body), 0);
}

/* Rank 1 leaves before they are sent again: nothing is sent to it any more. */
static void leaves_then_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_verbs_ep_t *ep = ep_of(peer);
    uint32_t sq_used_max;

    fab_set_handler(world->fab, AM_DATA, on_long, NULL);
    world_barrier(world);
    if (1 == world->rank) {
        WORLD_UNTIL(0 != fab_counters.verbs_other_ports && FAB_VERBS_UP == ep->state);
        return;
    }
    connect_to(world, peer);
    sq_used_max = break_first(world, ep);
    ep->dom->sq_used_max = 0;
    WORLD_UNTIL(ep->has_left);
    ep->dom->sq_used_max = sq_used_max;
    for (int i = 0; i < 100; i++) {
        world_progress(world);
    }
    CHECK(0 == fab_counters.verbs_sent_again && !fab_has_queued(world->fab));
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
}

static void test_leaves_then(void **state)
{
    (void) state;
    assert_int_equal(world_run_cut(2, leaves_then_body), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        THREE_PORTS(test_end_kept),   THREE_PORTS(test_close_cut), THREE_PORTS(test_close_came),
        THREE_PORTS(test_close_over), THREE_PORTS(test_left),      THREE_PORTS(test_leaves_then),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
