#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 cores=0 needs=ip
#
# Each of two hosts is in many networks of its own, and both are in one, the last: that one is
# published, too, or the job says what was left out.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
tcp=OMPI_MCA_pml_tm_providers=self,tcp

# networks FIRST LAST: further ones, with two addresses each, before the one that both are in.
networks()
{
    local host i
    for host in 1 2; do
        for ((i = $1; i <= $2; i++)); do
            echo "link add rail$i type veth peer name end$i"
            echo "addr add 10.$host.$i.2/24 dev rail$i"
            echo "addr add 10.$host.$i.3/24 dev rail$i"
            echo "link set rail$i up"
            echo "link set end$i up"
        done | hosts_in "$host" ip -batch -
        ip link del "to$host"
        ip link add "to$host" type veth peer name eth0 netns "$(cat "$TM_WORK/tmhost$host.pid")"
        ip link set "to$host" master hosts0 up
        hosts_in "$host" ip addr add "10.88.0.$host/24" dev eth0
        hosts_in "$host" ip link set eth0 up
    done
}

networks 1 9
hosts_check 1 "$tcp" basic

networks 10 16
hosts_run 1 "$tcp" OMPI_MCA_pml_tm_tcp_timeout=5 basic &&
    fail 'connected, though the common network was left out'
require 'further addresses of its host were not published'
hosts_check 1 "$tcp" OMPI_MCA_pml_tm_tcp_if_include=10.88.0.0/16 basic
