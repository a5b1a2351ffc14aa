/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of tcp.
 */
#include "fabric/fab_params.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fab.h"
#include "sock/sock_ip.h"
#include "tcp/tcp_wire.h"

bool fab_params_ports(const char *range, uint16_t *first, uint16_t *last)
{
    unsigned from = 0, to = 0;
    int used = 0;

    if (NULL != range && '\0' != *range) {
        int n = sscanf(range, "%5u%n-%5u%n", &from, &used, &to, &used);
        to = 1 == n ? from : to;
        if (n < 1 || '\0' != range[used] || from < 1 || to < from || to > UINT16_MAX ||
            strspn(range, "0123456789-") != strlen(range)) {
            return false;
        }
    }
    *first = (uint16_t) from;
    *last = (uint16_t) to;
    return true;
}

static bool tcp_is_port_range(const char *range)
{
    uint16_t first, last;

    return fab_params_ports(range, &first, &last);
}

static const char tcp_interface_list[] =
    "interfaces, or networks as address/bits, with commas between and no spaces, e.g. "
    "eth0,10.1.0.0/16";

static const fab_param_t tcp_rows[] = {
    {
        FAB_PARAM(fab_params_t, tcp_if_include, STRING, 1),
        .is_valid = fab_sock_list_is_sound,
        .form = tcp_interface_list,
        .empty_means = "all",
        .help = "Network interfaces, or networks, whose IP addresses tcp may use, and verbs to set "
                "up connections. Connections of tcp to other addresses are refused.",
    },
    {
        FAB_PARAM(fab_params_t, tcp_if_exclude, STRING, 1),
        .is_valid = fab_sock_list_is_sound,
        .form = tcp_interface_list,
        .empty_means = "none",
        .help = "Network interfaces, or networks, that tcp must not use, even if tcp_if_include "
                "names them.",
    },
    {
        FAB_PARAM(fab_params_t, tcp_ports, STRING, 3),
        .is_valid = tcp_is_port_range,
        .form = "a port, or a range of ports as first-last, from 1 to 65535",
        .empty_means = "any free port",
        .help = "TCP ports for listening, for hosts behind firewalls. Each process takes one, and "
                "another one where it has an RDMA device, whose connections are set up over TCP: "
                "give a range with at least that many ports per host.",
    },
    {
        FAB_PARAM(fab_params_t, tcp_timeout, UINT, 4),
        FAB_PARAM_NUMBER(60, 1, 86400),
        .unit = "seconds",
        .help = "Time after which a host that does not answer over TCP counts as failed, and a "
                "process that cannot be connected to. Shorter losses of the network are repaired, "
                "as long as the kernel tries (net.ipv4.tcp_retries2, by default 15 minutes).",
    },
};

const fab_param_table_t fab_tcp_params = FAB_PARAM_TABLE(tcp_rows);
