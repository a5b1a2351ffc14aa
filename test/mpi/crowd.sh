#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 quick=no
#
# More ranks than processors: those who wait find out by themselves, yield, and sleep when it takes
# long (crowd.c); and what half of a ring takes is streamed.  All ranks, and mpirun, which they take
# the number of processors from, are put on one processor.  Before that, where each
# rank has a processor of its own and a script starts it, they poll, and do not yield, with
# MPI_THREAD_MULTIPLE neither while one thread of each communicates.
. "$TM_SRC/test/lib/script.sh"
program=$(tm_mpi_program crowd)
cpu=$(sed -nE 's/^Cpus_allowed_list:\s*([0-9]+).*/\1/p' /proc/self/status)

# on RANKS OPTION...: the program there.
on()
{
    local ranks=$1
    shift
    tm_mpirun "$ranks" --mca pml_tm_verbose 10 "$@" || fail "exit status $?: $*"
    require 'crowd: errors=0'
}

if (($(nproc) > 1)); then
    TM_BIND_TO=core on 2 bash -c '"$@"; exit' script "$program"
    require 'waiting        spins: 2 processes, '
    TM_BIND_TO=core on 2 env OMPI_MCA_mpi_yield_when_idle=0 "$program" threads '!pml_tm_wait_yields'
fi
taskset -p -c "$cpu" $$ >/dev/null || skip 'taskset does not work here'
on 6 "$program" pml_tm_wait_yields pml_tm_wait_sleeps pml_tm_streamed
require 'waiting        yields, then sleeps: 6 processes, '
on 4 --mca pml_tm_wait yield --mca pml_tm_stream_limit 0 "$program" \
    pml_tm_wait_yields '!pml_tm_streamed'
require 'waiting        yields, by pml_tm_wait'
on 2 --mca pml_tm_providers tcp "$program" pml_tm_wait_sleeps pml_tm_wait_wakes
on 1 --mca pml_tm_wait spin "$program"
require 'waiting        spins, by pml_tm_wait'
