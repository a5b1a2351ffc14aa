/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port of which device is used.  Candidates are the ports that the user's list allows, that
 * are up and that RC works on.  The one nearest to the CPUs that this process may run on is taken;
 * among equally near ones the processes of the host take turns.
 */
#include "verbs/verbs_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

enum {
    /* bytes of one READ or WRITE: others on the same QP wait that long, 0.1 ms at 100 Gbit/s */
    FAB_VERBS_STEP = 1 << 20,
    FAB_VERBS_PORTS_MAX = 64,      /* ports that are compared */
    FAB_VERBS_REASON_MAX = 384,    /* bytes of the sentence why there is none */
    FAB_VERBS_UNKNOWN_MAX = 288,   /* bytes of what is said of names that are not here */
    FAB_VERBS_UNWANTED_MAX = 224,  /* bytes of the reason that names a parameter */
    FAB_VERBS_GIDS_MAX = 256,      /* entries of a GID table that are looked at */
    FAB_VERBS_GID_UNFIT = 1 << 16, /* rank of a GID that cannot be used */
};

int (*fab_verbs_near)(const char *device, uint32_t *parts);

typedef struct fab_verbs_port {
    struct ibv_device *device;
    uint8_t num;
    int depth;      /* of what it and the process have in common: the deeper, the nearer */
    uint32_t parts; /* of the machine that are as deep */
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
    snprintf(search->unwanted, sizeof(search->unwanted), "not wanted by %s%s", fab_params.prefix,
             search->param);
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

/* ---- GIDs --------------------------------------------------------------- */

/*
 * The lower the better: RoCE v2 before v1, there IPv4 before IPv6, and addresses that are routed
 * before those that are not.
 */
static int gid_rank(const struct ibv_gid_entry *entry)
{
    const uint8_t *gid = entry->gid.raw;

    if (IBV_GID_TYPE_IB == entry->gid_type) {
        return FAB_VERBS_GID_UNFIT;
    }
    return (IBV_GID_TYPE_ROCE_V2 == entry->gid_type ? 0 : 4) + (fab_sock_ip_is_v4(gid) ? 0 : 1) +
           (fab_sock_ip_is_link_local(gid) ? 2 : 0);
}

/* Choose among the port's GIDs, or take the user's. False: there is none. */
static bool choose_gid(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t port)
{
    struct ibv_gid_entry *entries = calloc(FAB_VERBS_GIDS_MAX, sizeof(*entries));
    ssize_t num = NULL != entries ? ibv_query_gid_table(ctx, entries, FAB_VERBS_GIDS_MAX, 0) : 0;
    int best = FAB_VERBS_GID_UNFIT;

    for (ssize_t i = 0; i < num; i++) {
        int rank = gid_rank(&entries[i]);
        bool is_asked_for = (int) entries[i].gid_index == fab_params.verbs_gid_index;
        if (entries[i].port_num == port && rank < best &&
            (fab_params.verbs_gid_index < 0 || is_asked_for)) {
            best = rank;
            dom->gid_index = (uint8_t) entries[i].gid_index;
            dom->addr.gid_type = (uint8_t) entries[i].gid_type;
            memcpy(dom->addr.gid, &entries[i].gid, sizeof(dom->addr.gid));
        }
    }
    free(entries);
    return best < FAB_VERBS_GID_UNFIT;
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

/* NULL: the port can be used. */
static const char *port_flaw(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                             const struct ibv_port_attr *port)
{
    if (IBV_PORT_ACTIVE != port->state) {
        return "the port is not active";
    }
    if (IBV_TRANSPORT_IWARP == ctx->device->transport_type) {
        return NULL != fab_verbs_cm_rdma
                   ? fab_verbs_cm_rdma->find_ip(ctx, num, dom->addr.gid)
                   : "iWARP needs librdmacm, without which this was built (package librdmacm-dev)";
    }
    if (IBV_LINK_LAYER_ETHERNET == port->link_layer) {
        return choose_gid(dom, ctx, num) ? NULL : "the port has no GID that RoCE could use";
    }
    return 0 != port->lid ? NULL : "the port has no LID: does a subnet manager run?";
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
        flaw = port_flaw(search->dom, ctx, num, &port);
    }
    if (NULL != flaw) {
        note_why_not(search, name, num, flaw);
    } else if (search->num_ports < FAB_VERBS_PORTS_MAX) {
        search->ports[search->num_ports++] = (fab_verbs_port_t){
            .device = device, .num = num, .parts = 1};
    }
}

/* Its ports are not known: items of the user's list that name one of them count as seen. */
static void skip_device(fab_verbs_search_t *search, const char *name, const char *reason)
{
    search->seen |= items_naming(search->list, name, -1);
    note_why_not(search, name, 0, reason);
}

static void look_at_ports(fab_verbs_search_t *search, struct ibv_device *device)
{
    struct ibv_device_attr attr;
    const char *name = ibv_get_device_name(device);
    struct ibv_context *ctx = ibv_open_device(device);

    if (NULL == ctx) {
        skip_device(search, name, strerror(errno));
        return;
    }
    if (0 != ibv_query_device(ctx, &attr)) {
        skip_device(search, name, "it cannot be queried");
        attr.phys_port_cnt = 0;
    }
    for (int num = 1; num <= attr.phys_port_cnt; num++) {
        look_at_port(search, device, ctx, (uint8_t) num);
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
                     "%s%s names %.*s, which this host does not have; ", fab_params.prefix,
                     search->param, len < 64 ? len : 64, list);
            fab_log(search->dom->fab, 1, "%.*s", (int) strlen(search->unknown) - 2,
                    search->unknown);
            return;
        }
        list += len + ('\0' != list[len]);
    }
}

static int order(const void *a, const void *b)
{
    const fab_verbs_port_t *x = a;
    const fab_verbs_port_t *y = b;
    int names = strcmp(ibv_get_device_name(x->device), ibv_get_device_name(y->device));

    return x->depth != y->depth ? y->depth - x->depth : 0 != names ? names : x->num - y->num;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return 0 == b ? a : gcd(b, a % b);
}

/*
 * Which of the num devices nearest the process its rank uses.  The machine has so many equal parts
 * (packages, say), and mpirun has placed ranks on them in turn, or filled one after the other: that
 * is not known here. Either way the ranks of each part are to use all of its devices: of two
 * packages with two devices each, ranks 0, 2 and 4 must not all use the first.
 */
static uint32_t turn(uint32_t rank, uint32_t parts, uint32_t num)
{
    return (1 == gcd(parts, num) ? rank : rank + rank / parts) % num;
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
    return &search->ports[turn(search->dom->fab->config.local_rank, search->ports[0].parts,
                               (uint32_t) near)];
}

/* ---- opening ------------------------------------------------------------ */

/*
 * Open the device and ask what the domain needs to know of it and the port. Returns 0 or the errno
 * of what failed, which two of the queries return; the other calls need not set errno.
 */
static int device_query(fab_verbs_domain_t *dom, struct ibv_device *device, union ibv_gid *gid)
{
    int error;

    errno = EIO;
    dom->ctx = ibv_open_device(device);
    if (NULL == dom->ctx) {
        return errno;
    }
    error = ibv_query_device(dom->ctx, &dom->device);
    error = 0 == error ? ibv_query_port(dom->ctx, dom->port_num, &dom->port) : error;
    if (0 != error) {
        return error;
    }
    errno = EIO;
    return 0 == ibv_query_gid(dom->ctx, dom->port_num, 0, gid) ? 0 : errno;
}

/* NULL, or why it cannot be opened. */
static const char *device_use(fab_verbs_domain_t *dom, const fab_verbs_port_t *port)
{
    union ibv_gid gid;
    int error;

    snprintf(dom->name, sizeof(dom->name), "%s:%d", ibv_get_device_name(port->device), port->num);
    dom->port_num = port->num;
    error = device_query(dom, port->device, &gid);
    if (0 != error) {
        return fab_sentence(dom->fab, "%s cannot be opened: %s.", dom->name, strerror(error));
    }
    dom->addr.link_layer = IBV_LINK_LAYER_ETHERNET == dom->port.link_layer
                               ? IBV_LINK_LAYER_ETHERNET
                               : IBV_LINK_LAYER_INFINIBAND;
    if (IBV_TRANSPORT_IWARP == port->device->transport_type) {
        dom->addr.flags |= FAB_VERBS_ADDR_CM;
        dom->cm_ops = fab_verbs_cm_rdma;
        (void) dom->cm_ops->find_ip(dom->ctx, port->num, dom->addr.gid);
    } else if (IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer) {
        (void) choose_gid(dom, dom->ctx, port->num);
    } else {
        memcpy(dom->addr.gid, &gid, sizeof(gid));
    }
    dom->step = 0 != dom->port.max_msg_sz ? fab_verbs_min(dom->port.max_msg_sz, FAB_VERBS_STEP)
                                          : FAB_VERBS_STEP;
    dom->addr.lid = dom->port.lid;
    dom->addr.mtu = (uint8_t) dom->port.active_mtu;
    return NULL;
}

const char *fab_verbs_device_open(fab_verbs_domain_t *dom)
{
    fab_verbs_search_t *search = calloc(1, sizeof(*search));
    int num = 0;
    struct ibv_device **devices = ibv_get_device_list(&num);
    const char *why = "There is not enough memory.";

    if (NULL != search && (NULL == devices || 0 == num)) {
        why = "This host has no RDMA device.";
    } else if (NULL != search) {
        search->dom = dom;
        take_list(search);
        for (int i = 0; i < num; i++) {
            look_at_device(search, devices[i]);
        }
        log_unknown(search);
        if (search->num_ports > 0) {
            why = device_use(dom, nearest(search));
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
