/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several RDMA devices and ports, by the verbs device in software: which of them is chosen, traffic
 * between processes that have different ones, what the user's lists say; ports that go down,
 * devices that fail; queues that are made late.
 *
 * TEST: sources=@fabric,@verbs,common/verbs/verbs_near.c variants=asan cflags=-DFAB_HAVE_VERBS=1 ldflags="-libverbs -lhwloc" device=tmdev timeout=240 quick=no
 */
#include "test_fab_jobs.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include "fabric/fab_core.h"
#include "verbs/verbs.h"
#include "verbs/verbs_near.h"

static fab_verbs_domain_t *verbs_domain(fab_t *fab)
{
    return (fab_verbs_domain_t *) fab_core(fab)->slots[3].dom;
}

/* ---- nearness ----------------------------------------------------------- */

/* A machine of two packages with two cores and two devices each: tmdev0 and tmdev1 at the first. */
#define SET(set)   "cpuset=\"" set "\" complete_cpuset=\"" set "\""
#define NODES(set) "nodeset=\"" set "\" complete_nodeset=\"" set "\""
#define CORE(os, set, nodes, gp)                                                                   \
    "<object type=\"Core\" os_index=\"" os                                                         \
    "\" " SET(set) " " NODES(nodes) " gp_index=\"" gp "1\">"                                       \
                                    "<object type=\"PU\" os_index=\"" os                           \
                                    "\" " SET(set) " " NODES(nodes) " gp_index=\"" gp              \
                                                                    "2\"/></object>"
#define DEVICE(name, bus, gp)                                                                      \
    "<object type=\"PCIDev\" gp_index=\"" gp "3\" pci_busid=\"0000:" bus ":00.0\" "                \
    "pci_type=\"0207 [15b3:1017] [15b3:0001] 00\" pci_link_speed=\"0.000000\">"                    \
    "<object type=\"OSDev\" gp_index=\"" gp "4\" name=\"" name "\" osdev_type=\"3\"/></object>"
#define BRIDGE(buses, gp, devices)                                                                 \
    "<object type=\"Bridge\" gp_index=\"" gp                                                       \
    "5\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" buses "]\">" devices "</object>"
#define PACKAGE(os, set, nodes, gp, inside)                                                        \
    "<object type=\"Package\" os_index=\"" os "\" " SET(set) " " NODES(                            \
        nodes) " gp_index=\"" gp "6\">"                                                            \
               "<object type=\"NUMANode\" os_index=\"" os                                          \
               "\" " SET(set) " " NODES(nodes) " gp_index=\"" gp "7\" "                            \
                                               "local_memory=\"1048576\"/>" inside "</object>"

static const char machine[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" " SET("0x0000000f") " " NODES(
        "0x00000003") " gp_index=\"8\" "
                      "allowed_cpuset=\"0x0000000f\" allowed_nodeset=\"0x00000003\">" PACKAGE(
                          "0", "0x00000003", "0x00000001", "1",
                          CORE("0", "0x00000001", "0x00000001", "10")
                              CORE("1", "0x00000002", "0x00000001", "11")
                                  BRIDGE("00-0f", "12",
                                         DEVICE("tmdev0", "01", "13") DEVICE("tmdev1", "02", "14")))
                          PACKAGE("1", "0x0000000c", "0x00000002", "2",
                                  CORE("2", "0x00000004", "0x00000002", "20")
                                      CORE("3", "0x00000008", "0x00000002", "21")
                                          BRIDGE("80-8f", "22",
                                                 DEVICE("tmdev2", "81", "23") DEVICE(
                                                     "tmdev3", "82", "24"))) "</object></topology>";

static hwloc_topology_t topology;
static hwloc_bitmap_t cpus;
static int near_calls;

static int near_by_machine(const char *device, uint32_t *parts)
{
    int depth = fab_verbs_near_depth(topology, cpus, device);

    near_calls++;
    *parts = hwloc_get_nbobjs_by_depth(topology, depth);
    return depth;
}

static void topology_open(void)
{
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_xmlbuffer(topology, machine, sizeof(machine)), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    assert_int_equal(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_OS_DEVICE), 4);
    cpus = hwloc_bitmap_alloc();
}

static int depth(const char *list, const char *device)
{
    assert_int_equal(hwloc_bitmap_list_sscanf(cpus, list), 0);
    return fab_verbs_near_depth(topology, cpus, device);
}

static void test_depth(void **state)
{
    int package = hwloc_get_type_depth(topology, HWLOC_OBJ_PACKAGE);

    (void) state;
    assert_true(package > 0);
    for (int i = 0; i < 2; i++) {
        const char *cores[] = {"0", "2"}, *packages[] = {"0-1", "2-3"},
                   *two[] = {"tmdev0", "tmdev3"};
        assert_int_equal(depth(cores[i], two[i]), package);
        assert_int_equal(depth(packages[i], two[i]), package);
        assert_int_equal(depth(cores[i], two[1 - i]), 0);
        assert_int_equal(depth("0-3", two[i]), 0);
        assert_int_equal(depth("1,2", two[i]), 0);
        assert_int_equal(depth("7", two[i]), 0); /* not in that machine */
    }
    assert_int_equal(depth("0", "tmdev4"), 0);
}

/* ---- which device ------------------------------------------------------- */

typedef struct choice {
    const char *include, *exclude;
    const char *cpus;      /* "": not known how near devices are */
    const char *wanted[4]; /* by local rank */
    int asked;             /* devices of which it was asked how near they are */
} choice_t;

static const choice_t choices[] = {
    {NULL, NULL, "", {"tmdev0:1", "tmdev1:1", "tmdev2:1", "tmdev3:1"}, 0},
    {NULL, NULL, "0-3", {"tmdev0:1", "tmdev1:1", "tmdev2:1", "tmdev3:1"}, 4},
    /* ranks 0 and 2 may be those of the package, or 0 and 1 */
    {NULL, NULL, "0", {"tmdev0:1", "tmdev1:1", "tmdev1:1", "tmdev0:1"}, 4},
    {NULL, NULL, "2-3", {"tmdev2:1", "tmdev3:1", "tmdev3:1", "tmdev2:1"}, 4},
    {NULL, "tmdev0", "1", {"tmdev1:1", "tmdev1:1", "tmdev1:1", "tmdev1:1"}, 3},
    {NULL, "tmdev0,tmdev1:1", "1", {"tmdev2:1", "tmdev3:1", "tmdev2:1", "tmdev3:1"}, 2},
    {"tmdev3,tmdev0:1", NULL, "2", {"tmdev3:1", "tmdev3:1", "tmdev3:1", "tmdev3:1"}, 2},
    {"tmdev3,tmdev0:1", NULL, "", {"tmdev0:1", "tmdev3:1", "tmdev0:1", "tmdev3:1"}, 0},
    {"tmdev2", NULL, "0", {"tmdev2:1", "tmdev2:1", "tmdev2:1", "tmdev2:1"}, 0},
    {"mlx5_9,tmdev1", NULL, "2", {"tmdev1:1", "tmdev1:1", "tmdev1:1", "tmdev1:1"}, 0},
    {NULL, "tmdev,tmdev00,tmdev1:2", "0", {"tmdev0:1", "tmdev1:1", "tmdev1:1", "tmdev0:1"}, 4},
};

static void use_lists(const char *include, const char *exclude)
{
    fab_params.verbs_if_include = (char *) (uintptr_t) include;
    fab_params.verbs_if_exclude = (char *) (uintptr_t) exclude;
}

/* In a process of its own: contexts do not survive fork(). */
static void choose(const choice_t *choice, uint32_t rank)
{
    fab_config_t config = {.name = 7 + rank, .num_local = 4, .local_rank = rank};
    const char *why = "";
    fab_t *fab;

    use_lists(choice->include, choice->exclude);
    fab_verbs_near = '\0' != *choice->cpus ? near_by_machine : NULL;
    if ('\0' != *choice->cpus) {
        hwloc_bitmap_list_sscanf(cpus, choice->cpus);
    }
    if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
        fprintf(stderr, "fab_open: %s\n", why);
        _exit(1);
    }
    const char *name = verbs_domain(fab)->name;
    if (0 != strcmp(name, choice->wanted[rank]) || near_calls != choice->asked) {
        fprintf(stderr, "include %s, exclude %s, CPUs %s, rank %u: %s, %d asked\n", choice->include,
                choice->exclude, choice->cpus, rank, name, near_calls);
        _exit(1);
    }
    fab_close(fab, FAB_USER_PML);
}

/* Run it in a process with these settings of the device; returns its exit status. */
static int in_child(void (*fn)(const void *arg), const void *arg)
{
    int status = 0;

    fflush(NULL);
    if (0 == fork()) {
        fn(arg);
        exit(0);
    }
    wait(&status);
    return status;
}

static void choose_all(const void *arg)
{
    for (uint32_t rank = 0; rank < 4; rank++) {
        near_calls = 0;
        choose(arg, rank);
    }
}

static void test_choices(void **state)
{
    (void) state;
    setenv("TMDEV_DEVICES", "4", 1);
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        assert_int_equal(in_child(choose_all, &choices[i]), 0);
    }
    unsetenv("TMDEV_DEVICES");
}

/* ---- adapters of several kinds ------------------------------------------ */

/* A host and its adapters; two ranks. */
typedef struct host {
    const char *settings[4];        /* of tmdev, NAME=VALUE */
    const char *include, *networks; /* parameters */
    unsigned int verbs_pkey;
    uint16_t pkey;         /* of the address, if not 0 */
    const char *wanted[2]; /* by local rank; NULL: none can be used */
    const char *says;      /* why not */
    const char *gid;       /* begins so, if not NULL */
} host_t;

static const host_t hosts[] = {
    /* a slow port for management, which would be the first */
    {{"TMDEV_DEVICES=2", "TMDEV_SPEED=25,100"}, .wanted = {"tmdev1:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_SPEED=200,100"}, .wanted = {"tmdev0:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_SPEED=400,100"}, .wanted = {"tmdev0:1", "tmdev0:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_SPEED=25,100"},
     .include = "tmdev0,tmdev1:1",
     .wanted = {"tmdev0:1", "tmdev1:1"}},
    /* which do not reach each other: all ranks of all hosts take the same */
    {{"TMDEV_DEVICES=2", "TMDEV_LINK=eth,ib"}, .wanted = {"tmdev1:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_LINK=eth,ib"},
     .include = "tmdev0,tmdev1",
     .wanted = {"tmdev1:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_LINK=eth,ib", "TMDEV_SPEED=200,100"},
     .wanted = {"tmdev0:1", "tmdev0:1"}},
    /* devices that lack what is needed */
    {{"TMDEV_DEVICES=2", "TMDEV_LACKS=srq,"}, .wanted = {"tmdev1:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_LACKS=qp,"}, .wanted = {"tmdev1:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=2", "TMDEV_LACKS=access,"}, .wanted = {"tmdev1:1", "tmdev1:1"}},
    {{"TMDEV_DEVICES=3", "TMDEV_LACKS=qp,srq,access"},
     .says = "tmdev0: it makes no queue pairs; tmdev1: it has no shared receive queues; tmdev2: "
             "Permission denied (/dev/infiniband/uverbs*)"},
    {{"TMDEV_DEVICES=0"},
     .says = "The kernel has an RDMA device, but its file /dev/infiniband/uverbs0 cannot be used "
             "here: a container must be given it"},
    /* tables of GIDs */
    {{"TMDEV_LINK=eth", "TMDEV_PORTS=2", "TMDEV_GIDS=300"},
     .wanted = {"tmdev0:1", "tmdev0:2"},
     .gid = "198.18."},
    {{"TMDEV_LINK=eth", "TMDEV_GIDS=8", "TMDEV_GID_FOREIGN=1"},
     .wanted = {"tmdev0:1", "tmdev0:1"},
     .gid = "198.19."},
    {{"TMDEV_LINK=eth", "TMDEV_GIDS=8", "TMDEV_GID_FOREIGN=2"},
     .wanted = {"tmdev0:1", "tmdev0:1"},
     .gid = "198.19."},
    {{"TMDEV_LINK=eth", "TMDEV_GID_FOREIGN=1"},
     .says = "addresses are of interfaces in another network name space"},
    {{"TMDEV_LINK=eth", "TMDEV_GIDS=8"},
     .networks = "10.0.0.0/8,198.19.0.0/16",
     .wanted = {"tmdev0:1", "tmdev0:1"},
     .gid = "198.19."},
    {{"TMDEV_LINK=eth", "TMDEV_GIDS=8"},
     .networks = "10.0.0.0/8",
     .says = "none of the port's addresses is in pml_tm_verbs_networks"},
    /* InfiniBand: virtual functions without LID, partitions */
    {{"TMDEV_GRH=1"}, .wanted = {"tmdev0:1", "tmdev0:1"}, .pkey = 0xffff},
    {{"TMDEV_PKEYS=7fff,8001,ffff"}, .wanted = {"tmdev0:1", "tmdev0:1"}, .pkey = 0x8001},
    {{"TMDEV_PKEYS=0,7fff"}, .wanted = {"tmdev0:1", "tmdev0:1"}, .pkey = 0x7fff},
    {{"TMDEV_PKEYS=7fff,8001,ffff"},
     .verbs_pkey = 0x7fff,
     .wanted = {"tmdev0:1", "tmdev0:1"},
     .pkey = 0xffff},
    {{"TMDEV_PKEYS=7fff,8001"},
     .verbs_pkey = 0x8005,
     .says = "the port is not in partition 0x8005 (pml_tm_verbs_pkey)"},
};

static void be_host(const void *arg)
{
    const host_t *host = arg;
    fab_config_t config = {.name = 7, .num_local = 2};

    for (int i = 0; i < 4 && NULL != host->settings[i]; i++) {
        putenv((char *) (uintptr_t) host->settings[i]);
    }
    use_lists(host->include, NULL);
    fab_params.verbs_networks = (char *) (uintptr_t) host->networks;
    fab_params.verbs_pkey = host->verbs_pkey;
    fab_verbs_near = NULL;
    for (config.local_rank = 0; config.local_rank < 2; config.local_rank++) {
        const char *why = "", *wanted = host->wanted[config.local_rank];
        fab_t *fab;
        char ip[INET_ADDRSTRLEN] = "";
        bool is_open = OPAL_SUCCESS == fab_open(&config, &fab, &why);
        const char *name = is_open ? verbs_domain(fab)->name : NULL;
        if (is_open) {
            inet_ntop(AF_INET, verbs_domain(fab)->port_addr.gid + 12, ip, sizeof(ip));
        }
        if (is_open != (NULL != wanted) || (is_open && 0 != strcmp(name, wanted)) ||
            (!is_open && NULL == strstr(why, host->says)) ||
            (NULL != host->gid && NULL == strstr(ip, host->gid)) ||
            (0 != host->pkey && (!is_open || verbs_domain(fab)->port_addr.pkey != host->pkey))) {
            fprintf(stderr, "%s %s: %s (%s), %s\n", host->settings[0],
                    NULL != host->settings[1] ? host->settings[1] : "", is_open ? name : "none", ip,
                    why);
            _exit(1);
        }
        if (is_open) {
            fab_close(fab, FAB_USER_PML);
        }
    }
}

static void test_hosts(void **state)
{
    char root[] = "/tmp/test_verbs_XXXXXX", path[128];
    static const char *const dirs[] = {"", "/class", "/class/infiniband_verbs",
                                       "/class/infiniband_verbs/uverbs0"};

    (void) state;
    assert_non_null(mkdtemp(root));
    for (int i = 1; i < 4; i++) {
        snprintf(path, sizeof(path), "%s%s", root, dirs[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    setenv("SYSFS_PATH", root, 1);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        assert_int_equal(in_child(be_host, &hosts[i]), 0);
    }
    unsetenv("SYSFS_PATH");
    for (int i = 3; i >= 0; i--) {
        snprintf(path, sizeof(path), "%s%s", root, dirs[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

/* ---- the self-test of matching ------------------------------------------ */

typedef struct broken {
    const char *what; /* TMDEV_TM_BROKEN */
    bool has_tm, has_rndv;
    const char *says;
} broken_t;

static const broken_t brokens[] = {
    {"", true, true, NULL},
    {"eager", false, false, "its self-test failed: a short message to a listed receive"},
    {"segments", false, false, "its self-test failed: a message of several packets"},
    {"tag", false, false, "its self-test failed: a short message to a listed receive"},
    {"imm", false, false, "its self-test failed: a short message to a listed receive"},
    {"sync", false, false, "its self-test failed: a listed receive after an unexpected message"},
    {"del", false, false, "its self-test failed: a receive that was taken off the list"},
    {"rndv", true, false, "does no rendezvous by itself: its self-test failed: a rendezvous"},
    {"fin", true, false, "does no rendezvous by itself: its self-test failed: a rendezvous"},
    {"incomplete", true, false, "a rendezvous longer than the receive (INCOMPLETE)"},
};

static char logged[1024];

static void on_log(void *ctx, int level, const char *text)
{
    size_t len = strlen(logged);

    (void) ctx, (void) level;
    snprintf(logged + len, sizeof(logged) - len, "%s\n", text);
}

static void try_broken(const void *arg)
{
    const broken_t *broken = arg;
    fab_config_t config = {.name = 7, .num_local = 2, .log = on_log};
    const char *why = "";
    fab_t *fab;

    setenv("TMDEV_TM_BROKEN", broken->what, 1);
    fab_params.verbs_tm = "auto";
    if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
        fprintf(stderr, "fab_open: %s\n", why);
        _exit(1);
    }
    const fab_verbs_domain_t *dom = verbs_domain(fab);
    if (broken->has_tm != (NULL != dom->tm) ||
        broken->has_rndv != (0 != (dom->addr.flags & FAB_VERBS_ADDR_TM_RNDV)) ||
        (NULL != broken->says) != (fab_counters.verbs_tm_failed > 0) ||
        (NULL != broken->says && NULL == strstr(logged, broken->says))) {
        fprintf(stderr, "%s: flags 0x%x, %s\n", broken->what, dom->addr.flags, logged);
        _exit(1);
    }
    fab_close(fab, FAB_USER_PML);
}

static void test_self_test(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(brokens) / sizeof(brokens[0]); i++) {
        assert_int_equal(in_child(try_broken, &brokens[i]), 0);
    }
    setenv("TMDEV_MTU", "256", 1); /* packets of a message come apart */
    setenv("TMDEV_TM_LEFT", "2", 1);
    assert_int_equal(in_child(try_broken, &brokens[0]), 0);
    unsetenv("TMDEV_MTU");
    unsetenv("TMDEV_TM_LEFT");
}

/* ---- lists that are wrong ----------------------------------------------- */

typedef struct wrong {
    const char *include, *exclude;
    const char *says;
} wrong_t;

static const wrong_t wrongs[] = {
    {"mlx5_9", NULL,
     "pml_tm_verbs_if_include names mlx5_9, which this host does not have; tmdev0: not wanted by "
     "pml_tm_verbs_if_include"},
    {"tmdev0:7", NULL,
     "pml_tm_verbs_if_include names tmdev0:7, which this host does not have; tmdev0:1: not wanted"},
    {NULL, "tmdev0,tmdev1",
     "can be used: tmdev0: not wanted by pml_tm_verbs_if_exclude; tmdev1: not wanted"},
    {NULL, "tmdev0,tmdev1,mlx5_9", "pml_tm_verbs_if_exclude names mlx5_9, which"},
    {"tmdev0:x", NULL, "pml_tm_verbs_if_include is \"tmdev0:x\"; allowed: "},
    {"tmdev0:0", NULL, "pml_tm_verbs_if_include is \"tmdev0:0\"; allowed: "},
    {"tmdev0, tmdev1", NULL, "pml_tm_verbs_if_include is \"tmdev0, tmdev1\"; allowed: "},
    {NULL, ":1", "pml_tm_verbs_if_exclude is \":1\"; allowed: "},
    {NULL, "tmdev0:1:1", "pml_tm_verbs_if_exclude is \"tmdev0:1:1\"; allowed: "},
    {NULL, "tmdev0,,tmdev1", "pml_tm_verbs_if_exclude is \"tmdev0,,tmdev1\"; allowed: "},
    {"tmdev0", "tmdev1", "are both set"},
};

static void open_wrong(const void *arg)
{
    const wrong_t *wrong = arg;
    fab_config_t config = {.name = 7, .num_local = 2};
    const char *why = "";
    fab_t *fab;

    use_lists(wrong->include, wrong->exclude);
    if (OPAL_SUCCESS == fab_open(&config, &fab, &why) || NULL == strstr(why, wrong->says)) {
        fprintf(stderr, "include %s, exclude %s: %s\n", wrong->include, wrong->exclude, why);
        _exit(1);
    }
}

static void test_wrong_lists(void **state)
{
    (void) state;
    setenv("TMDEV_DEVICES", "2", 1);
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        assert_int_equal(in_child(open_wrong, &wrongs[i]), 0);
    }
    unsetenv("TMDEV_DEVICES");
}

/* ---- traffic ------------------------------------------------------------ */

enum { BIG = 3 << 20 };

static uint64_t got;
static int landed;

static void on_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    world_t *world = ctx;

    CHECK(hdr.tag == world_name(world->rank) &&
          world_is_filled(data, peer->name + hdr.app_ctx, len));
    got++;
}

static void on_landed(fab_rma_t *op, int status)
{
    (void) op;
    landed += OPAL_SUCCESS == status ? 1 : 1000;
}

/* Messages of many sizes to all others, and 3 MiB fetched from the next. */
static void exchange(world_t *world)
{
    static unsigned char big[2][BIG], message[4096];
    fab_peer_t *next = world_peer(world, (world->rank + 1) % world->size);
    fab_peer_t *previous = world_peer(world, (world->rank + world->size - 1) % world->size);
    fab_rma_t op = {.peer = next, .local = big[1], .len = BIG, .complete = on_landed};
    fab_rkey_t key;

    fab_set_handler(world->fab, AM_DATA, on_data, world);
    world_fill(big[0], (uint64_t) world->rank, BIG);
    CHECK(OPAL_SUCCESS == fab_expose(previous, big[0], BIG, FAB_ACCESS_READ, &key));
    memcpy((void *) &world->shared->scratch[8 * world->rank], &key, sizeof(key));
    world_barrier(world);
    for (uint32_t n = 0; n < 50; n++) {
        for (int i = 0; i < world->size; i++) {
            fab_peer_t *peer = world_peer(world, i);
            size_t len = n * 71;
            world_fill(message, world_name(world->rank) + n, len);
            while (i != world->rank &&
                   OPAL_SUCCESS !=
                       fab_send(peer, fab_hdr(AM_DATA, world_name(i), n), message, len)) {
                CHECK(FAB_PEER_UP == peer->state);
                world_progress(world);
            }
        }
    }
    memcpy(&op.rkey, (void *) &world->shared->scratch[8 * (uint32_t) next->name], sizeof(op.rkey));
    op.remote = (uint64_t) (uintptr_t) big[0];
    CHECK(OPAL_SUCCESS == fab_get(&op));
    WORLD_UNTIL(50u * (unsigned) (world->size - 1) == got && landed > 0);
    CHECK(1 == landed && world_is_filled(big[1], (uint32_t) next->name, BIG));
    world_barrier(world);
    fab_unexpose(previous, &key);
    CHECK(0 == world->failures);
}

/* Each process has another port; the first two share a device. */
static void ports_body(world_t *world)
{
    static const char *const names[] = {"tmdev0:1", "tmdev0:2", "tmdev1:1", "tmdev1:2"};

    CHECK(0 == strcmp(verbs_domain(world->fab)->name, names[world->rank]));
    exchange(world);
}

/* ---- paths: what packets must have, and parameters ------------------------ */

static unsigned has_tm;
static unsigned mtu; /* of the address: enum ibv_mtu; 0: any */

static void path_body(world_t *world)
{
    CHECK((0 != has_tm) == (NULL != verbs_domain(world->fab)->tm));
    CHECK(0 == mtu || mtu == verbs_domain(world->fab)->port_addr.mtu);
    exchange(world);
}

/* ---- late start --------------------------------------------------------- */

static void late_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world->fab);

    CHECK(dom->is_standby && !dom->is_started && NULL == dom->srq && NULL == dom->recv_cq &&
          NULL == dom->tm);
    CHECK(0 == dom->recv_pool.num && 0 == dom->send_pool.num);
    exchange(world);
    CHECK(dom->is_started && dom->recv_pool.num > 0 && dom->send_pool.num > 0);
}

/*
 * The queues cannot be made when they are needed: who is to be reached fails, with the reason; the
 * next one is reached.
 */
static void late_fail_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world->fab);

    fab_set_handler(world->fab, AM_DATA, on_data, world);
    if (1 != world->rank) {
        CHECK(OPAL_SUCCESS ==
              fab_post(world_peer(world, 1), fab_hdr(AM_DATA, world_name(1), 0), NULL, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(world->failed == world->peers[1] && NULL != strstr(world->failed_why, "ulimit -l"));
        CHECK(!dom->is_started && NULL == dom->srq && NULL == dom->send_cq &&
              0 == dom->recv_pool.num);
    }
    world_barrier(world);
    if (0 == world->rank) {
        CHECK(OPAL_SUCCESS ==
              fab_post(world_peer(world, 2), fab_hdr(AM_DATA, world_name(2), 0), NULL, 0));
        WORLD_UNTIL(dom->is_started);
    }
    if (2 == world->rank) {
        WORLD_UNTIL(1 == got);
    }
    world_barrier(world);
}

/*
 * A job of one host that shm reaches keeps the device in reserve; one that has processes elsewhere
 * does not.
 */
static void spare_body(world_t *world)
{
    const fab_verbs_domain_t *dom = verbs_domain(world->fab);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, on_data, world);
    CHECK(dom->is_started == (2 != world_num_procs));
    CHECK(OPAL_SUCCESS ==
          fab_post(peer, fab_hdr(AM_DATA, world_name(1 - world->rank), 0), NULL, 0));
    WORLD_UNTIL(1 == got);
    CHECK(0 == strcmp(fab_peer_provider_name(peer), "shm") &&
          dom->is_started == (2 != world_num_procs));
    world_barrier(world);
}

/* ---- a port goes down, a device fails ----------------------------------- */

/*
 * One message after the other until both have seen so many events of the device, and messages
 * after that, or the peer fails.
 */
static void chat(world_t *world, uint64_t events)
{
    enum { AFTERWARDS = 10, DONE = 2 };
    _Atomic uint64_t *done = &world->shared->scratch[DONE];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint32_t sent = 0;
    uint64_t until = UINT64_MAX; /* messages */
    bool is_done = false;

    fab_set_handler(world->fab, AM_DATA, on_data, world);
    while (0 == world->failures && 2 != atomic_load(done)) {
        if (UINT64_MAX == until && fab_counters.verbs_async_events >= events) {
            until = got + AFTERWARDS;
        }
        if (!is_done && got >= until) {
            is_done = true;
            atomic_fetch_add(done, 1);
        }
        if (sent <= got &&
            OPAL_SUCCESS ==
                fab_send(peer, fab_hdr(AM_DATA, world_name(1 - world->rank), sent), NULL, 0)) {
            sent++;
        }
        world_progress(world);
    }
    atomic_store(&world->shared->scratch[world->rank], sent);
}

static void blink_body(world_t *world)
{
    chat(world, 2);
    world_barrier(world);
    WORLD_UNTIL(got == atomic_load(&world->shared->scratch[1 - world->rank]));
    world_barrier(world);
    CHECK(0 == world->failures);
    CHECK(2 == fab_counters.verbs_async_events);
    CHECK(0 == verbs_domain(world->fab)->port_down_since);
}

static void down_body(world_t *world)
{
    double start = world_now();

    chat(world, UINT64_MAX);
    CHECK(1 == world->failures && NULL != strstr(world->failed_why, "tmdev0:1 here is down"));
    CHECK(world_now() - start > 9);
    CHECK(FAB_PEER_FAILED == world->peers[1 - world->rank]->state);
    world_barrier(world); /* the other is to find its own port down, not this process gone */
}

static void fatal_body(world_t *world)
{
    chat(world, UINT64_MAX);
    CHECK(1 == world->failures && NULL != strstr(world->failed_why, "tmdev0:1 here failed"));
    /* another one, with which there is no connection */
    fab_peer_t *third = world_peer(world, 2);
    post(world, third);
    WORLD_UNTIL(2 == world->failures);
    CHECK(world->failed == third && NULL != strstr(world->failed_why, "tmdev0:1 here failed"));
}

/* The third waits for the others, without a connection. */
static void fatal_or_wait_body(world_t *world)
{
    if (world->rank < 2) {
        fatal_body(world);
    }
    world_barrier(world);
}

/*
 * The first process gets an event that the device in software cannot be made to report at a chosen
 * time.  These two take precedence over the device's.
 */
static const struct ibv_async_event *made_up_event;

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    int (*get)(struct ibv_context *, struct ibv_async_event *) = NULL;

    if (NULL != made_up_event) {
        *event = *made_up_event;
        return 0;
    }
    *(void **) &get = dlsym(RTLD_NEXT, "ibv_get_async_event");
    return get(context, event);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    void (*ack)(struct ibv_async_event *) = NULL;

    if (NULL != made_up_event) {
        made_up_event = NULL;
        return;
    }
    *(void **) &ack = dlsym(RTLD_NEXT, "ibv_ack_async_event");
    ack(event);
}

static const enum ibv_event_type losses[] = {IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR};
static unsigned loss;

/* A queue is lost, and with it the device: what is not connected yet is not connected either. */
static void lost_queue_body(world_t *world)
{
    const struct ibv_async_event event = {.event_type = losses[loss]};
    fab_verbs_domain_t *dom = verbs_domain(world->fab);

    if (0 == world->rank) {
        chat(world, 0);
        made_up_event = &event;
        fab_verbs_async(dom);
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "tmdev0:1 here lost a queue"));
        fab_peer_t *third = world_peer(world, 2);
        post(world, third);
        WORLD_UNTIL(2 == world->failures);
        CHECK(world->failed == third && NULL != strstr(world->failed_why, "tmdev0:1 here failed"));
    } else if (1 == world->rank) {
        chat(world, 0);
    }
    world_barrier(world);
}

#define PORTS(...)                                                                                 \
    WORLD_JOB("test_ports", ports_body, .ranks = 4,                                                \
              .env = {"TMDEV_DEVICES", "2", "TMDEV_PORTS", "2", __VA_ARGS__})
#define PATH(...)                                                                                  \
    WORLD_JOB("test_paths", path_body, .text = {&fab_params.verbs_tm, "auto"}, __VA_ARGS__)
#define TRAFFIC_CLASS ((unsigned *) &fab_params.verbs_traffic_class)
#define HAS_TM                                                                                     \
    {                                                                                              \
        &has_tm, 1                                                                                 \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_self_test),
        cmocka_unit_test(test_wrong_lists),
        PORTS("TMDEV_LINK", "ib"),
        PORTS("TMDEV_LINK", "eth"),
        PORTS("TMDEV_LINK", "eth", "TMDEV_GIDS", "300"),
        /* by the fifth GID, or sixth */
        PORTS("TMDEV_LINK", "eth", "TMDEV_GIDS", "300", "TMDEV_GID_FOREIGN", "2"),
        PATH(.env = {"TMDEV_GRH", "1"}),
        PATH(.env = {"TMDEV_DEVICES", "2", "TMDEV_SUBNETS", "1,2"}, .number = {HAS_TM}),
        PATH(.env = {"TMDEV_PKEYS", "7fff,8001"}, .number = {HAS_TM}),
        PATH(.env = {"TMDEV_LINK", "eth", "TMDEV_TC", "106"}),
        PATH(.env = {"TMDEV_LINK", "eth", "TMDEV_TC", "32"}, .number = {{TRAFFIC_CLASS, 32}}),
        PATH(.env = {"TMDEV_TC", "0", "TMDEV_SL", "3"},
             .number = {HAS_TM, {&fab_params.verbs_sl, 3}}),
        PATH(.env = {"TMDEV_MTU", "4096"},
             .number = {HAS_TM, {&fab_params.verbs_mtu, 1500}, {&mtu, IBV_MTU_1024}}),
        /* all of the job is reached in other ways, but for these, which are of other jobs */
        WORLD_JOB("test_late_start", late_body, .ranks = 3, .number = {{&world_num_procs, 1}}),
        WORLD_JOB("test_late_failure", late_fail_body, .ranks = 3,
                  .number = {{&world_num_procs, 1}}, .env = {"TMDEV_FAIL", "mr:1-1"}),
        WORLD_JOB("test_spare", spare_body, .text = {&fab_params.providers, NULL},
                  .number = {{&world_num_procs, 2}}),
        WORLD_JOB("test_spare others", spare_body, .text = {&fab_params.providers, NULL},
                  .number = {{&world_num_procs, 3}}),
        WORLD_JOB("test_port_blinks", blink_body, .env = {"TMDEV_PORT_DOWN", "500-2000"}),
        WORLD_JOB("test_port_stays_down", down_body, .env = {"TMDEV_PORT_DOWN", "200"}),
        WORLD_JOB("test_device_fatal", fatal_or_wait_body, .ranks = 3,
                  .env = {"TMDEV_DEVICE_FATAL", "300"}),
        WORLD_JOB("test_lost_queue", lost_queue_body, .ranks = 3, .each = {&loss, 2},
                  .text = {&fab_params.verbs_tm, "auto"}),
        WORLD_JOB("test_lost_queue no matching", lost_queue_body, .ranks = 3, .each = {&loss, 2},
                  .text = {&fab_params.verbs_tm, "none"}),
    };

    world_use_providers("verbs");
    topology_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hwloc_bitmap_free(cpus);
    hwloc_topology_destroy(topology);
    return failed;
}
