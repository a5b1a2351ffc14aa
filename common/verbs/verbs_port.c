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

const char *fab_verbs_port_partition(fab_verbs_domain_t *dom, struct ibv_context *ctx, uint8_t num,
                                     const struct ibv_port_attr *port)
{
    int best = 0;

    for (int i = 0; i < port->pkey_tbl_len && best < 2; i++) {
        __be16 pkey = 0;
        int rank = 0 == ibv_query_pkey(ctx, num, i, &pkey) ? pkey_rank(be16toh(pkey)) : 0;
        if (rank > best) {
            best = rank;
            dom->pkey_index = (uint16_t) i;
            dom->addr.pkey = be16toh(pkey);
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

void fab_verbs_port_class(fab_verbs_domain_t *dom, const char *device)
{
    bool is_roce_v2 = IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer &&
                      IBV_GID_TYPE_ROCE_V2 == dom->addr.gid_type;
    int of_port = is_roce_v2 ? class_of_port(device, dom->port_num) : 0;

    dom->sl = (uint8_t) fab_params.verbs_sl;
    dom->traffic_class = (uint8_t) (fab_params.verbs_traffic_class >= 0
                                        ? fab_params.verbs_traffic_class
                                    : of_port >= 0 ? of_port
                                                   : FAB_VERBS_ROCE_CLASS);
}

static bool has_other_lid(const fab_verbs_domain_t *dom)
{
    struct ibv_port_attr port;

    memset(&port, 0, sizeof(port));
    return 0 == ibv_query_port(dom->ctx, dom->port_num, &port) && port.lid != dom->addr.lid;
}

static bool has_other_gid(const fab_verbs_domain_t *dom)
{
    union ibv_gid gid;

    return 0 == ibv_query_gid(dom->ctx, dom->port_num, dom->gid_index, &gid) &&
           0 != memcmp(&gid, dom->addr.gid, sizeof(gid));
}

static bool has_other_pkey(const fab_verbs_domain_t *dom)
{
    __be16 pkey;

    return 0 == ibv_query_pkey(dom->ctx, dom->port_num, dom->pkey_index, &pkey) &&
           be16toh(pkey) != dom->addr.pkey;
}

const char *fab_verbs_port_change(const fab_verbs_domain_t *dom)
{
    bool is_infiniband = IBV_LINK_LAYER_INFINIBAND == dom->addr.link_layer;

    if (dom->cm_ops->is_iwarp) {
        return NULL; /* rdma_cm looks at addresses */
    }
    if (is_infiniband && has_other_lid(dom)) {
        return "LID";
    }
    if (has_other_gid(dom)) {
        return "GID";
    }
    return is_infiniband && has_other_pkey(dom) ? "partition" : NULL;
}

/* ---- opening ------------------------------------------------------------ */

uint8_t fab_verbs_port_mtu(const struct ibv_port_attr *port)
{
    uint32_t mtu = IBV_MTU_4096;

    while (0 != fab_params.verbs_mtu && mtu > IBV_MTU_256 && 128u << mtu > fab_params.verbs_mtu) {
        mtu--;
    }
    return (uint8_t) fab_verbs_min(port->active_mtu, mtu);
}

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

const char *fab_verbs_port_use(fab_verbs_domain_t *dom, struct ibv_device *device, uint8_t num)
{
    union ibv_gid gid;
    int error;

    snprintf(dom->name, sizeof(dom->name), "%s:%d", ibv_get_device_name(device), num);
    dom->port_num = num;
    error = device_query(dom, device, &gid);
    if (0 != error) {
        return fab_sentence(dom->fab, "%s cannot be opened: %s.", dom->name, strerror(error));
    }
    dom->addr.link_layer = IBV_LINK_LAYER_ETHERNET == dom->port.link_layer
                               ? IBV_LINK_LAYER_ETHERNET
                               : IBV_LINK_LAYER_INFINIBAND;
    if (dom->cm_ops->is_iwarp) {
        dom->addr.flags |= FAB_VERBS_ADDR_CM;
        (void) dom->cm_ops->find_ip(dom->ctx, num, dom->addr.gid);
    } else if (IBV_LINK_LAYER_ETHERNET == dom->addr.link_layer) {
        (void) fab_verbs_gid_choose(dom, dom->ctx, num);
    } else {
        memcpy(dom->addr.gid, &gid, sizeof(gid));
        dom->gid_index = 0;
        dom->addr.flags |= 0 != (dom->port.flags & IBV_QPF_GRH_REQUIRED) ? FAB_VERBS_ADDR_GRH : 0;
        (void) fab_verbs_port_partition(dom, dom->ctx, num, &dom->port);
    }
    fab_verbs_port_class(dom, ibv_get_device_name(device));
    dom->step = 0 != dom->port.max_msg_sz ? fab_verbs_min(dom->port.max_msg_sz, FAB_VERBS_STEP)
                                          : FAB_VERBS_STEP;
    dom->addr.lid = dom->port.lid;
    dom->addr.mtu = fab_verbs_port_mtu(&dom->port);
    return NULL;
}
