#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 needs=ip cores=2 short=hosts
#
# Two hosts with several links between them: long messages go by all of them.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
tcp=OMPI_MCA_pml_tm_providers=tcp

# A second pair of interfaces joins the two directly.
ip link add wire1 type veth peer name wire2
for i in 1 2; do
    ip link set "wire$i" netns "$(cat "tmhost$i.pid")"
    hosts_in "$i" ip link set "wire$i" name eth1
    hosts_in "$i" ip addr add "10.89.0.$i/24" dev eth1
    hosts_in "$i" ip link set eth1 up
done

# sent INTERFACE: bytes that the first host has sent by it.
sent()
{
    # shellcheck disable=SC2016 # awk's
    hosts_in 1 awk -v "name=$1:" '$1 == name { print $10 }' /proc/net/dev
}

# carries LEAST MOST COMMAND...: the command succeeds, and the second link carries so many bytes
# meanwhile.
carries()
{
    local least=$1 most=$2 before0 before1 eth0 eth1
    shift 2
    before0=$(sent eth0) before1=$(sent eth1)
    "$@"
    eth0=$(($(sent eth0) - before0)) eth1=$(($(sent eth1) - before1))
    echo "sent: $eth0 bytes by eth0, $eth1 by eth1"
    ((eth1 >= least && eth1 <= most)) || fail "$eth1 bytes by eth1, not $least to $most"
    ((eth0 >= 1000000)) || fail "only $eth0 bytes by eth0"
}
# not so much that a link may have turned out to be slow
much=1000000 any=$((1 << 60))

carries $much $any hosts_check 1 tcp_links $much
require 'links made 2, not made 0'
carries 0 100000 hosts_check 1 PML_TM_TEST_tcp_links=1 tcp_links 0
carries 0 100000 hosts_check 1 OMPI_MCA_pml_tm_tcp_if_exclude=eth1 tcp_links 0
hosts_check 2 "$tcp" random "$RANDOM" "$(tm_seconds 5)"

# Writes and reads of a few bytes.
"${TM_CC:-cc}" -shared -fPIC -O2 -Wall -Wextra -Werror -o shim.so "$TM_SRC/test/hosts/shim.c" -ldl
carries $much $any hosts_check 1 "LD_PRELOAD=$PWD/shim.so" "SHIM_SEED=$RANDOM" tcp_links $much

# A third link that leads nowhere is not used, and one that is down for a while goes on.
hosts_in 1 ip link add empty0 type bridge
hosts_in 1 ip addr add 10.90.0.1/24 dev empty0
hosts_in 1 ip link set empty0 up
hosts_in 2 ip addr add 10.90.0.2/24 dev eth1
carries $much $any hosts_check 1 tcp_links $much

# begun COMMAND...: once the next program has begun.
begun()
{
    until [[ -e begun ]]; do
        sleep 0.05
    done
    "$@"
}

blip()
{
    hosts_in 2 ip link set eth1 down
    sleep 2
    hosts_in 2 ip link set eth1 up
}

rm begun
begun blip &
hosts_check 1 tcp_links $((64 * much))
wait $!

# One that is lost for good: the others go on, with all that it carried.
rm begun
begun hosts_in 2 ip link set eth1 down &
hosts_check 1 OMPI_MCA_pml_tm_tcp_timeout=4 tcp_links 1 lost
wait $!
