#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 quick=no short=minutes cores=2
#
# Two machines with two networks between them, by Soft-RoCE, and a process on each: long messages
# are read by both networks, and what one has not brought when it goes down the other brings.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
tm_mpi_program rails >/dev/null
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi

# shellcheck disable=SC2016 # expanded in the machine
vm_run hosts=2 links=2 timeout=400 '
    : >"$TM_WORK/out"
    {
        for ((i = 0; i < 2000; i++)); do
            ! grep -q "come by several ports" "$TM_WORK/out" || break
            sleep 0.1
        done
        sleep 2
        on vm1 ip link set eth1 down
    } &
    tm_mpirun 2 --host vm0:1,vm1:1 --mca pml_tm_verbose 1 --mca oob_tcp_if_include eth0 \
        "$(tm_binary mpi/rails)" fails
'
require 'rails: errors=0'
require 'read no more shares of long messages'
