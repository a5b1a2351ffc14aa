#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 quick=no
#
# pml tm over Soft-iWARP: all processes of one machine by verbs, and two machines.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
for program in hello basic random; do
    tm_mpi_program "$program" >/dev/null
done
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi

# shellcheck disable=SC2016 # expanded in the machine
vm_run rdma=siw '
    tm_mpirun 2 --mca pml_tm_providers ^shm --mca pml_tm_verbose 10 "$(tm_binary mpi/basic)"
'
require 'basic: errors=0'
require 'siw0:1 (iWARP)'

# shellcheck disable=SC2016
vm_run rdma=siw hosts=2 timeout=400 '
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/basic)"
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/random)" 31 8
'
require 'basic: errors=0'
require 'random: errors=0'
