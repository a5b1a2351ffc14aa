#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 quick=no short=vm cores=2
#
# Two machines with two networks between them, by Soft-RoCE: one network goes down in the middle of
# messages and READs, and the processes that use it go on by the other.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
tm_mpi_program random >/dev/null
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi

# shellcheck disable=SC2016 # expanded in the machine
vm_run hosts=2 links=2 timeout=400 '
    : >"$TM_WORK/out"
    {
        for ((i = 0; i < 2000; i++)); do
            ! grep -q seed "$TM_WORK/out" || break # it has begun
            sleep 0.1
        done
        sleep 5
        on vm1 ip link set eth1 down
    } &
    tm_mpirun 4 --host vm0:2,vm1:2 --mca pml_tm_verbose 1 --mca oob_tcp_if_include eth0 \
        "$(tm_binary mpi/random)" "$(tm_seed 33)" 1000 epochs=8,watch=200
'
require 'random: errors=0'
require 'is tried by rxe'
