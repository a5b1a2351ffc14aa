#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 quick=no short=minutes cores=2
#
# pml tm over Soft-RoCE: all processes of one machine by verbs, and two machines, where those of
# one communicate by shared memory and the others by verbs; there also the benchmarks, whose times
# mean little here. The machines have an RDMA device that works, and what is written there does not
# reach this host but in the shared directory. TM_TEST_DEVICE=rxe test/run has all MPI tests.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
for program in hello basic random; do
    tm_mpi_program "$program" >/dev/null
done
for program in pingpong bandwidth rate; do
    tm_compile_mpi "$TM_SRC/test/bench/$program.c"
done
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi
mark=tm-vm-mark-$$
export mark

# shellcheck disable=SC2016 # expanded in the machine
vm_run '
    [[ $(hostname) == vm0 ]] || fail "the name is $(hostname)"
    ibv_devinfo -d rxe0
    ibv_pingpong_with vm0 -n 200
    tm_mpirun 2 --mca pml_tm_providers ^shm,tcp --mca pml_tm_verbose 10 "$(tm_binary mpi/basic)"
    echo kept >kept
    echo gone >"/var/tmp/$mark"
'
require 'PORT_ACTIVE'
require '200 iters in'
require 'rxe0:1'
require 'basic: errors=0'
[[ $(<vm/kept) == kept ]] || fail 'a file in the shared directory did not come back'
[[ ! -e /var/tmp/$mark ]] || fail 'the machine wrote to this host'

# shellcheck disable=SC2016
vm_run hosts=2 timeout=400 '
    [[ $(on vm1 hostname) == vm1 ]] || fail "vm1 is not vm1"
    status=0
    on vm1 "exit 7" || status=$?
    ((status == 7)) || fail "exit status $status, not 7, from vm1"
    tm_mpirun 2 --host vm0,vm1 "$(tm_binary mpi/hello)"
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/basic)"
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/random)" "$(tm_seed 31)" 1000 epochs=5,watch=200
    for bench in pingpong bandwidth rate; do
        tm_mpirun 2 --host vm0,vm1 "$(tm_binary "bench/$bench")" -b 1 -t 10 -l 8,4096,65536
    done
'
require 'hello: errors=0'
require 'basic: errors=0'
require 'random: 5 epochs'
require 'random: errors=0'
require 'latency_us half 65536'
require 'bandwidth_mbs window 65536'
require 'rate_mmps stream 65536'
