/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that verbs cannot connect to move to tcp, before anything was sent: nothing is lost,
 * doubled or overtaken, whichever side finds out, and if both do. Skipped where there is no RDMA
 * device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags="-libverbs -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_modify_qp" device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include <errno.h>

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

static struct {
    uint64_t next[4]; /* from each rank */
    uint64_t wrong;
} traffic;

static size_t size_of(uint64_t number)
{
    static const size_t sizes[SIZES] = {0, 8, 200, 256, 1};

    return sizes[number % SIZES];
}

static void on_number(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t *next = &traffic.next[peer->name & 3];

    (void) ctx;
    traffic.wrong += hdr.tag != *next || len != size_of(*next) ||
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

/* ---- two processes, every combination ----------------------------------- */

static unsigned combination; /* job.each: of refusals of both, and of those who send first */
static unsigned every = 1;   /* of the combinations */

static int refusal_of(int rank)
{
    return (int) (combination * every / (0 == rank ? 1 : 3) % 3);
}

static bool is_sending(int rank)
{
    return (unsigned) (1 == rank) != combination * every / 9;
}

static void pair_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    bool is_refused = 0 != refusal_of(0) || 0 != refusal_of(1);

    refusal = refusal_of(world->rank);
    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    CHECK(is_by(peer, "verbs"));
    world_barrier_idle(world);
    if (is_sending(world->rank)) {
        send_numbers(world, peer, 0);
    }
    WORLD_UNTIL(!is_sending(1 - world->rank) || MESSAGES == traffic.next[1 - world->rank]);
    world_barrier(world);
    CHECK(is_by(peer, is_refused ? "tcp" : "verbs"));
    CHECK(is_refused == fab_counters.peers_moved && is_refused == (world->fab->num_moved > 0));
    /* whoever was silent before answers by the same provider */
    send_numbers(world, peer, is_sending(world->rank) ? MESSAGES : 0);
    WORLD_UNTIL((is_sending(1 - world->rank) ? 2 : 1) * MESSAGES == traffic.next[1 - world->rank]);
    world_barrier(world);
    CHECK(0 == traffic.wrong && 0 == world->failures && 1 >= fab_counters.peers_moved);
    WORLD_UNTIL(!is_refused || 0 == verbs_domain(world)->num_conns);
}

/* ---- ports that no packet passes between -------------------------------- */

/* Ranks use devices in turn: rank 0 LID 1, rank 1 LID 2.  Each may use all, or that alone. */
static bool is_in_plane(int one, int other)
{
    return fab_limits.verbs_ports > 1 ||
           (0 == strcmp("1+3,2+4", getenv("TMDEV_PLANES")) && one % 2 == other % 2);
}

/*
 * Everybody sends to those who are reached, and to those who are not; or only some do.  Queue pairs
 * become ready, and what is sent on them is lost: nothing of a user may be on its way then.
 */
static void planes_body(world_t *world)
{
    uint64_t expected = 0;

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    world_barrier_idle(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank && is_sending(world->rank % 2)) {
            send_numbers(world, world_peer(world, i), 0);
        }
    }
    for (int i = 0; i < world->size; i++) {
        expected = is_sending(i % 2) ? MESSAGES : 0;
        WORLD_UNTIL(i == world->rank || expected == traffic.next[i]);
    }
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            send_numbers(world, world_peer(world, i), is_sending(world->rank % 2) ? MESSAGES : 0);
        }
    }
    for (int i = 0; i < world->size; i++) {
        expected = (is_sending(i % 2) ? 2 : 1) * MESSAGES;
        WORLD_UNTIL(i == world->rank || expected == traffic.next[i]);
    }
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        CHECK(i == world->rank ||
              is_by(world_peer(world, i), is_in_plane(i, world->rank) ? "verbs" : "tcp"));
    }
    CHECK(0 == traffic.wrong && 0 == world->failures);
    CHECK(fab_limits.verbs_ports > 1 || 0 == fab_counters.verbs_other_ports);
    atomic_fetch_add(&world->shared->scratch[0], fab_counters.verbs_no_path);
    world_barrier(world);
    CHECK(atomic_load(&world->shared->scratch[0]) > 0);
}

/* A switch between the ports drops long packets: found before one of a user is on its way. */
static void hole_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    world_barrier_idle(world);
    send_numbers(world, peer, 0);
    WORLD_UNTIL(MESSAGES == traffic.next[1 - world->rank]);
    CHECK(is_by(peer, "tcp") && 0 == traffic.wrong && 0 == world->failures);
    atomic_fetch_add(&world->shared->scratch[0], fab_counters.verbs_no_path);
    world_barrier(world);
    CHECK(atomic_load(&world->shared->scratch[0]) > 0);
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
    fab_rkey_t keys[2], waiting = {.bytes = {0}};

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
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
        bool is_of_now = fab_verbs_key(&keys[i]).port == ep_of(peer)->remote;
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

static void says_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    char text[4096];

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
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

/* ---- several, again and again ------------------------------------------- */

enum { ROUNDS = 30 };

static void crowd_body(world_t *world)
{

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
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
    CHECK(LIST_EMPTY(&fab_core(world->fab)->drops));
    world_barrier(world);
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
    int tcp = 0;

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
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
        fab_verbs_make_room(verbs_domain(world), 1);
        CHECK(FAB_SES_CLOSING == ep_of(peer)->ses.state);
        while (&fab_tcp_provider != fab_providers[tcp]) {
            tcp++;
        }
        while (0 == ep_of(peer)->ses.num_ticks) { /* HELLO has not come */
            (void) fab_providers[tcp]->progress(core->slots[tcp].dom);
        }
        CHECK(!fab_peer_is_moving(peer) && MESSAGES == traffic.next[1]);
        WORLD_UNTIL(3 * MESSAGES == traffic.next[1]);
        send_numbers(world, peer, MESSAGES);
    } else {
        WORLD_UNTIL(FAB_SES_KNOWN == ep_of(peer)->ses.state);
        fab_peer_cannot_connect(peer, OPAL_ERR_UNREACH, "This is a test.");
        send_numbers(world, peer, 2 * MESSAGES);
        WORLD_UNTIL(2 * MESSAGES == traffic.next[0]);
    }
    CHECK(is_by(peer, "tcp") && 0 == traffic.wrong && 0 == world->failures);
    world_barrier(world);
}

/* ---- after a connection that was closed ----------------------------------- */

static unsigned refuser; /* rank that can make no connection any more */

/* Rank 1 has closed the connection; rank 0 has more to send, and there cannot be another one. */
static void closed_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    send_numbers(world, peer, 0);
    WORLD_UNTIL(MESSAGES == traffic.next[1 - world->rank]);
    world_barrier(world);
    if (1 == world->rank) {
        fab_peer_close(peer, FAB_USER_PML);
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(0)));
        world->peers[0] = NULL;
    } else {
        WORLD_UNTIL(FAB_SES_KNOWN == ep_of(peer)->ses.state);
    }
    refusal = (int) refuser != world->rank ? 0 : 0 == refuser ? NO_QP : NO_PATH;
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

    fab_set_handler(world->fab, AM_DATA, on_number, NULL);
    if (0 == world->rank) {
        char text[4096];
        refusal = NO_QP;
        CHECK(OPAL_SUCCESS == fab_expose(peer, memory, sizeof(memory), FAB_ACCESS_READ, &key));
        CHECK(OPAL_SUCCESS == fab_put(&op));
        WORLD_UNTIL(1 == completed);
        CHECK(OPAL_ERR_NOT_SUPPORTED == complete_status && is_by(peer, "tcp") &&
              0 == (peer->caps & (FAB_CAP_GET | FAB_CAP_PUT)));
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

/* The peer is closed, or fails, between the refusal and the move. */
static void ends_body(world_t *world)
{
    fab_peer_t *peer;

    refusal = NO_QP;
    for (int i = 0; 0 == world->rank && i < 2; i++) {
        peer = world_peer(world, 1);
        CHECK(is_by(peer, "verbs"));
        CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        while (!fab_peer_is_moving(peer)) {
            (void) fab_providers[3]->progress(fab_core(world->fab)->slots[3].dom);
        }
        if (1 == i) {
            fab_peer_fail(peer, OPAL_ERR_UNREACH, "This is a test.");
            WORLD_UNTIL(1 == world->failures);
            CHECK(fab_peer_is_gone(peer));
        }
        fab_peer_close(peer, FAB_USER_PML);
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        CHECK(i == world->failures && LIST_EMPTY(&fab_core(world->fab)->drops));
        world->peers[1] = NULL;
    }
    world_barrier(world);
    CHECK(0 == fab_counters.peers_moved);
}

/* ---- who stays ---------------------------------------------------------- */

/* Where there was a connection the peer fails; so it does where no other provider reaches it. */
static void stays_body(world_t *world)
{
    bool is_alone = NULL != strstr(fab_params.providers, "verbs,self");
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (0 == world->rank && is_alone) {
        refusal = NO_QP;
        post(world, peer);
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "cannot make a queue pair"));
    } else if (0 == world->rank) {
        connect_to(world, peer);
        fab_verbs_broke(peer->ep, OPAL_ERR_UNREACH, "This is a test.");
        WORLD_UNTIL(1 == world->failures);
        CHECK(0 == strcmp("This is a test.", world->failed_why));
    }
    CHECK(0 == fab_counters.peers_moved);
    world_barrier(world);
}

/* ---- a peer that waits for a request by verbs ----------------------------- */

static unsigned is_closing;

/*
 * Rank 0 owes rank 1 a request, as the fabric has it after a provider whose answer did not arrive.
 * Nothing is sent, and rank 0 has closed the peer, perhaps: the session is made, or tcp asks.
 */
static void owed_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const bool is_refused = 0 != refusal_of(0);

    world_barrier(world);
    if (0 == world->rank) {
        refusal = refusal_of(0);
        fab_verbs_ask_owed(peer);
    }
    if (0 == world->rank && is_closing) {
        fab_peer_close(peer, FAB_USER_PML);
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
        world->peers[1] = NULL;
    } else if (!is_closing) {
        WORLD_UNTIL(is_refused ? is_by(peer, "tcp") : FAB_SES_UP == ep_of(peer)->ses.state);
        world_barrier(world);
        CHECK(1 != world->rank || OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(0 != world->rank || 1 == world->got);
    }
    world_barrier(world);
    CHECK(0 == world->failures && is_refused == fab_counters.peers_moved);
}

#define PLANES(size, devices, planes, ...)                                                         \
    WORLD_JOB("test_planes", planes_body, .ranks = (size),                                         \
              .number = {{&fab_params.verbs_timeout, 8}, {&every, 9}, __VA_ARGS__},                \
              .each = {&combination, 3},                                                           \
              .env = {"TMDEV_DEVICES", (devices), "TMDEV_PLANES", (planes)})
#define ONE_PORT                                                                                   \
    {                                                                                              \
        &fab_limits.verbs_ports, 1                                                                 \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_pairs", pair_body, .each = {&combination, 27}),
        /* all pairs of ports are tried before */
        WORLD_JOB("test_pairs ports", pair_body, .number = {{&every, 5}}, .each = {&combination, 6},
                  .env = {"TMDEV_DEVICES", "2"}),
        /* verbs_timeout 8: 8 ms until the device gives up */
        PLANES(2, "2", "1,2"),
        PLANES(4, "4", "1+3,2+4"),
        PLANES(2, "2", "1,2", ONE_PORT),
        PLANES(4, "4", "1+3,2+4", ONE_PORT),
        WORLD_JOB("test_hole", hole_body, .number = {{&fab_params.verbs_timeout, 8}},
                  .env = {"TMDEV_HOLE", "1024"}),
        WORLD_JOB("test_says", says_body,
                  .number = {{&fab_params.verbs_timeout, 8}, {&fab_limits.verbs_ports, 1}},
                  .env = {"TMDEV_DEVICES", "2", "TMDEV_PLANES", "1,2"}),
        WORLD_JOB("test_crowd", crowd_body, .ranks = 4),
        WORLD_JOB("test_memory", memory_body),
        WORLD_JOB("test_ends", ends_body),
        WORLD_JOB("test_stays", stays_body),
        WORLD_JOB("test_stays without tcp", stays_body,
                  .text = {&fab_params.providers, "verbs,self"}),
        WORLD_JOB("test_given_up", given_up_body),
        WORLD_JOB("test_keys", keys_body, .number = {{&fab_params.verbs_timeout, 8}},
                  .env = {"TMDEV_DEVICES", "2", "TMDEV_PLANES", "1,2"}),
        WORLD_JOB("test_closed", closed_body, .each = {&refuser, 2}),
        WORLD_JOB("test_owed", owed_body, .each = {&combination, 3}),
        WORLD_JOB("test_owed closing", owed_body, .number = {{&is_closing, 1}},
                  .each = {&combination, 3}),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    world_use_providers("verbs,tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
