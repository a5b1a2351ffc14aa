#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: ompi=5.0 timeout=300 device=tmdev
#
# Fault tolerance as in ft.sh, with receives on the list of a device that matches tags. What comes after "errors=0" is not judged: with
# a process killed, the runtime's fence in MPI_Finalize does not end now and then.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

ft=$(tm_mpi_program ft)

# check NP NAME=VALUE WHAT...
check()
{
    local np=$1 setting=$2 what
    shift 2
    for what in "$@"; do
        echo "== $what, $np ranks, $setting"
        TMDEV_FABRIC=$$.$RANDOM timeout -k 5 25 env "$setting" mpirun -np "$np" --bind-to none --with-ft ulfm \
            --mca pml "$TM_TEST_PML" "$ft" "$what" >out 2>err </dev/null || echo "mpirun: exit status $?"
        cat out err
        require 'ft: errors=0' out
        forbid 'Segmentation|Signal: |lost a process|tmdev: ' err
    done
}

# fetch is left out: a live process is taken for dead then (doc/offload.md, Open)
check 4 TMDEV_TM_TAGS=1024 recv any probe rndv ssend coll revoke
check 3 TMDEV_TM_TAGS=4 recv any rndv coll revoke
check 3 TMDEV_MTU=256 recv coll
