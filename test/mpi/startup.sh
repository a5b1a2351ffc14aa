#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 quick=no
#
# How jobs begin and end: without mpirun, at once, by MPI_Abort, without MPI_Finalize, with
# processes that selected different PMLs; and when pml tm is selected without being named.
. "$TM_SRC/test/lib/script.sh"

startup=$(tm_mpi_program startup)

# status WANTED NP MPIRUN-ARGUMENT...
status()
{
    local wanted=$1 rc=0
    shift
    echo "== np $*"
    tm_mpirun "$@" || rc=$?
    ((rc == wanted)) || fail "exit status $rc, expected $wanted: np $*"
    forbid 'Segmentation|Signal: '
}

echo "== singleton"
for what in hello now; do
    rc=0
    if [[ $TM_TEST_PML == none ]]; then
        "$startup" "$what" >out 2>err </dev/null || rc=$?
    else
        OMPI_MCA_pml=$TM_TEST_PML "$startup" "$what" >out 2>err </dev/null || rc=$?
    fi
    cat out err
    ((rc == 0)) || fail "singleton: exit status $rc"
    [[ $what == now ]] || require 'startup: errors=0' out
    [[ ! -s err ]] || fail "singleton: something on standard error"
done

for np in 1 2 8; do
    status 0 "$np" "$startup" now
    require_quiet
    [[ ! -s err ]] || fail "np $np: something on standard error"
done

status 7 1 "$startup" abort 7
status 7 2 "$startup" abort 7
status 7 4 "$startup" abort 7
status 5 2 "$startup" exit 5

# run_mixed: the job of mixed(). Sets rc.
run_mixed()
{
    rc=0
    timeout -k 5 20 mpirun -np 2 --bind-to none "$PWD/mixed" >out 2>err </dev/null || rc=$?
    cat out err
}

# mixed FIRST SECOND: one process selects another PML. "--mca pml" would hold for the whole job.
mixed()
{
    local rc
    echo "== rank 0 selects $1, rank 1 $2"
    tm_by_rank mixed "env OMPI_MCA_pml=$1 $startup hello" "env OMPI_MCA_pml=$2 $startup hello"
    run_mixed
    if tm_mpirun_crashed err; then
        echo "run again: Open MPI's orte_finalize() crashed"
        run_mixed
    elif ((rc == 137)); then
        # It would end the ranks, and itself, if it could.
        echo "run again: mpirun hangs, and does not end at SIGTERM"
        run_mixed
    fi
    ((rc != 124 && rc != 137)) || fail "rank 0 $1, rank 1 $2: hangs"
    ((rc != 0)) || fail "rank 0 $1, rank 1 $2: exit status 0"
    forbid 'Segmentation|Signal: |errors='
    grep -qE "selected pml $2, but peer .* selected pml $1|All processes that communicate must select" err ||
        fail "rank 0 $1, rank 1 $2: the reason is not told"
}

mixed ob1 tm
mixed tm ob1

# Not named: by priority. The table is printed by the one that is selected.
TM_TEST_PML=none
status 0 2 --mca pml_tm_verbose 10 --mca pml_base_verbose 10 "$startup" hello
forbid 'pml tm: process'
forbid 'component tm selected'
require 'component ob1 selected'
status 0 2 --mca pml_tm_verbose 10 --mca pml_base_verbose 10 --mca pml_tm_priority 90 \
    "$startup" hello
require 'pml tm: process'
require 'component tm selected'
require 'startup: errors=0'
