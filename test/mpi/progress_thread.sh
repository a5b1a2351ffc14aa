#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 short=turns
#
# pml_tm_progress_thread: messages arrive and leave while their process computes, without an MPI
# call. Everything else works as without the thread.
. "$TM_SRC/test/lib/script.sh"

export OMPI_MCA_pml_tm_progress_thread=1 OMPI_MCA_mpi_yield_when_idle=1

# over NP [NAME=VALUE...] PROGRAM [ARGUMENT...]: the program must succeed, in silence.
over()
{
    local np=$1 environment=() name
    shift
    while [[ $1 == *=* ]]; do
        environment+=("$1")
        shift
    done
    name=$1
    shift
    echo "== $np ranks, ${environment[*]} $name $*"
    (
        ((${#environment[@]} == 0)) || export "${environment[@]}"
        tm_mpirun "$np" "$(tm_mpi_program "$name")" "$@"
    ) || fail "$name"
    require "$name: errors=0"
    require_quiet
}

tcp=OMPI_MCA_pml_tm_providers=tcp
over 2 overlap
over 2 OMPI_MCA_pml_tm_shm_single_copy=none overlap
over 2 OMPI_MCA_pml_tm_shm_single_copy=none overlap 1048576 sender
over 2 "$tcp" overlap
over 2 "$tcp" overlap 1048576 sender
over 2 "$tcp" counters thread_events
over 2 hello
over 4 "$tcp" collectives 3000
over 3 random "$(tm_seed 81)" "$(tm_seconds 3)"
over 3 "$tcp" random "$(tm_seed 82)" "$(tm_seconds 3)"
over 2 "$tcp" random "$(tm_seed 83)" "$(tm_seconds 2)" threads=2
over 2 onesided 5 safe
over 2 OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric onesided 5
over 2 fork
over 2 dynamic
[[ $TM_OMPI_SERIES == 4.1 ]] || over 2 sessions
