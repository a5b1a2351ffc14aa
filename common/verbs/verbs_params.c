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
 * "device,device:port,...": a name nobody has is no error, as hosts differ; what no device could
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
        .name = "verbs_if_include",
        .type = FAB_PARAM_STRING,
        .level = 2,
        .offset = offsetof(fab_params_t, verbs_if_include),
        .is_valid = verbs_is_port_list,
        .form = verbs_port_list,
        .empty_means = "all",
        .help = "RDMA devices, or ports of them, that may be used. The one nearest the process is "
                "used. Not together with verbs_if_exclude.",
    },
    {
        .name = "verbs_if_exclude",
        .type = FAB_PARAM_STRING,
        .level = 2,
        .offset = offsetof(fab_params_t, verbs_if_exclude),
        .is_valid = verbs_is_port_list,
        .form = verbs_port_list,
        .empty_means = "none",
        .help = "RDMA devices, or ports of them, that must not be used. Not together with "
                "verbs_if_include.",
    },
    {
        .name = "verbs_gid_index",
        .type = FAB_PARAM_INT,
        .level = 4,
        .offset = offsetof(fab_params_t, verbs_gid_index),
        .number = -1,
        .min = 0,
        .max = 255,
        .special = -1,
        .special_means = "RoCE v2 before v1, IPv4 before IPv6, addresses that are routed before "
                         "link-local ones",
        .help = "Index in the GID table of the port to be used with RoCE.",
    },
    {
        .name = "verbs_eager_limit",
        .type = FAB_PARAM_UINT,
        .level = 4,
        .offset = offsetof(fab_params_t, verbs_eager_limit),
        .number = 8192,
        .min = FAB_VERBS_EAGER_MIN,
        .max = FAB_VERBS_EAGER_MAX,
        .unit = "bytes",
        .help = "Longest message that verbs sends as it is; longer ones are announced and read by "
                "the receiver. Also the size of every send and receive buffer.",
    },
    {
        .name = "verbs_window",
        .type = FAB_PARAM_UINT,
        .level = 5,
        .offset = offsetof(fab_params_t, verbs_window),
        .number = 64,
        .min = 4,
        .max = FAB_VERBS_WINDOW_MAX,
        .unit = "messages",
        .help = "How many messages one peer may have under way to this process by verbs, before it "
                "waits for credits. With each connection come as many receive buffers, as far as "
                "verbs_buffers allows.",
    },
    {
        .name = "verbs_buffers",
        .type = FAB_PARAM_UINT,
        .level = 5,
        .offset = offsetof(fab_params_t, verbs_buffers),
        .number = 4096,
        .min = 128,
        .max = 1 << 20,
        .help = "Receive buffers of verbs in this process at most, and send buffers at most, each "
                "of verbs_eager_limit bytes and locked in memory; they are made as connections and "
                "messages need them.",
    },
    {
        .name = "verbs_timeout",
        .type = FAB_PARAM_UINT,
        .level = 6,
        .offset = offsetof(fab_params_t, verbs_timeout),
        .number = 17,
        .min = 8,
        .max = 31,
        .help = "Time after which an RDMA device sends again what was not acknowledged, as the "
                "exponent n of 4.096 us * 2^n; after 7 times the peer has failed. Larger on "
                "networks that lose much or reroute slowly. With 17 it is 0.5 s, and a lost peer "
                "is noticed after 4 to 16 s.",
    },
    {
        .name = "verbs_tm",
        .type = FAB_PARAM_STRING,
        .level = 4,
        .offset = offsetof(fab_params_t, verbs_tm),
        .string = "auto",
        .words = {"auto", "none"},
        .help = "Whether posted receives are listed on RDMA devices that match tags (ConnectX-5 "
                "and later, InfiniBand). auto: where the device can; none: messages are always "
                "matched by the CPU.",
    },
    {
        .name = "verbs_tm_tags",
        .type = FAB_PARAM_UINT,
        .level = 5,
        .offset = offsetof(fab_params_t, verbs_tm_tags),
        .number = 1024,
        .min = 1,
        .max = 65536,
        .unit = "receives",
        .help = "With verbs_tm, length of the device's list at most, if it can hold as many. Up to "
                "as many buffers of verbs_eager_limit bytes are locked in memory for them.",
    },
    {
        .name = "verbs_tm_min",
        .type = FAB_PARAM_UINT,
        .level = 5,
        .offset = offsetof(fab_params_t, verbs_tm_min),
        .number = 0,
        .min = 0,
        .max = UINT_MAX,
        .unit = "bytes",
        .help = "With verbs_tm, receives with a shorter buffer are matched by the CPU, which costs "
                "less than to list them where a program seldom computes while it waits. They keep "
                "later receives that fit the same messages off the list, too.",
    },
};

const fab_param_table_t fab_verbs_params = FAB_PARAM_TABLE(verbs_rows);
