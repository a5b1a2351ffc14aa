#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 quick=no short=turns
#
# pml_monitoring on top of the PML: it counts right, and everything below it works as without.
. "$TM_SRC/test/lib/script.sh"

# It has to be among the components that are opened. The programs do not take such a list for pml tm
# by themselves.
if [[ $TM_TEST_PML == tm ]]; then
    export TM_STRICT=1
fi
TM_TEST_PML+=,monitoring

# clean NP ARGUMENT...: run it with monitoring; nothing may be said on standard error.
clean()
{
    local np=$1
    shift
    tm_mpirun "$np" --mca pml_monitoring_enable 2 "$@" || fail "exit status $?: $*"
    require_quiet
    [[ ! -s $TM_WORK/err ]] || fail "unexpected on standard error: $*"
    require 'errors=0'
}

# counted NP MPIRUN-OPTION...: what the program says that it sent is what pml_monitoring writes at
# the end.
counted()
{
    local np=$1 rank
    shift
    rm -f sent.* expected.*
    clean "$np" --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename "$TM_WORK/sent" \
        "$@" "$program" "$TM_WORK/expected"
    sort expected.* >expected
    for ((rank = 0; rank < np; rank++)); do
        grep '^E' "sent.$rank.prof" | cut -f 1-5
    done | sort >counted
    diff expected counted ||
        fail "what was sent (<) is not what pml_monitoring counted (>), with $np ranks and: $*"
}

program=$(tm_mpi_program monitoring)
for np in 1 2 4; do
    counted "$np"
done
for limit in 0 1024; do
    counted 2 --mca pml_tm_eager_limit "$limit"
done

# What needs the requests as they are: states, statuses, probes, cancelling, collectives.
for name in 'basic 70000' 'persistent 70000' waits 'probe 70000' 'cancel 50' 'collectives 3000' \
    'basic cut 20000'; do
    read -ra words <<<"$name"
    clean 2 "$(tm_mpi_program "${words[0]}")" "${words[@]:1}"
done
clean 4 "$(tm_mpi_program waits)"
