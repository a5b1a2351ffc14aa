#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 quick=no needs=ip cores=2 short=hang
#
# tm_info --serve on one host and --ping on another: what goes, by which address, and what is said
# where nobody listens, nothing comes back, a network is not there, or somebody else connects.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
tm_info=$TM_PREFIX/bin/tm_info

# serve [NAME=VALUE...] [ARGUMENT...]: on host 2, until served().
serve()
{
    local environment=()
    while [[ ${1-} == *=* ]]; do
        environment+=("$1")
        shift
    done
    : >served
    # shellcheck disable=SC2016 # a process id of that host
    hosts_in 2 sh -c 'echo $$ >"$0" && exec env "$@"' "$PWD/server" "${environment[@]}" \
        "$tm_info" --serve "$@" >served 2>&1 &
    until grep -q '^Waiting' served; do
        [[ -n $(jobs -pr) ]] || fail "--serve: $(cat served)"
        sleep 0.05
    done
}
served()
{
    hosts_in 2 kill "$(cat server)"
    wait "$!" || true
    cat served
}

# ping STATUS ARGUMENT...: what it says is then in the file said.
ping()
{
    local rc=0 want=$1
    shift
    hosts_in 1 "$tm_info" --ping "$@" >said 2>&1 || rc=$?
    cat said
    ((rc == want)) || fail "tm_info --ping $* ended with $rc, not $want"
}

serve
ping 0 tmhost2
require 'tmhost2 answers at 10.88.0.2, port 24500' said
grep -qE '^tcp +[0-9.]+ us .*by (10\.88\.0\.2|fd88::2)' said || fail "tcp is not used"
grep -qE '^verbs +no: ' said || fail "nothing is said of verbs"
forbid '^shm' said
ping 0 fd88::2
require 'fd88::2 answers at fd88::2' said

# Others connect: say nothing, say something else, go.
hosts_in 1 bash -c 'exec 3<>/dev/tcp/10.88.0.2/24500; echo GET / >&3; sleep 0.1'
hosts_in 1 bash -c 'exec 3<>/dev/tcp/10.88.0.2/24500; head -c 100000 /dev/urandom >&3' \
    2>/dev/null || true
# What looks like tm_info and is not, with an address of 4 GiB.
{
    printf 'tm_info\0\1\0\0\0\377\377\377\377'
    head -c 2672 /dev/zero
} >strange
# shellcheck disable=SC2016 # $0 is for that bash
hosts_in 1 bash -c 'exec 3<>/dev/tcp/10.88.0.2/24500; cat "$0" >&3; timeout 30 head -c 2688 <&3' \
    "$PWD/strange" | tr -d '\0' | grep -a 'or one of another release' >/dev/null ||
    fail "a question that is none is not refused"
ping 0 tmhost2
require '10.88.0.1 asks' served

# Nobody listens; no such host; the port is taken.
ping 1 tmhost2 --port 24501
require 'Connection refused: nobody listens there: start tm_info --serve on that host' said
ping 1 no-such-host.invalid
require 'no-such-host.invalid: ' said
! hosts_in 2 "$tm_info" --serve >said 2>&1 || fail "two of them listen at one port"
require 'cannot listen at port 24500: Address already in use; --port names another one' said
served

# The other side has no network for TCP: why is said by the one who asks.
serve OMPI_MCA_pml_tm_tcp_if_include=nosuch0 --port 24502
ping 1 tmhost2 --port 24502
require 'tcp    no: on tmhost2: No IP address of this host is left' said
require 'A firewall must' said
served

# Its network for TCP is another one, of which nothing comes back.
hosts_in 2 ip link add far0 type veth peer name far1
hosts_in 2 ip addr add 172.30.0.2/24 dev far0
hosts_in 2 ip link set far0 up
hosts_in 2 ip link set far1 up
hosts_in 1 ip route add 172.30.0.0/24 via 10.88.0.254
serve OMPI_MCA_pml_tm_tcp_if_include=far0
ping 1 tmhost2
grep -qE '^tcp +no: (no answer for 10 s|.*172\.30\.0\.2)' said || fail "the network is not named"
served

# Nothing comes back at all, as through a firewall.
serve
hosts_in 2 ip route add blackhole 10.88.0.1/32
ping 1 10.88.0.2
require '10.88.0.2, port 24500: no answer: the host is down, or a firewall drops what comes' said
