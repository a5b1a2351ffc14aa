/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port of which device is used.  Candidates are the ports that the user's list allows, that
 * are up and that RC works on, of devices that have what the provider needs.  Of these
 *
 *      not much slower than the fastest   a node often has a slow port besides, for management
 *      of one kind                        InfiniBand, RoCE and iWARP do not reach each other
 *      nearest                            to the CPUs that this process may run on
 *      in turn                            by the processes of the host
 *
 * The first two say the same on all hosts that have the same ports, whatever their order and place.
 * Those that are left besides are the process's further ports, the nearest first.
 */
#include "verbs/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_cpus.h"
#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

enum {
    FAB_VERBS_PORTS_MAX = 64,     /* ports that are compared */
    FAB_VERBS_REASON_MAX = 384,   /* bytes of the sentence why there is none */
    FAB_VERBS_UNKNOWN_MAX = 288,  /* bytes of what is said of names that are not here */
    FAB_VERBS_UNWANTED_MAX = 224, /* bytes of the reason that names a parameter */
    /* what a device must have: queues shorter than these are of no use */
    FAB_VERBS_MIN_SRQ = 64,
    FAB_VERBS_MIN_CQ = 1024,
};

int (*fab_verbs_near)(const char *device, uint32_t *parts);

/* Ports of different kinds do not reach each other.  At equal speed the first is taken. */
typedef enum fab_verbs_kind_of_port {
    FAB_VERBS_INFINIBAND,
    FAB_VERBS_ROCE,
    FAB_VERBS_IWARP
} fab_verbs_kind_of_port_t;

typedef struct fab_verbs_port {
    struct ibv_device *device;
    uint8_t num;
    fab_verbs_kind_of_port_t kind;
    uint32_t speed; /* Mbit/s; 0: not known */
    int depth;      /* of what it and the process have in common: the deeper, the nearer */
    uint32_t parts; /* of the machine that are as deep */
    fab_verbs_port_addr_t addr;
} fab_verbs_port_t;

typedef struct fab_verbs_search {
    fab_verbs_domain_t *dom;
    fab_verbs_port_t ports[FAB_VERBS_PORTS_MAX];
    int num_ports;
    const char *param; /* the user's list: its name, */
    const char *list;  /* "" if there is none, */
    bool is_include;
    char unwanted[FAB_VERBS_UNWANTED_MAX]; /* and why what it does not allow is not used */
    uint64_t seen;                         /* items of the user's list that name something here */
    char unknown[FAB_VERBS_UNKNOWN_MAX];   /* of the user's list, and not here; "": nothing */
    char why_not[FAB_VERBS_REASON_MAX];
} fab_verbs_search_t;

/* ---- the user's lists --------------------------------------------------- */

/* One of the two is set at most. */
static void take_list(fab_verbs_search_t *search)
{
    const char *include = fab_params.verbs_if_include, *exclude = fab_params.verbs_if_exclude;

    search->is_include = NULL != include && '\0' != *include;
    search->param = search->is_include ? "verbs_if_include" : "verbs_if_exclude";
    search->list = search->is_include ? include : NULL != exclude ? exclude : "";
    snprintf(search->unwanted, sizeof(search->unwanted), "not wanted by pml_tm_%s", search->param);
}

/*
 * Does an item of len bytes, "device" or "device:port", name the port?  port 0: the whole device;
 * -1: any port of it.
 */
static bool item_names(const char *item, size_t len, const char *device, int port)
{
    size_t name_len = strlen(device);

    if (len < name_len || 0 != strncmp(item, device, name_len)) {
        return false;
    }
    return len == name_len || (':' == item[name_len] && 0 != port &&
                               (port < 0 || (int) strtol(item + name_len + 1, NULL, 10) == port));
}

/* The list's items that name the port, as bits. */
static uint64_t items_naming(const char *list, const char *device, int port)
{
    uint64_t items = 0;

    for (int i = 0; '\0' != *list; i++) {
        size_t len = strcspn(list, ",");
        items |= (uint64_t) item_names(list, len, device, port) << (i < 63 ? i : 63);
        list += len + ('\0' != list[len]);
    }
    return items;
}

/* Is the port to be used; with port 0: may one of the device's be? */
static bool is_wanted(const fab_verbs_search_t *search, const char *device, int port)
{
    if (search->is_include) {
        return 0 != items_naming(search->list, device, 0 == port ? -1 : port);
    }
    return 0 == items_naming(search->list, device, port);
}

/* ---- ports -------------------------------------------------------------- */

static void note_why_not(fab_verbs_search_t *search, const char *device, int port,
                         const char *reason)
{
    size_t len = strlen(search->why_not);
    char where[IBV_SYSFS_NAME_MAX + 16];

    snprintf(where, sizeof(where), port > 0 ? "%s:%d" : "%s", device, port);
    snprintf(search->why_not + len, sizeof(search->why_not) - len, "%s%s: %s", len > 0 ? "; " : "",
             where, reason);
}

static fab_verbs_kind_of_port_t kind_of(const struct ibv_device *device,
                                        const struct ibv_port_attr *port)
{
    if (IBV_TRANSPORT_IWARP == device->transport_type) {
        return FAB_VERBS_IWARP;
    }
    return IBV_LINK_LAYER_ETHERNET == port->link_layer ? FAB_VERBS_ROCE : FAB_VERBS_INFINIBAND;
}

/* Mbit/s of data; 0: a width or speed that is not known here. */
static uint32_t speed_of(const struct ibv_port_attr *port)
{
    /* of a lane, by the bit that is set: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR */
    static const uint32_t speeds[8] = {2000, 4000, 8000, 10000, 13636, 25000, 50000, 100000};
    static const uint32_t widths[5] = {1, 4, 8, 12, 2};
    uint32_t width = 0, speed = 0;

    for (uint32_t bit = 0; bit < 8; bit++) {
        width = bit < 5 && 1u << bit == port->active_width ? widths[bit] : width;
        speed = 1u << bit == port->active_speed ? speeds[bit] : speed;
    }
    return width * speed;
}

static void look_at_port(fab_verbs_search_t *search, struct ibv_device *device,
                         struct ibv_context *ctx, uint8_t num)
{
    struct ibv_port_attr port;
    const char *name = ibv_get_device_name(device);
    const char *flaw = "the port cannot be queried";

    memset(&port, 0, sizeof(port));
    search->seen |= items_naming(search->list, name, num);
    if (!is_wanted(search, name, num)) {
        flaw = search->unwanted;
    } else if (0 == ibv_query_port(ctx, num, &port)) {
        flaw = IBV_PORT_ACTIVE != port.state ? "the port is not active"
                                             : fab_verbs_port_look_at(search->dom, ctx, num, &port);
    }
    if (NULL != flaw) {
        note_why_not(search, name, num, flaw);
    } else if (search->num_ports < FAB_VERBS_PORTS_MAX) {
        search->ports[search->num_ports++] = (fab_verbs_port_t){.device = device,
                                                                .num = num,
                                                                .kind = kind_of(device, &port),
                                                                .speed = speed_of(&port),
                                                                .parts = 1,
                                                                .addr = search->dom->port_addr};
    }
}

/* Its ports are not known: items of the user's list that name one of them count as seen. */
static void skip_device(fab_verbs_search_t *search, const char *name, const char *reason)
{
    search->seen |= items_naming(search->list, name, -1);
    note_why_not(search, name, 0, reason);
}

/* NULL: it has what the provider needs. */
static const char *device_flaw(const struct ibv_device_attr *attr)
{
    if (attr->max_qp < 1) {
        return "it makes no queue pairs";
    }
    if (attr->max_srq < 1) {
        return "it has no shared receive queues";
    }
    if (attr->max_srq_wr < FAB_VERBS_MIN_SRQ || attr->max_cqe < FAB_VERBS_MIN_CQ) {
        return "its queues are too short";
    }
    return NULL;
}

static void look_at_ports(fab_verbs_search_t *search, struct ibv_device *device)
{
    struct ibv_device_attr attr;
    const char *name = ibv_get_device_name(device);
    struct ibv_context *ctx = ibv_open_device(device);
    const char *flaw;

    if (NULL == ctx) {
        skip_device(
            search, name,
            fab_sentence(search->dom->fab, "%s (/dev/infiniband/uverbs*)", strerror(errno)));
        return;
    }
    flaw = 0 == ibv_query_device(ctx, &attr) ? device_flaw(&attr) : "it cannot be queried";
    for (int num = 1; NULL == flaw && num <= attr.phys_port_cnt; num++) {
        look_at_port(search, device, ctx, (uint8_t) num);
    }
    if (NULL != flaw) {
        skip_device(search, name, flaw);
    }
    (void) ibv_close_device(ctx);
}

static void look_at_device(fab_verbs_search_t *search, struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);

    if (!is_wanted(search, name, 0)) {
        skip_device(search, name, search->unwanted);
    } else if (IBV_TRANSPORT_IB != device->transport_type &&
               IBV_TRANSPORT_IWARP != device->transport_type) {
        skip_device(search, name, "not InfiniBand, RoCE, or iWARP");
    } else {
        look_at_ports(search, device);
    }
}

/* Log the first item of the user's list that names nothing here; the sentence is kept. */
static void log_unknown(fab_verbs_search_t *search)
{
    const char *list = search->list;

    for (int i = 0; i < 63 && '\0' != *list; i++) {
        int len = (int) strcspn(list, ",");
        if (len > 0 && 0 == (search->seen >> i & 1)) {
            snprintf(search->unknown, sizeof(search->unknown),
                     "pml_tm_%s names %.*s, which this host does not have; ", search->param,
                     len < 64 ? len : 64, list);
            fab_warn(search->dom->fab, "%.*s.", (int) strlen(search->unknown) - 2, search->unknown);
            return;
        }
        list += len + ('\0' != list[len]);
    }
}

/* ---- the choice --------------------------------------------------------- */

/* Leave a port out: what the sentence says of it. */
static void leave_out(const fab_verbs_search_t *search, const fab_verbs_port_t *port,
                      const fab_verbs_port_t *best, const char *what)
{
    fab_log(search->dom->fab, 10, "%s:%d (%.3g Gbit/s) is not used: %s:%d (%.3g Gbit/s) is %s",
            ibv_get_device_name(port->device), port->num, port->speed / 1000.0,
            ibv_get_device_name(best->device), best->num, best->speed / 1000.0, what);
}

/* The fastest port; of equally fast ones the first kind.  What is not known counts as fast. */
static fab_verbs_port_t fastest(const fab_verbs_search_t *search)
{
    fab_verbs_port_t best = search->ports[0];

    for (int i = 1; i < search->num_ports; i++) {
        const fab_verbs_port_t *port = &search->ports[i];
        uint32_t speed = 0 == port->speed ? UINT32_MAX : port->speed;
        uint32_t of_best = 0 == best.speed ? UINT32_MAX : best.speed;
        if (speed > of_best || (speed == of_best && port->kind < best.kind)) {
            best = *port;
        }
    }
    return best;
}

/*
 * Keep the ports that are of the kind of the fastest and not much slower.  Of those that the user
 * has named slow ones stay, too.
 */
static void keep_the_best(fab_verbs_search_t *search)
{
    const fab_verbs_port_t best = fastest(search);
    int kept = 0;

    for (int i = 0; i < search->num_ports; i++) {
        fab_verbs_port_t port = search->ports[i];
        bool is_slow = !search->is_include && 0 != port.speed && port.speed < best.speed / 2;
        if (port.kind != best.kind) {
            leave_out(search, &port, &best, "of another kind, which it does not reach");
        } else if (is_slow) {
            leave_out(search, &port, &best, "faster");
        } else {
            search->ports[kept++] = port;
        }
    }
    search->num_ports = kept;
}

static int order(const void *a, const void *b)
{
    const fab_verbs_port_t *x = a;
    const fab_verbs_port_t *y = b;
    int names = strcmp(ibv_get_device_name(x->device), ibv_get_device_name(y->device));

    return x->depth != y->depth ? y->depth - x->depth : 0 != names ? names : x->num - y->num;
}

static const fab_verbs_port_t *nearest(fab_verbs_search_t *search)
{
    int near = 0;

    for (int i = 0; i < search->num_ports && search->num_ports > 1 && NULL != fab_verbs_near; i++) {
        fab_verbs_port_t *port = &search->ports[i];
        port->depth = fab_verbs_near(ibv_get_device_name(port->device), &port->parts);
    }
    qsort(search->ports, (size_t) search->num_ports, sizeof(search->ports[0]), order);
    while (near < search->num_ports && search->ports[near].depth == search->ports[0].depth) {
        near++;
    }
    return &search->ports[fab_cpu_turn(search->dom->fab->config.local_rank, search->ports[0].parts,
                                       (uint32_t) near)];
}

/* Its place among the ports by name. */
static uint8_t rail_of(const fab_verbs_search_t *search, const fab_verbs_port_t *port)
{
    const char *name = ibv_get_device_name(port->device);
    uint8_t rail = 0;

    for (int i = 0; i < search->num_ports; i++) {
        int names = strcmp(ibv_get_device_name(search->ports[i].device), name);
        rail += names < 0 || (0 == names && search->ports[i].num < port->num);
    }
    return rail;
}

/* For the wire. */
static uint16_t speed_in_100_mbit(const fab_verbs_port_t *port)
{
    return (uint16_t) (port->speed / 100 < UINT16_MAX ? port->speed / 100 : UINT16_MAX);
}

/*
 * May this further port have a share of long data?  Where the host has as many processes of the job
 * as ports, or more, they use all ports as it is; a slow one would be waited for; and two with one
 * address are one link.
 */
static bool may_share(const fab_verbs_search_t *search, const fab_verbs_port_t *port,
                      const fab_verbs_port_t *first)
{
    return search->dom->fab->config.num_local < (uint32_t) search->num_ports &&
           search->dom->addr.num_ports < fab_limits.verbs_rails &&
           (0 == port->speed || port->speed >= first->speed / 2) &&
           0 != memcmp(port->addr.gid, first->addr.gid, sizeof(port->addr.gid));
}

/* The process uses this port. */
static void take_port(fab_verbs_search_t *search, const fab_verbs_port_t *port,
                      const fab_verbs_port_t *first)
{
    fab_verbs_domain_t *dom = search->dom;
    fab_verbs_port_addr_t addr = port->addr;
    fab_verbs_port_name_t *name = &dom->names[dom->addr.num_ports];

    snprintf(name->device, sizeof(name->device), "%s", ibv_get_device_name(port->device));
    name->num = port->num;
    addr.rail = rail_of(search, port);
    addr.speed = speed_in_100_mbit(port);
    addr.flags |= port != first && may_share(search, port, first) ? FAB_VERBS_PORT_SHARE : 0;
    dom->addr.ports[dom->addr.num_ports++] = addr;
}

/* The first one, and others in the order of nearness. */
static void take_ports(fab_verbs_search_t *search, const fab_verbs_port_t *first)
{
    take_port(search, first, first);
    for (int i = 0; i < search->num_ports && FAB_VERBS_IWARP != first->kind &&
                    search->dom->addr.num_ports < fab_limits.verbs_ports;
         i++) {
        if (&search->ports[i] != first) {
            take_port(search, &search->ports[i], first);
        }
    }
}

/* ---- opening ------------------------------------------------------------ */

/*
 * libibverbs names no device.  If the kernel has one, its file is missing: in a container, say, to
 * which it was not given.
 */
static const char *no_device(const fab_verbs_domain_t *dom)
{
    const char *sysfs = secure_getenv("SYSFS_PATH");
    const struct dirent *entry;
    const char *why = "This host has no RDMA device.";
    char path[512];
    DIR *dir;

    snprintf(path, sizeof(path), "%s/class/infiniband_verbs", NULL != sysfs ? sysfs : "/sys");
    dir = opendir(path);
    while (NULL != dir && NULL != (entry = readdir(dir))) {
        if (0 == strncmp(entry->d_name, "uverbs", 6)) {
            why = fab_sentence(dom->fab,
                               "The kernel has an RDMA device, but its file /dev/infiniband/%s "
                               "cannot be used here: a container must be given it (docker run "
                               "--device=/dev/infiniband/%s), and libibverbs its driver.",
                               entry->d_name, entry->d_name);
            break;
        }
    }
    if (NULL != dir) {
        closedir(dir);
    }
    return why;
}

const char *fab_verbs_device_open(fab_verbs_domain_t *dom)
{
    fab_verbs_search_t *search = calloc(1, sizeof(*search));
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    const char *why = "There is not enough memory.";

    if (NULL != search && (NULL == devices || 0 == num)) {
        why = no_device(dom);
    } else if (NULL != search) {
        search->dom = dom;
        take_list(search);
        for (int i = 0; i < num; i++) {
            look_at_device(search, devices[i]);
        }
        log_unknown(search);
        if (search->num_ports > 0) {
            const fab_verbs_port_t *first;
            keep_the_best(search);
            first = nearest(search);
            dom->cm_ops = FAB_VERBS_IWARP == first->kind ? fab_verbs_cm_rdma : NULL;
            dom->addr.flags = FAB_VERBS_IWARP == first->kind ? FAB_VERBS_ADDR_CM : 0;
            why = fab_verbs_port_use(dom, first->device, first->num);
            take_ports(search, first);
            dom->addr.link_layer = fab_verbs_is_ethernet(dom) ? IBV_LINK_LAYER_ETHERNET
                                                              : IBV_LINK_LAYER_INFINIBAND;
        } else {
            why = fab_sentence(dom->fab, "No RDMA device can be used: %s%s.", search->unknown,
                               search->why_not);
        }
    }
    free(search);
    if (NULL != devices) {
        ibv_free_device_list(devices);
    }
    return why;
}
