/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the verbs provider finds and connects to its peers: the user's lists of devices, crossed
 * requests, damaged addresses, strangers at the listener; a kernel that looks for a peer for long.
 * Skipped where there is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags="-libverbs -Wl,--wrap=ibv_modify_qp" device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include "test_strangers.h"

#include "fabric/fab_wire.h"
#include "verbs/verbs.h"

/* ---- connecting --------------------------------------------------------- */

enum { CROSSINGS = 30 };

static void crossed_body(world_t *world)
{
    uint64_t rounds = cross(world, CROSSINGS, &fab_counters.crossed);
    WORLD_UNTIL(0 == verbs_domain(world)->num_conns); /* none is left behind */
    CHECK(0 == verbs_domain(world)->sq_used && 0 == verbs_domain(world)->num_signaled);
    CHECK(0 == verbs_domain(world)->send_pool.used);
    /* one queue pair for each connection, whoever asked: no request came to nothing */
    CHECK(rounds * (unsigned) (world->size - 1) == fab_counters.connections);
    CHECK(0 == fab_counters.verbs_bad_frames);
}

/* With another key, nothing is looked at; with the right one, it has to be what a QP can have. */
static void stranger_calls(world_t *world)
{
    const uint8_t *key = ep_of(world_peer(world, 0))->addr.key;
    const fab_verbs_frame_t good = {.msg = {.kind = FAB_SES_HELLO, .window = 8, .serial = 1},
                                    .qpn = 17,
                                    .reads = 1,
                                    .addr = verbs_domain(world)->addr};
    uint8_t wrong[FAB_SOCK_KEY];

    for (int i = 0; i < 150; i++) {
        stranger_says_garbage(world);
        memcpy(wrong, key, sizeof(wrong));
        wrong[i % FAB_SOCK_KEY] ^= (uint8_t) (1 << random() % 8);
        CHECK(0 == stranger_asks(world, FAB_WIRE_VERBS, wrong, &good, sizeof(good)));
    }
    for (int i = 0; i < 7; i++) {
        fab_verbs_frame_t bad = good;
        bad.qpn = 0 == i ? 0 : 1 == i ? 1 << 24 : 17;
        bad.psn = 2 == i ? 1 << 24 : 0;
        bad.msg.window = 3 == i ? 0 : 8;
        bad.msg.kind = 4 == i ? FAB_SES_REFUSE + 1 : FAB_SES_HELLO;
        bad.msg.serial -= 5 == i;
        bad.pair = 6 == i ? FAB_VERBS_PAIRS : 0;
        CHECK(0 == stranger_asks(world, FAB_WIRE_VERBS, key, &bad, sizeof(bad)));
    }
}

static void check_strangers(world_t *world)
{
    CHECK(fab_counters.verbs_bad_frames > 300 && 0 == verbs_domain(world)->num_conns);
}

/* Strangers: nothing they say does harm, and none of them is kept. */
static void strangers_body(world_t *world)
{
    stranger_world(world, verbs_domain(world)->socks, stranger_calls, check_strangers);
}

/* The first of a process's addresses leads nowhere: the next is tried. */
static void other_addresses_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world);

    dom->addr.host += (uint64_t) world->rank; /* not over loopback first */
    memmove(&dom->addr.ips[1], &dom->addr.ips[0], sizeof(dom->addr.ips[0]) * (FAB_VERBS_IPS - 1));
    /* broadcast: refused */
    memcpy(dom->addr.ips[0].ip, (uint8_t[16]){[10] = 0xff, 0xff, 127, 255, 255, 255}, 16);
    dom->addr.num_ips += dom->addr.num_ips < FAB_VERBS_IPS;
    world->shared->len[world->rank] = fab_address(world->fab, world->shared->address[world->rank],
                                                  FAB_ADDRESS_MAX);
    world_barrier(world);
    connect_to(world, world_peer(world, 1 - world->rank));
    CHECK(!ep_of(world_peer(world, 1 - world->rank))->is_local);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
}

/*
 * Only the process with the greater name can connect: what the other tries accepts, and is silent.
 * The other has precedence, but as long as it could not say HELLO, it answers.
 */
static void one_way_body(world_t *world)
{
    fab_verbs_addr_t *addr = &verbs_domain(world)->addr;
    fab_verbs_ep_t *ep;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(0 == bind(silent, (struct sockaddr *) &at, len) && 0 == listen(silent, 8) &&
          0 == getsockname(silent, (struct sockaddr *) &at, &len));
    if (1 == world->rank) {
        addr->num_ips = 1;
        memset(addr->ips, 0, sizeof(addr->ips));
        addr->ips[0] = (fab_sock_ip_t){.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1},
                                       .port = ntohs(at.sin_port)};
        world->shared->len[1] = fab_address(world->fab, world->shared->address[1], FAB_ADDRESS_MAX);
    }
    world_barrier(world);
    ep = ep_of(world_peer(world, 1 - world->rank));
    if (0 == world->rank) {
        post(world, world_peer(world, 1));
        WORLD_UNTIL(NULL != ep->sock && FAB_SOCK_RUN_GREETED == ep->sock->race.runners[0]);
    }
    world_barrier(world);
    post(world, world_peer(world, 1 - world->rank));
    WORLD_UNTIL((world->rank ? 2u : 1u) == world->got);
    CHECK(0 == world->failures);
    close(silent);
    world_barrier(world);
}

/* ---- addresses ---------------------------------------------------------- */

static void try_address(world_t *world, const unsigned char *address, size_t len)
{
    fab_peer_t *peer = NULL;
    const char *why = NULL;
    int rc = fab_peer_open(world->fab, FAB_USER_PML, world_name(1), address, len, &peer, &why);

    if (OPAL_SUCCESS != rc) {
        CHECK(NULL == peer && NULL != why && strlen(why) > 10);
        return;
    }
    CHECK(peer->eager_max >= FAB_VERBS_EAGER_MIN && peer->eager_max <= fab_limits.verbs_eager);
    fab_peer_close(peer, FAB_USER_PML);
    CHECK(NULL == fab_peer_find(world->fab, world_name(1)));
}

static void damaged_body(world_t *world)
{
    world_barrier(world);
    if (0 == world->rank) {
        damage_address(world, try_address);
    }
    world_barrier(world);
}

static void check_refused(world_t *world)
{
    CHECK(0 == verbs_domain(world)->num_conns);
}

static void other_key_body(world_t *world)
{
    stranger_has_wrong_key(world, ep_of(world_peer(world, 1 - world->rank))->addr.key,
                           check_refused);
}

/* ---- ports --------------------------------------------------------------- */

/* A firewall lets these pass alone: connections are set up over them. */
static void ports_body(world_t *world)
{
    uint16_t port = verbs_domain(world)->addr.ips[0].port;

    CHECK(port >= 21000 && port <= 21099);
    world_barrier(world);
    connect_to(world, world_peer(world, 1 - world->rank));
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
}

/* ---- devices, parameters, leftovers ------------------------------------- */

/*
 * Open with these lists in a child; returns 0: opened, 1: not; prints why not if it does not
 * contain the words.
 */
static int open_with(const char *include, const char *exclude, const char *words)
{
    fab_config_t config = {.name = 1, .num_local = 2};
    const char *why = "";
    fab_t *fab;
    int status = 0;

    if (0 == fork()) {
        fab_params.verbs_if_include = (char *) (uintptr_t) include;
        fab_params.verbs_if_exclude = (char *) (uintptr_t) exclude;
        if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
            if (NULL == strstr(why, words)) {
                fprintf(stderr, "unexpected: %s\n", why);
                _exit(2);
            }
            _exit(1);
        }
        fab_close(fab, FAB_USER_PML);
        _exit(0);
    }
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_devices(void **state)
{
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    char name[80], port1[96], port9[96];

    (void) state;
    assert_true(num > 0);
    snprintf(name, sizeof(name), "%s", ibv_get_device_name(devices[0]));
    snprintf(port1, sizeof(port1), "nosuch,%s:1", name);
    snprintf(port9, sizeof(port9), "%s:9", name);
    ibv_free_device_list(devices);
    assert_int_equal(open_with(name, NULL, ""), 0);
    assert_int_equal(open_with(port1, "", ""), 0);
    assert_int_equal(open_with("nosuch", NULL, "not wanted"), 1);
    assert_int_equal(open_with(port9, NULL, "not wanted"), 1);
    assert_int_equal(open_with(NULL, port9, ""), 0);
    assert_int_equal(open_with(NULL, "nosuch", ""), 0);
    assert_int_equal(open_with(name, name, "both set"), 1);
    if (1 == num) {
        assert_int_equal(open_with(NULL, name, "not wanted"), 1);
    }
}

static void test_exclusive_list(void **state)
{
    const char *why = "";
    fab_config_t config = {.name = 1, .num_local = 1};
    fab_t *fab;

    (void) state;
    fab_params.providers = (char *) (uintptr_t) "^shm,nosuch";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_ERR_BAD_PARAM);
    assert_non_null(strstr(why, "nosuch"));
    fab_params.providers = (char *) (uintptr_t) "^verbs,tcp";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_SUCCESS);
    assert_non_null(strstr(fab_why_one_host(fab), "not wanted"));
    fab_close(fab, FAB_USER_PML);
    fab_params.providers = (char *) (uintptr_t) "verbs";
}

/* No file descriptor is left of connections once they are made, and none at all afterwards. */
static void nothing_left_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    int fds = count_open_fds();

    CHECK(NULL == fab_why_one_host(world->fab));
    world_barrier(world);
    connect_to(world, peer);
    WORLD_UNTIL(1 == world->got && !fab_sock_set_is_busy(verbs_domain(world)->socks));
    CHECK(count_open_fds() <= fds + 2); /* a software device may need one or two for a connection */
    world_barrier(world);
}

/* ---- a kernel that waits for the network -------------------------------- */

static int slow_way;        /* 0: asks, 1: is asked, 2: gives it up */
static atomic_bool is_slow; /* making a queue pair ready to receive takes until this is false */

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    bool is_to_receive = 0 != (mask & IBV_QP_STATE) && IBV_QPS_RTR == attr->qp_state;

    for (int ms = 0; is_to_receive && atomic_load(&is_slow) && ms < 20000; ms++) {
        usleep(1000);
    }
    return __real_ibv_modify_qp(qp, attr, mask);
}

/*
 * Rank 0 and rank 1 exchange messages while rank 0 connects to rank 2, or is asked by it, and while
 * it gives that up: the connection goes, the attempt ends later.
 */
static void slow_body(world_t *world)
{
    bool is_asked = 1 == slow_way, is_closed = 2 == slow_way;
    fab_peer_t *near = world_peer(world, 0 == world->rank), *far = world_peer(world, 2);

    world_barrier(world);
    if (world->rank < 2) {
        connect_to(world, near);
        WORLD_UNTIL(1 == world->got);
    }
    world_barrier(world);
    if (0 == world->rank) {
        atomic_store(&is_slow, true);
        if (!is_asked) {
            post(world, far);
        }
        WORLD_UNTIL(FAB_VERBS_OPENING == ep_of(far)->path);
        for (uint64_t i = 0; i < 200; i++) {
            post(world, near);
            WORLD_UNTIL(world->got > i + 1);
        }
        CHECK((is_asked ? FAB_SES_ASKED : FAB_SES_TRYING) == ep_of(far)->ses.state);
        CHECK(FAB_VERBS_OPENING == ep_of(far)->path);
        if (is_closed) {
            fab_peer_fail(far, OPAL_ERR_UNREACH, "This is a test.");
            WORLD_UNTIL(1 == world->failures);
            CHECK(NULL != far->ep);
        }
        atomic_store(&is_slow, false);
        WORLD_UNTIL(is_closed ? NULL == far->ep : FAB_SES_UP == ep_of(far)->ses.state);
        WORLD_UNTIL(world->got == (is_asked ? 202 : 201));
    } else if (1 == world->rank) {
        for (uint64_t i = 0; i < 200; i++) {
            WORLD_UNTIL(world->got > i + 1);
            post(world, near);
        }
    } else if (is_asked) {
        post(world, world_peer(world, 0));
        WORLD_UNTIL(FAB_SES_UP == ep_of(world_peer(world, 0))->ses.state);
    } else if (!is_closed) {
        WORLD_UNTIL(1 == world->got);
    }
    CHECK(is_closed || 0 == world->failures);
    world_barrier(world);
}

static void test_slow(void **state)
{
    (void) state;
    setenv("TMDEV_LINK", "eth", 1);
    for (slow_way = 0; slow_way < 3; slow_way++) {
        assert_int_equal(world_run(3, false, slow_body), 0);
    }
    unsetenv("TMDEV_LINK");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow), /* before this process reads the settings of test/tmdev */
        cmocka_unit_test(test_exclusive_list),
        cmocka_unit_test(test_devices),
        WORLD_JOB("test_nothing_left", nothing_left_body),
        WORLD_JOB("test_crossed", crossed_body, .ranks = 4),
        WORLD_JOB("test_strangers", strangers_body),
        WORLD_JOB("test_other_addresses", other_addresses_body),
        WORLD_JOB("test_one_way", one_way_body),
        WORLD_JOB("test_other_key", other_key_body),
        WORLD_JOB("test_damaged_address", damaged_body),
        WORLD_JOB("test_ports", ports_body, .text = {&fab_params.tcp_ports, "21000-21099"}),
    };

    world_use_providers("verbs");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
