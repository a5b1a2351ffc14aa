#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: ompi=5.0 timeout=300
#
# Fault tolerance (mpirun --with-ft ulfm): a rank is killed while the others wait for it in every way; the survivors hear of it,
# revoke, shrink, agree and go on.
. "$TM_SRC/test/lib/script.sh"

ft=$(tm_mpi_program ft)

# check NP COPY WHAT...
check()
{
    local np=$1 copy=$2 what
    shift 2
    for what in "$@"; do
        echo "== $what, $np ranks, single copy: $copy"
        timeout -k 5 60 mpirun -np "$np" --bind-to none --with-ft ulfm --mca pml "$TM_TEST_PML" --mca mpi_yield_when_idle 1 \
            --mca pml_tm_shm_single_copy "$copy" "$ft" "$what" >out 2>err </dev/null || echo "mpirun: exit status $?"
        cat out err
        require 'ft: errors=0' out
        forbid 'Segmentation|Signal: |lost a process' err
    done
}

check 4 auto recv any probe rndv fetch ssend coll revoke
check 2 none recv rndv fetch coll
