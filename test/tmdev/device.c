/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices, tmdev0 and others if asked for, and their ports: names, attributes, GIDs and keys.
 *
 * All processes that see one another are behind the same ports: each has one LID, and the same
 * GIDs. On InfiniBand there is one GID; as Ethernet, a port has four: RoCE v1 and v2 of a
 * link-local and of an IPv4 address.
 */
#include "tmdev.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE(n)                                                                                  \
    {                                                                                              \
        .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "tmdev" #n,          \
        .dev_name = "tmdev" #n, .dev_path = "/sys/class/infiniband_verbs/tmdev" #n,                \
        .ibdev_path = "/sys/class/infiniband/tmdev" #n,                                            \
    }
static struct ibv_device the_devices[TMDEV_DEVICES] = {DEVICE(0), DEVICE(1), DEVICE(2), DEVICE(3),
                                                       DEVICE(4), DEVICE(5), DEVICE(6), DEVICE(7)};
#undef DEVICE

/* The second half of 198.18.0.0/15: aliases, LIDs below ALIASES. */
enum { ALIAS_NET = 19, ALIASES = 16 };

static uint32_t index_of(const struct ibv_device *device)
{
    return (uint32_t) (device - the_devices);
}

bool tmdev_is_ethernet(const struct ibv_context *context)
{
    return tmdev_settings()->is_ethernet[index_of(context->device)];
}

bool tmdev_lacks(const struct ibv_context *context, uint32_t what)
{
    return 0 != (tmdev_settings()->lacks[index_of(context->device)] & what);
}

uint32_t tmdev_gid_count(const struct ibv_context *context)
{
    return tmdev_is_ethernet(context) ? tmdev_settings()->gids : 1;
}

TMDEV_PUBLIC struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = calloc(TMDEV_DEVICES + 1, sizeof(*list));
    if (NULL == list) {
        return NULL;
    }
    for (uint32_t i = 0; i < tmdev_settings()->devices; i++) {
        list[i] = &the_devices[i];
    }
    if (NULL != count) {
        *count = (int) tmdev_settings()->devices;
    }
    return list;
}

TMDEV_PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

TMDEV_PUBLIC const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

TMDEV_PUBLIC int ibv_get_device_index(struct ibv_device *device)
{
    return (int) (device - the_devices);
}

/* Of a port, counted from 1. */
static uint32_t lid_of(const struct ibv_device *device, uint32_t port)
{
    return 1 + (uint32_t) (device - the_devices) * tmdev_settings()->ports + port - 1;
}

static bool is_port(uint32_t port)
{
    return port >= 1 && port <= tmdev_settings()->ports;
}

static uint64_t node_guid(const struct ibv_device *device)
{
    return 0x02544d0000000000u | lid_of(device, 1);
}

TMDEV_PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(node_guid(device));
}

/* ---- attributes ---------------------------------------------------------- */

static void device_attr(const struct ibv_device *device, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    memcpy(attr->fw_ver, "1.0", 4);
    attr->node_guid = attr->sys_image_guid = htobe64(node_guid(device));
    attr->max_mr_size = UINT64_MAX;
    attr->page_size_cap = 4096;
    attr->vendor_id = 0x544d;
    attr->vendor_part_id = 1;
    attr->hw_ver = 1;
    uint32_t lacks = tmdev_settings()->lacks[index_of(device)];
    attr->max_qp = 0 != (lacks & TMDEV_LACKS_QP) ? 0 : TMDEV_QPS - 1;
    attr->max_qp_wr = TMDEV_MAX_WR;
    attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
                             IBV_DEVICE_PORT_ACTIVE_EVENT;
    attr->max_sge = attr->max_sge_rd = attr->max_srq_sge = TMDEV_MAX_SGE;
    attr->max_cq = 65536;
    attr->max_cqe = TMDEV_MAX_CQE;
    attr->max_mr = (1 << 24) - 1;
    attr->max_pd = 65536;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = TMDEV_MAX_RD_ATOMIC;
    attr->max_res_rd_atom = TMDEV_MAX_RD_ATOMIC * TMDEV_QPS;
    attr->atomic_cap = IBV_ATOMIC_HCA;
    attr->max_srq = 0 != (lacks & TMDEV_LACKS_SRQ) ? 0 : 65536;
    attr->max_srq_wr = 0 != (lacks & TMDEV_LACKS_SRQ) ? 0 : TMDEV_MAX_WR - 1;
    attr->max_pkeys = 1;
    attr->local_ca_ack_delay = 16;
    attr->phys_port_cnt = (uint8_t) tmdev_settings()->ports;
}

TMDEV_PUBLIC int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    device_attr(context->device, attr);
    return 0;
}

int tmdev_query_device_ex(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t size)
{
    const tmdev_settings_t *s = tmdev_settings();
    struct ibv_device_attr_ex all;
    if (NULL != input && 0 != input->comp_mask) {
        return EINVAL;
    }
    memset(&all, 0, sizeof(all));
    device_attr(context->device, &all.orig_attr);
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    all.completion_timestamp_mask = UINT64_MAX;
    all.hca_core_clock = 1000000; /* kHz: time stamps are nanoseconds */
    all.phys_port_cnt_ex = s->ports;
    if (s->tm_tags > 0 && !tmdev_lacks(context, TMDEV_LACKS_SRQ)) {
        all.tm_caps.max_num_tags = s->tm_tags;
        all.tm_caps.max_ops = s->tm_ops;
        all.tm_caps.max_sge = 1;
        if (s->has_tm_rndv) {
            all.tm_caps.flags = IBV_TM_CAP_RC;
            all.tm_caps.max_rndv_hdr_size = TMDEV_RNDV_HDR_MAX;
        }
    }
    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
    return 0;
}

/* The slowest link that is not slower. */
static void set_speed(struct ibv_port_attr *attr, uint32_t gbits)
{
    static const struct {
        uint32_t gbits;
        uint8_t width, speed;
    } links[] = {{10, 1, 4},  {25, 1, 32},  {40, 2, 4},   {50, 1, 64},
                 {56, 2, 16}, {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
    size_t i = 0;
    while (i + 1 < sizeof(links) / sizeof(links[0]) && links[i].gbits < gbits) {
        i++;
    }
    attr->active_width = links[i].width;
    attr->active_speed = links[i].speed;
}

int tmdev_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                     size_t size)
{
    const tmdev_settings_t *s = tmdev_settings();
    tmdev_node_t *node = tmdev_ctx(context)->node;
    if (!is_port(port)) {
        return EINVAL;
    }
    tmdev_node_lock(node);
    bool is_down = node->is_cut;
    tmdev_node_unlock(node);
    bool is_ethernet = tmdev_is_ethernet(context);
    struct ibv_port_attr all = {
        .state = is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = tmdev_mtu_enum(s->mtu),
        .gid_tbl_len = (int) tmdev_gid_count(context),
        .port_cap_flags = is_ethernet ? IBV_PORT_IP_BASED_GIDS : IBV_PORT_SM,
        .max_msg_sz = (uint32_t) s->max_msg,
        .pkey_tbl_len = (uint16_t) s->num_pkeys,
        .lid = (uint16_t) (is_ethernet || s->needs_grh ? 0 : lid_of(context->device, port)),
        .flags = !is_ethernet && s->needs_grh ? IBV_QPF_GRH_REQUIRED : 0,
        .sm_lid = (uint16_t) (is_ethernet ? 0 : 1),
        .max_vl_num = 1,
        .phys_state = is_down ? 2 : 5, /* polling, link up */
        .link_layer = is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND,
    };
    set_speed(&all, s->speed[index_of(context->device)]);
    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
    return 0;
}

#undef ibv_query_port
/* The structure of this old entry point ends before port_cap_flags2. */
TMDEV_PUBLIC int ibv_query_port(struct ibv_context *context, uint8_t port,
                                struct _compat_ibv_port_attr *attr)
{
    return tmdev_query_port(context, port, (struct ibv_port_attr *) attr,
                            offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- GIDs and partition keys --------------------------------------------- */

static void gid_of(uint32_t lid, int index, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    if (index < 2) {
        gid->global.subnet_prefix = htobe64(0xfe80000000000000u);
        gid->global.interface_id = htobe64(0x02544d0000000000u | lid);
        return;
    }
    gid->raw[10] = gid->raw[11] = 0xff; /* IPv4-mapped: 198.18.0.0/15 is for benchmarks */
    uint32_t ip = htonl(0xc6120000u + lid);
    memcpy(&gid->raw[12], &ip, sizeof(ip));
}

/* Those beyond the first four: aliases of the interface. */
static void alias_gid_of(uint32_t lid, int index, union ibv_gid *gid)
{
    gid_of(lid, TMDEV_GIDS - 1, gid);
    uint32_t ip = htonl(0xc6130000u + (uint32_t) (index - TMDEV_GIDS) * ALIASES + lid);
    memcpy(&gid->raw[12], &ip, sizeof(ip));
}

static uint32_t gid_type(const struct ibv_context *context, uint32_t index)
{
    if (!tmdev_is_ethernet(context)) {
        return IBV_GID_TYPE_IB;
    }
    return 0 == index % 2 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
}

/*
 * 0: not known.  Of another name space: an interface that this one has not, or one whose number
 * means another interface here.
 */
static uint32_t gid_interface(uint32_t index)
{
    uint32_t foreign = index < TMDEV_GIDS ? tmdev_settings()->foreign_gids : 0;
    return 0 == foreign ? 0 : 1 == foreign ? 0x7ffffff0 : 1;
}

TMDEV_PUBLIC int ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
                               union ibv_gid *gid)
{
    if (!is_port(port) || index < 0 || (uint32_t) index >= tmdev_gid_count(context)) {
        errno = EINVAL;
        return -1;
    }
    (index < TMDEV_GIDS ? gid_of : alias_gid_of)(lid_of(context->device, port), index, gid);
    uint32_t subnet = tmdev_settings()->subnet[index_of(context->device)];
    if (0 != subnet && !tmdev_is_ethernet(context)) {
        gid->global.subnet_prefix = htobe64(0xfec0000000000000u | subnet);
    }
    return 0;
}

TMDEV_PUBLIC int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                                   struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    struct ibv_gid_entry all = {.gid_index = index, .port_num = port};
    if (0 != flags || !is_port(port)) {
        return EINVAL;
    }
    if (index >= tmdev_gid_count(context)) {
        return EINVAL;
    }
    (void) ibv_query_gid(context, (uint8_t) port, (int) index, &all.gid);
    all.gid_type = gid_type(context, index);
    all.ndev_ifindex = gid_interface(index);
    memset(entry, 0, size);
    memcpy(entry, &all, size < sizeof(all) ? size : sizeof(all));
    return 0;
}

TMDEV_PUBLIC ssize_t _ibv_query_gid_table(struct ibv_context *context,
                                          struct ibv_gid_entry *entries, size_t max, uint32_t flags,
                                          size_t size)
{
    uint32_t count = tmdev_gid_count(context), all = count * tmdev_settings()->ports;
    if (0 != flags || max < all) {
        return -EINVAL;
    }
    for (uint32_t n = 0; n < all; n++) {
        (void) _ibv_query_gid_ex(context, 1 + n / count, n % count,
                                 (void *) ((uint8_t *) entries + n * size), 0, size);
    }
    return (ssize_t) all;
}

/* Private, but ibv_devinfo wants it: RoCE v1 or InfiniBand is 0, RoCE v2 is 1. */
TMDEV_PUBLIC int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
                                    unsigned int *type);
TMDEV_PUBLIC int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
                                    unsigned int *type)
{
    if (!is_port(port) || index >= tmdev_gid_count(context)) {
        errno = EINVAL;
        return -1;
    }
    *type = IBV_GID_TYPE_ROCE_V2 == gid_type(context, index) ? 1 : 0;
    return 0;
}

TMDEV_PUBLIC int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void) context;
    if (!is_port(port) || index < 0 || (uint32_t) index >= tmdev_settings()->num_pkeys) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16((uint16_t) (tmdev_settings()->pkeys[index]));
    return 0;
}

TMDEV_PUBLIC int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    (void) context;
    for (uint32_t i = 0; is_port(port) && i < tmdev_settings()->num_pkeys; i++) {
        if (htobe16(tmdev_settings()->pkeys[i]) == pkey) {
            return (int) i;
        }
    }
    return -1;
}

/* ---- routing ------------------------------------------------------------- */

uint32_t tmdev_own_route(const tmdev_qp_t *qp)
{
    return lid_of(qp->qp.qp_base.context->device, qp->attr.port_num);
}

uint32_t tmdev_route(const struct ibv_context *context, const struct ibv_ah_attr *ah)
{
    const uint8_t *raw = ah->grh.dgid.raw;
    uint32_t lid = (uint32_t) raw[14] << 8 | raw[15];
    if (!tmdev_is_ethernet(context)) {
        return ah->is_global ? lid : ah->dlid;
    }
    union ibv_gid gid;
    if (ALIAS_NET == raw[13]) {
        return lid % ALIASES;
    }
    for (int i = 0; i < TMDEV_GIDS; i++) {
        gid_of(lid, i, &gid);
        if (0 == memcmp(&gid, raw, sizeof(gid))) {
            return lid;
        }
    }
    return 0;
}

static uint32_t plane_of(uint32_t lid)
{
    return lid < TMDEV_PLANE_LIDS ? tmdev_settings()->planes[lid] : 0;
}

static bool is_cut(uint32_t lid)
{
    const _Atomic uint8_t *cut = tmdev_settings()->cut;
    return NULL != cut && lid < TMDEV_PLANE_LIDS && 0 != atomic_load(&cut[lid]);
}

static uint32_t subnet_of(uint32_t lid)
{
    const tmdev_settings_t *s = tmdev_settings();
    uint32_t device = (lid - 1) / s->ports;
    return device < TMDEV_DEVICES ? s->subnet[device] : 0;
}

bool tmdev_is_apart(const tmdev_qp_t *qp)
{
    uint32_t from = tmdev_own_route(qp);
    uint32_t to = tmdev_route(qp->qp.qp_base.context, &qp->attr.ah_attr);
    uint32_t here = plane_of(from), there = plane_of(to);
    if (subnet_of(from) != subnet_of(to) && !qp->attr.ah_attr.is_global) {
        return true; /* no router knows where to send it */
    }
    if (is_cut(from) || is_cut(to)) {
        return true;
    }
    return 0 != here && 0 != there && here != there;
}
