#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=400 quick=no short=minutes cores=2 needs=tc
#
# Two machines whose network delays packets, loses some, and brings some before others: messages by
# TCP.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"
tm_mpi_program random >/dev/null
export seed=$RANDOM

# shellcheck disable=SC2016 # expanded in the machine
vm_run hosts=2 '
    PATH+=:/usr/sbin:/sbin
    for host in vm0 vm1; do
        on $host "PATH=$PATH; tc qdisc replace dev eth0 root netem delay 3ms 2ms loss 1% reorder 10%"
    done
    tm_mpirun 2 --host vm0,vm1 --mca pml_tm_providers tcp "$(tm_binary mpi/random)" "$seed" 5
    tc -s qdisc show dev eth0
'
require 'errors=0'
# shellcheck disable=SC2031 # it is what it was
grep -Eq 'dropped [1-9]' "$TM_WORK/out" || fail 'the network has lost nothing'
