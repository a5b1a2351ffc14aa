/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that verbs cannot connect to move to tcp, before anything was sent: nothing is lost,
 * doubled or overtaken, whichever side finds out, and if both do. Skipped where there is no RDMA
 * device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags="-libverbs -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_modify_qp" device=tmdev timeout=300 quick=no
 */
#include "test_verbs_world.h"

#include <errno.h>

#include "fabric/fab_host.h"
#include "verbs/verbs.h"

/* ---- a device that refuses ---------------------------------------------- */

enum { NO_QP = 1, NO_PATH = 2 }; /* it makes no queue pair, or cannot reach the peer's */

static int refusal; /* of this process */

struct ibv_qp *__real_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    if (NO_QP == refusal) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_ibv_create_qp(pd, init);
}

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    bool is_to_receive = 0 != (mask & IBV_QP_STATE) && IBV_QPS_RTR == attr->qp_state;

    if (NO_QP == refusal && 0 != (mask & IBV_QP_STATE) && IBV_QPS_INIT == attr->qp_state) {
        return ENOMEM; /* one that ibv_create_qp_ex() made */
    }
    return NO_PATH == refusal && is_to_receive ? ENETUNREACH : __real_ibv_modify_qp(qp, attr, mask);
}

/* ---- numbered messages -------------------------------------------------- */

enum { MESSAGES = 40, SIZES = 5 };

typedef struct traffic {
    uint64_t next[4]; /* from each rank */
    uint64_t wrong;
} traffic_t;

static size_t size_of(uint64_t number)
{
    static const size_t sizes[SIZES] = {0, 8, 200, 256, 1};

    return sizes[number % SIZES];
}

static void on_number(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    traffic_t *traffic = ctx;
    uint64_t *next = &traffic->next[peer->name & 3];

    traffic->wrong += hdr.tag != *next || len != size_of(*next) ||
                      !world_is_filled(data, *next, len);
    ++*next;
}

static void send_numbers(world_t *world, fab_peer_t *peer, uint64_t first)
{
    unsigned char data[256];

    for (uint64_t number = first; number < first + MESSAGES; number++) {
        world_fill(data, number, size_of(number));
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, number, 0), data, size_of(number)));
        if (3 == number % 7) {
            world_progress(world);
        }
    }
}

static bool is_by(const fab_peer_t *peer, const char *provider)
{
    return 0 == strcmp(provider, fab_peer_provider_name(peer));
}

/* ---- two processes, every combination ----------------------------------- */

typedef struct combination {
    int refusals[2];
    bool sends[2];
} combination_t;

static combination_t combination;

static void pair_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    bool is_refused = 0 != combination.refusals[0] || 0 != combination.refusals[1];
    traffic_t traffic = {.wrong = 0};

    refusal = combination.refusals[world->rank];
    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    CHECK(is_by(peer, "verbs"));
    world_barrier_idle(world);
    if (combination.sends[world->rank]) {
        send_numbers(world, peer, 0);
    }
    WORLD_UNTIL(!combination.sends[1 - world->rank] || MESSAGES == traffic.next[1 - world->rank]);
    world_barrier(world);
    CHECK(is_by(peer, is_refused ? "tcp" : "verbs"));
    CHECK(is_refused == fab_counters.peers_moved && is_refused == (world->fab->num_moved > 0));
    /* whoever was silent before answers by the same provider */
    send_numbers(world, peer, combination.sends[world->rank] ? MESSAGES : 0);
    WORLD_UNTIL((combination.sends[1 - world->rank] ? 2 : 1) * MESSAGES ==
                traffic.next[1 - world->rank]);
    world_barrier(world);
    CHECK(0 == traffic.wrong && 0 == world->failures && 1 >= fab_counters.peers_moved);
    CHECK(!is_refused || 0 == verbs_domain(world)->num_conns);
}

static void test_pairs(void **state)
{
    (void) state;
    for (int i = 0; i < 27; i++) {
        combination = (combination_t){.refusals = {i % 3, i / 3 % 3},
                                      .sends = {0 != i / 9, 1 != i / 9}};
        assert_int_equal(world_run(2, false, pair_body), 0);
    }
    setenv("TMDEV_DEVICES", "2", 1); /* all pairs of ports are tried before */
    for (int i = 1; i < 27; i += 5) {
        combination = (combination_t){.refusals = {i % 3, i / 3 % 3},
                                      .sends = {0 != i / 9, 1 != i / 9}};
        assert_int_equal(world_run(2, false, pair_body), 0);
    }
    unsetenv("TMDEV_DEVICES");
}

/* ---- a port whose address changes ---------------------------------------- */

/*
 * Ranks 0 and 1 are connected, then their ports get other addresses: they go on, and whom they have
 * no connection with yet they reach by tcp.
 */
static void change_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world);
    traffic_t traffic = {.wrong = 0};

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    world_barrier_idle(world);
    if (world->rank < 2) {
        send_numbers(world, world_peer(world, 1 - world->rank), 0);
        WORLD_UNTIL(MESSAGES <= traffic.next[1 - world->rank] && NULL != dom->changed);
        CHECK(is_by(world_peer(world, 1 - world->rank), "verbs"));
        send_numbers(world, world_peer(world, 1 - world->rank), MESSAGES);
        WORLD_UNTIL(2 * MESSAGES == traffic.next[1 - world->rank]);
    }
    world_barrier(world);
    if (0 == world->rank) {
        send_numbers(world, world_peer(world, 2), 0);
        WORLD_UNTIL(MESSAGES == traffic.next[2]);
        CHECK(is_by(world_peer(world, 2), "tcp") && is_by(world_peer(world, 1), "verbs"));
    } else if (2 == world->rank) {
        send_numbers(world, world_peer(world, 0), 0);
        WORLD_UNTIL(MESSAGES == traffic.next[0]);
        CHECK(is_by(world_peer(world, 0), "tcp"));
    }
    CHECK(0 == traffic.wrong && 0 == world->failures);
    world_barrier(world);
}

static void test_change(void **state)
{
    static const char *const changes[] = {"lid:20", "gid:20", "pkey:20"};

    (void) state;
    for (int i = 0; i < 3; i++) {
        setenv("TMDEV_CHANGE", changes[i], 1);
        assert_int_equal(world_run(3, false, change_body), 0);
    }
    unsetenv("TMDEV_CHANGE");
}

/* ---- ports that no packet passes between -------------------------------- */

static const char *planes;

/* Ranks use devices in turn: rank 0 LID 1, rank 1 LID 2.  Each may use all, or that alone. */
static bool is_in_plane(int one, int other)
{
    return fab_params.verbs_ports > 1 || (0 == strcmp("1+3,2+4", planes) && one % 2 == other % 2);
}

/* Everybody sends to those who are reached, and to those who are not; or only some do. */
static void planes_body(world_t *world)
{
    traffic_t traffic = {.wrong = 0};
    uint64_t expected = 0;

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    world_barrier_idle(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank && combination.sends[world->rank % 2]) {
            send_numbers(world, world_peer(world, i), 0);
        }
    }
    for (int i = 0; i < world->size; i++) {
        expected = combination.sends[i % 2] ? MESSAGES : 0;
        WORLD_UNTIL(i == world->rank || expected == traffic.next[i]);
    }
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            send_numbers(world, world_peer(world, i),
                         combination.sends[world->rank % 2] ? MESSAGES : 0);
        }
    }
    for (int i = 0; i < world->size; i++) {
        expected = (combination.sends[i % 2] ? 2 : 1) * MESSAGES;
        WORLD_UNTIL(i == world->rank || expected == traffic.next[i]);
    }
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        CHECK(i == world->rank ||
              is_by(world_peer(world, i), is_in_plane(i, world->rank) ? "verbs" : "tcp"));
    }
    CHECK(0 == traffic.wrong && 0 == world->failures);
    CHECK(fab_params.verbs_ports > 1 || 0 == fab_counters.verbs_other_ports);
    atomic_fetch_add(&world->shared->scratch[0], fab_counters.verbs_no_path);
    world_barrier(world);
    CHECK(atomic_load(&world->shared->scratch[0]) > 0);
}

static void run_planes(int size, const char *devices, const char *value)
{
    planes = value;
    setenv("TMDEV_DEVICES", devices, 1);
    setenv("TMDEV_PLANES", value, 1);
    for (int i = 0; i < 3; i++) {
        combination = (combination_t){.sends = {1 != i, 2 != i}};
        assert_int_equal(world_run(size, false, planes_body), 0);
    }
    unsetenv("TMDEV_DEVICES");
    unsetenv("TMDEV_PLANES");
}

/*
 * Queue pairs become ready, and what is sent on them is lost: nothing of a user may be on its way
 * then.
 */
static void test_planes(void **state)
{
    unsigned int timeout = fab_params.verbs_timeout;

    (void) state;
    fab_params.verbs_timeout = 8; /* 8 ms until the device gives up */
    run_planes(2, "2", "1,2");
    run_planes(4, "4", "1+3,2+4");
    fab_params.verbs_ports = 1;
    run_planes(2, "2", "1,2");
    run_planes(4, "4", "1+3,2+4");
    fab_params.verbs_ports = FAB_VERBS_PORTS;
    fab_params.verbs_timeout = timeout;
}

/* A key that was made before the peer moved is refused, those that are made later are not. */
static void keys_body(world_t *world)
{
    static unsigned char memory[300000], copy[300000];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rma_t op = {.peer = peer,
                    .local = copy,
                    .remote = (uintptr_t) memory,
                    .len = sizeof(memory),
                    .complete = rma_complete};
    traffic_t traffic = {.wrong = 0};
    fab_rkey_t keys[2], waiting = {.bytes = {0}};

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    world_fill(memory, (uint64_t) world->rank, sizeof(memory));
    CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &keys[0]));
    world_barrier_idle(world);
    if (0 == world->rank) { /* it is on the way when the peer moves */
        op.rkey = waiting;
        CHECK(OPAL_SUCCESS == fab_get(&op));
        WORLD_UNTIL(1 == completed);
        CHECK(OPAL_ERR_NOT_SUPPORTED == complete_status);
    }
    send_numbers(world, peer, 0);
    WORLD_UNTIL(MESSAGES == traffic.next[1 - world->rank]);
    CHECK(is_by(peer, "verbs") && ep_of(peer)->pair > 0);
    CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &keys[1]));
    memcpy((void *) &world->shared->scratch[64 + 16 * world->rank], keys, sizeof(keys));
    world_barrier(world);
    memcpy(keys, (void *) &world->shared->scratch[64 + 16 * (1 - world->rank)], sizeof(keys));
    for (int i = 0; i < 2; i++) {
        bool is_of_now = fab_verbs_is_key_of(&keys[i], ep_of(peer)->remote);
        int before = completed;
        op.rkey = keys[i];
        CHECK(1 == i ? is_of_now : true);
        CHECK((is_of_now ? OPAL_SUCCESS : OPAL_ERR_NOT_SUPPORTED) == fab_get(&op));
        WORLD_UNTIL(!is_of_now || before < completed);
        CHECK(OPAL_SUCCESS == complete_status || !is_of_now);
        CHECK(!is_of_now || world_is_filled(copy, (uint64_t) (1 - world->rank), sizeof(copy)));
    }
    world_barrier(world);
    memcpy(keys, (void *) &world->shared->scratch[64 + 16 * world->rank], sizeof(keys));
    fab_unexpose(peer, &keys[0]);
    fab_unexpose(peer, &keys[1]);
    CHECK(0 == traffic.wrong && 0 == world->failures && 0 == fab_counters.peers_moved);
    world_barrier(world);
}

static void test_keys(void **state)
{
    unsigned int timeout = fab_params.verbs_timeout;

    (void) state;
    fab_params.verbs_timeout = 8;
    setenv("TMDEV_DEVICES", "2", 1);
    setenv("TMDEV_PLANES", "1,2", 1);
    assert_int_equal(world_run(2, false, keys_body), 0);
    unsetenv("TMDEV_DEVICES");
    unsetenv("TMDEV_PLANES");
    fab_params.verbs_timeout = timeout;
}

static void says_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    traffic_t traffic = {.wrong = 0};
    char text[4096];

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    if (0 == world->rank) {
        send_numbers(world, peer, 0);
        WORLD_UNTIL(is_by(peer, "tcp"));
        fab_describe(world->fab, text, sizeof(text));
        CHECK(NULL != strstr(text, "No packet passes between tmdev0:1 here and its port (transport "
                                   "retry counter exceeded)"));
    } else {
        WORLD_UNTIL(MESSAGES == traffic.next[0]);
    }
    world_barrier(world);
}

static void test_says(void **state)
{
    unsigned int timeout = fab_params.verbs_timeout;

    (void) state;
    fab_params.verbs_timeout = 8;
    fab_params.verbs_ports = 1;
    setenv("TMDEV_DEVICES", "2", 1);
    setenv("TMDEV_PLANES", "1,2", 1);
    assert_int_equal(world_run(2, false, says_body), 0);
    fab_params.verbs_ports = FAB_VERBS_PORTS;
    unsetenv("TMDEV_DEVICES");
    unsetenv("TMDEV_PLANES");
    fab_params.verbs_timeout = timeout;
}

/* ---- several, again and again ------------------------------------------- */

enum { ROUNDS = 30 };

static void crowd_body(world_t *world)
{
    traffic_t traffic = {.wrong = 0};

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    srandom((unsigned) world->rank + 1);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        refusal = (int) (random() % 4); /* or none */
        world_barrier(world);
        world_barrier_idle(world);
        for (int i = 0; i < world->size; i++) {
            if (i != world->rank) {
                send_numbers(world, world_peer(world, i), round * MESSAGES);
            }
        }
        for (int i = 0; i < world->size; i++) {
            WORLD_UNTIL(i == world->rank || (round + 1) * MESSAGES == traffic.next[i]);
        }
        close_peers(world);
    }
    CHECK(0 == traffic.wrong && 0 == world->failures && fab_counters.peers_moved > 0);
    CHECK(LIST_EMPTY(&fab_core(world->fab)->moves));
    world_barrier(world);
}

static void test_crowd(void **state)
{
    (void) state;
    assert_int_equal(world_run(4, false, crowd_body), 0);
}

/* ---- after a connection that was given up -------------------------------- */

/*
 * Rank 0 has given it up and does not know yet that rank 1 agreed, and cannot make another one:
 * what rank 1 sent before comes first.
 */
static void given_up_body(world_t *world)
{
    fab_core_t *core = fab_core(world->fab);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    traffic_t traffic = {.wrong = 0};
    int tcp = 0;

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    send_numbers(world, peer, 0);
    WORLD_UNTIL(MESSAGES == traffic.next[1 - world->rank]);
    world_barrier(world);
    if (1 == world->rank) {
        send_numbers(world, peer, MESSAGES);
        WORLD_UNTIL(NULL == peer->pending);
    }
    world_barrier_idle(world);
    if (0 == world->rank) {
        fab_params.verbs_max_connections = 1;
        fab_verbs_make_room(verbs_domain(world));
        CHECK(FAB_VERBS_EVICTING == ep_of(peer)->state);
        while (&fab_tcp_provider != fab_providers[tcp]) {
            tcp++;
        }
        while (!fab_peer_is_moving(peer)) {
            (void) fab_providers[tcp]->progress(core->slots[tcp].dom);
        }
        CHECK(0 == fab_move_run(core) && fab_peer_is_moving(peer));
        CHECK(MESSAGES == traffic.next[1]);
        WORLD_UNTIL(3 * MESSAGES == traffic.next[1]);
        send_numbers(world, peer, MESSAGES);
    } else {
        WORLD_UNTIL(FAB_VERBS_IDLE == ep_of(peer)->state);
        fab_peer_cannot_connect(peer, OPAL_ERR_UNREACH, "This is a test.");
        send_numbers(world, peer, 2 * MESSAGES);
        WORLD_UNTIL(2 * MESSAGES == traffic.next[0]);
    }
    CHECK(is_by(peer, "tcp") && 0 == traffic.wrong && 0 == world->failures);
    world_barrier(world);
}

static void test_given_up(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, given_up_body), 0);
}

/* ---- after a connection that was closed ----------------------------------- */

static int refuser; /* rank that can make no connection any more */

/* Rank 1 has closed the connection; rank 0 has more to send, and there cannot be another one. */
static void closed_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    traffic_t traffic = {.wrong = 0};

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    send_numbers(world, peer, 0);
    WORLD_UNTIL(MESSAGES == traffic.next[1 - world->rank]);
    world_barrier(world);
    if (1 == world->rank) {
        fab_peer_close(peer, FAB_USER_PML);
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(0)));
        world->peers[0] = NULL;
    } else {
        WORLD_UNTIL(FAB_VERBS_IDLE == ep_of(peer)->state);
    }
    refusal = refuser == world->rank ? combination.refusals[0] : 0;
    world_barrier(world);
    if (0 == world->rank) {
        send_numbers(world, peer, MESSAGES);
        WORLD_UNTIL(NULL == peer->pending && is_by(peer, "tcp"));
    } else {
        WORLD_UNTIL(2 * MESSAGES == traffic.next[0]);
    }
    world_barrier(world);
    CHECK(0 == traffic.wrong && 0 == world->failures);
}

static void test_closed(void **state)
{
    (void) state;
    for (refuser = 0; refuser < 2; refuser++) {
        combination = (combination_t){.refusals = {NO_QP + refuser}};
        assert_int_equal(world_run(2, false, closed_body), 0);
    }
}

/* ---- what else is under way --------------------------------------------- */

/* Get and put end so that the caller takes messages; keys mean nothing any more. */
static void memory_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    char memory[64];
    fab_rkey_t key;
    fab_rma_t op = {.peer = peer,
                    .local = memory,
                    .remote = (uintptr_t) memory,
                    .len = sizeof(memory),
                    .complete = rma_complete};
    traffic_t traffic = {.wrong = 0};

    fab_set_handler(world->fab, AM_DATA, on_number, &traffic);
    if (0 == world->rank) {
        char text[4096];
        refusal = NO_QP;
        CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &key));
        CHECK(OPAL_SUCCESS == fab_put(&op));
        WORLD_UNTIL(1 == completed);
        CHECK(OPAL_ERR_NOT_SUPPORTED == complete_status && is_by(peer, "tcp") && 0 == peer->caps);
        fab_unexpose(peer, &key);
        CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op));
        fab_describe(world->fab, text, sizeof(text));
        CHECK(NULL != strstr(text, "but 1 by another provider: tmdev0:1 cannot make a queue pair"));
        send_numbers(world, peer, 0);
    } else {
        WORLD_UNTIL(MESSAGES == traffic.next[0]);
    }
    world_barrier(world);
    CHECK(0 == traffic.wrong && 0 == world->failures);
}

static void test_memory(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, memory_body), 0);
}

/* The peer is closed, or fails, between the refusal and the move. */
static void ends_body(world_t *world)
{
    fab_peer_t *peer;

    refusal = NO_QP;
    for (int i = 0; 0 == world->rank && i < 2; i++) {
        peer = world_peer(world, 1);
        CHECK(is_by(peer, "verbs"));
        CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        (void) fab_providers[2]->progress(fab_core(world->fab)->slots[2].dom);
        CHECK(fab_peer_is_moving(peer));
        if (1 == i) {
            fab_peer_fail(peer, OPAL_ERR_UNREACH, "This is a test.");
            WORLD_UNTIL(1 == world->failures);
            CHECK(fab_peer_is_gone(peer));
        }
        fab_peer_close(peer, FAB_USER_PML);
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        CHECK(i == world->failures && LIST_EMPTY(&fab_core(world->fab)->moves));
        world->peers[1] = NULL;
    }
    world_barrier(world);
    CHECK(0 == fab_counters.peers_moved);
}

static void test_ends(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, ends_body), 0);
}

/* ---- who stays ---------------------------------------------------------- */

/* Where there was a connection the peer fails; so it does where no other provider reaches it. */
static void stays_body(world_t *world)
{
    bool is_alone = NULL != strstr(fab_params.providers, "verbs,self");
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (0 == world->rank && is_alone) {
        refusal = NO_QP;
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "cannot make a queue pair"));
    } else if (0 == world->rank) {
        connect_to(world, peer);
        fab_peer_cannot_connect(peer, OPAL_ERR_UNREACH, "This is a test.");
        WORLD_UNTIL(1 == world->failures);
        CHECK(0 == strcmp("This is a test.", world->failed_why));
    }
    CHECK(0 == fab_counters.peers_moved);
    world_barrier(world);
}

static void test_stays(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, stays_body), 0);
    fab_params.providers = (char *) (uintptr_t) "verbs,self";
    assert_int_equal(world_run(2, false, stays_body), 0);
    fab_params.providers = (char *) (uintptr_t) "verbs,tcp";
}

/* ---- a port that fails while it is used ----------------------------------- */

enum { CUT_MESSAGES = 3000, CUT_MEMORY = 200000 };

enum { DOWN = -1 };

static uint64_t cut_every; /* messages */
static int cut_lids[2];    /* ports that fail, one after the other; 0: none; DOWN: rank 0's first */
static uint64_t num_got[4], num_wrong;
static unsigned char cut_memory[CUT_MEMORY];

static size_t long_of(uint64_t number)
{
    return 0 == number % 9 ? number * 101 % 6000 : number % 300;
}

static void on_long(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t *next = &num_got[peer->name & 3];

    (void) ctx;
    num_wrong += hdr.tag != *next || len != long_of(*next) || !world_is_filled(data, *next, len);
    ++*next;
}

static void send_long(world_t *world, fab_peer_t *peer, uint64_t number)
{
    static unsigned char data[6000];
    size_t len = long_of(number);

    world_fill(data, number, len);
    while (OPAL_SUCCESS != fab_send(peer, fab_hdr(AM_DATA, number, 0), data, len)) {
        CHECK(FAB_PEER_UP == peer->state);
        world_progress(world);
    }
}

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

static void cut(world_t *world, int lid)
{
    if (DOWN == lid) {
        fab_verbs_port_lost(verbs_domain(world)); /* as it says after ten seconds */
    } else {
        atomic_store(&world_cuts[lid], 1);
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

enum { KEPT = 20, SENT_AGAIN = 3 }; /* messages; KEPT is less than a window */

static void send_kept(world_t *world, fab_peer_t *peer)
{
    for (uint64_t number = 1; number <= KEPT; number++) {
        send_long(world, peer, number);
    }
}

/*
 * The connection by the first port breaks with KEPT messages under way, and the next one is up with
 * room for SENT_AGAIN of them.  Returns how much room it had.
 */
static uint32_t break_first(world_t *world, fab_verbs_ep_t *ep)
{
    const uint32_t sq_used_max = ep->dom->sq_used_max;
    const fab_verbs_domain_t *first = ep->dom;

    cut(world, first->addr.lid);
    send_kept(world, ep->peer);
    while (first == ep->dom || FAB_VERBS_UP != ep->state) {
        world_progress(world);
        if (first != ep->dom) {
            ep->dom->sq_used_max = 0; /* no room for what is to be sent again */
        }
    }
    CHECK(NULL != ep->keep && 0 == fab_counters.verbs_sent_again);
    ep->dom->sq_used_max = ep->dom->sq_used + SENT_AGAIN;
    return sq_used_max;
}

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

/* Ports by which processes move without waiting long, and that match no tags. */
static void with_three_ports(void (*run)(void))
{
    unsigned int timeout = fab_params.verbs_timeout;
    char *tm = fab_params.verbs_tm;

    fab_params.verbs_timeout = 8;
    fab_params.verbs_tm = (char *) (uintptr_t) "none";
    setenv("TMDEV_DEVICES", "3", 1);
    run();
    unsetenv("TMDEV_DEVICES");
    fab_params.verbs_tm = tm;
    fab_params.verbs_timeout = timeout;
}

static void cut_twice(void)
{
    setenv("TMDEV_LINK", "ib", 1);
    world_begin_cuts();
    assert_int_equal(world_run(2, false, cut_twice_body), 0);
    world_end_cuts();
    unsetenv("TMDEV_LINK");
}

static void test_cut_twice(void **state)
{
    (void) state;
    with_three_ports(cut_twice);
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

static void holds(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, holds_body), 0);
    world_end_cuts();
}

static void test_holds(void **state)
{
    (void) state;
    with_three_ports(holds);
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

static void dies_then(void)
{
    world_begin_cuts();
    assert_int_equal(world_run_some_die(2, false, dies_then_body, 1), 0);
    world_end_cuts();
}

static void test_dies_then(void **state)
{
    (void) state;
    with_three_ports(dies_then);
}

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

static void end_kept(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, end_kept_body), 0);
    world_end_cuts();
}

static void test_end_kept(void **state)
{
    (void) state;
    with_three_ports(end_kept);
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

static void close_cut(void)
{
    for (int i = 0; i < 2; i++) {
        do_both = 1 == i;
        world_begin_cuts();
        assert_int_equal(world_run(2, false, close_cut_body), 0);
        world_end_cuts();
    }
}

static void test_close_cut(void **state)
{
    (void) state;
    with_three_ports(close_cut);
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

static void close_came(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, close_came_body), 0);
    world_end_cuts();
}

static void test_close_came(void **state)
{
    (void) state;
    with_three_ports(close_came);
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

static void close_over(void)
{
    for (then = STAYS; then <= SENDS; then++) {
        world_begin_cuts();
        assert_int_equal(world_run(2, false, close_over_body), 0);
        world_end_cuts();
    }
    world_begin_cuts();
    assert_int_equal(world_run(2, false, close_asked_body), 0);
    world_end_cuts();
}

static void test_close_over(void **state)
{
    (void) state;
    with_three_ports(close_over);
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

static void anew(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, anew_body), 0);
    world_end_cuts();
}

static void test_anew(void **state)
{
    (void) state;
    with_three_ports(anew);
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

static void left(void)
{
    assert_int_equal(world_run(2, false, left_body), 0);
}

static void test_left(void **state)
{
    (void) state;
    with_three_ports(left);
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

static void leaves_then(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, leaves_then_body), 0);
    world_end_cuts();
}

static void test_leaves_then(void **state)
{
    (void) state;
    with_three_ports(leaves_then);
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

static void fails_then(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, fails_then_body), 0);
    world_end_cuts();
}

static void test_fails_then(void **state)
{
    (void) state;
    with_three_ports(fails_then);
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

static void cut_for_good(void)
{
    world_begin_cuts();
    assert_int_equal(world_run(2, false, cut_for_good_body), 0);
    world_end_cuts();
}

static void cut_atomic(void)
{
    setenv("TMDEV_ATOMIC_GLOB", "1", 1);
    cut_for_good();
    unsetenv("TMDEV_ATOMIC_GLOB");
}

static void cut_matching(void)
{
    fab_params.verbs_tm = (char *) (uintptr_t) "always";
    cut_for_good();
}

static void test_cut_for_good(void **state)
{
    (void) state;
    with_three_ports(cut_atomic);
    with_three_ports(cut_matching);
}

static void cut_in_turn(void)
{
    static const int lids[][2] = {{1, 0},    {2, 0}, {1, 3},    {3, 2},
                                  {DOWN, 1}, {1, 2}, {DOWN, 2}, {DOWN, 0}};

    for (size_t i = 0; i < sizeof(lids) / sizeof(lids[0]); i++) {
        memcpy(cut_lids, lids[i], sizeof(cut_lids));
        cut_every = i < 5 ? CUT_MESSAGES / 3 : 1 + 7 * i;
        setenv("TMDEV_LINK", 0 == i % 2 ? "ib" : "eth", 1);
        world_begin_cuts();
        assert_int_equal(world_run(2 + (int) i % 2, false, cut_body), 0);
        world_end_cuts();
    }
    unsetenv("TMDEV_LINK");
}

static void test_cut(void **state)
{
    (void) state;
    with_three_ports(cut_in_turn);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),      cmocka_unit_test(test_planes),
        cmocka_unit_test(test_says),       cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_ends),
        cmocka_unit_test(test_stays),      cmocka_unit_test(test_change),
        cmocka_unit_test(test_given_up),   cmocka_unit_test(test_keys),
        cmocka_unit_test(test_closed),     cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_twice),  cmocka_unit_test(test_cut_for_good),
        cmocka_unit_test(test_dies_then),  cmocka_unit_test(test_leaves_then),
        cmocka_unit_test(test_holds),      cmocka_unit_test(test_fails_then),
        cmocka_unit_test(test_end_kept),   cmocka_unit_test(test_anew),
        cmocka_unit_test(test_left),       cmocka_unit_test(test_close_cut),
        cmocka_unit_test(test_close_over), cmocka_unit_test(test_close_came),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
