#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=no
#
# The page that MPI_Finalize prints for the job (pml_tm_report): each of its advices where it is
# due, and where it is not (report.c). All ranks are in it, however many.
. "$TM_SRC/test/lib/script.sh"
report=$(tm_mpi_program report)
nocma=$(tm_mpi_program nocma)

# page NP [OPTION...] PROGRAM [ARGUMENT...]
page()
{
    local np=$1
    shift
    tm_mpirun "$np" --mca pml_tm_report 1 "$@" || fail "exit status $?: $*"
    require 'report: errors=0'
    require "pml tm: $np ranks, "
    forbid 'did not send their numbers'
}

nothing='To do          nothing that pml tm can see'
for by in shm tcp; do
    page 2 --mca pml_tm_providers "$by,self" "$report" expected
    require "$nothing"
    require "  by $by "
    page 2 --mca pml_tm_providers "$by,self" "$report" unexpected
    require 'more than a fifth of the messages came before their receive'
    forbid 'held back|found no room'
done
page 2 --mca pml_tm_unexpected_max 65536 "$report" held
require 'senders were held back'
page 2 "$report" queued
require 'more than one send in twenty found no room'
forbid 'held back|more than a fifth'

page 2 "$report" large
require "$nothing"
require '33 % announced'
if "$nocma" true; then
    page 2 --mca pml_tm_stream_limit 65536 "$nocma" "$report" large
    require "the kernel does not let ranks of a host read each other's memory"
fi

for np in 1 3 7; do
    page "$np" "$report" expected
done

# Without the parameter there is none.
tm_mpirun 2 "$report" expected || fail "exit status $?"
require_quiet
forbid 'pml tm:'
