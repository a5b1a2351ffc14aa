/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One port of a device: opening it, and what its messages have in their headers besides addresses.
 *
 * Partition (InfiniBand): two ports reach each other if they have a partition in common, and one of
 * them is a full member of it.  A subnet manager may put other partitions than the default one
 * first, or give a port limited membership in that (virtual machines).
 *
 * Class: RoCE needs the class of traffic for which the network drops nothing (PFC, ECN); each lost
 * packet costs a timeout of the device, half a second.  An administrator sets it for the port in
 * sysfs; without that, DSCP 26 with ECN is what most networks are configured for.
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/fab_params.h"
#include "verbs/verbs_cm.h"

enum {
    FAB_VERBS_ROCE_CLASS = 26 << 2 | 2, /* DSCP 26, ECN-capable */
    /* bytes of one READ or WRITE: others on the same QP wait that long, 0.1 ms at 100 Gbit/s */
    FAB_VERBS_STEP = 1 << 20,
};

/* The better the entry, the more; 0: it is no choice. */
static int pkey_rank(uint16_t pkey)
{
    uint32_t wanted = fab_params.verbs_pkey;
    bool is_full = 0 != (pkey & FAB_VERBS_PKEY_FULL);

    if (0 == (pkey & FAB_VERBS_PKEY_PART) ||
        (0 != wanted && (wanted & FAB_VERBS_PKEY_PART) != (pkey & FAB_VERBS_PKEY_PART))) {
        return 0;
    }
    return is_full ? 2 : 1;
}

/* The port's partition, or the user's.  NULL, or why it cannot be used. */
static const char *choose_partition(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                                    const struct ibv_port_attr *port)
{
    int best = 0;

    for (int i = 0; i < port->pkey_tbl_len && best < 2; i++) {
        __be16 pkey = 0;
        int rank = 0 == ibv_query_pkey(ctx, num, i, &pkey) ? pkey_rank(be16toh(pkey)) : 0;
        if (rank > best) {
            best = rank;
            dom->pkey_index = (uint16_t) i;
            dom->port_addr.pkey = be16toh(pkey);
        }
    }
    if (0 != best) {
        return NULL;
    }
    return 0 != fab_params.verbs_pkey
               ? fab_sentence(dom->fab, "the port is not in partition 0x%x (pml_tm_verbs_pkey)",
                              fab_params.verbs_pkey)
               : "the port is in no partition";
}

/* "Global tclass=N"; -1: nothing is set. */
static int class_of_port(const char *device, uint8_t num)
{
    char path[160];
    int value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/tc/%d/traffic_class", device, num);
    file = fopen(path, "re");
    if (NULL != file) {
        if (1 != fscanf(file, "Global tclass=%d", &value) || value > UINT8_MAX) {
            value = -1;
        }
        (void) fclose(file);
    }
    return value;
}

static void choose_class(fab_verbs_domain_t *dom, const char *device)
{
    bool is_roce_v2 = fab_verbs_is_ethernet(dom) && IBV_GID_TYPE_ROCE_V2 == dom->port_addr.gid_type;
    int of_port = is_roce_v2 ? class_of_port(device, dom->port_num) : 0;

    dom->traffic_class = (uint8_t) (fab_params.verbs_traffic_class >= 0
                                        ? fab_params.verbs_traffic_class
                                    : of_port >= 0 ? of_port
                                                   : FAB_VERBS_ROCE_CLASS);
}

/* ---- what a port is ------------------------------------------------------ */

/* enum ibv_mtu, no larger than the user wants. */
static uint8_t mtu_of(const struct ibv_port_attr *port)
{
    uint32_t mtu = IBV_MTU_4096;

    while (0 != fab_params.verbs_mtu && mtu > IBV_MTU_256 && 128u << mtu > fab_params.verbs_mtu) {
        mtu--;
    }
    return (uint8_t) fab_verbs_min(port->active_mtu, mtu);
}

const char *fab_verbs_port_look_at(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                                   const struct ibv_port_attr *port)
{
    const bool needs_grh = 0 != (port->flags & IBV_QPF_GRH_REQUIRED);
    union ibv_gid gid;

    dom->port_addr = (fab_verbs_port_addr_t){.lid = port->lid, .mtu = mtu_of(port)};
    if (IBV_TRANSPORT_IWARP == ctx->device->transport_type) {
        return NULL != fab_verbs_cm_rdma
                   ? fab_verbs_cm_rdma->find_ip(ctx, num, dom->port_addr.gid)
                   : "iWARP needs librdmacm, without which this was built (package librdmacm-dev)";
    }
    if (IBV_LINK_LAYER_ETHERNET == port->link_layer) {
        return fab_verbs_gid_choose(dom, ctx, num);
    }
    if (0 == port->lid && !needs_grh) {
        return "the port has no LID: does a subnet manager run?";
    }
    if (0 != ibv_query_gid(ctx, num, 0, &gid)) {
        return "the port's GID cannot be queried";
    }
    memcpy(dom->port_addr.gid, &gid, sizeof(gid));
    dom->gid_index = 0;
    dom->port_addr.flags = needs_grh ? FAB_VERBS_PORT_GRH : 0;
    return choose_partition(dom, ctx, num, port);
}

/* Returns 0 or an errno; that call need not set it. */
static int device_open(fab_verbs_domain_t *dom, struct ibv_device *device)
{
    int error;

    errno = EIO;
    dom->ctx = ibv_open_device(device);
    if (NULL == dom->ctx) {
        return errno;
    }
    error = ibv_query_device(dom->ctx, &dom->device);
    return 0 == error ? ibv_query_port(dom->ctx, dom->port_num, &dom->port) : error;
}

const char *fab_verbs_port_use(fab_verbs_domain_t *dom, struct ibv_device *device, uint8_t num)
{
    const char *why;
    int error;

    snprintf(dom->name, sizeof(dom->name), "%s:%d", ibv_get_device_name(device), num);
    dom->port_num = num;
    error = device_open(dom, device);
    if (0 != error) {
        return fab_sentence(dom->fab, "%s cannot be opened: %s.", dom->name, strerror(error));
    }
    why = fab_verbs_port_look_at(dom, dom->ctx, num, &dom->port);
    if (NULL != why) {
        return why;
    }
    choose_class(dom, ibv_get_device_name(device));
    dom->step = 0 != dom->port.max_msg_sz ? fab_verbs_min(dom->port.max_msg_sz, FAB_VERBS_STEP)
                                          : FAB_VERBS_STEP;
    return NULL;
}
