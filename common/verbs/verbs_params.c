/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of verbs.  They exist where verbs is not built, too: files of parameters are
 * shared between hosts.
 */
#include "fabric/fab_params.h"

#include <limits.h>
#include <string.h>

#include "verbs/verbs_wire.h"

/*
 * "device,device:port,...": an unknown name is no error, as hosts differ; what no device could
 * have is.
 */
static bool verbs_is_port_list(const char *list)
{
    while ('\0' != *list) {
        size_t name = strcspn(list, ":, ");
        size_t port = ':' == list[name] ? strspn(list + name + 1, "0123456789") : 0;
        size_t len = name + (':' == list[name]) + port;
        bool has_port = 1 <= port && port <= 3 && '0' != list[name + 1];
        if (0 == name || (':' == list[name] && !has_port) ||
            (',' != list[len] && '\0' != list[len])) {
            return false;
        }
        list += len + (',' == list[len]);
    }
    return true;
}

static const char verbs_port_list[] =
    "devices, or ports as device:port, with commas between and no spaces, e.g. mlx5_0,mlx5_1:1";

static const fab_param_t verbs_rows[] = {
    {
        FAB_PARAM(fab_params_t, verbs_if_include, STRING, 1),
        .is_valid = verbs_is_port_list,
        .form = verbs_port_list,
        .empty_means = "all",
        .help = "RDMA devices, or ports of them, that may be used. A process uses the one nearest "
                "to it. Not together with verbs_if_exclude.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_if_exclude, STRING, 1),
        .is_valid = verbs_is_port_list,
        .form = verbs_port_list,
        .empty_means = "none",
        .help = "RDMA devices, or ports of them, that must not be used. Not together with "
                "verbs_if_include.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_networks, STRING, 3),
        .is_valid = fab_sock_list_is_sound,
        .form = "interfaces, or networks as address/bits, with commas between and no spaces, e.g. "
                "eth0,10.1.0.0/16",
        .empty_means = "all",
        .help = "With RoCE and iWARP, network interfaces, or networks, whose addresses verbs may "
                "use: the same on all hosts, whatever the order of their GIDs. A port that has "
                "none of them is not used.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_gid_index, INT, 4),
        FAB_PARAM_NUMBER(-1, 0, 255),
        .special = -1,
        .special_means =
            "RoCE v2 before v1, IPv4 before IPv6, routed addresses before link-local ones",
        .help = "With RoCE, index of the GID to use in the port's GID table.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_buffers, UINT, 5),
        FAB_PARAM_NUMBER(4096, 128, 1 << 20),
        .help = "Limit for the receive buffers of verbs in this process, and for its send buffers. "
                "Each has 8192 bytes, or eager_limit if that is more, and is locked in memory. "
                "They are allocated as connections and messages need them; when they are used up, "
                "further connections get smaller windows.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_max_connections, UINT, 5),
        FAB_PARAM_NUMBER(0, 2, 1 << 20),
        .special = 0,
        .special_means = "one for each peer that messages went to or came from",
        .help = "Limit for connections of verbs in this process. Before it makes another one, it "
                "gives up one that is idle, and makes that again when it is needed. If all are "
                "busy there are more for a while. Each takes memory of the process and of the "
                "device.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_timeout, UINT, 6),
        FAB_PARAM_NUMBER(17, 8, 31),
        .help = "Time after which an RDMA device retransmits unacknowledged messages, as the "
                "exponent n of 4.096 us * 2^n. After 6 retries the peer has failed. Raise it on "
                "networks that lose many packets or reroute slowly. 17 means 0.5 s, and a lost "
                "peer is noticed after 4 to 16 s.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_traffic_class, INT, 4),
        FAB_PARAM_NUMBER(-1, 0, 255),
        .special = -1,
        .special_means = "with RoCE v2 what /sys/class/infiniband/DEVICE/tc/PORT/traffic_class "
                         "says, else 106 (DSCP 26, ECN); with InfiniBand 0",
        .help = "Traffic class in the headers of packets: DSCP * 4 + ECN. With RoCE, packets must "
                "be in a class for which the network drops nothing: each lost one costs up to "
                "verbs_timeout.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_sl, UINT, 5),
        FAB_PARAM_NUMBER(0, 0, 15),
        .help = "With InfiniBand, service level of packets, by which the subnet manager chooses "
                "lanes and paths.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_pkey, UINT, 4),
        FAB_PARAM_NUMBER(0, 1, 65535),
        .special = 0,
        .special_means = "the first one of which the port is a full member",
        .help = "With InfiniBand, partition to use: its key, with or without the bit for full "
                "membership. A port that is not in it is not used.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_mtu, UINT, 6),
        FAB_PARAM_NUMBER(0, 256, 4096),
        .special = 0,
        .special_means = "that of the port",
        .unit = "bytes",
        .help = "Longest payload of a packet, for networks that carry less than the ports allow.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_tm, STRING, 4),
        .string = "auto",
        .words = {"auto", "always", "none"},
        .help = "Whether posted receives are listed on RDMA devices that match tags (ConnectX-5 "
                "and later, InfiniBand). auto: if the device can, and has shown it in a self-test "
                "when it is opened; always: if it can, without that test; none: the CPU always "
                "matches.",
    },
    {
        FAB_PARAM(fab_params_t, verbs_tm_min, UINT, 5),
        FAB_PARAM_NUMBER(0, 0, UINT_MAX),
        .unit = "bytes",
        .help = "With verbs_tm, receives with a shorter buffer are matched by the CPU, not by the "
                "device. That costs less than listing them if the program seldom computes while it "
                "waits. So are later receives that could match the same messages.",
    },
};

const fab_param_table_t fab_verbs_params = FAB_PARAM_TABLE(verbs_rows);
