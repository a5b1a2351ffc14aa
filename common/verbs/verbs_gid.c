/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GIDs of RoCE ports: which one of the table is used.
 *
 * The table has entries for all addresses of all interfaces on the port: of VLANs, aliases, and, in
 * a container, interfaces of other network name spaces, which the kernel lists and refuses to use.
 * Its order differs from host to host.
 */
#include "verbs/verbs.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fab_params.h"

enum {
    FAB_VERBS_GIDS_MAX = 1 << 16, /* entries of all ports of a device that are looked at */
    FAB_VERBS_GID_UNFIT = 1 << 16 /* rank of a GID that cannot be used */
};

/* What the entries of a port are: how many of them are left off, and why. */
typedef struct fab_verbs_gids {
    const struct ifaddrs *own; /* addresses of this name space */
    int num;                   /* that RoCE could use */
    int foreign;               /* of these, of another name space */
    int unwanted;              /* not in verbs_networks */
} fab_verbs_gids_t;

/* Does verbs_networks allow this address of this interface? */
static bool is_in_networks(const char *interface, const uint8_t *ip)
{
    const char *list = fab_params.verbs_networks;

    return NULL == list || '\0' == *list || fab_sock_list_has(list, interface, ip);
}

static bool is_own(const struct ifaddrs *own, const uint8_t *gid)
{
    uint8_t ip[16];

    while (NULL != own &&
           !(fab_sock_ip_of(own->ifa_addr, ip) && 0 == memcmp(ip, gid, sizeof(ip)))) {
        own = own->ifa_next;
    }
    return NULL != own;
}

/*
 * Is the entry of an interface in another network name space?  Numbers of interfaces are of their
 * name space: one may mean another interface here, which does not have this address.  IPv6
 * addresses made of the hardware's need not be those of the interface.
 */
static bool is_foreign(const struct ibv_gid_entry *entry, const struct ifaddrs *own,
                       const char *interface)
{
    if (0 == entry->ndev_ifindex) {
        return false; /* not known */
    }
    return '\0' == *interface ||
           (fab_sock_ip_is_v4(entry->gid.raw) && !is_own(own, entry->gid.raw));
}

static bool is_vlan(const char *interface)
{
    char path[32 + IF_NAMESIZE];

    snprintf(path, sizeof(path), "/proc/net/vlan/%s", interface);
    return '\0' != *interface && 0 == access(path, F_OK);
}

/*
 * The lower the better: RoCE v2 before v1, there IPv4 before IPv6, addresses that are routed before
 * those that are not, and, all else equal, an interface before its VLANs.
 */
static int gid_rank(const struct ibv_gid_entry *entry, fab_verbs_gids_t *gids)
{
    const uint8_t *gid = entry->gid.raw;
    char interface[IF_NAMESIZE] = "";

    if (IBV_GID_TYPE_IB == entry->gid_type || entry->gid_index > UINT8_MAX) {
        return FAB_VERBS_GID_UNFIT;
    }
    if (0 != entry->ndev_ifindex && NULL == if_indextoname(entry->ndev_ifindex, interface)) {
        interface[0] = '\0';
    }
    gids->num++;
    if (is_foreign(entry, gids->own, interface)) {
        gids->foreign++;
        return FAB_VERBS_GID_UNFIT;
    }
    if (!is_in_networks(interface, gid)) {
        gids->unwanted++;
        return FAB_VERBS_GID_UNFIT;
    }
    return (IBV_GID_TYPE_ROCE_V2 == entry->gid_type ? 0 : 8) + (fab_sock_ip_is_v4(gid) ? 0 : 2) +
           (fab_sock_ip_is_link_local(gid) ? 4 : 0) + (is_vlan(interface) ? 1 : 0);
}

/* Room for the entries of all ports: the kernel tells all or nothing. */
static size_t table_size(struct ibv_context *ctx)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    size_t size = 0;
    int ports = 0 == ibv_query_device(ctx, &device) ? device.phys_port_cnt : 0;

    for (int num = 1; num <= ports; num++) {
        memset(&port, 0, sizeof(port));
        size += 0 == ibv_query_port(ctx, (uint8_t) num, &port) && port.gid_tbl_len > 0
                    ? (size_t) port.gid_tbl_len
                    : 0;
    }
    return size < FAB_VERBS_GIDS_MAX ? size : FAB_VERBS_GIDS_MAX;
}

static bool take_best(fab_verbs_domain_t *dom, const struct ibv_gid_entry *entries, ssize_t num,
                      uint8_t port, fab_verbs_gids_t *gids)
{
    int best = FAB_VERBS_GID_UNFIT;

    for (ssize_t i = 0; i < num; i++) {
        bool is_asked_for = fab_params.verbs_gid_index < 0 ||
                            (int) entries[i].gid_index == fab_params.verbs_gid_index;
        int rank = entries[i].port_num == port && is_asked_for ? gid_rank(&entries[i], gids)
                                                               : FAB_VERBS_GID_UNFIT;
        if (rank < best) {
            best = rank;
            dom->gid_index = (uint8_t) entries[i].gid_index;
            dom->port_addr.gid_type = (uint8_t) entries[i].gid_type;
            memcpy(dom->port_addr.gid, &entries[i].gid, sizeof(dom->port_addr.gid));
        }
    }
    return best < FAB_VERBS_GID_UNFIT;
}

const char *fab_verbs_gid_choose(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t port)
{
    fab_verbs_gids_t gids = {.own = NULL};
    size_t size = table_size(ctx);
    struct ibv_gid_entry *entries = calloc(size + 1, sizeof(*entries));
    ssize_t num = NULL != entries ? ibv_query_gid_table(ctx, entries, size + 1, 0) : 0;
    struct ifaddrs *own = NULL;
    bool is_found;

    (void) getifaddrs(&own);
    gids.own = own;
    is_found = take_best(dom, entries, num, port, &gids);
    freeifaddrs(own);
    free(entries);
    if (is_found) {
        return NULL;
    }
    if (gids.unwanted > 0) {
        return fab_sentence(dom->fab, "none of the port's addresses is in pml_tm_verbs_networks");
    }
    return gids.foreign > 0 ? "the port's addresses are of interfaces in another network name space"
                            : "the port has no GID that RoCE could use";
}
