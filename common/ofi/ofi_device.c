/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of provider and device.
 *
 * libfabric offers one fi_info for each provider, device and address.  Those that cannot serve are
 * left out by hints; of the rest the provider decides first (parameter ofi_provider), then the
 * address (not loopback, IPv4 before IPv6, so that all hosts come to the same family), then how
 * near the device is to the CPUs of this process; equal ones are taken in turn by the processes of
 * the host.
 */
#include "ofi/ofi.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_cpus.h"
#include "fabric/fab_params.h"
#include "fabric/fab_provider.h"

/* Providers with hardware of their own, used where nothing is named. */
static const char ofi_standard[] = "cxi,efa,opx,psm2,psm3";

enum { OFI_CHOICES = 64 };

/* ---- names and lists ----------------------------------------------------- */

/* Position of name in a list, from 0; -1: it is not there. */
static int list_find(const char *list, const char *name)
{
    for (int i = 0; '\0' != *list; i++) {
        size_t len = strcspn(list, ",");
        if (strlen(name) == len && 0 == strncasecmp(list, name, len)) {
            return i;
        }
        list += len + ('\0' != list[len]);
    }
    return -1;
}

static bool is_set(const char *list)
{
    return NULL != list && '\0' != *list;
}

bool fab_ofi_is_provider(const struct fi_info *info, const char *name)
{
    const char *prov = info->fabric_attr->prov_name;
    size_t len = strlen(name);

    for (const char *at = prov; NULL != at; at = strchr(at, ';')) {
        at += ';' == *at;
        if (0 == strncasecmp(at, name, len) && ('\0' == at[len] || ';' == at[len])) {
            return true;
        }
    }
    return false;
}

static bool is_domain_wanted(const struct fi_info *info)
{
    const char *name = info->domain_attr->name;

    if (is_set(fab_params.ofi_if_include)) {
        return list_find(fab_params.ofi_if_include, name) >= 0;
    }
    return !is_set(fab_params.ofi_if_exclude) || list_find(fab_params.ofi_if_exclude, name) < 0;
}

/* psm3 offers all that has an IP address; where nothing is named, only Omni-Path is wanted. */
static bool is_fit(const struct fi_info *info)
{
    return is_set(fab_params.ofi_provider) || !fab_ofi_is_provider(info, "psm3") ||
           0 == strncmp(info->domain_attr->name, "hfi1", 4);
}

/* ---- what is asked for --------------------------------------------------- */

/*
 * libfabric's threads and locks are not needed: all calls are under the fabric's lock, and progress
 * is made by polling.  FI_MR_LOCAL is not offered, so no provider asks that what is sent be
 * registered.
 */
static struct fi_info *make_hints(bool has_rma)
{
    struct fi_info *hints = fi_allocinfo();

    if (NULL == hints) {
        return NULL;
    }
    hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
    hints->caps |= has_rma ? FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE : 0;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                  FI_MR_ENDPOINT;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    return hints;
}

static uint32_t api_version(void)
{
    const uint32_t newest = FI_VERSION(1, 17);

    return FI_VERSION_LT(fi_version(), newest) ? fi_version() : newest;
}

static int get_offers(bool has_rma, struct fi_info **offers)
{
    struct fi_info *hints = make_hints(has_rma);
    int rc = NULL != hints ? fi_getinfo(api_version(), NULL, NULL, 0, hints, offers) : -FI_ENOMEM;

    if (NULL != hints) {
        fi_freeinfo(hints);
    }
    return rc;
}

/* Set what libfabric reads once, unless the user has set it. */
static void set_environment(const fab_t *fab)
{
    char num[16];

    snprintf(num, sizeof(num), "%u", fab->config.num_procs > 0 ? fab->config.num_procs : 256);
    (void) setenv("FI_UNIVERSE_SIZE", num, 0);           /* sizes queues of utility providers */
    (void) setenv("FI_EFA_ENABLE_SHM_TRANSFER", "0", 0); /* shm has the processes of the host */
    /* with the first before 1.19, with the second since, efa ends a process with safe forks */
    if (NULL == getenv("RDMAV_HUGEPAGES_SAFE") && NULL == getenv("FI_EFA_USE_HUGE_PAGE")) {
        (void) setenv("FI_EFA_FORK_SAFE", "1", 0);
    }
    /* seconds for a peer that computes; then the process ends.  psm2 takes no more */
    (void) setenv("FI_PSM2_CONN_TIMEOUT", "30", 0);
    (void) setenv("FI_PSM3_CONN_TIMEOUT", "30", 0);
    (void) setenv("CXI_FORK_SAFE", "1", 0);
}

/* ---- which one ----------------------------------------------------------- */

/* Is the address of this kind one that only this host can reach? */
static bool is_loopback(const struct fi_info *info)
{
    const struct sockaddr *addr = info->src_addr;

    if (NULL == addr) {
        return false;
    }
    if (FI_SOCKADDR_IN == info->addr_format) {
        const struct sockaddr_in *in = info->src_addr;
        return 127 == ntohl(in->sin_addr.s_addr) >> 24;
    }
    if (FI_SOCKADDR_IN6 == info->addr_format) {
        const struct sockaddr_in6 *in6 = info->src_addr;
        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
    }
    return false;
}

/* The CPUs of a PCI device's part of the machine: "0-3,8". False: not known. */
static bool read_cpus(const struct fi_pci_attr *pci, cpu_set_t *cpus)
{
    char path[128];
    unsigned from, to;
    FILE *file;
    int next = ',';

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/local_cpulist",
             pci->domain_id, pci->bus_id, pci->device_id, pci->function_id);
    file = fopen(path, "re");
    if (NULL == file) {
        return false;
    }
    CPU_ZERO(cpus);
    while (',' == next && 1 == fscanf(file, "%u", &from)) {
        to = from;
        next = fgetc(file);
        if ('-' == next) {
            next = 1 == fscanf(file, "%u", &to) ? fgetc(file) : EOF;
        }
        for (unsigned cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET(cpu, cpus);
        }
    }
    fclose(file);
    return true;
}

/* The CPUs near the device, if this process may run on no others.  False: it may, or not known. */
static bool near_cpus(const struct fi_info *info, cpu_set_t *near)
{
    const struct fi_bus_attr *bus = NULL != info->nic ? info->nic->bus_attr : NULL;
    cpu_set_t own, both;

    if (NULL == bus || FI_BUS_PCI != bus->bus_type || !read_cpus(&bus->attr.pci, near) ||
        0 != sched_getaffinity(0, sizeof(own), &own)) {
        return false;
    }
    CPU_AND(&both, &own, near);
    return CPU_EQUAL(&both, &own);
}

static bool is_near(const struct fi_info *info)
{
    cpu_set_t near;

    return near_cpus(info, &near);
}

/* Parts of the machine that are like the one that is near to the device; 1: it is not near. */
static uint32_t near_parts(const struct fi_info *info)
{
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t near;

    return near_cpus(info, &near) && all > CPU_COUNT(&near) ? (uint32_t) (all / CPU_COUNT(&near))
                                                            : 1;
}

/* The lower the better; -1: not at all. */
static int offer_rank(const struct fi_info *info)
{
    const char *wanted = is_set(fab_params.ofi_provider) ? fab_params.ofi_provider : ofi_standard;
    int place = list_find(wanted, info->fabric_attr->prov_name);

    if (place < 0 || !is_domain_wanted(info) || !is_fit(info) || FI_ADDR_STR == info->addr_format ||
        info->ep_attr->max_msg_size < FAB_OFI_EAGER_MIN) {
        return -1;
    }
    return place << 3 | is_loopback(info) << 2 | (FI_SOCKADDR_IN6 == info->addr_format) << 1 |
           !is_near(info);
}

/* The best, one of each device. Returns how many. */
static int best_offers(struct fi_info *offers, struct fi_info **best)
{
    int num = 0, lowest = INT32_MAX;

    for (struct fi_info *info = offers; NULL != info; info = info->next) {
        int rank = offer_rank(info);
        bool is_known = false;
        if (rank < 0 || rank > lowest) {
            continue;
        }
        num = rank < lowest ? 0 : num;
        lowest = rank;
        for (int i = 0; i < num; i++) {
            is_known = is_known || 0 == strcmp(best[i]->domain_attr->name, info->domain_attr->name);
        }
        if (!is_known && num < OFI_CHOICES) {
            best[num++] = info;
        }
    }
    return num;
}

static const char *no_offer(fab_t *fab, int rc)
{
    if (is_set(fab_params.ofi_provider)) {
        const char *why = fab_sentence(
            fab,
            "libfabric %u.%u offers none of %s that serves here%s%s (FI_LOG_LEVEL=info fi_info may "
            "say why).",
            FI_MAJOR(fi_version()), FI_MINOR(fi_version()), fab_params.ofi_provider,
            0 != rc ? ": " : "", 0 != rc ? fi_strerror(-rc) : "");
        fab_warn(fab, "pml_tm_ofi_provider: %s", why);
        return why;
    }
    return fab_sentence(fab,
                        "libfabric %u.%u has no provider of %s that works here (FI_LOG_LEVEL=info "
                        "fi_info may say why).",
                        FI_MAJOR(fi_version()), FI_MINOR(fi_version()), ofi_standard);
}

struct fi_info *fab_ofi_choose(fab_t *fab, const char **why)
{
    struct fi_info *offers, *chosen = NULL;
    struct fi_info *best[OFI_CHOICES];
    int rc = 0;

    set_environment(fab);
    for (int has_rma = 1; has_rma >= 0 && NULL == chosen; has_rma--) {
        rc = get_offers(0 != has_rma, &offers);
        if (0 != rc) {
            continue;
        }
        int num = best_offers(offers, best);
        if (num > 0) {
            chosen = fi_dupinfo(
                best[fab_cpu_turn(fab->config.local_rank, near_parts(best[0]), (uint32_t) num)]);
        }
        fi_freeinfo(offers);
    }
    if (NULL == chosen) {
        *why = no_offer(fab, rc);
    }
    return chosen;
}
