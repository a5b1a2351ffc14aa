#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 needs=ip,ss short=hosts
#
# Networks that give trouble: addresses that lead nowhere, ranges of ports, sockets that do little
# at a time, a link that is down for a while, garbage at the ports, a host that dies.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
# One-sided MPI is not what is tested, and its ports do not like garbage.
export OMPI_MCA_btl=self,sm
[[ $TM_OMPI_SERIES != 4.1 ]] || export OMPI_MCA_btl=self,vader OMPI_MCA_osc=pt2pt

# refused TEXT NP NAME=VALUE... PROGRAM: the job ends before long, and says so.
refused()
{
    local text=$1
    shift
    if hosts_run "$@"; then
        fail "it should not run: $*"
    fi
    require "$text"
}

# ---- addresses ----

# bridge HOST NAME ADDRESS: as a container runtime makes it, with one container.
bridge()
{
    local i
    hosts_in "$1" ip link add "$2" type bridge
    hosts_in "$1" ip link add "$2-in" type veth peer name "$2-out"
    hosts_in "$1" ip link set "$2-in" master "$2" up
    hosts_in "$1" ip link set "$2-out" up
    hosts_in "$1" ip addr add "$3" dev "$2"
    hosts_in "$1" ip link set "$2" up
    for ((i = 0; i < 100; i++)); do # the kernel says a little later that it has a carrier
        ! hosts_in "$1" ip link show "$2" | grep 'state UP' >/dev/null || return 0
        sleep 0.1
    done
    fail "$2 of host $1 has no carrier"
}

for i in 1 2; do
    bridge "$i" docker0 172.17.0.1/16 # the same on each host
    bridge "$i" lxd "172.18.0.$i/16"  # another address on each, by which none is reached
    hosts_in "$i" ip link add idle0 type veth peer name idle1 # which is down: no carrier
    hosts_in "$i" ip addr add "172.19.0.$i/16" dev idle0
    hosts_in "$i" ip link set idle0 up
    hosts_in "$i" ip addr add "169.254.7.$i/16" dev eth0
done
hosts_check 1 OMPI_MCA_pml_tm_verbose=20 hello
order='listens at 10\.88\.[^ ]* \[fd88[^ ]* 172\.1[78]\.[^ ]* 172\.1[78]\.[^ ]* 169\.254\.'
grep -aqE "$order" "$TM_WORK/out" "$TM_WORK/err" || fail "the order of addresses"
refused 'No connection to it could be made over TCP' 1 OMPI_MCA_pml_tm_tcp_if_include=idle0 \
    OMPI_MCA_pml_tm_tcp_timeout=2 hello
hosts_check 1 OMPI_MCA_pml_tm_tcp_if_include=eth0 hello
hosts_check 1 OMPI_MCA_pml_tm_tcp_if_include=10.88.0.0/16 hello
hosts_check 1 OMPI_MCA_pml_tm_tcp_if_exclude=10.88.0.0/24,lo hello # by IPv6
hosts_check 1 OMPI_MCA_pml_tm_tcp_if_include=fd88::/16 hello
refused 'None of its IP addresses can be reached' 1 OMPI_MCA_pml_tm_tcp_if_include=docker0 hello
refused 'No IP address of this host is left' 1 OMPI_MCA_pml_tm_tcp_if_include=nosuch0 hello
refused 'allowed: interfaces, or networks' 1 OMPI_MCA_pml_tm_tcp_if_include=10.1.0.0/99 hello

hosts_in 1 ip route add unreachable 10.88.0.2/32 # the next address, by IPv6, is not
hosts_check 1 hello
hosts_in 1 ip route del unreachable 10.88.0.2/32

hosts_check 2 OMPI_MCA_pml_tm_tcp_ports=20000-20001 hello
refused 'The range must have a port for each process' 2 OMPI_MCA_pml_tm_tcp_ports=20000 hello

# ---- sockets that do little at a time ----

"${TM_CC:-cc}" -shared -fPIC -O2 -Wall -Wextra -Werror -o shim.so "$TM_SRC/test/hosts/shim.c" -ldl
for providers in tcp ''; do
    hosts_check 2 "LD_PRELOAD=$PWD/shim.so" "SHIM_SEED=$RANDOM" \
        "OMPI_MCA_pml_tm_providers=$providers" random "$RANDOM" "$(tm_seconds 5)"
done

# ---- a link that is down for a while ----

{
    sleep 3
    ip link set to2 down
    sleep 2
    ip link set to2 up
} &
hosts_check 2 OMPI_MCA_pml_tm_providers=tcp random "$RANDOM" 7
wait $!

# ... while the job starts
ip link add hosts1 type bridge
ip link set hosts1 up
for i in 1 2; do
    ip link add "far$i" type veth peer name eth1 netns "$(cat "tmhost$i.pid")"
    hosts_in "$i" ip addr add "10.89.0.$i/24" dev eth1
    hosts_in "$i" ip link set eth1 up
    ip link set "far$i" master hosts1
done
ip link set far1 up
{
    until [[ -n $(hosts_in 2 ss -Hltn 'src 10.89.0.2') ]]; do
        sleep 0.05
    done
    sleep 1
    ip link set far2 up
} &
hosts_check 2 OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_pml_tm_tcp_if_include=eth1 hello
wait $!

# ... and then both sides compute: the kernel must not end what goes on.
await()
{
    until [[ -e $1 ]]; do
        sleep 0.05
    done
}

{
    await cut
    ip link set to2 down
    touch is_cut
    await mend
    ip link set to2 up
    touch is_mended
} &
hosts_check 1 OMPI_MCA_pml_tm_tcp_timeout=2 blip
wait $!

# ---- garbage ----

# The ports that the ranks on a host listen at.
ports()
{
    hosts_in "$1" ss -Hltnp | grep '"random"' | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -u
}

throw()
{
    local i port
    for i in 1 2; do
        for port in $(ports "$i"); do
            head -c $((RANDOM % 500)) /dev/urandom >"/dev/tcp/10.88.0.$i/$port" || true
        done
    done
} 2>/dev/null

{
    sleep 2
    while [[ ! -e enough ]]; do
        throw
    done
} &
hosts_check 2 "OMPI_MCA_pml_tm_verbose=1" random "$RANDOM" 5
require 'did not prove that it belongs to this job'
touch enough
wait $!
