#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=ip,fi_info,libfabric-1.15 cores=2 short=ofi
#
# MPI programs on two hosts that communicate by libfabric, over its providers in software (in a
# short run over every second one, by turns); then where its device leads nowhere.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
mapfile -t offers < <(ofi_offers tcp net 'tcp;ofi_rxm' sockets)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"

# check PROVIDER.  The device is eth0: with several addresses of a host the first would be
# taken.
check()
{
    settings=("OMPI_MCA_pml_tm_ofi_provider=$1" OMPI_MCA_pml_tm_ofi_if_include=eth0
        FI_OFI_RXM_BUFFER_SIZE=1024)
    hosts_check 1 "${settings[@]}" counters ofi_msgs_sent
    hosts_check 1 "${settings[@]}" OMPI_MCA_pml_tm_providers=ofi ordering
    hosts_check 2 "${settings[@]}" OMPI_MCA_pml_tm_providers=ofi random "$(tm_seed 71)" \
        "$(tm_seconds 5)"
    hosts_check 2 "${settings[@]}" random "$(tm_seed 72)" "$(tm_seconds 5)"
}

# A peer on another host whose libfabric does not take a connection, because it computes, is reached
# by tcp: it may have got the request for a session meanwhile, and what waits was exposed.
asleep()
{
    settings=("OMPI_MCA_pml_tm_ofi_provider=$1" OMPI_MCA_pml_tm_ofi_if_include=eth0
        OMPI_MCA_pml_tm_ofi_timeout=2)
    hosts_check 1 "${settings[@]}" asleep 8 1
}

for provider in "${offers[@]}"; do
    ! is_turn 2 || check "$provider"
done

asleep "${offers[0]}"

# A device that leads nowhere: the peer is reached by tcp, by another one.
for i in 1 2; do
    hosts_in $i ip link add ofi0 type veth peer name ofi1
    hosts_in $i ip addr add "10.99.$i.1/24" dev ofi0
    hosts_in $i ip link set ofi0 up
    hosts_in $i ip link set ofi1 up
done
settings=("OMPI_MCA_pml_tm_ofi_provider=${offers[0]}" OMPI_MCA_pml_tm_ofi_if_include=ofi0
    OMPI_MCA_pml_tm_ofi_timeout=2 OMPI_MCA_pml_tm_verbose=1)
hosts_check 1 "${settings[@]}" basic
require 'is reached by tcp, not by ofi'
