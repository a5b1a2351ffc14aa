/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bound on connections: random traffic between more processes than have connections at a time, by
 * messages and READs; nothing is lost, doubled or overtaken, also if a connection that was given up
 * cannot be made again. Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include "fabric/fab_clock.h"
#include "verbs/verbs.h"

enum { RANKS = 7, BOUND = 2, ROUNDS = 60, LONGEST = 6000, MEMORY = 300000 };

static uint64_t next[RANKS], sent[RANKS], wrong, total;
static bool is_failing;          /* at some time no more queue pairs can be made */
static unsigned has_other_ports; /* half of all peers are reached by other ports than the first */
static unsigned char memory[MEMORY], copy[MEMORY];

static size_t size_of(uint64_t number)
{
    return number * 7919 % 11 < 8 ? number % 200 : number * 101 % LONGEST;
}

static void on_number(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t *number = &next[peer->name & 15];

    (void) ctx;
    wrong += hdr.tag != *number || len != size_of(*number) || !world_is_filled(data, *number, len);
    ++*number;
    total++;
}

static void send_number(world_t *world, int to)
{
    static unsigned char data[LONGEST];
    fab_peer_t *peer = world_peer(world, to);
    uint64_t number = sent[to]++;
    size_t len = size_of(number);

    world_fill(data, number, len);
    if (len <= 200) {
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, number, 0), data, len));
        return;
    }
    /* behind what waits in the queue */
    WORLD_UNTIL(NULL == peer->pending);
    while (OPAL_SUCCESS != fab_send(peer, fab_hdr(AM_DATA, number, 0), data, len)) {
        CHECK(FAB_PEER_UP == peer->state);
        world_progress(world);
    }
}

static int other(const world_t *world)
{
    return (world->rank + 1 + (int) (random() % (world->size - 1))) % world->size;
}

static void read_from(world_t *world, int from)
{
    fab_rma_t op = {.peer = world_peer(world, from),
                    .local = copy,
                    .remote = (uintptr_t) memory,
                    .len = MEMORY,
                    .complete = rma_complete};
    int before = completed;

    memcpy(&op.rkey, (void *) &world->shared->scratch[64 + 64 * from + 8 * world->rank],
           sizeof(op.rkey));
    memset(copy, 0, sizeof(copy));
    if (OPAL_SUCCESS != fab_get(&op)) {
        CHECK(is_failing || has_other_ports); /* by tcp, or by another port than the key is for */
        return;
    }
    WORLD_UNTIL(before < completed);
    CHECK(OPAL_SUCCESS == complete_status
              ? world_is_filled(copy, (uint64_t) from, MEMORY)
              : (is_failing || has_other_ports) && OPAL_ERR_NOT_SUPPORTED == complete_status);
}

/* Connections that are neither given up nor linger. */
static uint32_t in_use(world_t *world)
{
    const fab_verbs_conn_t *conn;
    uint32_t num = 0;

    for (const fab_verbs_domain_t *dom = verbs_domain(world); NULL != dom; dom = dom->next) {
        TAILQ_FOREACH(conn, &dom->conns, link) {
            num += NULL != conn->ep && FAB_SES_CLOSING != conn->ep->ses.state;
        }
    }
    return num;
}

static void traffic_body(world_t *world)
{
    fab_rkey_t keys[RANKS];
    uint64_t expected = 0;

    srandom((unsigned) world->rank + 1);
    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    world_fill(memory, (uint64_t) world->rank, MEMORY);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            CHECK(OPAL_SUCCESS ==
                  fab_expose(world_peer(world, i), memory, MEMORY, FAB_ACCESS_READ, &keys[i]));
            memcpy((void *) &world->shared->scratch[64 + 64 * world->rank + 8 * i], &keys[i],
                   sizeof(keys[i]));
        }
    }
    world_barrier(world);
    for (int round = 0; round < ROUNDS; round++) {
        int to = other(world);
        for (long n = 1 + random() % 20; n > 0; n--) {
            send_number(world, to);
        }
        if (0 == round % 7) {
            read_from(world, other(world));
        }
        if (0 == round % 3) {
            world_progress(world);
        }
    }
    for (int i = 0; i < world->size; i++) {
        atomic_store(&world->shared->scratch[1024 + 16 * world->rank + i], sent[i]);
    }
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        expected += atomic_load(&world->shared->scratch[1024 + 16 * i + world->rank]);
    }
    WORLD_UNTIL(expected == total);
    world_barrier(world);
    CHECK(0 == wrong && 0 == world->failures);
    CHECK(is_failing ? fab_counters.peers_moved > 0 : fab_counters.verbs_evicted > 0);
    /* what others asked for is given up, too, when the next look at the clock says so */
    WORLD_UNTIL(in_use(world) <= BOUND);
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        CHECK(i == world->rank || sent[i] == 0 || FAB_PEER_UP == world_peer(world, i)->state);
        if (i != world->rank) {
            fab_unexpose(world_peer(world, i), &keys[i]);
        }
    }
    world_barrier(world);
}

/*
 * Whoever cannot make a connection again reaches the peer by tcp, whichever side gave it up and
 * whichever wants it back; with several ports by others before.
 */
static void test_again(void **state)
{
    static const char *const calls[] = {"qp:8", "qp:14", "qp:25"};

    (void) state;
    fab_params.verbs_max_connections = BOUND;
    is_failing = true;
    world_use_providers("verbs,tcp");
    for (int i = 0; i < 6; i++) {
        setenv("TMDEV_FAIL", calls[i % 3], 1);
        setenv("TMDEV_DEVICES", i < 3 ? "1" : "3", 1);
        assert_int_equal(world_run(RANKS, false, traffic_body), 0);
    }
    unsetenv("TMDEV_FAIL");
    unsetenv("TMDEV_DEVICES");
    world_use_providers("verbs");
    is_failing = false;
    fab_params.verbs_max_connections = 0;
}

/* Each sends to all in turn, and closes whom it is done with: BYE of both kinds and HELLO cross. */
static void crossing_body(world_t *world)
{
    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    for (int round = 0; round < 12; round++) {
        for (int i = 1; i < world->size; i++) {
            send_number(world, (world->rank + i) % world->size);
        }
        for (int i = 0; i < world->size; i++) {
            WORLD_UNTIL(i == world->rank || next[i] >= (uint64_t) round + 1);
        }
        if (2 == round % 3) { /* several tell each other at the same time */
            WORLD_UNTIL(in_use(world) <= BOUND);
        }
        if (5 == round % 6) {
            world_barrier(world);
            close_peers(world);
            world_barrier(world);
        }
    }
    CHECK(0 == wrong && 0 == world->failures && fab_counters.verbs_evicted > 0);
    world_barrier(world);
}

/* ---- a path that breaks -------------------------------------------------- */

static unsigned comes_back; /* the path, before retries run out */

/* Rank 1 agrees to give the connection up, and its answer does not get through. */
static void lost_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_verbs_ep_t *ep = ep_of(peer);

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    send_number(world, 1 - world->rank);
    WORLD_UNTIL(1 == total);
    world_barrier(world);
    if (0 == world->rank) {
        fab_params.verbs_max_connections = 1;
        fab_verbs_make_room(verbs_domain(world), 1);
        WORLD_UNTIL(ep->conn->head == ep->conn->tail); /* BYE has arrived */
        CHECK(FAB_SES_CLOSING == ep->ses.state);
        world_cuts[1] = 1;
    }
    world_barrier_idle(world); /* until here rank 1 sees nothing of it */
    if (0 == world->rank) {
        send_number(world, 1);
        WORLD_UNTIL(comes_back ? NULL == peer->pending : 1 == world->failures);
        CHECK(comes_back || NULL != strstr(world->failed_why, "It does not answer any more"));
        world_cuts[0] = 1;
    } else {
        uint64_t until = fab_now_us() + FAB_VERBS_LINGER_US * 6 / 5;
        WORLD_UNTIL(FAB_SES_KNOWN == ep->ses.state);
        WORLD_UNTIL(!comes_back || fab_now_us() > until);
        world_cuts[1] = !comes_back;
        WORLD_UNTIL(0 != world_cuts[0] && (!comes_back || 2 == total));
    }
    CHECK(0 == wrong && (comes_back || 1 == world->rank) == (0 == world->failures));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_traffic", traffic_body, .ranks = RANKS,
                  .number = {{&fab_params.verbs_max_connections, BOUND}}),
        WORLD_JOB("test_traffic no matching", traffic_body, .ranks = RANKS,
                  .text = {&fab_params.verbs_tm, "none"},
                  .number = {{&fab_params.verbs_max_connections, BOUND}}),
        cmocka_unit_test(test_again),
        /* peers by two ports of each process: the bound is for both together; 8 ms until the device
         * gives up */
        WORLD_JOB("test_ports", traffic_body, .ranks = RANKS,
                  .number = {{&fab_params.verbs_max_connections, BOUND},
                             {&fab_params.verbs_timeout, 8},
                             {&has_other_ports, 1}},
                  .env = {"TMDEV_DEVICES", "2", "TMDEV_PLANES", "1,2"}),
        WORLD_JOB("test_crossing", crossing_body, .ranks = RANKS,
                  .number = {{&fab_params.verbs_max_connections, BOUND}}),
        WORLD_JOB("test_lost", lost_body, .run = world_run_cut,
                  .number = {{&fab_params.verbs_timeout, 8}}),
        WORLD_JOB("test_lost comes back", lost_body, .run = world_run_cut,
                  .number = {{&comes_back, 1}}),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    world_use_providers("verbs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
