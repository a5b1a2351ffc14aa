/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: which of libfabric's offers a process takes, on machines that are played; what is
 * set in the environment for that; and where send buffers lie.
 *
 * TEST: sources=common/ofi/ofi_device.c,common/ofi/ofi_pool.c,common/fabric/fab_cpus.c,common/fabric/fab_host.c needs=libfabric-1.15
 */
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "fabric/fab_params.h"
#include "ofi/ofi.h"
#include "test_cmocka.h"

enum { CPUS = 8, PACKAGES = 2, DEVICES = 4, RANKS = 8 };

/* ---- what ofi_device.c uses ----------------------------------------------- */

fab_params_t fab_params;

const char *fab_sentence(fab_t *fab, const char *format, ...)
{
    (void) fab;
    return format;
}

void fab_warn(fab_t *fab, const char *format, ...)
{
    (void) fab, (void) format;
}

/* ---- a machine: two packages of four processors, two devices each ---------- */

static cpu_set_t own;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
    (void) pid, (void) size;
    *cpus = own;
    return 0;
}

long sysconf(int name)
{
    long (*real)(int);

    *(void **) &real = dlsym(RTLD_NEXT, "sysconf");
    return _SC_NPROCESSORS_ONLN == name ? CPUS : real(name);
}

FILE *fopen(const char *path, const char *mode)
{
    static char cpus[PACKAGES][4] = {"0-3", "4-7"};
    unsigned bus;

    (void) mode;
    return 1 == sscanf(path, "/sys/bus/pci/devices/0000:%x:00.0/local_cpulist", &bus)
               ? fmemopen(cpus[bus % PACKAGES], 3, "r")
               : NULL;
}

/* ---- libfabric ------------------------------------------------------------- */

typedef struct offer {
    struct fi_info info;
    struct fi_fabric_attr fabric;
    struct fi_domain_attr domain;
    struct fi_ep_attr ep;
    struct fid_nic nic;
    struct fi_bus_attr bus;
} offer_t;

static offer_t offers[DEVICES];
static int num_offers;

/* Of a device in this package. */
static void offer_add(const char *provider, const char *domain, int package)
{
    offer_t *offer = &offers[num_offers++];

    *offer = (offer_t){.fabric.prov_name = (char *) (uintptr_t) provider,
                       .domain.name = (char *) (uintptr_t) domain,
                       .ep.max_msg_size = 1 << 20,
                       .bus = {.bus_type = FI_BUS_PCI}};
    offer->bus.attr.pci.bus_id = (uint8_t) package;
    offer->nic.bus_attr = &offer->bus;
    offer->info.fabric_attr = &offer->fabric;
    offer->info.domain_attr = &offer->domain;
    offer->info.ep_attr = &offer->ep;
    offer->info.nic = &offer->nic;
    for (int i = 0; i < num_offers; i++) {
        offers[i].info.next = i + 1 < num_offers ? &offers[i + 1].info : NULL;
    }
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    (void) version, (void) node, (void) service, (void) flags, (void) hints;
    *info = &offers[0].info;
    return 0;
}

/* Of NULL: hints. */
struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    static struct fi_tx_attr tx;
    static struct fi_rx_attr rx;
    static offer_t hints;

    hints.info.ep_attr = &hints.ep;
    hints.info.domain_attr = &hints.domain;
    hints.info.tx_attr = &tx;
    hints.info.rx_attr = &rx;
    return NULL == info ? &hints.info : (struct fi_info *) (uintptr_t) info;
}

void fi_freeinfo(struct fi_info *info)
{
    (void) info;
}

uint32_t fi_version(void)
{
    return FI_VERSION(1, 17);
}

const char *fi_strerror(int error)
{
    (void) error;
    return "";
}

/* ---- tests ----------------------------------------------------------------- */

/* What this rank takes, bound to the processors of a package; NULL: nothing. */
static const char *taken(int rank, int package)
{
    fab_t fab = {.config = {.local_rank = (uint32_t) rank, .num_procs = RANKS}};
    const char *why;

    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPUS / PACKAGES; cpu++) {
        CPU_SET((size_t) (package * CPUS / PACKAGES + cpu), &own);
    }
    const struct fi_info *info = fab_ofi_choose(&fab, &why);
    return NULL != info ? info->domain_attr->name : NULL;
}

/* All devices of a package are used by its ranks, in whatever order mpirun places those. */
static void test_turns(void **state)
{
    static const char *const names[DEVICES] = {"cxi0", "cxi1", "cxi2", "cxi3"};

    (void) state;
    num_offers = 0;
    for (int i = 0; i < DEVICES; i++) {
        offer_add("cxi", names[i], i / 2);
    }
    for (int is_filled = 0; is_filled < 2; is_filled++) {
        int users[DEVICES] = {0};
        for (int rank = 0; rank < RANKS; rank++) {
            int package = is_filled ? rank / (RANKS / PACKAGES) : rank % PACKAGES;
            const char *name = taken(rank, package);
            assert_int_equal((name[3] - '0') / 2, package);
            users[name[3] - '0']++;
        }
        for (int i = 0; i < DEVICES; i++) {
            assert_int_equal(users[i], RANKS / DEVICES);
        }
    }
}

/* psm3 serves any network card; by itself it is used for Omni-Path, and after psm2. */
static void test_psm3(void **state)
{
    (void) state;
    num_offers = 0;
    offer_add("psm3", "eth0", 0);
    assert_null(taken(0, 0));
    offer_add("psm3", "hfi1_0", 0);
    assert_string_equal(taken(0, 0), "hfi1_0");
    offer_add("psm2", "hfi1_1", 0);
    assert_string_equal(taken(0, 0), "hfi1_1");
    fab_params.ofi_provider = (char *) (uintptr_t) "psm3";
    assert_string_equal(taken(0, 0), "eth0");
    fab_params.ofi_provider = NULL;
}

/* What the user has set stays; with huge pages, efa ends a process that asks for safe forks. */
static void test_environment(void **state)
{
    static const char *const pages[] = {"RDMAV_HUGEPAGES_SAFE", "FI_EFA_USE_HUGE_PAGE", "NONE"};

    (void) state;
    num_offers = 0;
    offer_add("cxi", "cxi0", 0);
    (void) setenv("FI_PSM3_CONN_TIMEOUT", "7", 1);
    for (int i = 0; i < 3; i++) {
        (void) setenv(pages[i], "1", 1);
        (void) unsetenv("FI_EFA_FORK_SAFE");
        (void) unsetenv("FI_PSM2_CONN_TIMEOUT");
        assert_non_null(taken(0, 0));
        assert_string_equal(getenv("FI_PSM2_CONN_TIMEOUT"), "30");
        assert_string_equal(getenv("FI_PSM3_CONN_TIMEOUT"), "7");
        assert_true((i < 2) == (NULL == getenv("FI_EFA_FORK_SAFE")));
        (void) unsetenv(pages[i]);
    }
}

/* Memory that a child may not have shares no page with other memory. */
static void test_pages(void **state)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    fab_ofi_pool_t pool = {.size = 8192};

    (void) state;
    for (int i = 0; i < 4; i++) {
        assert_true(fab_ofi_pool_grow(&pool));
        assert_int_equal((uintptr_t) pool.chunks % page, 0);
    }
    fab_ofi_pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_psm3),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
