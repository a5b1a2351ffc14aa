#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 ompi=4.1
#
# A process gets no more memory (RLIMIT_AS): with pml tm the job is right all the same, or ends with
# a message; no crash, no hang.  So are puts, gets and atomic operations by btl fabric.  Messages of
# ob1 are left out: if it gets no memory for a message that it has no receive for, it crashes,
# whatever the BTL.
. "$TM_SRC/test/lib/script.sh"

# starved "ARGUMENT..." OPTION...: the program with these arguments; it may end the job.
starved()
{
    local rc=0 arguments
    read -r -a arguments <<<"$1"
    shift
    tm_mpirun 2 "$@" "$program" "${arguments[@]}" || rc=$?
    forbid 'Signal: |Segmentation|Assertion|out of dynamic memory|errors=[1-9]'
    if ((rc == 0)); then
        require 'starved: errors=0'
    else
        require 'could not allocate memory'
    fi
    echo "${arguments[*]}, $*: exit status $rc"
}

program=$(tm_mpi_program starved)
for kib in -1 0 200 1000 4000; do
    starved "$kib"
    starved "$kib" --mca pml_tm_providers tcp
done
starved '0 window' --mca osc rdma --mca btl fabric
for kib in 0 1000; do
    starved "$kib window" --mca osc rdma --mca btl fabric --mca pml_tm_providers tcp
done
