#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=vm cores=2
#
# Two machines with a network between them: RDMA from one to the other, and an MPI job across both.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
tm_mpi_program hello >/dev/null

# shellcheck disable=SC2016 # expanded in the machine
vm_run hosts=2 '
    [[ $(on vm1 hostname) == vm1 ]] || fail "vm1 is not vm1"
    status=0
    on vm1 "exit 7" || status=$?
    ((status == 7)) || fail "exit status $status, not 7, from vm1"
    ibv_pingpong_with vm1 -n 200
    TM_TEST_PML=ob1
    tm_mpirun 2 --host vm0,vm1 bash -c "echo rank \$OMPI_COMM_WORLD_RANK on \$(hostname)"
    tm_mpirun 2 --host vm0,vm1 --mca btl self,tcp "$(tm_binary mpi/hello)"
'
require '200 iters in'
require 'rank 0 on vm0'
require 'rank 1 on vm1'
require 'hello: errors=0'
