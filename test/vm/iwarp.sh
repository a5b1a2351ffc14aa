#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 quick=no short=minutes cores=2
#
# pml tm over Soft-iWARP: all processes of one machine by verbs, one of which accepts connections
# too late at first; and two machines.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
for program in basic moments random; do
    tm_mpi_program "$program" >/dev/null
done
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi OMPI_MCA_pml_tm_providers=^shm,tcp

# The device gives up a connection that is not accepted within five seconds; rank 0 looks at
# sockets in every sixteenth progress call.
# shellcheck disable=SC2016 # expanded in the machine
vm_run rdma=siw '
    tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_binary mpi/basic)"
    tm_mpirun 2 --mca pml_tm_verbose 1 "$(tm_binary mpi/moments)" 800
'
require 'basic: errors=0'
require 'siw0:1 (iWARP)'
require 'moments: errors=0'
require 'did not accept a connection in time'

# shellcheck disable=SC2016
vm_run rdma=siw hosts=2 '
    tm_mpirun 4 --host vm0:2,vm1:2 "$(tm_binary mpi/random)" "$(tm_seed 31)" 1000 epochs=5,watch=200
'
require 'random: 5 epochs'
require 'random: errors=0'
