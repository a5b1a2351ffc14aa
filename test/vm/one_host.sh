#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=vm cores=2
#
# One machine: it has an RDMA device that works, what is written there does not reach this host but
# in the shared directory, and MPI programs run over pml tm; the command's exit status and a
# machine's end are reported.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
tm_mpi_program hello >/dev/null

mark=tm-vm-mark-$$
export mark
# shellcheck disable=SC2016 # expanded in the machine
vm_run '
    [[ $(hostname) == vm0 ]] || fail "the name is $(hostname)"
    ibv_devinfo -d rxe0
    ibv_pingpong_with vm0 -n 200
    tm_mpirun 2 "$(tm_binary mpi/hello)"
    echo kept >kept
    echo gone >"/var/tmp/$mark"
'
require 'PORT_ACTIVE'
require '200 iters in'
require 'hello: errors=0'
[[ $(<vm/kept) == kept ]] || fail 'a file in the shared directory did not come back'
[[ ! -e /var/tmp/$mark ]] || fail 'the machine wrote to this host'
