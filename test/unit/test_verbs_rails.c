/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long data read by several ports: it is right whatever its length and place, and comes by all
 * ports; what a port has not read when it fails the first one reads.  Skipped where there is no
 * RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=600 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include "verbs/verbs.h"

enum { MEMORY = 3 << 20, GUARD = 64, ROUNDS = 6 };

static unsigned char memory[MEMORY], expected[MEMORY], copy[MEMORY + 2 * GUARD];

static unsigned char byte_at(int rank, size_t at)
{
    return (unsigned char) (at * 31 + (at >> 8) * 7 + (at >> 16) * 13 + (unsigned) rank * 101);
}

/* ---- the two processes --------------------------------------------------- */

/* A place of shared memory for the key that a rank has for the other. */
typedef struct offer {
    fab_rkey_t rkey;
    uint64_t from, len;
} offer_t;

static offer_t *offer_of(const world_t *world, int rank)
{
    return (offer_t *) (uintptr_t) &world->shared->scratch[256 + 16 * rank];
}

static uint64_t wanted; /* messages, one for each time that the two have begun */

static fab_peer_t *begin(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    for (size_t i = 0; i < MEMORY; i++) {
        memory[i] = byte_at(world->rank, i);
        expected[i] = byte_at(1 - world->rank, i);
    }
    srandom((unsigned) world->rank + 1);
    world_barrier(world);
    connect_to(world, peer);
    wanted++;
    WORLD_UNTIL(wanted == world->got);
    world_barrier(world);
    return peer;
}

static void offer(world_t *world, fab_peer_t *peer, size_t from, size_t len)
{
    offer_t *mine = offer_of(world, world->rank);

    mine->from = from;
    mine->len = len;
    CHECK(OPAL_SUCCESS == fab_expose(peer, memory + from, len, FAB_ACCESS_READ, &mine->rkey));
}

static fab_rma_t op, by_all;

static void get(world_t *world, fab_peer_t *peer, const offer_t *theirs)
{
    memset(copy, 0, sizeof(copy));
    for (size_t i = 0; i < theirs->len; i++) {
        copy[GUARD + i] = (unsigned char) ~expected[theirs->from + i];
    }
    op = (fab_rma_t){.peer = peer,
                     .local = copy + GUARD,
                     .remote = (uintptr_t) memory + theirs->from,
                     .len = theirs->len,
                     .rkey = theirs->rkey,
                     .complete = rma_complete};
    completed = 0;
    CHECK(OPAL_SUCCESS == fab_get(&op));
}

static void check_copy(world_t *world, const offer_t *theirs)
{
    CHECK(1 == completed && OPAL_SUCCESS == complete_status && theirs->len == op.done);
    CHECK(0 == memcmp(copy + GUARD, expected + theirs->from, theirs->len));
    for (size_t i = 0; i < GUARD; i++) {
        CHECK(0 == copy[i] && 0 == copy[GUARD + theirs->len + i]);
    }
}

static void get_all(world_t *world, fab_peer_t *peer)
{
    const offer_t theirs = *offer_of(world, 1 - world->rank);

    get(world, peer, &theirs);
    WORLD_UNTIL(0 != completed);
    check_copy(world, &theirs);
}

static int num_rails(const fab_peer_t *peer)
{
    int num = 0;

    for (const fab_verbs_ep_t *rail = ep_of(peer)->rails; NULL != rail; rail = rail->next_rail) {
        num += FAB_SES_UP == rail->ses.state;
    }
    return num;
}

/* All offer all to the other, by a key that is made before there are rails, and read it. */
static offer_t bring_up(world_t *world, fab_peer_t *peer, int num)
{
    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    get_all(world, peer);
    WORLD_UNTIL(num == num_rails(peer));
    world_barrier(world);
    return *offer_of(world, world->rank);
}

static void read_once(world_t *world, fab_peer_t *peer)
{
    size_t from = (size_t) random() % (MEMORY / 2);
    size_t len = FAB_VERBS_RAIL_MIN + (size_t) random() % (MEMORY - FAB_VERBS_RAIL_MIN - from + 1);

    offer(world, peer, from, len);
    world_barrier(world);
    get_all(world, peer);
    world_barrier(world);
    fab_unexpose(peer, &offer_of(world, world->rank)->rkey);
}

/* ---- what it is like ----------------------------------------------------- */

static unsigned rails;   /* that are expected */
static unsigned percent; /* of long data that these are expected to read */

static void shares_body(world_t *world)
{
    fab_peer_t *peer = begin(world);
    offer_t all = bring_up(world, peer, (int) rails);
    unsigned long long before = fab_counters.rma_bytes, rail_bytes;
    long long share;

    CHECK(0 == fab_counters.verbs_rail_bytes); /* there was no key for them */
    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    get_all(world, peer);
    rail_bytes = fab_counters.verbs_rail_bytes;
    share = (long long) (100 * rail_bytes / MEMORY);
    CHECK(before + MEMORY == fab_counters.rma_bytes);
    CHECK(share + 1 >= percent && share <= percent);
    world_barrier(world);
    fab_unexpose(peer, &offer_of(world, world->rank)->rkey);
    for (int i = 0; i < ROUNDS; i++) {
        read_once(world, peer);
    }
    CHECK((0 == rails) == (rail_bytes == fab_counters.verbs_rail_bytes));
    rail_bytes = fab_counters.verbs_rail_bytes;
    *offer_of(world, world->rank) = all; /* the first key again: one for the first port alone */
    world_barrier(world);
    get_all(world, peer);
    CHECK(rail_bytes == fab_counters.verbs_rail_bytes);
    CHECK(0 == fab_counters.verbs_rail_failed && 0 == world->failures);
    world_barrier(world);
    fab_unexpose(peer, &all.rkey);
    world_barrier(world);
}

/* Another host may have one port, or a user who wants no rails. */
static void one_port_body(world_t *world)
{
    if (1 == world->rank) {
        fab_close(world->fab, FAB_USER_PML);
        fab_limits.verbs_ports = 1;
        world_open(world, false);
    }
    world_barrier(world);
    shares_body(world);
}

/* ---- ports that fail ----------------------------------------------------- */

/* Of three devices: the first connection is by LIDs 1 and 2, rails by 3 and 3, and by 2 and 1. */
enum { RAIL_LID = 3 };

/* A rail fails in the middle of what it reads: all is right, and goes on by what is left. */
static void cut_body(world_t *world)
{
    fab_peer_t *peer = begin(world);
    offer_t all = bring_up(world, peer, 2), again, theirs;
    unsigned long long before;

    offer(world, peer, 0, MEMORY);
    again = *offer_of(world, world->rank);
    world_barrier(world);
    theirs = *offer_of(world, 1 - world->rank);
    while (0 == fab_counters.verbs_rail_failed && 0 == world->rank) {
        get(world, peer, &theirs);
        for (int i = 0; i < random() % 8; i++) {
            world_progress(world);
        }
        atomic_store(&world_cuts[RAIL_LID], 1);
        WORLD_UNTIL(0 != completed);
        check_copy(world, &theirs);
    }
    world_barrier(world);
    if (1 == world->rank) { /* by a key for the port that has failed there */
        get(world, peer, &theirs);
        WORLD_UNTIL(0 != completed);
        check_copy(world, &theirs);
    }
    WORLD_UNTIL(0 != fab_counters.verbs_rail_failed);
    CHECK(1 == fab_counters.verbs_rail_failed && 1 == num_rails(peer));
    CHECK(fab_counters.verbs_rail_returned > 0);
    before = fab_counters.verbs_rail_bytes;
    for (int i = 0; i < ROUNDS / 2; i++) {
        read_once(world, peer);
    }
    CHECK(before < fab_counters.verbs_rail_bytes && 0 == world->failures);
    CHECK(fab_counters.verbs_rail_failed <= 1 && 0 == fab_counters.verbs_other_ports);
    world_barrier(world);
    fab_unexpose(peer, &all.rkey);
    fab_unexpose(peer, &again.rkey);
    world_barrier(world);
}

/* A rail that no packet passes: the others read all. */
static void no_path_body(world_t *world)
{
    fab_peer_t *peer;
    offer_t all;

    atomic_store(&world_cuts[RAIL_LID], 1);
    peer = begin(world);
    all = bring_up(world, peer, 1);
    for (int i = 0; i < ROUNDS / 2; i++) {
        read_once(world, peer);
    }
    CHECK(fab_counters.verbs_rail_bytes > 0 && 0 == world->failures);
    WORLD_UNTIL(fab_counters.verbs_rail_failed > 0 || 1 == world->rank);
    CHECK(0 == fab_counters.verbs_rail_returned && 0 == fab_counters.verbs_other_ports);
    world_barrier(world);
    fab_unexpose(peer, &all.rkey);
    world_barrier(world);
}

/* The first port fails while the peer's memory is read, which does not answer: the peer fails. */
static void first_body(world_t *world)
{
    fab_peer_t *peer = begin(world);

    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    if (0 == world->rank) { /* makes the rails */
        get(world, peer, offer_of(world, 1));
    }
    WORLD_UNTIL(2 == num_rails(peer));
    world_barrier(world);
    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    if (0 == world->rank) {
        by_all = op;
        by_all.rkey = offer_of(world, 1)->rkey;
        CHECK(OPAL_SUCCESS == fab_get(&by_all));
        WORLD_UNTIL(ep_of(peer)->rails->conn->in_flight > 0);
        fab_verbs_fail_all(verbs_domain(world), "is down"); /* as it says after ten seconds */
        WORLD_UNTIL(2 == completed);
        CHECK(OPAL_ERR_UNREACH == complete_status && 1 == world->failures);
        CHECK(0 == fab_counters.verbs_other_ports);
    }
    world_barrier(world);
}

/* ---- several gets at once, both ways, while a port fails ------------------ */

enum { MANY = 4, STEPS = 600 };

static fab_rma_t many[MANY];
static unsigned char copies[MANY][MEMORY];
static bool is_busy[MANY];
static int wrong;    /* gets */
static unsigned run; /* decides when it fails */

static void many_done(fab_rma_t *rma, int status)
{
    const size_t i = (size_t) (rma - many), from = (size_t) (rma->remote - (uintptr_t) memory);

    wrong += !is_busy[i];
    wrong += OPAL_SUCCESS != status || 0 != memcmp(copies[i], expected + from, rma->len);
    is_busy[i] = false;
}

static void many_begin(fab_peer_t *peer, const offer_t *theirs, int i)
{
    const size_t from = (size_t) random() % (MEMORY / 2);

    memset(copies[i], 0, MEMORY);
    many[i] = (fab_rma_t){.peer = peer,
                          .local = copies[i],
                          .remote = (uintptr_t) memory + from,
                          .len = FAB_VERBS_RAIL_MIN + (size_t) random() % (MEMORY / 6),
                          .rkey = theirs->rkey,
                          .complete = many_done};
    is_busy[i] = true;
    is_busy[i] = OPAL_SUCCESS == fab_get(&many[i]);
}

static void many_body(world_t *world)
{
    fab_peer_t *peer = begin(world);
    const int nth = 1 + (int) run;
    offer_t theirs;

    (void) bring_up(world, peer, 2);
    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    theirs = *offer_of(world, 1 - world->rank);
    srandom((unsigned) (2 * nth + world->rank));
    for (int step = 0; step < STEPS; step++) {
        int i = (int) (random() % MANY);
        if (!is_busy[i]) {
            many_begin(peer, &theirs, i);
        }
        if (0 == world->rank && 100 * nth == step) {
            atomic_store(&world_cuts[RAIL_LID], 1);
        }
        world_progress(world);
    }
    for (int i = 0; i < MANY; i++) {
        WORLD_UNTIL(!is_busy[i]);
    }
    world_barrier(world);
    CHECK(0 == wrong && 0 == world->failures);
    world_barrier(world);
}

/* ---- peers that end ------------------------------------------------------ */

enum { DIES, LEAVES, IS_LEFT };

static unsigned how;

/* Rank 0 reads by all ports from rank 1, which does not answer, and one of both ends. */
static void end_body(world_t *world)
{
    fab_peer_t *peer = begin(world);

    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    if (0 == world->rank) {
        get(world, peer, offer_of(world, 1));
    }
    WORLD_UNTIL(2 == num_rails(peer));
    world_barrier(world);
    offer(world, peer, 0, MEMORY);
    world_barrier(world);
    if (0 == world->rank) {
        by_all = op;
        by_all.rkey = offer_of(world, 1)->rkey;
        CHECK(OPAL_SUCCESS == fab_get(&by_all));
        WORLD_UNTIL(ep_of(peer)->rails->conn->in_flight > 0);
    }
    world_barrier(world);
    if (1 == world->rank && IS_LEFT != how) {
        if (DIES == how) {
            kill(getpid(), SIGKILL);
        }
        return;
    }
    if (0 == world->rank && IS_LEFT != how) {
        WORLD_UNTIL(2 == completed);
        CHECK(OPAL_ERR_UNREACH == complete_status && 1 == world->failures);
    }
}

/* Both close each other, and begin again: with rails. */
static void again_body(world_t *world)
{
    for (int i = 0; i < 3; i++) {
        fab_peer_t *peer = begin(world);
        offer_t all = bring_up(world, peer, 2);
        read_once(world, peer);
        world_barrier(world);
        fab_unexpose(peer, &all.rkey);
        close_peers(world);
    }
    CHECK(fab_counters.verbs_rail_bytes > 0 && 0 == fab_counters.verbs_rail_failed);
    world_barrier(world);
}

/* ---- peers that are wrong ------------------------------------------------ */

/* Keys that mean nothing, for ports that are not there: those ports fail, and the data is right. */
static void bad_keys_body(world_t *world)
{
    fab_peer_t *peer = begin(world);
    offer_t all = bring_up(world, peer, 2);
    offer_t *mine = offer_of(world, world->rank);

    if (1 == world->rank) {
        memset(mine->rkey.bytes + 6, 0xff, 2); /* of all ports */
        memset(mine->rkey.bytes + 16, 0xa5, 16);
    }
    world_barrier(world);
    if (0 == world->rank) {
        get_all(world, peer);
        CHECK(2 == fab_counters.verbs_rail_failed && 2 <= fab_counters.verbs_rail_returned);
        get_all(world, peer);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
    fab_unexpose(peer, &all.rkey);
    world_barrier(world);
}

/* A message over a rail would overtake others. */
static void message_body(world_t *world)
{
    fab_peer_t *peer = begin(world);
    fab_verbs_tmh_t tmh = {.id = AM_DATA};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

    (void) bring_up(world, peer, 2);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS ==
              fab_verbs_conn_send(ep_of(peer)->rails->conn, &wr, &tmh, NULL, 0, NULL));
    } else {
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "over a connection for shares of long ones"));
    }
    world_barrier(world); /* before that rank 1 does not leave */
}

/* Rows of the table. */
#define NO_TM .text = {&fab_params.verbs_tm, "none"}
#define SHARES(devices, num, its_percent, ...)                                                     \
    WORLD_JOB("test_shares", shares_body, .number[0] = {&rails, (num)},                            \
              .number[1] = {&percent, (its_percent)}, .env[0] = "TMDEV_DEVICES",                   \
              .env[1] = (devices), __VA_ARGS__)
/* 8 ms until the device gives up */
#define CUT(name, body, ...)                                                                       \
    WORLD_JOB(name, body, .run = world_run_cut, .number = {{&fab_params.verbs_timeout, 8}},        \
              .env = {"TMDEV_DEVICES", "3"}, __VA_ARGS__)
#define HOLD .env = {"TMDEV_DEVICES", "3", "TMDEV_HOLD_READS", "1"}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SHARES("3", 2, 66),
        SHARES("4", 3, 75, NO_TM, .env[2] = "TMDEV_LINK", .env[3] = "eth"),
        /* by the first two 200, by the others 200 and 100 */
        SHARES("3", 2, 60, NO_TM, .env[2] = "TMDEV_SPEED", .env[3] = "200,200,100"),
        SHARES("2", 1, 50, NO_TM, .number[2] = {&world_num_local, 1}), /* alone on its host */
        /* where it does not help, or is not wanted */
        SHARES("1", 0, 0),
        SHARES("2", 0, 0), /* as many processes as ports */
        SHARES("3", 0, 0, .number[2] = {&fab_limits.verbs_rails, 1}),
        SHARES("4", 1, 50, .number[2] = {&fab_limits.verbs_rails, 2}),
        SHARES("3", 0, 0, .number[2] = {&fab_params.verbs_max_connections, 8}),
        WORLD_JOB("test_one_port", one_port_body, .env = {"TMDEV_DEVICES", "4"}),
        CUT("test_cut", cut_body),
        CUT("test_cut again", cut_body),
        CUT("test_no_path", no_path_body),
        WORLD_JOB("test_first_fails", first_body, NO_TM, HOLD),
        WORLD_JOB("test_ends", end_body, .number = {{&how, DIES}}, HOLD, .killed = 1 << 1),
        WORLD_JOB("test_ends leaves", end_body, .number = {{&how, LEAVES}}, HOLD),
        WORLD_JOB("test_ends is left", end_body, .number = {{&how, IS_LEFT}}, HOLD),
        WORLD_JOB("test_again", again_body, .env = {"TMDEV_DEVICES", "3"}),
        WORLD_JOB("test_bad_keys", bad_keys_body,
                  .env = {"TMDEV_DEVICES", "3", "TMDEV_QUIET", "1"}),
        WORLD_JOB("test_message", message_body, .env = {"TMDEV_DEVICES", "3"}),
        CUT("test_many", many_body, NO_TM, .each = {&run, 4}),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
