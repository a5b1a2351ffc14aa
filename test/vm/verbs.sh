#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 quick=no
#
# pml tm over Soft-RoCE: all processes of one machine by verbs, and two machines, where those of one talk by shared memory and the
# others by verbs.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
for program in hello basic random; do
    tm_mpi_program "$program" >/dev/null
done
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi

# shellcheck disable=SC2016 # expanded in the machine
vm_run '
    tm_mpirun 2 --mca pml_tm_providers ^shm --mca pml_tm_verbose 10 "$(tm_binary mpi/basic)"
'
require 'basic: errors=0'
require 'rxe0'

# shellcheck disable=SC2016
vm_run hosts=2 timeout=400 '
    tm_mpirun 2 --host vm0,vm1 "$(tm_binary mpi/hello)"
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/basic)"
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/random)" 31 1000 epochs=5,watch=200
'
require 'hello: errors=0'
require 'basic: errors=0'
require 'random: 5 epochs'
require 'random: errors=0'
