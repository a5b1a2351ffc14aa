/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port of which device: those that the user's lists allow, that are up and that RC works on; of these the nearest to
 * the CPUs that this process may run on; of equally near ones, processes take turns by rank.
 *
 * Nearness is the kernel's distance between the NUMA node of the device and that of the process, from /sys: what hwloc
 * reads, too.  A process that may run on several nodes has no near device.
 */
#include "verbs/verbs_types.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_params.h"

enum {
    FAB_VERBS_PORTS_MAX = 64,      /* ports that are compared */
    FAB_VERBS_REASON_MAX = 384,    /* bytes of the sentence why there is none */
    FAB_VERBS_GIDS_MAX = 256,      /* entries of a GID table that are looked at */
    FAB_VERBS_FAR = 1 << 16,       /* distance of a device whose node is not known, more than any of the kernel's */
    FAB_VERBS_GID_UNFIT = 1 << 16, /* rank of a GID that cannot be used */
};

typedef struct fab_verbs_port {
    struct ibv_device *device;
    uint8_t num;
    int distance;
} fab_verbs_port_t;

typedef struct fab_verbs_search {
    fab_verbs_domain_t *dom;
    fab_verbs_port_t ports[FAB_VERBS_PORTS_MAX];
    int num_ports;
    int node; /* NUMA node of this process; -1: several */
    char why_not[FAB_VERBS_REASON_MAX];
} fab_verbs_search_t;

/* ---- the user's lists -------------------------------------------------------------------------------------------- */

/* Does the list name the port, as "device" or "device:port"? */
static bool fab_verbs_list_has(const char *list, const char *device, uint8_t port)
{
    size_t len = strlen(device);

    while (NULL != list && '\0' != *list) {
        size_t item = strcspn(list, ",");
        if (item >= len && 0 == strncmp(list, device, len) &&
            (item == len || (':' == list[len] && strtoul(list + len + 1, NULL, 10) == port))) {
            return true;
        }
        list += item + ('\0' != list[item]);
    }
    return false;
}

static bool fab_verbs_is_set(const char *list)
{
    return NULL != list && '\0' != *list;
}

static bool fab_verbs_is_wanted(const char *device, uint8_t port)
{
    if (fab_verbs_is_set(fab_params.verbs_if_include)) {
        return fab_verbs_list_has(fab_params.verbs_if_include, device, port);
    }
    return !fab_verbs_list_has(fab_params.verbs_if_exclude, device, port);
}

/* ---- nearness ---------------------------------------------------------------------------------------------------- */

static bool fab_verbs_read_line(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "re");
    bool is_read = NULL != file && NULL != fgets(buf, (int) size, file);

    if (NULL != file) {
        fclose(file);
    }
    return is_read;
}

/* Are all CPUs of the set in a list like "0-3,8"? */
static bool fab_verbs_cpus_within(const cpu_set_t *cpus, const char *list)
{
    cpu_set_t of_list;
    cpu_set_t both;

    CPU_ZERO(&of_list);
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long first = strtoul(list, &end, 10);
        unsigned long last = '-' == *end ? strtoul(end + 1, &end, 10) : first;
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET(cpu, &of_list);
        }
        list = ',' == *end ? end + 1 : end;
    }
    CPU_AND(&both, cpus, &of_list);
    return CPU_EQUAL(&both, cpus);
}

/* The NUMA node that all CPUs of this process belong to; -1: none, or /sys does not say. */
static int fab_verbs_own_node(void)
{
    cpu_set_t cpus;
    char path[128], list[4096];

    if (0 != sched_getaffinity(0, sizeof(cpus), &cpus)) {
        return -1;
    }
    for (int node = 0;; node++) {
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
        if (!fab_verbs_read_line(path, list, sizeof(list))) {
            return -1;
        }
        if (fab_verbs_cpus_within(&cpus, list)) {
            return node;
        }
    }
}

static int fab_verbs_distance(const struct ibv_device *device, int node)
{
    char path[sizeof(device->ibdev_path) + 32], line[4096];
    char *at = line;
    int device_node;
    int distance = FAB_VERBS_FAR;

    if (node < 0) {
        return 0;
    }
    snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
    if (!fab_verbs_read_line(path, line, sizeof(line)) || (device_node = atoi(line)) < 0) {
        return FAB_VERBS_FAR;
    }
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/distance", node);
    if (!fab_verbs_read_line(path, line, sizeof(line))) {
        return FAB_VERBS_FAR;
    }
    for (int i = 0; i <= device_node; i++) {
        distance = (int) strtol(at, &at, 10);
    }
    return distance;
}

/* ---- GIDs -------------------------------------------------------------------------------------------------------- */

/* The lower the better: RoCE v2 before v1, there IPv4 before IPv6, and addresses that are routed before those that are not.
 */
static int fab_verbs_gid_rank(const struct ibv_gid_entry *entry)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *gid = entry->gid.raw;
    bool is_v4 = 0 == memcmp(gid, mapped, sizeof(mapped));
    bool is_link_local = is_v4 ? 169 == gid[12] && 254 == gid[13] : 0xfe == gid[0] && 0x80 == (gid[1] & 0xc0);

    if (IBV_GID_TYPE_IB == entry->gid_type) {
        return FAB_VERBS_GID_UNFIT;
    }
    return (IBV_GID_TYPE_ROCE_V2 == entry->gid_type ? 0 : 4) + (is_v4 ? 0 : 1) + (is_link_local ? 2 : 0);
}

/* Choose among the port's GIDs, or take the user's. False: there is none. */
static bool fab_verbs_choose_gid(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t port)
{
    struct ibv_gid_entry *entries = calloc(FAB_VERBS_GIDS_MAX, sizeof(*entries));
    ssize_t num = NULL != entries ? ibv_query_gid_table(ctx, entries, FAB_VERBS_GIDS_MAX, 0) : 0;
    int best = FAB_VERBS_GID_UNFIT;

    for (ssize_t i = 0; i < num; i++) {
        int rank = fab_verbs_gid_rank(&entries[i]);
        bool is_asked_for = (int) entries[i].gid_index == fab_params.verbs_gid_index;
        if (entries[i].port_num == port && rank < best && (fab_params.verbs_gid_index < 0 || is_asked_for)) {
            best = rank;
            dom->gid_index = (uint8_t) entries[i].gid_index;
            dom->addr.gid_type = (uint8_t) entries[i].gid_type;
            memcpy(dom->addr.gid, &entries[i].gid, sizeof(dom->addr.gid));
        }
    }
    free(entries);
    return best < FAB_VERBS_GID_UNFIT;
}

/* ---- ports ------------------------------------------------------------------------------------------------------- */

static void fab_verbs_why_not(fab_verbs_search_t *search, const char *device, int port, const char *reason)
{
    size_t len = strlen(search->why_not);
    char where[IBV_SYSFS_NAME_MAX + 16];

    snprintf(where, sizeof(where), port > 0 ? "%s:%d" : "%s", device, port);
    snprintf(search->why_not + len, sizeof(search->why_not) - len, "%s%s: %s", len > 0 ? "; " : "", where, reason);
}

/* NULL: the port can be used. */
static const char *fab_verbs_port_flaw(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                                       const struct ibv_port_attr *port)
{
    if (IBV_PORT_ACTIVE != port->state) {
        return "the port is not active";
    }
    if (IBV_LINK_LAYER_ETHERNET == port->link_layer) {
        return fab_verbs_choose_gid(dom, ctx, num) ? NULL : "the port has no GID that RoCE could use";
    }
    return 0 != port->lid ? NULL : "the port has no LID: does a subnet manager run?";
}

static void fab_verbs_look_at_port(fab_verbs_search_t *search, struct ibv_device *device, struct ibv_context *ctx,
                                   uint8_t num)
{
    struct ibv_port_attr port;
    const char *name = ibv_get_device_name(device);
    const char *flaw = "the port cannot be queried";
    char unwanted[sizeof(fab_params.prefix) + 64];

    memset(&port, 0, sizeof(port));
    if (!fab_verbs_is_wanted(name, num)) {
        snprintf(unwanted, sizeof(unwanted), "not wanted by %sverbs_if_%s", fab_params.prefix,
                 fab_verbs_is_set(fab_params.verbs_if_include) ? "include" : "exclude");
        flaw = unwanted;
    } else if (0 == ibv_query_port(ctx, num, &port)) {
        flaw = fab_verbs_port_flaw(search->dom, ctx, num, &port);
    }
    if (NULL != flaw) {
        fab_verbs_why_not(search, name, num, flaw);
        return;
    }
    if (search->num_ports < FAB_VERBS_PORTS_MAX) {
        search->ports[search->num_ports++] =
            (fab_verbs_port_t){.device = device, .num = num, .distance = fab_verbs_distance(device, search->node)};
    }
}

static void fab_verbs_look_at_device(fab_verbs_search_t *search, struct ibv_device *device)
{
    struct ibv_device_attr attr;
    struct ibv_context *ctx;
    const char *name = ibv_get_device_name(device);

    if (IBV_TRANSPORT_IB != device->transport_type) {
        fab_verbs_why_not(search, name, 0,
                          IBV_TRANSPORT_IWARP == device->transport_type ? "iWARP is not supported"
                                                                        : "not InfiniBand or RoCE");
        return;
    }
    ctx = ibv_open_device(device);
    if (NULL == ctx) {
        fab_verbs_why_not(search, name, 0, strerror(errno));
        return;
    }
    if (0 != ibv_query_device(ctx, &attr)) {
        fab_verbs_why_not(search, name, 0, "it cannot be queried");
        attr.phys_port_cnt = 0;
    }
    for (int num = 1; num <= attr.phys_port_cnt; num++) {
        fab_verbs_look_at_port(search, device, ctx, (uint8_t) num);
    }
    (void) ibv_close_device(ctx);
}

static int fab_verbs_order(const void *a, const void *b)
{
    const fab_verbs_port_t *x = a;
    const fab_verbs_port_t *y = b;
    int names = strcmp(ibv_get_device_name(x->device), ibv_get_device_name(y->device));

    return x->distance != y->distance ? x->distance - y->distance : 0 != names ? names : x->num - y->num;
}

static const fab_verbs_port_t *fab_verbs_nearest(fab_verbs_search_t *search)
{
    int near = 0;

    qsort(search->ports, (size_t) search->num_ports, sizeof(search->ports[0]), fab_verbs_order);
    while (near < search->num_ports && search->ports[near].distance == search->ports[0].distance) {
        near++;
    }
    return &search->ports[(uint32_t) search->dom->fab->config.name % (uint32_t) near];
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int fab_verbs_device_use(fab_verbs_domain_t *dom, const fab_verbs_port_t *port, const char **why)
{
    union ibv_gid gid;

    snprintf(dom->name, sizeof(dom->name), "%s:%d", ibv_get_device_name(port->device), port->num);
    dom->port_num = port->num;
    dom->ctx = ibv_open_device(port->device);
    if (NULL == dom->ctx || 0 != ibv_query_device(dom->ctx, &dom->device) ||
        0 != ibv_query_port(dom->ctx, port->num, &dom->port) || 0 != ibv_query_gid(dom->ctx, port->num, 0, &gid)) {
        *why = fab_sentence(dom->fab, "%s cannot be opened: %s.", dom->name, strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    dom->addr.link_layer =
        IBV_LINK_LAYER_ETHERNET == dom->port.link_layer ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    if (IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer) {
        (void) fab_verbs_choose_gid(dom, dom->ctx, port->num);
    } else {
        memcpy(dom->addr.gid, &gid, sizeof(gid));
    }
    dom->step = 0 != dom->port.max_msg_sz && dom->port.max_msg_sz < FAB_VERBS_STEP ? dom->port.max_msg_sz : FAB_VERBS_STEP;
    dom->addr.lid = dom->port.lid;
    dom->addr.mtu = (uint8_t) dom->port.active_mtu;
    return OPAL_SUCCESS;
}

int fab_verbs_device_open(fab_verbs_domain_t *dom, const char **why)
{
    fab_verbs_search_t *search = calloc(1, sizeof(*search));
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    int rc = OPAL_ERR_NOT_AVAILABLE;

    *why = "There is not enough memory.";
    if (NULL != search && (NULL == devices || 0 == num)) {
        *why = "This host has no RDMA device.";
    } else if (NULL != search) {
        search->dom = dom;
        search->node = fab_verbs_own_node();
        for (int i = 0; i < num; i++) {
            fab_verbs_look_at_device(search, devices[i]);
        }
        if (search->num_ports > 0) {
            rc = fab_verbs_device_use(dom, fab_verbs_nearest(search), why);
        } else {
            *why = fab_sentence(dom->fab, "No RDMA device can be used: %s.", search->why_not);
        }
    }
    free(search);
    if (NULL != devices) {
        ibv_free_device_list(devices);
    }
    return rc;
}
